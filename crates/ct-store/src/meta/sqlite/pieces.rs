//! Tables of packed pieces, and what of them is kept in memory.
//!
//! A list reads whole columns of such a table, a thousand pieces each. Looking those up one by one is most of what it
//! costs, so what was read last is kept. It is never believed by itself: each piece is written with a number that only
//! goes up, and a list asks first, within its own transaction, how far that number has come. When it is where it was,
//! what is kept is what the database has. When it is further, the pieces with a higher number are read, whoever wrote
//! them. When it is less far (somebody whose transaction began later was faster), the list goes without what is kept.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Rows, params};

use super::DbError;
use super::columns::Extent;

type Result<T> = std::result::Result<T, DbError>;

/// What is kept takes at most so much: all columns of a million and a half trajectories.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// What a piece takes beside its bytes.
const PIECE_OVERHEAD_BYTES: usize = 128;

/// A table of packed pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Table {
    Keys,
    RunLabels,
}

impl Table {
    /// Its name, and that of the column with the bytes.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Keys => ("packed_keys", "keys"),
            Self::RunLabels => ("run_labels", "labels"),
        }
    }
}

/// The bytes of a piece; none when it is not there.
pub(super) fn read(conn: &Connection, table: Table, piece: i64) -> Result<Vec<u8>> {
    let mut find = find(conn, table)?;
    Ok(find.query_row([piece], |row| row.get(0)).optional()?.unwrap_or_default())
}

fn find(conn: &Connection, table: Table) -> Result<CachedStatement<'_>> {
    let (table, bytes) = table.names();
    Ok(conn.prepare_cached(&format!("SELECT {bytes} FROM {table} WHERE piece = ?"))?)
}

/// Writes a piece, within the caller's transaction.
pub(super) fn write(conn: &Connection, table: Table, piece: i64, bytes: &[u8]) -> Result<()> {
    let change = next_change(conn)?;
    let (table, column) = table.names();
    let sql = format!("INSERT OR REPLACE INTO {table} (piece, changed, {column}) VALUES (?, ?, ?)");
    conn.prepare_cached(&sql)?.execute(params![piece, change, bytes])?;
    Ok(())
}

/// Empties all pieces of a table, within the caller's transaction.
pub(super) fn clear(conn: &Connection, table: Table) -> Result<()> {
    let change = next_change(conn)?;
    let (table, column) = table.names();
    conn.execute(&format!("UPDATE {table} SET {column} = x'', changed = ?"), [change])?;
    Ok(())
}

