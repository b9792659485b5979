//! Any bytes as JSON. The reader must do the same whether its source gives everything at once or byte by byte, must keep
//! what it keeps byte for byte, and must read all that serde_json reads.
#![no_main]

use std::io::Read;

use ct_log::json::{JsonError, Kind, Reader, parse};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Gives out a few bytes at a time, so that every token crosses a window.
struct Drip<'a> {
    bytes: &'a [u8],
    piece: usize,
}

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.bytes.len().min(self.piece).min(buffer.len());
        buffer[..n].copy_from_slice(&self.bytes[..n]);
        self.bytes = &self.bytes[n..];
        Ok(n)
    }
}

/// What to do with the values met, taken in turn.
struct Plan<'a> {
    steps: &'a [u8],
    at: usize,
    trace: Vec<String>,
}

impl Plan<'_> {
    fn step(&mut self) -> u8 {
        let step = self.steps.get(self.at % self.steps.len().max(1)).copied().unwrap_or(0);
        self.at += 1;
        step
    }
}

fn visit<R: Read>(r: &mut Reader<R>, plan: &mut Plan<'_>, depth: usize) -> Result<(), JsonError> {
    let step = plan.step();
    let max = usize::from(step >> 3);
    let seen = match step & 7 {
        0 => "left alone".to_owned(),
        1 => format!("{:?}", r.skip()?),
        2 => format!("{:?}", r.raw(max)?),
        3 => format!("{:?}", r.text(max)?),
        4 => format!("{:?}", r.number()?.map(f64::to_bits)),
        5 => format!("{:?}", r.boolean()?),
        6 => format!("{:?}", r.value(max)?),
        _ if depth > 100 => format!("{:?}", r.skip()?),
        _ => match r.peek()? {
            Kind::Array => {
                r.array(|_, r| visit(r, plan, depth + 1))?;
                "array".to_owned()
            }
            _ => {
                r.object(|key, r| {
                    plan.trace.push(key.to_owned());
                    visit(r, plan, depth + 1)
                })?;
                "object".to_owned()
            }
        },
    };
    plan.trace.push(format!("{seen} {}", r.offset()));
    Ok(())
}

fn walk(steps: &[u8], source: impl Read) -> (Vec<String>, String) {
    let mut plan = Plan { steps, at: 0, trace: Vec::new() };
    let mut reader = Reader::new(source);
    let end = visit(&mut reader, &mut plan, 0).and_then(|()| reader.end());
    (plan.trace, format!("{end:?}"))
}

/// The same but for the last bits of doubles, where serde_json is not exact.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(1.0));
            (a - b).abs() <= a.abs() * 1e-14 + f64::MIN_POSITIVE
        }
        // Python takes `-0` for an integer, so it is 0 here; serde_json makes a double of it.
        (Value::Number(a), Value::Number(b)) if a.as_i64() == Some(0) => b.as_f64() == Some(0.0),
        _ => a == b,
    }
}

fuzz_target!(|data: &[u8]| {
    let (steps, document) = data.split_at(data.len().min(8));
    let whole = walk(steps, document);
    for piece in [1, 3] {
        assert_eq!(whole, walk(steps, Drip { bytes: document, piece }), "in pieces of {piece}");
    }

    let parsed = parse(document);
    let mut reader = Reader::new(document);
    if parsed.is_ok() {
        let trimmed = document.trim_ascii();
        assert_eq!(reader.raw(trimmed.len()).ok().flatten().as_deref(), Some(trimmed));
        assert!(reader.end().is_ok());
    }
    if let Ok(theirs) = serde_json::from_slice::<Value>(document) {
        let ours = parsed.as_ref().ok();
        assert!(ours.is_some_and(|ours| same(ours, &theirs)), "{parsed:?} instead of {theirs:?}");
    }
});
