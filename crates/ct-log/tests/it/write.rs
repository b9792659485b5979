//! What is written is what was read, for us and for Inspect, whatever happens in between.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ct_log::json::parse;
use ct_log::write::{
    Glob, HeaderEdits, LogWriter, RewriteOptions, Rewritten, WriteError, rewrite, start_of, summary_row,
};
use ct_log::{Format, Log, LogError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{exact, generated, logs, open_bytes, sample_bytes};

type Samples = BTreeMap<(String, u64), Vec<u8>>;

fn samples(log: &Log) -> Samples {
    let read = |s: &ct_log::SampleEntry| Some(((s.id.clone(), s.epoch), sample_bytes(log, s).ok()?));
    log.samples().unwrap().iter().filter_map(read).collect()
}

fn rows(log: &Log) -> BTreeMap<(String, u64), Value> {
    let mut rows = BTreeMap::new();
    log.summaries(&mut |row| {
        assert!(rows.insert((row.id, row.epoch), exact(&row.raw)).is_none());
        Ok::<_, LogError>(())
    })
    .unwrap();
    rows
}

fn again(log: &Path, out: &Path, options: &RewriteOptions) -> (Log, Rewritten) {
    let done = rewrite(&Log::open(log).unwrap(), out, options, &mut |_| {}).unwrap();
    let new = Log::open(out).unwrap();
    assert_eq!(new.defects(), []);
    (new, done)
}

fn plain() -> RewriteOptions {
    RewriteOptions::default()
}

/// Fields that a rewrite may add to a header, or has to change.
fn without_additions(header: &[u8]) -> Value {
    let mut header = exact(header);
    let object = header.as_object_mut().unwrap();
    for key in ["plan", "stats", "version"] {
        object.remove(key);
    }
    if let Some(dataset) = object.get_mut("eval").and_then(|eval| eval["dataset"].as_object_mut()) {
        dataset.remove("sample_ids");
    }
    header
}

#[test]
fn every_log_is_the_same_after_any_conversion() {
    let dir = TempDir::new().unwrap();
    for path in logs() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let old = Log::open(&path).unwrap();
        let before = samples(&old);
        let (a, b, c, d) = (
            dir.path().join("a.eval"),
            dir.path().join("b.json"),
            dir.path().join("c.eval"),
            dir.path().join("d.eval"),
        );
        let (eval, done) = again(&path, &a, &plain());
        assert_eq!(eval.format(), Format::Eval);
        assert_eq!(done.samples, before.len() as u64, "{name}");
        let changed = name.contains("pools") || name.contains("v0x3x17");
        if !changed {
            assert_eq!(samples(&eval), before, "{name}");
        }
        let header = |log: &Log| {
            let mut header = without_additions(&log.header().unwrap().raw);
            if !done.finished {
                // What a log that goes on says of these follows from the rest.
                header
                    .as_object_mut()
                    .unwrap()
                    .retain(|key, _| !["invalidated", "metadata", "tags"].contains(&key.as_str()));
            }
            header
        };
        assert_eq!(header(&eval), header(&old), "{name}");
        assert_eq!(eval.header().unwrap().inferred, !done.finished, "{name}");
        if !before.is_empty() {
            assert_eq!(rows(&eval).len(), before.len(), "{name}");
            let listed = &eval.header().unwrap().value["eval"]["dataset"]["sample_ids"];
            assert!(listed.as_array().is_some_and(|ids| !ids.is_empty()), "{name}");
        }

        // What was written needs no further change, and the same input gives the same bytes.
        again(&a, &d, &plain());
        assert_eq!(std::fs::read(&a).unwrap(), std::fs::read(&d).unwrap(), "{name}");
        let (document, redone) = again(&a, &b, &plain());
        assert_eq!(document.format(), Format::Json);
        assert_eq!(redone.samples, before.len() as u64);
        assert_eq!(samples(&document), samples(&eval), "{name}");
        assert_eq!(header(&document), header(&eval), "{name}");
        assert_eq!(document.reductions().unwrap(), eval.reductions().unwrap());
        let (back, _) = again(&b, &c, &plain());
        assert_eq!(samples(&back), samples(&eval), "{name}");
        assert_eq!(header(&back), header(&eval), "{name}");
        let leftovers: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(leftovers.len(), 4, "{leftovers:?}");
    }
}

