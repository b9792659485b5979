//! What is sent to providers, what is made of their answers, and what is done about their failures.

use std::sync::Arc;
use std::time::Duration;

use ct_eval::model::{Message, Model, ModelError, ModelOptions, Reply, Request, StopReason, ToolSpec};
use ct_model::PriceTable;
use serde_json::{Value, json};

use crate::provider::{
    Answer, FakeProvider, anthropic, anthropic_turn, google, openai, openai_turn, responses, responses_ended,
};

fn options() -> ModelOptions {
    ModelOptions {
        backoff: Duration::from_millis(10),
        attempts_max: 4,
        timeout: Duration::from_secs(60),
        ..ModelOptions::default()
    }
}

fn open(name: &str, server: &FakeProvider, options: &ModelOptions) -> Model {
    let prices = br#"[{"model": "openai-api/newer/m", "pricing": {"input_per_million": 2, "output_per_million": 20,
        "cached_input_per_million": 0.2}}, {"model": "openai/m", "pricing": {"input_per_million": 1, "output_per_million": 10,
        "cached_input_per_million": 0.1}}]"#;
    let prices = Some(Arc::new(PriceTable::parse(prices).unwrap()));
    let variables = |variable: &str| match variable {
        _ if variable.ends_with("_API_KEY") => Some("secret-key".to_owned()),
        _ if variable.ends_with("_BASE_URL") => Some(server.url()),
        "NEWER_PROTOCOL" => Some("responses".to_owned()),
        _ => None,
    };
    Model::open(&name.parse().unwrap(), &variables, options, prices).unwrap()
}

fn tools() -> Vec<ToolSpec> {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    vec![ToolSpec { name: "bash", description: "Run".to_owned(), parameters }]
}

async fn ask(model: &Model, messages: &[Message]) -> Result<Reply, ModelError> {
    model.generate(&Request { messages, tools: &tools(), conversation: "c" }).await
}

fn first() -> Vec<Message> {
    vec![Message::system("s".to_owned(), "Be brief."), Message::user("u".to_owned(), "Say hello.")]
}

/// Asks, answers the calls, asks again; gives both requests and the first reply.
async fn conversation(name: &str, call: String, end: String) -> (Vec<Value>, Reply) {
    let server = FakeProvider::start(vec![Answer::fine(call), Answer::fine(end)]);
    let model = open(name, &server, &options());
    let mut messages = first();
    let reply = ask(&model, &messages).await.unwrap();
    messages.push(Message::Assistant(reply.message.clone()));
    for call in &reply.message.tool_calls {
        messages.push(Message::Tool {
            id: format!("t-{}", call.id),
            call_id: call.id.clone(),
            function: call.function.clone(),
            content: "hello\n".to_owned(),
            error: None,
        });
    }
    let end = ask(&model, &messages).await.unwrap();
    assert_eq!((end.message.content.as_str(), end.stop), ("done", StopReason::Stop));
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.headers.contains("secret-key")));
    (asked.into_iter().map(|asked| asked.body).collect(), reply)
}

fn two_calls() -> [(&'static str, Value); 2] {
    [("bash", json!({"command": "echo 1"})), ("bash", json!({"command": "echo 2"}))]
}

#[tokio::test]
async fn openai_protocol() {
    let calls = two_calls();
    let (asked, reply) = conversation("openai/m", openai("ok", &calls), openai("done", &[])).await;
    assert_eq!(reply.stop, StopReason::ToolCalls);
    assert_eq!(reply.message.content, "ok");
    let called: Vec<_> =
        reply.message.tool_calls.iter().map(|call| call.arguments["command"].clone()).collect();
    assert_eq!(called, [json!("echo 1"), json!("echo 2")]);
    let usage = &reply.usage;
    assert_eq!(
        (usage.input_tokens, usage.input_tokens_cache_read, usage.output_tokens, usage.reasoning_tokens),
        (Some(20), Some(100), Some(30), Some(10))
    );
    // 20 at 1, 100 at 0.1 and 30 at 10 dollars a million.
    assert!((usage.total_cost.unwrap() - 0.00033).abs() < 1e-12, "{usage:?}");
    let roles = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap().iter();
        messages.map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(&asked[0]), ["system", "user"]);
    assert_eq!(roles(&asked[1]), ["system", "user", "assistant", "tool", "tool"]);
    assert_eq!(asked[1]["messages"][4]["tool_call_id"], "call_1");
    assert_eq!(asked[0]["tools"][0]["function"]["name"], "bash");
}

/// OpenAI's newer protocol, which its own newer models are asked in.
const NEWER: &str = "openai-api/newer/m";

