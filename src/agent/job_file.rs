//! The control file of a job: opens, reads and checks it.

use crate::outcome::{Note, reason};
use crate::{Notify, Outcome, Scope};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use zsched_format::agent_protocol::{Offsets, RecipientReport, ReportStatus};
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::{self, ControlFile, Recipient, mark};
use zsched_format::job_recipients::{IndexedControlFile, tag_now};
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// The folders that contain the files of jobs.
#[derive(Clone, Debug)]
pub(crate) struct JobFolders {
    /// The folder above all others.
    pub(crate) postoffice: PathBuf,
    /// The folder that job paths are relative to: the agent's working folder.
    pub(crate) transport: PathBuf,
    /// The folder of the message files.
    pub(crate) queue: PathBuf,
}

impl JobFolders {
    /// The folders of a POSTOFFICE.
    pub(crate) fn of(postoffice: &Path) -> JobFolders {
        let (transport, queue) = (postoffice.join("transport"), postoffice.join("queue"));
        JobFolders { postoffice: postoffice.to_path_buf(), transport, queue }
    }
}

impl Default for JobFolders {
    /// The folders as the scheduler arranges them.
    fn default() -> JobFolders {
        JobFolders { transport: PathBuf::new(), ..JobFolders::of(Path::new("..")) }
    }
}

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
    /// True if it was read for an earlier job.
    is_kept: bool,
    pub(crate) file: File,
    pub(crate) location: PathBuf,
    /// Length of the folder part of the path, including the slash; 0 if there is none.
    folder_length: usize,
}

impl JobFile {
    /// Opens and reads the control file of a job line.
    pub(crate) fn open(folders: &JobFolders, path: &[u8]) -> Result<JobFile, Refusal> {
        let unusable = |why: &str| {
            Refusal::Unusable(format!("control file {}: {why}", String::from_utf8_lossy(path)))
        };
        let folder_length = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let number = leading_number(&path[folder_length..])
            .ok_or_else(|| unusable("the name does not begin with a number"))?;
        let location = folders.transport.join(OsStr::from_bytes(path));
        let (file, text) = read(&location).map_err(|error| unusable(&reason(&error)))?;
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
        let (path, parsed, is_kept) = (path.to_vec(), IndexedControlFile::new(control), false);
        Ok(JobFile { path, number, parsed, is_kept, file, location, folder_length })
    }

    /// Keeps the file for the next job, if that saves time.
    ///
    /// It remains open, so that its inode cannot be used for another file.
    pub(crate) fn keep(self) -> Option<JobFile> {
        let is_worth_it = self.parsed.is_worth_keeping();
        is_worth_it.then(|| JobFile { parsed: self.parsed.with_index(), is_kept: true, ..self })
    }

    /// Returns true if a job line names this same file.
    pub(crate) fn is_same_file(&self, path: &[u8]) -> bool {
        let identity = |metadata: Metadata| sys::device_and_inode(&metadata);
        let there = || fs::symlink_metadata(&self.location).map(identity).ok();
        self.path == path
            && there().is_some_and(|id| self.file.metadata().map(identity).ok() == Some(id))
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
    pub(crate) fn message_path(&self, folders: &JobFolders) -> PathBuf {
        let folder = OsStr::from_bytes(&self.path[..self.folder_length]);
        let name = self.parsed.control.name().unwrap_or_default();
        folders.queue.join(folder).join(OsStr::from_bytes(name))
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
    pub(crate) fn append(&self, lines: &[u8]) -> io::Result<()> {
        mark::append_lines(&self.location, lines)
    }

    /// Calls `send` with the report about a recipient.
    ///
    /// Notary data is not sent if it is in the control file already, or has not been requested.
    pub(crate) fn report(
        &self,
        recipient: &Recipient,
        outcome: &Outcome,
        note: Note,
        send: impl FnOnce(&RecipientReport<'_>),
    ) {
        let status = outcome.verdict().status(note);
        let notary = match status {
            ReportStatus::Ok2 | ReportStatus::Ok3 | ReportStatus::Error2 => Vec::new(),
            _ => outcome.notary(self.parsed.control.get(recipient.quad.user)),
        };
        let message = outcome.report_text();
        send(&RecipientReport {
            number: self.number,
            offset: recipient.offset,
            notary: &notary,
            status,
            message: message.as_bytes(),
        });
    }
}

/// Opens the file for changes in place, and reads all of it.
fn read(path: &Path) -> io::Result<(File, Vec<u8>)> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let text = control_file::read_all(&mut file, metadata.len())?;
    Ok((file, text))
}

/// Returns true if a recipient lacks a complete block of headers after it.
fn is_truncated(control: &ControlFile) -> bool {
    control.unterminated_block.is_some()
        || control.recipients.iter().any(|recipient| recipient.headers.is_none())
}

fn leading_number(base: &[u8]) -> Option<u64> {
    let digits = base.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&base[..digits]).ok()?.parse().ok()
}
