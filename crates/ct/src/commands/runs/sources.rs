//! From the words after `ct runs make` to the logs they mean: files, folders, patterns, a list on standard input, or a
//! choice from `./logs`.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ct_s3::{ObjectSource, S3Address};
use jiff::Timestamp;

use super::bucket;
use crate::commands::{Context, target};
use crate::error::CliError;
use crate::output::{self, Printer};

/// Folders are not searched deeper than this.
const DEPTH_MAX: usize = 32;
/// Where logs are looked for when none are given.
const LOGS: &str = "logs";
/// The file that makes a folder a run folder.
pub(super) const RUN_FILE: &str = "run.json";
/// How much of a JSON file is looked at to tell whether it is a log.
const HEAD_BYTES: u64 = 4096;

/// One log to make a run of, or a word that led to none.
#[derive(Debug)]
pub(super) struct Source {
    /// A log file, a folder of trajectory files, or the http or s3 address of a log.
    pub(super) path: PathBuf,
    /// Why there is nothing to read.
    pub(super) trouble: Option<CliError>,
    /// The log itself, where it was found by listing a bucket.
    pub(super) object: Option<Arc<ObjectSource>>,
}

/// Finds the logs; each once, in the order given. An empty answer means that the user picked none.
pub(super) fn find(words: &[PathBuf], context: &Context) -> Result<Vec<Source>, CliError> {
    let printer = &context.printer;
    if words.is_empty() {
        return if printer.can_ask() {
            pick(printer)
        } else {
            Err(CliError::usage("no logs given")
                .hint("give files, folders or patterns: ct runs make logs/my-eval.eval")
                .hint("or a list of paths on standard input: ct runs make - < paths.txt"))
        };
    }
    let mut found = Found::default();
    for word in words {
        if word.as_os_str() == "-" {
            for path in from_stdin()? {
                found.add_word(&path, context);
            }
        } else {
            found.add_word(word, context);
        }
    }
    Ok(found.sources)
}

fn from_stdin() -> Result<Vec<PathBuf>, CliError> {
    let mut paths = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line =
            line.map_err(|error| CliError::io("read paths from", Path::new("standard input"), &error))?;
        let line = line.strip_suffix('\r').unwrap_or(&line);
        if !line.is_empty() {
            paths.push(PathBuf::from(line));
        }
    }
    Ok(paths)
}

#[derive(Default)]
struct Found {
    sources: Vec<Source>,
    seen: HashSet<PathBuf>,
}

impl Found {
    fn add_word(&mut self, word: &Path, context: &Context) {
        let printer = &context.printer;
        if let Some(text) = word.to_str().filter(|text| S3Address::is_one(text)) {
            match text.parse().map_err(CliError::from).and_then(|address| bucket::find(&address, context)) {
                Ok(sources) => {
                    self.sources
                        .extend(sources.into_iter().filter(|source| self.seen.insert(source.path.clone())));
                }
                Err(error) => self.add_trouble(word, error),
            }
            return;
        }
        if word.to_str().is_some_and(target::is_address) {
            if self.seen.insert(word.to_owned()) {
                self.sources.push(Source { path: word.to_owned(), trouble: None, object: None });
            }
            return;
        }
        match fs::metadata(word) {
            Ok(metadata) if metadata.is_dir() => self.add_folder(word, printer),
            Ok(metadata) if metadata.is_file() => self.add_file(word),
            // Opening a pipe waits for whoever writes into it, and a log is read from its end.
            Ok(_) => self.add_trouble(word, not_a_file(word)),
            // Shells hand on a pattern that matches nothing, and some expand none at all.
            Err(error) if is_pattern(word) => match expand(word) {
                Ok(paths) if paths.is_empty() => {
                    self.add_trouble(
                        word,
                        CliError::io("find", word, &error).hint("the pattern matches no file"),
                    );
                }
                Ok(paths) => paths.iter().for_each(|path| self.add_word_found(path, printer)),
                Err(error) => self.add_trouble(word, error),
            },
            Err(error) => self.add_trouble(word, CliError::io("read", word, &error)),
        }
    }

