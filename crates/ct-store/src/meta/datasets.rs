//! Versioned datasets: the interface that another database can implement, and what an edit comes to.

use std::collections::HashSet;

use ct_model::{
    DatasetChange, DatasetEdit, DatasetKind, DatasetLock, DatasetName, DatasetPage, DatasetQuery,
    DatasetVersion, DatasetVersionQuery,
};
use jiff::Timestamp;

use crate::actor::Actor;
use crate::error::{Conflict, Result, StoreError};

/// Items of a dataset, at most.
const ITEMS_MAX: usize = 1_000_000;
/// Bytes of a description, which may hold the manifest of a draw.
const DESCRIPTION_BYTES_MAX: usize = 4 << 20;
/// Ids that an error names.
const NAMED_MAX: usize = 10;

/// Where datasets are kept.
pub(crate) trait DatasetStore: Send + Sync {
    /// Lists datasets.
    fn datasets(&self, query: &DatasetQuery) -> Result<DatasetPage>;
    /// One version with its items; the newest when not told which.
    fn dataset(&self, name: &DatasetName, version: Option<u64>) -> Result<DatasetVersion>;
    /// Lists the versions of a dataset.
    fn dataset_versions(
        &self,
        name: &DatasetName,
        query: &DatasetVersionQuery,
    ) -> Result<DatasetPage<DatasetVersion>>;
    /// Makes a version, or nothing.
    fn edit_dataset(
        &self,
        name: &DatasetName,
        edit: &DatasetEdit,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<DatasetChange>;
    /// Refuses new versions from now on. A lock that is there is replaced, unless it says the same already.
    fn lock_dataset(
        &self,
        name: &DatasetName,
        reason: Option<&str>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<DatasetLock>;
    /// Takes new versions again. False: it was not locked.
    fn unlock_dataset(&self, name: &DatasetName, actor: &Actor, now: Timestamp) -> Result<bool>;
}

/// The newest version of a dataset, as far as an edit needs to know it.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) kind: DatasetKind,
    pub(crate) version: u64,
    pub(crate) description: Option<String>,
    pub(crate) items: Vec<String>,
    pub(crate) lock: Option<DatasetLock>,
}

/// What an edit comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) kind: DatasetKind,
    /// All items of the new version, in order.
    pub(crate) items: Vec<String>,
    pub(crate) added: Vec<String>,
    pub(crate) already_present: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) not_found: Vec<String>,
    /// False: there is nothing to write.
    pub(crate) changed: bool,
    /// What is new is the end of the list, and the rest keeps its order.
    pub(crate) appends: bool,
}

/// Decides what an edit comes to. Whether the added items exist is for the database to say.
pub(crate) fn plan(name: &DatasetName, newest: Option<&Newest>, edit: &DatasetEdit) -> Result<Plan> {
    if edit.description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_BYTES_MAX) {
        return Err(StoreError::invalid(format!("a description has at most {DESCRIPTION_BYTES_MAX} bytes")));
    }
    let kind = edit.kind.or(newest.map(|newest| newest.kind)).unwrap_or_default();
    if let Some(newest) = newest {
        if let Some(lock) = &newest.lock {
            return Err(Conflict::DatasetLocked { name: name.clone(), lock: lock.clone() }.into());
        }
        if kind != newest.kind {
            return Err(Conflict::DatasetKind { name: name.clone(), kind: newest.kind, given: kind }.into());
        }
    }
    let version = newest.map_or(0, |newest| newest.version);
    if let Some(expected) = edit.if_version.filter(|expected| *expected != version) {
        return Err(Conflict::DatasetChanged { name: name.clone(), expected, version }.into());
    }
    let mut plan = match (&edit.item_ids, &edit.add, &edit.remove) {
        (Some(ids), None, None) => publish(newest, ids, edit.description.as_deref()),
        (None, None, None) | (Some(_), _, _) => {
            return Err(StoreError::invalid("give either item_ids, or what to add or to remove"));
        }
        (None, add, remove) => {
            let newest = newest.ok_or_else(|| StoreError::dataset_not_found(name))?;
            change(newest, add.as_deref().unwrap_or_default(), remove.as_deref().unwrap_or_default())?
        }
    };
    if plan.items.len() > ITEMS_MAX {
        return Err(StoreError::invalid(format!("a dataset has at most {ITEMS_MAX} items")));
    }
    plan.kind = kind;
    Ok(plan)
}

