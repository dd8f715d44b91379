//! The submission of a job.
//!
//! | step | after a crash |
//! |---|---|
//! | the message is written, and recipients are sorted, in a temporary folder | the folder is removed by the next submission |
//! | all files and the folder are synced | the same |
//! | the folder gets the name of the job | the job is submitted; the next submission with the key syncs it |
//! | the folder of all jobs is synced | the job is submitted |
//!
//! The key gives the name, and a folder is never renamed over a job: of two submissions with one
//! key, one makes the job, and the other one finds it.

use super::layout::RecipientSorter;
use super::merge::{HeaderTemplate, value};
use super::packet;
use super::recipient::{RecipientLine, RecipientLineError};
use super::stream::StreamProgress;
use super::{
    BulkParameters, INDEX, JOB, JobId, MAX_HEADERS, MESSAGE, PROGRESS, RECIPIENTS, UNFINISHED, list,
};
use super::{job_folder, result_file};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use zsched_format::merge::{Piece, next_piece};
use zsched_spool::Spool;
use zsched_spool::folder::{self, MAIL_FOLDER_MODE};
use zsched_sys as sys;

/// The datagram to the scheduler's notify socket about a new job.
///
/// ZMailer's scheduler ignores it, since it names no control file.
pub const NOTICE: &str = "NEW bulk";

/// Maximum number of other keys with the same name. Names are 30 bits long.
const MAX_ATTEMPTS: u8 = 16;
/// Number of bytes of a message that are read at a time.
const PART_LEN: usize = 1 << 16;

/// A job that is being submitted. It is removed if it is dropped before its commit.
pub struct JobDraft {
    spool: Spool,
    folder: PathBuf,
    recipients: RecipientSorter,
    /// The fields that each recipient must have.
    fields: Vec<String>,
    /// Those in the body.
    body_fields: BTreeSet<String>,
    /// The headers have fields.
    has_header_fields: bool,
    body_offset: u64,
    is_committed: bool,
}

/// Where `{{NAME}}` stands for a field of each recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeScope {
    /// Nowhere.
    Nothing,
    /// In the headers.
    Headers,
    /// In the headers and in the body.
    Message,
}

/// A job after its submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmittedJob {
    /// Its name.
    pub id: JobId,
    /// Number of its recipients.
    pub recipients: u32,
    /// Number of recipients that were given more than once. Each gets the message once.
    pub repeated: u64,
    /// False if there was a job with this key before.
    pub is_new: bool,
}

