//! The shell around the core: turns readiness into events, and actions into system calls.
//!
//! The event loop in this file runs in one worker. Helper workers ([`files`]) do what may block on
//! a disk. The shell makes no scheduling decision.
//!
//! | file | what |
//! |---|---|
//! | [`start`], [`quick_start`] | from the command line to a running loop |
//! | this one | the loop |
//! | [`hear`], [`signals`] | reading each source of readiness |
//! | [`reload`], [`account_names`] | reading the configuration again, with users and groups |
//! | [`perform`] | carrying out actions of the core |
//! | [`agents`], [`lines`], [`outbox`] | agent processes and the bytes exchanged with them |
//! | [`files`], [`intake`] | helper workers for the spool, and which control files they read |
//! | [`clients`], [`accounts`] | MAILQ clients, and their logins |
//! | [`inquiries`] | lookups on disk for MAILQ clients |
//! | [`listen`], [`rendezvous`] | all sockets; the dump on SIGUSR2 |
//! | [`status_log`] | composing and appending the lines of the status log |
//! | [`watched`] | the core, with its event feed for subscribers |
//! | [`worker`] | start of workers, and panics in them |
//! | [`seldom`] | limiter for repeated log lines |
//! | [`spool_lock`] | lock of one scheduler on the spool, and the pid file |
//! | [`rotation`] | reopening logs that were renamed |
//! | [`timeouts`] | timeouts and retry intervals of the shell |
//! | [`learned`], [`orders`] | files with learned state, and with overrides of operators |
//! | [`options`], [`logs`], [`tokens`] | command line, log files, mio tokens |

mod account_names;
mod accounts;
mod agents;
mod check;
mod clients;
mod clock;
mod files;
mod hear;
mod inquiries;
mod learned;
mod listen;
mod logs;
mod options;
mod orders;
mod outbox;
mod perform;
mod pieces;
mod quick_start;
mod reload;
mod rendezvous;
mod rotation;
mod seldom;
mod signals;
mod spool_lock;
mod start;
mod status_log;
mod timeouts;
mod tokens;
mod unfinished;
mod watched;
mod worker;

pub use options::Options;
pub use start::main;

use agents::AgentProcesses;
use clients::Clients;
use clock::Clock;
use files::Files;
use inquiries::Inquiries;
use learned::LearnedFile;
use listen::{Audience, Listener, MailqPlace, NotifySocket};
use logs::{LogFile, StatisticsLog};
use mio::{Events, Poll, Waker};
use orders::OrdersFile;
use reload::Reloads;
use rendezvous::Rendezvous;
use seldom::Seldom;
use spool_lock::SpoolLock;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use timeouts::Timeouts;
use tokens::Source;
use watched::Watched;
use zsched_config::{Config, ConfigContext};
use zsched_core::intake::{Intake, Room};
use zsched_core::overrides::Override;
use zsched_core::{AgentId, Event};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolName;
use zsched_spool::scan::ScanLimits;
use zsched_sys::Signals;

/// Maximum number of backlog files requested from the reader per turn.
const READ_A_TURN: usize = 256;

/// A running scheduler.
pub struct Daemon {
    poll: Poll,
    /// Wakes the loop from a worker.
    waker: Arc<Waker>,
    clock: Clock,
    core: Watched,
    signals: Signals,
    files: Files,
    intake: Intake,
    agents: AgentProcesses,
    clients: Clients,
    inquiries: Inquiries,
    listeners: Vec<(Audience, Listener)>,
    /// MAILQ addresses not bound yet; `None` before the first attempt.
    mailq_missing: Option<Vec<MailqPlace>>,
    notify: Option<NotifySocket>,
    notify_path: PathBuf,
    control_path: PathBuf,
    /// Next attempt to open sockets that could not be opened.
    open_again: Option<Instant>,
    /// Readings of the configuration that are requested or under way.
    reloads: Reloads,
    /// Sources with more input than their share of the last turn.
    again: Vec<Source>,
    /// Agents with unread output, read once the writer has caught up.
    unheard: BTreeSet<AgentId>,
    /// True if ended processes wait until the writer has caught up.
    has_ends: bool,
    /// Names of new control files found by the current scan.
    new_names: Vec<SpoolName>,
    scan_limits: ScanLimits,
    timeouts: Timeouts,
    /// True until the mail found at the start is loaded.
    is_loading: bool,
    /// Log level to set when loading is complete.
    level_after_load: log::LevelFilter,
    config_path: PathBuf,
    context: ConfigContext,
    config: Rc<Config>,
    log_file: Option<LogFile>,
    statistics: Option<StatisticsLog>,
    /// Time of the next check for renamed log files.
    look_at_logs: Instant,
    rendezvous: Rendezvous,
    learned: LearnedFile,
    orders: OrdersFile,
    /// Limiter for log lines about rejected clients.
    turned_away: Seldom,
    is_foreground: bool,
    /// True once a signal has requested an immediate end.
    is_ending: bool,
    /// True if the scheduler ends once its last agent has ended.
    is_draining: bool,
    // Dropping it releases the spool.
    spool_lock: SpoolLock,
}

