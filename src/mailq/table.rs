//! Columns of tables about things, and how tables are printed.

use crate::format::{grouped, last_line, one_line, span_or_dash};
use crate::screen::Screen;
use std::io;
use zsched_command_line::table::TableColumn;
pub(crate) use zsched_command_line::table::{Cell, ColumnKind, Style, Table};

/// A column of a table about things of type `T`.
pub(crate) struct Column<'c, T> {
    /// The title.
    pub title: &'static str,
    /// Alignment.
    pub kind: ColumnKind,
    /// Left out if there is no room.
    pub is_optional: bool,
    /// False if the table does not have it.
    is_shown: bool,
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
        Column { title, kind, is_optional: false, is_shown: true, cell: Box::new(cell) }
    }

    /// Marks a column that is left out if there is no room.
    pub(crate) fn optional(self) -> Column<'c, T> {
        Column { is_optional: true, ..self }
    }

    /// Leaves out the column unless a condition is met.
    pub(crate) fn only_if(self, is_shown: bool) -> Column<'c, T> {
        Column { is_shown, ..self }
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
    for line in table(columns, things).lines(screen.columns()) {
        line.iter().try_for_each(|(text, style)| screen.styled(text, *style))?;
        screen.line(&[])?;
    }
    Ok(())
}

/// Creates a table of these things.
pub(crate) fn table<'t, T: 't>(
    columns: &[Column<'_, T>],
    things: impl IntoIterator<Item = &'t T>,
) -> Table {
    let columns = columns.iter().filter(|column| column.is_shown);
    let row = |thing| columns.clone().map(|column| (column.cell)(thing)).collect();
    let head = |&Column { title, kind, is_optional, .. }: &Column<'_, T>| TableColumn {
        title: title.into(),
        kind,
        is_optional,
    };
    Table {
        columns: columns.clone().map(head).collect(),
        rows: things.into_iter().map(row).collect(),
    }
}
