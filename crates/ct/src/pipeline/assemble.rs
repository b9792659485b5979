//! A folder of trajectory files becomes a log again.
//!
//! `run.json` holds the log's own header when `ct` wrote the folder; for folders of other tools one is made from the run
//! header. Samples go in by epoch and id, as Inspect orders them, so the same folder gives the same bytes.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ct_log::format::sample_order;
use ct_log::json::{self, JsonError, Kind, Reader};
use ct_log::source::{FileSource, Source};
use ct_log::write::{LogWriter, Part, WriteError, header_of_part, start_of};
use ct_model::RunHeader;
use ct_model::convert::{HeaderFacts, RunOptions, run_header};
use serde_json::{Map, Value, json};

use super::folder::{IDS_KEY, RUN_FILE};
use crate::error::CliError;
use crate::output::Progress;

/// Bytes of `run.json` that are read.
const RUN_FILE_BYTES_MAX: u64 = 512 << 20;
/// Bytes of a log's header or reductions in it.
const HEADER_BYTES_MAX: usize = 256 << 20;
/// Bytes of what a sample says of its tokens.
const USAGE_BYTES_MAX: usize = 1 << 20;
const ID_CHARS_MAX: usize = 64 * 1024;

/// Where a sample lies in a trajectory file.
struct Piece {
    path: PathBuf,
    id: String,
    epoch: u64,
    start: u64,
    size_bytes: u64,
    errored: bool,
    /// Tokens by model and by role.
    usage: [Option<Value>; 2],
}

/// What `run.json` says.
#[derive(Default)]
struct RunFile {
    header: Option<Vec<u8>>,
    reductions: Option<Vec<u8>>,
    finished: bool,
    /// Samples of the whole log.
    samples: Option<u64>,
    /// The trajectories of the run, when it lists them.
    ids: Option<HashSet<String>>,
    /// What the run header says apart from the log's own header.
    said: Said,
}

/// What users said about the run in a folder, over what its log says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) name: Option<String>,
    pub(super) policy: Option<String>,
    pub(super) task_set: Option<String>,
    pub(super) tags: Vec<String>,
}

/// What came of putting a folder together.
pub(super) struct Assembled {
    /// What was left out or is missing.
    pub(super) defects: Vec<String>,
    pub(super) said: Said,
}

/// Writes the log of a run folder to `target`. Files that hold no trajectory of the run are left out and named.
pub(super) fn assemble(folder: &Path, target: &Path, progress: &Progress) -> Result<Assembled, CliError> {
    let mut run = read_run_file(&folder.join(RUN_FILE))?;
    let mut defects = Vec::new();
    let mut pieces = Vec::new();
    for path in trajectory_files(folder)? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if run.ids.as_mut().is_some_and(|ids| !ids.remove(&stem)) {
            defects.push(format!("{}: not listed in {RUN_FILE}, left out", path.display()));
            continue;
        }
        // Opening a pipe would wait for whoever writes into it.
        if !fs::metadata(&path).is_ok_and(|found| found.is_file()) {
            defects.push(format!("{}: no regular file, left out", path.display()));
            continue;
        }
        match find_sample(&path) {
            Ok(Some(piece)) => pieces.push(piece),
            Ok(None) => defects.push(format!("{}: no trajectory file, left out", path.display())),
            Err(e) => defects.push(format!("{}: {}, left out", path.display(), e.reason())),
        }
    }
    let mut missing: Vec<String> = run.ids.take().into_iter().flatten().collect();
    missing.sort();
    defects.extend(missing.iter().map(|id| format!("{id}.json is listed in {RUN_FILE} and is missing")));
    pieces.sort_by_cached_key(|piece| (sample_order(&piece.id, piece.epoch), piece.path.clone()));
    pieces.dedup_by(|piece, first| {
        let same = piece.id == first.id && piece.epoch == first.epoch;
        if same {
            defects.push(format!(
                "{}: the sample {:?}, epoch {}, is in {} too; a log holds one of them, this one was left out",
                piece.path.display(),
                piece.id,
                piece.epoch,
                first.path.display()
            ));
        }
        same
    });

    let header = run.header.as_deref().unwrap_or_default();
    let written =
        |e: WriteError| CliError::data(format!("failed to put {} together", folder.display())).because(&e);
    let samples = run.samples.or_else(|| completed_samples(header)).unwrap_or_default();
    let start = if (pieces.len() as u64) < samples {
        let part = Part { ids: pieces.iter().map(|piece| piece.id.clone()).collect(), ..Part::default() };
        start_of(&header_of_part(header, &part).map_err(written)?)
    } else {
        start_of(header)
    };
    let mut writer = LogWriter::create(target, &start.map_err(written)?).map_err(written)?;
    if !run.finished {
        // A finished log has them in its header.
        for update in config_updates(header)
            .map_err(|source| written(WriteError::Document { what: "the header", source }))?
        {
            writer.add_config_update(&update).map_err(written)?;
        }
    }
    progress.items("putting together", pieces.len() as u64);
    let mut part = Part::default();
    let mut usage = [Map::new(), Map::new()];
    for piece in &pieces {
        let mut sample = piece.open().map_err(|e| CliError::io("read", &piece.path, &e))?;
        match writer.add_sample(&piece.id, piece.epoch, &mut sample) {
            Ok(()) => {
                part.samples += 1;
                part.completed += u64::from(!piece.errored);
                part.ids.insert(piece.id.clone());
                for (sums, of_sample) in usage.iter_mut().zip(&piece.usage) {
                    add_usage(sums, of_sample.as_ref());
                }
            }
            Err(e @ WriteError::Sample { .. }) => {
                let reason = CliError::data("not a sample").because(&e).reason();
                defects.push(format!("{}: {reason}, left out", piece.path.display()));
            }
            Err(e) => return Err(written(e)),
        }
        progress.advance(1);
    }
    if run.finished && part.samples < samples {
        // What the header says of all samples is not true of some.
        [part.model_usage, part.role_usage] = usage.map(Value::Object);
        writer.finish(&header_of_part(header, &part).map_err(written)?, None).map_err(written)?;
    } else if run.finished {
        writer.finish(header, run.reductions.as_deref()).map_err(written)?;
    } else {
        writer.close().map_err(written)?;
    }
    Ok(Assembled { defects, said: run.said })
}

