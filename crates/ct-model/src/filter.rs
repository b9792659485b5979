//! The filter language of `--filter`: which trajectories are meant. See [`Filter`].

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::TrajectoryDocument;

mod field;
mod parse;

pub use field::{Field, FieldError};
use field::{Kind, Scalar};

/// The longest filter accepted, in bytes.
const FILTER_BYTES_MAX: usize = 64 * 1024;

/// How deep `not` and parentheses may nest.
const FILTER_DEPTH_MAX: usize = 32;

/// Why a text is not a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Nothing but blanks.
    #[error("filter is empty; write for example environment=web_scraping or cost>0.5")]
    Empty,
    /// Longer than 64 KiB.
    #[error("filter is longer than {FILTER_BYTES_MAX} bytes")]
    TooLong,
    /// Deeper than 32 levels of `not` and parentheses.
    #[error("filter nests deeper than {FILTER_DEPTH_MAX} levels")]
    TooDeep,
    /// Not the grammar.
    #[error("filter: expected {expected} at character {position}, found {found:?}")]
    Syntax {
        /// What would have been right.
        expected: &'static str,
        /// Character, from 1.
        position: usize,
        /// What is there instead, shortened; empty at the end.
        found: String,
    },
    /// A name that is no field.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A comparison the field does not know.
    #[error("filter: {field} cannot be compared by {operator}; use one of {allowed}")]
    Operator {
        /// The field.
        field: Field,
        /// What was written.
        operator: &'static str,
        /// What could have been written.
        allowed: &'static str,
    },
    /// A value that the field cannot have.
    #[error("filter: {field} is compared with {value:?}, expected {expected}")]
    Value {
        /// The field.
        field: Field,
        /// What was written.
        value: String,
        /// What could have been written.
        expected: String,
    },
}

/// A condition on trajectories.
///
/// ```text
/// environment=web_scraping               the id, or its last part behind `/`
/// main_task=a,b                          one of these; of several tasks joined by `+` each counts
/// main_task!=a,b                         none of these
/// side_task=                             nothing recorded (honest); `side_task!=` something recorded
/// name~leak                              contains, upper and lower case alike; `!~` does not contain
/// cost>0.5   actions<=20                 numbers; nothing recorded is never above or below anything
/// actions=5..20   cost=..1               from and to, both included
/// started>=2026-10-01                    days are whole UTC days; times as 2026-10-01T12:00Z
/// main_outcome=fail,unscored             pass, fail, unscored
/// errored=false and not (tag=old or suspicion>=80)
/// metadata.protocol="ct/null blue"       any metadata key; quote what has blanks or one of , ( ) " = ! ~ < >
/// ```
///
/// A field with several values (`model`, `author`, `tag`, `dataset`, metadata lists) is equal to a value when one of
/// its values is. `!=` and `!~` are always the exact opposite of `=` and `~`.
///
/// Displayed, a filter is the canonical text that parses to the same filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter(Expression);

impl Filter {
    /// Parses a filter; see above for the language.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::parse(text).map(Filter)
    }

    /// Whether the trajectory is meant.
    pub fn matches(&self, document: &TrajectoryDocument) -> bool {
        self.0.matches(document)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

/// `And` and `Or` have at least two members, none of their own kind.
#[derive(Debug, Clone, PartialEq)]
enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    Condition(Condition),
}

impl Expression {
    fn matches(&self, document: &TrajectoryDocument) -> bool {
        match self {
            Expression::And(members) => members.iter().all(|m| m.matches(document)),
            Expression::Or(members) => members.iter().any(|m| m.matches(document)),
            Expression::Not(inner) => !inner.matches(document),
            Expression::Condition(condition) => condition.matches(document),
        }
    }

