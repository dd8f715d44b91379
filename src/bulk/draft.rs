//! The submission of a job.
//!
//! | step | after a crash |
//! |---|---|
//! | recipients are sorted in a temporary folder | the folder is removed by the next submission |
//! | all files and the folder are synced | the same |
//! | the folder gets the name of the job | the job is submitted |
//!
//! The key gives the name, and a folder is never renamed over a job: of two submissions with one
//! key, one makes the job, and the other one finds it.

use super::merge::HeaderTemplate;
use super::recipient::{RecipientLine, RecipientLineError};
use super::sorter::LineSorter;
use super::{
    BulkParameters, INDEX, JOB, JobId, MESSAGE, RECIPIENTS, UNFINISHED, job_folder, list,
    result_file,
};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use zsched_spool::Spool;
use zsched_spool::folder::{self, MAIL_FOLDER_MODE};
use zsched_sys as sys;

/// The datagram to the scheduler's notify socket about a new job.
///
/// ZMailer's scheduler ignores it, since it names no control file.
pub const NOTICE: &str = "NEW bulk";

/// Maximum number of other keys with the same name. Names are 30 bits long.
const MAX_ATTEMPTS: u8 = 16;

/// A job that is being submitted. It is removed if it is dropped before its commit.
pub struct JobDraft {
    spool: Spool,
    folder: PathBuf,
    recipients: LineSorter,
    template: HeaderTemplate,
    is_committed: bool,
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
    /// The headers name a field that the recipient lacks.
    #[error("there is no field {0}, which the headers of the message name")]
    MissingField(String),
    /// The spool cannot be written to.
    #[error(transparent)]
    Spool(#[from] io::Error),
}

/// Finds the job of a key. The error is that of a spool that cannot be read.
pub fn find(spool: &Spool, key: &str) -> io::Result<Option<JobId>> {
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
    /// Begins a submission. `headers` are those of the message.
    pub fn new(spool: &Spool, headers: &[u8]) -> io::Result<JobDraft> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let bulk = spool.bulk();
        if folder::make(&bulk, MAIL_FOLDER_MODE)? {
            give_to_owner(&bulk, spool.transport())?;
        }
        remove_abandoned(&bulk)?;
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let folder = bulk.join(format!("{UNFINISHED}{}-{count}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let recipients = LineSorter::new(folder.join("run-"));
        let template = HeaderTemplate::parse(headers);
        Ok(JobDraft { spool: spool.clone(), folder, recipients, template, is_committed: false })
    }

    /// Adds a recipient, from a line without its line end.
    ///
    /// Without a `host`, that is the domain of the address.
    pub fn add(&mut self, channel: &str, host: Option<&str>, line: &[u8]) -> Result<(), AddError> {
        let line = RecipientLine::parse(line)?;
        if let Some(name) = self.template.missing_field(&line) {
            return Err(AddError::MissingField(name.to_string()));
        }
        let (domain, text) = (line.domain(), line.to_string());
        let host = host.map_or_else(|| domain.clone(), str::to_ascii_lowercase);
        // Domains in lower case make equal addresses equal lines.
        let (local, rest) = text.split_at(line.address.len() - domain.len());
        let rest = &rest[domain.len()..];
        let record = format!("{host}\0{channel}\0{local}{domain}{rest}");
        Ok(self.recipients.push(record.as_bytes())?)
    }

    /// Submits the job, and returns when it is on disk.
    ///
    /// `parameters` need not have the number of recipients. The error is
    /// [`ErrorKind::InvalidInput`] if there is no recipient.
    pub fn commit(
        mut self,
        message: &[u8],
        mut parameters: BulkParameters,
    ) -> io::Result<SubmittedJob> {
        let sorter = LineSorter::new(self.folder.join("sorted-"));
        let recipients = std::mem::replace(&mut self.recipients, sorter);
        let written = self.write_recipients(recipients)?;
        if written.recipients == 0 {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the job has no recipients"));
        }
        parameters.recipients = written.recipients;
        parameters.merge = !self.template.is_constant();
        self.write(INDEX, |out| {
            // Written by `write_recipients` in ascending order of the reversed count.
            written.index.finish(|line| {
                let line = line.splitn(2, |byte| *byte == b' ').nth(1).unwrap_or_default();
                out.write_all(line)?;
                out.write_all(b"\n")
            })
        })?;
        self.write(MESSAGE, |out| out.write_all(message))?;
        self.write(JOB, |out| parameters.write_to(out))?;
        give_to_owner(&self.folder, self.spool.transport())?;
        File::open(&self.folder)?.sync_all()?;
        let (id, is_new) = self.publish(&parameters.key)?;
        let (recipients, repeated) = (written.recipients, written.repeated);
        Ok(SubmittedJob { id, recipients, repeated, is_new })
    }

    /// Writes a file of the job and syncs it.
    fn write(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = self.folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        write(&mut out)?;
        out.into_inner().map_err(|error| error.into_error())?.sync_all()?;
        give_to_owner(&path, self.spool.transport())
    }

    fn write_recipients(&self, recipients: LineSorter) -> io::Result<WrittenRecipients> {
        let mut written = WrittenRecipients {
            index: LineSorter::new(self.folder.join("index-")),
            recipients: 0,
            repeated: 0,
        };
        let (mut offset, mut last) = (0u64, Vec::new());
        let mut destination: Option<DestinationEntry> = None;
        self.write(RECIPIENTS, |out| {
            recipients.finish(|record| {
                let mut parts = record.splitn(3, |byte| *byte == 0);
                let [host, channel, line] = [(); 3].map(|()| parts.next().unwrap_or_default());
                let address_end = memchr::memchr(b'\t', line).unwrap_or(line.len());
                let key = &record[..record.len() - line.len() + address_end];
                if last == key {
                    written.repeated += 1;
                    return Ok(());
                }
                last = key.to_vec();
                let is_same =
                    |entry: &&mut DestinationEntry| entry.host == host && entry.channel == channel;
                match destination.as_mut().filter(is_same) {
                    Some(entry) => entry.count += 1,
                    None => {
                        let (host, channel) = (host.to_vec(), channel.to_vec());
                        let entry = DestinationEntry { host, channel, offset, count: 1 };
                        if let Some(former) = destination.replace(entry) {
                            former.push_to(&mut written.index)?;
                        }
                    }
                }
                out.write_all(b" ")?;
                out.write_all(line)?;
                out.write_all(b"\n")?;
                offset += line.len() as u64 + 2;
                written.recipients += 1;
                match u32::try_from(offset) {
                    Ok(_) => Ok(()),
                    Err(_) => Err(io::Error::new(
                        ErrorKind::InvalidInput,
                        "the recipients of a job take more than 4 GiB",
                    )),
                }
            })
        })?;
        if let Some(last) = destination {
            last.push_to(&mut written.index)?;
        }
        Ok(written)
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
                    File::open(self.spool.bulk())?.sync_all()?;
                    return Ok((id, true));
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

/// What was written to `recipients`.
struct WrittenRecipients {
    /// Lines of the index, with those of most recipients first.
    index: LineSorter,
    recipients: u32,
    repeated: u64,
}

/// A line of the index.
struct DestinationEntry {
    host: Vec<u8>,
    channel: Vec<u8>,
    offset: u64,
    count: u32,
}

impl DestinationEntry {
    fn push_to(&self, index: &mut LineSorter) -> io::Result<()> {
        let DestinationEntry { host, channel, offset, count } = self;
        let host: &[u8] = if host.is_empty() { b"-" } else { host };
        let numbers = format!("{:010} {offset} {count} ", u32::MAX - count);
        index.push(&[numbers.as_bytes(), channel, b" ", host].concat())
    }
}

/// Removes what submissions have left that were killed.
fn remove_abandoned(bulk: &Path) -> io::Result<()> {
    for entry in fs::read_dir(bulk)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED)?.split_once('-'));
        let pid = pid.and_then(|(pid, _)| pid.parse().ok());
        if pid.is_some_and(|pid| !sys::process_exists(pid)) {
            sys::if_exists(fs::remove_dir_all(entry.path()))?;
        }
    }
    Ok(())
}

/// Gives a file to the owner of `like`. Only root can; other users keep their files.
fn give_to_owner(path: &Path, like: &Path) -> io::Result<()> {
    let like = fs::metadata(like)?;
    if !sys::users::is_root() || like.uid() == sys::users::effective_user() {
        return Ok(());
    }
    chown(path, Some(like.uid()), Some(like.gid()))
}

/// Removes finished jobs whose time is over. Returns their number.
///
/// `now` is in seconds since the epoch.
pub fn remove_old(spool: &Spool, now: i64) -> io::Result<u32> {
    let mut count = 0;
    for job in list(spool)? {
        let Some(result) = sys::if_exists(fs::metadata(result_file(spool, job)))? else {
            continue;
        };
        let parameters = BulkParameters::read(spool, job)?;
        if result.mtime().saturating_add(i64::from(parameters.keep)) < now {
            // After a kill the next submission removes the rest.
            let old = spool.bulk().join(format!("{UNFINISHED}{}-old-{job}", std::process::id()));
            fs::rename(job_folder(spool, job), &old)?;
            fs::remove_dir_all(&old)?;
            count += 1;
        }
    }
    Ok(count)
}
