//! The envelope of a message, and the commands that say it to a server.

use super::Capabilities;
use zsched_mail_exchanger::domain_name;

/// A sender, recipients, and what the server has to know of the message.
#[derive(Clone, Debug, Default)]
pub struct Envelope {
    /// The sender's address; empty for error messages.
    pub sender: Vec<u8>,
    /// The recipients of the transaction.
    pub recipients: Vec<EnvelopeRecipient>,
    /// Size of the message with CRLF line ends, in bytes.
    pub size: u64,
    /// True if the message has bytes above 127.
    pub is_8bit: bool,
    /// True if its headers are in UTF-8, and not in ASCII.
    pub has_utf8_headers: bool,
    /// `RET` (RFC 3461): `FULL` or `HDRS`.
    pub return_mode: Option<String>,
    /// `ENVID` (RFC 3461), in xtext.
    pub envelope_id: Option<String>,
    /// `BY` (RFC 2852).
    pub deliver_by: Option<DeliverBy>,
    /// `MT-PRIORITY` (RFC 6710): -9 to 9.
    pub priority: Option<i8>,
    /// True if all hops must use TLS (`REQUIRETLS`, RFC 8689).
    pub require_tls: bool,
}

/// A deadline of delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverBy {
    /// Seconds that are left.
    pub seconds: i64,
    /// True if the message is returned after the deadline.
    pub return_after: bool,
    /// True if each relay is reported.
    pub trace: bool,
}

/// A recipient of a transaction.
#[derive(Clone, Debug, Default)]
pub struct EnvelopeRecipient {
    /// The address.
    pub address: Vec<u8>,
    /// `NOTIFY` (RFC 3461); `None` if the sender has not said it.
    pub notify: Option<String>,
    /// `ORCPT` (RFC 3461): `type;xtext`.
    pub original: Option<String>,
}

/// The reason why a server must not get a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Enhanced status code.
    pub status: &'static str,
    /// Reply code in the style of SMTP.
    pub code: u16,
    /// Explanation.
    pub text: String,
}

impl Refusal {
    /// The refusal of an address that needs SMTPUTF8.
    pub fn of_utf8() -> Refusal {
        let text = "an address is not in ASCII, and the host does not offer SMTPUTF8";
        Refusal { status: "5.6.7", code: 553, text: text.to_string() }
    }
}

impl Envelope {
    /// Puts domains into A-labels where the rest of an address is in ASCII (RFC 5890).
    ///
    /// A host without SMTPUTF8 takes such addresses. Others stay as they are.
    pub fn convert_domains(&mut self) {
        let recipients = self.recipients.iter_mut().map(|recipient| &mut recipient.address);
        recipients.chain([&mut self.sender]).for_each(convert_domain);
    }

    /// Checks that the server can take the message.
    ///
    /// `is_for_required_tls` is true if messages with REQUIRETLS may be sent to it.
    /// `sends_8bit` is true if 8-bit text is sent whatever the server offers.
    ///
    /// # Errors
    ///
    /// The message fails at this server, permanently.
    pub fn check(
        &self,
        server: &Capabilities,
        is_for_required_tls: bool,
        sends_8bit: bool,
    ) -> Result<(), Refusal> {
        let refused = |status, code, text: String| Err(Refusal { status, code, text });
        if let Some(max) = server.max_size
            && self.size > max
        {
            let text = format!("the message has {} bytes, the host takes {max}", self.size);
            return refused("5.3.4", 552, text);
        }
        if self.is_8bit && !server.offers.eight_bit && !sends_8bit {
            let text = "the message has 8-bit text, and the host does not offer 8BITMIME";
            return refused("5.6.3", 554, text.into());
        }
        if !self.sender.is_ascii() && !server.offers.utf8 {
            return Err(Refusal::of_utf8());
        }
        if self.require_tls && !is_for_required_tls {
            let text = "the sender requires verified TLS and REQUIRETLS of the host";
            return refused("5.7.30", 550, text.into());
        }
        if self.deliver_by.is_some_and(|by| by.return_after) && !server.offers.deliver_by {
            let text = "the sender has set a deadline, and the host does not offer DELIVERBY";
            return refused("5.3.3", 550, text.into());
        }
        Ok(())
    }

