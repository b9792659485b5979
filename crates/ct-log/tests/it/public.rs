//! Logs that others have published, against the list that came with them. They are not part of the repository: the
//! folder is `shared/data/public` beside it, or in `CT_SHARED_DIR`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use ct_log::archive::method;
use ct_log::json::parse;
use ct_log::{Log, LogError};
use serde_json::Value;

use crate::support::sample_bytes;

/// The folder, or `None` after saying aloud that it is missing. Missing where everything must be tested is an error.
fn folder() -> Option<PathBuf> {
    let shared = std::env::var_os("CT_SHARED_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let folder = shared.join("data/public");
    if folder.join("INDEX.tsv").is_file() {
        return Some(folder);
    }
    assert_ne!(
        std::env::var("CI").as_deref(),
        Ok("true"),
        "{} is missing: published logs cannot be tested",
        folder.display()
    );
    // Not by `eprintln!`, which is silenced in tests that pass.
    let _ = writeln!(
        std::io::stderr(),
        "\nNOT TESTED: published logs, because {} is missing\n",
        folder.display()
    );
    None
}

/// All published logs, none when the folder is missing.
pub(crate) fn logs() -> Vec<PathBuf> {
    let Some(folder) = folder() else { return Vec::new() };
    let mut logs: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "eval" || e == "json"))
        .collect();
    logs.sort();
    logs
}

/// R's writer puts scalars into lists of one.
fn unboxed(value: &Value) -> &Value {
    match value.as_array().map(Vec::as_slice) {
        Some([only]) => only,
        _ => value,
    }
}

#[test]
fn published_logs_are_what_their_list_says() {
    let Some(folder) = folder() else { return };
    let list = std::fs::read_to_string(folder.join("INDEX.tsv")).unwrap();
    let mut lines = list.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let columns = lines.next().unwrap();
    let mut differences = Vec::new();
    let mut checked = 0;
    for line in lines {
        let row: BTreeMap<&str, &str> = columns.iter().copied().zip(line).collect();
        check(&folder, &row, &mut differences);
        checked += 1;
    }
    assert!(checked >= 50, "only {checked} logs are listed");
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

fn check(folder: &Path, row: &BTreeMap<&str, &str>, differences: &mut Vec<String>) {
    let name = row["file"];
    let mut expect = |what: &str, found: String| {
        if row[what] != found {
            differences.push(format!("{name}: {what}: expected {}, found {found}", row[what]));
        }
    };
    let log = Log::open(&folder.join(name)).unwrap();
    let header = &log.header().unwrap().value;
    let string = |value: &Value| unboxed(value).as_str().unwrap_or("?").to_owned();
    expect("status", string(&header["status"]));
    expect("task", string(&header["eval"]["task"]));
    expect("model", string(&header["eval"]["model"]));
    let epochs = unboxed(&header["eval"]["config"]["epochs"]).as_u64().unwrap_or(1);
    expect("epochs", epochs.to_string());
    expect("samples", log.samples().unwrap().len().to_string());

    let (mut events, mut tool_calls) = (0, 0);
    for sample in log.samples().unwrap() {
        let value = parse(&sample_bytes(&log, sample).unwrap()).unwrap();
        // Before 0.3.43 they stood in a transcript.
        let found = [&value["events"], &value["transcript"]["events"]].into_iter().find_map(Value::as_array);
        events += found.map_or(0, Vec::len);
        for message in value["messages"].as_array().into_iter().flatten() {
            tool_calls += message["tool_calls"].as_array().map_or(0, Vec::len);
        }
    }
    expect("events", events.to_string());
    expect("tool calls", tool_calls.to_string());

    let methods = match log.archive() {
        None => "none (plain JSON)".to_owned(),
        Some(archive) => {
            let names: BTreeSet<&str> = archive
                .entries()
                .iter()
                .map(|entry| match entry.method {
                    method::STORED => "stored",
                    method::DEFLATE => "deflate",
                    method::ZSTD => "zstd",
                    other => panic!("{name}: method {other}"),
                })
                .collect();
            names.into_iter().collect::<Vec<_>>().join("+")
        }
    };
    expect("compression methods", methods);
    assert_eq!(log.defects(), [], "{name}");
    log.summaries(&mut |_| Ok::<_, LogError>(())).unwrap();
}
