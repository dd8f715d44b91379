//! Agent processes: their start, the bytes exchanged with them, and their end.

use crate::agent_starter::{AgentStarter, StartRequest, StartResult};
use crate::net::write_buffer::WriteBuffer;
use crate::timeouts::Timeouts;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token, Waker};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zsched_config::{Clause, Niceness, Zenv};
use zsched_core::{AgentEnd, AgentId, StopMode};
use zsched_format::line_buffer::LineBuffer;
use zsched_sys::{ChildEnd, LaunchFailures, Launcher, ProcessPriority, send_signal};

/// Maximum number of bytes read from one agent per turn.
const MAX_AGENT_BYTES_PER_TURN: usize = 64 * 1024;
/// Maximum number of bytes read after an agent's death. Its child processes may keep writing.
const MAX_FINAL_OUTPUT: usize = 4 * 1024 * 1024;

/// Settings common to all agents.
#[derive(Clone, Debug)]
pub(crate) struct AgentSettings {
    /// Folders searched, in this order, for programs named without a path.
    pub programs: Vec<PathBuf>,
    /// Working folder: `transport/`.
    pub folder: PathBuf,
    /// Variables for commands and for the agents' environment.
    pub zenv: Zenv,
    /// Maximum number of descriptors of each agent (`-N`).
    pub file_limit: u64,
    /// True if agents ignore SIGHUP, because the scheduler does.
    pub ignore_hangup: bool,
    /// Timeouts for the end of agents and of their child processes.
    pub timeouts: Timeouts,
}

/// All running agents.
pub(crate) struct AgentProcesses {
    pub settings: Arc<AgentSettings>,
    starter: AgentStarter,
    /// Agents that are being started, and how to stop them when they have been started.
    starting: BTreeMap<AgentId, Option<StopMode>>,
    /// Processes that have ended while their start was not known to have ended.
    early_ends: BTreeMap<u32, ChildEnd>,
    failures: LaunchFailures,
    processes: BTreeMap<AgentId, AgentProcess>,
    by_pid: BTreeMap<u32, AgentId>,
    /// Agents with unsent output; may name an agent more than once.
    with_output: Vec<AgentId>,
    /// Agents with a closed socket whose process is not known to have ended.
    closed: Vec<AgentId>,
    /// Ended agents whose child processes still hold the socket.
    orphaned: Vec<OrphanedAgent>,
    read_buffer: Vec<u8>,
}

/// Agent whose start has ended.
pub(crate) struct StartedAgent {
    pub agent: AgentId,
    /// Its pid, or the reason why it does not run: the program and the step that failed.
    pub outcome: Result<u32, String>,
    /// How to stop it.
    pub stop: Option<StopMode>,
    /// How its process has ended, if it has.
    pub end: Option<ChildEnd>,
}

struct AgentProcess {
    pid: u32,
    program: PathBuf,
    socket: UnixStream,
    line_buffer: LineBuffer,
    write_buffer: WriteBuffer,
    /// How to end the agent once its output is sent.
    end_manner: Option<StopMode>,
    /// True once the other end of the socket is known to be closed.
    is_hung_up: bool,
    /// Time to kill the process, set once the end of its output was read.
    kill_at: Option<Instant>,
}

/// Agent whose process has ended while its child processes may go on.
#[derive(Clone, Copy)]
struct OrphanedAgent {
    agent: AgentId,
    pid: u32,
    end: ChildEnd,
    until: Instant,
}

/// Output of an agent.
pub(crate) enum AgentOutput<'a> {
    /// A line.
    Line(&'a [u8]),
    /// An overlong line was skipped; this many bytes of it.
    Skipped(usize),
}

impl AgentProcesses {
    /// Creates the table, without agents. Starts that have ended wake the loop through `waker`.
    pub(crate) fn new(settings: AgentSettings, waker: Arc<Waker>) -> io::Result<AgentProcesses> {
        let (settings, launcher) = (Arc::new(settings), Launcher::new()?);
        let failures = launcher.failures()?;
        let starter = AgentStarter::start(settings.clone(), launcher, waker)?;
        Ok(AgentProcesses::with_starter(settings, starter, failures))
    }

