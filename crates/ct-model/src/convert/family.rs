//! Environment, tasks, policy and mode: each family of logs names them otherwise.
//!
//! One order of look-ups serves all families, from the most explicit place to the least. Families are told apart only
//! where the same place means something else: whether the task's name may stand in for the environment, and what
//! stands in for the policy.

use serde_json::{Map, Value};

use super::sample::SampleFacts;
use super::sample::limits::TASKS_MAX;
use super::value::{get, get_object, get_text, named, object, text, type_name};
use super::{HeaderFacts, PlanStep};
use crate::{Environment, MainTask, SideTask};

/// What joins a policy and the protocol it plays against.
const AGAINST: &str = "-vs-";

/// What the policy is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Honest,
    Attack,
}

impl Mode {
    fn of(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "honest" => Some(Self::Honest),
            "attack" => Some(Self::Attack),
            _ => None,
        }
    }

    /// From a policy's name, with or without a package prefix: the words of its last segment.
    fn of_policy(name: &str) -> Option<Self> {
        let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let has = |word: &str| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == word);
        match (has("honest"), has("attack")) {
            (true, false) => Some(Self::Honest),
            (false, true) => Some(Self::Attack),
            _ => None,
        }
    }
}

/// Who did what where in one sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Setting {
    pub(super) environment: Option<Environment>,
    pub(super) main_task: Option<MainTask>,
    pub(super) side_task: Option<SideTask>,
    /// Ids one by one, as scores are named by them.
    pub(super) main_ids: Vec<String>,
    pub(super) side_ids: Vec<String>,
    pub(super) policy: Option<String>,
    pub(super) policy_args: Option<Map<String, Value>>,
    pub(super) protocol: Option<String>,
    pub(super) protocol_args: Option<Map<String, Value>>,
    /// The policy as a trajectory's name shows it.
    pub(super) policy_label: Option<String>,
    pub(super) mode: Option<Mode>,
    /// Only the task and the sample's id tell what was done: the sample's first score is its outcome.
    pub(super) plain: bool,
}

/// Whether the header is one of Control Tower's, or the sample is of the shape that only its samples have.
fn is_control_tower(header: &HeaderFacts, sample: Option<&SampleFacts>) -> bool {
    let of_package =
        |name: &Option<String>| name.as_deref().is_some_and(|name| name.starts_with("control_tower/"));
    let keys = [
        "eval_version",
        "policy_selection",
        "untrusted_policy_selection",
        "honest_policy_selection",
        "attack_policy_selection",
        "protocol_selection",
    ];
    let listed = |sample: &SampleFacts| {
        let has = |key: &str| sample.metadata.get(key).is_some_and(Value::is_array);
        get_object(&sample.metadata, "environment").is_some() || has("main_tasks") || has("side_tasks")
    };
    of_package(&header.task_registry_name)
        || of_package(&header.task)
        || keys.iter().any(|key| get(&header.metadata, key).is_some())
        || sample.is_some_and(listed)
}

/// Whether the plan has a step of control-arena's loop, or the metadata what newer versions write.
fn is_control_arena(header: &HeaderFacts, sample: Option<&SampleFacts>) -> bool {
    let loops = header.plan.iter().any(|step| step.solver.starts_with("control_arena/"));
    let newer =
        get(&header.metadata, "micro_protocol").is_some() || get(&header.metadata, "setting").is_some();
    let keys = ["setting_name", "setting_description", "side_task_description"];
    let described = sample.is_some_and(|s| keys.iter().any(|key| get(&s.metadata, key).is_some()));
    loops || newer || described
}

/// Whether a coding agent was bridged in.
fn is_bridge(header: &HeaderFacts) -> bool {
    header.plan.iter().any(|step| matches!(step.solver.as_str(), "Codex CLI" | "Claude Code"))
}

/// The value of a task argument, which some tasks pack into `kwargs`.
fn task_arg<'a>(header: &'a HeaderFacts, key: &str) -> Option<&'a Value> {
    let packed = || get_object(&header.task_args, "kwargs").and_then(|kwargs| get(kwargs, key));
    get(&header.task_args, key).or_else(packed)
}

