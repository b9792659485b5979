//! The registration of runs whose logs are uploaded.

use std::io::{self, BufRead};
use std::sync::mpsc;

use ct_model::{RunHeader, RunId};
use reqwest::Method;
use serde_json::{Value, json};

use crate::http::{CHECK_TIMEOUT, Call};
use crate::{Client, ClientError, Result};

/// Documents of one registration.
const DOCUMENTS_MAX: usize = 250;
/// As many take servers that only speak the contract.
const CONTRACT_DOCUMENTS_MAX: usize = 50;
/// Bytes of one registration.
const REGISTER_BYTES_MAX: usize = 4_000_000;
/// Bytes of a registration that are not documents.
const REGISTER_BYTES_ROOM: usize = 1024;

/// What is registered with the documents.
#[derive(Debug)]
pub struct Register<'a> {
    /// The run's header.
    pub run: &'a RunHeader,
    /// The key of its log, and the length.
    pub log: (&'a str, u64),
    /// The run that gets log and documents in place of those it has. Only a `ct` knows it.
    pub replaces: Option<&'a RunId>,
}

impl Client {
    /// Registers the documents of a run, one a line in `documents`, in batches, and with the last one the run itself.
    /// Doing it again changes nothing. Memory: three batches.
    pub fn register(
        &self,
        documents: impl BufRead + Send,
        register: &Register<'_>,
        progress: &dyn Fn(u64),
    ) -> Result<()> {
        let run = serde_json::to_vec(register.run).map_err(|error| unreadable(io::Error::other(error)))?;
        let mut batches = Batches {
            documents,
            next: None,
            documents_max: if self.is_ct()? { DOCUMENTS_MAX } else { CONTRACT_DOCUMENTS_MAX },
            bytes_max: REGISTER_BYTES_MAX.saturating_sub(run.len() + REGISTER_BYTES_ROOM),
        };
        std::thread::scope(|scope| {
            // The next batch is read while the server works on this one.
            let (give, batches_read) = mpsc::sync_channel(1);
            scope.spawn(move || {
                loop {
                    let batch = batches.read();
                    let last = batch.as_ref().map_or(true, |batch| batch.last);
                    if give.send(batch).is_err() || last {
                        return;
                    }
                }
            });
            for batch in batches_read {
                let batch = batch.map_err(unreadable)?;
                self.register_batch(&batch.documents, register, batch.last.then_some(run.as_slice()))?;
                progress(batch.documents.len() as u64);
            }
            Ok(())
        })
    }

    fn register_batch(&self, batch: &[Vec<u8>], register: &Register<'_>, run: Option<&[u8]>) -> Result<()> {
        let mut body = br#"{"client":"control-tower","schema_version":3,"trajectories":["#.to_vec();
        body.extend(batch.join(&b','));
        body.push(b']');
        if let Some(run) = run {
            body.extend_from_slice(br#","run":"#);
            body.extend_from_slice(run);
        }
        if let Some(replaces) = register.replaces {
            body.extend_from_slice(format!(r#","replaces":{}"#, json!(replaces)).as_bytes());
        }
        let (key, size_bytes) = register.log;
        let sizes = Value::from_iter([(key.to_owned(), size_bytes)]);
        body.extend_from_slice(format!(r#","eval_log_sizes":{sizes}}}"#).as_bytes());
        let call = Call::new(Method::POST, self.url(&["trajectories", "register"]))
            .repeatable()
            .timeout(CHECK_TIMEOUT)
            .bytes("application/json", body.into());
        match self.http().done(&call) {
            // Some proxy takes less than the contract's four million bytes.
            Err(ClientError::TooLarge { .. }) if batch.len() > 1 => {
                let (first, second) = batch.split_at(batch.len() / 2);
                self.register_batch(first, register, None)?;
                self.register_batch(second, register, run)
            }
            other => other,
        }
    }
}

fn unreadable(source: io::Error) -> ClientError {
    ClientError::Io { doing: "read the documents of the run".to_owned(), source }
}

/// Documents that are sent together.
struct Batch {
    documents: Vec<Vec<u8>>,
    /// There are no more.
    last: bool,
}

/// Cuts a run's documents into batches.
struct Batches<R> {
    documents: R,
    /// Read, and too much for the batch before.
    next: Option<Vec<u8>>,
    documents_max: usize,
    bytes_max: usize,
}

impl<R: BufRead> Batches<R> {
    /// A document is sent alone when it is larger than a batch should be.
    fn read(&mut self) -> io::Result<Batch> {
        let mut batch = Batch { documents: Vec::new(), last: false };
        let mut size_bytes = 0;
        loop {
            let line = match self.next.take() {
                Some(line) => line,
                None => self.line()?,
            };
            if line.is_empty() {
                batch.last = true;
                return Ok(batch);
            }
            size_bytes += line.len() + 1;
            let full = batch.documents.len() == self.documents_max || size_bytes > self.bytes_max;
            if full && !batch.documents.is_empty() {
                self.next = Some(line);
                return Ok(batch);
            }
            batch.documents.push(line);
        }
    }

    /// Empty at the end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.documents.read_until(b'\n', &mut line)?;
        line.truncate(line.trim_ascii_end().len());
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_full_and_the_last_one_says_so() {
        let cut = |text: &str, documents_max, bytes_max| {
            let mut batches = Batches { documents: text.as_bytes(), next: None, documents_max, bytes_max };
            let mut texts = Vec::new();
            loop {
                let batch = batches.read().unwrap();
                texts.push(String::from_utf8(batch.documents.join(&b' ')).unwrap());
                if batch.last {
                    return texts.join("|");
                }
            }
        };
        assert_eq!(cut("a\nb\nc\n", 2, 100), "a b|c");
        assert_eq!(cut("a\nb\n", 2, 100), "a b");
        assert_eq!(cut("", 2, 100), "");
        assert_eq!(cut("aaa\nb\nc\nddddddd\ne", 9, 6), "aaa b|c|ddddddd|e");
    }
}
