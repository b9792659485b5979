//! Tokens that `ct login` keeps. `token.json`, `{"url", "token"}`, is the last login and is shared with other clients;
//! `servers.json` beside it remembers every server, so that several can be used side by side.
//!
//! Files are written whole and renamed, readable by their owner alone.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ct_client::{BaseUrl, Origin, Token};
use serde::{Deserialize, Serialize};

use crate::error::CliError;

/// A larger file is none of ours.
const FILE_BYTES_MAX: u64 = 1 << 20;
const CURRENT: &str = "token.json";
const SERVERS: &str = "servers.json";

/// A login as it is written.
#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    url: String,
    token: String,
    /// `ct login` had the token made; another one is not ours to end. Known in `servers.json` only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    made_here: bool,
}

#[derive(Default, Serialize, Deserialize)]
struct Servers {
    #[serde(default)]
    servers: Vec<Entry>,
}

/// A server that someone signed in to.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) base: BaseUrl,
    pub(crate) token: Token,
    /// Whether the token was made by signing in here.
    pub(crate) made_here: bool,
    path: PathBuf,
}

/// All logins.
#[derive(Debug, Clone)]
pub(crate) struct Logins {
    folder: Option<PathBuf>,
    current: Option<Login>,
    servers: Vec<Login>,
}

impl Logins {
    /// Reads what is there. A file that is none of ours says nothing.
    pub(crate) fn load(folder: Option<PathBuf>) -> Self {
        let mut logins = Self { folder, current: None, servers: Vec::new() };
        let Some(folder) = &logins.folder else { return logins };
        let login = |entry: &Entry, path: &Path| {
            let base = BaseUrl::parse(&entry.url).ok()?;
            let token = Token::new(entry.token.clone())?;
            Some(Login { base, token, made_here: entry.made_here, path: path.to_owned() })
        };
        let (current, servers) = (folder.join(CURRENT), folder.join(SERVERS));
        logins.current = read::<Entry>(&current).and_then(|entry| login(&entry, &current));
        let entries = read::<Servers>(&servers).unwrap_or_default().servers;
        logins.servers = entries.iter().filter_map(|entry| login(entry, &servers)).collect();
        if let Some(current) = &mut logins.current {
            let same =
                |login: &Login| login.token == current.token && login.base.origin() == current.base.origin();
            current.made_here = logins.servers.iter().any(|login| login.made_here && same(login));
        }
        logins
    }

    /// The server of the last login, and the file that says so.
    pub(crate) fn current(&self) -> Option<(BaseUrl, PathBuf)> {
        self.current.as_ref().map(|login| (login.base.clone(), login.path.clone()))
    }

    /// The token for an origin, and the file it is kept in. The last login counts most: another client may have made it.
    pub(crate) fn token_for(&self, origin: &Origin) -> Option<(Token, PathBuf)> {
        let mut all = self.current.iter().chain(&self.servers);
        all.find(|login| login.base.origin() == *origin)
            .map(|login| (login.token.clone(), login.path.clone()))
    }

    /// Every server, the last login first.
    pub(crate) fn all(&self) -> Vec<Login> {
        let mut all: Vec<Login> = Vec::new();
        for login in self.current.iter().chain(&self.servers) {
            if !all.iter().any(|known| known.base.origin() == login.base.origin()) {
                all.push(login.clone());
            }
        }
        all
    }

    /// Keeps a new login, which is the last one from now on. Gives the file that other clients read.
    pub(crate) fn save(
        &mut self,
        base: &BaseUrl,
        token: &Token,
        made_here: bool,
    ) -> Result<PathBuf, CliError> {
        let folder = self.folder()?;
        let entry = Entry { url: base.to_string(), token: token.secret().to_owned(), made_here: false };
        let mut entries = self.entries_but(&base.origin());
        entries.insert(0, Entry { made_here, ..entry.clone() });
        let path = folder.join(CURRENT);
        write(&folder.join(SERVERS), &Servers { servers: entries })?;
        write(&path, &entry)?;
        *self = Self::load(self.folder.take());
        Ok(path)
    }

