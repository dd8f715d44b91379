//! Tables whose columns line up and fit the terminal.
//!
//! Each column is as wide as its widest cell. If the lines are too long, texts are cut, the widest
//! first. If that is not enough, texts are left out, so that names can be read: an operator types
//! them in the next command. Names are cut last.

use super::format::{cut, width};
use super::output::{Style, StyledWriter};
use std::io::{self, Write};

/// Blanks between columns.
const GAP: usize = 2;
/// Minimum width of a column that is cut.
const MIN_CUT_WIDTH: usize = 8;
/// Maximum width that cells are padded to without a line width.
///
/// Otherwise one very long name would make all other lines as long.
const MAX_PADDED_WIDTH: usize = 80;

/// Alignment of a column, and how it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Numbers: aligned right.
    Number,
    /// Short words: aligned left.
    Word,
    /// Names: aligned left, cut as a last resort.
    Name,
    /// Texts: aligned left, cut or left out if there is no room.
    Text,
}

/// A table that is being built.
pub(super) struct Table {
    columns: Vec<(&'static str, Column)>,
    rows: Vec<Vec<(String, Style)>>,
}

impl Table {
    /// Creates a table with these columns.
    pub(super) fn new(columns: &[(&'static str, Column)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    ///
    /// The cells must be printable already.
    pub(super) fn row(&mut self, cells: Vec<(String, Style)>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Prints the table.
    pub(super) fn print<W: Write>(&self, output: &mut StyledWriter<W>) -> io::Result<()> {
        let widths = self.widths(output.columns());
        let titles: Vec<(String, Style)> =
            self.columns.iter().map(|(title, _)| (title.to_string(), Style::Title)).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            self.print_row(row, &widths, output)?;
        }
        Ok(())
    }

    fn print_row<W: Write>(
        &self,
        row: &[(String, Style)],
        widths: &[usize],
        output: &mut StyledWriter<W>,
    ) -> io::Result<()> {
        // Blanks are only printed before text, so that no line ends in blanks.
        let mut blanks = 0;
        for (((text, style), (_, column)), room) in row.iter().zip(&self.columns).zip(widths) {
            let shown = match output.columns() {
                Some(_) => cut(text, *room),
                None => text.clone(),
            };
            let missing = room.saturating_sub(width(&shown));
            if *column == Column::Number {
                blanks += missing;
            }
            if *room == 0 {
                continue;
            }
            if !shown.is_empty() {
                output.plain(&" ".repeat(blanks))?;
                output.styled(&shown, *style)?;
                blanks = 0;
            }
            blanks += GAP + if *column == Column::Number { 0 } else { missing };
        }
        output.end_line()
    }

    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let cells = |place: usize| self.rows.iter().map(move |row| width(&row[place].0));
        let natural = |(place, (title, _)): (usize, &(&str, Column))| {
            cells(place).max().unwrap_or(0).max(width(title))
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        let Some(columns) = columns else {
            return widths.into_iter().map(|width| width.min(MAX_PADDED_WIDTH)).collect();
        };
        self.narrow(Column::Text, &mut widths, columns);
        let texts: Vec<usize> = self.places(Column::Text).collect();
        let has_names = self.places(Column::Name).next().is_some();
        if has_names && excess(&widths, columns) > 0 {
            texts.into_iter().for_each(|place| widths[place] = 0);
        }
        self.narrow(Column::Name, &mut widths, columns);
        widths
    }

    fn places(&self, kind: Column) -> impl Iterator<Item = usize> {
        self.columns
            .iter()
            .enumerate()
            .filter(move |(_, column)| column.1 == kind)
            .map(|(at, _)| at)
    }

    /// Narrows columns of this kind, the widest first, until lines fit.
    fn narrow(&self, kind: Column, widths: &mut [usize], columns: usize) {
        loop {
            let excess = excess(widths, columns);
            let can_give =
                |place: &usize| self.columns[*place].1 == kind && widths[*place] > MIN_CUT_WIDTH;
            let widest = (0..widths.len()).filter(can_give).max_by_key(|place| widths[*place]);
            match widest {
                Some(place) if excess > 0 => {
                    // Down to the width of the next column, and then both.
                    let others =
                        (0..widths.len()).filter(|other| can_give(other) && *other != place);
                    let next = others.map(|other| widths[other]).max().unwrap_or(MIN_CUT_WIDTH);
                    let step = excess.min((widths[place] - next.max(MIN_CUT_WIDTH)).max(1));
                    widths[place] -= step;
                }
                _ => return,
            }
        }
    }
}

/// Number of columns by which lines are too long.
fn excess(widths: &[usize], columns: usize) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    let all: usize = shown.map(|width| width + GAP).sum();
    all.saturating_sub(GAP).saturating_sub(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(rows: &[[&str; 4]]) -> Table {
        let mut table = Table::new(&[
            ("THREAD", Column::Text),
            ("MSGS", Column::Number),
            ("WHY", Column::Word),
            ("LAST TEXT", Column::Text),
        ]);
        for row in rows {
            table.row(row.map(|text| (text.to_string(), Style::Plain)).to_vec());
        }
        table
    }

    fn printed(table: &Table, columns: Option<usize>) -> String {
        let mut out = Vec::new();
        table
            .print(&mut StyledWriter::new(&mut out, columns, false))
            .expect("a Vec takes everything");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn table_too_wide_cuts_texts() {
        let long = "451 4.4.1 the host does not want to talk to anybody today";
        let table = table(&[
            ["smtp/mx.example.org", "1,234", "retry", long],
            ["smtp/a-very-long-name-of-a-host.example.org", "3", "", ""],
        ]);
        expect_test::expect![[r#"
            THREAD                 MSGS  WHY    LAST TEXT
            smtp/mx.example.org   1,234  retry  451 4.4.1 the host …
            smtp/a-very-long-na…      3
        "#]]
        .assert_eq(&printed(&table, Some(56)));
        expect_test::expect![[r#"
            THREAD                                        MSGS  WHY    LAST TEXT
            smtp/mx.example.org                          1,234  retry  451 4.4.1 the host does not want to talk to anybody today
            smtp/a-very-long-name-of-a-host.example.org      3
        "#]]
        .assert_eq(&printed(&table, None));
    }

    proptest! {
        #[test]
        fn lines_fit(name in "[a-zé日]{0,60}", text in "[a-z日 ]{0,90}", columns in 40usize..200) {
            let table = table(&[[name.as_str(), "12", "retry", text.as_str()], ["a/b", "1", "held", "x"]]);
            for line in printed(&table, Some(columns)).lines() {
                prop_assert!(width(line) <= columns, "{}", line);
            }
        }
    }
}
