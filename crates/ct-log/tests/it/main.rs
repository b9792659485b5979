//! What the reader makes of real, damaged and hostile logs.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests stop where something is wrong, and say so")]

mod support;

mod attacks;
mod faults;
mod golden;
mod public;
mod ranges;
mod write;
