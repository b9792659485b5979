//! `ct login`.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use clap::Args;
use ct_client::{BaseUrl, Client, Token};
use ct_model::Login;

use super::Context;
use crate::config::{Origin, Place as Home};
use crate::error::{CliError, Kind};
use crate::output::Printer;

/// The label of a token when none is given: what existing clients use.
const DESCRIPTION: &str = "created via cli";
/// A token or a password longer than this is neither.
const INPUT_BYTES_MAX: u64 = 64 << 10;
/// How long something may take to come on standard input that was not named.
const PATIENCE: Duration = Duration::from_secs(5);
/// And on one that was: a program may ask for a passphrase there first.
const PATIENCE_NAMED: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  ct login --url https://viewer.example              Asks for name and password
  ct login --url viewer.example --token-file token.txt
  ct login --url viewer.example --username ana --password-file password.txt
  pass show viewer | ct login --url viewer.example --username ana --password-stdin
  ct login --url viewer.example --description laptop

The token is kept in ~/.cache/control-tower/auth, where other clients find it too. Logins to several \
servers stand side by side; the last one is home. Without a terminal nothing is asked: the password of --username, or \
without a name a token, is then read from standard input, and when nothing comes there for 5 seconds that is an error \
(60 with --password-stdin and --token-stdin).";

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
    #[arg(long, group = "secret", conflicts_with = "username")]
    token_stdin: bool,
    /// Take a token that is there already from a file
    #[arg(long, value_name = "FILE", group = "secret", conflicts_with = "username")]
    token_file: Option<PathBuf>,
    /// Take the password from standard input
    #[arg(long, group = "secret", requires = "username")]
    password_stdin: bool,
    /// Take the password from a file
    #[arg(long, value_name = "FILE", group = "secret", requires = "username")]
    password_file: Option<PathBuf>,
}

/// Where a secret is read from.
enum Place<'a> {
    Stdin { patience: Duration },
    File(&'a Path),
}

impl LoginArgs {
    fn token_place(&self) -> Option<Place<'_>> {
        let file = self.token_file.as_deref().map(Place::File);
        file.or_else(|| self.token_stdin.then_some(Place::Stdin { patience: PATIENCE_NAMED }))
    }

    fn password_place(&self) -> Option<Place<'_>> {
        let file = self.password_file.as_deref().map(Place::File);
        file.or_else(|| self.password_stdin.then_some(Place::Stdin { patience: PATIENCE_NAMED }))
    }
}

/// Standard input that nobody named, when it is no terminal.
fn unnamed_stdin() -> Option<Place<'static>> {
    (!io::stdin().is_terminal()).then_some(Place::Stdin { patience: PATIENCE })
}

/// Signs in.
pub(crate) fn login(arguments: &LoginArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let base = match (&arguments.url, &context.config.place) {
        (Some(url), _) => BaseUrl::parse(url)?,
        (None, Home::Server(base)) => base.clone(),
        (None, Home::Local) if printer.can_ask() => {
            let answer = printer.ask("Address of the server:")?.unwrap_or_default();
            BaseUrl::parse(&answer)?
        }
        (None, Home::Local) => {
            return Err(CliError::usage("no server given").hint("give its address: ct login --url URL"));
        }
    };
    if base.is_plain() {
        printer.warning(&format!("{base} is not encrypted: passwords and tokens can be read on the way"));
    }
    let mut place = arguments.token_place();
    if place.is_none() && arguments.username.is_none() && !printer.can_ask() {
        place = unnamed_stdin();
    }
    let given = place.is_some();
    let token = match place {
        Some(place) => {
            let text = read("token", &place)?;
            Token::new(text).ok_or_else(|| CliError::usage("what was given is no token"))?
        }
        None => sign_in(arguments, &base, printer)?,
    };
    // Told now, rather than by the first command.
    let client = Client::new(base.clone(), Some(token.clone()))?;
    let who = client.whoami()?;
    if who.is_none() && given {
        // A server that cannot tell whose token it is can at least say that it is none.
        client.check_token()?;
    }
    let path = context.config.logins.clone().save(&base, &token, !given)?;
    let name = who.map(|who| who.username).or_else(|| arguments.username.clone());
    printer.note(&match name {
        Some(name) => format!("signed in to {base} as {name}; the token is kept in {}", path.display()),
        None => format!("signed in to {base}; the token is kept in {}", path.display()),
    });
    let origin = &context.config.place_origin;
    let named = matches!(origin, Origin::Environment(_) | Origin::Dotenv(_));
    if named && context.config.place != Home::Server(base) {
        printer.warning(&format!("home stays another server, whose address is {origin}"));
    }
    Ok(())
}

fn sign_in(arguments: &LoginArgs, base: &BaseUrl, printer: &Printer) -> Result<Token, CliError> {
    let missing = |what: &str| {
        CliError::usage(format!("no {what} given, and no terminal to ask on"))
            .hint("ct login --url URL --username NAME --password-file password.txt")
            .hint("ct login --url URL --token-file token.txt")
    };
    let username = match &arguments.username {
        Some(username) => username.clone(),
        None if printer.can_ask() => {
            printer.ask("Name:")?.filter(|name| !name.is_empty()).ok_or_else(|| missing("name"))?
        }
        None => return Err(missing("name")),
    };
    let password = match arguments.password_place() {
        Some(place) => read("password", &place)?,
        None if printer.can_ask() => {
            rpassword::prompt_password(format!("Password for {username} at {base}: "))
                .map_err(|error| CliError::new(Kind::Io, "failed to read the password").because(&error))?
        }
        None => read("password", &unnamed_stdin().ok_or_else(|| missing("password"))?)?,
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

/// All of it but the line break at its end. A thread reads, so that nobody waits for long for what may never come; one
/// that still waits ends with the process.
fn read(what: &'static str, place: &Place<'_>) -> Result<String, CliError> {
    let (shown, patience) = match place {
        Place::Stdin { patience } => ("standard input".to_owned(), *patience),
        Place::File(path) => (path.display().to_string(), PATIENCE_NAMED),
    };
    let path = match place {
        Place::Stdin { .. } => None,
        Place::File(path) => Some(path.to_path_buf()),
    };
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = match path {
            None => io::stdin().take(INPUT_BYTES_MAX).read_to_string(&mut text),
            // Opening a pipe that nobody writes to waits, too.
            Some(path) => File::open(path).and_then(|f| f.take(INPUT_BYTES_MAX).read_to_string(&mut text)),
        };
        let _ = tell.send(read.map(|_| text));
    });
    let text = match told.recv_timeout(patience) {
        Ok(read) => read.map_err(|error| CliError::io("read", Path::new(&shown), &error))?,
        Err(_) => {
            let seconds = patience.as_secs();
            return Err(CliError::usage(format!("no {what} came on {shown} within {seconds} seconds")));
        }
    };
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(CliError::usage(format!("there is no {what} on {shown}")));
    }
    Ok(text.to_owned())
}
