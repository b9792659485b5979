//! All trajectory documents of a log, made by several threads and handed out in the order of the log.
//!
//! Memory: a window of the sample per thread, and at most [`AHEAD_MAX`] documents that wait for an earlier one.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ct_log::json::Reader;
use ct_log::{Log, LogError, SampleEntry, SampleReader};

use super::{HeaderFacts, SampleFacts, trajectory_document};
use crate::{PriceTable, SampleRange, TrajectoryDocument};

/// Samples that may be done before an earlier one is.
const AHEAD_MAX: usize = 64;

/// A sample and what was made of it. The document has no id and no run yet.
#[derive(Debug)]
pub struct Converted {
    /// What was taken from the sample.
    pub facts: SampleFacts,
    /// The document; its range is set unless the sample is chunked.
    pub document: TrajectoryDocument,
}

/// Reads one sample to its end, so that its CRC is checked, and makes its document.
pub fn convert_sample(
    log: &Log,
    sample: &SampleEntry,
    header: &HeaderFacts,
    prices: Option<&PriceTable>,
) -> Result<Converted, LogError> {
    let mut reader = Reader::new(log.read_sample(sample)?);
    let mut converted = convert_json(&mut reader, &sample.member_name(), header, prices)?;
    converted.document.eval_sample_range = sample_range(sample, &reader.into_source());
    Ok(converted)
}

/// Makes the document of a sample's JSON, without its range. `name` is for messages.
pub fn convert_json<R: Read>(
    reader: &mut Reader<R>,
    name: &str,
    header: &HeaderFacts,
    prices: Option<&PriceTable>,
) -> Result<Converted, LogError> {
    let facts = SampleFacts::read(reader)
        .and_then(|facts| reader.end().map(|()| facts))
        .map_err(|e| LogError::json(name, e))?;
    let document = trajectory_document(header, &facts, prices);
    Ok(Converted { facts, document })
}

/// Where a sample lies in its log, asked after it was read; `None` for a chunked one.
pub fn sample_range(sample: &SampleEntry, reader: &SampleReader) -> Option<SampleRange> {
    reader.stored_range().map(|range| SampleRange {
        key: None,
        sample_path: sample.member_name(),
        e_tag: None,
        version_id: None,
        compression_method: range.method,
        compressed_start: range.start,
        compressed_size: range.compressed_size,
        uncompressed_size: range.uncompressed_size,
        crc32: range.crc32,
        extra: serde_json::Map::new(),
    })
}

/// Runs `work` on the numbers below `count` with several threads and hands the results to `f` in order. When `f` fails,
/// the threads stop and its error is returned.
pub fn in_order<T: Send, E>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
    mut f: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    if threads < 2 || count < 2 {
        return (0..count).try_for_each(|index| f(index, work(index)));
    }
    let state = Mutex::new(State { next: 0, wanted: 0, done: BTreeMap::new(), stopped: false });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                let _leaving = Leaving { state: &state, changed: &changed };
                loop {
                    let index = {
                        let mut state = lock(&state);
                        while !state.stopped && state.next < count && state.next >= state.wanted + AHEAD_MAX {
                            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                        }
                        if state.stopped || state.next >= count {
                            return;
                        }
                        state.next += 1;
                        state.next - 1
                    };
                    let result = work(index);
                    lock(&state).done.insert(index, result);
                    changed.notify_all();
                }
            });
        }
        for index in 0..count {
            let result = {
                let mut state = lock(&state);
                loop {
                    if let Some(result) = state.done.remove(&index) {
                        state.wanted = index + 1;
                        changed.notify_all();
                        break result;
                    }
                    // A worker panicked: the scope passes it on.
                    if state.stopped {
                        return Ok(());
                    }
                    state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            };
            if let Err(e) = f(index, result) {
                lock(&state).stopped = true;
                changed.notify_all();
                return Err(e);
            }
        }
        Ok(())
    })
}

struct State<T> {
    /// The first number nobody works on.
    next: usize,
    /// The number that is handed out next.
    wanted: usize,
    done: BTreeMap<usize, T>,
    stopped: bool,
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops everybody when a worker leaves by a panic.
struct Leaving<'a, T> {
    state: &'a Mutex<State<T>>,
    changed: &'a Condvar,
}

impl<T> Drop for Leaving<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.state).stopped = true;
        }
        self.changed.notify_all();
    }
}

/// Makes the documents of some samples of a log and hands them out in order, those that cannot be read as errors.
pub fn convert_log<E>(
    log: &Log,
    samples: &[SampleEntry],
    header: &HeaderFacts,
    prices: Option<&PriceTable>,
    threads: usize,
    mut f: impl FnMut(&SampleEntry, Result<Converted, LogError>) -> Result<(), E>,
) -> Result<(), E> {
    in_order(
        samples.len(),
        threads,
        |index| convert_sample(log, &samples[index], header, prices),
        |index, converted| f(&samples[index], converted),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_however_long_each_takes() {
        for threads in [1, 2, 7] {
            let mut seen = Vec::new();
            let work = |index: usize| {
                if index.is_multiple_of(5) {
                    std::thread::yield_now();
                }
                index * index
            };
            in_order(500, threads, work, |index, square| {
                seen.push((index, square));
                Ok::<_, ()>(())
            })
            .unwrap();
            assert_eq!(seen, (0..500).map(|i| (i, i * i)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_stops_the_work() {
        let result =
            in_order(100_000, 3, |index| index, |index, _| if index == 10 { Err("stop") } else { Ok(()) });
        assert_eq!(result, Err("stop"));
    }

    #[test]
    #[should_panic(expected = "scoped thread panicked")]
    fn a_panic_is_passed_on() {
        let work = |index: usize| assert_ne!(index, 20, "on purpose");
        let _ = in_order(50, 3, work, |_, ()| Ok::<_, ()>(()));
    }
}
