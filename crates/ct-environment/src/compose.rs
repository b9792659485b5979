//! Compose files, as far as they say how one container is made: what people put beside a Dockerfile for terminal agents.
//!
//! One service, with `build` or `image`, `environment` and `working_dir`. What only starts it means nothing here, since
//! commands are run in it; what opens it to the machine, or asks for more containers, is refused by its key.

use std::path::{Component, Path, PathBuf};

use saphyr::{LoadableYamlNode, MarkedYaml, YamlData};

use crate::error::Problem;
use crate::manifest::Loader;

/// What a compose file is called.
const NAMES: [&str; 4] = ["docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml"];
/// Keys of a service that say how it starts, or set limits, which are the manifest's to set.
const IDLE: [&str; 27] = [
    "command",
    "container_name",
    "cpus",
    "deploy",
    "domainname",
    "entrypoint",
    "expose",
    "healthcheck",
    "hostname",
    "init",
    "labels",
    "logging",
    "mem_limit",
    "mem_reservation",
    "memswap_limit",
    "pids_limit",
    "platform",
    "ports",
    "pull_policy",
    "restart",
    "shm_size",
    "stdin_open",
    "stop_grace_period",
    "stop_signal",
    "tty",
    "ulimits",
    "profiles",
];

/// How the image is made, and what commands in it find.
#[derive(Debug, Default)]
pub(crate) struct Image {
    /// The Dockerfile's folder, relative to the environment's.
    pub(crate) build: Option<PathBuf>,
    /// The Dockerfile, relative to that, when it has a name of its own.
    pub(crate) dockerfile: Option<PathBuf>,
    /// An image that is there.
    pub(crate) image: Option<String>,
    /// Where commands start.
    pub(crate) workdir: Option<String>,
    /// Variables of commands.
    pub(crate) variables: Vec<(String, String)>,
}

type Node<'a> = MarkedYaml<'a>;

/// Reads how the image is made: by a compose file, else by a Dockerfile, in `environment` or beside the manifest.
pub(crate) fn image(loader: &mut Loader) -> Image {
    let folders = [Path::new("environment"), Path::new("")];
    let built = folders.iter().find(|folder| loader.folder.join(folder).join("Dockerfile").is_file());
    let found = folders.iter().flat_map(|folder| NAMES.iter().map(move |name| (*folder, folder.join(name))));
    let mut found = found.filter(|(_, file)| loader.folder.join(file).exists());
    let mut image = match found.next() {
        Some((folder, file)) => Reader { loader, folder, file: &file, idle: Vec::new() }.read(),
        None => Image::default(),
    };
    if image.build.is_none() && image.image.is_none() {
        // The folder of a manifest is itself: `.`.
        image.build =
            built.map(|folder| if folder.as_os_str().is_empty() { ".".into() } else { folder.to_path_buf() });
    }
    image
}

struct Reader<'a> {
    loader: &'a mut Loader,
    folder: &'a Path,
    file: &'a Path,
    /// Keys that mean nothing here.
    idle: Vec<String>,
}

