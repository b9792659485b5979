//! Names of models, and where their providers are reached.

use std::fmt;
use std::str::FromStr;

use genai::adapter::AdapterKind;

use super::{ModelError, Variables};

/// `provider/model`; of `openai-api/service/model` the provider is `openai-api/service`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    provider: String,
    model: String,
}

/// The provider whose service and address are the user's: any that speaks OpenAI's protocol.
const OPENAI_API: &str = "openai-api";

impl ModelName {
    /// The provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The provider's name of the model; for `mock`, the script.
    pub fn model(&self) -> &str {
        &self.model
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

impl FromStr for ModelName {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        let wrong = || ModelError::Name { name: name.to_owned() };
        let (provider, model) = name.trim().split_once('/').ok_or_else(wrong)?;
        let (provider, model) = match provider {
            OPENAI_API => {
                let (service, model) = model.split_once('/').ok_or_else(wrong)?;
                (format!("{OPENAI_API}/{service}"), model)
            }
            _ => (provider.to_owned(), model),
        };
        if provider.is_empty() || provider.ends_with('/') || model.is_empty() {
            return Err(wrong());
        }
        Ok(Self { provider, model: model.to_owned() })
    }
}

/// Where and how a model is asked.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) adapter: AdapterKind,
    /// Ends with a slash.
    pub(super) base_url: String,
    /// Whether the address is not the provider's own.
    pub(super) other: bool,
    pub(super) key: String,
}

/// What is known of a provider.
struct Known {
    name: &'static str,
    variables: &'static str,
    base_url: &'static str,
    adapter: AdapterKind,
    /// Local ones need no key.
    key: bool,
}

const KNOWN: &[Known] = &[
    Known {
        name: "anthropic",
        variables: "ANTHROPIC",
        base_url: "https://api.anthropic.com/v1/",
        adapter: AdapterKind::Anthropic,
        key: true,
    },
    Known {
        name: "openai",
        variables: "OPENAI",
        base_url: "https://api.openai.com/v1/",
        adapter: AdapterKind::OpenAI,
        key: true,
    },
    Known {
        name: "openrouter",
        variables: "OPENROUTER",
        base_url: "https://openrouter.ai/api/v1/",
        adapter: AdapterKind::OpenAI,
        key: true,
    },
    Known {
        name: "google",
        variables: "GOOGLE",
        base_url: "https://generativelanguage.googleapis.com/v1beta/",
        adapter: AdapterKind::Gemini,
        key: true,
    },
    Known {
        name: "ollama",
        variables: "OLLAMA",
        base_url: "http://localhost:11434/v1/",
        adapter: AdapterKind::OpenAI,
        key: false,
    },
];

