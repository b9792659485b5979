//! Ids of items on the command line and on standard input.

use std::io::BufRead as _;
use std::path::Path;

use ct_model::DatasetKind;

use super::Datasets;
use crate::error::CliError;

/// Ids that words mean. Words may be beginnings of ids and addresses; a `-` stands for whole ids on standard input, one
/// a line.
pub(super) fn ids(
    words: &[String],
    resolve: impl Fn(&str) -> Result<String, CliError>,
) -> Result<Vec<String>, CliError> {
    let mut ids = Vec::with_capacity(words.len());
    for word in words {
        if word == "-" {
            from_stdin(&mut ids)?;
        } else {
            ids.push(resolve(word)?);
        }
    }
    Ok(ids)
}

/// As [`ids`], of runs or trajectories that are there.
pub(super) fn existing(
    datasets: &Datasets<'_>,
    kind: DatasetKind,
    words: &[String],
) -> Result<Vec<String>, CliError> {
    ids(words, |word| datasets.resolve(kind, word))
}

fn from_stdin(ids: &mut Vec<String>) -> Result<(), CliError> {
    for line in std::io::stdin().lock().lines() {
        let line =
            line.map_err(|error| CliError::io("read ids from", Path::new("standard input"), &error))?;
        let line = line.trim();
        if !line.is_empty() {
            ids.push(line.to_owned());
        }
    }
    Ok(())
}