#[tokio::test]
async fn openai_responses_protocol() {
    let calls = two_calls();
    let (asked, reply) = conversation(NEWER, responses("ok", &calls), responses("done", &[])).await;
    assert_eq!((reply.stop, reply.message.content.as_str()), (StopReason::ToolCalls, "ok"));
    assert_eq!(reply.message.reasoning.as_deref(), Some("I think."));
    let called: Vec<_> = reply
        .message
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.function.as_str(), call.arguments["command"].clone()))
        .collect();
    assert_eq!(called, [("call_0", "bash", json!("echo 1")), ("call_1", "bash", json!("echo 2"))]);
    let usage = &reply.usage;
    assert_eq!(
        (usage.input_tokens, usage.input_tokens_cache_read, usage.output_tokens, usage.reasoning_tokens),
        (Some(20), Some(100), Some(30), Some(10))
    );
    assert!((usage.total_cost.unwrap() - 0.00066).abs() < 1e-12, "{usage:?}");
    // What it thought goes back sealed, before what it did, and each call before its answer.
    let items: Vec<_> = asked[1]["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let kind = item["type"].as_str().or(item["role"].as_str()).unwrap();
            format!("{kind} {}", item["call_id"].as_str().unwrap_or_default()).trim().to_owned()
        })
        .collect();
    let expected = "system|user|reasoning|message|function_call call_0|function_call call_1|\
        function_call_output call_0|function_call_output call_1";
    assert_eq!(items.join("|"), expected);
    let input = &asked[1]["input"];
    assert_eq!((&input[2]["encrypted_content"], &input[6]["output"]), (&json!("sealed"), &json!("hello\n")));
    let tool = &asked[0]["tools"][0];
    assert_eq!((&tool["type"], &tool["name"]), (&json!("function"), &json!("bash")));
    assert_eq!((&asked[0]["store"], &asked[0]["stream"]), (&json!(false), &json!(true)), "{:#}", asked[0]);
}

#[tokio::test]
async fn openai_responses_that_fail() {
    let fine = || Answer::fine(responses("done", &[]));
    let failed = |code: &str| {
        Answer::fine(responses_ended("failed", &json!({"error": {"code": code, "message": "not now"}})))
    };
    let error = json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"});
    let error = Answer::fine(format!("event: error\ndata: {error}\n\n"));
    let limited = Answer::Whole(429, vec![("retry-after-ms", "20".to_owned())], "{}".to_owned());
    // What passes is tried again, wherever it comes.
    for passing in [
        failed("server_error"),
        failed("rate_limit_exceeded"),
        error,
        limited,
        Answer::status(500, "{}"),
        Answer::Closed,
        Answer::Cut(responses("ok", &two_calls())),
        Answer::ended_after(6, &responses("ok", &two_calls())),
    ] {
        let server = FakeProvider::start(vec![passing.clone(), fine()]);
        let reply = ask(&open(NEWER, &server, &options()), &first()).await.unwrap();
        assert_eq!((reply.message.content.as_str(), reply.retries), ("done", 1), "{passing:?}");
        assert_eq!(server.asked()[0].path, "/v1/responses");
    }
    // What stays is told at once, in the provider's words.
    for (code, said) in [("invalid_request_error", "not now"), ("context_length_exceeded", "not now")] {
        let server = FakeProvider::start(vec![failed(code), fine()]);
        let error = ask(&open(NEWER, &server, &options()), &first()).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!((source, server.asked().len()), (format!("the answer ended with an error: {said}"), 1));
    }
    // An answer that was not let come to its end says why.
    let incomplete =
        |reason: &str| responses_ended("incomplete", &json!({"incomplete_details": {"reason": reason}}));
    for (reason, stop) in
        [("max_output_tokens", StopReason::MaxTokens), ("content_filter", StopReason::ContentFilter)]
    {
        let server = FakeProvider::start(vec![Answer::fine(incomplete(reason))]);
        let reply = ask(&open(NEWER, &server, &options()), &first()).await.unwrap();
        assert_eq!((reply.stop, reply.message.content.as_str()), (stop, "so"), "{reason}");
        assert_eq!(reply.usage.output_tokens, Some(30));
    }
}

