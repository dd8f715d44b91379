//! Replies (RFC 5321, 4.2) with enhanced status codes (RFC 2034, RFC 3463).

use std::borrow::Cow;
use std::fmt;
use zsched_format::printable;

/// Maximum length of the text of a reply, in characters (RFC 5321, 4.5.3.1.5).
const MAX_TEXT_LEN: usize = 400;

/// A reply of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The reply code, such as 250.
    pub code: u16,
    /// The status code, such as 2.1.5.
    pub status: Cow<'static, str>,
    /// The text for people.
    pub text: String,
}

impl Reply {
    /// Creates a reply. Its text gets no line ends, whatever it contains.
    pub fn new(code: u16, status: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Reply {
        let text = text.into();
        let is_safe = |c: &char| !c.is_control();
        let text = printable::line(&text).chars().filter(is_safe).take(MAX_TEXT_LEN).collect();
        Reply { code, status: status.into(), text }
    }

    /// The client must change something before it tries again.
    pub fn is_permanent(&self) -> bool {
        self.code >= 500
    }

    /// Nothing was done.
    pub fn is_error(&self) -> bool {
        self.code >= 400
    }

    /// There is no room for the message now.
    pub fn full_disk() -> Reply {
        Reply::new(452, "4.3.1", "Not enough disk space, try again later")
    }

    /// The sender is accepted.
    pub fn sender_ok() -> Reply {
        Reply::new(250, "2.1.0", "Ok")
    }

    /// The recipient is accepted.
    pub fn recipient_ok() -> Reply {
        Reply::new(250, "2.1.5", "Ok")
    }

    /// A failure of this server, after which the client tries again.
    pub fn failure() -> Reply {
        Reply::new(451, "4.3.0", "Local error, try again later")
    }

    /// The commands came in a wrong order.
    pub fn out_of_order(text: &str) -> Reply {
        Reply::new(503, "5.5.1", text)
    }

    /// A command has a wrong argument.
    pub fn bad_argument(text: impl Into<String>) -> Reply {
        Reply::new(501, "5.5.4", text)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.status {
            "" => write!(f, "{} {}", self.code, self.text),
            status => write!(f, "{} {status} {}", self.code, self.text),
        }
    }
}
