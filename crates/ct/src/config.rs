//! Settings, each resolved once: flag, then environment, then a `.env` file, then the default.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use ct_client::{BaseUrl, Origin as ServerOrigin, Token};

use crate::env::{self, Variable};
use crate::error::CliError;
use crate::logins::Logins;

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
    /// A login, kept in this file.
    Login(PathBuf),
    /// The platform's default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "from {name}"),
            Self::Environment(variable) => write!(f, "from {}", variable.name),
            Self::Dotenv(path) | Self::Login(path) => write!(f, "from {}", path.display()),
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
    /// Where runs are kept.
    pub(crate) place: Place,
    /// Where `place` came from.
    pub(crate) place_origin: Origin,
    /// The token that flags, environment and `.env` file give, with the only address it is for.
    given_token: Option<GivenToken>,
    /// A token was given, and no address for it.
    pub(crate) token_without_server: Option<Origin>,
    /// What `ct login` keeps.
    pub(crate) logins: Logins,
    /// Where the logs of the store are, when that is told, and where it came from.
    pub(crate) logs: Option<(String, Origin)>,
    /// Where clients reach them.
    pub(crate) logs_public_url: Option<String>,
    /// How buckets are reached: what of these variables is set.
    aws: Vec<(&'static str, String)>,
    dotenv: Option<Dotenv>,
}

/// Where runs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the data folder.
    Local,
    /// On this server.
    Server(BaseUrl),
}

#[derive(Debug, Clone)]
struct GivenToken {
    token: Token,
    origin: Origin,
    server: ServerOrigin,
}

/// What the command line says about where runs are kept.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlaceFlags<'a> {
    /// `--local`
    pub(crate) local: bool,
    /// `--server`
    pub(crate) server: Option<&'a str>,
}

impl Config {
    /// Resolves everything. `data_dir` is the flag's value.
    pub(crate) fn resolve(data_dir: Option<&Path>, flags: PlaceFlags<'_>) -> Result<Self, CliError> {
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
        let logins = Logins::load(auth_dir());
        let (place, place_origin) = place(flags, dotenv.as_ref(), &logins)?;
        let (given_token, token_without_server) = given_token(flags, dotenv.as_ref())?;
        Ok(Self {
            data_dir: here.join(path),
            data_dir_origin: origin,
            place,
            place_origin,
            given_token,
            token_without_server,
            logins,
            logs: setting(env::LOGS, dotenv.as_ref()),
            logs_public_url: setting(env::LOGS_PUBLIC_URL, dotenv.as_ref()).map(|(url, _)| url),
            aws: env::AWS
                .iter()
                .filter_map(|variable| Some((variable.name, setting(*variable, dotenv.as_ref())?.0)))
                .collect(),
            dotenv,
        })
    }

    /// A variable of the environment, else of the `.env` file.
    pub(crate) fn setting(&self, variable: Variable) -> Option<String> {
        setting(variable, self.dotenv.as_ref()).map(|(value, _)| value)
    }

    /// The folder that a path in a variable is relative to: that of the `.env` file, when it comes from there.
    pub(crate) fn setting_path(&self, variable: Variable) -> Option<PathBuf> {
        let (value, origin) = setting(variable, self.dotenv.as_ref())?;
        Some(match origin {
            Origin::Dotenv(file) => file.parent().unwrap_or(Path::new(".")).join(value),
            _ => PathBuf::from(value),
        })
    }

    /// A variable of a provider of models ([`env::MODEL_KEYS`] and so on): its name is not known before.
    pub(crate) fn model_variable(&self, name: &str) -> Option<String> {
        self.model_setting(name).map(|(value, _)| value)
    }

    fn model_setting(&self, name: &str) -> Option<(String, Origin)> {
        let of_environment = || {
            let value = env::of_name(name)?.to_string_lossy().into_owned();
            Some((value, Origin::Environment(env::MODEL_KEYS)))
        };
        let of_file = || {
            let file = self.dotenv.as_ref()?;
            Some((file.value(name)?.to_owned(), Origin::Dotenv(file.path.clone())))
        };
        of_environment().or_else(of_file)
    }

    /// A `.env` file may come from anybody: an address that it names gets no key from elsewhere.
    pub(crate) fn foreign_model_address(&self, provider: &str) -> Option<CliError> {
        let service = provider.rsplit('/').next().unwrap_or(provider);
        let prefix = service.to_ascii_uppercase().replace(['-', '.'], "_");
        let (key, address) = (format!("{prefix}_API_KEY"), format!("{prefix}_BASE_URL"));
        let (_, Origin::Dotenv(file)) = self.model_setting(&address)? else { return None };
        let (_, Origin::Environment(_)) = self.model_setting(&key)? else { return None };
        let file = file.display();
        Some(
            CliError::usage(format!(
                "{address} is named by {file}, and {key} by the environment: the key is not sent there"
            ))
            .hint(format!("set {address} in the environment too, or put both into the .env file")),
        )
    }

