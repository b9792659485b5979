//! Slows down who guesses passwords: failures count against the name that was tried and the address they came from.
//!
//! Counters are in tables of a fixed size, found by a keyed hash: memory does not grow with attempts, and nobody can
//! choose a name that shares another's counter. A shared one only makes two wait for each other's failures.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::limits;

/// What slows sign-ins down.
pub(crate) struct Throttle {
    names: Counters,
    addresses: Counters,
    /// A check takes a lot of memory and a core for a while.
    checks: Semaphore,
}

/// How many failures are let through at once, and how fast they are forgotten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    pub(crate) failures_max: f64,
    pub(crate) forgotten_after: Duration,
}

impl Throttle {
    pub(crate) fn new() -> Self {
        Self {
            names: Counters::new(limits::LOGIN_FAILURES_OF_A_NAME),
            addresses: Counters::new(limits::LOGIN_FAILURES_OF_AN_ADDRESS),
            checks: Semaphore::new(limits::PASSWORD_CHECKS_MAX),
        }
    }

    /// Waits for its turn to check a password. `None`: it took too long.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        tokio::time::timeout(limits::PASSWORD_CHECK_WAIT, self.checks.acquire()).await.ok()?.ok()
    }

    /// Counts an attempt as failed, until [`Throttle::succeeded`] says otherwise. The error: how long to wait.
    pub(crate) fn attempt(&self, name: &str, address: Option<IpAddr>, now: Instant) -> Result<(), Duration> {
        let name = name.to_ascii_lowercase();
        self.addresses.take(&network(address), now)?;
        self.names.take(&name, now).inspect_err(|_| self.addresses.give_back(&network(address)))
    }

    /// The attempt was no failure.
    pub(crate) fn succeeded(&self, name: &str, address: Option<IpAddr>) {
        self.addresses.give_back(&network(address));
        self.names.give_back(&name.to_ascii_lowercase());
    }
}

/// The part of an address that one customer of a provider has.
fn network(address: Option<IpAddr>) -> Option<IpAddr> {
    match address?.to_canonical() {
        IpAddr::V6(address) => {
            let kept = u128::from(address) & !u128::from(u64::MAX);
            Some(IpAddr::V6(kept.into()))
        }
        address => Some(address),
    }
}

/// Failures, of whom, as numbers that go down with time.
struct Counters {
    allowance: Allowance,
    key: RandomState,
    table: Mutex<Vec<Counter>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    failures: f64,
    /// When `failures` was right.
    at: Option<Instant>,
}

impl Counters {
    fn new(allowance: Allowance) -> Self {
        let table = Mutex::new(vec![Counter::default(); limits::LOGIN_COUNTERS]);
        Self { allowance, key: RandomState::new(), table }
    }

    fn with<T>(&self, whose: &impl Hash, f: impl FnOnce(&mut Counter) -> T) -> T {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = table.len() as u64;
        let slot = usize::try_from(self.key.hash_one(whose) % slots).unwrap_or(0);
        f(&mut table[slot])
    }

    fn take(&self, whose: &impl Hash, now: Instant) -> Result<(), Duration> {
        let Allowance { failures_max, forgotten_after } = self.allowance;
        self.with(whose, |counter| {
            let passed = counter.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
            let left = (counter.failures - passed.as_secs_f64() / forgotten_after.as_secs_f64()).max(0.0);
            *counter = Counter { failures: left, at: Some(now) };
            let too_many = left + 1.0 - failures_max;
            if too_many > 0.0 {
                return Err(forgotten_after.mul_f64(too_many));
            }
            counter.failures += 1.0;
            Ok(())
        })
    }

    fn give_back(&self, whose: &impl Hash) {
        self.with(whose, |counter| counter.failures = (counter.failures - 1.0).max(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

    fn allowed(throttle: &Throttle, name: impl Fn(u32) -> String, now: Instant) -> u32 {
        (0..1000).take_while(|number| throttle.attempt(&name(*number), HERE, now).is_ok()).count() as u32
    }

    #[test]
    fn failures_of_a_name_are_limited_and_forgotten() {
        let throttle = Throttle::new();
        let start = Instant::now();
        let name = |number| if number % 2 == 0 { "ana".to_owned() } else { "ANA".to_owned() };
        let limit = limits::LOGIN_FAILURES_OF_A_NAME;
        assert_eq!(f64::from(allowed(&throttle, name, start)), limit.failures_max);
        let wait = throttle.attempt("ana", None, start).unwrap_err();
        assert!(wait > Duration::ZERO && wait <= limit.forgotten_after, "{wait:?}");
        assert_eq!(throttle.attempt("bo", None, start), Ok(()));
        assert_eq!(throttle.attempt("ana", None, start + wait), Ok(()));
        assert!(throttle.attempt("ana", None, start + wait).is_err());
        let later = start + limit.forgotten_after * 1000;
        assert_eq!(f64::from(allowed(&throttle, name, later)), limit.failures_max);
    }

    #[test]
    fn failures_from_an_address_are_limited_whatever_the_name() {
        let throttle = Throttle::new();
        let start = Instant::now();
        let limit = limits::LOGIN_FAILURES_OF_AN_ADDRESS;
        assert_eq!(f64::from(allowed(&throttle, |number| format!("n{number}"), start)), limit.failures_max);
        assert!(throttle.attempt("other", HERE, start).is_err());
        assert_eq!(throttle.attempt("other", Some("192.0.2.2".parse().unwrap()), start), Ok(()));
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let same = |a: &str, b: &str| network(a.parse().ok()) == network(b.parse().ok());
        assert!(same("2001:db8:1:2::3", "2001:db8:1:2:ffff::4"));
        assert!(!same("2001:db8:1:2::3", "2001:db8:1:3::3"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
    }

    #[test]
    fn who_knows_the_password_does_not_wait() {
        let throttle = Throttle::new();
        for _ in 0..1000 {
            throttle.attempt("ana", HERE, Instant::now()).unwrap();
            throttle.succeeded("ana", HERE);
        }
    }
}
