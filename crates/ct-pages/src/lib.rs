//! Pages for people, from plain values to HTML: the frame of every page, its parts, plots as SVG, style and script.
//!
//! Nothing here reads a store, a socket or a clock. Everything that came out of a log or from a user goes through
//! [`text`] or the escaping of the templates; an address is made of our own paths and escaped parts only. There is no
//! inline style, script or handler anywhere: the content security policy of the server forbids them.

mod address;
mod asset;
mod comments;
mod filter;
mod format;
mod frame;
pub mod measure;
pub mod page;
mod part;
mod plot;

mod text;

pub mod transcript;

pub use address::Query;
pub use asset::Asset;
pub use comments::Earlier;
pub use format::{bytes, count, duration_ms, number, percent, time, usd};
pub use frame::{Flash, Frame, Section, Theme, User, Visit};
pub use maud::{Markup, html};
pub use part::Span;
pub use text::{plain, text, text_in};