#[tokio::test]
async fn anthropic_protocol_with_cache_marks() {
    let calls = two_calls();
    let (asked, reply) = conversation("anthropic/m", anthropic("ok", &calls), anthropic("done", &[])).await;
    let usage = &reply.usage;
    assert_eq!(
        (
            usage.input_tokens,
            usage.input_tokens_cache_read,
            usage.input_tokens_cache_write,
            usage.total_tokens
        ),
        (Some(20), Some(100), Some(7), Some(157))
    );
    assert_eq!(usage.total_cost, None, "a model without a price has no cost");
    assert_eq!(reply.message.tool_calls.len(), 2);
    // Both answers are in one turn, and the instructions and the end of the conversation are marked for the cache.
    let messages = asked[1]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert_eq!(messages[2]["content"].as_array().unwrap().len(), 2);
    let marked = |value: &Value| value.to_string().contains("cache_control");
    assert!(marked(&asked[0]["system"]) && marked(&messages[2]) && !marked(&messages[0]), "{:#}", asked[1]);
}

#[tokio::test]
async fn failures_that_pass_are_waited_for() {
    let limited = |headers| Answer::Whole(429, headers, r#"{"error": {"message": "slow down"}}"#.to_owned());
    let server = FakeProvider::start(vec![
        limited(vec![("retry-after", "1".to_owned())]),
        Answer::Whole(500, Vec::new(), "oops".to_owned()),
        Answer::Cut(openai("never", &[])),
        Answer::fine(openai("done", &[])),
    ]);
    let model = open("openai/m", &server, &options());
    let reply = ask(&model, &first()).await.unwrap();
    assert_eq!((reply.message.content.as_str(), reply.retries), ("done", 3));
    let asked = server.asked();
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(1), "Retry-After is heeded");
    let same = asked.iter().all(|other| other.body == asked[0].body && other.path == asked[0].path);
    assert!(same && asked.len() == 4);
}

#[tokio::test]
async fn a_closed_connection_and_a_slow_answer_are_borne() {
    let slow = Answer::Slow(Duration::from_millis(100), openai("done", &[]));
    let server = FakeProvider::start(vec![Answer::Closed, Answer::Closed, slow]);
    let reply = ask(&open("openai/m", &server, &options()), &first()).await.unwrap();
    assert_eq!(reply.retries, 2);
    assert!(reply.seconds >= 0.3, "only the attempt that succeeded counts: {}", reply.seconds);
}

#[tokio::test]
async fn streams_that_stall_or_are_cut_are_tried_again() {
    let server_error = "data: {\"error\": {\"message\": \"oops\", \"type\": \"server_error\"}}\n\n";
    let overloaded = "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \
                      \"message\": \"Overloaded\"}}\n\n";
    for (name, body, error) in [
        ("openai/m", openai as fn(&str, &[(&str, Value)]) -> String, server_error),
        ("anthropic/m", anthropic, overloaded),
        ("google/m", google, ""),
    ] {
        let whole = body("done", &[("bash", json!({"command": "ls"}))]);
        let mut answers = vec![
            Answer::Stalled(whole.clone()),
            Answer::Cut(whole.clone()),
            // The connection is fine, and the answer is not all there.
            Answer::ended_after(1, &whole),
            Answer::fine("data: {\"choices\": [\n\n".to_owned()),
        ];
        if name == "anthropic/m" {
            answers[3] = Answer::fine("event: message_start\ndata: {\n\n".to_owned());
        }
        if !error.is_empty() {
            answers.push(Answer::fine(error.to_owned()));
        }
        let failures = answers.len();
        answers.push(Answer::fine(whole));
        let server = FakeProvider::start(answers);
        let options = ModelOptions { stall: Duration::from_millis(300), attempts_max: 9, ..options() };
        let reply = ask(&open(name, &server, &options), &first()).await.unwrap();
        assert_eq!(reply.retries as usize, failures, "{name}");
        assert_eq!((reply.message.content.as_str(), reply.message.tool_calls.len()), ("done", 1), "{name}");
    }
}

#[tokio::test]
async fn an_answer_that_comes_slowly_is_waited_for() {
    // Slower in all than it may stand still.
    let slow = Answer::Slow(Duration::from_millis(400), anthropic("done", &[]));
    let server = FakeProvider::start(vec![slow]);
    let options = ModelOptions { stall: Duration::from_secs(30), ..options() };
    let reply = ask(&open("anthropic/m", &server, &options), &first()).await.unwrap();
    assert_eq!((reply.retries, reply.message.content.as_str()), (0, "done"));

    // The time of an attempt ends it though something comes now and then.
    let endless = Answer::Slow(Duration::from_secs(3600), anthropic("never", &[]));
    let server = FakeProvider::start(vec![endless, Answer::fine(anthropic("done", &[]))]);
    let options = ModelOptions { timeout: Duration::from_millis(500), ..options };
    let reply = ask(&open("anthropic/m", &server, &options), &first()).await.unwrap();
    assert_eq!((reply.retries, reply.message.content.as_str()), (1, "done"));
}

