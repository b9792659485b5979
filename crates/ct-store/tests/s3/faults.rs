//! A store whose bucket is away, full, slow or cut off: nothing is lost, nothing is half visible, and when it is back all
//! goes on without anybody's hands.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use ct_model::{LogRef, RunQuery};
use ct_s3::{Config, S3Address, S3Error};
use ct_store::{CommitMode, Committed, GcOptions, LogPlace, Store, StoreError};
use ct_test::{Fault, Proxy, S3Service, Seen};
use jiff::Timestamp;
use tempfile::TempDir;

use crate::support::{Draft, add, draft};

struct Home {
    service: &'static S3Service,
    proxy: Proxy,
    folder: TempDir,
    config: Config,
    address: S3Address,
    store: Store,
}

impl Home {
    fn new() -> Option<Self> {
        let service = S3Service::get()?;
        let (proxy, folder) = (Proxy::start(service.endpoint()), TempDir::new().unwrap());
        let config = service.config_at(proxy.address());
        let address = service.new_place();
        let logs = LogPlace::Bucket(Box::new(config.clone()), address.clone());
        let store = Store::open_at(folder.path(), Arc::new(Timestamp::now), logs).unwrap();
        Some(Self { service, proxy, folder, config, address, store })
    }

    /// The same store in the eyes of another process, which knows nothing of the bucket yet.
    fn again(&self, config: &Config) -> Store {
        let logs = LogPlace::Bucket(Box::new(config.clone()), self.address.clone());
        Store::open_at(self.folder.path(), Arc::new(Timestamp::now), logs).unwrap()
    }

