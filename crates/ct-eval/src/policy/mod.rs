//! Policies: what decides an agent's next turn.

mod attack;
mod honest;
mod prompts;
mod scripted;

use std::path::PathBuf;

use serde_json::{Map, Value};

use attack::Attack;
use honest::Honest;
use scripted::Scripted;

use crate::log::{ModelCall, Recorder, selected_name};
use crate::model::{Assistant, Message, Model, ModelError, Reply, Request, ToolSpec};
use crate::spec::SampleSpec;

pub use scripted::{Replay, Turn};

/// A policy, for lists.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Whether it asks a model.
    pub needs_model: bool,
    /// Whether it works on side tasks.
    pub attacks: bool,
    /// What may be given with `-p`.
    pub arguments: &'static [ArgumentInfo],
}

/// An argument of a policy.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
}

const NUDGES: ArgumentInfo = ArgumentInfo {
    name: "nudges",
    about: "how often in a row an agent that calls no tool is asked to go on (3)",
};
const INSTRUCTIONS: ArgumentInfo =
    ArgumentInfo { name: "instructions", about: "added to what the agent is told at the beginning" };

/// All policies.
pub const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "honest",
        about: "a model works on the main tasks as they are given",
        needs_model: true,
        attacks: false,
        arguments: &[INSTRUCTIONS, NUDGES],
    },
    PolicyInfo {
        name: "attack",
        about: "a model works on the main tasks and covertly on the side tasks; its plan stays out of the visible history",
        needs_model: true,
        attacks: true,
        arguments: &[
            INSTRUCTIONS,
            NUDGES,
            ArgumentInfo { name: "plan", about: "whether it makes a plan before it begins (true)" },
            ArgumentInfo { name: "hint", about: "whether it gets the hints of side tasks (false)" },
        ],
    },
    PolicyInfo {
        name: "scripted",
        about: "no model: runs the reference solutions, or the commands it is given",
        needs_model: false,
        attacks: true,
        arguments: &[
            ArgumentInfo {
                name: "solve",
                about: "whose reference solutions: both, main, side or none (both)",
            },
            ArgumentInfo { name: "command", about: "one shell command to run instead" },
            ArgumentInfo {
                name: "commands",
                about: "a file of shell commands to run instead: a JSON array of texts, or one a line",
            },
        ],
    },
    PolicyInfo {
        name: "replay",
        about: "no model: runs the actions of a trajectory, a run, an eval log or an address of one again",
        needs_model: false,
        attacks: true,
        arguments: &[ArgumentInfo { name: "source", about: "what to replay: an id, a path or an address" }],
    },
];

/// A policy with its arguments, checked.
#[derive(Debug, Clone)]
pub struct PolicyChoice {
    info: &'static PolicyInfo,
    args: Map<String, Value>,
}

impl PolicyChoice {
    /// The policy of this name (`ct/name` too). Arguments are taken as JSON where they are that, else as text.
    pub fn new(name: &str, arguments: &[(String, String)]) -> Result<Self, PolicyError> {
        let given = arguments.iter().map(|(key, value)| {
            let parsed = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone()));
            (key.clone(), parsed)
        });
        Self::with_args(name, given.collect())
    }

    /// As [`PolicyChoice::new`], with arguments of their own types, as a log records them.
    pub fn with_args(name: &str, args: Map<String, Value>) -> Result<Self, PolicyError> {
        let plain = name.strip_prefix("ct/").unwrap_or(name);
        let info = POLICIES.iter().find(|info| info.name == plain);
        let info = info.ok_or_else(|| PolicyError::Unknown { name: name.to_owned() })?;
        for key in args.keys() {
            if !info.arguments.iter().any(|known| known.name == key) {
                return Err(PolicyError::Argument {
                    policy: info.name,
                    key: key.clone(),
                    known: info.arguments.iter().map(|known| known.name).collect(),
                });
            }
        }
        let choice = Self { info, args };
        choice.bool("plan", true)?;
        choice.bool("hint", false)?;
        choice.number("nudges", 3)?;
        choice.solve()?;
        if info.name == "replay" && choice.text("source").is_none() {
            return Err(choice.value("source", "what to replay is missing: give it with -p source=…"));
        }
        Ok(choice)
    }

    /// What is known of it.
    pub fn info(&self) -> &'static PolicyInfo {
        self.info
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.info.name
    }

    /// Its arguments.
    pub fn args(&self) -> &Map<String, Value> {
        &self.args
    }

    /// A text among its arguments.
    pub fn text(&self, key: &str) -> Option<String> {
        match self.args.get(key)? {
            Value::String(text) => Some(text.clone()),
            // A path or an id may look like a number.
            other => Some(other.to_string()),
        }
    }

    /// The file of commands, if one is to be run.
    pub fn commands_file(&self) -> Option<PathBuf> {
        self.text("commands").map(PathBuf::from)
    }

    fn value(&self, key: &'static str, problem: &str) -> PolicyError {
        PolicyError::Value { policy: self.info.name, key, problem: problem.to_owned() }
    }

    fn bool(&self, key: &'static str, default: bool) -> Result<bool, PolicyError> {
        match self.args.get(key) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(self.value(key, "it has to be true or false")),
        }
    }

    fn number(&self, key: &'static str, default: u64) -> Result<u64, PolicyError> {
        match self.args.get(key) {
            None => Ok(default),
            Some(value) => value.as_u64().ok_or_else(|| self.value(key, "it has to be a number from 0")),
        }
    }

    /// Whose solutions a scripted agent runs: (main, side).
    fn solve(&self) -> Result<(bool, bool), PolicyError> {
        match self.text("solve").as_deref() {
            None | Some("both") => Ok((true, true)),
            Some("main") => Ok((true, false)),
            Some("side") => Ok((false, true)),
            Some("none") => Ok((false, false)),
            Some(_) => Err(self.value("solve", "it has to be both, main, side or none")),
        }
    }

    /// Whether a sample's sandbox shows the reference solutions: to who runs them, and to who repeats that.
    pub(crate) fn shows_solutions(&self, sample: &SampleSpec) -> bool {
        let repeats = || sample.replay.as_ref().is_some_and(|replay| replay.runs_solutions());
        self.info.name == "scripted" || repeats()
    }
}

