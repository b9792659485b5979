//! The whole command line as its help says it: nothing changes unseen.

use crate::support::{Home, assert_ct};

#[test]
fn reference() {
    let home = Home::new();
    let commands: &[&[&str]] = &[
        &[],
        &["runs"],
        &["runs", "make"],
        &["runs", "list"],
        &["runs", "info"],
        &["runs", "sample"],
        &["runs", "download-trajs"],
        &["runs", "download-eval"],
        &["runs", "edit"],
        &["runs", "delete"],
        &["runs", "restore"],
        &["runs", "show"],
        &["runs", "push"],
        &["runs", "pull"],
        &["run"],
        &["run", "eval"],
        &["policies"],
        &["policies", "list"],
        &["dataset"],
        &["dataset", "list"],
        &["dataset", "versions"],
        &["dataset", "show"],
        &["dataset", "create"],
        &["dataset", "add"],
        &["dataset", "remove"],
        &["dataset", "lock"],
        &["dataset", "unlock"],
        &["dataset", "download"],
        &["dataset", "diff"],
        &["envs"],
        &["envs", "list"],
        &["envs", "show"],
        &["envs", "validate"],
        &["store"],
        &["store", "check"],
        &["store", "gc"],
        &["store", "copy"],
        &["store", "backup"],
        &["store", "restore"],
        &["serve"],
        &["users"],
        &["users", "add"],
        &["users", "list"],
        &["users", "passwd"],
        &["users", "scope"],
        &["users", "disable"],
        &["users", "enable"],
        &["tokens"],
        &["tokens", "list"],
        &["tokens", "create"],
        &["tokens", "revoke"],
        &["login"],
        &["logout"],
        &["status"],
        &["completions"],
    ];
    let mut reference = String::new();
    for command in commands {
        let mut arguments = command.to_vec();
        arguments.push("--help");
        let help = home.stdout(&arguments);
        // Every command of every group is in the list above.
        for line in
            help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty())
        {
            let name = line.split_whitespace().next().unwrap();
            let mut full = command.to_vec();
            full.push(name);
            assert!(
                !line.starts_with("  ") || line.starts_with("   ") || commands.contains(&full.as_slice()),
                "{full:?}"
            );
        }
        assert!(command.len() < 2 || help.contains("Examples:"), "{command:?} has no examples");
        reference.push_str(&format!("$ ct {}\n{help}\n", arguments.join(" ")));
    }
    insta::assert_snapshot!(reference);
}

#[test]
fn version_names_program_and_commit() {
    let home = Home::new();
    let version = home.stdout(&["--version"]);
    let rest = version.strip_prefix(concat!("ct ", env!("CARGO_PKG_VERSION"))).unwrap().trim_end();
    let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    // Sources without git have no commit.
    assert!(
        rest.is_empty() || commit.is_some_and(|c| c.len() >= 12 && c.bytes().all(|b| b.is_ascii_hexdigit())),
        "{version}"
    );
}

#[test]
fn nonsense_is_a_usage_error() {
    let home = Home::new();
    assert_ct!(home, ["runs", "lst"]);
}

#[test]
fn nonsense_is_json_for_programs() {
    let home = Home::new();
    assert_ct!(home, ["runs", "list", "--format", "json", "--limit", "none"]);
}

#[test]
fn no_command_shows_help() {
    let home = Home::new();
    let output = home.command(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage: ct"));
}
