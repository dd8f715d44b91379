//! The control file of a job: opens, reads and checks it.

use crate::outcome::{Note, reason};
use crate::reply_writer::ReplyWriter;
use crate::{Notify, Outcome, Scope};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use zsched_format::agent_protocol::{Offsets, RecipientReport, ReportStatus, leading_number};
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::{self, ControlFile, Recipient, mark};
use zsched_format::job_recipients::{IndexedControlFile, tag_now};
use zsched_format::time::Timestamp;
use zsched_spool::Spool;
use zsched_sys as sys;

/// The reason why there is nothing to do for a job.
///
/// In each case the scheduler is requested to read the file again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The file cannot be used. The text is logged.
    Unusable(String),
    /// The file ends too early: its writer may not have finished.
    Truncated(String),
    /// A newer program wrote the file. The scheduler may start a newer agent, if one has been
    /// installed.
    UnknownFormat(String),
}

/// A control file that this agent has open.
#[derive(Debug)]
pub(crate) struct JobFile {
    /// The path in the job line.
    pub(crate) path: Vec<u8>,
    /// Number that its base name begins with.
    pub(crate) number: u64,
    pub(crate) parsed: IndexedControlFile,
    /// Size of the file when it was last searched for new recipients, in bytes.
    seen: u64,
    /// True if it was read for an earlier job.
    is_kept: bool,
    pub(crate) file: File,
    /// True while the lock on the file is held.
    ///
    /// If it is held at the start of a job, it has been since before the file was read.
    pub(crate) holds_lock: bool,
    pub(crate) location: PathBuf,
    /// Length of the folder part of the path, including the slash; 0 if there is none.
    folder_length: usize,
}

impl JobFile {
    /// Opens and reads the control file of a job line.
    pub(crate) fn open(spool: &Spool, path: &[u8]) -> Result<JobFile, Refusal> {
        let unusable = |why: &str| {
            Refusal::Unusable(format!("control file {}: {why}", String::from_utf8_lossy(path)))
        };
        let folder_length = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (number, _) = leading_number(&path[folder_length..])
            .ok_or_else(|| unusable("the name does not begin with a number"))?;
        let location = spool.transport().join(OsStr::from_bytes(path));
        let (file, holds_lock, text) =
            read(&location).map_err(|error| unusable(&reason(&error)))?;
        let only_a_request = text.first() == Some(&b'T');
        let control = control_file::parse(text).map_err(|error| {
            if error.unknown_format {
                return Refusal::UnknownFormat(format!("{}: {error}", location.display()));
            }
            unusable(&error.to_string())
        })?;
        if !only_a_request && is_truncated(&control) {
            let why = format!("{} ends within its headers", location.display());
            return Err(Refusal::Truncated(why));
        }
        let seen = control.text.len() as u64;
        let (path, parsed, is_kept) = (path.to_vec(), IndexedControlFile::new(control), false);
        Ok(JobFile {
            path,
            number,
            parsed,
            seen,
            is_kept,
            file,
            holds_lock,
            location,
            folder_length,
        })
    }

    /// Keeps the file for the next job, if that saves time.
    ///
    /// It remains open, so that its inode cannot be used for another file.
    pub(crate) fn keep(self) -> Option<JobFile> {
        let is_worth_it = self.parsed.is_worth_keeping();
        is_worth_it.then(|| JobFile { parsed: self.parsed.with_index(), is_kept: true, ..self })
    }

    /// Returns true if a job line names this file, without new recipients.
    pub(crate) fn is_same_file(&mut self, path: &[u8]) -> bool {
        self.path == path
            && sys::is_name_of(&self.location, &self.file).unwrap_or(false)
            && !self.has_new_recipients().unwrap_or(true)
    }

    fn has_new_recipients(&mut self) -> io::Result<bool> {
        let size = self.file.metadata()?.len();
        let new = sys::read_part(&self.file, self.seen, size.saturating_sub(self.seen) as usize)?;
        self.seen = size;
        Ok(control_file::has_appended_recipients(&new))
    }