fn next_change(conn: &Connection) -> Result<i64> {
    let sql = "UPDATE counters SET used = used + 1 WHERE name = 'packed' RETURNING used";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

fn last_change(conn: &Connection) -> Result<i64> {
    let sql = "SELECT used FROM counters WHERE name = 'packed'";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Whether the pieces of a table are those that were made, which come in order. Empty ones count as not there.
pub(super) fn are_stored(
    conn: &Connection,
    table: Table,
    made: impl Iterator<Item = (i64, Vec<u8>)>,
) -> Result<bool> {
    let (table, column) = table.names();
    let mut stored =
        conn.prepare(&format!("SELECT piece, {column} FROM {table} WHERE {column} <> x'' ORDER BY piece"))?;
    let mut rows = stored.query([])?;
    for (piece, bytes) in made.filter(|(_, bytes)| !bytes.is_empty()) {
        match rows.next()? {
            Some(row) if row.get::<_, i64>(0)? == piece && blob(row.get_ref(1)?)? == bytes => {}
            _ => return Ok(false),
        }
    }
    Ok(rows.next()?.is_none())
}

fn blob(value: rusqlite::types::ValueRef<'_>) -> Result<&[u8]> {
    Ok(value.as_blob().map_err(rusqlite::Error::from)?)
}

/// A range of the pieces of a table that are read together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Group {
    pub(super) table: Table,
    pub(super) pieces: Range<i64>,
}

impl Group {
    /// None: there is more of it than can be kept.
    fn read(&self, conn: &Connection, size_max_bytes: usize) -> Result<Option<Pieces>> {
        let (table, column) = self.table.names();
        let sql =
            format!("SELECT piece, {column} FROM {table} WHERE piece >= ? AND piece < ? AND {column} <> x''");
        let mut pieces = Pieces::default();
        let mut find = conn.prepare_cached(&sql)?;
        let mut rows = find.query([self.pieces.start, self.pieces.end])?;
        while let Some((number, piece)) = next_piece(&mut rows)? {
            pieces.put(number, piece);
            if pieces.size_bytes > size_max_bytes {
                return Ok(None);
            }
        }
        Ok(Some(pieces))
    }

    fn read_newer(&self, conn: &Connection, change: i64) -> Result<Vec<(i64, Arc<Piece>)>> {
        let (table, column) = self.table.names();
        let sql = format!(
            "SELECT piece, {column} FROM {table} INDEXED BY {table}_by_change \
             WHERE changed > ? AND piece >= ? AND piece < ?"
        );
        let mut find = conn.prepare_cached(&sql)?;
        let mut rows = find.query(params![change, self.pieces.start, self.pieces.end])?;
        let mut newer = Vec::new();
        while let Some(piece) = next_piece(&mut rows)? {
            newer.push(piece);
        }
        Ok(newer)
    }
}

fn next_piece(rows: &mut Rows<'_>) -> Result<Option<(i64, Arc<Piece>)>> {
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((row.get(0)?, Piece::new(blob(row.get_ref(1)?)?))))
}

/// A piece of a packed table.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Box<[u8]>,
    /// What a piece of keys has, once somebody has looked.
    pub(super) extent: OnceLock<Extent>,
}

impl Piece {
    fn new(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Self { bytes: bytes.into(), extent: OnceLock::new() })
    }

    fn size_bytes(&self) -> usize {
        self.bytes.len() + PIECE_OVERHEAD_BYTES
    }
}

#[derive(Debug, Clone, Default)]
struct Pieces {
    by_number: BTreeMap<i64, Arc<Piece>>,
    size_bytes: usize,
}

impl Pieces {
    fn put(&mut self, number: i64, piece: Arc<Piece>) {
        self.size_bytes += piece.size_bytes();
        self.size_bytes -= self.by_number.insert(number, piece).map_or(0, |old| old.size_bytes());
    }
}

/// What is kept of packed tables, for all who read one database.
#[derive(Debug)]
pub(super) struct Kept {
    size_max_bytes: usize,
    groups: Mutex<HashMap<Group, Held>>,
}

#[derive(Debug)]
struct Held {
    /// The pieces are as they were when the counter was here. None: there are too many.
    pieces: Option<Arc<Pieces>>,
    change: i64,
    /// Larger than that of what was used before.
    used: u64,
}

impl Default for Kept {
    fn default() -> Self {
        Self::new(KEPT_BYTES_MAX)
    }
}

impl Kept {
    pub(super) fn new(size_max_bytes: usize) -> Self {
        Self { size_max_bytes, groups: Mutex::default() }
    }

