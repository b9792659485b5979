//! Orders: which of a set of rows come first by the keys of a packed column.
//!
//! Nothing is sorted but what is shown. All keys of a column are in memory (see [`super::pieces`]), with the smallest and the
//! largest of each piece; the pieces that may have something that comes first are looked through, beginning with the most
//! promising one, until no other can have anything better. So a page costs little more for a million rows than for a
//! thousand, whatever the filter.

use std::ops::Range;

use ct_model::{RunSort, TrajectorySort};
use rusqlite::Connection;

use super::DbError;
use super::columns::{
    Column, Extent, NOTHING, PIECE_ROWS, bucket, for_each, key, keys, piece, reader, whole,
};
use super::pieces::{Piece, View};
use super::postings::{ANY, Facet, SeqSet, load};

type Result<T> = std::result::Result<T, DbError>;

/// What rows are ordered by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    column: Column,
    /// The rows are trajectories, and the column is one of runs.
    by_run: bool,
}

impl Order {
    /// None: by the numbers of trajectories alone.
    pub(super) fn of_trajectories(sort: TrajectorySort) -> Option<Self> {
        let own = |column| Some(Self { column, by_run: false });
        match sort {
            TrajectorySort::Created => None,
            TrajectorySort::Started => own(Column::Started),
            TrajectorySort::Suspicion => own(Column::Suspicion),
            TrajectorySort::Actions => own(Column::Actions),
            TrajectorySort::Duration => own(Column::Duration),
            TrajectorySort::Cost => own(Column::Cost),
            TrajectorySort::Environment => own(Column::Environment),
            TrajectorySort::MainTask => own(Column::MainTask),
            TrajectorySort::SideTask => own(Column::SideTask),
            TrajectorySort::Policy => Some(Self { column: Column::RunPolicy, by_run: true }),
        }
    }

    /// None: what runs are ordered by is in an index of its own.
    pub(super) fn of_runs(sort: RunSort) -> Option<Self> {
        let column = match sort {
            RunSort::Policy => Column::RunPolicy,
            RunSort::TaskSet => Column::RunTaskSet,
            RunSort::Status => Column::RunStatus,
            RunSort::Created | RunSort::Name | RunSort::Cost | RunSort::Trajectories | RunSort::MainRate => {
                return None;
            }
        };
        Some(Self { column, by_run: false })
    }
}

/// The order of the texts of a column. They have numbers in the order in which they first came.
struct Texts {
    /// In their order, the keys.
    keys: Vec<u32>,
    /// For each key from the smallest on its place in the order, counted from 1.
    places: Vec<u32>,
    first: u32,
}

impl Texts {
    fn new(conn: &Connection, facet: Facet) -> Result<Self> {
        let mut texts: Vec<(u32, String, String)> = Vec::new();
        let mut find = conn.prepare_cached("SELECT facet_id, value FROM facets WHERE kind = ?")?;
        let mut rows = find.query([facet.as_str()])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get(1)?;
            texts.push((whole(row.get(0)?), text.to_lowercase(), text));
        }
        texts.sort_unstable_by(|a, b| (&a.1, &a.2).cmp(&(&b.1, &b.2)));
        let keys: Vec<u32> = texts.into_iter().map(|text| text.0).collect();
        let first = keys.iter().copied().min().unwrap_or(0);
        let mut places = vec![NOTHING; keys.iter().max().map_or(0, |last| (last - first) as usize + 1)];
        for (place, key) in (1..).zip(&keys) {
            places[(key - first) as usize] = place;
        }
        Ok(Self { keys, places, first })
    }

    /// Where a text is, counted from 1.
    fn place(&self, key: u32) -> u32 {
        key.checked_sub(self.first).and_then(|at| self.places.get(at as usize)).copied().unwrap_or(NOTHING)
    }

    fn key(&self, place: u32) -> u32 {
        place.checked_sub(1).and_then(|at| self.keys.get(at as usize)).copied().unwrap_or(NOTHING)
    }

    /// The first and the last place of the keys of each bucket.
    fn ends(&self) -> [[u32; 2]; 64] {
        let mut ends = [[NOTHING; 2]; 64];
        for (place, key) in (1..).zip(&self.keys) {
            let [first, last] = &mut ends[bucket(*key)];
            (*first, *last) = (if *first == NOTHING { place } else { *first }, place);
        }
        ends
    }

    /// For each run the place of its text.
    fn of_runs(&self, view: View<'_>, column: Column) -> Result<Vec<u32>> {
        let mut runs = SeqSet::default();
        load(view.conn, Facet::Run, ANY, &mut runs)?;
        let mut places = vec![NOTHING; runs.nth(0, true).map_or(0, |last| whole(last) as usize + 1)];
        for_each(view, column, &runs, false, |run, key| places[whole(run) as usize] = self.place(key))?;
        Ok(places)
    }
}

