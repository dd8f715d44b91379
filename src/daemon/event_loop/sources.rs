//! Reads each source of readiness. Each source has a share of a turn; what exceeds it is read in
//! the next turn.

use super::Daemon;
use crate::agents::AgentOutput;
use crate::event_loop::event_source::EventSource;
use crate::event_loop::observed_core::ObservedCore;
use crate::net::listen::{self, Notice};
use crate::spool_io::{BulkRequest, Completion, FileNews, SpoolIo};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Instant;
use zsched_bulk::PacketNumber;
use zsched_core::bulk::BulkEvent;
use zsched_core::intake::ReadDecision;
use zsched_core::view::MessageFlag;
use zsched_core::{AgentId, Event, RereadResult};
use zsched_format::agent_protocol::TLS_RESULT;
use zsched_format::control_file::ControlFileError;
use zsched_format::time::Timestamp;
use zsched_service::is_single_connection_error;
use zsched_spool::SpoolName;
use zsched_spool::load::LoadResult;
use zsched_spool::obsoletes::Obsoleted;

/// Maximum number of results of helper workers handled per turn.
const MAX_RESULTS_PER_TURN: usize = 512;
/// Maximum number of notices of routers handled per turn.
const MAX_NOTICES_PER_TURN: usize = 256;
/// Maximum number of connections accepted per turn.
const MAX_CONNECTIONS_PER_TURN: usize = 64;
/// Reason why a name in `transport/` is not that of a control file.
const INVALID_NAME_REASON: &str = "names of control files begin with a number below \
     2^64, have no blanks, and are at most 48 bytes long; folders are at most two letters deep";
/// Error text for control files found while `queue/` is empty.
const EMPTY_QUEUE_ERROR: &str = "there are control files, but queue/ is empty: is it \
     mounted? They stay, and are looked at again every minute";

impl Daemon {
    /// Reads a source. Returns true if it may have more.
    pub(super) fn read_source(&mut self, now: Timestamp, source: EventSource) -> bool {
        match source {
            // Nothing to do: the loop checks for signals in each turn.
            EventSource::Signals => {}
            EventSource::Workers => return self.handle_completions(now),
            EventSource::Notify => return self.receive_notices(),
            EventSource::Arrivals => return self.receive_arrivals(),
            EventSource::Listener(number) => return self.accept_connections(number),
            // Reports of agents would add to what the writer has to do.
            EventSource::Agent(agent) if self.spool_io.is_writer_behind() => {
                self.held_agents.insert(agent);
            }
            EventSource::Agent(agent) => return self.read_agent(now, agent),
            EventSource::Client(number) => return self.clients.listen(number),
        }
        false
    }

    /// Resumes reading of agents once the writer has caught up.
    pub(super) fn resume_held_agents(&mut self, now: Timestamp) {
        if self.spool_io.is_writer_behind() {
            return;
        }
        self.unread_sources
            .extend(std::mem::take(&mut self.held_agents).into_iter().map(EventSource::Agent));
        if std::mem::take(&mut self.has_held_children) {
            self.reap_children(now);
        }
    }

    fn read_agent(&mut self, now: Timestamp, agent: AgentId) -> bool {
        self.agents.send(agent);
        let (core, spool_io) = (&mut self.core, &self.spool_io);
        self.agents.read_output(agent, |output| pass_on(core, spool_io, now, agent, output))
    }

    fn handle_completions(&mut self, now: Timestamp) -> bool {
        self.spool_io.rearm_waker();
        for _ in 0..MAX_RESULTS_PER_TURN {
            match self.spool_io.next_result() {
                Some(done) => self.handle_completion(now, done),
                None => return false,
            }
        }
        true
    }

