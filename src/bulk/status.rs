//! The status bytes of recipients, written before their packet leaves the spool.
//!
//! | step | after a kill |
//! |---|---|
//! | the texts of failures are appended to `failures` | they are appended again |
//! | the status bytes are written, and both files synced | they are written again |
//! | the packet is removed | all of it is repeated, unless the packet is gone |

use super::counts::RecipientCounts;
use super::job_folder;
use super::packet::{job_of, tags};
use super::recipient::Status;
use super::store::Store;
use super::{BulkOrders, FAILURES, JobId, PacketNumber, RECIPIENTS};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::{self, ControlFile, Tag};
use zsched_format::printable;
use zsched_spool::note::OutcomeKind;
use zsched_spool::{Spool, SpoolName};
use zsched_sys as sys;

/// Maximum number of bytes of `recipients` that are read at once for a packet.
const MAX_REGION: usize = 1 << 20;

/// A packet whose status bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEnd {
    /// The packet.
    pub number: PacketNumber,
    /// Its recipients, by what has become of them.
    pub counts: RecipientCounts,
}

/// What a tag that is not final means when its packet leaves the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenTags {
    /// An agent has reported the outcome, and not changed the tag.
    Reported,
    /// The recipient goes to `postman/`. The packet may be malformed.
    Aside,
    /// The recipient stays queued, elsewhere.
    Queued,
}

impl OpenTags {
    /// What they mean when the scheduler removes a message, or moves it `aside`.
    pub fn of_removal(aside: bool) -> OpenTags {
        if aside { OpenTags::Aside } else { OpenTags::Reported }
    }
}

/// Writes the status bytes of packets, with one sync for several packets of a job.
pub struct StatusWriter<'s> {
    spool: &'s Spool,
    jobs: BTreeMap<JobId, JobFiles>,
}

/// The files of a job that outcomes are written to.
struct JobFiles {
    recipients: File,
    /// Opened with the first failure.
    failures: Option<File>,
    /// `failures` is a new file, whose name is not synced yet.
    has_new_file: bool,
}

impl JobFiles {
    /// `None` if the job is over.
    fn open(spool: &Spool, job: JobId) -> io::Result<Option<JobFiles>> {
        let path = job_folder(spool, job).join(RECIPIENTS);
        let open = sys::if_exists(OpenOptions::new().read(true).write(true).open(path))?;
        let new = |recipients| JobFiles { recipients, failures: None, has_new_file: false };
        Ok(open.map(new))
    }

    fn append_failures(&mut self, spool: &Spool, job: JobId, texts: &[u8]) -> io::Result<()> {
        if self.failures.is_none() {
            let mut append = OpenOptions::new();
            let path = job_folder(spool, job).join(FAILURES);
            let mut file = append.read(true).append(true).create(true).mode(0o600).open(path)?;
            let length = file.metadata()?.len();
            self.has_new_file = length == 0;
            let mut last = [b'\n'];
            FileExt::read_at(&file, &mut last, length.saturating_sub(1))?;
            if last != [b'\n'] {
                // A kill has cut the last line short. It is written again.
                file.write_all(b"\n")?;
            }
            self.failures = Some(file);
        }
        self.failures.as_ref().map_or(Ok(()), |mut file| file.write_all(texts))
    }

    fn sync(&self, spool: &Spool, job: JobId) -> io::Result<()> {
        if let Some(failures) = &self.failures {
            failures.sync_data()?;
        }
        if self.has_new_file {
            File::open(job_folder(spool, job))?.sync_all()?;
        }
        self.recipients.sync_data()
    }
}

