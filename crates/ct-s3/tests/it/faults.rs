//! The connection to the service breaks, the service refuses for a while or for good.

use std::io::Read as _;
use std::sync::Arc;

use ct_log::source::Source as _;
use ct_s3::{Bucket, S3Error};
use ct_test::{Fault, Proxy, S3Service};

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 7 % 251) as u8).collect()
}

fn through(service: &S3Service) -> (Proxy, Bucket, String) {
    let proxy = Proxy::start(service.endpoint());
    let place = service.new_place();
    let bucket = Bucket::new(service.config_at(proxy.address()), place.bucket()).unwrap();
    (proxy, bucket, place.folder())
}

#[test]
fn what_passes_is_waited_for() {
    let Some(service) = S3Service::get() else { return };
    let (proxy, bucket, folder) = through(service);
    let data = bytes(300_000);
    for (number, fault) in [
        Fault::Away,
        Fault::Refused(503, "SlowDown"),
        Fault::Refused(500, "InternalError"),
        Fault::Refused(400, "RequestTimeout"),
        Fault::Refused(429, "TooManyRequests"),
        Fault::CutUp(1000),
        Fault::CutDown(10),
    ]
    .into_iter()
    .enumerate()
    {
        // Every other request fails.
        proxy.fail(move |_, number| if number % 2 == 0 { fault } else { Fault::None });
        let key = format!("{folder}{number}");
        bucket.add(&key, data.clone().into()).unwrap();
        let source = Arc::new(bucket.open(&key, Some(300_000)).unwrap());
        let mut all = Vec::new();
        source.read_all().read_to_end(&mut all).unwrap();
        assert!(all == data, "{fault:?}");
        assert_eq!(bucket.list(&key).count(), 1, "{fault:?}");
    }
}

#[test]
fn a_range_goes_on_where_it_broke() {
    let Some(service) = S3Service::get() else { return };
    let (proxy, bucket, folder) = through(service);
    let (key, data) = (format!("{folder}x"), bytes(1_000_000));
    bucket.add(&key, data.clone().into()).unwrap();
    proxy.take();
    proxy.fail(|_, number| if number < 3 { Fault::CutDown(300_000) } else { Fault::None });
    let source = Arc::new(bucket.open(&key, Some(1_000_000)).unwrap());
    let mut all = Vec::new();
    Arc::clone(&source).stream(0, 1_000_000).unwrap().read_to_end(&mut all).unwrap();
    assert!(all == data);
    let seen = proxy.take();
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[0].range.as_deref(), Some("bytes=0-999999"));
    // What came is not asked for again.
    assert!(seen.iter().map(|seen| seen.bytes_down).sum::<u64>() <= 1_300_000, "{seen:?}");
}

#[test]
fn what_stays_is_told_with_what_to_do() {
    let Some(service) = S3Service::get() else { return };
    let (proxy, bucket, folder) = through(service);
    let key = format!("{folder}x");
    let add = || bucket.add(&key, "x".into()).unwrap_err();
    proxy.fail(|_, _| Fault::Refused(503, "SlowDown"));
    let error = add();
    assert!(matches!(error, S3Error::Busy { status: 503, .. }) && error.is_passing(), "{error}");
    assert_eq!(proxy.take().len(), 5, "it is tried a bounded number of times");
    for (status, code) in [(507, ""), (403, "QuotaExceeded")] {
        proxy.fail(move |_, _| Fault::Refused(status, code));
        let error = add();
        assert!(matches!(error, S3Error::Full { .. }) && error.to_string().contains("no room"), "{error}");
        assert_eq!(proxy.take().len(), 1, "nobody makes room by asking");
    }
    proxy.fail(|_, _| Fault::Refused(403, "RequestTimeTooSkewed"));
    let error = add();
    assert!(matches!(error, S3Error::Clock { .. }) && error.to_string().contains("set the clock"), "{error}");
    proxy.fail(|_, _| Fault::Away);
    let error = add();
    assert!(matches!(error, S3Error::Unreachable { .. }) && error.to_string().contains("AWS_ENDPOINT_URL"));
    drop(proxy);
    let bucket = Bucket::new(service.config_at("http://127.0.0.1:9"), "logs").unwrap();
    assert!(matches!(bucket.check(), Err(S3Error::Unreachable { .. })));
    assert_eq!(service.logs().head(&key).unwrap(), None);
}

#[test]
fn an_answer_that_is_lost_adds_nothing_twice() {
    let Some(service) = S3Service::get() else { return };
    let (proxy, bucket, folder) = through(service);
    let key = format!("{folder}x");
    proxy.fail(|_, number| if number == 0 { Fault::AnswerLost } else { Fault::None });
    // It is there, by ourselves: the caller looks what it is.
    assert!(matches!(bucket.add(&key, "mine".into()), Err(S3Error::Precondition { .. })));
    assert_eq!(bucket.get(&key, 100).unwrap(), b"mine");
    proxy.heal();
    proxy.take();
    proxy.fail(|seen, _| match seen.path.contains("uploadId") && seen.method == "POST" {
        true => Fault::AnswerLost,
        false => Fault::None,
    });
    let data = bytes(9 << 20);
    let key = format!("{folder}y");
    let added =
        bucket.add_from::<S3Error>(&key, data.len() as u64, &mut data.as_slice(), &mut |_| (), || Ok(()));
    assert!(added.is_err());
    assert_eq!(service.logs().head(&key).unwrap().unwrap().size_bytes, data.len() as u64);
    assert_eq!(service.logs().unfinished(&folder).unwrap(), []);
}
