//! The four words of an address: channel, host, user, privilege.

use super::Span;
use nom::branch::alt;
use nom::bytes::complete::{tag, take, take_while, take_while1};
use nom::combinator::{opt, recognize};
use nom::multi::many1_count;
use nom::sequence::{delimited, preceded};
use nom::{IResult, Parser};

/// An address as the router writes it: `channel host user privilege`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quad {
    /// The delivery channel; one word.
    pub channel: Span,
    /// The next host, or `-`; one word.
    pub host: Span,
    /// The address at the host; one word, with blanks only inside quotes.
    pub user: Span,
    /// The rest of the line, usually the numeric user id whose rights the delivery has.
    pub privilege: Span,
}

impl Quad {
    /// Splits `text[from..to]`. The error names the missing word.
    pub(super) fn parse(text: &[u8], from: usize, to: usize) -> Result<Quad, &'static str> {
        let line = &text[from..to];
        // Words are slices of `line`, so the length of the rest gives the position of each.
        let word = |rest, missing| next_word(rest).map_err(|_| missing);
        let span = |word: &[u8], rest: &[u8]| {
            let end = to - rest.len();
            Span::new(end - word.len(), end)
        };
        let (rest, channel) = word(line, "no channel")?;
        let channel_span = span(channel, rest);
        let (rest, host) = word(rest, "no host")?;
        let host_span = span(host, rest);
        let (rest, user) = word(rest, "no user")?;
        let user_span = span(user, rest);
        let privilege = rest.trim_ascii();
        let blanks_before = rest.len() - rest.trim_ascii_start().len();
        let start = to - rest.len() + blanks_before;
        Ok(Quad {
            channel: channel_span,
            host: host_span,
            user: user_span,
            privilege: Span::new(start, start + privilege.len()),
        })
    }
}

/// Parses one word in the sense of RFC 821.
///
/// It ends at a blank that is neither inside double quotes nor after a backslash. An open quote
/// ends with the line.
fn next_word(input: &[u8]) -> IResult<&[u8], &[u8]> {
    plain_word(input).map_or_else(|| quoted_word(input), |(word, rest)| Ok((rest, word)))
}

/// A word without quotes and backslashes, which most words are, and the rest after it.
fn plain_word(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = input.iter().position(|byte| !is_blank(*byte))?;
    let word = &input[start..];
    let ends = |byte: &u8| is_blank(*byte) || matches!(byte, b'"' | b'\\');
    let end = word.iter().position(ends).unwrap_or(word.len());
    let is_plain = end > 0 && word.get(end).is_none_or(|byte| is_blank(*byte));
    is_plain.then(|| word.split_at(end))
}

fn quoted_word(input: &[u8]) -> IResult<&[u8], &[u8]> {
    let quoted_pair = || recognize(preceded(tag("\\"), take(1usize)));
    let inside = take_while1(|byte| !matches!(byte, b'"' | b'\\'));
    let inside_quotes = many1_count(alt((quoted_pair(), inside, tag("\\"))));
    let quoted = recognize(delimited(tag("\""), opt(inside_quotes), opt(tag("\""))));
    let plain = take_while1(|byte| !is_blank(byte) && !matches!(byte, b'"' | b'\\'));
    let word = recognize(many1_count(alt((plain, quoted_pair(), quoted, tag("\\")))));
    preceded(take_while(is_blank), word).parse(input)
}

/// The first blank-separated word of a field, for example of a `T` line.
pub(super) fn first_word(value: &[u8]) -> Option<&[u8]> {
    let word = take_while1::<_, _, nom::error::Error<&[u8]>>(|byte| !is_blank(byte));
    preceded(take_while(is_blank), word).parse(value).ok().map(|(_, word)| word)
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<[&str; 4], &'static str> {
        let quad = Quad::parse(line.as_bytes(), 0, line.len())?;
        let text = |span: Span| &line[span.start as usize..span.end as usize];
        Ok([text(quad.channel), text(quad.host), text(quad.user), text(quad.privilege)])
    }

    #[test]
    fn words_end_at_blanks_outside_quotes() {
        for (line, expected) in [
            ("smtp mx.example bob@x 1001", ["smtp", "mx.example", "bob@x", "1001"]),
            ("  local\t-  dave   -2 ", ["local", "-", "dave", "-2"]),
            (r#"c "a b.test" u 0"#, ["c", r#""a b.test""#, "u", "0"]),
            (r#"c h "joe \" d"@x 0"#, ["c", "h", r#""joe \" d"@x"#, "0"]),
            (r"c h joe\ d 0", ["c", "h", r"joe\ d", "0"]),
            (r"c h u\", ["c", "h", r"u\", ""]),
            (r#"c h "open 0"#, ["c", "h", r#""open 0"#, ""]),
            (r#"c "" u 0"#, ["c", r#""""#, "u", "0"]),
            ("c h u", ["c", "h", "u", ""]),
        ] {
            assert_eq!(words(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn missing_word_is_named_in_error() {
        assert_eq!(words(" "), Err("no channel"));
        assert_eq!(words("smtp"), Err("no host"));
        assert_eq!(words("smtp host "), Err("no user"));
    }
}
