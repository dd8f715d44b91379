//! A running scheduler: the core, and the parts of the daemon around it.
//!
//! Data that it has not written is lost when it is killed.

use super::agent::Agent;
use super::bulk_worker::{BulkRequest, BulkWorker};
use super::disk::{Departure, MAX_CONCURRENT_WRITES, WriteRequest};
use super::observer::SimulationObserver;
use super::{Delays, ShellEvent, SimEvent, Simulation, SimulationSetup};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;
use zsched_bulk::status::{OpenTags, PacketEnd};
use zsched_config::Config;
use zsched_core::bulk::BulkEvent;
use zsched_core::intake::{self, Intake, ReadBudget, ReadDecision};
use zsched_core::overrides::{OverrideChange, Overrides};
use zsched_core::{
    Action, AgentEnd, AgentId, Backlog, Event, Note, RereadResult, Scheduler, SenderReportTicket,
    Settings, StopMode,
};
use zsched_format::job_recipients::Scope;
use zsched_format::time::Timestamp;
use zsched_spool::load::LoadResult;
use zsched_spool::outbox::SubmissionKind;
use zsched_spool::report::UnreportedRest;
use zsched_spool::{Portion, SpoolName};

/// The way in which a control file is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadMode {
    /// As a new one, with an optional maximum number of recipients.
    New(Option<u32>),
    /// As that of a loaded message, or as a portion of a partial one.
    Again(Option<Portion>),
}

/// A request to the reporter.
struct ReportRequest {
    ticket: SenderReportTicket,
    name: SpoolName,
    is_finished: bool,
}

/// An agent that is not started yet.
pub(super) struct NewAgent {
    /// What it serves.
    scope: Scope,
    /// How to stop it when it has been started.
    pub stop: Option<StopMode>,
}

/// A running scheduler.
pub(crate) struct Shell {
    /// The core.
    pub core: Scheduler,
    /// The processes of its agents.
    pub pids: BTreeMap<AgentId, u32>,
    /// Agents that are not started yet.
    pub(super) new_agents: BTreeMap<AgentId, NewAgent>,
    /// True if it ends with its last agent.
    pub is_draining: bool,
    pub(super) intake: Intake,
    /// True while files that existed at the start are being loaded.
    is_loading: bool,
    has_scanned: bool,
    /// Time when the reader will have processed its requests.
    reader_free: Timestamp,
    /// Time when the writer will have processed its requests.
    writer_free: Timestamp,
    to_write: VecDeque<WriteRequest>,
    /// Time when the reporter will have processed its requests.
    reporter_free: Timestamp,
    to_report: VecDeque<ReportRequest>,
    pub(super) bulk: BulkWorker,
    /// The orders in force, from the core's changes.
    pub(super) orders: Overrides,
}

impl Shell {
    /// Creates a scheduler that has just been started.
    pub(crate) fn new(settings: Settings, config: Rc<Config>) -> Shell {
        let mut intake = Intake::new(intake::IntakeDelays::default());
        intake.set_max_messages(memory_limit(&config));
        Shell {
            core: Scheduler::new(settings, config),
            pids: BTreeMap::new(),
            new_agents: BTreeMap::new(),
            is_draining: false,
            intake,
            is_loading: true,
            has_scanned: false,
            reader_free: Timestamp::EPOCH,
            writer_free: Timestamp::EPOCH,
            to_write: VecDeque::new(),
            reporter_free: Timestamp::EPOCH,
            to_report: VecDeque::new(),
            bulk: BulkWorker::new(),
            orders: Overrides::default(),
        }
    }

    /// Applies changes of the orders in force. After the last one they must equal those of the
    /// core.
    fn take_changes(&mut self, changes: &[OverrideChange]) {
        changes.iter().for_each(|change| self.orders.apply(change.clone()));
        let has_more = |action: &Action| matches!(action, Action::StoreOverrides { .. });
        if !self.core.pending_actions().iter().any(has_more) {
            let is_all = self.orders.iter().eq(self.core.view().overrides().iter());
            assert!(is_all, "changes of the overrides were not reported: {changes:?}");
        }
    }

