//! Fields of recipients in a message: `{{NAME}}` stands for the value that each recipient has.
//!
//! The message exists once. Agents replace the fields while they send it. They find the values in
//! the word `MERGE` of the recipient's `N` line:
//!
//! ```text
//! N MERGE=name+3DBob+09city+3DRome
//! ```
//!
//! The value is xtext of `name=value` pairs with tabs between them. Braces around anything but the
//! name of such a field are text.

use crate::xtext;
use std::borrow::Cow;
use std::io::{self, Read};

/// The name that stands for the recipient's address.
pub const ADDRESS: &str = "address";
/// Maximum length of the name of a field, in bytes.
pub const MAX_FIELD_NAME_LEN: usize = 64;

/// Number of bytes that are read at a time.
const PART_LEN: usize = 16 * 1024;
/// Maximum length of `{{NAME}}`, in bytes.
const MAX_MARK_LEN: usize = MAX_FIELD_NAME_LEN + 4;

/// Returns true for the name of a field: letters, digits, `-` and `_`.
pub fn is_field_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=MAX_FIELD_NAME_LEN).contains(&name.len()) && name.chars().all(is_letter)
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'t> {
    /// Text that stays as it is.
    Text(&'t [u8]),
    /// The name of a field.
    Field(&'t str),
}

/// Returns the first piece of a text, and the rest.
///
/// `None` if more of the text is needed; never with `is_end`.
pub fn next_piece(text: &[u8], is_end: bool) -> Option<(Piece<'_>, &[u8])> {
    let text_of = |length: usize| {
        let (piece, rest) = text.split_at(length);
        Some((Piece::Text(piece), rest))
    };
    match memchr::memmem::find(text, b"{{") {
        Some(0) => {}
        Some(start) => return text_of(start),
        // A brace at the end may begin a field.
        None => {
            let open = usize::from(!is_end && text.ends_with(b"{"));
            return if text.len() > open { text_of(text.len() - open) } else { None };
        }
    }
    let mark = &text[..text.len().min(MAX_MARK_LEN)];
    match memchr::memmem::find(&mark[2..], b"}}") {
        Some(length) => match std::str::from_utf8(&mark[2..2 + length]) {
            Ok(name) if is_field_name(name) => Some((Piece::Field(name), &text[length + 4..])),
            _ => text_of(1),
        },
        None if is_end || text.len() >= MAX_MARK_LEN => text_of(1),
        None => None,
    }
}

/// The fields of a recipient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeFields {
    fields: Vec<(String, Vec<u8>)>,
}

impl MergeFields {
    /// Creates the fields from pairs of name and value.
    pub fn new<'f>(pairs: impl IntoIterator<Item = (&'f str, &'f str)>) -> MergeFields {
        let pair = |(name, value): (&str, &str)| (name.to_string(), value.as_bytes().to_vec());
        MergeFields { fields: pairs.into_iter().map(pair).collect() }
    }

    /// Reads the value of the word `MERGE`. What is no field is skipped.
    pub fn parse(value: &[u8]) -> MergeFields {
        let text = xtext::decode(value);
        let pairs = text.split(|byte| *byte == b'\t').filter_map(|pair| {
            let equals = memchr::memchr(b'=', pair)?;
            let name = std::str::from_utf8(&pair[..equals]).ok().filter(|it| is_field_name(it))?;
            Some((name.to_string(), pair[equals + 1..].to_vec()))
        });
        MergeFields { fields: pairs.collect() }
    }

    /// The word `MERGE=...`.
    pub fn to_word(&self) -> String {
        let pair = |(name, value): &(String, Vec<u8>)| [name.as_bytes(), b"=", value].concat();
        let pairs: Vec<Vec<u8>> = self.fields.iter().map(pair).collect();
        format!("MERGE={}", xtext::encode(&pairs.join(&b'\t')))
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value.as_slice())
    }
}