/// How many samples a header says there are, when the folder does not say it.
fn completed_samples(header: &[u8]) -> Option<u64> {
    json::parse(header).ok()?.get("results")?.get("completed_samples")?.as_u64()
}

/// Adds the tokens of a sample, by model or by role; what is no number that adds up is left out.
fn add_usage(sums: &mut Map<String, Value>, usage: Option<&Value>) {
    for (of, tokens) in usage.and_then(Value::as_object).into_iter().flatten() {
        let Some(tokens) = tokens.as_object() else { continue };
        let sum = sums.entry(of).or_insert_with(|| json!({}));
        for (kind, number) in tokens {
            let old = sum.get(kind);
            let new = match (old.map_or(Some(0), Value::as_u64), number.as_u64()) {
                (Some(old), Some(number)) => json!(old.saturating_add(number)),
                _ => match (old.map_or(Some(0.0), Value::as_f64), number.as_f64()) {
                    (Some(old), Some(number)) => json!(old + number),
                    _ => continue,
                },
            };
            sum[kind.as_str()] = new;
        }
    }
}

/// The changes of settings that a header lists, as written.
fn config_updates(header: &[u8]) -> Result<Vec<Vec<u8>>, JsonError> {
    let mut found = Vec::new();
    Reader::new(header).object(|key, r| {
        if key != "config_updates" {
            return Ok(());
        }
        r.array(|_, r| {
            found.extend(r.raw(HEADER_BYTES_MAX)?);
            Ok::<_, JsonError>(())
        })
    })?;
    Ok(found)
}

impl Piece {
    fn open(&self) -> std::io::Result<Box<dyn Read + Send>> {
        Arc::new(FileSource::open(&self.path)?).stream(self.start, self.size_bytes)
    }
}

