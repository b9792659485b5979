//! The few cookies of the pages: who is signed in, light or dark, what to say once.

use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::header::COOKIE;

/// A cookie by its name. Of several the first counts, which is the most specific one.
pub(super) fn get<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// A `Set-Cookie` that scripts do not see and other sites do not send along with what writes. `value` is of letters,
/// digits, `-`, `_`, `.` and `%` only. Without `max_age_seconds` it goes with the browser.
pub(super) fn set(name: &str, value: &str, max_age_seconds: Option<u64>, secure: bool) -> HeaderValue {
    let age = max_age_seconds.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{age}{secure}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_by_their_whole_names() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("xct_a=0; ct_ab=1;ct_a=2; ct_a=3"));
        headers.append(COOKIE, HeaderValue::from_static("ct_b="));
        assert_eq!(get(&headers, "ct_a"), Some("2"));
        assert_eq!(get(&headers, "ct_b"), Some(""));
        assert_eq!(get(&headers, "ct_c"), None);
    }
}
