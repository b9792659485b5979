//! The pages themselves, one file each: plain values in, a whole page out.

pub mod error;
pub mod home;
pub mod login;
pub mod runs;