    /// Next time at which it must be called if nothing happens, by the wall clock.
    pub(crate) fn next_wakeup(&self, setup: &SimulationSetup) -> Option<Timestamp> {
        let core = self.core.next_wakeup();
        if self.has_scanned && !setup.scans {
            return core;
        }
        let intake = self.intake.next_wakeup(&self.room());
        core.into_iter().chain(intake).min()
    }

    fn room(&self) -> ReadBudget {
        ReadBudget::of(&self.core, self.core.view().recipient_room(), &self.intake)
    }
}

/// Maximum number of messages in memory.
pub(super) fn memory_limit(config: &Config) -> Option<usize> {
    config.parameters.memory().map(|limits| limits.messages)
}

impl<O: SimulationObserver> Simulation<O> {
    /// The end of a turn of the daemon's loop, after its events have been handled.
    ///
    /// Checks the intake, passes the time to the core, and executes the decisions.
    pub(super) fn end_turn(&mut self) {
        self.check_intake();
        let wall = self.clock.wall();
        if let Some(shell) = &mut self.shell
            && shell.core.next_wakeup().is_some_and(|wakeup| wakeup <= wall)
        {
            self.send(Event::Tick);
        }
        self.perform_all();
        let is_over = |shell: &Shell| shell.is_draining && !shell.core.view().has_agents();
        if self.shell.as_ref().is_some_and(is_over) {
            self.end_scheduler();
        }
    }

    fn check_intake(&mut self) {
        let wall = self.clock.wall();
        while let Some(held) = self.shell.as_mut().and_then(|shell| shell.intake.next_retry(wall)) {
            self.request(held, ReadMode::New(None));
        }
        self.load_backlog(wall);
        let Some(shell) = &mut self.shell else {
            return;
        };
        let may_scan = self.setup.scans || !shell.has_scanned;
        if may_scan && shell.intake.begin_scan(wall) {
            shell.has_scanned = true;
            self.request_bulk(BulkRequest::Find);
            self.in_shell_after(self.setup.delays.read, ShellEvent::Scan);
        }
        if let Some(shell) = &mut self.shell
            && shell.is_loading
            && shell.intake.is_complete()
        {
            shell.is_loading = false;
            self.send(Event::InitialScanDone);
        }
    }

    /// Reads files of the backlog, as far as there is room in memory now.
    fn load_backlog(&mut self, wall: Timestamp) {
        let mut waiting = Backlog::None;
        while let Some(shell) = &mut self.shell
            && shell.intake.backlog.has_readable(wall)
        {
            let room = shell.room();
            let Some((name, at_most)) = shell.intake.next_from_backlog(wall, &room) else {
                waiting = shell.intake.blocked_kind(wall, &room);
                break;
            };
            self.request(name, ReadMode::New(at_most));
        }
        if let Some(shell) = &self.shell {
            let reading = shell.intake.recipients_being_read() as u32;
            if (waiting, reading) != shell.core.view().backlog() {
                self.send(Event::BacklogChanged { waiting, reading });
            }
        }
    }

    /// Ends the scheduler after everything decided is written.
    fn end_scheduler(&mut self) {
        while self.shell.as_ref().is_some_and(|shell| !shell.to_write.is_empty()) {
            self.write();
        }
        while self.shell.as_ref().is_some_and(|shell| !shell.to_report.is_empty()) {
            self.report();
        }
        if let Some(shell) = self.shell.take() {
            self.store_learned_state(&shell.core, &shell.intake.backlog);
        }
        self.orphan_agents();
    }

