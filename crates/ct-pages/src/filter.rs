//! Filters of a list: a search field, a panel of fields, and what is set as chips that can be taken off. All of it is a
//! form that reads, so that filters live in the address.

use ct_model::{list_item, list_values};
use maud::{Markup, html};

use crate::address::Query;
use crate::text::text;

/// One filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// Its name in the address.
    pub(crate) name: &'static str,
    /// What people call it.
    pub(crate) label: &'static str,
    /// How it is filled in.
    pub(crate) kind: Kind,
}

/// How a filter is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As text; several values between commas.
    Text,
    /// Any of these words.
    Words(&'static [&'static str]),
    /// As a day.
    Day,
    /// One of these, with what they are called.
    One(&'static [(&'static str, &'static str)]),
}

/// The words of outcomes.
pub(crate) const OUTCOMES: Kind = Kind::Words(&["pass", "fail", "unscored"]);

const PLACE: [&str; 2] = ["cursor", "from"];

/// How many filters are set.
pub(crate) fn set_count(query: &Query, fields: &[Field]) -> usize {
    fields.iter().map(|field| query.all(field.name).count()).sum()
}

/// The whole form, and the chips below it. `search` is the field that is always seen, `kept` goes along unseen.
pub(crate) fn form(
    path: &str,
    query: &Query,
    search: Option<(&'static str, &'static str)>,
    fields: &[Field],
    known: &[(&'static str, Vec<String>)],
    kept: &[&'static str],
) -> Markup {
    let set = set_count(query, fields);
    html! {
        form.filters method="get" action=(path) role="search" data-filters {
            div.filter-line {
                @if let Some((name, placeholder)) = search {
                    input type="search" name=(name) value=[query.get(name)] placeholder=(placeholder)
                        aria-label=(placeholder) data-search autocomplete="off" spellcheck="false";
                }
                @for name in kept {
                    @for value in query.all(name) { input type="hidden" name=(name) value=(value); }
                }
                details.filter-panel open[false] {
                    summary.button {
                        (funnel()) "Filters"
                        @if set > 0 { span.badge { (set) } }
                    }
                    div.filter-fields {
                        @for field in fields { (shown_field(field, query, known)) }
                        div.form-actions {
                            button.primary type="submit" { "Apply" }
                            @if set > 0 { a.button.quiet href=(without_fields(query, fields).on(path)) { "Clear all" } }
                        }
                    }
                }
            }
            @if set > 0 {
                ul.chips aria-label="Filters that are set" {
                    @for field in fields {
                        @for value in query.all(field.name) {
                            li.chip {
                                b { (field.label) } (text(&value_name(field, value)))
                                a href=(query.without(&PLACE).without_value(field.name, value).on(path))
                                    aria-label=(format!("Remove the filter {}", field.label)) title="Remove" { "×" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn without_fields(query: &Query, fields: &[Field]) -> Query {
    let names: Vec<&str> = fields.iter().map(|field| field.name).chain(PLACE).collect();
    query.without(&names)
}

/// A value as people read it. In the address, and in a field, a comma within it is marked as one.
fn value_name(field: &Field, value: &str) -> String {
    let choices: &[(&str, &str)] = if let Kind::One(choices) = field.kind { choices } else { &[] };
    match choices.iter().find(|(word, _)| *word == value) {
        Some((_, name)) => (*name).to_owned(),
        None => list_values(value).join(","),
    }
}

fn shown_field(field: &Field, query: &Query, known: &[(&'static str, Vec<String>)]) -> Markup {
    let id = format!("filter-{}", field.name);
    let joined = query.all(field.name).collect::<Vec<_>>().join(",");
    let list = known.iter().find(|(name, values)| *name == field.name && !values.is_empty());
    let list_id = list.map(|_| format!("known-{}", field.name));
    match field.kind {
        Kind::Text => html! {
            div.field {
                label for=(id) { (field.label) }
                input id=(id) type="text" name=(field.name) value=(joined) list=[list_id.as_deref()]
                    autocomplete="off" spellcheck="false";
                @if let (Some((_, values)), Some(list_id)) = (list, &list_id) {
                    datalist id=(list_id) { @for value in values { option value=(list_item(value)) {} } }
                }
            }
        },
        Kind::Day => html! {
            div.field {
                label for=(id) { (field.label) }
                input id=(id) type="date" name=(field.name) value=(joined.get(..10).unwrap_or_default());
            }
        },
        Kind::Words(words) => html! {
            fieldset.field {
                legend.label { (field.label) }
                div.choices {
                    @for word in words {
                        label {
                            input type="checkbox" name=(field.name) value=(word)
                                checked[query.all(field.name).any(|value| value.split(',').any(|value| value == *word))];
                            (word)
                        }
                    }
                }
            }
        },
        Kind::One(choices) => html! {
            div.field {
                label for=(id) { (field.label) }
                select id=(id) name=(field.name) {
                    option value="" { "Any" }
                    @for (word, name) in choices {
                        option value=(word) selected[query.get(field.name) == Some(*word)] { (name) }
                    }
                }
            }
        },
    }
}

fn funnel() -> Markup {
    html! {
        svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" {
            path d="M1.5 3.5h13M4 8h8M6.5 12.5h3" fill="none" stroke="currentColor" stroke-width="1.5"
                stroke-linecap="round" {}
        }
    }
}
