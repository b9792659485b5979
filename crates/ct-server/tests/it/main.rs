//! Routes over real sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod accounts;
mod clock;
mod comments;
mod contract;
mod datasets;
mod gates;
mod objects;
mod refusals;
mod register;
mod support;
mod uploads;
mod wire;
