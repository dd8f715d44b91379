//! A simulated transport agent: a process connected to the scheduler by a socket.
//!
//! It locks and marks recipients in control files as a real agent does.

use super::disk::Disk;
use super::faults::{AgentFaults, Death, Fault};
use super::hosts::{ConnectResult, HostId, Hosts};
use super::observer::{SimTime, SimulationObserver};
use super::recorded::RecordedOutcome;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::job_recipients::{IndexedControlFile, Scope, tag_now};

use zsched_core::{AgentEnd, AgentId};
use zsched_format::agent_protocol::{
    AgentCommand, AgentLine, HUNGRY, Offsets, RESYNC, RecipientReport, ReportStatus,
};
use zsched_format::control_file::{Recipient, Tag, mark};
use zsched_format::line_buffer::LineBuffer;
use zsched_spool::SpoolName;
use zsched_spool::memory_file::MemoryFile;
use zsched_spool::note::{self, OutcomeKind, OutcomeNote};

/// The signal that kills agents: SIGKILL.
const KILL_SIGNAL: i32 = 9;
/// Maximum time from now that `retryat` asks for, in seconds.
const MAX_RETRY_SECONDS: u32 = 600;

/// A simulated agent.
pub(crate) struct Agent {
    /// Its process id.
    pub pid: u32,
    /// The life of the scheduler that started it.
    pub life: u64,
    /// Its id in that scheduler.
    pub id: AgentId,
    /// Its output that has not been read.
    pub outbox: Vec<u8>,
    /// The scheduler's side: output that has been read, split into lines.
    pub lines: LineBuffer,
    /// True if reading `outbox` is planned.
    pub is_read_planned: bool,
    /// True if its next turn is planned.
    pub is_planned: bool,
    /// Its exit status, once it has ended.
    pub end: Option<AgentEnd>,
    inbox: VecDeque<Box<[u8]>>,
    /// True if the scheduler has closed the connection, so there will be no more orders.
    hung_up: bool,
    /// True if it ends after the current recipient.
    quits: bool,
    state: State,
    scope: Scope,
    connection: Option<HostId>,
    style: Style,
}

/// The working style of an agent. All variants are correct.
#[derive(Clone, Copy)]
struct Style {
    /// True if it writes tags before it reports.
    marks_first: bool,
    /// True if it writes diagnostics itself (`error2`).
    notes: bool,
    /// True if it locks each recipient in turn, instead of all at once.
    ///
    /// zsched's agents lock each in turn.
    locks_each: bool,
}

enum State {
    Starting,
    Waiting,
    Working(Box<Work>),
    Repeating(Box<RecordedWork>),
}

/// The current job.
struct Work {
    name: SpoolName,
    file: Rc<MemoryFile>,
    parsed: Rc<IndexedControlFile>,
    /// The open recipients. The first is locked, or all if the agent locks all at once.
    open: Vec<Recipient>,
    host: HostId,
    /// The reason why there is no connection, if there is none.
    refusal: Option<&'static str>,
    fault: Fault,
}

/// The current job, if its outcomes are those of a recording.
struct RecordedWork {
    number: u64,
    file: Rc<MemoryFile>,
    parsed: Rc<IndexedControlFile>,
    /// The recipients whose attempts have not begun. All are locked.
    left: VecDeque<Recipient>,
    /// The present attempt; `None` when all are over.
    attempt: Option<(Recipient, RecordedOutcome)>,
}

/// The time of an agent's next turn.
pub(crate) enum NextTurn {
    /// After some time.
    After(Duration),
    /// When it receives an order.
    OnOrder,
    /// Never, since it has ended.
    Ended(AgentEnd),
}

/// The environment of an agent.
pub(crate) struct AgentEnvironment<'a> {
    /// The present time.
    pub at: SimTime,
    /// The spool.
    pub disk: &'a mut Disk,
    /// The hosts.
    pub hosts: &'a mut Hosts,
    /// The source of randomness.
    pub random: &'a mut fastrand::Rng,
    /// The faults of agents.
    pub agent_faults: &'a AgentFaults,
    /// The observer.
    pub observer: &'a mut dyn SimulationObserver,
}

