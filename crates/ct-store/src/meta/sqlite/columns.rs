//! Numbers of trajectories and runs, packed, for orders and for what a run decides.
//!
//! An index in the order of a number is of use while nearly all rows match: with a filter, and a number that goes with it
//! (suspicion, and no side task), a walk through it looks at each of a million entries, some 200 ms. Looking at the keys
//! of the million in a thousand pieces (4 MB) and picking the first of them takes a few, whatever the filter and the page.
//! So does finding the trajectories of a set of runs.

use ct_model::{RunStatus, TrajectoryRow};
use rusqlite::Connection;

use super::DbError;
use super::commit::value;
use super::pieces::{self, Group, Piece, Reader, Table, View};
use super::postings::{Changes, Facet, SeqSet};

type Result<T> = std::result::Result<T, DbError>;

/// The keys of a piece fill a page of the database.
pub(super) const PIECE_ROWS: i64 = 1000;
const PIECES_PER_COLUMN: i64 = 1 << 40;
const KEY_BYTES: usize = 4;

/// A number that is kept of each trajectory, or of each run. Instead of a text it is that of its value among the facets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// The number of its run.
    Run = 1,
    Started,
    Suspicion,
    Actions,
    Duration,
    Cost,
    Environment,
    MainTask,
    SideTask,
    RunPolicy,
    RunTaskSet,
    RunStatus,
}

impl Column {
    /// The numbers of what one trajectory itself has.
    const OWN: [Self; 5] = [Self::Started, Self::Suspicion, Self::Actions, Self::Duration, Self::Cost];
    /// All of a trajectory.
    const OF_TRAJECTORIES: [Self; 9] = [
        Self::Run,
        Self::Started,
        Self::Suspicion,
        Self::Actions,
        Self::Duration,
        Self::Cost,
        Self::Environment,
        Self::MainTask,
        Self::SideTask,
    ];
    /// All of a run.
    const OF_RUNS: [Self; 3] = [Self::RunPolicy, Self::RunTaskSet, Self::RunStatus];

    /// Of a text: what its values are facets of.
    pub(super) fn facet(self) -> Option<Facet> {
        Some(match self {
            Self::Environment => Facet::TrajectoryEnvironment,
            Self::MainTask => Facet::TrajectoryMainTask,
            Self::SideTask => Facet::TrajectorySideTask,
            Self::RunPolicy => Facet::RunPolicy,
            Self::RunTaskSet => Facet::RunTaskSet,
            Self::RunStatus => Facet::RunStatus,
            Self::Run | Self::Started | Self::Suspicion | Self::Actions | Self::Duration | Self::Cost => {
                return None;
            }
        })
    }

    fn key(self, row: &TrajectoryRow) -> u32 {
        match self {
            Self::Started => row.time_started.map_or(NOTHING, |ms| whole(ms.div_euclid(1000))),
            Self::Suspicion => rounded(row.max_suspicion_score),
            Self::Actions => rounded(Some(row.actions_count as f64)),
            Self::Duration => rounded(row.duration_ms.map(|ms| ms as f64)),
            Self::Cost => rounded(row.cost_usd),
            // These are no numbers of a row.
            Self::Run
            | Self::Environment
            | Self::MainTask
            | Self::SideTask
            | Self::RunPolicy
            | Self::RunTaskSet
            | Self::RunStatus => NOTHING,
        }
    }
}

pub(super) const NOTHING: u32 = 0;

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
    pub(super) fn set(&mut self, column: Column, seq: i64, key: u32) {
        let place = usize::try_from(seq % PIECE_ROWS).expect("numbers are not negative");
        self.0.push(Change { piece: piece(column, seq), place, key });
    }

    /// Of a text, the number of its value.
    pub(super) fn put_text(&mut self, column: Column, seq: i64, facet_id: Option<i64>) {
        self.set(column, seq, facet_id.map_or(NOTHING, whole));
    }

    /// The numbers of a trajectory.
    pub(super) fn put(&mut self, seq: i64, run: i64, row: &TrajectoryRow) {
        self.set(Column::Run, seq, whole(run));
        Column::OWN.into_iter().for_each(|column| self.set(column, seq, column.key(row)));
    }

    /// Takes away all of a trajectory.
    pub(super) fn clear(&mut self, seq: i64) {
        Column::OF_TRAJECTORIES.into_iter().for_each(|column| self.set(column, seq, NOTHING));
    }

    /// Takes away all of a run.
    pub(super) fn clear_run(&mut self, seq: i64) {
        Column::OF_RUNS.into_iter().for_each(|column| self.set(column, seq, NOTHING));
    }

    fn by_piece(&mut self) -> impl Iterator<Item = &[Change]> {
        self.0.sort_by_key(|change| change.piece);
        self.0.chunk_by(|a, b| a.piece == b.piece)
    }

    /// Writes them, within the caller's transaction.
    pub(super) fn apply(mut self, conn: &Connection) -> Result<()> {
        for changes in self.by_piece() {
            let piece = changes[0].piece;
            let keys = changed(pieces::read(conn, Table::Keys, piece)?, changes);
            pieces::write(conn, Table::Keys, piece, &keys)?;
        }
        Ok(())
    }

    /// Whether the keys in the database are those that these changes make out of nothing.
    pub(super) fn are_stored(mut self, conn: &Connection) -> Result<bool> {
        let made = self.by_piece().map(|changes| (changes[0].piece, changed(Vec::new(), changes)));
        pieces::are_stored(conn, Table::Keys, made)
    }
}

