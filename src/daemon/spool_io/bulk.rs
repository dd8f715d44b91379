//! Worker for bulk jobs: finds them, cuts their packets and writes their results.
//!
//! It has a worker of its own, since a job of a million recipients takes a moment to be read.

use super::{Completion, CompletionSender};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use zsched_bulk::cut::{MadePacket, OpenJob};
use zsched_bulk::packet::{self, ExistingPacket};
use zsched_bulk::{JobId, draft, result};
use zsched_core::bulk::{BulkAction, BulkEvent, OpenedJob};
use zsched_format::printable;
use zsched_format::time::Timestamp;
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, Spool, SpoolName, unfinished};

/// Time between searches for finished jobs whose time is over.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(600);

/// Request to the worker.
pub(crate) enum BulkRequest {
    /// Look for new jobs.
    Find,
    /// Carry out a decision of the core.
    Act(BulkAction),
}

/// State of the worker.
pub(super) struct BulkWorker {
    submitter: Submitter,
    jobs: HashMap<JobId, OpenJob>,
    /// Errors of jobs that could not be opened, which are logged once.
    failed: BTreeMap<JobId, String>,
    completions: CompletionSender,
    /// When finished jobs were last removed.
    removed_at: Option<Instant>,
}

impl BulkWorker {
    pub(super) fn new(
        spool: &Spool,
        level: HashLevel,
        completions: CompletionSender,
    ) -> BulkWorker {
        let submitter = Submitter { spool: spool.clone(), level, sync: true };
        let (jobs, failed) = (HashMap::new(), BTreeMap::new());
        BulkWorker { submitter, jobs, failed, completions, removed_at: None }
    }

    fn spool(&self) -> &Spool {
        &self.submitter.spool
    }

    /// Carries out requests until the loop has ended.
    pub(super) fn run(mut self, requests: &Receiver<BulkRequest>) {
        // What a kill has left of a packet becomes a packet, or is made again.
        if let Err(error) = unfinished::finish(self.spool()) {
            log::error!("{}: {error}", self.spool().transport().display());
        }
        self.find();
        self.completions.send(vec![Completion::BulkJobsListed]);
        for request in requests {
            match request {
                BulkRequest::Find => self.find(),
                BulkRequest::Act(action) => self.act(action),
            }
        }
    }

    fn send(&self, event: BulkEvent) {
        self.completions.send(vec![Completion::Bulk(event)]);
    }

    /// Opens the jobs that are new.
    fn find(&mut self) {
        self.remove_old();
        let new = match zsched_bulk::list(self.spool()) {
            Ok(jobs) => jobs.into_iter().filter(|job| self.is_new(*job)).collect::<Vec<_>>(),
            Err(error) => {
                return log::error!("{}: {error}", self.spool().bulk().display());
            }
        };
        if new.is_empty() {
            return;
        }
        match packet::existing(self.spool()) {
            Ok(packets) => new.into_iter().for_each(|job| self.open(job, &packets)),
            Err(error) => log::error!("the packets of bulk jobs cannot be listed: {error}"),
        }
    }

    fn is_new(&self, job: JobId) -> bool {
        !self.jobs.contains_key(&job)
            && !zsched_bulk::is_finished(self.spool(), job).unwrap_or(false)
    }

    fn open(&mut self, id: JobId, packets: &[ExistingPacket]) {
        let own: Vec<ExistingPacket> =
            packets.iter().filter(|packet| packet.number.job == id).cloned().collect();
        match OpenJob::open(self.spool(), id, &own) {
            Ok(job) => {
                let packets = own.iter();
                let opened = OpenedJob {
                    id,
                    parameters: job.parameters.clone(),
                    orders: job.orders,
                    counts: job.counts,
                    packets: packets
                        .map(|packet| (packet.number.offset, packet.offsets.len() as u32))
                        .collect(),
                };
                self.jobs.insert(id, job);
                self.failed.remove(&id);
                self.send(BulkEvent::Opened(Box::new(opened)));
                // They may have been found before the job was known.
                let level = self.submitter.level;
                let names = own.iter().map(|packet| packet.number.name(level)).collect();
                self.completions.send(vec![Completion::PacketNames(names)]);
            }
            Err(error) => {
                let text = error.to_string();
                if self.failed.insert(id, text.clone()).as_ref() != Some(&text) {
                    log::error!("bulk job {id} cannot be opened: {text}; will retry");
                }
            }
        }
    }

