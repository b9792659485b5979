//! A log is written again: converted, repaired or filtered.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use ct_log::Log;
use ct_log::write::{Glob, HeaderEdits, RewriteOptions, Rewritten};

use super::input::{self, Input};
use super::{MakeOptions, SavedLog};
use crate::error::CliError;
use crate::output::Progress;

/// Writes the log of `source` to `target`: converted, repaired or filtered as `options` ask. Another file
/// already there is a conflict unless `overwrite`.
pub(crate) fn save_log(
    source: &Path,
    target: &Path,
    overwrite: bool,
    options: &MakeOptions,
    progress: &Progress,
) -> Result<SavedLog, CliError> {
    // Dropping scores is part of opening the input, so that a run made beside is of the same bytes.
    let input = Input::open(source, options, progress)?;
    let log = input::open(&input.path)?;
    let options = &input.options;
    let edits = HeaderEdits {
        run_name: options.run_name.clone(),
        policy: options.policy.clone(),
        task_set: options.task_set.clone(),
        tags: options.tags.clone(),
    };
    let rewrite_options = RewriteOptions { header: edits, ..RewriteOptions::default() };
    let done = if overwrite || target.symlink_metadata().is_err() {
        rewrite(&log, target, &rewrite_options, progress)?
    } else {
        // The same log again is done already; anything else is in the way.
        let folder = input::temporary_folder()?;
        let again = folder.path().join("again").with_extension(target.extension().unwrap_or_default());
        let done = rewrite(&log, &again, &rewrite_options, progress)?;
        if !same_files(&again, target).map_err(|e| CliError::io("read", target, &e))? {
            return Err(CliError::conflict(format!("{} is already there", target.display()))
                .hint("choose another name, or replace it with --overwrite"));
        }
        done
    };
    let mut defects = input.defects.clone();
    defects.extend(done.defects.iter().map(ToString::to_string));
    Ok(SavedLog { trajectories: done.samples, defects })
}

fn same_files(a: &Path, b: &Path) -> io::Result<bool> {
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (BufReader::new(File::open(a)?), BufReader::new(File::open(b)?));
    loop {
        let (left, right) = (a.fill_buf()?, b.fill_buf()?);
        let n = left.len().min(right.len());
        if left[..n] != right[..n] {
            return Ok(false);
        }
        if n == 0 {
            return Ok(left.len() == right.len());
        }
        a.consume(n);
        b.consume(n);
    }
}

/// Runs a rewrite with its progress shown.
fn rewrite(
    log: &Log,
    target: &Path,
    options: &RewriteOptions,
    progress: &Progress,
) -> Result<Rewritten, CliError> {
    let total = log.samples().map_err(|e| CliError::log(target, &e))?.len() as u64;
    progress.items("writing", total);
    let mut done = 0;
    ct_log::write::rewrite(log, target, options, &mut |at| {
        progress.advance(at.samples - done);
        done = at.samples;
    })
    .map_err(|e| CliError::data(format!("failed to write {}", target.display())).because(&e))
}

/// Writes a log without some of its scores, and says what was lost on the way.
pub(super) fn without_scores(
    log: &Log,
    target: &Path,
    patterns: &[Glob],
    progress: &Progress,
) -> Result<Vec<String>, CliError> {
    let drop_scores = patterns.to_vec();
    let done = rewrite(log, target, &RewriteOptions { drop_scores, ..RewriteOptions::default() }, progress)?;
    Ok(done.defects.iter().map(ToString::to_string).collect())
}