impl<'s> StatusWriter<'s> {
    /// Creates a writer for the packets of a spool.
    pub fn new(spool: &'s Spool) -> StatusWriter<'s> {
        StatusWriter { spool, jobs: BTreeMap::new() }
    }

    /// Writes the status bytes of a packet that is about to leave the spool.
    ///
    /// `None` if it is no packet, or if it or its job are gone.
    pub fn write(&mut self, name: &SpoolName, rest: OpenTags) -> io::Result<Option<PacketEnd>> {
        let Some(number) = PacketNumber::of_message(name.number()) else {
            return Ok(None);
        };
        let path = self.spool.control_file(name);
        let open = sys::if_exists(sys::open_nofollow(File::options().read(true), &path))?;
        let Some(file) = open else {
            return Ok(None);
        };
        let text = control_file::read_all(&file, file.metadata()?.len())?;
        let Some((job, _)) = job_of(&text) else {
            return Ok(None);
        };
        if !self.jobs.contains_key(&job) {
            let Some(files) = JobFiles::open(self.spool, job)? else {
                return Ok(None);
            };
            self.jobs.insert(job, files);
        }
        let Some(files) = self.jobs.get_mut(&job) else { return Ok(None) };
        let mut failures = Vec::new();
        let counts = write_outcomes(&files.recipients, text, rest, &mut failures)?;
        if !failures.is_empty() {
            files.append_failures(self.spool, job, &failures)?;
        }
        Ok(Some(PacketEnd { number, counts }))
    }

    /// Syncs what was written. Only then may the packets be removed.
    pub fn sync(self) -> io::Result<()> {
        self.jobs.iter().try_for_each(|(job, files)| files.sync(self.spool, *job))
    }
}

/// Writes the outcomes of a packet that is moved to `postman/`, perhaps because it is malformed.
pub fn write_before_move_aside(spool: &Spool, name: &SpoolName) -> io::Result<()> {
    let mut writer = StatusWriter::new(spool);
    writer.write(name, OpenTags::Aside)?;
    writer.sync()
}

/// Writes the outcomes of a packet's recipients that its control file has.
///
/// `failures` gets the lines for the file of failures.
pub fn write_outcomes<S: Store>(
    recipients: &S,
    text: Vec<u8>,
    rest: OpenTags,
    failures: &mut Vec<u8>,
) -> io::Result<RecipientCounts> {
    let Some((_, offsets)) = job_of(&text) else {
        return Ok(RecipientCounts::default());
    };
    let mut found: Vec<Option<Tag>> = tags(&text).take(offsets.len()).map(Some).collect();
    // A recipient without a line is in the packet all the same.
    found.resize(offsets.len(), None);
    let control = match control_file::parse(text) {
        Ok(control) => Some(control),
        Err(error) if rest != OpenTags::Aside => return Err(io::Error::from(error)),
        Err(_) => None,
    };
    let all_delivered = found.iter().all(|tag| *tag == Some(Tag::Done));
    let last_lines = control.as_ref().filter(|_| !all_delivered).map(last_lines);
    let last_line = |place: usize| {
        let recipient = control.as_ref()?.recipients.get(place)?;
        last_lines.as_ref()?.get(&recipient.offset)
    };
    let mut counts = RecipientCounts::default();
    let mut bytes = StatusBytes::read(recipients, &offsets)?;
    for (place, (offset, tag)) in offsets.iter().zip(found).enumerate() {
        let status = match (bytes.get(*offset)?, tag) {
            // Its tag would say that it is delivered.
            (Some(ended), _) if ended.is_ended_by_operator() => ended,
            (_, Some(Tag::Done)) => Status::Delivered,
            (_, Some(Tag::Failed)) => Status::Failed,
            (_, tag) => match rest {
                OpenTags::Aside => Status::Aside,
                OpenTags::Reported if tag.is_some() => {
                    let is_failure = last_line(place).is_some_and(|line| line.is_failure);
                    if is_failure { Status::Failed } else { Status::Delivered }
                }
                OpenTags::Reported | OpenTags::Queued => Status::Cut,
            },
        };
        counts.add(status);
        if status == Status::Failed {
            writeln!(failures, "{offset} {}", last_line(place).map_or("", |line| &line.text))?;
        }
        bytes.set(*offset, status)?;
    }
    bytes.write()?;
    Ok(counts)
}

/// The status bytes of a packet's recipients.
///
/// Where no other line is between them, they are written at once.
struct StatusBytes<'s, S> {
    store: &'s S,
    first: u32,
    /// The text from the first status byte to the last.
    ///
    /// `None` if it has lines of others.
    region: Option<Vec<u8>>,
}

