//! The program against servers that it is itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::http::{Answer, Http, forward};
use crate::logs::{Numbers, big_log, files, files_below, sample, sound_runs, write_log};
use crate::server::Server;
use crate::support::Home;

/// That of a [`Server`].
const PASSWORD: &str = "correct horse battery";

fn login(home: &Home, url: &str) {
    let said =
        home.ct_with_input(&["login", "--url", url, "--username", "ana", "--password-stdin"], PASSWORD);
    assert!(said.starts_with("exit code: 0"), "{said}");
}

fn two_logs(home: &Home) {
    home.log("control-tower/ct-11.eval", "ct-11.eval");
    home.log("control-tower/ct-12.eval", "ct-12.eval");
}

/// The same text for both homes: addresses of logs and times of making are theirs.
fn neutral(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = match line.find("file://").or_else(|| line.find("s3://")) {
            Some(at) => format!("{}[ADDRESS]", &line[..at]),
            None => line.to_owned(),
        };
        let own = [
            "created_at",
            "created_by",
            "\"version\"",
            "  made  ",
            "  made by  ",
            "  made of  ",
            "\"source\"",
            "\"eval_log_url\"",
            "/logs/",
            "\"path\": null",
        ];
        if !own.iter().any(|word| line.contains(word)) {
            lines.push(without_times(&line));
        }
    }
    lines.join("\n")
}

/// Points in time with a fraction of a second are those of making, the others come from the logs.
fn without_times(line: &str) -> String {
    let is_time =
        |word: &str| word.ends_with('Z') && word.contains("T") && word.contains('.') && word.len() > 20;
    let cut = |c: char| c == ',' || c == '"' || c == ' ';
    line.split_inclusive(cut)
        .map(|piece| if is_time(piece.trim_end_matches(cut)) { "[TIME]," } else { piece })
        .collect()
}

#[test]
fn commands_say_the_same_in_each_home() {
    let server = Server::start();
    let (local, remote) = (Home::new(), Home::new());
    login(&remote, server.url());
    let attack = "6dc57307392ef13ff7295bf3fee9d3d3";
    two_logs(&local);
    two_logs(&remote);
    let script: &[&[&str]] = &[
        &["runs", "list", "--format", "json"],
        &["runs", "make", "ct-11.eval"],
        &["runs", "make", "ct-12.eval", "--format", "json"],
        &["runs", "make", "ct-11.eval", "--tag", "again", "--run-name", "named"],
        &["runs", "make", "ct-12.eval"],
        &["runs", "list", "--format", "csv", "--sort", "name", "--env", "slack_clone"],
        &["runs", "list", "--tag", "again", "--format", "ndjson"],
        &["runs", "info", "6dc57307"],
        &["runs", "info", attack, "--format", "json"],
        &["runs", "sample", attack, "2", "_", "--seed", "7", "--stratified", "--format", "json"],
        &["runs", "sample", attack, "2", "--seed", "7", "--save-dir", "parts"],
        &["runs", "edit", attack, "--untag", "again", "--description", "d", "--format", "json"],
        &["runs", "download-trajs", attack, "-o", "all"],
        &["runs", "download-trajs", attack, "-o", "all", "--format", "json"],
        &["runs", "download-trajs", "-e", "slack_clone", "-t", "add_reactions", "-n", "3", "-o", "found"],
        &["runs", "download-eval", attack],
        &["runs", "download-eval", attack, "--format", "json"],
        &["runs", "show", "92203bdd"],
        &["runs", "show", "92203bdd0201b0b531bbbbdaa46bc176", "--format", "json"],
        &["runs", "show", "92203bdd", "--markdown"],
        &["runs", "delete", attack, "--format", "json"],
        &["runs", "delete", attack],
        &["runs", "list", "--format", "ndjson"],
        &["runs", "info", attack],
        &["runs", "restore", attack, "--format", "json"],
        &["runs", "make", "ct-11.eval"],
        &["dataset", "create", "d", "92203bdd"],
        &["dataset", "show", "d", "--ids"],
    ];
    for arguments in script {
        let run = |home: &Home| {
            let mut command = home.command(arguments);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            neutral(&String::from_utf8(output.stdout).unwrap())
        };
        assert_eq!(run(&remote), run(&local), "{arguments:?}");
    }
    assert_eq!(files(&remote.path("found")).len(), 3);
    let eval = format!("{attack}.eval");
    assert!(std::fs::read(remote.path(&eval)).unwrap() == std::fs::read(local.path("ct-11.eval")).unwrap());
    assert!(!remote.path("../share").exists(), "a server needs no data folder here");
    // What is not there has one exit code in each home.
    for arguments in
        [&["runs", "info", "ffff"][..], &["runs", "show", "ffff"], &["runs", "list", "--cursor", "x"]]
    {
        let code = |home: &Home| home.command(arguments).output().unwrap().status.code();
        assert_eq!(code(&remote), code(&local), "{arguments:?}");
    }
}

