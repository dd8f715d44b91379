//! Lines of the status log about what clients bring.

use crate::session::{MailEvent, Session};
use serde::Serialize;
use std::borrow::Cow;
use zsched_format::status_log::{SmtpClient, SmtpLine, SmtpStatus};
use zsched_format::time::{Timestamp, format_time};

/// What is known of the client of a session.
pub(crate) fn client_of(session: &Session) -> SmtpClient<'_> {
    SmtpClient {
        client: session.client_name().into(),
        service: session.service().name().into(),
        login: session.login().map(Cow::from),
        tls: session.tls().map(|tls| format!("{} {}", tls.version, tls.cipher).into()),
    }
}

/// A line with a JSON object.
pub(crate) fn json_line(object: &impl Serialize) -> Vec<u8> {
    // Texts and numbers can always be written.
    let mut text = serde_json::to_vec(object).unwrap_or_default();
    text.push(b'\n');
    text
}

/// The line about mail of a client.
pub(crate) fn status_line(client: SmtpClient<'_>, event: &MailEvent) -> Vec<u8> {
    let (status, spool_id, reply) = match &event.outcome {
        Ok(id) => (SmtpStatus::Accepted, Some(id.to_string().into()), "".into()),
        Err(reply) if reply.is_permanent() => (SmtpStatus::Refused, None, reply.to_string().into()),
        Err(reply) => (SmtpStatus::Deferred, None, reply.to_string().into()),
    };
    json_line(&SmtpLine {
        time: format_time(Timestamp::now()).into(),
        smtp: client,
        status,
        spool_id,
        sender: event.sender.as_deref().map(Cow::from),
        recipient: event.recipient.as_deref().map(Cow::from),
        recipients: event.recipients as u64,
        size: event.size,
        reply,
    })
}