    fn handle_completion(&mut self, now: Timestamp, done: Completion) {
        match done {
            Completion::Names(names) => self.read_new_names(names),
            Completion::ScanPaused => self.intake.pause_scan(),
            Completion::ScanEnded(end) => {
                for error in &end.errors {
                    log::error!("a folder of the spool cannot be listed: {error}");
                }
                for name in &end.invalid_names {
                    if self.intake.record_invalid_name(name) {
                        log::warn!("transport/{name} is ignored: {INVALID_NAME_REASON}");
                    }
                }
                self.intake.end_scan(now);
            }
            Completion::Read(name, found, news) => self.handle_read(now, name, found, news),
            Completion::ReadAgain(name, found) => self.handle_reread(now, &name, found),
            Completion::ChunkRead(name, found) => {
                let outcome = self.reread_outcome(now, &name, found);
                self.core.handle(now, Event::MoreRead { number: name.number(), outcome });
            }
            Completion::NoteWritten(ticket, outcome) => {
                let outcome = outcome.map_err(|error| error.kind());
                self.core.handle(now, Event::Noted { ticket, outcome });
            }
            Completion::Reported(ticket, outcome) => {
                let outcome = outcome.map_err(|error| error.kind());
                self.core.handle(now, Event::Reported { ticket, outcome });
            }
            Completion::Removed(name, outcome) => self.removed(now, &name, outcome),
            Completion::OverridesStored(outcome) => {
                if let Err(error) = &outcome {
                    log::error!("overrides cannot be stored: {error}; will retry");
                }
                for ticket in self.overrides.take_stored_orders() {
                    let outcome = outcome.as_ref().copied().map_err(io::Error::kind);
                    self.core.handle(now, Event::OverridesStored { ticket, outcome });
                }
            }
            Completion::FormerAgentsChanged { names, an_agent_ended } => {
                self.handle_former_agent_changes(now, &names, an_agent_ended)
            }
            Completion::Bulk(event) => self.core.handle(now, Event::Bulk(event)),
            Completion::PacketNames(names) => self.read_packets(names),
            Completion::BulkJobsListed { unopened } => self.unopened_jobs = Some(unopened),
            Completion::ClearLocksFailed(name, error) => {
                log::error!("{name}: the locks of a dead agent cannot be cleared: {error}");
            }
        }
    }

    /// Reads packets that were made, or belong to a job that was found.
    fn read_packets(&mut self, names: Vec<SpoolName>) {
        for name in names {
            let state = self.core.query().view().number_state(name.number());
            if self.intake.found(&name, state) == ReadDecision::Read {
                self.spool_io.read_soon(name, None);
            }
        }
    }

    /// Returns true for a packet that must not be read yet.
    ///
    /// Its job is not known, or does not know it yet.
    fn is_early_packet(&self, name: &SpoolName) -> bool {
        let number = name.number();
        PacketNumber::of_message(number).is_some_and(|packet| {
            let unopened = self.unopened_jobs.as_ref();
            unopened.is_none_or(|jobs| jobs.contains(&packet.job))
                || self.core.query().view().is_packet_in_making(number)
        })
    }

    /// Requests reading of the files that are new among those found by a scan.
    fn read_new_names(&mut self, names: Vec<SpoolName>) {
        let (mut new, mut to_read) = (0, Vec::new());
        for name in names {
            if self.is_early_packet(&name) {
                continue;
            }
            self.watch_folder(&name);
            let verdict =
                self.intake.found(&name, self.core.query().view().number_state(name.number()));
            new += usize::from(verdict != ReadDecision::Known);
            if verdict == ReadDecision::Read {
                to_read.push((name, None));
            }
        }
        if !to_read.is_empty() {
            self.spool_io.read(to_read);
        }
        self.spool_io.new_names(new);
    }

