//! Errors and warnings about a configuration file, with their positions.
//!
//! ```text
//! scheduler.cf:14:2: error: unknown keyword `maxrng`; did you mean `maxring`?
//!         maxrng=5
//!         ^
//! ```
//!
//! All of them are collected, up to a limit, and returned in the order of the file.

use std::fmt;
use std::path::Path;
use std::rc::Rc;
use zsched_format::printable::{self, is_printable};

/// Maximum number of errors, after which a file is not read any further.
const MAX_ERRORS: usize = 100;
/// Maximum number of warnings kept of one file; of further ones only the number is reported.
const MAX_WARNINGS: usize = 100;
/// Maximum length quoted of a source line on either side of the position, in characters.
const MAX_EXCERPT_REACH: usize = 80;
/// Maximum length of a word of the file in a message, in characters.
const MAX_QUOTE_LEN: usize = 60;
/// Beginning of the warning about a variable without a value.
pub(crate) const UNKNOWN_VARIABLE_PREFIX: &str = "the ZENV file has no ";
/// Minimum length of a common prefix for a suggestion, in bytes.
const MIN_SUGGESTION_PREFIX: usize = 4;

/// A position in a file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The line.
    pub(crate) line: u32,
    /// The column.
    pub(crate) column: u32,
}

/// An error or a warning about a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// True if it makes the file unusable. A warning is about a probable mistake.
    is_error: bool,
    /// The path of the file, as it was given.
    pub file: Rc<Path>,
    /// The position; `None` if it concerns the file as a whole.
    pub(crate) position: Option<Position>,
    /// The message, in one line.
    pub message: String,
    excerpt: Option<Excerpt>,
}

/// The source line, or its part near the position, and the indentation of the caret.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    line: String,
    indent: String,
}

impl Diagnostic {
    /// Creates an error that concerns the file as a whole.
    pub fn of_file(file: &Path, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            is_error: true,
            file: file.into(),
            position: None,
            message: message.into(),
            excerpt: None,
        }
    }

    /// Returns true if it makes the file unusable.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// Formats as `file:line:column: message`, for a log that has its own severity.
    pub fn in_one_line(&self) -> String {
        format!("{}: {}", self.location(), self.message)
    }

    /// Returns true if it is about a variable that the ZENV file does not define.
    pub fn is_unknown_variable(&self) -> bool {
        self.message.starts_with(UNKNOWN_VARIABLE_PREFIX)
    }

    fn location(&self) -> String {
        let file = self.file.display();
        self.position.map_or(file.to_string(), |at| format!("{file}:{}:{}", at.line, at.column))
    }
}

impl fmt::Display for Diagnostic {
    /// Formats as `file:line:column: error: message`, the source line, and a caret under the
    /// column.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.is_error() { "error" } else { "warning" };
        write!(f, "{}: {severity}: {}", self.location(), self.message)?;
        if let Some(Excerpt { line, indent }) = &self.excerpt {
            write!(f, "\n{line}\n{indent}^")?;
        }
        Ok(())
    }
}

/// An error in a value, with its offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValueError {
    /// Offset in the value, in bytes.
    pub at: usize,
    /// The message, in one line.
    pub message: String,
}

impl ValueError {
    /// Creates an error at a byte of a value.
    pub fn new(at: usize, message: impl Into<String>) -> ValueError {
        ValueError { at, message: message.into() }
    }

    /// Adds `start` to the offset, for a value inside a larger text.
    pub(crate) fn offset_by(self, start: usize) -> ValueError {
        ValueError { at: start + self.at, ..self }
    }
}

/// Collects the diagnostics of one file.
pub struct DiagnosticSink<'a> {
    file: Rc<Path>,
    text: &'a [u8],
    line_starts: Vec<usize>,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

impl<'a> DiagnosticSink<'a> {
    /// Creates the sink for a file with this text.
    pub fn new(file: Rc<Path>, text: &'a [u8]) -> DiagnosticSink<'a> {
        let line_ends = memchr::memchr_iter(b'\n', text).map(|end| end + 1);
        let line_starts = std::iter::once(0).chain(line_ends).collect();
        DiagnosticSink { file, text, line_starts, diagnostics: Vec::new(), errors: 0, warnings: 0 }
    }

    /// Adds an error at a byte of the file.
    pub fn error(&mut self, offset: usize, message: impl Into<String>) {
        self.errors += 1;
        if self.errors <= MAX_ERRORS {
            self.add(true, offset, message.into());
        }
    }

    /// Adds a warning at a byte of the file.
    pub fn warning(&mut self, offset: usize, message: impl Into<String>) {
        self.warnings += 1;
        if self.warnings <= MAX_WARNINGS {
            self.add(false, offset, message.into());
        }
    }

    /// Adds an error that concerns the file as a whole.
    pub fn file_error(&mut self, message: impl Into<String>) {
        self.errors += 1;
        self.diagnostics.push(Diagnostic::of_file(&self.file, message));
    }

    /// The line that contains a byte of the file.
    pub fn line_of(&self, offset: usize) -> u32 {
        self.line_starts.partition_point(|start| *start <= offset) as u32
    }

    /// Returns true if there are no errors.
    pub fn is_usable(&self) -> bool {
        self.errors == 0
    }

    /// Returns true if there are more errors than are kept.
    pub fn is_full(&self) -> bool {
        self.errors > MAX_ERRORS
    }

    /// Returns all diagnostics, in the order of the file.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.position);
        if self.warnings > MAX_WARNINGS {
            let message = format!("and {} more warnings", self.warnings - MAX_WARNINGS);
            let last = Diagnostic::of_file(&self.file, message);
            self.diagnostics.push(Diagnostic { is_error: false, ..last });
        }
        if self.is_full() {
            let message = "too many errors; the rest of the file has not been looked at";
            self.diagnostics.push(Diagnostic::of_file(&self.file, message));
        }
        self.diagnostics
    }