    /// Who waits for an answer as long as faults need at least.
    fn impatient(&self) -> Config {
        let mut config = self.config.clone();
        config.patience.attempts_max = 2;
        config.patience.answer_timeout = LONG / 3;
        config
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

/// What a bucket does to each request that comes, by its number.
type Plan = fn(&Seen, usize) -> Fault;

/// A pause that everyone waits for.
const SHORT: Duration = Duration::from_millis(20);
/// One that the impatient do not wait for.
const LONG: Duration = Duration::from_millis(1500);

const TOO_SLOW: &str = "slower than anyone waits";
const STOPPING: &str = "answers that stop";
const PLANS: [(&str, Plan); 10] = [
    ("slow", |_, _| Fault::Slow(SHORT)),
    ("answers that trickle", |_, _| Fault::Trickle(400_000, SHORT)),
    (TOO_SLOW, |_, _| Fault::Slow(LONG)),
    (STOPPING, |_, _| Fault::Trickle(1000, LONG)),
    ("away", |_, _| Fault::Away),
    ("SlowDown", |_, _| Fault::Refused(503, "SlowDown")),
    ("full", |_, _| Fault::Refused(507, "Full")),
    ("over quota", |_, _| Fault::Refused(403, "QuotaExceeded")),
    ("half answers", |seen, _| match &seen.range {
        Some(_) => Fault::CutDown(700_000),
        None if seen.method == "GET" => Fault::CutDown(20),
        None => Fault::AnswerLost,
    }),
    ("at random", |seen, number| match number.wrapping_mul(2_654_435_761) >> 7 & 7 {
        0 => Fault::Away,
        1 => Fault::Refused(503, "SlowDown"),
        2 if seen.method == "GET" => Fault::CutDown(number as u64 * 3001 % 500_000),
        3 if seen.method == "PUT" => Fault::CutUp(number as u64 * 3001 % 500_000),
        4 => Fault::Slow(SHORT),
        _ => Fault::None,
    }),
];

/// Part of a log, as one sample is read.
fn read_sample(store: &Store, log: &LogRef) -> Result<Vec<u8>, S3Error> {
    let mut bytes = Vec::new();
    let source = store.open_log(log).unwrap();
    let read = source.stream(1000, 1_500_000).unwrap().read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| error.downcast::<S3Error>().unwrap())
}

fn gc(store: &Store) -> Result<usize, StoreError> {
    store.gc(GcOptions { dry_run: false, purge_deleted_before: None }).map(|report| report.items.len())
}

/// Whether what came of something is its end, or an error of the bucket that says so.
fn ended<T: std::fmt::Debug>(name: &str, came: Result<T, StoreError>) -> Option<T> {
    match came {
        Ok(done) => Some(done),
        Err(StoreError::Bucket(_)) => None,
        Err(error) => panic!("{name}: {error:?}"),
    }
}

#[test]
fn whatever_a_bucket_does_a_thing_is_done_or_can_be_done_again() {
    let mut through = Vec::new();
    for (name, plan) in PLANS {
        let Some(home) = Home::new() else { return };
        let there = large("there");
        let Committed::Created(run) = home.add(&there).unwrap() else { panic!("it is there") };
        let log = home.store.run(&run).unwrap().log;
        let left = format!("{}uploads/nobody", home.address.folder());
        home.service.logs().add(&left, "left by a killed process".into()).unwrap();
        let (out, middle) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        home.store.copy_to(middle.path(), LogPlace::Folder, &|_| ()).unwrap();
        let patient = |patient: bool| if patient { home.config.clone() } else { home.impatient() };
        let other = home.service.new_place();
        let other = |config: Config| LogPlace::Bucket(Box::new(config), other.clone());
        let back = TempDir::new().unwrap();
        let middle = Store::open(middle.path()).unwrap();

        home.proxy.fail(plan);
        let config = patient(![TOO_SLOW, STOPPING].contains(&name));
        let store = home.again(&config);
        let new = large("new");
        let added = ended(name, add(&store, &new, CommitMode::New)).is_some();
        assert_eq!(home.runs(), 1 + u64::from(added), "{name}");
        let read =
            read_sample(&store, &log).map(|bytes| assert!(bytes == there.bytes[1000..1_501_000])).is_ok();
        let copied_out = ended(name, store.copy_to(out.path(), LogPlace::Folder, &|_| ()));
        assert_eq!(
            out.path().join("ct.sqlite").exists(),
            copied_out.is_some(),
            "{name}: half a copy is none"
        );
        let copied_in = ended(name, middle.copy_to(back.path(), other(config), &|_| ()));
        assert_eq!(
            back.path().join("ct.sqlite").exists(),
            copied_in.is_some(),
            "{name}: half a copy is none"
        );
        for report in [&copied_out, &copied_in].into_iter().flatten() {
            assert_eq!(report.failures, [], "{name}");
        }
        let collected = ended(name, gc(&store)).is_some();
        through.push((name, [added, read, copied_out.is_some(), copied_in.is_some(), collected]));

        home.proxy.heal();
        let store = home.again(&home.config);
        assert_eq!(read_sample(&store, &log).unwrap(), there.bytes[1000..1_501_000], "{name}");
        if !added {
            assert!(matches!(add(&store, &new, CommitMode::New).unwrap(), Committed::Created(_)), "{name}");
        }
        let copies = [(&store, out.path(), LogPlace::Folder), (&middle, back.path(), other(patient(true)))];
        for (from, folder, place) in copies {
            assert_eq!(from.copy_to(folder, place.clone(), &|_| ()).unwrap().failures, [], "{name}");
            let copy = Store::open_at(folder, Arc::new(Timestamp::now), place).unwrap();
            let report = copy.check(false, &mut |_| ()).unwrap();
            assert!(report.is_sound() && report.logs == from.totals().unwrap().runs, "{name}: {report:?}");
            gc(&copy).unwrap();
            assert_eq!(copy.check(false, &mut |_| ()).unwrap().findings, [], "{name}");
        }
        gc(&store).unwrap();
        assert!(home.service.logs().head(&left).unwrap().is_none(), "{name}");
        home.is_whole();
    }
    // A test whose faults hit nothing would pass, too.
    let all = |name: &str, done: bool| {
        let (_, got) = through.iter().find(|(known, _)| *known == name).unwrap();
        assert_eq!(*got, [done; 5], "{name}: {through:#?}");
    };
    for name in ["slow", "answers that trickle"] {
        all(name, true);
    }
    for name in [TOO_SLOW, "away", "SlowDown", "full", "over quota"] {
        all(name, false);
    }
}
