//! What a damaged log lacks. Reading one yields the good part and a list of these.

use std::fmt;

/// What a defect is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefectKind {
    /// The archive's directory; the members were found without it.
    Directory,
    /// A member that is lost.
    Member,
    /// A sample that is lost or could be read only in part.
    Sample,
    /// The header; what is known of the eval was taken from elsewhere.
    Header,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// What it is about.
    pub kind: DefectKind,
    /// Name of the member, or id and epoch of the sample; empty for the file as a whole. As written in the log.
    pub name: String,
    /// Where in the file, when known.
    pub offset: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

impl Defect {
    pub(crate) fn directory(problem: &str) -> Self {
        Self {
            kind: DefectKind::Directory,
            name: String::new(),
            offset: None,
            reason: format!("the central directory is {problem}; members were found by their local headers"),
        }
    }

    pub(crate) fn given_up(offset: u64) -> Self {
        Self {
            kind: DefectKind::Directory,
            name: String::new(),
            offset: Some(offset),
            reason: "too many damaged members: nothing behind this was searched".to_owned(),
        }
    }

    pub(crate) fn member(name: &str, offset: u64, reason: &str) -> Self {
        let kind = if name.starts_with("samples/") { DefectKind::Sample } else { DefectKind::Member };
        Self { kind, name: name.to_owned(), offset: Some(offset), reason: reason.to_owned() }
    }

    /// A sample that could not be read.
    pub fn sample(name: &str, reason: impl fmt::Display) -> Self {
        Self { kind: DefectKind::Sample, name: name.to_owned(), offset: None, reason: reason.to_string() }
    }

    pub(crate) fn header(reason: impl fmt::Display) -> Self {
        Self { kind: DefectKind::Header, name: String::new(), offset: None, reason: reason.to_string() }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name.as_str(), self.offset) {
            ("", None) => {}
            ("", Some(offset)) => write!(f, "at byte {offset}: ")?,
            (name, None) => write!(f, "{name:?}: ")?,
            (name, Some(offset)) => write!(f, "{name:?} at byte {offset}: ")?,
        }
        f.write_str(&self.reason)
    }
}
