//! Tolerant looks into parsed JSON. Some writers box each scalar into a list of one and write `[]` for `{}`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

/// The only element of a list of one, else the value itself.
pub(super) fn unbox(value: &Value) -> &Value {
    match value {
        Value::Array(items) if items.len() == 1 => &items[0],
        _ => value,
    }
}

/// A member that is there and not null.
pub(super) fn get<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|value| !unbox(value).is_null())
}

/// A string that is not empty.
pub(super) fn text(value: &Value) -> Option<&str> {
    unbox(value).as_str().filter(|text| !text.is_empty())
}

/// A member that is a string and not empty.
pub(super) fn get_text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(text)
}

/// An object.
pub(super) fn object(value: &Value) -> Option<&Map<String, Value>> {
    unbox(value).as_object()
}

/// A member that is an object.
pub(super) fn get_object<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    map.get(key).and_then(object)
}

/// A finite number.
pub(super) fn number(value: &Value) -> Option<f64> {
    unbox(value).as_f64().filter(|n| n.is_finite())
}

/// The strings of a list, or a single string.
pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(text).map(str::to_owned).collect(),
        _ => text(value).map(str::to_owned).into_iter().collect(),
    }
}

/// What a selection names: a string itself, or an object's `name`, `registry_name` or `id`.
pub(super) fn named(value: &Value) -> Option<&str> {
    match unbox(value) {
        Value::Object(map) => ["name", "registry_name", "id"].into_iter().find_map(|key| get_text(map, key)),
        other => text(other),
    }
}

/// The type of a serialised object, by the keys that serialisers use for it, else its name.
pub(super) fn type_name(value: &Value) -> Option<&str> {
    match unbox(value) {
        Value::Object(map) => ["type", "_type", "__type__", "type_name", "class", "class_name", "__class__"]
            .into_iter()
            .find_map(|key| get_text(map, key))
            .or_else(|| named(value)),
        other => text(other),
    }
}

/// A score's value as a number, as Inspect turns values into numbers; `N` and what says nothing is `None`.
pub(super) fn score_number(value: &Value) -> Option<f64> {
    match unbox(value) {
        Value::Bool(true) => Some(1.0),
        Value::Bool(false) => Some(0.0),
        Value::Number(n) => n.as_f64().filter(|n| n.is_finite()),
        Value::String(text) => match text.trim() {
            "C" => Some(1.0),
            "P" => Some(0.5),
            "I" => Some(0.0),
            "N" => None,
            other => match other.to_ascii_lowercase().as_str() {
                "yes" | "true" => Some(1.0),
                "no" | "false" => Some(0.0),
                other => other.parse().ok().filter(|n: &f64| n.is_finite()),
            },
        },
        _ => None,
    }
}

/// Milliseconds since the Unix epoch of an ISO 8601 text; without an offset it is taken as UTC.
pub(crate) fn time_ms(text: &str) -> Option<i64> {
    if let Some(ms) = usual_time_ms(text.as_bytes()) {
        return Some(ms);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.as_millisecond());
    }
    let local: DateTime = text.parse().ok()?;
    Some(TimeZone::UTC.to_timestamp(local).ok()?.as_millisecond())
}

/// The quick way for what Inspect writes: `2026-10-01T12:00:00`, then perhaps a fraction, then `+00:00`, `Z` or nothing.
fn usual_time_ms(text: &[u8]) -> Option<i64> {
    let text = text.strip_suffix(b"+00:00").or(text.strip_suffix(b"Z")).unwrap_or(text);
    let (time, fraction) = text.split_first_chunk::<19>()?;
    let digits = |range: std::ops::Range<usize>| {
        time[range]
            .iter()
            .try_fold(0_i16, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i16::from(b - b'0')))
    };
    let small = |range| digits(range).map(|n| n as i8);
    if [time[4], time[7], time[10], time[13], time[16]] != *b"--T::" {
        return None;
    }
    let nanoseconds = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=9).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) => {
            let value = digits.iter().fold(0_i32, |sum, digit| sum * 10 + i32::from(digit - b'0'));
            value * 10_i32.pow(9 - digits.len() as u32)
        }
        _ => return None,
    };
    let (hour, minute, second) = (small(11..13)?, small(14..16)?, small(17..19)?);
    let time = DateTime::new(digits(0..4)?, small(5..7)?, small(8..10)?, hour, minute, second, nanoseconds);
    Some(TimeZone::UTC.to_timestamp(time.ok()?).ok()?.as_millisecond())
}

/// A time as Inspect normalises it before hashing: UTC, seconds, `+00:00`.
pub(super) fn time_utc_text(text: &str) -> Option<String> {
    let time: Timestamp = match text.parse() {
        Ok(time) => time,
        Err(_) => TimeZone::UTC.to_timestamp(text.parse().ok()?).ok()?,
    };
    let written = time.to_string();
    Some(written.strip_suffix('Z').map_or_else(|| written.clone(), |utc| format!("{utc}+00:00")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn score_values_become_numbers() {
        for (value, expected) in [
            (json!("C"), Some(1.0)),
            (json!("P"), Some(0.5)),
            (json!("I"), Some(0.0)),
            (json!("N"), None),
            (json!(true), Some(1.0)),
            (json!(false), Some(0.0)),
            (json!(3), Some(3.0)),
            (json!("0.25"), Some(0.25)),
            (json!("Yes"), Some(1.0)),
            (json!("no"), Some(0.0)),
            (json!("nan"), None),
            (json!("maybe"), None),
            (json!(null), None),
            (json!(["C"]), Some(1.0)),
            (json!(["C", "I"]), None),
            (json!({"value": 1}), None),
        ] {
            assert_eq!(score_number(&value), expected, "{value}");
        }
    }

    #[test]
    fn times_of_all_spellings() {
        for (text, ms) in [
            ("2026-10-01T12:00:00.000000Z", Some(1_790_856_000_000)),
            ("2026-10-01T12:00:00+00:00", Some(1_790_856_000_000)),
            ("2026-10-01T07:00:00.25-05:00", Some(1_790_856_000_250)),
            ("2026-10-01T12:00:00", Some(1_790_856_000_000)),
            ("2026-10-01 12:00:00", Some(1_790_856_000_000)),
            ("2026-10-01T12:00:00.123456789+00:00", Some(1_790_856_000_123)),
            ("2026-10-01T12:00:00.1Z", Some(1_790_856_000_100)),
            ("2026-10-01T12:00:60Z", Some(1_790_855_999_000 + 60_000)),
            ("1969-12-31T23:59:59.9995Z", Some(0)),
            ("2026-10-01T12:00:00.", None),
            ("2026-13-01T12:00:00Z", None),
            ("2026-02-29T12:00:00Z", None),
            ("2026-10-01T1a:00:00Z", None),
            ("", None),
            ("yesterday", None),
            ("9999999-10-01T12:00:00Z", None),
        ] {
            assert_eq!(time_ms(text), ms, "{text}");
        }
        assert_eq!(time_utc_text("2024-03-04T10:20:30-05:00").as_deref(), Some("2024-03-04T15:20:30+00:00"));
    }
}
