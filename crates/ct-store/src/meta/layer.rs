//! What users changed, as a layer over what the log says.

use ct_model::{RunEdit, RunHeader};

use crate::error::Result;

/// Adds an edit to those before it. A layer is itself the one edit that comes to the same.
pub(super) fn add(layer: &mut RunEdit, edit: &RunEdit) -> Result<()> {
    edit.check()?;
    replace(&mut layer.name, &edit.name);
    replace(&mut layer.policy, &edit.policy);
    replace(&mut layer.task_set, &edit.task_set);
    replace(&mut layer.dataset, &edit.dataset);
    replace(&mut layer.description, &edit.description);
    replace(&mut layer.comments, &edit.comments);
    if let Some(tags) = &edit.set_tags {
        layer.set_tags = Some(without_repetition(tags));
        layer.add_tags.clear();
        layer.remove_tags.clear();
    }
    for tag in &edit.remove_tags {
        layer.add_tags.retain(|added| added != tag);
        push_new(&mut layer.remove_tags, tag);
    }
    for tag in &edit.add_tags {
        layer.remove_tags.retain(|removed| removed != tag);
        push_new(&mut layer.add_tags, tag);
    }
    Ok(())
}

/// The header as it is shown.
pub(super) fn apply(layer: &RunEdit, recorded: &RunHeader) -> RunHeader {
    let mut header = recorded.clone();
    if let Some(name) = &layer.name {
        header.name.clone_from(name);
    }
    replace_value(&mut header.policy, &layer.policy);
    replace_value(&mut header.task_set, &layer.task_set);
    replace_value(&mut header.dataset, &layer.dataset);
    replace_value(&mut header.description, &layer.description);
    if let Some(comments) = &layer.comments {
        header.comments.clone_from(comments);
    }
    header.tags = without_repetition(layer.set_tags.as_ref().unwrap_or(&recorded.tags));
    header.tags.retain(|tag| !layer.remove_tags.contains(tag));
    for tag in &layer.add_tags {
        push_new(&mut header.tags, tag);
    }
    header
}

fn replace<T: Clone>(old: &mut Option<T>, new: &Option<T>) {
    if new.is_some() {
        old.clone_from(new);
    }
}

fn replace_value(value: &mut Option<String>, layer: &Option<Option<String>>) {
    if let Some(new) = layer {
        value.clone_from(new);
    }
}

fn without_repetition(tags: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(tags.len());
    tags.iter().for_each(|tag| push_new(&mut kept, tag));
    kept
}

fn push_new(tags: &mut Vec<String>, tag: &String) {
    if !tags.contains(tag) {
        tags.push(tag.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreError;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn tags_after(recorded: &str, edits: &[RunEdit]) -> String {
        let mut header: RunHeader = serde_json::from_str(r#"{"name": "n"}"#).unwrap();
        header.tags = words(recorded);
        let mut layer = RunEdit::default();
        edits.iter().for_each(|edit| add(&mut layer, edit).unwrap());
        apply(&layer, &header).tags.join(" ")
    }

    #[test]
    fn tags_are_added_removed_and_set_over_the_recorded_ones() {
        let plus = |tags| RunEdit { add_tags: words(tags), ..RunEdit::default() };
        let minus = |tags| RunEdit { remove_tags: words(tags), ..RunEdit::default() };
        let set = |tags| RunEdit { set_tags: Some(words(tags)), ..RunEdit::default() };
        assert_eq!(tags_after("a b a", &[]), "a b");
        assert_eq!(tags_after("a b", &[plus("c a")]), "a b c");
        assert_eq!(tags_after("a b", &[plus("c"), minus("a c")]), "b");
        assert_eq!(tags_after("a b", &[minus("a"), plus("a")]), "a b");
        assert_eq!(tags_after("a b", &[plus("c"), set("x y x"), plus("z"), minus("y")]), "x z");
        assert_eq!(tags_after("a b", &[set("")]), "");
    }

    #[test]
    fn an_edit_with_an_empty_name_or_tag_is_refused() {
        for edit in [
            RunEdit { name: Some(" ".to_owned()), ..RunEdit::default() },
            RunEdit { add_tags: vec![String::new()], ..RunEdit::default() },
            RunEdit { set_tags: Some(vec!["\t".to_owned()]), ..RunEdit::default() },
        ] {
            assert!(
                matches!(add(&mut RunEdit::default(), &edit), Err(StoreError::Invalid { .. })),
                "{edit:?}"
            );
        }
    }

    #[test]
    fn null_clears_and_absent_keeps() {
        let header: RunHeader =
            serde_json::from_str(r#"{"name": "n", "policy": "p", "description": "d", "dataset": "s"}"#)
                .unwrap();
        let edit: RunEdit = serde_json::from_str(r#"{"policy": null, "description": "new"}"#).unwrap();
        let shown = apply(&edit, &header);
        assert_eq!(
            (shown.policy, shown.description.as_deref(), shown.dataset.as_deref()),
            (None, Some("new"), Some("s"))
        );
        let written = serde_json::to_string(&edit).unwrap();
        assert_eq!(serde_json::from_str::<RunEdit>(&written).unwrap(), edit);
    }
}
