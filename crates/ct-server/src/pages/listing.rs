//! Which part of a list a page shows, and by which filters: all of it is in the address.

use axum::http::Uri;
use ct_model::{Cursor, list_item, list_values};
use ct_pages::{Query, Span};

use crate::extract::Filters;
use crate::limits;

/// A list as its address asks for it.
pub(super) struct Listing {
    /// What of the address the page knows.
    pub(super) query: Query,
    /// Rows on the page.
    pub(super) limit: u64,
}

impl Listing {
    /// Reads an address. The error is a simpler one for the same: without the empty fields of a form.
    pub(super) fn read(uri: &Uri, parameters: &[&str]) -> Result<Self, String> {
        let pairs = Filters::parse(uri.query().unwrap_or_default()).into_pairs();
        let has_empty = pairs.iter().any(|(_, value)| value.is_empty());
        let known = pairs.into_iter().filter(|(name, _)| parameters.contains(&name.as_str()));
        let query = Query::new(known.flat_map(|(name, value)| parts(name, &value)));
        if has_empty {
            return Err(query.on(uri.path()));
        }
        Ok(Self { query, limit: limits::ROWS_OF_A_PAGE })
    }

    /// For the same reading as that of the API.
    pub(super) fn filters(&self) -> Filters {
        Filters::from_pairs(self.query.pairs().to_vec())
    }

    pub(super) fn cursor(&self) -> Option<Cursor> {
        self.query.get("cursor").map(Cursor::new)
    }

    /// Where in the list the page is. Behind a cursor its number is what the address says.
    pub(super) fn span(&self, here: usize, total: u64) -> Span {
        let from = self.query.get("from").and_then(|from| from.parse().ok());
        let first = if self.query.get("cursor").is_some() { from.unwrap_or(1) } else { 1 };
        Span { first: first.clamp(1, total.max(1)), here: here as u64, total }
    }
}

/// Values between commas, one by one and written as such lists have them; but a search and a cursor are as they are.
fn parts(name: String, value: &str) -> Vec<(String, String)> {
    if matches!(name.as_str(), "name" | "run_name" | "cursor") {
        return vec![(name, value.to_owned())];
    }
    list_values(value).iter().map(|value| (name.clone(), list_item(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(address: &str) -> Result<String, String> {
        let uri: Uri = address.parse().unwrap();
        Listing::read(&uri, &["name", "tags", "cursor"]).map(|listing| listing.query.on("/runs"))
    }

    #[test]
    fn addresses_are_read_and_made_simple() {
        assert_eq!(read("/runs"), Ok("/runs".to_owned()));
        assert_eq!(
            read("/runs?tags=a,b%2C%20c&other=1&name=x%2Cy"),
            Ok("/runs?tags=a&tags=b&tags=c&name=x%2Cy".to_owned())
        );
        assert_eq!(read("/runs?tags=a%5C,b,c"), Ok("/runs?tags=a%5C%2Cb&tags=c".to_owned()));
        assert_eq!(read("/runs?name=&tags=a"), Err("/runs?tags=a".to_owned()));
    }
}
