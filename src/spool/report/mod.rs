//! Reports to senders: each `d` line is reported once, whatever crashes.
//!
//! The `d` lines of a control file are the journal: a line with a blank tag is owed to the sender,
//! one tagged `+` is reported ([`due`]). A report settles all lines that are owed, and goes to the
//! router by the [`outbox`]. This module decides what a report is about; the caller composes its
//! text.

mod due;
mod owed;
mod unnoted;

pub use due::{DueReports, ReportGroup, ReportedRecipient};
pub use owed::{OwedReports, take_up};

use crate::finalize::OpenControlFile;
use crate::outbox::{
    self, MessageIdentity, OnDisk, Outbox, OutboxEntry, OutboxFolder, SubmissionDraft,
    SubmissionKind,
};
use crate::{Spool, SpoolId, SpoolName, note};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use zsched_format::action_counts::ActionCounts;
use zsched_format::control_file::{self, ControlFile, mark};
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Maximum size of a message body that a report returns, in bytes.
///
/// A larger one is left out, as with RET=HDRS.
const MAX_RETURNED_BODY: u64 = 64 << 10;
/// Maximum size of the headers that a report returns, in bytes.
const MAX_RETURNED_HEADERS: u64 = 256 << 10;

/// How reports are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportOptions {
    /// A report has only the headers of the message unless the sender requests all (`-n`).
    pub headers_only: bool,
    /// Does not wait for the disk (`PARAMmsgwriteasync`).
    pub is_async: bool,
}

/// What a report is about.
pub struct ReportContents<'a> {
    /// The message.
    pub spool_id: SpoolId,
    /// The address that gets the report; `None` for a message that is a report itself.
    pub sender: Option<&'a [u8]>,
    /// The envelope id of the message, xtext (RFC 3461, 4.4).
    pub envelope_id: Option<&'a [u8]>,
    /// The recipients.
    pub recipients: &'a [ReportedRecipient],
    /// The headers of the message, with all line ends.
    pub headers: &'a [u8],
    /// The body of the message, if the report returns it.
    pub body: Option<&'a [u8]>,
}

/// The text of a report.
pub enum ReportText {
    /// A submission for the router.
    Submission(Vec<u8>),
    /// A report without a recipient, which is stored in `postman/`.
    Stored(Vec<u8>),
    /// A report without a recipient, which is dropped.
    None,
}

/// A report that the router has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentReport {
    /// Its spool id. The number is its name in `router/`.
    pub id: SpoolId,
    /// The address that gets it; `None` for a report about a report.
    pub sender: Option<Box<[u8]>>,
    /// Its recipients.
    pub recipients: ActionCounts,
}

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendResult {
    /// Modification time of the message file, which is part of the spool id.
    pub modified: Timestamp,
    /// Message-ID of the message.
    pub message_id: Option<String>,
    /// Reports that the router has.
    ///
    /// An earlier attempt may have written some of them.
    pub sent: Vec<SentReport>,
    /// Recipients that the router has refused. No attempt names them in the logs.
    pub refused: Vec<RefusedRecipient>,
    /// What is still to be reported.
    pub left: UnreportedRest,
}

/// A recipient that the router has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRecipient {
    /// The sender; `None` for a message that is a report itself.
    pub sender: Option<Box<[u8]>>,
    /// The recipient, and the reason.
    pub recipient: ReportedRecipient,
}

/// What a report has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UnreportedRest {
    /// There are more `d` lines than one report may have.
    pub lines: bool,
    /// The message is not finished, and may have failures without a line.
    pub unnoted_failures: bool,
}

/// Sends the reports that a message owes.
///
/// `is_complete`: the message is about to leave the spool. Recipients that have failed without a
/// `d` line get one first.
///
/// When it returns, the router has the reports and the lines are tagged. After an error it can be
/// called again. The error is [`io::ErrorKind::NotFound`] only if the message is gone.
pub fn send(
    spool: &Spool,
    name: &SpoolName,
    is_complete: bool,
    options: ReportOptions,
    compose: Compose<'_>,
) -> io::Result<SendResult> {
    let path = spool.control_file(name);
    let file = sys::open_nofollow(OpenOptions::new().read(true).write(true), &path)?;
    send_of(spool, name, OnDisk { file, path }, is_complete, (options, compose))
        .map_err(note::about_other_file)
}