/// What trajectories are ordered by.
pub(super) fn put_trajectory(
    conn: &Connection,
    changes: &mut Changes,
    seq: i64,
    run: i64,
    row: &TrajectoryRow,
) -> Result<()> {
    changes.keys.put(seq, run, row);
    let texts = [
        (Column::Environment, row.environment_id.as_deref()),
        (Column::MainTask, row.main_task_id.as_deref()),
        (Column::SideTask, row.side_task_id.as_deref()),
    ];
    texts.into_iter().try_for_each(|(column, text)| put_text(conn, changes, column, seq, text))
}

/// What runs are ordered by.
pub(super) fn put_run(
    conn: &Connection,
    changes: &mut Changes,
    seq: i64,
    policy: Option<&str>,
    task_set: Option<&str>,
    status: RunStatus,
) -> Result<()> {
    put_text(conn, changes, Column::RunStatus, seq, Some(status.as_str()))?;
    put_labels(conn, changes, seq, policy, task_set)
}

/// What runs are ordered by that users can change.
pub(super) fn put_labels(
    conn: &Connection,
    changes: &mut Changes,
    seq: i64,
    policy: Option<&str>,
    task_set: Option<&str>,
) -> Result<()> {
    put_text(conn, changes, Column::RunPolicy, seq, policy)?;
    put_text(conn, changes, Column::RunTaskSet, seq, task_set)
}

pub(super) fn put_text(
    conn: &Connection,
    changes: &mut Changes,
    column: Column,
    seq: i64,
    text: Option<&str>,
) -> Result<()> {
    let text = text.filter(|text| !text.is_empty()).zip(column.facet());
    let facet_id = text.map(|(text, facet)| changes.id(conn, facet, &value(text))).transpose()?;
    changes.keys.put_text(column, seq, facet_id);
    Ok(())
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

pub(super) fn piece(column: Column, seq: i64) -> i64 {
    column as i64 * PIECES_PER_COLUMN + seq / PIECE_ROWS
}

/// Tells the key of each row of a set, in the order of their numbers. Of a small set, no other pieces are read.
pub(super) fn for_each(
    view: View<'_>,
    column: Column,
    set: &SeqSet,
    is_small: bool,
    mut f: impl FnMut(i64, u32),
) -> Result<()> {
    let mut pieces = reader(view, column, is_small)?;
    for range in set.ranges(PIECE_ROWS) {
        let piece = pieces.piece(piece(column, range.start))?;
        let keys = keys(piece.as_deref());
        set.for_each_in(&range, |seq| f(seq, key(keys, range.start, seq)));
    }
    Ok(())
}

pub(super) fn reader(view: View<'_>, column: Column, few: bool) -> Result<Reader<'_>> {
    let first = piece(column, 0);
    view.reader(&Group { table: Table::Keys, pieces: first..first + PIECES_PER_COLUMN }, few)
}

pub(super) fn keys(piece: Option<&Piece>) -> &[[u8; KEY_BYTES]] {
    piece.map(|piece| piece.bytes.as_chunks().0).unwrap_or_default()
}

pub(super) fn key(keys: &[[u8; KEY_BYTES]], first: i64, seq: i64) -> u32 {
    let place = usize::try_from(seq - first).unwrap_or(usize::MAX);
    keys.get(place).map_or(NOTHING, |key| u32::from_le_bytes(*key))
}

/// Keeps those of a set that belong to a run of another set.
pub(super) fn keep_of_runs(view: View<'_>, set: &mut SeqSet, runs: &SeqSet) -> Result<()> {
    // For each key whether it is of one of them.
    let mut wanted = vec![false; runs.nth(0, true).map_or(0, |last| whole(last) as usize + 1)];
    runs.ascending(0).for_each(|run| wanted[whole(run) as usize] = true);
    let mut pieces = reader(view, Column::Run, false)?;
    for range in set.ranges(PIECE_ROWS).collect::<Vec<_>>() {
        let piece = pieces.piece(piece(Column::Run, range.start))?;
        let keys = keys(piece.as_deref());
        set.retain_in(&range, |seq| {
            wanted.get(key(keys, range.start, seq) as usize).copied().unwrap_or(false)
        });
    }
    Ok(())
}

/// What is known of the keys of a piece without a look at each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// The smallest and the largest key, but nothing.
    pub(super) ends: [u32; 2],
    has_nothing: bool,
    /// Which buckets there are keys of, a bit each.
    pub(super) seen: u64,
}

pub(super) fn bucket(key: u32) -> usize {
    key as usize % 64
}

impl Extent {
    pub(super) fn with_nothing(&self, [first, last]: [u32; 2]) -> [u32; 3] {
        [first, last, if self.has_nothing { NOTHING } else { first }]
    }

    pub(super) fn of(piece: &Piece) -> Self {
        let keys = keys(Some(piece)).iter().map(|key| u32::from_le_bytes(*key));
        let mut extent = Self { ends: [NOTHING; 2], has_nothing: false, seen: 0 };
        let (mut first, mut last, mut count) = (u32::MAX, NOTHING, 0);
        for key in keys.filter(|key| *key != NOTHING) {
            (first, last, count) = (first.min(key), last.max(key), count + 1);
            extent.seen |= 1 << bucket(key);
        }
        extent.has_nothing = count < PIECE_ROWS;
        if count > 0 {
            extent.ends = [first, last];
        }
        extent
    }
}

#[cfg(test)]
mod tests {
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
}
