//! The one pass over a sample's JSON.
//!
//! Neither the conversation nor the events are built: of a message only the names of its tool calls and the first
//! characters of its content are looked at, of an event only its times and, for model calls, tokens and price. All
//! other values are skipped without an allocation. The members of a sample may come in any order; what refers to
//! attachments is resolved at the end.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use ct_log::json::{self, JsonError, Kind, Reader};
use serde_json::{Map, Value};

use super::sample::limits::{
    ATTACHMENT_HEADS_MAX, ERROR_CHARS_MAX, EVENT_DEPTH_MAX, EXPLANATION_CHARS_MAX, FIELD_BYTES_MAX,
    METADATA_BYTES_MAX, MODEL_CALL_GROUPS_MAX, NAME_CHARS_MAX, NOTES_MAX, OPEN_SCORERS_MAX,
    OTHER_METADATA_BYTES_MAX, OUTPUT_CHARS, SCORES_BYTES_MAX, SCORES_MAX, TOOL_CALLS_MAX, UNPRICED_CALLS_MAX,
    USAGE_BYTES_MAX,
};
use super::sample::{CallTokens, ModelCalls, SampleFacts, SampleNote, ScoreFacts, ToolCall, verdict_score};
use super::value::{get_text, number, object, text, time_ms, unbox};
use crate::{ModelUsage, billed_output_tokens};

/// Metadata members that the conversion reads. Others are kept only when they are small.
const NEEDED_METADATA: [&str; 20] = [
    "environment",
    "main_tasks",
    "main_task",
    "side_tasks",
    "side_task",
    "main_task_name",
    "side_task_name",
    "main_task_description",
    "side_task_description",
    "setting_name",
    "eval_mode",
    "task_name",
    "task_family",
    "trajectory_id",
    "traj_metadata",
    "metadata",
    "policy",
    "challenge_metadata",
    "eval_name",
    "traj_monitor_result",
];

/// Where the first characters of a content are.
#[derive(Debug, Clone)]
enum Head {
    Here(String),
    Attachment(String),
}

impl Head {
    /// From the beginning of a content; long enough to hold a whole reference.
    fn of(content: &str) -> Self {
        let reference =
            ["attachment://", "tc://"].into_iter().find_map(|scheme| content.strip_prefix(scheme));
        match reference {
            Some(key) if content.chars().count() < CONTENT_CHARS && !key.is_empty() => {
                Self::Attachment(key.to_owned())
            }
            _ => Self::Here(first_chars(content)),
        }
    }
}

/// Characters of a content that are looked at: more than the longest reference.
const CONTENT_CHARS: usize = 65;

fn first_chars(text: &str) -> String {
    let end = text.char_indices().nth(OUTPUT_CHARS).map_or(text.len(), |(at, _)| at);
    text[..end].to_owned()
}

/// A tool call whose output may still lie in an attachment.
struct OpenCall {
    function: String,
    output: Option<Head>,
}

/// Whose a message is, by its role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Speaker {
    Tool,
    /// A system or a user, who calls no tools.
    Asker,
    #[default]
    Model,
}

impl Speaker {
    fn of(role: &str) -> Self {
        match role {
            "tool" => Self::Tool,
            "system" | "user" => Self::Asker,
            _ => Self::Model,
        }
    }
}

/// The kinds of event that are told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EventKind {
    /// Not known yet.
    #[default]
    Unknown,
    Model,
    SpanBegin,
    SpanEnd,
    Step,
    Other,
}

impl EventKind {
    fn of(name: &str) -> Self {
        match name {
            "" => Self::Unknown,
            "model" => Self::Model,
            "span_begin" => Self::SpanBegin,
            "span_end" => Self::SpanEnd,
            "step" => Self::Step,
            _ => Self::Other,
        }
    }
}

/// Parts of an event. A text that is not there is empty.
#[derive(Default)]
struct Event {
    kind: EventKind,
    kind_of_type: String,
    id: String,
    name: String,
    action: String,
    model: String,
    role: String,
    cached: bool,
    usage: Option<ModelUsage>,
    began_ms: Option<i64>,
    ended_ms: Option<i64>,
}

