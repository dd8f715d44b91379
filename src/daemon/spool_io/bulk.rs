//! Worker for bulk jobs: finds them, cuts their packets and writes their results.
//!
//! It has a worker of its own, since a job of a million recipients takes a moment to be read.

use super::{Completion, CompletionSender};
use crate::start::recovery::InterruptedSubmissions;
use crate::state::duplicates::DuplicatesFile;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use zsched_bulk::cut::{MadePacket, OpenJob, WantedPackets};
use zsched_bulk::packet::{self, ExistingPacket};
use zsched_bulk::result::{self, Ended};
use zsched_bulk::{JobId, draft};
use zsched_core::bulk::{BulkAction, BulkEvent, OpenedJob};
use zsched_format::printable;
use zsched_format::time::Timestamp;
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, Spool, SpoolName};

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
    duplicates: Arc<DuplicatesFile>,
    /// When finished jobs were last removed.
    removed_at: Option<Instant>,
}

impl BulkWorker {
    pub(super) fn new(
        spool: &Spool,
        level: HashLevel,
        completions: CompletionSender,
        duplicates: Arc<DuplicatesFile>,
    ) -> BulkWorker {
        let submitter = Submitter { spool: spool.clone(), level, sync: true };
        let (jobs, failed) = (HashMap::new(), BTreeMap::new());
        BulkWorker { submitter, jobs, failed, completions, duplicates, removed_at: None }
    }

    fn spool(&self) -> &Spool {
        &self.submitter.spool
    }

    /// Carries out requests until the loop has ended.
    pub(super) fn run(
        mut self,
        requests: &Receiver<BulkRequest>,
        interrupted: &InterruptedSubmissions,
    ) {
        // What a kill has left of a packet becomes a packet, or is made again.
        interrupted.complete(self.spool());
        self.find();
        self.find_finished();
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

    /// Reports the finished jobs that are kept.
    fn find_finished(&self) {
        for job in zsched_bulk::list(self.spool()).unwrap_or_default() {
            if !self.jobs.contains_key(&job)
                && zsched_bulk::is_finished(self.spool(), job).unwrap_or(false)
                && let Ok(finished) = result::summary(self.spool(), job)
            {
                self.send(BulkEvent::FinishedFound(Box::new(finished)));
            }
        }
    }

    /// Takes up what was submitted of jobs since.
    fn grow(&mut self) {
        let spool = &self.submitter.spool;
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| !job.is_complete()) {
            match job.grow(spool) {
                Ok(false) => {}
                Ok(true) => {
                    let (all, is_complete) = (job.counts.all, job.is_complete());
                    let event = BulkEvent::Grown { job: *id, all, is_complete };
                    self.completions.send(vec![Completion::Bulk(event)]);
                }
                Err(error) => log::error!("bulk job {id}: what is new cannot be read: {error}"),
            }
        }
    }

    /// Opens the jobs that are new.
    fn find(&mut self) {
        self.remove_old();
        self.grow();
        let new = match zsched_bulk::list(self.spool()) {
            Ok(jobs) => jobs.into_iter().filter(|job| self.is_new(*job)).collect::<Vec<_>>(),
            Err(error) => {
                return log::error!("{}: {error}", self.spool().bulk().display());
            }
        };
        if !new.is_empty() {
            match packet::existing(self.spool()) {
                Ok(packets) => new.iter().for_each(|job| self.open(*job, &packets)),
                Err(error) => log::error!("the packets of bulk jobs cannot be listed: {error}"),
            }
        }
        let unopened = new.into_iter().filter(|job| !self.jobs.contains_key(job)).collect();
        self.completions.send(vec![Completion::BulkJobsListed { unopened }]);
    }

    fn is_new(&self, job: JobId) -> bool {
        !self.jobs.contains_key(&job)
            && !zsched_bulk::is_finished(self.spool(), job).unwrap_or(false)
    }

    fn open(&mut self, id: JobId, packets: &[ExistingPacket]) {
        let own: Vec<ExistingPacket> =
            packets.iter().filter(|packet| packet.number.job == id).cloned().collect();
        let opened = OpenJob::open(self.spool(), id).and_then(|mut job| {
            // What has vanished is found before anything is cut.
            let packets = job.take_up(&own)?;
            Ok((job, packets))
        });
        match opened {
            Ok((job, packets)) => {
                let opened = OpenedJob {
                    id,
                    parameters: job.parameters.clone(),
                    orders: job.orders,
                    counts: job.counts,
                    is_complete: job.is_complete(),
                    packets,
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
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => {
                let jobs = printable::count(removed.len() as u64, "finished bulk job");
                log::info!("removed {jobs}");
                removed.into_iter().for_each(|job| self.send(BulkEvent::Removed(job)));
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
            BulkAction::MakePackets { job, destination, packets, at_most } => {
                let wanted = WantedPackets { destination, packets, at_most };
                let made = self.with(job, |job, submitter| {
                    job.make_packets(submitter, &[wanted]).pop().unwrap_or_else(|| Ok(Vec::new()))
                });
                let made = log_error(job, "packets cannot be made", made);
                let names: Vec<SpoolName> =
                    made.iter().flatten().map(|made| made.name.clone()).collect();
                let about = |MadePacket { number, recipients, .. }| (number, recipients);
                let outcome = made.map(|made| made.into_iter().map(about).collect());
                let event = BulkEvent::PacketsMade { job, destination, outcome };
                self.completions
                    .send(vec![Completion::Bulk(event), Completion::PacketNames(names)]);
            }
            BulkAction::MarkLost(job) => {
                let marked = self.with(job, |open, submitter| {
                    open.reconcile(&packets_of(&submitter.spool, job)?)
                });
                let outcome = log_error(job, "vanished packets cannot be noted", marked);
                self.send(BulkEvent::LostMarked { job, outcome });
            }
            BulkAction::DecideLost { job, ticket, are_sent } => {
                let duplicates = self.duplicates.clone();
                let decided =
                    self.with(job, |open, _| open.decide_lost(are_sent, &mut duplicates.sink()));
                let outcome = log_error(job, "vanished packets cannot be decided about", decided);
                self.send(BulkEvent::LostDecided { job, ticket, are_sent, outcome });
            }
            BulkAction::DropRest { job, status } => {
                let dropped = self.with(job, |open, _| open.drop_rest(status));
                let outcome = log_error(job, "the rest cannot be dropped", dropped);
                self.send(BulkEvent::RestDropped { job, status, outcome });
            }
            BulkAction::Finish(job) => {
                let finished = self.with(job, |open, submitter| {
                    let spool = &submitter.spool;
                    let ended = result::write(spool, job, Timestamp::now().seconds())?;
                    if let Ended::NotYet(_) = ended {
                        open.reconcile(&packets_of(spool, job)?)?;
                        return Ok(Ended::NotYet(open.rewind()?));
                    }
                    Ok(ended)
                });
                if finished.as_ref().is_ok_and(|ended| !matches!(ended, Ended::NotYet(_))) {
                    self.jobs.remove(&job);
                }
                let outcome = log_error(job, "its result cannot be written", finished);
                self.send(BulkEvent::Finished { job, outcome });
            }
            BulkAction::StoreOrders { job, ticket, orders } => {
                // Those of a finished job are not needed.
                let stored = match self.jobs.get_mut(&job) {
                    Some(open) => {
                        open.orders = orders;
                        orders.write(&self.submitter.spool, job)
                    }
                    None => Ok(()),
                };
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
