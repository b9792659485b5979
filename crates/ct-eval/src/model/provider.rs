//! Models behind the client library.
//!
//! Answers are streamed: one that stands still or is cut is noticed then, and not when the time of the attempt is over; and
//! arguments of tools come as the model wrote them, right or wrong.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use ct_model::ModelUsage;
use futures_util::StreamExt as _;
use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, ContentPart, MessageContent,
    MessageOptions, StopReason as Stop, StreamEnd, Tool, ToolCall as NativeCall, ToolResponse, Usage,
};
use genai::resolver::{AuthData, Endpoint};
use genai::webc::StreamTimeout;
use genai::{Client, ModelIden, ServiceTarget};
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::message::{Assistant, Message, StopReason, ToolCall};
use super::name::Place;
use super::raw::{Frames, RawCall};
use super::{CallFailure, ModelError, ModelName, ModelOptions, Reply, Request, Variables};

/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Routes a conversation's calls to the same cache.
const OPENAI: &str = "https://api.openai.com/";
/// What is quoted of a provider's complaint.
const COMPLAINT_CHARS_MAX: usize = 600;

pub(super) struct Provider {
    client: Client,
    target: ServiceTarget,
    place: Place,
    options: ChatOptions,
    name: String,
}

impl Provider {
    pub(super) fn open(
        name: &ModelName,
        variables: Variables<'_>,
        options: &ModelOptions,
    ) -> Result<Self, ModelError> {
        let place = Place::of(name, variables)?;
        // The library's HTTP client takes the process's provider of cryptography. Another may be installed: fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(options.timeout)
            .tcp_nodelay(true)
            .build()
            .map_err(|e| ModelError::Setup { message: chain(&e) })?;
        let client = Client::builder().with_reqwest(http).build();
        let client = client.map_err(|e| ModelError::Setup { message: e.to_string() })?;
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(place.base_url.as_str()),
            auth: AuthData::from_single(place.key.clone()),
            model: ModelIden::new(place.adapter, name.model()),
        };
        let mut chat = ChatOptions::default()
            .with_capture_content(true)
            .with_capture_reasoning_content(true)
            .with_capture_tool_calls(true)
            .with_capture_usage(true)
            .with_stream_read_timeout(options.stall);
        chat.max_tokens = options.max_tokens;
        chat.temperature = options.temperature;
        Ok(Self { client, target, place, options: chat, name: name.to_string() })
    }

    pub(super) fn base_url(&self) -> Option<&str> {
        self.place.other.then_some(self.place.base_url.as_str())
    }

    pub(super) async fn generate(&self, request: &Request<'_>) -> Result<Reply, CallFailure> {
        let frames = Arc::new(Frames::default());
        let mut options = self.options.clone();
        options.raw_frame_sink = Some(Arc::<Frames>::clone(&frames));
        // Others that speak the protocol need not know this field.
        if self.place.base_url.starts_with(OPENAI) {
            options.prompt_cache_key = Some(request.conversation.to_owned());
        }
        let chat = chat_request(request);
        let settings = serde_json::json!({
            "model": self.target.model.model_name.to_string(), "stream": true,
            "max_tokens": options.max_tokens, "temperature": options.temperature,
        });
        let mut call = RawCall::new(&chat, &self.place.base_url, settings);
        let answer = self.stream(chat, &options).await;
        // The library says less of some errors than came.
        let answer = answer.map_err(|failure| frames.error().map_or(failure, |error| of_event(&error)));
        let mut end = match answer {
            Ok(end) => end,
            Err(failure) if failure.filtered => return Ok(self.refused(failure.message)),
            Err(failure) => return Err(failure),
        };
        if frames.filtered() {
            end.captured_stop_reason = Some(Stop::ContentFilter(String::new()));
        }
        call.response = frames.response(&self.place.key);
        let mut reply = self.reply(end, frames.reasoning_details());
        reply.call = Some(call);
        Ok(reply)
    }

    /// Asks, and waits for the end of the answer.
    async fn stream(&self, chat: ChatRequest, options: &ChatOptions) -> Result<StreamEnd, CallFailure> {
        let answer = self.client.exec_chat_stream(self.target.clone(), chat, Some(options)).await;
        let mut events = answer.map_err(|e| failure(&e))?.stream;
        while let Some(event) = events.next().await {
            match event.map_err(|e| failure(&e))? {
                // Some adapters make an end of their own when the answer is cut; it has no reason.
                ChatStreamEvent::End(end) if end.captured_stop_reason.is_some() => return Ok(end),
                ChatStreamEvent::End(_) => break,
                _ => {}
            }
        }
        Err(CallFailure::passing("the answer was cut off before its end".to_owned()))
    }

    /// The turn of a model whose provider does not let it answer.
    fn refused(&self, message: String) -> Reply {
        let message = Assistant { content: message, model: self.name.clone(), ..Assistant::default() };
        Reply {
            message,
            stop: StopReason::ContentFilter,
            usage: ModelUsage::default(),
            retries: 0,
            seconds: 0.0,
            response_id: None,
            call: None,
        }
    }

    fn reply(&self, end: StreamEnd, details: Vec<Value>) -> Reply {
        let usage = end.captured_usage.as_ref().map(usage).unwrap_or_default();
        let mut content = end.captured_content.unwrap_or_default();
        let tool_calls: Vec<ToolCall> = content.tool_calls().into_iter().map(call).collect();
        let stop = match end.captured_stop_reason {
            Some(Stop::MaxTokens(_)) => StopReason::MaxTokens,
            Some(Stop::ContentFilter(_)) => StopReason::ContentFilter,
            _ if !tool_calls.is_empty() => StopReason::ToolCalls,
            Some(Stop::Completed(_) | Stop::StopSequence(_)) => StopReason::Stop,
            Some(Stop::ToolCall(_)) => StopReason::ToolCalls,
            Some(Stop::Other(_)) | None => StopReason::Unknown,
        };
        let text = content.joined_texts().unwrap_or_default();
        let (thought, text) = without_thought(&text);
        let reasoning = end.captured_reasoning_content.or_else(|| content.joined_reasoning_content());
        let reasoning = reasoning.filter(|text| !text.is_empty()).or_else(|| thought.map(str::to_owned));
        // Back go only calls that the provider takes; what was thought in the text is not said again.
        let sound = thought.is_none() && tool_calls.iter().all(|call| call.parse_error.is_none());
        if !details.is_empty() {
            let model = &self.target.model;
            let parts = details.into_iter().map(|part| ContentPart::from_custom(part, Some(model.clone())));
            content = MessageContent::from_parts(parts.chain(content.into_parts()).collect::<Vec<_>>());
        }
        Reply {
            message: Assistant {
                id: String::new(),
                content: text.to_owned(),
                reasoning,
                tool_calls,
                model: self.name.clone(),
                native: sound.then_some(content),
            },
            stop,
            usage,
            retries: 0,
            seconds: 0.0,
            response_id: end.captured_response_id,
            call: None,
        }
    }
}