impl Event {
    /// As new, but for the memory of its texts.
    fn cleared(mut self) -> Self {
        let Self { kind_of_type, id, name, action, model, role, .. } = &mut self;
        let texts = [kind_of_type, id, name, action, model, role].map(|text| {
            text.clear();
            std::mem::take(text)
        });
        let [kind_of_type, id, name, action, model, role] = texts;
        Self { kind_of_type, id, name, action, model, role, ..Self::default() }
    }
}

/// Members of an event that are looked at.
const EVENT_FIELDS: [&str; 12] = [
    "event",
    "timestamp",
    "completed",
    "type",
    "id",
    "name",
    "action",
    "model",
    "role",
    "cache",
    "output",
    "events",
];

/// Metadata of a message in which monitors of old left their verdicts.
const VERDICT_FIELDS: [&str; 6] = [
    "is_monitor_result",
    "monitor_result",
    "sus_score",
    "traj_monitor_result",
    "monitor_results_by_tool_call",
    "tool_call_monitor_results",
];

/// The state of a pass over a sample.
#[derive(Default)]
pub(super) struct Pass {
    facts: SampleFacts,
    calls: Vec<OpenCall>,
    call_count: u64,
    /// Latest call of each id.
    call_ids: HashMap<String, usize>,
    /// Calls of the final output.
    output_calls: Vec<(String, String)>,
    /// The messages have been read, so that it is known which attachments are needed.
    messages_read: bool,
    needed: HashSet<String>,
    heads: HashMap<String, String>,
    unpriced_calls: usize,
    /// Scorers at work: span id, name, begin.
    scorers: Vec<(String, String, i64)>,
    /// An event whose memory is used again.
    spare_event: Event,
}

impl Pass {
    pub(super) fn over<R: Read>(reader: &mut Reader<R>) -> Result<SampleFacts, JsonError> {
        let mut pass = Self::default();
        // Hand-made logs leave the epoch out.
        pass.facts.epoch = 1;
        reader.object(|key, r| pass.member(key, r))?;
        Ok(pass.finish())
    }

    fn note(&mut self, note: SampleNote) {
        if self.facts.notes.len() < NOTES_MAX && !self.facts.notes.contains(&note) {
            self.facts.notes.push(note);
        }
    }

    /// A value of limited size; null when it is larger or cannot be parsed.
    fn small<R: Read>(
        &mut self,
        r: &mut Reader<R>,
        field: &str,
        bytes_max: usize,
    ) -> Result<Value, JsonError> {
        let Some(raw) = r.raw(bytes_max)? else {
            self.note(SampleNote::TooLarge { field: field.to_owned(), bytes_max });
            return Ok(Value::Null);
        };
        Ok(json::parse(&raw).unwrap_or_else(|_| {
            self.note(SampleNote::Unreadable { field: field.to_owned() });
            Value::Null
        }))
    }

    fn member<R: Read>(&mut self, key: &str, r: &mut Reader<R>) -> Result<(), JsonError> {
        match key {
            "id" => self.sample_id(r)?,
            "epoch" => {
                let epoch = self.small(r, key, FIELD_BYTES_MAX)?;
                self.facts.epoch = whole_number(&epoch).unwrap_or(1);
            }
            "uuid" => self.facts.uuid = short_text(r, NAME_CHARS_MAX)?,
            "description" => self.facts.description = short_text(r, EXPLANATION_CHARS_MAX)?,
            "metadata" => self.metadata(r)?,
            "score" => self.score("", r, &mut { SCORES_BYTES_MAX })?,
            "scores" => {
                let mut bytes_left = SCORES_BYTES_MAX;
                r.object(|name, r| self.score(name, r, &mut bytes_left))?;
            }
            "model_usage" => {
                let usage = self.small(r, key, USAGE_BYTES_MAX)?;
                self.facts.model_usage = object(&usage).cloned().unwrap_or_default();
            }
            "error" => self.facts.error = error_message(r)?,
            "error_retries" => r.array(|_, _| {
                self.facts.error_retries += 1;
                Ok::<_, JsonError>(())
            })?,
            "limit" => {
                let limit = self.small(r, key, FIELD_BYTES_MAX)?;
                let kind = object(&limit).map_or_else(|| text(&limit), |limit| get_text(limit, "type"));
                self.facts.limit = kind.map(str::to_owned);
            }
            "started_at" => self.facts.started_at_ms = time(r)?,
            "completed_at" => self.facts.completed_at_ms = time(r)?,
            "total_time" => self.facts.total_time = number(&self.small(r, key, FIELD_BYTES_MAX)?),
            "working_time" => self.facts.working_time = number(&self.small(r, key, FIELD_BYTES_MAX)?),
            "messages" => {
                r.array(|_, r| self.message(r))?;
                self.messages_read = true;
            }
            "output" => self.output(r)?,
            "events" => r.array(|_, r| self.event(r, 0))?,
            "attachments" if self.messages_read && self.needed.is_empty() => {}
            "attachments" => r.object(|key, r| self.attachment(key, r))?,
            // Logs from before 0.3.43 keep events and attachments here.
            "transcript" => r.object(|key, r| match key {
                "events" => r.array(|_, r| self.event(r, 0)),
                "content" => r.object(|key, r| self.attachment(key, r)),
                _ => Ok(()),
            })?,
            _ => {}
        }
        Ok(())
    }

