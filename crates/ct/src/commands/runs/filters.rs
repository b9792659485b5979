//! Values of filter options: words of a closed set, and times.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};

/// The words for an outcome.
pub(crate) const OUTCOMES: &[&str] = &["pass", "fail", "unscored"];

/// Parses one of `words`, which help and completions list, into a type that knows them.
pub(crate) fn choice<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr + Clone + Send + Sync + 'static,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}

/// Reads a limit.
pub(crate) fn at_least_one(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "expected a number from 1 on".to_owned())
}

/// A bound in time, absolute or an age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A point in time.
    At(Timestamp),
    /// So long ago.
    Ago(SignedDuration),
}

impl Bound {
    /// The point in time, seen from `now`.
    pub(crate) fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(age) => now.checked_sub(age).unwrap_or(Timestamp::MIN),
        }
    }
}

/// Reads a lower bound; a date is its beginning.
pub(crate) fn since(text: &str) -> Result<Bound, String> {
    bound(text, Some)
}

/// Reads an upper bound; a date is its end.
pub(crate) fn until(text: &str) -> Result<Bound, String> {
    bound(text, |date| date.tomorrow().ok())
}

fn bound(text: &str, of_date: impl Fn(Date) -> Option<Date>) -> Result<Bound, String> {
    let unclear =
        || "expected a date (2026-11-30), a time (2026-11-30T12:00:00Z) or an age (90m, 12h, 7d)".to_owned();
    if let Some(age) = age(text) {
        return Ok(Bound::Ago(age));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Bound::At(time));
    }
    // A date with a time but without a zone also reads as a date: refuse it rather than drop the time.
    if text.len() != "2026-11-30".len() {
        return Err(unclear());
    }
    let date = text.parse::<Date>().ok().and_then(of_date).ok_or_else(unclear)?;
    let midnight = date.to_zoned_datetime(TimeZone::UTC).map_err(|_| unclear())?;
    Ok(Bound::At(midnight.timestamp()))
}

/// Reads an age: a number and one of `m`, `h`, `d`, `w`.
pub(crate) fn age(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().next_back()?;
    let minutes: i64 = match unit {
        'm' => 1,
        'h' => 60,
        'd' => 24 * 60,
        'w' => 7 * 24 * 60,
        _ => return None,
    };
    let number = &text[..text.len() - unit.len_utf8()];
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let seconds = number.parse::<i64>().ok()?.checked_mul(minutes)?.checked_mul(60)?;
    // More than any calendar holds would overflow later on.
    (seconds <= 10_000 * 366 * 86_400).then(|| SignedDuration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_in_time() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let since = |text: &str| since(text).map(|bound| bound.at(now).to_string());
        let until = |text: &str| until(text).map(|bound| bound.at(now).to_string());
        assert_eq!(since("2026-11-29").unwrap(), "2026-11-29T00:00:00Z");
        assert_eq!(until("2026-11-29").unwrap(), "2026-11-30T00:00:00Z");
        assert_eq!(since("2026-11-29T05:00:00+01:00").unwrap(), "2026-11-29T04:00:00Z");
        assert_eq!(since("36h").unwrap(), "2026-11-29T00:00:00Z");
        assert_eq!(since("1w").unwrap(), "2026-11-23T12:00:00Z");
        for text in [
            "",
            "d",
            "7",
            "7y",
            "-7d",
            "2026-13-01",
            "2026-11-29T05:00:00",
            "99999999999999999999d",
            "é",
            "7é",
        ] {
            assert!(since(text).is_err(), "{text}");
        }
        assert!(since("9999999d").is_err());
    }
}
