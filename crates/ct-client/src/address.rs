//! Addresses of servers, and which of them are the same one.

use std::fmt;

use url::{Host, Url};

use crate::ClientError;

/// Where a server's pages and its `/api` begin: `https://host[:port][/path]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// Reads an address. Whatever stands behind the path is dropped, and so are a user name and a password, which belong
    /// in no address; an address without a scheme is `https`, that of a loopback name `http`.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let text = text.trim();
        let wrong = |problem: &str| ClientError::Address { url: shown(text), problem: problem.to_owned() };
        let with_scheme = if text.contains("://") {
            text.to_owned()
        } else {
            let host = text.split(['/', ':']).next().unwrap_or_default();
            let loopback = host.eq_ignore_ascii_case("localhost") || host.starts_with("127.");
            format!("{}://{text}", if loopback { "http" } else { "https" })
        };
        let mut url = Url::parse(&with_scheme).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it is neither http nor https"));
        }
        if url.host().is_none() {
            return Err(wrong("it names no host"));
        }
        url.set_query(None);
        url.set_fragment(None);
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The address of a path below this one; each part is escaped.
    pub fn join(&self, parts: &[&str]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(parts);
        }
        url
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> Origin {
        Origin::of(&self.0)
    }

    /// Whether what is sent to it can be read on the way.
    pub fn is_plain(&self) -> bool {
        self.0.scheme() == "http" && self.origin().host != LOOPBACK
    }

    /// As text, without a `/` at the end.
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An address as it may be shown: without user name, password and query, which may be secrets.
pub(crate) fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
            let host = host.rsplit('@').next().unwrap_or_default();
            match path {
                Some(path) => format!("{scheme}://{host}/{path}"),
                None => format!("{scheme}://{host}"),
            }
        }
        None => text.to_owned(),
    }
}

const LOOPBACK: &str = "localhost";

/// Who a token may be sent to: scheme, host and port. The names of this machine's loopback count as one host; shown is
/// the one that was given.
#[derive(Debug, Clone)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
    given_host: String,
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        (&self.scheme, &self.host, self.port) == (&other.scheme, &other.host, other.port)
    }
}

impl Eq for Origin {}

impl Origin {
    /// That of an address.
    pub fn of(url: &Url) -> Self {
        let loopback = match url.host() {
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                name == LOOPBACK || name.ends_with(".localhost")
            }
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => {
                ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
            }
            None => false,
        };
        let given = url.host_str().unwrap_or_default().trim_end_matches('.');
        Self {
            scheme: url.scheme().to_owned(),
            host: if loopback { LOOPBACK } else { given }.to_owned(),
            port: url.port_or_known_default().unwrap_or_default(),
            given_host: given.to_owned(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = matches!((self.scheme.as_str(), self.port), ("http", 80) | ("https", 443));
        let host = &self.given_host;
        if usual {
            write!(f, "{}://{host}", self.scheme)
        } else {
            write!(f, "{}://{host}:{}", self.scheme, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_cut_to_what_matters() {
        let cases = [
            ("https://viewer.example", "https://viewer.example"),
            ("https://viewer.example/", "https://viewer.example"),
            (" https://me:secret@Viewer.example:443/base/?a=b#c ", "https://viewer.example/base"),
            ("viewer.example", "https://viewer.example"),
            ("localhost:3000", "http://localhost:3000"),
            ("127.0.0.1:3000/x/", "http://127.0.0.1:3000/x"),
        ];
        for (text, expected) in cases {
            assert_eq!(BaseUrl::parse(text).unwrap().as_str(), expected);
        }
        for text in ["", "ftp://x", "https://", "http:///x y"] {
            assert!(matches!(BaseUrl::parse(text), Err(ClientError::Address { .. })), "{text}");
        }
        let joined = BaseUrl::parse("https://v.example/base").unwrap().join(&["api", "runs", "a/b?c"]);
        assert_eq!(joined.as_str(), "https://v.example/base/api/runs/a%2Fb%3Fc");
    }

    #[test]
    fn loopback_names_are_one_host_and_nothing_else_is() {
        let origin = |text: &str| BaseUrl::parse(text).unwrap().origin();
        for same in
            ["http://127.0.0.1:3000", "http://[::1]:3000/x", "http://LOCALHOST:3000", "http://127.8.8.8:3000"]
        {
            assert_eq!(origin(same), origin("http://localhost:3000"), "{same}");
        }
        for other in [
            "http://localhost:3001",
            "https://localhost:3000",
            "http://localhost.example:3000",
            "http://10.0.0.1:3000",
            "http://127.0.0.1.example:3000",
        ] {
            assert_ne!(origin(other), origin("http://localhost:3000"), "{other}");
        }
        let shown = [
            ("https://v.example:443/a", "https://v.example"),
            ("http://127.0.0.1:3000/x", "http://127.0.0.1:3000"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("http://localhost", "http://localhost"),
        ];
        for (given, expected) in shown {
            assert_eq!(origin(given).to_string(), expected);
        }
        assert_ne!(origin("https://v.example"), origin("https://v.example:8443"));
    }

    #[test]
    fn no_secret_is_shown() {
        assert_eq!(shown("https://me:pw@h.example/a?signature=s#f"), "https://h.example/a");
        assert_eq!(shown("https://me:pw@h.example?x=y"), "https://h.example");
    }
}