    /// Forgets everything.
    pub(super) fn forget(&self) {
        self.groups().clear();
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<Group, Held>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pieces of a group as this transaction sees them. None: they are not kept, and the database has to be asked.
    /// Of those who want the same, one reads and the others wait for it.
    fn pieces(&self, conn: &Connection, group: &Group, few: bool) -> Result<Option<Arc<Pieces>>> {
        let change = last_change(conn)?;
        let mut groups = self.groups();
        let used = groups.values().map(|held| held.used).max().unwrap_or(0) + 1;
        let pieces = match groups.get_mut(group) {
            None if few => None,
            None => {
                let pieces = group.read(conn, self.size_max_bytes)?.map(Arc::new);
                groups.insert(group.clone(), Held { pieces: pieces.clone(), change, used });
                pieces
            }
            Some(held) if held.change > change => None,
            Some(held) => {
                held.used = used;
                held.go_on(conn, group, change)?;
                held.pieces.clone()
            }
        };
        self.make_room(&mut groups);
        Ok(pieces)
    }

    /// Lets go of what was not used for the longest time, until the rest is not too much.
    fn make_room(&self, groups: &mut HashMap<Group, Held>) {
        while groups.values().map(Held::size_bytes).sum::<usize>() > self.size_max_bytes {
            let held = groups.iter().filter(|(_, held)| held.size_bytes() > 0);
            let Some(oldest) = held.min_by_key(|(_, held)| held.used).map(|(group, _)| group.clone()) else {
                return;
            };
            groups.remove(&oldest);
        }
    }
}

impl Held {
    fn size_bytes(&self) -> usize {
        self.pieces.as_ref().map_or(0, |pieces| pieces.size_bytes)
    }

    fn go_on(&mut self, conn: &Connection, group: &Group, change: i64) -> Result<()> {
        let Some(pieces) = self.pieces.as_mut().filter(|_| self.change < change) else { return Ok(()) };
        // All are read before the first is replaced, so that an error leaves everything as it was.
        let newer = group.read_newer(conn, self.change)?;
        if !newer.is_empty() {
            let pieces = Arc::make_mut(pieces);
            newer.into_iter().for_each(|(number, piece)| pieces.put(number, piece));
        }
        self.change = change;
        Ok(())
    }
}

/// A database as one transaction sees it, which writes nothing, with what is kept of its packed tables.
#[derive(Clone, Copy)]
pub(super) struct View<'c> {
    pub(super) conn: &'c Connection,
    kept: &'c Kept,
}

impl<'c> View<'c> {
    pub(super) fn new(conn: &'c Connection, kept: &'c Kept) -> Self {
        Self { conn, kept }
    }

    /// A reader of the pieces of a group. For a few of them the others are not read.
    pub(super) fn reader(self, group: &Group, few: bool) -> Result<Reader<'c>> {
        Ok(Reader(match self.kept.pieces(self.conn, group, few)? {
            Some(pieces) => From::Memory(pieces),
            None => From::Database(find(self.conn, group.table)?),
        }))
    }
}

/// Reads pieces of a group.
pub(super) struct Reader<'c>(From<'c>);

enum From<'c> {
    Memory(Arc<Pieces>),
    Database(CachedStatement<'c>),
}