impl<'s, S: Store> StatusBytes<'s, S> {
    fn read(store: &'s S, offsets: &[u32]) -> io::Result<StatusBytes<'s, S>> {
        let first = offsets.first().copied().unwrap_or_default();
        let span = offsets.last().and_then(|last| last.checked_sub(first)).unwrap_or(u32::MAX);
        let length = (span as usize).saturating_add(1);
        let mut region = None;
        if length <= MAX_REGION && offsets.is_sorted() {
            let mut text = vec![0; length];
            read_exact(store, &mut text, first)?;
            let lines = memchr::memchr_iter(b'\n', &text).count() + 1;
            region = (lines == offsets.len()).then_some(text);
        }
        Ok(StatusBytes { store, first, region })
    }

    fn get(&self, offset: u32) -> io::Result<Option<Status>> {
        let byte = match &self.region {
            Some(text) => text[(offset - self.first) as usize],
            None => {
                let mut byte = [0];
                read_exact(self.store, &mut byte, offset)?;
                byte[0]
            }
        };
        Ok(Status::of_byte(byte))
    }

    fn set(&mut self, offset: u32, status: Status) -> io::Result<()> {
        match &mut self.region {
            Some(text) => text[(offset - self.first) as usize] = status.byte(),
            None => self.store.write_at(&[status.byte()], offset.into())?,
        }
        Ok(())
    }

    fn write(self) -> io::Result<()> {
        self.region.map_or(Ok(()), |text| self.store.write_at(&text, self.first.into()))
    }
}

fn read_exact<S: Store>(store: &S, mut buffer: &mut [u8], position: u32) -> io::Result<()> {
    let mut position = u64::from(position);
    while !buffer.is_empty() {
        let count = store.read_at(buffer, position)?;
        if count == 0 {
            let text = format!("{RECIPIENTS} ends before byte {position}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        position += count as u64;
        buffer = &mut buffer[count..];
    }
    Ok(())
}

/// Writes the status of recipients of a packet that an operator deletes or reroutes.
///
/// Their tags would say that they are delivered. `offsets` are those of lines in the control file.
/// For other outcomes, and for a message that is no packet, nothing is done.
pub fn note(
    spool: &Spool,
    name: &SpoolName,
    offsets: &[u32],
    occasion: OutcomeKind,
) -> io::Result<()> {
    if PacketNumber::of_message(name.number()).is_none()
        || !matches!(occasion, OutcomeKind::Deletion | OutcomeKind::Reroute)
    {
        return Ok(());
    }
    let file = sys::open_nofollow(File::options().read(true), &spool.control_file(name))?;
    let text = control_file::read_all(&file, file.metadata()?.len())?;
    let Some((job, _)) = job_of(&text) else {
        return Ok(());
    };
    let Some(files) = JobFiles::open(spool, job)? else {
        return Ok(());
    };
    let is_cancelled = BulkOrders::read(spool, job)?.is_cancelled;
    write_ends(&files.recipients, text, offsets, occasion, is_cancelled)?;
    files.recipients.sync_data()
}

/// Writes the status of recipients that an operator deletes, reroutes, or cancels with their job.
pub fn write_ends<S: Store>(
    recipients: &S,
    text: Vec<u8>,
    offsets: &[u32],
    occasion: OutcomeKind,
    is_cancelled: bool,
) -> io::Result<()> {
    let status = match occasion {
        OutcomeKind::Deletion if is_cancelled => Status::Cancelled,
        OutcomeKind::Deletion => Status::Deleted,
        OutcomeKind::Reroute => Status::Rerouted,
        _ => return Ok(()),
    };
    let Some((_, of_recipients)) = job_of(&text) else { return Ok(()) };
    let control = control_file::parse(text).map_err(io::Error::from)?;
    for (recipient, offset) in control.recipients.iter().zip(of_recipients) {
        let is_open = matches!(recipient.tag, Tag::Pending | Tag::Locked);
        if is_open && offsets.contains(&recipient.offset) {
            recipients.write_at(&[status.byte()], offset.into())?;
        }
    }
    Ok(())
}

/// The last `d` line about a recipient.
struct LastLine {
    is_failure: bool,
    text: String,
}

/// The last `d` lines about recipients, by the offsets of the recipients' lines.
fn last_lines(control: &ControlFile) -> HashMap<u32, LastLine> {
    let lines = control.diagnostics.iter();
    let records = lines.filter_map(|line| DiagnosticRecord::parse(control.get(line.value)));
    let line = |record: &DiagnosticRecord<'_>| LastLine {
        is_failure: record.action() == b"failed",
        text: printable::line(record.message).to_string(),
    };
    records.map(|record| (record.recipient, line(&record))).collect()
}
