//! Real sandboxes, real environments.

mod escapes;
mod sandbox;
mod shipped;
mod support;
