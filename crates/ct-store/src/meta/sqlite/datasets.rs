//! See [`crate::meta::DatasetStore`].
//!
//! A version is kept whole, or as what differs from the one before it while few items differ from the last whole one:
//! so a dataset that is edited item by item does not become as large as the square of its items. Of whole versions the
//! filter index has the set of trajectories, which makes a filter by a dataset as cheap as any other.

use std::collections::{BTreeSet, HashMap, HashSet};

use ct_model::{
    Cursor, Dataset, DatasetChange, DatasetEdit, DatasetKind, DatasetLock, DatasetName, DatasetPage,
    DatasetQuery, DatasetVersion, DatasetVersionQuery, TrajectoryId,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::json;

use super::commit::value;
use super::list::foreign_cursor;
use super::postings::{Changes, Facet, LIVE, SeqSet, load, members_among};
use super::read::get;
use super::{DbError, SqliteStore, from_json, journal, signed, time, to_json, unsigned};
use crate::actor::Actor;
use crate::error::StoreError;
use crate::meta::DatasetStore;
use crate::meta::datasets::{Newest, Plan, plan, refuse_bad};

type Result<T> = std::result::Result<T, DbError>;

/// A version that is not whole differs from the last whole one by at most so many items.
const DIFFERENCES_MAX: usize = 1000;

impl DatasetStore for SqliteStore {
    fn datasets(&self, query: &DatasetQuery) -> crate::error::Result<DatasetPage> {
        self.read("list datasets", |conn| list(conn, query))
    }

    fn dataset(&self, name: &DatasetName, version: Option<u64>) -> crate::error::Result<DatasetVersion> {
        self.read("read a dataset", |conn| {
            let dataset = Stored::get(conn, name)?;
            let version = dataset.version(version)?;
            let mut find =
                conn.prepare_cached(&format!("{SELECT_VERSION} WHERE dataset = ? AND version = ?"))?;
            let mut rows = find.query(params![dataset.seq, version])?;
            let row = rows.next()?.ok_or_else(|| dataset.no_version(unsigned(version)))?;
            let mut found = dataset.read_version(row)?;
            found.item_ids = Some(Chain::read(conn, dataset.seq, version)?.items(conn)?);
            Ok(found)
        })
    }

    fn dataset_versions(
        &self,
        name: &DatasetName,
        query: &DatasetVersionQuery,
    ) -> crate::error::Result<DatasetPage<DatasetVersion>> {
        self.read("list the versions of a dataset", |conn| versions(conn, &Stored::get(conn, name)?, query))
    }

    fn edit_dataset(
        &self,
        name: &DatasetName,
        edit: &DatasetEdit,
        actor: &Actor,
        now: Timestamp,
    ) -> crate::error::Result<DatasetChange> {
        self.write("change a dataset", |conn| change(conn, name, edit, actor, now))
    }

    fn lock_dataset(
        &self,
        name: &DatasetName,
        reason: Option<&str>,
        actor: &Actor,
        now: Timestamp,
    ) -> crate::error::Result<DatasetLock> {
        self.write("lock a dataset", |conn| {
            let dataset = Stored::get(conn, name)?;
            let (locked_by, reason) = (actor.user.clone(), reason.map(str::to_owned));
            if let Some(lock) =
                dataset.lock.filter(|lock| lock.locked_by == locked_by && lock.reason == reason)
            {
                return Ok(lock);
            }
            conn.execute(
                "UPDATE datasets SET locked_us = ?, locked_by = ?, lock_reason = ? WHERE dataset = ?",
                params![now.as_microsecond(), locked_by, reason, dataset.seq],
            )?;
            journal::note(
                conn,
                actor,
                now,
                "dataset.lock",
                &subject(name),
                Some(&json!({"reason": reason})),
            )?;
            Ok(DatasetLock { locked_by, locked_at: stored(now)?, reason })
        })
    }

    fn unlock_dataset(
        &self,
        name: &DatasetName,
        actor: &Actor,
        now: Timestamp,
    ) -> crate::error::Result<bool> {
        self.write("unlock a dataset", |conn| {
            let dataset = Stored::get(conn, name)?;
            if dataset.lock.is_none() {
                return Ok(false);
            }
            conn.execute(
                "UPDATE datasets SET locked_us = NULL, locked_by = NULL, lock_reason = NULL WHERE dataset = ?",
                [dataset.seq],
            )?;
            journal::note(conn, actor, now, "dataset.unlock", &subject(name), None)?;
            Ok(true)
        })
    }
}

fn subject(name: &DatasetName) -> String {
    format!("dataset {name}")
}

/// The row of a dataset.
struct Stored {
    seq: i64,
    name: DatasetName,
    kind: DatasetKind,
    latest: i64,
    lock: Option<DatasetLock>,
}

impl Stored {
    fn find(conn: &Connection, name: &DatasetName) -> Result<Option<Self>> {
        let mut find = conn.prepare_cached("SELECT * FROM datasets WHERE name = ?")?;
        let mut rows = find.query([name.as_str()])?;
        rows.next()?.map(Self::read).transpose()
    }

    fn get(conn: &Connection, name: &DatasetName) -> Result<Self> {
        Ok(Self::find(conn, name)?.ok_or_else(|| StoreError::dataset_not_found(name))?)
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        let name = DatasetName::new(get::<String>(row, "name")?);
        let kind = get::<String>(row, "kind")?.parse();
        let lock = match get::<Option<i64>>(row, "locked_us")? {
            Some(us) => Some(DatasetLock {
                locked_by: get(row, "locked_by")?,
                locked_at: time(us)?,
                reason: get(row, "lock_reason")?,
            }),
            None => None,
        };
        Ok(Self {
            seq: get(row, "dataset")?,
            name: name.map_err(|error| DbError::corrupt("the name of a dataset", error.to_string()))?,
            kind: kind.map_err(|error| DbError::corrupt("the kind of a dataset", format!("{error}")))?,
            latest: get(row, "latest")?,
            lock,
        })
    }

    /// The version that is meant, as the database counts it.
    fn version(&self, version: Option<u64>) -> Result<i64> {
        match version {
            None => Ok(self.latest),
            Some(version) if (1..=unsigned(self.latest)).contains(&version) => Ok(signed(version)),
            Some(version) => Err(self.no_version(version)),
        }
    }

    fn no_version(&self, version: u64) -> DbError {
        StoreError::NotFound { what: format!("version {version} of dataset {}", self.name) }.into()
    }

    /// Without its items.
    fn read_version(&self, row: &Row<'_>) -> Result<DatasetVersion> {
        Ok(DatasetVersion {
            name: self.name.clone(),
            kind: self.kind,
            version: unsigned(get(row, "version")?),
            item_count: unsigned(get(row, "item_count")?),
            item_ids: None,
            created_at: Some(time(get(row, "created_us")?)?),
            created_by: get(row, "created_by")?,
            description: get(row, "description")?,
            lock: self.lock.clone(),
        })
    }
}

const SELECT_VERSION: &str =
    "SELECT version, item_count, created_us, created_by, description FROM dataset_versions";

/// Where a cursor of a list in descending order points: behind everything above this number.
fn below(cursor: Option<&Cursor>, head: &str) -> Result<i64> {
    let Some(cursor) = cursor else { return Ok(i64::MAX) };
    let number = cursor.as_str().strip_prefix(head).and_then(|number| i64::from_str_radix(number, 16).ok());
    number.ok_or_else(|| foreign_cursor(cursor))
}

/// A page of at most `limit` items out of one more, and the number of its last when there is that one more.
fn cut<T>(mut found: Vec<(i64, T)>, limit: Option<u64>, head: &str) -> (Vec<T>, Option<Cursor>) {
    let room = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let more = found.len() > room;
    found.truncate(room);
    let last = found.last().filter(|_| more).map(|(number, _)| Cursor::new(format!("{head}{number:x}")));
    (found.into_iter().map(|(_, item)| item).collect(), last)
}

/// One more than the page has, so that its end is known. Below zero: no limit.
fn one_more(limit: Option<u64>) -> i64 {
    limit.map_or(-1, |limit| signed(limit).saturating_add(1))
}

fn list(conn: &Connection, query: &DatasetQuery) -> Result<DatasetPage> {
    let kind = query.kind.map(DatasetKind::as_str);
    let total =
        conn.query_row("SELECT count(*) FROM datasets WHERE ?1 IS NULL OR kind = ?1", [kind], |row| {
            row.get(0)
        })?;
    let mut find = conn.prepare_cached(
        "SELECT datasets.*, newest.item_count, first.created_us, first.created_by, newest.created_us AS updated_us, \
             newest.created_by AS updated_by \
         FROM datasets JOIN dataset_versions AS first ON first.dataset = datasets.dataset AND first.version = 1 \
             JOIN dataset_versions AS newest ON newest.dataset = datasets.dataset AND newest.version = latest \
         WHERE datasets.dataset < ? AND (?2 IS NULL OR kind = ?2) ORDER BY datasets.dataset DESC LIMIT ? OFFSET ?",
    )?;
    let below = below(query.cursor.as_ref(), "d-")?;
    let mut rows = find.query(params![below, kind, one_more(query.limit), signed(query.skip)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let dataset = Stored::read(row)?;
        found.push((
            dataset.seq,
            Dataset {
                name: dataset.name,
                kind: dataset.kind,
                latest_version: unsigned(dataset.latest),
                item_count: unsigned(get(row, "item_count")?),
                created_at: Some(time(get(row, "created_us")?)?),
                created_by: get(row, "created_by")?,
                updated_at: Some(time(get(row, "updated_us")?)?),
                updated_by: get(row, "updated_by")?,
                lock: dataset.lock,
            },
        ));
    }
    let (items, next_cursor) = cut(found, query.limit, "d-");
    Ok(DatasetPage { items, total_count: unsigned(total), next_cursor })
}

fn versions(
    conn: &Connection,
    dataset: &Stored,
    query: &DatasetVersionQuery,
) -> Result<DatasetPage<DatasetVersion>> {
    let mut find = conn.prepare_cached(&format!(
        "{SELECT_VERSION} WHERE dataset = ? AND version < ? ORDER BY version DESC LIMIT ? OFFSET ?"
    ))?;
    let below = below(query.cursor.as_ref(), "v-")?;
    let mut rows = find.query(params![dataset.seq, below, one_more(query.limit), signed(query.skip)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let version = dataset.read_version(row)?;
        found.push((signed(version.version), version));
    }
    let (mut items, next_cursor) = cut(found, query.limit, "v-");
    let mut room = query.item_ids_max;
    for version in &mut items {
        let Some(left) = room.checked_sub(version.item_count).filter(|_| query.item_ids_max > 0) else {
            break;
        };
        room = left;
        version.item_ids = Some(Chain::read(conn, dataset.seq, signed(version.version))?.items(conn)?);
    }
    Ok(DatasetPage { items, total_count: unsigned(dataset.latest), next_cursor })
}

/// How a version comes out of the last whole one.
#[derive(Debug)]
struct Chain {
    /// The whole version.
    version_id: i64,
    /// The version number of it.
    base: i64,
    /// What is no longer there of its items.
    gone: HashSet<String>,
    /// What is behind them.
    tail: Vec<String>,
    /// How many items came and went.
    differences: usize,
}

impl Chain {
    fn read(conn: &Connection, dataset: i64, version: i64) -> Result<Self> {
        let mut find = conn.prepare_cached(
            "SELECT base.version_id, base.version FROM dataset_versions AS asked \
                 JOIN dataset_versions AS base ON base.dataset = asked.dataset AND base.version = asked.base \
             WHERE asked.dataset = ? AND asked.version = ?",
        )?;
        let (version_id, base) = find.query_row([dataset, version], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut chain = Self { version_id, base, gone: HashSet::new(), tail: Vec::new(), differences: 0 };
        let mut find = conn.prepare_cached(
            "SELECT removed, added FROM dataset_versions WHERE dataset = ? AND version > ? AND version <= ? \
             ORDER BY version",
        )?;
        let mut rows = find.query([dataset, base, version])?;
        // What is removed from the tail leaves a hole, so that the places of the others stay.
        let mut tail: Vec<Option<String>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some(row) = rows.next()? {
            let ids = |column: usize| -> Result<Vec<String>> {
                let text = row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?;
                from_json("a version of a dataset", text)
            };
            let (removed, added) = (ids(0)?, ids(1)?);
            chain.differences += removed.len() + added.len();
            for id in removed {
                match places.remove(&id) {
                    Some(place) => tail[place] = None,
                    None => drop(chain.gone.insert(id)),
                }
            }
            for id in added {
                places.insert(id.clone(), tail.len());
                tail.push(Some(id));
            }
        }
        chain.tail = tail.into_iter().flatten().collect();
        Ok(chain)
    }

    fn items(&self, conn: &Connection) -> Result<Vec<String>> {
        let mut items = whole_items(conn, self.version_id)?;
        if !self.gone.is_empty() {
            items.retain(|id| !self.gone.contains(id));
        }
        items.extend(self.tail.iter().cloned());
        Ok(items)
    }

    /// The numbers of its trajectories, with some that may no longer be there.
    fn trajectories(&self, conn: &Connection) -> Result<SeqSet> {
        let mut set = SeqSet::default();
        load(conn, Facet::TrajectoryDatasetVersion, &version_value(self.version_id), &mut set)?;
        let mut gone = SeqSet::default();
        for id in &self.gone {
            number_of(conn, id)?.into_iter().for_each(|seq| gone.insert(seq));
        }
        set.subtract(&gone);
        for id in &self.tail {
            number_of(conn, id)?.into_iter().for_each(|seq| set.insert(seq));
        }
        Ok(set)
    }
}

fn version_value(version_id: i64) -> String {
    version_id.to_string()
}

fn whole_items(conn: &Connection, version_id: i64) -> Result<Vec<String>> {
    let mut find = conn.prepare_cached("SELECT items FROM dataset_versions WHERE version_id = ?")?;
    let mut rows = find.query([version_id])?;
    let row = rows.next()?.ok_or_else(|| DbError::corrupt("a dataset", "a whole version is not there"))?;
    from_json("a version of a dataset", row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)
}

/// The number of a trajectory; none when it is not there.
fn number_of(conn: &Connection, trajectory: &str) -> Result<Option<i64>> {
    let mut find = conn.prepare_cached("SELECT seq FROM trajectories WHERE trajectory_id = ?")?;
    Ok(find.query_row([trajectory], |row| row.get(0)).optional()?)
}

/// The numbers of the trajectories of a version of a dataset; of one of runs, those of its runs. Deleted ones too.
pub(super) fn trajectories(conn: &Connection, name: &DatasetName, version: Option<u64>) -> Result<SeqSet> {
    let dataset = Stored::get(conn, name)?;
    let chain = Chain::read(conn, dataset.seq, dataset.version(version)?)?;
    if dataset.kind == DatasetKind::Trajectory {
        return chain.trajectories(conn);
    }
    let mut set = SeqSet::default();
    let mut find = conn.prepare_cached(
        "SELECT trajectories.seq FROM runs JOIN trajectories ON run = runs.seq WHERE run_id = ?",
    )?;
    for run in chain.items(conn)? {
        let mut rows = find.query([run])?;
        while let Some(row) = rows.next()? {
            set.insert(row.get(0)?);
        }
    }
    Ok(set)
}

fn change(
    conn: &Connection,
    name: &DatasetName,
    edit: &DatasetEdit,
    actor: &Actor,
    now: Timestamp,
) -> Result<DatasetChange> {
    let old = Stored::find(conn, name)?;
    let (mut newest, mut chain, mut made) = (None, None, None);
    if let Some(dataset) = &old {
        let read = Chain::read(conn, dataset.seq, dataset.latest)?;
        let mut find = conn.prepare_cached(&format!("{SELECT_VERSION} WHERE dataset = ? AND version = ?"))?;
        let mut rows = find.query([dataset.seq, dataset.latest])?;
        let row = rows.next()?.ok_or_else(|| dataset.no_version(unsigned(dataset.latest)))?;
        let version = dataset.read_version(row)?;
        newest = Some(Newest {
            kind: dataset.kind,
            version: version.version,
            description: version.description.clone(),
            items: read.items(conn)?,
            lock: dataset.lock.clone(),
        });
        (chain, made) = (Some(read), version.created_at.map(|at| (at, version)));
    }
    let plan = plan(name, newest.as_ref(), edit)?;
    refuse_absent(conn, plan.kind, &plan.added)?;
    if let Some((created_at, version)) = made.filter(|_| !plan.changed) {
        return Ok(told(name, plan, version.version, created_at, version.created_by, version.description));
    }

    let version = old.as_ref().map_or(1, |old| old.latest + 1);
    let dataset = match &old {
        Some(old) => {
            conn.execute("UPDATE datasets SET latest = ? WHERE dataset = ?", [version, old.seq])?;
            old.seq
        }
        None => {
            let mut add =
                conn.prepare_cached("INSERT INTO datasets (name, kind, latest) VALUES (?, ?, 1)")?;
            add.insert(params![name.as_str(), plan.kind.as_str()])?
        }
    };
    let differences = plan.added.len() + plan.removed.len();
    let base = chain.filter(|chain| plan.appends && chain.differences + differences <= DIFFERENCES_MAX);
    let whole = base.is_none();
    let mut add = conn.prepare_cached(
        "INSERT INTO dataset_versions \
             (dataset, version, base, created_us, created_by, item_count, description, removed, added, items) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let version_id = add.insert(params![
        dataset,
        version,
        base.map_or(version, |chain| chain.base),
        now.as_microsecond(),
        actor.user,
        signed(plan.items.len() as u64),
        edit.description,
        (!whole).then(|| to_json(&plan.removed)),
        (!whole).then(|| to_json(&plan.added)),
        whole.then(|| to_json(&plan.items)),
    ])?;
    if whole && plan.kind == DatasetKind::Trajectory {
        let mut changes = Changes::default();
        let absent = index_version(conn, &mut changes, version_id, &plan.items)?;
        changes.apply(conn)?;
        add_absent(conn, &absent)?;
    }
    let action = if edit.item_ids.is_some() { "dataset.publish" } else { "dataset.edit" };
    let detail = json!({
        "version": version,
        "items": plan.items.len(),
        "added": plan.added.len(),
        "removed": plan.removed.len(),
    });
    journal::note(conn, actor, now, action, &subject(name), Some(&detail))?;
    Ok(told(name, plan, unsigned(version), stored(now)?, actor.user.clone(), edit.description.clone()))
}

/// A time as it will be read back.
fn stored(now: Timestamp) -> Result<Timestamp> {
    time(now.as_microsecond())
}

fn told(
    name: &DatasetName,
    plan: Plan,
    version: u64,
    created_at: Timestamp,
    created_by: Option<String>,
    description: Option<String>,
) -> DatasetChange {
    DatasetChange {
        name: name.clone(),
        kind: plan.kind,
        version,
        item_count: plan.items.len() as u64,
        created_at,
        created_by,
        description,
        added: plan.added,
        already_present: plan.already_present,
        removed: plan.removed,
        not_found: plan.not_found,
        changed: plan.changed,
    }
}

/// Refuses ids that name nothing, or something that is deleted.
fn refuse_absent(conn: &Connection, kind: DatasetKind, ids: &[String]) -> Result<()> {
    let (table, column, facet) = match kind {
        DatasetKind::Trajectory => ("trajectories", "trajectory_id", Facet::Trajectory),
        DatasetKind::Run => ("runs", "run_id", Facet::Run),
    };
    let mut live = SeqSet::default();
    if !ids.is_empty() {
        load(conn, facet, LIVE, &mut live)?;
    }
    let mut find = conn.prepare_cached(&format!("SELECT seq FROM {table} WHERE {column} = ?"))?;
    let (mut unknown, mut deleted) = (Vec::new(), Vec::new());
    for id in ids {
        match find.query_row([id], |row| row.get(0)).optional()? {
            Some(seq) if live.contains(seq) => {}
            Some(_) => deleted.push(id.as_str()),
            None => unknown.push(id.as_str()),
        }
    }
    Ok(refuse_bad(kind, &unknown, &deleted)?)
}

/// Puts a whole version into the filter index; returns what is not there.
fn index_version(
    conn: &Connection,
    changes: &mut Changes,
    version_id: i64,
    items: &[String],
) -> Result<BTreeSet<(String, i64)>> {
    let facet_id = changes.id(conn, Facet::TrajectoryDatasetVersion, &version_value(version_id))?;
    let mut absent = BTreeSet::new();
    for id in items {
        match number_of(conn, id)? {
            Some(seq) => changes.add(facet_id, seq),
            None => drop(absent.insert((id.clone(), version_id))),
        }
    }
    Ok(absent)
}

/// The part of the filter index that this module answers for, made anew; returns what is not there.
pub(super) fn index(conn: &Connection, changes: &mut Changes) -> Result<BTreeSet<(String, i64)>> {
    let mut find = conn.prepare(
        "SELECT version_id FROM dataset_versions JOIN datasets USING (dataset) \
         WHERE base = version AND kind = 'trajectory' ORDER BY version_id",
    )?;
    let mut rows = find.query([])?;
    let mut absent = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let version_id = row.get(0)?;
        absent.extend(index_version(conn, changes, version_id, &whole_items(conn, version_id)?)?);
    }
    Ok(absent)
}

/// What is not there, as stored.
pub(super) fn absent(conn: &Connection) -> Result<BTreeSet<(String, i64)>> {
    let mut find = conn.prepare("SELECT trajectory_id, version_id FROM dataset_absent")?;
    let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Stores exactly these as what is not there.
pub(super) fn set_absent(conn: &Connection, absent: &BTreeSet<(String, i64)>) -> Result<()> {
    conn.execute("DELETE FROM dataset_absent", [])?;
    add_absent(conn, absent)
}

fn add_absent(conn: &Connection, absent: &BTreeSet<(String, i64)>) -> Result<()> {
    let mut add =
        conn.prepare_cached("INSERT INTO dataset_absent (trajectory_id, version_id) VALUES (?, ?)")?;
    for (id, version_id) in absent {
        add.execute(params![id, version_id])?;
    }
    Ok(())
}

/// A trajectory gets a number: datasets that it was in have it again.
pub(super) fn trajectory_comes(
    conn: &Connection,
    changes: &mut Changes,
    id: &TrajectoryId,
    seq: i64,
) -> Result<()> {
    let mut take =
        conn.prepare_cached("DELETE FROM dataset_absent WHERE trajectory_id = ? RETURNING version_id")?;
    let mut rows = take.query([id.as_str()])?;
    while let Some(row) = rows.next()? {
        let version = version_value(row.get(0)?);
        let facet_id = changes.id(conn, Facet::TrajectoryDatasetVersion, &version)?;
        changes.add(facet_id, seq);
    }
    Ok(())
}

/// The trajectories of a run are about to go, all or those of other revisions than this: datasets remember them.
pub(super) fn trajectories_go(
    conn: &Connection,
    changes: &mut Changes,
    run: i64,
    kept_revision: Option<i64>,
) -> Result<()> {
    let mut find = conn.prepare_cached(
        "SELECT seq, trajectory_id FROM trajectories WHERE run = ?1 AND (?2 IS NULL OR revision <> ?2)",
    )?;
    let rows = find.query_map(params![run, kept_revision], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let going = rows.collect::<rusqlite::Result<std::collections::BTreeMap<i64, String>>>()?;
    if going.is_empty() {
        return Ok(());
    }
    let seqs: Vec<i64> = going.keys().copied().collect();
    let mut find = conn.prepare_cached("SELECT facet_id, value FROM facets WHERE kind = ?")?;
    let mut rows = find.query([Facet::TrajectoryDatasetVersion.as_str()])?;
    let mut absent = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let (facet_id, version): (i64, String) = (row.get(0)?, row.get(1)?);
        let members = members_among(conn, facet_id, &seqs)?;
        if members.is_empty() {
            continue;
        }
        let version_id: i64 =
            version.parse().map_err(|_| DbError::corrupt("the filter index", "a dataset has no number"))?;
        for seq in members {
            changes.remove(facet_id, seq);
            absent.extend(going.get(&seq).map(|id| (id.clone(), version_id)));
        }
    }
    add_absent(conn, &absent)
}

/// Puts the dataset labels of runs into the filter index of a database that did not have them.
pub(super) fn index_labels(conn: &Connection) -> Result<()> {
    let mut find = conn.prepare(
        "SELECT dataset, trajectories.seq FROM runs JOIN trajectories ON run = runs.seq \
             WHERE dataset IS NOT NULL",
    )?;
    let mut rows = find.query([])?;
    let mut changes = Changes::default();
    while let Some(row) = rows.next()? {
        let label = value(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
        let facet_id = changes.id(conn, Facet::TrajectoryDataset, &label)?;
        changes.add(facet_id, row.get(1)?);
    }
    changes.apply(conn)
}
