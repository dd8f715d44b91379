//! The four words of an address: channel, host, user, privilege.

use super::Span;

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
        let mut at = from;
        let mut word = |missing| {
            let start = at + blanks(&text[at..to]);
            at = start + word_len(&text[start..to]);
            if at > start { Ok(Span::new(start, at)) } else { Err(missing) }
        };
        let (channel, host, user) = (word("no channel")?, word("no host")?, word("no user")?);
        let start = to - text[at..to].trim_ascii_start().len();
        let privilege = Span::new(start, start + text[start..to].trim_ascii_end().len());
        Ok(Quad { channel, host, user, privilege })
    }
}

/// Length of the first word of a text (RFC 821).
///
/// It ends at a blank that is neither inside double quotes nor after a backslash. An open quote
/// ends with the line.
fn word_len(text: &[u8]) -> usize {
    let is_plain = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'"' | b'\\');
    let plain = text.iter().position(|byte| !is_plain(byte)).unwrap_or(text.len());
    match text.get(plain) {
        Some(b'"' | b'\\') => plain + quoted_len(&text[plain..]),
        _ => plain,
    }
}

/// Length of the rest of a word that begins with a quote or a backslash.
fn quoted_len(text: &[u8]) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let ends = |byte: &u8| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            _ if was_escaped => {}
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => return !is_quoted && is_blank(byte),
        }
        false
    };
    text.iter().position(ends).unwrap_or(text.len())
}

/// The first word of a field, such as a `T` line.
pub(super) fn first_word(text: &[u8], field: Span) -> Span {
    let (from, to) = (field.start as usize, field.end as usize);
    let start = from + blanks(&text[from..to]);
    let length = text[start..to].iter().position(is_blank);
    Span::new(start, length.map_or(to, |length| start + length))
}

/// Number of blanks at the beginning of a text.
fn blanks(text: &[u8]) -> usize {
    text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len())
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
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
