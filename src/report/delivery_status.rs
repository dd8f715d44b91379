//! The part for programs: fields about the message, then a block for each recipient (RFC 3464).
//!
//! ```text
//! Reporting-MTA: dns; relay.example.org
//! Arrival-Date: Sat, 21 Nov 2026 10:04:09 +0000
//!
//! Original-Recipient: rfc822; list@example.net
//! Final-Recipient: rfc822; bob@example.net
//! Action: failed
//! Status: 5.1.1 (no such user)
//! Remote-MTA: dns; mx.example.net (192.0.2.1)
//! Diagnostic-Code: smtp; 550 (no such user)
//! Last-Attempt-Date: Sat, 21 Nov 2026 10:04:11 +0000
//! Final-Log-ID: S10101639AbmKUKEJuveqC
//! ```
//!
//! `X-ZTAID` is the agent, as in ZMailer's reports, and `X-Destination` the destination of the
//! scheduler. Addresses beyond ASCII are in `message/global-delivery-status` (RFC 6533); only that
//! one has characters beyond ASCII.

use crate::address::{TypedAddress, is_international};
use crate::field::{Charset, date, one_line};
use crate::notary::Outcome;
use crate::{DsnAction, MAX_REPORTED_RECIPIENTS, Report};
use zsched_format::xtext;

/// Maximum length of a value. The line with its name stays below 998 characters (RFC 5322, 2.1.1).
const MAX_VALUE_LEN: usize = 900;
/// Maximum length of values that are short by nature: remarks, names of hosts and agents.
const MAX_SHORT_VALUE_LEN: usize = 250;
/// Length of the part after which blocks have only the fields that RFC 3464 demands.
const MAX_DETAILED_LEN: usize = 4 * 1024 * 1024;

/// The part for programs.
pub(crate) struct DeliveryStatus {
    /// Its fields.
    pub(crate) text: String,
    charset: Charset,
}

impl DeliveryStatus {
    /// Composes the part.
    pub(crate) fn new(report: &Report<'_>, outcomes: &[Outcome<'_>]) -> DeliveryStatus {
        let outcomes = &outcomes[..outcomes.len().min(MAX_REPORTED_RECIPIENTS)];
        let charset = match outcomes.iter().any(is_about_international_address) {
            true => Charset::Utf8,
            false => Charset::Ascii,
        };
        let mut fields = Fields { text: String::new(), charset };
        fields.push_message(report);
        for outcome in outcomes {
            fields.text.push('\n');
            fields.push_recipient(report, outcome);
        }
        DeliveryStatus { text: fields.text, charset }
    }

    /// The subtype of `message/`.
    pub(crate) fn subtype(&self) -> &'static str {
        match self.charset {
            Charset::Ascii => "delivery-status",
            Charset::Utf8 => "global-delivery-status",
        }
    }
}

fn is_about_international_address(outcome: &Outcome<'_>) -> bool {
    let original = outcome.recipient.original_recipient.and_then(TypedAddress::parse);
    is_international(outcome.address) || original.is_some_and(|o| is_international(&o.address))
}

struct Fields {
    text: String,
    charset: Charset,
}

impl Fields {
    fn push_message(&mut self, report: &Report<'_>) {
        if let Some(id) = report.envelope_id {
            self.push("Original-Envelope-Id", &self.value(&xtext::decode(id), MAX_VALUE_LEN));
        }
        let mta = match self.value(report.reporting_mta.as_bytes(), MAX_SHORT_VALUE_LEN) {
            name if name.is_empty() => "x-local-hostname; -unknown-".to_string(),
            name => format!("dns; {name}"),
        };
        self.push("Reporting-MTA", &mta);
        self.push("Arrival-Date", &date(report.arrival, &report.zone));
    }

    fn push_recipient(&mut self, report: &Report<'_>, outcome: &Outcome<'_>) {
        let is_detailed = self.text.len() < MAX_DETAILED_LEN;
        if let Some(original) = outcome.recipient.original_recipient.and_then(TypedAddress::parse) {
            self.push("Original-Recipient", &original.to_field(self.charset));
        }
        let address = TypedAddress::of_final(outcome.address);
        self.push("Final-Recipient", &address.to_field(self.charset));
        self.push("Action", outcome.action.word());
        if is_detailed {
            self.push("Status", &self.status(outcome));
            self.push_details(report, outcome);
        } else {
            self.push("Status", &outcome.status);
        }
    }

    fn push_details(&mut self, report: &Report<'_>, outcome: &Outcome<'_>) {
        self.push("Remote-MTA", &self.typed("dns", outcome.remote, MAX_SHORT_VALUE_LEN));
        self.push("Diagnostic-Code", &self.diagnostic(outcome));
        if let Some(time) = outcome.recipient.time {
            self.push("Last-Attempt-Date", &date(time, &report.zone));
        }
        self.push("Final-Log-ID", &self.value(report.spool_id.as_bytes(), MAX_SHORT_VALUE_LEN));
        if let Some(until) = outcome.recipient.retry_until
            && outcome.action == DsnAction::Delayed
        {
            self.push("Will-Retry-Until", &date(until, &report.zone));
        }
        self.push("X-ZTAID", &self.value(outcome.agent, MAX_SHORT_VALUE_LEN));
        let destination = [outcome.recipient.channel, outcome.recipient.host];
        if !destination.concat().is_empty() {
            let destination = destination.join(&b'/');
            self.push("X-Destination", &self.value(&destination, MAX_SHORT_VALUE_LEN));
        }
    }

    /// The diagnostic code, or else the text of the agent.
    fn diagnostic(&self, outcome: &Outcome<'_>) -> String {
        let text = self.value(outcome.recipient.text, MAX_VALUE_LEN);
        match outcome.diagnostic {
            [] if text.is_empty() => text,
            [] => format!("x-local; {text}"),
            code => self.typed("x-local", code, MAX_VALUE_LEN),
        }
    }

    fn status(&self, outcome: &Outcome<'_>) -> String {
        let remark = self.value(outcome.remark, MAX_SHORT_VALUE_LEN);
        // A parenthesis or a backslash inside would need quoting, which few readers know.
        let remark = remark.replace('(', "[").replace(')', "]").replace('\\', "/");
        match remark.is_empty() {
            true => outcome.status.clone(),
            false => format!("{} ({remark})", outcome.status),
        }
    }

    /// A value `type; text`. One without a type gets `default`; an empty one stays empty.
    fn typed(&self, default: &str, value: &[u8], max_len: usize) -> String {
        const MAX_TYPE_LEN: usize = 32;
        let value = self.value(value, max_len);
        let is_token = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        match value.split_once(';') {
            Some((kind, text))
                if (1..=MAX_TYPE_LEN).contains(&kind.len()) && kind.bytes().all(is_token) =>
            {
                format!("{kind}; {}", text.trim_start())
            }
            _ if value.is_empty() => value,
            _ => format!("{default}; {value}"),
        }
    }

    fn value(&self, value: &[u8], max_len: usize) -> String {
        one_line(value, max_len, self.charset)
    }

    /// Appends a field, if it has a value.
    fn push(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text.extend([name, ": ", value, "\n"]);
        }
    }
}
