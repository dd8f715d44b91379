//! A message as it is written to the spool.
//!
//! Required headers are added, and Bcc headers are removed.

use super::options::SubmitOptions;
use jiff::Zoned;
use std::collections::HashSet;
use zsched_format::address_list::{AddressListError, addresses};
use zsched_format::header::{Field, split};

/// Sender in the From header of a message with a null sender.
const NULL_SENDER: &str = "MAILER-DAEMON";

/// A message and its recipients.
#[derive(Debug)]
pub(crate) struct Message {
    fields: Vec<Field>,
    body: Vec<u8>,
    /// Envelope recipients, without duplicates.
    pub recipients: Vec<String>,
}

/// Why a message cannot be submitted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// A header that lists recipients cannot be parsed.
    #[error("the {0} header cannot be read: {1}")]
    Header(String, AddressListError),
    /// Neither the command line nor a header names a recipient.
    #[error("it has no recipients")]
    NoRecipient,
}

impl Message {
    /// Creates a message from the text on standard input.
    pub(crate) fn new(text: &[u8], options: &SubmitOptions) -> Result<Message, SubmitError> {
        let text = with_line_feeds(text);
        let (mut fields, body) = split(skip_mbox_line(&text));
        if options.bulk.is_wanted() {
            fields.retain(|field| !is_hidden(field));
            let mut message = Message { fields, body: body.to_vec(), recipients: Vec::new() };
            message.complete(options, "undisclosed-recipients:;");
            return Ok(message);
        }
        let mut recipients: Vec<String> = options.recipients().map(str::to_string).collect();
        let shown = recipients.join(", ");
        if options.recipients_in_headers {
            recipients.append(&mut recipients_in(&fields)?);
        }
        let mut known = HashSet::new();
        recipients.retain(|recipient| known.insert(recipient.clone()));
        if recipients.is_empty() {
            return Err(SubmitError::NoRecipient);
        }
        let count = fields.len();
        fields.retain(|field| !is_hidden(field));
        let hides_some = options.recipients_in_headers || fields.len() < count;
        let mut message = Message { fields, body: body.to_vec(), recipients };
        message.complete(options, if hides_some { "undisclosed-recipients:;" } else { &shown });
        Ok(message)
    }

    /// Adds required headers that are missing.
    fn complete(&mut self, options: &SubmitOptions, shown_recipients: &str) {
        let now = Zoned::now();
        let unique = format!("{}.{}", now.strftime("%Y%m%d%H%M%S%f"), std::process::id());
        self.add_if_missing("From", &from(options));
        if !self.has("Cc") {
            self.add_if_missing("To", shown_recipients);
        }
        if let Ok(date) = jiff::fmt::rfc2822::to_string(&now) {
            self.add_if_missing("Date", &date);
        }
        self.add_if_missing("Message-ID", &format!("<{unique}@localhost>"));
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.is(name))
    }

    fn add_if_missing(&mut self, name: &str, value: &str) {
        if !self.has(name) {
            self.fields.push(Field::new(name, value));
        }
    }

    /// Returns its id in logs: the Message-ID, on one line.
    pub(crate) fn id(&self) -> String {
        let field = self.fields.iter().find(|field| field.is("Message-ID"));
        let value = String::from_utf8_lossy(field.map_or(b"", Field::value));
        value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    /// Returns the header lines.
    pub(crate) fn headers(&self) -> Vec<u8> {
        self.fields.iter().flat_map(Field::lines).copied().collect()
    }

    /// Returns what follows the empty line after the headers.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the whole message.
    pub(crate) fn text(&self) -> Vec<u8> {
        [&self.headers(), &b"\n"[..], &self.body].concat()
    }
}

/// Converts line ends from CR LF to LF.
fn with_line_feeds(text: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => lines.extend([line, b"\n"].concat()),
            None => lines.extend(line),
        }
    }
    lines
}

/// Skips the `From ` line of a message that was copied from an mbox file.
fn skip_mbox_line(text: &[u8]) -> &[u8] {
    match memchr::memchr(b'\n', text) {
        Some(end) if is_mbox_line(text) => &text[end + 1..],
        _ => text,
    }
}

/// Returns true for the `From ` line that begins a message in an mbox file.
pub(crate) fn is_mbox_line(line: &[u8]) -> bool {
    line.starts_with(b"From ") || line.starts_with(b">From ")
}

/// Returns true for a header that recipients must not see.
pub(crate) fn is_hidden(field: &Field) -> bool {
    field.is("Bcc") || field.is("Resent-Bcc")
}

/// Returns the recipients in the headers.
///
/// If there are Resent- headers, only those are used.
pub(crate) fn recipients_in(fields: &[Field]) -> Result<Vec<String>, SubmitError> {
    const FIRST: [&str; 3] = ["To", "Cc", "Bcc"];
    const RESENT: [&str; 3] = ["Resent-To", "Resent-Cc", "Resent-Bcc"];
    let is_one = |names: [&str; 3], field: &Field| names.iter().any(|name| field.is(name));
    let is_resent = fields.iter().any(|field| is_one(RESENT, field));
    let names = if is_resent { RESENT } else { FIRST };
    let mut found = Vec::new();
    for name in names {
        for field in fields.iter().filter(|field| field.is(name)) {
            let unreadable = |why| SubmitError::Header(name.to_string(), why);
            found.append(&mut addresses(field.value()).map_err(unreadable)?);
        }
    }
    Ok(found)
}

