//! What is known of a sample after one pass over it: where everything lies, and what belongs together.

use std::collections::HashMap;

/// How much an index holds. What goes beyond is counted, and can be read in the sample itself.
pub mod limits {
    /// Steps of a sample.
    pub const STEPS_MAX: usize = 400_000;
    /// Tool calls.
    pub const CALLS_MAX: usize = 400_000;
    /// Events.
    pub const EVENTS_MAX: usize = 1_000_000;
    /// Attachments.
    pub const ATTACHMENTS_MAX: usize = 1_000_000;
    /// Messages that model calls share.
    pub const POOL_MAX: usize = 1_000_000;
    /// Verdicts of monitors.
    pub const VERDICTS_MAX: usize = 400_000;
    /// Scores.
    pub const SCORES_MAX: usize = 10_000;
    /// Different names of tools, of monitors, and of kinds of event.
    pub const NAMES_MAX: usize = 4_096;
    /// Other members of a sample.
    pub const SECTIONS_MAX: usize = 256;
    /// Events in each other, as tool and subtask events of old logs hold them.
    pub const EVENT_DEPTH_MAX: usize = 64;
    /// Characters of a name.
    pub const NAME_CHARS_MAX: usize = 256;
}

/// Stands for "none" where an index into a list is kept.
pub(super) const NONE: u32 = u32::MAX;

/// Where a value lies in a sample's JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the beginning of the sample.
    pub offset: u64,
    /// Bytes.
    pub size_bytes: u64,
}

impl Place {
    /// Whether there is anything.
    pub fn is_empty(self) -> bool {
        self.size_bytes == 0
    }
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// A message of the conversation.
    Message,
    /// A model call that the conversation does not hold.
    Model,
    /// The sample's input, where it is a text and no conversation was recorded.
    Input,
    /// What happened before the first step or after the last one.
    Events,
}

/// Whose a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Speaker {
    /// `system`
    System,
    /// `user`
    User,
    /// A tool whose call is not known.
    Tool,
    /// `assistant`, and whatever else there is.
    #[default]
    Model,
}

impl Speaker {
    pub(super) fn of(role: &str) -> Self {
        match role {
            "system" => Self::System,
            "user" => Self::User,
            "tool" => Self::Tool,
            _ => Self::Model,
        }
    }
}

/// Something a reader stops at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub kind: StepKind,
    /// Its message, its model event, or its text.
    pub place: Place,
    /// Who speaks.
    pub speaker: Speaker,
    /// Its first call among all calls.
    pub(super) first_call: u32,
    /// How many calls it makes.
    pub(super) calls: u32,
    /// Hash of the message's id; 0 when there is none.
    pub(super) id: u64,
    /// The model event that it comes from.
    pub(super) event: u32,
    /// Its first event in the order of steps.
    pub(super) first_event: u32,
    /// How many events belong to it.
    pub(super) events: u32,
}

/// A tool call of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its number among the actions; `None` for a call that is not in the conversation, where there is one.
    pub action: Option<u32>,
    /// The step it belongs to.
    pub step: u32,
    /// Which call of the step's message it is, from 0.
    pub index: u32,
    /// The message with what the tool answered.
    pub output: Place,
    pub(super) id: u64,
    pub(super) function: u32,
    /// The tool event.
    pub(super) event: u32,
    /// The tool failed.
    pub failed: bool,
}

impl Call {
    /// One that a message makes, without an answer so far.
    pub(super) fn made(step: u32, index: u32, id: u64, function: u32, action: Option<u32>) -> Self {
        Self { action, step, index, output: Place::default(), id, function, event: NONE, failed: false }
    }
}

/// An action of the trajectory: where to find its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// Its step.
    pub step: u32,
    /// Its call among all calls.
    pub call: u32,
}

/// An event of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventEntry {
    /// Where its JSON lies.
    pub place: Place,
    pub(super) kind: u32,
    /// The step it belongs to.
    pub step: u32,
    /// How many events it lies in.
    pub depth: u8,
    pub(super) trait_: Trait,
    pub(super) first_call: u32,
    pub(super) calls: u32,
    /// Hash of the id of a model call's message, of a tool call, or of a span.
    pub(super) id: u64,
}

