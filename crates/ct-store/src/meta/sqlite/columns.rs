//! Numbers of trajectories, packed, for orders and for what a run decides.
//!
//! An index in the order of a number is of use while nearly all rows match: with a filter, and a number that goes with it
//! (suspicion, and no side task), a walk through it looks at each of a million entries, some 200 ms. Reading the keys of
//! the million from a thousand pieces (4 MB) and picking the first of them takes a few, whatever the filter and the page.
//! So does finding the trajectories of a set of runs.

use ct_model::{TrajectoryRow, TrajectorySort};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::DbError;
use super::postings::SeqSet;

type Result<T> = std::result::Result<T, DbError>;

/// The keys of a piece fill a page of the database.
const PIECE_ROWS: i64 = 1000;
const PIECES_PER_COLUMN: i64 = 1 << 40;
const KEY_BYTES: usize = 4;

/// A number that is kept of each trajectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// The number of its run.
    Run = 1,
    Started,
    Suspicion,
    Actions,
    Duration,
    Cost,
}

impl Column {
    /// Those of what one trajectory itself has.
    const OWN: [Self; 5] = [Self::Started, Self::Suspicion, Self::Actions, Self::Duration, Self::Cost];

    /// What an order looks at. None: at nothing but the numbers of trajectories.
    pub(super) fn of(sort: TrajectorySort) -> Option<Self> {
        Some(match sort {
            TrajectorySort::Created => return None,
            TrajectorySort::Started => Self::Started,
            TrajectorySort::Suspicion => Self::Suspicion,
            TrajectorySort::Actions => Self::Actions,
            TrajectorySort::Duration => Self::Duration,
            TrajectorySort::Cost => Self::Cost,
        })
    }

    fn key(self, row: &TrajectoryRow) -> u32 {
        match self {
            // The run is no field of a row that could be read as a number.
            Self::Run => NOTHING,
            Self::Started => row.time_started.map_or(NOTHING, |ms| whole(ms.div_euclid(1000))),
            Self::Suspicion => rounded(row.max_suspicion_score),
            Self::Actions => rounded(Some(row.actions_count as f64)),
            Self::Duration => rounded(row.duration_ms.map(|ms| ms as f64)),
            Self::Cost => rounded(row.cost_usd),
        }
    }
}

const NOTHING: u32 = 0;

/// The key of a whole number that is not negative, such as seconds since the epoch.
pub(super) fn whole(number: i64) -> u32 {
    // The largest keys are left to those who turn the order round.
    u32::try_from(number.clamp(0, i64::from(u32::MAX) - 2)).expect("clamped") + 1
}

/// The key of a number, rounded to some seven digits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding is meant, and what is too large becomes infinite"
)]
fn rounded(number: Option<f64>) -> u32 {
    let Some(number) = number.map(|number| number as f32).filter(|number| number.is_finite()) else {
        return NOTHING;
    };
    // Zero has one key, whatever its sign.
    let bits = (number + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// The number that a key was made of; 0.85, not 0.8500000238.
pub(super) fn number(key: u32) -> Option<f64> {
    let bits = match key {
        NOTHING => return None,
        _ if key >> 31 == 1 => key & !(1 << 31),
        _ => !key,
    };
    let number = f64::from(f32::from_bits(bits));
    let digits = 6 - number.abs().log10().floor().clamp(-30.0, 6.0) as i32;
    let scale = 10f64.powi(digits);
    Some(if number == 0.0 { 0.0 } else { (number * scale).round() / scale })
}

/// Changes to keys, gathered to be written in one go. For one trajectory and column the last one counts.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Change>);

#[derive(Debug, Clone, Copy)]
struct Change {
    piece: i64,
    place: usize,
    key: u32,
}

impl Keys {
    fn set(&mut self, column: Column, seq: i64, key: u32) {
        let place = usize::try_from(seq % PIECE_ROWS).expect("numbers are not negative");
        self.0.push(Change { piece: piece(column, seq), place, key });
    }

    /// All keys of a trajectory.
    pub(super) fn put(&mut self, seq: i64, run: i64, row: &TrajectoryRow) {
        self.set(Column::Run, seq, whole(run));
        Column::OWN.into_iter().for_each(|column| self.set(column, seq, column.key(row)));
    }

    /// Takes away those of a trajectory.
    pub(super) fn clear(&mut self, seq: i64) {
        self.set(Column::Run, seq, NOTHING);
        Column::OWN.into_iter().for_each(|column| self.set(column, seq, NOTHING));
    }

    fn by_piece(&mut self) -> impl Iterator<Item = &[Change]> {
        self.0.sort_by_key(|change| change.piece);
        self.0.chunk_by(|a, b| a.piece == b.piece)
    }

    /// Writes them, within the caller's transaction.
    pub(super) fn apply(mut self, conn: &Connection) -> Result<()> {
        let mut read = conn.prepare_cached("SELECT keys FROM trajectory_keys WHERE piece = ?")?;
        let mut write =
            conn.prepare_cached("INSERT OR REPLACE INTO trajectory_keys (piece, keys) VALUES (?, ?)")?;
        let mut clear = conn.prepare_cached("DELETE FROM trajectory_keys WHERE piece = ?")?;
        for changes in self.by_piece() {
            let piece = changes[0].piece;
            let old: Option<Vec<u8>> = read.query_row([piece], |row| row.get(0)).optional()?;
            let keys = changed(old.unwrap_or_default(), changes);
            match keys.is_empty() {
                false => write.execute(params![piece, keys])?,
                true => clear.execute([piece])?,
            };
        }
        Ok(())
    }

    /// Whether the keys in the database are those that these changes make out of nothing.
    pub(super) fn are_stored(mut self, conn: &Connection) -> Result<bool> {
        let mut read = conn.prepare("SELECT piece, keys FROM trajectory_keys ORDER BY piece")?;
        let mut rows = read.query([])?;
        for changes in self.by_piece() {
            let made = changed(Vec::new(), changes);
            if made.is_empty() {
                continue;
            }
            let Some(row) = rows.next()? else { return Ok(false) };
            if row.get::<_, i64>(0)? != changes[0].piece || row.get::<_, Vec<u8>>(1)? != made {
                return Ok(false);
            }
        }
        Ok(rows.next()?.is_none())
    }
}

/// A piece without the nothing at its end.
fn changed(mut keys: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let at = change.place * KEY_BYTES;
        if keys.len() < at + KEY_BYTES {
            keys.resize(at + KEY_BYTES, 0);
        }
        keys[at..at + KEY_BYTES].copy_from_slice(&change.key.to_le_bytes());
    }
    let end = keys.as_chunks::<KEY_BYTES>().0.iter().rposition(|key| *key != [0; KEY_BYTES]);
    keys.truncate(end.map_or(0, |last| (last + 1) * KEY_BYTES));
    keys
}

fn piece(column: Column, seq: i64) -> i64 {
    column as i64 * PIECES_PER_COLUMN + seq / PIECE_ROWS
}

/// Reads keys of one column, in the order of the numbers of their trajectories.
struct Reader<'c> {
    read: CachedStatement<'c>,
    column: Column,
    /// The piece at hand: its first number, that of the next one, and its keys.
    first: i64,
    behind: i64,
    keys: Vec<u8>,
}

