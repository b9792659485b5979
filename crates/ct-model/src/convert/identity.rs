//! Ids of runs and trajectories: the same log gives the same ids, whoever makes them.

use std::collections::HashSet;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::{HeaderFacts, SampleFacts};
use crate::{IdError, RunId, TrajectoryId};

/// Hex digits of a derived id.
const ID_DIGITS: usize = 32;

/// The id of the run made from a log: the first 32 hex digits of the log's SHA-256.
pub fn run_id_of(log_sha256_hex: &str) -> Result<RunId, IdError> {
    let is_hash = log_sha256_hex.len() == 64 && log_sha256_hex.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hash {
        return Err(IdError { text: log_sha256_hex.chars().take(64).collect() });
    }
    RunId::new(log_sha256_hex[..ID_DIGITS].to_ascii_lowercase())
}

/// Hashes parts that cannot run into each other.
fn derived(parts: &[&str]) -> TrajectoryId {
    let mut hash = Sha256::new();
    hash.update(b"control-tower/trajectory-id/1");
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut text = String::with_capacity(2 * ID_DIGITS);
    for byte in hash.finalize().iter().take(ID_DIGITS / 2) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    TrajectoryId::new(text).expect("hex digits make an id")
}

/// The id of a trajectory without a recorded one, from the eval's id and the sample's uuid, else its id and epoch.
/// `eval_id` is the hash of the log's bytes where a log has no eval id.
pub fn trajectory_id_of(eval_id: &str, uuid: Option<&str>, sample_id: &str, epoch: u64) -> TrajectoryId {
    match uuid {
        Some(uuid) => derived(&[eval_id, "uuid", uuid]),
        None => derived(&[eval_id, "sample", sample_id, &epoch.to_string()]),
    }
}

/// Gives out the ids of one run's trajectories, each once. Ask in the order of the log: of two samples that claim the
/// same id the first has it.
#[derive(Debug)]
pub struct TrajectoryIds {
    eval_id: String,
    /// Whether ids recorded in the log are taken.
    recorded: bool,
    used: HashSet<TrajectoryId>,
}

impl TrajectoryIds {
    /// For the samples of one log.
    pub fn new(header: &HeaderFacts, log_sha256_hex: &str) -> Self {
        let eval_id = header.eval_id.clone().unwrap_or_else(|| log_sha256_hex.to_owned());
        Self { eval_id, recorded: true, used: HashSet::new() }
    }

    /// For the samples of a log whose eval has a run already: none of them shares an id with that run's.
    pub fn of_second_run(log_sha256_hex: &str) -> Self {
        Self { eval_id: log_sha256_hex.to_owned(), recorded: false, used: HashSet::new() }
    }

    /// The id recorded in the sample, else one derived from the eval and the sample.
    pub fn assign(&mut self, sample: &SampleFacts) -> TrajectoryId {
        let recorded = if self.recorded { sample.recorded_trajectory_id() } else { None };
        let by_uuid = sample.uuid.as_deref().map(|uuid| trajectory_id_of(&self.eval_id, Some(uuid), "", 0));
        let by_key = trajectory_id_of(&self.eval_id, None, &sample.id, sample.epoch);
        for id in [recorded, by_uuid, Some(by_key)].into_iter().flatten() {
            if self.used.insert(id.clone()) {
                return id;
            }
        }
        // The same sample id and epoch again: number the repetitions.
        let mut repetition = 2_u64;
        loop {
            let epoch = sample.epoch.to_string();
            let id = derived(&[&self.eval_id, "repeated", &sample.id, &epoch, &repetition.to_string()]);
            if self.used.insert(id.clone()) {
                return id;
            }
            repetition += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(id: &str, uuid: Option<&str>, recorded: Option<&str>) -> SampleFacts {
        let mut facts = SampleFacts {
            id: id.to_owned(),
            epoch: 1,
            uuid: uuid.map(str::to_owned),
            ..SampleFacts::default()
        };
        if let Some(recorded) = recorded {
            facts.metadata.insert("trajectory_id".to_owned(), json!(recorded));
        }
        facts
    }

    #[test]
    fn a_run_is_named_by_its_log() {
        let hash = "0123456789ABCDEF".repeat(4);
        assert_eq!(run_id_of(&hash).unwrap().as_str(), "0123456789abcdef0123456789abcdef");
        for bad in ["", "0123", &"x".repeat(64), &"é".repeat(32)] {
            assert!(run_id_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let id = |eval, sample, epoch| trajectory_id_of(eval, None, sample, epoch);
        assert_ne!(id("e", "s1", 1), id("es", "1", 1));
        assert_ne!(id("e", "s", 11), id("e", "s1", 1));
        assert_ne!(id("e", "u", 1), trajectory_id_of("e", Some("u"), "u", 1));
        assert_eq!(id("e", "s", 1), id("e", "s", 1));
        // sha256(b"control-tower/trajectory-id/1" + b"".join(len(p).to_bytes(8, "big") + p for p in parts))
        // for the parts e, sample, s, 1.
        assert_eq!(id("e", "s", 1).as_str(), "ca3f90408830eb5dbaa4648e513a31c7");
    }

    #[test]
    fn each_id_is_given_once() {
        let header = HeaderFacts { eval_id: Some("e".to_owned()), ..HeaderFacts::default() };
        let mut ids = TrajectoryIds::new(&header, "");
        assert_eq!(ids.assign(&sample("a", Some("u"), Some("recorded"))).as_str(), "recorded");
        let by_uuid = ids.assign(&sample("b", Some("u"), Some("recorded")));
        assert_eq!(by_uuid, trajectory_id_of("e", Some("u"), "b", 1));
        assert_eq!(ids.assign(&sample("c", Some("u"), None)), trajectory_id_of("e", None, "c", 1));
        assert_eq!(ids.assign(&sample("d", None, Some("../x"))), trajectory_id_of("e", None, "d", 1));
        let repeated: HashSet<_> = (0..5).map(|_| ids.assign(&sample("a", None, None))).collect();
        assert_eq!(repeated.len(), 5);
    }

    #[test]
    fn without_an_eval_id_the_log_tells_samples_apart() {
        let header = HeaderFacts::default();
        let of = |log: &str| TrajectoryIds::new(&header, log).assign(&sample("a", None, None));
        assert_ne!(of("log1"), of("log2"));
        assert_eq!(of("log1"), of("log1"));
    }
}