/// The result of a delivery.
enum Outcome {
    Delivered,
    Failed,
    Deferred(&'static str),
}

impl Agent {
    /// The number of the message that it works on.
    pub(crate) fn message(&self) -> Option<u64> {
        match &self.state {
            State::Working(work) => Some(work.name.number()),
            State::Repeating(work) => Some(work.number),
            State::Starting | State::Waiting => None,
        }
    }

    /// Creates a started process, for a channel and optionally for one host.
    pub(crate) fn new(
        pid: u32,
        life: u64,
        id: AgentId,
        scope: Scope,
        random: &mut fastrand::Rng,
    ) -> Agent {
        Agent {
            pid,
            life,
            id,
            outbox: Vec::new(),
            lines: LineBuffer::default(),
            is_read_planned: false,
            is_planned: false,
            end: None,
            inbox: VecDeque::new(),
            hung_up: false,
            quits: false,
            state: State::Starting,
            scope,
            connection: None,
            style: Style {
                marks_first: random.bool(),
                notes: random.bool(),
                locks_each: random.bool(),
            },
        }
    }

    /// Receives a line from the scheduler. Returns true if it was waiting for that.
    pub(crate) fn send(&mut self, text: &[u8]) -> bool {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        self.inbox.push_back(text.into());
        matches!(self.state, State::Waiting)
    }

    /// The scheduler closes the connection. Returns true if the agent was waiting for orders.
    ///
    /// With `quits`, it ends after the current recipient.
    pub(crate) fn hang_up(&mut self, quits: bool) -> bool {
        self.hung_up = true;
        self.quits |= quits;
        matches!(self.state, State::Waiting)
    }

    /// Continues its work.
    pub(crate) fn step(&mut self, around: &mut AgentEnvironment<'_>) -> NextTurn {
        match std::mem::replace(&mut self.state, State::Waiting) {
            State::Starting => {
                if around.random.f64() < around.agent_faults.dies_at_start {
                    return self.ends(around, AgentEnd::Exited(78));
                }
                self.write_line(HUNGRY);
                self.follow_orders(around)
            }
            State::Waiting => self.follow_orders(around),
            State::Working(work) => match self.finish(&work, around) {
                Some(end) => self.ends(around, end),
                None => self.follow_orders(around),
            },
            State::Repeating(work) => self.repeat(work, around),
        }
    }

    fn ends(&mut self, around: &mut AgentEnvironment<'_>, end: AgentEnd) -> NextTurn {
        self.disconnect(around);
        NextTurn::Ended(end)
    }

    fn write_line(&mut self, line: &str) {
        self.outbox.extend_from_slice(line.as_bytes());
        self.outbox.push(b'\n');
    }

    fn write_resync(&mut self, path: impl fmt::Display) {
        self.write_line(&format!("{RESYNC} {path}"));
    }

    fn follow_orders(&mut self, around: &mut AgentEnvironment<'_>) -> NextTurn {
        loop {
            if self.quits {
                return self.ends(around, AgentEnd::Exited(0));
            }
            let Some(line) = self.inbox.pop_front() else {
                if self.hung_up {
                    return self.ends(around, AgentEnd::Exited(0));
                }
                return NextTurn::OnOrder;
            };
            match AgentCommand::parse(&line) {
                AgentCommand::Exit => return self.ends(around, AgentEnd::Exited(0)),
                AgentCommand::Idle => {
                    self.disconnect(around);
                    self.write_line(HUNGRY);
                }
                AgentCommand::Job { path, host, only } => {
                    if let Some(next) = self.begin((path, host, only), around) {
                        return next;
                    }
                    self.write_line(HUNGRY);
                }
            }
        }
    }

