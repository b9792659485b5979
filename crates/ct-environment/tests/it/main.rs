//! Real sandboxes, real environments.

mod escapes;
mod folders;
mod images;
mod sandbox;
mod scoring;
mod shipped;
mod support;
mod tricks;
