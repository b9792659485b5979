//! `ct dataset show`.

use clap::Args;
use ct_model::{DatasetKind, DatasetVersion};
use jiff::Timestamp;
use serde_json::json;

use super::Datasets;
use super::reference::Reference;
use crate::commands::Context;
use crate::error::CliError;
use crate::output::{self, Csv, ListFormat};

/// Items shown to people, of a longer list.
const SHOWN_MAX: usize = 20;

const EXAMPLES: &str = "\
Examples:
  ct dataset show holdout
  ct dataset show holdout@2 --ids                 The ids of version 2, one a line
  ct dataset show 'https://viewer.example/datasets/holdout?version=2'
  ct dataset show holdout --format json | jq -r '.description | fromjson'
                                                  The record of the draw it comes from";

/// Show a version of a dataset and its items.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    /// The dataset, as NAME, NAME@VERSION or its address; the newest version when none is named
    #[arg(value_name = "NAME|URL")]
    dataset: Reference,
    /// Print the ids alone, one a line
    #[arg(long, conflicts_with = "format")]
    ids: bool,
    /// How to print it: table, json, or its items as ndjson or csv
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: ListFormat,
}

/// Prints it.
pub(super) fn show(arguments: &ShowArgs, context: &Context) -> Result<(), CliError> {
    let printer = &context.printer;
    let Reference { name, version, base } = &arguments.dataset;
    let (found, items) = Datasets::new(&context.home_at(base.as_ref())?).get(name, *version)?;
    if arguments.ids {
        return printer.data(&lines(&items));
    }
    let key = id_key(found.kind);
    match arguments.format {
        ListFormat::Table => printer.data(&page(&found, &items)),
        ListFormat::Json => printer.data(&output::pretty(&document(&found, &items))?),
        ListFormat::Ndjson => {
            let lines = items.iter().map(|id| output::compact(&json!({key: id})));
            printer.data(&lines.collect::<Result<String, _>>()?)
        }
        ListFormat::Csv => {
            let mut csv = Csv::new(&[key]);
            items.iter().for_each(|id| csv.row([id.clone()]));
            printer.data(&csv.finish())
        }
    }
}

/// What an item of this kind is called in output.
pub(super) fn id_key(kind: DatasetKind) -> &'static str {
    match kind {
        DatasetKind::Trajectory => "trajectory_id",
        DatasetKind::Run => "run_id",
    }
}

fn document(found: &DatasetVersion, items: &[String]) -> serde_json::Value {
    json!({
        "schema_version": 1,
        "name": found.name,
        "kind": found.kind,
        "version": found.version,
        "item_count": items.len(),
        "item_ids": items,
        "created_at": found.created_at,
        "created_by": found.created_by,
        "description": found.description,
        "lock": found.lock,
    })
}

fn lines(items: &[String]) -> String {
    items.iter().map(|id| format!("{}\n", output::neutral(id))).collect()
}

fn page(found: &DatasetVersion, items: &[String]) -> String {
    let now = Timestamp::now();
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        text.push_str(&format!("{name:<12} {}\n", output::neutral(value)));
    };
    line("dataset", found.name.as_str());
    line("kind", found.kind.as_str());
    line("version", &found.version.to_string());
    if let Some(time) = found.created_at {
        let by = found.created_by.as_ref().map(|user| format!(" by {user}")).unwrap_or_default();
        line("made", &format!("{time}{by} ({} ago)", output::age(&time.to_string(), now)));
    }
    if let Some(lock) = &found.lock {
        let by = lock.locked_by.as_ref().map(|user| format!(" by {user}")).unwrap_or_default();
        let why = lock.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        line("locked", &format!("{}{by}{why}", lock.locked_at));
    }
    if let Some(description) = &found.description {
        line("description", description);
    }
    line("items", &output::count(items.len() as u64));
    if !items.is_empty() {
        text.push('\n');
    }
    let shown = if items.len() > SHOWN_MAX { SHOWN_MAX } else { items.len() };
    text.push_str(&lines(&items[..shown]));
    if shown < items.len() {
        let more = output::count((items.len() - shown) as u64);
        text.push_str(&format!("… and {more} more; all of them with --ids\n"));
    }
    text
}
