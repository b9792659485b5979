//! Makes a larger log of a log, for measurements.
//!
//! usage: `cargo run --release -p ct-log --example grow -- LOG OUT --copies N`
//!        `cargo run --release -p ct-log --example grow -- LOG OUT --one-sample-bytes N`
//!
//! The first writes every sample N times, as so many epochs. The second writes one sample whose events are repeated until
//! its JSON has about N bytes.

use std::io::{Cursor, Read};
use std::path::PathBuf;

use ct_log::json::{JsonError, Reader};
use ct_log::write::{LogWriter, start_of};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [log, out, how, n] = &args[..] else { panic!("usage: grow LOG OUT --copies|--one-sample-bytes N") };
    let n: u64 = n.parse().expect("N is a number");
    let log = ct_log::Log::open(&PathBuf::from(log)).expect("the log opens");
    let header = log.header().expect("the header is readable").raw.clone();
    let mut writer = LogWriter::create(&PathBuf::from(out), &start_of(&header).expect("a header"))
        .expect("the file opens");
    let samples = log.samples().expect("the samples are listed");
    if how == "--copies" {
        for epoch in 1..=n {
            for sample in samples {
                let mut json = Vec::new();
                log.read_sample(sample).expect("a sample").read_to_end(&mut json).expect("a whole sample");
                let old = br#""epoch":1,"#;
                let at = json.windows(old.len()).position(|w| w == old).expect("the epoch is written so");
                json.splice(at..at + old.len(), format!("\"epoch\":{epoch},").into_bytes());
                writer.add_sample(&sample.id, epoch, &mut json.as_slice()).expect("it is written");
            }
        }
    } else {
        let mut json = Vec::new();
        log.read_sample(&samples[0]).expect("a sample").read_to_end(&mut json).expect("a whole sample");
        let (from, to) = events(&json);
        let events = &json[from + 1..to - 1];
        let repeats = n.saturating_sub(json.len() as u64) / (events.len() as u64 + 1);
        let mut more = vec![b','];
        more.extend_from_slice(events);
        let mut sample = Cursor::new(&json[..to - 1])
            .chain(Repeat { text: &more, at: 0, left: repeats })
            .chain(Cursor::new(&json[to - 1..]));
        writer.add_sample(&samples[0].id, samples[0].epoch, &mut sample).expect("it is written");
    }
    writer.finish(&header, None).expect("the log is finished");
}

/// Where the events of a sample lie, brackets included.
fn events(json: &[u8]) -> (usize, usize) {
    let mut found = None;
    Reader::new(json)
        .object(|key, r| {
            if key == "events" {
                let from = r.offset() as usize;
                r.skip()?;
                found = Some((from, r.offset() as usize));
            }
            Ok::<_, JsonError>(())
        })
        .expect("a sample is an object");
    found.expect("the sample has events")
}

/// The same text again and again.
struct Repeat<'a> {
    text: &'a [u8],
    at: usize,
    left: u64,
}

impl Read for Repeat<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return Ok(0);
        }
        let n = buffer.len().min(self.text.len() - self.at);
        buffer[..n].copy_from_slice(&self.text[self.at..self.at + n]);
        self.at += n;
        if self.at == self.text.len() {
            self.at = 0;
            self.left -= 1;
        }
        Ok(n)
    }
}