    fn handle_read(&mut self, now: Timestamp, name: SpoolName, found: LoadResult, news: FileNews) {
        self.intake.finish_read(name.number());
        if !matches!(found, LoadResult::Locked(_)) {
            self.intake.unlocked(name.number());
        }
        let is_held =
            matches!(found, LoadResult::Locked(_) | LoadResult::Failed(_) | LoadResult::NoQueue);
        if !is_held && let Some((record, wanted)) = self.intake.backlog.take_record(name.number()) {
            self.core.handle(now, Event::Restored { number: name.number(), record, wanted });
        }
        match found {
            LoadResult::Arrival(arrival) => {
                if !news.line.is_empty() && self.core.query().view().is_new(name.number()) {
                    self.spool_io.log_arrival(&news.line);
                }
                // Older messages end before this one is given to an agent.
                let (own, older): (Vec<Obsoleted>, Vec<Obsoleted>) =
                    news.obsoleted.into_iter().partition(|pair| pair.old.number == name.number());
                older.iter().for_each(|pair| self.end_obsoleted(now, pair));
                self.core.handle(now, Event::Arrived(arrival));
                let late = self.unread_obsoleted.remove(&name.number());
                own.iter().chain(&late).for_each(|pair| self.end_obsoleted(now, pair));
            }
            LoadResult::Nothing => {
                self.unread_obsoleted.remove(&name.number());
                self.packet_is_gone(now, &name);
            }
            LoadResult::Locked(pid) => {
                let text =
                    format!("{name}: process {pid} holds a recipient of it; looked at again later");
                if self.intake.retry_locked_later(now, name) {
                    log::info!("{text}");
                }
            }
            LoadResult::Failed(error) => {
                log::error!("{name}: the control file cannot be read: {error}");
                self.intake.retry_unreadable_later(now, name);
            }
            LoadResult::NoQueue => {
                if self.intake.retry_without_queue_later(now, name) {
                    log::error!("{EMPTY_QUEUE_ERROR}");
                }
            }
            LoadResult::Malformed { error, moved } => {
                self.unread_obsoleted.remove(&name.number());
                self.handle_malformed(now, &name, &error, moved);
            }
        }
    }

    /// Reports the end of a packet to its bulk job.
    ///
    /// The core does not know yet that the packet has left the spool.
    fn packet_is_gone(&mut self, now: Timestamp, name: &SpoolName) {
        if let Some(packet) = PacketNumber::of_message(name.number()) {
            self.core.handle(now, Event::Bulk(BulkEvent::PacketGone(packet)));
        }
    }

    fn handle_malformed(
        &mut self,
        now: Timestamp,
        name: &SpoolName,
        error: &ControlFileError,
        moved: io::Result<PathBuf>,
    ) {
        if moved.is_ok() {
            self.packet_is_gone(now, name);
        }
        match moved {
            Ok(path) => {
                log::error!("{name}: malformed control file, {error}; moved to {}", path.display());
            }
            Err(problem) => {
                log::error!("{name}: malformed control file, {error}; cannot be moved: {problem}");
                self.intake.skip_file(now, name.number());
            }
        }
    }

    /// Handles changes of control files by agents of an earlier scheduler.
    ///
    /// It also handles the end of such an agent.
    fn handle_former_agent_changes(
        &mut self,
        now: Timestamp,
        names: &[SpoolName],
        an_agent_ended: bool,
    ) {
        let numbers = names.iter().map(SpoolName::number).collect();
        self.intake.recheck_locked((!an_agent_ended).then_some(&numbers));
        for name in names {
            self.core.handle(now, Event::ChangedOnDisk { number: name.number() });
        }
    }

    fn handle_reread(&mut self, now: Timestamp, name: &SpoolName, found: LoadResult) {
        // The message may be gone by now.
        let message = self.core.query().view().message(name.number());
        if message.is_some_and(|message| message.is(MessageFlag::Rereading)) {
            let outcome = self.reread_outcome(now, name, found);
            self.core.handle(now, Event::ReadAgain { number: name.number(), outcome });
        }
    }

    fn reread_outcome(
        &mut self,
        now: Timestamp,
        name: &SpoolName,
        found: LoadResult,
    ) -> RereadResult {
        match found {
            LoadResult::Arrival(arrival) => RereadResult::Read(arrival),
            LoadResult::Nothing => RereadResult::Gone,
            LoadResult::Locked(_) => RereadResult::Failed(ErrorKind::WouldBlock),
            LoadResult::Failed(error) => RereadResult::Failed(error.kind()),
            LoadResult::NoQueue => {
                log::error!("{name}: {EMPTY_QUEUE_ERROR}");
                RereadResult::Failed(ErrorKind::NotFound)
            }
            LoadResult::Malformed { error, moved } => {
                self.handle_malformed(now, name, &error, moved);
                RereadResult::Malformed(error)
            }
        }
    }

