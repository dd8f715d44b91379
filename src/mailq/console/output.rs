//! Styled output of commands, with or without colour.

use std::io::{self, IsTerminal, Write};
use zsched_format::printable;

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
    /// Parameters of the escape sequence (SGR).
    fn code(self) -> Option<&'static str> {
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

/// Writer that makes text printable and adds styles.
pub struct StyledWriter<W> {
    out: W,
    columns: Option<usize>,
    has_colour: bool,
}

impl<W: Write> StyledWriter<W> {
    /// Creates a writer. `columns` is the maximum line width, if any.
    pub fn new(out: W, columns: Option<usize>, has_colour: bool) -> StyledWriter<W> {
        StyledWriter { out, columns, has_colour }
    }

    /// Maximum line width. The callers cut their lines to it.
    pub fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Prints text without a style.
    pub fn plain(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(printable::lines(text).as_bytes())
    }

    /// Prints text in a style.
    pub fn styled(&mut self, text: &str, style: Style) -> io::Result<()> {
        match style.code().filter(|_| self.has_colour) {
            Some(code) => write!(self.out, "\x1b[{code}m{}\x1b[0m", printable::lines(text)),
            None => self.plain(text),
        }
    }

    /// Prints a line.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.plain(text)?;
        self.end_line()
    }

    /// Ends a line.
    pub fn end_line(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Creates an empty buffer with the same line width and colours.
    pub fn page(&self) -> StyledWriter<Vec<u8>> {
        StyledWriter::new(Vec::new(), self.columns, self.has_colour)
    }

    /// Prints a buffer with its styles.
    pub fn add(&mut self, page: &StyledWriter<Vec<u8>>) -> io::Result<()> {
        self.out.write_all(&page.out)
    }

    /// Clears the terminal.
    pub fn clear(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[H\x1b[2J\x1b[3J")
    }
}

/// Properties of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terminal {
    /// True if it is a terminal.
    pub is_terminal: bool,
    /// Maximum line width.
    pub columns: Option<usize>,
    /// True if colours are shown. `NO_COLOR` and `TERM=dumb` switch them off.
    pub has_colour: bool,
}

impl Terminal {
    /// Examines standard output.
    ///
    /// `columns` overrides the line width of the terminal.
    pub(super) fn of_stdout(columns: Option<usize>) -> Terminal {
        let is_terminal = io::stdout().is_terminal();
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let found = || {
            let size = crossterm::terminal::size().ok().filter(|_| is_terminal);
            size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
        };
        Terminal {
            is_terminal,
            columns: columns.or_else(found),
            has_colour: is_terminal && !is_dumb && !is_set("NO_COLOR"),
        }
    }
}
