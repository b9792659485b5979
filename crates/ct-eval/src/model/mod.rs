//! Models: one way to ask any provider for the next turn of a conversation.
//!
//! The protocols are the client library's; around it this module adds what a long run needs: retries that heed
//! `Retry-After`, a limit on concurrent calls that follows the provider's rate limits, and the price of each call.

mod gate;
mod message;
mod mock;
mod name;
mod provider;
mod raw;
mod retry;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ct_model::{ModelUsage, PriceTable};

use gate::Gate;
pub use message::{Assistant, Message, StopReason, ToolCall, ToolError, ToolErrorKind, ToolSpec};
use mock::Mock;
pub use name::ModelName;
use provider::Provider;
pub(crate) use raw::RawCall;
use retry::Backoff;

/// Looks up a variable of the environment or of a `.env` file.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How models are called.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// Calls at the same time, at most.
    pub connections_max: usize,
    /// Attempts of one call, the first included.
    pub attempts_max: u32,
    /// The wait before the second attempt; it doubles from then on.
    pub backoff: Duration,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How long an answer that has begun may stand still.
    pub stall: Duration,
    /// Tokens of one answer; the provider's default without.
    pub max_tokens: Option<u32>,
    /// Sampling temperature; the provider's default without.
    pub temperature: Option<f64>,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            connections_max: 16,
            attempts_max: 8,
            backoff: Duration::from_secs(1),
            timeout: Duration::from_secs(1200),
            stall: Duration::from_secs(300),
            max_tokens: None,
            temperature: None,
        }
    }
}

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The conversation so far, a system message first.
    pub messages: &'a [Message],
    /// Tools it may call; none means it is to answer in text.
    pub tools: &'a [ToolSpec],
    /// Tells conversations apart that run side by side; providers route by it to a warm cache.
    pub conversation: &'a str,
}

/// What a model answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The turn.
    pub message: Assistant,
    /// Why it ended.
    pub stop: StopReason,
    /// Tokens, and the price as far as it is known.
    pub usage: ModelUsage,
    /// Attempts that failed before.
    pub retries: u32,
    /// Seconds that the successful attempt took.
    pub seconds: f64,
    /// The provider's name of the answer.
    pub response_id: Option<String>,
    /// What was sent and what came, for the log; none of a mock.
    pub(crate) call: Option<RawCall>,
}

/// A model that can be asked. Clones share limits and connections.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    name: ModelName,
    options: ModelOptions,
    backend: Backend,
    gate: Gate,
    backoff: Backoff,
    prices: Option<Arc<PriceTable>>,
}

enum Backend {
    Provider(Box<Provider>),
    Mock(Mock),
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Model").field(&self.0.name.to_string()).finish()
    }
}

impl Model {
    /// Makes a model ready to be asked. Nothing is sent yet.
    pub fn open(
        name: &ModelName,
        variables: Variables<'_>,
        options: &ModelOptions,
        prices: Option<Arc<PriceTable>>,
    ) -> Result<Self, ModelError> {
        let backend = match name.provider() {
            "mock" => Backend::Mock(Mock::load(name.model())?),
            _ => Backend::Provider(Box::new(Provider::open(name, variables, options)?)),
        };
        Ok(Self(Arc::new(Inner {
            name: name.clone(),
            options: options.clone(),
            backend,
            gate: Gate::new(options.connections_max),
            backoff: Backoff { attempts_max: options.attempts_max, first: options.backoff },
            prices,
        })))
    }

    /// `provider/model`, as it was asked for.
    pub fn name(&self) -> String {
        self.0.name.to_string()
    }

    /// How it is asked, as logs write it: `temperature` and `max_tokens`, where they are not the provider's own.
    pub fn config(&self) -> serde_json::Value {
        let options = &self.0.options;
        let mut config = serde_json::Map::new();
        config.extend(options.temperature.map(|value| ("temperature".to_owned(), value.into())));
        config.extend(options.max_tokens.map(|value| ("max_tokens".to_owned(), value.into())));
        config.into()
    }

    /// The address it is asked at, if it is not the provider's own.
    pub fn base_url(&self) -> Option<&str> {
        match &self.0.backend {
            Backend::Provider(provider) => provider.base_url(),
            Backend::Mock(_) => None,
        }
    }