    fn perform_all(&mut self) {
        while let Some(shell) = &mut self.shell
            && let Some(action) = shell.core.poll()
        {
            if let Some(left) = &mut self.decisions_until_kill {
                if *left == 0 {
                    self.kill();
                    return;
                }
                *left -= 1;
            }
            let at = self.at();
            self.observer.action_taken(at, &action);
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::StartAgent { agent, clause, channel, host } => {
                let with_host =
                    clause.command.as_ref().is_some_and(|command| command.serves_one_host());
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let host = with_host.then(|| text(&host));
                let scope = Scope::channel(text(&channel)).with_host(host);
                let new = NewAgent { scope, stop: None };
                self.in_shell(|shell| shell.new_agents.extend([(agent, new)]));
                match self.setup.delays.turn {
                    Duration::ZERO => self.start_new_agent(agent),
                    delay => self.in_shell_after(delay, ShellEvent::StartAgent(agent)),
                }
            }
            Action::Feed { agent, job } => self.send_to_agent(agent, &job),
            Action::SendIdle(agent) => self.send_to_agent(agent, b"#idle\n"),
            Action::StopAgent { agent, manner } => self.stop_agent(agent, manner),
            Action::ClearLocks { name, pid } => {
                self.request_write(WriteRequest::ClearLocks(name, pid));
            }
            Action::ReadAgain(name) => self.request(name, ReadMode::Again(None)),
            Action::Note(note) => self.request_write(WriteRequest::Note(Box::new(note))),
            Action::Remove { name, aside, .. } => {
                self.request_write(WriteRequest::Remove(name, aside));
            }
            Action::Report { ticket, name, is_finished } => {
                self.request_report(ReportRequest { ticket, name, is_finished });
            }
            Action::PageOut { name, until, record } => {
                self.in_shell(|shell| shell.intake.backlog.page_out(name, until, *record));
            }
            Action::ReadMore { name, portion } => {
                self.request(name, ReadMode::Again(Some(portion)));
            }
            Action::RequestPagedHosts(wanted) => {
                self.in_shell(|shell| shell.intake.backlog.request(&wanted));
            }
            Action::RequestPagedMessages(numbers) => {
                self.in_shell(|shell| shell.intake.backlog.request_messages(&numbers));
            }
            Action::StoreOverrides { ticket, changes } => {
                self.in_shell(|shell| shell.take_changes(&changes));
                self.request_write(WriteRequest::KeepOrders(ticket, changes));
            }
            Action::Bulk(action) => self.request_bulk(BulkRequest::Act(action)),
            Action::OrderDone { .. }
            | Action::Statistics(_)
            | Action::Status(_)
            | Action::Log(..) => {}
        }
    }

    pub(super) fn pid(&self, agent: AgentId) -> Option<u32> {
        self.shell.as_ref()?.pids.get(&agent).copied()
    }

    /// Starts an agent, and stops it if that was wanted meanwhile.
    pub(super) fn start_new_agent(&mut self, agent: AgentId) {
        let new = self.shell.as_mut().and_then(|shell| shell.new_agents.remove(&agent));
        let Some(NewAgent { scope, stop }) = new else {
            return;
        };
        let fails = self.setup.agent_faults.start_fails;
        if fails > 0.0 && self.random.f64() < fails {
            let end = AgentEnd::NotStarted("cannot start a process".to_string());
            return self.send(Event::AgentEnded { agent, end });
        }
        let pid = self.setup.first_pid + self.agents_started;
        self.agents_started += 1;
        let new = Agent::new(pid, self.lives, agent, scope, &mut self.random);
        self.agents.insert(pid, Some(Box::new(new)));
        self.disk.alive.insert(pid);
        self.in_shell(|shell| shell.pids.extend([(agent, pid)]));
        self.send(Event::AgentStarted { agent, pid });
        self.plan_agent(pid, self.setup.delays.start);
        if let Some(manner) = stop {
            self.stop_agent(agent, manner);
        }
    }

    pub(super) fn receive_notice(&mut self, name: SpoolName) {
        let Some(shell) = &mut self.shell else {
            return;
        };
        let known = shell.core.view().number_state(name.number());
        if shell.intake.found(&name, known) == ReadDecision::Read {
            self.request(name, ReadMode::New(None));
        }
    }

