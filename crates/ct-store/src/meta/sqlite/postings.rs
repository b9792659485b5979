//! Sets of row numbers, and how the database keeps them.
//!
//! A filter is answered by intersecting the sets of its values, so its cost does not depend on how many rows each value
//! matches: of a million rows a set is 16 pieces of at most 8 KiB, and an intersection some thousand words. (Walking
//! an index of 50,000 entries and probing another for each takes tens of milliseconds.) Counts and pages come from the
//! same set, so a total is true by construction.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Range, RangeInclusive};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::DbError;
use super::columns::Keys;

const PIECE_BITS: u32 = 16;
const WORDS: usize = (1 << PIECE_BITS) / 64;
/// A set of this many or more is kept as a bitmap of 8,192 bytes, a smaller one as a sorted list of 16-bit numbers.
const DENSE_MIN: usize = 4096;
const PIECES_PER_FACET: i64 = 1 << 24;

type Words = Box<[u64; WORDS]>;

fn empty_words() -> Words {
    Box::new([0; WORDS])
}

/// A set of row numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SeqSet {
    pieces: BTreeMap<i64, Words>,
}

impl SeqSet {
    pub(super) fn insert(&mut self, seq: i64) {
        let (word, bit) = place(seq);
        self.pieces.entry(seq >> PIECE_BITS).or_insert_with(empty_words)[word] |= bit;
    }

    pub(super) fn contains(&self, seq: i64) -> bool {
        let (word, bit) = place(seq);
        self.pieces.get(&(seq >> PIECE_BITS)).is_some_and(|words| words[word] & bit != 0)
    }

