//! Reads composed reports back, with a parser that has no code in common with the crate.

use mail_parser::{Message, MessageParser, MimeHeaders};

/// A report as a mail program sees it.
#[derive(Debug)]
pub(super) struct ReadReport {
    /// The lines before the message.
    pub(super) envelope: Vec<String>,
    /// The text for people, decoded.
    pub(super) text: String,
    /// Media types of the message and of its parts.
    pub(super) types: Vec<String>,
    /// The fields of the part for programs, in blocks.
    pub(super) blocks: Vec<Vec<(String, String)>>,
    /// The last part, as it is.
    pub(super) original: Vec<u8>,
    /// The parts that are neither the first one nor encoded, and the headers of the message.
    pub(super) head: Vec<u8>,
}

impl ReadReport {
    /// Reads a submission file. Panics if it is none.
    pub(super) fn of(file: &[u8]) -> ReadReport {
        let end = memchr::memmem::find(file, b"env-end\n").expect("an end of the envelope");
        let envelope = String::from_utf8_lossy(&file[..end]);
        let raw = &file[end + b"env-end\n".len()..];
        let message = MessageParser::default().parse(raw).expect("a message");
        let parts = message.parts[0].sub_parts().expect("a multipart").to_vec();
        let [text, status, original] = parts[..] else { panic!("{} parts", parts.len()) };
        let bytes = |part: u32| {
            let part = &message.parts[part as usize];
            raw[part.offset_body as usize..part.offset_end as usize].to_vec()
        };
        let fields = String::from_utf8(bytes(status)).expect("fields in UTF-8");
        ReadReport {
            envelope: envelope.lines().map(str::to_string).collect(),
            text: message.parts[text as usize].text_contents().expect("a text").to_string(),
            types: [0, text, status, original].map(|part| media_type(&message, part)).to_vec(),
            blocks: fields.split("\n\n").map(fields_of).collect(),
            original: bytes(original),
            head: raw[..message.parts[original as usize].offset_body as usize].to_vec(),
        }
    }

    /// The values of a field, in all blocks.
    pub(super) fn values(&self, name: &str) -> Vec<&str> {
        let fields = self.blocks.iter().flatten().filter(|(found, _)| found == name);
        fields.map(|(_, value)| value.as_str()).collect()
    }
}

fn media_type(message: &Message<'_>, part: u32) -> String {
    let kind = message.parts[part as usize].content_type().expect("a type");
    format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or_default())
}

fn fields_of(block: &str) -> Vec<(String, String)> {
    let fields = block.lines().map(|line| line.split_once(": ").expect("a field"));
    fields.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}
