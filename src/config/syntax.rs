//! Lexical reading of a configuration file, with positions.
//!
//! ```text
//! PARAMauthfile = "/etc/zmailer/scheduler.auth"     # a parameter
//! smtp/*.example.org                                # a pattern: it begins in the first column
//!         maxring=5 queueonly                       # settings: a keyword, often with a value
//!         command="smtp -s \
//!                  -l ${LOGDIR}/smtp"
//! ```
//!
//! The meaning of keywords is not known here.
//! A value ends at the next blank, or runs from quote to quote.
//! Inside quotes, a backslash at the end of a line joins the next line to it.

use super::diagnostic::{DiagnosticSink, quote};
use nom::branch::alt;
use nom::bytes::complete::{is_not, tag, take_while, take_while1};
use nom::character::complete::{char, line_ending};
use nom::combinator::{map, not, opt, recognize};
use nom::multi::many0;
use nom::sequence::preceded;
use nom::{IResult, Offset, Parser};
use std::ops::Range;

/// Prefix of parameter names, in upper or lower case.
const PARAMETER_PREFIX: &str = "PARAM";

/// One entry of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileEntry {
    /// A selection pattern: a new clause begins.
    Pattern(MappedText),
    /// A `PARAM…` assignment.
    Parameter(Assignment),
    /// A keyword of the current clause.
    Setting(Assignment),
}

/// A name, with the value assigned to it, if any.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub name: MappedText,
    pub value: Option<MappedText>,
}

/// A text that maps each of its bytes to an offset in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappedText {
    text: String,
    /// Offset in the file where it begins.
    start: usize,
    /// Points where the text does not follow the file, in ascending order.
    anchors: Vec<OffsetAnchor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetAnchor {
    /// First byte of the text that the anchor applies to.
    index: usize,
    /// Offset of that byte in the file.
    offset: usize,
    /// True if all of the text maps to that one offset.
    ///
    /// The value of a variable does.
    is_fixed: bool,
}

impl MappedText {
    /// An empty text at a byte of the file.
    pub(crate) fn new(start: usize) -> MappedText {
        MappedText { text: String::new(), start, anchors: Vec::new() }
    }

    /// Appends text that stands in the file unchanged, at `offset`.
    pub(crate) fn push(&mut self, text: &str, offset: usize) {
        let index = self.text.len();
        let goes_on =
            |last: &OffsetAnchor| !last.is_fixed && last.offset + index - last.index == offset;
        if !self.anchors.last().is_some_and(goes_on) {
            self.anchors.push(OffsetAnchor { index, offset, is_fixed: false });
        }
        self.text.push_str(text);
    }

    /// Appends a part of another text that contains no substitutes.
    pub(crate) fn push_part(&mut self, other: &MappedText, part: Range<usize>) {
        let mut index = part.start;
        while index < part.end {
            let next = other.anchors.partition_point(|anchor| anchor.index <= index);
            let end = other.anchors.get(next).map_or(part.end, |next| next.index.min(part.end));
            self.push(&other.text[index..end], other.offset_of(index));
            index = end;
        }
    }

    /// Appends text that replaces something else in the file, at `offset`.
    pub(crate) fn push_substitute(&mut self, text: &str, offset: usize) {
        self.anchors.push(OffsetAnchor { index: self.text.len(), offset, is_fixed: true });
        self.text.push_str(text);
    }

    /// The text as a string.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Offset in the file where the text begins.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Offset in the file of a byte of the text.
    pub(crate) fn offset_of(&self, index: usize) -> usize {
        let next = self.anchors.partition_point(|anchor| anchor.index <= index);
        match self.anchors[..next].last() {
            None => self.start,
            Some(anchor) if anchor.is_fixed => anchor.offset,
            Some(anchor) => anchor.offset + (index - anchor.index),
        }
    }
}

/// Reads the whole file. Malformed input is reported and skipped.
pub(crate) fn read(file: &[u8], sink: &mut DiagnosticSink<'_>) -> Vec<FileEntry> {
    let mut reader = Reader { file, sink, entries: Vec::new() };
    let mut rest = file;
    while !rest.is_empty() && !reader.sink.is_full() {
        rest = reader.line(rest);
    }
    reader.entries
}

struct Reader<'f, 'r, 't> {
    file: &'f [u8],
    sink: &'r mut DiagnosticSink<'t>,
    entries: Vec<FileEntry>,
}

