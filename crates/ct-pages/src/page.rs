//! The pages themselves, one file each: plain values in, a whole page out.

pub mod dataset;
pub mod datasets;
pub mod error;
pub mod home;
pub mod login;
mod manifest;
mod outcomes;
mod rows;
pub mod run;
pub mod runs;
pub mod tokens;
pub mod trajectories;