impl Daemon {
    /// Runs the event loop until a signal ends it.
    pub fn run(mut self) -> io::Result<()> {
        let mut ready = Events::with_capacity(1024);
        while !self.is_over() {
            match self.poll.poll(&mut ready, self.timeout()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            let (now, step) = self.clock.now();
            if let Some(step) = step {
                self.spool_lock.keep_clock(self.clock.started());
                self.core.handle(now, Event::ClockSet(step));
                self.intake.shift(step);
            }
            self.take_signals(now);
            self.hear_those_held_back(now);
            let unheard = std::mem::take(&mut self.again).into_iter();
            for source in unheard.chain(ready.iter().map(|event| Source::of(event.token()))) {
                if self.hear(now, source) {
                    self.again.push(source);
                }
            }
            self.remove_closed(now);
            if !self.files.are_behind() {
                self.core.handle(now, Event::Tick);
            }
            self.perform_all(now);
            self.core.end_turn(now);
        }
        self.end()
    }

    /// Maximum time to wait for readiness, `None` without limit.
    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty()
            || self.signals.are_pending()
            || self.clients.have_room()
            || self.is_writing()
        {
            return Some(Duration::ZERO);
        }
        let now = self.clock.estimate();
        // While the writer is behind, no time passes in the core. The writer wakes the loop.
        let is_behind = self.files.are_behind();
        let of_core = self.core.next_wakeup().filter(|_| !is_behind);
        let planned = [of_core, self.intake.next_wakeup(&self.room())];
        let planned = planned.into_iter().flatten().map(|time| time.since(now));
        let open_again = self.open_again.map(|at| at.saturating_duration_since(Instant::now()));
        let others = [
            open_again,
            self.agents.until_silent().filter(|left| !is_behind || !left.is_zero()),
            self.clients.until_timeout(),
            self.core.until_turn(),
            self.learned.until_next(&self.core),
            Some(self.until_look()),
        ];
        // The poll counts in milliseconds. Rounding up avoids a wake-up just before the time is
        // reached.
        let round_up = |wait: Duration| wait.saturating_add(Duration::from_millis(1));
        planned.chain(others.into_iter().flatten()).min().map(round_up)
    }

    /// Runs the work that time triggers rather than an event.
    fn remove_closed(&mut self, now: Timestamp) {
        while let Some(name) = self.intake.next_held(now) {
            self.files.read_soon(name, None);
        }
        if !self.is_ending && self.intake.begin_scan(now) {
            self.files.scan(self.scan_limits);
        }
        self.fill_up(now);
        if self.is_loading && self.intake.is_settled() {
            self.end_loading(now);
        }
        if !self.files.are_behind() {
            self.take_late_ends(now);
        }
        self.end_reload(now);
        self.agents.kill_the_silent();
        self.open_missing_sockets();
        self.look_at_logs();
        self.serve_clients(now);
        self.core.remove_closed(now);
        self.rendezvous.write_on(&self.core, now);
        self.learned.write_on(&self.core, &self.intake);
    }

    /// Requests backlog files to be read, as far as memory limits allow.
    fn fill_up(&mut self, now: Timestamp) {
        let (mut names, capacity) = (Vec::new(), self.core.capacity());
        while names.len() < READ_A_TURN
            && let room = Room::of(&self.core, capacity, &self.intake)
            && let Some(next) = self.intake.next_outside(now, &room)
        {
            names.push(next);
        }
        if !names.is_empty() {
            self.files.read(names);
        }
        let crowd = self.intake.crowd(now, &self.room());
        let reading = u32::try_from(self.intake.under_way()).unwrap_or(u32::MAX);
        if (crowd, reading) != self.core.backlog() {
            self.core.handle(now, Event::BacklogChanged { crowd, reading });
        }
    }

    fn room(&self) -> Room {
        Room::of(&self.core, self.core.capacity(), &self.intake)
    }

    /// Passes overrides and learned state of the former scheduler to the core.
    ///
    /// Must come before any other event.
    fn recall(&mut self, now: Timestamp, orders: Vec<Override>) {
        for order in orders {
            self.core.handle(now, Event::Override(order));
        }
        let core = &mut self.core;
        self.learned.read(|learned| core.handle(now, Event::Learned(learned)));
    }

    /// True if a long output has more to be composed.
    fn is_writing(&self) -> bool {
        self.rendezvous.is_busy() || self.learned.is_busy()
    }

    fn is_over(&self) -> bool {
        self.is_ending || (self.is_draining && !self.core.has_agents())
    }

    /// Ends the scheduler after writing everything that was decided.
    ///
    /// Running agents finish the jobs they have. The locks in the control files keep a new
    /// scheduler from giving these jobs to other agents.
    fn end(mut self) -> io::Result<()> {
        let now = self.clock.estimate();
        self.perform_all(now);
        self.orders.finish(&mut self.files);
        self.learned.finish(&self.core, &self.intake);
        self.core.finish(now);
        self.files.finish();
        log::info!("ended");
        Ok(())
    }
}
