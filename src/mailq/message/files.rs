//! Finds and reads the files of messages.

use super::envelope::{self, Envelope};
use super::origin::origin_of;
use crate::failure::{self, Failure};
use crate::format::{count, cut};
use crate::screen::warn;
use memchr::memmem;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use zsched_format::control_file::{self, ControlFile};
use zsched_format::time::Timestamp;
use zsched_spool::describe_folder_error;
use zsched_spool::scan::scan;
use zsched_spool::{HashFolder, HashLevel, Spool, SpoolId, SpoolName, control_file_head};
use zsched_sys::open_regular;

/// Maximum number of bytes that are read of a control file for a list.
const MAX_LISTED_BYTES: u64 = 256 << 10;
/// Maximum number of bytes that are read of a message file for its subject.
const MAX_HEADER_BYTES: u64 = 64 << 10;
/// The last line of the envelope in a message file.
const END_OF_ENVELOPE: &[u8] = b"\nenv-end\n";
/// Maximum number of recipients of a message that are kept for a list.
const MAX_LISTED_RECIPIENTS: usize = 100;
/// Maximum length of an address or a subject that is kept for a list, in columns.
const MAX_LISTED_TEXT_LEN: usize = 300;
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

    /// How a message came, if that is known.
    pub(crate) fn origin(&self, envelope: &Envelope) -> Option<String> {
        origin_of(&self.spool.message_file(&envelope.name))
    }

    /// The size of the message file of this control file, in bytes.
    pub(crate) fn size(&self, file: Option<&str>) -> Option<u64> {
        let name = SpoolName::from_notified(file?.as_bytes())?;
        Some(fs::symlink_metadata(self.spool.message_file(&name)).ok()?.len())
    }

    /// Returns true if at least one message was in this spool.
    ///
    /// Otherwise the spool may be that of another scheduler.
    pub(crate) fn has_found_any(&self) -> bool {
        self.found + self.unreadable > 0
    }

    /// Prints how many messages could not be read, if there are any. Returns true if it did.
    pub(crate) fn print_note(&self) -> bool {
        if self.unreadable > 0 {
            let (messages, folder) =
                (count(self.unreadable as u64, "message"), self.spool.postoffice().display());
            warn(format_args!(
                "{messages} in {folder} cannot be read by this user: senders, recipients, sizes and \
                 subjects are missing"
            ));
        }
        self.unreadable > 0
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
                let mut envelope = Envelope::new(name, &file, stat, MAX_LISTED_RECIPIENTS);
                // The number may belong to another message by now, or be in another spool.
                if envelope.id.to_string() != id {
                    continue;
                }
                // With very many recipients, the headers in the control file come too late.
                if file.headers.is_empty() {
                    let headers = submitted_headers(spool, &envelope.name)?;
                    envelope.subject = envelope::subject(&headers);
                }
                envelope.texts_mut().for_each(|text| *text = cut(text, MAX_LISTED_TEXT_LEN));
                return Ok(envelope);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The beginning of a message file, without the envelope that ZMailer's programs put before it.
fn submitted_headers(spool: &Spool, name: &SpoolName) -> io::Result<Vec<u8>> {
    let file = open_regular(File::options().read(true), &spool.message_file(name))?;
    let mut head = Vec::new();
    file.take(MAX_HEADER_BYTES).read_to_end(&mut head)?;
    let envelope = memmem::find(&head, END_OF_ENVELOPE).map_or(0, |at| at + END_OF_ENVELOPE.len());
    Ok(head.split_off(envelope))
}

/// Names that the files of a message with this number usually have.
fn names_of(number: u64) -> Vec<SpoolName> {
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

/// Passes the names of control files to `look`: those of this number, or else all.
pub(crate) fn for_each_name(
    spool: &Spool,
    number: Option<u64>,
    mut look: impl FnMut(SpoolName),
) -> Result<(), Failure> {
    let usual = number.map_or(Vec::new(), names_of);
    let is_there = |name: &SpoolName| spool.control_file(name).symlink_metadata().is_ok();
    if let Some(name) = usual.into_iter().find(is_there) {
        look(name);
        return Ok(());
    }
    // A name may go on after the number, as in 4711-23.
    let is_meant = |name: &SpoolName| number.is_none_or(|number| number == name.number());
    let end = scan(spool, |names| {
        names.into_iter().filter(is_meant).for_each(&mut look);
        true
    });
    end.errors.first().map_or(Ok(()), |error| {
        let folder = spool.transport();
        Err(match error.kind() {
            ErrorKind::PermissionDenied => failure::unreadable(folder, error),
            _ => Failure::Installation(format!(
                "{}; option -Z names the ZENV file that says where the spool is",
                describe_folder_error(folder, error)
            )),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "@ 7\ni 31\nl <1@x>\ns local - ann@x 0\n";

    fn spool() -> (tempfile::TempDir, Spool) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("folders");
        for folder in [spool.transport(), spool.queue()] {
            fs::create_dir_all(folder.join("B/F")).expect("folders");
        }
        (folder, spool)
    }

    fn id(spool: &Spool, name: &SpoolName) -> String {
        let message = fs::metadata(spool.message_file(name)).expect("a message file");
        SpoolId { number: name.number(), modified: Timestamp::modified(&message) }.to_string()
    }

    #[test]
    fn envelope_is_found_by_spool_id_in_any_folder() {
        let (_folder, spool) = spool();
        let name = SpoolName::from_notified(b"B/F/31").expect("a name");
        let control = format!("{HEAD}r           smtp mx bob@mx 0\nm\nSubject: one\n\n");
        fs::write(spool.control_file(&name), control).expect("written");
        fs::write(spool.message_file(&name), "12345").expect("written");
        let mut files = MessageFiles::new(&spool);
        assert!(files.envelope("S31AbmKUKEJuveqC", None).is_none() && !files.has_found_any());
        let id = id(&spool, &name);
        let found = files.envelope(&id, None).expect("an envelope");
        assert_eq!((found.size, found.subject.as_deref(), &found.name), (5, Some("one"), &name));
        fs::remove_file(spool.control_file(&name)).expect("removed");
        assert!(files.envelope(&id, Some("B/F/31")).is_some_and(|kept| kept.size == 5));
        assert!(MessageFiles::new(&spool).envelope(&id, Some("../../etc/passwd")).is_none());
    }

    #[test]
    fn envelope_of_very_many_recipients_is_bounded() {
        let (_folder, spool) = spool();
        let name = SpoolName::plain(HashFolder::TOP, 31);
        let recipients = "r           smtp mx bob@mx 0\n".repeat(10_000);
        let head = HEAD.replace("ann", &"a".repeat(2000));
        let control = format!("{head}{recipients}m\nSubject: too late\n\n");
        fs::write(spool.control_file(&name), control).expect("written");
        let message = "from <ann@x>\nto <bob@mx>\nenv-end\nTo: bob\nSubject: early\n\nBody\n";
        fs::write(spool.message_file(&name), message).expect("written");
        let mut files = MessageFiles::new(&spool);
        let found = files.envelope(&id(&spool, &name), None).expect("an envelope");
        assert_eq!(found.recipients.len(), MAX_LISTED_RECIPIENTS);
        assert_eq!(found.subject.as_deref(), Some("early"));
        assert_eq!(found.sender.chars().count(), MAX_LISTED_TEXT_LEN);
        for number in 0..=MAX_KEPT_ENVELOPES {
            assert!(files.envelope(&format!("S{number}AbmKUKEJuveqC"), None).is_none());
        }
        assert!(files.kept.len() <= MAX_KEPT_ENVELOPES);
    }
}
