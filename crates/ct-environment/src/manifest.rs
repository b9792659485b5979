//! Reads an environment's folder.
//!
//! ```text
//! environment.toml            name, version, description, [sandbox], [[services]]
//! Dockerfile  or  environment/Dockerfile      optional: the image of a container, or a compose file with one service
//! files/  setup.sh            optional: the workspace of all tasks
//! services/<name>/            files of a service
//! tasks/main/<name>/          task.toml instruction.md files/ setup.sh tests/test.sh solution/solve.sh
//! tasks/side/<name>/          the same, with goal, failure_type and main_tasks in task.toml
//! ```

use std::fmt::Display;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::catalog::Place;
use crate::environment::{
    Environment, FailureType, MainTask, Role, SandboxSettings, Service, SideTask, Task,
};
use crate::error::Problem;
use crate::lines::{line_at, line_of};

/// The file that makes a folder an environment.
pub(crate) const MANIFEST: &str = "environment.toml";
/// The file that makes a folder a task.
pub(crate) const TASK: &str = "task.toml";
/// What logs show of a file of a scorer.
const CODE_BYTES_MAX: u64 = 16 << 10;
/// Larger files are not read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How long scripts may take unless a task says otherwise.
pub(crate) const SETUP_TIMEOUT_SECONDS: u64 = 120;
pub(crate) const SCORER_TIMEOUT_SECONDS: u64 = 120;
/// The longest a manifest may ask for: a week.
const TIMEOUT_SECONDS_MAX: u64 = 7 * 86_400;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EnvironmentFile {
    name: Option<String>,
    setting: Option<String>,
    version: Option<String>,
    display_name: Option<String>,
    description: Option<String>,
    sandbox: SandboxTable,
    services: Vec<ServiceTable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SandboxTable {
    network: bool,
    image: Option<String>,
    local: bool,
    commands: Vec<String>,
    workdir: Option<String>,
    root: bool,
    memory_mb: Option<u64>,
    cpus: Option<f64>,
    processes: Option<u32>,
    disk_mb: Option<u64>,
    command_timeout_seconds: Option<u64>,
    build_timeout_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceTable {
    name: String,
    command: String,
    port: u16,
    #[serde(default)]
    hosts: Vec<String>,
    start_timeout_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TaskFile {
    display_name: Option<String>,
    short_description: Option<String>,
    category: Option<String>,
    scorer_description: Option<String>,
    agent_timeout_seconds: Option<u64>,
    setup_timeout_seconds: Option<u64>,
    scorer_timeout_seconds: Option<u64>,
    goal: Option<String>,
    failure_type: Option<FailureType>,
    hint: Option<String>,
    main_tasks: Option<Vec<String>>,
}

/// Reads the folder of an environment; everything that is wrong with it otherwise.
pub(crate) fn load(folder: &Path, place: Place) -> Result<Environment, Vec<Problem>> {
    let mut loader = Loader::new(folder);
    let environment = if folder.join(MANIFEST).exists() {
        loader.environment(place)
    } else {
        crate::plain::load(&mut loader, place)
    };
    if loader.problems.is_empty() { Ok(environment) } else { Err(loader.problems) }
}

/// Reads one folder and gathers what is wrong.
pub(crate) struct Loader {
    pub(crate) folder: PathBuf,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<String>,
}

impl Loader {
    fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), problems: Vec::new(), warnings: Vec::new() }
    }

    pub(crate) fn problem(&mut self, relative: impl AsRef<Path>, message: impl Into<String>) {
        self.problems.push(Problem { path: self.folder.join(relative), line: None, message: message.into() });
    }

    /// A problem with the value at a path of a TOML file, which the message is about.
    pub(crate) fn value_problem(&mut self, relative: impl AsRef<Path>, at: &str, message: impl Display) {
        let path = self.folder.join(relative);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let message = format!("`{at}` {message}");
        self.problems.push(Problem { line: line_of(&text, at), path, message });
    }

    pub(crate) fn folder_name(&self) -> String {
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The digest of all files; a problem when they cannot be read.
    pub(crate) fn digest(&mut self) -> String {
        match crate::digest::digest(&self.folder) {
            Ok(digest) => digest,
            Err(error) => {
                self.problem("", format!("cannot be read: {error}"));
                String::new()
            }
        }
    }

    /// A text file.
    pub(crate) fn text(&mut self, relative: &Path) -> Option<String> {
        let path = self.folder.join(relative);
        let read = || -> Result<String, String> {
            let size = fs::metadata(&path).map_err(|_| "is missing".to_owned())?.len();
            if size > FILE_BYTES_MAX {
                return Err(format!("is larger than {FILE_BYTES_MAX} bytes"));
            }
            let bytes = fs::read(&path).map_err(|error| format!("cannot be read: {error}"))?;
            String::from_utf8(bytes).map_err(|_| "is not text in UTF-8".to_owned())
        };
        match read() {
            Ok(text) => Some(text),
            Err(message) => {
                self.problem(relative, message);
                None
            }
        }
    }

    /// A TOML file.
    pub(crate) fn toml<T: DeserializeOwned + Default>(&mut self, relative: &Path) -> T {
        let Some(text) = self.text(relative) else { return T::default() };
        match toml::from_str(&text) {
            Ok(value) => value,
            Err(error) => {
                let line = error.span().map(|span| line_at(&text, span.start));
                let message = error.message().trim().replace('\n', "; ");
                self.problems.push(Problem { path: self.folder.join(relative), line, message });
                T::default()
            }
        }
    }

    fn environment(&mut self, place: Place) -> Environment {
        let manifest = Path::new(MANIFEST);
        let file: EnvironmentFile = self.toml(manifest);
        let name = file.name.unwrap_or_else(|| self.folder_name());
        for (key, name) in [("name", Some(&name)), ("setting", file.setting.as_ref())] {
            if let Some(name) = name.filter(|name| !is_name(name)) {
                let allowed = "is no name: letters, digits, _, - and . are allowed";
                self.value_problem(manifest, key, format!("{name:?} {allowed}"));
            }
        }
        let sandbox = self.sandbox(file.sandbox);
        let services = self.services(file.services);
        let mains: Vec<MainTask> =
            self.names("tasks/main").into_iter().map(|name| self.main(&name)).collect();
        if mains.is_empty() {
            self.problem("tasks/main", "there is no main task");
        }
        let sides = self.names("tasks/side").into_iter().map(|name| self.side(&name, &mains)).collect();
        Environment {
            display_name: file.display_name.unwrap_or_else(|| spoken(&name)),
            name,
            setting: file.setting,
            version: file.version.unwrap_or_else(|| "0".to_owned()),
            description: file.description.unwrap_or_default(),
            sandbox,
            services,
            mains,
            sides,
            digest: self.digest(),
            place,
            folder: self.folder.clone(),
            warnings: std::mem::take(&mut self.warnings),
        }
    }

    /// The folders of tasks of a kind.
    fn names(&mut self, folder: &str) -> Vec<String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder.join(folder)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !entry.path().is_dir() {
                self.warnings.push(format!("{folder}/{name} is no folder, so it is no task"));
            } else if !is_name(&name) {
                self.problem(
                    Path::new(folder).join(&name),
                    "is no name: letters, digits, _, - and . are allowed",
                );
            } else {
                names.push(name);
            }
        }
        names.sort();
        names
    }

    fn main(&mut self, name: &str) -> MainTask {
        let (task, file) = self.task(Role::Main, name);
        let side_only = [
            (file.goal.is_some(), "goal"),
            (file.failure_type.is_some(), "failure_type"),
            (file.hint.is_some(), "hint"),
            (file.main_tasks.is_some(), "main_tasks"),
        ];
        for (_, key) in side_only.iter().filter(|(given, _)| *given) {
            self.value_problem(task.folder.join(TASK), key, "is for side tasks only");
        }
        MainTask { task }
    }

    fn side(&mut self, name: &str, mains: &[MainTask]) -> SideTask {
        let (task, file) = self.task(Role::Side, name);
        let path = task.folder.join(TASK);
        if file.goal.as_ref().is_none_or(|goal| goal.trim().is_empty()) {
            self.problem(&path, "a side task needs a `goal`: what the attacker is to achieve, in a sentence");
        }
        if file.failure_type.is_none() {
            self.problem(&path, "a side task needs a `failure_type`: \"live\" or \"delayed\"");
        }
        for (n, main) in file.main_tasks.iter().flatten().enumerate() {
            if !mains.iter().any(|known| known.task.name == *main) {
                let at = format!("main_tasks.{n}");
                self.value_problem(&path, &at, format!("names {main:?}, which is no main task here"));
            }
        }
        SideTask {
            task,
            goal: file.goal.unwrap_or_default(),
            failure_type: file.failure_type.unwrap_or(FailureType::Live),
            hint: file.hint,
            pairs_with: file.main_tasks,
        }
    }

    fn task(&mut self, role: Role, name: &str) -> (Task, TaskFile) {
        let folder = Path::new("tasks").join(role.as_str()).join(name);
        let file: TaskFile = self.toml(&folder.join(TASK));
        let mut task = self.task_files(name, folder);
        task.display_name = file.display_name.clone().unwrap_or_else(|| spoken(name));
        task.short_description =
            file.short_description.clone().unwrap_or_else(|| first_line(&task.instruction));
        task.category.clone_from(&file.category);
        task.scorer_description.clone_from(&file.scorer_description);
        let path = task.folder.join(TASK);
        task.agent_timeout_seconds =
            file.agent_timeout_seconds.map(|seconds| self.seconds(&path, "agent_timeout_seconds", seconds));
        for (key, given, timeout) in [
            ("setup_timeout_seconds", file.setup_timeout_seconds, &mut task.setup_timeout_seconds),
            ("scorer_timeout_seconds", file.scorer_timeout_seconds, &mut task.scorer_timeout_seconds),
        ] {
            if let Some(seconds) = given {
                *timeout = self.seconds(&path, key, seconds);
            }
        }
        if task.solution.is_none() {
            self.warnings.push(format!(
                "{} has no solution/solve.sh, so nothing proves its scorer",
                task.folder.display()
            ));
        }
        (task, file)
    }

    /// A task by its files alone.
    pub(crate) fn task_files(&mut self, name: &str, folder: PathBuf) -> Task {
        let instruction = self.text(&folder.join("instruction.md")).unwrap_or_default();
        if instruction.trim().is_empty() && self.folder.join(&folder).join("instruction.md").exists() {
            self.problem(folder.join("instruction.md"), "is empty");
        }
        let there =
            |relative: &str| Some(folder.join(relative)).filter(|path| self.folder.join(path).exists());
        let (files, setup, solution) = (there("files"), there("setup.sh"), there("solution/solve.sh"));
        let scorer = folder.join("tests/test.sh");
        if !self.folder.join(&scorer).is_file() {
            self.problem(&scorer, "is missing: the scorer");
        }
        let trial = folder.join("trial");
        if self.folder.join(&trial).exists() && !self.folder.join(&trial).join("run.sh").is_file() {
            self.problem(trial.join("run.sh"), "is missing: what tries the agent's work");
        }
        let mut scorer_code = String::new();
        for file in ["test.sh", "score.py"] {
            if let Ok(code) = read_beginning(&self.folder.join(&folder).join("tests").join(file)) {
                scorer_code.push_str(&format!("# {file}\n{code}\n"));
            }
        }
        Task {
            name: name.to_owned(),
            display_name: spoken(name),
            short_description: first_line(&instruction),
            instruction,
            category: None,
            scorer_description: None,
            agent_timeout_seconds: None,
            setup_timeout_seconds: SETUP_TIMEOUT_SECONDS,
            scorer_timeout_seconds: SCORER_TIMEOUT_SECONDS,
            files,
            setup,
            scorer,
            solution,
            scorer_code,
            folder,
        }
    }

    pub(crate) fn seconds(&mut self, relative: &Path, at: &str, seconds: u64) -> u64 {
        if seconds == 0 || seconds > TIMEOUT_SECONDS_MAX {
            let limits = format!("from 1 to {TIMEOUT_SECONDS_MAX} seconds");
            self.value_problem(relative, at, format!("{seconds} is no time limit: {limits}"));
        }
        seconds
    }

    fn sandbox(&mut self, table: SandboxTable) -> SandboxSettings {
        let manifest = Path::new(MANIFEST);
        let image = crate::compose::image(self);
        let mut settings = SandboxSettings {
            network: table.network,
            image: table.image.or(image.image),
            build: image.build,
            dockerfile: image.dockerfile,
            variables: image.variables,
            local: table.local,
            commands: table.commands,
            root: table.root,
            ..SandboxSettings::default()
        };
        settings.workdir = image.workdir.unwrap_or(settings.workdir);
        if let Some(workdir) = table.workdir {
            if !is_workdir(&workdir) {
                let problem = format!("{workdir:?} is no absolute path of its own");
                self.value_problem(manifest, "sandbox.workdir", problem);
            }
            settings.workdir = workdir;
        }
        for (at, given, size) in [
            ("sandbox.memory_mb", table.memory_mb, &mut settings.memory_bytes),
            ("sandbox.disk_mb", table.disk_mb, &mut settings.disk_bytes),
        ] {
            if let Some(mb) = given {
                if mb == 0 || mb > 1 << 20 {
                    self.value_problem(manifest, at, format!("{mb} is no limit: from 1 to {}", 1 << 20));
                }
                *size = mb.saturating_mul(1 << 20);
            }
        }
        settings.cpus = table.cpus.unwrap_or(settings.cpus);
        if !(settings.cpus > 0.0 && settings.cpus <= 1024.0) {
            let problem = format!("{} is no number of processors", settings.cpus);
            self.value_problem(manifest, "sandbox.cpus", problem);
        }
        settings.processes = table.processes.unwrap_or(settings.processes);
        if !(8..=100_000).contains(&settings.processes) {
            let problem = format!("{} is not within 8 and 100000", settings.processes);
            self.value_problem(manifest, "sandbox.processes", problem);
        }
        if let Some(seconds) = table.command_timeout_seconds {
            settings.command_timeout_seconds =
                self.seconds(manifest, "sandbox.command_timeout_seconds", seconds);
        }
        if let Some(seconds) = table.build_timeout_seconds {
            settings.build_timeout_seconds = self.seconds(manifest, "sandbox.build_timeout_seconds", seconds);
        }
        settings
    }

    fn services(&mut self, tables: Vec<ServiceTable>) -> Vec<Service> {
        let mut services: Vec<Service> = Vec::new();
        for (n, table) in tables.into_iter().enumerate() {
            let at = |key: &str| format!("services.{n}.{key}");
            if !is_name(&table.name) || services.iter().any(|other| other.name == table.name) {
                let problem = "is no name of its own: letters, digits, _, - and . are allowed";
                self.value_problem(MANIFEST, &at("name"), format!("{:?} {problem}", table.name));
            }
            if table.port < 1024 || services.iter().any(|other| other.port == table.port) {
                let problem = format!("{} is no port of its own, from 1024", table.port);
                self.value_problem(MANIFEST, &at("port"), problem);
            }
            for (host_n, host) in table.hosts.iter().enumerate().filter(|(_, host)| !is_name(host)) {
                self.value_problem(MANIFEST, &at(&format!("hosts.{host_n}")), format!("{host:?} is no name"));
            }
            let start_timeout_seconds = table.start_timeout_seconds.unwrap_or(30);
            self.seconds(Path::new(MANIFEST), &at("start_timeout_seconds"), start_timeout_seconds);
            services.push(Service {
                name: table.name,
                command: table.command,
                port: table.port,
                hosts: table.hosts,
                start_timeout_seconds,
            });
        }
        services
    }
}

/// Whether a text can name an environment, a task or a service: it becomes part of paths.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    !text.is_empty() && text.len() <= 100 && text.chars().all(allowed) && !text.starts_with(['.', '-'])
}

/// Whether the workspace can lie there: it must not hide what the system or a scorer needs.
pub(crate) fn is_workdir(path: &str) -> bool {
    let taken = [
        "bin",
        "sbin",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "usr",
        "etc",
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
        "tests",
        "agent",
        "environment",
        "logs",
        "results",
        "service",
        "services",
        "shared",
        "solution",
        "solutions",
        "state",
        "trial",
    ];
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let plain = |part: &&str| is_name(part);
    path.starts_with('/')
        && parts.iter().all(plain)
        && parts.first().is_some_and(|first| !taken.contains(first))
        && !path.contains(':')
}

fn spoken(name: &str) -> String {
    let text = name.replace(['_', '-'], " ");
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(200).collect()
}

fn read_beginning(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(CODE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
