//! Names and times of runs, packed, for filters that no set answers: part of a name, and a range of time.
//!
//! Such a filter has to look at every run. Stepping through 100,000 rows of an index takes some 20 ms; reading the
//! same from 400 packed pieces (3 MB) and searching each as one text takes one or two. (An index of three letters each
//! would be faster for rare parts, and slower for common ones; this is the same for all, and exact for short ones.)
//!
//! A piece has the labels of up to 256 runs, in the order of their numbers: how many less one (a byte), the low byte of
//! each number, the times (8 bytes each), the lengths of the names (2 bytes each), and the names, each with an end that
//! no text has in it, so that nothing is found across two of them.

use memchr::memmem::Finder;
use rusqlite::Connection;

use super::DbError;
use super::pieces::{self, Group, Table, View};
use super::postings::SeqSet;

type Result<T> = std::result::Result<T, DbError>;

const PIECE_BITS: u32 = 8;
/// A longer name is looked up in its row, so that a piece stays small.
const NAME_BYTES_MAX: usize = 1024;
const NAME_ELSEWHERE: u16 = u16::MAX;
const NAME_END: u8 = 0xFF;

/// What filters need of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Label {
    low: u8,
    created_us: i64,
    /// Absent: the name is too long to be here.
    name: Option<Vec<u8>>,
}

impl Label {
    fn new(seq: i64, created_us: i64, name_folded: &str) -> Self {
        let low = u8::try_from(seq & 0xFF).expect("masked to 8 bits");
        let name = (name_folded.len() <= NAME_BYTES_MAX).then(|| name_folded.as_bytes().to_vec());
        Self { low, created_us, name }
    }
}

/// The labels of a piece, as they lie there.
struct Piece<'a> {
    number: i64,
    lows: &'a [u8],
    times: &'a [[u8; 8]],
    lengths: &'a [[u8; 2]],
    names: &'a [u8],
}

impl<'a> Piece<'a> {
    /// None: it is cut off.
    fn read(number: i64, bytes: &'a [u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first()?;
        let count = usize::from(*count) + 1;
        let (lows, rest) = rest.split_at_checked(count)?;
        let (times, rest) = rest.split_at_checked(count * 8)?;
        let (lengths, names) = rest.split_at_checked(count * 2)?;
        let piece = Self { number, lows, times: times.as_chunks().0, lengths: lengths.as_chunks().0, names };
        let whole: usize = piece.lengths.iter().map(|length| bytes_of(*length) + 1).sum();
        (names.len() == whole).then_some(piece)
    }

    /// Nothing for none.
    fn write(labels: &[Label]) -> Vec<u8> {
        let Some(count) = labels.len().checked_sub(1) else { return Vec::new() };
        let mut bytes = vec![u8::try_from(count).expect("at most 256")];
        bytes.extend(labels.iter().map(|label| label.low));
        bytes.extend(labels.iter().flat_map(|label| label.created_us.to_le_bytes()));
        let length = |label: &Label| {
            label
                .name
                .as_ref()
                .map_or(NAME_ELSEWHERE, |name| u16::try_from(name.len()).expect("checked when made"))
        };
        bytes.extend(labels.iter().flat_map(|label| length(label).to_le_bytes()));
        for label in labels {
            bytes.extend(label.name.iter().flatten());
            bytes.push(NAME_END);
        }
        bytes
    }

    fn labels(&self) -> Vec<Label> {
        let mut begin = 0;
        let one = |((low, time), length): ((&u8, &[u8; 8]), &[u8; 2])| {
            let end = begin + bytes_of(*length);
            let is_here = u16::from_le_bytes(*length) != NAME_ELSEWHERE;
            let name = is_here.then(|| self.names[begin..end].to_vec());
            begin = end + 1;
            Label { low: *low, created_us: i64::from_le_bytes(*time), name }
        };
        self.lows.iter().zip(self.times).zip(self.lengths).map(one).collect()
    }

