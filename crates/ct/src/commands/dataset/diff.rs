//! `ct dataset diff`.

use std::collections::HashSet;

use clap::Args;
use serde_json::json;

use super::Datasets;
use super::reference::Reference;
use super::show::id_key;
use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Csv, ListFormat};

const EXAMPLES: &str = "\
Examples:
  ct dataset diff holdout 1 3                     Two versions
  ct dataset diff holdout 1                       A version and the newest
  ct dataset diff train holdout                   Two datasets: do they overlap?
  ct dataset diff train@2 holdout@1 --format csv";

/// Compare two versions of a dataset, or two datasets.
///
/// Tells what the second has and the first has not (+), what it has not (-), and how many both have.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DiffArgs {
    /// The dataset, as NAME, NAME@VERSION or its address
    #[arg(value_name = "NAME|URL")]
    first: Reference,
    /// Versions of it, or another dataset
    #[arg(value_name = "VERSION|NAME", required = true, num_args = 1..=2)]
    others: Vec<String>,
    /// How to print the difference: table, json, ndjson or csv
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: ListFormat,
}

/// Compares and prints.
pub(super) fn diff(arguments: &DiffArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let (first, second) = both(&arguments.first, &arguments.others)?;
    let get = |one: &Reference| {
        let home = context.home_at(one.base.as_ref())?;
        Datasets::new(&home).get(&one.name, one.version)
    };
    let (first, before) = get(&first)?;
    let (second, after) = get(&second)?;
    if first.kind != second.kind {
        return Err(CliError::usage(format!(
            "dataset {} lists items of kind {}, and {} of kind {}: they have nothing to compare",
            first.name, first.kind, second.name, second.kind
        )));
    }
    let (old, new): (HashSet<&String>, HashSet<&String>) = (before.iter().collect(), after.iter().collect());
    let added: Vec<&String> = after.iter().filter(|id| !old.contains(id)).collect();
    let removed: Vec<&String> = before.iter().filter(|id| !new.contains(id)).collect();
    let common: Vec<&String> = before.iter().filter(|id| new.contains(id)).collect();
    let changes = [("added", &added), ("removed", &removed)];
    match arguments.format {
        ListFormat::Table => {
            let mut text = format!(
                "{}@{} to {}@{}: {} added, {} removed, {} common\n",
                first.name,
                first.version,
                second.name,
                second.version,
                output::count(added.len() as u64),
                output::count(removed.len() as u64),
                output::count(common.len() as u64)
            );
            for (sign, ids) in [('+', &added), ('-', &removed)] {
                ids.iter().for_each(|id| text.push_str(&format!("{sign} {}\n", output::neutral(id))));
            }
            printer.data(&text)
        }
        ListFormat::Json => printer.data(&output::pretty(&json!({
            "schema_version": 1,
            "kind": first.kind,
            "first": {"name": first.name, "version": first.version, "item_count": before.len()},
            "second": {"name": second.name, "version": second.version, "item_count": after.len()},
            "added": added,
            "removed": removed,
            "common": common,
        }))?),
        ListFormat::Ndjson => {
            let mut text = String::new();
            for (change, ids) in changes {
                for id in ids {
                    text.push_str(&output::compact(&json!({"change": change, id_key(first.kind): id}))?);
                }
            }
            printer.data(&text)
        }
        ListFormat::Csv => {
            let mut csv = Csv::new(&["change", id_key(first.kind)]);
            for (change, ids) in changes {
                ids.iter().for_each(|id| csv.row([change.to_owned(), (*id).clone()]));
            }
            printer.data(&csv.finish())
        }
    }
}

/// What is compared with what.
fn both(first: &Reference, others: &[String]) -> Result<(Reference, Reference), CliError> {
    let version = |text: &String| text.parse::<u64>().ok().filter(|version| *version > 0);
    let at = |version| Reference { version, ..first.clone() };
    match (others, first.version) {
        ([one], None) if version(one).is_some() => Ok((at(version(one)), at(None))),
        ([one, two], None) if version(one).is_some() && version(two).is_some() => {
            Ok((at(version(one)), at(version(two))))
        }
        ([one], _) if version(one).is_none() => Ok((first.clone(), one.parse().map_err(CliError::usage)?)),
        _ => Err(CliError::usage("neither two versions of one dataset nor two datasets")
            .hint("such as: ct dataset diff NAME 1 2, or: ct dataset diff NAME@1 OTHER@2")),
    }
}