#[test]
fn what_no_parser_holds_survives() {
    let odd = r#"{"id":"a/../b","epoch":1,"input":"\ud83d","target":"t","x":[NaN,-Infinity,18446744073709551617,1e400,-0.0, 5e-324],
        "\udc00":"\ud800 \u0000","metadata":{"big":123456789012345678901234567890,"nan":NaN},"future":{"a":[{}]}}"#;
    let log = format!(
        r#"{{"version":2,"status":"success","eval":{{"created":"2026-01-01T00:00:00+00:00","task":"t","dataset":{{}},"model":"m","config":{{}},"metadata":{{"v":1e400,"n":NaN}}}},"later":18446744073709551617,"samples":[{odd}]}}"#
    );
    let dir = TempDir::new().unwrap();
    let old = open_bytes(log.into_bytes()).unwrap();
    let (eval, document) = (dir.path().join("x.eval"), dir.path().join("x.json"));
    let options = RewriteOptions {
        drop_scores: vec![Glob::new("none")],
        header: HeaderEdits { policy: Some("p".to_owned()), ..HeaderEdits::default() },
    };
    rewrite(&old, &eval, &options, &mut |_| {}).unwrap();
    let (new, _) = again(&eval, &document, &plain());
    for log in [&Log::open(&eval).unwrap(), &new] {
        let only = samples(log).into_iter().next().unwrap();
        assert_eq!(only, (("a/../b".to_owned(), 1), odd.as_bytes().to_vec()));
        let header = String::from_utf8(log.header().unwrap().raw.clone()).unwrap();
        for kept in [r#""metadata":{"v":1e400,"n":NaN,"policy":"p"}"#, r#""later":18446744073709551617"#] {
            assert!(header.contains(kept), "{header}");
        }
    }
    let row = Log::open(&eval).unwrap();
    let mut raw = Vec::new();
    row.summaries(&mut |row| {
        raw = row.raw;
        Ok::<_, LogError>(())
    })
    .unwrap();
    assert_eq!(
        String::from_utf8(raw).unwrap(),
        r#"{"id":"a/../b","epoch":1,"input":"\\ud83d","target":"t","metadata":{"big":123456789012345678901234567890,"nan":NaN},"completed":true,"message_count":0}"#
    );
}

#[test]
fn scores_are_dropped_everywhere() {
    let dir = TempDir::new().unwrap();
    let drop = |patterns: &[&str]| RewriteOptions {
        drop_scores: patterns.iter().map(|p| Glob::new(p)).collect(),
        ..plain()
    };
    for path in logs() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for extension in ["eval", "json"] {
            let out = dir.path().join(format!("x.{extension}"));
            let (new, _) = again(&path, &out, &drop(&["*"]));
            for (key, raw) in samples(&new) {
                let sample = exact(&raw);
                assert!(sample["scores"].as_object().is_none_or(|s| s.is_empty()), "{name} {key:?}");
                let events = sample["events"].as_array().into_iter().flatten();
                let left: Vec<_> = events
                    .filter(|e| {
                        e["event"] == "score_edit" || e["event"] == "score" && e["scorer"].is_string()
                    })
                    .collect();
                assert!(left.is_empty(), "{name} {key:?} {left:?}");
            }
            for row in rows(&new).values() {
                assert!(row["scores"].as_object().is_none_or(|s| s.is_empty()), "{name}");
            }
            let header = &new.header().unwrap().value;
            assert!(header["results"]["scores"].as_array().is_none_or(|s| s.is_empty()), "{name}");
            assert!(header["results"]["scorer"].is_null());
            assert!(new.reductions().unwrap().is_none_or(|r| r == b"[]"), "{name}");
        }
    }

    // One of several, with all others as they were.
    let path = generated("multi_scorers.eval");
    let out = dir.path().join("one.eval");
    let old = Log::open(&path).unwrap();
    let names = |log: &Log| -> Vec<String> {
        let sample = exact(&sample_bytes(log, &log.samples().unwrap()[0]).unwrap());
        sample["scores"].as_object().unwrap().keys().cloned().collect()
    };
    let mut expected = names(&old);
    let gone = expected.remove(2);
    let (new, _) = again(&path, &out, &drop(&[&gone]));
    assert_eq!(names(&new), expected);
    let scorers = |log: &Log| -> Vec<String> {
        let header = &log.header().unwrap().value;
        let scores = header["results"]["scores"].as_array().unwrap().iter();
        scores.map(|s| s["scorer"].as_str().unwrap().to_owned()).collect()
    };
    let kept: Vec<_> = scorers(&old).into_iter().filter(|s| *s != gone).collect();
    assert!(kept.len() < scorers(&old).len());
    assert_eq!(scorers(&new), kept);
    for (key, row) in rows(&new) {
        assert_eq!(row["scores"].as_object().unwrap().len(), expected.len(), "{key:?}");
    }
}

