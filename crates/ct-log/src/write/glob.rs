//! Patterns for names of scorers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A pattern: `*` stands for any text, `?` for one character, everything else for itself. It remembers whether it ever
/// matched; copies of it remember together.
#[derive(Debug, Clone)]
pub struct Glob {
    pattern: Vec<char>,
    matched: Arc<AtomicBool>,
}

impl Glob {
    /// Takes a pattern; every text is one.
    pub fn new(pattern: &str) -> Self {
        Self { pattern: pattern.chars().collect(), matched: Arc::default() }
    }

    /// The pattern as it was given.
    pub fn pattern(&self) -> String {
        self.pattern.iter().collect()
    }

    /// Whether any name matched since this was asked last.
    pub fn take_matched(&self) -> bool {
        self.matched.swap(false, Ordering::Relaxed)
    }

    /// Whether the whole name fits.
    pub fn matches(&self, name: &str) -> bool {
        let fits = self.fits(name);
        if fits {
            self.matched.store(true, Ordering::Relaxed);
        }
        fits
    }

    fn fits(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut p, mut n) = (0, 0);
        // The last star seen, and how much of the name it stands for so far.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            match self.pattern.get(p) {
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
        self.pattern[p..].iter().all(|&c| c == '*')
    }
}

/// Whether any of the patterns fits. All are asked, so that each knows whether it matched.
pub(super) fn any_matches(globs: &[Glob], name: &str) -> bool {
    globs.iter().filter(|glob| glob.matches(name)).count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_remembers_whether_it_matched() {
        let globs = ["a*", "ab*", "c"].map(Glob::new);
        let copies = globs.clone();
        assert!(any_matches(&globs, "abc") && !any_matches(&globs, "d"));
        assert_eq!(copies.each_ref().map(Glob::take_matched), [true, true, false]);
        assert!(!globs[0].take_matched());
    }

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
