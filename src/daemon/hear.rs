//! Reads each source of readiness. Each source has a share of a turn; what exceeds it is read in
//! the next turn.

use super::Daemon;
use super::agents::Heard;
use super::files::Done;
use super::listen;
use super::tokens::Source;
use super::watched::Watched;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Instant;
use zsched_core::intake::{Known, Verdict};
use zsched_core::{AgentId, Event, RereadResult, Scheduler};
use zsched_format::control_file::ControlFileError;
use zsched_format::time::Timestamp;
use zsched_spool::SpoolName;
use zsched_spool::load::LoadResult;

/// Maximum number of results of helper workers handled per turn.
const RESULTS_A_TURN: usize = 512;
/// Maximum number of notices of routers handled per turn.
const NOTICES_A_TURN: usize = 256;
/// Maximum number of connections accepted per turn.
const CONNECTIONS_A_TURN: usize = 64;
/// Reason why a name in `transport/` is not that of a control file.
const NO_NAME: &str = "names of control files begin with a number below 2^64, have no blanks, and are at \
                       most 48 bytes long; folders are at most two letters deep";
/// Error text for control files found while `queue/` is empty.
const NO_QUEUE: &str = "there are control files, but queue/ is empty: is it mounted? They stay, and are \
                        looked at again every minute";

impl Daemon {
    /// Reads a source. Returns true if it may have more.
    pub(super) fn hear(&mut self, now: Timestamp, source: Source) -> bool {
        match source {
            // Nothing to do: the loop checks for signals in each turn.
            Source::Signals => {}
            Source::Files => return self.take_results(now),
            Source::Notify => return self.take_notices(),
            Source::Listener(number) => return self.take_connections(number),
            // Reports of agents would add to what the writer has to do.
            Source::Agent(agent) if self.files.are_behind() => {
                self.unheard.insert(agent);
            }
            Source::Agent(agent) => return self.hear_agent(now, agent),
            Source::Client(number) => return self.clients.listen(number),
        }
        false
    }

    /// Resumes reading of agents once the writer has caught up.
    pub(super) fn hear_those_held_back(&mut self, now: Timestamp) {
        if self.files.are_behind() {
            return;
        }
        self.again.extend(std::mem::take(&mut self.unheard).into_iter().map(Source::Agent));
        if std::mem::take(&mut self.has_ends) {
            self.take_ends(now);
        }
    }

    fn hear_agent(&mut self, now: Timestamp, agent: AgentId) -> bool {
        self.agents.send(agent);
        let core = &mut self.core;
        self.agents.listen(agent, |heard| tell_core(core, now, agent, heard))
    }

    fn take_results(&mut self, now: Timestamp) -> bool {
        self.files.hear_bell();
        for _ in 0..RESULTS_A_TURN {
            match self.files.next_result() {
                Some(done) => self.take_result(now, done),
                None => return false,
            }
        }
        true
    }

    fn take_result(&mut self, now: Timestamp, done: Done) {
        match done {
            Done::Names(names) => self.sort_names(names),
            Done::ScanEnded(end) => {
                for error in &end.errors {
                    log::error!("a folder of the spool cannot be listed: {error}");
                }
                for name in &end.invalid_names {
                    if self.intake.passed_over(name) {
                        log::warn!("transport/{name} is passed over: {NO_NAME}");
                    }
                }
                let new = std::mem::take(&mut self.new_names).into_iter();
                self.files.read(new.map(|name| (name, None)).collect());
                self.intake.end_scan(now, end.truncated);
            }
            Done::Read(name, found) => self.take_file(now, name, *found),
            Done::ReadAgain(name, found) => self.take_again(now, &name, *found),
            Done::MoreRead(name, found) => {
                let outcome = self.take_reread(now, &name, *found);
                self.core.handle(now, Event::MoreRead { number: name.number(), outcome });
            }
            Done::Noted(ticket, outcome) => {
                let outcome = outcome.map_err(|error| error.kind());
                self.core.handle(now, Event::Noted { ticket, outcome });
            }
            Done::Removed(name, outcome) => self.removed(now, &name, outcome),
            Done::OrdersKept(outcome) => {
                if let Err(error) = &outcome {
                    log::error!("orders of operators cannot be stored: {error}; tried again");
                }
                for ticket in self.orders.kept() {
                    let outcome = outcome.as_ref().copied().map_err(io::Error::kind);
                    self.core.handle(now, Event::OverridesStored { ticket, outcome });
                }
            }
            Done::Changed { names, an_agent_ended } => self.take_changes(&names, an_agent_ended),
            Done::LocksNotCleared(name, error) => {
                log::error!("{name}: the locks of a dead agent cannot be cleared: {error}");
            }
        }
    }

    /// Picks the names that are new from those found by a scan.
    fn sort_names(&mut self, names: Vec<SpoolName>) {
        let mut new = 0;
        for name in names {
            let verdict = self.intake.found(&name, known(&self.core, &name));
            new += usize::from(verdict != Verdict::Known);
            if verdict == Verdict::Read {
                self.new_names.push(name);
            }
        }
        self.files.new_names(new);
    }

