//! Logs that clients put into the bucket themselves, by signed addresses: whole, under the name of their run, or in
//! parts. They lie apart until their bytes were hashed, by the bucket's own checksum or by reading them once; then the
//! bucket copies them to where the log of that hash lies. Nothing refers to them before that.
//!
//! A process that is killed in between leaves an object that the next attempt goes on with, or that is collected.

use std::collections::HashSet;
use std::time::Duration;

use ct_model::{LogHash, LogRef, ObjectKey};
use ct_s3::{Head, Part, PartSizes, Presigned, S3Error};
use jiff::SignedDuration;

use super::FilesLock;
use super::uploads::{OBJECT_KEPT, UPLOAD_KEPT, not_found};
use crate::actor::Actor;
use crate::blob::{FoundFile, LogBucket, LogKey, Place};
use crate::error::{Conflict, Result, StoreError};
use crate::hashing::{Hashes, copy_hashed};
use crate::record::{DirectPart, DirectUpload, LogTag, StoredObject};
use crate::store::Store;

/// Logs that were put whole, by the name of their run.
const INCOMING: &str = "incoming/";
/// Logs that came in parts, by the id of their upload.
const UPLOADS: &str = "uploads/";
/// Missing ranges that are told.
const MISSING_MAX: usize = 100;
/// Addresses of parts that are made at a time.
const ADDRESSES_MAX: usize = 1000;

impl Store {
    /// The address of a log in the bucket, to read it for a time under this file name; absent where logs are files.
    pub fn presign_log(
        &self,
        log: &LogRef,
        file_name: &str,
        valid_for: Duration,
    ) -> Result<Option<Presigned>> {
        let Some(bucket) = self.logs().bucket() else { return Ok(None) };
        let key = bucket.key(&log.into());
        Ok(Some(bucket.bucket()?.presign_get(&key, file_name, valid_for)?))
    }

    /// The address to put a log of this key and length at, which adds and never replaces; absent where logs are files.
    pub fn presign_object(
        &self,
        key: &ObjectKey,
        size_bytes: u64,
        valid_for: Duration,
    ) -> Result<Option<Presigned>> {
        let Some(bucket) = self.logs().bucket() else { return Ok(None) };
        bucket.be_ours()?;
        let object = format!("{}{INCOMING}{key}", bucket.prefix());
        Ok(Some(bucket.bucket()?.presign_add(&object, size_bytes, None, valid_for)?))
    }

    /// As [`Store::object`], but a log that was put into the bucket meanwhile is taken in first.
    pub fn arrived_object(&self, key: &ObjectKey, actor: &Actor) -> Result<Option<StoredObject>> {
        if let Some(object) = self.object(key)? {
            return Ok(Some(object));
        }
        let Some(bucket) = self.logs().bucket() else { return Ok(None) };
        if self.meta().run_is_deleted(&key.run)? == Some(true) {
            return Ok(None);
        }
        let incoming = format!("{}{INCOMING}{key}", bucket.prefix());
        let Some(head) = bucket.head(&incoming)? else { return Ok(None) };
        let hash = hash_object(bucket, &incoming, &head)?;
        let log = LogRef { hash, size_bytes: head.size_bytes, format: key.format };
        let _lock = FilesLock::shared(self.data_dir())?;
        let tag = self.take_in(bucket, &incoming, &head, &log)?;
        let object = StoredObject { key: key.clone(), log, md5: None, tag };
        match self.meta().add_object(&object, actor, self.now()) {
            Ok(()) => {}
            // Someone else took it in at the same time.
            Err(StoreError::Conflict(Conflict::ObjectTaken { .. })) => return self.object(key),
            Err(error) => return Err(error),
        }
        bucket.bucket()?.remove(&incoming)?;
        Ok(Some(object))
    }

