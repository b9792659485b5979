//! What the reader makes of real, damaged and hostile logs.
#![expect(clippy::unwrap_used, reason = "tests stop where something is wrong")]

mod support;

mod attacks;
mod faults;
mod golden;
mod public;
mod ranges;
mod write;
