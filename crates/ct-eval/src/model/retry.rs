//! How long to wait before the next attempt.

use std::time::Duration;

use super::CallFailure;

/// No wait of our own is longer.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// A provider that asks for more is not waited for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(15 * 60);

pub(super) struct Backoff {
    pub(super) attempts_max: u32,
    pub(super) first: Duration,
}

impl Backoff {
    /// The wait after a failed attempt (from 1); none when there should be no other.
    pub(super) fn wait(&self, attempt: u32, failure: &CallFailure) -> Option<Duration> {
        if !failure.retry || attempt >= self.attempts_max {
            return None;
        }
        let doubled = self.first.saturating_mul(1 << (attempt - 1).min(16)).min(WAIT_MAX);
        // Those who failed together should not come back together.
        let ours = doubled.mul_f64(0.5 + random_share() / 2.0);
        match failure.retry_after {
            Some(asked) if asked > RETRY_AFTER_MAX => None,
            Some(asked) => Some(asked + ours.mul_f64(0.1)),
            None => Some(ours),
        }
    }
}

/// Between 0 and 1.
fn random_share() -> f64 {
    let mut bytes = [0; 2];
    // Without randomness the waits are merely equal.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(retry: bool, retry_after: Option<u64>) -> CallFailure {
        CallFailure {
            retry_after: retry_after.map(Duration::from_secs),
            retry,
            ..CallFailure::lasting(String::new())
        }
    }

    #[test]
    fn waits_double_and_heed_what_is_asked() {
        let backoff = Backoff { attempts_max: 9, first: Duration::from_secs(1) };
        for (attempt, most) in [(1, 1.0), (2, 2.0), (4, 8.0), (8, 60.0)] {
            let wait = backoff.wait(attempt, &failure(true, None)).unwrap().as_secs_f64();
            assert!((most / 2.0..=most).contains(&wait), "{attempt}: {wait}");
        }
        let asked = backoff.wait(1, &failure(true, Some(30))).unwrap();
        assert!(asked >= Duration::from_secs(30) && asked < Duration::from_secs(31));
        assert_eq!(backoff.wait(1, &failure(true, Some(100_000))), None);
        assert_eq!(backoff.wait(9, &failure(true, None)), None);
        assert_eq!(backoff.wait(1, &failure(false, None)), None);
    }
}
