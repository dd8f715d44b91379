//! Sender, recipients and subject of a message.

use crate::format::{date_and_time, grouped};
use mail_parser::{HeaderName, MessageParser};
use serde::Serialize;
use std::iter;
use zsched_format::control_file::{self, ControlFile, Span, Tag};
use zsched_format::time::Timestamp;
use zsched_spool::{SpoolId, SpoolName};

/// What the files of a message say about it.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    /// Its spool id.
    pub id: SpoolId,
    /// The name of its files.
    pub name: SpoolName,
    /// Size of the message file, in bytes.
    pub size: u64,
    /// Sender of the first recipient; `<>` for the null sender.
    pub sender: String,
    /// Recipients, in the order of the control file.
    pub recipients: Vec<QueuedRecipient>,
    /// The subject, decoded.
    pub subject: Option<String>,
    /// The Message-ID.
    pub message_id: Option<String>,
}

/// A recipient in the spool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct QueuedRecipient {
    /// Offset of its line in the control file.
    #[serde(skip)]
    pub offset: u32,
    /// Address.
    pub recipient: String,
    /// Channel it goes by.
    pub channel: String,
    /// Host it goes to.
    pub host: String,
    /// Delivery state in the control file.
    pub state: String,
}

impl Envelope {
    /// Takes the envelope out of a control file, with at most `max_recipients`.
    pub(crate) fn new(
        name: SpoolName,
        file: &ControlFile,
        (size, modified): (u64, Timestamp),
        max_recipients: usize,
    ) -> Envelope {
        let first = file.recipients.first();
        let sender = first.and_then(|first| file.sender_address(first));
        let shown = file.recipients.len().min(max_recipients);
        Envelope {
            id: SpoolId { number: name.number(), modified },
            name,
            size,
            sender: sender.map_or("<>".into(), |sender| String::from_utf8_lossy(sender).into()),
            recipients: (0..shown).map(|index| QueuedRecipient::new(file, index)).collect(),
            subject: file.headers.first().and_then(|headers| subject(file.get(headers.text))),
            message_id: control_file::message_id(file).map(String::from),
        }
    }

    /// All texts whose length others decide.
    pub(super) fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let Envelope { sender, recipients, subject, message_id, .. } = self;
        let recipients = recipients.iter_mut();
        let recipients =
            recipients.flat_map(|to| [&mut to.recipient, &mut to.channel, &mut to.host]);
        iter::once(sender).chain(subject).chain(message_id).chain(recipients)
    }

    /// Titles and values for people, with at most `max_recipients`.
    pub(crate) fn lines(&self, max_recipients: usize) -> Vec<(&'static str, String)> {
        let mut lines = vec![("sender", self.sender.clone())];
        lines.extend(self.subject.iter().map(|subject| ("subject", subject.clone())));
        lines.extend(self.message_id.iter().map(|id| ("message id", id.clone())));
        lines.push(("arrived", date_and_time(self.id.modified.seconds())));
        lines.push(("size", format!("{} bytes", grouped(self.size))));
        lines.extend(self.recipients.iter().take(max_recipients).map(|to| {
            let text = format!("{} by {}/{}: {}", to.recipient, to.channel, to.host, to.state);
            ("recipient", text)
        }));
        lines
    }

    /// Recipients for a destination that are not final.
    pub(crate) fn queued_for<'e>(
        &'e self,
        channel: &'e str,
        host: &'e str,
    ) -> impl Iterator<Item = &'e str> {
        let is_there =
            move |to: &&QueuedRecipient| to.channel == channel && to.host == host && !to.is_final();
        self.recipients.iter().filter(is_there).map(|to| to.recipient.as_str())
    }

    /// The recipient whose line has this offset.
    pub(crate) fn recipient_at(&self, offset: u32) -> Option<&str> {
        let index = self.recipients.binary_search_by_key(&offset, |to| to.offset).ok()?;
        Some(&self.recipients[index].recipient)
    }
}

const DELIVERED: &str = "delivered";
const FAILED: &str = "failed";