impl Reader<'_> {
    fn read(mut self) -> Image {
        let mut image = Image::default();
        let Some(text) = self.loader.text(self.file) else { return image };
        let documents = match Node::load_from_str(&text) {
            Ok(documents) => documents,
            Err(error) => {
                let path = self.loader.folder.join(self.file);
                let line = Some(error.marker().line());
                let message = format!("is no YAML: {}", error.info());
                self.loader.problems.push(Problem { path, line, message });
                return image;
            }
        };
        let Some(document) = documents.first() else {
            self.loader.problem(self.file, "is empty: it should have `services` with one service");
            return image;
        };
        let mut service = None;
        for (key, node) in entries(document) {
            match key.as_str() {
                "version" | "name" => {}
                "services" => {
                    let services = entries(node);
                    if let [(name, node)] = services.as_slice() {
                        service = Some((name.clone(), *node));
                    } else {
                        let names: Vec<&str> = services.iter().map(|(name, _)| name.as_str()).collect();
                        let message = format!(
                            "`services` has {} ({}): one is the agent's container, and what runs beside it belongs \
                             under [[services]] of environment.toml",
                            names.len(),
                            names.join(", ")
                        );
                        self.problem(node, message);
                    }
                }
                _ if key.starts_with("x-") => {}
                _ => self.refuse(node, &key),
            }
        }
        if let Some((name, node)) = service {
            for (key, value) in entries(node) {
                self.service_key(&format!("services.{name}.{key}"), &key, value, &mut image);
            }
        } else if self.loader.problems.is_empty() {
            self.loader.problem(self.file, "has no `services`");
        }
        if !self.idle.is_empty() {
            let warning = format!("{}: not used here: {}", self.file.display(), self.idle.join(", "));
            self.loader.warnings.push(warning);
        }
        image
    }

    fn service_key(&mut self, path: &str, key: &str, node: &Node<'_>, image: &mut Image) {
        match key {
            "build" => self.build(path, node, image),
            "image" => match text(node) {
                // With `build` it only names what is built; by a variable, whoever runs it names it.
                Some(name) if !name.contains('$') => image.image = Some(name),
                _ => self.idle.push(format!("`{path}`")),
            },
            "working_dir" => match text(node) {
                Some(folder) if !folder.contains('$') && crate::manifest::is_workdir(&folder) => {
                    image.workdir = Some(folder);
                }
                _ => self.problem(node, format!("`{path}` is no absolute path of its own")),
            },
            "environment" => self.environment(path, node, image),
            "user" => match text(node).as_deref() {
                Some("root" | "0" | "0:0") => {}
                _ => self.problem(
                    node,
                    format!("`{path}` is not root: give a user to commands in the instruction's own words"),
                ),
            },
            "network_mode" => match text(node).as_deref() {
                Some("none") => {}
                Some("bridge") => self.idle.push(format!("`{path}`")),
                _ => self.refuse(node, path),
            },
            "volumes" => {
                for item in items(node) {
                    // A place for logs that whoever runs it gives.
                    match text(item) {
                        Some(text) if text.starts_with('$') => self.idle.push(format!("`{path}` {text:?}")),
                        _ => self.problem(
                            item,
                            format!("`{path}`: nothing of the machine is mounted; put files into the image, or into files/"),
                        ),
                    }
                }
            }
            _ if IDLE.contains(&key) => self.idle.push(format!("`{path}`")),
            _ if key.starts_with("x-") => {}
            _ => self.refuse(node, path),
        }
    }

    fn build(&mut self, path: &str, node: &Node<'_>, image: &mut Image) {
        let (mut context, mut dockerfile) = (".".to_owned(), None);
        if let Some(folder) = text(node) {
            context = folder;
        } else {
            for (key, value) in entries(node) {
                match (key.as_str(), text(value)) {
                    ("context", Some(folder)) => context = folder,
                    ("dockerfile", Some(file)) => dockerfile = Some(file),
                    ("tags" | "labels" | "pull", _) => self.idle.push(format!("`{path}.{key}`")),
                    _ => self.refuse(value, &format!("{path}.{key}")),
                }
            }
        }
        let (Some(folder), Some(file)) =
            (inner(&context), inner(dockerfile.as_deref().unwrap_or("Dockerfile")))
        else {
            let message = format!(
                "`{path}`: the context and the Dockerfile must lie in this folder, without variables"
            );
            return self.problem(node, message);
        };
        let folder = self.folder.join(folder);
        if !self.loader.folder.join(&folder).join(&file).is_file() {
            return self.problem(node, format!("`{path}`: there is no {}", folder.join(&file).display()));
        }
        image.build = Some(if folder.as_os_str().is_empty() { ".".into() } else { folder });
        image.dockerfile = dockerfile.map(|_| file);
    }

    fn environment(&mut self, path: &str, node: &Node<'_>, image: &mut Image) {
        let mut given: Vec<(String, Option<String>)> =
            entries(node).into_iter().map(|(name, value)| (name, text(value))).collect();
        for item in items(node) {
            let text = text(item).unwrap_or_default();
            given.push(match text.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (text, None),
            });
        }
        for (name, value) in given {
            let name_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(name_allowed) {
                self.problem(node, format!("`{path}`: {name:?} is no name of a variable"));
                continue;
            }
            match value.and_then(|value| filled_in(&value)) {
                Some(value) => image.variables.push((name, value)),
                // Nothing of the machine's own environment gets in.
                None => self.idle.push(format!("`{path}.{name}` (its value is taken from outside)")),
            }
        }
    }

    fn refuse(&mut self, node: &Node<'_>, path: &str) {
        let message = format!(
            "`{path}` is not supported: a service with build, image, environment and working_dir is; what runs beside the \
             agent belongs under [[services]] of environment.toml"
        );
        self.problem(node, message);
    }

    fn problem(&mut self, node: &Node<'_>, message: String) {
        let path = self.loader.folder.join(self.file);
        self.loader.problems.push(Problem { path, line: Some(node.span.start.line()), message });
    }
}

