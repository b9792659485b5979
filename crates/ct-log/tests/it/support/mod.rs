//! Shared by the tests: where the data lies, archives made by hand, and logs as plain values.

pub(crate) mod counting;
pub(crate) mod facts;
pub(crate) mod zip;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ct_log::json::{JsonError, Kind, Reader, parse};
use ct_log::{Inflater, Limits, Log, LogError, SampleEntry};
use serde_json::{Number, Value, json};

/// The logs made for the tests, and what Inspect's own reader says of them.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data")
}

/// All logs made for the tests, sorted by name.
pub(crate) fn logs() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["generated", "control-tower"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(data().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.to_str().unwrap();
            !name.ends_with(".expected.json") && (name.ends_with(".eval") || name.ends_with(".json"))
        })
        .collect();
    found.sort();
    assert_eq!(found.len(), 44, "all logs are there");
    found
}

pub(crate) fn generated(name: &str) -> PathBuf {
    data().join("generated").join(name)
}

pub(crate) fn open_bytes(bytes: Vec<u8>) -> Result<Log, LogError> {
    Log::from_source(Arc::new(bytes), Limits::default())
}

/// A sample's JSON.
pub(crate) fn sample_bytes(log: &Log, sample: &SampleEntry) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    log.read_sample(sample)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`sample_bytes`], and checks that the sample read whole is the same, or fails as well.
pub(crate) fn sample_bytes_both_ways(log: &Log, sample: &SampleEntry) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    let mut reader = log.read_sample(sample)?;
    let streamed = reader.read_to_end(&mut bytes);
    // What the memory held before makes no difference.
    let (mut whole, mut inflater) = (b"before".to_vec(), Inflater::default());
    match (&streamed, log.read_whole_sample(sample, u64::MAX, &mut inflater, &mut whole)) {
        (Ok(_), Ok(Some(range))) => {
            assert_eq!(Some(range), reader.stored_range());
            assert!(whole == bytes, "{sample:?}");
        }
        (_, Ok(None)) => assert!(sample.is_chunked(), "{sample:?}"),
        (streamed, whole) => {
            assert!(streamed.is_err() && whole.is_err(), "{sample:?}: {streamed:?}, {whole:?}")
        }
    }
    streamed?;
    Ok(bytes)
}

/// A document as a value that loses nothing but the last digits of integers beyond 64 bits: what is not finite becomes
/// `{"$float": "NaN"}`. Checked against [`parse`].
pub(crate) fn exact(raw: &[u8]) -> Value {
    fn build<R: Read>(r: &mut Reader<R>) -> Result<Value, JsonError> {
        Ok(match r.peek()? {
            Kind::Object => {
                let mut map = serde_json::Map::new();
                r.object(|key, r| {
                    map.insert(key.to_owned(), build(r)?);
                    Ok::<_, JsonError>(())
                })?;
                Value::Object(map)
            }
            Kind::Array => {
                let mut items = Vec::new();
                r.array(|_, r| {
                    items.push(build(r)?);
                    Ok::<_, JsonError>(())
                })?;
                Value::Array(items)
            }
            Kind::String => Value::String(r.text(usize::MAX)?.unwrap().text),
            Kind::Bool => Value::Bool(r.boolean()?.unwrap()),
            Kind::Null => {
                r.skip()?;
                Value::Null
            }
            Kind::Number => {
                let raw = r.raw(1000)?.unwrap();
                let text = std::str::from_utf8(&raw).unwrap();
                match text {
                    "NaN" | "Infinity" | "-Infinity" => json!({ "$float": text }),
                    _ => match text.parse::<i64>() {
                        Ok(n) => n.into(),
                        Err(_) => Number::from_f64(text.parse().unwrap()).unwrap().into(),
                    },
                }
            }
        })
    }
    fn lossy(value: &Value) -> Value {
        match value {
            Value::Object(map) if map.contains_key("$float") => Value::Null,
            Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), lossy(v))).collect(),
            Value::Array(items) => items.iter().map(lossy).collect(),
            other => other.clone(),
        }
    }
    let mut reader = Reader::new(raw);
    let value = build(&mut reader).unwrap();
    reader.end().unwrap();
    assert_eq!(parse(raw).unwrap(), lossy(&value));
    value
}

/// An error with all its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}
