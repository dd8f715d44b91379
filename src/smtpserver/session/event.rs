//! What becomes of mail, for the status log and for counters.

use super::{Reply, Session};
use zsched_spool::SpoolId;

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLine {
    /// About a message, a recipient or a login, with the client.
    OfMail(String),
    /// What has happened to the session. Any client can cause such lines at any rate.
    OfSession(&'static str),
}

/// A message that was accepted, or mail that was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailEvent {
    /// The message, or the reply to what was not accepted.
    pub outcome: Result<SpoolId, Reply>,
    /// `None` is the null sender, or one that is not known yet.
    pub sender: Option<String>,
    /// The recipient that was not accepted; `None` if the event is about a message.
    pub recipient: Option<String>,
    /// Number of recipients that were accepted.
    pub recipients: usize,
    /// Size of the message, in bytes; the size that the client has stated before it was sent.
    pub size: u64,
}

impl Session {
    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<MailEvent> {
        std::mem::take(&mut self.events)
    }

    /// Notes mail that is not accepted: a recipient, or else the message.
    pub(super) fn reject(&mut self, recipient: Option<String>, reply: &Reply) {
        let transaction = self.transaction.as_deref();
        let stated = transaction.and_then(|one| one.parameters.size);
        let received =
            transaction.and_then(|one| one.body.as_ref()).map(|body| body.decoder.size());
        let event = MailEvent {
            outcome: Err(reply.clone()),
            sender: transaction.and_then(|one| one.sender.clone()),
            recipient,
            recipients: transaction.map_or(0, |one| one.recipients.len()),
            size: received.or(stated).unwrap_or(0),
        };
        let sender = event.sender.as_deref().unwrap_or_default();
        match &event.recipient {
            Some(address) => {
                self.note(format_args!("refused to=<{address}> from=<{sender}>: {reply}"));
            }
            None => self.note(format_args!(
                "refused a message from=<{sender}> size={} nrcpt={}: {reply}",
                event.size, event.recipients
            )),
        }
        self.events.push(event);
    }
}
