//! `ct runs download-eval`.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ct_client::{LogPlace, RemoteLog};
use ct_log::source::Source;
use ct_model::{LogHash, LogRef, RunId, RunQuery};
use ct_s3::S3Address;
use ct_store::{Conflict, StoreError};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{bucket, remote_eval};
use crate::commands::{Context, target};
use crate::error::{CliError, Kind};
use crate::home::{Home, open_log};
use crate::output::{self, Format, Printer, Progress};
use crate::pipeline::partial;

/// Bytes copied at once.
const BUFFER_BYTES: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  ct runs download-eval 3fa94c1b                     Write <run id>.eval here
  ct runs download-eval 3fa94c1b -o week-48.eval
  ct runs download-eval 3fa94c1b -o - | sha256sum
  ct runs download-eval \"$(ct runs info 3fa94c1b --format json | jq -r .eval_log_url)\"";

/// Write the eval log of a run to a file, byte for byte.
///
/// The hash is checked while it is written. A file that already holds these bytes is left alone.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DownloadEvalArgs {
    /// The run: an id, the beginning of one, its address or that of one of its trajectories, or the address of its eval
    /// log; any http address of a log is taken too, and s3://bucket/key by who has keys
    #[arg(value_name = "RUN|URL")]
    pub(super) run: String,
    /// The file to write, or - for standard output [default: <run id>.eval, or .json, here]
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Write over a file that holds something else
    #[arg(long)]
    pub(super) overwrite: bool,
    /// How to print what was written: table, just the path, or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    pub(super) format: Format,
}

/// Writes the log.
pub(super) fn download_eval(arguments: &DownloadEvalArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    if target::is_log_address(&arguments.run) {
        let log = RemoteLog::open(LogPlace::address(&arguments.run)?)?;
        return remote_eval::download(arguments, printer, &log, None, None, None);
    }
    let found = find_any(arguments, context);
    let (home, run) = match found {
        Ok(found) => found,
        // No run's: then it is read from the bucket, by who has keys to it.
        Err(error) if error.kind() == Kind::NotFound && S3Address::is_one(&arguments.run) => {
            if context.config.s3().is_err() {
                return Err(error);
            }
            let (log, hash) = bucket::open(&arguments.run.parse()?, context)?;
            return remote_eval::download(arguments, printer, &log, None, None, hash.as_ref());
        }
        Err(error) => return Err(error),
    };
    let known = home.run(&run)?;
    if known.record.deleted_at.is_some() {
        return Err(StoreError::from(Conflict::RunDeleted { run }).into());
    }
    let store = match &home {
        Home::Local(store) => store,
        Home::Server(client) => {
            let log = RemoteLog::open(LogPlace::Run(client.clone(), run.clone()))?;
            return remote_eval::download(arguments, printer, &log, Some(&run), Some(&known), None);
        }
    };
    let log = known.record.log;
    let stored = open_log(store, &log)?;
    let progress = printer.progress();
    progress.bytes("downloading", log.size_bytes);
    if arguments.output.as_deref() == Some(Path::new("-")) {
        if printer.to_terminal() {
            return Err(CliError::usage("an eval log is not for a terminal").hint("name a file with -o FILE"));
        }
        let mut stdout = printer.stdout();
        let copied = copy(&log, &stored, &mut stdout, |error| CliError::stdout(&error), &progress)
            .and_then(|()| stdout.flush().map_err(|error| CliError::stdout(&error)));
        progress.clear();
        return copied;
    }
    let path =
        arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{run}.{}", log.format.as_str())));
    let path = if path.is_dir() { path.join(format!("{run}.{}", log.format.as_str())) } else { path };
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        progress.clear();
        return Err(CliError::conflict(format!("{} is there and is no regular file", path.display()))
            .hint("for standard output give: -o -"));
    }
    if path.exists() {
        if hash_of(&path)? == log.hash {
            progress.clear();
            if arguments.format == Format::Table {
                printer.note("the file has these bytes already");
            }
            return print(printer, arguments.format, Some(&run), (log.size_bytes, &log.hash), &path, false);
        }
        if !arguments.overwrite {
            progress.clear();
            return Err(CliError::conflict(format!("{} holds something else", path.display()))
                .hint("write over it with --overwrite, or name another file with -o FILE"));
        }
    }
    let written = write(&log, &stored, &path, arguments.overwrite, &progress);
    progress.clear();
    written?;
    if arguments.format == Format::Table {
        printer.note(&format!("{}, sha256 {}", output::bytes(log.size_bytes), log.hash));
    }
    print(printer, arguments.format, Some(&run), (log.size_bytes, &log.hash), &path, true)
}

