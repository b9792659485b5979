//! Numbers, amounts and times as people read them.

use jiff::Timestamp;

/// A number with its thousands apart.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with its noun: `1 run`, `2 runs`.
pub(crate) fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A size.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A number of tokens, shortened.
pub(crate) fn tokens(n: u64) -> String {
    if n < 10_000 {
        count(n)
    } else if n < 1_000_000 {
        format!("{:.1}k", n as f64 / 1e3)
    } else {
        format!("{:.1}M", n as f64 / 1e6)
    }
}

/// An amount in US dollars: `-` when unknown, a `+` behind it when something could not be priced.
pub(crate) fn usd(amount: Option<f64>, incomplete: bool) -> String {
    match amount {
        None => "-".to_owned(),
        Some(amount) => {
            let digits = if amount != 0.0 && amount.abs() < 0.01 { 4 } else { 2 };
            format!("${amount:.digits$}{}", if incomplete { "+" } else { "" })
        }
    }
}

/// `hits/all`; `-` without any.
pub(crate) fn rate(hits: u64, all: u64) -> String {
    if all == 0 { "-".to_owned() } else { format!("{hits}/{all}") }
}

/// A duration of milliseconds.
pub(crate) fn duration(ms: i64) -> String {
    let (sign, ms) = if ms < 0 { ("-", ms.unsigned_abs()) } else { ("", ms.unsigned_abs()) };
    let seconds = ms / 1000;
    if ms < 10_000 {
        format!("{sign}{:.1}s", ms as f64 / 1000.0)
    } else if seconds < 60 {
        format!("{sign}{seconds}s")
    } else if seconds < 3600 {
        format!("{sign}{}m {:02}s", seconds / 60, seconds % 60)
    } else if seconds < 86_400 {
        format!("{sign}{}h {:02}m", seconds / 3600, seconds % 3600 / 60)
    } else {
        format!("{sign}{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3600)
    }
}

/// How long ago a time was: `3h`; the text itself when it is no time.
pub(crate) fn age(time: &str, now: Timestamp) -> String {
    let Ok(time_then) = time.parse::<Timestamp>() else {
        return super::neutral(time).into_owned();
    };
    let seconds = now.duration_since(time_then).as_secs();
    match seconds {
        ..0 => "in future".to_owned(),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        86_400..5_184_000 => format!("{}d", seconds / 86_400),
        5_184_000..63_072_000 => format!("{}mo", seconds / 2_592_000),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "run", "runs"), "1 run");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(999_960), "1.0 MB");
        assert_eq!(bytes(60_000_000), "60.0 MB");
        assert_eq!(tokens(12_345), "12.3k");
        assert_eq!(usd(None, true), "-");
        assert_eq!(usd(Some(0.0042), true), "$0.0042+");
        assert_eq!(usd(Some(12.5), false), "$12.50");
        assert_eq!(rate(3, 0), "-");
        assert_eq!(duration(1_500), "1.5s");
        assert_eq!(duration(3_725_000), "1h 02m");
    }

    #[test]
    fn ages_read_well() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        assert_eq!(age("2026-11-30T11:59:30Z", now), "30s");
        assert_eq!(age("2026-11-30T09:00:00Z", now), "3h");
        assert_eq!(age("2026-11-20T12:00:00+00:00", now), "10d");
        assert_eq!(age("2026-06-30T12:00:00Z", now), "5mo");
        assert_eq!(age("2026-12-30T12:00:00Z", now), "in future");
        assert_eq!(age("yesterday\x1b", now), "yesterday\\x1b");
    }
}