    /// Selects the recipients of a job.
    pub(crate) fn select(
        &self,
        scope: &Scope,
        host: Option<&[u8]>,
        only: Option<Offsets<'_>>,
    ) -> Vec<Recipient> {
        let tag_of = |recipient: &Recipient| match self.is_kept {
            true => tag_now(&self.file, recipient),
            false => recipient.tag,
        };
        self.parsed.select(scope, host, only, tag_of)
    }

    /// The path of the message file.
    pub(crate) fn message_path(&self, spool: &Spool) -> PathBuf {
        let folder = OsStr::from_bytes(&self.path[..self.folder_length]);
        let name = self.parsed.control.name().unwrap_or_default();
        spool.queue().join(folder).join(OsStr::from_bytes(name))
    }

    /// The DSN parameters of a recipient.
    pub(crate) fn notify(&self, recipient: &Recipient) -> Notify<'_> {
        let line = recipient.notify.map(|notify| self.parsed.control.get(notify.value));
        line.map_or_else(Notify::default, Notify::parse)
    }

    /// Appends the `d` line about a recipient to `lines`.
    pub(crate) fn note(&self, recipient: &Recipient, outcome: &Outcome, lines: &mut Vec<u8>) {
        let headers = self.parsed.control.headers_of(recipient);
        let diagnostic = DiagnosticRecord {
            recipient: recipient.offset,
            headers: headers.map(|block| block.text.start),
            notify: recipient.notify.map(|notify| notify.offset),
            time: Timestamp::now().seconds(),
            notary: &outcome.notary(self.parsed.control.get(recipient.quad.user)),
            message: outcome.text().as_bytes(),
        };
        diagnostic.write_to(lines);
    }

    /// Appends `d` lines to the file, and returns when they are on disk.
    ///
    /// The name may have gone to another message, whose recipients must not fail for those of this
    /// one: message numbers are reused.
    pub(crate) fn append(&self, lines: &[u8]) -> io::Result<()> {
        if !sys::is_name_of(&self.location, &self.file)? {
            return Err(io::Error::other("it was replaced"));
        }
        mark::append_lines(&self.location, lines)
    }

    /// Passes the report about a recipient to `replies`.
    ///
    /// Notary data is not sent if it is in the control file already, or has not been requested,
    /// except for the remote host, from which the scheduler learns.
    pub(crate) fn report(
        &self,
        recipient: &Recipient,
        outcome: &Outcome,
        note: Note,
        replies: &mut ReplyWriter<dyn Write + '_>,
    ) {
        let status = outcome.verdict().status(note);
        let notary = match status {
            ReportStatus::Ok2 | ReportStatus::Ok3 | ReportStatus::Error2
                if outcome.remote_host().is_empty() =>
            {
                Vec::new()
            }
            _ => outcome.notary(self.parsed.control.get(recipient.quad.user)),
        };
        let message = outcome.report_text();
        let (number, offset) = (self.number, recipient.offset);
        let (notary, message) = (&notary[..], message.as_bytes());
        replies.report(&RecipientReport { number, offset, notary, status, message });
    }
}

/// Opens the file for changes in place, and reads all of it.
///
/// The second value is true if the file has been locked since before it was read. If another
/// process has the lock, it is not waited for: the lock is taken later, for each recipient.
///
/// Its type is not checked: the scheduler refuses control files that are not regular files. An
/// empty pipe is an error, since the read does not wait.
fn read(path: &Path) -> io::Result<(File, bool, Vec<u8>)> {
    let file = sys::open_nofollow(File::options().read(true).write(true), path)?;
    let is_locked = file.try_lock().is_ok();
    let text = control_file::read_all(&file, control_file::USUAL_CONTROL_FILE_SIZE)?;
    let is_large = text.len() as u64 > control_file::USUAL_CONTROL_FILE_SIZE;
    // Other agents must not wait until a large file is parsed.
    if is_locked && is_large {
        file.unlock()?;
    }
    Ok((file, is_locked && !is_large, text))
}

/// Returns true if a recipient lacks a complete block of headers after it.
fn is_truncated(control: &ControlFile) -> bool {
    control.unterminated_block.is_some()
        || control.recipients.iter().any(|recipient| recipient.headers.is_none())
}