/// What some models think aloud before their answer, and the answer.
fn without_thought(text: &str) -> (Option<&str>, &str) {
    let text = text.trim();
    let inside = text.strip_prefix("<think>").and_then(|text| text.split_once("</think>"));
    match inside {
        Some((thought, answer)) => (Some(thought.trim()), answer.trim()),
        None => (None, text),
    }
}

fn call(call: &NativeCall) -> ToolCall {
    ToolCall::of(call.call_id.clone(), call.fn_name.as_str(), call.fn_arguments.clone())
}

/// Tokens as logs count them: read, written to and read from the cache, each token once.
fn usage(usage: &Usage) -> ModelUsage {
    let some = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok());
    let details = usage.prompt_tokens_details.as_ref();
    let read = some(details.and_then(|d| d.cached_tokens));
    let write = some(details.and_then(|d| d.cache_creation_tokens));
    let input = some(usage.prompt_tokens)
        .map(|all| all.saturating_sub(read.unwrap_or(0)).saturating_sub(write.unwrap_or(0)));
    let output = some(usage.completion_tokens);
    let sum = || Some(input? + output? + read.unwrap_or(0) + write.unwrap_or(0));
    ModelUsage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: some(usage.total_tokens).or_else(sum),
        input_tokens_cache_write: write,
        input_tokens_cache_read: read,
        reasoning_tokens: some(usage.completion_tokens_details.as_ref().and_then(|d| d.reasoning_tokens)),
        ..ModelUsage::default()
    }
}

