//! The event loop.
//!
//! One pass ("turn") reads what is ready, runs what is due, and carries out the actions of the
//! core.
//!
//! | file | what |
//! |---|---|
//! | this one | a running scheduler, and its loop |
//! | [`event_source`], [`sources`], [`signals`] | reading each source of readiness |
//! | [`agent_life`] | starts and ends of agents |
//! | [`execute`] | carrying out the actions of the core |
//! | [`observed_core`] | the core, with its event feed for subscribers |
//! | [`reload`] | reading the configuration again |
//! | [`log_checks`] | reopening logs that were renamed |
//! | [`clock`] | the time of the core, and steps of the system's clock |

pub(crate) mod event_source;
mod sources;
mod obsoleted;
pub(crate) mod signals;
mod agent_life;
mod execute;
pub(crate) mod observed_core;
pub(crate) mod reload;
pub(crate) mod log_checks;
pub(crate) mod clock;

use crate::agents::AgentProcesses;
use crate::logging::StatisticsLog;
use crate::net::clients::Clients;
use crate::net::listen::{Listener, ListenerKind, MailqAddress};
use crate::net::lookup_worker::LookupWorker;
use crate::net::rendezvous_dump::Rendezvous;
use crate::service_manager;
use crate::spool_io::ScanLimits;
use crate::spool_io::SpoolIo;
use crate::spool_io::arrival_watch::ArrivalWatch;
use crate::state::learned_file::LearnedFile;
use crate::state::overrides::OverridesFile;
use crate::state::spool_lock::SpoolLock;
use crate::timeouts::Timeouts;
use clock::Clock;
use event_source::EventSource;
use foldhash::HashMap;
use mio::net::UnixDatagram;
use mio::{Events, Poll, Waker};
use observed_core::ObservedCore;
use reload::ReloadState;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zsched_bulk::JobId;
use zsched_config::{Config, ConfigContext};
use zsched_core::intake::{Intake, ReadBudget};
use zsched_core::overrides::OverrideChange;
use zsched_core::{AgentId, Event};
use zsched_format::log_limiter::LogLimiter;
use zsched_format::time::Timestamp;
use zsched_service::{BackgroundLog, log_file};
use zsched_spool::obsoletes::Obsoleted;
use zsched_sys::Signals;

/// Maximum number of backlog files requested from the reader per turn.
const MAX_BACKLOG_READS_PER_TURN: usize = 256;

/// Maximum pause after a turn; it is four times as long as the turn, unless work is left over.
///
/// Under load, agents and workers report one after the other. A pause handles their reports
/// together, which saves a tenth of the processor time per message.
const MAX_PAUSE: Duration = Duration::from_micros(300);

/// Number of messages in memory after which free memory is returned once they have left.
const MANY_MESSAGES: usize = 10_000;

