//! `ct run eval` with both kinds of sandbox: the shipped environments in containers, and what is left of a sandbox when the
//! program is killed, which must be nothing.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::logs::Numbers;
use crate::support::{Home, not_tested};

/// How long what is killed may take to be gone, on a machine that is busy.
const GONE_TIMEOUT: Duration = Duration::from_secs(120);

/// The program, with a temporary folder below the home: its path is in whatever belongs to a sandbox.
fn command(home: &Home, arguments: &[&str]) -> Command {
    let temporary = home.path("temporary");
    fs::create_dir_all(&temporary).unwrap();
    let mut all = vec!["run", "eval", "--no-upload", "--format", "json"];
    all.extend(arguments);
    let mut command = home.command(&all);
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("TMPDIR", temporary);
    command
}

fn done(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// An image for containers, where they work.
fn image() -> Option<String> {
    static MADE: OnceLock<Result<String, String>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../ct-environment/tests/image.sh");
        let output = Command::new("sh").arg(script).output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    });
    match made {
        Ok(image) => Some(image.clone()),
        Err(problem) => {
            not_tested(&format!("evaluations in containers: {problem}"));
            None
        }
    }
}

/// The arguments for a kind of sandbox; none where it cannot be had.
fn kind(name: &str) -> Option<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if name == "container" {
        return image().map(|image| words(&["--sandbox", "container", "--image", &image]));
    }
    if Command::new("bwrap").arg("--version").output().is_err() {
        not_tested("evaluations in local sandboxes: bubblewrap is not installed");
        return None;
    }
    Some(words(&["--sandbox", "local"]))
}

fn shipped_in(name: &str) {
    let Some(sandbox) = kind(name) else { return };
    let home = Home::new();
    for environment in ["web_scraping", "data_pipeline", "code_review"] {
        let mut arguments = vec!["--policy", "scripted", "-e", environment, "--all"];
        arguments.extend(sandbox.iter().map(String::as_str));
        let summary = done(&command(&home, &arguments).output().unwrap());
        let samples = summary["samples"].as_u64().unwrap();
        assert!(samples >= 2, "{summary}");
        assert_eq!((&summary["completed"], &summary["failed"]), (&json!(samples), &json!(0)), "{summary}");
        assert_eq!(summary["main"]["passed"], json!(samples), "{summary}");
        assert_eq!(summary["side"]["passed"], summary["side"]["scored"], "{summary}");
    }
    assert_eq!(fs::read_dir(home.path("temporary")).unwrap().count(), 0);
}

#[test]
fn shipped_environments_in_containers() {
    shipped_in("container");
}

#[test]
fn shipped_environments_in_local_sandboxes() {
    shipped_in("local");
}

/// Writes an environment with everything that makes processes: a set-up, a service, an agent that stays, a scorer. Its agent
/// opens the input of its sandbox's first process, so that nobody can close it, as far as it may.
fn busy(home: &Home) {
    let file = |name: &str, text: &str| home.file(&format!("environments/busy/{name}"), text);
    let manifest = "[sandbox]\nroot = true\n[[services]]\nname = \"still\"\nport = 8123\n\
        command = \"exec python3 -c 'import socket, time; s = socket.create_server((\\\"127.0.0.1\\\", 8123)); time.sleep(999)'\"\n";
    file("environment.toml", manifest);
    file("setup.sh", "sleep 0.05\n");
    file("tasks/main/stay/task.toml", "");
    file("tasks/main/stay/instruction.md", "Stay.");
    file("tasks/main/stay/tests/test.sh", "sleep 0.05\n");
    let solve = "sh -c 'exec 9<>/proc/1/fd/0; exec sleep 999' >/dev/null 2>&1 &\n\
        setsid nohup sleep 999 >/dev/null 2>&1 &\ntouch held\nsleep 999\n";
    file("tasks/main/stay/solution/solve.sh", solve);
}

