//! Notary data: what an agent has said about a recipient, in fields.
//!
//! ```text
//! bob@example.net ^A failed ^A 5.1.1 (no such user) ^A smtp; 550 (no such user) ^A dns; mx (ip) ^A smtp[71]
//! ```

use crate::{DsnAction, RecipientStatus, Report, action_of};
use zsched_format::control_file::diagnostic::{ADDRESS_OF_RECIPIENT, NOTARY_SEPARATOR};
use zsched_format::status_code::enhanced_code;

/// What happened to a recipient, from its notary data.
pub(crate) struct Outcome<'a> {
    /// The recipient.
    pub(crate) recipient: &'a RecipientStatus<'a>,
    /// What happened to it.
    pub(crate) action: DsnAction,
    /// The final address.
    pub(crate) address: &'a [u8],
    /// The status code (RFC 3463), of a class that the action allows.
    pub(crate) status: String,
    /// The remark after the status code.
    pub(crate) remark: &'a [u8],
    /// `smtp; 550 (no such user)`.
    pub(crate) diagnostic: &'a [u8],
    /// `dns; mx.example.net (192.0.2.1)`; empty if no remote host took part.
    pub(crate) remote: &'a [u8],
    /// `smtp[71]`.
    pub(crate) agent: &'a [u8],
}

/// Returns what happened to the recipients, in the order of their actions.
pub(crate) fn outcomes<'a>(report: &'a Report<'_>) -> Vec<Outcome<'a>> {
    let mut outcomes: Vec<_> = report.recipients.iter().filter_map(Outcome::of).collect();
    outcomes.sort_by_key(|outcome| outcome.action);
    outcomes
}

impl<'a> Outcome<'a> {
    fn of(recipient: &'a RecipientStatus<'_>) -> Option<Outcome<'a>> {
        let action = action_of(recipient.notary)?;
        let mut fields = recipient.notary.split(|byte| *byte == NOTARY_SEPARATOR);
        let count = fields.clone().count();
        let mut next = || fields.next().unwrap_or_default().trim_ascii();
        let (address, _) = (next(), next());
        let status = if count == 3 { &[] } else { next() };
        let (diagnostic, remote, agent) = (next(), next(), next());
        let address = match address {
            [] | [ADDRESS_OF_RECIPIENT] => recipient.address,
            address => address,
        };
        let (code, remark) = split_status(status);
        let status = status_code(action, [code.as_bytes(), status, diagnostic, recipient.text]);
        Some(Outcome { recipient, action, address, status, remark, diagnostic, remote, agent })
    }
}

/// Splits `5.1.1 (no such user)`. The code is empty if there is none at the beginning.
fn split_status(field: &[u8]) -> (&str, &[u8]) {
    let end = field.iter().position(|byte| matches!(byte, b' ' | b'(')).unwrap_or(field.len());
    let word = &field[..end];
    match enhanced_code(word, b"245") {
        Some(code) if code.as_bytes() == word => (code, without_parentheses(&field[end..])),
        _ => ("", without_parentheses(field)),
    }
}

pub(crate) fn without_parentheses(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")")).unwrap_or(text)
}

/// The status code for an action: the first code in the texts that fits, else a general one.
///
/// A late recipient keeps subject and detail of a permanent code.
fn status_code(action: DsnAction, texts: [&[u8]; 4]) -> String {
    let codes = || texts.iter().filter_map(|text| enhanced_code(text, b"245"));
    if let Some(code) = codes().find(|code| action.allows_class(code.as_bytes()[0])) {
        return code.to_string();
    }
    let class = char::from(action.class());
    match codes().next() {
        Some(code) if action == DsnAction::Delayed && code.starts_with('5') => {
            format!("{class}{}", &code[1..])
        }
        _ => format!("{class}.0.0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(notary: &str, text: &str) -> String {
        let (notary, text) = (notary.replace('^', "\x01"), text.as_bytes());
        let recipient = RecipientStatus { notary: notary.as_bytes(), text, ..Default::default() };
        Outcome::of(&recipient).expect("an action").status
    }

    #[test]
    fn status_fits_the_action() {
        for (notary, text, code) in [
            ("a^failed^5.1.1 (no such user)^smtp; 550 (x)^", "", "5.1.1"),
            ("a^failed^4.4.1 (sim)^smtp; 466 (x)^", "", "4.4.1"),
            ("a^failed^2.0.0^^", "", "5.0.0"),
            ("a^failed^junk^smtp; 550-5.7.1 no", "", "5.7.1"),
            ("a^failed^^^", "\r->> 552 5.2.2 full", "5.2.2"),
            ("a^failed^smtp; 550 5.2.1 three fields", "", "5.2.1"),
            ("a^failed^5.1^smtp; 550 no", "", "5.0.0"),
            ("^failed^^^", "", "5.0.0"),
            ("a", "", "5.0.0"),
            ("a^delayed^5.4.7 (x)^", "", "4.4.7"),
            ("a^delayed^^", "", "4.0.0"),
            ("a^delivered^5.1.1^", "", "2.0.0"),
            ("a^relayed^2.1.5 (ok)^smtp; 250 (ok)", "", "2.1.5"),
        ] {
            assert_eq!(status(notary, text), code, "{notary} {text}");
        }
    }

    #[test]
    fn fields_may_be_missing_or_more() {
        let recipient = RecipientStatus {
            address: b"bob@x.test",
            notary: b"\x03\x01failed\x015.1.1 (no such user)\x01smtp; 550 (gone)\x01dns; mx\x01smtp[7]\x01new",
            ..Default::default()
        };
        let outcome = Outcome::of(&recipient).expect("an action");
        assert_eq!(outcome.address, b"bob@x.test");
        assert_eq!(outcome.remark, b"no such user");
        assert_eq!(outcome.diagnostic, b"smtp; 550 (gone)");
        assert_eq!((outcome.remote, outcome.agent), (&b"dns; mx"[..], &b"smtp[7]"[..]));
        let recipient = RecipientStatus { notary: b"c@x\x01failed\x01x-local; 5", ..recipient };
        let outcome = Outcome::of(&recipient).expect("an action");
        assert_eq!((outcome.address, outcome.diagnostic), (&b"c@x"[..], &b"x-local; 5"[..]));
    }
}
