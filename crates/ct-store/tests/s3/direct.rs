//! Logs that clients put into the bucket themselves.

use std::sync::Arc;
use std::time::Duration;

use ct_model::{LogHash, ObjectKey};
use ct_s3::Presigned;
use ct_store::{Actor, Conflict, Expected, GcOptions, LogPlace, Store, StoreError, UploadOf};
use ct_test::S3Service;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

const MINUTE: Duration = Duration::from_secs(60);

struct Home {
    service: &'static S3Service,
    place: ct_s3::S3Address,
    folder: TempDir,
    store: Store,
}

impl Home {
    fn new() -> Option<Self> {
        let service = S3Service::get()?;
        let (place, folder) = (service.new_place(), TempDir::new().unwrap());
        let logs = LogPlace::Bucket(Box::new(service.config()), place.clone());
        let store = Store::open_at(folder.path(), Arc::new(Timestamp::now), logs).unwrap();
        Some(Self { service, place, folder, store })
    }

    fn again(&self) -> Store {
        let logs = LogPlace::Bucket(Box::new(self.service.config()), self.place.clone());
        Store::open_at(self.folder.path(), Arc::new(Timestamp::now), logs).unwrap()
    }

    /// What lies in the bucket apart from logs and the mark of the store.
    fn apart(&self) -> Vec<String> {
        let folder = self.place.folder();
        let keys = self.service.logs().list(&folder).map(|listed| listed.unwrap().key);
        let names = keys.map(|key| key[folder.len()..].to_owned());
        names.filter(|name| !name.starts_with("logs/") && name != "ct-store").collect()
    }
}

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn hash(bytes: &[u8]) -> LogHash {
    LogHash::from_bytes(Sha256::digest(bytes).into())
}

fn put(signed: &Presigned, bytes: &[u8]) -> u16 {
    let client = reqwest::blocking::Client::new();
    let mut request = client.put(signed.url.clone()).body(bytes.to_vec());
    for (name, value) in signed.headers.iter().filter(|(name, _)| name != "content-length") {
        request = request.header(name, value);
    }
    request.send().unwrap().status().as_u16()
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 7 % 251) as u8).collect()
}

#[test]
fn a_log_that_was_put_whole_is_taken_in_when_it_is_asked_for() {
    let Some(home) = Home::new() else { return };
    let (key, ann) = (key("a.eval"), Actor { user: Some("ann".to_owned()), ..Actor::local() });
    let data = bytes(1000);
    let signed = home.store.presign_object(&key, 1000, MINUTE).unwrap().unwrap();
    assert_eq!(home.store.arrived_object(&key, &ann).unwrap(), None);
    assert_eq!(put(&signed, &data), 200);
    assert_eq!(put(&signed, &bytes(1001)[1..]), 412, "nothing is put over it");
    // Nobody knows of it yet, and a collection leaves it alone for a day.
    assert_eq!(home.store.object(&key).unwrap(), None);
    let options = GcOptions { dry_run: false, purge_deleted_before: None };
    assert_eq!(home.store.gc(options).unwrap().items, []);
    let object = home.again().arrived_object(&key, &ann).unwrap().unwrap();
    assert_eq!((&object.log.hash, object.log.size_bytes), (&hash(&data), 1000));
    assert!(object.tag.e_tag.is_some());
    assert_eq!(home.store.object(&key).unwrap(), Some(object.clone()));
    assert_eq!(home.store.arrived_object(&key, &ann).unwrap(), Some(object));
    assert_eq!(home.apart(), Vec::<String>::new());
    assert_eq!(home.store.check(false, &mut |_| ()).unwrap().findings, []);
}

