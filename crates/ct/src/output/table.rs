//! Tables for people: fitted to the terminal, whole when they go elsewhere.

use std::borrow::Cow;

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table as Inner, Width,
};

use super::{Printer, neutral};

/// Longer names are cut: whole ones are in JSON, and where one thing alone is shown.
const NAME_CHARS_MAX: usize = 80;

/// Where a column's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Texts that may be shortened to fit a terminal.
    Left,
    /// Names and the like, which are shortened wherever they go when they are very long.
    Name,
    /// Texts that are never shortened: ids.
    Whole,
    /// Numbers.
    Right,
}

/// Rows under a header. Cells are neutralised as they come in.
pub(crate) struct Table {
    inner: Inner,
    align: Vec<Align>,
    fitted: bool,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(printer: &Printer, columns: &[(&str, Align)]) -> Self {
        let fitted = printer.to_terminal();
        let mut inner = Inner::new();
        let width = inner.width();
        // Left to itself the table would also decide about colour.
        inner.force_no_tty();
        inner.load_style(comfy_table::presets::NOTHING);
        inner.set_truncation_indicator("…");
        if let (true, Some(width)) = (fitted, width) {
            inner.set_content_arrangement(ContentArrangement::Dynamic);
            inner.set_width(width);
        } else {
            inner.set_content_arrangement(ContentArrangement::Disabled);
        }
        if printer.color() {
            inner.enforce_styling();
        }
        inner.set_header(Row::from(
            columns
                .iter()
                .map(|(name, _)| Cell::new(name).add_attribute(Attribute::Bold))
                .collect::<Vec<_>>(),
        ));
        let align: Vec<Align> = columns.iter().map(|&(_, align)| align).collect();
        for (index, (align, (name, _))) in align.iter().zip(columns).enumerate() {
            let Some(column) = inner.column_mut(index) else { continue };
            column.set_padding((0, 2));
            if *align == Align::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
            column.set_constraint(match align {
                // The header stays whole; two more are the padding.
                Align::Left | Align::Name => {
                    let width = u16::try_from(name.chars().count() + 2).unwrap_or(u16::MAX);
                    ColumnConstraint::LowerBoundary(Width::Fixed(width))
                }
                Align::Whole | Align::Right => ColumnConstraint::ContentWidth,
            });
        }
        Self { inner, align, fitted }
    }

    /// Adds a row.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<Cell> = cells
            .into_iter()
            .zip(&self.align)
            .map(|(cell, align)| match align {
                Align::Name => Cell::new(neutral(&shortened(cell.as_ref()))),
                _ => Cell::new(neutral(cell.as_ref())),
            })
            .collect();
        debug_assert_eq!(cells.len(), self.align.len(), "a row has as many cells as the header");
        let mut row = Row::from(cells);
        if self.fitted {
            row.max_height(1);
        }
        self.inner.add_row(row);
    }

    /// The text, a line break at its end, no blanks at the end of lines.
    pub(crate) fn finish(self) -> String {
        let mut text = String::new();
        for line in self.inner.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The beginning of a text that is too long for a table.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(NAME_CHARS_MAX) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect()),
    }
}
