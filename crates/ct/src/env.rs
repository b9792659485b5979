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

/// A variable whose name depends on what it is for: see [`MODEL_KEYS`].
pub(crate) fn of_name(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
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
/// Where logs are kept.
pub(crate) const LOGS: Variable = Variable {
    name: "CONTROL_TOWER_LOGS",
    dotenv: true,
    about: "Where the store keeps its logs: `s3://bucket/prefix`. Needed once: the data folder remembers it. Without it \
            they are in the data folder. `ct serve --logs` comes before it.",
};
/// Where clients reach logs.
pub(crate) const LOGS_PUBLIC_URL: Variable = Variable {
    name: "CONTROL_TOWER_LOGS_PUBLIC_URL",
    dotenv: true,
    about: "Where clients of a server reach the S3 service, when that is another address than the server uses. \
            `ct serve --logs-public-url` comes before it.",
};
/// How buckets are reached.
pub(crate) const AWS: &[Variable] = &[
    Variable {
        name: "AWS_ENDPOINT_URL_S3",
        dotenv: true,
        about: "The address of the S3 service; comes before `AWS_ENDPOINT_URL`.",
    },
    Variable {
        name: "AWS_ENDPOINT_URL",
        dotenv: true,
        about: "The same. With either, buckets are steps of the path; without, the service is that of AWS.",
    },
    Variable { name: "AWS_REGION", dotenv: true, about: "The region of buckets; else `us-east-1`." },
    Variable { name: "AWS_DEFAULT_REGION", dotenv: true, about: "The same, after `AWS_REGION`." },
    Variable {
        name: "AWS_ACCESS_KEY_ID",
        dotenv: true,
        about: "Who asks S3 services. Clients of a server need none.",
    },
    Variable { name: "AWS_SECRET_ACCESS_KEY", dotenv: true, about: "The secret for it." },
    Variable { name: "AWS_SESSION_TOKEN", dotenv: true, about: "The token that goes with keys for a time." },
    Variable {
        name: "AWS_PROFILE",
        dotenv: true,
        about: "The profile whose keys, region and endpoint are used where these variables say nothing; else `default`.",
    },
    Variable {
        name: "AWS_SHARED_CREDENTIALS_FILE",
        dotenv: true,
        about: "The file of profiles with keys; else `~/.aws/credentials`.",
    },
    Variable {
        name: "AWS_CONFIG_FILE",
        dotenv: true,
        about: "The file of profiles with region and `endpoint_url`; else `~/.aws/config`.",
    },
];
/// Where environments are.
pub(crate) const SETTINGS_DIR: Variable = Variable {
    name: "CONTROL_TOWER_SETTINGS_DIR",
    dotenv: true,
    about: "A folder of environments for `ct run eval`, looked through after `./environments` and before `environments` in \
            the data folder.",
};
/// The model.
pub(crate) const MODEL: Variable = Variable {
    name: "CONTROL_TOWER_MODEL",
    dotenv: true,
    about: "The model of `ct run eval`, as `provider/name`. `--model` comes before it.",
};
/// The model, as other runners of evaluations name it.
pub(crate) const INSPECT_MODEL: Variable = Variable {
    name: "INSPECT_EVAL_MODEL",
    dotenv: true,
    about: "The model of `ct run eval` when `CONTROL_TOWER_MODEL` is not set.",
};
/// Where logs are written.
pub(crate) const LOG_DIR: Variable = Variable {
    name: "INSPECT_LOG_DIR",
    dotenv: true,
    about: "Where `ct run eval` writes its logs; `./logs` without it. `--log-dir` comes before it.",
};
/// Keys of providers: a family of variables, see [`crate::config::Config::model_variable`].
pub(crate) const MODEL_KEYS: Variable = Variable {
    name: "<PROVIDER>_API_KEY",
    dotenv: true,
    about: "The key of a provider of models: `ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `OPENROUTER_API_KEY`, \
            `GOOGLE_API_KEY`, and of `openai-api/my-lab/…` `MY_LAB_API_KEY`.",
};
/// Addresses of providers.
#[cfg(test)]
pub(crate) const MODEL_ADDRESSES: Variable = Variable {
    name: "<PROVIDER>_BASE_URL",
    dotenv: true,
    about: "The address of a provider of models, in place of its own: `ANTHROPIC_BASE_URL`, `OLLAMA_BASE_URL` and so on. A \
            key of the environment is not sent to an address that a `.env` file names.",
};
/// Protocols of providers.
#[cfg(test)]
pub(crate) const MODEL_PROTOCOLS: Variable = Variable {
    name: "<PROVIDER>_PROTOCOL",
    dotenv: true,
    about: "Which of OpenAI's protocols a provider is asked in, `chat` or `responses`: `OPENAI_PROTOCOL`, `MY_LAB_PROTOCOL` \
            and so on. Without it `chat`, but for those of OpenAI's own models that are made for the newer one.",
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
fn all() -> Vec<Variable> {
    let first = [
        DATA_DIR,
        BASE_URL,
        TOKEN,
        SETTINGS_DIR,
        MODEL,
        INSPECT_MODEL,
        LOG_DIR,
        MODEL_KEYS,
        MODEL_ADDRESSES,
        MODEL_PROTOCOLS,
        LOGS,
        LOGS_PUBLIC_URL,
    ];
    let last = [XDG_CACHE_HOME, NO_COLOR, TERM, XDG_DATA_HOME, HOME, APPDATA];
    [&first[..], AWS, &last].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_every_variable() {
        let mut table = String::from("| variable | in `.env` | what it does |\n| --- | --- | --- |\n");
        for variable in all() {
            let dotenv = if variable.dotenv { "yes" } else { "no" };
            table.push_str(&format!("| `{}` | {dotenv} | {} |\n", variable.name, variable.about));
        }
        let page = include_str!("../../../docs/environment.md");
        assert!(page.contains(&table), "docs/environment.md should hold this table:\n{table}");
    }
}
