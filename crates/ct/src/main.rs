//! The `ct` program: reads the command line, runs one command, turns its outcome into an exit code.

mod cli;
mod commands;
mod config;
mod env;
mod error;
mod home;
mod logins;
mod output;
mod pipeline;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let code = catch_unwind(AssertUnwindSafe(|| cli::run(std::env::args_os())));
    // The panic has been reported by its hook; all that is left is to end as a failure.
    ExitCode::from(code.unwrap_or_else(|_| error::Kind::Internal.exit_code()))
}
