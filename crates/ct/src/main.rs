//! The `ct` program.
fn main() {}
