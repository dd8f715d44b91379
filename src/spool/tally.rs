//! The numbers of a message's recipients, by what has become of them.

use crate::{Spool, SpoolId, SpoolName};
use std::fs::{self, File};
use std::io;
use zsched_format::control_file::{self, Tag};
use zsched_format::time::Timestamp;
use zsched_sys::open_nofollow;

/// The recipients of a message, as its control file has them now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipientTally {
    /// The message.
    pub spool_id: SpoolId,
    /// Number of all recipients.
    pub recipients: usize,
    /// Number of recipients that have failed or expired.
    pub failed: usize,
    /// Number of recipients that are not final.
    pub unfinished: usize,
}

/// Counts the recipients of a message.
///
/// # Errors
///
/// One of the two files cannot be read, or the control file is malformed.
pub fn tally(spool: &Spool, name: &SpoolName) -> io::Result<RecipientTally> {
    let file = open_nofollow(File::options().read(true), &spool.control_file(name))?;
    let text = control_file::read_all(&file, file.metadata()?.len())?;
    let control = control_file::parse(text)?;
    let modified = Timestamp::modified(&fs::metadata(spool.message_file(name))?);
    let count = |is_counted: fn(Tag) -> bool| {
        control.recipients.iter().filter(|recipient| is_counted(recipient.tag)).count()
    };
    Ok(RecipientTally {
        spool_id: SpoolId { number: name.number(), modified },
        recipients: control.recipients.len(),
        failed: count(|tag| tag == Tag::Failed),
        unfinished: count(|tag| matches!(tag, Tag::Pending | Tag::Locked)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFolder;

    #[test]
    fn recipients_are_counted_by_their_tags() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let name = SpoolName::new(HashFolder::TOP, b"7").expect("a name");
        let lines =
            ["r           ", "r~    99    ", "r+          ", "r-          ", "r-          "];
        let lines: String = lines.map(|line| format!("{line}c h u 0\n")).concat();
        // A header that looks like a recipient is none.
        let text = format!("@ 7\ni 7\nl <1@x>\ns l - a 0\n{lines}m\nr+          x y z 0\n\n");
        fs::write(spool.control_file(&name), text).expect("written");
        assert!(tally(&spool, &name).is_err(), "no message file");
        fs::write(spool.message_file(&name), "").expect("written");
        let found = tally(&spool, &name).expect("counted");
        assert_eq!((found.recipients, found.failed, found.unfinished), (5, 2, 2));
    }
}
