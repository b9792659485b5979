//! How many calls run at the same time: as many as the provider bears.
//!
//! Each answer about a rate limit halves the number and holds everybody back for as long as was asked; each full round
//! of successes adds one again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub(super) struct Gate {
    state: Mutex<State>,
    changed: Notify,
    limit_max: usize,
}

struct State {
    limit: usize,
    inside: usize,
    successes: usize,
    closed_until: Option<Instant>,
}

/// A place inside the gate.
pub(super) struct Permit<'a> {
    gate: &'a Gate,
}

impl Gate {
    pub(super) fn new(limit_max: usize) -> Self {
        let limit_max = limit_max.max(1);
        let state = State { limit: limit_max, inside: 0, successes: 0, closed_until: None };
        Self { state: Mutex::new(state), changed: Notify::new(), limit_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    pub(super) async fn enter(&self) -> Permit<'_> {
        loop {
            let changed = self.changed.notified();
            let until = {
                let mut state = self.lock();
                let until = state.closed_until.filter(|until| *until > Instant::now());
                if until.is_none() && state.inside < state.limit {
                    state.inside += 1;
                    return Permit { gate: self };
                }
                until
            };
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => changed.await,
            }
        }
    }
}

impl Permit<'_> {
    /// The call went well.
    pub(super) fn succeeded(self) {
        let mut state = self.gate.lock();
        state.successes += 1;
        if state.successes >= state.limit && state.limit < self.gate.limit_max {
            state.limit += 1;
            state.successes = 0;
        }
    }

    /// The provider wants fewer calls, and none for some time.
    pub(super) fn limited(self, wait: Duration) {
        let mut state = self.gate.lock();
        let until = Instant::now() + wait;
        // Calls that were on their way together meet the same limit; it counts once.
        if state.closed_until.is_none_or(|closed| closed <= Instant::now()) {
            state.limit = (state.limit / 2).max(1);
        }
        state.successes = 0;
        state.closed_until = Some(state.closed_until.map_or(until, |closed| closed.max(until)));
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.gate.lock().inside -= 1;
        self.gate.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limit_halves_and_successes_add_up_again() {
        let gate = Gate::new(4);
        let limit = || gate.lock().limit;
        let (a, b) = (gate.enter().await, gate.enter().await);
        a.limited(Duration::from_secs(3));
        b.limited(Duration::from_secs(2));
        assert_eq!(limit(), 2, "the two answers are of one limit");
        let before = Instant::now();
        gate.enter().await.succeeded();
        assert_eq!(before.elapsed(), Duration::from_secs(3));
        gate.enter().await.succeeded();
        assert_eq!(limit(), 3);
        for _ in 0..20 {
            gate.enter().await.succeeded();
        }
        assert_eq!(limit(), 4, "never above what was asked for");
        for _ in 0..5 {
            gate.enter().await.limited(Duration::ZERO);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(limit(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_inside_than_may_be() {
        let gate = Gate::new(2);
        let (inside, most) = (std::sync::atomic::AtomicUsize::new(0), std::sync::atomic::AtomicUsize::new(0));
        let one = || async {
            let permit = gate.enter().await;
            let now = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
            most.fetch_max(now, std::sync::atomic::Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            permit.succeeded();
        };
        tokio::join!(one(), one(), one(), one(), one());
        assert_eq!(most.into_inner(), 2);
    }
}
