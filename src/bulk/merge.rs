//! Headers with fields of the recipient in them.

use super::recipient::{RecipientLine, is_field_name};

/// The name that stands for the recipient's address.
const ADDRESS: &str = "address";

/// Headers that contain `{{NAME}}`.
#[derive(Debug)]
pub(super) struct HeaderTemplate {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Field(String),
}

impl HeaderTemplate {
    /// Parses headers. Braces around anything but the name of a field are text.
    pub(super) fn parse(headers: &[u8]) -> HeaderTemplate {
        let (mut pieces, mut text, mut rest) = (Vec::new(), Vec::new(), headers);
        while let Some(start) = memchr::memmem::find(rest, b"{{") {
            let name = memchr::memmem::find(&rest[start..], b"}}").and_then(|length| {
                let name = std::str::from_utf8(&rest[start + 2..start + length]).ok()?;
                is_field_name(name).then_some(name)
            });
            text.extend_from_slice(&rest[..start]);
            rest = &rest[start + 2..];
            match name {
                Some(name) => {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(Piece::Field(name.to_string()));
                    rest = &rest[name.len() + 2..];
                }
                None => text.extend_from_slice(b"{{"),
            }
        }
        text.extend_from_slice(rest);
        pieces.push(Piece::Text(text));
        HeaderTemplate { pieces }
    }

    /// Headers that are the same for all recipients, whatever they contain.
    pub(super) fn constant(headers: Vec<u8>) -> HeaderTemplate {
        HeaderTemplate { pieces: vec![Piece::Text(headers)] }
    }

    /// Returns true if it is the same for all recipients.
    pub(super) fn is_constant(&self) -> bool {
        self.pieces.len() == 1
    }

    /// The first field that a recipient lacks.
    pub(super) fn missing_field(&self, recipient: &RecipientLine<'_>) -> Option<&str> {
        self.pieces.iter().find_map(|piece| match piece {
            Piece::Field(name) if value(recipient, name).is_none() => Some(name.as_str()),
            _ => None,
        })
    }

    /// The headers for a recipient. A field that it lacks is empty.
    pub(super) fn expand(&self, recipient: &RecipientLine<'_>) -> Vec<u8> {
        let mut headers = Vec::new();
        for piece in &self.pieces {
            headers.extend_from_slice(match piece {
                Piece::Text(text) => text,
                Piece::Field(name) => value(recipient, name).unwrap_or_default().as_bytes(),
            });
        }
        headers
    }
}

fn value<'l>(recipient: &RecipientLine<'l>, name: &str) -> Option<&'l str> {
    if name == ADDRESS { Some(recipient.address) } else { recipient.field(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_replace_their_names() {
        let line = RecipientLine::parse(b"bob@x\tname=B{{y}}\tn=").expect("a line");
        for (template, expected) in [
            ("To: {{name}} <{{address}}>\n", "To: B{{y}} <bob@x>\n"),
            ("{{n}}{{n}}", ""),
            ("a {{ b }} {{c d}} {{", "a {{ b }} {{c d}} {{"),
            ("{{{{name}}", "{{B{{y}}"),
        ] {
            let template = HeaderTemplate::parse(template.as_bytes());
            assert_eq!(String::from_utf8_lossy(&template.expand(&line)), expected);
            assert_eq!(template.missing_field(&line), None);
        }
        let template = HeaderTemplate::parse(b"{{name}} {{other}}");
        assert_eq!(template.missing_field(&line), Some("other"));
        assert!(HeaderTemplate::parse(b"no {fields}\n").is_constant() && !template.is_constant());
    }
}
