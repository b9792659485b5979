//! How large the parts shall be: counts, percentages, and whether the rest is a part.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most parts one draw may have, the rest not counted.
pub const PARTS_MAX: usize = 256;

/// Digits kept behind the point of a percentage.
const PLACES: usize = 9;

/// 100 %, in the unit of [`Size::Share`].
pub(super) const WHOLE: u64 = 100 * 10_u64.pow(PLACES as u32);

/// Why a text is not a size, or several are not sizes of a draw.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Neither a count nor a percentage.
    #[error(
        "not a size: {text:?} (a count from 1 such as 10, a percentage such as 12.5% with at most {PLACES} decimals, \
         or a last _ for the rest)"
    )]
    NotASize {
        /// What was given, shortened.
        text: String,
    },
    /// `_` in front of other sizes.
    #[error("_ stands for the rest and must come last")]
    RestNotLast,
    /// No part but the rest, or none at all.
    #[error("no size given: say how many trajectories the first part shall have")]
    Nothing,
    /// More than [`PARTS_MAX`].
    #[error("{parts} parts asked for; at most {PARTS_MAX} can be drawn at once")]
    TooMany {
        /// How many were asked for.
        parts: usize,
    },
}

/// The size of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Size {
    /// So many.
    Count(u64),
    /// A share of all, in billionths of a percent.
    Share(u64),
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let error = || SizeError::NotASize { text: text.chars().take(40).collect() };
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        let Some(percent) = text.strip_suffix('%') else {
            let count = text.parse().ok().filter(|&n| n > 0 && digits(text));
            return count.map(Size::Count).ok_or_else(error);
        };
        let (whole, decimals) = percent.split_once('.').unwrap_or((percent, ""));
        let is_number = digits(whole) && digits(decimals) && !(whole.is_empty() && decimals.is_empty());
        if !is_number || whole.len() > 3 || decimals.len() > PLACES {
            return Err(error());
        }
        let share = format!("{whole}{decimals:0<PLACES$}").parse().ok().filter(|&n| n > 0 && n <= WHOLE);
        share.map(Size::Share).ok_or_else(error)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Count(count) => count.fmt(f),
            Size::Share(share) => write_percent(f, u128::from(*share)),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = SizeError;

    fn try_from(text: String) -> Result<Self, SizeError> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> String {
        size.to_string()
    }
}

/// Writes billionths of a percent as a percentage.
pub(super) fn write_percent(f: &mut fmt::Formatter<'_>, share: u128) -> fmt::Result {
    let one = u128::from(WHOLE / 100);
    let decimals = format!("{:0PLACES$}", share % one);
    match decimals.trim_end_matches('0') {
        "" => write!(f, "{}%", share / one),
        decimals => write!(f, "{}.{decimals}%", share / one),
    }
}

/// The sizes of a draw: at least one and at most [`PARTS_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    parts: Vec<Size>,
    keep_rest: bool,
}

impl Sizes {
    /// Checks the number of parts.
    pub fn new(parts: Vec<Size>, keep_rest: bool) -> Result<Self, SizeError> {
        match parts.len() {
            0 => Err(SizeError::Nothing),
            parts if parts > PARTS_MAX => Err(SizeError::TooMany { parts }),
            _ => Ok(Self { parts, keep_rest }),
        }
    }

    /// Parses `N`, `P%` and a last `_`, which is the same as `keep_rest`.
    pub fn parse(texts: &[impl AsRef<str>], keep_rest: bool) -> Result<Self, SizeError> {
        let (texts, keep_rest) = match texts.split_last() {
            Some((last, others)) if last.as_ref() == "_" => (others, true),
            _ => (texts, keep_rest),
        };
        let mut parts = Vec::with_capacity(texts.len());
        for text in texts {
            match text.as_ref() {
                "_" => return Err(SizeError::RestNotLast),
                text => parts.push(text.parse()?),
            }
        }
        Self::new(parts, keep_rest)
    }

    /// The sizes of the parts, the rest not among them.
    pub fn parts(&self) -> &[Size] {
        &self.parts
    }

    /// Whether what is left over is a last part.
    pub fn keep_rest(&self) -> bool {
        self.keep_rest
    }
}

