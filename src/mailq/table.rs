//! Tables whose columns line up and fit the terminal.
//!
//! Each column is as wide as its widest cell. If the lines are too long, columns give way in this
//! order, the widest of a kind first: long names, texts, names again; then columns that are marked
//! as optional are left out, the last one first, then texts. A cell that is cut ends in `…`, and so
//! does the line of titles where a column is left out, if there is room for the mark.

use crate::format::{cut, grouped, last_line, one_line, span_or_dash, width};
use crate::screen::{Screen, Style};
use std::io;

/// Blanks between columns.
const GAP: usize = 2;
/// Maximum width that cells are padded to without a line width: a channel and a DNS name.
///
/// Otherwise one name of a kilobyte would make all other lines as long.
const MAX_PADDED_WIDTH: usize = 320;
/// Minimum widths to which columns are cut, in this order.
///
/// An operator recognises a name by its beginning, and types it in the next command.
const CUTS: [(ColumnKind, usize); 3] =
    [(ColumnKind::Name, 32), (ColumnKind::Text, 20), (ColumnKind::Name, 20)];
/// Minimum widths of columns that are cut for a text.
///
/// They are cut in this order, so that the text is not left out.
const CUTS_FOR_TEXT: [(ColumnKind, usize); 2] = [(ColumnKind::Text, 12), (ColumnKind::Name, 16)];
/// Mark in the line of titles where a column is left out.
const MARK_OF_COLUMNS: &str = "  …";
/// Minimum width of a column that is cut as a last resort.
const MIN_CUT_WIDTH: usize = 8;

/// Alignment of a column, and how it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// Numbers: aligned right.
    Number,
    /// Short words: aligned left.
    Word,
    /// Names: aligned left, cut if there is no room.
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
    /// Left out if there is no room.
    pub is_optional: bool,
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
        Column { title, kind, is_optional: false, cell: Box::new(cell) }
    }

    /// Marks a column that is left out if there is no room.
    pub(crate) fn optional(self) -> Column<'c, T> {
        Column { is_optional: true, ..self }
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
    Table::new(columns, things).print(screen)
}

/// A table with all its cells, which are printable.
pub(crate) struct Table {
    /// Its columns.
    pub columns: Vec<TableColumn>,
    /// Rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableColumn {
    /// The title.
    pub title: &'static str,
    /// Alignment.
    pub kind: ColumnKind,
    /// Left out if there is no room.
    pub is_optional: bool,
}

impl Table {
    /// Creates a table of these things.
    pub(crate) fn new<'t, T: 't>(
        columns: &[Column<'_, T>],
        things: impl IntoIterator<Item = &'t T>,
    ) -> Table {
        let row = |thing| columns.iter().map(|column| (column.cell)(thing)).collect();
        let head = |&Column { title, kind, is_optional, .. }: &Column<'_, T>| TableColumn {
            title,
            kind,
            is_optional,
        };
        Table {
            columns: columns.iter().map(head).collect(),
            rows: things.into_iter().map(row).collect(),
        }
    }

    /// Prints the table.
    pub(crate) fn print(&self, screen: &mut Screen<'_>) -> io::Result<()> {
        for line in self.lines(screen.columns()) {
            line.iter().try_for_each(|(text, style)| screen.styled(text, *style))?;
            screen.line(&[])?;
        }
        Ok(())
    }

    /// The lines of the table, that of the titles first, each in parts.
    ///
    /// `columns` is their maximum width.
    pub(crate) fn lines(&self, columns: Option<usize>) -> impl Iterator<Item = Vec<Cell>> {
        let (widths, is_cut) = (self.widths(columns), columns.is_some());
        let title = |column: &TableColumn| (column.title.to_string(), Style::Title);
        let titles: Vec<Cell> = self.columns.iter().map(title).collect();
        let mut titles = self.line(&titles, &widths, is_cut);
        let all = titles.iter().map(|(text, _)| width(text)).sum::<usize>();
        if widths.contains(&0)
            && columns.is_some_and(|columns| all + width(MARK_OF_COLUMNS) <= columns)
        {
            titles.push((MARK_OF_COLUMNS.to_string(), Style::Plain));
        }
        let rows = self.rows.iter().map(move |row| self.line(row, &widths, is_cut));
        std::iter::once(titles).chain(rows)
    }