    /// Begins a job. Returns `None` if it is over at once.
    fn begin(
        &mut self,
        (path, host, only): (&[u8], Option<&[u8]>, Option<Offsets<'_>>),
        around: &mut AgentEnvironment<'_>,
    ) -> Option<NextTurn> {
        let fault = around.agent_faults.draw_fault(around.random);
        if fault == Fault::Death(Death::Unlocked) {
            return Some(self.ends(around, AgentEnd::Signalled(KILL_SIGNAL)));
        }
        let Some((name, file, parsed)) = open(path, around.disk) else {
            self.write_resync(String::from_utf8_lossy(path));
            return None;
        };
        let mut open = parsed.select(&self.scope, host, only, |r| tag_now(&*file, r));
        match self.style.locks_each && around.hosts.recorded.is_none() {
            true => {
                let first = open.iter().position(|recipient| self.lock(&file, recipient));
                open.drain(..first.unwrap_or(open.len()));
            }
            false => open.retain(|recipient| self.lock(&file, recipient)),
        }
        let Some(first) = open.first() else {
            self.write_resync(String::from_utf8_lossy(path));
            return None;
        };
        if around.hosts.recorded.is_some() {
            let (number, left) = (name.number(), open.into());
            let work = RecordedWork { number, file, parsed, left, attempt: None };
            return Some(self.next_attempt(Box::new(work), around));
        }
        let host = parsed.control.get(first.quad.host).to_ascii_lowercase();
        let host = around.hosts.find(&host);
        let (wait, refusal) = self.connect(host, around);
        self.state =
            State::Working(Box::new(Work { name, file, parsed, open, host, refusal, fault }));
        if fault == Fault::Death(Death::Locked) {
            return Some(self.ends(around, AgentEnd::Signalled(KILL_SIGNAL)));
        }
        let stalls =
            around.agent_faults.stalls > 0.0 && around.random.f64() < around.agent_faults.stalls;
        let stall = if stalls { around.agent_faults.stall } else { Duration::ZERO };
        Some(NextTurn::After(wait + stall))
    }

    /// Locks a recipient. Returns true on success.
    fn lock(&self, file: &MemoryFile, recipient: &Recipient) -> bool {
        let (offset, pid) = (recipient.offset, self.pid);
        mark::change_tag(file, offset, Tag::Pending, Tag::Locked, pid).unwrap_or(false)
    }

    /// Connects to a host. Returns the duration of the job, or the reason why there is no
    /// connection.
    fn connect(
        &mut self,
        host: HostId,
        around: &mut AgentEnvironment<'_>,
    ) -> (Duration, Option<&'static str>) {
        let nature = around.hosts.behaviour(host);
        let keeps = nature.keeps_connections;
        let share = if nature.spread.is_zero() { 0.0 } else { around.random.f64() };
        let duration = nature.latency + nature.spread.mul_f64(share);
        if self.connection == Some(host) {
            return (duration, None);
        }
        self.disconnect(around);
        match around.hosts.connect(around.at.now, host, duration) {
            ConnectResult::Open(wait) => {
                self.connection = keeps.then_some(host);
                (wait + duration, None)
            }
            ConnectResult::Full(wait) => (wait, Some("421 too many connections")),
            ConnectResult::Down(wait) => (wait, Some("cannot connect")),
        }
    }

    /// Closes its connection to a host, as its end does.
    pub(crate) fn disconnect(&mut self, around: &mut AgentEnvironment<'_>) {
        if let Some(host) = self.connection.take() {
            around.hosts.disconnect(host);
        }
    }

    /// Ends a job, unless the agent dies during it.
    fn finish(&mut self, work: &Work, around: &mut AgentEnvironment<'_>) -> Option<AgentEnd> {
        let refusal = match work.refusal {
            None if around.hosts.behaviour(work.host).outage(around.at.now).is_some() => {
                self.disconnect(around);
                Some("lost connection")
            }
            other => other,
        };
        let fatal = around.random.usize(0..work.open.len());
        let stops_at = (self.quits || work.fault == Fault::Stop).then_some(fatal);
        let mut taken_by_others = false;
        for (index, recipient) in work.open.iter().enumerate() {
            if stops_at == Some(index) {
                let locked = match self.style.locks_each {
                    true if index > 0 => &[],
                    true => &work.open[..1],
                    false => &work.open[index..],
                };
                return Some(stop(&work.file, locked));
            }
            if index > 0 && self.style.locks_each && !self.lock(&work.file, recipient) {
                taken_by_others = true;
                continue;
            }
            let outcome = match refusal {
                Some(reason) => Outcome::Deferred(reason),
                None => drawn_outcome(work, around),
            };
            if matches!(outcome, Outcome::Delivered) {
                around.observer.accepted(around.at, &work.file, recipient.offset);
            }
            let death = match work.fault {
                Fault::Death(death) if index == fatal => Some(death),
                _ => None,
            };
            if self.conclude(work, recipient, &outcome, refusal.is_some(), death, around) {
                return Some(AgentEnd::Signalled(KILL_SIGNAL));
            }
        }
        if work.fault == Fault::Death(Death::Reported) {
            return Some(AgentEnd::Exited(1));
        }
        if taken_by_others {
            self.write_resync(&work.name);
        }
        self.misbehave(work, around);
        self.write_line(HUNGRY);
        None
    }

    /// Ends the present attempt of a recorded job, and begins the next one.
    fn repeat(
        &mut self,
        mut work: Box<RecordedWork>,
        around: &mut AgentEnvironment<'_>,
    ) -> NextTurn {
        let (recipient, text) = match work.attempt.take() {
            Some((recipient, RecordedOutcome::Report(text))) => (recipient, text),
            Some((_, RecordedOutcome::Death(end))) => return self.ends(around, end),
            None => {
                self.write_line(HUNGRY);
                return self.follow_orders(around);
            }
        };
        let mut line = format!("{}/{}\t", work.number, recipient.offset).into_bytes();
        line.extend_from_slice(&text);
        let tag = match AgentLine::parse(&line) {
            AgentLine::Report(report) => report.status.tag(),
            _ => Tag::Pending,
        };
        line.push(b'\n');
        self.outbox.extend_from_slice(&line);
        mark::change_tag(&*work.file, recipient.offset, Tag::Locked, tag, 0).ok();
        if self.quits {
            let end = stop(&work.file, work.left.make_contiguous());
            return self.ends(around, end);
        }
        self.next_attempt(work, around)
    }

    /// Begins the next attempt of a recorded job.
    fn next_attempt(
        &mut self,
        mut work: Box<RecordedWork>,
        around: &mut AgentEnvironment<'_>,
    ) -> NextTurn {
        let Some(recorded) = &mut around.hosts.recorded else {
            return NextTurn::OnOrder;
        };
        let mut took = recorded.after_job.value();
        work.attempt = work.left.pop_front().map(|recipient| {
            let address = work.parsed.control.get(recipient.quad.user);
            let address = std::str::from_utf8(address).ok().and_then(|text| text.parse().ok());
            let attempt = recorded.next(work.number, address);
            took = attempt.took;
            (recipient, attempt.outcome)
        });
        self.state = State::Repeating(work);
        NextTurn::After(took)
    }

    /// Notes, reports and marks a recipient. Returns true if the agent dies meanwhile.
    fn conclude(
        &mut self,
        work: &Work,
        recipient: &Recipient,
        outcome: &Outcome,
        is_host_down: bool,
        death: Option<Death>,
        around: &mut AgentEnvironment<'_>,
    ) -> bool {
        let offset = recipient.offset;
        let abandon = |around: &mut AgentEnvironment<'_>, is_marked: bool| {
            let secret = matches!(outcome, Outcome::Delivered) && !is_marked;
            around.observer.abandoned(around.at, &work.file, offset, secret);
            true
        };
        if death == Some(Death::Delivered) {
            return abandon(around, false);
        }
        let status = match outcome {
            Outcome::Delivered => match self.note(work, offset, OutcomeKind::Success, around) {
                Some(Ok(true)) => ReportStatus::Ok2,
                Some(Ok(false)) => ReportStatus::Ok3,
                None | Some(Err(_)) => ReportStatus::Ok,
            },
            Outcome::Failed => match self.note(work, offset, OutcomeKind::Failure, around) {
                Some(Ok(_)) => ReportStatus::Error2,
                None => ReportStatus::Error,
                Some(Err(_)) => ReportStatus::Deferred,
            },
            Outcome::Deferred(_) => self.deferral(work, is_host_down, around),
        };
        let tag = status.tag();
        around.observer.concluded(around.at, &work.file, offset, status);
        let marks = |file: &MemoryFile| {
            // Another process may have changed it, of which a real agent only warns.
            mark::change_tag(file, offset, Tag::Locked, tag, 0).ok();
        };
        if self.style.marks_first {
            marks(&work.file);
        }
        if death == Some(Death::Half) {
            if !self.style.marks_first {
                self.report(work, offset, status, outcome, around);
            }
            return abandon(around, self.style.marks_first);
        }
        if work.fault == Fault::Silence && tag == Tag::Pending {
            marks(&work.file);
            return false;
        }
        self.report(work, offset, status, outcome, around);
        if work.fault == Fault::Repetition {
            self.report(work, offset, status, outcome, around);
        }
        if !self.style.marks_first {
            marks(&work.file);
        }
        false
    }