pub(super) fn setting(header: &HeaderFacts, sample: &SampleFacts) -> Setting {
    let control_tower = is_control_tower(header, Some(sample));
    let control_arena = !control_tower && is_control_arena(header, Some(sample));
    let mut setting = Setting::default();
    main_task(header, sample, control_tower, &mut setting);
    // Control Tower's streams: a log may hold honest and attack samples side by side.
    let has_side_task = side_task(header, sample, &mut setting);
    let stream = if has_side_task { "attack" } else { "honest" };
    policy(header, Some(sample), stream, control_arena, &mut setting);

    let declared = [
        get_text(&sample.metadata, "eval_mode"),
        get_text(&header.metadata, "mode"),
        task_arg(header, "mode").and_then(text),
    ];
    setting.mode = declared
        .into_iter()
        .flatten()
        .find_map(Mode::of)
        .or_else(|| setting.policy.as_deref().and_then(Mode::of_policy));
    if !has_side_task && setting.mode == Some(Mode::Attack) {
        // Attacked, but the task has only a description.
        setting.side_task = get_text(&sample.metadata, "side_task_description")
            .map(|goal| SideTask { goal: Some(goal.to_owned()), ..SideTask::default() });
    }
    setting.environment = environment(header, sample, control_tower);
    setting.plain = !control_tower && !control_arena;
    setting
}

/// The policy's name in a log that is not of Control Tower, for the run header.
pub(super) fn policy_of_other_families(header: &HeaderFacts) -> Option<String> {
    if is_control_tower(header, None) {
        return None;
    }
    let mut setting = Setting::default();
    policy(header, None, "honest", is_control_arena(header, None), &mut setting);
    setting.policy
}

fn policy(
    header: &HeaderFacts,
    sample: Option<&SampleFacts>,
    stream: &str,
    control_arena: bool,
    setting: &mut Setting,
) {
    let metadata = &header.metadata;
    let selection = |key: &str| {
        let value = get(metadata, key)?;
        let args = object(value).and_then(|selection| get_object(selection, "args"));
        Some((named(value)?.to_owned(), args.cloned()))
    };
    // The resolved arguments lie beside a selection.
    let resolved = |key: &str| get_object(metadata, key).cloned();
    let kept = |args: Option<Map<String, Value>>| args.filter(|args| !args.is_empty());
    let recorded = get_text(metadata, "policy");
    let (recorded_policy, recorded_protocol) = match recorded.and_then(|text| text.split_once(AGAINST)) {
        Some((policy, protocol)) => (Some(policy), Some(protocol)),
        None => (recorded, None),
    };

    let of_stream = selection(&format!("{stream}_policy_selection"))
        .map(|(name, args)| (name, resolved(&format!("{stream}_policy_args")).or(args)));
    let selected = of_stream
        .or_else(|| {
            selection("policy_selection").map(|(name, args)| (name, resolved("policy_args").or(args)))
        })
        .or_else(|| {
            let selected = selection("untrusted_policy_selection");
            selected.map(|(name, args)| (name, resolved("untrusted_policy_args").or(args)))
        });
    let against =
        selection("protocol_selection").map(|(name, args)| (name, resolved("protocol_args").or(args)));
    let both_selected = selected.is_some() && against.is_some();

    let args = &header.task_args;
    let looked_up = || {
        recorded_policy
            .or_else(|| sample.and_then(|s| get(&s.metadata, "policy")).and_then(named))
            .or_else(|| get(metadata, "micro_protocol").and_then(type_or_name))
            .or_else(|| task_arg(header, "policy").and_then(named))
            .or_else(|| get(args, "agent").and_then(named))
            .or(header.solver.as_deref())
            .map(str::to_owned)
            .or_else(|| default_policy(header, control_arena))
    };
    (setting.policy, setting.policy_args) = match selected {
        Some((name, args)) => (Some(name), kept(args)),
        None => (looked_up(), None),
    };
    let protocol = || {
        recorded_protocol
            .or_else(|| get(metadata, "micro_protocol").and_then(type_or_name))
            .or_else(|| task_arg(header, "protocol").and_then(named))
            .or_else(|| {
                header.plan.iter().find_map(|step| get(&step.params, "protocol").and_then(type_or_name))
            })
            .map(str::to_owned)
    };
    (setting.protocol, setting.protocol_args) = match against {
        Some((name, args)) => (Some(name), kept(args)),
        None => (protocol(), None),
    };
    let joined = both_selected || recorded_protocol.is_some();
    setting.policy_label = match (&setting.policy, &setting.protocol) {
        (Some(policy), Some(protocol)) if joined => Some(format!("{policy}{AGAINST}{protocol}")),
        (policy, _) => policy.clone(),
    };
}

