//! `ct users …`: accounts, on the data folder itself.

mod add;
mod disable;
mod list;
mod passwd;
mod scope;

use std::io::{IsTerminal as _, Read as _};

use clap::{Args, Subcommand};
use serde_json::json;

use super::Context;
use crate::error::{CliError, Kind};
use crate::output::{self, Format};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ct users add ana --scope admin                  Asks for the password
  ct users add ci --scope write --password-stdin < password.txt
  ct users list
  ct users scope ana read                         No more writing, from now on
  ct users disable ana                            Neither sign-ins nor tokens

They work on the data folder, also while a server runs.";

/// Bytes of a password on standard input, at most.
const PASSWORD_INPUT_MAX: u64 = 4096;

/// Add, list, change and disable the accounts of a server. The help of each is that of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    Add(add::AddArgs),
    List(list::ListArgs),
    Passwd(passwd::PasswdArgs),
    Scope(scope::ScopeArgs),
    Disable(disable::DisableArgs),
    Enable(disable::EnableArgs),
}

/// Runs one of them.
pub(crate) fn run(command: UsersCommand, context: &Context) -> Result<(), CliError> {
    match command {
        UsersCommand::Add(arguments) => add::add(&arguments, context),
        UsersCommand::List(arguments) => list::list(&arguments, context),
        UsersCommand::Passwd(arguments) => passwd::passwd(&arguments, context),
        UsersCommand::Scope(arguments) => scope::scope(&arguments, context),
        UsersCommand::Disable(arguments) => disable::disable(&arguments, context),
        UsersCommand::Enable(arguments) => disable::enable(&arguments, context),
    }
}

/// What a user, or a token, may do.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ScopeArg {
    Read,
    Write,
    Admin,
}

impl From<ScopeArg> for ct_model::Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Read => Self::Read,
            ScopeArg::Write => Self::Write,
            ScopeArg::Admin => Self::Admin,
        }
    }
}

/// Where a password comes from. Never from an argument: other users of the machine can read those.
#[derive(Debug, Args)]
struct PasswordArgs {
    /// Read the password from standard input, its first line; else it is asked for
    #[arg(long)]
    password_stdin: bool,
}

impl PasswordArgs {
    fn read(&self) -> Result<String, CliError> {
        if !self.password_stdin {
            return ask_new_password();
        }
        let mut text = String::new();
        std::io::stdin()
            .lock()
            .take(PASSWORD_INPUT_MAX)
            .read_to_string(&mut text)
            .map_err(|error| CliError::new(Kind::Io, "failed to read the password").because(&error))?;
        let password = text.split(['\r', '\n']).next().unwrap_or_default();
        if password.is_empty() {
            return Err(CliError::usage("there is no password on standard input"));
        }
        Ok(password.to_owned())
    }
}

/// Asks for a new password twice, on a terminal.
pub(super) fn ask_new_password() -> Result<String, CliError> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(CliError::usage("no password: there is no terminal to ask on")
            .hint("give it on standard input, with --password-stdin"));
    }
    let failed = |error| CliError::new(Kind::Io, "failed to read the password").because(&error);
    let password = rpassword::prompt_password("Password: ").map_err(failed)?;
    if rpassword::prompt_password("Once more: ").map_err(failed)? != password {
        return Err(CliError::usage("the two passwords differ"));
    }
    Ok(password)
}

/// Says what was done to a user, or prints it.
fn report(
    context: &Context,
    format: Format,
    username: &str,
    changed: bool,
    said: &str,
) -> Result<(), CliError> {
    match format {
        Format::Table => {
            context.printer.note(said);
            Ok(())
        }
        Format::Json => {
            let document = json!({"schema_version": 1, "username": username, "changed": changed});
            context.printer.data(&output::pretty(&document)?)
        }
    }
}
