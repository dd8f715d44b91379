//! `x` lines: a message that takes the place of an older one of the same user.
//!
//! The lines come from headers, which any sender can write. So a line is obeyed only if both
//! message files belong to the same user of this host, who is not that of the mail system; if
//! neither envelope says that the message came by SMTP; and if reports about both go to the same
//! address. All of this is read from the files. In doubt a line is not obeyed.

use crate::error_address::{address_in, control_file_head};
use crate::{Spool, SpoolId, SpoolName};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use zsched_format::control_file::{self, ControlFile, bare_message_id};
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Maximum number of `x` lines of a message that are obeyed.
pub const MAX_OBSOLETES: usize = 10;
/// Number of bytes at the beginning of a control file that are read.
const MAX_HEAD_SIZE: u64 = 64 * 1024;
/// Number of bytes at the beginning of a message file that are searched for its envelope.
const MAX_ENVELOPE_SIZE: usize = 64 * 1024;
/// Keywords of envelopes of messages that came from another host, or by SMTP.
const FOREIGN_KEYWORDS: [&[u8]; 5] = [b"rcvdfrom", b"with", b"via", b"external", b"authinfo"];

/// A message that a newer one takes the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obsoleted {
    /// The message that ends.
    pub old: SpoolId,
    /// The message that names it.
    pub new: SpoolId,
}

/// The Message-IDs that the `x` lines of a message name, without angle brackets.
pub fn ids_in(file: &ControlFile) -> impl Iterator<Item = &str> {
    let lines = file.obsoletes.iter().take(MAX_OBSOLETES);
    lines.filter_map(|line| str::from_utf8(file.get(*line)).ok()).map(bare_message_id)
}

/// Returns true if a message file of this owner is not one of the mail system.
pub fn is_of_user(spool: &Spool, owner: u32) -> io::Result<bool> {
    let of_spool = spool.postoffice().metadata()?.uid();
    Ok(![0, of_spool, sys::users::effective_user()].contains(&owner))
}

/// Examines if the new message takes the place of the old.
///
/// Returns the ids of both then.
pub fn examine(spool: &Spool, new: &SpoolName, old: &SpoolName) -> io::Result<Option<Obsoleted>> {
    let files = [Examined::read(spool, new)?, Examined::read(spool, old)?];
    let [Some(new), Some(old)] = files else {
        return Ok(None);
    };
    let names_it = control_file::message_id(&old.control)
        .is_some_and(|id| ids_in(&new.control).any(|wanted| wanted == bare_message_id(&id)));
    let of_old = address_in(&old.control).filter(|address| !address.is_empty());
    let is_obeyed = names_it
        && new.id.number != old.id.number
        && old.id.modified <= new.id.modified
        && new.owner == old.owner
        && is_of_user(spool, new.owner)?
        && sys::users::account_of(new.owner)?.is_some()
        && new.is_local
        && old.is_local
        && of_old.is_some()
        && of_old == address_in(&new.control);
    Ok(is_obeyed.then_some(Obsoleted { old: old.id, new: new.id }))
}

/// What decides on `x` lines, of one message.
struct Examined {
    control: ControlFile,
    id: SpoolId,
    owner: u32,
    /// True if it was submitted by a program on this host, not by SMTP.
    is_local: bool,
}

impl Examined {
    /// Reads the files of a message; `None` if one is gone or unusable.
    fn read(spool: &Spool, name: &SpoolName) -> io::Result<Option<Examined>> {
        let path = spool.message_file(name);
        let message = sys::if_exists(sys::open_regular(File::options().read(true), &path))?;
        let head = sys::if_exists(control_file_head(spool, name, MAX_HEAD_SIZE))?;
        let (Some(message), Some(head)) = (message, head) else {
            return Ok(None);
        };
        let Ok(control) = control_file::parse(head) else {
            return Ok(None);
        };
        let metadata = message.metadata()?;
        let id = SpoolId { number: name.number(), modified: Timestamp::modified(&metadata) };
        let is_local = is_local(&sys::read_part(&message, 0, MAX_ENVELOPE_SIZE)?);
        Ok(Some(Examined { control, id, owner: metadata.uid(), is_local }))
    }
}