/// The registered name of a serialised object, else its type.
fn type_or_name(value: &Value) -> Option<&str> {
    named(value).or_else(|| type_name(value))
}

/// What stands for the policy when nothing names one: the model that was evaluated, in control-arena and where there
/// was no model the last solver.
fn default_policy(header: &HeaderFacts, control_arena: bool) -> Option<String> {
    let model = header.model.clone().filter(|model| model != "none/none");
    let last_step = header.plan.last().map(|PlanStep { solver, .. }| solver.clone());
    if control_arena { last_step.or(model) } else { model.or(last_step) }
}

fn environment(header: &HeaderFacts, sample: &SampleFacts, control_tower: bool) -> Option<Environment> {
    let of_id = |id: &str| Environment { id: Some(id.to_owned()), ..Environment::default() };
    if let Some(environment) = get(&sample.metadata, "environment") {
        if let Some(environment) = object(environment) {
            let field = |key: &str| get_text(environment, key).map(str::to_owned);
            return Some(Environment {
                id: field("id"),
                display_name: field("display_name"),
                short_description: field("short_description"),
                extra: Map::new(),
            });
        }
        if let Some(id) = text(environment) {
            return Some(of_id(id));
        }
    }
    let looked_up = get_text(&sample.metadata, "setting_name")
        .or_else(|| get(&header.metadata, "environment").and_then(named))
        .or_else(|| get(&header.metadata, "setting").and_then(type_name))
        .or_else(|| get_text(&sample.metadata, "task_family"))
        .or_else(|| get(&sample.metadata, "challenge_metadata").and_then(named));
    if let Some(id) = looked_up {
        return Some(of_id(id));
    }
    if control_tower {
        return None;
    }
    if is_bridge(header)
        && let Some(sandbox) = &header.sandbox
    {
        return Some(of_id(sandbox));
    }
    let task = header.task.as_deref()?;
    Some(Environment { display_name: header.task_display_name.clone(), ..of_id(task) })
}

/// The objects or names under a key that holds one or several.
fn entries(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).take(TASKS_MAX).collect(),
        Value::Null => Vec::new(),
        other => vec![other],
    }
}

/// One text field of several tasks, joined; absent when no task has it.
fn joined(tasks: &[&Value], key: &str, separator: &str) -> Option<String> {
    let texts: Vec<&str> =
        tasks.iter().filter_map(|task| object(task).and_then(|task| get_text(task, key))).collect();
    (!texts.is_empty()).then(|| texts.join(separator))
}

/// As [`joined`], each label once.
fn joined_labels(tasks: &[&Value], key: &str) -> Option<String> {
    let mut labels: Vec<&str> = Vec::new();
    for label in tasks.iter().filter_map(|task| object(task).and_then(|task| get_text(task, key))) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    (!labels.is_empty()).then(|| labels.join("+"))
}

/// A task's id: its `id`, else its name; or the entry itself.
fn task_id(task: &Value) -> Option<String> {
    match object(task) {
        Some(task) => {
            let id = get(task, "id");
            let number = || id.filter(|id| id.is_number()).map(Value::to_string);
            id.and_then(text)
                .map(str::to_owned)
                .or_else(number)
                .or_else(|| get_text(task, "name").map(str::to_owned))
        }
        None => text(task).map(str::to_owned),
    }
}

