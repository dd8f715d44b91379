//! The envelope of a submission, as the router reads it.
//!
//! ```text
//! fullname Alice Ames
//! bodytype 8BITMIME
//! envid QQ314159
//! notaryret HDRS
//! from <alice@example.org>
//! todsn NOTIFY=SUCCESS,FAILURE
//! to <bob@example.net>
//! env-end
//! ```
//!
//! The null sender is `channel error`. The router makes a From header of sender and full name, if
//! the message has none, and adds its domain to addresses without one.

use super::error::SendmailError;
use super::options::SendmailOptions;
use super::submitter;
use crate::message::{SubmitError, recipients_in};
use crate::options::{is_notify_value, without_brackets};
use mail_builder::headers::Header;
use mail_builder::headers::address::EmailAddress;
use std::collections::HashSet;
use zsched_format::address_list::addresses;
use zsched_format::header::Field;
use zsched_format::time::Timestamp;

/// Maximum length of an address, in bytes, as in the router. RFC 5321 (4.5.3.1.3) has 256.
const MAX_ADDRESS_LEN: usize = 900;
/// Maximum number of recipients, as in the router.
const MAX_RECIPIENTS: usize = 250_000;
/// Maximum length of an envelope id, in bytes (RFC 3461, 4.4).
const MAX_ENVELOPE_ID_LEN: usize = 100;

/// The envelope of a message.
#[derive(Debug)]
pub(crate) struct Envelope {
    /// `None` is the null sender.
    pub sender: Option<String>,
    /// Without duplicates.
    pub recipients: Vec<String>,
    /// For a message without a From header; encoded (RFC 2047) if it is not in ASCII.
    full_name: Option<String>,
    body_type: Option<String>,
    envelope_id: Option<String>,
    return_mode: Option<String>,
    /// The words of each `todsn` line.
    words: Vec<String>,
}

impl Envelope {
    /// Creates the envelope from the command line, and from the headers of the message with `-t`.
    pub(crate) fn new(
        options: &SendmailOptions,
        fields: &[Field],
    ) -> Result<Envelope, SendmailError> {
        let mut recipients = Vec::new();
        for argument in &options.recipients {
            recipients.append(&mut addresses_of("recipient", argument)?);
        }
        if options.recipients_in_headers {
            recipients.append(&mut recipients_in(fields)?);
        }
        let mut known = HashSet::new();
        recipients.retain(|recipient| known.insert(recipient.clone()));
        let sender = sender(options)?;
        if recipients.iter().chain(&sender).any(|address| address.len() > MAX_ADDRESS_LEN) {
            return Err(SendmailError::LongAddress(MAX_ADDRESS_LEN));
        }
        match recipients.len() {
            0 => return Err(SubmitError::NoRecipient.into()),
            1..=MAX_RECIPIENTS => {}
            _ => return Err(SendmailError::ManyRecipients(MAX_RECIPIENTS)),
        }
        let needs_name = sender.is_some() && !fields.iter().any(|field| field.is("From"));
        let upper = |text: &Option<String>| text.as_ref().map(|text| text.to_uppercase());
        Ok(Envelope {
            sender,
            recipients,
            full_name: full_name(options).filter(|_| needs_name),
            body_type: upper(&options.body_type),
            envelope_id: options.envelope_id.clone(),
            return_mode: upper(&options.return_mode),
            words: words(options)?,
        })
    }

    /// Formats the lines.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut push = |line: &[&str]| {
            line.iter().for_each(|word| text.push_str(word));
            text.push('\n');
        };
        let items = [
            ("fullname ", &self.full_name),
            ("bodytype ", &self.body_type),
            ("envid ", &self.envelope_id),
            ("notaryret ", &self.return_mode),
        ];
        for (keyword, value) in items {
            if let Some(value) = value {
                push(&[keyword, value]);
            }
        }
        match &self.sender {
            Some(sender) => push(&["from <", sender, ">"]),
            None => push(&["channel error"]),
        }
        for recipient in &self.recipients {
            if !self.words.is_empty() {
                push(&["todsn ", &self.words.join(" ")]);
            }
            push(&["to <", recipient, ">"]);
        }
        push(&["env-end"]);
        text
    }
}

/// The words about each recipient: reports, times and the priority.
fn words(options: &SendmailOptions) -> Result<Vec<String>, SendmailError> {
    let notify = options.notify.as_ref().map(|when| format!("NOTIFY={}", when.to_uppercase()));
    let priority = options.priority.map(|priority| {
        format!("MT-PRIORITY={}", zsched_format::priority::to_transfer_priority(priority))
    });
    let times = options.times.words(Timestamp::now()).map_err(SendmailError::Usage)?;
    Ok(notify.into_iter().chain(priority).chain(times).collect())
}