    /// A path that a pattern matched: never a pattern itself, whatever its name.
    fn add_word_found(&mut self, path: &Path, printer: &Printer) {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.add_folder(path, printer),
            Ok(metadata) if !metadata.is_file() => leave_out(path, printer),
            _ => self.add_file(path),
        }
    }

    fn add_file(&mut self, path: &Path) {
        // The header of a run folder stands for the folder.
        let path = match path.file_name() {
            Some(name) if name == RUN_FILE => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            },
            _ => path,
        };
        let key = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.seen.insert(key) {
            self.sources.push(Source { path: path.to_owned(), trouble: None, object: None });
        }
    }

    fn add_trouble(&mut self, path: &Path, trouble: CliError) {
        self.sources.push(Source { path: path.to_owned(), trouble: Some(trouble), object: None });
    }

    fn add_folder(&mut self, folder: &Path, printer: &Printer) {
        let before = self.sources.len();
        let mut json = false;
        self.walk(folder, 0, &mut json, printer);
        if self.sources.len() > before {
            return;
        }
        if json {
            // Trajectory files without a header; whether they are is seen when they are read.
            self.add_file(folder);
        } else {
            self.add_trouble(
                folder,
                CliError::not_found(format!("no eval logs in {}", folder.display()))
                    .hint("logs are *.eval files, and *.json files that begin as a log does"),
            );
        }
    }

    fn walk(&mut self, folder: &Path, depth: usize, json: &mut bool, printer: &Printer) {
        if folder.join(RUN_FILE).is_file() {
            self.add_file(folder);
            return;
        }
        if depth > DEPTH_MAX {
            printer.warning(&format!("{} is too deep in folders and was left out", folder.display()));
            return;
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.add_trouble(folder, CliError::io("read the folder", folder, &error)),
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') {
                continue;
            }
            let path = entry.path();
            // Links to files are followed, links to folders are not: they may lead back here.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.walk(&path, depth + 1, json, printer);
            } else if (name.ends_with(".eval") || name.ends_with(".json"))
                && fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
            {
                leave_out(&path, printer);
            } else if name.ends_with(".eval") || (name.ends_with(".json") && looks_like_log(&path)) {
                self.add_file(&path);
            } else {
                *json |= depth == 0 && name.ends_with(".json");
                printer.detail(&format!(
                    "left out {}: not an eval log by its name or its beginning",
                    path.display()
                ));
            }
        }
    }
}

/// Says what a pipe, a device or the like is not.
fn not_a_file(path: &Path) -> CliError {
    CliError::usage(format!(
        "{} is no regular file: a log cannot be read from a pipe or a device",
        path.display()
    ))
    .hint("write the log to a file first")
}

fn leave_out(path: &Path, printer: &Printer) {
    printer.warning(&format!("left out {}: it is no regular file", path.display()));
}

/// Whether a JSON file begins as a log does: an object whose first key is one of a header.
fn looks_like_log(path: &Path) -> bool {
    let mut head = Vec::new();
    if fs::File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head)).is_err() {
        // Reading it later will say why it cannot be read.
        return true;
    }
    let head = String::from_utf8_lossy(&head);
    let key = head.trim_start().strip_prefix('{').map_or("", str::trim_start);
    ["\"version\"", "\"status\"", "\"eval\"", "\"plan\"", "\"results\"", "\"stats\""]
        .iter()
        .any(|name| key.starts_with(name))
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(['*', '?', '[']))
}

/// The paths a pattern matches, sorted. `*` and `?` stay within a name, `[a-z]` and `[!a-z]` are one character, `**`
/// is any number of folders. Names that begin with a dot match only patterns that do.
fn expand(pattern: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut base = PathBuf::new();
    let mut parts: Vec<String> = Vec::new();
    for component in pattern.components() {
        let text = component.as_os_str().to_string_lossy();
        let fixed = parts.is_empty() && !is_pattern(Path::new(component.as_os_str()));
        if fixed || matches!(component, Component::Prefix(_) | Component::RootDir) {
            base.push(component);
        } else {
            parts.push(text.into_owned());
        }
    }
    let mut found = Vec::new();
    descend(&base, &parts, 0, &mut found)?;
    found.sort();
    found.dedup();
    Ok(found)
}

fn descend(folder: &Path, parts: &[String], depth: usize, found: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let Some((part, rest)) = parts.split_first() else {
        return Ok(());
    };
    if depth > DEPTH_MAX {
        return Err(CliError::usage(format!("{} is too deep in folders", folder.display())));
    }
    if part == "**" {
        // No folder at all, or one and then again.
        descend(folder, rest, depth, found)?;
    }
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(listed) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = folder.join(name);
        if part == "**" {
            if !name.starts_with('.') && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                descend(&path, parts, depth + 1, found)?;
            } else if rest.is_empty() && !name.starts_with('.') {
                found.push(path);
            }
        } else if matches(part, name) && (!name.starts_with('.') || part.starts_with('.')) {
            if rest.is_empty() {
                found.push(path);
            } else if path.is_dir() {
                descend(&path, rest, depth + 1, found)?;
            }
        }
    }
    Ok(())
}

/// Whether one name matches one part of a pattern. Linear but for the last star, to which it goes back.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => match class(&pattern[p..], name[n]) {
                Some((length, true)) => Some(length),
                Some((_, false)) => None,
                None => (name[n] == '[').then_some(1),
            },
            Some(&c) => (c == name[n]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(length), _) => {
                p += length;
                n += 1;
            }
            (None, Some((star_p, star_n))) => {
                p = star_p + 1;
                n = star_n + 1;
                star = Some((star_p, star_n + 1));
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// A `[…]` at the start of a pattern: its length, and whether the character is in it. None when it is never closed.
fn class(pattern: &[char], c: char) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = if negated { 2 } else { 1 };
    // A bracket in the first place stands for itself.
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|&c| c == ']')?;
    let set = &pattern[start..end];
    let mut inside = false;
    let mut at = 0;
    while at < set.len() {
        if at + 2 < set.len() && set[at + 1] == '-' {
            inside |= (set[at]..=set[at + 2]).contains(&c);
            at += 3;
        } else {
            inside |= set[at] == c;
            at += 1;
        }
    }
    Some((end + 1, inside != negated))
}