    fn sample_id<R: Read>(&mut self, r: &mut Reader<R>) -> Result<(), JsonError> {
        let Some(raw) = r.raw(FIELD_BYTES_MAX)? else {
            self.note(SampleNote::TooLarge { field: "id".to_owned(), bytes_max: FIELD_BYTES_MAX });
            return Ok(());
        };
        let id = json::parse(&raw).unwrap_or_default();
        let id = unbox(&id);
        self.facts.id_is_number = id.is_number();
        self.facts.id = match id {
            Value::String(text) => text.clone(),
            // As written: an integer may be longer than a machine's.
            Value::Number(_) => {
                String::from_utf8_lossy(&raw).trim_matches(['[', ']', ' ', '\n', '\r', '\t']).to_owned()
            }
            _ => String::new(),
        };
        Ok(())
    }

    fn metadata<R: Read>(&mut self, r: &mut Reader<R>) -> Result<(), JsonError> {
        let mut bytes_left = METADATA_BYTES_MAX;
        r.object(|key, r| {
            let needed = NEEDED_METADATA.contains(&key);
            let begin = r.offset();
            let value = if needed {
                self.small(r, &format!("metadata.{key}"), bytes_left)?
            } else {
                match r.raw(OTHER_METADATA_BYTES_MAX.min(bytes_left))? {
                    Some(raw) => json::parse(&raw).unwrap_or_default(),
                    None => return Ok(()),
                }
            };
            if !value.is_null() {
                let size =
                    usize::try_from(r.offset() - begin).unwrap_or(usize::MAX).saturating_add(key.len());
                bytes_left = bytes_left.saturating_sub(size);
                self.facts.metadata.insert(key.to_owned(), value);
            }
            Ok::<_, JsonError>(())
        })
    }

