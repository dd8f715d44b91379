//! Cache of control files for lines about mail: addresses, Message-ID and notes.
//!
//! A message with many recipients has many lines. Its control file is read once and kept until the
//! room is needed for others, or until the message leaves the spool.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::{self, ControlFile, Tag, mark};
use zsched_format::time::Timestamp;
use zsched_spool::{Spool, SpoolName};
use zsched_sys::open_nofollow;

/// Maximum number of control files kept.
const MAX_CACHED_FILES: usize = 64;
/// Maximum size of all of them, in bytes. The last one is always kept.
const MAX_CACHED_BYTES: usize = 64 << 20;
/// Maximum number of appended bytes read at a time.
const MAX_APPENDED_READ: u64 = 1 << 20;

/// Control files read recently.
#[derive(Default)]
pub(super) struct ControlFiles {
    /// The control files kept, the one used last at the end.
    files: VecDeque<CachedFile>,
}

/// Control file as it was read.
pub(super) struct CachedFile {
    name: SpoolName,
    modified: Timestamp,
    pub file: ControlFile,
    pub message_id: Option<String>,
    /// Number of bytes searched for `d` lines.
    seen: u64,
    /// Notary data of the last `d` line of each recipient.
    notes: HashMap<u32, Box<[u8]>>,
}

impl ControlFiles {
    /// Control file of a message that came in at `modified`; `None` if it cannot be used.
    ///
    /// It has the recipient at an offset, unless that was appended to a file that is gone.
    pub(super) fn get(
        &mut self,
        spool: &Spool,
        (name, modified): (&SpoolName, Timestamp),
        recipient: u32,
    ) -> Option<&mut CachedFile> {
        let is_it = |known: &CachedFile| known.name == *name && known.modified == modified;
        if let Some(known) = self.files.iter().position(is_it).and_then(|it| self.files.remove(it))
        {
            self.files.push_back(known);
            let known = self.files.back_mut()?;
            if known.file.recipients.last().is_some_and(|last| last.offset < recipient)
                && let Ok(file) = read(spool, name)
            {
                *known = CachedFile::new(name.clone(), modified, file);
            }
            return Some(known);
        }
        self.forget(name.number());
        let file = read(spool, name).ok()?;
        self.files.push_back(CachedFile::new(name.clone(), modified, file));
        while self.files.len() > MAX_CACHED_FILES
            || (self.size() > MAX_CACHED_BYTES && self.files.len() > 1)
        {
            self.files.pop_front();
        }
        self.files.back_mut()
    }

    /// Size of all of them, in bytes.
    fn size(&self) -> usize {
        self.files.iter().map(|known| known.file.text.len()).sum()
    }

    /// Removes and returns the control file of a message.
    pub(super) fn forget(&mut self, number: u64) -> Option<CachedFile> {
        let index = self.files.iter().position(|known| known.name.number() == number)?;
        self.files.remove(index)
    }
}

impl CachedFile {
    fn new(name: SpoolName, modified: Timestamp, file: ControlFile) -> CachedFile {
        let message_id = control_file::message_id(&file);
        let seen = file.diagnostics.first().map_or(file.text.len() as u64, |d| d.offset.into());
        CachedFile { name, modified, file, message_id, seen, notes: HashMap::new() }
    }

    /// Notary data of the last `d` line about a recipient.
    pub(super) fn note(&mut self, spool: &Spool, offset: u32) -> Option<&[u8]> {
        if !self.notes.contains_key(&offset) {
            // If the file cannot be read, the line in the log lacks a field.
            drop(self.read_appended(spool));
        }
        self.notes.get(&offset).map(|notary| &notary[..])
    }

    /// Reads what was appended since the last call. Control files only grow at their end.
    fn read_appended(&mut self, spool: &Spool) -> io::Result<()> {
        let file = open(spool, &self.name)?;
        let size = file.metadata()?.len();
        while self.seen < size {
            let mut text = vec![0; (size - self.seen).min(MAX_APPENDED_READ) as usize];
            file.read_exact_at(&mut text, self.seen)?;
            // An incomplete line is read again next time.
            let Some(end) = memchr::memrchr(b'\n', &text) else {
                return Ok(());
            };
            for line in text[..end].split(|byte| *byte == b'\n') {
                let value = line.strip_prefix(b"d").and_then(|rest| rest.get(1..));
                if let Some(diagnostic) = value.and_then(DiagnosticRecord::parse) {
                    self.notes.insert(diagnostic.recipient, diagnostic.notary.into());
                }
            }
            self.seen += end as u64 + 1;
        }
        Ok(())
    }