fn started(home: &Home, sandbox: &[String]) -> Child {
    let mut arguments =
        vec!["--policy", "scripted", "-e", "busy", "-t", "stay", "--epochs", "8", "--max-samples", "4"];
    arguments.extend(sandbox.iter().map(String::as_str));
    command(home, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The processes that have to do with the sandboxes of a home: by their command, or by what is mounted where they are.
fn ours(home: &Home) -> Vec<String> {
    let marker = home.path("temporary").display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let read = |name: &str| {
            let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let command = read("cmdline");
        // One that has ended and waits to be looked at has no memory of either.
        if command.contains(&marker) || read("mountinfo").contains(&marker) {
            found.push(format!("{pid} {command}"));
        }
    }
    found
}

/// Waits until something is so.
fn wait_for(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < GONE_TIMEOUT, "still not: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn all_gone(home: &Home, moment: &str) {
    let began = Instant::now();
    loop {
        let left = ours(home);
        if left.is_empty() {
            return;
        }
        assert!(began.elapsed() < GONE_TIMEOUT, "{moment}: {left:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The children of a process, by number.
fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    found
}

fn is(pid: u32, program: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == program)
}

/// Whether agents of this home are at work: what they left in their workspaces.
fn agents_work(home: &Home) -> bool {
    let folders = fs::read_dir(home.path("temporary")).unwrap().flatten();
    folders.into_iter().any(|folder| folder.path().join("workspace/held").exists())
}

#[test]
fn nothing_outlives_a_killed_program_in_local_sandboxes() {
    let Some(sandbox) = kind("local") else { return };
    let home = Home::new();
    busy(&home);
    let child = started(&home, &sandbox);
    let began = Instant::now();
    wait_for("agents are at work", || agents_work(&home));
    let took = began.elapsed();
    assert!(ours(&home).len() >= 4, "what is looked for is there: {:?}", ours(&home));
    kill(child);
    all_gone(&home, "agents at work");
    let mut numbers = Numbers::new(6);
    for round in 0..20 {
        let moment = took.mul_f64((numbers.next() % 1000) as f64 / 1000.0);
        let child = started(&home, &sandbox);
        std::thread::sleep(moment);
        kill(child);
        all_gone(&home, &format!("round {round}, after {moment:?}"));
    }
    // While one starts: as soon as it is seen, and a little later.
    for micros in (0..20).map(|round| round * 150) {
        let child = started(&home, &sandbox);
        let began = Instant::now();
        while !children(child.id()).iter().any(|pid| is(*pid, "bwrap")) {
            assert!(began.elapsed() < GONE_TIMEOUT, "no sandbox starts");
        }
        std::thread::sleep(Duration::from_micros(micros));
        kill(child);
        all_gone(&home, &format!("{micros} µs after a sandbox was seen to start"));
    }
}

/// The containers of a process, whatever they do.
fn containers(owner: u32) -> Vec<String> {
    let list = ["ps", "-a", "--filter", "label=control-tower.owner", "--format", "{{.ID}} {{.Labels}}"];
    let engine = if Command::new("podman").arg("--version").output().is_ok() { "podman" } else { "docker" };
    let output = Command::new(engine).args(list).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains(&format!(".{owner}."))).map(str::to_owned).collect()
}

#[test]
fn nothing_outlives_a_killed_program_in_containers() {
    let Some(sandbox) = kind("container") else { return };
    let home = Home::new();
    busy(&home);
    let gone = |owner: u32, moment: &str| {
        wait_for(&format!("no containers: {moment}"), || containers(owner).is_empty());
        all_gone(&home, moment);
    };
    let child = started(&home, &sandbox);
    let began = Instant::now();
    wait_for("agents are at work", || agents_work(&home));
    let took = began.elapsed();
    let owner = child.id();
    assert!(!containers(owner).is_empty() && !ours(&home).is_empty(), "what is looked for is there");
    kill(child);
    gone(owner, "agents at work");
    let mut numbers = Numbers::new(7);
    for round in 0..6 {
        let moment = took.mul_f64((numbers.next() % 1000) as f64 / 1000.0);
        let child = started(&home, &sandbox);
        let owner = child.id();
        std::thread::sleep(moment);
        kill(child);
        gone(owner, &format!("round {round}, after {moment:?}"));
    }
    // With what guards them killed first, the next run takes them away.
    let child = started(&home, &sandbox);
    let owner = child.id();
    for folder in fs::read_dir(home.path("temporary")).unwrap().flatten() {
        let _ = fs::remove_file(folder.path().join("workspace/held"));
    }
    wait_for("agents are at work", || agents_work(&home));
    let guards: Vec<u32> = children(owner).into_iter().filter(|pid| is(*pid, "sh")).collect();
    assert_eq!(guards.len(), 1, "the guard");
    assert!(Command::new("kill").args(["-9", &guards[0].to_string()]).status().unwrap().success());
    kill(child);
    home.file("environments/next/environment.toml", "");
    for (name, text) in
        [("task.toml", ""), ("instruction.md", "Work."), ("tests/test.sh", ""), ("solution/solve.sh", "")]
    {
        home.file(&format!("environments/next/tasks/main/work/{name}"), text);
    }
    let mut arguments = vec!["--policy", "scripted", "-e", "next", "-t", "work"];
    arguments.extend(sandbox.iter().map(String::as_str));
    done(&command(&home, &arguments).output().unwrap());
    gone(owner, "after the next run");
    let left: Vec<PathBuf> =
        fs::read_dir(home.path("temporary")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The processes of a command line with this word in it.
fn with_word(word: &str) -> Vec<String> {
    let found = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let bytes = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&bytes).replace('\0', " ");
        command
            .split_whitespace()
            .any(|part| part == word)
            .then(|| format!("{:?} {command}", entry.file_name()))
    });
    found.collect()
}

/// Containers in which podman builds images, by number.
fn building() -> Vec<String> {
    let list = ["ps", "-a", "--external", "--format", "{{.ID}} {{.Names}}"];
    let Ok(output) = Command::new("podman").args(list).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains("-working-container")).map(str::to_owned).collect()
}

