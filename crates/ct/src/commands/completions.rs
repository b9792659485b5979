//! `ct completions`: the completion script of a shell.

use clap::Args;

use crate::cli;
use crate::error::CliError;
use crate::output::Printer;

const EXAMPLES: &str = "\
Examples:
  ct completions bash > ~/.local/share/bash-completion/completions/ct
  ct completions zsh > ~/.zfunc/_ct
  ct completions fish > ~/.config/fish/completions/ct.fish";

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: clap_complete::Shell,
}

/// Prints the script.
pub(crate) fn completions(arguments: &CompletionsArgs, printer: &Printer) -> Result<(), CliError> {
    let script = cli::completion_script(arguments.shell);
    printer.data(&String::from_utf8_lossy(&script))
}
