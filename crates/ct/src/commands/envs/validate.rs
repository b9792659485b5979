//! `ct envs validate`.

use clap::Args;
use ct_environment::{Check, CheckResult, Environment, HostOptions, SandboxHost, SandboxKind};
use serde_json::{Value, json};

use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Align, Format, Printer, Table};

const EXAMPLES: &str = "\
Examples:
  ct envs validate ./environments/my_world
  ct envs validate ./environments/my_world --run
  ct envs validate --run --sandbox container --image python:3.12-slim
  ct envs validate --format json

Without --run the files are checked. With it, each task is played twice in a sandbox: its reference solution must score 1,
and an agent that does nothing must score less.";

/// Check environments: their files, and with --run their scorers
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ValidateArgs {
    /// Names, or folders (paths that begin with . or /); all that are found when none is given
    #[arg(value_name = "ENVIRONMENT")]
    environments: Vec<String>,
    /// Play the reference solutions, and an idle agent
    #[arg(long)]
    run: bool,
    /// The sandbox: auto, container or local
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        requires = "run"
    )]
    sandbox: Kind,
    /// The image of containers, for environments without a Dockerfile
    #[arg(long, value_name = "IMAGE", requires = "run")]
    image: Option<String>,
    /// How to print the results: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Which sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Kind {
    #[default]
    Auto,
    Container,
    Local,
}

/// What is known of one environment.
struct Validated {
    name: String,
    problems: Vec<String>,
    warnings: Vec<String>,
    sandbox: Option<String>,
    results: Vec<CheckResult>,
}

impl Validated {
    fn passed(&self) -> bool {
        self.problems.is_empty() && self.results.iter().all(|result| result.passed)
    }
}

/// Checks the environments.
pub(super) fn validate(arguments: &ValidateArgs, context: &Context) -> Result<(), CliError> {
    let catalog = context.catalog()?;
    let mut found: Vec<(Validated, Option<Environment>)> = Vec::new();
    if arguments.environments.is_empty() {
        for listing in catalog.list().into_iter().filter(|listing| listing.hidden_by.is_none()) {
            let (problems, environment) = match listing.environment {
                Ok(environment) => (Vec::new(), Some(environment)),
                Err(problems) => (problems.iter().map(ToString::to_string).collect(), None),
            };
            found.push((validated(listing.name, problems, environment.as_ref()), environment));
        }
    }
    for name in &arguments.environments {
        match catalog.find(name) {
            Ok(environment) => {
                found.push((
                    validated(environment.long_name(), Vec::new(), Some(&environment)),
                    Some(environment),
                ));
            }
            Err(ct_environment::EnvironmentError::Invalid { name, problems }) => {
                let problems = problems.iter().map(ToString::to_string).collect();
                found.push((validated(name, problems, None), None));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let printer = &context.printer;
    let mut all = Vec::new();
    for (mut validated, environment) in found {
        if let (true, Some(environment)) = (arguments.run, environment) {
            play(&mut validated, &environment, arguments, printer)?;
        }
        all.push(validated);
    }
    print(&all, arguments.format, printer)?;
    let failed = all.iter().filter(|validated| !validated.passed()).count();
    if failed == 0 {
        return Ok(());
    }
    let message =
        format!("not right: {failed} of {}", output::plural(all.len() as u64, "environment", "environments"));
    Err(if failed == all.len() { CliError::data(message) } else { CliError::partial(message) })
}

fn validated(name: String, problems: Vec<String>, environment: Option<&Environment>) -> Validated {
    let warnings = environment.map(|environment| environment.warnings.clone()).unwrap_or_default();
    Validated { name, problems, warnings, sandbox: None, results: Vec::new() }
}

fn play(
    validated: &mut Validated,
    environment: &Environment,
    arguments: &ValidateArgs,
    printer: &Printer,
) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::data(format!("cannot start threads: {error}")))?;
    let options = HostOptions {
        kind: match arguments.sandbox {
            Kind::Auto => None,
            Kind::Container => Some(SandboxKind::Container),
            Kind::Local => Some(SandboxKind::Local),
        },
        image: arguments.image.clone(),
        ..HostOptions::default()
    };
    runtime.block_on(async {
        let host = match SandboxHost::open(environment, &options).await {
            Ok(host) => host,
            Err(error) => {
                validated.problems.push(error.to_string());
                return;
            }
        };
        printer.note(&format!("{}: {}", environment.long_name(), host.describe()));
        validated.sandbox = Some(host.describe());
        validated.results = ct_environment::validate(&host, |result| {
            let verdict = if result.passed { "as it must be" } else { "NOT as it must be" };
            printer.detail(&format!("{} {}: {verdict}", result.task, check_name(result.check)));
        })
        .await;
    });
    Ok(())
}

fn check_name(check: Check) -> &'static str {
    match check {
        Check::Solution => "solution",
        Check::Idle => "idle",
    }
}

fn print(all: &[Validated], format: Format, printer: &Printer) -> Result<(), CliError> {
    if format == Format::Json {
        let items: Vec<Value> = all
            .iter()
            .map(|validated| {
                json!({
                    "name": validated.name,
                    "passed": validated.passed(),
                    "problems": validated.problems,
                    "warnings": validated.warnings,
                    "sandbox": validated.sandbox,
                    "checks": validated.results,
                })
            })
            .collect();
        return printer.data(&output::pretty(&json!({"schema_version": 1, "items": items}))?);
    }
    let columns = [
        ("ENVIRONMENT", Align::Whole),
        ("TASK", Align::Whole),
        ("CHECK", Align::Whole),
        ("SCORE", Align::Right),
        ("RESULT", Align::Whole),
    ];
    let mut table = Table::new(printer, &columns);
    for validated in all {
        let files = if validated.problems.is_empty() { "right" } else { "not right" };
        table.row([&*validated.name, "-", "files", "-", files]);
        for result in &validated.results {
            let value = result.outcome.as_ref().and_then(ct_environment::ScoreOutcome::value);
            let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
            let verdict = if result.passed { "right" } else { "not right" };
            table.row([&*validated.name, &result.task, check_name(result.check), &value, verdict]);
        }
    }
    printer.data(&table.finish())?;
    for validated in all {
        for warning in &validated.warnings {
            printer.warning(&format!("{}: {warning}", validated.name));
        }
        let failed = validated.results.iter().filter_map(|result| {
            Some(format!("{} ({}): {}", result.task, check_name(result.check), result.problem.as_ref()?))
        });
        for problem in validated.problems.iter().cloned().chain(failed) {
            printer.warning(&problem);
        }
    }
    Ok(())
}