/// Reads a text with the fields of a recipient in place of their names.
pub struct MergeReader<R> {
    inner: R,
    fields: MergeFields,
    /// What was read, and is not passed on.
    input: Vec<u8>,
    is_end: bool,
    /// What is passed on, and how much of it already was.
    output: Vec<u8>,
    passed: usize,
}

impl<R: Read> MergeReader<R> {
    /// Creates a reader.
    pub fn new(inner: R, fields: MergeFields) -> MergeReader<R> {
        let (input, output) = (Vec::new(), Vec::new());
        MergeReader { inner, fields, input, is_end: false, output, passed: 0 }
    }

    /// Reads and merges a part. Nothing is passed on any more at the end.
    fn fill(&mut self) -> io::Result<()> {
        (self.passed, _) = (0, self.output.clear());
        while self.output.is_empty() && !(self.is_end && self.input.is_empty()) {
            let kept = self.input.len();
            self.input.resize(kept + PART_LEN, 0);
            let count = self.inner.read(&mut self.input[kept..]);
            self.input.truncate(kept + *count.as_ref().unwrap_or(&0));
            self.is_end = count? == 0;
            let mut rest = &self.input[..];
            while !rest.is_empty()
                && let Some((piece, after)) = next_piece(rest, self.is_end)
            {
                let text: Cow<'_, [u8]> = match piece {
                    Piece::Text(text) => text.into(),
                    Piece::Field(name) => match self.fields.get(name) {
                        Some(value) => value.into(),
                        None => format!("{{{{{name}}}}}").into_bytes().into(),
                    },
                };
                self.output.extend_from_slice(&text);
                rest = after;
            }
            let done = self.input.len() - rest.len();
            self.input.drain(..done);
        }
        Ok(())
    }
}

impl<R: Read> Read for MergeReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.passed == self.output.len() {
            self.fill()?;
        }
        let count = buffer.len().min(self.output.len() - self.passed);
        buffer[..count].copy_from_slice(&self.output[self.passed..][..count]);
        self.passed += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a text in parts of a certain length.
    struct Parts<'t>(&'t [u8], usize);

    impl Read for Parts<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            let (part, rest) = self.0.split_at(count);
            buffer[..count].copy_from_slice(part);
            self.0 = rest;
            Ok(count)
        }
    }

    #[test]
    fn fields_are_replaced_wherever_parts_end() {
        let fields = MergeFields::new([("name", "B{{y}} ä"), ("y", "no"), ("empty", "")]);
        let long = "x".repeat(MAX_FIELD_NAME_LEN + 1);
        for (text, expected) in [
            ("", String::new()),
            ("Dear {{name}},\n{{name}}{{empty}}", "Dear B{{y}} ä,\nB{{y}} ä".to_string()),
            ("{{other}} {{ name }} {{na me}} {{}}", "{{other}} {{ name }} {{na me}} {{}}".into()),
            ("{{{name}}} {{{{name}}", "{B{{y}} ä} {{B{{y}} ä".to_string()),
            ("{ {{ {{name", "{ {{ {{name".to_string()),
            ("{", "{".to_string()),
            (&format!("{{{{{long}}}}}{{{{y}}}}"), format!("{{{{{long}}}}}no")),
        ] {
            for length in [1, 2, 3, 7, 1000] {
                let mut merged = String::new();
                let mut reader = MergeReader::new(Parts(text.as_bytes(), length), fields.clone());
                reader.read_to_string(&mut merged).expect("read");
                assert_eq!(merged, expected, "{length} bytes at a time");
            }
        }
    }

    #[test]
    fn word_is_parsed_as_written() {
        let fields = MergeFields::new([("name", "B=b +\u{e4} <x>"), ("n-1", "")]);
        let word = fields.to_word();
        assert!(word.is_ascii() && !word.contains([' ', '\t', '\n']), "{word}");
        let value = word.strip_prefix("MERGE=").expect("the keyword");
        assert_eq!(MergeFields::parse(value.as_bytes()), fields);
        assert_eq!(MergeFields::parse(b"junk+09=x+09a b=c"), MergeFields::default());
    }
}