/// All `*.json` files of a folder and of its folders one level down but `run.json`, in the order of their names.
fn trajectory_files(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|e| CliError::io("list", &folder, &e))?;
        for entry in entries {
            let path = entry.map_err(|e| CliError::io("list", &folder, &e))?.path();
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if hidden {
                continue;
            }
            if path.is_dir() {
                if depth == 0 {
                    folders.push((path, 1));
                }
            } else if path.extension().is_some_and(|e| e == "json")
                && path.file_name().is_none_or(|n| n != RUN_FILE)
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Finds the sample in a trajectory file without keeping it. `None`: the file is something else.
fn find_sample(path: &Path) -> Result<Option<Piece>, CliError> {
    let file = FileSource::open(path).map_err(|e| CliError::io("read", path, &e))?;
    let size = file.size_bytes();
    let stream = Arc::new(file).stream(0, size).map_err(|e| CliError::io("read", path, &e))?;
    let mut reader = Reader::new(stream);
    let (mut place, mut id, mut epoch) = (None, None, None);
    let (mut errored, mut usage) = (false, [None, None]);
    let walked = reader.object(|key, r| {
        if key != "sample" || r.peek()? != Kind::Object {
            return Ok(());
        }
        let start = r.offset();
        r.object(|key, r| {
            match key {
                "id" => id = text_of(r)?,
                "epoch" => epoch = r.number()?,
                "error" => errored = r.peek()? != Kind::Null,
                "model_usage" => usage[0] = r.value(USAGE_BYTES_MAX)?,
                "role_usage" => usage[1] = r.value(USAGE_BYTES_MAX)?,
                _ => {}
            }
            Ok::<_, JsonError>(())
        })?;
        place = Some((start, r.offset() - start));
        Ok(())
    });
    walked.and_then(|()| reader.end()).map_err(|e| CliError::data("damaged").because(&e))?;
    let (Some((start, size_bytes)), Some(id)) = (place, id) else { return Ok(None) };
    let epoch = epoch.filter(|epoch| *epoch >= 1.0).map_or(1, |epoch| epoch as u64);
    Ok(Some(Piece { path: path.to_owned(), id, epoch, start, size_bytes, errored, usage }))
}

/// A sample's id as text.
fn text_of<R: Read>(r: &mut Reader<R>) -> Result<Option<String>, JsonError> {
    if r.peek()? == Kind::Number {
        let raw = r.raw(ct_log::json::NUMBER_BYTES_MAX)?;
        return Ok(raw.map(|raw| String::from_utf8_lossy(&raw).into_owned()));
    }
    Ok(r.text(ID_CHARS_MAX)?.map(|text| text.text))
}

fn read_run_file(path: &Path) -> Result<RunFile, CliError> {
    let found = fs::metadata(path).map_err(|e| run_file_missing(path, &e))?;
    if !found.is_file() {
        return Err(CliError::data(format!("{} is no regular file", path.display())));
    }
    let size = found.len();
    if size > RUN_FILE_BYTES_MAX {
        return Err(CliError::data(format!("{} is longer than {RUN_FILE_BYTES_MAX} bytes", path.display())));
    }
    let bytes = fs::read(path).map_err(|e| CliError::io("read", path, &e))?;
    let mut run = RunFile::default();
    let mut rest = Map::new();
    let mut reader = Reader::new(bytes.as_slice());
    let walked = reader.object(|key, r| {
        if key != "eval_log" {
            if let Some(value) = r.value(HEADER_BYTES_MAX)? {
                rest.insert(key.to_owned(), value);
            }
            return Ok(());
        }
        r.object(|key, r| {
            match key {
                "header" => run.header = r.raw(HEADER_BYTES_MAX)?,
                "reductions" => run.reductions = r.raw(HEADER_BYTES_MAX)?.filter(|raw| raw != b"null"),
                "finished" => run.finished = r.boolean()?.unwrap_or(true),
                "samples" => run.samples = r.number()?.map(|n| n as u64),
                _ => {}
            }
            Ok::<_, JsonError>(())
        })
    });
    walked
        .and_then(|()| reader.end())
        .map_err(|e| CliError::data(format!("{} is no run file", path.display())).because(&e))?;
    if rest.get("complete") == Some(&Value::Bool(false)) {
        return Err(CliError::data(format!(
            "writing the folder of {} did not come to its end",
            path.display()
        ))
        .hint("run the command that wrote it again: it goes on where it stopped"));
    }
    if let Some(ids) = rest.get(IDS_KEY).and_then(Value::as_array) {
        run.ids = Some(ids.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    }
    match &run.header {
        Some(header) => run.said = said(rest, header),
        None => {
            run.header = Some(header_of(rest, path)?);
            run.finished = true;
        }
    }
    Ok(run)
}

/// Compares a run header with what the log's own header makes of it.
fn said(run: Map<String, Value>, header: &[u8]) -> Said {
    let Ok(run) = serde_json::from_value::<RunHeader>(Value::Object(run)) else { return Said::default() };
    let facts = HeaderFacts::from_value(&json::parse(header).unwrap_or_default());
    let recorded = run_header(&facts, &RunOptions::default());
    Said {
        name: (run.name != recorded.name).then_some(run.name),
        policy: run.policy.filter(|policy| Some(policy) != recorded.policy.as_ref()),
        task_set: run.task_set.filter(|name| Some(name) != recorded.task_set.as_ref()),
        tags: run.tags.into_iter().filter(|tag| !recorded.tags.contains(tag)).collect(),
    }
}

fn run_file_missing(path: &Path, error: &std::io::Error) -> CliError {
    CliError::io("read", path, error).hint(
        "a folder given to make holds run.json and one JSON file per trajectory, as --save-dir writes them",
    )
}

/// A log header for a folder that another tool wrote: what the run header knows, in the places a log has for it.
fn header_of(run: Map<String, Value>, path: &Path) -> Result<Vec<u8>, CliError> {
    let run: RunHeader = serde_json::from_value(Value::Object(run))
        .map_err(|e| CliError::data(format!("{} is no run file", path.display())).because(&e))?;
    let mut metadata = run.metadata;
    metadata.insert("run_name".to_owned(), json!(run.name));
    metadata.insert("policy".to_owned(), json!(run.policy));
    metadata.insert("task_set".to_owned(), json!(run.task_set));
    metadata.insert("tags".to_owned(), json!(run.tags));
    let id = run.run_id.map(|id| id.to_string()).unwrap_or_else(|| run.name.clone());
    let created = run.created_at.unwrap_or_else(|| "1970-01-01T00:00:00+00:00".to_owned());
    let header = json!({
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": id,
            "run_id": id,
            "created": created,
            "task": run.name,
            "dataset": {},
            "model": "none/none",
            "config": {},
            "metadata": metadata,
        },
        "plan": {},
        "stats": {"started_at": "", "completed_at": "", "model_usage": {}},
    });
    Ok(header.to_string().into_bytes())
}
