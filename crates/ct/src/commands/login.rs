//! `ct login`.

use std::io::Read as _;

use clap::Args;
use ct_client::{BaseUrl, Client, Token};
use ct_model::Login;

use super::Context;
use crate::config::{Origin, Place};
use crate::error::{CliError, Kind};
use crate::output::Printer;

/// The label of a token when none is given: what existing clients use.
const DESCRIPTION: &str = "created via cli";
/// A token or a password longer than this is neither.
const INPUT_BYTES_MAX: u64 = 64 << 10;

const EXAMPLES: &str = "\
Examples:
  ct login --url https://viewer.example              Asks for name and password
  ct login --url viewer.example --token-stdin < token.txt
  ct login --url viewer.example --username ana --password-stdin < password.txt
  ct login --url viewer.example --description laptop

The token is kept in ~/.cache/control-tower/auth, where other clients find it too. Logins to several \
servers stand side by side; the last one is home. Without a terminal, nothing is asked.";

/// Sign in to a server, and make it home.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoginArgs {
    /// The server's address [default: that of --server, of the environment, or of the last login]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The name of the account
    #[arg(long, short, value_name = "NAME")]
    username: Option<String>,
    /// How the new token is labelled in lists of tokens
    #[arg(long, value_name = "TEXT", default_value = DESCRIPTION)]
    description: String,
    /// Take a token that is there already from standard input, and ask for none
    #[arg(long, conflicts_with_all = ["username", "password_stdin"])]
    token_stdin: bool,
    /// Take the password from standard input
    #[arg(long, requires = "username")]
    password_stdin: bool,
}

/// Signs in.
pub(crate) fn login(arguments: &LoginArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let base = match (&arguments.url, &context.config.place) {
        (Some(url), _) => BaseUrl::parse(url)?,
        (None, Place::Server(base)) => base.clone(),
        (None, Place::Local) if printer.can_ask() => {
            let answer = printer.ask("Address of the server:")?.unwrap_or_default();
            BaseUrl::parse(&answer)?
        }
        (None, Place::Local) => {
            return Err(CliError::usage("no server given").hint("give its address: ct login --url URL"));
        }
    };
    if base.is_plain() {
        printer.warning(&format!("{base} is not encrypted: passwords and tokens can be read on the way"));
    }
    let token = if arguments.token_stdin {
        let text = stdin("token")?;
        Token::new(text).ok_or_else(|| CliError::usage("there is no token on standard input"))?
    } else {
        sign_in(arguments, &base, printer)?
    };
    // Told now, rather than by the first command.
    let client = Client::new(base.clone(), Some(token.clone()))?;
    let who = client.whoami()?;
    if who.is_none() && arguments.token_stdin {
        // A server that cannot tell whose token it is can at least say that it is none.
        client.check_token()?;
    }
    let path = context.config.logins.clone().save(&base, &token)?;
    let name = who.map(|who| who.username).or_else(|| arguments.username.clone());
    printer.note(&match name {
        Some(name) => format!("signed in to {base} as {name}; the token is kept in {}", path.display()),
        None => format!("signed in to {base}; the token is kept in {}", path.display()),
    });
    let origin = &context.config.place_origin;
    let named = matches!(origin, Origin::Environment(_) | Origin::Dotenv(_));
    if named && context.config.place != Place::Server(base) {
        printer.warning(&format!("home stays another server, whose address is {origin}"));
    }
    Ok(())
}

fn sign_in(arguments: &LoginArgs, base: &BaseUrl, printer: &Printer) -> Result<Token, CliError> {
    let missing = |what: &str| {
        CliError::usage(format!("no {what} given, and no terminal to ask on"))
            .hint("ct login --url URL --username NAME --password-stdin < password.txt")
            .hint("ct login --url URL --token-stdin < token.txt")
    };
    let username = match &arguments.username {
        Some(username) => username.clone(),
        None if printer.can_ask() => {
            printer.ask("Name:")?.filter(|name| !name.is_empty()).ok_or_else(|| missing("name"))?
        }
        None => return Err(missing("name")),
    };
    let password = if arguments.password_stdin {
        stdin("password")?
    } else if printer.can_ask() {
        rpassword::prompt_password(format!("Password for {username} at {base}: "))
            .map_err(|error| CliError::new(Kind::Io, "failed to read the password").because(&error))?
    } else {
        return Err(missing("password"));
    };
    let login =
        Login { username: username.clone(), password, description: Some(arguments.description.clone()) };
    Client::login(base, &login).map_err(|error| match error {
        ct_client::ClientError::Unauthorized { server, message } => {
            CliError::new(Kind::Auth, format!("{server} does not sign {username} in: {message}"))
        }
        other => other.into(),
    })
}

/// All of standard input but the line break at its end.
fn stdin(what: &str) -> Result<String, CliError> {
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(INPUT_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| CliError::new(Kind::Io, format!("failed to read the {what}")).because(&error))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(CliError::usage(format!("there is no {what} on standard input")));
    }
    Ok(text.to_owned())
}
