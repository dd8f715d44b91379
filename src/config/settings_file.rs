//! Files with one setting a line, a keyword and its words: `router.cf`, `smtpserver.cf`.
//!
//! Quotes keep blanks together, `#` begins a comment, `${NAME}` is a variable of the ZENV file.

use super::{
    Diagnostic, DiagnosticSink, Glob, MAX_READ_SIZE, ValueError, Zenv, nearest, parse_interval,
    quote,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Stores a setting in the draft of a configuration.
pub type Apply<T> = fn(&mut T, &Setting<'_>, &mut DiagnosticSink<'_>) -> Result<(), ValueError>;

/// A keyword, what follows it, and what it sets.
#[derive(Debug)]
pub struct Keyword<T> {
    /// The keyword itself.
    pub name: &'static str,
    /// What follows it, for messages.
    pub expected: &'static str,
    min_words: usize,
    max_words: usize,
    may_repeat: bool,
    apply: Apply<T>,
}

impl<T> Keyword<T> {
    /// A keyword that may stand once, with one word or up to `max_words`.
    pub const fn once(
        name: &'static str,
        expected: &'static str,
        max_words: usize,
        apply: Apply<T>,
    ) -> Keyword<T> {
        Keyword { name, expected, min_words: 1, max_words, may_repeat: false, apply }
    }

    /// A keyword that may stand several times, each time with at least `min_words`.
    pub const fn repeated(
        name: &'static str,
        expected: &'static str,
        min_words: usize,
        max_words: usize,
        apply: Apply<T>,
    ) -> Keyword<T> {
        Keyword { name, expected, min_words, max_words, may_repeat: true, apply }
    }
}

/// Makes an [`Apply`]: what a function reads from the first word goes into a field.
#[macro_export]
macro_rules! first_word {
    ($read:expr => $($field:ident).+) => {
        |draft, setting, _| {
            draft.$($field).+ = $read(&setting.words[0])?.into();
            Ok(())
        }
    };
}

/// A word of a line, and its offset in the file.
#[derive(Clone, Debug)]
pub struct Word {
    /// The word, without quotes and with the values of variables.
    pub text: String,
    /// Offset of its first byte in the file.
    pub at: usize,
}

impl Word {
    /// An error at this word.
    pub fn error(&self, message: impl Into<String>) -> ValueError {
        ValueError::new(self.at, message)
    }

    /// The word as an absolute path.
    pub fn path(&self) -> Result<PathBuf, ValueError> {
        let path = PathBuf::from(&self.text);
        match path.is_absolute() {
            true => Ok(path),
            false => {
                let shown = quote(&self.text);
                Err(self.error(format!("the path {shown} does not begin with a slash")))
            }
        }
    }

    /// The word as an interval.
    pub fn interval(&self) -> Result<Duration, ValueError> {
        parse_interval(&self.text).map_err(|error| self.error(error.message))
    }

    /// The word as a number from 1.
    pub fn number(&self) -> Result<u64, ValueError> {
        let number = self.text.parse().ok().filter(|number| (1..=1 << 40).contains(number));
        number.ok_or_else(|| self.error(format!("{} is no number from 1", quote(&self.text))))
    }

    /// The word as a number from 1, or `none`.
    pub fn limit(&self) -> Result<Option<u64>, ValueError> {
        if self.text == "none" { Ok(None) } else { self.number().map(Some) }
    }

    /// The word as a number of bytes, such as `50M`.
    pub fn size(&self) -> Result<u64, ValueError> {
        let digits = self.text.trim_end_matches(['k', 'K', 'M', 'G']);
        let shift = match &self.text[digits.len()..] {
            "" => Some(0),
            "k" | "K" => Some(10),
            "M" => Some(20),
            "G" => Some(30),
            _ => None,
        };
        let number = digits.parse::<u64>().ok().filter(|number| *number <= 1 << 40);
        let size = number.zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
        size.filter(|size| (1..=1 << 40).contains(size))
            .ok_or_else(|| self.error(format!("{} is no size such as 50M", quote(&self.text))))
    }

    /// The word as a pattern with wildcards, in lower case.
    pub fn pattern(&self, sink: &mut DiagnosticSink<'_>) -> Result<Glob, ValueError> {
        let mut warnings = Vec::new();
        let glob = Glob::parse(&self.text.to_lowercase(), self.at, &mut warnings)?;
        warnings.into_iter().for_each(|one| sink.warning(one.at, one.message));
        Ok(glob)
    }
}

/// A line of the file whose keyword and number of words are right.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'s> {
    /// The words behind its keyword, at least one.
    pub words: &'s [Word],
    /// The number of the line.
    pub line: u32,
}

