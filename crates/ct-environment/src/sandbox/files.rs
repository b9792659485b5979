//! Files inside, read and written by commands inside: what a path means there, links and all, is the cell's own matter.

use std::path::Path;

use crate::error::SandboxError;

use super::ExecRequest;
use super::cell::Cell;

/// What can be copied in at once.
const COPY_BYTES_MAX: u64 = 256 << 20;

pub(crate) async fn read(cell: &Cell, path: &str, limit_bytes: u64) -> Result<Vec<u8>, SandboxError> {
    let problem = |problem: String| SandboxError::File { path: path.to_owned(), problem };
    let script = "[ -f \"$1\" ] || { [ -e \"$1\" ] && echo 'it is no file' >&2 || echo 'there is no such file' >&2; exit 1; }\nexec cat -- \"$1\"";
    let mut request = ExecRequest::program(["/bin/sh", "-c", script, "sh", path]);
    // What is kept has two halves, so the whole is there whenever it is within the limit.
    request.output_limit_bytes = Some(limit_bytes.saturating_add(2));
    let result = cell.exec(request).await?;
    if result.stdout.total_bytes > limit_bytes {
        return Err(SandboxError::TooLarge { path: path.to_owned(), limit_bytes });
    }
    if !result.success() {
        let said = result.stderr.text();
        return Err(problem(if said.trim().is_empty() { result.outcome() } else { said.trim().to_owned() }));
    }
    Ok([result.stdout.head, result.stdout.tail].concat())
}

pub(crate) async fn write(cell: &Cell, path: &str, bytes: &[u8]) -> Result<(), SandboxError> {
    put(cell, path, bytes.to_vec(), "644").await
}

async fn put(cell: &Cell, path: &str, bytes: Vec<u8>, mode: &str) -> Result<(), SandboxError> {
    let script = "case $1 in */*) mkdir -p -- \"${1%/*}/\" ;; esac && cat >\"$1\" && { [ \"$2\" = 644 ] || chmod \"$2\" -- \"$1\"; }";
    let mut request = ExecRequest::program(["/bin/sh", "-c", script, "sh", path, mode]);
    request.stdin = bytes;
    let result = cell.exec(request).await?;
    if result.success() {
        return Ok(());
    }
    let said = result.stderr.text();
    let problem = if said.trim().is_empty() { result.outcome() } else { said.trim().to_owned() };
    Err(SandboxError::File { path: path.to_owned(), problem })
}

pub(crate) async fn copy_in(cell: &Cell, from: &Path, to: &str) -> Result<(), SandboxError> {
    let mut waiting = vec![(from.to_owned(), to.to_owned())];
    let mut left = COPY_BYTES_MAX;
    while let Some((source, target)) = waiting.pop() {
        let metadata = std::fs::metadata(&source).map_err(SandboxError::io("read", &source))?;
        if metadata.is_dir() {
            for entry in std::fs::read_dir(&source).map_err(SandboxError::io("read", &source))? {
                let entry = entry.map_err(SandboxError::io("read", &source))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                waiting.push((entry.path(), format!("{target}/{name}")));
            }
            continue;
        }
        let too_large = || SandboxError::TooLarge { path: target.clone(), limit_bytes: COPY_BYTES_MAX };
        left = left.checked_sub(metadata.len()).ok_or_else(too_large)?;
        let bytes = std::fs::read(&source).map_err(SandboxError::io("read", &source))?;
        let runs = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
        put(cell, &target, bytes, if runs { "755" } else { "644" }).await?;
    }
    Ok(())
}
