//! The outbox on disk: the folder `.scheduler.outbox` of POSTOFFICE.
//!
//! ```text
//! new:<pid>:<count>       a submission that is being written
//! <number>:<id>.draft     a submission made of the message with this number
//! <number>:<id>.lines     the lines that it settles
//! <id>.ready              a submission that is to be published even without its message
//! ```
//!
//! The id is the inode of the submission. The router may have removed one, and another message may
//! get its inode, before the list of the first is removed.

use super::{MessageIdentity, Outbox, OutboxEntry, OutboxRecovery, SubmissionKind};
use crate::finalize::OpenControlFile;
use crate::resubmit::Submission;
use crate::submission_file::share_with_router;
use crate::temp_file::TempFile;
use crate::{HashFolder, HashLevel, Spool, SpoolName, folder};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zsched_format::control_file::mark;
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Mode of the folder: other users must not see or change its contents.
const MODE: u32 = 0o700;
/// The first line of a list of lines.
const TITLE: &str = "zsched outbox 1";

/// The outbox of a spool.
pub(crate) struct OutboxFolder<'s> {
    spool: &'s Spool,
    path: PathBuf,
    /// Does not wait for the disk. A power failure may lose submissions whose lines are tagged.
    pub is_async: bool,
}

/// Finishes the entries that the former scheduler has left.
///
/// Comes before any mail is read.
pub fn recover_folder(spool: &Spool, level: HashLevel) -> io::Result<OutboxRecovery> {
    let outbox = OutboxFolder::at(spool);
    if outbox.names()?.is_empty() {
        return Ok(OutboxRecovery::default());
    }
    outbox.remove_incomplete()?;
    let recovered = super::recover(&outbox, |message| open_control_file(spool, level, message))?;
    // An earlier start may have left some.
    Ok(OutboxRecovery { ready: outbox.ready()?.len(), ..recovered })
}

/// Publishes ready submissions. Returns the reasons why some are left.
pub fn publish_ready(spool: &Spool) -> io::Result<Vec<io::Error>> {
    let outbox = OutboxFolder::at(spool);
    let ready = outbox.ready()?.into_iter();
    Ok(ready.filter_map(|(id, path)| outbox.move_to_router(&path, id).err()).collect())
}

/// Number of submissions that the router does not have yet.
pub fn pending_submissions(spool: &Spool) -> io::Result<usize> {
    let names = OutboxFolder::at(spool).names()?;
    let is_submission = |name: &&String| name.ends_with(".draft") || name.ends_with(".ready");
    Ok(names.iter().filter(is_submission).count())
}

/// A control file on disk.
pub(crate) struct OnDisk {
    pub file: File,
    pub path: PathBuf,
}

impl FileExt for OnDisk {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.file.write_at(bytes, position)
    }
}

impl OpenControlFile for OnDisk {
    fn size(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len())
    }

    fn append(&self, lines: &[u8]) -> io::Result<()> {
        mark::append_lines(&self.path, lines)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn with_file_lock<T>(&self, work: impl FnOnce() -> T) -> T {
        let is_alone = mark::try_lock_file(&self.file);
        let result = work();
        if is_alone && let Err(error) = self.file.unlock() {
            log::warn!("{}: cannot be unlocked: {error}", self.path.display());
        }
        result
    }
}

impl MessageIdentity {
    /// The identity of a message whose control file is open.
    ///
    /// A message without a message file has the time of the epoch.
    pub fn of(spool: &Spool, name: &SpoolName, control: &File) -> io::Result<MessageIdentity> {
        let message = sys::if_exists(fs::metadata(spool.message_file(name)))?;
        let modified = message.map_or(Timestamp::EPOCH, |message| Timestamp::modified(&message));
        let control = control.metadata()?.ino();
        Ok(MessageIdentity { name: name.clone(), control, modified })
    }
}

