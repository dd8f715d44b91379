//! Tables whose columns line up and fit the terminal.
//!
//! Each column is as wide as its widest cell. If the lines are too long, texts are cut, the widest
//! first. If that is not enough, texts are left out, so that names can be read: an operator types
//! them in the next command. Names are cut last.

use crate::format::{cut, grouped, last_line, one_line, span_or_dash, width};
use crate::screen::{Screen, Style};
use std::io;

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
pub(crate) enum ColumnKind {
    /// Numbers: aligned right.
    Number,
    /// Short words: aligned left.
    Word,
    /// Names: aligned left, cut as a last resort.
    Name,
    /// Texts: aligned left, cut or left out if there is no room.
    Text,
}

/// A cell: printable text and its style.
pub(crate) type Cell = (String, Style);

/// A column of a table about things of type `T`.
pub(crate) struct Column<'c, T> {
    /// The title.
    pub title: &'static str,
    /// Alignment.
    pub kind: ColumnKind,
    /// Makes the cell of a thing.
    pub cell: Box<dyn Fn(&T) -> Cell + 'c>,
}

impl<'c, T> Column<'c, T> {
    /// Creates a column of styled cells.
    pub(crate) fn new(
        title: &'static str,
        kind: ColumnKind,
        cell: impl Fn(&T) -> Cell + 'c,
    ) -> Column<'c, T> {
        Column { title, kind, cell: Box::new(cell) }
    }

    /// Creates a column of names.
    pub(crate) fn name(title: &'static str, name: impl Fn(&T) -> String + 'c) -> Column<'c, T> {
        let cell = move |thing: &T| (one_line(&name(thing)), Style::Plain);
        Column::new(title, ColumnKind::Name, cell)
    }

    /// Creates a column of words, which are printable.
    pub(crate) fn word(title: &'static str, word: impl Fn(&T) -> String + 'c) -> Column<'c, T> {
        Column::new(title, ColumnKind::Word, move |thing: &T| (word(thing), Style::Plain))
    }

    /// Creates a column of numbers.
    pub(crate) fn number(title: &'static str, number: impl Fn(&T) -> u64 + 'c) -> Column<'c, T> {
        Column::optional_number(title, move |thing: &T| Some(number(thing)))
    }

    /// Creates a column of numbers, with a dash where there is none.
    pub(crate) fn optional_number(
        title: &'static str,
        number: impl Fn(&T) -> Option<u64> + 'c,
    ) -> Column<'c, T> {
        let shown = move |thing: &T| number(thing).map_or("-".to_string(), grouped);
        Column::new(title, ColumnKind::Number, move |thing: &T| (shown(thing), Style::Plain))
    }

    /// Creates a column of spans in seconds, with a dash where there is none.
    pub(crate) fn span(
        title: &'static str,
        seconds: impl Fn(&T) -> Option<f64> + 'c,
    ) -> Column<'c, T> {
        let cell = move |thing: &T| (span_or_dash(seconds(thing)), Style::Plain);
        Column::new(title, ColumnKind::Number, cell)
    }

    /// Creates a column of the last lines of texts.
    pub(crate) fn text(
        title: &'static str,
        style: Style,
        text: impl Fn(&T) -> Option<&str> + 'c,
    ) -> Column<'c, T> {
        let cell = move |thing: &T| (last_line(text(thing).unwrap_or_default()), style);
        Column::new(title, ColumnKind::Text, cell)
    }
}

/// Prints a table of these things.
pub(crate) fn print_table<'t, T: 't>(
    columns: &[Column<'_, T>],
    things: impl IntoIterator<Item = &'t T>,
    screen: &mut Screen<'_>,
) -> io::Result<()> {
    let row = |thing| columns.iter().map(|column| (column.cell)(thing)).collect();
    let columns = columns.iter().map(|column| (column.title, column.kind)).collect();
    Table { columns, rows: things.into_iter().map(row).collect() }.print(screen)
}

/// A table with all its cells, which are printable.
pub(crate) struct Table {
    /// Titles and alignments.
    pub columns: Vec<(&'static str, ColumnKind)>,
    /// Rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Prints the table.
    pub(crate) fn print(&self, screen: &mut Screen<'_>) -> io::Result<()> {
        let widths = self.widths(screen.columns());
        let titles: Vec<Cell> =
            self.columns.iter().map(|(title, _)| (title.to_string(), Style::Title)).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            self.print_row(row, &widths, screen)?;
        }
        Ok(())
    }

    fn print_row(&self, row: &[Cell], widths: &[usize], screen: &mut Screen<'_>) -> io::Result<()> {
        // Blanks are only printed before text, so that no line ends in blanks.
        let mut blanks = 0;
        for (((text, style), (_, column)), room) in row.iter().zip(&self.columns).zip(widths) {
            let shown = match screen.columns() {
                Some(_) => cut(text, *room),
                None => text.clone(),
            };
            let missing = room.saturating_sub(width(&shown));
            if *column == ColumnKind::Number {
                blanks += missing;
            }
            if *room == 0 {
                continue;
            }
            if !shown.is_empty() {
                write!(screen, "{}", " ".repeat(blanks))?;
                screen.styled(&shown, *style)?;
                blanks = 0;
            }
            blanks += GAP + if *column == ColumnKind::Number { 0 } else { missing };
        }
        screen.line(&[])
    }

    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let cells = |place: usize| self.rows.iter().map(move |row| width(&row[place].0));
        let natural = |(place, (title, _)): (usize, &(&str, ColumnKind))| {
            cells(place).max().unwrap_or(0).max(width(title))
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        let Some(columns) = columns else {
            return widths.into_iter().map(|width| width.min(MAX_PADDED_WIDTH)).collect();
        };
        self.narrow(ColumnKind::Text, &mut widths, columns);
        let texts: Vec<usize> = self.places(ColumnKind::Text).collect();
        let has_names = self.places(ColumnKind::Name).next().is_some();
        if has_names && excess(&widths, columns) > 0 {
            texts.into_iter().for_each(|place| widths[place] = 0);
        }
        self.narrow(ColumnKind::Name, &mut widths, columns);
        widths
    }

    fn places(&self, kind: ColumnKind) -> impl Iterator<Item = usize> {
        (0..self.columns.len()).filter(move |place| self.columns[*place].1 == kind)
    }

    /// Narrows columns of this kind, the widest first, until lines fit.
    fn narrow(&self, kind: ColumnKind, widths: &mut [usize], columns: usize) {
        while excess(widths, columns) > 0 {
            let places = self.places(kind).filter(|place| widths[*place] > MIN_CUT_WIDTH);
            match places.max_by_key(|place| widths[*place]) {
                Some(place) => widths[place] -= 1,
                None => return,
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
        let columns = vec![
            ("THREAD", ColumnKind::Text),
            ("MSGS", ColumnKind::Number),
            ("WHY", ColumnKind::Word),
            ("LAST TEXT", ColumnKind::Text),
        ];
        let cells = |row: &[&str; 4]| row.map(|text| (text.to_string(), Style::Plain)).to_vec();
        Table { columns, rows: rows.iter().map(cells).collect() }
    }

    fn printed(table: &Table, columns: Option<usize>) -> String {
        let mut out = Vec::new();
        table
            .print(&mut Screen::styled_on(&mut out, columns, false))
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
