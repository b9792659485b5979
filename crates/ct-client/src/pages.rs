//! Lists in windows: walked by cursor where there are cursors, else by page number.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::http::{Call, accepts_json};
use crate::{Client, ClientError, Result};

/// Items asked for at a time; a server may give fewer.
pub(crate) const PAGE_SIZE: u64 = 500;
/// Pages walked at most: a server that never ends is no list.
const PAGES_MAX: u64 = 1_000_000;

/// The envelope of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    #[serde(default)]
    pub(crate) total_count: Option<u64>,
    #[serde(default)]
    pub(crate) page_size: Option<u64>,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

/// Adds to the query of an address.
pub(crate) fn with_query(mut url: Url, pairs: &[(&str, String)]) -> Url {
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    url
}

impl Client {
    pub(crate) fn page<T: DeserializeOwned>(&self, url: Url) -> Result<Page<T>> {
        self.http().json(&accepts_json(Call::get(url)).long())
    }

    /// Hands out the items of all pages, each once by its key, until `f` says no. Page numbers move when rows come and
    /// go, so that an item can come again; the walk ends with a page that is not full. Where a page is too long to be
    /// held, smaller ones are asked for.
    pub(crate) fn each<T: DeserializeOwned>(
        &self,
        url: &Url,
        mut page_size: u64,
        key: impl Fn(&T) -> String,
        f: &mut dyn FnMut(T) -> Result<bool>,
    ) -> Result<()> {
        let mut seen: HashSet<String> = HashSet::new();
        let mut cursor: Option<String> = None;
        let mut number = 1;
        for _ in 0..PAGES_MAX {
            let mut pairs = vec![("page_size", page_size.to_string())];
            match &cursor {
                Some(cursor) => pairs.push(("cursor", cursor.clone())),
                None => pairs.push(("page", number.to_string())),
            }
            let page: Page<T> = match self.page(with_query(url.clone(), &pairs)) {
                Err(ClientError::TooLong { .. }) if page_size > 1 => {
                    let before = (number - 1) * page_size;
                    page_size /= 2;
                    number = before / page_size + 1;
                    continue;
                }
                page => page?,
            };
            let count = page.items.len() as u64;
            let mut new = 0;
            for item in page.items {
                if seen.insert(key(&item)) {
                    new += 1;
                    if !f(item)? {
                        return Ok(());
                    }
                }
            }
            if let Some(next) = page.next_cursor {
                if cursor.as_ref() == Some(&next) {
                    return Err(self.endless());
                }
                cursor = Some(next);
                continue;
            }
            // What the server made of it.
            page_size = page.page_size.filter(|size| (1..page_size).contains(size)).unwrap_or(page_size);
            if cursor.is_some() || count < page_size {
                return Ok(());
            }
            if page.total_count.is_some_and(|total| seen.len() as u64 >= total) {
                return Ok(());
            }
            if new == 0 && number > 1 {
                // A server that ignores page numbers says the same again and again.
                return Err(self.endless());
            }
            number += 1;
        }
        Err(self.endless())
    }

    fn endless(&self) -> ClientError {
        ClientError::Protocol { server: self.server(), problem: "its list repeats itself".to_owned() }
    }
}
