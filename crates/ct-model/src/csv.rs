//! CSV after RFC 4180: a header line always, fields quoted when they must be, records ended by a line feed.

/// Rows with a fixed set of columns.
#[derive(Debug)]
pub struct Csv {
    columns: usize,
    text: String,
}

impl Csv {
    /// Starts with the header line.
    pub fn new(header: &[&str]) -> Self {
        let mut csv = Self { columns: header.len(), text: String::new() };
        csv.row(header.iter().map(|&name| name.to_owned()));
        csv
    }

    /// Rows that go on behind others.
    pub fn headless(columns: usize) -> Self {
        Self { columns, text: String::new() }
    }

    /// Adds a line.
    pub fn row(&mut self, fields: impl IntoIterator<Item = String>) {
        let mut written = 0;
        for field in fields {
            if written > 0 {
                self.text.push(',');
            }
            if field.contains([',', '"', '\n', '\r']) || field.starts_with(' ') || field.ends_with(' ') {
                self.text.push('"');
                self.text.push_str(&field.replace('"', "\"\""));
                self.text.push('"');
            } else {
                self.text.push_str(&field);
            }
            written += 1;
        }
        debug_assert_eq!(written, self.columns, "a row has as many fields as the header");
        self.text.push('\n');
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_what_must_be_quoted() {
        let mut csv = Csv::new(&["a", "b"]);
        csv.row(["1,2".to_owned(), "say \"hi\"".to_owned()]);
        csv.row(["two\nlines".to_owned(), String::new()]);
        assert_eq!(csv.finish(), "a,b\n\"1,2\",\"say \"\"hi\"\"\"\n\"two\nlines\",\n");
    }
}