    /// Present tag of a recipient.
    pub(super) fn tag(&self, spool: &Spool, offset: u32) -> io::Result<Tag> {
        Ok(mark::read_tag(&open(spool, &self.name)?, offset)?.0)
    }
}

fn open(spool: &Spool, name: &SpoolName) -> io::Result<File> {
    open_nofollow(File::options().read(true), &spool.control_file(name))
}

fn read(spool: &Spool, name: &SpoolName) -> io::Result<ControlFile> {
    let file = open(spool, name)?;
    let text = control_file::read_all(&file, file.metadata()?.len())?;
    Ok(control_file::parse(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use zsched_spool::HashFolder;

    fn spool() -> (tempfile::TempDir, Spool) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        (folder, spool)
    }

    fn name(number: usize) -> SpoolName {
        SpoolName::new(HashFolder::TOP, number.to_string().as_bytes()).expect("a name")
    }

    fn control_file(number: usize, log_id: &str, headers: &str) -> String {
        format!("@ 7\ni {number}\nl {log_id}\ns l - a 0\nr           c h u 0\nm\n{headers}\n")
    }

    #[test]
    fn control_files_kept_are_limited_and_dropped_with_their_message() {
        let (_folder, spool) = spool();
        let mut files = ControlFiles::default();
        for number in 1..=MAX_CACHED_FILES + 10 {
            let text = control_file(number, "<1@x>", "");
            fs::write(spool.control_file(&name(number)), text).expect("written");
            assert!(files.get(&spool, (&name(number), Timestamp::EPOCH), 0).is_some());
        }
        assert_eq!(files.files.len(), MAX_CACHED_FILES);
        // The cached file is used although it is gone, but not for another message.
        let last = name(MAX_CACHED_FILES + 10);
        fs::remove_file(spool.control_file(&last)).expect("removed");
        assert!(files.get(&spool, (&last, Timestamp::EPOCH), 0).is_some());
        assert!(files.get(&spool, (&last, Timestamp::from_seconds(1)), 0).is_none(), "another one");
        assert_eq!(files.files.len(), MAX_CACHED_FILES - 1);
        for number in 1..=MAX_CACHED_FILES + 10 {
            files.forget(number as u64);
        }
        assert!(files.files.is_empty());
    }

    #[test]
    fn recipients_appended_later_are_found() {
        let (_folder, spool) = spool();
        let path = spool.control_file(&name(1));
        let text = control_file(1, "<1@x>", "");
        fs::write(&path, &text).expect("written");
        let mut files = ControlFiles::default();
        let mut has = |offset| {
            let known = files.get(&spool, (&name(1), Timestamp::EPOCH), offset);
            known.expect("it is there").file.recipient_at(offset).is_some()
        };
        assert!(has(text.find("r  ").expect("a recipient") as u32));
        let appended = text.len() as u32;
        fs::write(&path, text + "r           c h v 0\nm\n\n").expect("written");
        assert!(has(appended));
        fs::remove_file(&path).expect("removed");
        assert!(!has(appended + 100), "the file is gone, and what was read of it stays");
        assert!(has(appended));
    }

    #[test]
    fn notes_appended_later_are_found() {
        let (_folder, spool) = spool();
        let path = spool.control_file(&name(1));
        fs::write(&path, control_file(1, "<1@x>", "") + "d 10:2:3::4\told\tx\n").expect("written");
        let mut files = ControlFiles::default();
        let append = |text: &str| {
            let mut file = File::options().append(true).open(&path).expect("it is there");
            file.write_all(text.as_bytes()).expect("appended");
        };
        let mut note = |offset| {
            let known = files.get(&spool, (&name(1), Timestamp::EPOCH), 0).expect("it is there");
            known.note(&spool, offset).map(<[u8]>::to_vec)
        };
        assert_eq!(note(10), Some(b"old".to_vec()));
        assert_eq!(note(20), None);
        append("d+20:2:3::4\tnew\tx\nd 30:2:3::4\tcut");
        assert_eq!((note(20), note(30)), (Some(b"new".to_vec()), None));
        append(" short\tx\n");
        assert_eq!(note(30), Some(b"cut short".to_vec()));
    }
}
