//! Finds and reads the files of messages.

use super::envelope::Envelope;
use crate::failure::Failure;
use crate::format::count;
use crate::screen::warn;
use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use zsched_format::control_file::{self, ControlFile};
use zsched_format::time::Timestamp;
use zsched_spool::scan::{ScanLimits, scan};
use zsched_spool::{HashFolder, HashLevel, Spool, SpoolId, SpoolName, control_file_head};

/// Maximum number of bytes that are read of a control file for a list.
const MAX_LISTED_BYTES: u64 = 256 << 10;
/// Maximum number of recipients of a message that are kept for a list.
const MAX_LISTED_RECIPIENTS: usize = 100;
/// Maximum number of envelopes that are kept.
const MAX_KEPT_ENVELOPES: usize = 1000;

/// Reads the envelopes of messages that a scheduler names, and keeps some of them.
pub(crate) struct MessageFiles<'a> {
    spool: &'a Spool,
    /// By spool id; `None` for a message that cannot be read.
    kept: HashMap<String, Option<Rc<Envelope>>>,
    /// Number of messages that this user may not read.
    unreadable: usize,
    /// Number of messages that were read.
    found: usize,
}

impl<'a> MessageFiles<'a> {
    /// Creates a reader of this spool. Nothing is read yet.
    pub(crate) fn new(spool: &'a Spool) -> MessageFiles<'a> {
        MessageFiles { spool, kept: HashMap::new(), unreadable: 0, found: 0 }
    }

    /// The envelope of a message, unless it has left or cannot be read.
    ///
    /// `file` is the name of its control file, if known.
    pub(crate) fn envelope(&mut self, id: &str, file: Option<&str>) -> Option<Rc<Envelope>> {
        if let Some(kept) = self.kept.get(id) {
            return kept.clone();
        }
        if self.kept.len() >= MAX_KEPT_ENVELOPES {
            self.kept.clear();
        }
        let envelope = match find(self.spool, id, file) {
            Ok(envelope) => {
                self.found += 1;
                Some(Rc::new(envelope))
            }
            Err(error) => {
                self.unreadable += usize::from(error.kind() == ErrorKind::PermissionDenied);
                None
            }
        };
        self.kept.insert(id.to_string(), envelope.clone());
        envelope
    }

    /// Returns true if at least one message was in this spool.
    ///
    /// Otherwise it may be that of another scheduler.
    pub(crate) fn are_here(&self) -> bool {
        self.found + self.unreadable > 0
    }

    /// Prints how many messages could not be read.
    pub(crate) fn print_note(&self) {
        if self.unreadable > 0 {
            let (messages, folder) =
                (count(self.unreadable as u64, "message"), self.spool.postoffice().display());
            warn(format_args!(
                "{messages} in {folder} cannot be read by this user: senders, recipients, sizes and \
                 subjects are missing"
            ));
        }
    }
}

/// Reads the envelope of the message with this spool id.
fn find(spool: &Spool, id: &str, file: Option<&str>) -> io::Result<Envelope> {
    let named = file.and_then(|file| SpoolName::from_notified(file.as_bytes()));
    let number = SpoolId::number_in(id).ok_or(ErrorKind::NotFound)?;
    let names = named.map_or_else(|| names_of(number), |name| vec![name]);
    let mut failure = io::Error::from(ErrorKind::NotFound);
    for name in names {
        match read(spool, &name, MAX_LISTED_BYTES) {
            Ok((file, stat)) => {
                let envelope = Envelope::new(name, &file, stat, MAX_LISTED_RECIPIENTS);
                // The number may belong to another message by now, or be in another spool.
                if envelope.id.to_string() == id {
                    return Ok(envelope);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Names that the files of a message with this number may have.
pub(crate) fn names_of(number: u64) -> Vec<SpoolName> {
    let levels = [HashLevel::Flat, HashLevel::Once, HashLevel::Twice];
    levels.map(|level| SpoolName::plain(HashFolder::of(number, level), number)).to_vec()
}

/// Reads the beginning of a control file; and size and time of arrival of the message.
pub(crate) fn read(
    spool: &Spool,
    name: &SpoolName,
    max_bytes: u64,
) -> io::Result<(ControlFile, (u64, Timestamp))> {
    let head = control_file_head(spool, name, max_bytes)?;
    let message = fs::symlink_metadata(spool.message_file(name))?;
    let modified = Timestamp::from_parts(message.mtime(), message.mtime_nsec());
    let file = control_file::parse(head).map_err(io::Error::other)?;
    Ok((file, (message.len(), modified)))
}

/// Passes the names of control files to `look`: those that this number may have, or else all.
pub(crate) fn for_each_name(
    spool: &Spool,
    number: Option<u64>,
    mut look: impl FnMut(SpoolName),
) -> Result<(), Failure> {
    if let Some(number) = number {
        names_of(number).into_iter().for_each(look);
        return Ok(());
    }
    let end = scan(spool, ScanLimits::NONE, |names| {
        let count = names.len();
        names.into_iter().for_each(&mut look);
        Some(count)
    });
    end.errors.first().map_or(Ok(()), |error| {
        let folder = spool.transport().display();
        Err(Failure::Installation(format!(
            "{folder}: {error}; option -Z names the ZENV file that says where the spool is"
        )))
    })
}
