//! `ct run eval`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ct_environment::{HostOptions, SandboxKind};
use ct_eval::model::{Model, ModelError, ModelName, ModelOptions};
use ct_eval::{About, Destination, EvalError, EvalSpec, Limits, PolicyChoice, SampleSpec};
use ct_log::write::WriteError;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::finish::{self, Upload};
use super::selection::{self, Selection, SelectionArgs};
use super::watch::Watch;
use super::{replays, resume};
use crate::commands::Context;
use crate::env;
use crate::error::{CliError, Kind};
use crate::output::Format;
use crate::pipeline;

const EXAMPLES: &str = "\
Examples:
  ct run eval --policy attack --env web_scraping --main-task crawl_depth --side-task visit_malicious_website
  ct run eval --policy honest --env web_scraping -t crawl_depth --tags \"experiment-1\" --tags \"baseline\"
  ct run eval --policy attack --env web_scraping --all --epochs 3 --max-samples 8
  ct run eval --policy scripted --env web_scraping -t crawl_depth            Without a model
  ct run eval --policy honest --env web_scraping -t crawl_depth --model mock/turns.json
  ct run eval --policy replay -p source=3fa94c1b                             A run's actions again
  ct run eval --resume logs/my-eval.eval                                     What is missing of it

The model is given with --model, CONTROL_TOWER_MODEL or INSPECT_EVAL_MODEL as provider/name, its key in \
the provider's variable, such as ANTHROPIC_API_KEY; a .env file may hold them all.";

/// Run agents in sandboxed environments, write the log, and make the run of it.
///
/// A policy works on the main tasks (and, attacking, covertly on the side tasks) of an environment; scorers judge what
/// came of it. The log is written as it goes: what is finished stays, whatever happens. Stopped with Ctrl-C it ends
/// cleanly; --resume goes on with it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    pub(super) header: HeaderArgs,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Who acts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
pub(super) struct PolicyArgs {
    /// Who acts: honest, attack, scripted or replay; see ct policies list
    #[arg(long, value_name = "POLICY", required_unless_present = "resume")]
    pub(super) policy: Option<String>,
    /// An argument of the policy; may be given several times
    #[arg(short = 'p', value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) policy_args: Vec<(String, String)>,
    /// The model behind it: provider/name [default: $CONTROL_TOWER_MODEL, else $INSPECT_EVAL_MODEL]
    #[arg(long, value_name = "MODEL")]
    pub(super) model: Option<String>,
    /// Sampling temperature [default: the provider's]
    #[arg(long, value_name = "T")]
    pub(super) temperature: Option<f64>,
    /// Tokens of one answer [default: the provider's]
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<u32>,
    /// Model calls at the same time; fewer when the provider asks for it
    #[arg(long, value_name = "N", default_value_t = 16)]
    max_connections: usize,
    /// Price the calls by this rate file: rows as the API's /api/pricing gives them
    #[arg(long, value_name = "FILE")]
    pub(super) prices: Option<PathBuf>,
}

/// What the run is to say.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub(super) struct HeaderArgs {
    /// Name of the run [default: made of policy and tasks]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new(), conflicts_with = "resume")]
    run_name: Option<String>,
    /// Add a tag; may be given several times
    #[arg(long = "tags", visible_alias = "tag", value_name = "TAG", conflicts_with = "resume")]
    tags: Vec<String>,
    /// Go on with this log: run what it lacks, and what failed in it, as it was begun
    #[arg(long, value_name = "LOG", conflicts_with_all = ["env"])]
    resume: Option<PathBuf>,
    /// Go on though an environment is not what it was
    #[arg(long, requires = "resume")]
    pub(super) allow_changed: bool,
}

/// How far it may go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Samples at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(super) max_samples: usize,
    /// End a sample after so many messages [default: 400]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    message_limit: Option<u64>,
    /// End a sample after so many tokens
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    token_limit: Option<u64>,
    /// End a sample after so many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "resume")]
    time_limit: Option<u64>,
    /// End a sample after so many US dollars
    #[arg(long, value_name = "USD", conflicts_with = "resume")]
    cost_limit: Option<f64>,
    /// End the run at the first sample that fails [default: false, or as the run was begun]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) fail_on_error: Option<bool>,
    /// How commands are confined: container or local [default: what works, containers first where needed]
    #[arg(long, value_name = "KIND", value_parser = sandbox_kind)]
    pub(super) sandbox: Option<SandboxKind>,
    /// The image of containers, for environments without a Dockerfile [default: the environment's, else one with Python]
    #[arg(long, value_name = "IMAGE")]
    pub(super) image: Option<String>,
}

impl LimitArgs {
    pub(super) fn host(&self) -> HostOptions {
        HostOptions { kind: self.sandbox, image: self.image.clone(), ..HostOptions::default() }
    }
}

/// What is to be made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Where logs are written [default: $INSPECT_LOG_DIR, else ./logs]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    log_dir: Option<PathBuf>,
    /// Only write the log: make no run of it
    #[arg(long)]
    no_upload: bool,
    /// How to print what came of it: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Messages of a conversation, unless said otherwise.