/// Opens the control file of a message.
///
/// It may have been moved down into a hash folder since.
fn open_control_file(
    spool: &Spool,
    level: HashLevel,
    message: &MessageIdentity,
) -> io::Result<Option<OnDisk>> {
    let name = &message.name;
    let folders = [name.folder(), HashFolder::of(name.number(), level), HashFolder::TOP];
    for name in folders.map(|folder| name.in_folder(folder)) {
        let path = spool.control_file(&name);
        let opened = sys::open_nofollow(OpenOptions::new().read(true).write(true), &path);
        let Some(file) = sys::if_exists(opened)? else {
            continue;
        };
        // A move may have been interrupted between the control file and the message file.
        let folders = [name.folder(), HashFolder::TOP];
        let found = folders.map(|folder| fs::metadata(spool.message_file(&name.in_folder(folder))));
        let mut times: Vec<Timestamp> = found.iter().flatten().map(Timestamp::modified).collect();
        if times.is_empty() {
            times.push(Timestamp::EPOCH);
        }
        let is_same_message = times.contains(&message.modified);
        if is_same_message && file.metadata()?.ino() == message.control {
            return Ok(Some(OnDisk { file, path }));
        }
    }
    Ok(None)
}

impl<'s> OutboxFolder<'s> {
    fn at(spool: &'s Spool) -> OutboxFolder<'s> {
        OutboxFolder { spool, path: spool.outbox(), is_async: false }
    }

    /// Opens the outbox of a spool, and creates it if necessary.
    ///
    /// It must be on the file system of `router/`, since submissions are moved there.
    pub(crate) fn open(spool: &'s Spool) -> io::Result<OutboxFolder<'s>> {
        let outbox = OutboxFolder::at(spool);
        folder::make(&outbox.path, MODE)?;
        let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
        if device(&outbox.path)? != device(&spool.router())? {
            let reason = "router/ is on another file system than POSTOFFICE";
            return Err(io::Error::new(ErrorKind::CrossesDevices, reason));
        }
        Ok(outbox)
    }

    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in sys::if_exists(fs::read_dir(&self.path))?.into_iter().flatten() {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// The submission with an id that is made of the message with a number.
    pub(super) fn draft(&self, number: u64, id: u64) -> PathBuf {
        self.path.join(format!("{number}:{id}.draft"))
    }

    fn draft_of(&self, entry: &OutboxEntry) -> PathBuf {
        self.draft(entry.message.name.number(), entry.id)
    }

    fn list(&self, entry: &OutboxEntry) -> PathBuf {
        self.path.join(format!("{}:{}.lines", entry.message.name.number(), entry.id))
    }

    /// Ready submissions with their ids.
    fn ready(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let id = |name: &String| name.strip_suffix(".ready").and_then(|id| id.parse().ok());
        let names = self.names()?;
        Ok(names.iter().filter_map(|name| Some((id(name)?, self.path.join(name)))).collect())
    }

    /// Removes incomplete entries, and the remains of published ones.
    ///
    /// They are submissions without a list, and lists without a submission.
    fn remove_incomplete(&self) -> io::Result<()> {
        let names: HashSet<String> = self.names()?.into_iter().collect();
        for name in &names {
            let is_remains = match name.rsplit_once('.') {
                Some((entry, "draft")) => !names.contains(&format!("{entry}.lines")),
                Some((entry, "lines")) => !names.contains(&format!("{entry}.draft")),
                _ => name.starts_with("new:"),
            };
            if is_remains {
                fs::remove_file(self.path.join(name))?;
            }
        }
        Ok(())
    }

    /// Writes a submission so that it survives a power failure. Returns its id and time.
    fn write_draft(
        &self,
        number: u64,
        draft: &SubmissionDraft<'_>,
    ) -> io::Result<(u64, Timestamp)> {
        let mut scratch = TempFile::create_in(&self.path, "new")?;
        match draft {
            SubmissionDraft::Reroute(mail) => mail.write_to(scratch.file())?,
            SubmissionDraft::Report(text) => scratch.file().write_all(text)?,
        }
        share_with_router(scratch.file(), &self.spool.router())?;
        if !self.is_async {
            scratch.file().sync_all()?;
        }
        let (id, modified) = (scratch.number()?, Timestamp::modified(&scratch.file().metadata()?));
        scratch.rename(self.draft(number, id))?;
        scratch.keep();
        Ok((id, modified))
    }

    fn write_list(&self, entry: &OutboxEntry) -> io::Result<()> {
        let path = self.list(entry);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(entry.to_text().as_bytes())?;
        if self.is_async { Ok(()) } else { file.sync_all() }
    }

    /// Moves a submission to `router/`.
    ///
    /// Existing files are not replaced. The number is unique, but a misnamed file may be in the
    /// way.
    fn move_to_router(&self, path: &Path, id: u64) -> io::Result<()> {
        let folder = self.spool.router();
        let to = folder.join(id.to_string());
        match sys::rename_new(path, &to) {
            // A link and a removal are two steps. Between them the router may take the one name and
            // a crash may leave the other.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                match sys::if_exists(to.symlink_metadata())? {
                    Some(_) => return Err(ErrorKind::AlreadyExists.into()),
                    None => fs::rename(path, &to)?,
                }
            }
            other => other?,
        }
        // The router has the file now. A failed sync followed by a crash could still undo the move.
        // Handing it over again while the failure lasts would be worse.
        if !self.is_async {
            File::open(folder).and_then(|folder| folder.sync_all()).ok();
        }
        Ok(())
    }
}

/// The message number and the id in the name of a list.
fn list_name(name: &str) -> Option<(u64, u64)> {
    let (number, id) = name.strip_suffix(".lines")?.split_once(':')?;
    Some((number.parse().ok()?, id.parse().ok()?))
}

/// The contents of a submission.
pub(crate) enum SubmissionDraft<'d> {
    /// Mail for the router.
    Reroute(ReroutedMail<'d>),
    /// A report: the whole file.
    Report(Vec<u8>),
}

/// Mail for the router.
pub(crate) struct ReroutedMail<'d> {
    pub submission: Submission<'d>,
    /// The message file, and the offset of its body.
    pub message: &'d File,
    pub body_offset: u64,
    /// User and group that will own the submission.
    pub owner: (u32, u32),
}

