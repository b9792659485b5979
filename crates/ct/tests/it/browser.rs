//! The pages of `ct serve` in a real browser. What is looked at is in `tests/browser`, in Python, for that is what
//! drives the browser.

use std::path::Path;
use std::process::Command;

use crate::support::not_tested;

/// Runs a script of `tests/browser` over the built program.
fn browse(script: &str, arguments: &[&str]) {
    let missing = match std::env::var_os("CT_TEST_PYTHON") {
        None => Some("CT_TEST_PYTHON names no Python with playwright"),
        Some(_) if !on_path("chromium") => Some("chromium is not installed"),
        Some(_) => None,
    };
    if let Some(missing) = missing {
        return not_tested(&format!("{script} in a browser: {missing}"));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser");
    let output = Command::new(std::env::var_os("CT_TEST_PYTHON").unwrap_or_default())
        .arg(folder.join(script))
        .arg(env!("CARGO_BIN_EXE_ct"))
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

#[test]
fn every_page_in_a_browser() {
    browse("pages.py", &[]);
}

#[test]
fn twenty_samples_are_reviewed_by_keys() {
    browse("transcript.py", &["--only", "review"]);
}

#[test]
fn a_sample_without_a_conversation_is_reviewed_by_keys() {
    browse("transcript.py", &["--only", "events"]);
}

#[test]
fn comments_are_made_changed_and_deleted_on_the_page() {
    browse("transcript.py", &["--only", "comments"]);
}

#[test]
fn a_transcript_is_printed_whole() {
    browse("transcript.py", &["--only", "print"]);
}

#[test]
fn every_kind_of_event_is_shown() {
    browse("transcript.py", &["--only", "kinds"]);
}

#[test]
fn nothing_of_a_hostile_log_runs() {
    browse("transcript.py", &["--only", "hostile"]);
}

#[test]
fn a_huge_sample_is_read_in_little_memory() {
    browse("transcript.py", &["--only", "huge"]);
}

#[cfg(target_os = "linux")]
#[test]
fn inspect_view_shows_our_logs() {
    if crate::eval::sandboxes_work(&crate::support::Home::new()) {
        browse("inspect_view.py", &[]);
    }
}