impl QueuedRecipient {
    /// The recipient of this index in a control file.
    pub(crate) fn new(file: &ControlFile, index: usize) -> QueuedRecipient {
        let recipient = &file.recipients[index];
        let text = |span: Span| String::from_utf8_lossy(file.get(span)).into_owned();
        let lower = |span| text(span).to_ascii_lowercase();
        let pid = recipient.lock.and_then(|field| field.pid());
        QueuedRecipient {
            offset: recipient.offset,
            recipient: text(recipient.quad.user),
            channel: lower(recipient.quad.channel),
            host: lower(recipient.quad.host),
            state: match recipient.tag {
                Tag::Done => DELIVERED.to_string(),
                Tag::Failed => FAILED.to_string(),
                Tag::Locked => {
                    pid.map_or("with an agent".into(), |pid| format!("with agent {pid}"))
                }
                _ => "queued".to_string(),
            },
        }
    }

    fn is_final(&self) -> bool {
        self.state == DELIVERED || self.state == FAILED
    }
}

/// Compares an address, perhaps in angle brackets, with one without them, in any case.
pub(crate) fn same_address(address: &str, name: &str) -> bool {
    let address = without_brackets(address);
    address.eq_ignore_ascii_case(name) || address.to_lowercase() == name.to_lowercase()
}

/// Removes angle brackets around an address or a Message-ID.
pub(crate) fn without_brackets(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(text)
}

/// Finds the subject in headers, and decodes it (RFC 2047).
pub(super) fn subject(headers: &[u8]) -> Option<String> {
    let parser = MessageParser::new().header_text(HeaderName::Subject).default_header_ignore();
    let message = parser.parse_headers(headers)?;
    message.subject().filter(|subject| !subject.is_empty()).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zsched_spool::HashFolder;

    fn envelope(control: &str, max_recipients: usize) -> Envelope {
        let file = control_file::parse(control.into()).expect("a good control file");
        let name = SpoolName::plain(HashFolder::TOP, 7);
        Envelope::new(name, &file, (12, Timestamp::EPOCH), max_recipients)
    }

    #[test]
    fn envelope_has_sender_recipients_and_subject() {
        let control = "@ 7\ni 7\nl <1@x>\ns local - Ann@x 0\nr           SMTP Mx.test bob@mx 0\n\
            r+          smtp mx.test carol@mx 0\nr~  4711    local - dave 0\n\
            m\nFrom: x\nsubject:\n =?iso-8859-1?Q?Gr=FC=DFe?=\n =?utf-8?B?IPCfk6c=?=\nTo: y\n\n";
        let all = envelope(control, 9);
        assert_eq!((all.sender.as_str(), all.message_id.as_deref()), ("Ann@x", Some("<1@x>")));
        assert_eq!(all.subject.as_deref(), Some("Gr\u{fc}\u{df}e \u{1f4e7}"));
        assert_eq!(all.queued_for("smtp", "mx.test").collect::<Vec<_>>(), ["bob@mx"]);
        let states: Vec<&str> = all.recipients.iter().map(|to| to.state.as_str()).collect();
        assert_eq!(states, ["queued", "delivered", "with agent 4711"]);
        assert_eq!(all.recipient_at(all.recipients[2].offset), Some("dave"));
        assert_eq!(all.recipient_at(1), None);
        assert_eq!(envelope(control, 1).recipients.len(), 1);
        let report = control.replace("s local - Ann@x 0", "s error - x 0").replace("subject", "X");
        let report = envelope(&report, 9);
        assert_eq!((report.sender.as_str(), report.subject), ("<>", None));
    }

    #[test]
    fn addresses_are_compared_in_any_case() {
        assert!(same_address("<bob@HOST.example>", "Bob@Host.example"));
        assert!(same_address("JÜRGEN@x", "jürgen@X"));
        assert!(!same_address("bob@host.example.org", "bob@host.example"));
    }

    proptest! {
        #[test]
        fn subject_of_any_headers_does_not_panic(text: Vec<u8>, encoded in "[=?a-zA-Z0-9_-]{0,40}") {
            subject(&text);
            subject(&[b"Subject: ", text.as_slice(), b"\n"].concat());
            subject(format!("Subject: =?{encoded}?=\n").as_bytes());
            subject(format!("Subject: =?utf-8?q?{encoded}").as_bytes());
        }
    }
}