impl ReroutedMail<'_> {
    fn write_to(&self, file: &File) -> io::Result<()> {
        let mut body = self.message.try_clone()?;
        body.seek(SeekFrom::Start(self.body_offset))?;
        self.submission.write_to(file, &mut body, self.owner)
    }
}

impl<'s> Outbox for OutboxFolder<'s> {
    type SubmissionDraft = SubmissionDraft<'s>;

    fn entries(
        &self,
        of: Option<(&MessageIdentity, SubmissionKind)>,
    ) -> io::Result<Vec<OutboxEntry>> {
        let mut entries = Vec::new();
        for name in self.names()? {
            let Some((number, id)) = list_name(&name) else {
                continue;
            };
            if of.is_some_and(|(message, _)| message.name.number() != number) {
                continue;
            }
            let Some(text) = sys::if_exists(fs::read(self.path.join(&name)))? else {
                continue;
            };
            let draft = sys::if_exists(self.draft(number, id).symlink_metadata())?;
            let modified = draft.as_ref().map_or(Timestamp::EPOCH, Timestamp::modified);
            let is_meant = |entry: &OutboxEntry| {
                of.is_none_or(|(message, kind)| *message == entry.message && kind == entry.kind)
            };
            match OutboxEntry::parse(&text, id, modified) {
                Some(entry) if draft.is_some() && is_meant(&entry) => entries.push(entry),
                Some(_) => {}
                // The list is incomplete, so no tag was written.
                None => {
                    sys::if_exists(fs::remove_file(self.draft(number, id)))?;
                    sys::if_exists(fs::remove_file(self.path.join(&name)))?;
                }
            }
        }
        Ok(entries)
    }

