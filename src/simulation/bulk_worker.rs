//! The worker for bulk jobs: finds them, makes their packets and writes their results.
//!
//! The counterpart of the daemon's worker. What it has in memory is lost when the scheduler is
//! killed.

use super::jobs::{JobFiles, JobStore, PacketsInMemory, SharedSteps};
use super::observer::SimulationObserver;
use super::outbox::WriteSteps;
use super::{ShellEvent, SimEvent, Simulation};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use zsched_bulk::cut::{MadePacket, OpenJob, WantedPackets};
use zsched_bulk::result::{self, Ended};
use zsched_bulk::{JobId, PacketNumber};
use zsched_core::Event;
use zsched_core::bulk::{BulkAction, BulkEvent, OpenedJob};
use zsched_core::intake::ReadDecision;
use zsched_format::time::Timestamp;
use zsched_spool::{PossibleDuplicates, SpoolName};

/// Request to the worker.
pub(crate) enum BulkRequest {
    /// Look for new jobs.
    Find,
    /// Carry out a decision of the core.
    Act(BulkAction),
}

/// State of the worker.
pub(crate) struct BulkWorker {
    jobs: BTreeMap<JobId, OpenJob<JobStore>>,
    requests: VecDeque<BulkRequest>,
    /// Time when it will have processed its requests.
    free: Timestamp,
    /// Time when the loop will have received its last answer.
    answered: Timestamp,
    /// Jobs that cannot be opened. `None` until it has looked for jobs.
    unopened: Option<BTreeSet<JobId>>,
    steps: SharedSteps,
}

/// What the loop receives.
#[derive(Default)]
pub(crate) struct BulkAnswer {
    events: Vec<BulkEvent>,
    /// Packets that can be read.
    packets: Vec<SpoolName>,
    /// Jobs that cannot be opened, if it has looked for jobs.
    unopened: Option<BTreeSet<JobId>>,
}

impl BulkWorker {
    pub(crate) fn new() -> BulkWorker {
        BulkWorker {
            jobs: BTreeMap::new(),
            requests: VecDeque::new(),
            free: Timestamp::EPOCH,
            answered: Timestamp::EPOCH,
            unopened: None,
            steps: SharedSteps::new(WriteSteps::default()),
        }
    }

