//! When something went wrong.

use maud::html;

use crate::{Frame, Section, Visit, text};

/// Tells a person what the API tells in its envelope.
pub fn page(visit: &Visit, status: u16, sentence: &str) -> String {
    let title = match status {
        400 => "This address makes no sense here",
        401 => "Sign in first",
        403 => "This is not yours to do",
        404 => "Not found",
        405 => "This is not how it is done",
        409 => "That contradicts what is there",
        413 => "Too large",
        429 => "Too often",
        503 => "Too much to do",
        _ => "Something failed",
    };
    let body = html! {
        div.empty {
            h1 { (title) }
            p { (text(&sentence_of(sentence))) }
            p.row-center {
                a.button href="/runs" { "Runs" } " "
                a.button href="/trajectories" { "Trajectories" }
            }
            p.faint { "Status " (status) }
        }
    };
    Frame { title, section: Section::None, assets: &[] }.around(visit, &body)
}

/// With a capital and a full stop.
fn sentence_of(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{stop}", first.to_uppercase(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::sentence_of;

    #[test]
    fn a_fragment_becomes_a_sentence() {
        assert_eq!(["run x was not found", "", "é."].map(sentence_of), ["Run x was not found.", "", "É."]);
    }
}