    fn with_starter(
        settings: Arc<AgentSettings>,
        starter: AgentStarter,
        failures: LaunchFailures,
    ) -> AgentProcesses {
        AgentProcesses {
            starter,
            settings,
            starting: BTreeMap::new(),
            early_ends: BTreeMap::new(),
            failures,
            processes: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            with_output: Vec::new(),
            closed: Vec::new(),
            orphaned: Vec::new(),
            read_buffer: vec![0; MAX_AGENT_BYTES_PER_TURN],
        }
    }

    /// Begins to start an agent: [`next_started`](AgentProcesses::next_started) has the result.
    ///
    /// On an error there is none.
    pub(crate) fn start(
        &mut self,
        agent: AgentId,
        clause: &Clause,
        channel: &[u8],
        host: &[u8],
    ) -> Result<(), String> {
        let command = clause.command.as_ref().ok_or("no command")?;
        let expanded = command.expand(channel, host, &self.settings.zenv);
        let mut words = expanded.words.into_iter();
        let program = words.next().ok_or("the command is empty")?;
        let mut environment = expanded.environment;
        environment.extend(std::env::var_os("TZ").map(|zone| ("TZ".into(), zone)));
        self.starting.insert(agent, None);
        self.starter.request(StartRequest {
            agent,
            program,
            arguments: words.collect(),
            environment,
            user: clause.user,
            group: clause.group,
            priority: clause.nice.map(process_priority),
        });
        Ok(())
    }

    /// Takes the next agent whose start has ended. Registers its socket under its token.
    ///
    /// A program that cannot be run is reported later, by [`ended`](AgentProcesses::ended).
    pub(crate) fn next_started(
        &mut self,
        registry: &Registry,
        token_of: impl Fn(AgentId) -> Token,
    ) -> Option<StartedAgent> {
        let StartResult { agent, program, process } = self.starter.next_result()?;
        let stop = self.starting.remove(&agent)?;
        let end = process.as_ref().ok().and_then(|(pid, _)| self.early_ends.remove(pid));
        if self.starting.is_empty() {
            self.early_ends.clear();
        }
        let outcome = process.and_then(|(pid, socket)| {
            // From here on the scheduler must reap the process, whatever fails.
            self.by_pid.insert(pid, agent);
            let socket = register_socket(socket, registry, token_of(agent))?;
            let process = AgentProcess {
                pid,
                program: program.clone(),
                socket,
                line_buffer: LineBuffer::default(),
                write_buffer: WriteBuffer::default(),
                end_manner: None,
                is_hung_up: false,
                kill_at: None,
            };
            self.processes.insert(agent, process);
            Ok(pid)
        });
        let outcome = outcome.map_err(|error| start_error(&program, &error));
        Some(StartedAgent { agent, outcome, stop, end })
    }

    /// Keeps how a process has ended: it may be an agent whose start is not known to have ended.
    pub(crate) fn keep_early_end(&mut self, pid: u32, end: ChildEnd) {
        if !self.starting.is_empty() {
            self.early_ends.insert(pid, end);
        }
    }

    /// Notes that the other end of an agent's socket is closed: its output is read to the end.
    pub(crate) fn hung_up(&mut self, agent: AgentId) {
        if let Some(process) = self.processes.get_mut(&agent) {
            process.is_hung_up = true;
        }
    }