#[tokio::test]
async fn arguments_that_make_no_sense_reach_the_model_again() {
    for (name, body) in
        [("openai/m", openai as fn(&str, &[(&str, Value)]) -> String), ("anthropic/m", anthropic)]
    {
        let calls = [
            ("bash", json!("{\"command\": \"ls")),
            ("bash", json!("[1]")),
            ("bash", json!({"command": "ls"})),
        ];
        let server =
            FakeProvider::start(vec![Answer::fine(body("ok", &calls)), Answer::fine(body("done", &[]))]);
        let model = open(name, &server, &options());
        let mut messages = first();
        let reply = ask(&model, &messages).await.unwrap();
        let errors: Vec<bool> =
            reply.message.tool_calls.iter().map(|call| call.parse_error.is_some()).collect();
        assert_eq!(errors, [true, true, false], "{name}: {:?}", reply.message.tool_calls);
        assert!(reply.message.tool_calls[0].parse_error.as_ref().unwrap().contains("{\"command\": \"ls"));
        messages.push(Message::Assistant(reply.message.clone()));
        for call in &reply.message.tool_calls {
            messages.push(Message::Tool {
                id: format!("t-{}", call.id),
                call_id: call.id.clone(),
                function: call.function.clone(),
                content: call.parse_error.clone().unwrap_or_default(),
                error: None,
            });
        }
        ask(&model, &messages).await.unwrap();
        // What goes back is what providers take: objects.
        let asked = server.asked().pop().unwrap().body;
        match name {
            "openai/m" => {
                let sent = &asked["messages"][2]["tool_calls"][0]["function"]["arguments"];
                assert_eq!(sent, "{}", "{asked:#}");
            }
            _ => {
                let content = asked["messages"][1]["content"].as_array().unwrap();
                assert!(
                    content
                        .iter()
                        .filter(|part| part["type"] == "tool_use")
                        .all(|part| part["input"].is_object())
                );
            }
        }
        assert!(asked.to_string().contains("not understood"), "{asked:#}");
    }
}

#[tokio::test]
async fn google_protocol() {
    let calls = two_calls();
    let (asked, reply) = conversation("google/gemini-m", google("ok", &calls), google("done", &[])).await;
    assert_eq!((reply.stop, reply.message.content.as_str()), (StopReason::ToolCalls, "ok"));
    assert_eq!(reply.message.tool_calls.len(), 2);
    let usage = &reply.usage;
    assert_eq!(
        (usage.input_tokens, usage.input_tokens_cache_read, usage.output_tokens, usage.total_tokens),
        (Some(20), Some(100), Some(30), Some(150))
    );
    assert_eq!(asked[0]["systemInstruction"]["parts"][0]["text"], "Be brief.", "{:#}", asked[0]);
    assert_eq!(asked[0]["tools"][0]["functionDeclarations"][0]["name"], "bash");
    let roles: Vec<&str> = asked[1]["contents"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|content| content["role"].as_str())
        .collect();
    assert_eq!(roles, ["user", "model", "user"]);
    assert_eq!(asked[1]["contents"][2]["parts"].as_array().unwrap().len(), 2, "{:#}", asked[1]);
}

#[tokio::test]
async fn openrouter_gets_its_reasoning_back() {
    let pieces = [
        json!({"type": "reasoning.text", "index": 0, "text": "I "}),
        json!({"type": "reasoning.text", "index": 0, "text": "think", "signature": "sig"}),
        json!({"type": "reasoning.encrypted", "index": 1, "data": "xyz"}),
    ];
    let call = openai_turn("ok", &two_calls(), &pieces, "tool_calls");
    let (asked, reply) = conversation("openrouter/a/b", call, openai("done", &[])).await;
    assert_eq!(reply.message.tool_calls.len(), 2);
    assert_eq!(asked[0]["model"], "a/b");
    let expected = json!([
        {"type": "reasoning.text", "index": 0, "text": "I think", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "xyz"},
    ]);
    assert_eq!(asked[1]["messages"][2]["reasoning_details"], expected, "{:#}", asked[1]);
}

