//! What a request such as `SHOW WHY` is about.

use zsched_format::spool_id::SpoolId;

/// The subject of `SHOW WHY`: a thread or a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A channel and a host, in lower case.
    Thread(Vec<u8>, Vec<u8>),
    /// The number of a message, and its spool id if that was given.
    ///
    /// The names of the message's files begin with the number. The spool id detects that the number
    /// now belongs to another message.
    Message(u64, Option<String>),
}

impl Subject {
    /// Reads a destination, a spool id, or a file name.
    ///
    /// A destination is `channel/host`; the name of a control file may have its folder. `None` if
    /// it is none of these.
    pub fn parse(text: &str) -> Option<Subject> {
        if let Some(number) = SpoolId::number_in(text) {
            return Some(Subject::Message(number, Some(text.to_string())));
        }
        if let Some(number) = message_number(text) {
            return Some(Subject::Message(number, None));
        }
        let (channel, host) = text.split_once('/')?;
        let lower = |text: &str| text.to_ascii_lowercase().into_bytes();
        (!channel.is_empty()).then(|| Subject::Thread(lower(channel), lower(host)))
    }
}

/// Returns the number in `4711` or `F/4711-23`; `None` for any other text.
pub fn message_number(text: &str) -> Option<u64> {
    let (folders, base) = text.rsplit_once('/').unwrap_or(("", text));
    let is_folder = |name: &str| name.len() == 1 && name.bytes().all(|b| b.is_ascii_uppercase());
    let are_folders = folders.is_empty() || folders.split('/').all(is_folder);
    let digits = base.bytes().take_while(u8::is_ascii_digit).count();
    let is_whole = base.len() == digits || base.as_bytes()[digits] == b'-';
    base[..digits].parse().ok().filter(|_| are_folders && is_whole)
}