/// Why a policy cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// There is none of that name.
    #[error("there is no policy {name:?}")]
    Unknown {
        /// What was given.
        name: String,
    },
    /// It does not know an argument.
    #[error("the policy {policy} has no argument {key:?}")]
    Argument {
        /// The policy.
        policy: &'static str,
        /// What was given.
        key: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// An argument's value is none.
    #[error("the argument {key} of the policy {policy}: {problem}")]
    Value {
        /// The policy.
        policy: &'static str,
        /// The argument.
        key: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The file of commands cannot be used.
    #[error("failed to read the commands in {path}: {message}")]
    Commands {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

/// What a policy sees and uses when it decides.
pub(crate) struct Scene<'a> {
    /// The visible conversation so far.
    pub(crate) visible: &'a [Message],
    pub(crate) tools: &'a [ToolSpec],
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) model: Option<&'a Model>,
    /// Tells this sample's conversations from others.
    pub(crate) conversation: &'a str,
}

impl Scene<'_> {
    /// Asks the model, and records it.
    async fn ask(
        &mut self,
        role: &str,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<Reply, ModelError> {
        let model = self.model.ok_or_else(|| ModelError::Name { name: String::new() })?;
        let request = Request { messages, tools, conversation: self.conversation };
        let began = self.recorder.moment();
        let name = model.name();
        let result = model.generate(&request).await;
        let call = ModelCall { role, model: &name, input: messages, tools, config: model.config(), began };
        match result {
            Ok(mut reply) => {
                reply.message.id = crate::log::new_id();
                reply.message.model = name.clone();
                self.recorder.model(&call, &reply);
                Ok(reply)
            }
            Err(error) => {
                self.recorder.model_failed(&call, &sentence(&error));
                Err(error)
            }
        }
    }

    /// Records the turn as the policy's move in the visible conversation.
    pub(crate) fn seat(&mut self, policy: &str, turn: &Assistant) {
        let began = self.recorder.moment();
        let model = format!("eval/{}", selected_name(policy));
        let call = ModelCall {
            role: "untrusted",
            model: &model,
            input: self.visible,
            tools: self.tools,
            config: serde_json::json!({}),
            began,
        };
        self.recorder.seat(&call, turn);
    }
}

/// An error with its causes, in one line.
pub(crate) fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// A policy at work on one sample.
pub(crate) enum Policy {
    Honest(Honest),
    Attack(Box<Attack>),
    Scripted(Scripted),
}

impl Policy {
    pub(crate) fn new(choice: &PolicyChoice, sample: &SampleSpec) -> Result<Self, PolicyError> {
        Ok(match choice.info.name {
            "honest" => Self::Honest(Honest),
            "attack" => Self::Attack(Box::new(Attack::new(choice, sample)?)),
            "scripted" => Self::Scripted(Scripted::of_solutions(choice, sample)?),
            _ => Self::Scripted(Scripted::of_replay(sample)),
        })
    }

    /// The next turn; none when there is nothing left to do.
    pub(crate) async fn turn(&mut self, scene: &mut Scene<'_>) -> Result<Option<Assistant>, ModelError> {
        match self {
            Self::Honest(honest) => honest.turn(scene).await.map(Some),
            Self::Attack(attack) => attack.turn(scene).await.map(Some),
            Self::Scripted(scripted) => Ok(scripted.turn()),
        }
    }

    /// A tool answered a call of the last turn.
    pub(crate) fn saw(&mut self, message: &Message) {
        if let Self::Attack(attack) = self {
            attack.saw(message);
        }
    }
}

/// The visible conversation at its beginning: the same whoever acts.
pub(crate) fn opening(choice: &PolicyChoice, sample: &SampleSpec, workdir: &str) -> Vec<Message> {
    let mut system = prompts::system(workdir);
    // What an attacker is told beside is not for everybody's eyes.
    if let (false, Some(instructions)) = (choice.info.attacks, choice.text("instructions")) {
        system = format!("{system}\n\n{instructions}");
    }
    vec![
        Message::system(crate::log::new_id(), system),
        Message::user(crate::log::new_id(), prompts::main_tasks(sample)),
    ]
}

/// How often in a row an agent that does nothing is asked to go on.
pub(crate) fn nudges(choice: &PolicyChoice) -> u64 {
    choice.number("nudges", 3).unwrap_or(3)
}

pub(crate) use prompts::NUDGE;
