//! What people read: lines of some length, with or without colour.

use std::io::{self, IsTerminal, Write};
use zsched_format::printable;

/// How something looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Style {
    /// Like everything else.
    #[default]
    Plain,
    /// Above a column, or before a value.
    Title,
    /// All is well.
    Good,
    /// To be looked at.
    Odd,
    /// Trouble.
    Bad,
    /// Not that important.
    Faint,
}

impl Style {
    /// The parameters of the escape sequence.
    fn code(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Title => Some("1"),
            Style::Good => Some("32"),
            Style::Odd => Some("33"),
            Style::Bad => Some("31"),
            Style::Faint => Some("2"),
        }
    }
}

/// Where it is printed, after it is made printable.
pub struct Paper<W> {
    out: W,
    columns: Option<usize>,
    has_colour: bool,
}

impl<W: Write> Paper<W> {
    /// Lines of at most so many columns, if that matters.
    pub fn new(out: W, columns: Option<usize>, has_colour: bool) -> Paper<W> {
        Paper { out, columns, has_colour }
    }

    /// How long lines may be.
    pub fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Prints without a style.
    pub fn plain(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(printable::lines(text).as_bytes())
    }

    /// Prints in a style.
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

    /// Has everything shown that was printed.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// An empty page for the same terminal.
    pub fn page(&self) -> Paper<Vec<u8>> {
        Paper::new(Vec::new(), self.columns, self.has_colour)
    }

    /// Prints a page with its styles.
    pub fn add(&mut self, page: &Paper<Vec<u8>>) -> io::Result<()> {
        self.out.write_all(&page.out)
    }

    /// Makes room for everything anew, on a terminal.
    pub fn clear(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[H\x1b[2J\x1b[3J")
    }
}

/// What is known of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Whether it is one.
    pub is_one: bool,
    /// How long its lines are.
    pub columns: Option<usize>,
    /// Whether it shows colours, and somebody wants to see them.
    pub has_colour: bool,
}

impl Terminal {
    /// Looks at standard output. `NO_COLOR` and `TERM=dumb` in the environment count.
    pub fn of_stdout(columns: Option<usize>) -> Terminal {
        let is_one = io::stdout().is_terminal();
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let found = || {
            let size = crossterm::terminal::size().ok().filter(|_| is_one);
            size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
        };
        Terminal {
            is_one,
            columns: columns.or_else(found),
            has_colour: is_one && !is_dumb && !is_set("NO_COLOR"),
        }
    }
}
