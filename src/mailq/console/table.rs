//! Tables whose columns line up and fit the terminal.
//!
//! Each column is as wide as its widest cell. Where the lines would be too long, texts give way, the widest first;
//! and where that is not enough, they are left out, so that names can be read: those are what one says in the next
//! command. Only then are names cut.

use super::paper::{Paper, Style};
use super::words::{cut, width};
use std::io::{self, Write};

/// What is between columns.
const GAP: usize = 2;
/// No column that may be cut gets narrower than this.
const NARROWEST: usize = 8;
/// Where lines may have any length, no cell is filled up to more than this: one endless name must not make
/// all other lines as long.
const WIDEST: usize = 80;

/// How the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Numbers: to the right.
    Number,
    /// Short words: to the left.
    Word,
    /// Names: to the left, and cut where there is no room in any other way.
    Name,
    /// Texts: to the left, and cut or left out where there is no room.
    Text,
}

/// A table in the making.
pub struct Table {
    columns: Vec<(&'static str, Column)>,
    rows: Vec<Vec<(String, Style)>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&'static str, Column)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a line. There must be a cell for each column; there is nothing in them that a terminal would obey.
    pub fn row(&mut self, cells: Vec<(String, Style)>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Prints it.
    pub fn print<W: Write>(&self, paper: &mut Paper<W>) -> io::Result<()> {
        let widths = self.widths(paper.columns());
        let titles: Vec<(String, Style)> =
            self.columns.iter().map(|(title, _)| (title.to_string(), Style::Title)).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            self.print_row(row, &widths, paper)?;
        }
        Ok(())
    }

    fn print_row<W: Write>(
        &self,
        row: &[(String, Style)],
        widths: &[usize],
        paper: &mut Paper<W>,
    ) -> io::Result<()> {
        // Blanks are only printed in front of something.
        let mut blanks = 0;
        for (((text, style), (_, column)), room) in row.iter().zip(&self.columns).zip(widths) {
            let shown = match paper.columns() {
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
                paper.plain(&" ".repeat(blanks))?;
                paper.styled(&shown, *style)?;
                blanks = 0;
            }
            blanks += GAP + if *column == Column::Number { 0 } else { missing };
        }
        paper.end_line()
    }

    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let cells = |place: usize| self.rows.iter().map(move |row| width(&row[place].0));
        let natural = |(place, (title, _)): (usize, &(&str, Column))| {
            cells(place).max().unwrap_or(0).max(width(title))
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        let Some(columns) = columns else {
            return widths.into_iter().map(|width| width.min(WIDEST)).collect();
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

    /// Takes from columns of this kind what they are too wide, the widest first.
    fn narrow(&self, kind: Column, widths: &mut [usize], columns: usize) {
        loop {
            let excess = excess(widths, columns);
            let can_give =
                |place: &usize| self.columns[*place].1 == kind && widths[*place] > NARROWEST;
            let widest = (0..widths.len()).filter(can_give).max_by_key(|place| widths[*place]);
            match widest {
                Some(place) if excess > 0 => {
                    // Down to the next one, and then both.
                    let others =
                        (0..widths.len()).filter(|other| can_give(other) && *other != place);
                    let next = others.map(|other| widths[other]).max().unwrap_or(NARROWEST);
                    let step = excess.min((widths[place] - next.max(NARROWEST)).max(1));
                    widths[place] -= step;
                }
                _ => return,
            }
        }
    }
}

/// How much longer lines are than they may be.
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
        table.print(&mut Paper::new(&mut out, columns, false)).expect("a Vec takes everything");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn columns_line_up_and_texts_give_way() {
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
