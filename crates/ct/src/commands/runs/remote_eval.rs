//! A log that lies with a server, into a file. What a killed download left is gone on with: its name holds what the log
//! is known by, so that the beginning of one log is never taken for that of another.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ct_client::{Downloaded, LogPlace, RemoteLog};
use ct_model::{LogHash, RunId};
use ct_s3::S3Address;

use super::bucket;
use super::download_eval::{DownloadEvalArgs, hash_of, print};
use crate::commands::{Context, target};
use crate::error::CliError;
use crate::home::{Run, fetch, part_name};
use crate::output::{self, Format, Printer, Progress};
use crate::pipeline::partial;

/// Writes the log, as `download-eval` does.
pub(super) fn download(
    arguments: &DownloadEvalArgs,
    printer: &Printer,
    log: &Arc<RemoteLog>,
    run: Option<&RunId>,
    known: Option<&Run>,
    told: Option<&LogHash>,
) -> Result<(), CliError> {
    let hash = known.and_then(|known| known.log.as_ref()).map(|log| &log.hash).or(told).or(log.sha256());
    let progress = printer.progress();
    if arguments.output.as_deref() == Some(Path::new("-")) {
        if printer.to_terminal() {
            return Err(CliError::usage("an eval log is not for a terminal").hint("name a file with -o FILE"));
        }
        progress.bytes("downloading", log.length().unwrap_or_default());
        let mut stdout = printer.stdout();
        let written = log.write_to(&mut stdout, hash, &|n| progress.advance(n));
        progress.clear();
        return match written {
            Err(ct_client::ClientError::Io { source, .. }) => Err(CliError::stdout(&source)),
            Err(error) => Err(error.into()),
            Ok(_) => stdout.flush().map_err(|error| CliError::stdout(&error)),
        };
    }
    let name = file_name(log, run, known);
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from(&name));
    let path = if path.is_dir() { path.join(&name) } else { path };
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return Err(CliError::conflict(format!("{} is there and is no regular file", path.display()))
            .hint("for standard output give: -o -"));
    }
    if path.exists() {
        let there = hash_of(&path)?;
        if is_same(&path, &there, log, run, hash) {
            if arguments.format == Format::Table {
                printer.note("the file has these bytes already");
            }
            let size_bytes = path.metadata().map_err(|error| CliError::io("read", &path, &error))?.len();
            return print(printer, arguments.format, run, (size_bytes, &there), &path, false);
        }
        if !arguments.overwrite {
            return Err(CliError::conflict(format!("{} holds something else", path.display()))
                .hint("write over it with --overwrite, or name another file with -o FILE"));
        }
    }
    let written = write(log, hash, &path, arguments.overwrite, &progress);
    progress.clear();
    let written = written?;
    if arguments.format == Format::Table {
        printer.note(&format!("{}, sha256 {}", output::bytes(written.size_bytes), written.hash));
    }
    print(printer, arguments.format, run, (written.size_bytes, &written.hash), &path, true)
}

/// A log that was fetched to be read here.
pub(crate) struct Fetched {
    pub(crate) path: PathBuf,
    _folder: partial::TemporaryFolder,
}

impl Fetched {
    /// A file that is yet to be written, with a name as a server gave it.
    pub(super) fn new(name: &str) -> Result<Self, CliError> {
        let parent = std::env::temp_dir();
        let folder = partial::TemporaryFolder::new_in(&parent)
            .map_err(|error| CliError::io("make a temporary folder in", &parent, &error))?;
        Ok(Self { path: folder.path().join(safe_name(name)), _folder: folder })
    }
}

/// Fetches the log that an address names; none for a path.
pub(crate) fn fetched(
    source: &Path,
    context: &Context,
    progress: &Progress,
) -> Result<Option<Fetched>, CliError> {
    if let Some(address) = source.to_str().filter(|text| S3Address::is_one(text)) {
        let (log, hash) = bucket::open(&address.parse()?, context)?;
        return fetch_to_temporary(&log, hash.as_ref(), progress).map(Some);
    }
    let Some(address) = source.to_str().filter(|text| target::is_address(text)) else { return Ok(None) };
    if !target::is_log_address(address) && target::Target::parse(address).is_ok() {
        return Err(CliError::usage(format!("{address} is a page of a viewer, and a log is needed"))
            .hint("fetch a run of another server with: ct runs pull URL"));
    }
    let log = RemoteLog::open(LogPlace::address(address)?)?;
    fetch_to_temporary(&log, log.sha256(), progress).map(Some)
}

