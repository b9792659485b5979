//! Everything of a store in one file: a ZIP archive of the files that a data folder has, each as it is. Unpacked it is a
//! data folder.
//!
//! It is written beside its place, in a folder of its own that the next attempt clears, and gets its name when it is whole
//! and on the disk.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ct_log::archive::{Archive, Entry, method};
use ct_log::source::FileSource;
use ct_log::write::ZipStream;
use ct_log::{Limits, StoredRange};
use ct_model::LogRef;
use tempfile::NamedTempFile;

use super::FilesLock;
use super::copy::{Origin, needed};
use crate::blob::{COPY_BYTES, LogKey, sync_folder};
use crate::error::{Result, StoreError};
use crate::meta::{MetaStore as _, SqliteStore};
use crate::record::{CopyProgress, CopyReport};
use crate::store::{DATABASE, Store};

impl Store {
    /// Writes one moment of everything into a file, in place of what is there. Every log is hashed on the way; one that is
    /// damaged is told, and left out.
    pub fn back_up_to(&self, file: &Path, progress: &dyn Fn(CopyProgress)) -> Result<CopyReport> {
        let name =
            file.file_name().ok_or_else(|| StoreError::invalid("a backup needs the name of a file"))?;
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let work = parent.join(format!(".{}.part", name.to_string_lossy()));
        fs::create_dir_all(&work).map_err(StoreError::io("make a folder", &work))?;
        let lock = FilesLock::exclusive(&work)?;
        let (picture, written) = (work.join(DATABASE), work.join("backup.zip"));
        for left in [&picture, &written] {
            crate::blob::remove_file(left)?;
        }
        let report = self.write_backup(&picture, &written, progress)?;
        // What cannot be read again is no backup.
        BackupFile::open(&written)?;
        fs::rename(&written, file).map_err(StoreError::io("give the backup its name", file))?;
        sync_folder(parent)?;
        drop(lock);
        let _ = fs::remove_dir_all(&work);
        Ok(report)
    }

    fn write_backup(
        &self,
        picture: &Path,
        written: &Path,
        progress: &dyn Fn(CopyProgress),
    ) -> Result<CopyReport> {
        let failed = || StoreError::io("write the backup", written);
        self.meta().snapshot(picture)?;
        let logs = needed(picture)?;
        let (from, mut report) = (Origin::Store(self), CopyReport::default());
        let bytes_total = logs.values().map(|log| log.size_bytes).sum();
        let bytes_done = std::cell::Cell::new(0);
        let advance = |bytes: u64| {
            bytes_done.set(bytes_done.get() + bytes);
            progress(CopyProgress { bytes_done: bytes_done.get(), bytes_total });
        };
        let out = BufWriter::with_capacity(COPY_BYTES, File::create(written).map_err(failed())?);
        let mut zip = ZipStream::new(out);
        let folder = picture.parent().unwrap_or(picture);
        for (key, log) in &logs {
            let staged = NamedTempFile::new_in(folder).map_err(StoreError::io("copy a log", folder))?;
            let added = from.stage(log, &staged, &advance).and_then(|crc32| {
                let mut content = staged.reopen().map_err(failed())?;
                add(&mut zip, &member(key), log.size_bytes, crc32, &mut content).map_err(failed())?;
                Ok(true)
            });
            from.note(log, added, &mut report)?;
        }
        report.runs = SqliteStore::open(picture)?.totals()?.runs;
        let doing = || StoreError::io("read the copy of the database", picture);
        let size_bytes = fs::metadata(picture).map_err(doing())?.len();
        let mut crc32 = crc32fast::Hasher::new();
        let mut content = File::open(picture).map_err(doing())?;
        let mut piece = vec![0; COPY_BYTES];
        while let n @ 1.. = crate::blob::fill(&mut content, &mut piece).map_err(doing())? {
            crc32.update(&piece[..n]);
        }
        let mut content = File::open(picture).map_err(doing())?;
        add(&mut zip, DATABASE, size_bytes, crc32.finalize(), &mut content).map_err(failed())?;
        let mut out = zip.finish().map_err(failed())?;
        out.flush().map_err(failed())?;
        out.get_ref().sync_all().map_err(failed())?;
        Ok(report)
    }
}

/// Adds a file as it is.
fn add(
    zip: &mut ZipStream<BufWriter<File>>,
    name: &str,
    size_bytes: u64,
    crc32: u32,
    content: &mut dyn Read,
) -> io::Result<()> {
    let range = StoredRange {
        method: method::STORED,
        start: 0,
        compressed_size: size_bytes,
        uncompressed_size: size_bytes,
        crc32,
    };
    zip.add_compressed(name, &range, content)
}

fn member(key: &LogKey) -> String {
    let path = key.relative_path();
    path.iter().map(|step| step.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// A file that [`Store::back_up_to`] wrote.
pub(super) struct BackupFile {
    path: PathBuf,
    archive: Archive,
}

impl BackupFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let source = FileSource::open(path).map_err(StoreError::io("open the backup", path))?;
        let corrupt = |detail: String| StoreError::Corrupt { what: path.display().to_string(), detail };
        let (archive, defects) = Archive::open(Arc::new(source), Limits::default())
            .map_err(|error| corrupt(format!("it is no backup: {error}")))?;
        if let Some(defect) = defects.first() {
            return Err(corrupt(format!("the backup is not whole: {defect}")));
        }
        if archive.get(DATABASE).is_none() {
            return Err(corrupt(format!("it is no backup: it holds no {DATABASE}")));
        }
        Ok(Self { path: path.to_owned(), archive })
    }

    pub(super) fn picture(&self, to: &Path) -> Result<()> {
        let doing = || StoreError::io("unpack the database", to);
        let mut reader = self.entry(DATABASE).and_then(|entry| self.open_entry(entry)).map_err(doing())?;
        let mut file = File::create_new(to).map_err(doing())?;
        io::copy(&mut reader, &mut file).map_err(doing())?;
        Ok(())
    }

    pub(super) fn read(&self, log: &LogRef) -> io::Result<Box<dyn Read + Send>> {
        let entry = self.entry(&member(&log.into()))?;
        Ok(Box::new(self.open_entry(entry)?))
    }

    pub(super) fn name(&self, log: &LogRef) -> String {
        format!("{} in {}", member(&log.into()), self.path.display())
    }

    fn entry(&self, name: &str) -> io::Result<&Entry> {
        self.archive.get(name).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the backup lacks it"))
    }

    fn open_entry(&self, entry: &Entry) -> io::Result<impl Read + Send + use<>> {
        self.archive.read(entry).map_err(io::Error::other)
    }
}
