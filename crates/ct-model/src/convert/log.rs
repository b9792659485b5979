//! All trajectory documents of a log, made by several threads and handed out in the order of the log.
//!
//! Memory: a window of the sample per thread, and at most [`AHEAD_MAX`] documents that wait for an earlier one.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ct_log::json::Reader;
use ct_log::{Log, LogError, SampleEntry, StoredRange};

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
    let range = reader.into_source().stored_range();
    converted.document.eval_sample_range = range.map(|range| sample_range(sample, range));
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

/// Where a sample lies in its log, as its document says it.
pub fn sample_range(sample: &SampleEntry, range: StoredRange) -> SampleRange {
    SampleRange {
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
    }
}

/// Runs `work` on the numbers below `count` with several threads and hands the results to `f` in order, on one thread at
/// a time. When `f` fails, the threads stop and its error is returned.
pub fn in_order<T: Send, E: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
    mut f: impl FnMut(usize, T) -> Result<(), E> + Send,
) -> Result<(), E> {
    if threads < 2 || count < 2 {
        return (0..count).try_for_each(|index| f(index, work(index)));
    }
    let state = State { next: 0, wanted: 0, done: BTreeMap::new(), f: Some(f), failed: None, stopped: false };
    let (state, room) = (Mutex::new(state), Condvar::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                let _leaving = Leaving { state: &state, room: &room };
                loop {
                    let index = {
                        let mut state = lock(&state);
                        while !state.stopped && state.next < count && state.next >= state.wanted + AHEAD_MAX {
                            state = room.wait(state).unwrap_or_else(PoisonError::into_inner);
                        }
                        if state.stopped || state.next >= count {
                            return;
                        }
                        state.next += 1;
                        state.next - 1
                    };
                    let result = work(index);
                    let mut now = lock(&state);
                    now.done.insert(index, result);
                    // Whoever finds `f` hands out what is next, so that nobody has to be woken for it.
                    let Some(mut f) = now.f.take() else { continue };
                    while !now.stopped
                        && let wanted = now.wanted
                        && let Some(result) = now.done.remove(&wanted)
                    {
                        drop(now);
                        let handed = f(wanted, result);
                        now = lock(&state);
                        now.wanted += 1;
                        if let Err(e) = handed {
                            now.failed = Some(e);
                            now.stopped = true;
                        }
                        room.notify_all();
                    }
                    now.f = Some(f);
                }
            });
        }
    });
    state.into_inner().unwrap_or_else(PoisonError::into_inner).failed.map_or(Ok(()), Err)
}

struct State<T, E, F> {
    /// The first number nobody works on.
    next: usize,
    /// The number that is handed out next.
    wanted: usize,
    done: BTreeMap<usize, T>,
    /// What takes the results; gone while a thread hands some out.
    f: Option<F>,
    failed: Option<E>,
    stopped: bool,
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops everybody when a worker leaves by a panic.
struct Leaving<'a, T, E, F> {
    state: &'a Mutex<State<T, E, F>>,
    room: &'a Condvar,
}

impl<T, E, F> Drop for Leaving<'_, T, E, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.state).stopped = true;
            self.room.notify_all();
        }
    }
}

/// Makes the documents of some samples of a log and hands them out in order, those that cannot be read as errors.
pub fn convert_log<E: Send>(
    log: &Log,
    samples: &[SampleEntry],
    header: &HeaderFacts,
    prices: Option<&PriceTable>,
    threads: usize,
    mut f: impl FnMut(&SampleEntry, Result<Converted, LogError>) -> Result<(), E> + Send,
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
