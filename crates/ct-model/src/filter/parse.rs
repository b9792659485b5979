//! The grammar of filters: `or` binds loosest, then `and`, then `not`; parentheses group.

use std::fmt;

use super::field::is_name_char;
use super::{
    Condition, Expression, FILTER_BYTES_MAX, FILTER_DEPTH_MAX, Field, FilterError, Kind, Operand, Operator,
    Point,
};

const OPERATORS: [Operator; 8] = [
    // Longer ones first, so that `>=` is not taken for `>`.
    Operator::NotEqual,
    Operator::NotContains,
    Operator::AtLeast,
    Operator::AtMost,
    Operator::Equal,
    Operator::Contains,
    Operator::Above,
    Operator::Below,
];

pub(super) fn parse(text: &str) -> Result<Expression, FilterError> {
    if text.len() > FILTER_BYTES_MAX {
        return Err(FilterError::TooLong);
    }
    if text.trim().is_empty() {
        return Err(FilterError::Empty);
    }
    let mut parser = Parser { text, at: 0 };
    let expression = parser.either(0)?;
    parser.blanks();
    if parser.rest().is_empty() { Ok(expression) } else { Err(parser.expected("`and`, `or` or the end")) }
}

/// Writes a text value so that it parses back to itself.
pub(super) fn write_value(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if !text.is_empty() && text.chars().all(is_name_char) && !is_keyword(text) {
        return f.write_str(text);
    }
    f.write_str("\"")?;
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            f.write_str("\\")?;
        }
        write!(f, "{c}")?;
    }
    f.write_str("\"")
}

fn is_keyword(word: &str) -> bool {
    ["and", "or", "not"].iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

struct Parser<'t> {
    text: &'t str,
    /// Byte offset, always at a character.
    at: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) -> bool {
        let trimmed = self.rest().trim_start();
        let before = self.at;
        self.at = self.text.len() - trimmed.len();
        self.at > before
    }

    /// The longest run of name characters here, not taken.
    fn peek_word(&self) -> &'t str {
        let rest = self.rest();
        &rest[..rest.find(|c| !is_name_char(c)).unwrap_or(rest.len())]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        self.blanks();
        let word = self.peek_word();
        let found = word.eq_ignore_ascii_case(keyword);
        if found {
            self.at += word.len();
        }
        found
    }

    fn expected(&self, expected: &'static str) -> FilterError {
        FilterError::Syntax {
            expected,
            position: self.text[..self.at].chars().count() + 1,
            found: self.rest().chars().take(20).collect(),
        }
    }

    fn either(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let mut members = Vec::new();
        loop {
            match self.both(depth)? {
                Expression::Or(inner) => members.extend(inner),
                member => members.push(member),
            }
            if !self.take_keyword("or") {
                return Ok(one_or(members, Expression::Or));
            }
        }
    }

    fn both(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let mut members = Vec::new();
        loop {
            match self.single(depth)? {
                Expression::And(inner) => members.extend(inner),
                member => members.push(member),
            }
            if !self.take_keyword("and") {
                return Ok(one_or(members, Expression::And));
            }
        }
    }

    fn single(&mut self, depth: usize) -> Result<Expression, FilterError> {
        if depth > FILTER_DEPTH_MAX {
            return Err(FilterError::TooDeep);
        }
        if self.take_keyword("not") {
            return Ok(Expression::Not(Box::new(self.single(depth + 1)?)));
        }
        if self.take("(") {
            let inner = self.either(depth + 1)?;
            self.blanks();
            return if self.take(")") { Ok(inner) } else { Err(self.expected("`and`, `or` or `)`")) };
        }
        self.condition().map(Expression::Condition)
    }

    fn condition(&mut self) -> Result<Condition, FilterError> {
        let name = self.peek_word();
        if name.is_empty() {
            return Err(self.expected("a field"));
        }
        self.at += name.len();
        self.blanks();
        let Some(operator) = OPERATORS.into_iter().find(|operator| self.take(operator.text())) else {
            return Err(self.expected("one of = != ~ !~ < <= > >="));
        };
        let field: Field = name.parse()?;
        check_operator(&field, operator)?;

        let mut values = vec![operand(&field, operator, self.value()?)?];
        while self.take(",") {
            values.push(operand(&field, operator, self.value()?)?);
        }
        if operator.is_order() && values.len() > 1 {
            return Err(FilterError::Operator {
                field,
                operator: operator.text(),
                allowed: "= != for a list",
            });
        }
        Ok(Condition { field, operator, values })
    }

    /// A quoted or bare value; nothing before a comma, a parenthesis, a keyword and the end.
    fn value(&mut self) -> Result<String, FilterError> {
        let start = self.at;
        let blanks = self.blanks();
        if self.rest().starts_with('"') {
            return self.quoted();
        }
        let word = self.peek_word();
        if blanks && is_keyword(word) {
            // `side_task= and …`: the word goes on with the expression.
            self.at = start;
            return Ok(String::new());
        }
        self.at += word.len();
        if self.rest().starts_with(['=', '!', '~', '<', '>']) {
            return Err(self.expected("a blank, or the whole value in double quotes,"));
        }
        self.blanks_before_comma();
        Ok(word.to_owned())
    }

    fn quoted(&mut self) -> Result<String, FilterError> {
        let mut value = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((offset, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += offset + 1;
                    self.blanks_before_comma();
                    return Ok(value);
                }
                '\\' => match chars.next() {
                    Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                    Some((_, other)) => value.extend(['\\', other]),
                    None => break,
                },
                c => value.push(c),
            }
        }
        Err(self.expected("a value with its closing quote"))
    }

    fn blanks_before_comma(&mut self) {
        if self.rest().trim_start().starts_with(',') {
            self.blanks();
        }
    }
}

