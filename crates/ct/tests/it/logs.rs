//! Logs large enough to be interrupted, and what to compare of logs and folders.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use ct_log::Log;
use ct_log::write::{LogWriter, start_of};
use serde_json::{Value, json};

use crate::support::Home;

/// Names of files, and what they hold.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Numbers that a seed decides.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Text that compresses little.
    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            text.push_str(&format!("{:016x}", self.next()));
        }
        text
    }
}

/// A log header.
pub(crate) fn header(eval_id: &str, samples: usize) -> Value {
    json!({
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": eval_id,
            "run_id": eval_id,
            "created": "2026-11-30T08:00:00+00:00",
            "task": "big",
            "task_id": "big",
            "dataset": {"name": "big", "samples": samples},
            "model": "mockllm/model",
            "config": {},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "stats": {"started_at": "", "completed_at": "", "model_usage": {}},
    })
}

/// Writes a log of these samples.
pub(crate) fn write_log(path: &Path, eval_id: &str, samples: &[Value]) {
    let header = serde_json::to_vec(&header(eval_id, samples.len())).unwrap();
    let mut writer = LogWriter::create(path, &start_of(&header).unwrap()).unwrap();
    for sample in samples {
        let text = sample.to_string();
        writer.add_sample(sample["id"].as_str().unwrap(), 1, &mut text.as_bytes()).unwrap();
    }
    writer.finish(&header, None).unwrap();
}

/// A sample of about this size.
pub(crate) fn sample(id: &str, numbers: &mut Numbers, bytes: usize) -> Value {
    json!({
        "id": id,
        "epoch": 1,
        "input": "go on",
        "target": "",
        "messages": [
            {"role": "user", "content": "go on"},
            {"role": "assistant", "source": "generate", "content": numbers.text(bytes)},
        ],
        "scores": {"match": {"value": "C"}},
        "metadata": {},
        "store": {},
        "events": [],
        "model_usage": {},
        "attachments": {},
    })
}

/// Writes a log of samples of that size; the seed tells evals apart.
pub(crate) fn big_log(path: &Path, seed: u64, samples: usize, bytes: usize) {
    let mut numbers = Numbers::new(seed);
    let samples: Vec<_> = (0..samples).map(|n| sample(&format!("s{n:03}"), &mut numbers, bytes)).collect();
    write_log(path, &format!("eval-{seed}"), &samples);
}

/// The samples of a log that can be read to their end, byte for byte.
pub(crate) fn samples_of(path: &Path) -> BTreeMap<(String, u64), Vec<u8>> {
    let log = Log::open(path).unwrap();
    let mut found = BTreeMap::new();
    for sample in log.samples().unwrap() {
        let mut bytes = Vec::new();
        let read = log.read_sample(sample).map(|mut reader| reader.read_to_end(&mut bytes));
        if matches!(read, Ok(Ok(_))) && ct_log::json::parse(&bytes).is_ok() {
            found.insert((sample.id.clone(), sample.epoch), bytes);
        }
    }
    found
}

/// The files of a folder with what they hold; none when it is not there.
pub(crate) fn files(folder: &Path) -> Files {
    let Ok(entries) = std::fs::read_dir(folder) else { return Files::new() };
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// All files below a folder, by their paths from there.
pub(crate) fn files_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

/// Each trajectory file holds its sample of the log as it lies there, and none is missing.
pub(crate) fn assert_holds_log(folder: &Files, log: &Path) {
    let mut samples = samples_of(log);
    for (name, bytes) in folder.iter().filter(|(name, _)| *name != "run.json") {
        let file = ct_log::json::parse(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let about = &file["metadata"];
        assert_eq!(*name, format!("{}.json", about["trajectory_id"].as_str().unwrap()));
        let key = (about["eval_sample_id"].as_str().unwrap().to_owned(), about["epoch"].as_u64().unwrap());
        let sample = samples.remove(&key).unwrap_or_else(|| panic!("{name}: no sample {key:?}"));
        let end = [br#","sample":"#, sample.as_slice(), b"}\n"].concat();
        assert!(bytes.ends_with(&end), "{name}: not the bytes of {key:?}");
    }
    assert!(samples.is_empty(), "without a file: {:?}", samples.keys());
    assert!(folder.contains_key("run.json"));
}

/// The store as `ct store check` sees it is sound, and what runs it holds: id and count of trajectories.
pub(crate) fn sound_runs(home: &Home) -> Vec<(String, usize)> {
    let list = home.json(&["runs", "list", "--all", "--format", "json"]);
    let mut runs = Vec::new();
    for item in list["items"].as_array().unwrap() {
        let run = item["run_id"].as_str().unwrap().to_owned();
        let count = item["trajectory_count"].as_u64().unwrap() as usize;
        let ids: std::collections::BTreeSet<_> = home.trajectory_ids(&run).into_iter().collect();
        assert_eq!(ids.len(), count, "{run}");
        runs.push((run, count));
    }
    runs.sort();
    let check = home.json(&["store", "check", "--format", "json"]);
    assert_eq!(check["sound"], true, "{check}");
    assert_eq!(check["runs"], runs.len(), "{check}");
    assert_eq!(check["trajectories"], runs.iter().map(|(_, count)| count).sum::<usize>(), "{check}");
    runs
}

/// Collects, after which nothing is left to collect and there are no files but what runs need.
pub(crate) fn collect(home: &Home, logs: usize) {
    home.stdout(&["store", "gc"]);
    let left = home.json(&["store", "gc", "--dry-run", "--format", "json"]);
    assert_eq!(left["items"], json!([]));
    let files = files_below(&home.path("../share/control-tower"));
    assert_eq!(files.iter().filter(|file| file.starts_with("logs/")).count(), logs, "{files:?}");
    assert!(!files.iter().any(|file| file.starts_with("tmp/")), "{files:?}");
}

/// The hash, trajectories' ids and earlier logs of a run.
pub(crate) fn state(home: &Home, run: &str) -> Value {
    let info = home.json(&["runs", "info", run, "--format", "json"]);
    let mut ids = home.trajectory_ids(run);
    ids.sort();
    json!({"log": info["log"]["hash"], "ids": ids, "revisions": info["revisions"]})
}
