//! Compares what is derived with what it is derived from.

use std::collections::BTreeSet;

use ct_model::{OutcomeCounts, RunStatus, TaskCounts};
use rusqlite::{Connection, params};

use super::columns::{put_run, put_trajectory};
use super::commit::{ids, inherited_ids, label_facets};
use super::pieces::{self, Table};
use super::postings::{ANY, Changes, Facet, LIVE};
use super::{DbError, datasets, from_json, labels, to_json, unsigned};
use crate::meta::Audit;
use crate::record::{Finding, FindingKind};

type Result<T> = std::result::Result<T, DbError>;

/// The most complaints of the database that are reported.
const COMPLAINTS_MAX: u64 = 100;

pub(super) fn audit(conn: &Connection, repair: bool) -> Result<Audit> {
    let mut audit = Audit {
        runs: count(conn, "SELECT count(*) FROM runs")?,
        trajectories: count(conn, "SELECT count(*) FROM trajectories")?,
        findings: Vec::new(),
    };
    check_database(conn, &mut audit.findings)?;
    // Writing to a damaged file can only make it worse.
    let repair = repair && audit.findings.is_empty();
    check_documents(conn, &mut audit.findings)?;
    check_counts(conn, repair, &mut audit.findings)?;
    check_index(conn, repair, &mut audit.findings)?;
    Ok(audit)
}

fn count(conn: &Connection, sql: &str) -> Result<u64> {
    Ok(unsigned(conn.query_row(sql, [], |row| row.get(0))?))
}

fn finding(kind: FindingKind, subject: impl Into<String>, detail: impl Into<String>) -> Finding {
    Finding {
        kind,
        subject: subject.into(),
        detail: detail.into(),
        size_bytes: None,
        done: None,
        resolved: false,
    }
}

fn check_database(conn: &Connection, findings: &mut Vec<Finding>) -> Result<()> {
    let mut complain = |detail| findings.push(finding(FindingKind::DatabaseDamaged, "ct.sqlite", detail));
    let mut check = conn.prepare(&format!("PRAGMA integrity_check({COMPLAINTS_MAX})"))?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        let complaint: String = row.get(0)?;
        if complaint != "ok" {
            complain(complaint);
        }
    }
    let mut check = conn.prepare("PRAGMA foreign_key_check")?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        complain(format!("a row of {} belongs to nothing", row.get::<_, String>(0)?));
    }
    Ok(())
}

fn check_documents(conn: &Connection, findings: &mut Vec<Finding>) -> Result<()> {
    let mut check = conn.prepare(
        "SELECT trajectory_id FROM trajectories LEFT JOIN documents ON trajectory = seq WHERE trajectory IS NULL \
         UNION ALL SELECT run_id FROM runs LEFT JOIN run_details ON run = seq WHERE run IS NULL",
    )?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        let detail = "its document is not there; making the run again from its log restores it";
        findings.push(finding(FindingKind::DatabaseDamaged, row.get::<_, String>(0)?, detail));
    }
    Ok(())
}

fn check_counts(conn: &Connection, repair: bool, findings: &mut Vec<Finding>) -> Result<()> {
    let mut check = conn.prepare(
        "SELECT runs.seq, run_id, trajectory_count, counts, count(trajectories.seq), \
             total(main_success IS 1), total(main_success IS 0), \
             total(has_side = 1 AND side_success IS 1), total(has_side = 1 AND side_success IS 0), \
             total(has_side = 1 AND side_success IS NULL), total(has_side = 0), total(errored) \
         FROM runs LEFT JOIN trajectories ON run = runs.seq GROUP BY runs.seq",
    )?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        let (seq, run, stored): (i64, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let counted: i64 = row.get(4)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a total of ones is a whole number far below 2^52"
        )]
        let number = |column: usize| Ok::<_, DbError>(unsigned(row.get::<_, f64>(column)? as i64));
        let (pass, fail) = (number(5)?, number(6)?);
        let unscored = unsigned(counted).saturating_sub(pass + fail);
        let counts = OutcomeCounts {
            main: TaskCounts { pass, fail, unscored, not_applicable: 0 },
            side: TaskCounts {
                pass: number(7)?,
                fail: number(8)?,
                unscored: number(9)?,
                not_applicable: number(10)?,
            },
            errored: number(11)?,
        };
        let text = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
        if stored == counted
            && serde_json::from_str::<OutcomeCounts>(text).is_ok_and(|stored| stored == counts)
        {
            continue;
        }
        let detail = format!(
            "the run says {stored} trajectories with outcomes that {counted} stored ones do not have"
        );
        let mut found = finding(FindingKind::CountsDiffer, format!("run {run}"), detail);
        if repair {
            conn.execute(
                "UPDATE runs SET trajectory_count = ?, counts = ?, main_rate = ? WHERE seq = ?",
                params![counted, to_json(&counts), counts.main.rate(), seq],
            )?;
            found.done = Some("counted again".to_owned());
            found.resolved = true;
        }
        findings.push(found);
    }
    Ok(())
}

