//! What is sent to providers, what is made of their answers, and what is done about their failures.

use std::sync::Arc;
use std::time::Duration;

use ct_eval::model::{Message, Model, ModelError, ModelOptions, Reply, Request, StopReason, ToolSpec};
use ct_model::PriceTable;
use serde_json::{Value, json};

use crate::provider::{Answer, FakeProvider, anthropic, openai};

const OK: u16 = 200;

fn whole(body: String) -> Answer {
    Answer::Whole(OK, Vec::new(), body)
}

fn options() -> ModelOptions {
    ModelOptions {
        backoff: Duration::from_millis(10),
        attempts_max: 4,
        timeout: Duration::from_secs(2),
        ..ModelOptions::default()
    }
}

fn open(name: &str, server: &FakeProvider, options: &ModelOptions) -> Model {
    let prices = br#"[{"model": "openai/m", "pricing": {"input_per_million": 1, "output_per_million": 10,
        "cached_input_per_million": 0.1}}]"#;
    let prices = Some(Arc::new(PriceTable::parse(prices).unwrap()));
    let variables = |variable: &str| match variable {
        _ if variable.ends_with("_API_KEY") => Some("secret-key".to_owned()),
        _ if variable.ends_with("_BASE_URL") => Some(server.url()),
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
    let server = FakeProvider::start(vec![whole(call), whole(end)]);
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
        whole(openai("done", &[])),
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

    let never = Answer::Slow(Duration::from_secs(60), openai("done", &[]));
    let server = FakeProvider::start(vec![never, whole(openai("done", &[]))]);
    let options = ModelOptions { timeout: Duration::from_millis(300), ..options() };
    let reply = ask(&open("openai/m", &server, &options), &first()).await.unwrap();
    assert_eq!(reply.retries, 1);
}

#[tokio::test]
async fn failures_that_stay_are_told_at_once_and_without_the_key() {
    let refused = r#"{"error": {"message": "no such model"}}"#.to_owned();
    let server = FakeProvider::start(vec![Answer::Whole(404, Vec::new(), refused)]);
    let error = ask(&open("openai/m", &server, &options()), &first()).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(error.to_string(), "model openai/m did not answer after 1 attempts");
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
    let server = FakeProvider::start(vec![limited, whole(openai("done", &[]))]);
    let model = open("openai/m", &server, &ModelOptions { connections_max: 1, ..options() });
    let messages = first();
    let (a, b) = tokio::join!(ask(&model, &messages), ask(&model, &messages));
    a.unwrap();
    b.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(1), "nobody asks while the limit lasts");
}
