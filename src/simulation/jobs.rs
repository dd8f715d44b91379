//! The files of bulk jobs in memory.
//!
//! The code that makes packets and writes results is real; only the files are not.

use super::outbox::WriteSteps;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use zsched_bulk::cut::{OpenJob, PlannedPacket};
use zsched_bulk::packet::{MAX_MESSAGE_AGE, PacketFolder};
use zsched_bulk::result::Ended;
use zsched_bulk::store::Store;
use zsched_bulk::stream::StreamProgress;
use zsched_bulk::{BulkOrders, BulkParameters, JobId};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolName;
use zsched_spool::memory_file::MemoryFile;

/// The files of a bulk job.
pub struct JobFiles {
    parameters: BulkParameters,
    headers: Vec<u8>,
    /// What operators have changed.
    pub(crate) orders: BulkOrders,
    recipients: Rc<MemoryFile>,
    index: Rc<MemoryFile>,
    /// Time of its message.
    received: Timestamp,
    /// What has become of it.
    pub(crate) ended: Option<Ended>,
}

/// Recipients of one destination of a job.
pub struct JobRecipients {
    /// Delivery channel.
    pub channel: String,
    /// Next host.
    pub host: String,
    /// Their addresses.
    pub addresses: Vec<String>,
}

impl JobFiles {
    /// Creates a job as `submit --bulk` does.
    pub fn new(
        mut parameters: BulkParameters,
        headers: Vec<u8>,
        destinations: &[JobRecipients],
    ) -> JobFiles {
        let (mut lines, mut entries) = (String::new(), Vec::new());
        for JobRecipients { channel, host, addresses } in destinations {
            entries.push((addresses.len(), format!("{} {}", lines.len(), addresses.len())));
            let entry = entries.last_mut().map(|(_, entry)| entry);
            entry.into_iter().for_each(|entry| *entry += &format!(" {channel} {host}\n"));
            addresses.iter().for_each(|address| {
                writeln!(lines, " {address}").expect("memory takes everything");
            });
        }
        entries.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let index: String = entries.into_iter().map(|(_, entry)| entry).collect();
        parameters.body_offset = headers.len() as u64;
        let file = |text: String| Rc::new(MemoryFile::new(0, text.into_bytes()));
        JobFiles {
            received: Timestamp::from_seconds(parameters.submitted),
            parameters,
            headers,
            orders: BulkOrders::default(),
            recipients: file(lines),
            index: file(index),
            ended: None,
        }
    }

    /// Its parameters.
    pub fn parameters(&self) -> &BulkParameters {
        &self.parameters
    }

    /// Its recipients, with a status byte for each.
    pub fn recipients(&self) -> Vec<u8> {
        self.recipients.text().clone()
    }

    /// Its destinations, a line each.
    pub fn index(&self) -> String {
        String::from_utf8_lossy(&self.index.text()).into_owned()
    }

    /// Time of its message.
    pub(crate) fn received(&self) -> Timestamp {
        self.received
    }

    pub(crate) fn store(&self, steps: &SharedSteps) -> JobStore {
        JobStore { file: self.recipients.clone(), steps: steps.clone() }
    }

    pub(crate) fn open(&self, id: JobId, steps: &SharedSteps) -> io::Result<OpenJob<JobStore>> {
        let index = JobStore { file: self.index.clone(), steps: steps.clone() };
        let (parameters, headers) = (self.parameters.clone(), self.headers.clone());
        let files = [self.store(steps), index];
        OpenJob::new(id, parameters, self.orders, headers, files, StreamProgress::WHOLE)
    }

    /// Time of the message of a new packet. An old message is replaced by a copy.
    pub(crate) fn renew_message(&mut self, wall: Timestamp) -> Timestamp {
        if wall.seconds() - self.received.seconds() > MAX_MESSAGE_AGE {
            self.received = wall;
        }
        self.received
    }
}

/// The bulk jobs of a spool.
#[derive(Default)]
pub(crate) struct Jobs {
    pub all: BTreeMap<JobId, JobFiles>,
    /// Complete packets without a name.
    pub hidden: HiddenPackets,
}

impl Jobs {
    /// The jobs that have no result.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = JobId> {
        self.all.iter().filter(|(_, job)| job.ended.is_none()).map(|(id, _)| *id)
    }

    /// A job without a result.
    pub(crate) fn find(&mut self, id: JobId) -> io::Result<&mut JobFiles> {
        let found = self.all.get_mut(&id).filter(|job| job.ended.is_none());
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }
}

/// The steps of the present write to the files of jobs.
#[derive(Clone)]
pub(crate) struct SharedSteps(Rc<RefCell<WriteSteps>>);

impl SharedSteps {
    pub(crate) fn new(steps: WriteSteps) -> SharedSteps {
        SharedSteps(Rc::new(RefCell::new(steps)))
    }

    /// Begins another write.
    pub(crate) fn begin(&self, steps: WriteSteps) {
        *self.0.borrow_mut() = steps;
    }

    pub(crate) fn step(&self) -> io::Result<()> {
        self.0.borrow().try_step()
    }

    fn is_killed(&self) -> bool {
        self.0.borrow().is_killed()
    }
}

/// A file of a job that is read and changed by position.
pub(crate) struct JobStore {
    file: Rc<MemoryFile>,
    steps: SharedSteps,
}

impl Store for JobStore {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.steps.step()?;
        self.file.write_all_at(bytes, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.steps.step()
    }
}

/// Names and control files of complete packets without a name, by number.
type HiddenPackets = Rc<RefCell<BTreeMap<u64, (SpoolName, Vec<u8>)>>>;

/// Where packets become messages.
pub(crate) struct PacketsInMemory {
    hidden: HiddenPackets,
    /// Packets that have their names.
    pub published: RefCell<Vec<(SpoolName, Vec<u8>)>>,
    steps: SharedSteps,
}

impl PacketsInMemory {
    pub(crate) fn new(jobs: &Jobs, steps: &SharedSteps) -> PacketsInMemory {
        let (hidden, steps) = (jobs.hidden.clone(), steps.clone());
        PacketsInMemory { hidden, published: RefCell::default(), steps }
    }
}

/// A packet that is complete but for its name.
pub(crate) struct HiddenPacket {
    number: u64,
    hidden: HiddenPackets,
    steps: SharedSteps,
}

impl Drop for HiddenPacket {
    fn drop(&mut self) {
        // A killed scheduler removes nothing.
        if !self.steps.is_killed() {
            self.hidden.borrow_mut().remove(&self.number);
        }
    }
}

impl PacketFolder for PacketsInMemory {
    type Staged = HiddenPacket;

    fn stage(&self, _job: JobId, packets: &[PlannedPacket]) -> Vec<io::Result<HiddenPacket>> {
        let stage = |packet: &PlannedPacket| {
            self.steps.step()?;
            let (number, steps) = (packet.name.number(), self.steps.clone());
            let file = (packet.name.clone(), packet.text.clone());
            self.hidden.borrow_mut().insert(number, file);
            Ok(HiddenPacket { number, hidden: self.hidden.clone(), steps })
        };
        packets.iter().map(stage).collect()
    }

    fn publish(&self, packet: HiddenPacket) -> io::Result<()> {
        self.steps.step()?;
        self.published.borrow_mut().extend(self.hidden.borrow_mut().remove(&packet.number));
        Ok(())
    }
}
