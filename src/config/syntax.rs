//! The words of a configuration file: which patterns, keywords and values there are, and where.
//!
//! ```text
//! PARAMauthfile = "/etc/zmailer/scheduler.auth"     # a parameter
//! smtp/*.example.org                                # a pattern: it begins in the first column
//!         maxring=5 queueonly                       # settings: a keyword, often with a value
//!         command="smtp -s \
//!                  -l ${LOGDIR}/smtp"
//! ```
//!
//! What a keyword means is not known here. A value runs up to the next blank, or from quote to
//! quote; inside quotes a backslash at the end of a line joins the next line to it.

use super::diagnostic::{Report, quote};
use nom::branch::alt;
use nom::bytes::complete::{is_not, tag, take_while, take_while1};
use nom::character::complete::{char, line_ending};
use nom::combinator::{map, not, opt, recognize};
use nom::multi::many0;
use nom::sequence::preceded;
use nom::{IResult, Offset, Parser};
use std::ops::Range;

/// What a parameter's name begins with, in capitals or not.
const PARAMETER_PREFIX: &str = "PARAM";

/// One thing that the file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A selection pattern: a new clause begins.
    Pattern(Text),
    /// A `PARAM…` assignment.
    Parameter(Assignment),
    /// A keyword of the current clause.
    Setting(Assignment),
}

/// A name, and the value given to it if there is any.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub name: Text,
    pub value: Option<Text>,
}

/// A piece of text that knows where in the file each byte of it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    text: String,
    /// Where in the file it begins.
    start: usize,
    /// Where the text stops to follow the file byte by byte, in ascending order.
    anchors: Vec<Anchor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    /// First byte of the text that this is about.
    index: usize,
    /// Where it is in the file.
    offset: usize,
    /// All of it comes from that one place, as the value of a variable does.
    is_fixed: bool,
}

impl Text {
    /// An empty text at a byte of the file.
    pub fn new(start: usize) -> Text {
        Text { text: String::new(), start, anchors: Vec::new() }
    }

    /// Appends text that stands in the file like this.
    pub fn push(&mut self, text: &str, offset: usize) {
        let index = self.text.len();
        let goes_on = |last: &Anchor| !last.is_fixed && last.offset + index - last.index == offset;
        if !self.anchors.last().is_some_and(goes_on) {
            self.anchors.push(Anchor { index, offset, is_fixed: false });
        }
        self.text.push_str(text);
    }

    /// Appends a part of another text, which has no substitutes in it.
    pub fn push_part(&mut self, other: &Text, part: Range<usize>) {
        let mut index = part.start;
        while index < part.end {
            let next = other.anchors.partition_point(|anchor| anchor.index <= index);
            let end = other.anchors.get(next).map_or(part.end, |next| next.index.min(part.end));
            self.push(&other.text[index..end], other.offset_of(index));
            index = end;
        }
    }

    /// Appends text that something else in the file, at `offset`, stands for.
    pub fn push_substitute(&mut self, text: &str, offset: usize) {
        self.anchors.push(Anchor { index: self.text.len(), offset, is_fixed: true });
        self.text.push_str(text);
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where in the file the text begins.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Where in the file a byte of the text is.
    pub fn offset_of(&self, index: usize) -> usize {
        let next = self.anchors.partition_point(|anchor| anchor.index <= index);
        match self.anchors[..next].last() {
            None => self.start,
            Some(anchor) if anchor.is_fixed => anchor.offset,
            Some(anchor) => anchor.offset + (index - anchor.index),
        }
    }
}

/// Reads the whole file. Whatever is not well-formed goes into the report and is passed over.
pub(super) fn read(file: &[u8], report: &mut Report<'_>) -> Vec<Entry> {
    let mut reader = Reader { file, report, entries: Vec::new() };
    let mut rest = file;
    while !rest.is_empty() && !reader.report.is_full() {
        rest = reader.line(rest);
    }
    reader.entries
}

struct Reader<'f, 'r, 't> {
    file: &'f [u8],
    report: &'r mut Report<'t>,
    entries: Vec<Entry>,
}