    fn seq(&self, place: usize) -> i64 {
        (self.number << PIECE_BITS) + i64::from(self.lows[place])
    }

    fn is_made(&self, place: usize, from: i64, before: i64) -> bool {
        let created_us = i64::from_le_bytes(self.times[place]);
        from <= created_us && created_us < before
    }

    /// Tells the places of labels with a part in their name, and of those whose name is elsewhere (true).
    fn for_each_named(
        &self,
        finder: &Finder<'_>,
        mut f: impl FnMut(usize, bool) -> Result<()>,
    ) -> Result<()> {
        if finder.needle().is_empty() {
            return (0..self.lows.len()).try_for_each(|place| f(place, false));
        }
        // All names are one text; what is found is in the name that ends behind it.
        let (mut place, mut end) = (0, bytes_of(self.lengths[0]));
        let mut at = 0;
        loop {
            let found = finder.find(&self.names[at..]).map(|found| at + found);
            while found.is_none_or(|found| found > end) {
                if u16::from_le_bytes(self.lengths[place]) == NAME_ELSEWHERE {
                    f(place, true)?;
                }
                place += 1;
                let Some(length) = self.lengths.get(place) else { return Ok(()) };
                end += 1 + bytes_of(*length);
            }
            f(place, false)?;
            at = end;
        }
    }
}

/// How many bytes of a name are here.
fn bytes_of(length: [u8; 2]) -> usize {
    match u16::from_le_bytes(length) {
        NAME_ELSEWHERE => 0,
        length => usize::from(length),
    }
}

fn cut_off() -> DbError {
    DbError::corrupt("the filter index", "a piece of names is cut off")
}

/// Writes a run's label in place of the one it has, or takes it away.
pub(super) fn put(conn: &Connection, seq: i64, label: Option<(i64, &str)>) -> Result<()> {
    let number = seq >> PIECE_BITS;
    let old = pieces::read(conn, Table::RunLabels, number)?;
    let mut labels = match old.is_empty() {
        false => Piece::read(number, &old).ok_or_else(cut_off)?.labels(),
        true => Vec::new(),
    };
    let new = label.map(|(created_us, name_folded)| Label::new(seq, created_us, name_folded));
    // In the order of their numbers, so that the same runs always make the same piece.
    let low = u8::try_from(seq & 0xFF).expect("masked to 8 bits");
    let place = labels.partition_point(|label| label.low < low);
    let end = place + usize::from(labels.get(place).is_some_and(|label| label.low == low));
    labels.splice(place..end, new);
    pieces::write(conn, Table::RunLabels, number, &Piece::write(&labels))
}

/// The runs of a set that were made from `from` until before `before`, and have `part` in their folded name.
pub(super) fn matching(view: View<'_>, set: &SeqSet, from: i64, before: i64, part: &str) -> Result<SeqSet> {
    let finder = Finder::new(part.as_bytes());
    let mut found = SeqSet::default();
    let group = Group { table: Table::RunLabels, pieces: 0..i64::MAX };
    let mut pieces = view.reader(&group, false)?;
    for (first, wanted) in set.quads() {
        let number = first >> PIECE_BITS;
        let Some(piece) = pieces.piece(number)? else { continue };
        let piece = Piece::read(number, &piece.bytes).ok_or_else(cut_off)?;
        piece.for_each_named(&finder, |place, is_elsewhere| {
            let low = usize::from(piece.lows[place]);
            let is_wanted = wanted[low / 64] >> (low % 64) & 1 == 1 && piece.is_made(place, from, before);
            if is_wanted && (!is_elsewhere || name_folded(view.conn, piece.seq(place))?.contains(part)) {
                found.insert(piece.seq(place));
            }
            Ok(())
        })?;
    }
    Ok(found)
}

fn name_folded(conn: &Connection, seq: i64) -> Result<String> {
    let mut find = conn.prepare_cached("SELECT name_folded FROM runs WHERE seq = ?")?;
    Ok(find.query_row([seq], |row| row.get(0))?)
}