/// Refuses values of options that an envelope cannot have. Needs no message.
pub(crate) fn check(options: &SendmailOptions) -> Result<(), SendmailError> {
    let is_name: fn(&str) -> bool = submitter::is_full_name;
    let checks = [
        ("-F", &options.full_name, is_name, "a short name without control characters"),
        ("-N", &options.notify, is_notify_value, "NEVER, or some of SUCCESS, FAILURE and DELAY"),
        ("-R", &options.return_mode, |value| is_one_of(value, ["FULL", "HDRS"]), "FULL or HDRS"),
        (
            "-B",
            &options.body_type,
            |value| is_one_of(value, ["7BIT", "8BITMIME"]),
            "7BIT or 8BITMIME",
        ),
        ("-V", &options.envelope_id, is_envelope_id, "xtext (RFC 3461) of at most 100 bytes"),
    ];
    for (option, value, is_good, expected) in checks {
        if let Some(value) = value.as_deref().filter(|value| !is_good(value)) {
            return Err(SendmailError::Usage(format!("{option} {value:?}: it must be {expected}")));
        }
    }
    if options.recipients.is_empty() && !options.recipients_in_headers {
        let reason = "no recipients: name some, or take those of the headers with -t";
        return Err(SendmailError::Usage(reason.to_string()));
    }
    words(options)?;
    sender(options)?;
    options.recipients.iter().try_for_each(|argument| addresses_of("recipient", argument).map(drop))
}

