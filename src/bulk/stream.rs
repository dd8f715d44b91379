//! A job whose recipients are delivered to while others are still submitted.
//!
//! The job is committed without recipients. Then they are appended in segments, each grouped by
//! destination:
//!
//! | step | after a crash |
//! |---|---|
//! | recipients and destinations are appended and synced | the next submission with the key cuts them off |
//! | `progress` is replaced: how far both files count, and the lines of input | the segment is submitted |
//!
//! A submission that is repeated with the same key skips the lines of input that `progress` counts.

use super::draft::{AddError, JobDraft, give_to_owner};
use super::job_folder;
use super::layout::RecipientSorter;
use super::parameters::{Lines, put};
use super::recipient::RecipientLine;
use super::{BulkParameters, INDEX, JobId, PROGRESS, RECIPIENTS};
use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use zsched_spool::Spool;
use zsched_spool::atomic_write::write_atomically;
use zsched_sys as sys;

/// Number of recipients after which a segment is synced.
pub const SEGMENT_SIZE: u32 = 20_000;

/// How much of a job is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamProgress {
    /// Length of the recipients that count, in bytes.
    pub recipient_bytes: u64,
    /// Length of the index that counts, in bytes.
    pub index_bytes: u64,
    /// Number of lines of input in it.
    pub input_lines: u64,
    /// No more recipients come.
    pub is_complete: bool,
}

impl StreamProgress {
    /// The progress of a job that is submitted as a whole.
    pub const WHOLE: StreamProgress = StreamProgress {
        recipient_bytes: u64::MAX,
        index_bytes: u64::MAX,
        input_lines: 0,
        is_complete: true,
    };

    /// Reads the progress of a job.
    pub fn read(
        spool: &Spool,
        job: JobId,
        parameters: &BulkParameters,
    ) -> io::Result<StreamProgress> {
        if !parameters.stream {
            return Ok(StreamProgress::WHOLE);
        }
        let lines = Lines::read(spool, job, PROGRESS)?;
        Ok(StreamProgress {
            recipient_bytes: lines.required("recipient-bytes")?,
            index_bytes: lines.required("index-bytes")?,
            input_lines: lines.required("input-lines")?,
            is_complete: lines.is_set("complete"),
        })
    }

    pub(super) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        put(out, "recipient-bytes", Some(self.recipient_bytes))?;
        put(out, "index-bytes", Some(self.index_bytes))?;
        put(out, "input-lines", Some(self.input_lines))?;
        put(out, "complete", self.is_complete.then_some("yes"))
    }

    /// The progress of a job that has no recipients yet.
    pub(super) const NONE: StreamProgress =
        StreamProgress { recipient_bytes: 0, index_bytes: 0, input_lines: 0, is_complete: false };
}

/// A job to which recipients are appended.
pub struct JobStream {
    spool: Spool,
    id: JobId,
    recipients: File,
    index: File,
    /// Locked, so that no other submission appends meanwhile.
    _lock: File,
    progress: StreamProgress,
    /// Digests of the recipients, to find repeated ones.
    known: HashSet<u128>,
    segment: RecipientSorter,
    /// Number of recipients and of lines in the segment.
    pending: (u32, u64),
    /// Names of the fields that a recipient must have.
    fields: Vec<String>,
    /// Number of recipients that were given more than once.
    pub repeated: u64,
}

/// A stream after its begin.
pub enum BegunStream {
    /// Recipients can be appended, after the lines of input that the job has.
    Open(Box<JobStream>),
    /// All recipients of this job were submitted before.
    Complete(JobId),
}

impl JobStream {
    /// Commits a job without recipients, or continues that with the same key.
    pub fn begin(draft: JobDraft, parameters: BulkParameters) -> io::Result<BegunStream> {
        let (spool, fields) = (draft.spool().clone(), draft.fields().to_vec());
        let (id, _) = draft.commit_stream(parameters)?;
        let parameters = BulkParameters::read(&spool, id)?;
        let folder = job_folder(&spool, id);
        let (path, mut options) = (folder.join(RECIPIENTS), OpenOptions::new());
        options.read(true).write(true);
        let Some(recipients) = sys::if_exists(options.open(path))?.filter(|_| parameters.stream)
        else {
            return Ok(BegunStream::Complete(id));
        };
        let mut index = options.open(folder.join(INDEX))?;
        let lock = index.try_clone()?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = format!("another program submits the recipients of job {id}");
                return Err(io::Error::new(ErrorKind::WouldBlock, text));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let progress = StreamProgress::read(&spool, id, &parameters)?;
        if progress.is_complete {
            return Ok(BegunStream::Complete(id));
        }
        recipients.set_len(progress.recipient_bytes)?;
        index.set_len(progress.index_bytes)?;
        let known = known_recipients(&recipients, &mut index)?;
        let (segment, pending) = (RecipientSorter::new(&folder), (0, 0));
        let mut stream = JobStream {
            spool,
            id,
            recipients,
            index,
            _lock: lock,
            progress,
            known,
            segment,
            pending,
            fields,
            repeated: 0,
        };
        stream.recipients.seek(SeekFrom::End(0))?;
        stream.index.seek(SeekFrom::End(0))?;
        Ok(BegunStream::Open(Box::new(stream)))
    }

