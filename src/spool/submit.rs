//! Submits a message to the scheduler as a router does.
//!
//! The message file is named after its inode number. The control file is written under a hidden
//! name and synced. Then the message is renamed into `queue/`, and only then does the control file
//! get its name. So at any moment a crash leaves either nothing visible or a complete message.

use super::temp_file::TempFile;
use super::{HashFolder, HashLevel, Spool, SpoolName, folder};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zsched_format::control_file::compose::{ControlFileDraft, Group};

/// Submits messages to one spool.
#[derive(Clone, Debug)]
pub struct Submitter {
    /// The spool.
    pub spool: Spool,
    /// Nesting of its folders; must be that of the scheduler.
    pub level: HashLevel,
    /// Syncs files and folders, so that an accepted message survives a power failure.
    pub sync: bool,
}

/// Errors of a notice while no scheduler listens.
const NO_LISTENER: [ErrorKind; 3] =
    [ErrorKind::NotFound, ErrorKind::ConnectionRefused, ErrorKind::WouldBlock];

/// Maximum time that a notice waits for a scheduler that is slow to read others.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of taken message numbers that are skipped.
///
/// Normally there are none, since the number is that of an inode. A copied spool may have some.
const MAX_TAKEN_NUMBERS: u32 = 100;

impl Submitter {
    /// Submits `message` (headers, empty line, body) for the recipients in `groups`.
    ///
    /// Returns its name, which contains its number. After an error no file is left.
    ///
    /// `priority` is from 0 (first) to 9; `None` is the default.
    pub fn submit(
        &self,
        message: &[u8],
        log_id: &str,
        groups: Vec<Group>,
        priority: Option<u8>,
    ) -> io::Result<SpoolName> {
        let body_offset = body_offset(message) as u64;
        let log_id = log_id.to_string();
        let mut draft = ControlFileDraft {
            body_offset,
            log_id,
            priority,
            groups,
            ..ControlFileDraft::default()
        };
        // Files whose number is taken are kept, so that the next one gets another inode.
        let mut passed_over = Vec::new();
        for _ in 0..MAX_TAKEN_NUMBERS {
            let mut scratch = self.scratch_file()?;
            self.fill(&scratch, self.spool.queue(), message)?;
            match self.publish(&mut scratch, &mut draft) {
                Ok(name) => {
                    scratch.keep();
                    return Ok(name);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    scratch.remove()?;
                    passed_over.push(scratch);
                }
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Writes the control file, and gives both files their names.
    ///
    /// Existing files are never replaced. If there is a file with this number, the error is
    /// [`ErrorKind::AlreadyExists`].
    fn publish(
        &self,
        message: &mut TempFile,
        draft: &mut ControlFileDraft,
    ) -> io::Result<SpoolName> {
        let name = self.name_of(message.number()?);
        draft.name = name.base();
        let text = draft.to_text()?;
        let control_file = self.spool.control_file(&name);
        // An existing control file must not be paired with this message.
        if folder::exists(&control_file)? {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let (message_folder, control_folder) = self.folders(&name)?;
        let mut control = self.hidden_control_file(&control_folder, &name, &text)?;
        if self.sync {
            control.file().sync_all()?;
        }
        message.rename(self.spool.message_file(&name))?;
        self.sync_folder(&message_folder)?;
        control.rename(control_file)?;
        self.sync_folder(&control_folder)?;
        control.keep();
        Ok(name)
    }

    /// Asks the scheduler to try a host now (ETRN). Returns the name of the file that says so.
    ///
    /// `client` is the one that asks, for the log. Neither may contain blanks.
    pub fn request_queue_run(&self, host: &str, client: &str) -> io::Result<SpoolName> {
        let transport = self.spool.transport();
        let mut scratch = TempFile::create_in(transport, "..etrn")?;
        scratch.give_to_owner_of(transport)?;
        scratch.file().write_all(format!("T {host} {client}\n").as_bytes())?;
        let number = scratch.number()?;
        let base = format!("{number}-etrn");
        let name = SpoolName::new(HashFolder::of(number, self.level), base.as_bytes())
            .expect("it begins with a number");
        folder::make_below(transport, name.folder(), self.sync)?;
        scratch.rename(self.spool.control_file(&name))?;
        scratch.keep();
        Ok(name)
    }

    /// The name of a message whose file has this inode number.
    pub fn name_of(&self, number: u64) -> SpoolName {
        SpoolName::plain(HashFolder::of(number, self.level), number)
    }

    /// The folders of a message and of its control file, which are created if needed.
    pub fn folders(&self, name: &SpoolName) -> io::Result<(PathBuf, PathBuf)> {
        let below = |top| folder::make_below(top, name.folder(), self.sync);
        Ok((below(self.spool.queue())?, below(self.spool.transport())?))
    }

    /// Writes a control file under a hidden name, without syncing it.
    ///
    /// It is locked while this process works on it: see [`unfinished`](super::unfinished).
    pub fn hidden_control_file(
        &self,
        folder: &Path,
        name: &SpoolName,
        text: &[u8],
    ) -> io::Result<TempFile> {
        // Only a crash can have left a file of this name, since the number is unique.
        let control = TempFile::create_replacing(folder.join(format!(".{}", name.base())))?;
        control.file().try_lock()?;
        control.give_to_owner_of(self.spool.transport())?;
        control.file().write_all(text)?;
        Ok(control)
    }

    /// Notifies a running scheduler of messages.
    ///
    /// The system keeps some ten notices for a program (`net.unix.max_dgram_qlen`); further ones
    /// wait for it for a moment. If no scheduler listens, or it is busy, that is no error: its next
    /// scan finds the messages.
    pub fn notify(&self, socket: &Path, names: &[SpoolName]) -> io::Result<()> {
        let sender = UnixDatagram::unbound()?;
        sender.set_write_timeout(Some(NOTICE_TIMEOUT))?;
        for name in names {
            match sender.send_to(format!("NEW {name}").as_bytes(), socket) {
                Err(error) if NO_LISTENER.contains(&error.kind()) => break,
                other => other?,
            };
        }
        Ok(())
    }

    fn scratch_file(&self) -> io::Result<TempFile> {
        TempFile::create_in(&self.spool.public(), "message")
    }

    /// Writes all of a file, which is given to the owner of `folder`.
    fn fill(&self, scratch: &TempFile, folder: &Path, contents: &[u8]) -> io::Result<()> {
        scratch.give_to_owner_of(folder)?;
        let mut file = scratch.file();
        file.write_all(contents)?;
        if self.sync { file.sync_all() } else { Ok(()) }
    }

    pub(super) fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if self.sync { File::open(folder)?.sync_all() } else { Ok(()) }
    }
}

/// Offset of the body, which follows the first empty line.
fn body_offset(message: &[u8]) -> usize {
    memchr::memmem::find(message, b"\n\n").map_or(message.len(), |at| at + 2)
}

/// Sends a notice of new mail to a socket. Does not wait.
pub fn notify(socket: &Path, notice: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to(notice.as_bytes(), socket).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use zsched_format::control_file::compose::{Address, Recipient};

    fn submitter(folder: &Path, level: HashLevel) -> Submitter {
        let spool = Spool::new(folder);
        spool.create().expect("a spool");
        Submitter { spool, level, sync: true }
    }

    fn group(headers: &str) -> Group {
        let address = Address::new("c", "h", "u", 0);
        Group {
            sender: Address::new("local", "", "a@b", 0),
            recipients: vec![Recipient { address, ..Recipient::default() }],
            headers: headers.into(),
            ..Group::default()
        }
    }

    /// All files of the spool, including hidden ones.
    fn files(top: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![top.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let below = path.strip_prefix(top).expect("below");
                    found.push(below.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn files_are_readable_by_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let submitter = submitter(folder.path(), HashLevel::Twice);
        let name = submitter.submit(b"A: 1\n\nb\n", "<1@x>", vec![group("A: 1\n")], None);
        let name = name.expect("submitted");
        assert_eq!(files(folder.path()), [format!("queue/{name}"), format!("transport/{name}")]);
        for path in [submitter.spool.message_file(&name), submitter.spool.control_file(&name)] {
            let metadata = fs::metadata(&path).expect("a file");
            assert_eq!(metadata.mode() & 0o7777, 0o600, "{}", path.display());
        }
    }

    /// Existing files remain unchanged, and no new file is left.
    #[test]
    fn submit_replaces_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let submitter = submitter(folder.path(), HashLevel::Once);
        for top in ["queue", "transport"] {
            let mut scratch = submitter.scratch_file().expect("a scratch file");
            let number = scratch.number().expect("a number");
            let below = HashFolder::of(number, HashLevel::Once);
            let place = folder::make_below(&folder.path().join(top), below, false);
            let path = place.expect("a folder").join(number.to_string());
            fs::write(&path, "somebody's").expect("written");
            let before = files(folder.path());
            let mut draft =
                ControlFileDraft { groups: vec![group("")], ..ControlFileDraft::default() };
            let refused = submitter.publish(&mut scratch, &mut draft).expect_err("taken");
            assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
            assert_eq!(files(folder.path()), before);
            assert_eq!(fs::read_to_string(&path).expect("it is there"), "somebody's");
            drop(scratch);
            // With another number it succeeds.
            submitter.submit(b"\nb\n", "", vec![group("")], None).expect("submitted");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), "somebody's");
        }
        assert!(files(folder.path()).iter().all(|name| !name.starts_with("public")));
    }

    #[test]
    fn submit_succeeds_after_crash_left_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let submitter = submitter(folder.path(), HashLevel::Flat);
        let mut scratch = submitter.scratch_file().expect("a scratch file");
        let hidden = format!(".{}", scratch.number().expect("a number"));
        fs::write(submitter.spool.transport().join(&hidden), "half of a li").expect("written");
        let mut draft = ControlFileDraft { groups: vec![group("")], ..ControlFileDraft::default() };
        let name = submitter.publish(&mut scratch, &mut draft).expect("placed");
        scratch.keep();
        assert_eq!(files(folder.path()), [format!("queue/{name}"), format!("transport/{name}")]);
    }

    #[test]
    fn failed_submit_leaves_no_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let submitter = submitter(folder.path(), HashLevel::Twice);
        let evil = group("From: a@b\n\nr           prog - x 0\nm\n");
        let refused = submitter.submit(b"A: 1\n\nb\n", "<1@x>", vec![evil], None);
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::InvalidInput);
        assert_eq!(files(folder.path()), [""; 0]);
        fs::remove_dir(submitter.spool.transport()).expect("removed");
        fs::write(submitter.spool.transport(), "in the way").expect("written");
        submitter.submit(b"A: 1\n\nb\n", "<1@x>", vec![group("")], None).expect_err("no folder");
        assert_eq!(files(folder.path()), ["transport"]);
    }
}