/// Reads a file into a draft. `check` finds what concerns several lines.
///
/// `name` is for messages only. Returns the warnings; on failure, all errors and warnings.
pub fn read_settings<T>(
    name: &Path,
    text: &[u8],
    zenv: &Zenv,
    keywords: &[Keyword<T>],
    draft: &mut T,
    check: impl FnOnce(&mut T, &mut DiagnosticSink<'_>),
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    if text.len() as u64 > MAX_READ_SIZE {
        return Err(vec![Diagnostic::of_file(name, "the file is larger than 16 MiB")]);
    }
    let mut sink = DiagnosticSink::new(name.into(), text);
    let (mut first_lines, mut start) = (HashMap::new(), 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if sink.is_full() {
            break;
        }
        let result = split_words(line, start, zenv).and_then(|words| {
            let Some((keyword, words)) = words.split_first() else { return Ok(()) };
            let line = sink.line_of(keyword.at);
            let known = find(keyword, words, keywords)?;
            if !known.may_repeat
                && let Some(first) = first_lines.insert(known.name, line)
            {
                let message = format!("`{}` is set in line {first} already", known.name);
                return Err(keyword.error(message));
            }
            (known.apply)(draft, &Setting { words, line }, &mut sink)
        });
        if let Err(error) = result {
            sink.error(error.at, error.message);
        }
        start += line.len();
    }
    check(draft, &mut sink);
    let is_usable = sink.is_usable();
    let diagnostics = sink.finish();
    if is_usable { Ok(diagnostics) } else { Err(diagnostics) }
}

/// Finds a keyword, and checks the number of words behind it.
fn find<'k, T>(
    keyword: &Word,
    words: &[Word],
    keywords: &'k [Keyword<T>],
) -> Result<&'k Keyword<T>, ValueError> {
    let Some(known) = keywords.iter().find(|known| known.name == keyword.text) else {
        let mut message = format!("unknown keyword {}", quote(&keyword.text));
        if let Some(near) = nearest(&keyword.text, keywords.iter().map(|known| known.name)) {
            message.push_str(&format!("; did you mean `{near}`?"));
        }
        return Err(keyword.error(message));
    };
    let Keyword { name, expected, .. } = known;
    if words.len() < known.min_words {
        return Err(keyword.error(format!("after `{name}` comes {expected}")));
    }
    match words.get(known.max_words) {
        None => Ok(known),
        Some(extra) => {
            let extra_text = quote(&extra.text);
            Err(extra.error(format!("{extra_text} is too much: after `{name}` comes {expected}")))
        }
    }
}

/// Splits a line into words. Quotes keep blanks together, `#` begins a comment.
fn split_words(line: &[u8], start: usize, zenv: &Zenv) -> Result<Vec<Word>, ValueError> {
    let line = std::str::from_utf8(line)
        .map_err(|error| ValueError::new(start + error.valid_up_to(), "this is not UTF-8"))?;
    let mut words = Vec::new();
    let mut characters = line.trim_end().char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            ' ' | '\t' | '\r' => continue,
            '#' => break,
            _ if c.is_control() => {
                let message = format!("the control character {} here", quote(&c.to_string()));
                return Err(ValueError::new(start + at, message));
            }
            _ => {}
        }
        let is_quoted = c == '"';
        let mut text = if is_quoted { String::new() } else { String::from(c) };
        let mut is_closed = !is_quoted;
        while let Some((_, c)) = characters.next_if(|(_, c)| is_quoted || !matches!(c, ' ' | '\t'))
        {
            if is_quoted && c == '"' {
                is_closed = true;
                break;
            }
            text.push(c);
        }
        if !is_closed {
            return Err(ValueError::new(start + at, "this quote is not closed on its line"));
        }
        words.push(Word { text: expand_variables(&text, start + at, zenv)?, at: start + at });
    }
    Ok(words)
}

/// Replaces `${NAME}` by variables of the ZENV file.
fn expand_variables(text: &str, at: usize, zenv: &Zenv) -> Result<String, ValueError> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let (name, after) =
            after.split_once('}').ok_or_else(|| ValueError::new(at, "this `${` has no `}`"))?;
        expanded.push_str(
            zenv.get(name).ok_or_else(|| {
                ValueError::new(at, format!("the ZENV file has no {}", quote(name)))
            })?,
        );
        rest = after;
    }
    Ok(expanded + rest)
}