/// How many each size is out of `total`: the percentages are rounded together, in order, so that the first k of them
/// have ⌊total × their sum + ½⌋ and 100 % have all.
pub(super) fn counts(sizes: &[Size], total: usize) -> Vec<u128> {
    let (total, whole) = (total as u128, u128::from(WHOLE));
    let (mut shares, mut taken) = (0_u128, 0_u128);
    let count = |size: &Size| match size {
        Size::Count(count) => u128::from(*count),
        Size::Share(share) => {
            shares += u128::from(*share);
            let until = (2 * total * shares + whole) / (2 * whole);
            let count = until - taken;
            taken = until;
            count
        }
    };
    sizes.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_and_displays() {
        for (text, size, shown) in [
            ("10", Size::Count(10), "10"),
            ("007", Size::Count(7), "7"),
            ("50%", Size::Share(50_000_000_000), "50%"),
            ("12.50%", Size::Share(12_500_000_000), "12.5%"),
            (".5%", Size::Share(500_000_000), "0.5%"),
            ("33.333333333%", Size::Share(33_333_333_333), "33.333333333%"),
            ("100.%", Size::Share(WHOLE), "100%"),
        ] {
            assert_eq!(text.parse::<Size>().unwrap(), size, "{text}");
            assert_eq!(size.to_string(), shown);
            assert_eq!(serde_json::from_value::<Size>(serde_json::json!(shown)).unwrap(), size);
        }
        for bad in [
            "",
            "0",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "0%",
            "0.0%",
            "101%",
            "100.000000001%",
            "-5%",
            "+5%",
            "%",
            ".%",
            "5 %",
            "0.0000000001%",
            "1_0",
            "_",
            "٣",
            "99999999999999999999",
            "5%%",
        ] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_rest_comes_last() {
        let sizes = Sizes::parse(&["10", "5%", "_"], false).unwrap();
        assert_eq!(
            (sizes.parts(), sizes.keep_rest()),
            (&[Size::Count(10), Size::Share(5_000_000_000)][..], true)
        );
        assert!(Sizes::parse(&["10"], true).unwrap().keep_rest());
        assert!(!Sizes::parse(&["10"], false).unwrap().keep_rest());
        assert_eq!(Sizes::parse(&["_", "10"], false), Err(SizeError::RestNotLast));
        assert_eq!(Sizes::parse(&["10", "_", "_"], false), Err(SizeError::RestNotLast));
        assert_eq!(Sizes::parse(&["_"], false), Err(SizeError::Nothing));
        assert_eq!(Sizes::parse(&[""; 0], true), Err(SizeError::Nothing));
        assert_eq!(Sizes::parse(&["1"; 257], false), Err(SizeError::TooMany { parts: 257 }));
    }

    #[test]
    fn percentages_are_rounded_together() {
        let of = |texts: &[&str], total| counts(Sizes::parse(texts, false).unwrap().parts(), total);
        assert_eq!(of(&["50%", "50%"], 3), [2, 1]);
        assert_eq!(of(&["33.3%", "33.3%", "33.4%"], 10), [3, 4, 3]);
        assert_eq!(of(&["10%"; 10], 7).iter().sum::<u128>(), 7);
        assert_eq!(of(&["1%"], 20), [0]);
        assert_eq!(of(&["50%", "3", "50%"], 5), [3, 3, 2]);
    }

    proptest! {
        #[test]
        fn a_share_is_off_by_less_than_one(shares in prop::collection::vec(1..=WHOLE, 1..8), total in 0_usize..10_000) {
            let sizes: Vec<Size> = shares.iter().map(|s| Size::Share(*s)).collect();
            for (share, count) in shares.iter().zip(counts(&sizes, total)) {
                let (exact, got) = (total as u128 * u128::from(*share), count * u128::from(WHOLE));
                prop_assert!(exact.abs_diff(got) < u128::from(WHOLE));
            }
        }

        #[test]
        fn shares_of_a_whole_leave_nothing(cuts in prop::collection::btree_set(1..WHOLE, 0..8), total in 0_usize..10_000) {
            let ends = cuts.iter().copied().chain([WHOLE]);
            let sizes: Vec<Size> =
                ends.clone().zip([0].into_iter().chain(ends)).map(|(end, start)| Size::Share(end - start)).collect();
            prop_assert_eq!(counts(&sizes, total).iter().sum::<u128>(), total as u128);
        }
    }
}