    /// Writes a diagnostic, if the agent does that at all.
    ///
    /// Returns false if none is requested.
    fn note(
        &self,
        work: &Work,
        offset: u32,
        occasion: OutcomeKind,
        around: &mut AgentEnvironment<'_>,
    ) -> Option<io::Result<bool>> {
        if !self.style.notes {
            return None;
        }
        let outcome = OutcomeNote {
            offsets: &[offset],
            occasion,
            time: around.at.wall,
            notary: notary(occasion),
            message: b"of the agent",
        };
        let lines = note::lines(&work.parsed.control, &outcome);
        if lines.is_empty() {
            return Some(Ok(false));
        }
        Some(around.disk.append(&work.file, &lines).map(|()| true))
    }

    /// The status word of a deferral.
    fn deferral(
        &self,
        work: &Work,
        is_host_down: bool,
        around: &mut AgentEnvironment<'_>,
    ) -> ReportStatus {
        if around.random.f64() < around.agent_faults.retry_at {
            return ReportStatus::RetryAt;
        }
        if work.fault == Fault::DeferAll {
            return ReportStatus::DeferAll;
        }
        let only_deferred = around.agent_faults.only_deferred;
        let says_all = only_deferred == 0.0 || around.random.f64() >= only_deferred;
        if is_host_down && says_all { ReportStatus::DeferAll } else { ReportStatus::Deferred }
    }