/// Why a recipient cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The line is malformed.
    #[error(transparent)]
    Line(#[from] RecipientLineError),
    /// The message names a field that the recipient lacks.
    #[error("there is no field {0}, which the message names")]
    MissingField(String),
    /// The spool cannot be written to.
    #[error(transparent)]
    Spool(#[from] io::Error),
}

impl AddError {
    /// Returns an error if a recipient lacks one of the fields.
    pub(super) fn check_fields(
        fields: &[String],
        line: &RecipientLine<'_>,
    ) -> Result<(), AddError> {
        match fields.iter().find(|name| value(line, name).is_none()) {
            Some(name) => Err(AddError::MissingField(name.clone())),
            None => Ok(()),
        }
    }
}

/// Finds the job of a key. It is on disk then.
///
/// The error is that of a spool that cannot be read.
pub fn find(spool: &Spool, key: &str) -> io::Result<Option<JobId>> {
    let found = find_unsynced(spool, key)?;
    if found.is_some() {
        // The submission may have been killed before it synced the name.
        File::open(spool.bulk())?.sync_all()?;
    }
    Ok(found)
}

fn find_unsynced(spool: &Spool, key: &str) -> io::Result<Option<JobId>> {
    for attempt in 0..MAX_ATTEMPTS {
        let id = JobId::of_key(key, attempt);
        match sys::if_exists(BulkParameters::read(spool, id))? {
            Some(parameters) if parameters.key == key => return Ok(Some(id)),
            _ => {}
        }
    }
    Ok(None)
}

impl JobDraft {
    /// Begins a submission.
    pub fn new(spool: &Spool) -> io::Result<JobDraft> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let bulk = spool.bulk();
        if folder::make(&bulk, MAIL_FOLDER_MODE)? {
            give_to_owner(&File::open(&bulk)?, spool.transport())?;
        }
        remove_abandoned(&bulk);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let folder = bulk.join(format!("{UNFINISHED}{}-{count}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let draft = JobDraft {
            spool: spool.clone(),
            recipients: RecipientSorter::new(&folder),
            folder,
            fields: Vec::new(),
            body_fields: BTreeSet::new(),
            has_header_fields: false,
            body_offset: 0,
            is_committed: false,
        };
        // So other users of the spool can remove it after a kill.
        give_to_owner(&File::open(&draft.folder)?, spool.transport())?;
        Ok(draft)
    }

    /// Writes the message: headers, empty line, body. Must come before the first recipient.
    ///
    pub fn write_message(
        &mut self,
        headers: &[u8],
        body: &mut impl Read,
        merges: MergeScope,
    ) -> io::Result<()> {
        if headers.len() > MAX_HEADERS {
            let text = format!("the headers take more than {MAX_HEADERS} bytes");
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let mut body_fields = BTreeSet::new();
        self.write(MESSAGE, |out| {
            out.write_all(headers)?;
            out.write_all(b"\n")?;
            copy_body(body, out, |name| {
                if merges == MergeScope::Message && !body_fields.contains(name) {
                    body_fields.insert(name.to_string());
                }
            })
        })?;
        let template = HeaderTemplate::parse(headers);
        let header_fields: BTreeSet<String> = match merges {
            MergeScope::Nothing => BTreeSet::new(),
            _ => template.fields().map(str::to_string).collect(),
        };
        self.fields = header_fields.union(&body_fields).cloned().collect();
        self.has_header_fields = !header_fields.is_empty();
        self.body_fields = body_fields;
        self.body_offset = headers.len() as u64 + 1;
        Ok(())
    }

    /// The names of the fields that each recipient must have.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    pub(super) fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Adds a recipient, from a line without its line end.
    ///
    /// Without a `host`, that is the domain of the address.
    pub fn add(&mut self, channel: &str, host: Option<&str>, line: &[u8]) -> Result<(), AddError> {
        let line = RecipientLine::parse(line)?;
        AddError::check_fields(&self.fields, &line)?;
        Ok(self.recipients.add(channel, host, &line)?)
    }

    /// Submits the job, and returns when it is on disk.
    ///
    /// `parameters` need not have what the draft knows. The error is [`ErrorKind::InvalidInput`] if
    /// there is no recipient.
    pub fn commit(mut self, mut parameters: BulkParameters) -> io::Result<SubmittedJob> {
        let new = RecipientSorter::new(&self.folder);
        let recipients = std::mem::replace(&mut self.recipients, new);
        let mut written = None;
        self.write(RECIPIENTS, |out| {
            written = Some(recipients.write(0, out, |_| true)?);
            Ok(())
        })?;
        let Some(written) = written.filter(|written| written.recipients > 0) else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the job has no recipients"));
        };
        let (recipients, repeated) = (written.recipients, written.repeated);
        parameters.recipients = recipients;
        self.write(INDEX, |out| written.write_index(out).map(drop))?;
        let (id, is_new) = self.finish(parameters)?;
        Ok(SubmittedJob { id, recipients, repeated, is_new })
    }

    /// Submits a job without recipients, which are appended. Also returns true if it is new.
    pub(super) fn commit_stream(
        mut self,
        mut parameters: BulkParameters,
    ) -> io::Result<(JobId, bool)> {
        parameters.stream = true;
        for file in [RECIPIENTS, INDEX] {
            self.write(file, |_| Ok(()))?;
        }
        self.write(PROGRESS, |out| StreamProgress::NONE.write_to(out))?;
        self.finish(parameters)
    }

    fn finish(&mut self, mut parameters: BulkParameters) -> io::Result<(JobId, bool)> {
        parameters.merge = self.has_header_fields;
        parameters.body_offset = self.body_offset;
        let body_fields: Vec<&str> = self.body_fields.iter().map(String::as_str).collect();
        parameters.body_fields = Some(body_fields.join(" ")).filter(|names| !names.is_empty());
        self.write(JOB, |out| parameters.write_to(out))?;
        File::open(&self.folder)?.sync_all()?;
        self.publish(&parameters.key)
    }

    /// Writes a file of the job and syncs it.
    fn write(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = self.folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        give_to_owner(&file, self.spool.transport())?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        write(&mut out)?;
        out.into_inner().map_err(|error| error.into_error())?.sync_all()
    }

    /// Gives the job its name. Also returns true if it is new.
    fn publish(&mut self, key: &str) -> io::Result<(JobId, bool)> {
        for attempt in 0..MAX_ATTEMPTS {
            if let Some(id) = find(&self.spool, key)? {
                return Ok((id, false));
            }
            let id = JobId::of_key(key, attempt);
            // A folder cannot be renamed over one with files.
            match fs::rename(&self.folder, job_folder(&self.spool, id)) {
                Ok(()) => {
                    self.is_committed = true;
                    let synced = File::open(self.spool.bulk()).and_then(|bulk| bulk.sync_all());
                    return synced.map(|()| (id, true)).map_err(|error| {
                        let text = format!(
                            "job {id} is in the spool, but its name is not synced: {error}; submit \
                             it again with the key {key:?}, which does not send it twice"
                        );
                        io::Error::new(error.kind(), text)
                    });
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }
}

impl Drop for JobDraft {
    fn drop(&mut self) {
        if !self.is_committed {
            // Otherwise the next submission removes it.
            fs::remove_dir_all(&self.folder).ok();
        }
    }
}

/// Copies a body with LF line ends. `field` gets the names in `{{NAME}}`.
fn copy_body(
    body: &mut impl Read,
    out: &mut impl Write,
    mut field: impl FnMut(&str),
) -> io::Result<()> {
    let (mut text, mut after_cr) = (Vec::new(), false);
    loop {
        let kept = text.len();
        text.resize(kept + PART_LEN, 0);
        let count = body.read(&mut text[kept..])?;
        text.truncate(kept + count);
        let is_end = count == 0;
        let mut lines = Vec::with_capacity(count + 1);
        for byte in &text[kept..] {
            if std::mem::take(&mut after_cr) && *byte != b'\n' {
                lines.push(b'\r');
            }
            match byte {
                b'\r' => after_cr = true,
                byte => lines.push(*byte),
            }
        }
        if is_end && after_cr {
            lines.push(b'\r');
        }
        out.write_all(&lines)?;
        text.truncate(kept);
        text.extend_from_slice(&lines);
        let mut rest = &text[..];
        while !rest.is_empty()
            && let Some((piece, after)) = next_piece(rest, is_end)
        {
            if let Piece::Field(name) = piece {
                field(name);
            }
            rest = after;
        }
        let done = text.len() - rest.len();
        text.drain(..done);
        if is_end {
            return Ok(());
        }
    }
}

/// Removes what submissions have left that were killed.
///
/// What cannot be removed is left to others, who may have the right to.
fn remove_abandoned(bulk: &Path) {
    let Ok(entries) = fs::read_dir(bulk) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED)?.split_once('-'));
        let pid = pid.and_then(|(pid, _)| pid.parse().ok());
        if pid.is_some_and(|pid| !sys::process_exists(pid))
            && let Err(error) = sys::if_exists(fs::remove_dir_all(entry.path()))
        {
            log::warn!("{}: {error}", entry.path().display());
        }
    }
}

/// Gives a file to the owner of `like`. Only root can; other users keep their files.
pub(super) fn give_to_owner(file: &File, like: &Path) -> io::Result<()> {
    let like = fs::metadata(like)?;
    if !sys::users::is_root() || like.uid() == sys::users::effective_user() {
        return Ok(());
    }
    fchown(file, Some(like.uid()), Some(like.gid()))
}

/// Removes a job.
pub(super) fn remove(spool: &Spool, job: JobId) -> io::Result<()> {
    // After a kill the next submission removes the rest.
    let old = spool.bulk().join(format!("{UNFINISHED}{}-old-{job}", std::process::id()));
    fs::rename(job_folder(spool, job), &old)?;
    fs::remove_dir_all(&old)
}

/// Removes finished jobs whose time is over. Returns their names.
///
/// `now` is in seconds since the epoch. A job with exported packets in the spool stays: a new job
/// with its key would have the same name, and take them for its own.
pub fn remove_old(spool: &Spool, now: i64) -> io::Result<Vec<JobId>> {
    let mut old = Vec::new();
    for job in list(spool)? {
        let Some(result) = sys::if_exists(fs::metadata(result_file(spool, job)))? else {
            continue;
        };
        let parameters = BulkParameters::read(spool, job)?;
        if result.mtime().saturating_add(i64::from(parameters.keep)) < now {
            old.push(job);
        }
    }
    if !old.is_empty() {
        let with_packets = packet::jobs_with_packets(spool)?;
        old.retain(|job| !with_packets.contains(job));
    }
    old.iter().try_for_each(|job| remove(spool, *job))?;
    Ok(old)
}
