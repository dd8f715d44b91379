//! Agent processes: their start, the bytes exchanged with them, and their end.

use crate::net::write_buffer::WriteBuffer;
use crate::timeouts::Timeouts;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zsched_config::{Clause, Niceness, Zenv};
use zsched_core::{AgentEnd, AgentId, StopMode};
use zsched_format::line_buffer::LineBuffer;
use zsched_sys::{ChildEnd, ChildProcess, Launcher, ProcessPriority, send_signal};

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
    pub settings: AgentSettings,
    launcher: Launcher,
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
    /// Creates the table, without agents.
    pub(crate) fn new(settings: AgentSettings) -> io::Result<AgentProcesses> {
        Ok(AgentProcesses {
            settings,
            launcher: Launcher::new()?,
            processes: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            with_output: Vec::new(),
            closed: Vec::new(),
            orphaned: Vec::new(),
            read_buffer: vec![0; MAX_AGENT_BYTES_PER_TURN],
        })
    }

    /// Starts an agent, registers its socket under `token`, and returns its pid.
    ///
    /// The error names the program and the step that failed. A program that cannot be run is
    /// reported later, by [`ended`](AgentProcesses::ended).
    pub(crate) fn start(
        &mut self,
        agent: AgentId,
        clause: &Clause,
        channel: &[u8],
        host: &[u8],
        registry: &Registry,
        token: Token,
    ) -> Result<u32, String> {
        let command = clause.command.as_ref().ok_or("no command")?;
        let expanded = command.expand(channel, host, &self.settings.zenv);
        let (program, arguments) = expanded.words.split_first().ok_or("the command is empty")?;
        let program = program_path(program, &self.settings.programs);
        let mut environment = expanded.environment;
        environment.extend(std::env::var_os("TZ").map(|zone| ("TZ".into(), zone)));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()
            .map_err(|error| format!("no socket pair: {error}"))?;
        let child = ChildProcess {
            program: &program,
            arguments,
            environment: &environment,
            folder: &self.settings.folder,
            socket: OwnedFd::from(theirs),
            user: clause.user,
            group: clause.group,
            priority: clause.nice.map(process_priority),
            file_limit: self.settings.file_limit,
            ignore_hangup: self.settings.ignore_hangup,
            ends_with_starter: false,
        };
        let failed = |error: io::Error| start_error(&program, &error);
        let pid = self.launcher.start(child).map_err(failed)?;
        // From here on the scheduler must reap the process, whatever fails.
        self.by_pid.insert(pid, agent);
        let socket = register_socket(ours, registry, token).map_err(failed)?;
        let process = AgentProcess {
            pid,
            program,
            socket,
            line_buffer: LineBuffer::default(),
            write_buffer: WriteBuffer::default(),
            end_manner: None,
            is_hung_up: false,
            kill_at: None,
        };
        self.processes.insert(agent, process);
        Ok(pid)
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
    pub(crate) fn stop(&mut self, agent: AgentId, manner: StopMode) -> io::Result<()> {
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
        let failure = is_its_number.then(|| self.launcher.failure(pid)).flatten();
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

/// Path of the program of a command; a name without a path is searched in `folders`.
///
/// A name not found anywhere gets the path in the last folder, for the error message.
pub(crate) fn program_path(word: &OsStr, folders: &[PathBuf]) -> PathBuf {
    let word = Path::new(word);
    if word.is_absolute() {
        return word.to_path_buf();
    }
    let in_folder = |folder: &PathBuf| folder.join(word);
    // A file that cannot be examined counts as found, so that no other program runs in its place.
    let is_there = |path: &PathBuf| match path.metadata() {
        Ok(found) => found.is_file(),
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    };
    let found = folders.iter().map(in_folder).find(is_there);
    found.or_else(|| folders.last().map(in_folder)).unwrap_or_else(|| word.to_path_buf())
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

    #[test]
    fn agent_closed_but_alive_is_killed_repeatedly() {
        let settings = AgentSettings {
            programs: Vec::new(),
            folder: PathBuf::new(),
            zenv: Zenv::default(),
            file_limit: 32,
            ignore_hangup: false,
            timeouts: Timeouts::default(),
        };
        let mut agents = AgentProcesses::new(settings).expect("a pipe");
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