/// Returns true if a message was submitted on this host.
///
/// No line of its envelope says that it came from elsewhere.
fn is_local(text: &[u8]) -> bool {
    for line in text.split(|byte| *byte == b'\n') {
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if FOREIGN_KEYWORDS.contains(&word.to_ascii_lowercase().as_slice()) {
            return false;
        }
        if word.is_empty() || word.contains(&b':') || word == b"env-end" || word == b"env-eof" {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFolder;
    use std::fs;
    use std::os::unix::fs::chown;
    use std::time::{Duration, SystemTime};

    /// A user that each system has, and that does not own the mail system.
    const USER: u32 = 1;

    /// An older message and one that names it.
    #[derive(Clone, Copy)]
    struct Pair {
        owners: [u32; 2],
        envelopes: [&'static str; 2],
        senders: [&'static str; 2],
        wanted: &'static str,
        /// True if the newer message was submitted first.
        is_reversed: bool,
    }

    const GOOD: Pair = Pair {
        owners: [USER; 2],
        envelopes: ["from a\nto b\nenv-end\n"; 2],
        senders: ["s local - a@x 1\n"; 2],
        wanted: "<1@x>",
        is_reversed: false,
    };

    /// Returns true if message 2 takes the place of message 1.
    fn takes_place(pair: &Pair) -> bool {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let names = ["1", "2"]
            .map(|name| SpoolName::new(HashFolder::TOP, name.as_bytes()).expect("a name"));
        for (at, name) in names.iter().enumerate() {
            let (envelope, sender) = (pair.envelopes[at], pair.senders[at]);
            let message = spool.message_file(name);
            let file = File::create(&message).expect("made");
            fs::write(&message, format!("{envelope}From: a\n\nwith body\n")).expect("written");
            let is_later = (at == 1) != pair.is_reversed;
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + u64::from(is_later));
            file.set_modified(time).expect("set");
            chown(message, Some(pair.owners[at]), None).expect("given away");
            let number = at + 1;
            let wanted = if at == 1 { format!("x {}\n", pair.wanted) } else { String::new() };
            let text = format!(
                "@ 7\ni {number}\nl <{number}@x>\n{wanted}{sender}r           c h u 0\nm\n\n"
            );
            fs::write(spool.control_file(name), text).expect("written");
        }
        let found = examine(&spool, &names[1], &names[0]).expect("read");
        if let Some(Obsoleted { old, new }) = found {
            assert_eq!((old.number, new.number), (1, 2));
        }
        fs::remove_file(spool.message_file(&names[0])).expect("removed");
        assert_eq!(examine(&spool, &names[1], &names[0]).expect("read"), None);
        found.is_some()
    }

    #[test]
    fn only_local_message_of_same_user_and_sender_is_obeyed() {
        if !sys::users::is_root() {
            return;
        }
        assert!(takes_place(&GOOD));
        assert!(takes_place(&Pair { wanted: "1@x ", ..GOOD }));
        let [local, _] = GOOD.envelopes;
        for (why, pair) in [
            ("another user", Pair { owners: [USER, 2], ..GOOD }),
            ("of another user", Pair { owners: [2, USER], ..GOOD }),
            ("root", Pair { owners: [0; 2], ..GOOD }),
            ("no account", Pair { owners: [4_000_000; 2], ..GOOD }),
            ("old by SMTP", Pair { envelopes: ["rcvdfrom h\nfrom a\n", local], ..GOOD }),
            ("new by SMTP", Pair { envelopes: [local, "from a\nWith SMTP\n"], ..GOOD }),
            ("external", Pair { envelopes: [local, "external\nfrom a\n"], ..GOOD }),
            ("senders", Pair { senders: ["s local - a@x 1\n", "s local - b@x 1\n"], ..GOOD }),
            ("reports", Pair { senders: ["s error - a@x 1\n"; 2], ..GOOD }),
            ("other id", Pair { wanted: "<3@x>", ..GOOD }),
            ("older", Pair { is_reversed: true, ..GOOD }),
        ] {
            assert!(!takes_place(&pair), "{why}");
        }
    }
}