/// Lets the user pick from `./logs`, newest first.
fn pick(printer: &Printer) -> Result<Vec<Source>, CliError> {
    let folder = Path::new(LOGS);
    let nothing = || {
        CliError::usage("no logs given, and none in ./logs to pick from")
            .hint("give files, folders or patterns: ct runs make path/to/my-eval.eval")
    };
    if !folder.is_dir() {
        return Err(nothing());
    }
    let mut found = Found::default();
    found.add_folder(folder, printer);
    let mut logs: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for source in found.sources {
        if source.trouble.is_none() {
            let metadata =
                fs::metadata(&source.path).map_err(|error| CliError::io("read", &source.path, &error))?;
            logs.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), source.path));
        }
    }
    if logs.is_empty() {
        return Err(nothing());
    }
    logs.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
    printer.prompt_line("Logs in ./logs, newest first:");
    let now = Timestamp::now();
    for (index, (modified, size, path)) in logs.iter().enumerate() {
        let age = Timestamp::try_from(*modified)
            .map_or_else(|_| String::new(), |t| output::age(&t.to_string(), now));
        printer.prompt_line(&format!(
            "{:>4}  {:>4}  {:>9}  {}",
            index + 1,
            age,
            output::bytes(*size),
            path.display()
        ));
    }
    loop {
        let answer =
            printer.ask("Which? (numbers such as 1 3-5, `all`, or nothing to leave)")?.unwrap_or_default();
        match choose(&answer, logs.len()) {
            Ok(chosen) => {
                return Ok(chosen
                    .into_iter()
                    .map(|index| Source { path: logs[index].2.clone(), trouble: None, object: None })
                    .collect());
            }
            Err(trouble) => printer.prompt_line(&trouble),
        }
    }
}

/// Positions chosen by an answer, each once, in the order given.
fn choose(answer: &str, length: usize) -> Result<Vec<usize>, String> {
    let mut chosen = Vec::new();
    if answer.eq_ignore_ascii_case("all") {
        return Ok((0..length).collect());
    }
    for word in answer.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| (1..=length).contains(n));
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(format!("{word} is no number from 1 to {length}"));
        };
        for index in first - 1..last {
            if !chosen.contains(&index) {
                chosen.push(index);
            }
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        let yes = [
            ("*", "anything"),
            ("*.eval", "a.eval"),
            ("a*b*c", "aXbXbc"),
            ("?.eval", "é.eval"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]a]x", "]x"),
            ("[", "["),
            ("a[", "a["),
            ("**", "x"),
            ("[a-]", "-"),
        ];
        let no = [
            ("*.eval", "a.json"),
            ("?", ""),
            ("?", "ab"),
            ("[a-c]x", "dx"),
            ("[!a-c]x", "bx"),
            ("a", "ab"),
            ("a*b", "ac"),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in no {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        // A bad pattern takes no longer than it must.
        assert!(!matches(&"*a".repeat(200), &"a".repeat(150)));
    }

    #[test]
    fn patterns_walk_folders() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/1.eval", "a/b/2.eval", "a/b/.hidden.eval", ".git/3.eval", "c/4.json"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = |pattern: &str| {
            let found = expand(&folder.path().join(pattern)).unwrap();
            let names = found.iter().map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap());
            names.map(|name| name.replace('\\', "/")).collect::<Vec<_>>()
        };
        assert_eq!(found("a/*.eval"), ["a/1.eval"]);
        assert_eq!(found("*/*.eval"), ["a/1.eval"]);
        assert_eq!(found("**/*.eval"), ["a/1.eval", "a/b/2.eval"]);
        assert_eq!(found("[ac]/[0-9].*"), ["a/1.eval", "c/4.json"]);
        assert_eq!(found("a/b/.h*"), ["a/b/.hidden.eval"]);
        assert_eq!(found("*/none/*"), Vec::<String>::new());
    }

    #[test]
    fn json_logs_are_told_by_their_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let is_log = |text: &str| {
            fs::write(&path, text).unwrap();
            looks_like_log(&path)
        };
        assert!(is_log("{\n  \"version\": 2,"));
        assert!(is_log("{\"status\":\"started\""));
        for other in ["", "[]", "{\"metadata\": {}}", "{\"run_id\": \"x\"}", "\"version\"", "{\"file\": 1}"] {
            assert!(!is_log(other), "{other}");
        }
    }

    #[test]
    fn answers_to_the_question() {
        assert_eq!(choose("", 3), Ok(vec![]));
        assert_eq!(choose("2, 1-3", 3), Ok(vec![1, 0, 2]));
        assert_eq!(choose("ALL", 2), Ok(vec![0, 1]));
        for answer in ["0", "4", "x", "1-9", "-1"] {
            assert!(choose(answer, 3).is_err(), "{answer}");
        }
    }
}
