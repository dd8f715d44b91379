//! Tables whose columns line up and fit the terminal.
//!
//! Each column is as wide as its widest cell. If the lines are too long, columns give way in this
//! order, the widest of a kind first: titles that are longer than what is below them, long names,
//! texts, names again; then columns that are marked as optional are left out, the last one first,
//! then texts. A cell that is cut ends in `…`, and so does the line of titles where a column is
//! left out, if there is room for the mark.

use std::borrow::Cow;
use zsched_format::printable::{cut, width};

/// Blanks between columns.
const GAP: usize = 2;
/// Maximum width that cells are padded to without a line width: a channel and a DNS name.
///
/// Otherwise one name of a kilobyte would make all other lines as long.
const MAX_PADDED_WIDTH: usize = 320;
/// Minimum width to which titles are cut.
const MIN_TITLE_WIDTH: usize = 16;
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
/// Minimum widths of columns that are cut as a last resort.
const LAST_CUTS: [(ColumnKind, usize); 2] = [(ColumnKind::Text, 8), (ColumnKind::Name, 8)];

/// Style of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Style {
    /// No emphasis.
    #[default]
    Plain,
    /// Column title, or name before a value.
    Title,
    /// Good state.
    Good,
    /// Unusual state.
    Warning,
    /// Error.
    Error,
    /// Less important text.
    Dim,
}

impl Style {
    /// Parameters of the escape sequence (SGR), if it has any.
    pub fn code(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Title => Some("1"),
            Style::Good => Some("32"),
            Style::Warning => Some("33"),
            Style::Error => Some("31"),
            Style::Dim => Some("2"),
        }
    }
}

/// Alignment of a column, and how it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
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
pub type Cell = (String, Style);

/// A column of a table.
#[derive(Clone, Debug)]
pub struct TableColumn {
    /// The title.
    pub title: Cow<'static, str>,
    /// Alignment.
    pub kind: ColumnKind,
    /// Left out if there is no room.
    pub is_optional: bool,
}

/// A table with all its cells, which are printable.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<TableColumn>,
    /// Rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The lines of the table, that of the titles first, each in parts.
    ///
    /// `columns` is their maximum width.
    pub fn lines(&self, columns: Option<usize>) -> impl Iterator<Item = Vec<Cell>> {
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
            let (before, after) =
                if column.kind == ColumnKind::Number { (missing, 0) } else { (0, missing) };
            blanks += before;
            if !shown.is_empty() {
                line.push((" ".repeat(blanks), Style::Plain));
                line.push((shown, *style));
                blanks = 0;
            }
            blanks += GAP + after;
        }
        line
    }

    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let cells = |at: usize| self.rows.iter().map(|row| width(&row[at].0)).max().unwrap_or(0);
        let cells: Vec<usize> = (0..self.columns.len()).map(cells).collect();
        let titles = self.columns.iter().map(|column| width(&column.title));
        let natural: Vec<usize> = cells.iter().zip(titles).map(|(a, b)| b.max(*a)).collect();
        let mut widths = natural.clone();
        let Some(columns) = columns else {
            return widths.into_iter().map(|width| width.min(MAX_PADDED_WIDTH)).collect();
        };
        let kind = |kind: ColumnKind| {
            (0..self.columns.len()).filter(move |at| self.columns[*at].kind == kind)
        };
        let cut = |cuts: &[(ColumnKind, usize)], widths: &mut [usize]| {
            cuts.iter().for_each(|(of, min)| narrow(kind(*of), |_| *min, widths, columns));
        };
        narrow(0..self.columns.len(), |at| cells[at].max(MIN_TITLE_WIDTH), &mut widths, columns);
        cut(&CUTS, &mut widths);
        for at in (0..self.columns.len()).rev().filter(|at| self.columns[*at].is_optional) {
            if length(&widths) > columns {
                widths[at] = 0;
            }
        }
        cut(&CUTS_FOR_TEXT, &mut widths);
        if length(&widths) > columns && kind(ColumnKind::Name).next().is_some() {
            kind(ColumnKind::Text).for_each(|at| widths[at] = 0);
        }
        cut(&LAST_CUTS, &mut widths);
        // A column that was left out may leave more room than was missing.
        for at in kind(ColumnKind::Name).chain(kind(ColumnKind::Text)) {
            if widths[at] > 0 {
                let room = columns.saturating_sub(length(&widths));
                widths[at] += room.min(natural[at] - widths[at]);
            }
        }
        widths
    }
}

/// Narrows some columns to their minimum widths, the widest first, until lines fit.
fn narrow(
    places: impl Iterator<Item = usize> + Clone,
    min: impl Fn(usize) -> usize,
    widths: &mut [usize],
    columns: usize,
) {
    while length(widths) > columns {
        let wide = places.clone().filter(|at| widths[*at] > min(*at));
        let Some(widest) = wide.max_by_key(|at| widths[*at]) else { return };
        widths[widest] -= 1;
    }
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
        let column = |(title, kind): (&'static str, _)| TableColumn {
            title: title.into(),
            kind,
            is_optional: title == "WHY",
        };
        let columns = columns.into_iter().map(column).collect();
        let cells = |row: &[&str; 4]| row.map(|text| (text.to_string(), Style::Plain)).to_vec();
        Table { columns, rows: rows.iter().map(cells).collect() }
    }

    fn printed(table: &Table, columns: Option<usize>) -> String {
        let line = |parts: Vec<Cell>| parts.into_iter().map(|(text, _)| text).collect::<String>();
        table.lines(columns).map(|parts| line(parts) + "\n").collect()
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

    #[test]
    fn long_title_is_cut_and_column_left_out() {
        let titles = ["", "recipients", "queued", "a-title-of-thirty-characters-"];
        let column = |(place, title): (usize, &'static str)| {
            let kind = if place == 0 { ColumnKind::Name } else { ColumnKind::Number };
            TableColumn { title: title.into(), kind, is_optional: place > 0 }
        };
        let row = ["smtp/a-long-name-of-a-host.example", "12", "1,234,567", "3"];
        let row = row.map(|text| (text.to_string(), Style::Plain)).to_vec();
        let columns = titles.into_iter().enumerate().map(column).collect();
        let table = Table { columns, rows: vec![row] };
        expect_test::expect![[r#"
                                          recipients     queued  a-title-of-thir…
            smtp/a-long-name-of-a-host.…          12  1,234,567                 3
        "#]]
        .assert_eq(&printed(&table, Some(69)));
        expect_test::expect![[r#"
                                                recipients     queued
            smtp/a-long-name-of-a-host.example          12  1,234,567
        "#]]
        .assert_eq(&printed(&table, Some(58)));
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
