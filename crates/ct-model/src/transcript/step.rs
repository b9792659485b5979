//! A step, an event, a score as they are shown.

use std::collections::HashSet;
use std::io::Read;

use ct_log::json::{JsonError, Kind, Reader};

use super::index::{Call, EventEntry, Index, Place, Speaker, Step, StepKind, Trait, Verdict, limits};
use super::part::{Cut, Field, Members, Part, PartReader, Parts};
use super::whole;
use crate::ModelUsage;
use crate::convert::{glance, time_ms, usage};

/// Model calls of a step whose tokens are told.
const MODEL_CALLS_SHOWN: usize = 12;
/// Verdicts on an action that are shown.
const VERDICTS_SHOWN: usize = 60;
/// Members of an event that are the same for all kinds, or shown elsewhere.
const COMMON: [&str; 10] = [
    "event",
    "uuid",
    "id_",
    "span_id",
    "timestamp",
    "working_start",
    "pending",
    "completed",
    "working_time",
    "events",
];

/// A step.
#[derive(Debug, Clone, Default)]
pub struct StepView {
    /// From 0. While the index is not complete, numbers may still change.
    pub number: usize,
    /// The role of its message, or what else it is.
    pub role: String,
    /// Who speaks.
    pub speaker: Speaker,
    /// It is a model call that the conversation does not hold.
    pub aside: bool,
    /// What was said.
    pub parts: Parts,
    /// The tools called.
    pub calls: Vec<CallView>,
    /// Calls that are not shown.
    pub calls_left_out: usize,
    /// The model calls that made it.
    pub model_calls: Vec<ModelCall>,
    /// Other events that belong to it: the first of them.
    pub events: Vec<EventView>,
    /// How many events there are besides those shown.
    pub events_left_out: usize,
    /// It is so large that a part of it is left out.
    pub spent: bool,
    /// Its message or event.
    pub place: Place,
}

/// A tool call.
#[derive(Debug, Clone, Default)]
pub struct CallView {
    /// Its number among the actions.
    pub action: Option<u32>,
    /// The tool.
    pub function: String,
    /// What it was given, by name.
    pub arguments: Parts,
    /// Why the arguments could not be understood.
    pub parse_error: Option<Cut>,
    /// What the tool answered.
    pub output: Parts,
    /// The message with it.
    pub answer: Place,
    /// Kind and message of the tool's error.
    pub error: Option<(String, Cut)>,
    /// Milliseconds since the Unix epoch.
    pub began_ms: Option<i64>,
    /// Milliseconds since the Unix epoch.
    pub ended_ms: Option<i64>,
    /// The tool event's number.
    pub event: Option<usize>,
    /// What monitors said: the first of it.
    pub verdicts: Vec<VerdictView>,
    /// The highest of it.
    pub suspicion: Option<f32>,
}

/// A monitor's verdict.
#[derive(Debug, Clone, Default)]
pub struct VerdictView {
    /// The monitor.
    pub monitor: String,
    /// Which draw.
    pub draw: u32,
    /// About a draft.
    pub draft: bool,
    /// Suspicion; absent when the monitor gave none.
    pub value: Option<f32>,
    /// Its reasons.
    pub explanation: Option<Cut>,
}

/// A call of a model.
#[derive(Debug, Clone, Default)]
pub struct ModelCall {
    /// Its event's number.
    pub event: usize,
    /// The model.
    pub model: String,
    /// The role it was called in.
    pub role: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub began_ms: Option<i64>,
    /// Milliseconds since the Unix epoch.
    pub ended_ms: Option<i64>,
    /// Tokens and price.
    pub usage: Option<ModelUsage>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Served from a cache.
    pub cached: bool,
    /// How often it was tried again.
    pub retries: u64,
    /// Why it failed.
    pub error: Option<Cut>,
}

/// Any event.
#[derive(Debug, Clone, Default)]
pub struct EventView {
    /// Its number among the events of the sample.
    pub number: usize,
    /// As the log calls it.
    pub kind: String,
    /// A line about it.
    pub title: String,
    /// How many events it lies in.
    pub depth: u8,
    /// Milliseconds since the Unix epoch.
    pub began_ms: Option<i64>,
    /// Milliseconds since the Unix epoch.
    pub ended_ms: Option<i64>,
    /// Its members.
    pub parts: Parts,
    /// Where it lies.
    pub place: Place,
}

