//! Events of one sample, in the order they happen.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use ct_model::ModelUsage;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::new_id;
use crate::model::{Assistant, Message, RawCall, Reply, StopReason, ToolCall, ToolError, ToolSpec};

/// The tools as events list them.
pub(crate) fn tool_infos(tools: &[ToolSpec]) -> Value {
    let info = |tool: &ToolSpec| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    Value::Array(tools.iter().map(info).collect())
}

/// A time as events write it.
pub(crate) fn time(at: Timestamp) -> String {
    format!("{at:.6}").replace('Z', "+00:00")
}

/// A call of a model, for its event.
pub(crate) struct ModelCall<'a> {
    pub(crate) role: &'a str,
    pub(crate) model: &'a str,
    pub(crate) input: &'a [Message],
    pub(crate) tools: &'a [ToolSpec],
    pub(crate) config: Value,
    pub(crate) began: Moment,
}

/// A run of a tool, for its event.
pub(crate) struct ToolRun<'a> {
    pub(crate) call: &'a ToolCall,
    pub(crate) result: &'a str,
    pub(crate) error: Option<&'a ToolError>,
    pub(crate) message_id: &'a str,
    pub(crate) began: Moment,
}

/// When something began, by the wall's clock and by the sample's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    at: Timestamp,
    working: Duration,
    instant: Instant,
}

/// Collects the events of a sample. Its size is bounded by the sample's limits.
pub(crate) struct Recorder {
    began: Instant,
    started_at: Timestamp,
    /// Time spent waiting for providers, which is nobody's work.
    waited: Duration,
    events: Vec<u8>,
    spans: Vec<String>,
    /// Messages that events refer to, as JSON, and where each is.
    pool: Vec<u8>,
    pooled: HashMap<String, usize>,
    /// The same of messages as providers got them.
    calls: Vec<u8>,
    calls_pooled: HashMap<String, usize>,
    usage: BTreeMap<String, ModelUsage>,
    role_usage: BTreeMap<String, ModelUsage>,
    actions: Vec<ActionTime>,
}

/// When an action began and ended, in seconds since 1970.
struct ActionTime {
    began: f64,
    ended: f64,
}

/// What a sample keeps of the messages of its raw calls: beside the conversation itself they are but another spelling.
const CALLS_BYTES_MAX: usize = 4 << 20;