fn is_one_of(value: &str, words: [&str; 2]) -> bool {
    words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The sender of the command line, else the caller.
fn sender(options: &SendmailOptions) -> Result<Option<String>, SendmailError> {
    let Some(argument) = &options.sender else {
        return submitter::login_name().map(Some);
    };
    if without_brackets(argument.trim()).is_empty() {
        return Ok(None);
    }
    let mut found = addresses_of("sender", argument)?;
    match found.len() {
        1 => Ok(found.pop()),
        _ => Err(SendmailError::Usage(format!("-f {argument:?}: it must be one address"))),
    }
}

/// The name of the command line. The caller's own name belongs to the caller's address only.
fn full_name(options: &SendmailOptions) -> Option<String> {
    let own_name = || options.sender.is_none().then(submitter::full_name).flatten();
    let name = options.full_name.clone().or_else(own_name)?;
    match name.trim() {
        "" => None,
        name if name.is_ascii() => Some(name.to_string()),
        name => Some(encoded(name)),
    }
}

/// Encodes a name as words that may stand before an address.
fn encoded(name: &str) -> String {
    let mut value = Vec::new();
    EmailAddress { name: Some(name.into()), email: "".into() }.write_header(&mut value, 0);
    let value = String::from_utf8_lossy(&value);
    let words = value.split_ascii_whitespace().filter(|word| *word != "<>");
    words.collect::<Vec<_>>().join(" ")
}

fn addresses_of(what: &'static str, argument: &str) -> Result<Vec<String>, SendmailError> {
    // In a header, a line end may be between a name and its address.
    if argument.contains(char::is_control) {
        let reason = format!("the {what} {argument:?} contains a control character");
        return Err(SendmailError::Usage(reason));
    }
    let unreadable = |why| SendmailError::Address(what, argument.to_string(), why);
    addresses(argument.as_bytes()).map_err(unreadable)
}

/// Returns true for xtext (RFC 3461, 4): printable ASCII, and `+` before two hexadecimal digits.
fn is_envelope_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |byte: Option<&u8>| matches!(byte, Some(b'0'..=b'9' | b'A'..=b'F'));
    let is_good = |(at, byte): (usize, &u8)| match byte {
        b'+' => is_digit(bytes.get(at + 1)) && is_digit(bytes.get(at + 2)),
        b'=' => false,
        byte => byte.is_ascii_graphic(),
    };
    (1..=MAX_ENVELOPE_ID_LEN).contains(&bytes.len()) && bytes.iter().enumerate().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use proptest::prelude::*;
    use zsched_format::header::split;

    fn options(arguments: &[&str]) -> SendmailOptions {
        SendmailOptions::parse_from([&["sendmail"], arguments].concat())
    }

    /// The envelope of a message with these headers.
    fn envelope(arguments: &[&str], headers: &str) -> Result<String, SendmailError> {
        let options = options(arguments);
        check(&options)?;
        Ok(Envelope::new(&options, &split(headers.as_bytes()).0)?.to_text())
    }

    #[test]
    fn envelope_has_lines_of_submission_format() {
        let full = [
            "-fa@b",
            "-FA. \"B\" C",
            "-Nsuccess,Failure",
            "-Rhdrs",
            "-VQQ+3D",
            "-B8bitmime",
            "c@d",
            "e",
        ];
        assert_eq!(
            envelope(&full, "").expect("an envelope"),
            "fullname A. \"B\" C\nbodytype 8BITMIME\nenvid QQ+3D\nnotaryret HDRS\nfrom <a@b>\n\
             todsn NOTIFY=SUCCESS,FAILURE\nto <c@d>\ntodsn NOTIFY=SUCCESS,FAILURE\nto <e>\nenv-end\n"
        );
        let headers = "To: A <a@x>, b@y\nBcc: c@z\nCc: a@x\n\n";
        assert_eq!(
            envelope(&["-f", "<>", "-t", "d@w, b@y"], headers).expect("an envelope"),
            "channel error\nto <d@w>\nto <b@y>\nto <a@x>\nto <c@z>\nenv-end\n"
        );
        let named = envelope(&["-fa", "-FJ\u{f6}rg", "b"], "From: c@d\n").expect("an envelope");
        assert_eq!(named, "from <a>\nto <b>\nenv-end\n");
        let named = envelope(&["-f", "Some One <a@b>", "C D <\"c d\"@e>"], headers);
        assert_eq!(named.expect("an envelope"), "from <a@b>\nto <\"c d\"@e>\nenv-end\n");
    }

    #[test]
    fn unusable_arguments_are_refused() {
        for (arguments, status) in [
            (&[][..], 64),
            (&["-f", "a@b"], 64),
            (&["-fa@b, c@d", "x"], 64),
            (&["-fa b", "x"], 64),
            (&["-fa@b\nto <c@d>", "x"], 64),
            (&["-F", "a\nb", "x"], 64),
            (&["-N", "SOMETIMES", "x"], 64),
            (&["-R", "BODY", "x"], 64),
            (&["-B", "BINARYMIME", "x"], 64),
            (&["-V", "a b", "x"], 64),
            (&["-V", "a+3", "x"], 64),
            (&["-V", "", "x"], 64),
            (&["a b"], 64),
            (&["<a"], 64),
            (&["-t"], 65),
            (&["-fa", "undisclosed:;"], 65),
        ] {
            let refused = envelope(arguments, "").expect_err("refused");
            assert_eq!(refused.status(), status, "{arguments:?}: {refused}");
        }
        let long = format!("{}@b", "a".repeat(MAX_ADDRESS_LEN));
        assert_eq!(envelope(&["-fx", &long], "").expect_err("refused").status(), 65);
    }

    #[test]
    fn name_that_is_not_ascii_is_encoded() {
        for (name, expected) in [
            ("J\u{f6}rg", "=?utf-8?B?SsO2cmc=?="),
            ("\u{e4}, \"b\" <c@d>", "=?utf-8?Q?=C3=A4=2C_=22b=22_=3Cc=40d=3E?="),
        ] {
            assert_eq!(encoded(name), expected);
        }
        let long = encoded(&"\u{20ac}".repeat(submitter::MAX_NAME_LEN / 3));
        assert!(long.split(' ').all(|word| word.starts_with("=?") && word.len() <= 75), "{long}");
    }

    proptest! {
        #[test]
        fn any_arguments_make_one_line_each(
            sender in "\\PC{0,8}|([a@<>\", \n\r\t\\\\:;()\\[\\]]){0,12}",
            recipients in prop::collection::vec("([a@<>\", \n\r\t\\\\:;()\\[\\]]){0,12}|\\PC{0,8}", 0..4),
            id in "[ -~\n]{0,6}",
            headers in "(To|Cc|Bcc|X)?:?[a@<>, \n]{0,20}",
        ) {
            let mut arguments = vec!["sendmail", "-t", "-f", &sender, "-V", &id, "--"];
            arguments.extend(recipients.iter().map(String::as_str));
            let Ok(options) = SendmailOptions::try_parse_from(arguments) else { return Ok(()) };
            let made = check(&options)
                .and_then(|()| Envelope::new(&options, &split(headers.as_bytes()).0));
            if let Ok(envelope) = made {
                let text = envelope.to_text();
                prop_assert_eq!(text.lines().count(), 3 + envelope.recipients.len());
                prop_assert!(!text.contains(|c: char| c.is_ascii_control() && c != '\n'));
            }
        }
    }
}
