//! Uploaded logs that a power cut took, where logs are files.

use ct_model::{LogHash, ObjectKey};
use ct_store::{Actor, Expected, Store, StoreError, UploadOf};

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn put(store: &Store, name: &str, bytes: &[u8]) {
    store.put_object(&key(name), bytes.len() as u64, &mut &*bytes, &Actor::local()).unwrap();
}

/// What a power cut may do to a log that nobody waited for: it is short, has a hole, or is not there.
#[test]
fn a_log_whose_bytes_were_lost_is_not_claimed() {
    let folder = tempfile::tempdir().unwrap();
    let first = Store::open(folder.path()).unwrap();
    let damages: [fn(&std::path::Path); 3] = [
        |path| std::fs::File::options().write(true).open(path).unwrap().set_len(1_000_000).unwrap(),
        |path| {
            let mut bytes = std::fs::read(path).unwrap();
            bytes[1_000_000..2_000_000].fill(0);
            std::fs::write(path, bytes).unwrap();
        },
        |path| std::fs::remove_file(path).unwrap(),
    ];
    for (number, damage) in (1..).zip(damages) {
        let (log, name) = (vec![number; 3_000_000], format!("{number}.eval"));
        put(&first, &name, &log);
        let object = first.object(&key(&name)).unwrap().unwrap();
        // As it is, another process has it too, and then again without reading it.
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.object(&key(&name)).unwrap(), Some(object.clone()));
        damage(&store.log_path(&object.log).unwrap());
        assert!(store.object(&key(&name)).unwrap().is_some());

        let store = Store::open(folder.path()).unwrap();
        assert!(store.check_key_is_free(&key(&name)).is_ok(), "it is in nobody's way");
        assert_eq!(store.object(&key(&name)).unwrap(), None);
        // It can be uploaded again, into the place of what is left of it.
        put(&store, &name, &log);
        assert!(std::fs::read(store.log_path(&object.log).unwrap()).unwrap() == log);
        assert!(store.check(false, &mut |_| ()).unwrap().findings.is_empty());
    }
}

#[test]
fn a_completed_upload_whose_log_was_lost_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let first = Store::open(folder.path()).unwrap();
    let ann = Actor::local();
    let of = UploadOf::Unnamed("some log".to_owned());
    let hash: LogHash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".parse().unwrap();
    let named = Expected::Hash(hash, Some(key("a.eval")));
    let upload = |store: &Store| {
        let begun = store.begin_upload(&of, 3, &ann).unwrap();
        store.put_part(&begun.upload_id, 0, None, None, &mut b"abc".as_slice(), &ann).unwrap();
        (store.complete_upload(&begun.upload_id, &named, &ann).unwrap(), begun)
    };
    let (object, begun) = upload(&first);
    assert!(!begun.same_size && first.begin_upload(&of, 3, &ann).unwrap().same_size);
    std::fs::write(first.log_path(&object.log).unwrap(), b"ab").unwrap();
    let store = Store::open(folder.path()).unwrap();
    let again = store.complete_upload(&begun.upload_id, &named, &ann);
    assert!(matches!(again, Err(StoreError::NotFound { .. })), "{again:?}");
    assert_eq!(upload(&store).0, object);
}
