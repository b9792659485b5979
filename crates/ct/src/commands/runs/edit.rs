//! `ct runs edit`.

use clap::{ArgGroup, Args};
use ct_model::{RunEdit, RunHeader};

use crate::commands::{Context, target};
use crate::error::CliError;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  ct runs edit 3fa94c1b --name \"Attack, week 48\"
  ct runs edit 3fa94c1b --tag reviewed --untag draft
  ct runs edit 3fa94c1b --description \"\"          Clear the description";

/// Change the name, tags or description of a run.
///
/// The log stays as it is: what it says is kept beside the change.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("change").required(true).multiple(true))]
pub(crate) struct EditArgs {
    /// The run: an id, the beginning of one, or its address
    #[arg(value_name = "RUN")]
    run: String,
    /// The new name
    #[arg(long, value_name = "NAME", group = "change", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Add a tag; may be given several times
    #[arg(long = "tag", visible_alias = "tags", value_name = "TAG", group = "change")]
    add: Vec<String>,
    /// Remove a tag; may be given several times
    #[arg(long, value_name = "TAG", group = "change")]
    untag: Vec<String>,
    /// The new description; an empty one clears it
    #[arg(long, value_name = "TEXT", group = "change")]
    description: Option<String>,
    /// How to print the changed header: table says only what changed, json prints it
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Changes the run.
pub(super) fn edit(arguments: EditArgs, context: &Context) -> Result<(), CliError> {
    if let Some(tag) = arguments.add.iter().find(|tag| arguments.untag.contains(tag)) {
        return Err(CliError::usage(format!("tag {tag} is both to be added and to be removed")));
    }
    let home = context.home_of(&arguments.run)?;
    let run = target::run(&home, &arguments.run)?;
    let before = home.run(&run)?.record.header;
    let edit = RunEdit {
        name: arguments.name,
        description: arguments.description.map(|text| Some(text).filter(|text| !text.is_empty())),
        add_tags: arguments.add,
        remove_tags: arguments.untag,
        ..RunEdit::default()
    };
    home.edit_run(&run, &edit)?;
    let after = home.run(&run)?.record.header;
    match arguments.format {
        Format::Table => {
            let changes = changes(&before, &after);
            context.printer.note(&if changes.is_empty() {
                format!("run {run} was like that already: nothing changed")
            } else {
                format!("changed run {run}: {}", changes.join(", "))
            });
            for tag in edit.remove_tags.iter().filter(|tag| !before.tags.contains(tag)) {
                context.printer.note(&format!("it does not carry the tag {tag}"));
            }
            Ok(())
        }
        Format::Json => context.printer.data(&output::pretty(&after)?),
    }
}

/// What is other now.
fn changes(before: &RunHeader, after: &RunHeader) -> Vec<String> {
    let mut changes = Vec::new();
    if before.name != after.name {
        changes.push(format!("name {}", after.name));
    }
    if before.description != after.description {
        changes.push(if after.description.is_some() { "description" } else { "no description" }.to_owned());
    }
    let added = after.tags.iter().filter(|tag| !before.tags.contains(tag));
    changes.extend(added.map(|tag| format!("tag {tag} added")));
    let removed = before.tags.iter().filter(|tag| !after.tags.contains(tag));
    changes.extend(removed.map(|tag| format!("tag {tag} removed")));
    changes
}