    fn removed(&mut self, now: Timestamp, name: &SpoolName, outcome: io::Result<Option<PathBuf>>) {
        if let Ok(Some(path)) = &outcome {
            log::warn!(
                "{name}: finished, moved aside because a recipient line cannot be delivered: {}",
                path.display()
            );
        }
        let number = name.number();
        let is_gone = outcome.is_ok();
        let outcome = outcome.map(drop).map_err(|error| error.kind());
        self.core.handle(now, Event::Removed { number, outcome });
        if is_gone && let Some(name) = self.intake.message_removed(number) {
            self.spool_io.read_soon(name, None);
        }
    }

    fn receive_notices(&mut self) -> bool {
        for _ in 0..MAX_NOTICES_PER_TURN {
            let Some(notice) = self.notify.as_ref().and_then(listen::next_notice) else {
                return false;
            };
            let name = match notice {
                Notice::Message(name) => name,
                Notice::BulkJob => {
                    self.spool_io.bulk(BulkRequest::Find);
                    continue;
                }
                Notice::Unknown => {
                    log::debug!("notice without a valid control file name");
                    continue;
                }
            };
            self.watch_folder(&name);
            self.read_if_new(name);
        }
        true
    }

    /// Has the folder of a control file watched from now on.
    fn watch_folder(&mut self, name: &SpoolName) {
        if let Some(watch) = &mut self.arrival_watch
            && let Err(error) = watch.add(name.folder())
            && error.kind() != ErrorKind::NotFound
        {
            self.end_watch(&error);
        }
    }

    fn end_watch(&mut self, error: &io::Error) {
        log::error!("transport/ is no longer watched; scans find mail without a notice: {error}");
        self.arrival_watch = None;
        self.intake.files_not_reported();
    }

    fn receive_arrivals(&mut self) -> bool {
        let Some(watch) = &mut self.arrival_watch else {
            return false;
        };
        match watch.read() {
            Ok(arrivals) => {
                arrivals.names.into_iter().for_each(|name| self.read_if_new(name));
                if arrivals.is_incomplete {
                    self.intake.files_not_reported();
                }
                arrivals.has_more
            }
            Err(error) => {
                self.end_watch(&error);
                false
            }
        }
    }

    /// Has a control file read that was reported, unless it is known.
    fn read_if_new(&mut self, name: SpoolName) {
        let known = self.core.query().view().number_state(name.number());
        if self.intake.reported(&name, known) == ReadDecision::Read {
            self.spool_io.read_soon(name, None);
        }
    }

    fn accept_connections(&mut self, number: usize) -> bool {
        let token = |client| EventSource::Client(client).token();
        for _ in 0..MAX_CONNECTIONS_PER_TURN {
            let Some((kind, listener)) = self.listeners.get(number) else {
                return false;
            };
            let welcomed = match listener.accept_client() {
                Ok(stream) => self.clients.add(stream, *kind, self.poll.registry(), token),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if is_single_connection_error(&error) => continue,
                Err(error) => {
                    // The usual cause is a lack of descriptors. The client stays in the listen
                    // queue.
                    log::error!("MAILQ connections cannot be accepted: {error}");
                    self.next_open_attempt = Some(Instant::now() + self.timeouts.failed_open);
                    return false;
                }
            };
            if let Err(error) = welcomed
                && let Some(more) = self.rejected_clients_log.permit(Instant::now())
            {
                log::warn!("MAILQ client rejected: {error}{more}");
            }
        }
        true
    }
}

/// Passes what an agent wrote to the core; results of TLS sessions go to the status log.
pub(super) fn pass_on(
    core: &mut ObservedCore,
    spool_io: &SpoolIo,
    now: Timestamp,
    agent: AgentId,
    output: AgentOutput<'_>,
) {
    match output {
        AgentOutput::Line(line)
            if line
                .strip_prefix(TLS_RESULT.as_bytes())
                .is_some_and(|json| spool_io.log_tls_result(now, json)) => {}
        AgentOutput::Line(line) => core.handle(now, Event::AgentSaid { agent, line }),
        AgentOutput::Skipped(bytes) => core.handle(now, Event::LineSkipped { agent, bytes }),
    }
}