/// Makes the filter index anew in memory, and compares.
fn check_index(conn: &Connection, repair: bool, findings: &mut Vec<Finding>) -> Result<()> {
    let labels = labels::check(conn, repair)?;
    let (changes, absent) = make_index(conn)?;
    let postings = changes.are_stored(conn)?;
    if labels && postings && datasets::absent(conn)? == absent {
        return Ok(());
    }
    let detail = "it does not agree with the runs and trajectories, so lists may be wrong";
    let mut found = finding(FindingKind::CountsDiffer, "the filter index", detail);
    if repair {
        conn.execute_batch("DELETE FROM postings")?;
        pieces::clear(conn, Table::Keys)?;
        make_index(conn)?.0.apply(conn)?;
        datasets::set_absent(conn, &absent)?;
        found.done = Some("made again".to_owned());
        found.resolved = true;
    }
    findings.push(found);
    Ok(())
}

/// The sets, and the items of datasets that are not there.
fn make_index(conn: &Connection) -> Result<(Changes, BTreeSet<(String, i64)>)> {
    let mut changes = Changes::default();
    let mut runs = conn.prepare(
        "SELECT seq, policy, task_set, tags, facets, deleted_us IS NOT NULL, dataset, status FROM runs JOIN run_details ON run = seq",
    )?;
    let mut trajectories = conn.prepare("SELECT seq, facets, summary FROM trajectories WHERE run = ?")?;
    let mut rows = runs.query([])?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let (policy, task_set): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
        let tags: Vec<String> =
            from_json("the tags of a run", row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?)?;
        let states: &[&str] = if row.get(5)? { &[ANY] } else { &[ANY, LIVE] };

        let labels = label_facets(policy.as_deref(), task_set.as_deref(), &tags);
        let mut listed = ids(conn, &mut changes, labels)?;
        listed.extend(facets(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?)?);
        listed.extend(ids(conn, &mut changes, states.iter().map(|state| (Facet::Run, (*state).to_owned())))?);
        listed.iter().for_each(|facet_id| changes.add(*facet_id, seq));

        let status = RunStatus::from_log(row.get_ref(7)?.as_str().map_err(rusqlite::Error::from)?);
        put_run(conn, &mut changes, seq, policy.as_deref(), task_set.as_deref(), status)?;

        let dataset: Option<String> = row.get(6)?;
        let mut common = inherited_ids(conn, &mut changes, &tags, dataset.as_deref())?;
        common.extend(ids(
            conn,
            &mut changes,
            states.iter().map(|state| (Facet::Trajectory, (*state).to_owned())),
        )?);
        let run = seq;
        let mut rows = trajectories.query([run])?;
        while let Some(row) = rows.next()? {
            let seq = row.get(0)?;
            let summary = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
            let summary = from_json("the summary of a trajectory", summary)?;
            put_trajectory(conn, &mut changes, seq, run, &summary)?;
            let mut listed = common.clone();
            listed.extend(facets(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?);
            listed.iter().for_each(|facet_id| changes.add(*facet_id, seq));
        }
    }
    let absent = datasets::index(conn, &mut changes)?;
    Ok((changes, absent))
}

fn facets(text: &str) -> Result<Vec<i64>> {
    from_json("the filter index", text)
}
