//! Where things stand in a TOML file, for messages about their values.

use toml::de::{DeTable, DeValue};

/// The line, from 1, of the value at a path such as `sandbox.memory_mb` or `services.0.port`: as far as the path goes in this
/// text, of the last of its parts that is there.
pub(crate) fn line_of(text: &str, path: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut parts = path.split('.');
    let first = parts.next()?;
    let mut found = root.get_ref().get(first)?;
    for part in parts {
        let inner = match found.get_ref() {
            DeValue::Array(items) => part.parse().ok().and_then(|at: usize| items.get(at)),
            value => value.get(part),
        };
        match inner {
            Some(inner) => found = inner,
            None => break,
        }
    }
    Some(line_at(text, found.span().start))
}

/// The line, from 1, of a place in a text.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found() {
        let text = "name = \"x\"\n\n[sandbox]\nmemory_mb = 0\ncommands = [\n  \"a\",\n  \"b c\",\n]\n\n\
            [[services]]\nport = 1\n[[services]]\nname = \"y\"\nport = 2\n";
        for (path, line) in [
            ("name", Some(1)),
            ("sandbox.memory_mb", Some(4)),
            ("sandbox.commands.1", Some(7)),
            ("services.0.port", Some(11)),
            ("services.1.port", Some(14)),
            ("nothing", None),
        ] {
            assert_eq!(line_of(text, path), line, "{path}");
        }
        // Of what is not there, where it should be.
        assert!(line_of(text, "services.1.hosts.0").is_some_and(|line| line >= 12));
        assert_eq!(line_of("name = ", "name"), None);
    }
}