    fn take_file(&mut self, now: Timestamp, name: SpoolName, found: LoadResult) {
        self.intake.read(name.number());
        if !matches!(found, LoadResult::Locked(_)) {
            self.intake.unlocked(name.number());
        }
        let is_held =
            matches!(found, LoadResult::Locked(_) | LoadResult::Failed(_) | LoadResult::NoQueue);
        if !is_held && let Some((rested, wanted)) = self.intake.recall(name.number()) {
            self.core.handle(now, Event::Restored { number: name.number(), rested, wanted });
        }
        match found {
            LoadResult::Arrival(arrival) => self.core.handle(now, Event::Arrived(arrival)),
            LoadResult::Nothing => {}
            LoadResult::Locked(pid) => {
                let text =
                    format!("{name}: process {pid} holds a recipient of it; looked at again later");
                if self.intake.locked(now, name) {
                    log::info!("{text}");
                }
            }
            LoadResult::Failed(error) => {
                log::error!("{name}: the control file cannot be read: {error}");
                self.intake.failed(now, name);
            }
            LoadResult::NoQueue => {
                if self.intake.without_queue(now, name) {
                    log::error!("{NO_QUEUE}");
                }
            }
            LoadResult::Malformed { error, moved } => {
                self.take_malformed(now, &name, &error, moved)
            }
        }
    }

    fn take_malformed(
        &mut self,
        now: Timestamp,
        name: &SpoolName,
        error: &ControlFileError,
        moved: io::Result<PathBuf>,
    ) {
        match moved {
            Ok(path) => {
                log::error!("{name}: malformed control file, {error}; moved to {}", path.display());
            }
            Err(problem) => {
                log::error!("{name}: malformed control file, {error}; cannot be moved: {problem}");
                self.intake.refuse(now, name.number());
            }
        }
    }

    /// Handles changes of control files by agents of an earlier scheduler.
    ///
    /// It also handles the end of such an agent.
    fn take_changes(&mut self, names: &[SpoolName], an_agent_ended: bool) {
        let numbers = names.iter().map(SpoolName::number).collect();
        self.intake.look_at_locked((!an_agent_ended).then_some(&numbers));
        for name in names.iter().filter(|name| self.core.accepts_reread(name.number())) {
            self.files.read_again(name.clone());
        }
    }

    fn take_again(&mut self, now: Timestamp, name: &SpoolName, found: LoadResult) {
        let is_usable = matches!(found, LoadResult::Arrival(_) | LoadResult::Malformed { .. });
        let number = name.number();
        // A change the core did not request comes from an earlier scheduler's agent. The message
        // may be gone by now.
        let is_news = is_usable && self.core.accepts_reread(number);
        if !is_news && !self.core.is_reading_again(number) {
            return;
        }
        let outcome = self.take_reread(now, name, found);
        self.core.handle(now, Event::ReadAgain { number: name.number(), outcome });
    }

    fn take_reread(&mut self, now: Timestamp, name: &SpoolName, found: LoadResult) -> RereadResult {
        match found {
            LoadResult::Arrival(arrival) => RereadResult::Read(arrival),
            LoadResult::Nothing => RereadResult::Gone,
            LoadResult::Locked(_) => RereadResult::Failed(ErrorKind::WouldBlock),
            LoadResult::Failed(error) => RereadResult::Failed(error.kind()),
            LoadResult::NoQueue => {
                log::error!("{name}: {NO_QUEUE}");
                RereadResult::Failed(ErrorKind::NotFound)
            }
            LoadResult::Malformed { error, moved } => {
                self.take_malformed(now, name, &error, moved);
                RereadResult::Malformed(error)
            }
        }
    }

    fn removed(&mut self, now: Timestamp, name: &SpoolName, outcome: io::Result<Option<PathBuf>>) {
        if let Ok(Some(path)) = &outcome {
            log::warn!("{name}: finished, but somebody must hear of it: {}", path.display());
        }
        let number = name.number();
        let is_gone = outcome.is_ok();
        let outcome = outcome.map(drop).map_err(|error| error.kind());
        self.core.handle(now, Event::Removed { number, outcome });
        if is_gone && let Some(name) = self.intake.left(number) {
            self.files.read_soon(name, None);
        }
    }

    fn take_notices(&mut self) -> bool {
        for _ in 0..NOTICES_A_TURN {
            let Some(notice) = self.notify.as_ref().and_then(|socket| socket.receive()) else {
                return false;
            };
            let Some(name) = notice else {
                log::debug!("a notice names no control file");
                continue;
            };
            if self.intake.found(&name, known(&self.core, &name)) == Verdict::Read {
                self.files.read_soon(name, None);
            }
        }
        true
    }

    fn take_connections(&mut self, number: usize) -> bool {
        let token = |client| Source::Client(client).token();
        for _ in 0..CONNECTIONS_A_TURN {
            let Some((audience, listener)) = self.listeners.get(number) else {
                return false;
            };
            let (accepted, audience) = (listener.accept(), *audience);
            let welcomed = match accepted {
                Ok(None) => return false,
                Ok(Some(stream)) => {
                    self.clients.welcome(stream, audience, self.poll.registry(), token)
                }
                Err(error) if listen::concerns_one_client(&error) => continue,
                Err(error) => {
                    // The usual cause is a lack of descriptors. The client stays in the listen
                    // queue.
                    log::error!("no MAILQ client can be taken in: {error}");
                    self.open_again = Some(Instant::now() + self.timeouts.failed_open);
                    return false;
                }
            };
            if let Err(error) = welcomed
                && let Some(more) = self.turned_away.occasion(Instant::now())
            {
                log::warn!("a MAILQ client was turned away: {error}{more}");
            }
        }
        true
    }
}

/// Passes what an agent wrote to the core.
pub fn tell_core(core: &mut Watched, now: Timestamp, agent: AgentId, heard: Heard<'_>) {
    match heard {
        Heard::Line(line) => core.handle(now, Event::AgentSaid { agent, line }),
        Heard::TooLong(bytes) => core.handle(now, Event::LineSkipped { agent, bytes }),
    }
}

fn known(core: &Scheduler, name: &SpoolName) -> Known {
    match core.is_being_removed(name.number()) {
        None => Known::No,
        Some(false) => Known::Queued,
        Some(true) => Known::Leaving,
    }
}