    fn report(
        &mut self,
        work: &Work,
        offset: u32,
        status: ReportStatus,
        outcome: &Outcome,
        around: &mut AgentEnvironment<'_>,
    ) {
        let text = match outcome {
            Outcome::Delivered => "250 taken",
            Outcome::Failed => "550 no such user",
            Outcome::Deferred(reason) => reason,
        };
        let message = match status {
            ReportStatus::RetryAt => format!("{} {text}", around.random.u32(0..MAX_RETRY_SECONDS)),
            _ => String::new(),
        };
        let message = if message.is_empty() { text.as_bytes() } else { message.as_bytes() };
        let notary = match status {
            ReportStatus::Ok => notary(OutcomeKind::Success),
            ReportStatus::Error => notary(OutcomeKind::Failure),
            ReportStatus::Deferred
                if around.agent_faults.only_deferred > 0.0 && around.random.bool() =>
            {
                // The reasons of recipients begin with a code, those of hosts do not.
                let is_of_host =
                    matches!(outcome, Outcome::Deferred(reason) if !reason.starts_with("45"));
                if is_of_host { NO_ANSWER } else { LATER }
            }
            _ => b"",
        };
        let report =
            RecipientReport { number: work.name.number(), offset, notary, status, message };
        report.write_to(&mut self.outbox);
    }

