//! Plain task folders, as people write them for terminal agents: one task, without an `environment.toml`.
//!
//! ```text
//! task.toml                   [metadata] [agent] timeout_sec [verifier] timeout_sec [environment] …
//! instruction.md
//! environment/Dockerfile     or a compose file with one service
//! tests/test.sh
//! solution/solve.sh
//! ```

use std::path::{Path, PathBuf};

use crate::catalog::Place;
use crate::environment::{Environment, MainTask, SandboxSettings};
use crate::manifest::{Loader, TASK, is_name};

/// Keys of other programs' task files that have a meaning here.
const KNOWN: [&str; 9] = [
    "version",
    "metadata",
    "agent.timeout_sec",
    "verifier.timeout_sec",
    "environment.build_timeout_sec",
    "environment.cpus",
    "environment.memory_mb",
    "environment.storage_mb",
    "environment.allow_internet",
];

/// Reads a plain task folder as an environment with one main task.
pub(crate) fn load(loader: &mut Loader, place: Place) -> Environment {
    let path = Path::new(TASK);
    let table: toml::Table = loader.toml(path);
    let name = loader.folder_name();
    if !is_name(&name) {
        loader.problem("", format!("{name:?} is no name: letters, digits, _, - and . are allowed"));
    }
    warn(loader, &table);
    let mut task = loader.task_files(&name, PathBuf::new());
    if let Some(seconds) = number(loader, &table, "agent", "timeout_sec") {
        task.agent_timeout_seconds = Some(loader.seconds(path, "agent.timeout_sec", seconds.ceil() as u64));
    }
    if let Some(seconds) = number(loader, &table, "verifier", "timeout_sec") {
        task.scorer_timeout_seconds = loader.seconds(path, "verifier.timeout_sec", seconds.ceil() as u64);
    }
    let text = |key: &str| Some(table.get("metadata")?.get(key)?.as_str()?.to_owned());
    task.category = text("category");
    let image = crate::compose::image(loader);
    // With an image it says where its files are.
    let own = image.build.is_some() || image.image.is_some();
    let workdir = if own { String::new() } else { SandboxSettings::default().workdir };
    let mut sandbox = SandboxSettings {
        workdir: image.workdir.unwrap_or(workdir),
        build: image.build,
        dockerfile: image.dockerfile,
        image: image.image,
        variables: image.variables,
        root: own,
        ..SandboxSettings::default()
    };
    sandbox.network =
        table.get("environment").and_then(|part| part.get("allow_internet")?.as_bool()).unwrap_or(false);
    if let Some(cpus) = number(loader, &table, "environment", "cpus") {
        sandbox.cpus = cpus;
    }
    for (key, size) in [("memory_mb", &mut sandbox.memory_bytes), ("storage_mb", &mut sandbox.disk_bytes)] {
        if let Some(mb) = number(loader, &table, "environment", key) {
            *size = (mb as u64).saturating_mul(1 << 20);
        }
    }
    if let Some(seconds) = number(loader, &table, "environment", "build_timeout_sec") {
        sandbox.build_timeout_seconds =
            loader.seconds(path, "environment.build_timeout_sec", seconds.ceil() as u64);
    }
    Environment {
        name,
        setting: None,
        version: table.get("version").and_then(|version| version.as_str()).unwrap_or("0").to_owned(),
        display_name: task.display_name.clone(),
        description: text("description").unwrap_or_else(|| task.short_description.clone()),
        sandbox,
        services: Vec::new(),
        mains: vec![MainTask { task }],
        sides: Vec::new(),
        digest: loader.digest(),
        place,
        folder: loader.folder.clone(),
        warnings: std::mem::take(&mut loader.warnings),
    }
}

/// A number above 0 of a table, when it is given.
fn number(loader: &mut Loader, table: &toml::Table, part: &str, key: &str) -> Option<f64> {
    let value = table.get(part)?.get(key)?;
    let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
    match number.filter(|number| *number > 0.0 && *number < 1e9) {
        Some(number) => Some(number),
        None => {
            let problem = format!("is {value:?} and no number above 0");
            loader.value_problem(TASK, &format!("{part}.{key}"), problem);
            None
        }
    }
}

fn warn(loader: &mut Loader, table: &toml::Table) {
    for (name, value) in table {
        let keys: Vec<String> = match value {
            toml::Value::Table(inner) if name != "metadata" => {
                inner.keys().map(|key| format!("{name}.{key}")).collect()
            }
            _ => vec![name.clone()],
        };
        for key in keys.iter().filter(|key| !KNOWN.contains(&key.as_str())) {
            loader.warnings.push(format!("{TASK}: `{key}` means nothing here"));
        }
    }
}
