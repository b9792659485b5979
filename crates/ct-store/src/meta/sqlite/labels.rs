//! Names and times of runs, packed, for filters that no set answers: part of a name, and a range of time.
//!
//! Such a filter has to look at every run. Stepping through 100,000 rows of an index takes some 20 ms; reading the
//! same from 400 packed pieces (5 MB) and searching them takes 2.

use memchr::memmem::Finder;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::DbError;
use super::postings::SeqSet;

type Result<T> = std::result::Result<T, DbError>;

const PIECE_BITS: u32 = 8;
/// A longer name is looked up in its row, so that a piece stays small.
const NAME_BYTES_MAX: usize = 1024;
const NAME_ELSEWHERE: u32 = u32::MAX;

/// Low bits of the number, time, length of the name.
const HEAD_BYTES: usize = 1 + 8 + 4;

/// What filters need of one run.
struct Label<'a> {
    seq: i64,
    created_us: i64,
    /// Absent: the name is too long to be here.
    name: Option<&'a [u8]>,
}

fn write_label(piece: &mut Vec<u8>, seq: i64, created_us: i64, name_folded: &str) {
    let low = u8::try_from(seq & 0xFF).expect("masked to 8 bits");
    let inline = name_folded.len() <= NAME_BYTES_MAX;
    let length = u32::try_from(name_folded.len()).ok().filter(|_| inline).unwrap_or(NAME_ELSEWHERE);
    piece.push(low);
    piece.extend(created_us.to_le_bytes());
    piece.extend(length.to_le_bytes());
    if inline {
        piece.extend(name_folded.as_bytes());
    }
}

/// Takes the first label off a piece. None: there is no whole one.
fn take_label<'a>(number: i64, piece: &mut &'a [u8]) -> Option<Label<'a>> {
    let (head, rest) = piece.split_first_chunk::<HEAD_BYTES>()?;
    let [low, t0, t1, t2, t3, t4, t5, t6, t7, length @ ..] = *head;
    let created_us = i64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
    let length = u32::from_le_bytes(length);
    let (name, rest) = if length == NAME_ELSEWHERE {
        (None, rest)
    } else {
        let (name, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        (Some(name), rest)
    };
    *piece = rest;
    Some(Label { seq: (number << PIECE_BITS) + i64::from(low), created_us, name })
}

fn cut_off() -> DbError {
    DbError::corrupt("the filter index", "a piece of names is cut off")
}

/// Writes a run's label in place of the one it has, or takes it away.
pub(super) fn put(conn: &Connection, seq: i64, label: Option<(i64, &str)>) -> Result<()> {
    let number = seq >> PIECE_BITS;
    let mut find = conn.prepare_cached("SELECT labels FROM run_labels WHERE piece = ?")?;
    let old: Vec<u8> = find.query_row([number], |row| row.get(0)).optional()?.unwrap_or_default();
    // In order of their numbers, so that the same runs always make the same piece.
    let (mut before, mut after) = (0, 0);
    let mut left = old.as_slice();
    while !left.is_empty() {
        let found = take_label(number, &mut left).ok_or_else(cut_off)?;
        let end = old.len() - left.len();
        if found.seq < seq {
            before = end;
        } else if found.seq > seq {
            break;
        }
        after = end;
    }
    let mut piece = old[..before].to_vec();
    if let Some((created_us, name_folded)) = label {
        write_label(&mut piece, seq, created_us, name_folded);
    }
    piece.extend(&old[after..]);
    if piece.is_empty() {
        conn.prepare_cached("DELETE FROM run_labels WHERE piece = ?")?.execute([number])?;
        return Ok(());
    }
    write(conn, number, &piece)
}

fn write(conn: &Connection, number: i64, piece: &[u8]) -> Result<()> {
    let mut write = conn.prepare_cached("INSERT OR REPLACE INTO run_labels (piece, labels) VALUES (?, ?)")?;
    write.execute(params![number, piece])?;
    Ok(())
}

/// The runs of a set that were made from `from` until before `before`, and have `part` in their folded name.
pub(super) fn matching(
    conn: &Connection,
    set: &SeqSet,
    from: i64,
    before: i64,
    part: &str,
) -> Result<SeqSet> {
    let finder = Finder::new(part.as_bytes());
    let mut found = SeqSet::default();
    let mut pieces = conn.prepare_cached("SELECT piece, labels FROM run_labels")?;
    let mut rows = pieces.query([])?;
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        let mut left = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        while !left.is_empty() {
            let label = take_label(number, &mut left).ok_or_else(cut_off)?;
            if label.created_us < from || label.created_us >= before || !set.contains(label.seq) {
                continue;
            }
            let named = match label.name {
                Some(name) => finder.find(name).is_some(),
                None => name_folded(conn, label.seq)?.contains(part),
            };
            if named {
                found.insert(label.seq);
            }
        }
    }
    Ok(found)
}

fn name_folded(conn: &Connection, seq: i64) -> Result<String> {
    let mut find = conn.prepare_cached("SELECT name_folded FROM runs WHERE seq = ?")?;
    Ok(find.query_row([seq], |row| row.get(0))?)
}

/// Makes all labels anew, and tells whether they are what is stored; writes them when they are not and are to be.
pub(super) fn check(conn: &Connection, repair: bool) -> Result<bool> {
    let mut made: Vec<(i64, Vec<u8>)> = Vec::new();
    let mut runs = conn.prepare("SELECT seq, created_us, name_folded FROM runs ORDER BY seq")?;
    let mut rows = runs.query([])?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        if made.last().is_none_or(|(number, _)| *number != seq >> PIECE_BITS) {
            made.push((seq >> PIECE_BITS, Vec::new()));
        }
        if let Some((_, piece)) = made.last_mut() {
            write_label(piece, seq, row.get(1)?, row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?);
        }
    }
    let mut stored = conn.prepare("SELECT piece, labels FROM run_labels ORDER BY piece")?;
    let stored =
        stored.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<Vec<_>>>()?;
    if stored == made {
        return Ok(true);
    }
    if repair {
        conn.execute("DELETE FROM run_labels", [])?;
        made.iter().try_for_each(|(number, piece)| write(conn, *number, piece))?;
    }
    Ok(false)
}