#[test]
fn runs_move_between_homes_with_their_edits() {
    let (one, two) = (Server::start(), Server::start());
    let home = Home::with_runs();
    login(&home, one.url());
    login(&home, two.url());
    let token_two = two.token.clone();
    let attack = "6dc57307392ef13ff7295bf3fee9d3d3";
    let status = |arguments: &[&str]| home.json(arguments)["items"][0]["status"].as_str().unwrap().to_owned();
    let name = |server: &str| home.json(&["--server", server, "runs", "info", attack, "--format", "json"]);
    // The last login is home.
    assert_eq!(home.json(&["status", "--format", "json"])["server"]["url"], two.url());
    assert_eq!(status(&["runs", "push", "6dc57307", "--format", "json"]), "created");
    assert_eq!(status(&["runs", "push", attack, "--format", "json"]), "unchanged");
    home.stdout(&["--local", "runs", "edit", attack, "--name", "mine", "--tag", "t"]);
    assert_eq!(status(&["runs", "push", attack, "--format", "json"]), "edited");
    assert_eq!(name(two.url())["name"], "mine");
    // From server to server, by address.
    let address = format!("{}/runs/{attack}", two.url());
    assert_eq!(status(&["runs", "push", &address, "--to", one.url(), "--format", "json"]), "created");
    let (a, b) = (name(one.url()), name(two.url()));
    for field in
        ["name", "tags", "trajectory_count", "metrics", "cost_by_model", "log", "outcomes", "eval_id"]
    {
        assert_eq!(a[field], b[field], "{field}");
    }
    // And back, into another data folder.
    let other = Home::new();
    login(&other, one.url());
    let pulled = other.json(&["runs", "pull", attack, "--format", "json"]);
    assert_eq!(pulled["items"][0]["status"], "created");
    assert_eq!(other.json(&["runs", "pull", attack, "--format", "json"])["items"][0]["status"], "unchanged");
    other.stdout(&["runs", "edit", attack, "--name", "changed there", "--description", "d"]);
    assert_eq!(other.json(&["runs", "pull", attack, "--format", "json"])["items"][0]["status"], "edited");
    let here = other.json(&["--local", "runs", "info", attack, "--format", "json"]);
    assert_eq!(
        (&here["name"], &here["tags"], &here["log"]["hash"]),
        (&"changed there".into(), &a["tags"], &a["log"]["hash"])
    );
    let sound = other.json(&["--local", "store", "check", "--format", "json"]);
    assert_eq!((&sound["sound"], &sound["trajectories"]), (&true.into(), &6.into()));
    let stored: Vec<_> = sound_runs(&other).into_iter().map(|run| run.0).collect();
    assert_eq!(stored, [attack]);
    // One that fails does not stop the others.
    let output = home.command(&["runs", "push", "ffff", "15129ed7", "--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let items: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&items["items"][0]["status"], &items["items"][1]["status"]),
        (&"failed".into(), &"created".into())
    );
    // Signing out of one leaves the other, and the token is worthless.
    home.stdout(&["logout", "--url", two.url()]);
    assert_eq!(
        home.command(&["--server", two.url(), "runs", "list"]).output().unwrap().status.code(),
        Some(6)
    );
    assert!(home.command(&["--server", one.url(), "runs", "list"]).output().unwrap().status.success());
    // A token of the environment counts for its own server.
    let mut command = home.command(&["runs", "list", "--format", "ndjson"]);
    command.env("CONTROL_TOWER_API_BASE_URL", two.url()).env("CONTROL_TOWER_API_TOKEN", &token_two);
    assert!(command.output().unwrap().status.success());
}

#[test]
fn the_same_eval_with_other_bytes_needs_a_decision() {
    let server = Server::start();
    let home = Home::new();
    login(&home, server.url());
    two_logs(&home);
    home.stdout(&["runs", "make", "ct-11.eval"]);
    let other = ["runs", "make", "ct-11.eval", "--drop-score", "monitor*", "--format", "json"];
    let code = |more: &[&str]| home.command(&[&other, more].concat()).output().unwrap().status.code();
    assert_eq!(code(&[]), Some(5));
    assert_eq!(home.json(&["runs", "list", "--format", "json"])["total_count"], 1);
    let made = home.json(&[&other[..], &["--as-new"]].concat());
    assert_eq!(
        (&made["items"][0]["status"], &made["items"][0]["trajectories"]),
        (&"created".into(), &6.into())
    );
    // From now on these bytes are known.
    assert_eq!(home.json(&other)["items"][0]["status"], "unchanged");
    let sound = server.home.json(&["--local", "store", "check", "--format", "json"]);
    assert_eq!(
        (&sound["sound"], &sound["runs"], &sound["trajectories"]),
        (&true.into(), &2.into(), &12.into())
    );
}

#[test]
fn nothing_is_sent_of_a_large_log_that_is_refused() {
    let server = Server::start();
    let home = Home::new();
    login(&home, server.url());
    let mut numbers = Numbers::new(3);
    let mut large = |id: &str| sample(id, &mut numbers, 7_000_000);
    write_log(&home.path("a.eval"), "eval-3", &[sample("s1", &mut Numbers::new(4), 100)]);
    // No trajectory of the one is in the other.
    write_log(&home.path("b.eval"), "eval-3", &["s2", "s3", "s4", "s5", "s6", "s7"].map(&mut large));
    assert!(home.path("b.eval").metadata().unwrap().len() > 16 << 20);
    home.stdout(&["runs", "make", "a.eval"]);
    let refused = home.command(&["runs", "make", "b.eval", "--format", "json"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(5));
    let kept = || {
        let count =
            |folder: &str| files_below(&server.home.path("../share/control-tower").join(folder)).len();
        (count("logs"), count("uploads"))
    };
    assert_eq!(kept(), (1, 0));
    let made = home.json(&["runs", "make", "b.eval", "--as-new", "--format", "json"]);
    assert_eq!(made["items"][0]["status"], "created");
    assert_eq!(kept(), (2, 0));
}

#[test]
fn the_run_to_replace_is_found_by_its_eval_in_each_home() {
    let server = Server::start();
    let (local, remote) = (Home::new(), Home::new());
    login(&remote, server.url());
    let mut all = Vec::new();
    for home in [&local, &remote] {
        let mut numbers = Numbers::new(5);
        for (name, ids) in [("a", ["s1", "s2"]), ("b", ["s3", "s4"]), ("c", ["s5", "s6"])] {
            let samples = ids.map(|id| sample(id, &mut numbers, 200));
            write_log(&home.path(&format!("{name}.eval")), "eval-5", &samples);
        }
        let make = |name: &str, more: &[&str]| {
            let output =
                home.command(&[&["runs", "make", name, "--format", "json"], more].concat()).output().unwrap();
            let said: Value = serde_json::from_slice(&output.stdout).unwrap();
            let item = &said["items"][0];
            (output.status.code(), item["status"].clone(), item["run_id"].clone(), item["error"].clone())
        };
        let mut seen = vec![make("a.eval", &[]), make("b.eval", &["--replace"])];
        assert_eq!((&seen[1].1, &seen[0].2), (&"replaced".into(), &seen[1].2));
        seen.push(make("b.eval", &[]));
        seen.push(make("c.eval", &["--as-new"]));
        // Now two runs hold the eval.
        seen.push(make("a.eval", &["--replace"]));
        seen.push(make("a.eval", &[]));
        let second = seen[3].2.as_str().unwrap().to_owned();
        home.stdout(&["runs", "delete", &second]);
        seen.push(make("a.eval", &["--replace"]));
        let names = home.json(&["runs", "info", seen[0].2.as_str().unwrap(), "--format", "json"]);
        assert_eq!(names["revisions"].as_array().unwrap().len(), 2);
        all.push(seen);
    }
    assert_eq!(all[0], all[1]);
}

#[test]
fn a_replaced_log_stays_as_a_revision_in_each_home() {
    let server = Server::start();
    let (local, remote) = (Home::new(), Home::new());
    login(&remote, server.url());
    let run = "6dc57307392ef13ff7295bf3fee9d3d3";
    let make = ["runs", "make", "ct-11.eval", "--format", "json"];
    let other = [&make[..], &["--drop-score", "monitor*"]].concat();
    let replace = [&other[..], &["--replace", "--tag", "again", "--run-name", "named"]].concat();
    let facts = |home: &Home| {
        let info = home.json(&["runs", "info", run, "--format", "json"]);
        let revisions: Vec<Value> =
            info["revisions"].as_array().unwrap().iter().map(|old| old["log"]["hash"].clone()).collect();
        serde_json::json!({
            "log": info["log"]["hash"], "revisions": revisions, "name": info["name"], "tags": info["tags"],
            "description": info["description"], "count": info["trajectory_count"], "metrics": info["metrics"],
            "monitors": info["monitors"], "outcomes": info["outcomes"],
        })
    };
    let mut all = Vec::new();
    for home in [&local, &remote] {
        two_logs(home);
        let item = |arguments: &[&str]| {
            let item = home.json(arguments)["items"][0].clone();
            assert_eq!(item["run_id"], run, "{arguments:?}");
            item["status"].as_str().unwrap().to_owned()
        };
        let mut seen = Vec::new();
        seen.push(item(&make));
        home.stdout(&["runs", "edit", run, "--description", "of the user"]);
        let ids = home.trajectory_ids(run);
        seen.push(item(&replace));
        seen.push(facts(home).to_string());
        assert_eq!(home.trajectory_ids(run), ids);
        // Again, it is there; the former bytes are known as what they are, and can come back.
        seen.push(item(&other));
        seen.push(item(&make));
        seen.push(item(&[&make[..], &["--replace"]].concat()));
        seen.push(facts(home).to_string());
        home.stdout(&["runs", "download-trajs", run, "-o", "all"]);
        home.stdout(&["runs", "download-eval", run, "-o", "back.eval"]);
        let read = |name: &str| std::fs::read(home.path(name)).unwrap();
        assert!(read("back.eval") == read("ct-11.eval"));
        all.push(seen);
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0].iter().filter(|status| *status == "replaced").count(), 2);
    let sound = server.home.json(&["--local", "store", "check", "--format", "json"]);
    assert_eq!((&sound["sound"], &sound["runs"]), (&true.into(), &1.into()));
    let gone = server.home.json(&["--local", "store", "gc", "--dry-run", "--format", "json"]);
    assert_eq!(gone["items"], serde_json::json!([]), "an earlier log is needed");
}

#[test]
fn one_log_of_many_clients_is_one_run() {
    const CLIENTS: usize = 4;
    let server = Server::start();
    let homes: Vec<Home> = (0..CLIENTS).map(|_| Home::new()).collect();
    let start = |home: &Home| {
        big_log(&home.path("a.eval"), 11, SAMPLES, SAMPLE_BYTES);
        let mut command = home.command(&["runs", "make", "a.eval", "--format", "json"]);
        command.env("CONTROL_TOWER_API_BASE_URL", server.url()).env("CONTROL_TOWER_API_TOKEN", &server.token);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = homes.iter().map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_stored(&server.home, &homes[0].path("a.eval"));
}

#[test]
fn a_bad_token_is_told_before_the_work() {
    let server = Server::start();
    let home = Home::new();
    two_logs(&home);
    let reading = server.home.stdout(&["--local", "tokens", "create", "ana", "--scope", "read"]);
    for (token, hint) in [("nonsense", "ct login"), (reading.trim(), "ct status")] {
        let mut command = home.command(&["runs", "make", "ct-11.eval", "--format", "json"]);
        command.env("CONTROL_TOWER_API_BASE_URL", server.url()).env("CONTROL_TOWER_API_TOKEN", token);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(6));
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["error"]["kind"], "auth");
        assert!(error["error"]["hints"].to_string().contains(hint), "{error}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("nonsense"), "the token is printed");
    }
}

#[test]
fn nobody_is_asked_without_a_terminal() {
    let home = Home::new();
    for arguments in [
        &["login"][..],
        &["login", "--url", "http://127.0.0.1:1"],
        &["login", "--url", "http://127.0.0.1:1", "--username", "ana"],
        &["login", "--url", "http://127.0.0.1:1", "--username", "ana", "--password-stdin"],
        &["login", "--url", "http://127.0.0.1:1", "--token-stdin"],
    ] {
        assert_eq!(home.command(arguments).output().unwrap().status.code(), Some(2), "{arguments:?}");
    }
}

/// The text that a server was shown as a token, of each request.
fn tokens_seen(server: &Http) -> Vec<(String, Option<String>)> {
    let asked = server.asked();
    asked.iter().map(|r| (r.path().to_owned(), r.headers.get("authorization").cloned())).collect()
}

#[test]
fn a_token_goes_to_its_own_server_alone() {
    let elsewhere = Http::start(|_| Answer::new(200, "stolen"));
    let target = format!("{}/log.eval", elsewhere.url);
    let moved = target.clone();
    // A server that sends everything on to another one.
    let server = Http::start(move |request| match request.path() {
        "/api/health" => {
            Answer::json(200, &serde_json::json!({"status": "ok", "server": "ct", "version": "x"}))
        }
        _ => Answer::new(302, "").header("location", &moved),
    });
    let home = Home::new();
    let run = |arguments: &[&str], url: &str| {
        let mut command = home.command(arguments);
        command.env("CONTROL_TOWER_API_BASE_URL", url).env("CONTROL_TOWER_API_TOKEN", "secret-token");
        command.output().unwrap()
    };
    for arguments in [
        &["runs", "list"][..],
        &["runs", "info", "abc"],
        &["runs", "delete", "abc"],
        &["runs", "make", "x.eval"],
    ] {
        let output = run(arguments, &server.url);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("secret-token"));
    }
    assert!(tokens_seen(&server).iter().any(|(_, token)| token.as_deref() == Some("Bearer secret-token")));
    // Health is asked without.
    assert!(tokens_seen(&server).iter().all(|(path, token)| path != "/api/health" || token.is_none()));
    // Neither a redirect nor an address on the command line takes it along.
    assert!(elsewhere.asked().is_empty());
    run(&["runs", "download-eval", &target], &server.url);
    run(&["runs", "info", &format!("{}/runs/abc", elsewhere.url)], &server.url);
    run(&["--server", &elsewhere.url, "runs", "list"], &server.url);
    assert!(elsewhere.asked().len() >= 3);
    assert!(
        tokens_seen(&elsewhere).iter().all(|(_, token)| token.is_none()),
        "{:?}",
        tokens_seen(&elsewhere)
    );
    // A `.env` file names a server: a token of the environment does not go there.
    home.file(".env", format!("CONTROL_TOWER_API_BASE_URL={}\n", elsewhere.url));
    let mut command = home.command(&["runs", "list"]);
    command.env("CONTROL_TOWER_API_TOKEN", "secret-token");
    assert!(!command.output().unwrap().status.success());
    assert!(tokens_seen(&elsewhere).iter().all(|(_, token)| token.is_none()));
    // Both from the file do.
    home.file(
        ".env",
        format!("CONTROL_TOWER_API_BASE_URL={}\nCONTROL_TOWER_API_TOKEN=of-the-file\n", server.url),
    );
    home.ct(&["runs", "list"]);
    assert!(tokens_seen(&server).iter().any(|(_, token)| token.as_deref() == Some("Bearer of-the-file")));
}