/// File systems tell times by a clock that lags behind by as much.
const CLOCK_LAG_SECONDS: f64 = 0.01;

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            started_at: Timestamp::now(),
            waited: Duration::ZERO,
            events: Vec::new(),
            spans: Vec::new(),
            pool: Vec::new(),
            pooled: HashMap::new(),
            calls: Vec::new(),
            calls_pooled: HashMap::new(),
            usage: BTreeMap::new(),
            role_usage: BTreeMap::new(),
            actions: Vec::new(),
        }
    }

    /// Now.
    pub(crate) fn moment(&self) -> Moment {
        Moment { at: Timestamp::now(), working: self.working_time(), instant: Instant::now() }
    }

    pub(crate) fn started_at(&self) -> Timestamp {
        self.started_at
    }

    pub(crate) fn total_time(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn working_time(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.waited)
    }

    /// Time went by that nobody worked in.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    pub(crate) fn usage(&self) -> &BTreeMap<String, ModelUsage> {
        &self.usage
    }

    pub(crate) fn role_usage(&self) -> &BTreeMap<String, ModelUsage> {
        &self.role_usage
    }

    /// The events, as a JSON array without its brackets.
    pub(crate) fn events(&self) -> &[u8] {
        &self.events
    }

    /// The messages that events refer to, as a JSON array without its brackets.
    pub(crate) fn pool(&self) -> &[u8] {
        &self.pool
    }

    /// The messages that raw calls refer to, likewise.
    pub(crate) fn calls(&self) -> &[u8] {
        &self.calls
    }

    /// Tokens of all models together.
    pub(crate) fn tokens(&self) -> u64 {
        self.usage.values().filter_map(|usage| usage.total_tokens).sum()
    }

    /// What is known to have been spent, in US dollars.
    pub(crate) fn cost_usd(&self) -> Option<f64> {
        self.usage.values().filter_map(|usage| usage.total_cost).reduce(|a, b| a + b)
    }

    fn push(&mut self, kind: &str, began: Moment, fields: Value) {
        let mut event = Map::new();
        event.insert("uuid".to_owned(), new_id().into());
        if let Some(span) = self.spans.last() {
            event.insert("span_id".to_owned(), span.clone().into());
        }
        event.insert("timestamp".to_owned(), time(began.at).into());
        event.insert("working_start".to_owned(), seconds(began.working).into());
        event.insert("event".to_owned(), kind.into());
        if let Value::Object(fields) = fields {
            event.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        }
        if !self.events.is_empty() {
            self.events.push(b',');
        }
        // A value made here can be written.
        let _ = serde_json::to_writer(&mut self.events, &event);
    }

    fn now(&mut self, kind: &str, fields: Value) {
        let now = self.moment();
        self.push(kind, now, fields);
    }

    /// The sample as it is before anything happened.
    pub(crate) fn sample_init(&mut self, sample: Value) {
        self.now("sample_init", json!({"sample": sample, "state": {}}));
    }

    /// Begins a part of the sample. End it with [`Recorder::end_span`].
    pub(crate) fn begin_span(&mut self, kind: &str, name: &str) {
        let id = new_id();
        let parent = self.spans.last().cloned();
        self.spans.push(id.clone());
        self.now("span_begin", json!({"id": id, "parent_id": parent, "type": kind, "name": name}));
    }

    pub(crate) fn end_span(&mut self) {
        let Some(id) = self.spans.last().cloned() else { return };
        self.now("span_end", json!({"id": id}));
        self.spans.pop();
    }

    /// Ends what an error or a limit left open.
    pub(crate) fn end_spans(&mut self, depth: usize) {
        while self.spans.len() > depth {
            self.end_span();
        }
    }

    /// A model was asked and answered.
    pub(crate) fn model(&mut self, call: &ModelCall<'_>, reply: &Reply) {
        self.count(call, &reply.usage);
        let working = call.began.instant.elapsed().as_secs_f64().min(reply.seconds.max(0.0));
        let took = Duration::try_from_secs_f64(reply.seconds).unwrap_or_default();
        self.waited(call.began.instant.elapsed().saturating_sub(took));
        let output = output(call.model, &reply.message, reply.stop, Some(&reply.usage), Some(reply.seconds));
        let retries = (reply.retries > 0).then_some(reply.retries);
        let raw = reply.call.as_ref().map(|raw| self.raw_call(raw, reply.seconds));
        let more = json!({"output": output, "retries": retries, "working_time": working, "call": raw});
        self.model_event(call, more);
    }

    /// A turn that was decided elsewhere and enters the conversation: the policy's move.
    pub(crate) fn seat(&mut self, call: &ModelCall<'_>, turn: &Assistant) {
        let stop = if turn.tool_calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls };
        let output = output(call.model, turn, stop, None, None);
        self.model_event(call, json!({"output": output}));
    }

    /// A model was asked and did not answer.
    pub(crate) fn model_failed(&mut self, call: &ModelCall<'_>, error: &str) {
        let output = json!({"model": call.model, "choices": [], "completion": "", "error": error});
        self.model_event(call, json!({"output": output, "error": error}));
    }

    fn model_event(&mut self, call: &ModelCall<'_>, more: Value) {
        let refs = self.refer(call.input);
        let mut fields = json!({
            "model": call.model, "role": call.role, "input": [], "input_refs": refs,
            "tools": tool_infos(call.tools), "tool_choice": if call.tools.is_empty() { "none" } else { "auto" },
            "config": call.config, "completed": time(Timestamp::now()),
        });
        if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
            fields.extend(more);
        }
        self.push("model", call.began, fields);
    }

    /// The call as it was made. Its messages go into a pool, up to a size; beyond it they are left out.
    fn raw_call(&mut self, raw: &RawCall, seconds: f64) -> Value {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for message in &raw.messages {
            let text = message.to_string();
            let known = self.calls_pooled.get(&text).copied();
            let Some(at) = known.or_else(|| self.pool_call(text)) else { break };
            extend_ranges(&mut ranges, at);
        }
        let mut call = json!({
            "request": raw.request, "response": raw.response, "time": seconds, "call_key": "messages",
            "call_refs": ranges,
        });
        let whole: usize = ranges.iter().map(|(begin, end)| end - begin).sum();
        if whole < raw.messages.len() {
            call["request"]["messages_left_out"] = (raw.messages.len() - whole).into();
        }
        call
    }

    fn pool_call(&mut self, text: String) -> Option<usize> {
        if self.calls.len() + text.len() > CALLS_BYTES_MAX {
            return None;
        }
        if !self.calls.is_empty() {
            self.calls.push(b',');
        }
        self.calls.extend_from_slice(text.as_bytes());
        let at = self.calls_pooled.len();
        self.calls_pooled.insert(text, at);
        Some(at)
    }

    fn count(&mut self, call: &ModelCall<'_>, usage: &ModelUsage) {
        self.usage.entry(call.model.to_owned()).or_default().add(usage);
        self.role_usage.entry(call.role.to_owned()).or_default().add(usage);
    }

    /// Where messages are in the pool, as ranges; those that are not there yet are added.
    fn refer(&mut self, messages: &[Message]) -> Value {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for message in messages {
            let at = match self.pooled.get(message.id()) {
                Some(&at) => at,
                None => {
                    if !self.pool.is_empty() {
                        self.pool.push(b',');
                    }
                    let _ = serde_json::to_writer(&mut self.pool, &message_json(message));
                    let at = self.pooled.len();
                    self.pooled.insert(message.id().to_owned(), at);
                    at
                }
            };
            extend_ranges(&mut ranges, at);
        }
        json!(ranges)
    }

    /// The action, from 0, in which something happened, or after which it did and before the next; none when it was there
    /// before all of them.
    pub(crate) fn action_at(&self, happened_at: f64) -> Option<usize> {
        let last = self.actions.iter().rposition(|action| action.began <= happened_at);
        let next = last.map_or(0, |last| last + 1);
        // What seems to lie just before an action, and in no other, was done by it.
        let between = last.is_none_or(|last| happened_at > self.actions[last].ended);
        let soon = self.actions.get(next).is_some_and(|next| next.began - happened_at <= CLOCK_LAG_SECONDS);
        if between && soon { Some(next) } else { last }
    }

    /// A tool was run.
    pub(crate) fn tool(&mut self, run: &ToolRun<'_>) {
        let seconds = |at: Timestamp| at.as_nanosecond() as f64 / 1e9;
        self.actions.push(ActionTime { began: seconds(run.began.at), ended: seconds(Timestamp::now()) });
        let error = run.error.map(|error| json!({"type": error.kind.as_str(), "message": error.message}));
        let fields = json!({
            "type": "function", "id": run.call.id, "function": run.call.function,
            "arguments": run.call.arguments, "result": run.result, "error": error, "events": [],
            "completed": time(Timestamp::now()), "working_time": run.began.instant.elapsed().as_secs_f64(),
            "message_id": run.message_id,
        });
        self.push("tool", run.began, fields);
    }

    /// A command ran in the sandbox.
    pub(crate) fn sandbox_exec(&mut self, began: Moment, cmd: &str, code: Option<i32>, output: &str) {
        let fields = json!({
            "action": "exec", "cmd": cmd, "options": {}, "result": code, "output": output,
            "completed": time(Timestamp::now()),
        });
        self.push("sandbox", began, fields);
    }

    /// A file of the sandbox was read or written.
    pub(crate) fn sandbox_file(&mut self, began: Moment, action: &str, file: &str, output: Option<&str>) {
        let fields =
            json!({"action": action, "file": file, "output": output, "completed": time(Timestamp::now())});
        self.push("sandbox", began, fields);
    }

    pub(crate) fn score(&mut self, began: Moment, scorer: &str, score: &Value) {
        self.push(
            "score",
            began,
            json!({"score": score, "target": "", "intermediate": false, "scorer": scorer}),
        );
    }

    pub(crate) fn sample_limit(&mut self, kind: &str, message: &str, limit: f64) {
        // Events know fewer kinds than samples do.
        let event = if kind == "context" { "custom" } else { kind };
        self.now("sample_limit", json!({"type": event, "message": message, "limit": limit}));
    }

    pub(crate) fn error(&mut self, error: Value) {
        self.now("error", json!({"error": error}));
    }
}

