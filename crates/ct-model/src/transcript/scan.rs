//! The pass that makes an index.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ct_log::json::{JsonError, Kind, Reader};
use serde_json::Value;

use super::index::{
    Call, EventEntry, Index, NONE, Place, ScoreEntry, Section, Speaker, Step, StepKind, Trait, Verdict,
    by_action, id_hash, limits,
};
use crate::convert::{glance, monitor_key, verdict_score};

/// Bytes of one verdict of an old monitor.
const VERDICT_BYTES_MAX: usize = 64 << 10;

/// Makes the index of a sample. What is found can be looked at meanwhile: the lock is held for moments.
///
/// An error leaves what was found before it; the index is then not complete.
pub fn scan<R: Read>(reader: &mut Reader<R>, index: &Mutex<Index>) -> Result<(), JsonError> {
    let mut scan = Scan {
        shared: index,
        call_ids: HashMap::new(),
        event_calls: Vec::new(),
        messages_read: false,
        input: Vec::new(),
        output: None,
        provisional: false,
    };
    reader.object(|key, r| scan.member(key, r))?;
    reader.end()?;
    let read_bytes = reader.offset();
    scan.finish(read_bytes);
    Ok(())
}

/// A message as far as it is looked at.
#[derive(Default)]
struct Message {
    speaker: Speaker,
    id: u64,
    answers: u64,
    failed: bool,
    is_verdict: bool,
    calls: Vec<EventCall>,
    /// Verdicts of old monitors on the message, and on its calls by their ids.
    verdicts: Vec<(Option<u64>, f32)>,
}

#[derive(Clone, Copy)]
struct EventCall {
    id: u64,
    function: u32,
}

struct Scan<'a> {
    shared: &'a Mutex<Index>,
    /// The latest call of each id.
    call_ids: HashMap<u64, u32>,
    /// Calls that model events make.
    event_calls: Vec<EventCall>,
    messages_read: bool,
    /// The sample's input, when no conversation follows.
    input: Vec<(Place, Message)>,
    output: Option<(Place, Message)>,
    /// The steps so far are model calls of a sample without a conversation, to be read until all is known.
    provisional: bool,
}