/// A running scheduler.
pub(crate) struct Daemon {
    pub(crate) poll: Poll,
    /// Wakes the loop from a worker.
    pub(crate) waker: Arc<Waker>,
    pub(crate) clock: Clock,
    pub(crate) core: ObservedCore,
    pub(crate) signals: Signals,
    pub(crate) spool_io: SpoolIo,
    pub(crate) intake: Intake,
    /// True if there were [`MANY_MESSAGES`] since the queue was empty.
    pub(crate) had_many_messages: bool,
    pub(crate) agents: AgentProcesses,
    pub(crate) clients: Clients,
    pub(crate) lookups: LookupWorker,
    pub(crate) listeners: Vec<(ListenerKind, Box<dyn Listener>)>,
    /// MAILQ addresses not bound yet; `None` before the first attempt.
    pub(crate) unbound_mailq: Option<Vec<MailqAddress>>,
    pub(crate) notify: Option<UnixDatagram>,
    pub(crate) notify_path: PathBuf,
    /// `None` if the kernel does not report new control files.
    pub(crate) arrival_watch: Option<ArrivalWatch>,
    pub(crate) control_path: PathBuf,
    /// Where MAILQ is served, for clients.
    pub(crate) mailq_file: PathBuf,
    /// Next attempt to open sockets that could not be opened.
    pub(crate) next_open_attempt: Option<Instant>,
    /// Readings of the configuration that are requested or under way.
    pub(crate) reloads: ReloadState,
    /// Sources with more input than their share of the last turn.
    pub(crate) unread_sources: Vec<EventSource>,
    /// Agents with unread output, read once the writer has caught up.
    pub(crate) held_agents: BTreeSet<AgentId>,
    /// True if ended processes wait until the writer has caught up.
    pub(crate) has_held_children: bool,
    /// Messages that end when they have been read, by their number.
    pub(crate) unread_obsoleted: HashMap<u64, Obsoleted>,
    /// Bulk jobs that cannot be opened, so that the orders about them are not known.
    ///
    /// `None` until the jobs were listed.
    pub(crate) unopened_jobs: Option<BTreeSet<JobId>>,
    pub(crate) scan_limits: ScanLimits,
    pub(crate) timeouts: Timeouts,
    /// True until the mail found at the start is loaded.
    pub(crate) is_loading: bool,
    /// Log level to set when loading is complete.
    pub(crate) level_after_load: log::LevelFilter,
    /// Log level of the command line.
    pub(crate) started_level: log::LevelFilter,
    pub(crate) config_path: PathBuf,
    pub(crate) zenv_path: PathBuf,
    pub(crate) context: ConfigContext,
    pub(crate) config: Rc<Config>,
    /// The configuration at the start, of which some settings stay in force.
    pub(crate) started_config: Rc<Config>,
    pub(crate) log: BackgroundLog,
    /// The statistics log and the status log, if there are such logs.
    pub(crate) other_logs: Vec<BackgroundLog>,
    pub(crate) statistics: Option<StatisticsLog>,
    /// Time of the next check for renamed log files.
    pub(crate) next_log_check: Instant,
    pub(crate) rendezvous: Rendezvous,
    pub(crate) learned: LearnedFile,
    pub(crate) overrides: OverridesFile,
    /// Limiter for log lines about rejected clients.
    pub(crate) rejected_clients_log: LogLimiter,
    pub(crate) is_foreground: bool,
    /// True once a signal has requested an immediate end.
    pub(crate) is_ending: bool,
    /// True if the scheduler ends once its last agent has ended.
    pub(crate) is_draining: bool,
    // Dropping it releases the spool.
    pub(crate) spool_lock: SpoolLock,
}