    /// Asks for the next turn.
    pub async fn generate(&self, request: &Request<'_>) -> Result<Reply, ModelError> {
        let mut reply = match &self.0.backend {
            Backend::Mock(mock) => mock.reply(request).await?,
            Backend::Provider(provider) => self.with_retries(provider, request).await?,
        };
        if reply.usage.total_cost.is_none()
            && let Some(prices) = &self.0.prices
        {
            reply.usage.total_cost = prices.cost(&self.name(), &reply.usage);
        }
        Ok(reply)
    }

    async fn with_retries(&self, provider: &Provider, request: &Request<'_>) -> Result<Reply, ModelError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let permit = self.0.gate.enter().await;
            let began = std::time::Instant::now();
            let result = provider.generate(request).await;
            let failure = match result {
                Ok(mut reply) => {
                    permit.succeeded();
                    reply.retries = attempt - 1;
                    reply.seconds = began.elapsed().as_secs_f64();
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            let wait = self.0.backoff.wait(attempt, &failure);
            match (wait, failure.rate_limited) {
                (Some(wait), true) => permit.limited(wait),
                _ => drop(permit),
            }
            let Some(wait) = wait else {
                return Err(ModelError::Call { model: self.name(), attempts: attempt, source: failure });
            };
            tokio::time::sleep(wait).await;
        }
    }
}

/// What one attempt came to.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CallFailure {
    /// What the provider or the connection said.
    message: String,
    /// The status, where there was an answer.
    status: Option<u16>,
    /// How long the provider wants us to wait.
    retry_after: Option<Duration>,
    /// Whether another attempt may help.
    retry: bool,
    /// Whether it was a limit on the rate.
    rate_limited: bool,
    /// Whether the conversation is longer than the model reads.
    too_long: bool,
    /// Whether the provider refuses to have it answered.
    filtered: bool,
}

impl CallFailure {
    /// Another attempt does not help.
    fn lasting(message: String) -> Self {
        Self {
            message,
            status: None,
            retry_after: None,
            retry: false,
            rate_limited: false,
            too_long: false,
            filtered: false,
        }
    }

    /// Another attempt may help.
    fn passing(message: String) -> Self {
        Self { retry: true, ..Self::lasting(message) }
    }
}

/// How often it was tried, when that is worth a word.
fn tries(attempts: u32) -> String {
    if attempts > 1 { format!(" in {attempts} attempts") } else { String::new() }
}

impl ModelError {
    /// Whether the conversation is longer than the model reads: nothing more can be asked, but what was done counts.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self, Self::Call { source, .. } if source.too_long)
    }
}

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The name is not `provider/model`.
    #[error(
        "{name:?} is not the name of a model: it should be provider/model, such as anthropic/claude-haiku-4-5"
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// Nobody knows this provider.
    #[error("no provider is called {provider:?}")]
    Provider {
        /// What was given.
        provider: String,
    },
    /// The key is missing.
    #[error("model {model} needs a key: {variable} is not set")]
    NoKey {
        /// The model.
        model: String,
        /// The variable that holds the key.
        variable: String,
    },
    /// The address is missing or is none.
    #[error("model {model} needs an address: {variable} {problem}")]
    BaseUrl {
        /// The model.
        model: String,
        /// The variable that holds the address.
        variable: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The protocol asked for is none.
    #[error("model {model} cannot be asked: {variable} is neither chat nor responses")]
    Protocol {
        /// The model.
        model: String,
        /// The variable that holds the protocol's name.
        variable: String,
    },
    /// The HTTP client cannot be made.
    #[error("failed to set up the connection to the model: {message}")]
    Setup {
        /// Why.
        message: String,
    },
    /// The script of a mock model cannot be read.
    #[error("failed to read the mock model's script {path}: {message}")]
    Script {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The script of a mock model is at its end.
    #[error("the mock model's script has no turn {turn}")]
    ScriptEnded {
        /// The turn that was asked for, from 1.
        turn: usize,
    },
    /// The model did not answer.
    #[error("model {model} did not answer{}", tries(*attempts))]
    Call {
        /// The model.
        model: String,
        /// How often it was tried.
        attempts: u32,
        /// What the last attempt came to.
        source: CallFailure,
    },
}
