//! Small logs of a bucket are fetched a few ahead of the one whose run is being made: one after the other, the way to the
//! bucket and back would take longer than all the rest.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use ct_log::source::Source as _;
use ct_s3::ObjectSource;

use super::bucket;
use super::remote_eval::Fetched;
use crate::error::CliError;

/// Logs up to this are fetched ahead.
const SMALL_BYTES: u64 = 8 << 20;
/// How far ahead, which bounds what lies on the disk meanwhile.
const AHEAD_MAX: usize = 16;
const FETCHERS: usize = 8;

/// The logs of one command.
pub(super) struct Ahead {
    /// Those that are fetched ahead, by their place among all.
    objects: Vec<Option<Arc<ObjectSource>>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The first one that is not made yet, and the first one that nobody fetches yet.
    at: usize,
    next: usize,
    fetched: HashMap<usize, Result<Fetched, CliError>>,
    ended: bool,
}

impl Ahead {
    /// Fetches while `work` runs.
    pub(super) fn of<T>(logs: &[Option<Arc<ObjectSource>>], work: impl FnOnce(&Self) -> T) -> T {
        let small = |object: &Arc<ObjectSource>| object.size_bytes() <= SMALL_BYTES;
        let objects: Vec<_> = logs.iter().map(|object| object.clone().filter(small)).collect();
        let count = objects.iter().flatten().count();
        let ahead = Self { objects, state: Mutex::default(), changed: Condvar::new() };
        thread::scope(|scope| {
            // However the work ends, the threads do.
            let _end = End(&ahead);
            if count > 1 {
                (0..FETCHERS.min(count)).for_each(|_| drop(scope.spawn(|| ahead.fetch())));
            }
            work(&ahead)
        })
    }

    /// A log by its place among all, when it is fetched ahead. They are taken in order.
    pub(super) fn take(&self, index: usize) -> Option<Result<Fetched, CliError>> {
        let object = self.objects.get(index)?.as_ref();
        let mut state = self.lock();
        state.at = index;
        self.changed.notify_all();
        // Nobody is on the way to it: then it is fetched in its turn.
        if object.is_none() || state.next <= index {
            state.next = state.next.max(index + 1);
            return None;
        }
        loop {
            if let Some(fetched) = state.fetched.remove(&index) {
                return Some(fetched);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn fetch(&self) {
        let mut state = self.lock();
        while !state.ended && state.next < self.objects.len() {
            if state.next >= state.at + AHEAD_MAX {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let index = state.next;
            state.next += 1;
            let Some(object) = &self.objects[index] else { continue };
            drop(state);
            let fetched = bucket::fetch(object, None);
            state = self.lock();
            state.fetched.insert(index, fetched);
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct End<'a>(&'a Ahead);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}