    pub(super) fn scan(&mut self) {
        let wall = self.clock.wall();
        let names = self.disk.names().filter(|name| !self.is_early_packet(name));
        let names: Vec<SpoolName> = names.collect();
        let Some(shell) = &mut self.shell else {
            return;
        };
        let mut new = Vec::new();
        for name in names {
            let known = shell.core.view().number_state(name.number());
            if shell.intake.found(&name, known) == ReadDecision::Read {
                new.push((self.disk.changed(name.number()), name));
            }
        }
        shell.intake.end_scan(wall);
        new.sort_by_key(|(changed, name)| (*changed, name.number()));
        for (_, name) in new {
            self.request(name, ReadMode::New(None));
        }
    }

    pub(super) fn request_new(&mut self, name: SpoolName) {
        self.request(name, ReadMode::New(None));
    }

    fn request(&mut self, name: SpoolName, how: ReadMode) {
        if let Some(shell) = &self.shell {
            let event = SimEvent::InScheduler(self.lives, ShellEvent::Read(name, how));
            let time = self.after_time(shell.reader_free, self.setup.delays.read, event);
            self.in_shell(|shell| shell.reader_free = time);
        }
    }

    pub(super) fn read(&mut self, name: SpoolName, how: ReadMode) {
        if self.kill_while_finishing && self.disk.adds_recipients(&name) {
            let last_step = self.random.u32(0..8);
            self.disk.load_partially(&name, last_step);
            return self.kill_while(false);
        }
        let found = match how {
            ReadMode::New(at_most) => self.disk.load(&name, at_most),
            ReadMode::Again(portion) => self.disk.reload(&name, portion),
        };
        self.report_duplicates();
        let has_advanced = std::mem::take(&mut self.disk.has_advanced);
        if has_advanced && matches!(found, LoadResult::Arrival(_)) && self.random.bool() {
            // An agent of a former scheduler may lock what was added before it is read.
            return self.request(name, how);
        }
        if let LoadResult::Malformed { moved: Ok(_), .. } = &found
            && let Some(file) = self.disk.postman.last().cloned()
        {
            let at = self.at();
            self.observer.departed(at, name.number(), &Departure::Aside(file));
        }
        let event = ShellEvent::Loaded(name, how, found);
        self.in_shell_after(self.setup.delays.read, event);
    }

    pub(super) fn receive_load_result(
        &mut self,
        name: SpoolName,
        how: ReadMode,
        found: LoadResult,
    ) {
        let wall = self.clock.wall();
        let Some(shell) = &mut self.shell else {
            return;
        };
        let number = name.number();
        if let ReadMode::Again(portion) = how {
            let outcome = match found {
                LoadResult::Arrival(arrival) => RereadResult::Read(arrival),
                LoadResult::Nothing => RereadResult::Gone,
                LoadResult::Locked(_) | LoadResult::NoQueue => {
                    RereadResult::Failed(ErrorKind::WouldBlock)
                }
                LoadResult::Failed(error) => RereadResult::Failed(error.kind()),
                LoadResult::Malformed { error, moved } => {
                    if moved.is_err() {
                        shell.intake.skip_file(wall, number);
                    }
                    RereadResult::Malformed(error)
                }
            };
            return self.send(match portion {
                Some(_) => Event::MoreRead { number, outcome },
                None => Event::ReadAgain { number, outcome },
            });
        }
        shell.intake.finish_read(number);
        let is_held =
            matches!(found, LoadResult::Locked(_) | LoadResult::Failed(_) | LoadResult::NoQueue);
        if !is_held && let Some((record, wanted)) = shell.intake.backlog.take_record(number) {
            self.send(Event::Restored { number, record, wanted });
        }
        let Some(shell) = &mut self.shell else {
            return;
        };
        match found {
            LoadResult::Arrival(arrival) => self.send(Event::Arrived(arrival)),
            LoadResult::Nothing | LoadResult::Malformed { moved: Ok(_), .. } => {
                self.packet_is_gone(number);
            }
            LoadResult::Locked(_) | LoadResult::NoQueue => {
                shell.intake.retry_locked_later(wall, name);
            }
            LoadResult::Failed(_) => shell.intake.retry_unreadable_later(wall, name),
            LoadResult::Malformed { .. } => shell.intake.skip_file(wall, number),
        }
    }