    /// Which of 256 rows, from a multiple of that on, are in it, a bit each; all that have any.
    pub(super) fn quads(&self) -> impl Iterator<Item = (i64, [u64; 4])> {
        self.pieces.iter().flat_map(|(piece, words)| {
            let quads = words.as_chunks::<4>().0.iter();
            (*piece << PIECE_BITS..).step_by(256).zip(quads.copied()).filter(|(_, quad)| *quad != [0; 4])
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.pieces.values().flat_map(|words| words.iter()).map(|word| u64::from(word.count_ones())).sum()
    }

    /// Keeps what is in both.
    pub(super) fn intersect(&mut self, other: &Self) {
        self.pieces.retain(|piece, words| {
            let Some(others) = other.pieces.get(piece) else { return false };
            let mut any = 0;
            for (word, other) in words.iter_mut().zip(others.iter()) {
                *word &= other;
                any |= *word;
            }
            any != 0
        });
    }

    /// Keeps what is in the other, or what is not.
    pub(super) fn keep(&mut self, other: &Self, is_in: bool) {
        if is_in {
            self.intersect(other);
        } else {
            self.subtract(other);
        }
    }

    /// Keeps what is not in the other.
    pub(super) fn subtract(&mut self, other: &Self) {
        for (piece, words) in &mut self.pieces {
            let Some(others) = other.pieces.get(piece) else { continue };
            for (word, other) in words.iter_mut().zip(others.iter()) {
                *word &= !other;
            }
        }
    }

    /// The members, largest first, those below `below` only.
    pub(super) fn descending(&self, below: i64) -> impl Iterator<Item = i64> {
        self.pieces.range(..=(below >> PIECE_BITS)).rev().flat_map(move |(piece, words)| {
            let bits =
                (0..WORDS).rev().flat_map(|word| ones(words[word]).rev().map(move |bit| word * 64 + bit));
            members(*piece, bits).skip_while(move |seq| *seq >= below)
        })
    }

    /// The members, smallest first, those above `above` only.
    pub(super) fn ascending(&self, above: i64) -> impl Iterator<Item = i64> {
        self.pieces.range((above >> PIECE_BITS)..).flat_map(move |(piece, words)| {
            let bits = (0..WORDS).flat_map(|word| ones(words[word]).map(move |bit| word * 64 + bit));
            members(*piece, bits).skip_while(move |seq| *seq <= above)
        })
    }

    /// The member before which there are so many, from the largest on or from the smallest. Looks at words, not members.
    pub(super) fn nth(&self, mut count: u64, descending: bool) -> Option<i64> {
        let mut pieces = self.pieces.iter();
        let turned = |word: usize| if descending { WORDS - 1 - word } else { word };
        while let Some((piece, words)) = if descending { pieces.next_back() } else { pieces.next() } {
            for word in (0..WORDS).map(turned) {
                let here = u64::from(words[word].count_ones());
                if count < here {
                    let mut bits = ones(words[word]);
                    let at = usize::try_from(count).expect("below 64");
                    let bit = if descending { bits.nth_back(at) } else { bits.nth(at) }?;
                    return members(*piece, std::iter::once(word * 64 + bit)).next();
                }
                count -= here;
            }
        }
        None
    }

    /// The ranges of so many numbers, from multiples of that on, in which it has members.
    pub(super) fn ranges(&self, size: i64) -> impl Iterator<Item = Range<i64>> {
        let ends = self.nth(0, false).zip(self.nth(0, true));
        let numbers = ends.map_or(0..0, |(first, last)| first / size..last / size + 1);
        let ranges = numbers.map(move |number| number * size..(number + 1) * size);
        ranges.filter(|range| self.words_in(range).any(|(_, word)| word != 0))
    }

    /// Tells the members in a range, smallest first.
    pub(super) fn for_each_in(&self, range: &Range<i64>, mut f: impl FnMut(i64)) {
        for (first, word) in self.words_in(range) {
            let mut rest = word;
            while rest != 0 {
                f(first + i64::from(rest.trailing_zeros()));
                rest &= rest - 1;
            }
        }
    }

    /// Words with the members in a range, and the numbers that they begin with.
    fn words_in(&self, range: &Range<i64>) -> impl Iterator<Item = (i64, u64)> {
        self.pieces.range(pieces_of(range)).flat_map(move |(piece, words)| {
            places_in(*piece, range).map(move |(place, first, mask)| (first, words[place] & mask))
        })
    }

    /// Of the members in a range, keeps those of which `f` says so.
    pub(super) fn retain_in(&mut self, range: &Range<i64>, mut f: impl FnMut(i64) -> bool) {
        for (piece, words) in self.pieces.range_mut(pieces_of(range)) {
            for (place, first, mask) in places_in(*piece, range) {
                let (mut rest, mut kept) = (words[place] & mask, 0);
                while rest != 0 {
                    let bit = rest.trailing_zeros();
                    kept |= u64::from(f(first + i64::from(bit))) << bit;
                    rest &= rest - 1;
                }
                words[place] &= kept | !mask;
            }
        }
    }

    fn load_piece(&mut self, piece: i64, bits: &[u8]) -> Result<(), DbError> {
        let words = self.pieces.entry(piece).or_insert_with(empty_words);
        decode(bits, words)
    }
}

/// The pieces that a range, which is not empty, reaches into.
fn pieces_of(range: &Range<i64>) -> RangeInclusive<i64> {
    range.start >> PIECE_BITS..=(range.end - 1) >> PIECE_BITS
}

/// The words of a piece that a range reaches into: their places, the numbers they begin with, and their bits in it.
fn places_in(piece: i64, range: &Range<i64>) -> impl Iterator<Item = (usize, i64, u64)> {
    let first = piece << PIECE_BITS;
    let within =
        |number: i64| usize::try_from((number - first).clamp(0, 1 << PIECE_BITS)).expect("17 bits fit");
    let (from, to) = (within(range.start), within(range.end));
    let below = |number: usize| if number >= 64 { u64::MAX } else { (1 << number) - 1 };
    (from / 64..to.div_ceil(64)).map(move |place| {
        let mask = below(to - place * 64) & !below(from.saturating_sub(place * 64));
        (place, first + i64::try_from(place * 64).expect("16 bits fit"), mask)
    })
}

fn members(piece: i64, bits: impl Iterator<Item = usize>) -> impl Iterator<Item = i64> {
    bits.map(move |bit| (piece << PIECE_BITS) + i64::try_from(bit).expect("a bit's number is below 2^16"))
}

/// The numbers of the bits that are set.
fn ones(word: u64) -> impl DoubleEndedIterator<Item = usize> {
    let range = if word == 0 { 0..0 } else { 0..64 };
    range.filter(move |bit| word >> bit & 1 == 1)
}

fn place(seq: i64) -> (usize, u64) {
    let low = usize::try_from(seq & ((1 << PIECE_BITS) - 1)).expect("16 bits fit");
    (low / 64, 1 << (low % 64))
}

fn decode(bytes: &[u8], words: &mut Words) -> Result<(), DbError> {
    if bytes.len() == WORDS * 8 {
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word |= u64::from_le_bytes(*bytes);
        }
        return Ok(());
    }
    let (lows, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() || lows.len() >= DENSE_MIN {
        return Err(DbError::corrupt("the filter index", "a set has an impossible length"));
    }
    for low in lows {
        let (word, bit) = place(i64::from(u16::from_le_bytes(*low)));
        words[word] |= bit;
    }
    Ok(())
}

/// None for the empty set.
fn encode(words: &Words) -> Option<Vec<u8>> {
    let count: usize = words.iter().map(|word| word.count_ones() as usize).sum();
    if count == 0 {
        return None;
    }
    if count >= DENSE_MIN {
        return Some(words.iter().flat_map(|word| word.to_le_bytes()).collect());
    }
    let bits = (0..WORDS).flat_map(|word| ones(words[word]).map(move |bit| word * 64 + bit));
    Some(
        bits.flat_map(|bit| u16::try_from(bit).expect("a bit's number is below 2^16").to_le_bytes())
            .collect(),
    )
}

/// A field that can be filtered by. Runs and trajectories have sets of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Facet {
    /// `any`: every row; `live`: those that are not deleted.
    Run,
    RunPolicy,
    RunTaskSet,
    RunEnvironment,
    RunMainTask,
    RunSideTask,
    RunModel,
    RunAuthor,
    RunStatus,
    RunTag,
    RunMainOutcome,
    RunSideOutcome,
    /// `any`, `live`, `errored`.
    Trajectory,
    TrajectoryEnvironment,
    TrajectoryMainTask,
    TrajectorySideTask,
    TrajectoryModel,
    TrajectoryAuthor,
    TrajectoryTag,
    TrajectoryMainOutcome,
    TrajectorySideOutcome,
    /// The dataset label of the run, and those of the trajectory.
    TrajectoryDataset,
    /// Whole versions of datasets, by their number.
    TrajectoryDatasetVersion,
}

/// The value of every row.
pub(super) const ANY: &str = "any";
/// The value of every row that is not deleted.
pub(super) const LIVE: &str = "live";
/// The value of trajectories that ended with an error.
pub(super) const ERRORED: &str = "errored";

impl Facet {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::RunPolicy => "run.policy",
            Self::RunTaskSet => "run.task_set",
            Self::RunEnvironment => "run.environment",
            Self::RunMainTask => "run.main_task",
            Self::RunSideTask => "run.side_task",
            Self::RunModel => "run.model",
            Self::RunAuthor => "run.author",
            Self::RunStatus => "run.status",
            Self::RunTag => "run.tag",
            Self::RunMainOutcome => "run.main_outcome",
            Self::RunSideOutcome => "run.side_outcome",
            Self::Trajectory => "trajectory",
            Self::TrajectoryEnvironment => "trajectory.environment",
            Self::TrajectoryMainTask => "trajectory.main_task",
            Self::TrajectorySideTask => "trajectory.side_task",
            Self::TrajectoryModel => "trajectory.model",
            Self::TrajectoryAuthor => "trajectory.author",
            Self::TrajectoryTag => "trajectory.tag",
            Self::TrajectoryMainOutcome => "trajectory.main_outcome",
            Self::TrajectorySideOutcome => "trajectory.side_outcome",
            Self::TrajectoryDataset => "trajectory.dataset",
            Self::TrajectoryDatasetVersion => "trajectory.dataset_version",
        }
    }
}