fn fetch_to_temporary(
    log: &Arc<RemoteLog>,
    hash: Option<&LogHash>,
    progress: &Progress,
) -> Result<Fetched, CliError> {
    let fetched = Fetched::new(&file_name(log, None, None))?;
    fetch(log, &fetched.path, hash, Some(progress))?;
    Ok(fetched)
}

/// What a file of this log is called.
fn file_name(log: &RemoteLog, run: Option<&RunId>, known: Option<&Run>) -> String {
    if let (Some(run), Some(known)) = (run, known) {
        return format!("{run}.{}", known.record.log.format.as_str());
    }
    let address = log.shown();
    safe_name(address.rsplit('/').next().unwrap_or_default())
}

/// A name that others gave, for a file here.
fn safe_name(name: &str) -> String {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '%');
    let name: String = name.chars().map(|c| if good(c) { c } else { '_' }).collect();
    let name = name.trim_start_matches('.').to_owned();
    if name.is_empty() { "log.eval".to_owned() } else { name }
}

/// Whether a file is this log, as far as can be told without fetching it.
fn is_same(
    path: &Path,
    there: &LogHash,
    log: &RemoteLog,
    run: Option<&RunId>,
    hash: Option<&LogHash>,
) -> bool {
    if let Some(hash) = hash {
        return hash == there;
    }
    // Runs made of logs are named by the beginning of the log's hash.
    let named = run.is_some_and(|run| there.as_str().get(..32) == Some(run.as_str()));
    named && path.metadata().is_ok_and(|found| log.length() == Some(found.len()))
}

fn write(
    log: &Arc<RemoteLog>,
    hash: Option<&LogHash>,
    path: &Path,
    overwrite: bool,
    progress: &Progress,
) -> Result<Downloaded, CliError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let failed = |error: &io::Error| CliError::io("write", path, error);
    fs::create_dir_all(folder).map_err(|error| CliError::io("make the folder", folder, &error))?;
    let part = part_name(log, hash).map(|name| folder.join(format!(".ct-{name}.part")));
    let locked = part.as_ref().and_then(|part| {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(part).ok()?;
        file.try_lock().ok()?;
        // Another process may have taken it away between the two.
        part.exists().then_some(file)
    });
    if let (Some(part), Some(_lock)) = (&part, &locked) {
        let done = fetch(log, part, hash, Some(progress))?;
        File::open(part).and_then(|file| file.sync_all()).map_err(|error| failed(&error))?;
        let placed = if overwrite { fs::rename(part, path) } else { fs::hard_link(part, path) };
        match placed {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if hash_of(path)? != done.hash {
                    return Err(CliError::conflict(format!("{} holds something else", path.display())));
                }
            }
            // Some file systems have no links.
            Err(_) if !overwrite && !path.exists() => {
                fs::rename(part, path).map_err(|error| failed(&error))?
            }
            Err(error) => return Err(failed(&error)),
        }
        let _ = fs::remove_file(part);
        return Ok(done);
    }
    // Nothing to know it by again, or another process is at it.
    let file = partial::file_in(folder).map_err(|error| CliError::io("write in", folder, &error))?;
    let done = fetch(log, file.path(), hash, Some(progress))?;
    file.as_file().sync_all().map_err(|error| failed(&error))?;
    let persisted = if overwrite { file.persist(path) } else { file.persist_noclobber(path) };
    match persisted {
        Ok(_) => Ok(done),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists && hash_of(path)? == done.hash => {
            Ok(done)
        }
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(CliError::conflict(format!("{} holds something else", path.display())))
        }
        Err(error) => Err(failed(&error.error)),
    }
}