/// A place in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) key: u32,
    pub(super) seq: i64,
}

/// A part of a set in an order. Those without a value come last, whatever the direction; equal ones are in the order of
/// their numbers.
pub(super) struct Part {
    pub(super) descending: bool,
    pub(super) after: Option<Place>,
    pub(super) skip: u64,
    pub(super) limit: u64,
}

/// The part, and whether there are more behind it. Keeps little more than there are from the nearer end to the part.
pub(super) fn part(view: View<'_>, order: Order, set: &SeqSet, part: &Part) -> Result<(Vec<Place>, bool)> {
    let Some(facet) = order.column.facet() else {
        return part_by(view, order.column, set, part, |key| key, |extent| extent.with_nothing(extent.ends));
    };
    // Texts are compared by their places.
    let texts = Texts::new(view.conn, facet)?;
    let after = part.after.map(|after| Place { key: texts.place(after.key), ..after });
    let by_place = Part { after, ..*part };
    let (mut places, more) = if order.by_run {
        let of_runs = texts.of_runs(view, order.column)?;
        let place = |run| of_runs.get(run as usize).copied().unwrap_or(NOTHING);
        let last = u32::try_from(texts.keys.len()).unwrap_or(u32::MAX);
        part_by(view, Column::Run, set, &by_place, place, |_| [last.min(1), last, NOTHING])?
    } else {
        let ends = texts.ends();
        let ends_of = |extent: &Extent| {
            let seen = (0..64).filter(|bucket| extent.seen >> bucket & 1 == 1).map(|bucket| ends[bucket]);
            let ends = seen.reduce(|[first, last], [a, b]| [first.min(a), last.max(b)]);
            extent.with_nothing(ends.unwrap_or_default())
        };
        part_by(view, order.column, set, &by_place, |key| texts.place(key), ends_of)?
    };
    places.iter_mut().for_each(|place| place.key = texts.key(place.key));
    Ok((places, more))
}

/// As [`part`], by what `made_of` makes of the keys of a column. `ends` tells the first and the last that it makes of those of
/// a piece, and nothing when that may be among them.
fn part_by(
    view: View<'_>,
    column: Column,
    set: &SeqSet,
    part: &Part,
    made_of: impl Fn(u32) -> u32,
    ends: impl Fn(&Extent) -> [u32; 3],
) -> Result<(Vec<Place>, bool)> {
    let scan = Scan { view, column, set, made_of, ends };
    let rank = |key, seq| Rank::new(Place { key, seq }, part.descending);
    let all = set.len();
    if part.after.is_none() && part.skip > all / 2 {
        // From the far end, where it is nearer.
        let behind = all.saturating_sub(part.skip);
        let wanted = part.limit.min(behind);
        let last = scan.smallest(behind, None, |key, seq| rank(key, seq).turned())?;
        let ranks = last.into_iter().skip(index(behind - wanted)).take(index(wanted));
        let mut places: Vec<Place> = ranks.map(|rank| rank.turned().place(part.descending)).collect();
        places.reverse();
        return Ok((places, wanted < behind));
    }
    let end = part.skip.saturating_add(part.limit);
    let after = part.after.map(|after| rank(after.key, after.seq));
    let ranks = scan.smallest(end.saturating_add(1), after, rank)?;
    let more = ranks.len() as u64 > end;
    let ranks = ranks.into_iter().skip(index(part.skip)).take(index(part.limit));
    Ok((ranks.map(|rank| rank.place(part.descending)).collect(), more))
}

