//! What is asked of a service, and what it gives.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use ct_log::source::Source;
use ct_s3::{Bucket, PartSizes, Presigned, S3Error};
use ct_test::S3Service;
use sha2::{Digest as _, Sha256};

const MINUTE: Duration = Duration::from_secs(60);

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 7 % 251) as u8).collect()
}

/// A prefix of its own, with a slash.
fn folder(service: &S3Service) -> String {
    service.new_place().folder()
}

/// Sends a signed request as anyone would: the status, the answer.
fn send(method: &str, signed: &Presigned, body: &[u8], without: &str) -> (u16, String) {
    let client = reqwest::blocking::Client::new();
    let mut request = client.request(method.parse().unwrap(), signed.url.clone()).body(body.to_vec());
    for (name, value) in &signed.headers {
        if name != without && name != "content-length" {
            request = request.header(name, value);
        }
    }
    let answer = request.send().unwrap();
    (answer.status().as_u16(), answer.text().unwrap())
}

#[test]
fn objects_are_added_once_and_read_by_range() {
    let Some(service) = S3Service::get() else { return };
    let (bucket, folder) = (service.logs(), folder(service));
    let (key, data) = (format!("{folder}a b+c/d.eval"), bytes(100_000));
    assert_eq!(bucket.head(&key).unwrap(), None);
    let tag = bucket.add(&key, data.clone().into()).unwrap();
    assert!(matches!(bucket.add(&key, "other".into()), Err(S3Error::Precondition { .. })));
    let head = bucket.head(&key).unwrap().unwrap();
    assert_eq!((head.size_bytes, &head.tag.e_tag), (100_000, &tag.e_tag));
    assert_eq!(head.sha256, Some(Sha256::digest(&data).into()));

    let source = Arc::new(bucket.open(&key, None).unwrap());
    assert_eq!(source.size_bytes(), 100_000);
    let mut middle = vec![0; 1000];
    source.read_exact_at(50_000, &mut middle).unwrap();
    assert!(middle == data[50_000..51_000]);
    assert!(source.read_exact_at(99_500, &mut middle).is_err());
    let mut all = Vec::new();
    source.read_all().read_to_end(&mut all).unwrap();
    assert!(all == data);
    let mut end = Vec::new();
    Arc::clone(&source).stream(99_990, 10).unwrap().read_to_end(&mut end).unwrap();
    assert!(end == data[99_990..]);
    // Another object in its place is not taken for it.
    bucket.replace(&key, bytes(100_000).into_iter().rev().collect::<Vec<_>>().into()).unwrap();
    assert!(source.read_at(0, &mut middle).is_err());

    bucket.copy_whole(&key, &format!("{folder}copy"), 100_000, None).unwrap();
    assert!(bucket.copy_whole(&key, &format!("{folder}copy"), 100_000, Some("\"other\"")).is_err());
    bucket.remove(&key).unwrap();
    bucket.remove(&key).unwrap();
    assert_eq!(bucket.head(&key).unwrap(), None);
    assert!(matches!(bucket.open(&key, None), Err(S3Error::NotFound { .. })));
}

#[test]
fn lists_go_over_pages() {
    let Some(service) = S3Service::get() else { return };
    let (bucket, folder) = (service.logs(), folder(service));
    assert_eq!(bucket.list(&folder).count(), 0);
    let name = |number: usize| format!("{folder}{number:04} & more");
    std::thread::scope(|scope| {
        for first in 0..8 {
            let (bucket, name) = (&bucket, &name);
            scope.spawn(move || {
                for number in (first..1010).step_by(8) {
                    bucket.add(&name(number), "x".into()).unwrap();
                }
            });
        }
    });
    let keys: Vec<String> = bucket.list(&folder).map(|listed| listed.unwrap().key).collect();
    assert_eq!(keys, (0..1010).map(name).collect::<Vec<_>>());
}

#[test]
fn objects_come_in_parts() {
    let Some(service) = S3Service::get() else { return };
    let (bucket, folder) = (service.logs(), folder(service));
    let key = format!("{folder}parts");
    let data = bytes((20 << 20) + 17);
    let mut sent = Sha256::new();
    let add = |key: &str, sent: &mut Sha256, say: Result<(), S3Error>| {
        let mut update = |bytes: &[u8]| sent.update(bytes);
        bucket.add_from::<S3Error>(key, data.len() as u64, &mut data.as_slice(), &mut update, || say)
    };
    // One that is given up at the end leaves nothing.
    let no = S3Error::Config { problem: "no".to_owned() };
    assert!(add(&key, &mut Sha256::new(), Err(no)).is_err());
    assert_eq!((bucket.head(&key).unwrap(), bucket.unfinished(&folder).unwrap().len()), (None, 0));
    add(&key, &mut sent, Ok(())).unwrap();
    assert!(sent.finalize() == Sha256::digest(&data));
    assert_eq!(bucket.head(&key).unwrap().unwrap().size_bytes, data.len() as u64);
    assert!(matches!(add(&key, &mut Sha256::new(), Ok(())), Err(S3Error::Precondition { .. })));
    let source = Arc::new(bucket.open(&key, Some(data.len() as u64)).unwrap());
    let mut all = Vec::new();
    source.read_all().read_to_end(&mut all).unwrap();
    assert!(all == data);
    assert_eq!(bucket.unfinished(&folder).unwrap(), []);
    // What ends too early is none.
    let short = bucket.add_from::<S3Error>(
        &format!("{folder}short"),
        data.len() as u64,
        &mut &data[..data.len() - 1],
        &mut |_| (),
        || Ok(()),
    );
    assert!(matches!(short, Err(S3Error::Read { .. })));
}