    fn needs_utf8(&self) -> bool {
        let addresses = self.recipients.iter().map(|recipient| &recipient.address);
        addresses.chain([&self.sender]).any(|address| !address.is_ascii())
    }

    /// The command MAIL, with CRLF.
    pub(super) fn mail(&self, server: &Capabilities, sends_8bit: bool) -> Vec<u8> {
        let offers = &server.offers;
        let mut parameters = String::new();
        let mut add = |is_wanted: bool, word: std::fmt::Arguments<'_>| {
            if is_wanted {
                parameters.push_str(&format!(" {word}"));
            }
        };
        add(offers.size, format_args!("SIZE={}", self.size));
        add(self.is_8bit && (offers.eight_bit || sends_8bit), format_args!("BODY=8BITMIME"));
        let is_utf8 = self.needs_utf8() || self.has_utf8_headers;
        add(is_utf8 && offers.utf8, format_args!("SMTPUTF8"));
        if offers.dsn {
            for (name, value) in [("ENVID", &self.envelope_id), ("RET", &self.return_mode)] {
                if let Some(value) = value.as_deref().filter(|value| is_word(value)) {
                    add(true, format_args!("{name}={value}"));
                }
            }
        }
        if let Some(by) = self.deliver_by.filter(|_| offers.deliver_by) {
            let mode = if by.return_after { 'R' } else { 'N' };
            let trace = if by.trace { "T" } else { "" };
            // The server may refuse a shorter time only where it would return the message.
            let least = if by.return_after { i64::MIN } else { server.min_deliver_by };
            add(true, format_args!("BY={};{mode}{trace}", by.seconds.max(least)));
        }
        if let Some(priority) = self.priority {
            add(offers.priority, format_args!("MT-PRIORITY={priority}"));
        }
        add(self.require_tls && offers.require_tls, format_args!("REQUIRETLS"));
        [b"MAIL From:<", &self.sender[..], b">", parameters.as_bytes(), b"\r\n"].concat()
    }

    /// The command RCPT for a recipient, with CRLF.
    pub(super) fn rcpt(&self, recipient: &EnvelopeRecipient, server: &Capabilities) -> Vec<u8> {
        let mut parameters = String::new();
        if server.offers.dsn {
            for (name, value) in [("NOTIFY", &recipient.notify), ("ORCPT", &recipient.original)] {
                if let Some(value) = value.as_deref().filter(|value| is_word(value)) {
                    parameters.push_str(&format!(" {name}={value}"));
                }
            }
        }
        [b"RCPT To:<", &recipient.address[..], b">", parameters.as_bytes(), b"\r\n"].concat()
    }
}

fn convert_domain(address: &mut Vec<u8>) {
    let Some(at) = address.iter().rposition(|byte| *byte == b'@') else { return };
    let (local, domain) = (&address[..at], &address[at + 1..]);
    if !local.is_ascii() || domain.is_ascii() {
        return;
    }
    let ascii = std::str::from_utf8(domain).ok().and_then(|domain| domain_name(domain).ok());
    if let Some(ascii) = ascii {
        address.truncate(at + 1);
        address.extend_from_slice(ascii.as_bytes());
    }
}

/// Returns true for a parameter value that adds no other word or line.
fn is_word(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns true if an address can stand in a path without ending it or the line.
///
/// Control characters are never allowed; blanks and angle brackets in quotes only.
pub fn is_safe_address(address: &[u8]) -> bool {
    let (mut in_quotes, mut is_escaped) = (false, false);
    for &byte in address {
        match byte {
            0..=31 | 127 => return false,
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_quotes = !in_quotes,
            b' ' | b'<' | b'>' if !in_quotes => return false,
            _ => {}
        }
    }
    !in_quotes && !is_escaped
}
