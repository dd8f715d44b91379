//! The envelope of a submission: lines before the headers, each a keyword and a value.
//!
//! ```text
//! rcvdfrom client.example.test ([192.0.2.1]:4711)
//! with ESMTP
//! envid QQ314159
//! from <alice@example.org>
//! todsn NOTIFY=FAILURE ORCPT=rfc822;bob@example.net
//! to <bob@example.net>
//! env-end
//! ```
//!
//! Source: ZMailer 3.0.1, submissions of its programs and what its router made of them.

use super::expand::MAX_RECIPIENTS;
use zsched_format::header::Field;

/// The envelope of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The sender, if a line names one.
    pub sender: Option<EnvelopeSender>,
    /// The recipients.
    pub recipients: Vec<EnvelopeRecipient>,
    /// The host or program that the message came from, for the `Received` header.
    pub received_from: Option<String>,
    /// The protocol that it came by.
    pub with: Option<String>,
    /// The network that it came by.
    pub via: Option<String>,
    /// Full name of the user who submitted it.
    pub full_name: Option<String>,
    /// Login name of the user who submitted it.
    pub login_name: Option<String>,
    /// Envelope id, xtext (RFC 3461, 4.4).
    pub envelope_id: Option<String>,
    /// `FULL` or `HDRS` (RFC 3461, 4.3).
    pub return_mode: Option<String>,
    /// Path of the verbose file, relative to `transport/`.
    pub verbose: Option<String>,
    /// DSN parameters of the next recipient.
    pending_notify: Option<String>,
}

/// The sender of an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvelopeSender {
    /// No user: the message is a report.
    Null,
    /// This address, as it was written.
    Written(String),
}

/// A recipient of an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvelopeRecipient {
    /// The address as it was written.
    pub address: String,
    /// Its DSN parameters, empty for none.
    pub notify: String,
}

/// What a line at the beginning of a submission is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EnvelopeLine {
    /// A line of the envelope, which was taken.
    Taken,
    /// The last line of the envelope.
    End,
    /// No line of the envelope: the message begins.
    Message,
}

/// The last line of an envelope.
const END_KEYWORDS: [&str; 2] = ["env-end", "env-eof"];
/// Keywords whose values have no effect here.
const IGNORED_KEYWORDS: [&str; 5] = ["external", "bodytype", "identinfo", "comment", "authinfo"];
/// Folder of verbose files, as programs name it.
const VERBOSE_FOLDER: &str = "../public/";

impl Envelope {
    /// Takes a line, with or without its line end. An error says why the line is wrong.
    pub(crate) fn take(&mut self, line: &[u8]) -> Result<EnvelopeLine, String> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
        let (keyword, value) = line.split_at(end);
        let keyword = String::from_utf8_lossy(keyword);
        if END_KEYWORDS.contains(&&*keyword) {
            self.check_end()?;
            return Ok(EnvelopeLine::End);
        }
        if !is_keyword(&keyword) {
            if line.is_empty() || Field::begin(line).is_some() {
                self.check_end()?;
                return Ok(EnvelopeLine::Message);
            }
            return Err("unknown keyword".into());
        }
        let value = std::str::from_utf8(value).map_err(|_| "the value is not UTF-8")?.trim();
        if value.contains(char::is_control) {
            return Err("a control character in the value".into());
        }
        self.set(&keyword, value)?;
        Ok(EnvelopeLine::Taken)
    }

    fn check_end(&self) -> Result<(), String> {
        match self.pending_notify {
            Some(_) => Err("todsn without a to line behind it".into()),
            None => Ok(()),
        }
    }

    fn set(&mut self, keyword: &str, value: &str) -> Result<(), String> {
        let some = |value: &str| match value {
            "" => Err("a value is missing".to_string()),
            value => Ok(Some(value.to_string())),
        };
        match keyword {
            "from" => self.set_sender(parse_sender(value)?),
            "channel" if value == "error" => self.set_sender(EnvelopeSender::Null),
            "channel" => some(value).map(drop),
            "errormsg" => self.set_sender(EnvelopeSender::Null),
            "to" => {
                if self.recipients.len() == MAX_RECIPIENTS {
                    return Err(format!("more than {MAX_RECIPIENTS} recipients"));
                }
                let (address, notify) = (parse_path(value)?, self.pending_notify.take());
                let notify = notify.unwrap_or_default();
                self.recipients.push(EnvelopeRecipient { address: address.into(), notify });
                Ok(())
            }
            "todsn" => match self.pending_notify.replace(value.to_string()) {
                Some(_) => Err("two todsn lines for one to line".into()),
                None => Ok(()),
            },
            "rcvdfrom" => some(value).map(|value| self.received_from = value),
            "with" => some(value).map(|value| self.with = value),
            "via" => some(value).map(|value| self.via = value),
            "fullname" => some(value).map(|value| self.full_name = value),
            "user" | "loginname" => some(value).map(|value| self.login_name = value),
            "envid" => match value.contains([' ', '\t']) {
                true => Err("a blank in the envelope id".into()),
                false => some(value).map(|value| self.envelope_id = value),
            },
            "notaryret" => match &*value.to_ascii_uppercase() {
                mode @ ("FULL" | "HDRS") => {
                    self.return_mode = Some(mode.into());
                    Ok(())
                }
                _ => Err("neither FULL nor HDRS".into()),
            },
            "verbose" => {
                self.verbose = Some(parse_verbose(value)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set_sender(&mut self, sender: EnvelopeSender) -> Result<(), String> {
        match (&self.sender, &sender) {
            // A report says so twice.
            (Some(EnvelopeSender::Null), EnvelopeSender::Null) => {}
            (Some(EnvelopeSender::Written(_)), EnvelopeSender::Written(_)) => {
                return Err("a second sender".into());
            }
            // `channel error` counts, whatever the address is.
            (Some(EnvelopeSender::Null), _) => return Ok(()),
            _ => {}
        }
        self.sender = Some(sender);
        Ok(())
    }
}

fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 14] = [
        "from",
        "to",
        "todsn",
        "channel",
        "errormsg",
        "rcvdfrom",
        "with",
        "via",
        "fullname",
        "user",
        "loginname",
        "envid",
        "notaryret",
        "verbose",
    ];
    KEYWORDS.contains(&word) || IGNORED_KEYWORDS.contains(&word)
}

fn parse_sender(value: &str) -> Result<EnvelopeSender, String> {
    match value {
        "<>" => Ok(EnvelopeSender::Null),
        _ => parse_path(value).map(|_| EnvelopeSender::Written(value.into())),
    }
}

/// The address of a line, without brackets.
pub(crate) fn parse_path(value: &str) -> Result<&str, String> {
    let inside = match (value.strip_prefix('<'), value.strip_suffix('>')) {
        (Some(_), Some(_)) => &value[1..value.len() - 1],
        (None, _) => value,
        (Some(_), None) => return Err("a < without >".into()),
    };
    match inside.trim() {
        "" => Err("an address is missing".into()),
        address => Ok(address),
    }
}

/// Checks the name of a verbose file, which is in quotes and in `public/`.
fn parse_verbose(value: &str) -> Result<String, String> {
    let path = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let path = path.ok_or("the name of a verbose file is in quotes")?;
    match path.strip_prefix(VERBOSE_FOLDER) {
        Some(name) if !name.is_empty() && !name.contains(['/', '"', '\\']) => Ok(path.into()),
        _ => Err("a verbose file is in ../public/".into()),
    }
}