/// Adds the rows of a value to a set.
pub(super) fn load(conn: &Connection, facet: Facet, value: &str, set: &mut SeqSet) -> Result<(), DbError> {
    let mut find = conn.prepare_cached("SELECT facet_id FROM facets WHERE kind = ? AND value = ?")?;
    let found = find.query_row(params![facet.as_str(), value], |row| row.get::<_, i64>(0)).optional()?;
    let Some(facet_id) = found else { return Ok(()) };
    let first = facet_id * PIECES_PER_FACET;
    let mut pieces =
        conn.prepare_cached("SELECT piece, bits FROM postings WHERE piece >= ? AND piece < ?")?;
    let mut rows = pieces.query([first, first + PIECES_PER_FACET])?;
    while let Some(row) = rows.next()? {
        let piece: i64 = row.get(0)?;
        set.load_piece(piece - first, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)?;
    }
    Ok(())
}

/// Which of the rows, in ascending order, a set has; reads only the pieces they are in.
pub(super) fn members_among(conn: &Connection, facet_id: i64, seqs: &[i64]) -> Result<Vec<i64>, DbError> {
    let mut find = conn.prepare_cached("SELECT bits FROM postings WHERE piece = ?")?;
    let mut found = Vec::new();
    for same_piece in seqs.chunk_by(|a, b| a >> PIECE_BITS == b >> PIECE_BITS) {
        let piece = same_piece[0] >> PIECE_BITS;
        let bits: Option<Vec<u8>> =
            find.query_row([facet_id * PIECES_PER_FACET + piece], |row| row.get(0)).optional()?;
        let Some(bits) = bits else { continue };
        let mut set = SeqSet::default();
        set.load_piece(piece, &bits)?;
        found.extend(same_piece.iter().filter(|seq| set.contains(**seq)));
    }
    Ok(found)
}

