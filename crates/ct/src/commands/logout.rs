//! `ct logout`.

use clap::Args;
use ct_client::{BaseUrl, Client, ClientError};

use super::Context;
use crate::config::Place;
use crate::error::CliError;
use crate::logins::Login;

const EXAMPLES: &str = "\
Examples:
  ct logout                                Of the server that is home
  ct logout --url https://viewer.example
  ct logout --all
  ct logout --revoke                       Also a token that was made elsewhere

A token that ct login made by name and password is revoked. One that was given to it is only forgotten: others may use it.";

/// Forget the login of a server, and revoke the token that it made where the server can.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogoutArgs {
    /// The server's address [default: the server that is home]
    #[arg(long, value_name = "URL", conflicts_with = "all")]
    url: Option<String>,
    /// Of every server
    #[arg(long)]
    all: bool,
    /// Revoke the token also when it was made elsewhere and given to ct login
    #[arg(long)]
    revoke: bool,
}

/// Signs out.
pub(crate) fn logout(arguments: &LogoutArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let mut logins = context.config.logins.clone();
    let base = match (&arguments.url, &context.config.place) {
        (Some(url), _) => Some(BaseUrl::parse(url)?),
        (None, Place::Server(base)) if !arguments.all => Some(base.clone()),
        _ => None,
    };
    let all = logins.all();
    let chosen: Vec<Login> = match &base {
        Some(base) => all.into_iter().filter(|login| login.base.origin() == base.origin()).collect(),
        None if arguments.all => all,
        None => logins
            .current()
            .into_iter()
            .flat_map(|(base, _)| {
                let origin = base.origin();
                all.iter().filter(move |login| login.base.origin() == origin).cloned().collect::<Vec<_>>()
            })
            .collect(),
    };
    if chosen.is_empty() {
        printer.note(&match base {
            Some(base) => format!("there is no login to {base}"),
            None => "there is no login".to_owned(),
        });
        return Ok(());
    }
    for login in chosen {
        // Forgotten first: that must not hang on a server that cannot be reached.
        logins.forget(&login.base.origin())?;
        if !login.made_here && !arguments.revoke {
            printer.note(&format!(
                "signed out of {}; its token was made elsewhere and stays valid (--revoke ends such a one, too)",
                login.base
            ));
            continue;
        }
        let revoked =
            Client::new(login.base.clone(), Some(login.token)).and_then(|client| client.revoke_own_token());
        match revoked {
            Ok(true) => printer.note(&format!("signed out of {}; its token is revoked", login.base)),
            // It is worthless already.
            Err(ClientError::Unauthorized { .. }) => printer.note(&format!("signed out of {}", login.base)),
            Ok(false) => {
                printer.note(&format!("signed out of {}", login.base));
                printer
                    .warning("that server knows no way to revoke a token: it stays valid until it expires");
            }
            Err(error) => {
                printer.note(&format!("signed out of {}", login.base));
                printer.warning(&format!("the token could not be revoked and stays valid: {error}"));
            }
        }
    }
    Ok(())
}
