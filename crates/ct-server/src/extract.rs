//! What handlers take from a request, with errors in the envelope of the contract.

use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use ct_model::list_values;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use tokio::time::timeout;

use crate::app::App;
use crate::auth;
use crate::body::drain;
use crate::error::ApiError;
use crate::limits;

/// A JSON body, whatever its `content-type` says.
pub(crate) struct Body<T>(pub(crate) T);

/// The parts of the path that name something. What cannot be a name names nothing.
pub(crate) struct Path<T>(pub(crate) T);

/// The query, each field a parameter.
pub(crate) struct Params<T>(pub(crate) T);

/// The query of an address whose parameters can be repeated, or hold several values between commas. Names that nobody
/// takes are ignored, as other servers of the protocol do, and lists say so.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    pairs: Vec<(String, String)>,
}

impl Filters {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        Self { pairs: pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect() }
    }

    pub(crate) fn from_pairs(pairs: Vec<(String, String)>) -> Self {
        Self { pairs }
    }

    pub(crate) fn into_pairs(self) -> Vec<(String, String)> {
        self.pairs
    }

    /// Whether there is a value that is not empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(key, value)| key == name && !value.is_empty())
    }

    /// A text; the last one when there are several. An empty one counts as none.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.take(name).pop()
    }

    /// Texts, from repeated parameters and between commas. A comma within one is written `\,`.
    pub(crate) fn texts(&mut self, name: &str) -> Vec<String> {
        self.take(name).iter().flat_map(|value| list_values(value)).collect()
    }

    /// Something that is written as one word, such as a number or a time.
    pub(crate) fn value<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        self.text(name).map(|text| parsed(name, &text)).transpose()
    }

    /// A time, or a day, which is its beginning in UTC.
    pub(crate) fn time(&mut self, name: &str) -> Result<Option<Timestamp>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let is_day = text.len() == 10;
        let time = if is_day { format!("{text}T00:00:00Z") } else { text };
        parsed(name, &time).map(Some)
    }

    /// As [`Self::texts`], of words.
    pub(crate) fn values<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Vec<T>, ApiError> {
        self.texts(name).iter().map(|text| parsed(name, text)).collect()
    }

    /// `true` or `false`, `1` or `0`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.text(name).as_deref().map(str::to_ascii_lowercase).as_deref() {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(other) => Err(refused(name, other, "it is true or false")),
        }
    }

    /// Says which parameters were not taken, those of [`crate::paging::Paging`] aside.
    pub(crate) fn ignored(self) -> Vec<String> {
        let paging = ["page", "page_size", "limit", "cursor"];
        let mut names: Vec<String> = self
            .pairs
            .into_iter()
            .filter(|(name, _)| !paging.contains(&name.as_str()))
            .map(|(name, _)| shown(&name))
            .collect();
        names.sort();
        names.dedup();
        names.iter().map(|name| format!("there is no parameter {name} here: it was ignored")).collect()
    }

    fn take(&mut self, name: &str) -> Vec<String> {
        let (taken, left) = std::mem::take(&mut self.pairs).into_iter().partition(|(key, _)| key == name);
        self.pairs = left;
        let taken: Vec<(String, String)> = taken;
        taken.into_iter().map(|(_, value)| value).filter(|value| !value.is_empty()).collect()
    }
}

fn parsed<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|error: T::Err| refused(name, text, &error.to_string()))
}

fn refused(name: &str, text: &str, why: &str) -> ApiError {
    ApiError::invalid(format!("the parameter {name} cannot be {}: {why}", shown(text)))
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}

impl FromRequestParts<App> for Filters {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

/// Where a request comes from, for the record.
pub(crate) struct Origin(pub(crate) String);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let bytes = whole(request.into_body(), |_| ()).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            ApiError::invalid(match error.classify() {
                Category::Data => format!("the body makes no sense: {error}"),
                _ => format!("the body is not JSON: {error}"),
            })
        })
    }
}

/// The bytes of a body that is not too large. Of one that is, the rest is taken as well, so that its sender gets to read
/// the answer. `arrived` is told how many bytes come.
pub(crate) async fn whole(
    mut body: axum::body::Body,
    mut arrived: impl FnMut(usize),
) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    loop {
        match timeout(limits::BODY_IDLE_TIMEOUT, body.frame()).await {
            Ok(None) => return Ok(bytes),
            Ok(Some(Ok(frame))) => {
                let data = frame.data_ref().map_or(&[][..], |data| data);
                arrived(data.len());
                bytes.extend_from_slice(data);
            }
            Ok(Some(Err(_))) | Err(_) => return Err(ApiError::invalid("the body did not arrive whole")),
        }
        if bytes.len() > limits::JSON_BYTES_MAX {
            drain(body).await;
            let sentence = format!("the body has more than {} bytes", limits::JSON_BYTES_MAX);
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, sentence));
        }
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, app).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(_) => Err(ApiError::not_found("there is nothing of such a name")),
        }
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(QueryRejection::FailedToDeserializeQueryString(error)) => {
                Err(ApiError::invalid(format!("the query makes no sense: {}", last_cause(&error))))
            }
            Err(_) => Err(ApiError::invalid("the query makes no sense")),
        }
    }
}

impl FromRequestParts<App> for Origin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        Ok(Self(auth::origin(parts)))
    }
}

/// The sentence that says what is wrong; those around it say where that was noticed.
fn last_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_repeated_or_listed_and_what_is_left_is_told() {
        let mut tags = Filters::parse("tag=a%5C,b,c&tag=d%5Ce");
        assert_eq!(tags.texts("tag"), ["a,b", "c", "d\\e"]);
        let mut params =
            Filters::parse("a=1%2C2&a=3&a=&b=&c=x+y&flag=TRUE&n=7&n=8&odd%0A=1&odd%0A=2&bad=x&no=maybe");
        assert_eq!(params.texts("a"), ["1", "2", "3"]);
        assert_eq!(params.text("b"), None);
        assert_eq!(params.text("c").as_deref(), Some("x y"));
        assert_eq!(params.flag("flag").unwrap(), Some(true));
        assert_eq!(params.value::<u64>("n").unwrap(), Some(8));
        assert_eq!(params.value::<u64>("absent").unwrap(), None);
        assert!(params.value::<u64>("bad").is_err() && params.flag("no").is_err());
        let mut days = Filters::parse("a=2026-11-30&b=2026-11-30T01:00:00Z&c=2026-13-30");
        assert_eq!(days.time("a").unwrap(), Some("2026-11-30T00:00:00Z".parse().unwrap()));
        assert_eq!(days.time("b").unwrap(), Some("2026-11-30T01:00:00Z".parse().unwrap()));
        assert!(days.time("c").is_err());
        assert_eq!(params.ignored(), [r#"there is no parameter "odd\n" here: it was ignored"#]);
    }
}