/// Changes to sets and keys, gathered to be written in one go. For one row and set the last change counts.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Of trajectories.
    pub(super) keys: Keys,
    /// By facet id: the row number times two, plus one to add it.
    by_facet: BTreeMap<i64, Vec<i64>>,
    ids: HashMap<Facet, HashMap<String, i64>>,
}

impl Changes {
    /// The id of a value, which is made when it is new.
    pub(super) fn id(&mut self, conn: &Connection, facet: Facet, value: &str) -> Result<i64, DbError> {
        let known = self.ids.entry(facet).or_default();
        if let Some(id) = known.get(value) {
            return Ok(*id);
        }
        let mut find = conn.prepare_cached("SELECT facet_id FROM facets WHERE kind = ? AND value = ?")?;
        let found = find.query_row(params![facet.as_str(), value], |row| row.get(0)).optional()?;
        let id = match found {
            Some(id) => id,
            None => {
                let mut add = conn.prepare_cached("INSERT INTO facets (kind, value) VALUES (?, ?)")?;
                add.insert(params![facet.as_str(), value])?
            }
        };
        known.insert(value.to_owned(), id);
        Ok(id)
    }

    pub(super) fn add(&mut self, facet_id: i64, seq: i64) {
        self.by_facet.entry(facet_id).or_default().push(seq * 2 + 1);
    }

    pub(super) fn remove(&mut self, facet_id: i64, seq: i64) {
        self.by_facet.entry(facet_id).or_default().push(seq * 2);
    }

    /// Writes them, within the caller's transaction.
    pub(super) fn apply(self, conn: &Connection) -> Result<(), DbError> {
        self.keys.apply(conn)?;
        let mut read = conn.prepare_cached("SELECT bits FROM postings WHERE piece = ?")?;
        let mut write = conn.prepare_cached("INSERT OR REPLACE INTO postings (piece, bits) VALUES (?, ?)")?;
        let mut clear = conn.prepare_cached("DELETE FROM postings WHERE piece = ?")?;
        for (facet_id, mut changes) in self.by_facet {
            changes.sort_by_key(|change| change >> (PIECE_BITS + 1));
            for same_piece in changes.chunk_by(|a, b| a >> (PIECE_BITS + 1) == b >> (PIECE_BITS + 1)) {
                let piece = facet_id * PIECES_PER_FACET + (same_piece[0] >> (PIECE_BITS + 1));
                let mut words = empty_words();
                let bits: Option<Vec<u8>> = read.query_row([piece], |row| row.get(0)).optional()?;
                decode(bits.as_deref().unwrap_or_default(), &mut words)?;
                for change in same_piece {
                    let (word, bit) = place(change >> 1);
                    if change & 1 == 1 {
                        words[word] |= bit;
                    } else {
                        words[word] &= !bit;
                    }
                }
                match encode(&words) {
                    Some(bits) => write.execute(params![piece, bits])?,
                    None => clear.execute([piece])?,
                };
            }
        }
        Ok(())
    }