#[test]
fn anyone_with_an_address_can_do_that_one_thing() {
    let Some(service) = S3Service::get() else { return };
    let (bucket, folder) = (service.logs(), folder(service));
    let key = format!("{folder}x.eval");
    let data = bytes(1000);
    let sum: [u8; 32] = Sha256::digest(&data).into();
    let put = bucket.presign_add(&key, 1000, Some(&sum), MINUTE).unwrap();
    // The condition, the length and the checksum are signed: leaving one out, or sending other bytes, is refused.
    assert_eq!(send("PUT", &put, &data, "if-none-match").0, 403);
    assert_eq!(send("PUT", &put, &data[..999], "").0, 403);
    assert_eq!(send("PUT", &put, &bytes(1001)[1..], "").0, 400);
    assert_eq!(bucket.head(&key).unwrap(), None);
    assert_eq!(send("PUT", &put, &data, "").0, 200);
    assert_eq!(send("PUT", &put, &data, "").0, 412);
    let get = bucket.presign_get(&key, "my \"log\".eval", MINUTE).unwrap();
    let answer = reqwest::blocking::get(get.url.clone()).unwrap();
    assert_eq!(answer.headers()["content-disposition"], "attachment; filename=\"mylog.eval\"");
    assert!(answer.bytes().unwrap() == data);
    let mut other = get.clone();
    other.url.set_path(&get.url.path().replace("x.eval", "y.eval"));
    assert_eq!(send("GET", &other, b"", "").0, 403);
    assert_eq!(send("DELETE", &get, b"", "").0, 403);
}

#[test]
fn parts_are_put_by_anyone_and_seen_by_us() {
    let Some(service) = S3Service::get() else { return };
    let (bucket, folder) = (service.logs(), folder(service));
    let key = format!("{folder}x.eval");
    let data = bytes(9 << 20);
    let sizes = PartSizes::of(data.len() as u64);
    assert_eq!(sizes.count(), 2);
    let id = bucket.begin_parts(&key).unwrap();
    assert_eq!(bucket.parts(&key, &id).unwrap(), []);
    assert_eq!(bucket.unfinished(&folder).unwrap()[0].upload_id, id);
    for number in [2, 1] {
        let (start, end) = sizes.range(number);
        let piece = &data[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()];
        let signed = bucket.presign_part(&key, &id, number, end - start, MINUTE).unwrap();
        assert_eq!(send("PUT", &signed, &piece[1..], "").0, 403);
        assert_eq!(send("PUT", &signed, piece, "").0, 200);
    }
    let parts = bucket.parts(&key, &id).unwrap();
    let md5 = |data: &[u8]| {
        let sum = <md5::Md5 as md5::Digest>::digest(data);
        format!("\"{}\"", sum.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    let found: Vec<_> = parts.iter().map(|part| (part.number, part.size_bytes, part.e_tag.clone())).collect();
    assert_eq!(found, [(1, 8 << 20, md5(&data[..8 << 20])), (2, 1 << 20, md5(&data[8 << 20..]))]);
    bucket.finish_parts(&key, &id, &parts, true).unwrap();
    assert!(matches!(bucket.parts(&key, &id), Err(S3Error::NoUpload { .. })));
    let second = bucket.begin_parts(&key).unwrap();
    let part = bucket.put_part(&key, &second, 1, "x".into()).unwrap();
    let taken = bucket.finish_parts(&key, &second, std::slice::from_ref(&part), true);
    assert!(matches!(taken, Err(S3Error::Precondition { .. })));
    bucket.abort_parts(&key, &second).unwrap();
    bucket.abort_parts(&key, &second).unwrap();
    assert_eq!(bucket.unfinished(&folder).unwrap(), []);
}

#[test]
fn who_may_not_is_told_why() {
    let Some(service) = S3Service::get() else { return };
    let place = service.new_place();
    let bucket = |config| Bucket::new(config, place.bucket()).unwrap();
    let reader = bucket(service.reader_config());
    assert!(reader.check().is_ok());
    let error = reader.add(&format!("{}x", place.folder()), "x".into()).unwrap_err();
    assert!(matches!(error, S3Error::Forbidden { .. }), "{error}");
    let mut config = service.config();
    config.credentials.secret_access_key.push('x');
    let error = bucket(config).check().unwrap_err();
    assert!(
        matches!(error, S3Error::Keys { .. }) && error.to_string().contains("AWS_SECRET_ACCESS_KEY"),
        "{error}"
    );
    let mut config = service.config();
    config.credentials.access_key_id.push('x');
    assert!(matches!(bucket(config).check(), Err(S3Error::Keys { .. })));
    let error = service.bucket("no-such-bucket").check().unwrap_err();
    assert!(
        matches!(error, S3Error::NoBucket { .. }) && error.to_string().contains("make it first"),
        "{error}"
    );
    let error = service.bucket("no-such-bucket").add("x", "x".into()).unwrap_err();
    assert!(matches!(error, S3Error::NoBucket { .. } | S3Error::Forbidden { .. }), "{error}");
}
