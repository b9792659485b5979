//! Reads the header of a log and nothing else.
//!
//! usage: `cargo run --release -p ct-log --example header -- LOG`
#![expect(clippy::print_stdout, reason = "an example prints")]

fn main() {
    let path = std::path::PathBuf::from(std::env::args().nth(1).expect("usage: header LOG"));
    let log = ct_log::Log::open(&path).expect("the log opens");
    let header = log.header().expect("the header is readable");
    println!("{}", header.value["status"]);
}