    /// How buckets are reached, and by whom.
    pub(crate) fn s3(&self) -> Result<ct_s3::Config, CliError> {
        let get = |name: &str| self.aws.iter().find(|(known, _)| *known == name).map(|(_, v)| v.clone());
        let home = env::HOME.get().map(PathBuf::from);
        Ok(ct_s3::Config::from_variables(&get, home.as_deref())?)
    }

    /// The token for a server, and where it came from.
    pub(crate) fn token_for(&self, server: &ServerOrigin) -> Option<(Token, Origin)> {
        let given = self.given_token.as_ref().filter(|given| given.server == *server);
        given
            .map(|given| (given.token.clone(), given.origin.clone()))
            .or_else(|| self.logins.token_for(server).map(|(token, path)| (token, Origin::Login(path))))
    }
}

/// Which home: flags, then the environment, then a `.env` file, then the last login, then the data folder.
fn place(
    flags: PlaceFlags<'_>,
    dotenv: Option<&Dotenv>,
    logins: &Logins,
) -> Result<(Place, Origin), CliError> {
    if flags.local {
        return Ok((Place::Local, Origin::Flag("--local")));
    }
    if let Some(url) = flags.server {
        return Ok((Place::Server(BaseUrl::parse(url)?), Origin::Flag("--server")));
    }
    let named = |url: &str, origin: Origin| match BaseUrl::parse(url) {
        Ok(base) => Ok((Place::Server(base), origin)),
        Err(error) => {
            Err(CliError::from(error).hint(format!("the address is {origin}; --local does without a server")))
        }
    };
    if let Some(url) = setting(env::BASE_URL, dotenv) {
        return named(&url.0, url.1);
    }
    Ok(match logins.current() {
        Some((base, path)) => (Place::Server(base), Origin::Login(path)),
        None => (Place::Local, Origin::Default),
    })
}

/// A variable of the environment, else of the `.env` file.
fn setting(variable: Variable, dotenv: Option<&Dotenv>) -> Option<(String, Origin)> {
    if let Some(value) = variable.get() {
        return Some((value.to_string_lossy().into_owned(), Origin::Environment(variable)));
    }
    let file = dotenv?;
    Some((file.get(variable)?.to_owned(), Origin::Dotenv(file.path.clone())))
}

/// The token given, with the one server it is for: that of the variables; the flag's where they name none. A `.env` file
/// may come from anybody, so what it names gets no token from elsewhere.
fn given_token(
    flags: PlaceFlags<'_>,
    dotenv: Option<&Dotenv>,
) -> Result<(Option<GivenToken>, Option<Origin>), CliError> {
    let Some((text, origin)) = setting(env::TOKEN, dotenv) else { return Ok((None, None)) };
    let Some(token) = Token::new(text) else {
        return Err(CliError::usage(format!("the token {origin} holds characters that no token has")));
    };
    let (url, named_by) = match (setting(env::BASE_URL, dotenv), flags.server) {
        (Some(named), _) => named,
        (None, Some(url)) => (url.to_owned(), Origin::Flag("--server")),
        (None, None) => return Ok((None, Some(origin))),
    };
    let foreign = matches!(named_by, Origin::Dotenv(_)) && !matches!(origin, Origin::Dotenv(_));
    // An address that is none is complained about where it is needed.
    let server = BaseUrl::parse(&url).ok().map(|base| base.origin());
    Ok((server.filter(|_| !foreign).map(|server| GivenToken { token, origin, server }), None))
}

/// Where logins are kept.
fn auth_dir() -> Option<PathBuf> {
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let home = || env::HOME.get().and_then(absolute).map(|home| home.join(".cache"));
    let cache = env::XDG_CACHE_HOME.get().and_then(absolute).or_else(home)?;
    Some(cache.join(FOLDER).join("auth"))
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
#[derive(Clone)]
struct Dotenv {
    path: PathBuf,
    values: Vec<(String, String)>,
}

/// Without the values, which may be secrets.
impl fmt::Debug for Dotenv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dotenv").field("path", &self.path).finish_non_exhaustive()
    }
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
        self.value(variable.name).filter(|_| variable.dotenv)
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().rev().find(|(found, _)| found == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
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
