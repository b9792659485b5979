//! Writes a log again: converted by the extension of `OUT`, repaired, and without the scores that fit a pattern.
//!
//! usage: `cargo run --release -p ct-log --example rewrite -- LOG OUT [DROP_SCORE…]`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::PathBuf;

use ct_log::Log;
use ct_log::write::{Glob, RewriteOptions, rewrite};

fn main() {
    let mut args = std::env::args().skip(1);
    let mut path = || PathBuf::from(args.next().expect("usage: rewrite LOG OUT [DROP_SCORE…]"));
    let (log, out) = (path(), path());
    let drop_scores = args.map(|pattern| Glob::new(&pattern)).collect();
    let log = Log::open(&log).expect("the log opens");
    let options = RewriteOptions { drop_scores, ..RewriteOptions::default() };
    let mut bytes = 0;
    let done = rewrite(&log, &out, &options, &mut |at| bytes = at.bytes).expect("the log is written");
    println!("{} samples, {bytes} bytes of JSON, finished: {}", done.samples, done.finished);
    for defect in done.defects {
        println!("{defect}");
    }
}
