//! Output on a terminal or into a file, and quoting of foreign text.

use memchr::memmem;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
pub(crate) use zsched_command_line::table::Style;
use zsched_format::printable;

/// Prints text after making it printable, with styles where there is colour.
///
/// Addresses and texts of agents can contain anything. A pipe gets the same form as a terminal,
/// since it can end in one.
pub(crate) struct Screen<'w> {
    out: Box<dyn Write + 'w>,
    /// Output that is held back.
    held: Option<Vec<u8>>,
    columns: Option<usize>,
    has_colour: bool,
    /// True if the terminal lacks the mark for a cut.
    is_ascii: bool,
}

impl<'w> Screen<'w> {
    /// Prints on `out`, without styles and limits.
    pub(crate) fn new(out: impl Write + 'w) -> Screen<'w> {
        Screen::styled_on(out, None, false)
    }

    /// Prints on `out`. `columns` is the maximum line width, if any.
    pub(crate) fn styled_on(
        out: impl Write + 'w,
        columns: Option<usize>,
        has_colour: bool,
    ) -> Screen<'w> {
        Screen { out: Box::new(out), held: None, columns, has_colour, is_ascii: false }
    }

    /// Prints on standard output, like this terminal.
    pub(crate) fn of_stdout(terminal: Terminal) -> Screen<'static> {
        let out = io::BufWriter::new(io::stdout().lock());
        let screen = Screen::styled_on(out, terminal.columns, terminal.has_colour);
        Screen { is_ascii: terminal.is_ascii, ..screen }
    }

    /// Maximum line width. The callers cut their lines to it.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut bytes = Cow::Borrowed(bytes);
        while let Some(at) = memmem::find(&bytes, "…".as_bytes()).filter(|_| self.is_ascii) {
            bytes.to_mut().splice(at..at + "…".len(), *b"~");
        }
        let bytes = &*bytes;
        match &mut self.held {
            Some(held) => held.write_all(bytes),
            None => self.out.write_all(bytes),
        }
    }

    /// Prints text within a line.
    pub(crate) fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.write(printable::line(text).as_bytes())
    }

    /// Prints a line of several parts.
    pub(crate) fn line(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for part in parts {
            self.text(part)?;
        }
        self.write(b"\n")
    }

    /// Prints a line that is wrapped at words, if there is a maximum line width.
    pub(crate) fn wrapped(&mut self, line: &str) -> io::Result<()> {
        let lines = wrap(line, self.columns);
        lines.into_iter().try_for_each(|line| writeln!(self, "{line}"))
    }

    /// Prints printable parts in styles, with a blank between them, as one wrapped line.
    pub(crate) fn wrapped_parts(&mut self, parts: &[(String, Style)]) -> io::Result<()> {
        // Wrapping does not count the escape sequences of styles. A style is in force until it is
        // ended, also on the next line.
        let parts = parts.iter().map(|(text, style)| self.in_style(&printable::line(text), *style));
        let line = parts.collect::<Vec<String>>().join(" ");
        let lines = wrap_printable(&line, self.columns);
        lines.into_iter().try_for_each(|line| self.write(format!("{line}\n").as_bytes()))
    }

    /// Prints what `write!` formats.
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.write(printable::lines(&text.to_string()).as_bytes())
    }

    /// Prints text in a style.
    pub(crate) fn styled(&mut self, text: &str, style: Style) -> io::Result<()> {
        let text = self.in_style(&printable::lines(text), style);
        self.write(text.as_bytes())
    }

    fn in_style(&self, text: &str, style: Style) -> String {
        match style.code().filter(|_| self.has_colour) {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_string(),
        }
    }

    /// Prints a table by `print`, with one of `details` below each row.
    pub(crate) fn with_details<E: From<io::Error>>(
        &mut self,
        details: &[String],
        print: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.held.replace(Vec::new());
        let printed = print(self);
        let table = std::mem::replace(&mut self.held, before).unwrap_or_default();
        for (index, line) in table.split_inclusive(|byte| *byte == b'\n').enumerate() {
            self.write(line)?;
            // The first line has the titles.
            if let Some(detail) = index.checked_sub(1).and_then(|row| details.get(row)) {
                self.styled(detail, Style::Dim)?;
                self.line(&[])?;
            }
        }
        printed
    }

    /// Clears the terminal.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.write(b"\x1b[H\x1b[2J\x1b[3J")
    }

    /// Holds back the output from now on.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Length of the output that is held back, in bytes.
    pub(crate) fn held_len(&self) -> usize {
        self.held.as_ref().map_or(0, Vec::len)
    }

    /// Prints the output that is held back, and holds back no more.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        self.out.write_all(&self.held.take().unwrap_or_default())
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Makes a line printable, and wraps it at words to `columns`.
///
/// The further lines are indented by four more columns than the first.
pub(crate) fn wrap(line: &str, columns: Option<usize>) -> Vec<String> {
    wrap_printable(&printable::line(line), columns)
}

