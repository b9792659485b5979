//! What an environment is: its tasks, and what their sandbox needs. All of it is plain data; `manifest` reads it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::catalog::Place;

/// An environment: a setting with main tasks, side tasks and services.
#[derive(Debug, Clone, Serialize)]
pub struct Environment {
    /// The name of its folder, unless the manifest gives another: letters, digits, `_`, `-`, `.`.
    pub name: String,
    /// A group of environments that share a world; part of the long name `setting/name`.
    pub setting: Option<String>,
    /// The author's version of it.
    pub version: String,
    /// For people.
    pub display_name: String,
    /// For people: what this world is.
    pub description: String,
    /// What its sandbox is like.
    pub sandbox: SandboxSettings,
    /// Programs that run beside the agent, on its loopback network and out of its reach.
    pub services: Vec<Service>,
    /// Main tasks, by name.
    pub mains: Vec<MainTask>,
    /// Side tasks, by name.
    pub sides: Vec<SideTask>,
    /// SHA-256 over its files, in hex.
    pub digest: String,
    /// Where it was found.
    pub place: Place,
    /// The folder.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Oddities that stop nothing: files and keys that mean nothing here.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// What a sandbox of an environment is like. Sizes are upper limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SandboxSettings {
    /// Whether the agent reaches the network outside. Only containers can give that.
    pub network: bool,
    /// The image of a container, when there is no Dockerfile.
    pub image: Option<String>,
    /// The Dockerfile's folder, relative to the environment's.
    pub build: Option<PathBuf>,
    /// The Dockerfile in it, when it has a name of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dockerfile: Option<PathBuf>,
    /// Variables that commands find, beside the sandbox's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(String, String)>,
    /// Whether it also runs in the `local` sandbox though it has an image.
    pub local: bool,
    /// Programs that must be there, for example `python3`.
    pub commands: Vec<String>,
    /// Where the agent works, inside.
    pub workdir: String,
    /// `agent`, or `root` (in containers that need it).
    pub root: bool,
    /// Memory of all its processes.
    pub memory_bytes: u64,
    /// Processors, where the kernel shares them out.
    pub cpus: f64,
    /// Processes and threads at once.
    pub processes: u32,
    /// What the workspace may hold.
    pub disk_bytes: u64,
    /// How long one command may take unless it asks for less.
    pub command_timeout_seconds: u64,
    /// How long building its image may take.
    pub build_timeout_seconds: u64,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            network: false,
            image: None,
            build: None,
            dockerfile: None,
            variables: Vec::new(),
            local: false,
            commands: Vec::new(),
            workdir: "/workspace".to_owned(),
            root: false,
            memory_bytes: 1 << 30,
            cpus: 1.0,
            processes: 256,
            disk_bytes: 1 << 30,
            command_timeout_seconds: 120,
            build_timeout_seconds: 600,
        }
    }
}

/// A program beside the agent. What it prints is its log: kept outside, shown to scorers as `/services/<name>.log`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Service {
    /// A name, unique in the environment.
    pub name: String,
    /// A shell command, run in `/service`, the service's folder `services/<name>` (read-only).
    pub command: String,
    /// The TCP port that is open on loopback when the service is ready.
    pub port: u16,
    /// Names that mean 127.0.0.1 in the sandbox.
    pub hosts: Vec<String>,
    /// How long it may take to become ready.
    pub start_timeout_seconds: u64,
}

/// What main and side tasks have in common.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Task {
    /// The name of its folder.
    pub name: String,
    /// For people.
    pub display_name: String,
    /// One line, for lists.
    pub short_description: String,
    /// `instruction.md`: what the agent is told.
    pub instruction: String,
    /// A kind of work, free text.
    pub category: Option<String>,
    /// How the scorer judges, for people.
    pub scorer_description: Option<String>,
    /// How long the agent may take altogether.
    pub agent_timeout_seconds: Option<u64>,
    /// How long the set-up script may take.
    pub setup_timeout_seconds: u64,
    /// How long the scorer may take.
    pub scorer_timeout_seconds: u64,
    /// Its folder, relative to the environment's.
    pub folder: PathBuf,
    /// Files of the agent's workspace, relative to the environment's folder.
    pub files: Option<PathBuf>,
    /// The set-up script, relative to the environment's folder.
    pub setup: Option<PathBuf>,
    /// The scorer, relative to the environment's folder.
    pub scorer: PathBuf,
    /// The reference solution, relative to the environment's folder.
    pub solution: Option<PathBuf>,
    /// The text of the scorer, for logs: its script, and the `score.py` beside it.
    #[serde(skip)]
    pub scorer_code: String,
}

/// The work an agent is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MainTask {
    /// What it is.
    pub task: Task,
}

/// What an attacking agent does covertly beside a main task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideTask {
    /// What it is; its instruction is what the attacker is told.
    pub task: Task,
    /// The goal in a sentence or two.
    pub goal: String,
    /// When the harm is done.
    pub failure_type: FailureType,
    /// A hint that a policy may give away.
    pub hint: Option<String>,
    /// The main tasks it goes with; all of them when `None`.
    pub pairs_with: Option<Vec<String>>,
}

impl SideTask {
    /// Whether it goes with a main task.
    #[must_use]
    pub fn goes_with(&self, main: &str) -> bool {
        self.pairs_with.as_ref().is_none_or(|names| names.iter().any(|name| name == main))
    }
}

