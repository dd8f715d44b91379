//! Headers with fields of the recipient in them.

use super::recipient::RecipientLine;
use zsched_format::merge::{ADDRESS, Piece, next_piece};

/// Headers that contain `{{NAME}}`.
#[derive(Debug)]
pub(super) struct HeaderTemplate {
    pieces: Vec<TemplatePiece>,
}

#[derive(Debug)]
enum TemplatePiece {
    Text(Vec<u8>),
    Field(String),
}

impl HeaderTemplate {
    /// Parses headers. Braces around anything but the name of a field are text.
    pub(super) fn parse(headers: &[u8]) -> HeaderTemplate {
        let (mut pieces, mut text, mut rest) = (Vec::new(), Vec::new(), headers);
        while !rest.is_empty()
            && let Some((piece, after)) = next_piece(rest, true)
        {
            match piece {
                Piece::Text(part) => text.extend_from_slice(part),
                Piece::Field(name) => {
                    pieces.push(TemplatePiece::Text(std::mem::take(&mut text)));
                    pieces.push(TemplatePiece::Field(name.to_string()));
                }
            }
            rest = after;
        }
        pieces.push(TemplatePiece::Text(text));
        HeaderTemplate { pieces }
    }

    /// Headers that are the same for all recipients, whatever they contain.
    pub(super) fn constant(headers: Vec<u8>) -> HeaderTemplate {
        HeaderTemplate { pieces: vec![TemplatePiece::Text(headers)] }
    }

    /// The names of the fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Field(name) => Some(name.as_str()),
            TemplatePiece::Text(_) => None,
        })
    }

    /// Length of the text in it, in bytes.
    pub(super) fn length(&self) -> usize {
        let lengths = self.pieces.iter().map(|piece| match piece {
            TemplatePiece::Text(text) => text.len(),
            TemplatePiece::Field(_) => 0,
        });
        lengths.sum()
    }

    /// The headers for a recipient. A field that it lacks is empty.
    pub(super) fn expand(&self, recipient: &RecipientLine<'_>) -> Vec<u8> {
        let mut headers = Vec::new();
        for piece in &self.pieces {
            headers.extend_from_slice(match piece {
                TemplatePiece::Text(text) => text,
                TemplatePiece::Field(name) => value(recipient, name).unwrap_or_default().as_bytes(),
            });
        }
        headers
    }
}

/// The value of a field, or the address.
pub(super) fn value<'l>(recipient: &RecipientLine<'l>, name: &str) -> Option<&'l str> {
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
        }
        let template = HeaderTemplate::parse(b"{{name}} {{other}}");
        assert_eq!(template.fields().collect::<Vec<_>>(), ["name", "other"]);
        assert_eq!(HeaderTemplate::parse(b"no {fields}\n").fields().count(), 0);
    }
}
