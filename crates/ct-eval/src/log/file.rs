//! The log file while it grows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ct_log::Log;
use ct_log::write::{LogWriter, WriteError};
use serde_json::Value;

use super::header::LogIds;
use crate::EvalError;

/// Names of earlier versions that are tried beside a log.
const OLD_NAMES_MAX: u32 = 1000;

/// A log that is being written.
pub(crate) struct LogFile {
    path: PathBuf,
    writer: Option<LogWriter>,
}

impl LogFile {
    /// Begins a log in a folder.
    pub(crate) fn create(folder: &Path, task: &str, ids: &LogIds, start: &Value) -> Result<Self, EvalError> {
        std::fs::create_dir_all(folder).map_err(|e| EvalError::io("make the folder", folder, e))?;
        let path = folder.join(file_name(task, ids));
        let writer = LogWriter::create(&path, start.to_string().as_bytes())?;
        let mut file = Self { path, writer: Some(writer) };
        file.flush()?;
        Ok(file)
    }

    /// Goes on with a log. What is finished in it is kept and named; the rest of it, and an old end, are left behind in the
    /// old file, which stays beside the new one.
    pub(crate) fn resume(
        path: &Path,
        keep: &mut dyn FnMut(&ct_log::SummaryRow) -> bool,
    ) -> Result<(Self, PathBuf), EvalError> {
        let log = Log::open(path)?;
        let header = log.header()?;
        let start = ct_log::write::start_of(&header.raw)?;
        let mut next = path.as_os_str().to_owned();
        next.push(".resuming");
        let next = PathBuf::from(next);
        // What a resumption that was killed while copying left: the log itself is still whole.
        match std::fs::remove_file(&next) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(EvalError::io("remove", &next, e));
            }
            _ => {}
        }
        let mut writer = LogWriter::create(&next, &start)?;
        let mut rows = HashMap::new();
        log.summaries(&mut |summary| {
            if keep(&summary) {
                rows.insert((summary.id.clone(), summary.epoch), summary.raw);
            }
            Ok::<_, ct_log::LogError>(())
        })?;
        for sample in log.samples()? {
            let key = (sample.id.clone(), sample.epoch);
            if let Some(row) = rows.remove(&key) {
                writer.add_sample_from(&log, sample, Some(row))?;
            }
        }
        writer.close()?;
        drop(log);
        let old = old_name(path)?;
        std::fs::rename(path, &old).map_err(|e| EvalError::io("rename", path, e))?;
        std::fs::rename(&next, path).map_err(|e| EvalError::io("rename", &next, e))?;
        let (writer, _) = LogWriter::resume(path)?;
        Ok((Self { path: path.to_owned(), writer: Some(writer) }, old))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn writer(&mut self) -> Result<&mut LogWriter, EvalError> {
        self.writer.as_mut().ok_or(EvalError::Internal("the log is written after its end"))
    }

    /// Adds a finished sample. It is in the file when this returns.
    pub(crate) fn add(&mut self, id: &str, epoch: u64, sample: &[u8]) -> Result<(), EvalError> {
        self.writer()?.add_sample(id, epoch, &mut &sample[..])?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), EvalError> {
        Ok(self.writer()?.flush()?)
    }

    /// Ends the log.
    pub(crate) fn finish(&mut self, header: &Value) -> Result<(), EvalError> {
        let writer = self.writer.take().ok_or(EvalError::Internal("the log is ended twice"))?;
        Ok(writer.finish(header.to_string().as_bytes(), None)?)
    }
}

/// `<created>_<task>_<task id>.eval`, in letters that every file system takes.
fn file_name(task: &str, ids: &LogIds) -> String {
    const TASK_CHARS_MAX: usize = 80;
    let clean = |text: &str| -> String {
        let clean = text.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '-' });
        clean.take(TASK_CHARS_MAX).collect()
    };
    format!("{}_{}_{}.eval", clean(&ids.created), clean(task), clean(&ids.task_id))
}

/// A name for the old version of a log that nothing has yet.
fn old_name(path: &Path) -> Result<PathBuf, EvalError> {
    for n in 1..=OLD_NAMES_MAX {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".old-{n}"));
        let name = PathBuf::from(name);
        if !name.exists() {
            return Ok(name);
        }
    }
    Err(EvalError::Write(WriteError::Io {
        path: path.to_owned(),
        source: std::io::Error::other("too many old versions lie beside it"),
    }))
}