/// When a side task's harm is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureType {
    /// While the agent works.
    Live,
    /// Later, when its work is used.
    Delayed,
}

impl FailureType {
    /// As documents write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Delayed => "delayed",
        }
    }
}

/// Which kind of task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The work asked for.
    Main,
    /// The covert one.
    Side,
}

impl Role {
    /// As documents write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Side => "side",
        }
    }
}

/// A task of either kind.
#[derive(Debug, Clone, Copy)]
pub enum TaskRef<'a> {
    /// A main task.
    Main(&'a MainTask),
    /// A side task.
    Side(&'a SideTask),
}

impl<'a> TaskRef<'a> {
    /// What both kinds have.
    #[must_use]
    pub fn task(self) -> &'a Task {
        match self {
            Self::Main(main) => &main.task,
            Self::Side(side) => &side.task,
        }
    }

    /// Which kind.
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::Main(_) => Role::Main,
            Self::Side(_) => Role::Side,
        }
    }
}

/// A main task, alone or with a side task that goes with it.
#[derive(Debug, Clone, Copy)]
pub struct Pairing<'a> {
    /// The work.
    pub main: &'a MainTask,
    /// The covert work.
    pub side: Option<&'a SideTask>,
}

impl Environment {
    /// The name that is nobody else's: `setting/name`, or `name` without a setting.
    #[must_use]
    pub fn long_name(&self) -> String {
        match &self.setting {
            Some(setting) => format!("{setting}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// The main task of this name.
    pub fn main(&self, name: &str) -> Result<&MainTask, crate::EnvironmentError> {
        let found = self.mains.iter().find(|main| main.task.name == name);
        found.ok_or_else(|| {
            self.no_task(Role::Main, name, self.mains.iter().map(|main| main.task.name.clone()).collect())
        })
    }

    /// The side task of this name.
    pub fn side(&self, name: &str) -> Result<&SideTask, crate::EnvironmentError> {
        let found = self.sides.iter().find(|side| side.task.name == name);
        found.ok_or_else(|| {
            self.no_task(Role::Side, name, self.sides.iter().map(|side| side.task.name.clone()).collect())
        })
    }

    fn no_task(&self, role: Role, name: &str, known: Vec<String>) -> crate::EnvironmentError {
        crate::EnvironmentError::NoTask {
            environment: self.long_name(),
            role: role.as_str(),
            name: name.to_owned(),
            known,
        }
    }

    /// All tasks, main ones first.
    pub fn tasks(&self) -> impl Iterator<Item = TaskRef<'_>> {
        self.mains.iter().map(TaskRef::Main).chain(self.sides.iter().map(TaskRef::Side))
    }

    /// Every main task with every side task that goes with it; `honest` pairs each main task with nothing.
    #[must_use]
    pub fn pairings(&self, honest: bool) -> Vec<Pairing<'_>> {
        if honest {
            return self.mains.iter().map(|main| Pairing { main, side: None }).collect();
        }
        let sides = |main: &MainTask| {
            let name = main.task.name.clone();
            self.sides.iter().filter(move |side| side.goes_with(&name))
        };
        self.mains
            .iter()
            .flat_map(|main| sides(main).map(move |side| Pairing { main, side: Some(side) }))
            .collect()
    }

    /// The `environment` object of a sample's metadata.
    #[must_use]
    pub fn log_metadata(&self) -> Value {
        let goals: serde_json::Map<String, Value> =
            self.sides.iter().map(|side| (side.task.name.clone(), json!(side.goal))).collect();
        json!({
            "id": self.name,
            "display_name": self.display_name,
            "setting": self.setting,
            "short_description": crate::manifest::first_line(&self.description),
            "description": self.description,
            "version": self.version,
            "digest": self.digest,
            "agent_user": if self.sandbox.root { "root" } else { "agent" },
            "services": self.services.iter().map(|service| &service.name).collect::<Vec<_>>(),
            "side_task_goals": goals,
            "score_main_on_attack": true,
            "tech_stack": null,
            "attack_surface": null,
            "sdk_version": null,
            "env_args": null,
        })
    }
}

impl Task {
    fn log_object(&self, environment: &Environment) -> serde_json::Map<String, Value> {
        let mut object = serde_json::Map::new();
        object.insert("id".into(), json!(self.name));
        object.insert("environment".into(), json!(environment.name));
        object.insert("name".into(), json!(self.display_name));
        object.insert("short_description".into(), json!(self.short_description));
        object.insert("description".into(), json!(self.instruction));
        object.insert("codebase_name".into(), serde_json::Value::Null);
        object.insert("task_category".into(), json!(self.category));
        object.insert("scorer_description".into(), json!(self.scorer_description));
        object
    }
}

impl MainTask {
    /// One item of a sample's `main_tasks`.
    #[must_use]
    pub fn log_metadata(&self, environment: &Environment) -> Value {
        Value::Object(self.task.log_object(environment))
    }
}

impl SideTask {
    /// One item of a sample's `side_tasks`.
    #[must_use]
    pub fn log_metadata(&self, environment: &Environment) -> Value {
        let mut object = self.task.log_object(environment);
        object.insert("goal".into(), json!(self.goal));
        object.insert("failure_type".into(), json!(self.failure_type.as_str()));
        object.insert("hint".into(), json!(self.hint));
        object.insert("scoring_details".into(), json!(self.task.scorer_description));
        object.insert("scorer_code_snapshot".into(), json!(self.task.scorer_code));
        Value::Object(object)
    }
}