/// The conversation in the library's types. What will be the same next time is marked for the provider's cache: the tools
/// with the instructions, and the conversation so far.
fn chat_request(request: &Request<'_>) -> ChatRequest {
    let cached = || MessageOptions::from(CacheControl::Ephemeral);
    let mut messages: Vec<ChatMessage> = Vec::with_capacity(request.messages.len());
    let mut responses: Vec<ToolResponse> = Vec::new();
    for message in request.messages {
        if let Message::Tool { call_id, function, content, error, .. } = message {
            let text = match error {
                Some(error) if content.is_empty() => error.message.clone(),
                Some(error) => format!("{content}\n\n{}", error.message),
                None => content.clone(),
            };
            responses.push(ToolResponse::new(call_id.clone(), text).with_fn_name(function.clone()));
            continue;
        }
        // The answers to one turn belong into one message.
        if !responses.is_empty() {
            messages.push(ChatMessage::from(std::mem::take(&mut responses)));
        }
        messages.push(match message {
            Message::System { content, .. } => ChatMessage::system(content.as_str()).with_options(cached()),
            Message::User { content, .. } => ChatMessage::user(content.as_str()),
            Message::Assistant(turn) => ChatMessage::assistant(native(turn)),
            Message::Tool { .. } => continue,
        });
    }
    if !responses.is_empty() {
        messages.push(ChatMessage::from(responses));
    }
    if let Some(last) = messages.last_mut() {
        last.options = Some(cached());
    }
    let mut chat = ChatRequest::from_messages(messages);
    if !request.tools.is_empty() {
        chat = chat.with_tools(request.tools.iter().map(|tool| {
            Tool::new(tool.name)
                .with_description(tool.description.as_str())
                .with_schema(tool.parameters.clone())
        }));
    }
    chat
}

fn native(turn: &Assistant) -> MessageContent {
    if let Some(native) = &turn.native {
        return native.clone();
    }
    let mut parts = Vec::new();
    if !turn.content.is_empty() {
        parts.push(ContentPart::from_text(turn.content.as_str()));
    }
    for call in &turn.tool_calls {
        parts.push(ContentPart::ToolCall(NativeCall {
            call_id: call.id.clone(),
            fn_name: call.function.clone(),
            fn_arguments: Value::Object(call.arguments.clone()),
            thought_signatures: None,
        }));
    }
    MessageContent::from_parts(parts)
}

/// Reads off an error whether to try again, and when. Requests and keys never get into the message.
fn failure(error: &genai::Error) -> CallFailure {
    match error {
        genai::Error::HttpError { status, body, headers, .. } => of_status(status.as_u16(), body, headers),
        genai::Error::ChatResponse { body, .. } => of_event(body),
        genai::Error::StreamParse { serde_error, .. } => {
            // An answer that makes no sense may make some the next time.
            CallFailure::passing(format!("the answer cannot be understood: {serde_error}"))
        }
        genai::Error::JsonValueExt(error) => {
            CallFailure::passing(format!("the answer cannot be understood: {}", short(&error.to_string())))
        }
        genai::Error::WebStream { error, .. } => of_connection(&**error),
        other => CallFailure::lasting(short(&other.to_string())),
    }
}