    /// Its name.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Number of lines of input that are synced.
    pub fn synced_lines(&self) -> u64 {
        self.progress.input_lines
    }

    /// Number of recipients that are not synced.
    pub fn unsynced(&self) -> u32 {
        self.pending.0
    }

    /// Counts a line of input without a recipient.
    pub fn add_blank(&mut self) {
        self.pending.1 += 1;
    }

    /// Adds a recipient, from a line without its line end.
    pub fn add(&mut self, channel: &str, host: Option<&str>, line: &[u8]) -> Result<(), AddError> {
        let line = RecipientLine::parse(line)?;
        AddError::check_fields(&self.fields, &line)?;
        self.segment.add(channel, host, &line)?;
        self.pending.0 += 1;
        self.pending.1 += 1;
        Ok(())
    }

    /// Submits what was added, and returns when it is on disk.
    pub fn sync(&mut self, is_complete: bool) -> io::Result<()> {
        let new = RecipientSorter::new(&job_folder(&self.spool, self.id));
        let segment = std::mem::replace(&mut self.segment, new);
        let (known, start) = (&mut self.known, self.progress.recipient_bytes);
        let mut out = BufWriter::new(&self.recipients);
        let written = segment.write(start, &mut out, |key| known.insert(digest(key)))?;
        out.flush()?;
        drop(out);
        self.recipients.sync_data()?;
        self.repeated += written.repeated;
        let recipient_bytes = start + written.length;
        let mut out = BufWriter::new(&self.index);
        let index_bytes = self.progress.index_bytes + written.write_index(&mut out)?;
        out.flush()?;
        drop(out);
        self.index.sync_data()?;
        let input_lines = self.progress.input_lines + self.pending.1;
        let progress = StreamProgress { recipient_bytes, index_bytes, input_lines, is_complete };
        if !self.is_open()? {
            let text = format!("job {} was ended before all recipients were submitted", self.id);
            return Err(io::Error::new(ErrorKind::NotFound, text));
        }
        let path = job_folder(&self.spool, self.id).join(PROGRESS);
        write_atomically(&path, |out| {
            progress.write_to(out)?;
            give_to_owner(out.get_ref(), self.spool.transport())
        })?;
        (self.progress, self.pending) = (progress, (0, 0));
        Ok(())
    }

    /// Returns false if the job was cancelled or removed meanwhile.
    fn is_open(&self) -> io::Result<bool> {
        let path = job_folder(&self.spool, self.id).join(RECIPIENTS);
        Ok(sys::if_exists(sys::is_name_of(&path, &self.recipients))?.unwrap_or(false))
    }
}

/// A digest by which recipients are compared: 16 bytes of memory for each.
fn digest(key: &[u8]) -> u128 {
    let hash = hmac_sha256::Hash::hash(key);
    hash.iter().take(16).fold(0, |digest, byte| digest << 8 | u128::from(*byte))
}

/// The recipients that a job has.
fn known_recipients(recipients: &File, index: &mut File) -> io::Result<HashSet<u128>> {
    let mut known = HashSet::new();
    index.seek(SeekFrom::Start(0))?;
    for line in BufReader::new(index).lines() {
        let line = line?;
        let mut words = line.splitn(4, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
        let numbers = number().zip(number());
        let (Some((offset, lines)), Some(channel), Some(host)) =
            (numbers, words.next(), words.next())
        else {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("malformed line {line:?}")));
        };
        let host = if host == "-" { "" } else { host };
        super::cut::for_each_line(recipients, offset, lines, |_, line| {
            let address = line[1..].split(|byte| *byte == b'\t').next().unwrap_or_default();
            let key = [host.as_bytes(), b"\0", channel.as_bytes(), b"\0", address].concat();
            known.insert(digest(&key));
            Ok(true)
        })?;
    }
    Ok(known)
}