    fn find(&mut self, id: JobId) -> io::Result<&mut OpenJob<JobStore>> {
        self.jobs.get_mut(&id).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl<O: SimulationObserver> Simulation<O> {
    /// Puts a bulk job into the spool as `submit --bulk` does.
    ///
    /// Without `notice`, the scheduler finds it only when it looks at the spool.
    pub fn submit_job(&mut self, id: JobId, files: JobFiles, notice: bool) {
        let at = self.at();
        self.observer.job_submitted(at, id, &files);
        self.disk.jobs.all.insert(id, files);
        if notice && self.shell.is_some() {
            self.after(self.setup.delays.notice, SimEvent::JobNotice);
        }
    }

    /// Gives packets their names that a killed scheduler has left without.
    pub(super) fn finish_packets(&mut self) {
        let hidden = std::mem::take(&mut *self.disk.jobs.hidden.borrow_mut());
        for (name, text) in hidden.into_values() {
            self.publish_packet(name, text);
        }
    }

    fn publish_packet(&mut self, name: SpoolName, text: Vec<u8>) {
        let received = self.disk.put_packet(self.clock.wall(), &name, text);
        let at = self.at();
        received.into_iter().for_each(|file| self.observer.submitted(at, name.number(), &file));
    }

    pub(super) fn request_bulk(&mut self, request: BulkRequest) {
        if let Some(shell) = &mut self.shell {
            shell.bulk.requests.push_back(request);
            let free = shell.bulk.free;
            let event = SimEvent::InScheduler(self.lives, ShellEvent::Bulk);
            let time = self.after_time(free, self.setup.delays.write, event);
            self.in_shell(|shell| shell.bulk.free = time);
        }
    }

    /// Processes the next request.
    pub(super) fn bulk_turn(&mut self) {
        let request = self.shell.as_mut().and_then(|shell| shell.bulk.requests.pop_front());
        let Some(request) = request else { return };
        if self.kill_while_finishing && matches!(request, BulkRequest::Act(_)) {
            let last_step = self.random.u32(0..12);
            self.process_bulk(request, Some(last_step));
            return self.kill_while(false);
        }
        let answer = self.process_bulk(request, None);
        let Some(answered) = self.shell.as_ref().map(|shell| shell.bulk.answered) else { return };
        let event = SimEvent::InScheduler(self.lives, ShellEvent::BulkDone(Box::new(answer)));
        let time = self.after_time(answered, self.setup.delays.write, event);
        self.in_shell(|shell| shell.bulk.answered = time);
    }

    /// Interrupts the present request, since the scheduler is killed.
    pub(super) fn bulk_partially(&mut self, worker: BulkWorker) {
        let last_step = self.random.u32(0..12);
        let mut worker = worker;
        if let Some(request) = worker.requests.pop_front() {
            self.process(&mut worker, request, Some(last_step));
        }
    }

    fn process_bulk(&mut self, request: BulkRequest, last_step: Option<u32>) -> BulkAnswer {
        let Some(shell) = &mut self.shell else { return BulkAnswer::default() };
        let mut worker = std::mem::replace(&mut shell.bulk, BulkWorker::new());
        let answer = self.process(&mut worker, request, last_step);
        self.in_shell(|shell| shell.bulk = worker);
        answer
    }

    fn process(
        &mut self,
        worker: &mut BulkWorker,
        request: BulkRequest,
        last_step: Option<u32>,
    ) -> BulkAnswer {
        worker.steps.begin(self.disk.write_steps(last_step));
        match request {
            BulkRequest::Find => self.find_jobs(worker),
            BulkRequest::Act(action) => self.act(worker, action),
        }
    }

    fn find_jobs(&mut self, worker: &mut BulkWorker) -> BulkAnswer {
        let mut answer = BulkAnswer::default();
        let new = self.disk.jobs.unfinished().filter(|job| !worker.jobs.contains_key(job));
        for id in new.collect::<Vec<JobId>>() {
            let own = self.disk.packets_of(id);
            let opened = self.disk.jobs.find(id).and_then(|files| files.open(id, &worker.steps));
            let opened = opened.and_then(|mut job| {
                let packets = job.take_up(&own)?;
                Ok((job, packets))
            });
            // One that cannot be opened is tried again with the next search.
            let Ok((job, packets)) = opened else { continue };
            let opened = OpenedJob {
                id,
                parameters: job.parameters.clone(),
                orders: job.orders,
                counts: job.counts,
                is_complete: job.is_complete(),
                packets,
            };
            worker.jobs.insert(id, job);
            answer.events.push(BulkEvent::Opened(Box::new(opened)));
            answer.packets.extend(own.iter().map(|packet| packet.number.name(self.setup.level)));
        }
        let unopened = self.disk.jobs.unfinished().filter(|job| !worker.jobs.contains_key(job));
        answer.unopened = Some(unopened.collect());
        answer
    }

    fn act(&mut self, worker: &mut BulkWorker, action: BulkAction) -> BulkAnswer {
        let mut packets = Vec::new();
        let event = match action {
            BulkAction::ReadDestinations { job, at_most } => {
                let outcome = worker.find(job).and_then(|job| job.next_destinations(at_most));
                BulkEvent::Destinations { job, outcome: outcome.map_err(kind) }
            }
            BulkAction::MakePackets { job, destination, packets: count, at_most } => {
                let wanted = WantedPackets { destination, packets: count, at_most };
                let made = self.make_packets(worker, job, wanted);
                packets.extend(made.iter().flatten().map(|made| made.name.clone()));
                let outcome = made.map_err(kind).map(|made| {
                    made.into_iter().map(|made| (made.number, made.recipients)).collect()
                });
                BulkEvent::PacketsMade { job, destination, outcome }
            }
            BulkAction::MarkLost(job) => {
                let own = self.disk.packets_of(job);
                let outcome = worker.find(job).and_then(|job| job.reconcile(&own));
                BulkEvent::LostMarked { job, outcome: outcome.map_err(kind) }
            }
            BulkAction::DecideLost { job, ticket, are_sent } => {
                let mut sent_again = Vec::new();
                let mut tell = |reported: &PossibleDuplicates| {
                    sent_again.extend(reported.recipients.iter().map(|one| one.offset));
                };
                let decided = worker.find(job).and_then(|job| job.decide_lost(are_sent, &mut tell));
                let at = self.at();
                for offset in sent_again {
                    self.observer.sent_again(at, job, offset);
                }
                let outcome = decided.map_err(kind);
                BulkEvent::LostDecided { job, ticket, are_sent, outcome }
            }
            BulkAction::DropRest { job, status } => {
                let outcome = worker.find(job).and_then(|job| job.drop_rest(status));
                BulkEvent::RestDropped { job, status, outcome: outcome.map_err(kind) }
            }
            BulkAction::Finish(job) => {
                let outcome = self.finish_job(worker, job).map_err(kind);
                BulkEvent::Finished { job, outcome }
            }
            BulkAction::StoreOrders { job, ticket, orders } => {
                worker.jobs.get_mut(&job).into_iter().for_each(|open| open.orders = orders);
                let stored = match self.disk.jobs.find(job) {
                    Ok(files) => worker.steps.step().map(|()| files.orders = orders),
                    // Those of a finished job are not needed.
                    Err(_) => Ok(()),
                };
                BulkEvent::OrdersStored { job, ticket, outcome: stored.map_err(kind) }
            }
        };
        BulkAnswer { events: vec![event], packets, unopened: None }
    }

    fn make_packets(
        &mut self,
        worker: &mut BulkWorker,
        id: JobId,
        wanted: WantedPackets,
    ) -> io::Result<Vec<MadePacket>> {
        let received = self.disk.jobs.find(id)?.renew_message(self.clock.wall());
        let folder = PacketsInMemory::new(&self.disk.jobs, &worker.steps);
        let (level, seconds) = (self.setup.level, received.seconds());
        let made = worker.find(id)?.make_packets_in(&folder, level, seconds, &[wanted]).pop();
        for (name, text) in folder.published.take() {
            self.publish_packet(name, text);
        }
        made.unwrap_or_else(|| Ok(Vec::new()))
    }

    fn finish_job(&mut self, worker: &mut BulkWorker, id: JobId) -> io::Result<Ended> {
        let now = self.clock.wall().seconds();
        let at = self.at();
        let own = self.disk.packets_of(id);
        let files = self.disk.jobs.find(id)?;
        let counts = worker.find(id)?.rewind()?;
        let ended = result::end_of(id, files.parameters().clone(), &files.orders, counts, now);
        if let Ended::NotYet(_) = ended {
            let open = worker.find(id)?;
            open.reconcile(&own)?;
            return Ok(Ended::NotYet(open.rewind()?));
        }
        worker.steps.step()?;
        files.ended = Some(ended.clone());
        self.observer.job_ended(at, id, &ended, files);
        worker.jobs.remove(&id);
        Ok(ended)
    }

    pub(super) fn receive_bulk_answer(&mut self, answer: BulkAnswer) {
        let BulkAnswer { events, packets, unopened } = answer;
        events.into_iter().for_each(|event| self.send(Event::Bulk(event)));
        for name in packets {
            let Some(shell) = &mut self.shell else { return };
            let known = shell.core.view().number_state(name.number());
            if shell.intake.found(&name, known) == ReadDecision::Read {
                self.request_new(name);
            }
        }
        if unopened.is_some() {
            self.in_shell(|shell| shell.bulk.unopened = unopened);
        }
    }

    /// Returns true for a packet that must not be read yet.
    ///
    /// Its job is not known, or does not know it yet.
    pub(super) fn is_early_packet(&self, name: &SpoolName) -> bool {
        let packet = PacketNumber::of_message(name.number());
        packet.zip(self.shell.as_ref()).is_some_and(|(packet, shell)| {
            shell.bulk.unopened.as_ref().is_none_or(|jobs| jobs.contains(&packet.job))
                || shell.core.view().is_packet_in_making(name.number())
        })
    }

    /// Reports a packet that has left the spool without the knowledge of the core.
    pub(super) fn packet_is_gone(&mut self, number: u64) {
        if let Some(packet) = PacketNumber::of_message(number) {
            self.send(Event::Bulk(BulkEvent::PacketGone(packet)));
        }
    }
}

fn kind(error: io::Error) -> ErrorKind {
    error.kind()
}
