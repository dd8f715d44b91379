//! The envelope of a message, and its form in a submission.

use super::body::BodyDecoder;
use super::command::Hold;
use super::mail::{DECODE_SIZE, WRITE_SIZE};
use super::{
    Client, HelloVerb, MailParameters, RcptParameters, Service, SessionSettings, TlsFacts,
};
use std::net::{IpAddr, SocketAddr};

/// Maximum memory of the text of a message, in bytes.
const MAX_BODY_MEMORY: usize = WRITE_SIZE + DECODE_SIZE;

/// A message that is being received.
#[derive(Debug)]
pub struct Transaction {
    /// `None` is the null sender.
    pub sender: Option<String>,
    /// Parameters of MAIL.
    pub parameters: MailParameters,
    /// The recipients that are accepted.
    pub recipients: Vec<(String, RcptParameters)>,
    /// Header lines that come before those of the message.
    pub(super) headers: String,
    pub(super) body: Option<Body>,
    /// A part of it is written.
    pub(super) has_file: bool,
    /// The client has asked for a higher priority.
    pub(super) is_priority_lowered: bool,
    /// Memory of the recipients, in bytes.
    recipients_size: usize,
}

/// The text of a message, while it is received.
#[derive(Debug)]
pub(super) struct Body {
    pub decoder: BodyDecoder,
    /// What is not written yet, beginning with the envelope.
    pub text: Vec<u8>,
    /// The chunk of BDAT that is being received.
    pub chunk: Option<Chunk>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub size: u64,
    pub left: u64,
    pub is_last: bool,
}

/// What is known when a recipient is to be checked.
#[derive(Clone, Debug, Default)]
pub struct RecipientQuestion {
    /// `None` is the null sender.
    pub sender: Option<String>,
    /// The recipient.
    pub recipient: String,
    /// Number of recipients that are accepted so far.
    pub accepted: usize,
    /// Size that the client states, in bytes.
    pub size: Option<u64>,
    /// The client may send to any address.
    pub may_relay: bool,
    /// Address and port of the client.
    pub ip: Option<IpAddr>,
    /// Port of the client.
    pub port: u16,
    /// The name that the client gave.
    pub client_name: String,
    /// The address and port that the client has connected to.
    pub server: Option<SocketAddr>,
    /// Its login name.
    pub login: Option<String>,
    /// The mechanism of the login.
    pub login_method: Option<&'static str>,
    /// Its TLS.
    pub tls: Option<TlsFacts>,
    /// `SMTP`, `ESMTP` or `LMTP`.
    pub protocol: &'static str,
    /// Numbers of the session and of the message in it.
    pub instance: (u64, u64),
}

/// What the trace header of a message says.
pub(super) struct Trace<'s> {
    pub settings: &'s SessionSettings,
    pub client: &'s Client,
    pub hello: &'s (HelloVerb, String),
    pub login: Option<&'s str>,
    pub tls: Option<&'s TlsFacts>,
}

impl Transaction {
    pub(super) fn new(
        sender: Option<String>,
        parameters: MailParameters,
        is_priority_lowered: bool,
    ) -> Transaction {
        Transaction {
            sender,
            parameters,
            recipients: Vec::new(),
            headers: String::new(),
            body: None,
            has_file: false,
            is_priority_lowered,
            recipients_size: 0,
        }
    }

    pub(super) fn add_recipient(&mut self, address: String, parameters: RcptParameters) {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = address.len() + length(&parameters.notify) + length(&parameters.original);
        self.recipients_size += size_of::<(String, RcptParameters)>() + texts;
        self.recipients.push((address, parameters));
    }

    /// Memory of the message, in bytes. That of a text counts before the text comes.
    pub(super) fn memory(&self) -> usize {
        let text = self.body.as_ref().map_or(0, |body| body.text.capacity().max(MAX_BODY_MEMORY));
        size_of::<Transaction>() + self.recipients_size + self.headers.capacity() + text
    }

    /// The lines before the headers of the submission.
    pub(super) fn envelope(&self, trace: &Trace<'_>) -> Vec<u8> {
        let mut lines = Vec::new();
        lines.push(format!("rcvdfrom {}", trace.received_from()));
        lines.push(format!("with {}", trace.with(self.parameters.is_utf8)));
        lines.extend(trace.login.map(|login| format!("authinfo {login}")));
        lines.extend(self.parameters.body_type.map(|body| format!("bodytype {body}")));
        lines.extend(self.parameters.envelope_id.as_ref().map(|id| format!("envid {id}")));
        lines.extend(self.parameters.return_mode.map(|mode| format!("notaryret {mode}")));
        lines.push(match &self.sender {
            Some(sender) => format!("from <{sender}>"),
            None => "channel error".into(),
        });
        let by = self.parameters.deliver_by.as_ref().map(|by| format!("BY={by}"));
        let hold = self.parameters.hold.map(|hold| match hold {
            Hold::For(seconds) => format!("HOLDFOR={seconds}"),
            Hold::Until(second) => format!("NOTBEFORE={second}"),
        });
        let priority = self.parameters.priority.map(|value| format!("MT-PRIORITY={value}"));
        for (address, parameters) in &self.recipients {
            let words = [
                parameters.notify.as_ref().map(|notify| format!("NOTIFY={notify}")),
                parameters.original.as_ref().map(|original| format!("ORCPT={original}")),
                by.clone(),
                hold.clone(),
                priority.clone(),
            ];
            let words: Vec<String> = words.into_iter().flatten().collect();
            if !words.is_empty() {
                lines.push(format!("todsn {}", words.join(" ")));
            }
            lines.push(format!("to <{address}>"));
        }
        lines.push(format!("env-end\n{}", self.headers));
        lines.join("\n").into_bytes()
    }
}

impl Trace<'_> {
    /// The `from` clause of the trace header (RFC 5321, 4.4).
    fn received_from(&self) -> String {
        let is_part = |c: char| c.is_alphanumeric() || ".-_:[]".contains(c);
        let name: String = self.hello.1.chars().map(|c| if is_part(c) { c } else { '?' }).collect();
        match self.client.ip {
            Some(IpAddr::V4(ip)) => format!("{name} ([{ip}]:{})", self.client.port),
            Some(IpAddr::V6(ip)) => format!("{name} ([IPv6:{ip}]:{})", self.client.port),
            None => format!("{name} (stdin)"),
        }
    }

    /// The protocol (RFC 3848, RFC 6531 section 4.3), and the cipher (RFC 8314, 4.3).
    fn with(&self, is_utf8: bool) -> String {
        let protocol = self.protocol(is_utf8);
        match self.tls {
            Some(tls) => format!("{protocol} tls {}", tls.cipher),
            None => protocol,
        }
    }

    fn protocol(&self, is_utf8: bool) -> String {
        let base = match (self.settings.service, self.hello.0, is_utf8) {
            (Service::Lmtp, _, false) => "LMTP",
            (Service::Lmtp, _, true) => "UTF8LMTP",
            (_, HelloVerb::Helo, _) => return "SMTP".into(),
            (_, _, true) => "UTF8SMTP",
            _ => "ESMTP",
        };
        let tls = if self.tls.is_some() { "S" } else { "" };
        let login = if self.login.is_some() { "A" } else { "" };
        format!("{base}{tls}{login}")
    }
}