/// What went wrong on the way of an answer.
fn of_connection(error: &(dyn std::error::Error + Send + Sync + 'static)) -> CallFailure {
    if let Some(error) = error.downcast_ref::<genai::Error>() {
        return failure(error);
    }
    if let Some(timeout) = error.downcast_ref::<StreamTimeout>() {
        let problem = match timeout {
            StreamTimeout::Headers => "timed out",
            StreamTimeout::Read => "the answer stood still",
        };
        return CallFailure::passing(problem.to_owned());
    }
    match error.downcast_ref::<reqwest::Error>() {
        Some(error) => CallFailure::passing(chain(error)),
        None => CallFailure::passing(short(&error.to_string())),
    }
}

/// An error that comes in the middle of an answer.
fn of_event(body: &Value) -> CallFailure {
    let error = body.get("error").unwrap_or(body);
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let failure = code.map(|code| of_status(code, &body.to_string(), &HeaderMap::new()));
    let failure = failure.unwrap_or_else(|| {
        let kind = format!("{} {}", text("type"), text("code"));
        let lasting = ["invalid_request", "authentication", "permission", "not_found", "content_filter"];
        let limited = ["overloaded", "rate_limit"].iter().any(|word| kind.contains(word));
        let mut failure = CallFailure::passing(String::new());
        failure.retry = !lasting.iter().any(|word| kind.contains(word));
        failure.rate_limited = limited;
        failure.sort(&body.to_string());
        failure
    });
    let said = if text("message").is_empty() { body.to_string() } else { text("message").to_owned() };
    CallFailure { message: format!("the answer ended with an error: {}", short(&said)), ..failure }
}

fn of_status(status: u16, body: &str, headers: &HeaderMap) -> CallFailure {
    // 529 is what one provider says when overloaded.
    let rate_limited = matches!(status, 429 | 503 | 529);
    let mut retry = rate_limited || matches!(status, 408 | 409 | 425) || status >= 500;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match header("x-should-retry") {
        Some("true") => retry = true,
        Some("false") => retry = false,
        _ => {}
    }
    let mut failure = CallFailure {
        status: Some(status),
        retry_after: retry_after(&header),
        retry,
        rate_limited,
        ..CallFailure::lasting(format!("status {status}: {}", short(&complaint(body))))
    };
    if matches!(status, 400 | 413 | 422) {
        failure.sort(body);
    }
    failure
}

/// How providers say that a conversation is too long for the model.
const TOO_LONG: [&str; 6] = [
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceeds the maximum number of tokens",
    "request_too_large",
    "exceed context limit",
];
/// How they say that they do not let it be answered.
const FILTERED: [&str; 3] = ["content_filter", "content management policy", "violating our usage policy"];

impl CallFailure {
    /// Tells complaints apart that mean something other than a mistake of ours.
    fn sort(&mut self, body: &str) {
        let says = |words: &[&str]| words.iter().any(|words| body.contains(words));
        self.too_long = says(&TOO_LONG);
        self.filtered = !self.too_long && says(&FILTERED);
        self.retry &= !self.too_long && !self.filtered;
    }
}

fn retry_after<'a>(header: &dyn Fn(&str) -> Option<&'a str>) -> Option<Duration> {
    let seconds = |text: &str| text.trim().parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    if let Some(ms) = header("retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let text = header("retry-after")?;
    seconds(text).or_else(|| {
        let until = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp().as_millisecond();
        let wait_ms = until.saturating_sub(jiff::Timestamp::now().as_millisecond());
        Some(Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0)))
    })
}

/// The sentence in an error's body, wherever providers put it.
fn complaint(body: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let message = parsed.as_ref().and_then(|value| {
        ["/error/message", "/message", "/error"].iter().find_map(|at| value.pointer(at)?.as_str())
    });
    message.map_or_else(|| body.trim().to_owned(), str::to_owned)
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(COMPLAINT_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// An error with its causes. The address is left out: some providers take the key in it.
fn chain(error: &reqwest::Error) -> String {
    let kind = match error {
        e if e.is_timeout() => "timed out",
        e if e.is_connect() => "cannot connect",
        e if e.is_body() || e.is_decode() => "the answer was cut off",
        _ => "the connection failed",
    };
    let mut text = kind.to_owned();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    short(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_say_whether_to_try_again() {
        let of = |status, headers: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, value.parse().unwrap());
            }
            let failure = of_status(status, r#"{"error": {"message": "no"}}"#, &map);
            (failure.retry, failure.rate_limited, failure.retry_after.map(|d| d.as_secs_f64()))
        };
        assert_eq!(of(429, &[("retry-after", "2.5")]), (true, true, Some(2.5)));
        assert_eq!(of(429, &[("retry-after-ms", "1500"), ("retry-after", "9")]), (true, true, Some(1.5)));
        assert_eq!(of(503, &[]), (true, true, None));
        assert_eq!(of(500, &[]), (true, false, None));
        assert_eq!(of(400, &[]), (false, false, None));
        assert_eq!(of(401, &[]), (false, false, None));
        assert_eq!(of(500, &[("x-should-retry", "false")]), (false, false, None));
        let past = of(429, &[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")]);
        assert_eq!(past, (true, true, Some(0.0)));
        assert_eq!(of(429, &[("retry-after", "-4")]), (true, true, None));
    }

    #[test]
    fn complaints_are_found_and_short() {
        assert_eq!(complaint(r#"{"error": "x"}"#), "x");
        assert_eq!(complaint("<html>"), "<html>");
        assert_eq!(short(&"é".repeat(700)).chars().count(), 601);
    }
}