    fn line(&self, row: &[Cell], widths: &[usize], is_cut: bool) -> Vec<Cell> {
        let mut line = Vec::with_capacity(2 * row.len());
        // Blanks only come before text, so that no line ends in blanks.
        let mut blanks = 0;
        for (((text, style), column), room) in row.iter().zip(&self.columns).zip(widths) {
            if *room == 0 {
                continue;
            }
            let shown = if is_cut { cut(text, *room) } else { text.clone() };
            let missing = room.saturating_sub(width(&shown));
            if column.kind == ColumnKind::Number {
                blanks += missing;
            }
            if !shown.is_empty() {
                line.push((" ".repeat(blanks), Style::Plain));
                line.push((shown, *style));
                blanks = 0;
            }
            blanks += GAP + if column.kind == ColumnKind::Number { 0 } else { missing };
        }
        line
    }

    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let cells = |place: usize| self.rows.iter().map(move |row| width(&row[place].0));
        let natural = |(place, column): (usize, &TableColumn)| {
            cells(place).max().unwrap_or(0).max(width(column.title))
        };
        let natural: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        let mut widths = natural.clone();
        let Some(columns) = columns else {
            return widths.into_iter().map(|width| width.min(MAX_PADDED_WIDTH)).collect();
        };
        for (kind, min) in CUTS {
            self.narrow(kind, min, &mut widths, columns);
        }
        let is_name = |column: &TableColumn| column.kind == ColumnKind::Name;
        let has_names = self.columns.iter().any(is_name);
        let texts = self.places(|column| has_names && column.kind == ColumnKind::Text);
        for place in self.places(|column| column.is_optional).rev() {
            if excess(&widths, columns) > 0 {
                widths[place] = 0;
            }
        }
        for (kind, min) in CUTS_FOR_TEXT {
            self.narrow(kind, min, &mut widths, columns);
        }
        if excess(&widths, columns) > 0 {
            texts.for_each(|place| widths[place] = 0);
        }
        self.narrow(ColumnKind::Text, MIN_CUT_WIDTH, &mut widths, columns);
        self.narrow(ColumnKind::Name, MIN_CUT_WIDTH, &mut widths, columns);
        // A column that was left out may leave more room than was missing.
        let mut room = columns.saturating_sub(length(&widths));
        let is_text = |column: &TableColumn| column.kind == ColumnKind::Text;
        for place in self.places(is_name).chain(self.places(is_text)) {
            if widths[place] > 0 {
                let more = room.min(natural[place] - widths[place]);
                widths[place] += more;
                room -= more;
            }
        }
        widths
    }

    fn places(
        &self,
        is_it: impl Fn(&TableColumn) -> bool,
    ) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.columns.len()).filter(move |place| is_it(&self.columns[*place]))
    }

    /// Narrows columns of this kind to at least `min`, the widest first, until lines fit.
    fn narrow(&self, kind: ColumnKind, min: usize, widths: &mut [usize], columns: usize) {
        while excess(widths, columns) > 0 {
            let of_kind = self.places(|column| column.kind == kind);
            match of_kind.filter(|place| widths[*place] > min).max_by_key(|place| widths[*place]) {
                Some(place) => widths[place] -= 1,
                None => return,
            }
        }
    }
}

/// Number of columns by which lines are too long.
fn excess(widths: &[usize], columns: usize) -> usize {
    length(widths).saturating_sub(columns)
}

/// Length of lines with columns of these widths, and with gaps between them.
fn length(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(rows: &[[&str; 4]]) -> Table {
        let columns = vec![
            ("DESTINATION", ColumnKind::Name),
            ("MSGS", ColumnKind::Number),
            ("WHY", ColumnKind::Word),
            ("LAST TEXT", ColumnKind::Text),
        ];
        let column = |(title, kind)| TableColumn { title, kind, is_optional: title == "WHY" };
        let columns = columns.into_iter().map(column).collect();
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
        let long = "451 4.4.1 the host does not want to talk to any host today";
        let table = table(&[
            ["smtp/mx.example.org", "1,234", "retry", long],
            ["smtp/a-very-long-name-of-a-host.example.org", "3", "", ""],
        ]);
        expect_test::expect![[r#"
            DESTINATION            MSGS  WHY    LAST TEXT
            smtp/mx.example.org   1,234  retry  451 4.4.1 the host …
            smtp/a-very-long-na…      3
        "#]]
        .assert_eq(&printed(&table, Some(56)));
        expect_test::expect![[r#"
            DESTINATION           MSGS  LAST TEXT  …
            smtp/mx.example.org  1,234  451 4.4.1 t…
            smtp/a-very-long-n…      3
        "#]]
        .assert_eq(&printed(&table, Some(40)));
        expect_test::expect![[r#"
            DESTINATION                     MSGS
            smtp/mx.example.org            1,234
            smtp/a-very-long-name-of-a-h…      3
        "#]]
        .assert_eq(&printed(&table, Some(36)));
        expect_test::expect![[r#"
            DESTINATION                                   MSGS  WHY    LAST TEXT
            smtp/mx.example.org                          1,234  retry  451 4.4.1 the host does not want to talk to any host today
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