    fn add(
        &self,
        (message, kind): (&MessageIdentity, SubmissionKind),
        lines: Vec<u32>,
        draft: &SubmissionDraft<'s>,
    ) -> io::Result<OutboxEntry> {
        let (id, modified) = self.write_draft(message.name.number(), draft)?;
        let entry = OutboxEntry { id, modified, message: message.clone(), kind, lines };
        if let Err(error) = self.write_list(&entry) {
            self.discard(&entry)?;
            return Err(error);
        }
        Ok(entry)
    }

    fn sync(&self) -> io::Result<()> {
        if self.is_async { Ok(()) } else { File::open(&self.path)?.sync_all() }
    }

    fn publish(&self, entry: &OutboxEntry) -> io::Result<()> {
        self.move_to_router(&self.draft_of(entry), entry.id)
    }

    fn remove_published(&self, entry: &OutboxEntry) {
        // A list without a submission is removed at the next start.
        fs::remove_file(self.list(entry)).ok();
    }

    fn discard(&self, entry: &OutboxEntry) -> io::Result<()> {
        sys::if_exists(fs::remove_file(self.draft_of(entry)))?;
        sys::if_exists(fs::remove_file(self.list(entry))).map(drop)
    }

    fn mark_ready(&self, entry: &OutboxEntry) -> io::Result<()> {
        fs::rename(self.draft_of(entry), self.path.join(format!("{}.ready", entry.id)))?;
        self.sync()?;
        self.remove_published(entry);
        Ok(())
    }

    fn move_to_postman(&self, entry: &OutboxEntry) -> io::Result<()> {
        let postman = self.spool.postman();
        folder::make(&postman, folder::MAIL_FOLDER_MODE)?;
        let (prefix, what) = match entry.kind {
            SubmissionKind::Reroute => ("reroute", "mail for"),
            SubmissionKind::Report => ("report", "a report to"),
        };
        let to = postman.join(format!("{prefix}:{}:{}", entry.message.name.base(), entry.id));
        sys::rename_new(&self.draft_of(entry), &to)?;
        self.remove_published(entry);
        log::error!(
            "{}: its control file is gone, and {what} the router was not handed over: see {}",
            entry.message.name,
            to.display()
        );
        Ok(())
    }
}

impl OutboxEntry {
    /// The text of the list of lines.
    fn to_text(&self) -> String {
        let MessageIdentity { name, control, modified } = &self.message;
        let (seconds, nanoseconds) = (modified.seconds(), modified.subsec_nanoseconds());
        let mut text = format!("{TITLE}\nmessage {name} {control} {seconds} {nanoseconds}\n");
        for line in &self.lines {
            // Writing to a String cannot fail.
            writeln!(text, "{} {line}", self.kind.word()).ok();
        }
        text + "end\n"
    }

    /// Parses the text of a list. Returns `None` if it is incomplete.
    fn parse(text: &[u8], id: u64, submitted: Timestamp) -> Option<OutboxEntry> {
        let text = std::str::from_utf8(text).ok()?.strip_suffix("end\n")?;
        let mut all = text.lines();
        if all.next()? != TITLE {
            return None;
        }
        let mut words = all.next()?.strip_prefix("message ")?.split(' ');
        let name = SpoolName::from_path(words.next()?.as_bytes())?;
        let control = words.next()?.parse().ok()?;
        let (seconds, nanoseconds) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let modified = Timestamp::from_parts(seconds, nanoseconds);
        let mut kind = SubmissionKind::Reroute;
        let mut lines = Vec::new();
        for line in all {
            let (word, offset) = line.split_once(' ')?;
            kind = SubmissionKind::of_word(word)?;
            lines.push(offset.parse().ok()?);
        }
        let message = MessageIdentity { name, control, modified };
        Some(OutboxEntry { id, modified: submitted, message, kind, lines })
    }
}

impl SubmissionKind {
    /// The word before each line in a list.
    fn word(self) -> &'static str {
        match self {
            SubmissionKind::Reroute => "line",
            SubmissionKind::Report => "report",
        }
    }

    fn of_word(word: &str) -> Option<SubmissionKind> {
        let kinds = [SubmissionKind::Reroute, SubmissionKind::Report];
        kinds.into_iter().find(|kind| kind.word() == word)
    }
}
