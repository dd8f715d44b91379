//! The shell around the core: it turns readiness into events, and actions into system calls.
//!
//! One OS thread runs the loop in this file; a few helper threads ([`files`]) do what may block on a
//! disk. No decision is made here.
//!
//! | file | what |
//! |---|---|
//! | [`start`], [`quick_start`] | from the command line to a running loop |
//! | this one | the loop |
//! | [`hear`], [`signals`] | each source of readiness, listened to |
//! | [`reload`], [`account_names`] | the configuration, read again by a worker; the users and groups it names |
//! | [`perform`] | each action, carried out |
//! | [`agents`], [`lines`], [`outbox`] | agent processes and the bytes exchanged with them |
//! | [`files`], [`intake`] | the helper threads, and which control files they are to read |
//! | [`clients`], [`accounts`], [`inquiries`] | MAILQ clients; who may log in; what they ask for that is on a disk |
//! | [`listen`], [`rendezvous`] | all sockets; the dump on SIGUSR2 |
//! | [`status_log`] | the lines of the status log, and who writes them |
//! | [`watched`] | the core, and those who want to know what happens |
//! | [`worker`] | helper threads: their start, and a panic in one |
//! | [`seldom`] | log lines that would come too often |
//! | [`spool_lock`] | which scheduler runs on the spool, and the pid file |
//! | [`rotation`] | logs that were renamed |
//! | [`timeouts`] | when the shell gives up waiting, or tries again |
//! | [`options`], [`logs`], [`tokens`] | what their names say |

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
use zsched_config::{Config, Context};
use zsched_core::intake::{Intake, Room};
use zsched_core::standing::Standing;
use zsched_core::{AgentId, Event};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolName;
use zsched_spool::scan::ScanLimits;
use zsched_sys::Signals;

/// So many files that waited for room are asked for in one turn.
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
    /// Where MAILQ is still to be served; `None` before the first try.
    mailq_missing: Option<Vec<MailqPlace>>,
    notify: Option<NotifySocket>,
    notify_path: PathBuf,
    control_path: PathBuf,
    /// When to try again to open what could not be opened.
    open_again: Option<Instant>,
    /// Readings of the configuration.
    reloads: Reloads,
    /// Sources that had more to give than their share of the last turn.
    again: Vec<Source>,
    /// Agents that are heard when the writer has caught up.
    unheard: BTreeSet<AgentId>,
    /// Ends of agents are looked for then, too.
    has_ends: bool,
    /// Names of new control files that the present scan has come upon.
    new_names: Vec<SpoolName>,
    scan_limits: ScanLimits,
    timeouts: Timeouts,
    /// What was there at the start is not loaded yet.
    is_loading: bool,
    /// How much is logged once it is.
    level_after_load: log::LevelFilter,
    config_path: PathBuf,
    context: Context,
    config: Rc<Config>,
    log_file: Option<LogFile>,
    statistics: Option<StatisticsLog>,
    /// When to look whether their names lead elsewhere.
    look_at_logs: Instant,
    rendezvous: Rendezvous,
    learned: LearnedFile,
    orders: OrdersFile,
    /// Clients that were turned away.
    turned_away: Seldom,
    is_foreground: bool,
    /// A signal has asked for the end.
    is_ending: bool,
    /// The end is to come when the last agent has ended.
    is_draining: bool,
    // It gives the spool back when it is dropped.
    spool_lock: SpoolLock,
}

impl Daemon {
    /// Runs until a signal ends it.
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
            self.look_around(now);
            if !self.files.are_behind() {
                self.core.handle(now, Event::Tick);
            }
            self.perform_all(now);
            self.core.end_turn(now);
        }
        self.end()
    }

    /// How long to wait, if nothing happens.
    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty()
            || self.signals.are_pending()
            || self.clients.have_room()
            || self.is_writing()
        {
            return Some(Duration::ZERO);
        }
        let now = self.clock.estimate();
        // While the writer is behind, no time passes in the core; the writer wakes the loop.
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
        // The poll counts in milliseconds; it shall not wake up just before the time has come.
        let round_up = |wait: Duration| wait.saturating_add(Duration::from_millis(1));
        planned.chain(others.into_iter().flatten()).min().map(round_up)
    }

    /// What is not announced by an event, but by time.
    fn look_around(&mut self, now: Timestamp) {
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
        self.core.look_around(now);
        self.rendezvous.write_on(&self.core, now);
        self.learned.write_on(&self.core, &self.intake);
    }

    /// Has files read that wait for room in memory, as far as there is room now.
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
        if (crowd, reading) != self.core.outside() {
            self.core.handle(now, Event::Outside { crowd, reading });
        }
    }

    fn room(&self) -> Room {
        Room::of(&self.core, self.core.capacity(), &self.intake)
    }

    /// Tells the core what the former scheduler has learned, and what it was ordered. Before anything else.
    fn recall(&mut self, now: Timestamp, orders: Vec<Standing>) {
        for order in orders {
            self.core.handle(now, Event::Standing(order));
        }
        let core = &mut self.core;
        self.learned.read(|learned| core.handle(now, Event::Learned(learned)));
    }

    /// Whether more of something long can be put together.
    fn is_writing(&self) -> bool {
        self.rendezvous.is_busy() || self.learned.is_busy()
    }

    fn is_over(&self) -> bool {
        self.is_ending || (self.is_draining && !self.core.has_agents())
    }

    /// Ends, with everything written that was decided. Agents are left to themselves: they finish the
    /// jobs they have, and the locks in the control files keep a new scheduler off these.
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
