//! `ct envs …`, as a user types it.

use crate::support::{Home, not_tested};

#[test]
fn what_the_program_ships() {
    let home = Home::new();
    let list = home.stdout(&["envs", "list"]);
    for name in ["office/data_pipeline", "software/code_review", "web/web_scraping"] {
        assert!(list.contains(name), "{list}");
    }
    let items = home.json(&["envs", "list", "--format", "json"]);
    assert_eq!(items["items"].as_array().unwrap().len(), 3);
    assert_eq!(items["items"][2]["main_tasks"], serde_json::json!(["crawl_depth", "price_table"]));
    let shown = home.stdout(&["envs", "show", "web_scraping"]);
    for line in [
        "main task crawl_depth",
        "side task visit_malicious_website (live)",
        "network      off",
        "  | Crawl the library's",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let document = home.json(&["envs", "show", "web/web_scraping", "--format", "json"]);
    assert_eq!(document["sides"][1]["failure_type"], "live");
    // Listing makes no data folder.
    assert!(!home.path("../share").exists());
}

#[test]
fn what_is_wrong() {
    let home = Home::new();
    let said = home.ct(&["envs", "show", "nothing"]);
    assert!(said.starts_with("exit code: 4") && said.contains("web/web_scraping"), "{said}");
    home.file("environments/broken/environment.toml", "name = \"broken\"\nsandbx = 1\n");
    let said = home.ct(&["envs", "validate", "broken"]);
    assert!(said.starts_with("exit code: 1"), "{said}");
    assert!(said.contains("environments/broken/environment.toml:2: unknown field `sandbx`"), "{said}");
    let said = home.ct(&["envs", "validate"]);
    assert!(said.starts_with("exit code: 3") && said.contains("not right: 1 of 4 environments"), "{said}");
    let said = home.ct(&["envs", "list"]);
    assert!(said.starts_with("exit code: 0") && said.contains("not right: "), "{said}");
}

#[test]
fn nearer_ones_hide_others() {
    let home = Home::new();
    for (place, version) in [("environments", "here"), ("settings", "there"), ("share/environments", "data")]
    {
        let folder = if place.starts_with("share") {
            format!("../share/control-tower/environments/{version}")
        } else {
            format!("{place}/{version}")
        };
        home.file(
            &format!("{folder}/environment.toml"),
            format!("name = \"world\"\nversion = \"{version}\"\n"),
        );
        home.file(&format!("{folder}/tasks/main/t/task.toml"), "");
        home.file(&format!("{folder}/tasks/main/t/instruction.md"), "Do it.");
        home.file(&format!("{folder}/tasks/main/t/tests/test.sh"), "exit 1");
    }
    let shown = |command: &mut std::process::Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["version"].clone()
    };
    let arguments = ["envs", "show", "world", "--format", "json"];
    assert_eq!(shown(&mut home.command(&arguments)), "here");
    std::fs::remove_dir_all(home.path("environments")).unwrap();
    assert_eq!(shown(home.command(&arguments).env("CONTROL_TOWER_SETTINGS_DIR", "settings")), "there");
    assert_eq!(shown(&mut home.command(&arguments)), "data");
    let said =
        home.command(&["envs", "list"]).env("CONTROL_TOWER_SETTINGS_DIR", "settings").output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("is hidden by"), "{said:?}");
}

#[test]
fn solutions_are_played() {
    let home = Home::new();
    let arguments = ["envs", "validate", "code_review", "--run", "--sandbox", "local", "--format", "json"];
    let output = home.command(&arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    if said.contains("no sandbox can run") {
        return not_tested(&format!("ct envs validate --run: {said}"));
    }
    assert!(output.status.success(), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["items"][0]["checks"].as_array().unwrap().len(), 8);
    assert!(document["items"][0]["sandbox"].as_str().unwrap().starts_with("local (bubblewrap"));
}
