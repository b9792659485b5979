//! Patterns for names of scorers.

/// A pattern: `*` stands for any text, `?` for one character, everything else for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(Vec<char>);

impl Glob {
    /// Takes a pattern; every text is one.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.chars().collect())
    }

    /// Whether the whole name fits.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut p, mut n) = (0, 0);
        // The last star seen, and how much of the name it stands for so far.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            match self.0.get(p) {
                Some('*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(&c) if c == '?' || c == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => match star {
                    Some((at, taken)) => {
                        star = Some((at, taken + 1));
                        p = at + 1;
                        n = taken + 1;
                    }
                    None => return false,
                },
            }
        }
        self.0[p..].iter().all(|&c| c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, yes, no) in [
            ("match", "match", "match1"),
            ("*", "", "\0"),
            ("mon*", "monitor", "amon"),
            ("*_score", "a_score_score", "a_scores"),
            ("a*b*c", "axxbxbxc", "axxbxb"),
            ("?é", "xé", "é"),
            ("[x]", "[x]", "x"),
        ] {
            assert!(Glob::new(pattern).matches(yes), "{pattern} {yes}");
            if pattern != "*" {
                assert!(!Glob::new(pattern).matches(no), "{pattern} {no}");
            }
        }
    }
}
