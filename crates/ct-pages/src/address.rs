//! Addresses of our own pages, with their queries.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stays as it is in a part of a path or of a query.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A part of a path or of a query, escaped.
pub(crate) fn escape(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

/// The query of an address: names and values in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// From pairs; those without a value are left out.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// All pairs.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The last value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Without these names.
    #[must_use]
    pub fn without(&self, names: &[&str]) -> Self {
        let kept = self.0.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        Self(kept.cloned().collect())
    }

    /// Without one value of a name.
    #[must_use]
    pub fn without_value(&self, name: &str, value: &str) -> Self {
        Self(self.0.iter().filter(|(a, b)| a != name || b != value).cloned().collect())
    }

    /// With this value of a name instead of those it has.
    #[must_use]
    pub fn with(&self, name: &str, value: impl Into<String>) -> Self {
        let mut query = self.without(&[name]);
        query.0.push((name.to_owned(), value.into()));
        query
    }

    /// The address of a path of ours, or of a place on a page of ours, with this query.
    pub fn on(&self, path: &str) -> String {
        let (path, place) = path.split_at(path.find('#').unwrap_or(path.len()));
        let mut address = path.to_owned();
        for (position, (name, value)) in self.0.iter().enumerate() {
            let mark = if position == 0 { '?' } else { '&' };
            let _ = write!(address, "{mark}{}={}", escape(name), escape(value));
        }
        address.push_str(place);
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Query {
        Query::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn queries_are_changed_and_written() {
        let query = query(&[("tag", "a b"), ("tag", "ü&\"<"), ("empty", ""), ("sort", "name")]);
        assert_eq!(query.on("/runs"), "/runs?tag=a%20b&tag=%C3%BC%26%22%3C&sort=name");
        assert_eq!(query.without(&["tag"]).on("/runs/a#list"), "/runs/a?sort=name#list");
        assert_eq!(query.without(&["tag"]).with("sort", "cost").on("/runs"), "/runs?sort=cost");
        assert_eq!(query.without_value("tag", "a b").get("tag"), Some("ü&\"<"));
        assert_eq!(query.without(&["tag", "sort"]).on("/runs"), "/runs");
    }
}
