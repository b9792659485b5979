//! Runs that are stopped, and go on later.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

/// Starts a run of many slow samples, and waits until some are in the log.
#[expect(clippy::zombie_processes, reason = "whoever asked for it waits for it")]
fn slow_run(home: &Home, model: &str) -> (std::process::Child, PathBuf) {
    let arguments = [
        "--policy",
        "honest",
        "-e",
        "tiny",
        "-t",
        "greet",
        "--epochs",
        "6",
        "--max-samples",
        "2",
        "--no-upload",
        "--model",
        model,
        "--format",
        "json",
    ];
    let child = command(home, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(300), "nothing is finished");
        std::thread::sleep(Duration::from_millis(50));
        if !home.path("logs").is_dir() || std::fs::read_dir(home.path("logs")).unwrap().next().is_none() {
            continue;
        }
        let log = only_log(home);
        if Log::open(&log).is_ok_and(|log| log.samples().is_ok_and(|samples| samples.len() >= 2)) {
            return (child, log);
        }
    }
}

fn slow_model(home: &Home) -> String {
    turns(home, "slow.json", &json!([bash("echo hello > greeting.txt; sleep 1"), submit()]))
}

#[test]
fn a_stopped_run_is_kept_and_resumed() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let (child, log) = slow_run(&home, &slow_model(&home));
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let summary = done(&child.wait_with_output().unwrap(), 3);
    assert_eq!(summary["status"], "cancelled");
    let finished = summary["completed"].as_u64().unwrap();
    assert!((2..6).contains(&finished), "{summary}");
    inspect_reads(&log, "cancelled", samples(&log).len(), "score,error");
    let before: Vec<Value> =
        samples(&log).into_iter().filter(|sample| sample.get("error").is_none()).collect();
    assert_eq!(before.len() as u64, finished);
    resumes(&home, &log, &before);
}

#[test]
fn a_killed_run_is_salvaged_and_resumed() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let (mut child, log) = slow_run(&home, &slow_model(&home));
    child.kill().unwrap();
    child.wait().unwrap();
    let before = samples(&log);
    assert!(before.len() >= 2);
    // What it was writing may be torn: that is salvaged here, and nobody else reads it.
    let made = home.json(&["runs", "make", log.to_str().unwrap(), "--format", "json"]);
    assert_eq!(made["items"][0]["trajectories"], before.len());
    resumes(&home, &log, &before);
}

/// Resumes a log; what it held must be in the new one as it was, and the old one must still be there.
fn resumes(home: &Home, log: &Path, before: &[Value]) {
    let old_bytes = std::fs::read(log).unwrap();
    let output = run(home, &["--resume", log.to_str().unwrap(), "--format", "json"]);
    let summary = done(&output, 0);
    assert_eq!((&summary["completed"], &summary["main"]["passed"]), (&json!(6), &json!(6)), "{summary}");
    let after = samples(log);
    assert_eq!(after.len(), 6);
    for sample in before {
        assert!(after.contains(sample), "a finished sample is kept as it was");
    }
    assert_eq!(std::fs::read(home.path(summary["old_log"].as_str().unwrap())).unwrap(), old_bytes);
    inspect_reads(log, "success", 6, "score");
    let run = home.json(&["runs", "info", summary["run_id"].as_str().unwrap(), "--format", "json"]);
    assert!(run.to_string().contains("\"success\""), "{run}");
}

/// Lines of standard error, as they come.
fn lines_of(child: &mut std::process::Child) -> std::sync::mpsc::Receiver<String> {
    use std::io::BufRead as _;
    let (send, lines) = std::sync::mpsc::channel();
    let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
    lines
}

fn wait_for(lines: &std::sync::mpsc::Receiver<String>, words: &str) {
    let mut seen = Vec::new();
    loop {
        match lines.recv_timeout(Duration::from_secs(300)) {
            Ok(line) if line.contains(words) => return,
            Ok(line) => seen.push(line),
            Err(_) => panic!("nobody said {words:?}: {seen:#?}"),
        }
    }
}

fn signal(child: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.to_string()]).status().unwrap().success());
}

#[test]
fn a_request_to_end_is_heeded_like_ctrl_c() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let (child, log) = slow_run(&home, &slow_model(&home));
    signal(child.id(), "-TERM");
    let summary = done(&child.wait_with_output().unwrap(), 3);
    assert_eq!(summary["status"], "cancelled");
    inspect_reads(&log, "cancelled", samples(&log).len(), "score,error");
    let cancelled = samples(&log).into_iter().filter(|sample| sample.get("error").is_some());
    assert!(cancelled.count() <= 2, "only what was running when it was stopped");
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let owner = Home::new();
    let model = turns(&home, "slow.json", &json!([bash("echo hello > greeting.txt; sleep 1000"), submit()]));
    let arguments = [
        "--policy",
        "honest",
        "-e",
        "tiny",
        "-t",
        "greet",
        "--model",
        &model,
        "--format",
        "json",
        "--verbose",
    ];
    let (mut command, server) = command_to_server(&home, &owner, &arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = lines_of(&mut child);
    wait_for(&lines, "1 sample to run");
    // From here on the server says nothing more, so that making the run would take for ever.
    server.signal("STOP");
    signal(child.id(), "-INT");
    wait_for(&lines, "stopping: what is finished is kept");
    wait_for(&lines, "[1/1]");
    signal(child.id(), "-INT");
    wait_for(&lines, "ct run eval --resume");
    let status = child.wait().unwrap();
    server.signal("CONT");
    assert_eq!(status.code(), Some(3));
    let log = only_log(&home);
    assert_eq!(samples(&log).len(), 1, "the log is whole");
}

#[test]
fn a_log_that_finds_no_room_is_gone_on_with() {
    let home = Home::new();
    if !sandboxes_work(&home) {
        return;
    }
    let arguments = [
        "--policy",
        "scripted",
        "-p",
        "command=seq 3000; echo hello > greeting.txt",
        "-e",
        "tiny",
        "-t",
        "greet",
    ];
    let more = ["--epochs", "8", "--max-samples", "2", "--no-upload", "--format", "json"];
    let ct = command(&home, &[&arguments[..], &more].concat());
    // A limit on the size of files is what a full disk is to a writer. Without the trap it would end the process.
    let mut full = Command::new("bash");
    full.args(["-c", "trap '' XFSZ; ulimit -S -f 40; exec \"$@\"", "bash"])
        .arg(ct.get_program())
        .args(ct.get_args());
    full.env_clear().envs(ct.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = full.current_dir(ct.get_current_dir().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let log = only_log(&home);
    let hint = format!("--resume logs/{}", log.file_name().unwrap().to_str().unwrap());
    assert!(said.contains("the log cannot be written") && said.contains(&hint), "{said}");
    let before = samples(&log);
    assert!((1..8).contains(&before.len()), "{said}");
    let summary =
        done(&run(&home, &["--resume", log.to_str().unwrap(), "--no-upload", "--format", "json"]), 0);
    assert_eq!((&summary["completed"], &summary["main"]["passed"]), (&json!(8), &json!(8)), "{summary}");
}