impl<'c> Reader<'c> {
    fn new(conn: &'c Connection, column: Column) -> Result<Self> {
        let read = conn.prepare_cached("SELECT keys FROM trajectory_keys WHERE piece = ?")?;
        Ok(Self { read, column, first: 0, behind: 0, keys: Vec::new() })
    }

    fn key(&mut self, seq: i64) -> Result<u32> {
        if seq >= self.behind {
            self.first = seq / PIECE_ROWS * PIECE_ROWS;
            self.behind = self.first + PIECE_ROWS;
            self.keys.clear();
            let mut rows = self.read.query([piece(self.column, seq)])?;
            if let Some(row) = rows.next()? {
                self.keys.extend_from_slice(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?);
            }
        }
        let place = usize::try_from(seq - self.first).expect("numbers come in order");
        let key = self.keys.as_chunks::<KEY_BYTES>().0.get(place);
        Ok(key.map_or(NOTHING, |key| u32::from_le_bytes(*key)))
    }
}

/// Tells the key of each trajectory of a set, in the order of their numbers. Reads the pieces that they are in.
pub(super) fn for_each(
    conn: &Connection,
    column: Column,
    set: &SeqSet,
    mut f: impl FnMut(i64, u32),
) -> Result<()> {
    let mut reader = Reader::new(conn, column)?;
    set.for_each(|seq| {
        f(seq, reader.key(seq)?);
        Ok(())
    })
}

/// Keeps those of a set that belong to a run of another set.
pub(super) fn keep_of_runs(conn: &Connection, set: &mut SeqSet, runs: &SeqSet) -> Result<()> {
    let mut reader = Reader::new(conn, Column::Run)?;
    // Those of one run lie side by side.
    let mut last = (NOTHING, false);
    set.retain(|seq| {
        let key = reader.key(seq)?;
        if key != last.0 {
            last = (key, runs.contains(i64::from(key) - 1));
        }
        Ok(last.1)
    })
}

/// A place in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) key: u32,
    pub(super) seq: i64,
}

/// A part of a set in the order of a column. Those without a number come last, whatever the direction; equal ones are in
/// the order of their numbers.
pub(super) struct Part {
    pub(super) descending: bool,
    pub(super) after: Option<Place>,
    pub(super) skip: u64,
    pub(super) limit: u64,
}

