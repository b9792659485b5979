//! `ct status`.

use clap::Args;
use ct_client::{Client, ServerKind};
use ct_model::WhoAmI;
use serde_json::json;

use super::Context;
use crate::config::{Origin, Place};
use crate::error::CliError;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  ct status
  ct status --format json | jq -r .server.url
  ct --server https://viewer.example status          Is my token good there?";

/// Say where runs are made and read: in the data folder or on which server, why, as whom and until when.
///
/// The server is asked. When it cannot be reached or does not take the token, the exit code says so.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// How to print it: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Prints it.
pub(crate) fn status(arguments: &StatusArgs, context: &Context) -> Result<(), CliError> {
    let config = &context.config;
    let logins: Vec<String> = config.logins.all().iter().map(|login| login.base.to_string()).collect();
    if let Some(origin) = &config.token_without_server {
        context.printer.warning(&format!("a token is given ({origin}), but no server to send it to"));
    }
    let mut lines = Vec::new();
    let mut failed = None;
    let server = match &config.place {
        Place::Local => {
            lines.push(("home", "the data folder".to_owned()));
            lines.push(("why", why(&config.place_origin)));
            None
        }
        Place::Server(base) => {
            let token = config.token_for(&base.origin());
            lines.push(("home", base.to_string()));
            lines.push(("why", why(&config.place_origin)));
            let client = Client::new(base.clone(), token.as_ref().map(|(token, _)| token.clone()))?;
            let kind = client.kind().cloned();
            let who = match (&kind, &token) {
                (Ok(_), Some(_)) => client.whoami(),
                _ => Ok(None),
            };
            let (kind, who) = match (kind, who) {
                (Ok(kind), Ok(who)) => (Some(kind), who),
                (Ok(kind), Err(error)) => {
                    failed = Some(error);
                    (Some(kind), None)
                }
                (Err(error), _) => {
                    failed = Some(error);
                    (None, None)
                }
            };
            lines.push((
                "server",
                match &kind {
                    Some(ServerKind::Ct { version }) => format!("ct {version}"),
                    Some(ServerKind::Contract) => {
                        "another viewer, which knows the common part of the protocol".to_owned()
                    }
                    None => "cannot be reached".to_owned(),
                },
            ));
            lines
                .push(("token", token.as_ref().map_or_else(|| "none".to_owned(), |(_, origin)| why(origin))));
            if let Some(who) = &who {
                lines.extend(told(who));
            }
            Some(json!({
                "url": base.as_str(),
                "reachable": kind.is_some(),
                "kind": kind.as_ref().map(|kind| match kind {
                    ServerKind::Ct { .. } => "ct",
                    ServerKind::Contract => "contract",
                }),
                "version": match &kind {
                    Some(ServerKind::Ct { version }) => Some(version),
                    _ => None,
                },
                "token_from": token.as_ref().map(|(_, origin)| why(origin)),
                "username": who.as_ref().map(|who| &who.username),
                "scope": who.as_ref().map(|who| who.scope),
                "token_id": who.as_ref().map(|who| &who.token_id),
                "expires_at": who.as_ref().and_then(|who| who.expires_at),
            }))
        }
    };
    lines.push(("data folder", format!("{} ({})", config.data_dir.display(), config.data_dir_origin)));
    if !logins.is_empty() {
        lines.push(("logins", logins.join(", ")));
    }
    match arguments.format {
        Format::Json => {
            let document = json!({
                "schema_version": 1,
                "home": if server.is_some() { "server" } else { "local" },
                "why": why(&config.place_origin),
                "server": server,
                "data_dir": config.data_dir.to_string_lossy(),
                "data_dir_from": config.data_dir_origin.to_string(),
                "logins": logins,
            });
            context.printer.data(&output::pretty(&document)?)?;
        }
        Format::Table => {
            let mut text = String::new();
            for (name, value) in lines {
                text.push_str(&format!("{name:<12} {}\n", output::neutral(&value)));
            }
            context.printer.data(&text)?;
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

fn told(who: &WhoAmI) -> Vec<(&'static str, String)> {
    let mut lines = vec![("user", who.username.clone())];
    lines.push(("may", who.scope.to_string()));
    lines.push(("until", who.expires_at.map_or_else(|| "revoked".to_owned(), |time| time.to_string())));
    lines
}

fn why(origin: &Origin) -> String {
    match origin {
        Origin::Login(path) => format!("the last login, in {}", path.display()),
        Origin::Default => "no server is set and there is no login".to_owned(),
        other => other.to_string(),
    }
}
