//! Text of unknown origin, made harmless for a terminal.
//!
//! A log can hold escape sequences that move the cursor, change the title or paste into the shell, and characters that
//! reorder or hide what is read. They are shown as escapes (`\x1b`, `\u{202e}`) in every format meant for people, also
//! when it goes through a pipe: pagers pass escape sequences on.

use std::borrow::Cow;

/// Whether a character could do something to a terminal or to a reader other than be seen.
pub(super) fn is_active(c: char) -> bool {
    matches!(c,
        '\u{00}'..='\u{1f}' | '\u{7f}'..='\u{9f}'          // C0, DEL, C1: escape sequences start here
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // invisible
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // direction
        | '\u{180e}' | '\u{200b}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}'                        // tags: text a person cannot see
    )
}

fn escape(c: char, into: &mut String) {
    use std::fmt::Write as _;
    let code = u32::from(c);
    let written = match c {
        '\n' => write!(into, "\\n"),
        '\r' => write!(into, "\\r"),
        '\t' => write!(into, "\\t"),
        _ if code < 0x100 => write!(into, "\\x{code:02x}"),
        _ => write!(into, "\\u{{{code:x}}}"),
    };
    written.expect("writing to a String cannot fail");
}

fn replace(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_active(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_active(c) && !keep(c) {
            escape(c, &mut out);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// One line: line breaks and tabs are escaped too.
pub(crate) fn neutral(text: &str) -> Cow<'_, str> {
    replace(text, |_| false)
}

/// Several lines: line breaks and tabs stay; `\r\n` counts as a line break.
pub(crate) fn neutral_block(text: &str) -> Cow<'_, str> {
    let keep = |c| c == '\n' || c == '\t';
    if text.contains("\r\n") {
        Cow::Owned(replace(&text.replace("\r\n", "\n"), keep).into_owned())
    } else {
        replace(text, keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_marks_become_visible() {
        let cases = [
            ("plain äöü 漢字 👩‍👩‍👧 – fine", "plain äöü 漢字 👩‍👩‍👧 – fine"),
            ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
            ("\u{9b}31m", "\\x9b31m"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            ("two\nlines\tand\rmore", "two\\nlines\\tand\\rmore"),
            ("tag\u{e0041}s", "tag\\u{e0041}s"),
            ("\x7f\x08", "\\x7f\\x08"),
        ];
        for (text, expected) in cases {
            assert_eq!(neutral(text), expected);
        }
    }

    #[test]
    fn a_block_keeps_its_lines_and_nothing_else() {
        assert_eq!(neutral_block("a\r\n\tb\rc\x1b[2Jd\n"), "a\n\tb\\rc\\x1b[2Jd\n");
    }

    #[test]
    fn nothing_a_terminal_acts_on_is_left() {
        for code in 0..=0x10ffff_u32 {
            let Some(c) = char::from_u32(code) else { continue };
            let text = c.to_string();
            let shown = neutral(&text);
            assert!(!shown.chars().any(char::is_control), "U+{code:04X} came through");
        }
    }
}