/// Looks through a column for the members of a set that come first.
struct Scan<'a, M, E> {
    view: View<'a>,
    column: Column,
    set: &'a SeqSet,
    made_of: M,
    ends: E,
}

impl<M: Fn(u32) -> u32, E: Fn(&Extent) -> [u32; 3]> Scan<'_, M, E> {
    /// The smallest ranks beyond one, in order.
    fn smallest(
        &self,
        count: u64,
        after: Option<Rank>,
        rank: impl Fn(u32, i64) -> Rank,
    ) -> Result<Vec<Rank>> {
        let mut smallest = Smallest::new(count);
        let look = |smallest: &mut Smallest, range: &Range<i64>, piece: Option<&Piece>| {
            let keys = keys(piece);
            self.set.for_each_in(range, |seq| {
                let rank = rank((self.made_of)(key(keys, range.start, seq)), seq);
                if after.is_none_or(|after| rank > after) {
                    smallest.add(rank);
                }
            });
        };
        let mut pieces = reader(self.view, self.column, false)?;
        let mut promising = Vec::new();
        for range in self.set.ranges(PIECE_ROWS) {
            let piece = pieces.piece(piece(self.column, range.start))?;
            if pieces.are_kept() {
                let [first, last] = self.ranks_of(&range, piece.as_deref(), &rank);
                if after.is_none_or(|after| last > after) {
                    promising.push((first, range, piece));
                }
            } else {
                look(&mut smallest, &range, piece.as_deref());
            }
        }
        // Most pieces have nothing that would be among the first: where there may be something is looked first.
        promising.sort_unstable_by_key(|(first, ..)| *first);
        for (first, range, piece) in promising {
            if first >= smallest.limit {
                break;
            }
            look(&mut smallest, &range, piece.as_deref());
        }
        Ok(smallest.sorted())
    }

    /// Between which the ranks of a piece are.
    fn ranks_of(
        &self,
        range: &Range<i64>,
        piece: Option<&Piece>,
        rank: impl Fn(u32, i64) -> Rank,
    ) -> [Rank; 2] {
        let extent = piece.map(|piece| piece.extent.get_or_init(|| Extent::of(piece)));
        let ends = extent.map_or([NOTHING; 3], &self.ends);
        let corners = ends.map(|key| [rank(key, range.start), rank(key, range.end - 1)]);
        let corners = corners.as_flattened();
        corners.iter().fold([corners[0]; 2], |[a, b], rank| [a.min(*rank), b.max(*rank)])
    }
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
    limit: Rank,
}

impl Smallest {
    fn new(count: u64) -> Self {
        let limit = if count == 0 { 0 } else { u128::MAX };
        Self { count: index(count), kept: Vec::new(), limit: Rank(limit) }
    }

    fn add(&mut self, rank: Rank) {
        if rank < self.limit {
            self.kept.push(rank);
            if self.kept.len() >= self.count.saturating_add((self.count / 4).max(64)) {
                self.cut();
            }
        }
    }

