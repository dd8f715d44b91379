//! The header fields of a message (RFC 5322, 2.2).

/// A header field: name and value as written, including folded lines and line ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    lines: Vec<u8>,
    /// Offset of the colon.
    colon: usize,
}

impl Field {
    /// Creates a field; name and value must not contain line ends.
    pub fn new(name: &str, value: &str) -> Field {
        Field { lines: format!("{name}: {value}\n").into_bytes(), colon: name.len() }
    }

    /// Parses the first line of a field; `None` if it is no field.
    ///
    /// Blanks before the colon are accepted, as in old mail (RFC 5322, 4.5).
    pub fn begin(line: &[u8]) -> Option<Field> {
        let colon = memchr::memchr(b':', line)?;
        let name = line[..colon].trim_ascii_end();
        let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
        is_name.then(|| Field { lines: whole(line), colon })
    }

    /// Adds a line that begins with a blank or a tab.
    pub fn fold(&mut self, line: &[u8]) {
        self.lines.extend(whole(line));
    }

    /// Returns true if the field has this name, ignoring case.
    pub fn is(&self, name: &str) -> bool {
        self.lines[..self.colon].trim_ascii_end().eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns the value without surrounding white space.
    pub fn value(&self) -> &[u8] {
        self.lines[self.colon + 1..].trim_ascii()
    }

    /// Returns its lines, with line ends.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }
}

/// Adds the line end, which may be missing at the end of a file.
fn whole(line: &[u8]) -> Vec<u8> {
    [line.strip_suffix(b"\n").unwrap_or(line), b"\n"].concat()
}

/// Splits a text into header fields and body.
///
/// The body begins at the first line that belongs to no field. An empty line before it is skipped.
pub fn split(text: &[u8]) -> (Vec<Field>, &[u8]) {
    let mut fields: Vec<Field> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, rest_after) = rest.split_at(end);
        if line == b"\n" {
            return (fields, rest_after);
        }
        match (line[0], fields.last_mut()) {
            (b' ' | b'\t', Some(field)) => field.fold(line),
            _ => match Field::begin(line) {
                Some(field) => fields.push(field),
                None => break,
            },
        }
        rest = rest_after;
    }
    (fields, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_splits_into_headers_and_body() {
        for (text, headers, body) in [
            ("Subject: x\n\nbody\n", "Subject: x\n", "body\n"),
            ("Subject: x\n folded\n\n\nbody", "Subject: x\n folded\n", "\nbody"),
            ("Subject: x\n \n\ty\n\nbody", "Subject: x\n \n\ty\n", "body"),
            ("Subject : x", "Subject : x\n", ""),
            ("Subject: x\nhello\n\nbody", "Subject: x\n", "hello\n\nbody"),
            ("no header at all\n\nhere: or there", "", "no header at all\n\nhere: or there"),
            (" a: b\n", "", " a: b\n"),
            ("\nonly a body", "", "only a body"),
            ("", "", ""),
        ] {
            let (fields, rest) = split(text.as_bytes());
            let lines = fields.iter().map(Field::lines).collect::<Vec<_>>().concat();
            assert_eq!(String::from_utf8_lossy(&lines), headers, "{text:?}");
            assert_eq!(String::from_utf8_lossy(rest), body, "{text:?}");
        }
    }

    #[test]
    fn field_has_name_and_value() {
        let field = Field::begin(b"Message-ID :  <1@x> \n").expect("a field");
        assert!(field.is("message-id") && !field.is("Message"));
        assert_eq!(field.value(), b"<1@x>");
        let (folded, _) = split(b"To:\n a,\n b\n\n");
        assert_eq!(folded[0].value(), b"a,\n b");
    }

    proptest! {
        #[test]
        fn header_block_has_no_empty_line(text in "[a: \n\t]{0,40}") {
            let (fields, _) = split(text.as_bytes());
            let lines = fields.iter().map(Field::lines).collect::<Vec<_>>().concat();
            prop_assert!(memchr::memmem::find(&lines, b"\n\n").is_none() && !lines.starts_with(b"\n"));
            prop_assert!(lines.is_empty() || lines.ends_with(b"\n"));
        }
    }
}