pub(super) fn print(
    printer: &Printer,
    format: Format,
    run: Option<&RunId>,
    (size_bytes, hash): (u64, &LogHash),
    path: &Path,
    written: bool,
) -> Result<(), CliError> {
    match format {
        Format::Table => printer.data(&format!("{}\n", output::neutral(&path.display().to_string()))),
        Format::Json => {
            let document = json!({
                "schema_version": 1,
                "run_id": run,
                "path": path.to_string_lossy(),
                "written": written,
                "size_bytes": size_bytes,
                "sha256": hash,
            });
            printer.data(&output::pretty(&document)?)
        }
    }
}

fn find_any(arguments: &DownloadEvalArgs, context: &Context) -> Result<(Home, RunId), CliError> {
    let home = context.home_of(&arguments.run)?;
    let run = find(&home, &arguments.run)?;
    Ok((home, run))
}

/// The run of an id or address, or the one whose log has this address.
fn find(home: &Home, text: &str) -> Result<RunId, CliError> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if !matches!(scheme.as_deref(), Some("file" | "s3")) {
        return target::run_of(home, text);
    }
    // A log's file is named by its hash or by its run: try those before looking at every run.
    let name = text.rsplit('/').next().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let is_its = |run: &RunId| -> Result<bool, CliError> {
        Ok(home.log_url(&home.run(run)?.record).is_some_and(|url| url == text))
    };
    for prefix in [stem, stem.get(..32).unwrap_or_default()] {
        if let Ok(run) = home.resolve_run(prefix, true)
            && is_its(&run)?
        {
            return Ok(run);
        }
    }
    let whole = home.resolves_quickly();
    let mut query = RunQuery { include_deleted: whole, limit: whole.then_some(500), ..RunQuery::default() };
    loop {
        let page = home.runs(&query)?;
        for row in &page.items {
            if is_its(&row.run_id)? {
                return Ok(row.run_id.clone());
            }
        }
        match page.next_cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => break,
        }
    }
    Err(match home {
        Home::Local(_) => CliError::not_found(format!("no run in the local store has its log at {text}"))
            .hint("the run may be on a server: see ct status"),
        Home::Server(client) => {
            CliError::not_found(format!("no run of {} has its log at {text}", client.base()))
        }
    })
}

fn write(
    log: &LogRef,
    stored: &Arc<dyn Source>,
    path: &Path,
    overwrite: bool,
    progress: &Progress,
) -> Result<(), CliError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder).map_err(|error| CliError::io("make the folder", folder, &error))?;
    let mut file = partial::file_in(folder).map_err(|error| CliError::io("write in", folder, &error))?;
    copy(log, stored, file.as_file_mut(), |error| CliError::io("write", path, &error), progress)?;
    file.as_file().sync_all().map_err(|error| CliError::io("write", path, &error))?;
    let persisted = if overwrite {
        file.persist(path).map_err(|error| error.error)
    } else {
        // Another process may have come first; never write over what it wrote.
        file.persist_noclobber(path).map_err(|error| error.error)
    };
    match persisted {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if hash_of(path)? == log.hash {
                return Ok(());
            }
            Err(CliError::conflict(format!("{} holds something else", path.display())))
        }
        Err(error) => Err(CliError::io("write", path, &error)),
    }
}

/// Copies the log and checks its hash.
fn copy(
    log: &LogRef,
    stored: &Arc<dyn Source>,
    into: &mut dyn io::Write,
    failed: impl Fn(io::Error) -> CliError,
    progress: &Progress,
) -> Result<(), CliError> {
    let unreadable = |error: io::Error| {
        let failed = CliError::data(format!("the log {} cannot be read from the store", log.hash));
        failed.because(&error).hint("see what is damaged with: ct store check")
    };
    let mut file = Arc::clone(stored).stream(0, stored.size_bytes()).map_err(unreadable)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = file.read(&mut buffer).map_err(unreadable)?;
        if length == 0 {
            break;
        }
        hash.update(&buffer[..length]);
        into.write_all(&buffer[..length]).map_err(&failed)?;
        progress.advance(length as u64);
    }
    if LogHash::from_bytes(hash.finalize().into()) == log.hash {
        Ok(())
    } else {
        Err(CliError::data(format!("the log {} is damaged in the store", log.hash))
            .hint("make the run of the same log again to make it whole: ct runs make LOG")
            .hint("see what else is damaged with: ct store check"))
    }
}

pub(super) fn hash_of(path: &Path) -> Result<LogHash, CliError> {
    let failed = |error: io::Error| CliError::io("read", path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = file.read(&mut buffer).map_err(failed)?;
        if length == 0 {
            return Ok(LogHash::from_bytes(hash.finalize().into()));
        }
        hash.update(&buffer[..length]);
    }
}