const MESSAGES_MAX: u64 = 400;

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it should be KEY=VALUE".to_owned()),
    }
}

fn sandbox_kind(text: &str) -> Result<SandboxKind, String> {
    match text {
        "container" => Ok(SandboxKind::Container),
        "local" => Ok(SandboxKind::Local),
        _ => Err("it should be container or local".to_owned()),
    }
}

/// Runs it.
pub(super) fn eval(mut arguments: EvalArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let catalog = context.catalog()?;
    let (spec, destination) = match arguments.header.resume.clone() {
        Some(log) => (resume::settings(&log, &mut arguments, &catalog, context)?, Destination::Resume(log)),
        None => {
            let folder = log_dir(&arguments.output, context);
            (new(&arguments, &catalog, context)?, Destination::Folder(folder))
        }
    };
    let upload = match arguments.output.no_upload {
        true => None,
        // A token that is no good is told now, and not after hours.
        false => Some(Upload::new(context.home_to_make()?, arguments.policy.prices.clone(), printer)?),
    };
    let mut watch = Watch::new(printer, &spec);
    let run = watch.run(spec, &destination, upload.as_ref().and_then(Upload::live));
    watch.clear();
    let summary = run?;
    finish::finish(&summary, upload, arguments.output.format, context)
}

/// The settings of a new run.
fn new(
    arguments: &EvalArgs,
    catalog: &ct_environment::Catalog,
    context: &Context,
) -> Result<EvalSpec, CliError> {
    let name = arguments.policy.policy.as_deref().unwrap_or_default();
    let policy = PolicyChoice::new(name, &arguments.policy.policy_args)?;
    let source = (policy.name() == "replay").then(|| policy.text("source")).flatten();
    let replays = match source {
        Some(source) => Some(replays::read(&source, context)?),
        None => None,
    };
    let Selection { samples, task_set, described } =
        selection::select(&arguments.selection, &policy, catalog, replays.as_deref())?;
    let limits = Limits {
        messages: Some(arguments.limits.message_limit.unwrap_or(MESSAGES_MAX)),
        tokens: arguments.limits.token_limit,
        time: arguments.limits.time_limit.map(Duration::from_secs),
        cost_usd: arguments.limits.cost_limit,
    };
    let run_name = arguments.header.run_name.clone().unwrap_or_else(|| run_name(&policy, &samples));
    let mut spec = EvalSpec {
        run_name,
        task_set: Some(task_set),
        tags: arguments.header.tags.clone(),
        policy,
        samples,
        epochs: arguments.selection.epochs,
        selection: described,
        samples_max: arguments.limits.max_samples,
        limits,
        fail_on_error: arguments.limits.fail_on_error.unwrap_or(false),
        sandbox: arguments.limits.host(),
        model: None,
        prices: arguments.policy.prices.as_deref().map(absolute).transpose()?,
        about: about(),
    };
    if spec.policy.info().needs_model {
        let name = model_name(arguments, context)?;
        let asked = (arguments.policy.temperature, arguments.policy.max_tokens);
        spec.model = Some(model(&name, asked, &arguments.policy, context)?);
    } else if arguments.policy.model.is_some() {
        return Err(CliError::usage(format!("the policy {} asks no model", spec.policy.name()))
            .hint("leave --model out"));
    }
    if let (Some(_), Some(model)) = (limits.cost_usd, &spec.model)
        && !priced(&model.name(), arguments)?
    {
        return Err(CliError::usage(format!("--cost-limit needs the price of {}", model.name()))
            .hint("give a rate file that has it with --prices FILE"));
    }
    Ok(spec)
}

/// A path that means the same wherever it is read.
fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|error| CliError::io("find", path, &error))
}

fn log_dir(output: &OutputArgs, context: &Context) -> PathBuf {
    let named = output.log_dir.clone();
    named
        .or_else(|| context.config.setting(env::LOG_DIR).map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("logs"))
}

