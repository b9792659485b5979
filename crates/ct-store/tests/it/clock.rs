//! Clocks that are wrong, and are set right.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ct_model::{RunQuery, Scope};
use ct_store::{Actor, CommitMode, GcOptions, Store};
use jiff::Timestamp;
use tempfile::TempDir;

use crate::support::{START, add, draft};

const HOUR: i64 = 3600;

struct Home {
    store: Store,
    _folder: TempDir,
    hours: Arc<AtomicI64>,
}

fn hour(number: i64) -> Timestamp {
    Timestamp::from_second(START + number * HOUR).unwrap()
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hours = Arc::new(AtomicI64::new(0));
        let told = Arc::clone(&hours);
        let clock = move || hour(told.load(Ordering::Relaxed));
        let store = Store::open_with_clock(folder.path(), Arc::new(clock)).unwrap();
        Self { store, _folder: folder, hours }
    }

    fn at(&self, hours: i64) -> &Store {
        self.hours.store(hours, Ordering::Relaxed);
        &self.store
    }
}

#[test]
fn a_token_is_good_until_the_servers_clock_says_otherwise() {
    let home = Home::new();
    let local = Actor::local();
    home.at(0).add_user("ana", "correct horse battery", Scope::Write, &local).unwrap();
    let token = home.store.create_token("ana", "t", None, Some(hour(2)), &local).unwrap().token;
    let is_good = |hours| home.at(hours).authenticate(&token).unwrap().is_some();
    assert_eq!([0, 1, 2, 3, 9000].map(is_good), [true, true, false, false, false]);
    // Set back, it is good again, for as long as it was to be; what was noted of its use meanwhile does no harm.
    assert_eq!([1, -9000, 3].map(is_good), [true, true, false]);
    // Revoked is revoked, whatever time it is.
    let id = home.at(1).authenticate(&token).unwrap().unwrap().token_id;
    home.store.revoke_token(&id, None, &local).unwrap();
    assert_eq!([1, -9000].map(is_good), [false, false]);
}

#[test]
fn pages_lose_no_row_while_the_clock_jumps() {
    let home = Home::new();
    let make = |hours: i64, name: &str| {
        add(home.at(hours), &draft(name, 1), CommitMode::New).unwrap();
    };
    for (hours, name) in [(0, "a"), (5, "b"), (-5, "c"), (5, "d"), (3, "e")] {
        make(hours, name);
    }
    let mut seen = Vec::new();
    let mut query = RunQuery { limit: Some(1), ..RunQuery::default() };
    for step in 0.. {
        let page = home.store.runs(&query).unwrap();
        seen.extend(page.items.into_iter().map(|row| row.name));
        // Others come, by clocks that are ahead and behind.
        make([8, -8, 4][step % 3], &format!("new-{step}"));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() || step > 50 {
            break;
        }
    }
    for old in ["a", "b", "c", "d", "e"] {
        assert_eq!(seen.iter().filter(|name| *name == old).count(), 1, "{old}: {seen:?}");
    }
}

#[test]
fn what_came_in_the_future_is_not_collected_before_its_time() {
    let home = Home::new();
    let key = "r.eval".parse().unwrap();
    home.at(9000).put_object(&key, 3, &mut &b"abc"[..], &Actor::local()).unwrap();
    let gc = |hours| {
        let options = GcOptions { dry_run: false, purge_deleted_before: None };
        home.at(hours).gc(options).unwrap().items.len()
    };
    // The clock was ahead, and is right again.
    assert_eq!([0, 100, 9000, 9023].map(gc), [0, 0, 0, 0]);
    assert!(home.store.object(&key).unwrap().is_some());
    assert!(gc(9025) > 0);
    assert!(home.store.object(&key).unwrap().is_none());
}