    fn add(&mut self, is_error: bool, offset: usize, message: String) {
        let line = self.line_of(offset);
        let start = self.line_starts[line as usize - 1];
        let column =
            String::from_utf8_lossy(&self.text[start..offset.min(self.text.len())]).chars().count();
        self.diagnostics.push(Diagnostic {
            is_error,
            file: Rc::clone(&self.file),
            position: Some(Position { line, column: column as u32 + 1 }),
            message,
            excerpt: Some(self.excerpt(start, column)),
        });
    }

    /// The part of a line around a column (from 0). `start` is the line's offset.
    fn excerpt(&self, start: usize, column: usize) -> Excerpt {
        let rest = &self.text[start..];
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        let line = String::from_utf8_lossy(line);
        let printable = |c: char| if is_printable(c) || c == '\t' { c } else { '\u{fffd}' };
        let skipped = column.saturating_sub(MAX_EXCERPT_REACH);
        let shown: String = line
            .trim_end()
            .chars()
            .skip(skipped)
            .take(2 * MAX_EXCERPT_REACH)
            .map(printable)
            .collect();
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let indent = line.chars().skip(skipped).take(column - skipped).map(blank).collect();
        Excerpt { line: shown, indent }
    }
}

/// Formats a word of the file for a message: in back quotes, shortened, and printable.
pub fn quote(text: &str) -> String {
    let start: String = text.chars().take(MAX_QUOTE_LEN).collect();
    let rest = if text.chars().nth(MAX_QUOTE_LEN).is_some() { "…" } else { "" };
    format!("`{}{rest}`", printable::line(&start))
}

/// Finds the candidate that `word` is probably a misspelling of.
pub fn nearest(
    word: &str,
    candidates: impl IntoIterator<Item = &'static str>,
) -> Option<&'static str> {
    if word.len() > MAX_QUOTE_LEN {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let tolerance = 1 + word.chars().count() / 4;
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let known = candidate.to_ascii_lowercase();
            let distance = strsim::levenshtein(&word, &known);
            // For example `retry` for `retries`: all letters but the last match.
            let enough = MIN_SUGGESTION_PREFIX.max(word.len().saturating_sub(1));
            let is_near = distance <= tolerance || common_prefix(&word, &known) >= enough;
            is_near.then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Length of the common prefix of two words, in bytes.
fn common_prefix(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostic_display_points_at_character() {
        let text = "*/*\n\tmaxrng=5 näh=1\n".as_bytes();
        let mut sink = DiagnosticSink::new(Path::new("a.cf").into(), text);
        sink.warning(5, "first");
        sink.error(18, "second");
        sink.error(text.len(), "at the end");
        let shown: Vec<String> = sink.finish().iter().map(Diagnostic::to_string).collect();
        assert_eq!(
            shown,
            [
                "a.cf:2:2: warning: first\n\tmaxrng=5 näh=1\n\t^",
                "a.cf:2:14: error: second\n\tmaxrng=5 näh=1\n\t            ^",
                "a.cf:3:1: error: at the end\n\n^",
            ]
        );
    }

    #[test]
    fn report_cuts_long_lines_and_long_lists() {
        let text = vec![b'x'; 100_000];
        let mut sink = DiagnosticSink::new(Path::new("a.cf").into(), &text);
        (0..1000).for_each(|_| sink.warning(50_000, "strange"));
        (0..1000).for_each(|_| sink.error(50_000, "wrong"));
        assert!(sink.is_full());
        let diagnostics = sink.finish();
        assert!(diagnostics.iter().all(|diagnostic| diagnostic.to_string().len() < 300));
        assert_eq!(diagnostics.len(), MAX_WARNINGS + MAX_ERRORS + 2);
        assert_eq!(diagnostics[200].to_string(), "a.cf: warning: and 900 more warnings");
        assert_eq!(
            diagnostics[201].to_string(),
            "a.cf: error: too many errors; the rest of the file has not been looked at"
        );
    }

    #[test]
    fn quote_replaces_control_characters() {
        assert_eq!(quote("a\u{1b}[2Jb\n"), "`a^[[2Jb^J`");
        assert_eq!(quote(&"x".repeat(1000)).chars().count(), MAX_QUOTE_LEN + 3);
    }

    #[test]
    fn nearest_finds_misspelled_word() {
        let known = ["maxring", "maxta", "interval", "retries", "user"];
        for (word, expected) in [
            ("maxrng", Some("maxring")),
            ("MAXRINGG", Some("maxring")),
            ("intervall", Some("interval")),
            ("retrys", Some("retries")),
            ("retry", Some("retries")),
            ("usr", Some("user")),
            ("frob", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }
}