/// What matters of an event for where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Trait {
    #[default]
    Other,
    /// A model call.
    Model,
    /// A model call that made a draft of what the agent then did.
    Draft,
    /// A model call on the side: of a monitor or a planner.
    Aside,
    Tool,
    SpanBegin,
}

/// What a monitor said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// About which action; `None` for the whole trajectory.
    pub action: Option<u32>,
    pub(super) monitor: u32,
    /// Which draw of the monitor it is.
    pub draw: u32,
    /// Suspicion; not a number when the monitor gave none.
    pub value: f32,
    /// About a draft of the action.
    pub draft: bool,
    /// The monitor's reasons.
    pub explanation: Place,
    /// Hash of the id of the message it is about, until its action is known.
    pub(super) message: u64,
}

/// A score of the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreEntry {
    /// The scorer's name.
    pub name: String,
    /// Where its JSON lies.
    pub place: Place,
}

/// A member of the sample that is not part of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its key.
    pub name: String,
    /// Where it lies.
    pub place: Place,
}

/// Where everything in a sample lies.
#[derive(Debug, Default)]
pub struct Index {
    pub(super) steps: Vec<Step>,
    pub(super) calls: Vec<Call>,
    /// Calls in the order of actions.
    pub(super) actions: Vec<u32>,
    pub(super) events: Vec<EventEntry>,
    /// Events in the order of steps.
    pub(super) events_of_steps: Vec<u32>,
    pub(super) attachments: HashMap<u64, Place>,
    pub(super) pool: Vec<Place>,
    /// Messages of requests that model calls share.
    pub(super) call_pool: Vec<Place>,
    /// In the order of actions, when complete.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) scores: Vec<ScoreEntry>,
    pub(super) sections: Vec<Section>,
    pub(super) names: Names,
    pub(super) complete: bool,
    /// There are messages of the agent; without any, model calls are all there is of it.
    pub(super) has_conversation: bool,
    pub(super) left_out: u64,
    pub(super) read_bytes: u64,
}

/// Names, each kept once.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.names.len() == limits::NAMES_MAX {
            return NONE;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(NONE);
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    pub(super) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("…", String::as_str)
    }
}

/// A hash of an id; never 0. Ids that an attacker makes collide mix up his own steps and nothing else.
pub(super) fn id_hash(id: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    if id.is_empty() {
        return 0;
    }
    id.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)).max(1)
}

impl Index {
    /// Whether the whole sample was read. Until then there are only the messages read so far, and numbers of steps may
    /// still change; those of actions do not.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Bytes of the sample read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Things beyond [`limits`], which are not in the index.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of steps.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// A step by its number.
    pub fn step(&self, number: usize) -> Option<&Step> {
        self.steps.get(number)
    }

    /// The calls of a step.
    pub fn calls_of(&self, step: &Step) -> &[Call] {
        let first = step.first_call as usize;
        self.calls.get(first..first + step.calls as usize).unwrap_or_default()
    }

    /// The name of a call's tool.
    pub fn function(&self, call: &Call) -> &str {
        self.names.name(call.function)
    }

    /// Number of actions.
    pub fn action_count(&self) -> usize {
        self.actions.len()
    }

    /// An action by its number.
    pub fn action(&self, number: usize) -> Option<Action> {
        let call = *self.actions.get(number)?;
        Some(Action { step: self.calls.get(call as usize)?.step, call })
    }

    /// The call of an action.
    pub fn call(&self, action: Action) -> Option<&Call> {
        self.calls.get(action.call as usize)
    }

    /// Number of events.
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    /// An event by its number.
    pub fn event(&self, number: usize) -> Option<&EventEntry> {
        self.events.get(number)
    }

    /// The kind of an event, as the log calls it.
    pub fn kind(&self, event: &EventEntry) -> &str {
        self.names.name(event.kind)
    }

    /// The numbers of a step's events.
    pub fn events_of(&self, step: &Step) -> &[u32] {
        let first = step.first_event as usize;
        self.events_of_steps.get(first..first + step.events as usize).unwrap_or_default()
    }

    /// The model event that a step comes from.
    pub fn model_event(&self, step: &Step) -> Option<usize> {
        (step.event != NONE).then_some(step.event as usize)
    }