    fn request_write(&mut self, request: WriteRequest) {
        if let Some(shell) = &mut self.shell {
            shell.to_write.push_back(request);
            let free = shell.writer_free;
            let event = SimEvent::InScheduler(self.lives, ShellEvent::Write);
            let time = self.after_time(free, self.setup.delays.write, event);
            self.in_shell(|shell| shell.writer_free = time);
        }
    }

    pub(super) fn write(&mut self) {
        let Some(shell) = &mut self.shell else {
            return;
        };
        let Some(request) = WriteRequest::take_one(&mut shell.to_write, &mut self.random) else {
            return;
        };
        if self.kill_while_finishing && finishes_recipients(&request) {
            shell.to_write.push_front(request);
            return self.kill_while(true);
        }
        let at = self.at();
        let mut events = Vec::new();
        let event = match request {
            WriteRequest::Note(note) => {
                let outcome = self.note(&note, None).map_err(|error| error.kind());
                Event::Noted { ticket: note.ticket, outcome }
            }
            WriteRequest::Remove(name, aside) => {
                let ended = self.disk.record_results(&name, OpenTags::of_removal(aside), None);
                let removed = ended.and_then(|ended| {
                    let ended = ended.map(|PacketEnd { number, counts }| {
                        Event::Bulk(BulkEvent::PacketEnded { packet: number, counts })
                    });
                    events.extend(ended);
                    self.disk.remove(&name, aside)
                });
                if let Ok(left) = &removed {
                    self.observer.departed(at, name.number(), left);
                }
                let outcome = removed.map(|_| ()).map_err(|error| error.kind());
                Event::Removed { number: name.number(), outcome }
            }
            WriteRequest::KeepOrders(ticket, changes) => {
                let outcome = self.disk.keep_orders(changes).map_err(|error| error.kind());
                Event::OverridesStored { ticket, outcome }
            }
            WriteRequest::ClearLocks(name, pid) => return self.clear_locks(&name, pid),
        };
        events.push(event);
        self.in_shell_after(self.setup.delays.write, ShellEvent::Written(events));
    }

    fn request_report(&mut self, request: ReportRequest) {
        if let Some(shell) = &mut self.shell {
            shell.to_report.push_back(request);
            let free = shell.reporter_free;
            let event = SimEvent::InScheduler(self.lives, ShellEvent::Report);
            let time = self.after_time(free, self.setup.delays.write, event);
            self.in_shell(|shell| shell.reporter_free = time);
        }
    }

    pub(super) fn report(&mut self) {
        let has_next = self.shell.as_ref().is_some_and(|shell| !shell.to_report.is_empty());
        if self.kill_while_finishing && has_next {
            return self.kill_while(true);
        }
        let Some(request) = self.shell.as_mut().and_then(|shell| shell.to_report.pop_front())
        else {
            return;
        };
        let outcome = self.send_report(&request, None).map_err(|error| error.kind());
        let event = Event::Reported { ticket: request.ticket, outcome };
        self.in_shell_after(self.setup.delays.write, ShellEvent::Written(vec![event]));
    }

    fn send_report(
        &mut self,
        request: &ReportRequest,
        last_step: Option<u32>,
    ) -> std::io::Result<UnreportedRest> {
        let wall = self.clock.wall();
        let sent = self.disk.report(wall, &request.name, request.is_finished, last_step);
        self.observe_published();
        sent
    }

