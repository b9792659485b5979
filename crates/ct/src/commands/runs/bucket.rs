//! Logs in a bucket, for who has keys to it: listed, looked into by ranges, and fetched by an address signed for that.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ct_client::{LogPlace, RemoteLog};
use ct_log::source::Source as _;
use ct_log::{Limits, Log, LogError};
use ct_model::LogHash;
use ct_s3::{Bucket, Listed, ObjectSource, S3Address, S3Error};

use super::remote_eval::Fetched;
use super::sources::Source;
use crate::commands::Context;
use crate::error::CliError;
use crate::output::Progress;

/// Headers read at a time.
const READERS: usize = 16;
/// Logs up to this are read whole for their header: one request, where a larger one takes three.
const SMALL_BYTES: u64 = 256 << 10;
/// Bytes of a log that are held while it is fetched.
const PIECE_BYTES: usize = 128 << 10;
/// How long the address of a log is good: the fetching of a large one takes hours.
const SIGNED_FOR: Duration = Duration::from_secs(12 * 3600);

/// A log in a bucket, to be fetched, and its hash where the service tells it.
pub(super) fn open(
    address: &S3Address,
    context: &Context,
) -> Result<(Arc<RemoteLog>, Option<LogHash>), CliError> {
    let bucket = Bucket::new(context.config.s3()?, address.bucket())?;
    let missing = || S3Error::NotFound { bucket: address.bucket().to_owned(), key: address.key().to_owned() };
    let head = bucket.head(address.key())?.ok_or_else(missing)?;
    let name = address.key().rsplit('/').next().unwrap_or_default();
    let signed = bucket.presign_get(address.key(), name, SIGNED_FOR)?;
    let log = RemoteLog::open(LogPlace::address(signed.url.as_str())?)?;
    Ok((log, head.sha256.map(LogHash::from_bytes)))
}

/// The logs below an address, in the order of their keys. Their headers are read, many at a time, so that what is no
/// log is known before anything is fetched.
pub(super) fn find(address: &S3Address, context: &Context) -> Result<Vec<Source>, CliError> {
    let source = |key: &str| PathBuf::from(address.with_key(key).to_string());
    if is_log_name(address.key()) {
        return Ok(vec![Source { path: source(address.key()), trouble: None, object: None }]);
    }
    let bucket = Bucket::new(context.config.s3()?, address.bucket())?;
    let listed: Result<Vec<Listed>, S3Error> = bucket.list(address.key()).collect();
    let logs: Vec<Listed> = listed?.into_iter().filter(|listed| is_log_name(&listed.key)).collect();
    if logs.is_empty() {
        return Err(CliError::not_found(format!("no eval logs in {address}"))
            .hint("logs are objects whose keys end in .eval or .json"));
    }
    let progress = context.printer.progress();
    progress.items("reading headers", logs.len() as u64);
    let next = Mutex::new(logs.iter().enumerate());
    let found = Mutex::new(Vec::with_capacity(logs.len()));
    std::thread::scope(|scope| {
        for _ in 0..READERS.min(logs.len()) {
            scope.spawn(|| {
                loop {
                    let log = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((number, listed)) = log else { return };
                    let object = look(&bucket, listed);
                    progress.advance(1);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((number, listed, object));
                }
            });
        }
    });
    progress.clear();
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, ..)| *number);
    let mut sources = Vec::with_capacity(found.len());
    for (_, listed, object) in found {
        let path = source(&listed.key);
        let (object, trouble) = match object {
            Ok(object) => (Some(object), None),
            // JSON files of other programs lie beside logs.
            Err(error) if listed.key.ends_with(".json") && !matches!(error, LogError::Io(_)) => {
                context.printer.detail(&format!("left out {}: not an eval log ({error})", path.display()));
                continue;
            }
            Err(error) => (None, Some(CliError::log(&path, &error))),
        };
        sources.push(Source { path, trouble, object });
    }
    Ok(sources)
}

/// An object whose header could be read. Whatever is read of it later is of the same bytes.
fn look(bucket: &Bucket, listed: &Listed) -> Result<Arc<ObjectSource>, LogError> {
    let object = bucket.open(&listed.key, Some(listed.size_bytes)).map_err(S3Error::into_io)?;
    let object = Arc::new(object);
    let log = if listed.size_bytes <= SMALL_BYTES {
        let mut bytes = Vec::new();
        object.read_all().read_to_end(&mut bytes)?;
        Log::from_source(Arc::new(bytes), Limits::default())?
    } else {
        Log::from_source(Arc::clone(&object) as _, Limits::default())?
    };
    log.header()?;
    Ok(object)
}

/// Fetches a log that was found, to be read here.
pub(super) fn fetch(object: &Arc<ObjectSource>, progress: Option<&Progress>) -> Result<Fetched, CliError> {
    if let Some(progress) = progress {
        progress.bytes("downloading", object.size_bytes());
    }
    let fetched = Fetched::new(object.key().rsplit('/').next().unwrap_or_default())?;
    let failed = |error: &io::Error| CliError::io("write", &fetched.path, error);
    let mut file = File::create_new(&fetched.path).map_err(|error| failed(&error))?;
    let (mut reader, mut piece) = (object.read_all(), vec![0; PIECE_BYTES]);
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(fetched),
            Ok(n) => {
                file.write_all(&piece[..n]).map_err(|error| failed(&error))?;
                if let Some(progress) = progress {
                    progress.advance(n as u64);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(match error.downcast::<S3Error>() {
                    Ok(error) => error.into(),
                    Err(error) => CliError::io("read", &fetched.path, &error),
                });
            }
        }
    }
}

fn is_log_name(key: &str) -> bool {
    key.ends_with(".eval") || key.ends_with(".json")
}