impl<'f> Reader<'f, '_, '_> {
    /// Reads a line, with the lines that its quoted values go on in; returns what is behind it.
    fn line(&mut self, line: &'f [u8]) -> &'f [u8] {
        let mut rest = self.first_column(line);
        loop {
            rest = split_while(rest, is_blank).1;
            match rest.first() {
                None => return rest,
                Some(b'\n') => return &rest[1..],
                Some(b'#') => rest = skip_line(rest),
                Some(_) => {
                    // A name or an equals sign is here, so each turn reads something.
                    let (after, assignment) = self.assignment(rest);
                    self.entries.push(Entry::Setting(assignment));
                    rest = after;
                }
            }
        }
    }

    /// Reads what begins in the first column, if anything does.
    fn first_column(&mut self, line: &'f [u8]) -> &'f [u8] {
        let prefix = line.get(..PARAMETER_PREFIX.len()).unwrap_or_default();
        if prefix.eq_ignore_ascii_case(PARAMETER_PREFIX.as_bytes()) {
            return self.parameter(line);
        }
        let (pattern, rest) = split_while(line, |byte| is_word(byte) && byte != b'#');
        if !pattern.is_empty() {
            let pattern = self.text(self.offset(pattern), &[pattern]);
            self.entries.push(Entry::Pattern(pattern));
        }
        rest
    }

    fn parameter(&mut self, line: &'f [u8]) -> &'f [u8] {
        let (rest, assignment) = self.assignment(line);
        if assignment.name.as_str().len() == PARAMETER_PREFIX.len() {
            let message = "a parameter's name follows PARAM directly, without a blank";
            self.report.error(assignment.name.start(), message);
            return skip_line(rest);
        }
        self.entries.push(Entry::Parameter(assignment));
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

    fn value(&mut self, value: &Value<'f>) -> Text {
        let start = self.offset(value.from);
        if !value.is_closed {
            self.report.error(start, "this quote is not closed on its line");
        }
        self.text(start, &value.pieces)
    }

    /// Joins pieces of the file to a text. What is not UTF-8, or cannot be seen, is an error.
    fn text(&mut self, start: usize, pieces: &[&'f [u8]]) -> Text {
        let mut text = Text::new(start);
        for piece in pieces {
            let offset = self.offset(piece);
            match std::str::from_utf8(piece) {
                Ok(piece) => text.push(piece, offset),
                Err(error) => {
                    self.report.error(offset + error.valid_up_to(), "this is not UTF-8");
                    text.push(&String::from_utf8_lossy(piece), offset);
                }
            }
        }
        let is_visible = |c: char| !c.is_control() || c.is_ascii_whitespace();
        if let Some((at, c)) = text.text.char_indices().find(|(_, c)| !is_visible(*c)) {
            let message = format!("the control character {} here", quote(&c.to_string()));
            self.report.error(text.offset_of(at), message);
        }
        text
    }

    /// Where in the file a piece of it begins.
    fn offset(&self, piece: &'f [u8]) -> usize {
        self.file.offset(piece)
    }
}

/// A value as it stands in the file.
struct Value<'a> {
    /// The file from the value on.
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
    // Nothing is left of a joined line end, but it stays a piece of the file.
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

    /// What the file says, with offsets, and what is wrong with it, without the excerpts.
    fn dump(file: &[u8]) -> String {
        let mut report = Report::new(Path::new("cf").into(), file);
        let shown = |text: &Text| format!("{}@{}", text.as_str(), text.start());
        let mut out = String::new();
        for entry in read(file, &mut report) {
            match entry {
                Entry::Pattern(pattern) => writeln!(out, "pattern {}", shown(&pattern)),
                Entry::Parameter(Assignment { name, value }) => {
                    writeln!(out, "parameter {} {:?}", shown(&name), value.as_ref().map(shown))
                }
                Entry::Setting(Assignment { name, value }) => {
                    writeln!(out, "setting {} {:?}", shown(&name), value.as_ref().map(shown))
                }
            }
            .expect("a String takes everything");
        }
        for diagnostic in report.finish() {
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
    fn clauses_may_take_one_line_or_many() {
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
    fn values_run_to_the_blank_or_to_the_quote() {
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
    fn parameters_begin_with_their_prefix() {
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
    fn an_open_quote_ends_with_its_line() {
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
    fn bytes_that_are_no_text_are_named() {
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
    fn each_byte_of_a_text_knows_its_place() {
        let file = b"c\tcommand=\"ab\\\ncd\"";
        let mut report = Report::new(Path::new("cf").into(), file);
        let entries = read(file, &mut report);
        let Some(Entry::Setting(Assignment { value: Some(value), .. })) = entries.last() else {
            panic!("not a setting: {entries:?}");
        };
        assert_eq!(value.as_str(), "abcd");
        let places: Vec<usize> = (0..5).map(|index| value.offset_of(index)).collect();
        assert_eq!(places, [11, 12, 15, 16, 17]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(file: Vec<u8>) {
            dump(&file);
        }

        #[test]
        fn nothing_readable_makes_it_panic(file in "([a#=\"\\\\ \t\r\né]|PARAM){0,40}") {
            dump(file.as_bytes());
        }
    }
}