impl<'f> Reader<'f, '_, '_> {
    /// Reads a line, including the continuation lines of quoted values. Returns the rest of the
    /// input.
    fn line(&mut self, line: &'f [u8]) -> &'f [u8] {
        let mut rest = self.first_column(line);
        loop {
            rest = split_while(rest, is_blank).1;
            match rest.first() {
                None => return rest,
                Some(b'\n') => return &rest[1..],
                Some(b'#') => rest = skip_line(rest),
                Some(_) => {
                    // A name or an equals sign is here, so each iteration consumes something.
                    let (after, assignment) = self.assignment(rest);
                    self.entries.push(FileEntry::Setting(assignment));
                    rest = after;
                }
            }
        }
    }

    /// Reads a parameter or pattern if one begins in the first column.
    fn first_column(&mut self, line: &'f [u8]) -> &'f [u8] {
        let prefix = line.get(..PARAMETER_PREFIX.len()).unwrap_or_default();
        if prefix.eq_ignore_ascii_case(PARAMETER_PREFIX.as_bytes()) {
            return self.parameter(line);
        }
        let (pattern, rest) = split_while(line, |byte| is_word(byte) && byte != b'#');
        if !pattern.is_empty() {
            let pattern = self.text(self.offset(pattern), &[pattern]);
            self.entries.push(FileEntry::Pattern(pattern));
        }
        rest
    }

    fn parameter(&mut self, line: &'f [u8]) -> &'f [u8] {
        let (rest, assignment) = self.assignment(line);
        if assignment.name.as_str().len() == PARAMETER_PREFIX.len() {
            let message = "a parameter's name follows PARAM directly, without a blank";
            self.sink.error(assignment.name.start(), message);
            return skip_line(rest);
        }
        self.entries.push(FileEntry::Parameter(assignment));
        rest
    }

    /// Reads `<name>[ = <value>]`. The name is empty only before an equals sign.
    fn assignment(&mut self, input: &'f [u8]) -> (&'f [u8], Assignment) {
        let (name, rest) = split_while(input, is_name);
        let name = self.text(self.offset(name), &[name]);
        let equals = (blanks, char('='), blanks);
        let Ok((after, value)) = preceded(equals, opt(any_value)).parse(rest) else {
            return (rest, Assignment { name, value: None });
        };
        (after, Assignment { name, value: value.map(|value| self.value(&value)) })
    }

    fn value(&mut self, value: &Value<'f>) -> MappedText {
        let start = self.offset(value.from);
        if !value.is_closed {
            self.sink.error(start, "this quote is not closed on its line");
        }
        self.text(start, &value.pieces)
    }

    /// Joins pieces of the file to a text. Invalid UTF-8 and control characters are errors.
    fn text(&mut self, start: usize, pieces: &[&'f [u8]]) -> MappedText {
        let mut text = MappedText::new(start);
        for piece in pieces {
            let offset = self.offset(piece);
            match std::str::from_utf8(piece) {
                Ok(piece) => text.push(piece, offset),
                Err(error) => {
                    self.sink.error(offset + error.valid_up_to(), "this is not UTF-8");
                    text.push(&String::from_utf8_lossy(piece), offset);
                }
            }
        }
        let is_visible = |c: char| !c.is_control() || c.is_ascii_whitespace();
        if let Some((at, c)) = text.text.char_indices().find(|(_, c)| !is_visible(*c)) {
            let message = format!("the control character {} here", quote(&c.to_string()));
            self.sink.error(text.offset_of(at), message);
        }
        text
    }

    /// Offset in the file of a piece of it.
    fn offset(&self, piece: &'f [u8]) -> usize {
        self.file.offset(piece)
    }
}

/// A value as written in the file.
struct Value<'a> {
    /// The file from the start of the value.
    from: &'a [u8],
    pieces: Vec<&'a [u8]>,
    is_closed: bool,
}

fn any_value(input: &[u8]) -> IResult<&[u8], Value<'_>> {
    alt((quoted_value, bare_value)).parse(input)
}

fn bare_value(input: &[u8]) -> IResult<&[u8], Value<'_>> {
    let (rest, word) = preceded(not(char('#')), take_while1(is_word)).parse(input)?;
    Ok((rest, Value { from: input, pieces: vec![word], is_closed: true }))
}

fn quoted_value(input: &[u8]) -> IResult<&[u8], Value<'_>> {
    // A joined line end contributes no text, but remains an (empty) piece of the file.
    let joined = map(recognize((char('\\'), line_ending)), |joined: &[u8]| &joined[..0]);
    let piece = alt((is_not("\"\\\n"), joined, tag("\\")));
    let (rest, (pieces, end)) = preceded(char('"'), (many0(piece), opt(char('"')))).parse(input)?;
    Ok((rest, Value { from: input, pieces, is_closed: end.is_some() }))
}

fn blanks(input: &[u8]) -> IResult<&[u8], &[u8]> {
    take_while(is_blank).parse(input)
}

fn split_while(input: &[u8], belongs: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    input.split_at(input.iter().position(|byte| !belongs(*byte)).unwrap_or(input.len()))
}

