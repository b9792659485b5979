//! What the tests have in common: environments written on the spot, and hosts of each kind of sandbox.

use std::fs;
use std::path::Path;

use ct_environment::{
    Assignment, Catalog, Environment, ExecRequest, ExecResult, HostOptions, Sandbox, SandboxHost,
    SandboxKind, StartOptions,
};

/// An environment of files, in a folder of its own.
pub(crate) struct Written {
    pub(crate) folder: tempfile::TempDir,
}

impl Written {
    /// `name/…` files below the environment's folder; a minimal main task is there unless given.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let minimal = [
            ("environment.toml", ""),
            ("tasks/main/work/task.toml", ""),
            ("tasks/main/work/instruction.md", "Do the work."),
            ("tasks/main/work/tests/test.sh", "exit 1"),
        ];
        for (name, text) in minimal.iter().chain(files) {
            write(&folder.path().join("world").join(name), text);
        }
        Self { folder }
    }

    pub(crate) fn environment(&self) -> Environment {
        let catalog = Catalog::new([self.folder.path().to_owned()]).expect("a catalog");
        catalog.find("world").unwrap_or_else(|error| panic!("{error}"))
    }
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, text).expect("a file");
}

/// A host of a kind. `None` when this machine cannot run one, which is a failure where CI is set.
pub(crate) async fn host(environment: &Environment, kind: SandboxKind) -> Option<SandboxHost> {
    let mut options = HostOptions { kind: Some(kind), ..HostOptions::default() };
    if kind == SandboxKind::Container {
        options.image = Some(image()?);
    }
    match SandboxHost::open(environment, &options).await {
        Ok(host) => Some(host),
        Err(error) => {
            not_tested(&format!("{kind:?} sandboxes: {error}"));
            None
        }
    }
}

#[expect(clippy::print_stderr, reason = "what is not tested must be heard")]
pub(crate) fn not_tested(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot be tested here: {what}");
    eprintln!("NOT TESTED: {what}");
}

/// A sandbox with the first main task of an environment.
pub(crate) async fn start(host: &SandboxHost) -> Sandbox {
    let environment = host.environment();
    let assignment = Assignment { mains: vec![&environment.mains[0]], sides: Vec::new() };
    let started = host.start(&assignment, &StartOptions::default()).await;
    started.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) async fn shell(sandbox: &Sandbox, command: &str) -> ExecResult {
    sandbox.exec(ExecRequest::shell(command)).await.unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// What a command prints; it must succeed.
pub(crate) async fn out(sandbox: &Sandbox, command: &str) -> String {
    let result = shell(sandbox, command).await;
    assert!(
        result.success(),
        "{command}: {}: {}{}",
        result.outcome(),
        result.stdout.text(),
        result.stderr.text()
    );
    result.stdout.text()
}

/// An image for containers, made of this machine's own programs; made once, and kept for the next time.
pub(crate) fn image() -> Option<String> {
    static MADE: std::sync::OnceLock<Result<String, String>> = std::sync::OnceLock::new();
    match MADE.get_or_init(make_image) {
        Ok(image) => Some(image.clone()),
        Err(problem) => {
            not_tested(&format!("container sandboxes: {problem}"));
            None
        }
    }
}

fn make_image() -> Result<String, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/image.sh");
    let output = std::process::Command::new("sh").arg(script).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Expands a test for both kinds of sandbox: one test each, so that what fails is told apart.
macro_rules! for_each_kind {
    ($($name:ident),* $(,)?) => {
        mod local {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(ct_environment::SandboxKind::Local).await;
            })*
        }
        mod container {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(ct_environment::SandboxKind::Container).await;
            })*
        }
    };
}
pub(crate) use for_each_kind;
