//! Files with one setting a line, a keyword and its words: `router.cf`, `smtpserver.cf`.
//!
//! Quotes keep blanks together, `#` begins a comment, `${NAME}` is a variable of the ZENV file.

use super::{DiagnosticSink, ValueError, Zenv, nearest, quote};
use std::collections::HashMap;
use std::path::PathBuf;

/// A keyword, and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Keyword {
    /// The keyword itself.
    pub name: &'static str,
    /// What follows it, for messages.
    pub expected: &'static str,
    min_words: usize,
    max_words: usize,
    may_repeat: bool,
}

impl Keyword {
    /// A keyword that may stand once, with one word or up to `max_words`.
    pub const fn once(name: &'static str, expected: &'static str, max_words: usize) -> Keyword {
        Keyword { name, expected, min_words: 1, max_words, may_repeat: false }
    }

    /// A keyword that may stand several times.
    pub const fn repeated(
        name: &'static str,
        expected: &'static str,
        min_words: usize,
        max_words: usize,
    ) -> Keyword {
        Keyword { name, expected, min_words, max_words, may_repeat: true }
    }
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
    /// The word as an absolute path.
    pub fn path(&self) -> Result<PathBuf, ValueError> {
        let path = PathBuf::from(&self.text);
        match path.is_absolute() {
            true => Ok(path),
            false => {
                let message = format!("the path {} does not begin with a slash", quote(&self.text));
                Err(ValueError::new(self.at, message))
            }
        }
    }
}

/// A line of the file whose keyword and number of words are right.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'s> {
    /// The name of its keyword.
    pub keyword: &'static str,
    /// The words behind it, at least one.
    pub words: &'s [Word],
    /// The number of the line.
    pub line: u32,
}

/// Reads the lines of a file. What is wrong with them goes to `sink`.
///
/// `apply` takes each setting; its error is reported at its offset in the file.
pub fn read_settings<'a>(
    text: &'a [u8],
    zenv: &Zenv,
    keywords: &[Keyword],
    sink: &mut DiagnosticSink<'a>,
    mut apply: impl FnMut(Setting<'_>, &mut DiagnosticSink<'a>) -> Result<(), ValueError>,
) {
    let (mut first_lines, mut start) = (HashMap::new(), 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if sink.is_full() {
            break;
        }
        let result = split_words(line, start, zenv).and_then(|words| {
            let Some((keyword, words)) = words.split_first() else { return Ok(()) };
            let line = sink.line_of(keyword.at);
            let known = check(keyword, words, keywords)?;
            if !known.may_repeat
                && let Some(first) = first_lines.insert(known.name, line)
            {
                let message = format!("`{}` is set in line {first} already", known.name);
                return Err(ValueError::new(keyword.at, message));
            }
            apply(Setting { keyword: known.name, words, line }, sink)
        });
        if let Err(error) = result {
            sink.error(error.at, error.message);
        }
        start += line.len();
    }
}

/// Finds a keyword, and checks the number of words behind it.
fn check<'k>(
    keyword: &Word,
    words: &[Word],
    keywords: &'k [Keyword],
) -> Result<&'k Keyword, ValueError> {
    let Some(known) = keywords.iter().find(|known| known.name == keyword.text) else {
        let mut message = format!("unknown keyword {}", quote(&keyword.text));
        if let Some(near) = nearest(&keyword.text, keywords.iter().map(|known| known.name)) {
            message.push_str(&format!("; did you mean `{near}`?"));
        }
        return Err(ValueError::new(keyword.at, message));
    };
    let Keyword { name, expected, .. } = known;
    if words.len() < known.min_words {
        return Err(ValueError::new(keyword.at, format!("after `{name}` comes {expected}")));
    }
    match words.get(known.max_words) {
        None => Ok(known),
        Some(extra) => {
            let extra_text = quote(&extra.text);
            let message = format!("{extra_text} is too much: after `{name}` comes {expected}");
            Err(ValueError::new(extra.at, message))
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
