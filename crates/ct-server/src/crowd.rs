//! Those who may hold up others, since nobody knows who they are: when there are too many, whoever came first gives way.
//! Who is quick is done long before.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections without a token, or bodies of strangers that are arriving. All of them hold a bounded number of bytes.
#[derive(Debug)]
pub(crate) struct Crowd {
    bytes_max: usize,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    /// Members so far.
    count: u64,
    bytes: usize,
    /// Those that may have to give way, by when they came.
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    bytes: usize,
    gives_way: Arc<Notify>,
}

/// One of a crowd, until it is dropped.
#[derive(Debug)]
pub(crate) struct Member {
    crowd: Arc<Crowd>,
    number: u64,
    gives_way: Arc<Notify>,
    /// Of one that stays.
    bytes: AtomicUsize,
}

impl Crowd {
    /// Bytes are those that members hold together; 0 where they hold none.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, all: Mutex::default() })
    }

    pub(crate) fn join(self: &Arc<Self>) -> Member {
        let gives_way = Arc::<Notify>::default();
        let mut all = self.all();
        all.count += 1;
        let number = all.count;
        all.waiting.insert(number, Waiting { bytes: 0, gives_way: Arc::clone(&gives_way) });
        Member { crowd: Arc::clone(self), number, gives_way, bytes: AtomicUsize::new(0) }
    }

    /// Has whoever came first give way. False: there is nobody who can.
    pub(crate) fn make_way(&self) -> bool {
        self.all().make_way()
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn make_way(&mut self) -> bool {
        let Some((_, first)) = self.waiting.pop_first() else { return false };
        self.bytes -= first.bytes;
        first.gives_way.notify_one();
        true
    }
}

impl Member {
    /// So many more bytes are there.
    pub(crate) fn grow(&self, bytes: usize) {
        let mut all = self.crowd.all();
        let Some(own) = all.waiting.get_mut(&self.number) else { return };
        own.bytes += bytes;
        all.bytes += bytes;
        while all.bytes > self.crowd.bytes_max && all.make_way() {}
    }

    /// Done when this one has to give way.
    pub(crate) async fn gives_way(&self) {
        self.gives_way.notified().await;
    }

    /// From now on it need not give way. False: it has to already.
    pub(crate) fn stay(&self) -> bool {
        let Some(own) = self.crowd.all().waiting.remove(&self.number) else { return false };
        self.bytes.store(own.bytes, Ordering::Relaxed);
        true
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut all = self.crowd.all();
        let waiting = all.waiting.remove(&self.number).map_or(0, |own| own.bytes);
        all.bytes -= waiting + *self.bytes.get_mut();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn must_go(member: &Member) -> bool {
        member.gives_way().now_or_never().is_some()
    }

    #[test]
    fn who_came_first_gives_way() {
        let crowd = Crowd::new(100);
        let (slow, quiet, done) = (crowd.join(), crowd.join(), crowd.join());
        slow.grow(60);
        done.grow(40);
        assert!(done.stay());
        assert!(![&slow, &quiet, &done].into_iter().any(must_go));
        let next = crowd.join();
        next.grow(1);
        assert!(must_go(&slow) && !must_go(&quiet) && !must_go(&next));
        // Who gave way counts no more, whatever else arrives of it.
        slow.grow(1000);
        next.grow(59);
        assert!(!must_go(&quiet));
        // Who stays is counted, and is not asked to go: who came first of the others is.
        next.grow(1);
        assert!(must_go(&quiet) && must_go(&next) && !next.stay() && !must_go(&done));
        drop((slow, quiet, next));
        assert_eq!(crowd.all().bytes, 40);
        drop(done);
        assert_eq!(crowd.all().bytes, 0);
        assert!(!crowd.make_way());
    }
}
