//! Settings, each resolved once: flag, then environment, then a `.env` file, then the default.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::env::{self, Variable};
use crate::error::CliError;

/// The name of the data folder under the platform's.
const FOLDER: &str = "control-tower";
/// A `.env` file larger than this is not one.
const DOTENV_BYTES_MAX: u64 = 1 << 20;

/// Where a setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The command line.
    Flag(&'static str),
    /// The process's environment.
    Environment(Variable),
    /// A `.env` file.
    Dotenv(PathBuf),
    /// The platform's default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "from {name}"),
            Self::Environment(variable) => write!(f, "from {}", variable.name),
            Self::Dotenv(path) => write!(f, "from {}", path.display()),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// The resolved settings.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The data folder, absolute.
    pub(crate) data_dir: PathBuf,
    /// Where `data_dir` came from.
    pub(crate) data_dir_origin: Origin,
}

impl Config {
    /// Resolves everything. `data_dir` is the flag's value.
    pub(crate) fn resolve(data_dir: Option<&Path>) -> Result<Self, CliError> {
        let here = std::env::current_dir()
            .map_err(|error| CliError::io("find out the working directory,", Path::new("."), &error))?;
        let dotenv = Dotenv::find(&here);
        let given = data_dir
            .map(|path| (path.to_owned(), Origin::Flag("--data-dir")))
            .or_else(|| Some((env::DATA_DIR.get()?.into(), Origin::Environment(env::DATA_DIR))))
            .or_else(|| {
                let file = dotenv.as_ref()?;
                let folder = file.path.parent().unwrap_or(Path::new("."));
                Some((folder.join(file.get(env::DATA_DIR)?), Origin::Dotenv(file.path.clone())))
            });
        let (path, origin) = match given {
            Some(given) => given,
            None => (platform_data_dir()?.join(FOLDER), Origin::Default),
        };
        Ok(Self { data_dir: here.join(path), data_dir_origin: origin })
    }
}

/// The user's data folder by the platform's custom.
fn platform_data_dir() -> Result<PathBuf, CliError> {
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let home = || env::HOME.get().and_then(absolute);
    let found = if cfg!(windows) {
        env::APPDATA.get().and_then(absolute)
    } else if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Application Support"))
    } else {
        env::XDG_DATA_HOME.get().and_then(absolute).or_else(|| home().map(|home| home.join(".local/share")))
    };
    found.ok_or_else(|| {
        CliError::usage("no data folder: there is no home folder to put one in")
            .hint(format!("set {} or give --data-dir", env::DATA_DIR.name))
    })
}

/// The nearest `.env` file: `NAME=value` lines, with `#` comments, an optional `export`, and quotes around values.
/// Names the program does not know are other programs' and are left alone.
#[derive(Debug)]
struct Dotenv {
    path: PathBuf,
    values: Vec<(String, String)>,
}

impl Dotenv {
    /// Looks in `folder` and above.
    fn find(folder: &Path) -> Option<Self> {
        for folder in folder.ancestors() {
            let path = folder.join(".env");
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() && metadata.len() <= DOTENV_BYTES_MAX => {
                    // It may be another program's, so one that cannot be read is nothing to stop for.
                    let bytes = std::fs::read(&path).ok()?;
                    return Some(Self { values: parse(&String::from_utf8_lossy(&bytes)), path });
                }
                _ => {}
            }
        }
        None
    }

    /// The last non-empty value of a variable that may come from here.
    fn get(&self, variable: Variable) -> Option<&str> {
        let found = self.values.iter().rev().find(|(name, _)| name == variable.name)?;
        Some(found.1.as_str()).filter(|value| variable.dotenv && !value.is_empty())
    }
}

fn parse(text: &str) -> Vec<(String, String)> {
    let mut values = Vec::new();
    for line in text.trim_start_matches('\u{feff}').lines() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        if name.starts_with('#') {
            continue;
        }
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|&quote| value.strip_prefix(quote)?.split_once(quote));
        let value = match quoted {
            Some((inside, _)) => inside,
            None => value.split_once(" #").map_or(value, |(value, _)| value).trim_end(),
        };
        values.push((name.trim().to_owned(), value.to_owned()));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotenv_lines() {
        let text = "\u{feff}# c\nA=1\n export B = \"two # 2\" # c\nC='x y'\nD=plain # c\nE=\n#F=1\nnonsense\nA=3\r\n";
        let values = parse(text);
        let expected = [("A", "1"), ("B", "two # 2"), ("C", "x y"), ("D", "plain"), ("E", ""), ("A", "3")];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let file = Dotenv { path: ".env".into(), values };
        let variable = |name| Variable { name, dotenv: true, about: "" };
        assert_eq!(file.get(variable("A")), Some("3"));
        assert_eq!(file.get(variable("E")), None);
        assert_eq!(file.get(Variable { dotenv: false, ..variable("A") }), None);
    }
}