    #[cold]
    fn cut(&mut self) {
        if self.kept.len() > self.count {
            let (_, limit, _) = self.kept.select_nth_unstable(self.count);
            self.limit = *limit;
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
    use crate::meta::sqlite::MIGRATIONS;
    use crate::meta::sqlite::columns::{Keys, put_text};
    use crate::meta::sqlite::pieces::Kept;
    use crate::meta::sqlite::postings::Changes;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn parts_are_those_of_the_whole_order(
            rows in prop::collection::vec((1i64..9000, prop_oneof![Just(0u32), 1u32..20]), 0..300),
            near in any::<bool>(),
            is_kept in any::<bool>(),
            skip in 0u64..320,
            limit in 0u64..320,
            after in prop::option::of(0usize..300),
            descending in any::<bool>(),
        ) {
            let conn = Connection::open_in_memory().unwrap();
            MIGRATIONS.iter().for_each(|sql| conn.execute_batch(sql).unwrap());
            let kept = if is_kept { Kept::default() } else { Kept::new(0) };
            let (mut keys, mut set) = (Keys::default(), SeqSet::default());
            // In an order like that of the numbers, or in none.
            let key = |seq: i64, key| if near && key > 0 { key + (seq / 300) as u32 } else { key };
            let rows: std::collections::BTreeMap<i64, u32> =
                rows.into_iter().map(|(seq, number)| (seq, key(seq, number))).collect();
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
            let order = Order { column: Column::Cost, by_run: false };
            let asked = Part { descending, after, skip, limit };
            let (found, more) = part(View::new(&conn, &kept), order, &set, &asked).unwrap();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(more, rest.len() as u64 > skip + limit);
        }

        #[test]
        fn texts_are_in_their_order_and_those_of_runs_too(
            rows in prop::collection::btree_map(1i64..9000, (0usize..6, 1i64..2500), 0..200),
            texts in prop::collection::vec(0usize..6, 2500),
            limit in 1u64..30,
            descending in any::<bool>(),
            is_kept in any::<bool>(),
        ) {
            const TEXTS: [&str; 6] = ["", "b", "lab/A", "a", "A", "\u{e4}"];
            let conn = Connection::open_in_memory().unwrap();
            MIGRATIONS.iter().for_each(|sql| conn.execute_batch(sql).unwrap());
            let kept = if is_kept { Kept::default() } else { Kept::new(0) };
            let mut set = SeqSet::default();
            let mut changes = Changes::default();
            let any_run = changes.id(&conn, Facet::Run, ANY).unwrap();
            for (run, text) in (1..).zip(&texts) {
                changes.add(any_run, run);
                put_text(&conn, &mut changes, Column::RunPolicy, run, Some(TEXTS[*text])).unwrap();
            }
            for (seq, (text, run)) in &rows {
                set.insert(*seq);
                changes.keys.set(Column::Run, *seq, whole(*run));
                put_text(&conn, &mut changes, Column::MainTask, *seq, Some(TEXTS[*text])).unwrap();
            }
            changes.apply(&conn).unwrap();
            for by_run in [false, true] {
                let column = if by_run { Column::RunPolicy } else { Column::MainTask };
                let text = |seq: &i64| match rows[seq] {
                    (_, run) if by_run => TEXTS[texts[usize::try_from(run).unwrap() - 1]],
                    (text, _) => TEXTS[text],
                };
                let mut expected: Vec<i64> = rows.keys().copied().collect();
                expected.sort_by_key(|seq| (text(seq).to_lowercase(), text(seq)));
                if descending {
                    // Equal ones are turned, too.
                    expected.reverse();
                }
                expected.sort_by_key(|seq| text(seq).is_empty());
                let (mut found, mut after, order) = (Vec::new(), None, Order { column, by_run });
                loop {
                    let asked = Part { descending, after, skip: 0, limit };
                    let (places, more) = part(View::new(&conn, &kept), order, &set, &asked).unwrap();
                    found.extend(places.iter().map(|place| place.seq));
                    after = places.last().copied();
                    if !more {
                        break;
                    }
                }
                prop_assert_eq!(&found, &expected);
                let last = Part { descending, after: None, skip: set.len().saturating_sub(limit), limit };
                let (places, more) = part(View::new(&conn, &kept), order, &set, &last).unwrap();
                let found: Vec<i64> = places.iter().map(|place| place.seq).collect();
                prop_assert_eq!((&found[..], more), (&expected[index(last.skip)..], false));
            }
        }
    }
}
