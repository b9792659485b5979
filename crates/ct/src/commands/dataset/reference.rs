//! What names a dataset on the command line: its name, a version of it, or an address of a viewer.

use std::str::FromStr;

use ct_client::BaseUrl;
use ct_model::DatasetName;

use crate::commands::target;

/// A dataset, and which version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) name: DatasetName,
    /// Absent: the newest.
    pub(super) version: Option<u64>,
    /// The server of an address.
    pub(super) base: Option<BaseUrl>,
}

impl FromStr for Reference {
    type Err = String;

    /// Reads `NAME`, `NAME@VERSION` and `https://<host>/datasets/<name>?version=N`.
    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let rest = ["https://", "http://"]
            .iter()
            .find_map(|scheme| lower.starts_with(scheme).then(|| &text[scheme.len()..]));
        let Some(rest) = rest else {
            let (name, version) = match text.split_once('@') {
                Some((name, version)) => (name, Some(number(version)?)),
                None => (text, None),
            };
            return Ok(Self { name: named(name)?, version, base: None });
        };
        let (rest, _) = rest.split_once('#').unwrap_or((rest, ""));
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = path.split('/').filter(|part| !part.is_empty()).skip(1);
        parts.find(|part| *part == "datasets");
        let Some(name) = parts.next() else {
            return Err("the address names no dataset; addresses look like \
                        https://<host>/datasets/<name>?version=N"
                .to_owned());
        };
        let asked = query.split('&').find_map(|pair| pair.strip_prefix("version="));
        let in_path = parts.next().filter(|part| *part == "versions").and_then(|_| parts.next());
        let version = asked.or(in_path).map(number).transpose()?;
        let base = target::Target::parse(text).ok().and_then(|target| target.base().cloned());
        Ok(Self { name: named(name)?, version, base })
    }
}

/// A dataset with all its versions: a name, or an address of a viewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) name: DatasetName,
    /// The server of an address.
    pub(super) base: Option<BaseUrl>,
}

impl FromStr for Whole {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Reference { name, version, base } = text.parse()?;
        match version {
            None => Ok(Self { name, base }),
            Some(version) => Err(format!("this is about all of {name}: leave version {version} out")),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} is no version; versions are numbers from 1 on"))
}

/// Reads the name of a dataset.
pub(crate) fn named(text: &str) -> Result<DatasetName, String> {
    DatasetName::new(text).map_err(|error| {
        format!(
            "{:?} is no name of a dataset: letters, digits, `-`, `_` and inner `.`, at most 128 characters",
            error.text
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_versions_and_addresses() {
        let told = |text: &str| match text.parse::<Reference>() {
            Ok(Reference { name, version: Some(version), .. }) => format!("{name} {version}"),
            Ok(Reference { name, version: None, .. }) => name.to_string(),
            Err(error) => error,
        };
        for (text, expected) in [
            ("holdout", "holdout"),
            ("holdout-1@12", "holdout-1 12"),
            ("https://viewer.example/datasets/holdout", "holdout"),
            ("http://127.0.0.1:3000/base/datasets/holdout?version=3#items", "holdout 3"),
            ("HTTPS://me:pw@viewer.example/datasets/a.b/items?x=1&version=2", "a.b 2"),
            ("https://viewer.example/datasets/holdout/versions/4", "holdout 4"),
            ("a@0", r#""0" is no version; versions are numbers from 1 on"#),
            ("a@", r#""" is no version; versions are numbers from 1 on"#),
            ("https://h/datasets/a?version=x", r#""x" is no version; versions are numbers from 1 on"#),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
        let whole = |text: &str| text.parse::<Whole>().map(|whole| whole.name.to_string());
        assert_eq!(whole("https://viewer.example/datasets/holdout").as_deref(), Ok("holdout"));
        assert_eq!(whole("holdout").as_deref(), Ok("holdout"));
        assert!(whole("holdout@2").is_err() && whole("https://h/datasets/a?version=2").is_err());
        for text in
            ["", "a b", "../a", "https://h/runs/3fa9", "https://datasets/a", "https://h/datasets/", "é"]
        {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
