//! A temporary home, and the program run in it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Logs shared by the tests of all crates.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data");

/// The program.
pub(crate) const CT: &str = env!("CARGO_BIN_EXE_ct");

/// Says that something was not tried, for want of something on this machine. Where everything has to be, it fails.
#[expect(clippy::print_stderr, reason = "who runs the tests is told")]
pub(crate) fn not_tested(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot be tested here: {why}");
    eprintln!("NOT TESTED: {why}");
}

/// All shared logs, in the order of their names.
pub(crate) fn shared_logs() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["control-tower", "generated"] {
        for entry in std::fs::read_dir(Path::new(DATA).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_string_lossy();
            if name.ends_with(".eval") || name.ends_with(".json") && !name.ends_with(".expected.json") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A folder that is home, working directory and data folder.
pub(crate) struct Home {
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Home {
    /// An empty home with a store yet to be made.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("ct-test-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder, variables: Vec::new() }
    }

    /// The same home, with variables for the program.
    pub(crate) fn with_variables(mut self, variables: Vec<(&'static str, String)>) -> Self {
        self.variables = variables;
        self
    }

    /// A home whose store holds the runs of `ct-11.eval` and `ct-12.eval`.
    pub(crate) fn with_runs() -> Self {
        let home = Self::new();
        for name in ["ct-11.eval", "ct-12.eval"] {
            home.log(&format!("control-tower/{name}"), name);
            let output = home.command(&["runs", "make", name]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        home
    }

    /// A path under the working directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    /// Copies a shared log into the working directory.
    pub(crate) fn log(&self, from: &str, to: &str) -> PathBuf {
        let path = self.path(to);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(Path::new(DATA).join(from), &path).unwrap();
        path
    }

    /// Writes a file into the working directory.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program with these arguments, in this home, without any variable of the tester.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.program(CT, arguments)
    }

    /// As [`Home::command`], of another program.
    pub(crate) fn program(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path().join("work"))
            .env_clear()
            .env("HOME", self.folder.path())
            .env("XDG_DATA_HOME", self.folder.path().join("share"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs the program and shows its exit code and all it said.
    pub(crate) fn ct(&self, arguments: &[&str]) -> String {
        show(&self.command(arguments).output().unwrap())
    }

    /// As [`Home::ct`], with text on standard input.
    pub(crate) fn ct_with_input(&self, arguments: &[&str], input: &str) -> String {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        show(&child.wait_with_output().unwrap())
    }

    /// What the program writes to standard output; it must succeed.
    pub(crate) fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", show(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same, parsed.
    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.stdout(arguments)).unwrap()
    }

    /// The id of the run whose name contains `name`.
    pub(crate) fn run_id(&self, name: &str) -> String {
        let list = self.json(&["runs", "list", "--name", name, "--format", "json"]);
        list["items"][0]["run_id"].as_str().unwrap().to_owned()
    }

    /// The ids of a run's trajectories.
    pub(crate) fn trajectory_ids(&self, run: &str) -> Vec<String> {
        let drawn = self.json(&["runs", "sample", run, "100%", "--seed", "1", "--format", "json"]);
        let ids = drawn["parts"][0]["trajectory_ids"].as_array().unwrap();
        ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    /// Replaces what differs from run to run.
    pub(crate) fn settings(&self) -> insta::Settings {
        let mut settings = insta::Settings::clone_current();
        for path in [self.folder.path().to_owned(), self.folder.path().canonicalize().unwrap()] {
            settings.add_filter(&regex_escape(&path.to_string_lossy()), "[HOME]");
        }
        settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,}Z", "[NOW]");
        // The last column of a list, whose width depends on the age, and the age in brackets.
        settings.add_filter(r"(?m)^([0-9a-f]{8}  .*?) +\d+s$", "$1  [AGE]");
        settings.add_filter(r"\(\d+s ago\)", "([AGE] ago)");
        settings
    }
}

fn regex_escape(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_alphanumeric() { vec![c] } else { vec!['\\', c] }).collect()
}

fn show(output: &Output) -> String {
    format!(
        "exit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
        output.status.code().map_or_else(|| "none".to_owned(), |code| code.to_string()),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Compares what a command says, with what differs from run to run replaced.
macro_rules! assert_ct {
    ($home:expr, $arguments:expr) => {
        $home.settings().bind(|| insta::assert_snapshot!($home.ct(&$arguments)))
    };
    ($home:expr, $arguments:expr, input: $input:expr) => {
        $home.settings().bind(|| insta::assert_snapshot!($home.ct_with_input(&$arguments, $input)))
    };
}
pub(crate) use assert_ct;