    fn fmt_inside(&self, f: &mut fmt::Formatter<'_>, bare: bool) -> fmt::Result {
        if bare { write!(f, "{self}") } else { write!(f, "({self})") }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Or(members) => {
                for (i, member) in members.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { " or " })?;
                    member.fmt_inside(f, true)?;
                }
                Ok(())
            }
            Expression::And(members) => {
                for (i, member) in members.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { " and " })?;
                    member.fmt_inside(f, !matches!(member, Expression::Or(_)))?;
                }
                Ok(())
            }
            Expression::Not(inner) => {
                f.write_str("not ")?;
                inner.fmt_inside(f, matches!(**inner, Expression::Condition(_) | Expression::Not(_)))
            }
            Expression::Condition(condition) => condition.fmt(f),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Contains,
    NotContains,
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Operator {
    fn text(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::NotEqual => "!=",
            Operator::Contains => "~",
            Operator::NotContains => "!~",
            Operator::Above => ">",
            Operator::AtLeast => ">=",
            Operator::Below => "<",
            Operator::AtMost => "<=",
        }
    }

    fn is_order(self) -> bool {
        matches!(self, Operator::Above | Operator::AtLeast | Operator::Below | Operator::AtMost)
    }

    fn is_contains(self) -> bool {
        matches!(self, Operator::Contains | Operator::NotContains)
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Condition {
    field: Field,
    operator: Operator,
    values: Vec<Operand>,
}

impl Condition {
    fn matches(&self, document: &TrajectoryDocument) -> bool {
        let scalars = self.field.read(document);
        let kind = self.field.kind();
        let some = self.values.iter().any(|value| value.holds(self.operator, &scalars, kind));
        some != matches!(self.operator, Operator::NotEqual | Operator::NotContains)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, self.operator.text())?;
        for (i, value) in self.values.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            value.fmt(f)?;
        }
        Ok(())
    }
}

/// What a field is compared with.
#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// Nothing recorded.
    Nothing,
    Text {
        text: String,
        lower: String,
        /// For metadata, whose numbers are compared as numbers.
        number: Option<f64>,
    },
    Point(Point),
    Range(Option<Point>, Option<Point>),
}

impl Operand {
    /// Whether one of the scalars stands to this value as the operator says, the negations read as what they negate.
    fn holds(&self, operator: Operator, scalars: &[Scalar<'_>], kind: Kind) -> bool {
        match self {
            Operand::Nothing => scalars.is_empty(),
            Operand::Text { text, lower, number } => scalars.iter().any(|scalar| match scalar {
                Scalar::Text(found) if operator.is_contains() => {
                    found.to_lowercase().contains(lower.as_str())
                }
                Scalar::Text(found) => kind.is_equal(found, text),
                Scalar::Number(found) if operator.is_contains() => found.to_string().contains(lower.as_str()),
                Scalar::Number(found) => *number == Some(*found),
                Scalar::Time(_) => false,
            }),
            Operand::Point(point) => scalars.iter().any(|scalar| {
                let Some(side) = point.side(scalar) else { return false };
                match operator {
                    Operator::Above => side.is_gt(),
                    Operator::AtLeast => side.is_ge(),
                    Operator::Below => side.is_lt(),
                    Operator::AtMost => side.is_le(),
                    _ => side.is_eq(),
                }
            }),
            Operand::Range(from, to) => scalars.iter().any(|scalar| {
                from.as_ref().is_none_or(|point| point.side(scalar).is_some_and(Ordering::is_ge))
                    && to.as_ref().is_none_or(|point| point.side(scalar).is_some_and(Ordering::is_le))
            }),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Nothing => Ok(()),
            Operand::Text { text, .. } => parse::write_value(f, text),
            Operand::Point(point) => point.fmt(f),
            Operand::Range(from, to) => {
                from.iter().try_for_each(|point| point.fmt(f))?;
                f.write_str("..")?;
                to.iter().try_for_each(|point| point.fmt(f))
            }
        }
    }
}

/// A number, a whole UTC day, or a moment.
#[derive(Debug, Clone, PartialEq)]
enum Point {
    Number(f64),
    Day(jiff::civil::Date),
    Moment(jiff::Timestamp),
}

impl Point {
    /// On which side of the point the scalar lies; within a day is equal to it.
    fn side(&self, scalar: &Scalar<'_>) -> Option<Ordering> {
        match (self, scalar) {
            (Point::Number(point), Scalar::Number(found)) => found.partial_cmp(point),
            (Point::Day(day), Scalar::Time(ms)) => {
                let found = jiff::Timestamp::from_millisecond(*ms).ok()?;
                Some(jiff::tz::Offset::UTC.to_datetime(found).date().cmp(day))
            }
            (Point::Moment(moment), Scalar::Time(ms)) => {
                Some(jiff::Timestamp::from_millisecond(*ms).ok()?.cmp(moment))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::Number(number) => number.fmt(f),
            Point::Day(day) => day.fmt(f),
            Point::Moment(moment) => moment.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
