//! The status bytes of recipients, written before their packet leaves the spool.
//!
//! | step | after a kill |
//! |---|---|
//! | the texts of failures are appended to `failures` | they are appended again |
//! | the status bytes are written, and both files synced | they are written again |
//! | the packet is removed | all of it is repeated, unless the packet is gone |

use super::cut::RecipientCounts;
use super::packet::job_of;
use super::recipient::Status;
use super::{FAILURES, JobId, PacketNumber, RECIPIENTS, job_folder};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::{self, ControlFile, Tag};
use zsched_format::printable;
use zsched_spool::note::OutcomeKind;
use zsched_spool::{Spool, SpoolName};
use zsched_sys as sys;

/// A packet whose status bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEnd {
    /// The packet.
    pub number: PacketNumber,
    /// Its recipients, by what has become of them.
    pub counts: RecipientCounts,
}

/// Writes the status bytes of packets, with one sync for several packets of a job.
pub struct StatusWriter<'s> {
    spool: &'s Spool,
    jobs: BTreeMap<JobId, JobFiles>,
}

struct JobFiles {
    recipients: File,
    failures: File,
}

impl JobFiles {
    fn open(spool: &Spool, job: JobId) -> io::Result<JobFiles> {
        let folder = job_folder(spool, job);
        let recipients = OpenOptions::new().read(true).write(true).open(folder.join(RECIPIENTS))?;
        let mut append = OpenOptions::new();
        let failures = append.append(true).create(true).mode(0o600).open(folder.join(FAILURES))?;
        Ok(JobFiles { recipients, failures })
    }
}

impl<'s> StatusWriter<'s> {
    /// Creates a writer for the packets of a spool.
    pub fn new(spool: &'s Spool) -> StatusWriter<'s> {
        StatusWriter { spool, jobs: BTreeMap::new() }
    }

    /// Writes the status bytes of a packet that is about to leave the spool.
    ///
    /// `None` if it is no packet, or if it or its job are gone. With `aside`, it goes to
    /// `postman/`, with the recipients that are not final.
    pub fn write(&mut self, name: &SpoolName, aside: bool) -> io::Result<Option<PacketEnd>> {
        let Some(number) = PacketNumber::of_message(name.number()) else {
            return Ok(None);
        };
        let path = self.spool.control_file(name);
        let open = sys::if_exists(sys::open_nofollow(File::options().read(true), &path))?;
        let Some(file) = open else {
            return Ok(None);
        };
        let text = control_file::read_all(&file, file.metadata()?.len())?;
        let Some((job, offsets)) = job_of(&text) else {
            return Ok(None);
        };
        if !self.jobs.contains_key(&job) {
            let Some(files) = sys::if_exists(JobFiles::open(self.spool, job))? else {
                return Ok(None);
            };
            self.jobs.insert(job, files);
        }
        let files = &self.jobs[&job];
        let mut counts = RecipientCounts::default();
        let control = control_file::parse(text).map_err(io::Error::from)?;
        if control.recipients.len() < offsets.len() {
            let text = format!("{name}: the J line names more recipients than there are");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        let mut texts = Vec::new();
        for (recipient, offset) in control.recipients.iter().zip(offsets) {
            let mut present = [Status::Pending.byte()];
            files.recipients.read_exact_at(&mut present, offset.into())?;
            let status = match (Status::of_byte(present[0]), recipient.tag) {
                (Some(Status::Deleted | Status::Rerouted), _) => {
                    counts.add(Status::of_byte(present[0]).unwrap_or(Status::Deleted));
                    continue;
                }
                (_, Tag::Done) => Status::Delivered,
                (_, Tag::Failed) => Status::Failed,
                _ if aside => Status::Aside,
                _ => Status::Pending,
            };
            counts.add(status);
            if status == Status::Pending {
                continue;
            }
            if status == Status::Failed {
                let text = failure(&control, recipient.offset);
                writeln!(texts, "{offset} {text}")?;
            }
            files.recipients.write_all_at(&[status.byte()], offset.into())?;
        }
        if !texts.is_empty() {
            (&files.failures).write_all(&texts)?;
        }
        Ok(Some(PacketEnd { number, counts }))
    }

    /// Syncs what was written. Only then may the packets be removed.
    pub fn sync(self) -> io::Result<()> {
        for files in self.jobs.values() {
            files.failures.sync_data()?;
            files.recipients.sync_data()?;
        }
        Ok(())
    }
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
    let status = match occasion {
        OutcomeKind::Deletion => Status::Deleted,
        OutcomeKind::Reroute => Status::Rerouted,
        _ => return Ok(()),
    };
    if PacketNumber::of_message(name.number()).is_none() {
        return Ok(());
    }
    let file = sys::open_nofollow(File::options().read(true), &spool.control_file(name))?;
    let text = control_file::read_all(&file, file.metadata()?.len())?;
    let Some((job, of_recipients)) = job_of(&text) else {
        return Ok(());
    };
    let control = control_file::parse(text).map_err(io::Error::from)?;
    let Some(files) = sys::if_exists(JobFiles::open(spool, job))? else {
        return Ok(());
    };
    for (recipient, offset) in control.recipients.iter().zip(of_recipients) {
        let is_open = matches!(recipient.tag, Tag::Pending | Tag::Locked);
        if is_open && offsets.contains(&recipient.offset) {
            files.recipients.write_all_at(&[status.byte()], offset.into())?;
        }
    }
    files.recipients.sync_data()
}

/// The text of the last `d` line about a recipient, on one line.
fn failure(control: &ControlFile, offset: u32) -> String {
    let lines = control.diagnostics.iter().rev();
    let mut records = lines.filter_map(|line| DiagnosticRecord::parse(control.get(line.value)));
    let record = records.find(|record| record.recipient == offset);
    record.map(|record| printable::line(record.message).to_string()).unwrap_or_default()
}