fn extend_ranges(ranges: &mut Vec<(usize, usize)>, at: usize) {
    match ranges.last_mut() {
        Some((_, end)) if *end == at => *end += 1,
        _ => ranges.push((at, at + 1)),
    }
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}

/// A usage as logs write it: token counts are always there, the rest where it is known.
fn usage_json(usage: &ModelUsage) -> Value {
    let mut json = json!({
        "input_tokens": usage.input_tokens.unwrap_or(0), "output_tokens": usage.output_tokens.unwrap_or(0),
        "total_tokens": usage.total_tokens.unwrap_or(0),
    });
    if let Value::Object(json) = &mut json {
        let more = [
            ("input_tokens_cache_write", usage.input_tokens_cache_write),
            ("input_tokens_cache_read", usage.input_tokens_cache_read),
            ("reasoning_tokens", usage.reasoning_tokens),
        ];
        json.extend(more.iter().filter_map(|(key, n)| Some(((*key).to_owned(), Value::from((*n)?)))));
        if let Some(cost) = usage.total_cost {
            json.insert("total_cost".to_owned(), cost.into());
        }
    }
    json
}

/// Usages by model or role.
pub(crate) fn usages_json(usages: &BTreeMap<String, ModelUsage>) -> Value {
    Value::Object(usages.iter().map(|(key, usage)| (key.clone(), usage_json(usage))).collect())
}

