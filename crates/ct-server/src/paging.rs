//! Lists in windows: page numbers and limits as in the contract, and cursors beside them.

use ct_model::Cursor;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::limits;

/// Which part of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct Paging {
    /// Which page, from 1.
    #[param(minimum = 1)]
    page: Option<u64>,
    /// How many items on a page. The answer says how many the server gives at most.
    #[param(minimum = 1)]
    page_size: Option<u64>,
    /// Only the newest so many; the same as `page_size` without a `page`.
    #[param(minimum = 1)]
    limit: Option<u64>,
    /// Where the page before ended, as its `next_cursor` said. Pages found this way neither repeat nor leave out rows
    /// while others come and go.
    #[param(value_type = Option<String>)]
    cursor: Option<Cursor>,
}

/// A part of a list, as a store takes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) page: u64,
    pub(crate) page_size: u64,
    pub(crate) skip: u64,
    pub(crate) cursor: Option<Cursor>,
    /// What was not done as asked.
    pub(crate) warnings: Vec<String>,
}

impl Paging {
    /// For lists that know nothing but how many.
    pub(crate) fn of_limit(limit: Option<u64>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The window that is asked for, of at most `size_max` items.
    pub(crate) fn window(self, size_max: u64) -> Result<Window, ApiError> {
        self.window_of(limits::PAGE_SIZE_DEFAULT.min(size_max), size_max)
    }

    /// As [`Self::window`], of another size when none is asked for.
    pub(crate) fn window_of(self, size_default: u64, size_max: u64) -> Result<Window, ApiError> {
        for (name, number) in [("page", self.page), ("page_size", self.page_size), ("limit", self.limit)] {
            if number == Some(0) {
                return Err(ApiError::invalid(format!("{name} is at least 1")));
            }
        }
        let asked = self.page_size.or(self.limit).unwrap_or(size_default);
        let page_size = asked.min(size_max);
        let capped = format!("a page of this list has at most {size_max} items");
        let warnings = if asked > size_max { vec![capped] } else { Vec::new() };
        let page = self.page.unwrap_or(1);
        let skip = if self.cursor.is_some() { 0 } else { (page - 1).saturating_mul(page_size) };
        Ok(Window { page, page_size, skip, cursor: self.cursor, warnings })
    }
}

/// A list, or a part of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// How many items there are on all pages.
    pub(crate) total_count: u64,
    /// The number of this page; 1 when it was found by a cursor.
    pub(crate) page: u64,
    /// How many items a page has, but the last.
    pub(crate) page_size: u64,
    /// For the next page; null on the last.
    #[schema(value_type = Option<String>)]
    pub(crate) next_cursor: Option<Cursor>,
    /// What was not done as it was asked for, such as a page size beyond the maximum. Absent: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

impl<T> Page<T> {
    pub(crate) fn new(window: &Window, items: Vec<T>, total_count: u64, next_cursor: Option<Cursor>) -> Self {
        Self {
            items,
            total_count,
            page: if window.cursor.is_some() { 1 } else { window.page },
            page_size: window.page_size,
            next_cursor,
            warnings: window.warnings.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(page: Option<u64>, page_size: Option<u64>, limit: Option<u64>) -> Result<(u64, u64), ApiError> {
        let window = Paging { page, page_size, limit, cursor: None }.window(500)?;
        assert_eq!(window.page, page.unwrap_or(1));
        Ok((window.skip, window.page_size))
    }

    #[test]
    fn windows_are_where_they_are_asked_for() {
        assert_eq!(window(None, None, None).unwrap(), (0, limits::PAGE_SIZE_DEFAULT));
        assert_eq!(window(Some(3), Some(20), None).unwrap(), (40, 20));
        assert_eq!(window(None, None, Some(7)).unwrap(), (0, 7));
        assert_eq!(window(Some(2), None, Some(7)).unwrap(), (7, 7));
        assert_eq!(window(Some(2), Some(9999), None).unwrap(), (500, 500));
        assert_eq!(window(Some(u64::MAX), Some(500), None).unwrap(), (u64::MAX, 500));
        for bad in [(Some(0), None, None), (None, Some(0), None), (None, None, Some(0))] {
            assert!(window(bad.0, bad.1, bad.2).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_page_that_is_too_large_is_told() {
        let window = |page_size| Paging { page_size, ..Paging::default() }.window(20).unwrap();
        assert_eq!((window(Some(21)).page_size, window(Some(21)).warnings.len()), (20, 1));
        assert_eq!((window(Some(20)).page_size, window(Some(20)).warnings.len()), (20, 0));
        // The default is within every maximum.
        assert_eq!((window(None).page_size, window(None).warnings.len()), (20, 0));
    }

    #[test]
    fn a_cursor_goes_before_a_page_number() {
        let paging = Paging { page: Some(4), cursor: Some(Cursor::new("d-1")), ..Paging::default() };
        let window = paging.window(500).unwrap();
        assert_eq!((window.skip, window.cursor), (0, Some(Cursor::new("d-1"))));
    }
}
