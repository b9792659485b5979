//! A store whose bucket is away, full, slow or cut off: nothing is lost, nothing is half visible, and when it is back all
//! goes on without anybody's hands.

use std::sync::Arc;

use ct_model::RunQuery;
use ct_s3::S3Error;
use ct_store::{CommitMode, Committed, GcOptions, LogPlace, Store, StoreError};
use ct_test::{Fault, Proxy, S3Service};
use jiff::Timestamp;
use tempfile::TempDir;

use crate::support::{Draft, add, draft};

struct Home {
    proxy: Proxy,
    _folder: TempDir,
    store: Store,
}

impl Home {
    fn new() -> Option<Self> {
        let service = S3Service::get()?;
        let (proxy, folder) = (Proxy::start(service.endpoint()), TempDir::new().unwrap());
        let logs = LogPlace::Bucket(Box::new(service.config_at(proxy.address())), service.new_place());
        let store = Store::open_at(folder.path(), Arc::new(Timestamp::now), logs).unwrap();
        Some(Self { proxy, _folder: folder, store })
    }

    fn runs(&self) -> u64 {
        self.store.runs(&RunQuery::default()).unwrap().total_count
    }

    fn add(&self, draft: &Draft) -> Result<Committed, StoreError> {
        add(&self.store, draft, CommitMode::New)
    }

    fn is_whole(&self) {
        self.proxy.heal();
        let report = self.store.check(false, &mut |_| ()).unwrap();
        assert!(report.is_sound(), "{report:?}");
        self.store.gc(GcOptions { dry_run: false, purge_deleted_before: None }).unwrap();
        let report = self.store.check(false, &mut |_| ()).unwrap();
        assert_eq!(report.findings, []);
        assert_eq!(report.logs, self.runs());
    }
}

fn large(name: &str) -> Draft {
    let mut draft = draft(name, 3);
    draft.bytes = draft.bytes.iter().copied().cycle().take(20 << 20).collect();
    draft
}

#[test]
fn a_bucket_that_does_not_work_leaves_no_run_and_the_next_attempt_makes_it() {
    let Some(home) = Home::new() else { return };
    for (number, fault) in
        [Fault::Away, Fault::Refused(503, "SlowDown"), Fault::Refused(507, "Full"), Fault::AnswerLost]
            .into_iter()
            .enumerate()
    {
        for draft in [draft(&format!("small-{number}"), 2), large(&format!("large-{number}"))] {
            let before = home.runs();
            home.proxy.fail(move |_, _| fault);
            let error = home.add(&draft).unwrap_err();
            let StoreError::Bucket(said) = &error else { panic!("{fault:?}: {error:?}") };
            assert_eq!(error.is_disk_full(), matches!(said, S3Error::Full { .. }));
            assert_eq!(home.runs(), before, "{fault:?}");
            home.is_whole();
            assert!(matches!(home.add(&draft).unwrap(), Committed::Created(_)), "{fault:?}");
            home.is_whole();
        }
    }
}

#[test]
fn connections_that_are_cut_at_random_cost_time_only() {
    let Some(home) = Home::new() else { return };
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..6 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let seed = state;
        home.proxy.fail(move |seen, number| match (seed >> (number % 50)) % 4 {
            0 if seen.method == "PUT" => Fault::CutUp(seed % 3_000_000),
            1 if number % 3 == 0 => Fault::CutDown(seed % 200),
            2 if number % 3 == 0 => Fault::Refused(503, "SlowDown"),
            _ => Fault::None,
        });
        let draft = large(&format!("round-{round}"));
        // Most rounds get through; one that does not is made again.
        if let Err(error) = home.add(&draft) {
            assert!(matches!(error, StoreError::Bucket(_)), "{error:?}");
            home.proxy.heal();
            home.add(&draft).unwrap();
        }
        assert_eq!(home.runs(), round + 1);
    }
    home.is_whole();
}

#[test]
fn a_check_does_not_take_a_bucket_that_is_away_for_lost_logs() {
    let Some(home) = Home::new() else { return };
    home.add(&draft("first", 1)).unwrap();
    home.proxy.fail(|_, _| Fault::Away);
    assert!(matches!(home.store.check(true, &mut |_| ()), Err(StoreError::Bucket(_))));
    assert!(home.store.gc(GcOptions { dry_run: false, purge_deleted_before: None }).is_err());
    // Metadata is here.
    assert_eq!(home.runs(), 1);
    home.is_whole();
}
