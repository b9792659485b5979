//! `ct dataset create`.

use std::collections::HashSet;

use clap::Args;
use ct_model::{DatasetChange, DatasetEdit, DatasetKind, DatasetName, DatasetVersion};

use super::edit::tell;
use super::list::KINDS;
use super::{Datasets, items, reference};
use crate::commands::Context;
use crate::commands::runs::filters;
use crate::error::CliError;
use crate::output::Format;

const EXAMPLES: &str = "\
Examples:
  ct dataset create holdout 550e8400 6fa1b2c3
  ct runs sample 3fa94c1b 20 --format json | jq -r '.parts[0].trajectory_ids[]' | ct dataset create holdout -
  ct dataset create baselines --kind run 3fa94c1b 9b1deb4d --description 'week 48'
  ct dataset create holdout --new-version - < ids.txt
                                                  Another list under the same name";

/// Make a dataset of trajectories, or of runs.
///
/// The name goes into addresses and paths: letters, digits, `-`, `_` and inner `.`, at most 128 characters. Making the
/// same dataset again changes nothing.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CreateArgs {
    /// The name
    #[arg(value_name = "NAME", value_parser = reference::named)]
    name: DatasetName,
    /// The items: ids, beginnings of ids or addresses; - reads whole ids from standard input, one a line
    #[arg(value_name = "ID")]
    items: Vec<String>,
    /// What the items are: trajectory or run [default: trajectory]
    #[arg(long, value_name = "KIND", value_parser = filters::choice::<DatasetKind>(KINDS), hide_possible_values = true)]
    kind: Option<DatasetKind>,
    /// What to say about this version
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// When there is such a dataset, publish these items as its next version
    #[arg(long)]
    new_version: bool,
    /// How to print what was made: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Makes the dataset.
pub(super) fn create(arguments: CreateArgs, context: &Context) -> Result<(), CliError> {
    let home = context.home()?;
    let datasets = Datasets::new(&home);
    let there = datasets.find(&arguments.name)?;
    let kind = arguments.kind.or(there.as_ref().map(|(found, _)| found.kind)).unwrap_or_default();
    let new = NewDataset {
        name: arguments.name,
        kind,
        item_ids: items::existing(&datasets, kind, &arguments.items)?,
        description: arguments.description,
    };
    let change = if arguments.new_version {
        datasets.edit(&new.name, &new.edit())?
    } else {
        match new.check(there)? {
            Some(same) => same,
            None => new.make(&datasets)?,
        }
    };
    tell(&context.printer, &change, arguments.format)
}

/// A dataset to be made.
pub(crate) struct NewDataset {
    pub(crate) name: DatasetName,
    pub(crate) kind: DatasetKind,
    pub(crate) item_ids: Vec<String>,
    pub(crate) description: Option<String>,
}

impl NewDataset {
    fn edit(&self) -> DatasetEdit {
        DatasetEdit {
            item_ids: Some(self.item_ids.clone()),
            kind: Some(self.kind),
            description: self.description.clone(),
            ..DatasetEdit::default()
        }
    }

    /// Compares with what is there: the same is as good as made, something else is in the way.
    pub(crate) fn check(
        &self,
        there: Option<(DatasetVersion, Vec<String>)>,
    ) -> Result<Option<DatasetChange>, CliError> {
        let Some((found, items)) = there else { return Ok(None) };
        let described = self.description.is_none() || self.description == found.description;
        if found.kind == self.kind && items == without_repetition(&self.item_ids) && described {
            return Ok(Some(Datasets::unchanged(&found, &items)));
        }
        let name = &self.name;
        Err(CliError::conflict(format!(
            "there is a dataset {name} already, with other items or another description"
        ))
        .hint(format!("see it with: ct dataset show {name}")))
    }

    /// Makes it, unless someone else made one of this name meanwhile.
    pub(crate) fn make(&self, datasets: &Datasets<'_>) -> Result<DatasetChange, CliError> {
        datasets.edit(&self.name, &DatasetEdit { if_version: Some(0), ..self.edit() })
    }
}

fn without_repetition(ids: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    ids.iter().filter(|id| seen.insert(id.as_str())).cloned().collect()
}