/// What a model gave.
pub(crate) fn output(
    model: &str,
    turn: &Assistant,
    stop: StopReason,
    usage: Option<&ModelUsage>,
    seconds: Option<f64>,
) -> Value {
    let mut output = json!({
        "model": model,
        "choices": [{"message": assistant_json(turn), "stop_reason": stop.to_string()}],
        "completion": turn.content,
    });
    if let Value::Object(output) = &mut output {
        if let Some(usage) = usage {
            output.insert("usage".to_owned(), usage_json(usage));
        }
        if let Some(seconds) = seconds {
            output.insert("time".to_owned(), seconds.into());
        }
    }
    output
}

/// A message as logs write it.
pub(crate) fn message_json(message: &Message) -> Value {
    match message {
        Message::System { id, content } => json!({"id": id, "content": content, "role": "system"}),
        Message::User { id, content } => {
            json!({"id": id, "content": content, "source": "input", "role": "user"})
        }
        Message::Assistant(turn) => assistant_json(turn),
        Message::Tool { id, call_id, function, content, error } => {
            let mut json = json!({
                "id": id, "content": content, "role": "tool", "tool_call_id": call_id, "function": function,
            });
            if let (Some(error), Value::Object(json)) = (error, &mut json) {
                json.insert(
                    "error".to_owned(),
                    json!({"type": error.kind.as_str(), "message": error.message}),
                );
            }
            json
        }
    }
}

fn assistant_json(turn: &Assistant) -> Value {
    let content = match &turn.reasoning {
        Some(reasoning) => json!([
            {"type": "reasoning", "reasoning": reasoning}, {"type": "text", "text": turn.content},
        ]),
        None => json!(turn.content),
    };
    let mut json = json!({
        "id": turn.id, "content": content, "source": "generate", "role": "assistant", "model": turn.model,
    });
    if let (false, Value::Object(json)) = (turn.tool_calls.is_empty(), &mut json) {
        let calls = turn.tool_calls.iter().map(|call| {
            let mut json = json!({
                "id": call.id, "function": call.function, "arguments": call.arguments, "type": "function",
            });
            if let Some(error) = &call.parse_error {
                json["parse_error"] = error.as_str().into();
            }
            json
        });
        json.insert("tool_calls".to_owned(), calls.collect());
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_of_an_action() {
        let mut recorder = Recorder::new();
        for (began, ended) in [(10.0, 10.5), (10.505, 11.0), (20.0, 21.0)] {
            recorder.actions.push(ActionTime { began, ended });
        }
        for (at, action) in [
            (9.0, None),
            // The clock of files lags behind.
            (9.995, Some(0)),
            (10.2, Some(0)),
            (10.499, Some(0)),
            (10.502, Some(1)),
            (15.0, Some(1)),
            (20.5, Some(2)),
            (99.0, Some(2)),
        ] {
            assert_eq!(recorder.action_at(at), action, "{at}");
        }
    }
}
