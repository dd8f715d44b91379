//! Lines about mail that clients have brought to the SMTP server.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Line of the SMTP server about mail.
///
/// It is about a message that was accepted, or about mail that was not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SmtpLine<'a> {
    /// Time of the reply, as in [`StatusLine::time`](super::StatusLine::time).
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// The client.
    #[serde(borrow)]
    pub smtp: SmtpClient<'a>,
    /// What became of the mail.
    pub status: SmtpStatus,
    /// Spool id of a message that was accepted.
    pub spool_id: Option<Cow<'a, str>>,
    /// Address of the sender; `None` for the null sender, and before it is known.
    pub sender: Option<Cow<'a, str>>,
    /// The recipient that was not accepted; `None` if the line is about a message or a connection.
    pub recipient: Option<Cow<'a, str>>,
    /// Number of recipients that were accepted.
    pub recipients: u64,
    /// Size of the message, in bytes.
    pub size: u64,
    /// The reply, with its codes.
    #[serde(borrow)]
    pub reply: Cow<'a, str>,
}

/// The client of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SmtpClient<'a> {
    /// Its name in HELO, and its address: `name[192.0.2.1]`.
    #[serde(borrow)]
    pub client: Cow<'a, str>,
    /// Kind of the port: `smtp`, `submission` or `lmtp`.
    #[serde(borrow)]
    pub service: Cow<'a, str>,
    /// Its login.
    pub login: Option<Cow<'a, str>>,
    /// Version and cipher of its TLS.
    pub tls: Option<Cow<'a, str>>,
}

/// What became of mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SmtpStatus {
    /// The message is in the spool.
    Accepted,
    /// The client may try again (4xx).
    Deferred,
    /// The client must not try again (5xx).
    Refused,
}

impl SmtpLine<'_> {
    /// Copies borrowed texts.
    pub fn into_owned(self) -> SmtpLine<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        SmtpLine {
            time: own(self.time),
            smtp: SmtpClient {
                client: own(self.smtp.client),
                service: own(self.smtp.service),
                login: self.smtp.login.map(own),
                tls: self.smtp.tls.map(own),
            },
            status: self.status,
            spool_id: self.spool_id.map(own),
            sender: self.sender.map(own),
            recipient: self.recipient.map(own),
            recipients: self.recipients,
            size: self.size,
            reply: own(self.reply),
        }
    }
}
