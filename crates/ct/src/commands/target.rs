//! What names a run or a trajectory on the command line: an id, the beginning of one, or an address of a viewer.

use ct_client::BaseUrl;
use ct_model::{RunId, TrajectoryId};

use crate::error::{CliError, Kind};
use crate::home::Home;

/// A parsed name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An id or the beginning of one.
    Id(String),
    /// A page of a run.
    RunPage { base: BaseUrl, id: String },
    /// A page of a trajectory.
    TrajectoryPage { base: BaseUrl, id: String },
    /// A page of a dataset.
    DatasetPage { base: BaseUrl, name: String },
}

impl Target {
    /// Tells an address from an id. Addresses may go on behind the id.
    pub(crate) fn parse(text: &str) -> Result<Self, CliError> {
        if !is_address(text) {
            return if text.contains("://") || text.contains('/') {
                Err(CliError::usage(format!(
                    "{text} is neither an id nor the address of a run or trajectory"
                ))
                .hint("addresses look like https://<host>/runs/<id>"))
            } else {
                Ok(Self::Id(text.to_owned()))
            };
        }
        // What stands before an `@` is a user name or a password: nothing to repeat.
        let page = BaseUrl::parse(text)?;
        let address = page.as_str();
        let (scheme, rest) = address.split_once("://").unwrap_or(("https", address));
        let mut parts = rest.split('/');
        let host = parts.next().unwrap_or_default();
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let after = |noun: &str| {
            let at = parts.iter().position(|&part| part == noun)?;
            let id = unescaped(parts.get(at + 1)?);
            // Addresses of the API are of the same server as those of its pages.
            let at = if at > 0 && parts[at - 1] == "api" { at - 1 } else { at };
            let base = BaseUrl::parse(&format!("{scheme}://{host}/{}", parts[..at].join("/"))).ok()?;
            Some((base, id))
        };
        if let Some((base, id)) = after("runs") {
            return Ok(Self::RunPage { base, id });
        }
        if let Some((base, id)) = after("trajectories") {
            return Ok(Self::TrajectoryPage { base, id });
        }
        if let Some((base, name)) = after("datasets") {
            return Ok(Self::DatasetPage { base, name });
        }
        Err(CliError::usage(format!("the address of {host} names no run and no trajectory"))
            .hint("addresses look like https://<host>/runs/<id> or https://<host>/trajectories/<id>"))
    }

    /// The server of an address.
    pub(crate) fn base(&self) -> Option<&BaseUrl> {
        match self {
            Self::Id(_) => None,
            Self::RunPage { base, .. }
            | Self::TrajectoryPage { base, .. }
            | Self::DatasetPage { base, .. } => Some(base),
        }
    }
}

/// Whether it is an http or https address.
pub(crate) fn is_address(text: &str) -> bool {
    let has = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    has("https://") || has("http://")
}

/// Whether it is an http or https address of a log file, rather than of a page.
pub(crate) fn is_log_address(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    is_address(text) && (path.ends_with(".eval") || path.ends_with(".json"))
}

/// Undoes the escapes of a part of a path; what is no text stays escaped.
fn unescaped(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| part.to_owned())
}

/// Finds the run a word on the command line means; not a deleted one.
pub(crate) fn run(home: &Home, text: &str) -> Result<RunId, CliError> {
    find_run(home, text, false)
}

/// Finds the run a word on the command line means, also a deleted one.
pub(crate) fn run_with_deleted(home: &Home, text: &str) -> Result<RunId, CliError> {
    find_run(home, text, true)
}

fn find_run(home: &Home, text: &str, deleted: bool) -> Result<RunId, CliError> {
    match Target::parse(text)? {
        Target::Id(id) => home.resolve_run(&id, deleted),
        Target::RunPage { base, id } => {
            home.resolve_run(&id, deleted).map_err(|error| elsewhere(error, home, "run", &base, &id))
        }
        Target::TrajectoryPage { id, .. } => {
            Err(CliError::usage(format!("that is the address of trajectory {id}, and a run is needed"))
                .hint(format!("the trajectory tells its run: ct runs show {text}")))
        }
        Target::DatasetPage { name, .. } => Err(of_dataset(&name, "a run")),
    }
}

/// As [`run_with_deleted`], also the run of a trajectory whose address it is.
pub(crate) fn run_of(home: &Home, text: &str) -> Result<RunId, CliError> {
    if !matches!(Target::parse(text), Ok(Target::TrajectoryPage { .. })) {
        return run_with_deleted(home, text);
    }
    let document = home.document(&trajectory(home, text)?)?;
    document.run_id.ok_or_else(|| CliError::internal("a trajectory without a run"))
}

/// Finds the trajectory a word on the command line means.
pub(crate) fn trajectory(home: &Home, text: &str) -> Result<TrajectoryId, CliError> {
    match Target::parse(text)? {
        Target::Id(id) => home.resolve_trajectory(&id),
        Target::TrajectoryPage { base, id } => {
            home.resolve_trajectory(&id).map_err(|error| elsewhere(error, home, "trajectory", &base, &id))
        }
        Target::RunPage { id, .. } => {
            Err(CliError::usage(format!("that is the address of run {id}, and a trajectory is needed"))
                .hint(format!("get its trajectories with: ct runs download-trajs {text}")))
        }
        Target::DatasetPage { name, .. } => Err(of_dataset(&name, "a trajectory")),
    }
}

fn of_dataset(name: &str, needed: &str) -> CliError {
    CliError::usage(format!("that is the address of dataset {name}, and {needed} is needed"))
        .hint("get the items of a dataset with: ct dataset download")
}

/// An address whose id the local store does not hold: say that nothing was fetched.
fn elsewhere(error: CliError, home: &Home, noun: &str, base: &BaseUrl, id: &str) -> CliError {
    if error.kind() == Kind::NotFound && home.client().is_none() {
        CliError::not_found(format!("no {noun} {id} in the local store"))
            .hint(format!("without --local it is looked for at {base}"))
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_addresses() {
        let base = |text: &str| BaseUrl::parse(text).unwrap();
        let run = |text: &str, id: &str| Target::RunPage { base: base(text), id: id.to_owned() };
        let cases = [
            ("3fa9", Target::Id("3fa9".to_owned())),
            ("https://viewer.example/runs/3fa9", run("https://viewer.example", "3fa9")),
            (
                "HTTPS://viewer.example:8443/base/runs/3fa9/files?x=/runs/no#y",
                run("https://viewer.example:8443/base", "3fa9"),
            ),
            ("http://me:secret@viewer.example/runs/3fa9", run("http://viewer.example", "3fa9")),
            (
                "https://viewer.example/trajectories/t1",
                Target::TrajectoryPage { base: base("https://viewer.example"), id: "t1".to_owned() },
            ),
            (
                "https://viewer.example/datasets/a%20b/x?y=1&version=3#z",
                Target::DatasetPage { base: base("https://viewer.example"), name: "a b".to_owned() },
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
