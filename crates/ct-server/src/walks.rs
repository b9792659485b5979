//! Pages of lists, which stay where they are while rows come and go.
//!
//! A cursor says where a page ended, and so is stable by itself. A page number is not: rows that are added or removed
//! move those behind them. So the server remembers for a while how far a client has come: a *walk*. The page after the
//! last one of a walk begins behind the row where that one ended, and the total stays that of its beginning. A client
//! that asks for pages in order sees each row that was there throughout exactly once; a number out of the blue counts
//! from the beginning, as everywhere.
//!
//! Walks are known by who asks (token and address), for what, in pages of which size. Several of the same kind are told apart by how far
//! they are, then by the connection, then the latest is taken. They are bounded in number and in time.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use ct_model::Cursor;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::auth::Reader;
use crate::error::ApiError;
use crate::limits;
use crate::paging::{Page, Window};

/// A part of a list, as a store gives it.
pub(crate) struct Part<T> {
    pub(crate) items: Vec<T>,
    pub(crate) total_count: u64,
    pub(crate) next_cursor: Option<Cursor>,
}

/// Where a part of a list begins, and how long it may be.
pub(crate) struct Slice {
    pub(crate) cursor: Option<Cursor>,
    pub(crate) skip: u64,
    pub(crate) limit: u64,
}

/// Makes a page. `query` says what is listed, filters and order included; `list` asks the store.
pub(crate) fn page<T>(
    app: &App,
    walker: &Walker,
    query: &impl Serialize,
    window: &Window,
    list: impl FnOnce(Slice) -> Result<Part<T>, ApiError>,
) -> Result<Page<T>, ApiError> {
    let limit = window.page_size;
    if window.cursor.is_some() {
        let part = list(Slice { cursor: window.cursor.clone(), skip: 0, limit })?;
        return Ok(Page::new(window, part.items, part.total_count, part.next_cursor));
    }
    let key = walker.key(query, limit);
    let found = app.walks.find(&key, walker.connection, window.page, Instant::now());
    let walk = found.as_ref().map(|found| found.walk);
    let part = match found {
        Some(Found { total_count, begin: Begin::After(cursor), .. }) => {
            let mut part = list(Slice { cursor: Some(cursor), skip: 0, limit })?;
            part.total_count = total_count;
            if part.next_cursor.is_some() {
                // More have come in among those behind: whoever counts pages has to come once more.
                part.total_count = total_count.max(window.page.saturating_mul(limit).saturating_add(1));
            }
            part
        }
        Some(Found { total_count, begin: Begin::End, .. }) => {
            Part { items: Vec::new(), total_count, next_cursor: None }
        }
        None => list(Slice { cursor: None, skip: window.skip, limit })?,
    };
    let given = Given {
        page: window.page,
        total_count: part.total_count,
        begin: part.next_cursor.clone().map_or(Begin::End, Begin::After),
    };
    app.walks.note(key, walker.connection, walk, given, Instant::now());
    Ok(Page::new(window, part.items, part.total_count, part.next_cursor))
}

/// Someone who may read, and who goes from page to page.
pub(crate) struct Walker {
    who: String,
    connection: Option<SocketAddr>,
}

impl Walker {
    fn key(&self, query: &impl Serialize, page_size: u64) -> Key {
        let what = serde_json::to_string(&(&self.who, query, page_size)).unwrap_or_default();
        Sha256::digest(what.as_bytes()).into()
    }
}

impl FromRequestParts<App> for Walker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Reader(identity) = Reader::from_request_parts(parts, app).await?;
        let connection = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0);
        let token = identity.map(|identity| identity.token_id);
        let who = format!("{token:?} {:?}", connection.map(|peer| peer.ip()));
        Ok(Self { who, connection })
    }
}

type Key = [u8; 32];

/// Where a page begins.
#[derive(Debug, Clone, PartialEq)]
enum Begin {
    After(Cursor),
    /// There is nothing any more.
    End,
}

#[derive(Debug)]
struct Walk {
    number: u64,
    connection: Option<SocketAddr>,
    /// The last page that was given.
    page: u64,
    /// Where the pages begin, of the last few: a page may be asked for again.
    begins: BTreeMap<u64, Begin>,
    total_count: u64,
    touched: Instant,
}

/// A page that was given, and where the next one begins.
struct Given {
    page: u64,
    total_count: u64,
    begin: Begin,
}

#[derive(Debug, PartialEq)]
struct Found {
    walk: u64,
    total_count: u64,
    begin: Begin,
}

/// How far clients have come in lists.
#[derive(Debug, Default)]
pub(crate) struct Walks(Mutex<Ways>);

#[derive(Debug, Default)]
struct Ways {
    by_key: HashMap<Key, Vec<Walk>>,
    count: usize,
    last_number: u64,
}

impl Walks {
    fn find(&self, key: &Key, connection: Option<SocketAddr>, page: u64, now: Instant) -> Option<Found> {
        if page == 1 {
            return None;
        }
        let ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = ways.by_key.get(key)?.iter().filter(|walk| {
            walk.begins.contains_key(&page) && now.duration_since(walk.touched) < limits::WALK_LIFETIME
        });
        // Whoever goes on comes before whoever asks again, the same connection before another, and of equals the latest:
        // most walks are given up after a page or two, and must not be taken for those that go on.
        let walk = known.max_by_key(|walk| {
            let goes_on = walk.page + 1 == page;
            let same = connection.is_some() && walk.connection == connection;
            (goes_on, same, walk.touched)
        })?;
        let begin = walk.begins.get(&page)?.clone();
        Some(Found { walk: walk.number, total_count: walk.total_count, begin })
    }