    /// Forgets the login of an origin.
    pub(crate) fn forget(&mut self, origin: &Origin) -> Result<(), CliError> {
        let folder = self.folder()?;
        if self.servers.iter().any(|login| login.base.origin() == *origin) {
            write(&folder.join(SERVERS), &Servers { servers: self.entries_but(origin) })?;
        }
        if self.current.as_ref().is_some_and(|login| login.base.origin() == *origin) {
            let path = folder.join(CURRENT);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(CliError::io("remove", &path, &error));
                }
                _ => {}
            }
        }
        *self = Self::load(self.folder.take());
        Ok(())
    }

    fn entries_but(&self, origin: &Origin) -> Vec<Entry> {
        let others = self.all().into_iter().filter(|login| login.base.origin() != *origin);
        others
            .map(|login| Entry {
                url: login.base.to_string(),
                token: login.token.secret().to_owned(),
                made_here: login.made_here,
            })
            .collect()
    }

    fn folder(&self) -> Result<PathBuf, CliError> {
        self.folder.clone().ok_or_else(|| {
            CliError::usage("there is no home folder to keep a login in").hint("set XDG_CACHE_HOME or HOME")
        })
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), CliError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let failed = |error: &io::Error| CliError::io("write", path, error);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| CliError::io("make the folder", folder, &error))?;
    let mut text = serde_json::to_vec(value)
        .map_err(|error| CliError::internal("failed to write JSON").because(&error))?;
    text.push(b'\n');
    // Temporary files are their owner's alone, and stay so when they are renamed.
    let mut file =
        tempfile::Builder::new().prefix(".ct-").tempfile_in(folder).map_err(|error| failed(&error))?;
    file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(|error| failed(&error))?;
    file.persist(path).map_err(|error| failed(&error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_kept_by_server_and_forgotten_alone() {
        let folder = tempfile::tempdir().unwrap();
        let auth = folder.path().join("auth");
        let base = |text: &str| BaseUrl::parse(text).unwrap();
        let token = |text: &str| Token::new(text).unwrap();
        let mut logins = Logins::load(Some(auth.clone()));
        assert!(logins.current().is_none());
        logins.save(&base("https://one.example/base"), &token("1"), true).unwrap();
        logins.save(&base("https://two.example"), &token("2"), true).unwrap();
        logins.save(&base("https://one.example"), &token("3"), false).unwrap();
        assert_eq!(
            fs::read_to_string(auth.join(CURRENT)).unwrap(),
            "{\"url\":\"https://one.example\",\"token\":\"3\"}\n"
        );
        let secret = |text: &str| {
            Logins::load(Some(auth.clone()))
                .token_for(&base(text).origin())
                .map(|(token, _)| token.secret().to_owned())
        };
        assert_eq!(secret("https://one.example"), Some("3".to_owned()));
        assert_eq!(secret("https://two.example/x"), Some("2".to_owned()));
        assert_eq!(secret("http://two.example"), None);
        let made_here: Vec<bool> = logins.all().iter().map(|login| login.made_here).collect();
        assert_eq!(made_here, [false, true]);
        #[cfg(unix)]
        for name in [CURRENT, SERVERS] {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(auth.join(name)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        logins.forget(&base("https://one.example").origin()).unwrap();
        assert_eq!(
            (secret("https://one.example"), secret("https://two.example")),
            (None, Some("2".to_owned()))
        );
        assert!(logins.current().is_none());
    }

    #[test]
    fn a_login_of_another_client_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(CURRENT), r#"{"url": "https://v.example/", "token": "t", "more": 1}"#)
            .unwrap();
        fs::write(folder.path().join(SERVERS), "nonsense").unwrap();
        let logins = Logins::load(Some(folder.path().to_owned()));
        assert_eq!(logins.current().unwrap().0.as_str(), "https://v.example");
    }
}