fn one_or(mut members: Vec<Expression>, many: impl FnOnce(Vec<Expression>) -> Expression) -> Expression {
    match members.len() {
        1 => members.remove(0),
        _ => many(members),
    }
}

fn check_operator(field: &Field, operator: Operator) -> Result<(), FilterError> {
    let (fits, allowed) = match field.kind() {
        Kind::Text | Kind::Path | Kind::Task => (!operator.is_order(), "= != ~ !~"),
        Kind::Word(_) => (!operator.is_order() && !operator.is_contains(), "= !="),
        Kind::Number | Kind::Time => (!operator.is_contains(), "= != < <= > >="),
        Kind::Free => (true, ""),
    };
    if fits {
        return Ok(());
    }
    Err(FilterError::Operator { field: field.clone(), operator: operator.text(), allowed })
}

fn operand(field: &Field, operator: Operator, value: String) -> Result<Operand, FilterError> {
    let wrong = |value: &str, expected: &str| FilterError::Value {
        field: field.clone(),
        value: value.to_owned(),
        expected: expected.to_owned(),
    };
    let kind = field.kind();
    if value.is_empty() && !operator.is_order() && !operator.is_contains() && !matches!(kind, Kind::Word(_)) {
        return Ok(Operand::Nothing);
    }
    let (point, expected): (fn(&str) -> Option<Point>, _) = match kind {
        Kind::Word(words) if !words.contains(&value.as_str()) => {
            return Err(wrong(&value, &words.join(", ")));
        }
        Kind::Number => (number, "a number"),
        Kind::Free if operator.is_order() => (number, "a number"),
        Kind::Time => (time, "a day (2026-10-01) or a time (2026-10-01T12:00Z)"),
        Kind::Text | Kind::Path | Kind::Task | Kind::Word(_) | Kind::Free => {
            if value.is_empty() {
                return Err(wrong(&value, "a text"));
            }
            let number = value.parse().ok().filter(|n: &f64| kind == Kind::Free && n.is_finite());
            return Ok(Operand::Text { lower: value.to_lowercase(), number, text: value });
        }
    };
    if let (false, Some((from, to))) = (operator.is_order(), value.split_once("..")) {
        let end = |text: &str| match text {
            "" => Ok(None),
            text => point(text).map(Some).ok_or_else(|| wrong(text, expected)),
        };
        return match (end(from)?, end(to)?) {
            (None, None) => Err(wrong(&value, expected)),
            (from, to) => Ok(Operand::Range(from, to)),
        };
    }
    point(&value).map(Operand::Point).ok_or_else(|| wrong(&value, expected))
}

fn number(text: &str) -> Option<Point> {
    text.parse().ok().filter(|n: &f64| n.is_finite()).map(Point::Number)
}

/// A day, a time with its offset, or a time without one, which is taken as UTC.
fn time(text: &str) -> Option<Point> {
    if !text.contains(['T', 't', ' ', ':']) {
        return text.parse().ok().map(Point::Day);
    }
    if let Ok(moment) = text.parse() {
        return Some(Point::Moment(moment));
    }
    let civil: jiff::civil::DateTime = text.trim_end_matches(['Z', 'z']).parse().ok()?;
    Some(Point::Moment(jiff::tz::Offset::UTC.to_timestamp(civil).ok()?))
}