impl Daemon {
    /// Runs the event loop until a signal ends it.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut ready = Events::with_capacity(1024);
        let mut pause = Duration::ZERO;
        while !self.is_over() {
            let timeout = self.timeout();
            if timeout != Some(Duration::ZERO) {
                std::thread::sleep(pause);
            }
            match self.poll.poll(&mut ready, timeout) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            let woken = Instant::now();
            let (now, step) = self.clock.now();
            self.clients.process.clock_step = self.clock.noticed_step();
            if let Some(step) = step {
                self.spool_lock.store_clock(self.clock.started);
                self.core.handle(now, Event::ClockSet(step));
                self.intake.backlog.shift(step);
            }
            self.take_started_agents(now);
            self.handle_signals(now);
            self.resume_held_agents(now);
            let unread = std::mem::take(&mut self.unread_sources).into_iter();
            let events = ready.iter().map(|event| (event, EventSource::of(event.token())));
            for (event, source) in events.clone() {
                if let EventSource::Agent(agent) = source
                    && event.is_read_closed()
                {
                    self.agents.hung_up(agent);
                }
            }
            for source in unread.chain(events.map(|(_, source)| source)) {
                if self.read_source(now, source) {
                    self.unread_sources.push(source);
                }
                self.spool_io.send_reads();
            }
            self.run_timed_work(now);
            if !self.spool_io.is_writer_behind() {
                self.core.handle(now, Event::Tick);
            }
            self.execute_all(now);
            self.core.recorded.end_turn(now);
            let length = woken.elapsed();
            self.clients.process.longest_loop_turn =
                length.max(self.clients.process.longest_loop_turn);
            pause = (4 * length).min(MAX_PAUSE);
        }
        self.end()
    }

    /// Maximum time to wait for readiness, `None` without limit.
    fn timeout(&self) -> Option<Duration> {
        if !self.unread_sources.is_empty()
            || self.signals.are_pending()
            || self.clients.have_output()
            || self.has_output_to_compose()
        {
            return Some(Duration::ZERO);
        }
        let now = self.clock.estimate();
        // While the writer is behind, no time passes in the core. The writer wakes the loop.
        let is_behind = self.spool_io.is_writer_behind();
        let of_core = self.core.query().next_wakeup().filter(|_| !is_behind);
        let planned = [of_core, self.intake.next_wakeup(&self.read_budget())];
        let planned = planned.into_iter().flatten().map(|time| time.since(now));
        let open_again =
            self.next_open_attempt.map(|at| at.saturating_duration_since(Instant::now()));
        let others = [
            open_again,
            self.agents.until_deadline().filter(|left| !is_behind || !left.is_zero()),
            self.clients.until_timeout(),
            self.core.recorded.until_turn(),
            self.learned.until_next(self.core.query()),
            Some(self.until_log_check()),
        ];
        // The poll counts in milliseconds. Rounding up avoids a wake-up just before the time is
        // reached.
        let round_up = |wait: Duration| wait.saturating_add(Duration::from_millis(1));
        planned.chain(others.into_iter().flatten()).min().map(round_up)
    }

    /// Runs the work that time triggers rather than an event.
    fn run_timed_work(&mut self, now: Timestamp) {
        while let Some(name) = self.intake.next_retry(now) {
            self.spool_io.read_soon(name, None);
        }
        if !self.is_ending && self.intake.begin_scan(now) {
            self.spool_io.scan(self.scan_limits);
        }
        if self.intake.resume_scan() {
            self.spool_io.resume_scan();
        }
        self.request_backlog_reads(now);
        if self.is_loading && self.intake.is_complete() {
            self.end_loading(now);
        }
        if !self.spool_io.is_writer_behind() {
            self.end_orphaned_agents(now);
        }
        self.end_reload(now);
        self.end_config_check();
        self.agents.kill_closed_agents();
        self.open_sockets();
        self.check_log_rotation();
        self.serve_clients(now);
        self.core.update_subscribers(now);
        self.rendezvous.advance(self.core.query(), now);
        self.learned.advance(self.core.query(), &self.intake.backlog);
        self.release_memory();
    }

    /// Returns the memory of a large queue to the system when the last message has left.
    fn release_memory(&mut self) {
        let messages = self.core.query().view().loaded();
        self.had_many_messages |= messages >= MANY_MESSAGES;
        if messages == 0 && std::mem::take(&mut self.had_many_messages) {
            zsched_sys::release_free_memory();
        }
    }

    /// Requests backlog files to be read, as far as memory limits allow.
    fn request_backlog_reads(&mut self, now: Timestamp) {
        let (mut names, recipient_room) = (Vec::new(), self.core.query().view().recipient_room());
        while names.len() < MAX_BACKLOG_READS_PER_TURN
            && let room = ReadBudget::of(self.core.query(), recipient_room, &self.intake)
            && let Some(next) = self.intake.next_from_backlog(now, &room)
        {
            names.push(next);
        }
        if !names.is_empty() {
            self.spool_io.read(names);
        }
        let waiting = self.intake.blocked_kind(now, &self.read_budget());
        let reading = u32::try_from(self.intake.recipients_being_read()).unwrap_or(u32::MAX);
        if (waiting, reading) != self.core.query().view().backlog() {
            self.core.handle(now, Event::BacklogChanged { waiting, reading });
        }
    }

    fn read_budget(&self) -> ReadBudget {
        ReadBudget::of(self.core.query(), self.core.query().view().recipient_room(), &self.intake)
    }

    /// Passes overrides and learned state of the former scheduler to the core.
    ///
    /// Must come before any other event.
    pub(crate) fn restore_state(&mut self, now: Timestamp, overrides: Vec<OverrideChange>) {
        for order in overrides {
            self.core.handle(now, Event::Override(order));
        }
        let core = &mut self.core;
        self.learned.read(|learned| core.handle(now, Event::Learned(learned)));
    }

    /// True if a long output has more to be composed.
    fn has_output_to_compose(&self) -> bool {
        self.rendezvous.is_busy() || self.learned.is_busy()
    }

    fn is_over(&self) -> bool {
        self.is_ending || (self.is_draining && !self.core.query().view().has_agents())
    }

    /// Ends the scheduler after writing everything that was decided.
    ///
    /// Running agents finish the jobs they have. The locks in the control files keep a new
    /// scheduler from giving these jobs to other agents.
    fn end(mut self) -> io::Result<()> {
        service_manager::notify_stopping();
        let now = self.clock.estimate();
        self.execute_all(now);
        self.overrides.finish(&mut self.spool_io);
        self.learned.finish(self.core.query(), &self.intake.backlog);
        self.core.recorded.finish(now);
        self.spool_io.finish();
        for log in &self.other_logs {
            if !log.flush(self.timeouts.log_end) {
                let what = log.what();
                log::error!("the last lines of the {what} are lost: its disk does not answer");
            }
        }
        log::info!("ended");
        // The next scheduler starts when the lock of the spool is dropped.
        log_file::flush();
        Ok(())
    }
}