/// Composes the text of a report.
type Compose<'c> = &'c mut dyn FnMut(&ReportContents<'_>) -> ReportText;

fn send_of(
    spool: &Spool,
    name: &SpoolName,
    on_disk: OnDisk,
    is_complete: bool,
    (options, compose): (ReportOptions, Compose<'_>),
) -> io::Result<SendResult> {
    let identity = MessageIdentity::of(spool, name, &on_disk.file)?;
    let mut outbox = OutboxFolder::open(spool)?;
    outbox.is_async = options.is_async;
    let message = sys::if_exists(File::open(spool.message_file(name)))?;
    let original = Original { file: message.as_ref(), modified: identity.modified, options };
    let finished = is_complete.then(Timestamp::now);
    let Settled { sent, refused, message_id, left } =
        settle(&on_disk, &outbox, &identity, finished, &mut |file, group| match original
            .compose(name, file, group, compose)?
        {
            ReportText::Submission(text) => Ok(Some(SubmissionDraft::Report(text))),
            ReportText::Stored(text) => spool.store_error_on_error(&text).map(|()| None),
            ReportText::None => Ok(None),
        })?;
    let sent = sent.into_iter().map(|(entry, group)| group.sent(&entry)).collect();
    Ok(SendResult { modified: identity.modified, message_id, sent, refused, left })
}

/// What became of the `d` lines that were due.
pub struct Settled {
    /// Reports that were given to the router.
    pub sent: Vec<(OutboxEntry, ReportGroup)>,
    /// Recipients that the router has refused.
    pub refused: Vec<RefusedRecipient>,
    /// Message-ID of the message.
    pub message_id: Option<String>,
    /// What is still to be reported.
    pub left: UnreportedRest,
}

/// Makes a submission of a group, or none if no report is to be sent.
pub type MakeDraft<'m, O> =
    &'m mut dyn FnMut(&ControlFile, &ReportGroup) -> io::Result<Option<Draft<O>>>;

/// A submission in an outbox.
pub type Draft<O> = <O as Outbox>::SubmissionDraft;

/// Settles the `d` lines that are due, on disk or simulated.
///
/// `draft` makes a submission of a group, or none if no report is to be sent. A message that was
/// finished at a time gets lines about its unnoted failures first.
pub fn settle<O: Outbox>(
    file: &impl OpenControlFile,
    outbox: &O,
    message: &MessageIdentity,
    finished: Option<Timestamp>,
    draft: MakeDraft<'_, O>,
) -> io::Result<Settled> {
    let of = (message, SubmissionKind::Report);
    let resumed = outbox::resume(file, outbox, of)?;
    if let Some(time) = finished {
        unnoted::note_failures(file, file.size()?, time)?;
    }
    let mut sent = Vec::new();
    for entry in resumed {
        let lines: HashSet<u32> = entry.lines.iter().copied().collect();
        let is_of_entry = |offset, _| lines.contains(&offset);
        let group = DueReports::read(file, file.size()?, &is_of_entry)?.groups.pop();
        sent.extend(group.map(|group| (entry, group)));
    }
    let due = DueReports::read(file, file.size()?, &|_, is_reported| !is_reported)?;
    let left = UnreportedRest {
        lines: due.has_more,
        unnoted_failures: finished.is_none() && due.may_have_unnoted_failures(),
    };
    let DueReports { refused, mut ignored, .. } = due;
    let (mut submissions, mut groups) = (Vec::new(), Vec::new());
    for group in due.groups {
        match draft(&due.message, &group)? {
            Some(draft) => {
                submissions.push((group.lines.clone(), draft));
                groups.push(group);
            }
            None => ignored.extend(group.lines),
        }
    }
    let entries = outbox::hand_over(file, outbox, of, submissions)?;
    ignored.iter().try_for_each(|line| mark::set_reported(file, *line))?;
    sent.extend(entries.into_iter().zip(groups));
    let message_id = control_file::message_id(&due.message).map(String::from);
    Ok(Settled { sent, refused, message_id, left })
}

/// The message that reports are about.
struct Original<'a> {
    file: Option<&'a File>,
    modified: Timestamp,
    options: ReportOptions,
}

impl Original<'_> {
    fn compose(
        &self,
        name: &SpoolName,
        control: &ControlFile,
        group: &ReportGroup,
        compose: Compose<'_>,
    ) -> io::Result<ReportText> {
        let of_message;
        let headers = match &group.headers {
            Some(headers) => headers,
            None => {
                of_message = self.headers(control)?;
                &of_message
            }
        };
        let body = if self.returns_body(control, group) { self.body(control)? } else { None };
        Ok(compose(&ReportContents {
            spool_id: SpoolId { number: name.number(), modified: self.modified },
            sender: group.sender.as_deref(),
            envelope_id: control
                .envelope_id
                .filter(|_| group.has_original_envelope)
                .map(|id| control.get(id).trim_ascii()),
            recipients: &group.recipients,
            headers,
            body: body.as_deref(),
        }))
    }

    /// Returns true if the sender gets the body: only with a failure (RFC 3461, 4.3).
    fn returns_body(&self, control: &ControlFile, group: &ReportGroup) -> bool {
        let mode = control.return_mode.filter(|_| group.has_original_envelope);
        let mode = mode.map(|mode| control.get(mode).trim_ascii());
        let is_full = match mode.map(<[u8]>::to_ascii_uppercase).as_deref() {
            Some(b"FULL") => true,
            Some(b"HDRS") => false,
            _ => !self.options.headers_only,
        };
        is_full && group.recipients.iter().any(|recipient| recipient.action() == b"failed")
    }

    /// The body, unless it is too large.
    fn body(&self, control: &ControlFile) -> io::Result<Option<Vec<u8>>> {
        let (Some(file), Some(offset)) = (self.file, control.body_offset) else {
            return Ok(None);
        };
        let size = file.metadata()?.len().saturating_sub(offset);
        match size <= MAX_RETURNED_BODY {
            true => sys::read_part(file, offset, size as usize).map(Some),
            false => Ok(None),
        }
    }

    /// The headers in the message file. Lines of the envelope come before them.
    fn headers(&self, control: &ControlFile) -> io::Result<Vec<u8>> {
        let Some(file) = self.file else {
            return Ok(Vec::new());
        };
        let size = control.body_offset.unwrap_or(0).min(MAX_RETURNED_HEADERS);
        let text = sys::read_part(file, 0, size as usize)?;
        let is_header = |line: &[u8]| {
            let word = line.split(u8::is_ascii_whitespace).next();
            word.is_some_and(|word| word.contains(&b':'))
        };
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let first = lines.iter().position(|line| is_header(line)).unwrap_or(lines.len());
        let headers = lines[first..].iter().take_while(|line| **line != b"\n");
        Ok(headers.copied().flatten().copied().collect())
    }
}

impl ReportGroup {
    fn sent(self, entry: &OutboxEntry) -> SentReport {
        let mut recipients = ActionCounts::default();
        self.recipients.iter().for_each(|recipient| recipients.add(recipient.action()));
        let id = SpoolId { number: entry.id, modified: entry.modified };
        SentReport { id, sender: self.sender, recipients }
    }
}

impl Spool {
    /// Stores a report without recipients as `postman/<inode>:error-on-error`.
    ///
    /// ZMailer's name for it.
    fn store_error_on_error(&self, text: &[u8]) -> io::Result<()> {
        use std::io::Write;
        let postman = self.postman();
        crate::folder::make(&postman, crate::folder::MAIL_FOLDER_MODE)?;
        let mut file = crate::temp_file::TempFile::create_in(&postman, "new")?;
        file.file().write_all(text)?;
        file.file().sync_all()?;
        file.rename(postman.join(format!("{}:error-on-error", file.number()?)))?;
        file.keep();
        Ok(())
    }
}