/// A proxy that is in the way.
struct Proxy {
    http: Http,
    mood: Arc<Mutex<Mood>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mood {
    /// Larger bodies are refused.
    body_bytes_max: Option<usize>,
    /// Every so many answers is cut in its middle.
    cut_every: Option<usize>,
    /// Every so many requests is answered with 503.
    busy_every: Option<usize>,
    /// Answers do not say how long they are.
    without_length: bool,
    delay: Duration,
}

impl Proxy {
    fn before(upstream: &str, mood: Mood) -> Self {
        let upstream = upstream.to_owned();
        let mood = Arc::new(Mutex::new(mood));
        let (now, count) = (Arc::clone(&mood), AtomicUsize::new(0));
        let http = Http::start(move |request| {
            let mood = *now.lock().unwrap();
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            std::thread::sleep(mood.delay);
            if mood.body_bytes_max.is_some_and(|max| request.body.len() > max) {
                return Answer::new(413, "too large");
            }
            if mood.busy_every.is_some_and(|every| number % every == 0) {
                return Answer::new(503, "").header("retry-after", "0");
            }
            let mut answer = forward(request, &upstream).unwrap_or_else(|_| Answer::new(502, ""));
            answer.with_length = !mood.without_length;
            if mood.cut_every.is_some_and(|every| number % every == 0) && answer.body.len() > 1 {
                answer.with_length = true;
                answer.cut_after = Some(answer.body.len() / 2);
            }
            answer
        });
        Self { http, mood }
    }
}

const SAMPLES: usize = 12;
const SAMPLE_BYTES: usize = 400_000;

#[test]
fn proxies_that_are_in_the_way_are_lived_with() {
    let server = Server::start();
    let token = server.token.clone();
    let moods = [
        Mood { body_bytes_max: Some(1_000_000), ..Mood::default() },
        Mood { without_length: true, delay: Duration::from_millis(5), ..Mood::default() },
        Mood { cut_every: Some(4), ..Mood::default() },
        Mood { busy_every: Some(3), body_bytes_max: Some(1_000_000), ..Mood::default() },
    ];
    for (number, mood) in (0..).zip(moods) {
        let proxy = Proxy::before(server.url(), mood);
        let home = Home::new();
        let log = home.path("a.eval");
        big_log(&log, 100 + number, SAMPLES, SAMPLE_BYTES);
        let run = |arguments: &[&str]| {
            let mut command = home.command(arguments);
            command.env("CONTROL_TOWER_API_BASE_URL", &proxy.http.url).env("CONTROL_TOWER_API_TOKEN", &token);
            let output = command.output().unwrap();
            assert!(
                output.status.success(),
                "{mood:?} {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            output.stdout
        };
        let made: Value =
            serde_json::from_slice(&run(&["runs", "make", "a.eval", "--format", "json"])).unwrap();
        assert_eq!(made["items"][0]["status"], "created", "{mood:?}");
        let id = made["items"][0]["run_id"].as_str().unwrap();
        run(&["runs", "download-eval", id, "-o", "back.eval"]);
        assert!(std::fs::read(home.path("back.eval")).unwrap() == std::fs::read(&log).unwrap(), "{mood:?}");
        run(&["runs", "download-trajs", id, "-o", "all"]);
        assert_eq!(files(&home.path("all")).len(), SAMPLES + 1, "{mood:?}");
    }
    let sound = server.home.json(&["--local", "store", "check", "--format", "json"]);
    assert_eq!((&sound["sound"], &sound["runs"]), (&true.into(), &4.into()));
}

#[test]
fn a_server_that_is_busy_with_the_same_log_is_waited_for() {
    const BUSY: usize = 8;
    let server = Server::start();
    let (upstream, busy) = (server.url().to_owned(), AtomicUsize::new(0));
    let proxy = Http::start(move |request| {
        let mine = request.path().starts_with("/api/uploads/") && request.method != "GET";
        if mine && busy.fetch_add(1, Ordering::Relaxed) % (BUSY + 1) < BUSY {
            return Answer::new(503, "").header("retry-after", "0");
        }
        forward(request, &upstream).unwrap_or_else(|_| Answer::new(502, ""))
    });
    let home = Home::new();
    home.log("control-tower/ct-11.eval", "ct-11.eval");
    let mut command = home.command(&["runs", "make", "ct-11.eval"]);
    command.env("CONTROL_TOWER_API_BASE_URL", &proxy.url).env("CONTROL_TOWER_API_TOKEN", &server.token);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // More often than other requests are tried.
    let completed = proxy.asked().iter().filter(|request| request.path().ends_with("/complete")).count();
    assert_eq!(completed, BUSY + 1);
    assert_stored(&server.home, &home.path("ct-11.eval"));
}

#[test]
fn a_run_that_someone_else_makes_meanwhile_is_there() {
    let server = Server::start();
    let (upstream, token) = (server.url().to_owned(), server.token.clone());
    let (home, other) = (Home::new(), Home::new());
    for home in [&home, &other] {
        home.log("control-tower/ct-11.eval", "ct-11.eval");
    }
    let make = |home: &Home, url: &str, token: &str| -> Value {
        let mut command = home.command(&["runs", "make", "ct-11.eval", "--format", "json"]);
        command.env("CONTROL_TOWER_API_BASE_URL", url).env("CONTROL_TOWER_API_TOKEN", token);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        made["items"][0]["status"].clone()
    };
    let others: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = Arc::clone(&others);
    let proxy = Http::start(move |request| {
        // When it is seen whether its trajectories are there, the run was not, a moment ago.
        if request.query("view") == Some("document") {
            let mut seen = seen.lock().unwrap();
            if seen.is_empty() {
                seen.push(make(&other, &upstream, &token));
            }
        }
        forward(request, &upstream).unwrap_or_else(|_| Answer::new(502, ""))
    });
    assert_eq!(make(&home, &proxy.url, &server.token), "unchanged");
    assert_eq!(*others.lock().unwrap(), ["created"]);
}

#[cfg(unix)]
#[test]
fn a_killed_upload_goes_on_where_it_was() {
    goes_on_where_it_was(SAMPLE_BYTES, 200_000);
}

/// A large log is sent while it is hashed.
#[cfg(unix)]
#[test]
fn a_killed_upload_of_a_log_that_is_not_hashed_yet_goes_on_where_it_was() {
    let begun = goes_on_where_it_was(3_500_000, 300_000);
    assert!(begun.iter().all(|body| body.contains("resume_key")), "{begun:?}");
}

/// What the client asked for to begin.
fn goes_on_where_it_was(sample_bytes: usize, part_bytes_max: usize) -> Vec<String> {
    let server = Server::start();
    let token = server.token.clone();
    // Slow enough to be killed on the way, with parts small enough that some arrive.
    let mood =
        Mood { delay: Duration::from_millis(15), body_bytes_max: Some(part_bytes_max), ..Mood::default() };
    let proxy = Proxy::before(server.url(), mood);
    let home = Home::new();
    let log = home.path("a.eval");
    big_log(&log, 7, SAMPLES, sample_bytes);
    let command = || {
        let mut command: Command = home.command(&["runs", "make", "a.eval", "--format", "json"]);
        command.env("CONTROL_TOWER_API_BASE_URL", &proxy.http.url).env("CONTROL_TOWER_API_TOKEN", &token);
        command
    };
    let parts = |from: usize| {
        let asked = proxy.http.asked();
        let sent =
            asked[from..].iter().filter(|r| r.path().contains("/parts/") && r.body.len() <= part_bytes_max);
        sent.map(|r| r.body.len() as u64).sum::<u64>()
    };
    let size = std::fs::metadata(&log).unwrap().len();
    let mut numbers = Numbers::new(3);
    let mut sent_before_kill = 0;
    let mut seen = 0;
    for _ in 0..3 {
        let mut child = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Killed once some more parts are through.
        let wanted = size / 8 + numbers.next() % (size / 8);
        while parts(seen) < wanted && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        sent_before_kill += parts(seen);
        seen = proxy.http.asked().len();
        // Nothing half done is ever seen.
        let list = server.home.json(&["--local", "runs", "list", "--format", "json"]);
        assert_eq!(list["items"], serde_json::json!([]));
    }
    *proxy.mood.lock().unwrap() = Mood { delay: Duration::ZERO, ..mood };
    let output = command().output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let last = parts(seen);
    assert!(sent_before_kill > size / 4, "it was never killed on the way");
    assert!(last < size, "{last} of {size} bytes were sent again after {sent_before_kill} had arrived");
    assert_stored(&server.home, &log);
    let asked = proxy.http.asked();
    let begun = asked.iter().filter(|r| r.path() == "/api/uploads");
    begun.map(|r| String::from_utf8_lossy(&r.body).into_owned()).collect()
}

#[test]
fn a_pull_that_broke_off_goes_on_where_it_was() {
    let server = Server::start();
    let there = Home::new();
    big_log(&there.path("a.eval"), 9, SAMPLES, SAMPLE_BYTES);
    let ask = ["--server", server.url(), "runs", "make", "a.eval"];
    let made = there.command(&ask).env("CONTROL_TOWER_API_TOKEN", &server.token).output().unwrap();
    assert!(made.status.success());
    // The first answer that is more than a byte of the log is cut, and then the server fails.
    let (upstream, failing, cuts) =
        (server.url().to_owned(), Arc::new(Mutex::new(true)), AtomicUsize::new(0));
    let now = Arc::clone(&failing);
    let proxy = Http::start(move |request| {
        let mut answer = forward(request, &upstream).unwrap_or_else(|_| Answer::new(502, ""));
        if request.path().starts_with("/objects/") && answer.body.len() > 1 && *now.lock().unwrap() {
            if cuts.fetch_add(1, Ordering::Relaxed) > 0 {
                return Answer::new(500, "");
            }
            answer.cut_after = Some(answer.body.len() / 2);
        }
        answer
    });
    let home = Home::new();
    let run =
        server.home.json(&["--local", "runs", "list", "--format", "json"])["items"][0]["run_id"].clone();
    let pull = || {
        let mut command = home.command(&["runs", "pull", run.as_str().unwrap()]);
        command.env("CONTROL_TOWER_API_BASE_URL", &proxy.url).env("CONTROL_TOWER_API_TOKEN", &server.token);
        command.output().unwrap()
    };
    let broken = pull();
    // The trouble is the network's, not this machine's.
    assert_eq!(broken.status.code(), Some(7), "{}", String::from_utf8_lossy(&broken.stderr));
    *failing.lock().unwrap() = false;
    let before = proxy.asked().len();
    let whole = pull();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let size = std::fs::metadata(there.path("a.eval")).unwrap().len();
    let starts: Vec<u64> = proxy.asked()[before..]
        .iter()
        .filter(|request| request.path().starts_with("/objects/"))
        .filter_map(|request| {
            request.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?.0.parse().ok()
        })
        .filter(|&start| start > 0)
        .collect();
    assert_eq!(starts, [size / 2]);
    assert_stored(&home, &there.path("a.eval"));
    let left = std::fs::read_dir(home.path("../share/control-tower/tmp")).unwrap().count();
    assert_eq!(left, 0, "nothing stays behind");
}

fn assert_stored(home: &Home, log: &Path) {
    let sound = home.json(&["--local", "store", "check", "--format", "json"]);
    assert_eq!((&sound["sound"], &sound["runs"]), (&true.into(), &1.into()));
    let id = home.json(&["--local", "runs", "list", "--format", "json"])["items"][0]["run_id"].clone();
    home.stdout(&["--local", "runs", "download-eval", id.as_str().unwrap(), "-o", "stored.eval"]);
    assert!(std::fs::read(home.path("stored.eval")).unwrap() == std::fs::read(log).unwrap());
}