#[test]
fn a_log_comes_in_parts_over_several_processes() {
    let Some(home) = Home::new() else { return };
    let ann = Actor::local();
    let data = bytes((17 << 20) + 5);
    let id = begin(&home.store, "b.eval", data.len(), &ann);
    let direct = home.store.direct_upload(&id, &ann).unwrap().unwrap();
    assert_eq!((direct.part_bytes, direct.parts.len()), (8 << 20, 0));
    let send = |store: &Store, numbers: &[u64]| {
        for (part, signed) in store.presign_parts(&id, numbers, MINUTE, &ann).unwrap() {
            let start = usize::try_from(part.start).unwrap();
            let piece = &data[start..start + usize::try_from(part.size_bytes).unwrap()];
            assert_eq!(put(&signed, piece), 200);
        }
    };
    send(&home.store, &[3, 1]);
    // Another process learns of them from the bucket alone.
    let again = home.again();
    let direct = again.direct_upload(&id, &ann).unwrap().unwrap();
    assert_eq!(direct.parts.iter().map(|part| part.number).collect::<Vec<_>>(), [1, 3]);
    assert!(direct.parts.iter().all(|part| part.e_tag.is_some()));
    let missing = complete(&again, &id, &hash(&data), &ann);
    let Err(StoreError::Conflict(Conflict::UploadIncomplete { missing })) = missing else {
        panic!("{missing:?}")
    };
    assert_eq!(missing, [(8 << 20, 16 << 20)]);
    send(&again, &[2]);
    let wrong = complete(&again, &id, &hash(b"other"), &ann);
    assert!(matches!(wrong, Err(StoreError::HashDiffers { .. })), "{wrong:?}");
    // Now it is an object, whose parts are all there; a process that was killed here goes on.
    let parts = home.store.direct_upload(&id, &ann).unwrap().unwrap().parts;
    assert_eq!(parts.iter().map(|part| part.number).collect::<Vec<_>>(), [1, 2, 3]);
    let object = complete(&home.store, &id, &hash(&data), &ann).unwrap();
    assert_eq!((object.key, object.log.hash), (key("b.eval"), hash(&data)));
    assert_eq!(complete(&again, &id, &hash(&data), &ann).unwrap().log.size_bytes, data.len() as u64);
    assert_eq!(home.apart(), Vec::<String>::new());
    assert_eq!(home.service.logs().unfinished(&home.place.folder()).unwrap(), []);
    assert_eq!(home.store.check(false, &mut |_| ()).unwrap().findings, []);
}

#[test]
fn what_is_given_up_or_not_known_goes_from_the_bucket() {
    let Some(home) = Home::new() else { return };
    let ann = Actor::local();
    let unfinished = || home.service.logs().unfinished(&home.place.folder()).unwrap().len();
    let id = begin(&home.store, "c.eval", 9 << 20, &ann);
    home.store.direct_upload(&id, &ann).unwrap();
    let kept = begin(&home.store, "d.eval", 9 << 20, &ann);
    home.store.direct_upload(&kept, &ann).unwrap();
    assert_eq!(unfinished(), 2);
    home.store.drop_upload(&id, &ann).unwrap();
    assert_eq!(unfinished(), 1);
    // What a killed process began, and what it finished without anybody knowing.
    let bucket = home.service.logs();
    bucket.begin_parts(&format!("{}logs/ab/x", home.place.folder())).unwrap();
    bucket.add(&format!("{}uploads/nobody", home.place.folder()), "bytes".into()).unwrap();
    let options = GcOptions { dry_run: true, purge_deleted_before: None };
    assert_eq!(home.store.gc(options).unwrap().items.len(), 2);
    assert_eq!(home.store.gc(GcOptions { dry_run: false, ..options }).unwrap().items.len(), 2);
    assert_eq!((unfinished(), home.apart().len()), (1, 0));
    assert!(home.store.direct_upload(&kept, &ann).unwrap().is_some());
}

#[test]
fn a_place_belongs_to_one_store() {
    let Some(home) = Home::new() else { return };
    let open = |folder: &TempDir, place: &ct_s3::S3Address| {
        let logs = LogPlace::Bucket(Box::new(home.service.config()), place.clone());
        Store::open_at(folder.path(), Arc::new(Timestamp::now), logs)
    };
    let other = TempDir::new().unwrap();
    assert!(matches!(open(&other, &home.place), Err(StoreError::LogsTaken { .. })));
    let elsewhere = home.service.new_place();
    assert!(matches!(open(&home.folder, &elsewhere), Err(StoreError::OtherLogs { .. })));
    assert!(matches!(Store::open(home.folder.path()), Err(StoreError::OtherLogs { .. })));
    assert_eq!(LogPlace::remembered(home.folder.path()).unwrap(), Some(home.place.clone()));
    // A store that has logs of its own does not forget them.
    let local = TempDir::new().unwrap();
    let store = Store::open(local.path()).unwrap();
    store.put_object(&key("x.eval"), 1, &mut &b"x"[..], &Actor::local()).unwrap();
    assert!(matches!(open(&local, &elsewhere), Err(StoreError::OtherLogs { .. })));
}

fn begin(store: &Store, name: &str, size_bytes: usize, actor: &Actor) -> String {
    store.begin_upload(&UploadOf::Key(key(name)), size_bytes as u64, actor).unwrap().upload_id
}

fn complete(
    store: &Store,
    id: &str,
    hash: &LogHash,
    actor: &Actor,
) -> Result<ct_store::StoredObject, StoreError> {
    store.complete_upload(id, &Expected::Hash(hash.clone(), None), actor)
}
