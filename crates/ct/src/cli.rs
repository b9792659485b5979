//! The command line: the options every command knows, and the way from arguments to an exit code.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, ColorChoice as ClapColor, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    self, Context, completions, dataset, envs, login, logout, policies, run, runs, serve, status, store,
    tokens, users,
};
use crate::config::{Config, Origin, Place, PlaceFlags};
use crate::env;
use crate::error::{self, CliError};
use crate::output::{ColorChoice, Printer};

/// Manage the runs of AI-agent evaluations: make them of eval logs, list, inspect, sample and download them.
#[derive(Debug, Parser)]
#[command(name = "ct", version = env!("CT_VERSION"), disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// The data folder [default: $CONTROL_TOWER_DATA_DIR, else the platform's]
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
    /// Work with the runs in the data folder, whatever server is set
    #[arg(long, global = true, conflicts_with = "server")]
    local: bool,
    /// Work with the runs of this server [default: $CONTROL_TOWER_API_BASE_URL, else the last login's]
    #[arg(long, value_name = "URL", global = true)]
    server: Option<String>,
    /// Say nothing but results, warnings and errors; ask nothing
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Say more about what is done
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// When to use colour: auto, always or never
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        global = true
    )]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make, list, inspect, sample, download and edit runs
    #[command(subcommand, after_help = runs::EXAMPLES)]
    Runs(Box<runs::RunsCommand>),
    /// Run agents in sandboxed environments
    #[command(subcommand, after_help = run::EXAMPLES)]
    Run(run::RunCommand),
    /// What decides what an agent does
    #[command(subcommand, after_help = policies::EXAMPLES)]
    Policies(policies::PoliciesCommand),
    /// Name lists of trajectories or runs, in versions that never change
    #[command(subcommand, after_help = dataset::EXAMPLES)]
    Dataset(dataset::DatasetCommand),
    /// List, show and check the environments that agents run in
    #[command(subcommand, after_help = envs::EXAMPLES)]
    Envs(envs::EnvsCommand),
    /// Check and clean the store
    #[command(subcommand, after_help = store::EXAMPLES)]
    Store(store::StoreCommand),
    Serve(serve::ServeArgs),
    /// Add, list, change and disable the accounts of a server
    #[command(subcommand, after_help = users::EXAMPLES)]
    Users(users::UsersCommand),
    /// List, create and revoke the tokens of a server
    #[command(subcommand, after_help = tokens::EXAMPLES)]
    Tokens(tokens::TokensCommand),
    Login(login::LoginArgs),
    Logout(logout::LogoutArgs),
    Status(status::StatusArgs),
    Completions(completions::CompletionsArgs),
}

/// Examples under `ct --help`.
const EXAMPLES: &str = "\
Examples:
  ct runs make logs/my-eval.eval         Make a run of an eval log
  ct runs list --tag baseline            List the runs that carry a tag
  ct runs info 3fa94c1b                  Show everything about a run
  ct runs sample 3fa94c1b 10 10 _        Draw two parts of ten; the rest is a third";

/// The whole command line, for parsing, for completions and for the reference.
pub(crate) fn command() -> clap::Command {
    Cli::command().after_help(format!(
        "{EXAMPLES}\n\n{}\n\nResults go to standard output, everything else to standard error.",
        error::exit_codes_help()
    ))
}

/// Runs the program and gives its exit code.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let json = wants_json(&arguments);
    let color = if has_option(&arguments, "--color", "never") { ClapColor::Never } else { ClapColor::Auto };
    let parsed =
        command().color(color).try_get_matches_from(&arguments).and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return report_usage(&error, json),
    };
    let printer = Printer::new(cli.global.quiet, cli.global.verbose, cli.global.color, json);
    match execute(cli, &printer) {
        Ok(()) => 0,
        Err(error) => {
            printer.error(&error);
            error.kind().exit_code()
        }
    }
}

fn execute(cli: Cli, printer: &Printer) -> Result<(), CliError> {
    if let Command::Completions(arguments) = cli.command {
        return completions::completions(&arguments, printer);
    }
    let flags = PlaceFlags { local: cli.global.local, server: cli.global.server.as_deref() };
    let config = Config::resolve(cli.global.data_dir.as_deref(), flags)?;
    printer.detail(&format!("data folder: {} ({})", config.data_dir.display(), config.data_dir_origin));
    if let (Some(origin), Command::Run(_) | Command::Runs(_) | Command::Dataset(_)) =
        (&config.token_without_server, &cli.command)
        && config.place == Place::Local
        && config.place_origin == Origin::Default
    {
        printer.warning(&format!(
            "a token is given ({origin}), but no server: the data folder is used; set {} to use a server",
            env::BASE_URL.name
        ));
    }
    let context = Context { printer: printer.clone(), config };
    match cli.command {
        Command::Runs(command) => commands::runs::run(*command, &context),
        Command::Run(command) => run::run(command, &context),
        Command::Policies(command) => policies::run(command, &context),
        Command::Dataset(command) => commands::dataset::run(command, &context),
        Command::Envs(command) => envs::run(command, &context),
        Command::Store(command) => commands::store::run(command, &context),
        Command::Serve(arguments) => serve::serve(arguments, &context),
        Command::Users(command) => users::run(command, &context),
        Command::Tokens(command) => tokens::run(command, &context),
        Command::Login(arguments) => login::login(&arguments, &context),
        Command::Logout(arguments) => logout::logout(&arguments, &context),
        Command::Status(arguments) => status::status(&arguments, &context),
        Command::Completions(_) => Ok(()),
    }
}

/// Prints what the parser has to say: help and version to standard output, mistakes to standard error.
fn report_usage(error: &clap::Error, json: bool) -> u8 {
    let mistake = error.use_stderr();
    let help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if mistake && json && !help {
        let text = error.to_string();
        let sentence = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error:").trim();
        let error = CliError::usage(sentence).hint("try --help");
        Printer::new(true, false, ColorChoice::Never, true).error(&error);
    } else {
        // A closed pipe is no error, and nothing can be done about other trouble while printing help.
        let _ = error.print();
    }
    if mistake { error::Kind::Usage.exit_code() } else { 0 }
}

/// Whether messages should be JSON: decided before parsing, so that mistakes in the command line are JSON as well.
fn wants_json(arguments: &[OsString]) -> bool {
    has_option(arguments, "--format", "json") || has_option(arguments, "--format", "ndjson")
}

fn has_option(arguments: &[OsString], name: &str, value: &str) -> bool {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let arguments = &arguments[..end];
    let joined = format!("{name}={value}");
    arguments.windows(2).any(|pair| pair[0] == name && pair[1] == value)
        || arguments.iter().any(|argument| argument == joined.as_str())
}

/// Writes a completion script.
pub(crate) fn completion_script(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "ct", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn json_is_seen_before_parsing() {
        let arguments = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&arguments("ct runs list --format json")));
        assert!(wants_json(&arguments("ct runs list --format=ndjson --nonsense")));
        assert!(!wants_json(&arguments("ct runs list --format table")));
        assert!(!wants_json(&arguments("ct runs make -- --format json")));
    }
}