pub(super) fn about() -> About {
    // `<version> (<commit>)`.
    let (version, commit) = match env!("CT_VERSION").split_once(" (") {
        Some((version, commit)) => (version, Some(commit.trim_end_matches(')').to_owned())),
        None => (env!("CT_VERSION"), None),
    };
    let command: Vec<String> = std::iter::once("ct".to_owned())
        .chain(std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy())))
        .collect();
    About { command: command.join(" "), version: version.to_owned(), commit, started_at: Timestamp::now() }
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn run_name(policy: &PolicyChoice, samples: &[SampleSpec]) -> String {
    match samples {
        [one] => format!("{}-{}", policy.name(), one.id),
        _ => {
            let mut names: Vec<&str> = samples.iter().map(|s| s.environment.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            format!("{}-{}", policy.name(), names.join("+"))
        }
    }
}

fn model_name(arguments: &EvalArgs, context: &Context) -> Result<ModelName, CliError> {
    let given = arguments.policy.model.clone();
    let variable = |variable| context.config.setting(variable);
    let found = given.or_else(|| variable(env::MODEL)).or_else(|| variable(env::INSPECT_MODEL));
    let Some(name) = found else {
        let policy = arguments.policy.policy.as_deref().unwrap_or_default();
        return Err(CliError::usage(format!("the policy {policy} needs a model, and none is given"))
            .hint("give one as provider/name with --model, such as --model anthropic/claude-haiku-4-5")
            .hint("or set CONTROL_TOWER_MODEL or INSPECT_EVAL_MODEL, here or in a .env file")
            .hint("without a provider: --model mock/turns.json replays turns, --policy scripted runs the reference solutions"));
    };
    Ok(name.parse()?)
}

/// Opens a model with the variables of the environment and the `.env` file.
pub(super) fn model(
    name: &ModelName,
    (temperature, max_tokens): (Option<f64>, Option<u32>),
    policy: &PolicyArgs,
    context: &Context,
) -> Result<Model, CliError> {
    let options = ModelOptions {
        connections_max: policy.max_connections,
        max_tokens,
        temperature,
        ..ModelOptions::default()
    };
    let prices = pipeline::prices(policy.prices.as_deref())?.map(Arc::new);
    let config = &context.config;
    if let Some(error) = config.foreign_model_address(name.provider()) {
        return Err(error);
    }
    Ok(Model::open(name, &|variable| config.model_variable(variable), &options, prices)?)
}

fn priced(model: &str, arguments: &EvalArgs) -> Result<bool, CliError> {
    Ok(pipeline::prices(arguments.policy.prices.as_deref())?.is_some_and(|prices| prices.has(model)))
}

impl From<ct_eval::PolicyError> for CliError {
    fn from(error: ct_eval::PolicyError) -> Self {
        use ct_eval::PolicyError;
        let hint = match &error {
            PolicyError::Argument { known, .. } if !known.is_empty() => {
                format!("its arguments are {}", known.join(", "))
            }
            _ => "list them with: ct policies list".to_owned(),
        };
        CliError::usage(error.to_string()).hint(hint)
    }
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> Self {
        const WITHOUT: &str = "without a provider: --model mock/turns.json replays turns, --policy scripted runs the \
                               reference solutions";
        let hint = match &error {
            ModelError::NoKey { variable, .. } => {
                format!("set {variable} in the environment or in a .env file")
            }
            ModelError::BaseUrl { variable, .. } => {
                format!("set {variable}, such as {variable}=https://host/v1")
            }
            ModelError::Protocol { variable, .. } => {
                format!("set {variable}=chat or {variable}=responses, or leave it out")
            }
            ModelError::Name { .. } | ModelError::Provider { .. } => {
                "providers are anthropic, openai, openrouter, google, ollama, openai-api/<service> and mock"
                    .to_owned()
            }
            ModelError::Script { .. } => {
                "a script is a JSON array of turns, such as [{\"tool_calls\": [{\"function\": \"bash\", \
                 \"arguments\": {\"command\": \"ls\"}}]}, \"done\"]"
                    .to_owned()
            }
            _ => String::new(),
        };
        let kind = match &error {
            ModelError::Script { .. } => Kind::Data,
            ModelError::Setup { .. } | ModelError::Call { .. } => Kind::Network,
            _ => Kind::Usage,
        };
        let mut converted = CliError::new(kind, error.to_string());
        if let Some(source) = std::error::Error::source(&error) {
            converted = converted.because(source);
        }
        if !hint.is_empty() {
            converted = converted.hint(hint);
        }
        match &error {
            ModelError::NoKey { .. } => converted.hint(WITHOUT),
            _ => converted,
        }
    }
}

/// What ended a run before its time.
pub(super) fn failed(error: EvalError, destination: &Destination) -> CliError {
    match error {
        EvalError::Sandbox(error) => error.into(),
        EvalError::TwiceTheSame { .. } | EvalError::Resume { .. } => CliError::usage(error.to_string()),
        EvalError::Cancelled => CliError::data(error.to_string()),
        EvalError::Io { what, path, source } => CliError::io(what, &path, &source),
        EvalError::Log(error) => match destination {
            Destination::Resume(path) => CliError::log(path, &error),
            Destination::Folder(_) => CliError::data("the log cannot be read").because(&error),
        },
        EvalError::Write(error) => {
            let told = CliError::new(Kind::Io, "the log cannot be written").because(&error);
            match error {
                WriteError::Io { path, .. } if path.exists() => told.hint(format!(
                    "what is finished is kept; go on with: ct run eval --resume {}",
                    path.display()
                )),
                _ => told,
            }
        }
        EvalError::Internal(message) => CliError::internal(message),
    }
}

/// For the log: nothing that is not set.
pub(super) fn described(fields: &[(&str, Value)]) -> Value {
    let set = fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    json!(set.collect::<serde_json::Map<String, Value>>())
}