impl Reader<'_> {
    /// None: it is not there, or empty.
    pub(super) fn piece(&mut self, number: i64) -> Result<Option<Arc<Piece>>> {
        let piece = match &mut self.0 {
            From::Memory(pieces) => pieces.by_number.get(&number).cloned(),
            From::Database(find) => {
                let mut rows = find.query([number])?;
                rows.next()?.map(|row| Ok::<_, DbError>(Piece::new(blob(row.get_ref(0)?)?))).transpose()?
            }
        };
        Ok(piece.filter(|piece| !piece.bytes.is_empty()))
    }

    /// Whether pieces are in memory anyway.
    pub(super) fn are_kept(&self) -> bool {
        matches!(self.0, From::Memory(_))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::meta::sqlite::{MIGRATIONS, connect};

    const GROUPS: [Range<i64>; 3] = [0..4, 4..8, 8..20];

    #[derive(Debug, Clone)]
    enum Step {
        /// Somebody writes pieces, in a transaction that is taken back or not.
        Write {
            who: usize,
            pieces: Vec<(i64, u8)>,
            back: bool,
        },
        Clear,
        /// A reader's transaction begins, or ends.
        Turn(usize),
        Read {
            who: usize,
            group: usize,
            few: bool,
        },
        Forget,
    }

    fn step() -> impl Strategy<Value = Step> {
        let pieces = prop::collection::vec((0i64..20, 0u8..30), 1..4);
        prop_oneof![
            6 => (0usize..2, pieces, any::<bool>()).prop_map(|(who, pieces, back)| Step::Write { who, pieces, back }),
            1 => Just(Step::Clear),
            4 => (0usize..3).prop_map(Step::Turn),
            12 => (0usize..3, 0usize..3, any::<bool>()).prop_map(|(who, group, few)| Step::Read { who, group, few }),
            1 => Just(Step::Forget),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn readers_see_what_the_database_has_whoever_writes(
            steps in prop::collection::vec(step(), 1..80),
            size_max_bytes in 0usize..1500,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ct.sqlite");
            let open = || connect(&path).unwrap();
            let (writers, readers) = ([open(), open()], [open(), open(), open()]);
            writers[0].query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
            MIGRATIONS.iter().for_each(|sql| writers[0].execute_batch(sql).unwrap());
            let kept = Kept::new(size_max_bytes);
            for step in steps {
                match step {
                    Step::Write { who, pieces, back } => {
                        let conn = &writers[who];
                        conn.execute_batch("BEGIN IMMEDIATE").unwrap();
                        for (piece, length) in pieces {
                            write(conn, Table::RunLabels, piece, &vec![length; usize::from(length) * 8]).unwrap();
                        }
                        conn.execute_batch(if back { "ROLLBACK" } else { "COMMIT" }).unwrap();
                    }
                    Step::Clear => clear(&writers[0], Table::RunLabels).unwrap(),
                    Step::Turn(who) => {
                        let conn = &readers[who];
                        if conn.is_autocommit() {
                            // What it sees is what is there when it first looks.
                            conn.execute_batch("BEGIN").unwrap();
                            last_change(conn).unwrap();
                        } else {
                            conn.execute_batch("COMMIT").unwrap();
                        }
                    }
                    Step::Read { who, group, few } => {
                        let (conn, pieces) = (&readers[who], GROUPS[group].clone());
                        let group = Group { table: Table::RunLabels, pieces: pieces.clone() };
                        let mut reader = View::new(conn, &kept).reader(&group, few).unwrap();
                        for piece in pieces {
                            let found = reader.piece(piece).unwrap().map_or(Vec::new(), |piece| piece.bytes.to_vec());
                            prop_assert_eq!(found, read(conn, Table::RunLabels, piece).unwrap());
                        }
                        let sizes = kept.groups().values().map(Held::size_bytes).sum::<usize>();
                        prop_assert!(sizes <= size_max_bytes);
                    }
                    Step::Forget => kept.forget(),
                }
            }
        }
    }

    #[test]
    fn what_was_read_is_kept_and_only_what_is_new_is_read_again() {
        let conn = Connection::open_in_memory().unwrap();
        MIGRATIONS.iter().for_each(|sql| conn.execute_batch(sql).unwrap());
        for piece in 0..10 {
            write(&conn, Table::RunLabels, piece, &[1; 100]).unwrap();
        }
        let (kept, group) = (Kept::default(), Group { table: Table::RunLabels, pieces: 0..i64::MAX });
        let pieces = || kept.pieces(&conn, &group, false).unwrap().unwrap();
        let before = pieces();
        assert!(Arc::ptr_eq(&before, &pieces()));
        write(&conn, Table::RunLabels, 3, &[2; 50]).unwrap();
        let after = pieces();
        for piece in 0..10 {
            let same = Arc::ptr_eq(&before.by_number[&piece], &after.by_number[&piece]);
            assert_eq!(same, piece != 3);
        }
        assert_eq!(after.size_bytes, 9 * 100 + 50 + 10 * PIECE_OVERHEAD_BYTES);
        // For a few pieces, the others of a group are not read.
        kept.forget();
        assert!(kept.pieces(&conn, &group, true).unwrap().is_none());
        drop(pieces());
        assert!(kept.pieces(&conn, &group, true).unwrap().is_some());
    }
}
