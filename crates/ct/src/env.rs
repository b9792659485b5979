//! Every environment variable the program reads, declared once. `docs/environment.md` lists the same and a test keeps
//! the two equal; nothing else in the program calls `std::env::var`.

use std::ffi::OsString;

/// An environment variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether a `.env` file may set it.
    pub(crate) dotenv: bool,
    /// What it does, for the reference.
    pub(crate) about: &'static str,
}

impl Variable {
    /// The variable's value in this process; an empty one counts as unset.
    pub(crate) fn get(self) -> Option<OsString> {
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }
}

/// The data folder.
pub(crate) const DATA_DIR: Variable = Variable {
    name: "CONTROL_TOWER_DATA_DIR",
    dotenv: true,
    about: "The data folder: the store's database and the eval logs. `--data-dir` comes before it. In a `.env` file, a \
            relative path is relative to that file.",
};
/// The server that is home.
pub(crate) const BASE_URL: Variable = Variable {
    name: "CONTROL_TOWER_API_BASE_URL",
    dotenv: true,
    about: "The address of the server that runs are made on and read from. `--local` and `--server` come before it; \
            without it the server of the last `ct login` is used, and without a login the data folder.",
};
/// The token for it.
pub(crate) const TOKEN: Variable = Variable {
    name: "CONTROL_TOWER_API_TOKEN",
    dotenv: true,
    about: "The token for that server, and for one given with `--server` when no address is set. It is sent to no other. \
            One of the environment is not sent to an address that a `.env` file names.",
};
/// The user's cache folder.
pub(crate) const XDG_CACHE_HOME: Variable = Variable {
    name: "XDG_CACHE_HOME",
    dotenv: false,
    about: "Logins are kept in `$XDG_CACHE_HOME/control-tower/auth` (absolute paths only), else in \
            `~/.cache/control-tower/auth`.",
};
/// Turns colour off.
pub(crate) const NO_COLOR: Variable =
    Variable { name: "NO_COLOR", dotenv: false, about: "When set, no colour, unless `--color` asks for it." };
/// The terminal's kind.
pub(crate) const TERM: Variable =
    Variable { name: "TERM", dotenv: false, about: "`dumb` means no colour and no progress bars." };
/// The user's data folder on Linux and other Unix systems.
pub(crate) const XDG_DATA_HOME: Variable = Variable {
    name: "XDG_DATA_HOME",
    dotenv: false,
    about: "Without a data folder given, it is `$XDG_DATA_HOME/control-tower` (absolute paths only).",
};
/// The user's home.
pub(crate) const HOME: Variable = Variable {
    name: "HOME",
    dotenv: false,
    about: "Else it is `~/.local/share/control-tower`, on macOS `~/Library/Application Support/control-tower`.",
};
/// The user's data folder on Windows.
pub(crate) const APPDATA: Variable =
    Variable { name: "APPDATA", dotenv: false, about: "On Windows it is `%APPDATA%\\control-tower`." };

/// All of them, in the order of the reference.
#[cfg(test)]
const ALL: &[Variable] =
    &[DATA_DIR, BASE_URL, TOKEN, XDG_CACHE_HOME, NO_COLOR, TERM, XDG_DATA_HOME, HOME, APPDATA];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_every_variable() {
        let mut table = String::from("| variable | in `.env` | what it does |\n| --- | --- | --- |\n");
        for variable in ALL {
            let dotenv = if variable.dotenv { "yes" } else { "no" };
            table.push_str(&format!("| `{}` | {dotenv} | {} |\n", variable.name, variable.about));
        }
        let page = include_str!("../../../docs/environment.md");
        assert!(page.contains(&table), "docs/environment.md should hold this table:\n{table}");
    }
}