impl Place {
    pub(super) fn of(name: &ModelName, variables: Variables<'_>) -> Result<Self, ModelError> {
        let model = || name.to_string();
        let (prefix, known) = match name.provider.split_once('/') {
            Some((_, service)) => (service.to_ascii_uppercase().replace(['-', '.'], "_"), None),
            None => {
                let known = KNOWN.iter().find(|known| known.name == name.provider);
                let known = known.ok_or_else(|| ModelError::Provider { provider: name.provider.clone() })?;
                (known.variables.to_owned(), Some(known))
            }
        };
        let variable = format!("{prefix}_BASE_URL");
        let given = variables(&variable);
        let bad = |problem| ModelError::BaseUrl { model: model(), variable: variable.clone(), problem };
        let base_url = match (&given, known) {
            (Some(url), _) => {
                let mut url = url.trim().trim_end_matches('/').to_owned();
                if !url.starts_with("http://") && !url.starts_with("https://") {
                    return Err(bad("is no http or https address"));
                }
                // By custom this one is given without the version.
                if known.is_some_and(|known| known.name == "anthropic") && !url.ends_with("/v1") {
                    url.push_str("/v1");
                }
                url.push('/');
                url
            }
            (None, Some(known)) => known.base_url.to_owned(),
            (None, None) => return Err(bad("is not set")),
        };
        let variable = format!("{prefix}_API_KEY");
        let key = match (variables(&variable), known) {
            (Some(key), _) => key.trim().to_owned(),
            (None, Some(known)) if !known.key => "none".to_owned(),
            _ => return Err(ModelError::NoKey { model: model(), variable }),
        };
        let adapter = known.map_or(AdapterKind::OpenAI, |known| known.adapter);
        let variable = format!("{prefix}_PROTOCOL");
        let adapter = match (adapter, variables(&variable).as_deref().map(str::trim)) {
            (AdapterKind::OpenAI, Some("responses")) => AdapterKind::OpenAIResp,
            (AdapterKind::OpenAI, Some("chat")) => AdapterKind::OpenAI,
            (AdapterKind::OpenAI, Some(_)) => return Err(ModelError::Protocol { model: model(), variable }),
            // OpenAI's own newer models answer at another path, some of them only there.
            (AdapterKind::OpenAI, None)
                if given.is_none() && known.is_some_and(|known| known.name == "openai") =>
            {
                match AdapterKind::from_model(&name.model) {
                    Ok(AdapterKind::OpenAIResp) => AdapterKind::OpenAIResp,
                    _ => AdapterKind::OpenAI,
                }
            }
            (adapter, _) => adapter,
        };
        Ok(Self { adapter, base_url, other: given.is_some(), key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_provider() {
        let of = |text: &str| text.parse::<ModelName>().map(|name| (name.provider, name.model)).ok();
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(of("anthropic/claude-x"), pair("anthropic", "claude-x"));
        assert_eq!(of("openrouter/a/b:free"), pair("openrouter", "a/b:free"));
        assert_eq!(of("openai-api/my-lab/m/1"), pair("openai-api/my-lab", "m/1"));
        assert_eq!(of("mock/turns.json"), pair("mock", "turns.json"));
        for bad in ["", "claude", "/x", "openai/", "openai-api/x", "openai-api//m", "openai-api/x/"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    fn place(name: &str, variables: &[(&str, &str)]) -> Result<Place, ModelError> {
        let found =
            |asked: &str| variables.iter().find(|(name, _)| *name == asked).map(|(_, v)| (*v).to_owned());
        Place::of(&name.parse().unwrap(), &found)
    }

    #[test]
    fn addresses_and_keys_come_from_variables() {
        let anthropic = place(
            "anthropic/c",
            &[("ANTHROPIC_API_KEY", " k \n"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/")],
        )
        .unwrap();
        assert_eq!((anthropic.base_url.as_str(), anthropic.key.as_str()), ("http://127.0.0.1:1/v1/", "k"));
        let lab = [("MY_LAB_API_KEY", "k"), ("MY_LAB_BASE_URL", "https://lab/v1")];
        assert_eq!(place("openai-api/my-lab/m", &lab).unwrap().base_url, "https://lab/v1/");
        assert_eq!(place("ollama/llama", &[]).unwrap().base_url, "http://localhost:11434/v1/");
        let openai = place("openai/gpt-4o", &[("OPENAI_API_KEY", "k")]).unwrap();
        assert!(!openai.other && openai.adapter == AdapterKind::OpenAI);
    }

    #[test]
    fn openai_has_two_protocols() {
        let of = |name: &str, more: &[(&str, &str)]| {
            let keys = [("OPENAI_API_KEY", "k"), ("LAB_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")];
            place(name, &[&keys, more].concat()).map(|place| place.adapter).map_err(|error| error.to_string())
        };
        let (chat, responses) = (Ok(AdapterKind::OpenAI), Ok(AdapterKind::OpenAIResp));
        assert_eq!(of("openai/gpt-4o", &[]), chat);
        assert_eq!(of("openai/gpt-5", &[]), responses);
        assert_eq!(of("openai/gpt-5", &[("OPENAI_PROTOCOL", "chat")]), chat);
        // Others that speak the protocol speak the older one.
        let lab = ("OPENAI_BASE_URL", "https://lab/v1");
        assert_eq!(of("openai/gpt-5", &[lab]), chat);
        assert_eq!(of("openai/gpt-5", &[lab, ("OPENAI_PROTOCOL", "responses\n")]), responses);
        let lab = [("LAB_BASE_URL", "https://lab/v1"), ("LAB_PROTOCOL", "responses")];
        assert_eq!(of("openai-api/lab/m", &lab), responses);
        assert_eq!(of("anthropic/m", &[("ANTHROPIC_PROTOCOL", "x")]), Ok(AdapterKind::Anthropic));
        assert_eq!(
            of("openai/m", &[("OPENAI_PROTOCOL", "soap")]),
            Err("model openai/m cannot be asked: OPENAI_PROTOCOL is neither chat nor responses".to_owned())
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let says = |name: &str, variables: &[(&str, &str)]| place(name, variables).unwrap_err().to_string();
        assert_eq!(says("openai/m", &[]), "model openai/m needs a key: OPENAI_API_KEY is not set");
        assert_eq!(says("nobody/m", &[]), "no provider is called \"nobody\"");
        assert_eq!(
            says("openai-api/x/m", &[("X_API_KEY", "k")]),
            "model openai-api/x/m needs an address: X_BASE_URL is not set"
        );
        assert_eq!(
            says("openai/m", &[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "ftp://x")]),
            "model openai/m needs an address: OPENAI_BASE_URL is no http or https address"
        );
    }
}