#[tokio::test]
async fn ollama_needs_no_key() {
    let thinking = "<think>It is easy.</think>\n\nok";
    let server = FakeProvider::start(vec![Answer::fine(openai(thinking, &two_calls()))]);
    let url = server.url();
    let variables = |variable: &str| (variable == "OLLAMA_BASE_URL").then(|| url.clone());
    let model = Model::open(&"ollama/small:7b".parse().unwrap(), &variables, &options(), None).unwrap();
    let reply = ask(&model, &first()).await.unwrap();
    assert_eq!(
        (reply.message.content.as_str(), reply.message.reasoning.as_deref()),
        ("ok", Some("It is easy."))
    );
    assert_eq!(reply.message.tool_calls.len(), 2);
    let asked = server.asked().pop().unwrap();
    assert_eq!((asked.path.as_str(), &asked.body["model"]), ("/v1/chat/completions", &json!("small:7b")));
    assert_eq!(asked.body["stream"], true);
}

#[tokio::test]
async fn answers_that_end_early_say_why() {
    let cut = openai_turn("so far", &[("bash", json!("{\"command\": \"l"))], &[], "length");
    let filtered = openai_turn("", &[], &[], "content_filter");
    let cases = [
        ("openai/m", cut, StopReason::MaxTokens),
        ("openai/m", filtered, StopReason::ContentFilter),
        ("anthropic/m", anthropic_turn("so far", &[], "max_tokens"), StopReason::MaxTokens),
        ("anthropic/m", anthropic_turn("", &[], "refusal"), StopReason::ContentFilter),
    ];
    for (name, body, stop) in cases {
        let server = FakeProvider::start(vec![Answer::fine(body)]);
        let reply = ask(&open(name, &server, &options()), &first()).await.unwrap();
        assert_eq!((reply.stop, server.asked().len()), (stop, 1), "{name}");
    }
    let refused = r#"{"error": {"code": "content_filter", "message": "The prompt was filtered"}}"#;
    let server = FakeProvider::start(vec![Answer::status(400, refused)]);
    let reply = ask(&open("openai/m", &server, &options()), &first()).await.unwrap();
    assert_eq!(reply.stop, StopReason::ContentFilter);
    assert!(reply.message.content.contains("The prompt was filtered"));
}

#[tokio::test]
async fn mistakes_are_not_repeated() {
    let complaint =
        |message: &str| json!({"type": "error", "error": {"type": "x", "message": message}}).to_string();
    for (name, status, said) in [
        ("openai/m", 400, "messages: no such field"),
        ("anthropic/m", 400, "messages: no such field"),
        ("openai/m", 401, "Incorrect API key provided"),
        ("anthropic/m", 401, "invalid x-api-key"),
        ("openai/m", 400, "This model's maximum context length is 128000 tokens"),
        ("anthropic/m", 400, "prompt is too long: 210000 tokens > 200000 maximum"),
    ] {
        let server = FakeProvider::start(vec![Answer::status(status, complaint(said))]);
        let error = ask(&open(name, &server, &options()), &first()).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!((source, server.asked().len()), (format!("status {status}: {said}"), 1), "{name}");
    }
    // In the middle of an answer, too.
    let event = "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"invalid_request_error\", \
                 \"message\": \"no\"}}\n\n";
    let server = FakeProvider::start(vec![Answer::fine(event.to_owned())]);
    let error = ask(&open("anthropic/m", &server, &options()), &first()).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!((source.as_str(), server.asked().len()), ("the answer ended with an error: no", 1));
}

#[tokio::test]
async fn failures_that_stay_are_told_at_once_and_without_the_key() {
    let refused = r#"{"error": {"message": "no such model"}}"#.to_owned();
    let server = FakeProvider::start(vec![Answer::Whole(404, Vec::new(), refused)]);
    let error = ask(&open("openai/m", &server, &options()), &first()).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(error.to_string(), "model openai/m did not answer");
    assert_eq!(source, "status 404: no such model");
    assert_eq!(server.asked().len(), 1);

    let server = FakeProvider::start(vec![Answer::Closed]);
    let error = ask(&open("openai/m", &server, &options()), &first()).await.unwrap_err();
    assert_eq!(server.asked().len(), 4, "no more attempts than were asked for");
    assert!(!format!("{error:?}").contains("secret-key"), "{error:?}");
}

#[tokio::test]
async fn a_rate_limit_holds_everybody_back() {
    let limited = Answer::Whole(429, vec![("retry-after", "1".to_owned())], "{}".to_owned());
    let server = FakeProvider::start(vec![limited, Answer::fine(openai("done", &[]))]);
    let model = open("openai/m", &server, &ModelOptions { connections_max: 1, ..options() });
    let messages = first();
    let (a, b) = tokio::join!(ask(&model, &messages), ask(&model, &messages));
    a.unwrap();
    b.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(1), "nobody asks while the limit lasts");
}