#[test]
fn header_edits_add_and_lose_nothing() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("x.eval");
    let edits = HeaderEdits {
        run_name: Some("a \"name\"".to_owned()),
        policy: None,
        task_set: Some("set".to_owned()),
        tags: vec!["new".to_owned()],
    };
    let path = generated("2026-11-30T08-38-53-00-00_basic-task_BtV6froCJujpQkgEmzbbXG.eval");
    let (new, _) = again(&path, &out, &RewriteOptions { header: edits, ..plain() });
    let old = Log::open(&path).unwrap();
    let mut expected = old.header().unwrap().value.clone();
    let mut tags = expected["eval"]["tags"].as_array().unwrap().clone();
    assert!(!tags.is_empty());
    tags.push(json!("new"));
    for metadata in ["/eval/metadata", "/metadata"] {
        let metadata = expected.pointer_mut(metadata).unwrap().as_object_mut().unwrap();
        metadata.insert("run_name".to_owned(), json!("a \"name\""));
        metadata.insert("task_set".to_owned(), json!("set"));
        metadata.insert("tags".to_owned(), json!(tags));
    }
    assert_eq!(new.header().unwrap().value, expected);
    let start = new.archive().unwrap().get("_journal/start.json").unwrap();
    let start = parse(&new.archive().unwrap().read_to_vec(start).unwrap()).unwrap();
    assert_eq!(start["eval"], expected["eval"]);
}

#[test]
fn damage_is_left_out_and_reported() {
    let dir = TempDir::new().unwrap();
    for (name, extension, left, reason) in [
        ("corrupt_sample_bytes.eval", "eval", 3, "CRC mismatch"),
        ("corrupt_sample_bytes.eval", "json", 3, "flaky"),
        ("truncated_mid_sample.eval", "eval", 4, "the file ends inside it"),
        ("truncated_no_cd.eval", "json", 9, "central directory is missing"),
    ] {
        let out = dir.path().join(format!("x.{extension}"));
        let (new, done) = again(&generated(name), &out, &plain());
        assert_eq!(done.samples, left);
        assert_eq!(new.samples().unwrap().len() as u64, left);
        let reasons: Vec<_> = done.defects.iter().map(ToString::to_string).collect();
        assert!(reasons.iter().any(|r| r.contains(reason)), "{reasons:?}");
        assert!(new.archive().is_none() || rows(&new).len() as u64 == left);
    }
    let log = Log::open(&generated("many.eval")).unwrap();
    for name in ["x.txt", "eval"] {
        let failed = rewrite(&log, &dir.path().join(name), &plain(), &mut |_| {});
        assert!(matches!(failed, Err(WriteError::Extension { .. })));
    }
    let failed = rewrite(&log, &dir.path().join("none/x.eval"), &plain(), &mut |_| {});
    assert!(matches!(failed, Err(WriteError::Io { .. })));
}

const START: &[u8] = br#"{"version":2,"eval":{"task":"t","created":"2026-01-01T00:00:00+00:00","model":"m","dataset":{"sample_ids":["a"]},"config":{}},"plan":{}}"#;

