//! What is in a bucket, page by page.

use crate::http::Request;
use crate::sign::Method;
use crate::{Bucket, Result};

/// Objects of a page.
const PAGE_MAX: &str = "1000";

/// An object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Its length.
    pub size_bytes: u64,
    /// Its entity tag, in quotes.
    pub e_tag: Option<String>,
    /// When it was last written, as the service says.
    pub modified: Option<jiff::Timestamp>,
}

/// Objects whose keys begin alike, in the order of their keys. Memory: a page of a thousand.
#[derive(Debug)]
pub struct Listing {
    bucket: Bucket,
    prefix: String,
    page: std::vec::IntoIter<Listed>,
    next: Next,
}

#[derive(Debug)]
enum Next {
    First,
    Token(String),
    End,
}

impl Bucket {
    /// Lists the objects whose keys begin with `prefix`. An error ends it.
    pub fn list(&self, prefix: &str) -> Listing {
        Listing {
            bucket: self.clone(),
            prefix: prefix.to_owned(),
            page: Vec::new().into_iter(),
            next: Next::First,
        }
    }
}

impl Listing {
    fn fetch(&mut self) -> Result<()> {
        let mut query = vec![
            ("list-type", "2"),
            ("max-keys", PAGE_MAX),
            ("prefix", self.prefix.as_str()),
            ("encoding-type", "url"),
        ];
        if let Next::Token(token) = &self.next {
            query.push(("continuation-token", token));
        }
        let request = Request { query: &query, ..Request::new(Method::Get, "", "list objects") };
        let root = self.bucket.http.document(&request)?;
        let encoded = root.get("EncodingType") == Some("url");
        let mut page = Vec::new();
        for item in root.all("Contents") {
            let key = item.get("Key").unwrap_or_default();
            let key = if encoded { decode(key) } else { key.to_owned() };
            if !key.starts_with(&self.prefix) {
                continue;
            }
            let size = item.get("Size").and_then(|text| text.trim().parse().ok());
            let size_bytes = size.ok_or_else(|| self.bucket.odd("it lists objects without their length"))?;
            let quoted = |tag: &str| format!("\"{}\"", tag.trim_matches('"'));
            page.push(Listed {
                key,
                size_bytes,
                e_tag: item.get("ETag").map(quoted),
                modified: item.get("LastModified").and_then(|text| text.parse().ok()),
            });
        }
        let more = root.get("IsTruncated") == Some("true");
        let token = root.get("NextContinuationToken").filter(|token| more && !token.is_empty());
        self.next = token.map_or(Next::End, |token| Next::Token(token.to_owned()));
        self.page = page.into_iter();
        Ok(())
    }
}

/// What keys look like in lists: escaped, so that any key can stand in XML.
pub(crate) fn decode(key: &str) -> String {
    let spaces = key.replace('+', " ");
    percent_encoding::percent_decode_str(&spaces).decode_utf8_lossy().into_owned()
}

impl Iterator for Listing {
    type Item = Result<Listed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(listed) = self.page.next() {
                return Some(Ok(listed));
            }
            if matches!(self.next, Next::End) {
                return None;
            }
            if let Err(error) = self.fetch() {
                self.next = Next::End;
                return Some(Err(error));
            }
        }
    }
}
