//! The settings of an earlier run, to go on with it: they have to be those it was begun with.

use std::path::Path;

use ct_environment::Environment;
use ct_eval::{Destination, EvalSpec, PolicyChoice, Resumable, SampleSpec};

use super::eval::{self, EvalArgs};
use super::{replays, selection};
use crate::commands::Context;
use crate::error::{CliError, Kind};

/// The settings that a log holds. What was given beside it has to be the same, and the environments what they were.
pub(super) fn settings(
    log: &Path,
    arguments: &mut EvalArgs,
    catalog: &ct_environment::Catalog,
    context: &Context,
) -> Result<EvalSpec, CliError> {
    let earlier =
        Resumable::read(log).map_err(|error| eval::failed(error, &Destination::Resume(log.to_owned())))?;
    unchanged(&earlier, arguments)?;
    let taken_over = take_over(&earlier, arguments);
    if !taken_over.is_empty() {
        context.printer.note(&format!("as the run was begun: {}", taken_over.join(" ")));
    }
    let samples = samples(&earlier, arguments.header.allow_changed, catalog, context)?;
    let asked = (earlier.temperature, earlier.max_tokens);
    let model = match &earlier.model {
        Some(name) => Some(eval::model(&name.parse()?, asked, &arguments.policy, context)?),
        None => None,
    };
    let base_url = model.as_ref().and_then(|model| model.base_url());
    if base_url != earlier.base_url.as_deref() {
        let place =
            |url: Option<&str>| url.map_or_else(|| "its provider's address".to_owned(), str::to_owned);
        let (was, is) = (place(earlier.base_url.as_deref()), place(base_url));
        return Err(differs(log, &format!("its model was asked at {was}, and would be at {is} now"))
            .hint("set the address that it had, in the variable of the model's provider"));
    }
    Ok(EvalSpec {
        run_name: earlier.run_name,
        task_set: earlier.task_set,
        tags: earlier.tags,
        policy: earlier.policy,
        samples,
        epochs: earlier.epochs,
        selection: earlier.selection,
        samples_max: arguments.limits.max_samples,
        limits: earlier.limits,
        fail_on_error: arguments.limits.fail_on_error.unwrap_or(false),
        sandbox: arguments.limits.host(),
        model,
        prices: arguments.policy.prices.clone(),
        about: eval::about(),
    })
}

/// Sets what the run was begun with and may be otherwise now, as far as nothing is said: what was set, as arguments.
fn take_over(earlier: &Resumable, arguments: &mut EvalArgs) -> Vec<String> {
    let mut taken_over = Vec::new();
    let mut take = |option: &str, value: &str| taken_over.push(format!("{option} {}", eval::quoted(value)));
    let limits = &mut arguments.limits;
    if let (None, Some(kind)) = (limits.sandbox, earlier.sandbox) {
        limits.sandbox = Some(kind);
        take("--sandbox", kind.as_str());
    }
    if let (None, Some(image)) = (&limits.image, &earlier.image) {
        limits.image = Some(image.clone());
        take("--image", image);
    }
    if let (None, Some(prices)) = (&arguments.policy.prices, &earlier.prices) {
        arguments.policy.prices = Some(prices.clone());
        take("--prices", &prices.to_string_lossy());
    }
    if limits.fail_on_error.is_none() && earlier.fail_on_error {
        limits.fail_on_error = Some(true);
        taken_over.push("--fail-on-error".to_owned());
    }
    taken_over
}

fn differs(log: &Path, how: &str) -> CliError {
    CliError::new(Kind::Conflict, format!("{} cannot be gone on with: {how}", log.display()))
}

/// Whether what was given is what the log says.
fn unchanged(earlier: &Resumable, arguments: &EvalArgs) -> Result<(), CliError> {
    let given = &arguments.policy;
    let mut options: Vec<(&str, String, String)> = Vec::new();
    let mut compare = |option, was: Option<String>, is: Option<String>| {
        let was = was.unwrap_or_else(|| "none".to_owned());
        if let Some(is) = is.filter(|is| *is != was) {
            options.push((option, was, is));
        }
    };
    let policy = given.policy.as_deref().map(|name| name.strip_prefix("ct/").unwrap_or(name).to_owned());
    compare("--policy", Some(earlier.policy.name().to_owned()), policy);
    compare("--model", earlier.model.clone(), given.model.clone());
    let number = |number: f64| number.to_string();
    compare("--temperature", earlier.temperature.map(number), given.temperature.map(number));
    let count = |count: u32| count.to_string();
    compare("--max-tokens", earlier.max_tokens.map(count), given.max_tokens.map(count));
    if !given.policy_args.is_empty() {
        let choice = PolicyChoice::new(earlier.policy.name(), &given.policy_args)?;
        let text = |choice: &PolicyChoice| serde_json::to_string(choice.args()).ok();
        compare("-p", text(&earlier.policy), text(&choice));
    }
    let Some((option, was, is)) = options.into_iter().next() else { return Ok(()) };
    Err(differs(&earlier.path, &format!("it was begun with {option} {was}, and {is} is given"))
        .hint(format!("leave {option} out to go on as it was begun"))
        .hint("or begin a new run, without --resume"))
}

/// The samples, whose environments have to be what they were.
fn samples(
    earlier: &Resumable,
    allow_changed: bool,
    catalog: &ct_environment::Catalog,
    context: &Context,
) -> Result<Vec<SampleSpec>, CliError> {
    let mut environments = selection::Environments::new(catalog);
    let source = (earlier.policy.name() == "replay").then(|| earlier.policy.text("source")).flatten();
    let replays = match source {
        Some(source) => replays::read(&source, context)?,
        None => Vec::new(),
    };
    let mut samples = Vec::new();
    for sample in &earlier.samples {
        let environment = environments.find(&sample.environment)?;
        if !allow_changed {
            same(earlier, &environment)?;
        }
        for name in &sample.mains {
            environment.main(name)?;
        }
        for name in &sample.sides {
            environment.side(name)?;
        }
        let mut spec = SampleSpec::new(environment, sample.mains.clone(), sample.sides.clone());
        spec.id.clone_from(&sample.id);
        if let Some(name) = &sample.replays {
            let found = replays.iter().find(|replay| replay.name == *name);
            let found = found.ok_or_else(|| {
                differs(&earlier.path, &format!("what it replays has no {name} any more"))
                    .hint("begin a new run, without --resume")
            })?;
            spec.replay = Some(found.actions.clone());
            spec.replays = Some(name.clone());
        }
        samples.push(spec);
    }
    Ok(samples)
}

fn same(earlier: &Resumable, environment: &Environment) -> Result<(), CliError> {
    let name = environment.long_name();
    // Older logs do not say.
    let Some(digest) = earlier.digests.get(&name).filter(|digest| **digest != environment.digest) else {
        return Ok(());
    };
    let short = |digest: &str| digest.chars().take(12).collect::<String>();
    let (was, is) = (short(digest), short(&environment.digest));
    Err(differs(&earlier.path, &format!("the environment {name} is not what it was ({was} then, {is} now)"))
        .hint("put the files of the environment back, or begin a new run, without --resume")
        .hint("if the change matters nothing to the samples that are done: --allow-changed"))
}