fn sample(id: &str, epoch: u64, size: usize) -> String {
    let text: String = (0..size).map(|i| char::from(b'a' + (i * i % 251 % 26) as u8)).collect();
    format!(r#"{{"id":"{id}","epoch":{epoch},"input":"{text}","target":"","messages":[{{}},{{}}]}}"#)
}

#[test]
fn a_log_grows_is_torn_and_goes_on() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.eval");
    let mut writer = LogWriter::create(&path, START).unwrap();
    assert!(matches!(LogWriter::create(&path, START), Err(WriteError::Io { .. })));
    let one = sample("a", 1, 10);
    writer.add_sample("a", 1, &mut one.as_bytes()).unwrap();
    writer.flush().unwrap();
    let log = Log::open(&path).unwrap();
    assert_eq!(log.defects(), []);
    assert_eq!(rows(&log)[&("a".to_owned(), 1)]["message_count"], 2);

    // A sample that is none leaves no trace.
    for bad in ["", "[]", r#"{"id":"b""#, r#"{"id":"b"} x"#] {
        let failed = writer.add_sample("b", 1, &mut bad.as_bytes());
        assert!(matches!(failed, Err(WriteError::Sample { .. })), "{bad}");
    }
    // Unflushed, and then torn: the sample is there all the same, and its row is made again.
    let two = sample("b", 1, 300_000);
    writer.add_sample("b", 1, &mut two.as_bytes()).unwrap();
    drop(writer);
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    file.write_all(b"PK\x03\x04 torn").unwrap();
    drop(file);
    let (mut writer, defects) = LogWriter::resume(&path).unwrap();
    assert_eq!(defects.len(), 1, "{defects:?}");
    writer
        .add_sample_with_row("c", 2, &mut &b"{\"id\":\"c\"}"[..], Some(br#"{"id":"c","epoch":2}"#.to_vec()))
        .unwrap();
    let newer = sample("a", 1, 20);
    writer.add_sample("a", 1, &mut newer.as_bytes()).unwrap();
    writer.add_config_update(b"{}").unwrap();
    let header = br#"{"version":2,"status":"success","eval":{},"samples":[],"x":NaN}"#;
    writer.finish(header, Some(b"[]")).unwrap();

    let log = Log::open(&path).unwrap();
    assert_eq!(log.defects(), []);
    let key = |id: &str, epoch| (id.to_owned(), epoch);
    let expected: Samples = [
        (key("a", 1), newer.into_bytes()),
        (key("b", 1), two.into_bytes()),
        (key("c", 2), b"{\"id\":\"c\"}".to_vec()),
    ]
    .into();
    assert_eq!(samples(&log), expected);
    assert_eq!(rows(&log).into_keys().collect::<Vec<_>>(), expected.into_keys().collect::<Vec<_>>());
    assert_eq!(log.header().unwrap().raw, br#"{"version":2,"status":"success","eval":{},"x":NaN}"#);
    let last = log.archive().unwrap().entries().last().unwrap();
    assert_eq!(last.name, "header.json");
    assert!(matches!(LogWriter::resume(&path), Err(WriteError::Finished { .. })));
    assert!(start_of(b"[]").is_err());
}

#[test]
fn samples_are_copied_from_any_log() {
    let dir = TempDir::new().unwrap();
    for name in ["chunked.eval", "mixed_methods.eval", "2026-01-01T00-00-00-00-00_json-nan_NaNJsonFile.json"]
    {
        let old = Log::open(&generated(name)).unwrap();
        let path = dir.path().join(name).with_extension("copy.eval");
        let mut writer = LogWriter::create(&path, START).unwrap();
        for sample in old.samples().unwrap() {
            writer.add_sample_from(&old, sample, None).unwrap();
        }
        writer.close().unwrap();
        let new = Log::open(&path).unwrap();
        assert_eq!(samples(&new), samples(&old), "{name}");
        assert_eq!(rows(&new).len(), old.samples().unwrap().len());
        assert!(new.header().unwrap().inferred);
    }
    // Damage is found before anything is copied.
    let old = Log::open(&generated("corrupt_sample_bytes.eval")).unwrap();
    let mut writer = LogWriter::create(&dir.path().join("bad.eval"), START).unwrap();
    let failed: Vec<_> = old
        .samples()
        .unwrap()
        .iter()
        .filter(|sample| writer.add_sample_from(&old, sample, Some(b"{}".to_vec())).is_err())
        .map(|sample| sample.id.as_str())
        .collect();
    assert_eq!(failed, ["flaky"]);
}

const CHILD: &str = "CT_LOG_TEST_CHILD";

/// Size of the child's nth sample: some fit into memory, some do not compress into one write.
fn child_size(n: u64) -> usize {
    [100, 3_000, 500_000, 20_000][n as usize % 4]
}

/// Not a test by itself: writes a log for [`killed_writers_lose_no_finished_sample`] until it is killed.
#[test]
fn child_that_writes_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let path = PathBuf::from(path);
    let mut writer = LogWriter::create(&path, START).unwrap();
    for n in 1.. {
        writer.add_sample("s", n, &mut sample("s", n, child_size(n)).as_bytes()).unwrap();
        println!("\nfinished {n}");
        if n % 3 == 0 {
            writer.flush().unwrap();
        }
    }
}

#[test]
fn killed_writers_lose_no_finished_sample() {
    let dir = TempDir::new().unwrap();
    for round in 0..12_u64 {
        let path = dir.path().join(format!("{round}.eval"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "write::child_that_writes_until_killed", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut finished = 0;
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while finished <= round * 3 {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the child goes on until it is killed");
            if let Some(n) = line.trim().strip_prefix("finished ") {
                finished = n.parse().unwrap();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Whatever the child still said before it died counts too.
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        for n in rest.lines().filter_map(|l| l.strip_prefix("finished ")) {
            finished = n.parse().unwrap_or(finished);
        }

        let found = samples(&Log::open(&path).unwrap());
        for n in 1..=finished {
            let expected = sample("s", n, child_size(n)).into_bytes();
            assert_eq!(
                found.get(&("s".to_owned(), n)),
                Some(&expected),
                "round {round}, sample {n} of {finished}"
            );
        }
        assert!(found.len() as u64 <= finished + 1);
        let (writer, _) = LogWriter::resume(&path).unwrap();
        writer.finish(br#"{"status":"error","eval":{}}"#, None).unwrap();
        let log = Log::open(&path).unwrap();
        assert_eq!(log.defects(), []);
        assert_eq!(samples(&log), found);
        assert_eq!(rows(&log).len(), found.len());
    }
}

#[test]
fn old_and_odd_samples_have_rows() {
    for (sample, row) in [
        (
            r#"{"score":{"value":"C","answer":" a \n b ","metadata":null,"history":[1]},"id":7,"epoch":2,"input":[{"role":"user","content":[{"type":"image","image":"data:"},{"type":"text","text":"x","internal":1}]}],"target":["a",1]}"#,
            r#"{"id":7,"epoch":2,"input":[{"role":"user","content":[{"type":"text","text":"(Image)"},{"type":"text","text":"x","internal":1}]}],"target":["a",1],"scores":{"score":{"value":"C","answer":"a b","history":[]}},"completed":true,"message_count":0}"#,
        ),
        (
            r#"{"id":["x"],"epoch":[1],"input":null,"target":null,"error":{"message":"m","traceback":"t"},"limit":{"type":"token","limit":5,"reason":"r"},"error_retries":[{},{}],"messages":[1,2,3],"turn_count":4,"completed":false}"#,
            r#"{"id":"x","epoch":1,"input":"","target":"","error":"m","limit":"token","limit_reason":"r","retries":2,"completed":true,"message_count":3,"turn_count":4}"#,
        ),
    ] {
        let found = summary_row(&mut sample.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), row);
    }
    assert!(summary_row(&mut &b"[]"[..]).is_err());
    assert!(summary_row(&mut &b"{} {}"[..]).is_err());
    let long =
        format!(r#"{{"id":1,"input":"{}","metadata":{{"k":["{}"]}}}}"#, "é".repeat(6_000), "x".repeat(1_010));
    let row = exact(&summary_row(&mut long.as_bytes()).unwrap());
    assert_eq!(row["input"], format!("{}...\n(content truncated)", "é".repeat(5_120)));
    // `[`, a line with its indentation and quotes, and `]` on a line: 8 characters more than the text.
    assert_eq!(row["metadata"]["k"][0], "x".repeat(1_010));
    let longer = long.replace(&"x".repeat(1_010), &"x".repeat(1_017));
    let row = exact(&summary_row(&mut longer.as_bytes()).unwrap());
    assert_eq!(row["metadata"]["k"], "Key removed from summary (> 1k)");
}

/// The Python that has Inspect, or `None` with a word about it.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("CT_TEST_PYTHON").map(PathBuf::from);
    if python.is_none() {
        assert!(std::env::var_os("CI").is_none(), "CT_TEST_PYTHON is not set, as `./test` does");
        let words = "NOT TESTED: set CT_TEST_PYTHON to a Python that has inspect_ai\n";
        std::io::stderr().write_all(words.as_bytes()).unwrap();
    }
    python
}

#[test]
fn texts_are_shortened_as_python_does() {
    let Some(python) = python() else { return };
    let mut state = 7_u64;
    let mut random = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let letters = ['a', 'é', 'Z', '_', '7', '-', '-', '.', ',', '!', '\'', 'x', 'y', '中'];
    let mut texts: Vec<String> = (0..400)
        .map(|_| {
            let spaces = 1 + random(60);
            let length = 900 + random(1_500);
            (0..length)
                .map(|_| match random(spaces + 3) {
                    0 => [' ', '\n', '\t', '\u{a0}', '\u{1c}'][random(5) as usize],
                    _ => letters[random(letters.len() as u64) as usize],
                })
                .collect()
        })
        .collect();
    texts.extend([
        "x".repeat(1_024),
        "x".repeat(1_025),
        format!("{}-{}", "x".repeat(999), "7".repeat(2_000)),
    ]);
    texts.push(format!("a {}", "b".repeat(1_021)));
    texts.push(format!("a {}", "b".repeat(1_022)));
    texts.push(" ".repeat(9_000));
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("texts.json");
    std::fs::write(&file, serde_json::to_vec(&texts).unwrap()).unwrap();
    let program = "import json,sys,textwrap
for t in json.load(open(sys.argv[1], encoding='utf-8')): print(json.dumps(textwrap.shorten(t[:8192], width=1024, placeholder='...')))";
    let output = Command::new(python).args(["-c", program]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: Vec<String> = output
        .stdout
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    assert_eq!(expected.len(), texts.len());
    for (text, expected) in texts.iter().zip(&expected) {
        let sample = json!({"id": 1, "metadata": {"t": text}});
        let row = exact(&summary_row(&mut sample.to_string().as_bytes()).unwrap());
        assert_eq!(row["metadata"]["t"], *expected, "{text:?}");
    }
}

#[test]
fn inspect_reads_what_is_written() {
    let Some(python) = python() else { return };
    let dir = TempDir::new().unwrap();
    let mut pairs = String::new();
    for (n, path) in logs().into_iter().enumerate() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let expect = match name {
            "future_fields.eval" => "\topaque",
            "v0.3.199_pools_v3.eval" => "\tpools",
            "corrupt_sample_bytes.eval" => "\treadable\tdamaged",
            _ if name.starts_with("chunked") || name.starts_with("truncated") => "\treadable",
            _ => "",
        };
        let [eval, document, twice] =
            ["a.eval", "b.json", "c.eval"].map(|end| dir.path().join(format!("{n}-{end}")));
        again(&path, &eval, &plain());
        again(&path, &document, &plain());
        again(&document, &twice, &plain());
        for (ours, more) in [(eval, ""), (document, ""), (twice, "\tcomputed")] {
            pairs.push_str(&format!("{}\t{}{expect}{more}\n", ours.display(), path.display()));
        }
    }
    for (n, path) in crate::public::logs().into_iter().enumerate() {
        // Its pools are dropped by Inspect, and kept by us.
        let expect = if path.ends_with("inspectai-16.eval") { "\tpools" } else { "" };
        let eval = dir.path().join(format!("public-{n}.eval"));
        again(&path, &eval, &plain());
        pairs.push_str(&format!("{}\t{}{expect}\n", eval.display(), path.display()));
    }
    let list = dir.path().join("pairs.tsv");
    std::fs::write(&list, pairs).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inspect_reads.py");
    let output = Command::new(python).arg(script).arg(&list).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