    fn score<R: Read>(
        &mut self,
        name: &str,
        r: &mut Reader<R>,
        bytes_left: &mut usize,
    ) -> Result<(), JsonError> {
        if self.facts.scores.len() == SCORES_MAX {
            self.note(SampleNote::TooMany { what: "scores", kept: SCORES_MAX });
            return Ok(());
        }
        let mut score = ScoreFacts { name: name.to_owned(), ..ScoreFacts::default() };
        let mut unscored_reason = None;
        if r.peek()? == Kind::Null {
            return Ok(());
        }
        r.fields(&["value", "explanation", "reason", "metadata"], |key, r| {
            match key {
                "value" => {
                    let begin = r.offset();
                    score.value = self.small(r, &format!("scores.{name}.value"), *bytes_left)?;
                    let size = usize::try_from(r.offset() - begin).unwrap_or(usize::MAX);
                    // A value that was too large was not kept.
                    if size <= *bytes_left {
                        *bytes_left -= size;
                    }
                }
                "explanation" => score.explanation = short_text(r, EXPLANATION_CHARS_MAX)?,
                "reason" => score.reason = short_text(r, EXPLANATION_CHARS_MAX)?,
                "metadata" => r.fields(&["landed_at", "unscored_reason"], |key, r| {
                    match key {
                        "landed_at" => {
                            let landed_at = self.small(r, key, FIELD_BYTES_MAX)?;
                            score.landed_at = Some(number(&landed_at).map(|n| n as i64));
                        }
                        "unscored_reason" => unscored_reason = short_text(r, EXPLANATION_CHARS_MAX)?,
                        _ => {}
                    }
                    Ok::<_, JsonError>(())
                })?,
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        score.reason = score.reason.or(unscored_reason);
        self.facts.scores.push(score);
        Ok(())
    }

    fn message<R: Read>(&mut self, r: &mut Reader<R>) -> Result<(), JsonError> {
        let mut speaker = Speaker::default();
        let mut content = None;
        let mut error = None;
        let mut answers = None;
        let mut calls = Vec::new();
        let mut is_verdict = false;
        r.fields(&["role", "content", "tool_calls", "tool_call_id", "error", "metadata"], |key, r| {
            match key {
                "role" => speaker = glance(r, NAME_CHARS_MAX, Speaker::of)?.unwrap_or_default(),
                "content" => content = content_head(r)?,
                "tool_calls" => read_calls(r, &mut calls)?,
                "tool_call_id" => {
                    answers = glance(r, NAME_CHARS_MAX, |id| self.call_ids.get(id).copied())?.flatten();
                }
                "error" => error = error_message(r)?,
                "metadata" => is_verdict = self.message_metadata(r)?,
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        self.facts.message_count += 1;
        match speaker {
            Speaker::Tool => {
                let Some(at) = answers else { return Ok(()) };
                let head = match content {
                    Some(Head::Here(text)) if text.is_empty() => None,
                    other => other,
                };
                if let Some(Head::Attachment(key)) = &head {
                    self.needed.insert(key.clone());
                }
                // An error without output has its message instead.
                self.calls[at].output =
                    head.or_else(|| error.map(|message| Head::Here(first_chars(&message))));
            }
            Speaker::Asker => {}
            Speaker::Model if is_verdict => {}
            Speaker::Model => {
                for (id, function) in calls {
                    self.call(id, function);
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, id: String, function: String) {
        self.call_count += 1;
        if self.calls.len() == TOOL_CALLS_MAX {
            self.note(SampleNote::TooMany { what: "tool calls", kept: TOOL_CALLS_MAX });
            return;
        }
        if !id.is_empty() {
            self.call_ids.insert(id, self.calls.len());
        }
        self.calls.push(OpenCall { function, output: None });
    }

    /// Collects verdicts of old monitors; true when the turn is one itself.
    fn message_metadata<R: Read>(&mut self, r: &mut Reader<R>) -> Result<bool, JsonError> {
        let mut is_verdict = false;
        r.fields(&VERDICT_FIELDS, |key, r| {
            match key {
                "is_monitor_result" => is_verdict |= r.boolean()? == Some(true),
                "monitor_result" | "sus_score" | "traj_monitor_result" => {
                    let verdict = self.small(r, key, FIELD_BYTES_MAX)?;
                    if !verdict.is_null() {
                        self.facts.verdicts.add(verdict_score(&verdict));
                    }
                }
                "monitor_results_by_tool_call" | "tool_call_monitor_results" => {
                    let verdicts = self.small(r, key, FIELD_BYTES_MAX)?;
                    for verdict in object(&verdicts).into_iter().flat_map(Map::values) {
                        self.facts.verdicts.add(verdict_score(verdict));
                    }
                }
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(is_verdict)
    }

    fn output<R: Read>(&mut self, r: &mut Reader<R>) -> Result<(), JsonError> {
        r.fields(&["choices"], |_, r| {
            r.array(|index, r| {
                self.facts.has_output = true;
                if index > 0 {
                    return Ok(());
                }
                r.fields(&["message"], |_, r| {
                    r.fields(&["tool_calls"], |_, r| read_calls(r, &mut self.output_calls))
                })
            })
        })
    }

    fn attachment<R: Read>(&mut self, key: &str, r: &mut Reader<R>) -> Result<(), JsonError> {
        if self.messages_read && !self.needed.contains(key) {
            return Ok(());
        }
        if self.heads.len() == ATTACHMENT_HEADS_MAX {
            self.note(SampleNote::TooMany { what: "attachments", kept: ATTACHMENT_HEADS_MAX });
            return Ok(());
        }
        if let Some(head) = r.text(OUTPUT_CHARS)? {
            self.heads.insert(key.to_owned(), head.text);
        }
        Ok(())
    }

    fn event<R: Read>(&mut self, r: &mut Reader<R>, depth: usize) -> Result<(), JsonError> {
        let mut event = std::mem::take(&mut self.spare_event).cleared();
        r.fields(&EVENT_FIELDS, |key, r| {
            // Writers put the kind first. Once it is known, what other kinds are asked for is passed over.
            use EventKind::{Model, SpanBegin, SpanEnd, Step, Unknown};
            let kind = event.kind;
            let of_span = || matches!(kind, Unknown | SpanBegin | SpanEnd | Step);
            let of_model = || matches!(kind, Unknown | Model);
            match key {
                "event" => event.kind = glance(r, NAME_CHARS_MAX, EventKind::of)?.unwrap_or_default(),
                "type" | "id" | "name" | "action" if !of_span() => {}
                "model" | "role" | "cache" | "output" if !of_model() => {}
                "type" => set(&mut event.kind_of_type, r)?,
                "id" => set(&mut event.id, r)?,
                "name" => set(&mut event.name, r)?,
                "action" => set(&mut event.action, r)?,
                "model" => set(&mut event.model, r)?,
                "role" => set(&mut event.role, r)?,
                "cache" => event.cached = glance(r, NAME_CHARS_MAX, |cache| cache == "read")? == Some(true),
                "timestamp" => event.began_ms = time(r)?,
                "completed" => event.ended_ms = time(r)?,
                "output" => r.fields(&["usage"], |_, r| {
                    if r.peek()? == Kind::Object {
                        event.usage = Some(usage(r)?);
                    }
                    Ok::<_, JsonError>(())
                })?,
                // Old tool and subtask events hold the events of their call.
                "events" if depth < EVENT_DEPTH_MAX => r.array(|_, r| self.event(r, depth + 1))?,
                "events" => {
                    self.note(SampleNote::TooMany { what: "levels of events", kept: EVENT_DEPTH_MAX })
                }
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        for at in [event.began_ms, event.ended_ms].into_iter().flatten() {
            self.facts.first_event_ms = Some(self.facts.first_event_ms.map_or(at, |first| first.min(at)));
            self.facts.last_event_ms = Some(self.facts.last_event_ms.map_or(at, |last| last.max(at)));
        }
        match (event.kind, event.began_ms) {
            (EventKind::Model, _) => self.model_call(&event),
            (EventKind::SpanBegin, Some(at)) if event.kind_of_type == "scorer" => {
                self.scorer_began(&event.id, &event.name, at);
            }
            (EventKind::SpanEnd, Some(at)) => self.scorer_ended(&event.id, at),
            (EventKind::Step, Some(at)) if event.kind_of_type == "scorer" => match event.action.as_str() {
                "begin" => self.scorer_began(&event.name, &event.name, at),
                "end" => self.scorer_ended(&event.name, at),
                _ => {}
            },
            _ => {}
        }
        self.spare_event = event;
        Ok(())
    }

    fn scorer_began(&mut self, id: &str, name: &str, at: i64) {
        let room = self.scorers.len() < OPEN_SCORERS_MAX && self.facts.scorer_ms.len() < SCORES_MAX;
        if room && !id.is_empty() && !name.is_empty() {
            self.scorers.push((id.to_owned(), name.to_owned(), at));
        }
    }

    fn scorer_ended(&mut self, id: &str, at: i64) {
        let Some(open) = self.scorers.iter().rposition(|(open, ..)| open == id) else { return };
        let (_, name, began) = self.scorers.remove(open);
        self.facts.scorer_ms.insert(name, Value::from(at.saturating_sub(began)));
    }

    fn model_call(&mut self, event: &Event) {
        let Event { model, role, .. } = event;
        if model.is_empty() {
            return;
        }
        let untrusted = role == "untrusted";
        if untrusted && (model.starts_with("eval/") || model.starts_with("eval2/")) {
            // The seat of the policy: it emits again what was called, and paid for, in another role.
            return;
        }
        let models = &mut self.facts.untrusted_models;
        if (untrusted || role == "hidden_untrusted")
            && models.len() < MODEL_CALL_GROUPS_MAX
            && !models.contains(model)
        {
            models.insert(model.clone());
        }
        if event.usage.is_none() && !event.cached {
            return;
        }
        let role = Some(role).filter(|role| !role.is_empty());
        let groups = &mut self.facts.model_calls;
        let at = match groups.iter().position(|group| group.role.as_ref() == role && group.model == *model) {
            Some(at) => at,
            None if groups.len() == MODEL_CALL_GROUPS_MAX => {
                return self
                    .note(SampleNote::TooMany { what: "roles and models", kept: MODEL_CALL_GROUPS_MAX });
            }
            None => {
                let (role, model) = (role.cloned(), model.clone());
                groups.push(ModelCalls { role, model, ..ModelCalls::default() });
                groups.len() - 1
            }
        };
        let group = &mut groups[at];
        let usage = event.usage.clone().unwrap_or_default();
        let billed_output = billed_output_tokens(&usage);
        if event.cached {
            group.recorded_usd = Some(group.recorded_usd.unwrap_or(0.0));
        } else if let Some(cost) = usage.total_cost {
            group.recorded_usd = Some(group.recorded_usd.unwrap_or(0.0) + cost);
        } else if usage.input_tokens.is_some()
            && (usage.output_tokens.is_none() || billed_output.is_some())
            && self.unpriced_calls < UNPRICED_CALLS_MAX
        {
            self.unpriced_calls += 1;
            group.unpriced.push(CallTokens {
                input: usage.input_tokens.unwrap_or(0),
                output: billed_output.unwrap_or(0),
                cache_write: usage.input_tokens_cache_write.unwrap_or(0),
                cache_read: usage.input_tokens_cache_read.unwrap_or(0),
            });
        } else {
            group.unpriced_dropped += 1;
        }
        group.usage.add(&usage);
        if group.unpriced_dropped > 0 && self.unpriced_calls == UNPRICED_CALLS_MAX {
            self.note(SampleNote::TooMany { what: "model calls without a price", kept: UNPRICED_CALLS_MAX });
        }
    }

    fn finish(mut self) -> SampleFacts {
        for (id, function) in std::mem::take(&mut self.output_calls) {
            if !self.call_ids.contains_key(&id) {
                self.call(id, function);
            }
        }
        let heads = &self.heads;
        self.facts.tool_calls = self
            .calls
            .into_iter()
            .map(|call| ToolCall {
                function: call.function,
                output: match call.output {
                    Some(Head::Here(text)) => text,
                    // A reference to nothing stays as it is, like Inspect leaves it.
                    Some(Head::Attachment(key)) => {
                        let reference = || first_chars(&format!("attachment://{key}"));
                        heads.get(&key).cloned().unwrap_or_else(reference)
                    }
                    None => String::new(),
                },
            })
            .collect();
        self.facts.tool_call_count = self.call_count;
        self.facts
    }
}

/// The beginning of a string, of the string in a list of one, or nothing.
fn short_text<R: Read>(r: &mut Reader<R>, chars_max: usize) -> Result<Option<String>, JsonError> {
    glance(r, chars_max, str::to_owned)
}

/// What `f` makes of a [`short_text`], which is not kept.
pub(crate) fn glance<R: Read, T>(
    r: &mut Reader<R>,
    chars_max: usize,
    mut f: impl FnMut(&str) -> T,
) -> Result<Option<T>, JsonError> {
    if r.peek()? != Kind::Array {
        return Ok(r.glance(chars_max)?.filter(|text| !text.is_empty()).map(f));
    }
    let mut first = None;
    r.array(|index, r| {
        if index == 0 {
            first = r.glance(chars_max)?.filter(|text| !text.is_empty()).map(&mut f);
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(first)
}

/// Makes a name what the value says.
fn set<R: Read>(name: &mut String, r: &mut Reader<R>) -> Result<(), JsonError> {
    name.clear();
    glance(r, NAME_CHARS_MAX, |text| name.push_str(text))?;
    Ok(())
}

/// Milliseconds of a time.
fn time<R: Read>(r: &mut Reader<R>) -> Result<Option<i64>, JsonError> {
    // No spelling of a time is longer.
    const TIME_CHARS: usize = 64;
    Ok(glance(r, TIME_CHARS, time_ms)?.flatten())
}

fn whole_number(value: &Value) -> Option<u64> {
    number(value).filter(|n| *n >= 0.0).map(|n| n as u64)
}

/// The message of an error: an object's `message`, or the text itself.
fn error_message<R: Read>(r: &mut Reader<R>) -> Result<Option<String>, JsonError> {
    if r.peek()? != Kind::Object {
        return short_text(r, ERROR_CHARS_MAX);
    }
    let mut message = None;
    r.fields(&["message"], |_, r| {
        message = Some(short_text(r, ERROR_CHARS_MAX)?.unwrap_or_default());
        Ok::<_, JsonError>(())
    })?;
    // An error without a message is an error all the same.
    Ok(Some(message.unwrap_or_default()))
}

/// The first characters of a message's content: a string, or the text parts of a list joined by newlines.
fn content_head<R: Read>(r: &mut Reader<R>) -> Result<Option<Head>, JsonError> {
    if r.peek()? != Kind::Array {
        return Ok(r.glance(CONTENT_CHARS)?.map(Head::of));
    }
    let mut head: Option<Head> = None;
    r.array(|_, r| {
        let mut part = None;
        match r.peek()? {
            Kind::String => part = r.glance(CONTENT_CHARS)?.map(Head::of),
            _ => r.fields(&["text"], |_, r| {
                part = r.glance(CONTENT_CHARS)?.map(Head::of);
                Ok::<_, JsonError>(())
            })?,
        }
        let Some(part) = part else { return Ok(()) };
        match &mut head {
            None => head = Some(part),
            Some(Head::Here(text)) => {
                if let Head::Here(more) = part {
                    text.push('\n');
                    text.push_str(&more);
                    *text = first_chars(text);
                }
            }
            Some(Head::Attachment(_)) => {}
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(head)
}

/// The (id, function) of each tool call.
fn read_calls<R: Read>(r: &mut Reader<R>, calls: &mut Vec<(String, String)>) -> Result<(), JsonError> {
    r.array(|_, r| {
        if r.peek()? != Kind::Object {
            return Ok(());
        }
        let mut call = (String::new(), String::new());
        r.fields(&["id", "function"], |key, r| {
            match key {
                "id" => call.0 = short_text(r, NAME_CHARS_MAX)?.unwrap_or_default(),
                "function" => call.1 = short_text(r, NAME_CHARS_MAX)?.unwrap_or_default(),
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        // One message cannot hold more than a sample may; the rest would only be counted twice.
        if calls.len() < TOOL_CALLS_MAX {
            calls.push(call);
        }
        Ok::<_, JsonError>(())
    })
}

const USAGE_FIELDS: [&str; 7] = [
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "input_tokens_cache_write",
    "input_tokens_cache_read",
    "reasoning_tokens",
    "total_cost",
];

/// Tokens and price of a model call.
pub(crate) fn usage<R: Read>(r: &mut Reader<R>) -> Result<ModelUsage, JsonError> {
    let mut usage = ModelUsage::default();
    r.fields(&USAGE_FIELDS, |key, r| {
        let tokens = match key {
            "input_tokens" => &mut usage.input_tokens,
            "output_tokens" => &mut usage.output_tokens,
            "total_tokens" => &mut usage.total_tokens,
            "input_tokens_cache_write" => &mut usage.input_tokens_cache_write,
            "input_tokens_cache_read" => &mut usage.input_tokens_cache_read,
            "reasoning_tokens" => &mut usage.reasoning_tokens,
            "total_cost" => {
                usage.total_cost = r.number()?.filter(|cost| cost.is_finite() && *cost >= 0.0);
                return Ok(());
            }
            _ => return Ok(()),
        };
        *tokens = r.number()?.filter(|n| n.is_finite() && *n >= 0.0).map(|n| n as u64);
        Ok::<_, JsonError>(())
    })?;
    Ok(usage)
}