fn from(options: &SubmitOptions) -> String {
    let sender = options.sender().unwrap_or(NULL_SENDER);
    match options.full_name.as_deref() {
        None | Some("") => sender.to_string(),
        Some(name) => format!("{} <{sender}>", phrase(name)),
    }
}

/// Formats a name for use before an address: quoted, unless it is plain words.
fn phrase(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " -_'!#$%&*+/=?^`{|}~".contains(c);
    if name.chars().all(is_plain) {
        return name.to_string();
    }
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn message(arguments: &[&str], text: &[u8]) -> Result<Message, SubmitError> {
        let options = SubmitOptions::parse_from([&["submit"], arguments].concat());
        Message::new(text, &options)
    }

    /// The value of a header of a message.
    fn header(message: &Message, name: &str) -> Option<String> {
        let field = message.fields.iter().find(|field| field.is(name));
        field.map(|field| String::from_utf8_lossy(field.value()).into_owned())
    }

    #[test]
    fn existing_header_is_not_added() {
        let text = b"from: carol@y\r\nmessage-id:\r\n <1@y>\r\n\r\nhi\r\n";
        let message = message(&["-f", "alice@x", "bob"], text).expect("a message");
        assert_eq!(message.id(), "<1@y>");
        assert_eq!(header(&message, "From").as_deref(), Some("carol@y"));
        assert_eq!(header(&message, "To").as_deref(), Some("bob"));
        assert!(header(&message, "Date").is_some());
        assert_eq!(message.body, b"hi\n");
    }

    #[test]
    fn message_keeps_arbitrary_bytes() {
        let text =
            b"From me Mon Jan  1 00:00:00 2026\nSubject: Gr\xfc\xdfe\n\nGr\xfc\xdfe\0\r.\n.\n";
        let message = message(&["bob"], text).expect("a message");
        assert_eq!(message.body, b"Gr\xfc\xdfe\0\r.\n.\n");
        let headers = message.headers();
        assert!(headers.starts_with(b"Subject: Gr\xfc\xdfe\nFrom: postmaster\n"));
        assert_eq!(message.text(), [&headers, &b"\n"[..], &message.body].concat());
    }

    #[test]
    fn full_name_is_quoted_if_needed() {
        for (name, expected) in [
            ("Alice B", "Alice B <a@b>"),
            ("J\u{f6}rg", "J\u{f6}rg <a@b>"),
            ("B. \"C\" \\", "\"B. \\\"C\\\" \\\\\" <a@b>"),
            ("x <evil@y>", "\"x <evil@y>\" <a@b>"),
            ("", "a@b"),
        ] {
            let message = message(&["-f", "a@b", "-F", name, "bob"], b"").expect("a message");
            assert_eq!(header(&message, "From").as_deref(), Some(expected));
        }
        let message = message(&["-f", "", "bob"], b"").expect("a message");
        assert_eq!(header(&message, "From").as_deref(), Some("MAILER-DAEMON"));
    }

    #[test]
    fn recipients_come_from_headers_with_option_t() {
        let text = b"To: A <a@x>,\n b@x\nBCC: secret@x\ncc: a@x, c@x\n\nhi\n";
        let from_headers = message(&["-t", "d@x"], text).expect("a message");
        assert_eq!(from_headers.recipients, ["d@x", "a@x", "b@x", "c@x", "secret@x"]);
        assert_eq!(header(&from_headers, "Bcc"), None);
        assert_eq!(header(&from_headers, "To").as_deref(), Some("A <a@x>,\n b@x"));
        let given = message(&["d@x"], text).expect("a message");
        assert_eq!(given.recipients, ["d@x"]);
        assert_eq!(header(&given, "Bcc"), None);
        let resent = b"To: a@x\nResent-To: e@x\nResent-Bcc: f@x\n\nhi\n";
        let resent = message(&["-t"], resent).expect("a message");
        assert_eq!(resent.recipients, ["e@x", "f@x"]);
        assert_eq!(header(&resent, "Resent-Bcc"), None);
    }

    #[test]
    fn bcc_recipient_is_not_shown() {
        for arguments in [&["-t"][..], &["a@x"]] {
            let message = message(arguments, b"Bcc: a@x\n\nhi\n").expect("a message");
            assert_eq!(header(&message, "To").as_deref(), Some("undisclosed-recipients:;"));
        }
    }

    #[test]
    fn message_without_recipient_is_refused() {
        for text in [&b"Subject: x\n\nTo: a@x\n"[..], b"To: undisclosed-recipients:;\n\n", b""] {
            assert_eq!(message(&["-t"], text).expect_err("nobody"), SubmitError::NoRecipient);
        }
        let torn = message(&["-t"], b"To: alice bob\n\n").expect_err("no list");
        assert!(torn.to_string().starts_with("the To header cannot be read: "), "{torn}");
    }
}