/// A value with its variables filled in: by their defaults, since there are no others. None when one has none.
fn filled_in(value: &str) -> Option<String> {
    let mut filled = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('$') {
        filled += before;
        if let Some(after) = after.strip_prefix('$') {
            filled.push('$');
            rest = after;
            continue;
        }
        let (variable, after) = after.strip_prefix('{')?.split_once('}')?;
        let (_, default) = variable.split_once('-')?;
        filled += default;
        rest = after;
    }
    Some(filled + rest)
}

/// A path that stays where it is.
fn inner(path: &str) -> Option<PathBuf> {
    let parts = Path::new(path).components().filter(|part| *part != Component::CurDir);
    let parts: Vec<Component<'_>> = parts.collect();
    let stays = parts.iter().all(|part| matches!(part, Component::Normal(_)));
    (stays && !path.contains('$')).then(|| parts.iter().collect())
}

/// The entries of a mapping with texts for keys, of whatever else none.
fn entries<'a>(node: &'a Node<'a>) -> Vec<(String, &'a Node<'a>)> {
    match &node.data {
        YamlData::Mapping(map) => map.iter().filter_map(|(key, value)| Some((text(key)?, value))).collect(),
        _ => Vec::new(),
    }
}

fn items<'a>(node: &'a Node<'a>) -> &'a [Node<'a>] {
    match &node.data {
        YamlData::Sequence(items) => items,
        _ => &[],
    }
}

/// What is written, of texts, numbers and truth values.
fn text(node: &Node<'_>) -> Option<String> {
    use saphyr::Scalar;
    match &node.data {
        YamlData::Representation(text, ..) => Some(text.to_string()),
        YamlData::Value(Scalar::String(text)) => Some(text.to_string()),
        YamlData::Value(Scalar::Integer(number)) => Some(number.to_string()),
        YamlData::Value(Scalar::FloatingPoint(number)) => Some(number.to_string()),
        YamlData::Value(Scalar::Boolean(value)) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_variables() {
        for (value, expected) in [
            ("plain", Some("plain")),
            ("a$$b", Some("a$b")),
            ("${X:-d}/${Y-e}", Some("d/e")),
            ("${X}", None),
            ("$X", None),
            ("${X", None),
            ("", Some("")),
        ] {
            assert_eq!(filled_in(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn paths_that_stay() {
        assert_eq!(inner("."), Some(PathBuf::new()));
        assert_eq!(inner("./a/b"), Some(PathBuf::from("a/b")));
        for path in ["..", "a/../..", "/a", "${X}"] {
            assert_eq!(inner(path), None, "{path}");
        }
    }
}