fn publish(newest: Option<&Newest>, ids: &[String], description: Option<&str>) -> Plan {
    let mut plan = Plan { items: without_repetition(ids), changed: true, ..Plan::default() };
    let old = newest.map(|newest| newest.items.as_slice()).unwrap_or_default();
    let (wanted, present) = (set(&plan.items), set(old));
    let (there, new): (Vec<_>, Vec<_>) = plan.items.iter().partition(|id| present.contains(id.as_str()));
    plan.removed = old.iter().filter(|id| !wanted.contains(id.as_str())).cloned().collect();
    plan.already_present = there.into_iter().cloned().collect();
    plan.added = new.into_iter().cloned().collect();
    if let Some(newest) = newest {
        let described = description.is_some() && description != newest.description.as_deref();
        plan.changed = described || plan.items != newest.items;
    }
    plan
}

fn change(newest: &Newest, add: &[String], remove: &[String]) -> Result<Plan> {
    let (removed, present) = (set(remove), set(&newest.items));
    if let Some(both) = add.iter().find(|id| removed.contains(id.as_str())) {
        return Err(StoreError::invalid(format!("{both:?} is both to be added and to be removed")));
    }
    let mut plan = Plan { appends: true, ..Plan::default() };
    plan.items = newest.items.iter().filter(|id| !removed.contains(id.as_str())).cloned().collect();
    for id in without_repetition(add) {
        if present.contains(id.as_str()) {
            plan.already_present.push(id);
        } else {
            plan.items.push(id.clone());
            plan.added.push(id);
        }
    }
    for id in without_repetition(remove) {
        if present.contains(id.as_str()) { plan.removed.push(id) } else { plan.not_found.push(id) }
    }
    plan.changed = !plan.added.is_empty() || !plan.removed.is_empty();
    Ok(plan)
}

fn set(ids: &[String]) -> HashSet<&str> {
    ids.iter().map(String::as_str).collect()
}

fn without_repetition(ids: &[String]) -> Vec<String> {
    let mut seen = HashSet::with_capacity(ids.len());
    ids.iter().filter(|id| seen.insert(id.as_str())).cloned().collect()
}

/// Refuses ids that name nothing, or something deleted.
pub(crate) fn refuse_bad(kind: DatasetKind, unknown: &[&str], deleted: &[&str]) -> Result<()> {
    let mut parts = Vec::new();
    if !unknown.is_empty() {
        parts.push(format!("{} named no {kind}: {}", ids(unknown.len()), some(unknown)));
    }
    if !deleted.is_empty() {
        let (what, hint) = match kind {
            DatasetKind::Trajectory => ("of a deleted run", "restore the run first"),
            DatasetKind::Run => ("of a deleted run", "restore it first"),
        };
        parts.push(format!("{} {what}, {hint}: {}", ids(deleted.len()), some(deleted)));
    }
    if parts.is_empty() { Ok(()) } else { Err(StoreError::invalid(parts.join("; "))) }
}

fn ids(count: usize) -> String {
    if count == 1 { "1 id".to_owned() } else { format!("{count} ids") }
}