    /// Whether the sets and keys in the database are those that these changes make out of nothing.
    pub(super) fn are_stored(self, conn: &Connection) -> Result<bool, DbError> {
        if !self.keys.are_stored(conn)? {
            return Ok(false);
        }
        let mut read = conn.prepare("SELECT piece, bits FROM postings ORDER BY piece")?;
        let mut rows = read.query([])?;
        for (facet_id, mut changes) in self.by_facet {
            changes.sort_unstable();
            for same_piece in changes.chunk_by(|a, b| a >> (PIECE_BITS + 1) == b >> (PIECE_BITS + 1)) {
                let piece = facet_id * PIECES_PER_FACET + (same_piece[0] >> (PIECE_BITS + 1));
                let mut words = empty_words();
                for change in same_piece {
                    let (word, bit) = place(change >> 1);
                    words[word] |= bit;
                }
                let Some(row) = rows.next()? else { return Ok(false) };
                let same =
                    row.get::<_, i64>(0)? == piece && row.get::<_, Option<Vec<u8>>>(1)? == encode(&words);
                if !same {
                    return Ok(false);
                }
            }
        }
        Ok(rows.next()?.is_none())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(members: &BTreeSet<i64>) -> SeqSet {
        let mut set = SeqSet::default();
        members.iter().for_each(|seq| set.insert(*seq));
        set
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn sets_behave_as_sets(
            a in prop::collection::btree_set(1i64..200_000, 0..200),
            b in prop::collection::btree_set(1i64..200_000, 0..200),
            near in prop::collection::btree_set(65_500i64..65_600, 0..80),
            at in 0i64..200_000,
            size in prop_oneof![Just(1i64), Just(64), Just(1000), Just(65_536), 1i64..100_000],
        ) {
            let a: BTreeSet<i64> = a.union(&near).copied().collect();
            let b: BTreeSet<i64> = b.union(&near).copied().collect();
            let (left, right) = (set(&a), set(&b));
            prop_assert_eq!(left.len(), a.len() as u64);
            let mut both = left.clone();
            both.intersect(&right);
            prop_assert_eq!(both.ascending(0).collect::<Vec<_>>(), a.intersection(&b).copied().collect::<Vec<_>>());
            let mut rest = left.clone();
            rest.subtract(&right);
            prop_assert_eq!(rest.ascending(0).collect::<Vec<_>>(), a.difference(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(left.ascending(at).collect::<Vec<_>>(), a.range(at + 1..).copied().collect::<Vec<_>>());
            prop_assert_eq!(left.descending(at).collect::<Vec<_>>(), a.range(..at).rev().copied().collect::<Vec<_>>());
            prop_assert_eq!(left.contains(at), a.contains(&at));
            let count = at % 400;
            prop_assert_eq!(left.nth(count as u64, false), a.iter().nth(count as usize).copied());
            prop_assert_eq!(left.nth(count as u64, true), a.iter().nth_back(count as usize).copied());
            let (mut told, mut even) = (Vec::new(), left.clone());
            for range in left.ranges(size) {
                left.for_each_in(&range, |seq| told.push((range.contains(&seq), seq)));
                even.retain_in(&range, |seq| seq % 2 == 0);
            }
            prop_assert_eq!(told, a.iter().map(|seq| (true, *seq)).collect::<Vec<_>>());
            let expected: Vec<i64> = a.iter().copied().filter(|seq| seq % 2 == 0).collect();
            prop_assert_eq!(even.ascending(0).collect::<Vec<_>>(), expected);
            let ranges: BTreeSet<i64> = a.iter().map(|seq| seq / size).collect();
            prop_assert_eq!(left.ranges(size).map(|range| range.start / size).collect::<BTreeSet<_>>(), ranges);
        }

        #[test]
        fn pieces_are_read_as_they_are_written(members in prop::collection::btree_set(0i64..65_536, 0..6000)) {
            let mut words = empty_words();
            for seq in &members {
                let (word, bit) = place(*seq);
                words[word] |= bit;
            }
            let bits = encode(&words);
            prop_assert_eq!(bits.is_none(), members.is_empty());
            let mut back = empty_words();
            decode(&bits.unwrap_or_default(), &mut back).unwrap();
            prop_assert_eq!(back, words);
        }
    }

    #[test]
    fn sets_of_both_forms_are_read_as_they_are_written() {
        for count in [1, DENSE_MIN - 1, DENSE_MIN, DENSE_MIN + 1, 65_536] {
            let mut words = empty_words();
            for low in 0..count {
                let (word, bit) = place(i64::try_from(low).unwrap());
                words[word] |= bit;
            }
            let bits = encode(&words).unwrap();
            assert_eq!(bits.len(), if count < DENSE_MIN { count * 2 } else { 8192 });
            let mut back = empty_words();
            decode(&bits, &mut back).unwrap();
            assert_eq!(back, words);
        }
        assert!(decode(&[1], &mut empty_words()).is_err());
        assert!(decode(&[0; 8194], &mut empty_words()).is_err());
    }
}