    /// The tool event of a call.
    pub fn tool_event(&self, call: &Call) -> Option<usize> {
        (call.event != NONE).then_some(call.event as usize)
    }

    /// The first model call that is not on the side: what it was given is what the agent was told.
    pub fn first_model_event(&self) -> Option<usize> {
        self.events.iter().position(|event| matches!(event.trait_, Trait::Model | Trait::Draft))
    }

    /// Where an attachment's text lies, by what stands behind the scheme of a reference.
    pub fn attachment(&self, name: &str) -> Option<Place> {
        self.attachments.get(&id_hash(name)).copied()
    }

    /// A message that model calls share.
    pub fn pooled(&self, number: usize) -> Option<Place> {
        self.pool.get(number).copied()
    }

    /// The verdicts on an action, or on the whole trajectory.
    pub fn verdicts_on(&self, action: Option<u32>) -> &[Verdict] {
        let from = self.verdicts.partition_point(|verdict| key(verdict.action) < key(action));
        let to = self.verdicts.partition_point(|verdict| key(verdict.action) <= key(action));
        // While scores are being read they are not in order.
        self.verdicts.get(from..to).unwrap_or_default()
    }

    /// All verdicts, those on the whole trajectory first, then by action.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The monitor that gave a verdict.
    pub fn monitor(&self, verdict: &Verdict) -> &str {
        self.names.name(verdict.monitor)
    }

    /// The highest suspicion of an action.
    pub fn suspicion(&self, action: u32) -> Option<f32> {
        highest(self.verdicts_on(Some(action)).iter().map(|verdict| verdict.value))
    }

    /// The highest value that the monitors' scale has: 1, 10 or 100, by the highest verdict.
    pub fn suspicion_scale(&self) -> f32 {
        suspicion_scale(highest(self.verdicts.iter().map(|verdict| verdict.value)).unwrap_or(0.0))
    }

    /// The next action behind `after` with a suspicion of at least `least`; from the front when `after` is `None`.
    pub fn next_suspicious(&self, after: Option<u32>, least: f32) -> Option<u32> {
        let from = self.verdicts.partition_point(|verdict| key(verdict.action) <= key(after));
        self.verdicts[from..].iter().find(|verdict| verdict.value >= least)?.action
    }

    /// The last action before `before` with a suspicion of at least `least`; from the end when `before` is `None`.
    pub fn previous_suspicious(&self, before: Option<u32>, least: f32) -> Option<u32> {
        let to = match before {
            Some(_) => self.verdicts.partition_point(|verdict| key(verdict.action) < key(before)),
            None => self.verdicts.len(),
        };
        self.verdicts[..to]
            .iter()
            .rev()
            .find(|verdict| verdict.value >= least && verdict.action.is_some())?
            .action
    }

    /// The scores, in the order of the log.
    pub fn scores(&self) -> &[ScoreEntry] {
        &self.scores
    }

    /// What else the sample holds.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Bytes that the index takes, about.
    pub fn memory_bytes(&self) -> usize {
        fn of<T>(list: &Vec<T>) -> usize {
            list.capacity() * size_of::<T>()
        }
        of(&self.steps)
            + of(&self.calls)
            + of(&self.actions)
            + of(&self.events)
            + of(&self.events_of_steps)
            + of(&self.pool)
            + of(&self.call_pool)
            + of(&self.verdicts)
            + self.attachments.capacity() * (size_of::<(u64, Place)>() + 1)
    }
}

/// The highest value of a scale on which this is the highest verdict given: 1, 10 or 100.
pub fn suspicion_scale(highest: f32) -> f32 {
    match highest {
        highest if highest <= 1.0 => 1.0,
        highest if highest <= 10.0 => 10.0,
        _ => 100.0,
    }
}

/// Orders verdicts: those on the whole trajectory first.
fn key(action: Option<u32>) -> u64 {
    action.map_or(0, |action| u64::from(action) + 1)
}

pub(super) fn by_action(verdict: &Verdict) -> (u64, u32, bool, u32) {
    (key(verdict.action), verdict.monitor, verdict.draft, verdict.draw)
}

fn highest(values: impl Iterator<Item = f32>) -> Option<f32> {
    values.filter(|value| !value.is_nan()).reduce(f32::max)
}