/// The first few, shortened.
fn some(ids: &[&str]) -> String {
    let named: Vec<String> = ids
        .iter()
        .take(NAMED_MAX)
        .map(|id| id.chars().take(128).flat_map(char::escape_debug).collect())
        .collect();
    let more = if ids.len() > NAMED_MAX { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn newest(items: &str) -> Newest {
        Newest {
            kind: DatasetKind::Trajectory,
            version: 3,
            description: Some("old".to_owned()),
            items: words(items),
            lock: None,
        }
    }

    fn told(newest: Option<&Newest>, edit: &DatasetEdit) -> String {
        match plan(&DatasetName::new("d").unwrap(), newest, edit) {
            Ok(plan) => format!(
                "{} +{} ={} -{} ?{}{}",
                plan.items.join(" "),
                plan.added.join(" "),
                plan.already_present.join(" "),
                plan.removed.join(" "),
                plan.not_found.join(" "),
                if plan.changed { "" } else { " same" }
            ),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn edits_come_to_what_they_say() {
        let publish = |ids| DatasetEdit { item_ids: Some(words(ids)), ..DatasetEdit::default() };
        let add = |ids| DatasetEdit { add: Some(words(ids)), ..DatasetEdit::default() };
        let remove = |ids| DatasetEdit { remove: Some(words(ids)), ..DatasetEdit::default() };
        let old = newest("a b c");
        let told = |edit: DatasetEdit| told(Some(&old), &edit);
        assert_eq!(told(publish("c b x c")), "c b x +x =c b -a ?");
        assert_eq!(told(publish("a b c")), "a b c + =a b c - ? same");
        assert_eq!(told(publish("a c b")), "a c b + =a c b - ?");
        assert_eq!(told(publish("")), " + = -a b c ?");
        assert_eq!(told(add("d b d")), "a b c d +d =b - ?");
        assert_eq!(told(add("a")), "a b c + =a - ? same");
        assert_eq!(told(remove("b z b")), "a c + = -b ?z");
        assert_eq!(told(remove("z")), "a b c + = - ?z same");
        assert_eq!(told(DatasetEdit { remove: Some(words("a")), ..add("x") }), "b c x +x = -a ?");
        assert_eq!(
            told(DatasetEdit { remove: Some(words("x")), ..add("x") }),
            r#""x" is both to be added and to be removed"#
        );
        let neither = "give either item_ids, or what to add or to remove";
        assert_eq!(told(DatasetEdit::default()), neither);
        assert_eq!(told(DatasetEdit { item_ids: Some(Vec::new()), ..add("x") }), neither);
        let described = |text: &str| DatasetEdit { description: Some(text.to_owned()), ..publish("a b c") };
        assert_eq!(told(described("old")), "a b c + =a b c - ? same");
        assert_eq!(told(described("new")), "a b c + =a b c - ?");
        let at = |version| DatasetEdit { if_version: Some(version), ..publish("a") };
        assert_eq!(told(at(3)), "a + =a -b c ?");
        assert_eq!(told(at(0)), "dataset d was changed meanwhile: it is at version 3, not 0");
        let of_runs = DatasetEdit { kind: Some(DatasetKind::Run), ..publish("a") };
        assert_eq!(told(of_runs), "dataset d is a list of trajectories, not of runs");
    }

    #[test]
    fn a_new_dataset_is_published_and_not_edited() {
        let edit = DatasetEdit { item_ids: Some(words("b a b")), ..DatasetEdit::default() };
        assert_eq!(told(None, &edit), "b a +b a = - ?");
        assert_eq!(told(None, &DatasetEdit { if_version: Some(0), ..edit.clone() }), "b a +b a = - ?");
        let later = DatasetEdit { if_version: Some(2), ..edit };
        assert_eq!(told(None, &later), "dataset d was changed meanwhile: it is at version 0, not 2");
        let add = DatasetEdit { add: Some(words("a")), ..DatasetEdit::default() };
        assert_eq!(told(None, &add), "dataset d was not found");
    }

    #[test]
    fn a_locked_dataset_takes_nothing() {
        let lock = DatasetLock {
            locked_by: Some("ada".to_owned()),
            locked_at: Timestamp::UNIX_EPOCH,
            reason: Some("published".to_owned()),
        };
        let old = Newest { lock: Some(lock), ..newest("a") };
        for edit in [
            DatasetEdit { item_ids: Some(words("a")), ..DatasetEdit::default() },
            DatasetEdit { remove: Some(words("z")), ..DatasetEdit::default() },
        ] {
            assert_eq!(told(Some(&old), &edit), "dataset d is locked by ada (published); unlock it first");
        }
    }

    #[test]
    fn bad_ids_are_named_up_to_a_number() {
        let text = |unknown: &[&str], deleted: &[&str]| match refuse_bad(DatasetKind::Run, unknown, deleted) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(text(&[], &[]), "");
        assert_eq!(
            text(&["a\n"], &["b", "c"]),
            r"1 id named no run: a\n; 2 ids of a deleted run, restore it first: b, c"
        );
        assert!(text(&["x"; 11], &[]).ends_with("x, x, …"));
    }
}