fn wrap_printable(line: &str, columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns else {
        return vec![line.to_string()];
    };
    let indent = " ".repeat(line.len() - line.trim_start_matches(' ').len() + 4);
    let options = textwrap::Options::new(columns).subsequent_indent(&indent);
    textwrap::wrap(line, options).into_iter().map(Cow::into_owned).collect()
}

/// Properties of standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// True if it is a terminal.
    pub is_terminal: bool,
    /// Maximum line width.
    pub columns: Option<usize>,
    /// True if colours are shown. `NO_COLOR` and `TERM=dumb` switch them off.
    pub has_colour: bool,
    /// True if it is a terminal in a locale without UTF-8.
    pub is_ascii: bool,
}

impl Terminal {
    /// Examines standard output.
    ///
    /// `columns` overrides the line width of the terminal.
    pub(crate) fn of_stdout(columns: Option<usize>) -> Terminal {
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
            is_ascii: is_terminal && !has_utf8(|name| std::env::var(name).ok()),
        }
    }
}

/// Returns true if the variables of the locale select UTF-8.
fn has_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let mut names = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let locale = names.find_map(|name| variable(name).filter(|value| !value.is_empty()));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8")
    })
}

/// Prints a message on standard error.
///
/// If standard error is closed, the exit status has to do.
pub(crate) fn warn(message: impl fmt::Display) {
    printable::print_error("mailq", message);
}

/// Makes text printable, on one line.
pub(crate) fn visible(text: &[u8]) -> String {
    printable::line(text).into_owned()
}

/// Quotes the beginning of a foreign text, for a message about it.
pub(crate) fn quote(text: &[u8]) -> String {
    const MAX_QUOTE_LEN: usize = 60;
    let shown = visible(text).replace('\t', " ");
    match shown.char_indices().nth(MAX_QUOTE_LEN) {
        Some((end, _)) => format!("\"{}...\"", &shown[..end]),
        None => format!("\"{shown}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screen_escapes_control_characters() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out);
        screen.line(&[b"a\r", b"\x1b\xff"]).expect("a Vec takes everything");
        writeln!(screen, "\u{9b}\u{202e}").expect("a Vec takes everything");
        drop(screen);
        assert_eq!(out, b"a ^[\\xff\n\\u{9b}\\u{202e}\n");
    }

    #[test]
    fn mark_of_cut_text_is_plain_where_locale_has_no_utf8() {
        for (variables, expected) in [
            (&[][..], false),
            (&[("LANG", "C.UTF-8")], true),
            (&[("LANG", "de_DE.utf8"), ("LC_ALL", "")], true),
            (&[("LANG", "C.UTF-8"), ("LC_CTYPE", "C")], false),
        ] {
            let value = |name: &str| variables.iter().find(|(of, _)| *of == name);
            let found = has_utf8(|name| value(name).map(|(_, value)| value.to_string()));
            assert_eq!(found, expected, "{variables:?}");
        }
        let mut out = Vec::new();
        let mut screen = Screen { is_ascii: true, ..Screen::new(&mut out) };
        writeln!(screen, "a long te…, and an\u{e9}").expect("a Vec takes everything");
        drop(screen);
        assert_eq!(out, "a long te~, and an\u{e9}\n".as_bytes());
    }

    #[test]
    fn wrapped_parts_keep_their_styles() {
        let part = |text: &str, style| (text.to_string(), style);
        let parts = [part("two agents;", Style::Plain), part("3 on hold;", Style::Warning)];
        let mut out = Vec::new();
        let mut screen = Screen::styled_on(&mut out, Some(14), true);
        screen.wrapped_parts(&parts).expect("a Vec takes everything");
        drop(screen);
        assert_eq!(out, b"two agents; \x1b[33m3\n    on hold;\x1b[0m\n");
    }

    #[test]
    fn quote_of_long_text_is_cut() {
        assert_eq!(quote(b"a\tb"), "\"a b\"");
        assert_eq!(quote("\u{e9}".repeat(100).as_bytes()).chars().count(), 65);
    }
}