/// Makes all labels anew, and tells whether they are what is stored; writes them when they are not and are to be.
pub(super) fn check(conn: &Connection, repair: bool) -> Result<bool> {
    let mut made: Vec<(i64, Vec<Label>)> = Vec::new();
    let mut runs = conn.prepare("SELECT seq, created_us, name_folded FROM runs ORDER BY seq")?;
    let mut rows = runs.query([])?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        if made.last().is_none_or(|(number, _)| *number != seq >> PIECE_BITS) {
            made.push((seq >> PIECE_BITS, Vec::new()));
        }
        if let Some((_, labels)) = made.last_mut() {
            let name = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
            labels.push(Label::new(seq, row.get(1)?, name));
        }
    }
    let made: Vec<(i64, Vec<u8>)> =
        made.into_iter().map(|(number, labels)| (number, Piece::write(&labels))).collect();
    if pieces::are_stored(conn, Table::RunLabels, made.iter().cloned())? {
        return Ok(true);
    }
    if repair {
        pieces::clear(conn, Table::RunLabels)?;
        made.iter().try_for_each(|(number, piece)| pieces::write(conn, Table::RunLabels, *number, piece))?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rusqlite::params;

    use super::*;
    use crate::meta::sqlite::pieces::Kept;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn runs_are_found_as_a_plain_loop_finds_them(
            runs in prop::collection::btree_map(1i64..600, (0i64..9, prop_oneof![4 => "[ab ]{0,5}", 1 => "[ab]{1025}"]), 0..60),
            gone in prop::collection::btree_set(1i64..600, 0..60),
            part in "[ab]{0,3}",
            from in 0i64..9,
        ) {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch(
                "CREATE TABLE counters (name TEXT PRIMARY KEY, used INTEGER NOT NULL); \
                 CREATE TABLE trajectory_keys (piece INTEGER PRIMARY KEY, keys BLOB NOT NULL); \
                 CREATE TABLE run_labels (piece INTEGER PRIMARY KEY, labels BLOB NOT NULL); \
                 CREATE TABLE runs (seq INTEGER PRIMARY KEY, created_us INTEGER, name_folded TEXT)",
            ).unwrap();
            conn.execute_batch(include_str!("migrations/0007.sql")).unwrap();
            let kept = Kept::default();
            let mut set = SeqSet::default();
            for (seq, (created_us, name)) in &runs {
                put(&conn, *seq, Some((0, "before"))).unwrap();
                put(&conn, *seq, Some((*created_us, name))).unwrap();
                conn.execute("INSERT INTO runs VALUES (?, ?, ?)", params![seq, created_us, name]).unwrap();
                if seq % 7 != 0 {
                    set.insert(*seq);
                }
            }
            let mut left: BTreeMap<_, _> = runs.clone();
            for seq in gone {
                put(&conn, seq, None).unwrap();
                conn.execute("DELETE FROM runs WHERE seq = ?", [seq]).unwrap();
                left.remove(&seq);
            }
            prop_assert!(check(&conn, false).unwrap());
            let expected: Vec<i64> = left.iter().filter(|(seq, (created_us, name))| {
                *seq % 7 != 0 && *created_us >= from && *created_us < 7 && name.contains(&part)
            }).map(|(seq, _)| *seq).collect();
            let found = matching(View::new(&conn, &kept), &set, from, 7, &part).unwrap();
            prop_assert_eq!(found.ascending(0).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn damaged_pieces_do_no_harm(
            rest in prop::collection::vec(0u8..9, 0..200), count in 0u8..3, part in "[ab]{0,2}",
        ) {
            let bytes = [vec![count], rest].concat();
            if let Some(piece) = Piece::read(0, &bytes) {
                prop_assert_eq!(piece.labels().len(), usize::from(count) + 1);
                piece.for_each_named(&Finder::new(&part), |_, _| Ok(())).unwrap();
            }
        }
    }
}