    /// Sends wrong lines.
    fn misbehave(&mut self, work: &Work, around: &mut AgentEnvironment<'_>) {
        let random = &mut *around.random;
        match work.fault {
            Fault::Lie => self.report_wrongly(work, random),
            Fault::Babble => {
                let count = random.usize(0..300);
                self.outbox.extend((0..count).map(|_| random.u8(..)).filter(|byte| *byte != b'#'));
                self.outbox.extend_from_slice(b"\n1/\t\n/\t\t\n99999999999999999999/1\t\tok\n");
            }
            Fault::Greed => self.write_line(HUNGRY),
            Fault::Resync => {
                self.write_resync(&work.name);
                self.write_resync(format_args!("A/B/{}", random.u64(..100)));
            }
            _ => {}
        }
    }

    /// Reports other recipients of the same message, and some that do not exist.
    ///
    /// It never reports others as finished, because the scheduler would believe it.
    fn report_wrongly(&mut self, work: &Work, random: &mut fastrand::Rng) {
        let words = [
            ReportStatus::Deferred,
            ReportStatus::DeferBack,
            ReportStatus::DeferAll,
            ReportStatus::RetryAt,
        ];
        let status = words[random.usize(0..words.len())];
        for recipient in &work.parsed.control.recipients {
            let (number, offset) = (work.name.number(), recipient.offset);
            let report =
                RecipientReport { number, offset, notary: b"", status, message: b"7 a lie" };
            report.write_to(&mut self.outbox);
        }
        for (number, offset, status) in [
            (work.name.number(), 1, ReportStatus::Ok),
            (work.name.number() ^ 1 << 40, 9, ReportStatus::Error),
        ] {
            let report = RecipientReport { number, offset, notary: b"", status, message: b"a lie" };
            report.write_to(&mut self.outbox);
        }
        self.write_line(&format!("{}/{}\t\twhatever", work.name.number(), work.open[0].offset));
    }
}

/// Leaves the rest of a job, with some recipients locked, to another agent.
fn stop(file: &MemoryFile, locked: &[Recipient]) -> AgentEnd {
    for recipient in locked {
        // Another process may have changed it.
        mark::change_tag(file, recipient.offset, Tag::Locked, Tag::Pending, 0).ok();
    }
    AgentEnd::Exited(0)
}

fn open(
    path: &[u8],
    disk: &mut Disk,
) -> Option<(SpoolName, Rc<MemoryFile>, Rc<IndexedControlFile>)> {
    let name = SpoolName::from_notified(path)?;
    let file = disk.control_file(&name)?.clone();
    let parsed = disk.parsed.get(&file).ok()?;
    Some((name, file, parsed))
}

fn drawn_outcome(work: &Work, around: &mut AgentEnvironment<'_>) -> Outcome {
    let nature = around.hosts.behaviour(work.host);
    if nature.defer_rate <= 0.0 && nature.fail_rate <= 0.0 {
        return Outcome::Delivered;
    }
    let drawn = around.random.f64();
    if drawn < nature.fail_rate {
        Outcome::Failed
    } else if drawn < nature.fail_rate + nature.defer_rate {
        Outcome::Deferred("450 try again later")
    } else {
        Outcome::Delivered
    }
}

/// Notary data of a deferral because of the host.
const NO_ANSWER: &[u8] = b"\x03\x01delayed\x014.4.1\x01smtp; 466\x01";
/// Notary data of a deferral because of the recipient.
const LATER: &[u8] = b"\x03\x01delayed\x014.2.1\x01smtp; 450 try again later\x01";

/// Minimal notary data.
fn notary(occasion: OutcomeKind) -> &'static [u8] {
    match occasion {
        OutcomeKind::Success => b"\x03\x01delivered\x012.0.0\x01smtp; 250 taken\x01",
        _ => b"\x03\x01failed\x015.1.1\x01smtp; 550 no such user\x01",
    }
}
