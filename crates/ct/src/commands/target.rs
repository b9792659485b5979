//! What names a run or a trajectory on the command line: an id, the beginning of one, or an address of a viewer.

use ct_model::{RunId, RunRecord, TrajectoryId};
use ct_store::{Store, StoreError};

use crate::error::{CliError, Kind};

/// A parsed name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An id or the beginning of one.
    Id(String),
    /// A page of a run.
    RunPage { host: String, id: String },
    /// A page of a trajectory.
    TrajectoryPage { host: String, id: String },
}

impl Target {
    /// Tells an address from an id. Addresses may go on behind the id.
    pub(crate) fn parse(text: &str) -> Result<Self, CliError> {
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let Some(rest) = ["https://", "http://"]
            .iter()
            .find_map(|scheme| lower.starts_with(scheme).then(|| &text[scheme.len()..]))
        else {
            return if text.contains("://") || text.contains('/') {
                Err(CliError::usage(format!(
                    "{text} is neither an id nor the address of a run or trajectory"
                ))
                .hint("addresses look like https://<host>/runs/<id>"))
            } else {
                Ok(Self::Id(text.to_owned()))
            };
        };
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        // What stands before an `@` is a user name or a password: nothing to repeat.
        let host = parts.next().unwrap_or_default().rsplit('@').next().unwrap_or_default().to_owned();
        let parts: Vec<&str> = parts.collect();
        let after = |noun: &str| {
            let at = parts.iter().position(|&part| part == noun)?;
            parts.get(at + 1).map(|&id| id.to_owned())
        };
        if let Some(id) = after("runs") {
            return Ok(Self::RunPage { host, id });
        }
        if let Some(id) = after("trajectories") {
            return Ok(Self::TrajectoryPage { host, id });
        }
        Err(CliError::usage(format!("the address of {host} names no run and no trajectory"))
            .hint("addresses look like https://<host>/runs/<id> or https://<host>/trajectories/<id>"))
    }
}

/// Finds the run a word on the command line means; not a deleted one.
pub(crate) fn run(store: &Store, text: &str) -> Result<RunId, CliError> {
    find_run(text, |id| store.resolve_run(id))
}

/// Finds the run a word on the command line means, also a deleted one.
pub(crate) fn run_with_deleted(store: &Store, text: &str) -> Result<RunId, CliError> {
    find_run(text, |id| store.resolve_run_with_deleted(id))
}

fn find_run(text: &str, resolve: impl Fn(&str) -> Result<RunId, StoreError>) -> Result<RunId, CliError> {
    match Target::parse(text)? {
        Target::Id(id) => Ok(resolve(&id)?),
        Target::RunPage { host, id } => resolve(&id).map_err(|error| elsewhere(error, "run", &host, &id)),
        Target::TrajectoryPage { id, .. } => {
            Err(CliError::usage(format!("that is the address of trajectory {id}, and a run is needed")))
        }
    }
}

/// Finds the trajectory a word on the command line means.
pub(crate) fn trajectory(store: &Store, text: &str) -> Result<TrajectoryId, CliError> {
    match Target::parse(text)? {
        Target::Id(id) => Ok(store.resolve_trajectory(&id)?),
        Target::TrajectoryPage { host, id } => {
            store.resolve_trajectory(&id).map_err(|error| elsewhere(error, "trajectory", &host, &id))
        }
        Target::RunPage { id, .. } => {
            Err(CliError::usage(format!("that is the address of run {id}, and a trajectory is needed")))
        }
    }
}

/// The address of a run's log: the recorded one, else that of its file in the data folder, wherever that is now.
pub(crate) fn log_url(store: &Store, record: &RunRecord) -> String {
    if let Some(url) = &record.header.eval_log_url {
        return url.clone();
    }
    let path = store.log_path(&record.log).to_string_lossy().replace('\\', "/");
    let mut url = String::from(if path.starts_with('/') { "file://" } else { "file:///" });
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~:".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

/// An address whose id the local store does not hold: say that nothing was fetched.
pub(crate) fn elsewhere(error: StoreError, noun: &str, host: &str, id: &str) -> CliError {
    let error = CliError::from(error);
    if error.kind() == Kind::NotFound {
        CliError::not_found(format!("no {noun} {id} in the local store"))
            .hint(format!("this version reads only the local store and fetches nothing from {host}"))
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_addresses() {
        let run = |host: &str, id: &str| Target::RunPage { host: host.to_owned(), id: id.to_owned() };
        let cases = [
            ("3fa9", Target::Id("3fa9".to_owned())),
            ("https://viewer.example/runs/3fa9", run("viewer.example", "3fa9")),
            (
                "HTTPS://viewer.example:8443/base/runs/3fa9/files?x=/runs/no#y",
                run("viewer.example:8443", "3fa9"),
            ),
            ("http://me:secret@viewer.example/runs/3fa9", run("viewer.example", "3fa9")),
            (
                "https://viewer.example/trajectories/t1",
                Target::TrajectoryPage { host: "viewer.example".to_owned(), id: "t1".to_owned() },
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(Target::parse(text).unwrap(), expected, "{text}");
        }
        for text in
            ["https://viewer.example/", "https://viewer.example/runs", "ftp://x/runs/1", "a/b", "https://"]
        {
            assert_eq!(Target::parse(text).unwrap_err().kind(), Kind::Usage, "{text}");
        }
    }
}