#[test]
fn nothing_outlives_the_building_of_an_image() {
    let Some(image) = image() else { return };
    let home = Home::new();
    busy(&home);
    // No other command has this word: each build is one of its own.
    let word = format!("9{}.25", std::process::id());
    let before = building();
    let gone = |moment: &str| {
        wait_for(&format!("no step of the build: {moment}"), || with_word(&word).is_empty());
        wait_for(&format!("no container of the build: {moment}"), || {
            building().iter().all(|container| before.contains(container))
        });
        all_gone(&home, moment);
    };
    let dockerfile = format!("FROM {image}\nRUN sleep {word} & sleep {word}\n");
    home.file("environments/busy/Dockerfile", &dockerfile);
    let child = started(&home, &["--sandbox".to_owned(), "container".to_owned()]);
    wait_for("a step of the build runs", || with_word(&word).len() >= 2);
    // Docker builds behind its own doors.
    let podman = Command::new("podman").arg("--version").output().is_ok();
    assert!(!podman || building().len() > before.len(), "what is looked for is there");
    kill(child);
    gone("the program was killed");
    // One that takes too long ends, too, and is told.
    let limited = "[sandbox]\nbuild_timeout_seconds = 15\n";
    home.file("environments/busy/environment.toml", limited);
    let arguments = ["--policy", "scripted", "-e", "busy", "-t", "stay", "--sandbox", "container"];
    let output = command(&home, &arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("build: stopped after "), "{said}");
    gone("it took too long");
}

#[test]
fn what_is_left_open_to_the_program_is_not_left_open_to_agents() {
    let Some(sandbox) = kind("local") else { return };
    let home = Home::new();
    busy(&home);
    home.file("environments/busy/environment.toml", "");
    home.file("secret.txt", "the secret");
    // Each of what the first process and a command have open.
    let look = "for fd in /proc/[0-9]*/fd/*; do readlink $fd; [ ! -f $fd ] || head -c 1000 $fd; done >/workspace/open 2>&1\n\
        ls /proc/self/fd >/workspace/numbers\n";
    home.file("environments/busy/tasks/main/stay/solution/solve.sh", look);
    home.file(
        "environments/busy/tasks/main/stay/tests/test.sh",
        "grep -q '^0$' numbers && ! grep -qE '^(7|47)$' numbers && ! grep -q secret open\n",
    );
    let mut arguments = vec!["--policy", "scripted", "-e", "busy", "-t", "stay"];
    arguments.extend(sandbox.iter().map(String::as_str));
    let ct = command(&home, &arguments);
    let mut shell = Command::new("bash");
    shell
        .args(["-c", "exec 7<secret.txt 47<secret.txt; exec \"$@\"", "sh"])
        .arg(ct.get_program())
        .args(ct.get_args());
    shell.env_clear().envs(ct.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(ct.get_current_dir().unwrap());
    let summary = done(&shell.output().unwrap());
    assert_eq!(summary["main"]["passed"], json!(1), "{summary}");
}