    /// Reads an agent's output, up to its share of a turn. Returns true if there may be more.
    pub(crate) fn read_output(
        &mut self,
        agent: AgentId,
        output: impl FnMut(AgentOutput<'_>),
    ) -> bool {
        self.read(agent, MAX_AGENT_BYTES_PER_TURN, output)
    }

    fn read(
        &mut self,
        agent: AgentId,
        share: usize,
        mut output: impl FnMut(AgentOutput<'_>),
    ) -> bool {
        let Some(process) = self.processes.get_mut(&agent) else {
            return false;
        };
        let mut left = share;
        while left > 0 {
            let room = left.min(MAX_AGENT_BYTES_PER_TURN);
            let count = match process.socket.read(&mut self.read_buffer[..room]) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // The agent closed its socket with unread data in it.
                Err(_) => 0,
            };
            if count == 0 {
                if process.kill_at.is_none() {
                    process.kill_at = Some(Instant::now() + self.settings.timeouts.agent_exit);
                    self.closed.push(agent);
                }
                return false;
            }
            let bytes = &self.read_buffer[..count];
            let too_long = process.line_buffer.push(bytes, |line| output(AgentOutput::Line(line)));
            if too_long > 0 {
                output(AgentOutput::Skipped(too_long));
            }
            // All was read: what comes after this, the end included, is a new event (epoll(7)).
            if count < room && !process.is_hung_up {
                return false;
            }
            left -= count;
        }
        true
    }

    /// Queues text for an agent. It is sent at the end of the turn.
    pub(crate) fn queue(&mut self, agent: AgentId, text: &[u8]) {
        if let Some(process) = self.processes.get_mut(&agent) {
            process.write_buffer.push(text);
            self.with_output.push(agent);
        }
    }

    /// Ends an agent: at once by a signal, or once its output is sent.
    ///
    /// One that is being started is to be stopped when it has been started.
    pub(crate) fn stop(&mut self, agent: AgentId, manner: StopMode) -> io::Result<()> {
        if let Some(stop) = self.starting.get_mut(&agent) {
            *stop = Some(manner);
            return Ok(());
        }
        let is_gone = self.is_orphaned(agent);
        let Some(process) = self.processes.get_mut(&agent) else {
            return Ok(());
        };
        match manner {
            // The pid may belong to another process by now.
            StopMode::Kill if is_gone => return Ok(()),
            StopMode::Kill => return send_signal(process.pid, libc::SIGKILL),
            StopMode::Retire => process.write_buffer.push(b"\n"),
            StopMode::Quit => process.write_buffer.push(b"\n\n"),
        }
        process.end_manner = Some(manner);
        self.with_output.push(agent);
        Ok(())
    }

    /// Sends queued bytes to agents, as far as their sockets accept them.
    pub(crate) fn send_all(&mut self) {
        for agent in std::mem::take(&mut self.with_output) {
            self.send(agent);
        }
    }

    /// Sends queued bytes to an agent, as far as its socket accepts them.
    pub(crate) fn send(&mut self, agent: AgentId) {
        let is_gone = self.is_orphaned(agent);
        let Some(process) = self.processes.get_mut(&agent) else {
            return;
        };
        if process.write_buffer.flush(&mut process.socket).is_err() {
            // The agent no longer reads. Its end will decide what becomes of its jobs.
            process.write_buffer = WriteBuffer::default();
        }
        if !process.write_buffer.is_empty() {
            return;
        }
        if let Some(manner) = process.end_manner.take() {
            // The agent may have ended already; then the shutdown fails, and no signal is sent.
            let closed = process.socket.shutdown(Shutdown::Write);
            if closed.is_ok() && manner == StopMode::Quit && !is_gone {
                drop(send_signal(process.pid, libc::SIGQUIT));
            }
        }
    }

    /// Agent that runs, or ran, under a pid.
    pub(crate) fn by_pid(&self, pid: u32) -> Option<AgentId> {
        self.by_pid.get(&pid).copied()
    }

    /// Reads all output of an agent. Returns true if its socket is still open at the other end.
    pub(crate) fn drain_output(
        &mut self,
        agent: AgentId,
        output: impl FnMut(AgentOutput<'_>),
    ) -> bool {
        self.hung_up(agent);
        self.read(agent, MAX_FINAL_OUTPUT, output);
        self.processes.get(&agent).is_some_and(|process| process.kill_at.is_none())
    }

    /// Keeps an agent whose process ended mid-job, while its child processes run.
    ///
    /// The child processes may be about to finish the job. They get `timeouts.agent_children`.
    pub(crate) fn keep_orphaned(&mut self, agent: AgentId, pid: u32, end: ChildEnd) {
        self.by_pid.remove(&pid);
        let until = Instant::now() + self.settings.timeouts.agent_children;
        self.orphaned.push(OrphanedAgent { agent, pid, end, until });
    }

    /// Takes an agent whose child processes have ended or timed out.
    ///
    /// `has_jobs` returns true if an agent still has a job to report on. An agent without one is
    /// not waited for.
    pub(crate) fn next_ended_orphan(
        &mut self,
        has_jobs: impl Fn(AgentId) -> bool,
    ) -> Option<(AgentId, u32, ChildEnd)> {
        let now = Instant::now();
        let is_over = |one: &OrphanedAgent| {
            let process = self.processes.get(&one.agent);
            one.until <= now
                || !has_jobs(one.agent)
                || process.is_none_or(|process| process.kill_at.is_some())
        };
        let index = self.orphaned.iter().position(is_over)?;
        let OrphanedAgent { agent, pid, end, .. } = self.orphaned.swap_remove(index);
        Some((agent, pid, end))
    }

    fn is_orphaned(&self, agent: AgentId) -> bool {
        self.orphaned.iter().any(|one| one.agent == agent)
    }

    /// Removes an agent whose process has ended, after reading its last output.
    ///
    /// Returns how it ended, and how many bytes of an unterminated last line are lost.
    pub(crate) fn ended(
        &mut self,
        agent: AgentId,
        pid: u32,
        end: ChildEnd,
        output: impl FnMut(AgentOutput<'_>),
    ) -> (AgentEnd, usize) {
        // The pid may be that of another agent by now, if this one was kept for its child
        // processes.
        let is_its_number = self.by_pid.get(&pid) == Some(&agent);
        let failure = is_its_number.then(|| self.failures.of(pid)).flatten();
        self.by_pid.retain(|_, other| *other != agent);
        self.hung_up(agent);
        self.read(agent, MAX_FINAL_OUTPUT, output);
        self.closed.retain(|other| *other != agent);
        let process = self.processes.remove(&agent);
        let lost = process.as_ref().map_or(0, |process| process.line_buffer.incomplete_len());
        let end = match (failure, process, end) {
            (Some(error), Some(process), _) => {
                AgentEnd::NotStarted(start_error(&process.program, &error))
            }
            (_, _, ChildEnd::Exited(status)) => AgentEnd::Exited(status),
            (_, _, ChildEnd::Signalled(signal)) => AgentEnd::Signalled(signal),
        };
        (end, lost)
    }

    /// Kills agents that closed their socket `timeouts.agent_exit` ago and still run.
    ///
    /// They can no longer report anything. A process that cannot die, as it waits for a failed
    /// disk, is signalled again only after the same time.
    pub(crate) fn kill_closed_agents(&mut self) {
        let now = Instant::now();
        for agent in &self.closed {
            if let Some(process) = self.processes.get_mut(agent)
                && process.kill_at.is_some_and(|at| at <= now)
            {
                process.kill_at = Some(now + self.settings.timeouts.agent_exit);
                // The process may have ended by itself just now.
                drop(send_signal(process.pid, libc::SIGKILL));
            }
        }
    }

    /// Time until [`kill_closed_agents`](Self::kill_closed_agents) or
    /// [`next_ended_orphan`](Self::next_ended_orphan) may have something to do.
    pub(crate) fn until_deadline(&self) -> Option<Duration> {
        let closing = self.closed.iter().filter_map(|agent| self.processes.get(agent)?.kill_at);
        let lingering = self.orphaned.iter().map(|one| one.until);
        closing.chain(lingering).min().map(|at| at.saturating_duration_since(Instant::now()))
    }
}

fn register_socket(
    socket: std::os::unix::net::UnixStream,
    registry: &Registry,
    token: Token,
) -> io::Result<UnixStream> {
    socket.set_nonblocking(true)?;
    let mut socket = UnixStream::from_std(socket);
    registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(socket)
}

fn start_error(program: &Path, error: &io::Error) -> String {
    format!("{}: {error}", program.display())
}

/// Converts a setting of the configuration.
pub(crate) fn process_priority(niceness: Niceness) -> ProcessPriority {
    match niceness {
        Niceness::Relative(by) => ProcessPriority::Relative(by),
        Niceness::Absolute(value) => ProcessPriority::Absolute(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use zsched_config::{Config, ConfigContext};

    fn settings() -> AgentSettings {
        AgentSettings {
            programs: Vec::new(),
            folder: PathBuf::new(),
            zenv: Zenv::default(),
            file_limit: 32,
            ignore_hangup: false,
            timeouts: Timeouts::default(),
        }
    }

    fn clause() -> Rc<Clause> {
        let (text, context) =
            (b"*/*\n\tcommand=agent\n", ConfigContext::unprivileged(Zenv::default()));
        let config =
            Config::parse(Path::new("scheduler.cf"), text, &context).expect("valid").config;
        config.select(b"smtp", b"a.test").expect("*/* matches")
    }

    #[test]
    fn what_happens_during_a_start_takes_effect_after_it() {
        let poll = mio::Poll::new().expect("a poll");
        let (starter, _requests, results) = AgentStarter::without_worker();
        let failures = Launcher::new().and_then(|launcher| launcher.failures()).expect("a pipe");
        let mut agents = AgentProcesses::with_starter(Arc::new(settings()), starter, failures);
        for agent in 1..=4 {
            agents.start(AgentId(agent), &clause(), b"smtp", b"a.test").expect("a command");
        }
        agents.stop(AgentId(1), StopMode::Quit).expect("no signal");
        agents.stop(AgentId(1), StopMode::Kill).expect("no signal");
        agents.keep_early_end(4712, ChildEnd::Exited(1));
        let pids = [Ok(4711), Ok(4712), Err(ErrorKind::OutOfMemory.into()), Ok(4714)];
        for (agent, pid) in (1..).map(AgentId).zip(pids) {
            let pair = std::os::unix::net::UnixStream::pair().expect("a socket pair");
            let process = pid.map(|pid| (pid, pair.0));
            let program = PathBuf::from("/bin/agent");
            results.send(StartResult { agent, program, process }).expect("sent");
        }
        let mut next = || agents.next_started(poll.registry(), |agent| Token(agent.0 as usize));
        let first = next().expect("it has been started");
        assert_eq!((first.agent, first.outcome), (AgentId(1), Ok(4711)));
        assert_eq!((first.stop, first.end), (Some(StopMode::Kill), None));
        let second = next().expect("it has been started");
        assert_eq!((second.outcome, second.stop), (Ok(4712), None));
        assert_eq!(second.end, Some(ChildEnd::Exited(1)));
        let third = next().expect("it could not be started");
        assert_eq!(third.outcome, Err("/bin/agent: out of memory".to_string()));
        assert_eq!(next().expect("it has been started").end, None);
        assert!(next().is_none());
        assert_eq!(agents.by_pid(4714), Some(AgentId(4)));
        // No agent is being started.
        agents.keep_early_end(4715, ChildEnd::Exited(1));
        assert!(agents.early_ends.is_empty());
    }

    #[test]
    fn agent_closed_but_alive_is_killed_repeatedly() {
        let poll = mio::Poll::new().expect("a poll");
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let mut agents = AgentProcesses::new(settings(), waker).expect("a pipe");
        let process = AgentProcess {
            // No process has this pid, so it does not die.
            pid: u32::MAX,
            program: PathBuf::new(),
            socket: UnixStream::pair().expect("a socket pair").0,
            line_buffer: LineBuffer::default(),
            write_buffer: WriteBuffer::default(),
            end_manner: None,
            is_hung_up: false,
            kill_at: None,
        };
        agents.processes.insert(AgentId(1), process);
        // The other end is closed.
        agents.read_output(AgentId(1), |_| {});
        assert!(agents.until_deadline() > Some(Duration::from_secs(5)));
        let process = agents.processes.get_mut(&AgentId(1)).expect("it is there");
        process.kill_at = Some(Instant::now());
        assert_eq!(agents.until_deadline(), Some(Duration::ZERO));
        agents.kill_closed_agents();
        assert!(agents.until_deadline() > Some(Duration::from_secs(5)));
    }
}