/// What a model was given.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Messages in all.
    pub count: usize,
    /// The first of those shown.
    pub from: usize,
    /// Role and content of each.
    pub messages: Vec<(String, Parts)>,
}

/// A score.
#[derive(Debug, Clone, Default)]
pub struct ScoreView {
    /// The scorer.
    pub name: String,
    /// The value, in one line or as JSON laid out.
    pub value: Option<Cut>,
    /// What was judged.
    pub answer: Option<Cut>,
    /// Why.
    pub explanation: Option<Cut>,
    /// What else there is.
    pub rest: Parts,
    /// Where it lies.
    pub place: Place,
}

impl PartReader<'_> {
    /// A step by its number; `None` behind the last one.
    pub fn step(&self, number: usize) -> Result<Option<StepView>, JsonError> {
        let (step, calls, functions, (model_calls, events), has_conversation) = {
            let index = self.index();
            let Some(step) = index.step(number).copied() else { return Ok(None) };
            let calls: Vec<Call> = index.calls_of(&step).iter().take(self.room.calls).copied().collect();
            let functions: Vec<String> = calls.iter().map(|call| index.function(call).to_owned()).collect();
            let events = split(&index, &step, self.room.calls);
            (step, calls, functions, events, index.has_conversation)
        };
        self.begin(self.room.step_bytes);
        let mut view = StepView {
            number,
            speaker: step.speaker,
            aside: step.kind == StepKind::Model && has_conversation,
            place: step.place,
            calls_left_out: step.calls as usize - calls.len(),
            ..StepView::default()
        };
        for (call, function) in calls.iter().zip(functions) {
            view.calls.push(CallView { function, action: call.action, ..CallView::default() });
        }
        match step.kind {
            StepKind::Message => {
                let mut r = self.reader(step.place)?;
                self.message(&mut r, step.place.offset, &mut view)?;
            }
            StepKind::Input => {
                view.role = "user".to_owned();
                let mut r = self.reader(step.place)?;
                self.content(&mut r, step.place.offset, &mut view.parts)?;
            }
            StepKind::Model => self.model_message(&step, &mut view)?,
            StepKind::Events => "events".clone_into(&mut view.role),
        }
        if view.role.is_empty() {
            view.role = match step.speaker {
                Speaker::System => "system",
                Speaker::User => "user",
                Speaker::Tool => "tool",
                Speaker::Model => "assistant",
            }
            .to_owned();
        }
        for (call, shown) in calls.iter().zip(&mut view.calls) {
            self.complete(call, shown)?;
        }
        view.spent = self.is_spent();
        for event in model_calls {
            view.model_calls.push(self.model_call(event)?);
        }
        let count = events.len();
        let mut taken = 0;
        for event in events.into_iter().take(self.room.events) {
            if taken > self.room.events_bytes {
                break;
            }
            // Each has room of its own.
            view.events.extend(self.event(event)?);
            taken += self.room.event_bytes - self.left();
        }
        view.events_left_out = count - view.events.len();
        Ok(Some(view))
    }

    /// Events of a step beyond those that come with it: from the `from`th on.
    pub fn more_events(&self, step: usize, from: usize, count: usize) -> Result<Vec<EventView>, JsonError> {
        let (_, others) = {
            let index = self.index();
            let Some(step) = index.step(step) else { return Ok(Vec::new()) };
            split(&index, step, self.room.calls)
        };
        others.into_iter().skip(from).take(count).filter_map(|event| self.event(event).transpose()).collect()
    }

    fn message<R: Read>(&self, r: &mut Reader<R>, base: u64, view: &mut StepView) -> Result<(), JsonError> {
        let mut reasoning = Parts::new();
        let mut failure = (None, None);
        let mut rest = Members::default();
        if r.peek()? != Kind::Object {
            return self.content(r, base, &mut view.parts);
        }
        r.object(|key, r| {
            match key {
                "role" => view.role = glance(r, limits::NAME_CHARS_MAX, str::to_owned)?.unwrap_or_default(),
                "content" => self.content(r, base, &mut view.parts)?,
                // Between 0.3.62 and 0.3.70 reasoning was a field of its own.
                "reasoning" => {
                    if let Some(Field::Text(text)) = self.field(r, base)? {
                        reasoning.push(Part::Reasoning { text, redacted: false });
                    }
                }
                "tool_calls" => {
                    let mut number = 0;
                    r.array(|_, r| {
                        // As the index counts them.
                        if r.peek()? == Kind::Object {
                            if let Some(call) = view.calls.get_mut(number) {
                                self.call(r, base, call)?;
                            }
                            number += 1;
                        }
                        Ok::<_, JsonError>(())
                    })?;
                }
                "error" => failure = self.error(r, base)?,
                "id" | "source" | "model" | "tool_call_id" => {}
                _ => self.member(key, r, base, &mut rest)?,
            }
            Ok::<_, JsonError>(())
        })?;
        if !reasoning.is_empty() {
            reasoning.append(&mut view.parts);
            view.parts = reasoning;
        }
        if let (kind, Some(message)) = failure {
            let name = kind.map_or_else(|| "error".to_owned(), |kind| format!("error: {kind}"));
            view.parts.push(Field::Text(message).into_part(name));
        }
        view.parts.extend(rest.into_parts());
        Ok(())
    }

    /// Kind and message of an error.
    fn error<R: Read>(
        &self,
        r: &mut Reader<R>,
        base: u64,
    ) -> Result<(Option<String>, Option<Cut>), JsonError> {
        if r.peek()? != Kind::Object {
            return Ok((None, self.field(r, base)?.map(cut_of)));
        }
        let (mut kind, mut message) = (None, None);
        r.fields(&["type", "message"], |key, r| {
            match key {
                "type" => kind = glance(r, limits::NAME_CHARS_MAX, str::to_owned)?,
                _ => message = self.field(r, base)?.map(cut_of),
            }
            Ok::<_, JsonError>(())
        })?;
        Ok((kind, Some(message.unwrap_or_default())))
    }

    fn call<R: Read>(&self, r: &mut Reader<R>, base: u64, call: &mut CallView) -> Result<(), JsonError> {
        r.fields(&["arguments", "parse_error", "view"], |key, r| {
            match key {
                "arguments" => call.arguments = self.named(r, base, "arguments")?,
                "parse_error" => {
                    call.parse_error = self.field(r, base)?.map(cut_of);
                }
                _ => {}
            }
            Ok::<_, JsonError>(())
        })
    }

    /// The members of an object by name, or the value itself.
    fn named<R: Read>(&self, r: &mut Reader<R>, base: u64, name: &str) -> Result<Parts, JsonError> {
        Ok(match r.peek()? {
            Kind::Object => {
                self.members(r, base, &[])?.into_iter().map(|(name, field)| field.into_part(name)).collect()
            }
            _ => self.field(r, base)?.map(|field| field.into_part(name.to_owned())).into_iter().collect(),
        })
    }

    /// What the tool answered, when, and what monitors said.
    fn complete(&self, call: &Call, shown: &mut CallView) -> Result<(), JsonError> {
        if !call.output.is_empty() && !self.is_spent() {
            let mut r = self.reader(call.output)?;
            let base = call.output.offset;
            let mut rest = Members::default();
            r.object(|key, r| {
                match key {
                    "content" => self.content(r, base, &mut shown.output)?,
                    "error" => {
                        if let (kind, Some(message)) = self.error(r, base)? {
                            shown.error = Some((kind.unwrap_or_else(|| "error".to_owned()), message));
                        }
                    }
                    // Told by the call, or in the raw JSON alone.
                    "role" | "function" | "tool_call_id" | "id" | "source" | "model" => {}
                    _ => self.member(key, r, base, &mut rest)?,
                }
                Ok::<_, JsonError>(())
            })?;
            shown.output.extend(rest.into_parts());
        }
        shown.answer = call.output;
        let event = {
            let index = self.index();
            index.tool_event(call).and_then(|number| Some((number, index.event(number)?.place)))
        };
        if let Some((number, place)) = event {
            shown.event = Some(number);
            let mut r = self.reader(place)?;
            let without_message = call.output.is_empty();
            r.fields(&["timestamp", "completed", "result", "error", "arguments"], |key, r| {
                match key {
                    "timestamp" => shown.began_ms = glance(r, 64, time_ms)?.flatten(),
                    "completed" => shown.ended_ms = glance(r, 64, time_ms)?.flatten(),
                    "arguments" if shown.arguments.is_empty() => {
                        shown.arguments = self.named(r, place.offset, "arguments")?;
                    }
                    "result" if without_message => self.content(r, place.offset, &mut shown.output)?,
                    "error" if without_message => {
                        if let (kind, Some(message)) = self.error(r, place.offset)? {
                            shown.error = Some((kind.unwrap_or_else(|| "error".to_owned()), message));
                        }
                    }
                    _ => {}
                }
                Ok::<_, JsonError>(())
            })?;
        }
        if let Some(action) = call.action {
            shown.verdicts = if self.is_spent() { Vec::new() } else { self.verdicts(Some(action))? };
            shown.suspicion = self.index().suspicion(action);
        }
        Ok(())
    }

    /// What monitors said about an action, or about the whole trajectory.
    pub fn verdicts(&self, action: Option<u32>) -> Result<Vec<VerdictView>, JsonError> {
        let found: Vec<(Verdict, String)> = {
            let index = self.index();
            let verdicts = index.verdicts_on(action).iter().take(VERDICTS_SHOWN);
            verdicts.map(|verdict| (*verdict, index.monitor(verdict).to_owned())).collect()
        };
        found
            .into_iter()
            .map(|(verdict, monitor)| {
                let explanation = (!verdict.explanation.is_empty())
                    .then(|| self.resolved(verdict.explanation))
                    .transpose()?;
                Ok(VerdictView {
                    monitor,
                    draw: verdict.draw,
                    draft: verdict.draft,
                    value: (!verdict.value.is_nan()).then_some(verdict.value),
                    explanation,
                })
            })
            .collect()
    }

    /// What a model call that the conversation does not hold gave.
    fn model_message(&self, step: &Step, view: &mut StepView) -> Result<(), JsonError> {
        let mut r = self.reader(step.place)?;
        let base = step.place.offset;
        r.fields(&["output"], |_, r| {
            r.fields(&["choices"], |_, r| {
                r.array(|index, r| {
                    if index > 0 {
                        return Ok(());
                    }
                    r.fields(&["message"], |_, r| self.message(r, base, view))
                })
            })
        })
    }

    /// A model event in short.
    pub fn model_call(&self, number: usize) -> Result<ModelCall, JsonError> {
        let mut call = ModelCall { event: number, ..ModelCall::default() };
        let Some(place) = self.index().event(number).map(|event| event.place) else { return Ok(call) };
        let mut r = self.reader(place)?;
        const FIELDS: [&str; 8] =
            ["model", "role", "timestamp", "completed", "output", "cache", "retries", "error"];
        r.fields(&FIELDS, |key, r| {
            let name = |r: &mut Reader<_>| glance(r, limits::NAME_CHARS_MAX, str::to_owned);
            match key {
                "model" => call.model = name(r)?.unwrap_or_default(),
                "role" => call.role = name(r)?,
                "timestamp" => call.began_ms = glance(r, 64, time_ms)?.flatten(),
                "completed" => call.ended_ms = glance(r, 64, time_ms)?.flatten(),
                "cache" => call.cached = name(r)?.as_deref() == Some("read"),
                "retries" => call.retries = r.number()?.map_or(0, |n| n as u64),
                "error" => call.error = self.field(r, place.offset)?.map(cut_of),
                _ => r.fields(&["usage", "choices", "error"], |key, r| match key {
                    "usage" => {
                        if r.peek()? == Kind::Object {
                            call.usage = Some(usage(r)?);
                        }
                        Ok(())
                    }
                    "error" => {
                        if let Some(error) = self.field(r, place.offset)? {
                            call.error = Some(cut_of(error));
                        }
                        Ok::<_, JsonError>(())
                    }
                    _ => r.array(|index, r| {
                        if index > 0 {
                            return Ok(());
                        }
                        r.fields(&["stop_reason"], |_, r| {
                            call.stop_reason = glance(r, limits::NAME_CHARS_MAX, str::to_owned)?;
                            Ok::<_, JsonError>(())
                        })
                    }),
                })?,
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(call)
    }

    /// An event by its number; `None` behind the last one.
    pub fn event(&self, number: usize) -> Result<Option<EventView>, JsonError> {
        let (entry, kind): (EventEntry, String) = {
            let index = self.index();
            let Some(entry) = index.event(number) else { return Ok(None) };
            (*entry, index.kind(entry).to_owned())
        };
        self.begin(self.room.event_bytes);
        let base = entry.place.offset;
        let mut view =
            EventView { number, kind, depth: entry.depth, place: entry.place, ..EventView::default() };
        let mut r = self.reader(entry.place)?;
        if r.peek()? != Kind::Object {
            view.parts.extend(self.field(&mut r, base)?.map(|field| field.into_part("event".to_owned())));
            return Ok(Some(view));
        }
        let mut members = Members::default();
        r.object(|key, r| {
            match key {
                "timestamp" => view.began_ms = glance(r, 64, time_ms)?.flatten(),
                "completed" => view.ended_ms = glance(r, 64, time_ms)?.flatten(),
                _ if COMMON.contains(&key) => {}
                _ => self.member(key, r, base, &mut members)?,
            }
            Ok::<_, JsonError>(())
        })?;
        view.title = title(&view.kind, members.fields());
        view.parts = members.into_parts().collect();
        Ok(Some(view))
    }

    /// What a model call was given, from the `from`th message on.
    pub fn input(&self, event: usize, from: usize, count: usize) -> Result<Input, JsonError> {
        self.begin(self.room.step_bytes);
        let mut input = Input { from, ..Input::default() };
        let Some(place) = self.index().event(event).map(|event| event.place) else { return Ok(input) };
        let mut r = self.reader(place)?;
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        r.fields(&["input", "input_refs"], |key, r| {
            match key {
                "input" if r.peek()? == Kind::String => {
                    let mut parts = Parts::new();
                    self.content(r, place.offset, &mut parts)?;
                    input.count = 1;
                    input.messages.push(("user".to_owned(), parts));
                }
                "input" => r.array(|number, r| {
                    input.count = input.count.max(number + 1);
                    if number >= from && input.messages.len() < count {
                        input.messages.push(self.role_and_content(r, place.offset)?);
                    }
                    Ok::<_, JsonError>(())
                })?,
                _ => ranges = whole::ranges(r)?,
            }
            Ok::<_, JsonError>(())
        })?;
        let pool = self.index().pool.len();
        for (begin, end) in ranges {
            let (begin, end) = (begin.min(pool), end.min(pool));
            for number in begin..end.max(begin) {
                if input.count >= from && input.messages.len() < count {
                    let place = self.index().pooled(number);
                    if let Some(place) = place {
                        input.messages.push(self.role_and_content(&mut self.reader(place)?, place.offset)?);
                    }
                }
                input.count += 1;
            }
        }
        Ok(input)
    }

    fn role_and_content<R: Read>(&self, r: &mut Reader<R>, base: u64) -> Result<(String, Parts), JsonError> {
        let mut view = StepView { calls: Vec::new(), ..StepView::default() };
        let mut calls = Parts::new();
        r.object(|key, r| {
            match key {
                "role" => view.role = glance(r, limits::NAME_CHARS_MAX, str::to_owned)?.unwrap_or_default(),
                "content" => self.content(r, base, &mut view.parts)?,
                "tool_calls" => {
                    calls.extend(self.field(r, base)?.map(|field| field.into_part("tool_calls".to_owned())));
                }
                "error" => {
                    calls.extend(self.field(r, base)?.map(|field| field.into_part("error".to_owned())))
                }
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        view.parts.append(&mut calls);
        Ok((view.role, view.parts))
    }

    /// A score by its number.
    pub fn score(&self, number: usize) -> Result<Option<ScoreView>, JsonError> {
        let Some(entry) = self.index().scores().get(number).cloned() else { return Ok(None) };
        self.begin(self.room.event_bytes);
        let mut view = ScoreView { name: entry.name, place: entry.place, ..ScoreView::default() };
        let mut r = self.reader(entry.place)?;
        let base = entry.place.offset;
        if r.peek()? != Kind::Object {
            view.value = self.field(&mut r, base)?.map(cut_of);
            return Ok(Some(view));
        }
        for (name, field) in self.members(&mut r, base, &["history"])? {
            match name.as_str() {
                "value" => view.value = Some(cut_of(field)),
                "answer" => view.answer = Some(cut_of(field)),
                "explanation" => view.explanation = Some(cut_of(field)),
                _ if field.as_str().is_empty() => {}
                _ => view.rest.push(field.into_part(name)),
            }
        }
        Ok(Some(view))
    }

    /// A member of the sample that is not part of the conversation.
    pub fn section(&self, name: &str) -> Result<Option<Part>, JsonError> {
        let place =
            self.index().sections().iter().find(|section| section.name == name).map(|section| section.place);
        let Some(place) = place else { return Ok(None) };
        let mut r = self.reader(place)?;
        Ok(self
            .field(&mut r, place.offset)?
            .filter(|field| !field.as_str().is_empty())
            .map(|field| field.into_part(name.to_owned())))
    }
}

/// The events of a step: the model calls that are told in short, and the others. Those of tool calls that are shown are
/// told with these.
fn split(index: &Index, step: &Step, calls_shown: usize) -> (Vec<usize>, Vec<usize>) {
    let calls = index.calls_of(step).iter().take(calls_shown);
    let told: HashSet<usize> = calls.filter_map(|call| index.tool_event(call)).collect();
    let (mut model_calls, mut others) = (Vec::new(), Vec::new());
    for event in index.events_of(step).iter().map(|event| *event as usize) {
        if told.contains(&event) {
            continue;
        }
        if model_calls.len() < MODEL_CALLS_SHOWN && index.is_model_call(event) {
            model_calls.push(event);
        } else {
            others.push(event);
        }
    }
    (model_calls, others)
}

fn cut_of(field: Field) -> Cut {
    match field {
        Field::Text(cut) | Field::Json(cut) => cut,
        Field::Scalar(text) => Cut { size_bytes: text.len() as u64, text, ..Cut::default() },
    }
}

/// A line about an event, from what its kind has to say.
fn title(kind: &str, fields: &[(String, Field)]) -> String {
    let get = |name: &str| {
        let field = &fields.iter().find(|(key, _)| key == name)?.1;
        Some(field.as_str().chars().take(160).collect::<String>()).filter(|text| !text.is_empty())
    };
    let names: &[&str] = match kind {
        "span_begin" => &["type", "name"],
        "step" => &["action", "type", "name"],
        "sandbox" => &["action", "cmd", "file", "result"],
        "tool" => &["function"],
        "score" => &["scorer"],
        "score_edit" => &["score_name"],
        "info" => &["source"],
        "approval" | "review" => &["decision", "approver", "reviewer"],
        "sample_limit" => &["type", "message"],
        "subtask" => &["type", "name"],
        "input" => &["message"],
        "interrupt" => &["source", "interrupted"],
        "compaction" => &["type", "source", "tokens_before", "tokens_after"],
        "checkpoint" => &["trigger", "checkpoint_id"],
        "anchor" => &["source", "anchor_id"],
        "branch" => &["from_anchor"],
        "sentinel" => &["factory", "stage", "action"],
        _ => &[],
    };
    names.iter().filter_map(|name| get(name)).collect::<Vec<_>>().join(" · ")
}

impl Index {
    /// Whether an event is a model call.
    pub fn is_model_call(&self, event: usize) -> bool {
        self.event(event)
            .is_some_and(|event| matches!(event.trait_, Trait::Model | Trait::Draft | Trait::Aside))
    }
}
