//! The header fields of a message.

/// A field: its name, and its value as it is written, line ends of folded lines and the last one included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    lines: Vec<u8>,
    /// Where the colon is.
    colon: usize,
}

impl Field {
    /// A field of these texts, which must be one line.
    pub fn new(name: &str, value: &str) -> Field {
        Field { lines: format!("{name}: {value}\n").into_bytes(), colon: name.len() }
    }

    /// The field that begins with this line; `None` if that is none.
    fn begin(line: &[u8]) -> Option<Field> {
        let colon = memchr::memchr(b':', line)?;
        let name = line[..colon].trim_ascii_end();
        let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
        is_name.then(|| Field { lines: whole(line), colon })
    }

    /// Whether it is a field of this name.
    pub fn is(&self, name: &str) -> bool {
        self.lines[..self.colon].trim_ascii_end().eq_ignore_ascii_case(name.as_bytes())
    }

    /// What it says, without the blanks around it.
    pub fn value(&self) -> &[u8] {
        self.lines[self.colon + 1..].trim_ascii()
    }

    /// Its lines, with their ends.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }
}

/// A line with its line end, which the last one of a file may lack.
fn whole(line: &[u8]) -> Vec<u8> {
    [line.strip_suffix(b"\n").unwrap_or(line), b"\n"].concat()
}

/// Splits a text into fields and body. The first line that belongs to no field begins the body; an empty
/// one before it is left out.
pub fn split(text: &[u8]) -> (Vec<Field>, &[u8]) {
    let mut fields: Vec<Field> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, behind) = rest.split_at(end);
        if line == b"\n" {
            return (fields, behind);
        }
        match (line[0], fields.last_mut()) {
            (b' ' | b'\t', Some(field)) => field.lines.extend(whole(line)),
            _ => match Field::begin(line) {
                Some(field) => fields.push(field),
                None => break,
            },
        }
        rest = behind;
    }
    (fields, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_and_body_come_apart() {
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
    fn a_field_has_a_name_and_a_value() {
        let field = Field::begin(b"Message-ID :  <1@x> \n").expect("a field");
        assert!(field.is("message-id") && !field.is("Message"));
        assert_eq!(field.value(), b"<1@x>");
        let (folded, _) = split(b"To:\n a,\n b\n\n");
        assert_eq!(folded[0].value(), b"a,\n b");
    }

    proptest! {
        #[test]
        fn a_block_of_fields_never_ends_early(text in "[a: \n\t]{0,40}") {
            let (fields, _) = split(text.as_bytes());
            let lines = fields.iter().map(Field::lines).collect::<Vec<_>>().concat();
            prop_assert!(memchr::memmem::find(&lines, b"\n\n").is_none() && !lines.starts_with(b"\n"));
            prop_assert!(lines.is_empty() || lines.ends_with(b"\n"));
        }
    }
}