    /// Removes finished jobs whose time is over.
    fn remove_old(&mut self) {
        if self.removed_at.is_some_and(|at| at.elapsed() < REMOVAL_INTERVAL) {
            return;
        }
        self.removed_at = Some(Instant::now());
        match draft::remove_old(self.spool(), Timestamp::now().seconds()) {
            Ok(0) => {}
            Ok(count) => {
                let jobs = printable::count(u64::from(count), "finished bulk job");
                log::info!("removed {jobs}");
            }
            Err(error) => log::error!("finished bulk jobs cannot be removed: {error}"),
        }
    }

    fn act(&mut self, action: BulkAction) {
        match action {
            BulkAction::ReadDestinations { job, at_most } => {
                let outcome = self.with(job, |job, _| job.next_destinations(at_most));
                let outcome = log_error(job, "its destinations cannot be read", outcome);
                self.send(BulkEvent::Destinations { job, outcome });
            }
            BulkAction::MakePacket { job, destination, at_most } => {
                let make = |job: &mut OpenJob, submitter: &Submitter| {
                    job.make_packet(submitter, destination, at_most)
                };
                let made = self.with(job, make);
                let made = log_error(job, "a packet cannot be made", made);
                let names: Vec<SpoolName> =
                    made.iter().flatten().map(|made| made.name.clone()).collect();
                let about = |MadePacket { number, recipients, .. }| (number, recipients);
                let outcome = made.map(|made| made.map(about));
                let event = BulkEvent::PacketMade { job, destination, outcome };
                self.completions
                    .send(vec![Completion::Bulk(event), Completion::PacketNames(names)]);
            }
            BulkAction::DropRest { job, status } => {
                let dropped = self.with(job, |open, submitter| {
                    let packets = packets_of(&submitter.spool, job)?;
                    open.drop_rest(&submitter.spool, &packets, status)
                });
                let outcome = log_error(job, "the rest cannot be dropped", dropped);
                self.send(BulkEvent::RestDropped { job, outcome });
            }
            BulkAction::Finish(job) => {
                let finished = self.with(job, |open, submitter| {
                    let counts = result::write(&submitter.spool, job)?;
                    if counts.pending > 0 {
                        open.rewind(&packets_of(&submitter.spool, job)?)?;
                    }
                    Ok(counts)
                });
                if finished.as_ref().is_ok_and(|counts| counts.pending == 0) {
                    self.jobs.remove(&job);
                }
                let outcome = log_error(job, "its result cannot be written", finished);
                self.send(BulkEvent::Finished { job, outcome });
            }
            BulkAction::StoreOrders { job, ticket, orders } => {
                // Those of a finished job are not needed.
                let is_open = self.jobs.contains_key(&job);
                let stored = if is_open { orders.write(self.spool(), job) } else { Ok(()) };
                let outcome = log_error(job, "the orders about it cannot be stored", stored);
                self.send(BulkEvent::OrdersStored { job, ticket, outcome });
            }
        }
    }

    fn with<T>(
        &mut self,
        id: JobId,
        work: impl FnOnce(&mut OpenJob, &Submitter) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.jobs.get_mut(&id) {
            Some(job) => work(job, &self.submitter),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn packets_of(spool: &Spool, job: JobId) -> io::Result<Vec<ExistingPacket>> {
    let mut packets = packet::existing(spool)?;
    packets.retain(|packet| packet.number.job == job);
    Ok(packets)
}

fn log_error<T>(job: JobId, what: &str, outcome: io::Result<T>) -> Result<T, io::ErrorKind> {
    outcome.map_err(|error| {
        log::error!("bulk job {job}: {what}: {error}");
        error.kind()
    })
}