fn skip_line(input: &[u8]) -> &[u8] {
    split_while(input, |byte| byte != b'\n').1
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

fn is_word(byte: u8) -> bool {
    !is_blank(byte) && byte != b'\n'
}

fn is_name(byte: u8) -> bool {
    is_word(byte) && byte != b'=' && byte != b'#'
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::path::Path;

    /// The entries of the file with offsets, then the diagnostics without the excerpts.
    fn dump(file: &[u8]) -> String {
        let mut sink = DiagnosticSink::new(Path::new("cf").into(), file);
        let shown = |text: &MappedText| format!("{}@{}", text.as_str(), text.start());
        let mut out = String::new();
        for entry in read(file, &mut sink) {
            match entry {
                FileEntry::Pattern(pattern) => writeln!(out, "pattern {}", shown(&pattern)),
                FileEntry::Parameter(Assignment { name, value }) => {
                    writeln!(out, "parameter {} {:?}", shown(&name), value.as_ref().map(shown))
                }
                FileEntry::Setting(Assignment { name, value }) => {
                    writeln!(out, "setting {} {:?}", shown(&name), value.as_ref().map(shown))
                }
            }
            .expect("a String takes everything");
        }
        for diagnostic in sink.finish() {
            let text = diagnostic.to_string();
            writeln!(out, "{}", text.lines().next().unwrap_or_default())
                .expect("a String takes everything");
        }
        out
    }

    fn check(file: impl AsRef<[u8]>, expected: expect_test::Expect) {
        expected.assert_eq(&dump(file.as_ref()));
    }

    #[test]
    fn clause_on_one_or_many_lines_is_read() {
        check(
            "*/*\tinterval=5s retries=\"1 2\"\n\n  # a comment\nc/a.test # another\n\
             \tqueueonly # the third\n\tmaxring = 3 ageorder\nsmtp\nc/b#x\n",
            expect_test::expect![[r#"
                pattern */*@0
                setting interval@4 Some("5s@13")
                setting retries@16 Some("1 2@24")
                pattern c/a.test@45
                setting queueonly@65 None
                setting maxring@88 Some("3@98")
                setting ageorder@100 None
                pattern smtp@109
                pattern c/b@114
            "#]],
        );
    }

    #[test]
    fn values_end_at_blank_or_quote() {
        check(
            "c/*\tcommand=\"x -a \\\n   -b\\c\" user=a\"b#c=d deliveryform=\"\" \\\n\
             \texpiry= # none\n\texpiry=#none\n\t= 5\n\tinterval \"5\"x\r\n",
            expect_test::expect![[r#"
                pattern c/*@0
                setting command@4 Some("x -a    -b\\c@12")
                setting user@29 Some("a\"b#c=d@34")
                setting deliveryform@42 Some("@55")
                setting \@58 None
                setting expiry@61 None
                setting expiry@77 None
                setting @91 Some("5@93")
                setting interval@96 None
                setting "5"x@105 None
            "#]],
        );
    }

    #[test]
    fn parameters_require_prefix() {
        check(
            "PARAMauthfile = \"/a b\" # x\nparamMailqSock=TCP:174\nPARAMx\nPARAM y = z w=1\nPARAM=3\n",
            expect_test::expect![[r#"
                parameter PARAMauthfile@0 Some("/a b@16")
                parameter paramMailqSock@27 Some("TCP:174@42")
                parameter PARAMx@50 None
                cf:4:1: error: a parameter's name follows PARAM directly, without a blank
                cf:5:1: error: a parameter's name follows PARAM directly, without a blank
            "#]],
        );
    }

    #[test]
    fn unclosed_quote_ends_at_line_end() {
        check(
            "c/*\tcommand=\"x y\n\tmaxring=\"1\\\n",
            expect_test::expect![[r#"
                pattern c/*@0
                setting command@4 Some("x y@12")
                setting maxring@18 Some("1@26")
                cf:1:13: error: this quote is not closed on its line
                cf:2:10: error: this quote is not closed on its line
            "#]],
        );
    }

    #[test]
    fn bytes_that_are_not_text_are_reported() {
        check(
            b"# in a comment: \xe4\nc\xe4/*\tcommand=\"a\0b\" x\x1b=1\n\xff\xfe",
            expect_test::expect![[r#"
                pattern c�/*@18
                setting command@23 Some("a\0b@31")
                setting x@37 Some("1@40")
                pattern ��@42
                cf:2:2: error: this is not UTF-8
                cf:2:16: error: the control character `^@` here
                cf:2:21: error: the control character `^[` here
                cf:3:1: error: this is not UTF-8
            "#]],
        );
    }

    #[test]
    fn offset_of_joined_value_follows_file() {
        let file = b"c\tcommand=\"ab\\\ncd\"";
        let mut sink = DiagnosticSink::new(Path::new("cf").into(), file);
        let entries = read(file, &mut sink);
        let Some(FileEntry::Setting(Assignment { value: Some(value), .. })) = entries.last() else {
            panic!("not a setting: {entries:?}");
        };
        assert_eq!(value.as_str(), "abcd");
        let places: Vec<usize> = (0..5).map(|index| value.offset_of(index)).collect();
        assert_eq!(places, [11, 12, 15, 16, 17]);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(file: Vec<u8>) {
            dump(&file);
        }

        #[test]
        fn arbitrary_syntax_does_not_panic(file in "([a#=\"\\\\ \t\r\né]|PARAM){0,40}") {
            dump(file.as_bytes());
        }
    }
}
