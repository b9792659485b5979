//! Text of others: shown exactly, and so that it cannot pass for something else.
//!
//! Characters that reorder, hide or control are shown by their number; the writing direction of a text ends with it.

use std::borrow::Cow;

use maud::{Markup, html};

/// A short text in a line, such as a name, an id or a tag.
pub fn text(text: &str) -> Markup {
    html! { bdi { (text_in(text)) } }
}

/// The same within an element that isolates its direction already, such as a block of a transcript. Line breaks and
/// tabs stay.
pub fn text_in(text: &str) -> Markup {
    html! {
        @for (plain, odd) in Pieces(text) {
            (plain)
            @if let Some(odd) = odd { span.odd { (name(odd)) } }
        }
    }
}

/// For attributes and titles of windows, where only text can be.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for (piece, odd) in Pieces(text) {
        plain.push_str(piece);
        plain.extend(odd.map(name));
    }
    Cow::Owned(plain)
}

fn name(odd: char) -> String {
    format!("U+{:04X}", u32::from(odd))
}

/// Whether a character is not seen where it stands: it changes what is seen, or carries what nobody sees. Joiners, and the
/// selectors of text and emoji styles, are part of words and emoji.
fn is_odd(c: char) -> bool {
    match c {
        '\n' | '\t' | '\u{200c}' | '\u{200d}' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{feff}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        '\u{fe00}'..='\u{fe0d}' | '\u{e0100}'..='\u{e01ef}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}

/// A text as runs of plain characters, each with the odd one behind it.
struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = (&'a str, Option<char>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        // Windows ends its lines with a pair.
        let odd = self
            .0
            .char_indices()
            .find(|(at, c)| is_odd(*c) && !(*c == '\r' && self.0[at + 1..].starts_with('\n')));
        let (piece, rest, odd) = match odd {
            Some((at, c)) => (&self.0[..at], &self.0[at + c.len_utf8()..], Some(c)),
            None => (self.0, "", None),
        };
        self.0 = rest;
        Some((piece, odd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        let shown = text("<script>alert('1')</script> \"x\" &amp;").into_string();
        assert_eq!(shown, "<bdi>&lt;script&gt;alert('1')&lt;/script&gt; &quot;x&quot; &amp;amp;</bdi>");
    }

    #[test]
    fn what_reorders_hides_or_controls_is_named() {
        let shown = text_in("a\u{202e}gnp.\u{1b}[31m\r\n\tb\r\u{200d}").into_string();
        let odd = |name: &str| format!("<span class=\"odd\">{name}</span>");
        assert_eq!(
            shown,
            format!("a{}gnp.{}[31m\r\n\tb{}\u{200d}", odd("U+202E"), odd("U+001B"), odd("U+000D"))
        );
        assert_eq!(plain("a\u{202e}b"), "aU+202Eb");
        assert_eq!(plain("\u{3164}\u{e0101}\u{2800}"), "U+3164U+E0101U+2800");
        assert_eq!(plain("👩\u{200d}💻\u{fe0f}"), "👩\u{200d}💻\u{fe0f}");
        assert!(matches!(plain("good 日本"), Cow::Borrowed(_)));
    }
}