    /// Remembers a page that was given, of a walk that was found or of a new one.
    fn note(&self, key: Key, connection: Option<SocketAddr>, walk: Option<u64>, given: Given, now: Instant) {
        let mut ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Given { page, total_count, begin } = given;
        let mut walks = ways.by_key.get_mut(&key).into_iter().flatten();
        if let Some(known) = walks.find(|known| Some(known.number) == walk) {
            known.connection = connection;
            known.page = page;
            known.total_count = total_count;
            known.touched = now;
            known.begins.insert(page.saturating_add(1), begin);
            while known.begins.len() > limits::WALK_PAGES_MAX {
                known.begins.pop_first();
            }
            return;
        }
        if page == 1 && begin == Begin::End {
            return;
        }
        ways.make_room(&key, now);
        ways.last_number += 1;
        let walk = Walk {
            number: ways.last_number,
            connection,
            page,
            begins: BTreeMap::from([(page.saturating_add(1), begin)]),
            total_count,
            touched: now,
        };
        ways.by_key.entry(key).or_default().push(walk);
        ways.count += 1;
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }
}

impl Ways {
    fn make_room(&mut self, key: &Key, now: Instant) {
        if let Some(walks) = self.by_key.get_mut(key)
            && walks.len() >= limits::WALKS_PER_LIST_MAX
            && let Some(oldest) = (0..walks.len()).min_by_key(|index| walks[*index].touched)
        {
            walks.swap_remove(oldest);
            self.count -= 1;
        }
        if self.count < limits::WALKS_MAX {
            return;
        }
        // Many at a time, so that a flood does not look through all of them for each one.
        let mut times: Vec<Instant> = self.by_key.values().flatten().map(|walk| walk.touched).collect();
        times.sort_unstable();
        let keep_from = times[times.len() / 8];
        self.by_key.retain(|_, walks| {
            walks.retain(|walk| {
                walk.touched > keep_from && now.duration_since(walk.touched) < limits::WALK_LIFETIME
            });
            !walks.is_empty()
        });
        self.count = self.by_key.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn given(page: u64, next: Option<&str>) -> Given {
        let begin = next.map_or(Begin::End, |text| Begin::After(Cursor::new(text)));
        Given { page, total_count: 9, begin }
    }

    fn begin(found: Option<Found>) -> Option<Begin> {
        found.map(|found| found.begin)
    }

    fn peer(port: u16) -> Option<SocketAddr> {
        Some(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    #[test]
    fn a_walk_goes_on_where_it_ended_and_can_ask_again() {
        let (walks, key, now) = (Walks::default(), [0; 32], Instant::now());
        walks.note(key, None, None, given(1, Some("a")), now);
        let found = walks.find(&key, None, 2, now).unwrap();
        assert_eq!((&found.begin, found.total_count), (&Begin::After(Cursor::new("a")), 9));
        walks.note(key, None, Some(found.walk), given(2, None), now);
        assert_eq!(begin(walks.find(&key, None, 3, now)), Some(Begin::End));
        assert_eq!(begin(walks.find(&key, None, 2, now)), Some(Begin::After(Cursor::new("a"))));
        assert_eq!(walks.find(&key, None, 4, now), None);
        assert_eq!(walks.find(&[1; 32], None, 2, now), None);
        assert_eq!(walks.find(&key, None, 2, now + limits::WALK_LIFETIME), None);
    }

    #[test]
    fn walks_of_one_kind_are_told_apart() {
        let (walks, key, now) = (Walks::default(), [0; 32], Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        walks.note(key, peer(1), None, given(1, Some("a")), now);
        walks.note(key, peer(2), None, given(1, Some("b")), later(1));
        assert_eq!(begin(walks.find(&key, peer(2), 2, later(2))), Some(Begin::After(Cursor::new("b"))));
        // Of another connection: the latest.
        let latest = walks.find(&key, peer(3), 2, later(2)).unwrap();
        assert_eq!(latest.begin, Begin::After(Cursor::new("b")));
        walks.note(key, peer(3), Some(latest.walk), given(2, Some("aa")), later(3));
        assert_eq!(begin(walks.find(&key, peer(4), 2, later(4))), Some(Begin::After(Cursor::new("a"))));
        assert_eq!(begin(walks.find(&key, peer(4), 3, later(4))), Some(Begin::After(Cursor::new("aa"))));
    }

    #[test]
    fn walks_are_bounded() {
        let (walks, now) = (Walks::default(), Instant::now());
        for number in 0..limits::WALKS_PER_LIST_MAX + 5 {
            walks.note([0; 32], None, None, given(1, Some("a")), now + Duration::from_millis(number as u64));
        }
        assert_eq!(walks.len(), limits::WALKS_PER_LIST_MAX);
        for number in 0..3 * limits::WALKS_MAX {
            let mut key = [1; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            walks.note(key, None, None, given(1, Some("a")), now + Duration::from_millis(number as u64));
            assert!(walks.len() <= limits::WALKS_MAX);
            assert!(walks.find(&key, None, 2, now).is_some(), "the newest one is kept");
        }
        let key = [9; 32];
        walks.note(key, None, None, given(1, Some("a")), now);
        let walk = walks.find(&key, None, 2, now).unwrap().walk;
        for page in 2..100 {
            walks.note(key, None, Some(walk), given(page, Some("a")), now);
        }
        assert_eq!(walks.find(&key, None, 2, now), None);
        assert!(walks.find(&key, None, 100, now).is_some());
        // A single page makes no walk.
        let before = walks.len();
        walks.note([8; 32], None, None, given(1, None), now);
        assert_eq!(walks.len(), before);
    }
}