    fn note(&mut self, note: &Note, last_step: Option<u32>) -> std::io::Result<bool> {
        let noted = self.disk.note(note, last_step);
        let at = self.at();
        if let Some(file) = self.disk.control_file(&note.name) {
            self.observer.noted(at, file);
        }
        self.observe_published();
        noted
    }

    fn clear_locks(&mut self, name: &SpoolName, pid: u32) {
        // Clearing locks in memory cannot fail.
        self.disk.clear_locks(name, pid).ok();
        self.report_duplicates();
    }

    fn report_duplicates(&mut self) {
        let at = self.at();
        for (serial, offset) in std::mem::take(&mut self.disk.duplicates) {
            self.observer.duplicate_reported(at, serial, offset);
        }
    }

    /// Passes to the observer what the router was given.
    pub(super) fn observe_published(&mut self) {
        let at = self.at();
        for (kind, serial, offset) in std::mem::take(&mut self.disk.outbox.get_mut().published) {
            match kind {
                SubmissionKind::Reroute => self.observer.rerouted(at, serial, offset),
                SubmissionKind::Report => self.observer.reported(at, serial, offset),
            }
        }
    }

    pub(super) fn receive_write_result(&mut self, event: Event<'static>) {
        let removed = match event {
            Event::Removed { number, outcome: Ok(()) } => Some(number),
            _ => None,
        };
        self.send(event);
        if let Some(number) = removed
            && let Some(shell) = &mut self.shell
            && let Some(name) = shell.intake.message_removed(number)
        {
            self.request(name, ReadMode::New(None));
        }
    }

    /// Interrupts the current writes of a scheduler that was killed.
    pub(super) fn write_partially(&mut self, mut shell: Shell) {
        self.disk.move_down_partially();
        if let Some(request) = shell.to_report.pop_front()
            && (shell.to_write.is_empty() || self.random.bool())
        {
            let last_step = self.random.u32(0..10);
            self.send_report(&request, Some(last_step)).ok();
            return;
        }
        let count = self.random.usize(1..=MAX_CONCURRENT_WRITES);
        for request in WriteRequest::take_some(&mut shell.to_write, count, &mut self.random) {
            match request {
                WriteRequest::Note(note) => {
                    // A killed scheduler gets no result, whatever became of the write.
                    let last_step = self.random.u32(0..6 + 3 * note.offsets.len() as u32);
                    self.note(&note, Some(last_step)).ok();
                }
                WriteRequest::Remove(name, aside) => {
                    let last_step = self.random.bool().then(|| self.random.u32(0..6));
                    let ended =
                        self.disk.record_results(&name, OpenTags::of_removal(aside), last_step);
                    if ended.is_ok() {
                        self.remove_before_kill(&name, aside);
                    }
                }
                // Changes are stored together, or not at all.
                WriteRequest::KeepOrders(..) | WriteRequest::ClearLocks(..) => {}
            }
        }
    }

    /// Removes a message as a killed scheduler may have done it.
    ///
    /// It takes the first step or all steps, and the core gets no result.
    fn remove_before_kill(&mut self, name: &SpoolName, aside: bool) {
        let departure = match self.random.bool() {
            true => self.disk.remove(name, aside).ok(),
            false => self.disk.remove_partially(name, aside).map(Departure::Removed),
        };
        if let Some(departure) = departure {
            let at = self.at();
            self.observer.departed(at, name.number(), &departure);
        }
    }
}

/// Returns true if the request finishes recipients without an agent.
fn finishes_recipients(request: &WriteRequest) -> bool {
    matches!(request, WriteRequest::Note(note) if note.occasion.ends_recipients())
}

impl Delays {
    /// The delays of a small, busy machine.
    pub fn usual() -> Delays {
        let micros = Duration::from_micros;
        Delays {
            notice: micros(100),
            read: micros(200),
            write: micros(300),
            pipe: micros(100),
            turn: Duration::ZERO,
            start: micros(5000),
            reap: micros(500),
        }
    }
}
