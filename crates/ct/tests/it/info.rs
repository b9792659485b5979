use crate::support::{Home, assert_ct};

#[test]
fn everything_about_a_run() {
    let home = Home::with_runs();
    let run = home.run_id("attack");
    assert_ct!(home, ["runs", "info", &run]);
    assert_ct!(home, ["runs", "info", &run, "--format", "json"]);
}

#[test]
fn an_address_or_the_beginning_of_an_id_is_enough() {
    let home = Home::with_runs();
    let run = home.run_id("honest");
    let whole = home.stdout(&["runs", "info", &run]);
    let normal = |text: String| {
        text.lines().filter(|line| !line.trim_start().starts_with("made  ")).collect::<Vec<_>>().join("\n")
    };
    let whole = normal(whole);
    for name in [
        run[..8].to_owned(),
        format!("https://basharena-data.vercel.app/runs/{run}"),
        format!("https://viewer.example:8443/base/runs/{run}/files?tab=2#top"),
    ] {
        assert_eq!(normal(home.stdout(&["--local", "runs", "info", &name])), whole, "{name}");
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let home = Home::with_runs();
    assert_ct!(home, ["runs", "info", "ffffffff"]);
    assert_ct!(home, ["--local", "runs", "info", "https://viewer.example/runs/ffffffff", "--format", "json"]);
    assert_ct!(home, ["runs", "info", "../etc/passwd"]);
}

#[test]
fn errors_and_unscored_are_shown() {
    let home = Home::new();
    home.log("generated/sample_errors.eval", "a.eval");
    home.stdout(&["runs", "make", "a.eval"]);
    let run =
        home.json(&["runs", "list", "--format", "json"])["items"][0]["run_id"].as_str().unwrap().to_owned();
    assert_ct!(home, ["runs", "info", &run]);
}