impl Scan<'_> {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member<R: Read>(&mut self, key: &str, r: &mut Reader<R>) -> Result<(), JsonError> {
        r.peek()?;
        let at = r.offset();
        match key {
            "messages" => {
                self.forget_provisional();
                r.array(|_, r| {
                    let (place, message) = self.message(r)?;
                    self.add_message(place, message);
                    Ok::<_, JsonError>(())
                })?;
                self.messages_read = true;
            }
            "events" => r.array(|_, r| self.event(r, 0))?,
            "attachments" => self.attachments(r)?,
            "transcript" => r.object(|key, r| match key {
                "events" => r.array(|_, r| self.event(r, 0)),
                "content" => self.attachments(r),
                _ => Ok(()),
            })?,
            "events_data" => r.fields(&["messages", "calls"], |key, r| match key {
                "messages" => self.pool(r, |index| &mut index.pool),
                _ => self.pool(r, |index| &mut index.call_pool),
            })?,
            "message_pool" => self.pool(r, |index| &mut index.pool)?,
            "call_pool" => self.pool(r, |index| &mut index.call_pool)?,
            "score" => self.score("score", r)?,
            "scores" => {
                r.object(|name, r| self.score(name, r))?;
                self.index().verdicts.sort_by_key(by_action);
            }
            "input" => match r.peek()? {
                Kind::Array => {
                    let mut input = Vec::new();
                    r.array(|_, r| {
                        let (place, mut message) = self.message(r)?;
                        // Calls count where they were made: in the conversation.
                        message.calls = Vec::new();
                        if input.len() < limits::STEPS_MAX {
                            input.push((place, message));
                        }
                        Ok::<_, JsonError>(())
                    })?;
                    self.input = input;
                }
                _ => {
                    r.skip()?;
                    let place = place(at, r);
                    self.input = vec![(place, Message { speaker: Speaker::User, ..Message::default() })];
                }
            },
            "output" => r.fields(&["choices"], |_, r| {
                r.array(|index, r| {
                    if index > 0 {
                        return Ok(());
                    }
                    r.fields(&["message"], |_, r| {
                        self.output = Some(self.message(r)?);
                        Ok::<_, JsonError>(())
                    })
                })
            })?,
            _ => {}
        }
        if r.offset() == at {
            r.skip()?;
        }
        let section = matches!(
            key,
            "events" | "messages" | "attachments" | "events_data" | "message_pool" | "call_pool"
        );
        let mut index = self.index();
        index.read_bytes = r.offset();
        if !section && index.sections.len() < limits::SECTIONS_MAX {
            index.sections.push(Section {
                name: key.chars().take(limits::NAME_CHARS_MAX).collect(),
                place: place(at, r),
            });
        }
        Ok(())
    }

    fn message<R: Read>(&mut self, r: &mut Reader<R>) -> Result<(Place, Message), JsonError> {
        r.peek()?;
        let at = r.offset();
        let mut message = Message::default();
        r.fields(&["role", "id", "tool_calls", "tool_call_id", "error", "metadata"], |key, r| {
            match key {
                "role" => {
                    message.speaker = glance(r, limits::NAME_CHARS_MAX, Speaker::of)?.unwrap_or_default();
                }
                "id" => message.id = hash(r)?,
                "tool_calls" => self.calls(r, &mut message.calls)?,
                "tool_call_id" => message.answers = hash(r)?,
                "error" => {
                    message.failed = r.peek()? != Kind::Null;
                    r.skip()?;
                }
                "metadata" => message_metadata(r, &mut message)?,
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        Ok((place(at, r), message))
    }

    fn calls<R: Read>(&self, r: &mut Reader<R>, calls: &mut Vec<EventCall>) -> Result<(), JsonError> {
        r.array(|_, r| {
            if r.peek()? != Kind::Object {
                return Ok(());
            }
            let mut call = EventCall { id: 0, function: NONE };
            r.fields(&["id", "function"], |key, r| {
                match key {
                    "id" => call.id = hash(r)?,
                    _ => {
                        let number = |name: &str| self.index().names.number(name);
                        call.function = glance(r, limits::NAME_CHARS_MAX, number)?.unwrap_or(NONE);
                    }
                }
                Ok::<_, JsonError>(())
            })?;
            if calls.len() < limits::CALLS_MAX {
                calls.push(call);
            }
            Ok::<_, JsonError>(())
        })
    }

    /// Adds a message of the conversation: a step, or what a tool answered.
    fn add_message(&mut self, place: Place, message: Message) {
        let mut index = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        index.read_bytes = place.offset + place.size_bytes;
        if message.speaker == Speaker::Tool
            && let Some(call) = self.call_ids.get(&message.answers)
        {
            let call = &mut index.calls[*call as usize];
            call.output = place;
            call.failed |= message.failed;
            return;
        }
        if index.steps.len() == limits::STEPS_MAX {
            index.left_out += 1;
            return;
        }
        let counts = message.speaker == Speaker::Model && !message.is_verdict;
        let first_call = number_of(&index.calls);
        let step = number_of(&index.steps);
        let last_action = index.actions.len().checked_sub(1);
        let mut count = 0;
        for call in &message.calls {
            if index.calls.len() == limits::CALLS_MAX {
                index.left_out += 1;
                continue;
            }
            let number = number_of(&index.calls);
            if counts && call.id != 0 {
                self.call_ids.insert(call.id, number);
            }
            let action = counts.then(|| number_of(&index.actions));
            index.calls.push(Call::made(step, count, call.id, call.function, action));
            if counts {
                index.actions.push(number);
            }
            count += 1;
        }
        for (call, value) in &message.verdicts {
            // A verdict that is a message of its own is about what was done before it.
            let first = if message.is_verdict {
                last_action
            } else {
                index
                    .calls
                    .get(first_call as usize)
                    .and_then(|call| call.action)
                    .map(|action| action as usize)
            };
            let named =
                call.and_then(|id| index.calls[first_call as usize..].iter().find(|call| call.id == id));
            let action =
                named.and_then(|call| call.action).or(first.and_then(|action| u32::try_from(action).ok()));
            if index.verdicts.len() < limits::VERDICTS_MAX {
                let monitor = index.names.number("monitor");
                index.verdicts.push(Verdict {
                    action,
                    monitor,
                    draw: 1,
                    value: *value,
                    draft: false,
                    explanation: Place::default(),
                    message: 0,
                });
            }
        }
        index.steps.push(Step {
            kind: StepKind::Message,
            place,
            speaker: message.speaker,
            first_call,
            calls: count,
            id: message.id,
            event: NONE,
            first_event: 0,
            events: 0,
        });
    }

    fn attachments<R: Read>(&mut self, r: &mut Reader<R>) -> Result<(), JsonError> {
        r.object(|key, r| {
            r.peek()?;
            let at = r.offset();
            r.skip()?;
            let mut index = self.index();
            index.read_bytes = r.offset();
            if index.attachments.len() < limits::ATTACHMENTS_MAX {
                index.attachments.insert(id_hash(key), place(at, r));
            } else {
                index.left_out += 1;
            }
            Ok::<_, JsonError>(())
        })
    }

    fn pool<R: Read>(
        &mut self,
        r: &mut Reader<R>,
        of: fn(&mut Index) -> &mut Vec<Place>,
    ) -> Result<(), JsonError> {
        r.array(|_, r| {
            r.peek()?;
            let at = r.offset();
            r.skip()?;
            let mut index = self.index();
            index.read_bytes = r.offset();
            if of(&mut index).len() < limits::POOL_MAX {
                of(&mut index).push(place(at, r));
            } else {
                index.left_out += 1;
            }
            Ok::<_, JsonError>(())
        })
    }

    fn event<R: Read>(&mut self, r: &mut Reader<R>, depth: usize) -> Result<(), JsonError> {
        r.peek()?;
        let at = r.offset();
        let number = {
            let mut index = self.index();
            if index.events.len() == limits::EVENTS_MAX {
                index.left_out += 1;
                drop(index);
                return r.skip();
            }
            let number = index.events.len();
            // Its place among the events is before those that it holds.
            index.events.push(EventEntry {
                place: Place::default(),
                kind: NONE,
                step: NONE,
                depth: u8::try_from(depth).unwrap_or(u8::MAX),
                trait_: Trait::Other,
                first_call: 0,
                calls: 0,
                id: 0,
            });
            number
        };
        let mut kind = String::new();
        let mut role = String::new();
        let mut id = 0;
        let mut message_id = 0;
        let mut calls = Vec::new();
        r.fields(&["event", "id", "role", "output", "events"], |key, r| {
            match key {
                "event" => {
                    glance(r, limits::NAME_CHARS_MAX, |name| name.clone_into(&mut kind))?;
                }
                "id" => id = hash(r)?,
                "role" => {
                    glance(r, limits::NAME_CHARS_MAX, |name| name.clone_into(&mut role))?;
                }
                // Of a sandbox event this is a text.
                "output" => r.fields(&["choices"], |_, r| {
                    r.array(|index, r| {
                        if index > 0 {
                            return Ok(());
                        }
                        r.fields(&["message"], |_, r| {
                            r.fields(&["id", "tool_calls"], |key, r| match key {
                                "id" => {
                                    message_id = hash(r)?;
                                    Ok(())
                                }
                                _ => self.calls(r, &mut calls),
                            })
                        })
                    })
                })?,
                "events" if depth < limits::EVENT_DEPTH_MAX => r.array(|_, r| self.event(r, depth + 1))?,
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        let trait_ = match kind.as_str() {
            "model" if role == "hidden_untrusted" => Trait::Draft,
            "model" if role.starts_with("monitor") || role == "red_planner" => Trait::Aside,
            "model" => Trait::Model,
            "tool" => Trait::Tool,
            "span_begin" => Trait::SpanBegin,
            _ => Trait::Other,
        };
        let first_call = number_of(&self.event_calls);
        calls.truncate(limits::CALLS_MAX.saturating_sub(self.event_calls.len()));
        self.event_calls.extend_from_slice(&calls);
        let mut index = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        index.read_bytes = r.offset();
        let kind = index.names.number(if kind.is_empty() { "event" } else { &kind });
        let entry = &mut index.events[number];
        entry.place = place(at, r);
        entry.kind = kind;
        entry.trait_ = trait_;
        entry.first_call = first_call;
        entry.calls = number_of(&calls);
        entry.id = if matches!(trait_, Trait::Model | Trait::Draft | Trait::Aside) { message_id } else { id };
        drop(index);
        if self.provisional || self.has_no_steps() {
            self.add_provisional(number, trait_, &calls);
        }
        Ok(())
    }

    fn has_no_steps(&self) -> bool {
        self.index().steps.is_empty()
    }

    /// Shows a model call, or what a tool answered, of a sample that had no conversation so far.
    fn add_provisional(&mut self, number: usize, trait_: Trait, calls: &[EventCall]) {
        let mut index = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let event = index.events[number];
        match trait_ {
            Trait::Model if index.steps.len() < limits::STEPS_MAX => {}
            Trait::Tool => {
                if let Some(call) = self.call_ids.get(&event.id) {
                    index.calls[*call as usize].event = number as u32;
                }
                return;
            }
            _ => return,
        }
        self.provisional = true;
        let step = number_of(&index.steps);
        let first_call = number_of(&index.calls);
        let room = limits::CALLS_MAX.saturating_sub(index.calls.len());
        for (call, place) in calls.iter().zip(0..).take(room) {
            if call.id != 0 {
                self.call_ids.insert(call.id, number_of(&index.calls));
            }
            index.calls.push(Call::made(step, place, call.id, call.function, None));
        }
        let calls = number_of(&index.calls) - first_call;
        index.steps.push(Step {
            kind: StepKind::Model,
            place: event.place,
            speaker: Speaker::Model,
            first_call,
            calls,
            id: event.id,
            event: number as u32,
            first_event: 0,
            events: 0,
        });
    }

    fn forget_provisional(&mut self) {
        if std::mem::take(&mut self.provisional) {
            self.call_ids.clear();
            let mut index = self.index();
            index.steps.clear();
            index.calls.clear();
        }
    }

    fn score<R: Read>(&mut self, name: &str, r: &mut Reader<R>) -> Result<(), JsonError> {
        r.peek()?;
        let at = r.offset();
        let monitor = name == "monitor" || name.starts_with("monitor_");
        if !monitor {
            r.skip()?;
        } else {
            let first = self.index().verdicts.len();
            let mut keys: HashMap<u64, usize> = HashMap::new();
            let mut reasons = Vec::new();
            r.fields(&["value", "metadata"], |key, r| match key {
                "value" => self.verdicts(name, r, &mut keys),
                _ => r.object(|key, r| {
                    r.peek()?;
                    let mut found = Place::default();
                    let at = r.offset();
                    match r.peek()? {
                        Kind::String => {
                            r.skip()?;
                            found = place(at, r);
                        }
                        _ => r.fields(&["explanation", "reasoning", "rationale"], |_, r| {
                            if r.peek()? == Kind::String {
                                let at = r.offset();
                                r.skip()?;
                                found = place(at, r);
                            }
                            Ok::<_, JsonError>(())
                        })?,
                    }
                    if !found.is_empty() && reasons.len() < limits::VERDICTS_MAX {
                        reasons.push((id_hash(key), found));
                    }
                    Ok::<_, JsonError>(())
                }),
            })?;
            let mut index = self.index();
            for (key, found) in reasons {
                if let Some(at) = keys.get(&key)
                    && let Some(verdict) = index.verdicts.get_mut(*at)
                {
                    verdict.explanation = found;
                }
            }
            debug_assert!(first <= index.verdicts.len());
        }
        let mut index = self.index();
        if index.scores.len() < limits::SCORES_MAX {
            let name = name.chars().take(limits::NAME_CHARS_MAX).collect();
            index.scores.push(ScoreEntry { name, place: place(at, r) });
        } else {
            index.left_out += 1;
        }
        Ok(())
    }

    /// The verdicts in a monitor's score.
    fn verdicts<R: Read>(
        &mut self,
        score: &str,
        r: &mut Reader<R>,
        keys: &mut HashMap<u64, usize>,
    ) -> Result<(), JsonError> {
        if r.peek()? != Kind::Object {
            let value = r.number()?.filter(|value| *value >= 0.0);
            let name = score.strip_prefix("monitor_").unwrap_or(score);
            self.verdict(name, None, 1, value, 0, false);
            return Ok(());
        }
        r.object(|key, r| {
            let value = match r.peek()? {
                Kind::Number => r.number()?,
                _ => r.value(VERDICT_BYTES_MAX)?.as_ref().and_then(|value| verdict_score(value).as_f64()),
            };
            let value = value.filter(|value| *value >= 0.0);
            let at = match score.strip_prefix("monitor_") {
                // Older: one score per monitor, by action.
                Some(monitor) => {
                    let number = key.strip_prefix("action_").unwrap_or(key);
                    match (key, number.parse().ok()) {
                        ("max", _) => None,
                        (_, action) => self.verdict(monitor, action, 1, value, 0, false),
                    }
                }
                None => {
                    let key = monitor_key(key);
                    match key.about {
                        Some(about) if key.draft => {
                            self.verdict(key.monitor, None, key.draw, value, id_hash(about), true)
                        }
                        about => {
                            let action = about.and_then(|about| about.parse().ok());
                            self.verdict(key.monitor, action, key.draw, value, 0, false)
                        }
                    }
                }
            };
            if let Some(at) = at {
                keys.insert(id_hash(key), at);
            }
            Ok::<_, JsonError>(())
        })
    }

    fn verdict(
        &self,
        monitor: &str,
        action: Option<u32>,
        draw: u32,
        value: Option<f64>,
        message: u64,
        draft: bool,
    ) -> Option<usize> {
        let mut index = self.index();
        if index.verdicts.len() == limits::VERDICTS_MAX {
            index.left_out += 1;
            return None;
        }
        let monitor: String = monitor.chars().take(limits::NAME_CHARS_MAX).collect();
        let monitor = index.names.number(&monitor);
        index.verdicts.push(Verdict {
            action,
            monitor,
            draw,
            value: value.map_or(f32::NAN, |value| value as f32),
            draft,
            explanation: Place::default(),
            message,
        });
        Some(index.verdicts.len() - 1)
    }

    fn finish(&mut self, read_bytes: u64) {
        self.forget_provisional();
        let (steps, has_model_event) = {
            let index = self.index();
            (index.steps.len(), index.events.iter().any(|event| event.trait_ == Trait::Model))
        };
        if steps == 0 {
            for (place, message) in std::mem::take(&mut self.input) {
                let text = message.speaker == Speaker::User && message.id == 0;
                self.add_message(place, message);
                if text && let Some(step) = self.index().steps.last_mut() {
                    step.kind = StepKind::Input;
                }
            }
        }
        if let Some((place, mut message)) = self.output.take() {
            message.calls.retain(|call| !self.call_ids.contains_key(&call.id));
            if !message.calls.is_empty() || (steps == 0 && !has_model_event) {
                self.add_message(place, message);
            }
        }
        let mut index = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        index.has_conversation = index.steps.iter().any(|step| step.speaker == Speaker::Model);
        super::arrange::arrange(
            &mut index,
            &mut self.call_ids,
            &self.event_calls.iter().map(|call| (call.id, call.function)).collect::<Vec<_>>(),
        );
        if !index.has_conversation {
            number_calls(&mut index);
        }
        let first_steps: HashMap<u64, u32> =
            index.steps.iter().filter(|step| step.id != 0).map(|step| (step.id, step.first_call)).collect();
        let Index { verdicts, calls, .. } = &mut *index;
        for verdict in verdicts.iter_mut().filter(|verdict| verdict.message != 0) {
            let call = first_steps.get(&verdict.message).and_then(|call| calls.get(*call as usize));
            verdict.action = call.and_then(|call| call.action);
        }
        verdicts.sort_by_key(by_action);
        index.read_bytes = read_bytes;
        index.complete = true;
    }
}

/// Numbers the calls of a sample without a conversation: they are all there is of the agent's actions.
fn number_calls(index: &mut Index) {
    let Index { steps, calls, actions, .. } = index;
    for step in steps.iter() {
        for number in step.first_call..step.first_call + step.calls {
            let Some(call) = calls.get_mut(number as usize).filter(|call| call.action.is_none()) else {
                continue;
            };
            call.action = Some(number_of(actions));
            actions.push(number);
        }
    }
}

/// Verdicts of old monitors on a message.
fn message_metadata<R: Read>(r: &mut Reader<R>, message: &mut Message) -> Result<(), JsonError> {
    const FIELDS: [&str; 5] = [
        "is_monitor_result",
        "monitor_result",
        "sus_score",
        "monitor_results_by_tool_call",
        "tool_call_monitor_results",
    ];
    let score =
        |value: &Value| verdict_score(value).as_f64().filter(|n| *n >= 0.0).map_or(f32::NAN, |n| n as f32);
    r.fields(&FIELDS, |key, r| {
        match key {
            "is_monitor_result" => message.is_verdict |= r.boolean()? == Some(true),
            "monitor_result" | "sus_score" => {
                if let Some(value) = r.value(VERDICT_BYTES_MAX)?.filter(|value| !value.is_null()) {
                    message.verdicts.push((None, score(&value)));
                }
            }
            _ => {
                if let Some(Value::Object(by_call)) = r.value(VERDICT_BYTES_MAX)? {
                    for (id, value) in by_call {
                        message.verdicts.push((Some(id_hash(&id)), score(&value)));
                    }
                }
            }
        }
        Ok::<_, JsonError>(())
    })
}

fn hash<R: Read>(r: &mut Reader<R>) -> Result<u64, JsonError> {
    Ok(glance(r, limits::NAME_CHARS_MAX, id_hash)?.unwrap_or(0))
}

fn place<R: Read>(at: u64, r: &Reader<R>) -> Place {
    Place { offset: at, size_bytes: r.offset() - at }
}

/// How long a list is; lists are shorter than any `u32`.
fn number_of<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(NONE)
}
