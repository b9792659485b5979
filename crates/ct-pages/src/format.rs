//! Numbers, amounts and times as people read them.

use jiff::Timestamp;
use maud::{Markup, html};

/// A whole number with its thousands apart: `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with as many digits as say something: `0.0421`, `3.14`, `120`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let magnitude = value.abs();
    let decimals = match magnitude {
        _ if value == value.trunc() && magnitude < 1e15 => 0,
        1000.0.. => 0,
        100.0.. => 1,
        1.0.. => 2,
        0.01.. => 3,
        0.0001.. => 5,
        _ => return format!("{value:.1e}"),
    };
    format!("{value:.decimals$}")
}

/// A share as `42 %`, whole, but never 0 or 100 when it is not.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 {
        "<1%".to_owned()
    } else if percent > 99.0 && percent < 100.0 {
        ">99%".to_owned()
    } else {
        format!("{percent:.0}%")
    }
}

/// US dollars: `$12.30`, `$0.0042`.
pub fn usd(amount: f64) -> String {
    match amount.abs() {
        0.0 => "$0".to_owned(),
        1000.0.. => format!("${}", count(amount.round().max(0.0) as u64)),
        0.1.. => format!("${amount:.2}"),
        0.0001.. => format!("${amount:.4}"),
        _ => "<$0.0001".to_owned(),
    }
}

/// How long something took: `850 ms`, `12.4 s`, `3 m 20 s`, `2 h 5 m`.
pub fn duration_ms(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{}.{} s", seconds, milliseconds % 1000 / 100),
        60..3600 => format!("{} m {} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// A size: `512 B`, `1.5 MB`; in thousands, as disks are sold.
pub fn bytes(size: u64) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if size < 1000 {
        return format!("{size} B");
    }
    let mut value = size as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if value < 10.0 { format!("{value:.1} {}", units[unit]) } else { format!("{value:.0} {}", units[unit]) }
}

/// A time relative to now, with the exact one on hover.
pub fn time(at: Timestamp, now: Timestamp) -> Markup {
    let second = at.as_second();
    let rounded = Timestamp::from_second(second).unwrap_or(at);
    let exact = rounded.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(rounded) title=(exact) { (relative(at, now)) } }
}

fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - at.as_second();
    let (ago, ahead) = if seconds < 0 { ("in ", "") } else { ("", " ago") };
    match seconds.unsigned_abs() {
        0..5 => "just now".to_owned(),
        seconds @ 5..60 => format!("{ago}{seconds} s{ahead}"),
        seconds @ 60..3600 => format!("{ago}{} min{ahead}", seconds / 60),
        seconds @ 3600..86_400 => format!("{ago}{} h{ahead}", seconds / 3600),
        seconds @ 86_400..2_592_000 => {
            let days = seconds / 86_400;
            format!("{ago}{days} day{}{ahead}", if days == 1 { "" } else { "s" })
        }
        _ => at.strftime("%-d %b %Y").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_true() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.0, 1.0, 0.04214, 2.7172, 120.25, 12345.6, 0.000_01, f64::NAN].map(number),
            ["0", "1", "0.042", "2.72", "120.2", "12346", "1.0e-5", "–"]
        );
        assert_eq!([0.0, 0.001, 0.5, 0.996, 1.0].map(percent), ["0%", "<1%", "50%", ">99%", "100%"]);
        assert_eq!(
            [0.0, 0.000_01, 0.0042, 0.5, 12.3, 12_345.6].map(usd),
            ["$0", "<$0.0001", "$0.0042", "$0.50", "$12.30", "$12,346"]
        );
        assert_eq!(
            [0, 850, 12_400, 200_000, 7_500_000, 200_000_000].map(duration_ms),
            ["0 ms", "850 ms", "12.4 s", "3 m 20 s", "2 h 5 m", "2 d 7 h"]
        );
        assert_eq!(
            [0, 999, 1000, 1_540_000, 999_999_999].map(bytes),
            ["0 B", "999 B", "1.0 kB", "1.5 MB", "1.0 GB"]
        );
    }

    #[test]
    fn times_are_relative_with_the_exact_one_on_hover() {
        let now: Timestamp = "2026-11-30T12:00:00.5Z".parse().unwrap();
        let ago = |seconds: i64| relative(Timestamp::from_second(now.as_second() - seconds).unwrap(), now);
        assert_eq!(
            [0, 30, 150, 7200, 86_400, 2_000_000, 40_000_000].map(ago),
            ["just now", "30 s ago", "2 min ago", "2 h ago", "1 day ago", "23 days ago", "24 Aug 2025"]
        );
        assert_eq!(ago(-7200), "in 2 h");
        let shown = time("2026-11-30T11:58:00.123Z".parse().unwrap(), now).into_string();
        assert_eq!(
            shown,
            r#"<time datetime="2026-11-30T11:58:00Z" title="2026-11-30 11:58:00 UTC">2 min ago</time>"#
        );
    }
}