const ID_SEPARATOR: &str = "+";
const NAME_SEPARATOR: &str = " + ";
const TEXT_SEPARATOR: &str = "\n\n";

fn main_task(header: &HeaderFacts, sample: &SampleFacts, control_tower: bool, setting: &mut Setting) {
    let metadata = &sample.metadata;
    let listed = metadata.get("main_tasks").filter(|tasks| !tasks.is_null());
    let tasks = entries(listed.or_else(|| get(metadata, "main_task")).unwrap_or(&Value::Null));
    if !tasks.is_empty() {
        setting.main_ids = tasks.iter().filter_map(|task| task_id(task)).collect();
        setting.main_task = Some(MainTask {
            id: (!setting.main_ids.is_empty()).then(|| setting.main_ids.join(ID_SEPARATOR)),
            name: joined(&tasks, "name", NAME_SEPARATOR),
            short_description: joined(&tasks, "short_description", TEXT_SEPARATOR),
            description: joined(&tasks, "description", TEXT_SEPARATOR),
            task_category: joined_labels(&tasks, "task_category"),
            extra: Map::new(),
        });
        return;
    }
    if control_tower && listed.is_some() {
        // Listed, and none: a sample of side tasks alone.
        return;
    }
    let registry_name = header.task_registry_name.as_deref().filter(|_| is_bridge(header));
    let name = get_text(metadata, "main_task_name")
        .or_else(|| task_arg(header, "main_task").and_then(text))
        .or_else(|| get(&header.metadata, "main_task").and_then(named))
        .or_else(|| get_text(metadata, "task_name"))
        .or_else(|| get_text(metadata, "eval_name"))
        .or(registry_name);
    let id = name.or(Some(sample.id.as_str()).filter(|id| !id.is_empty()));
    let description = get_text(metadata, "main_task_description");
    if id.is_none() && description.is_none() {
        return;
    }
    setting.main_ids = id.map(str::to_owned).into_iter().collect();
    setting.main_task = Some(MainTask {
        id: id.map(str::to_owned),
        name: name.map(str::to_owned),
        short_description: sample.description.clone(),
        description: description.map(str::to_owned),
        task_category: None,
        extra: Map::new(),
    });
}

/// Sets the side task, and says whether there is one that has a name.
fn side_task(header: &HeaderFacts, sample: &SampleFacts, setting: &mut Setting) -> bool {
    let metadata = &sample.metadata;
    let listed = metadata.get("side_tasks").filter(|tasks| !tasks.is_null());
    let tasks = entries(listed.or_else(|| get(metadata, "side_task")).unwrap_or(&Value::Null));
    if !tasks.is_empty() {
        setting.side_ids = tasks.iter().filter_map(|task| task_id(task)).collect();
        setting.side_task = Some(SideTask {
            id: (!setting.side_ids.is_empty()).then(|| setting.side_ids.join(ID_SEPARATOR)),
            name: joined(&tasks, "name", NAME_SEPARATOR),
            short_description: joined(&tasks, "short_description", TEXT_SEPARATOR),
            goal: joined(&tasks, "goal", TEXT_SEPARATOR),
            task_category: joined_labels(&tasks, "task_category"),
            failure_type: joined_labels(&tasks, "failure_type"),
            extra: Map::new(),
        });
        return true;
    }
    if listed.is_some() {
        return false;
    }
    let Some(name) =
        get_text(metadata, "side_task_name").or_else(|| task_arg(header, "side_task").and_then(text))
    else {
        return false;
    };
    setting.side_ids = vec![name.to_owned()];
    setting.side_task = Some(SideTask {
        id: Some(name.to_owned()),
        name: Some(name.to_owned()),
        goal: get_text(metadata, "side_task_description").map(str::to_owned),
        ..SideTask::default()
    });
    true
}
