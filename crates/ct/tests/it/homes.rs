//! What is the same in every home: limits, refusals, hints.

use crate::server::{Served, user_with_token};
use crate::support::Home;

/// A home whose runs are in its data folder, and one of the same runs on a server.
fn local_and_remote() -> (Home, Home, Home, Served) {
    let (local, remote, there) = (Home::with_runs(), Home::new(), Home::with_runs());
    let token = user_with_token(&there, "ana", "admin");
    let served = Served::start(&there, &["--private"]);
    let said = remote.ct_with_input(&["login", "--url", &served.url, "--token-stdin"], &token);
    assert!(said.starts_with("exit code: 0"), "{said}");
    (local, remote, there, served)
}

const ATTACK: &str = "6dc57307392ef13ff7295bf3fee9d3d3";

#[test]
fn limits_are_the_same_in_each_home() {
    let (local, remote, _there, _served) = local_and_remote();
    for home in [&local, &remote] {
        home.log("control-tower/ct-11.eval", "ct-11.eval");
    }
    let (label, text) = ("é".repeat(1_000), "x".repeat(100_000));
    for (field, fits) in [("--name", &label), ("--tag", &label), ("--description", &text)] {
        let longer = format!("{fits}x");
        let edit = |home: &Home, value: &str| home.ct(&["runs", "edit", ATTACK, field, value]);
        let said = edit(&local, &longer);
        assert!(said.starts_with("exit code: 2") && said.contains(" characters"), "{said}");
        assert_eq!(edit(&remote, &longer), said);
        for home in [&local, &remote] {
            assert!(edit(home, fits).starts_with("exit code: 0"), "{field}");
        }
    }
    // Also of a run to be made, before its log is read.
    for option in ["--run-name", "--tag", "--policy", "--task-set"] {
        let make = |home: &Home| home.ct(&["runs", "make", "ct-11.eval", option, &format!("{label}é")]);
        let said = make(&local);
        assert!(said.starts_with("exit code: 2") && said.contains("1000 characters"), "{said}");
        assert_eq!(make(&remote), said);
    }
}

#[test]
fn tags_have_an_end_in_each_home() {
    let (local, remote, _there, _served) = local_and_remote();
    let tags: Vec<String> = (0..1_000).map(|number| format!("t{number}")).collect();
    for home in [&local, &remote] {
        let held = home.json(&["runs", "info", ATTACK, "--format", "json"])["tags"].as_array().unwrap().len();
        let mut edit = vec!["runs", "edit", ATTACK];
        tags[held..].iter().for_each(|tag| edit.extend(["--tag", tag]));
        home.stdout(&edit);
        let said = home.ct(&["runs", "edit", ATTACK, "--tag", "one more"]);
        assert!(said.starts_with("exit code: 2") && said.contains("at most 1000 tags"), "{said}");
        // What is there can be taken away and changed all the same.
        home.stdout(&["runs", "edit", ATTACK, "--untag", "t999", "--name", "other"]);
    }
}

#[test]
fn a_deleted_run_is_told_how_to_come_back_in_each_home() {
    let (local, remote, _there, _served) = local_and_remote();
    for home in [&local, &remote] {
        home.stdout(&["runs", "delete", ATTACK]);
        let commands = [
            &["runs", "edit", "--name", "x"][..],
            &["runs", "download-eval", "-o", "log.eval"],
            &["runs", "download-trajs", "-o", "all"],
            &["dataset", "create", "d", "--kind", "run"],
        ];
        for (run, command) in
            [ATTACK, "6dc57307"].iter().flat_map(|run| commands.map(|command| (*run, command)))
        {
            let said = home.ct(&[command, &[run]].concat());
            assert!(said.starts_with("exit code: 5"), "{command:?}: {said}");
            assert!(said.contains(&format!("ct runs restore {ATTACK}")), "{command:?}: {said}");
        }
        assert!(!home.path("log.eval").exists());
        home.stdout(&["runs", "restore", ATTACK]);
    }
}

#[test]
fn pasted_addresses_are_taken_where_they_make_sense() {
    let (_, remote, _there, served) = local_and_remote();
    let somewhere = Home::new();
    somewhere.ct_with_input(
        &["login", "--url", &served.url, "--username", "ana", "--password-stdin"],
        "correct horse battery",
    );
    let trajectory = remote.trajectory_ids(ATTACK).remove(0);
    remote.stdout(&["dataset", "create", "d", &trajectory]);
    let address = |page: &str| format!("{}/{page}", served.url);
    let (run, of_run) = (address(&format!("runs/{ATTACK}")), address(&format!("runs/{ATTACK}/x?y=z")));
    let (one, dataset) = (address(&format!("trajectories/{trajectory}")), address("datasets/d"));
    let version = address("datasets/d?version=1");
    let taken: [&[&str]; 16] = [
        &["runs", "info", &run],
        &["runs", "info", &of_run],
        &["runs", "sample", &run, "1"],
        &["runs", "show", &one],
        &["runs", "download-eval", &run, "-o", "a.eval"],
        &["runs", "download-eval", &one, "-o", "a.eval"],
        &["runs", "download-trajs", &one, "-o", "one"],
        &["runs", "download-trajs", &version, "-o", "d"],
        &["dataset", "show", &version],
        &["dataset", "download", &dataset, "-o", "dd"],
        &["dataset", "versions", &dataset],
        &["dataset", "lock", &dataset],
        &["dataset", "unlock", &dataset],
        &["dataset", "remove", &dataset, &trajectory],
        &["dataset", "add", &dataset, &trajectory],
        &["dataset", "diff", &version, &dataset],
    ];
    // The login's own home is another: an address picks its server.
    for arguments in taken {
        let said = somewhere.ct(&[&["--data-dir", "none"], arguments].concat());
        assert!(said.starts_with("exit code: 0"), "{arguments:?}: {said}");
    }
    let refused: [&[&str]; 7] = [
        &["runs", "info", &one],
        &["runs", "show", &run],
        &["runs", "sample", &dataset, "1"],
        &["dataset", "show", &run],
        &["dataset", "lock", &version],
        &["runs", "info", &address("elsewhere")],
        &["runs", "delete", &one],
    ];
    for arguments in refused {
        let said = somewhere.ct(arguments);
        assert!(said.starts_with("exit code: 2"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_server_is_called_what_it_was_called() {
    let home = Home::new();
    for (given, shown) in
        [("http://127.0.0.1:1", "http://127.0.0.1:1"), ("localhost:1", "http://localhost:1")]
    {
        let said = home.ct(&["--server", given, "runs", "list"]);
        assert!(said.starts_with("exit code: 7") && said.contains(shown), "{said}");
    }
}