/// The part, and whether there are more behind it. Keeps little more than there are from the nearer end to the part.
pub(super) fn part(
    conn: &Connection,
    column: Column,
    set: &SeqSet,
    part: &Part,
) -> Result<(Vec<Place>, bool)> {
    let rank = |place: Place| Rank::new(place, part.descending);
    let after = part.after.map(rank);
    let all = set.len();
    if part.after.is_none() && part.skip > all / 2 {
        // From the far end, where it is nearer.
        let behind = all.saturating_sub(part.skip);
        let wanted = part.limit.min(behind);
        let mut last = Smallest::new(behind);
        for_each(conn, column, set, |seq, key| last.add(rank(Place { key, seq }).turned()))?;
        let ranks = last.sorted().into_iter().skip(index(behind - wanted)).take(index(wanted));
        let mut places: Vec<Place> = ranks.map(|rank| rank.turned().place(part.descending)).collect();
        places.reverse();
        return Ok((places, wanted < behind));
    }
    let mut first = Smallest::new(part.skip.saturating_add(part.limit).saturating_add(1));
    for_each(conn, column, set, |seq, key| {
        let rank = rank(Place { key, seq });
        if after.is_none_or(|after| rank > after) {
            first.add(rank);
        }
    })?;
    let ranks = first.sorted();
    let more = ranks.len() as u64 > part.skip.saturating_add(part.limit);
    let ranks = ranks.into_iter().skip(index(part.skip)).take(index(part.limit));
    Ok((ranks.map(|rank| rank.place(part.descending)).collect(), more))
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A place as one number: smaller is nearer to the beginning of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u128);

impl Rank {
    fn new(place: Place, descending: bool) -> Self {
        // What is nothing is the last in either direction.
        let key = if descending { !place.key } else { place.key.wrapping_sub(1) };
        let seq = place.seq.unsigned_abs();
        Self(u128::from(key) << 64 | u128::from(if descending { !seq } else { seq }))
    }

    /// In the order the other way round.
    fn turned(self) -> Self {
        Self(!self.0)
    }

    fn place(self, descending: bool) -> Place {
        let (key, seq) = ((self.0 >> 64) as u32, self.0 as u64);
        let (key, seq) = if descending { (!key, !seq) } else { (key.wrapping_add(1), seq) };
        Place { key, seq: i64::try_from(seq).unwrap_or(i64::MAX) }
    }
}

/// The smallest of many.
struct Smallest {
    count: usize,
    kept: Vec<Rank>,
    /// What is not below it is none of them.
    limit: Option<Rank>,
}

impl Smallest {
    fn new(count: u64) -> Self {
        Self { count: index(count), kept: Vec::new(), limit: None }
    }

    fn add(&mut self, rank: Rank) {
        if self.count == 0 || self.limit.is_some_and(|limit| rank >= limit) {
            return;
        }
        self.kept.push(rank);
        if self.kept.len() >= self.count.saturating_add((self.count / 4).max(1024)) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.kept.len() > self.count {
            let (_, limit, _) = self.kept.select_nth_unstable(self.count);
            self.limit = Some(*limit);
            self.kept.truncate(self.count);
        }
    }

    fn sorted(mut self) -> Vec<Rank> {
        self.cut();
        self.kept.sort_unstable();
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers_and_give_them_back() {
        let numbers = [-5.5, -0.25, 0.0, 1e-7, 0.05, 0.85, 1.0, 12.5, 40.0, 123_456.7, 1e9];
        let keys = numbers.map(|number| rounded(Some(number)));
        assert!(keys.is_sorted() && keys[0] > NOTHING, "{keys:?}");
        assert_eq!(keys.map(|key| number(key).unwrap()), numbers);
        assert_eq!(rounded(Some(-0.0)), rounded(Some(0.0)));
        for nothing in [None, Some(f64::NAN), Some(f64::INFINITY), Some(1e300)] {
            assert_eq!(rounded(nothing), NOTHING);
        }
        assert!(whole(-1) == whole(0) && whole(0) < whole(1) && whole(i64::MAX) < u32::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn parts_are_those_of_the_whole_order(
            rows in prop::collection::vec((1i64..5000, prop_oneof![Just(0u32), 1u32..20]), 0..300),
            skip in 0u64..320,
            limit in 0u64..320,
            after in prop::option::of(0usize..300),
            descending in any::<bool>(),
        ) {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch(include_str!("migrations/0005.sql")).unwrap();
            let (mut keys, mut set) = (Keys::default(), SeqSet::default());
            let rows: std::collections::BTreeMap<i64, u32> = rows.into_iter().collect();
            for (seq, key) in &rows {
                keys.set(Column::Cost, *seq, *key);
                set.insert(*seq);
            }
            keys.apply(&conn).unwrap();
            let mut all: Vec<Place> = rows.iter().map(|(seq, key)| Place { key: *key, seq: *seq }).collect();
            all.sort_by_key(|place| (place.key, place.seq));
            if descending {
                all.reverse();
            }
            all.sort_by_key(|place| place.key == NOTHING);
            let after = after.and_then(|at| all.get(at).copied());
            let from = after.map_or(0, |after| all.iter().position(|place| *place == after).unwrap() + 1);
            let rest = &all[from..];
            let expected: Vec<Place> = rest.iter().skip(skip as usize).take(limit as usize).copied().collect();
            let asked = Part { descending, after, skip, limit };
            let (found, more) = part(&conn, Column::Cost, &set, &asked).unwrap();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(more, rest.len() as u64 > skip + limit);
        }
    }
}
