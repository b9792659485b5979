//! The floor for everything that reads a log: inflates every member, checks its CRC, and does nothing else.
//!
//! usage: `cargo run --release -p ct-log --example inflate -- LOG [THREADS] [OUT_DIR]`
//! With `OUT_DIR` each member is also written to a file of its own, named by its number.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

fn main() {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().expect("usage: inflate LOG [THREADS] [OUT_DIR]"));
    let threads: usize = args.next().map_or(1, |n| n.parse().expect("THREADS is a number"));
    let out = args.next().map(PathBuf::from);
    let log = ct_log::Log::open(&path).expect("the log opens");
    let archive = log.archive().expect("an archive");
    let next = AtomicUsize::new(0);
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut buffer = vec![0; 128 * 1024];
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(entry) = archive.entries().get(index) else { break };
                    let mut reader = archive.read(entry).expect("the member opens");
                    let mut file = out.as_ref().map(|dir| {
                        std::fs::File::create(dir.join(index.to_string())).expect("the file opens")
                    });
                    loop {
                        let n = reader.read(&mut buffer).expect("the member is whole");
                        if n == 0 {
                            break;
                        }
                        total.fetch_add(n as u64, Ordering::Relaxed);
                        if let Some(file) = &mut file {
                            std::io::Write::write_all(file, &buffer[..n]).expect("the file is written");
                        }
                    }
                }
            });
        }
    });
    println!("{} members, {} bytes", archive.entries().len(), total.into_inner());
}
