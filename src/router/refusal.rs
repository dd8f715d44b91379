//! Why mail to an address is refused.

use super::address::AddressError;
use std::fmt;

/// A refusal of a recipient, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipientRefusal {
    /// Status code (RFC 3463), such as 5.1.1; 4.4.3 if only time could have helped.
    pub status: String,
    /// The reason, in one line.
    pub text: String,
    /// Host column of the recipient line: the name of ZMailer's form for such errors.
    pub form: &'static str,
}

/// The form for addresses that lead nowhere.
const UNRESOLVABLE: &str = "unresolvable";

impl RecipientRefusal {
    /// Creates a refusal of an address that leads nowhere.
    pub fn new(status: &str, text: impl Into<String>) -> RecipientRefusal {
        RecipientRefusal { status: status.into(), text: text.into(), form: UNRESOLVABLE }
    }

    /// No such user at a local domain.
    pub(crate) fn unknown_user() -> RecipientRefusal {
        RecipientRefusal::new("5.1.1", "no such user here")
    }

    /// An address that looks like a program or a file of an alias.
    pub(crate) fn program_or_file() -> RecipientRefusal {
        RecipientRefusal::new("5.1.3", "programs and files are no addresses")
    }

    /// More `Received` headers than a message can have that is not in a loop.
    pub(crate) fn too_many_hops(count: usize) -> RecipientRefusal {
        let text = format!("the message is in a loop: it has {count} Received headers");
        RecipientRefusal { form: "loopexceeded", ..RecipientRefusal::new("5.4.6", text) }
    }

    /// A loop among aliases.
    pub(crate) fn alias_loop(text: String) -> RecipientRefusal {
        RecipientRefusal { form: "expansion", ..RecipientRefusal::new("5.4.6", text) }
    }

    /// A list without members.
    ///
    /// The sender hears of it, also if the list has an owner: the message has reached no reader.
    pub(crate) fn empty_list() -> RecipientRefusal {
        RecipientRefusal {
            form: "expansion",
            ..RecipientRefusal::new("5.2.4", "the list has no members")
        }
    }

    /// An address that could not be looked up for too long.
    ///
    /// The text goes to senders elsewhere, so that it names no file.
    pub(crate) fn failed_lookup(text: &str) -> RecipientRefusal {
        RecipientRefusal::new("4.4.3", text)
    }

    /// Notary data for the `d` line of a recipient.
    pub(crate) fn notary(&self) -> Vec<u8> {
        let code = if self.status.starts_with('4') { "450" } else { "550" };
        local_notary("failed", &self.status, code, &self.text)
    }
}

/// Notary data of a recipient whose end the router itself has decided.
///
/// No SMTP server has said it, so the code is a local one (RFC 3464, 2.3.6), as ZMailer's
/// `errormail` has it for the refusals of ZMailer's router.
pub(crate) fn local_notary(action: &str, status: &str, code: &str, text: &str) -> Vec<u8> {
    // The fields are comments in parentheses, and the text may have some of its own.
    let text = text.replace('(', "[").replace(')', "]");
    format!("\u{3}\u{1}{action}\u{1}{status} ({text})\u{1}x-local; {code} ({text})\u{1}\u{1}")
        .into_bytes()
}

impl fmt::Display for RecipientRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.text)
    }
}

impl From<AddressError> for RecipientRefusal {
    fn from(error: AddressError) -> RecipientRefusal {
        let form = if error.status == "5.1.3" { "envelope" } else { UNRESOLVABLE };
        RecipientRefusal {
            form,
            ..RecipientRefusal::new(error.status, format!("wrong address: {}", error.reason))
        }
    }
}