    /// How an upload goes to the bucket, and which parts are there; absent where logs are files.
    pub fn direct_upload(&self, id: &str, actor: &Actor) -> Result<Option<DirectUpload>> {
        let Some(bucket) = self.logs().bucket() else { return Ok(None) };
        if self.meta().upload(id)?.is_none_or(|row| row.hash.is_some()) {
            return Ok(None);
        }
        let sizes = PartSizes::of(self.open_upload_size(id, actor)?);
        let key = upload_key(bucket, id);
        let upload = self.bucket_upload(bucket, id)?;
        let parts = match bucket.bucket()?.parts(&key, &upload) {
            Ok(parts) => parts,
            // It became an object already, whose bytes are still to be looked at.
            Err(S3Error::NoUpload { .. }) if bucket.head(&key)?.is_some() => {
                (1..=sizes.count()).map(|number| whole_part(sizes, number)).collect()
            }
            Err(S3Error::NoUpload { .. }) => {
                self.meta().forget_upload_object(id)?;
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        let parts = parts.into_iter().map(|part| direct_part(sizes, part.number, Some(part.e_tag)));
        Ok(Some(DirectUpload { part_bytes: sizes.part_bytes, parts: parts.collect() }))
    }

    /// The addresses to put parts of an upload at, by their numbers from 1 on.
    pub fn presign_parts(
        &self,
        id: &str,
        numbers: &[u64],
        valid_for: Duration,
        actor: &Actor,
    ) -> Result<Vec<(DirectPart, Presigned)>> {
        let Some(bucket) = self.logs().bucket() else {
            return Err(StoreError::invalid("parts are put to this server itself"));
        };
        let sizes = PartSizes::of(self.open_upload_size(id, actor)?);
        if numbers.len() > ADDRESSES_MAX {
            return Err(StoreError::invalid(format!("at most {ADDRESSES_MAX} parts at a time")));
        }
        let upload = self.bucket_upload(bucket, id)?;
        let key = upload_key(bucket, id);
        let mut addresses = Vec::with_capacity(numbers.len());
        for &number in numbers {
            if number == 0 || number > sizes.count() {
                return Err(StoreError::invalid(format!("part {number}: there are {} parts", sizes.count())));
            }
            let part = direct_part(sizes, number, None);
            let address = bucket.bucket()?.presign_part(&key, &upload, number, part.size_bytes, valid_for)?;
            addresses.push((part, address));
        }
        self.meta().touch_upload(id, self.now())?;
        Ok(addresses)
    }

    /// Whether an upload has parts in the bucket, or is an object there already.
    pub(super) fn is_direct(&self, id: &str) -> Result<bool> {
        Ok(self.logs().bucket().is_some() && self.meta().upload_object(id)?.is_some())
    }

    /// Makes a log of the parts in the bucket. The caller looked at whose the upload is.
    pub(super) fn complete_direct(
        &self,
        id: &str,
        key: &ObjectKey,
        size_bytes: u64,
        hash: &LogHash,
        actor: &Actor,
    ) -> Result<StoredObject> {
        let Some(bucket) = self.logs().bucket() else { return Err(not_found(id)) };
        let object_key = upload_key(bucket, id);
        let sizes = PartSizes::of(size_bytes);
        let head = match bucket.head(&object_key)? {
            Some(head) => head,
            None => {
                let upload = self.bucket_upload(bucket, id)?;
                let parts = match bucket.bucket()?.parts(&object_key, &upload) {
                    Err(S3Error::NoUpload { .. }) => {
                        self.meta().forget_upload_object(id)?;
                        Vec::new()
                    }
                    parts => parts?,
                };
                let parts = whole_parts(sizes, parts)?;
                match bucket.bucket()?.finish_parts(&object_key, &upload, &parts, false) {
                    // Done before, and the answer was lost.
                    Ok(_) | Err(S3Error::NoUpload { .. } | S3Error::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                bucket.head(&object_key)?.ok_or_else(|| not_found(id))?
            }
        };
        let found = hash_object(bucket, &object_key, &head)?;
        if found != *hash || head.size_bytes != size_bytes {
            let (what, expected) = (format!("log {key}"), hash.clone());
            return Err(StoreError::HashDiffers { what, expected, found });
        }
        let log = LogRef { hash: found, size_bytes, format: key.format };
        let _lock = FilesLock::shared(self.data_dir())?;
        self.meta().check_key_is_free(key)?;
        let tag = self.take_in(bucket, &object_key, &head, &log)?;
        let object = StoredObject { key: key.clone(), log, md5: None, tag };
        self.meta().complete_upload(id, &object, actor, self.now())?;
        self.meta().forget_upload_object(id)?;
        bucket.bucket()?.remove(&object_key)?;
        Ok(object)
    }

    /// Gives up what the bucket has of an upload.
    pub(super) fn drop_direct(&self, id: &str) -> Result<()> {
        let Some(bucket) = self.logs().bucket() else { return Ok(()) };
        let key = upload_key(bucket, id);
        if let Some(upload) = self.meta().upload_object(id)? {
            bucket.bucket()?.abort_parts(&key, &upload)?;
            self.meta().forget_upload_object(id)?;
        }
        Ok(bucket.bucket()?.remove(&key)?)
    }

    /// The length of an upload of this user that is not complete.
    fn open_upload_size(&self, id: &str, actor: &Actor) -> Result<u64> {
        let row = self.meta().upload(id)?;
        let row = row.filter(|row| row.created_by == actor.user && row.hash.is_none());
        Ok(row.ok_or_else(|| not_found(id))?.size_bytes)
    }

    /// What the bucket calls an upload; it is begun there when it was not.
    fn bucket_upload(&self, bucket: &LogBucket, id: &str) -> Result<String> {
        if let Some(upload) = self.meta().upload_object(id)? {
            return Ok(upload);
        }
        bucket.be_ours()?;
        // A collection gives up what it does not know.
        let _lock = FilesLock::shared(self.data_dir())?;
        let key = upload_key(bucket, id);
        let begun = bucket.bucket()?.begin_parts(&key)?;
        let kept = self.meta().set_upload_object(id, &begun)?;
        if kept != begun {
            bucket.bucket()?.abort_parts(&key, &begun)?;
        }
        Ok(kept)
    }

    /// Makes an object that has these bytes the stored log. The lock on the files has to be held.
    fn take_in(&self, bucket: &LogBucket, from: &str, head: &Head, log: &LogRef) -> Result<LogTag> {
        bucket.be_ours()?;
        let key = LogKey::from(log);
        let known = self.meta().log_tag(&key)?;
        if !bucket.is_whole(log, known.as_ref())? {
            let e_tag = head.tag.e_tag.as_deref();
            bucket.bucket()?.copy_whole(from, &bucket.key(&key), log.size_bytes, e_tag)?;
        }
        let there = bucket.head(&bucket.key(&key))?.filter(|there| there.size_bytes == log.size_bytes);
        let Some(there) = there else {
            let detail = "the bucket copied it to something else".to_owned();
            return Err(StoreError::Corrupt { what: bucket.address(&key), detail });
        };
        let tag = crate::blob::tag(&there);
        self.meta().set_log_tag(&key, &tag)?;
        Ok(tag)
    }
}

fn upload_key(bucket: &LogBucket, id: &str) -> String {
    format!("{}{UPLOADS}{id}", bucket.prefix())
}

fn whole_part(sizes: PartSizes, number: u64) -> Part {
    let (start, end) = sizes.range(number);
    Part { number, size_bytes: end - start, e_tag: String::new() }
}

fn direct_part(sizes: PartSizes, number: u64, e_tag: Option<String>) -> DirectPart {
    let (start, end) = sizes.range(number);
    DirectPart { number, start, size_bytes: end - start, e_tag: e_tag.filter(|tag| !tag.is_empty()) }
}

/// The parts of a whole object, or which bytes are missing.
fn whole_parts(sizes: PartSizes, parts: Vec<Part>) -> Result<Vec<Part>> {
    let good = |part: &Part| {
        let (start, end) = sizes.range(part.number);
        (1..=sizes.count()).contains(&part.number) && part.size_bytes == end - start
    };
    let parts: Vec<Part> = parts.into_iter().filter(good).collect();
    let there: HashSet<u64> = parts.iter().map(|part| part.number).collect();
    let missing = (1..=sizes.count()).filter(|number| !there.contains(number));
    let missing: Vec<_> = missing.map(|number| sizes.range(number)).take(MISSING_MAX).collect();
    if missing.is_empty() { Ok(parts) } else { Err(Conflict::UploadIncomplete { missing }.into()) }
}

/// The SHA-256 of an object: as the service checked it, else by reading it once.
fn hash_object(bucket: &LogBucket, key: &str, head: &Head) -> Result<LogHash> {
    if let Some(sum) = head.sha256 {
        return Ok(LogHash::from_bytes(sum));
    }
    let source = std::sync::Arc::new(bucket.bucket()?.open(key, Some(head.size_bytes))?);
    let mut reader = source.read_all();
    let hashed = copy_hashed(&mut reader, Hashes { sha256: true, md5: false }, |_| Ok(()));
    let hashed = hashed.map_err(|error| match error {
        StoreError::Source { source } => match source.downcast::<S3Error>() {
            Ok(error) => error.into(),
            Err(source) => StoreError::Source { source },
        },
        error => error,
    })?;
    // It was the same object from beginning to end.
    if source.e_tag() != head.tag.e_tag {
        return Err(StoreError::Busy { what: "someone puts another log under this name" });
    }
    Ok(hashed.sha256.expect("asked for above"))
}

/// What uploads left in the bucket: parts and objects of uploads that are not there any more, or are `gone`, and logs
/// that were put whole and never registered.
pub(super) fn leftovers(store: &Store, gone: &[String]) -> Result<Vec<FoundFile>> {
    let Some(bucket) = store.logs().bucket() else { return Ok(Vec::new()) };
    let uploads = store.meta().upload_objects()?;
    let alive = uploads.iter().filter(|(id, _)| !gone.contains(id));
    let (ids, bucket_ids): (HashSet<&str>, HashSet<&str>) =
        alive.map(|(id, bucket_id)| (id.as_str(), bucket_id.as_str())).unzip();
    let mut found = bucket.unfinished(&|id| bucket_ids.contains(id))?;
    for file in bucket.list_below(UPLOADS)? {
        let Place::Object(key, _) = &file.place else { continue };
        if !ids.contains(key.rsplit('/').next().unwrap_or_default()) {
            found.push(file);
        }
    }
    let kept: SignedDuration = OBJECT_KEPT.min(UPLOAD_KEPT);
    let before = store.now().checked_sub(kept).unwrap_or(jiff::Timestamp::MIN);
    found.extend(bucket.list_older(INCOMING, before)?);
    Ok(found)
}
