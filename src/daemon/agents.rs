//! Agent processes: starting them, hearing and telling them things, and their end.

use super::outbox::Outbox;
use super::timeouts::Timeouts;
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
use zsched_core::{AgentEnd, AgentId, Manner};
use zsched_format::agent_protocol as protocol;
use zsched_format::line_buffer::Lines;
use zsched_sys::{ChildEnd, ChildProcess, Launcher, ProcessPriority, send_signal};

/// What one agent may say in one turn of the loop, in bytes, before others are listened to.
const SHARE_OF_TURN: usize = 64 * 1024;
/// What is read after an agent's death, in bytes. Its children may write on.
const LAST_WILL: usize = 4 * 1024 * 1024;

/// What all agents have in common.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Where programs are looked for that are named without a path, in this order.
    pub programs: Vec<PathBuf>,
    /// Their working folder: `transport/`.
    pub folder: PathBuf,
    /// Variables for commands and for the agents' environment.
    pub zenv: Zenv,
    /// How many descriptors each may have (`-N`).
    pub file_limit: u64,
    /// They are to ignore SIGHUP, because the scheduler does.
    pub ignore_hangup: bool,
    /// How long agents and their children may take to end.
    pub timeouts: Timeouts,
}

/// All running agents.
pub struct AgentProcesses {
    settings: AgentSettings,
    launcher: Launcher,
    processes: BTreeMap<AgentId, Process>,
    by_pid: BTreeMap<u32, AgentId>,
    /// Those that have something to be told.
    addressed: Vec<AgentId>,
    /// Those that have closed their end, but whose process is not known to have ended.
    closing: Vec<AgentId>,
    /// Those whose process has ended, while programs that it has started hold their socket.
    lingering: Vec<Lingering>,
    chunk: Vec<u8>,
}

struct Process {
    pid: u32,
    program: PathBuf,
    socket: UnixStream,
    lines: Lines,
    outbox: Outbox,
    /// What to do when the outbox is empty.
    farewell: Option<Manner>,
    /// When it is to be killed, having closed its end.
    kill_at: Option<Instant>,
}

/// An agent that has ended, but not all that it has started.
#[derive(Clone, Copy)]
struct Lingering {
    agent: AgentId,
    pid: u32,
    end: ChildEnd,
    until: Instant,
}

/// Something an agent did.
pub enum Heard<'a> {
    /// It wrote a line.
    Line(&'a [u8]),
    /// So many bytes of a line were passed over.
    TooLong(usize),
}

impl AgentProcesses {
    /// No agents yet.
    pub fn new(settings: AgentSettings) -> io::Result<AgentProcesses> {
        Ok(AgentProcesses {
            settings,
            launcher: Launcher::new()?,
            processes: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            addressed: Vec::new(),
            closing: Vec::new(),
            lingering: Vec::new(),
            chunk: vec![0; SHARE_OF_TURN],
        })
    }

    /// Where programs are looked for that are named without a path.
    pub fn programs(&self) -> &[PathBuf] {
        &self.settings.programs
    }

    /// Starts an agent, and has its socket watched under `token`. Returns its pid; the error says
    /// what failed with which program. That the program cannot be run shows in its
    /// [`end`](AgentProcesses::ended).
    pub fn start(
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
        let program = find_program(program, &self.settings.programs);
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
            priority: clause.nice.map(priority),
            file_limit: self.settings.file_limit,
            ignore_hangup: self.settings.ignore_hangup,
        };
        let failed = |error: io::Error| cannot_be_run(&program, &error);
        let pid = self.launcher.start(child).map_err(failed)?;
        // From here on the process is ours to reap, whatever fails.
        self.by_pid.insert(pid, agent);
        let socket = watch(ours, registry, token).map_err(failed)?;
        let process = Process {
            pid,
            program,
            socket,
            lines: Lines::default(),
            outbox: Outbox::default(),
            farewell: None,
            kill_at: None,
        };
        self.processes.insert(agent, process);
        Ok(pid)
    }

    /// Reads what an agent has written, up to its share of a turn. Tells whether there may be more.
    pub fn listen(&mut self, agent: AgentId, heard: impl FnMut(Heard<'_>)) -> bool {
        self.read(agent, SHARE_OF_TURN, heard)
    }

    fn read(&mut self, agent: AgentId, share: usize, mut heard: impl FnMut(Heard<'_>)) -> bool {
        let Some(process) = self.processes.get_mut(&agent) else {
            return false;
        };
        let mut left = share;
        while left > 0 {
            let count = match process.socket.read(&mut self.chunk[..left.min(SHARE_OF_TURN)]) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // Its end was closed with something unread in it.
                Err(_) => 0,
            };
            if count == 0 {
                if process.kill_at.is_none() {
                    process.kill_at = Some(Instant::now() + self.settings.timeouts.agent_exit);
                    self.closing.push(agent);
                }
                return false;
            }
            let said = &self.chunk[..count];
            let too_long = process.lines.take_in(said, |line| heard(Heard::Line(line)));
            if too_long > 0 {
                heard(Heard::TooLong(too_long));
            }
            left -= count;
        }
        true
    }

    /// Tells an agent something. It is sent at the end of the turn.
    pub fn tell(&mut self, agent: AgentId, text: &[u8]) {
        if let Some(process) = self.processes.get_mut(&agent) {
            process.outbox.push(text);
            self.addressed.push(agent);
        }
    }

    /// Tells an agent `#idle`.
    pub fn tell_idle(&mut self, agent: AgentId) {
        self.tell(agent, format!("{}\n", protocol::IDLE).as_bytes());
    }

    /// Tells an agent to end.
    pub fn stop(&mut self, agent: AgentId, manner: Manner) -> io::Result<()> {
        let is_gone = self.is_lingering(agent);
        let Some(process) = self.processes.get_mut(&agent) else {
            return Ok(());
        };
        match manner {
            // Its number may be that of another process by now.
            Manner::Kill if is_gone => return Ok(()),
            Manner::Kill => return send_signal(process.pid, libc::SIGKILL),
            Manner::Retire => process.outbox.push(b"\n"),
            Manner::Quit => process.outbox.push(b"\n\n"),
        }
        process.farewell = Some(manner);
        self.addressed.push(agent);
        Ok(())
    }

    /// Sends what agents have been told in this turn, as far as they take it.
    pub fn send_all(&mut self) {
        for agent in std::mem::take(&mut self.addressed) {
            self.send(agent);
        }
    }

    /// Sends what an agent has been told, as far as it takes it.
    pub fn send(&mut self, agent: AgentId) {
        let is_gone = self.is_lingering(agent);
        let Some(process) = self.processes.get_mut(&agent) else {
            return;
        };
        if process.outbox.flush(&mut process.socket).is_err() {
            // Nobody listens any more; its end will tell what became of its jobs.
            process.outbox = Outbox::default();
        }
        if !process.outbox.is_empty() {
            return;
        }
        if let Some(manner) = process.farewell.take() {
            // An agent that has gone already needs no farewell.
            let closed = process.socket.shutdown(Shutdown::Write);
            if closed.is_ok() && manner == Manner::Quit && !is_gone {
                drop(send_signal(process.pid, libc::SIGQUIT));
            }
        }
    }

    /// The agent that runs, or ran, as a process.
    pub fn of_process(&self, pid: u32) -> Option<AgentId> {
        self.by_pid.get(&pid).copied()
    }

    /// Whether somebody can still write to the scheduler in the name of an agent. Reads what there is.
    pub fn can_speak(&mut self, agent: AgentId, heard: impl FnMut(Heard<'_>)) -> bool {
        self.read(agent, LAST_WILL, heard);
        self.processes.get(&agent).is_some_and(|process| process.kill_at.is_none())
    }

    /// An agent's process has ended in the middle of a job, but programs that it has started go on and may
    /// be about to end it. They are waited for, for a while.
    pub fn linger(&mut self, agent: AgentId, pid: u32, end: ChildEnd) {
        self.by_pid.remove(&pid);
        let until = Instant::now() + self.settings.timeouts.agent_children;
        self.lingering.push(Lingering { agent, pid, end, until });
    }

    /// One whose programs have ended as well, or have been waited for long enough.
    /// `has_jobs` tells whether an agent has anything left to be ended.
    pub fn next_lingered(
        &mut self,
        has_jobs: impl Fn(AgentId) -> bool,
    ) -> Option<(AgentId, u32, ChildEnd)> {
        let now = Instant::now();
        let is_over = |one: &Lingering| {
            let process = self.processes.get(&one.agent);
            one.until <= now
                || !has_jobs(one.agent)
                || process.is_none_or(|process| process.kill_at.is_some())
        };
        let index = self.lingering.iter().position(is_over)?;
        let Lingering { agent, pid, end, .. } = self.lingering.swap_remove(index);
        Some((agent, pid, end))
    }

    fn is_lingering(&self, agent: AgentId) -> bool {
        self.lingering.iter().any(|one| one.agent == agent)
    }

    /// An agent's process has ended: reads what it wrote last. Returns how it ended, and how many bytes
    /// of a last line without line end are lost.
    pub fn ended(
        &mut self,
        agent: AgentId,
        pid: u32,
        end: ChildEnd,
        heard: impl FnMut(Heard<'_>),
    ) -> (AgentEnd, usize) {
        // The number may be that of another agent by now, if this one had left something behind.
        let is_its_number = self.by_pid.get(&pid) == Some(&agent);
        let failure = if is_its_number { self.launcher.failure(pid) } else { None };
        self.by_pid.retain(|_, other| *other != agent);
        self.read(agent, LAST_WILL, heard);
        self.closing.retain(|other| *other != agent);
        let process = self.processes.remove(&agent);
        let lost = process.as_ref().map_or(0, |process| process.lines.unfinished());
        let end = match (failure, process, end) {
            (Some(error), Some(process), _) => {
                AgentEnd::NotStarted(cannot_be_run(&process.program, &error))
            }
            (_, _, ChildEnd::Exited(status)) => AgentEnd::Exited(status),
            (_, _, ChildEnd::Signalled(signal)) => AgentEnd::Signalled(signal),
        };
        (end, lost)
    }

    /// Kills agents that have closed their end long ago, but go on: nobody can hear them. One that cannot
    /// die, as it waits for a disk that is gone, is not killed more often than another one.
    pub fn kill_the_silent(&mut self) {
        let now = Instant::now();
        for agent in &self.closing {
            if let Some(process) = self.processes.get_mut(agent)
                && process.kill_at.is_some_and(|at| at <= now)
            {
                process.kill_at = Some(now + self.settings.timeouts.agent_exit);
                // It may have ended by itself just now.
                drop(send_signal(process.pid, libc::SIGKILL));
            }
        }
    }

    /// How long until [`kill_the_silent`](Self::kill_the_silent) or
    /// [`next_lingered`](Self::next_lingered) may have something to do.
    pub fn until_silent(&self) -> Option<Duration> {
        let closing = self.closing.iter().filter_map(|agent| self.processes.get(agent)?.kill_at);
        let lingering = self.lingering.iter().map(|one| one.until);
        closing.chain(lingering).min().map(|at| at.saturating_duration_since(Instant::now()))
    }
}

fn watch(
    socket: std::os::unix::net::UnixStream,
    registry: &Registry,
    token: Token,
) -> io::Result<UnixStream> {
    socket.set_nonblocking(true)?;
    let mut socket = UnixStream::from_std(socket);
    registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(socket)
}

fn cannot_be_run(program: &Path, error: &io::Error) -> String {
    format!("{}: {error}", program.display())
}

/// The program of a command: one named without a path is one of our agents. Where there is none of its
/// name, where it was looked for last.
pub fn find_program(word: &OsStr, folders: &[PathBuf]) -> PathBuf {
    let word = Path::new(word);
    if word.is_absolute() {
        return word.to_path_buf();
    }
    let in_folder = |folder: &PathBuf| folder.join(word);
    // One that cannot be examined is there: another program shall not be taken for it.
    let is_there = |path: &PathBuf| match path.metadata() {
        Ok(found) => found.is_file(),
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    };
    let found = folders.iter().map(in_folder).find(is_there);
    found.or_else(|| folders.last().map(in_folder)).unwrap_or_else(|| word.to_path_buf())
}

fn priority(niceness: Niceness) -> ProcessPriority {
    match niceness {
        Niceness::Relative(by) => ProcessPriority::Relative(by),
        Niceness::Absolute(value) => ProcessPriority::Absolute(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_cannot_die_is_killed_now_and_then() {
        let settings = AgentSettings {
            programs: Vec::new(),
            folder: PathBuf::new(),
            zenv: Zenv::default(),
            file_limit: 32,
            ignore_hangup: false,
            timeouts: Timeouts::default(),
        };
        let mut agents = AgentProcesses::new(settings).expect("a pipe");
        let process = Process {
            // There is no such process, so it does not die.
            pid: u32::MAX,
            program: PathBuf::new(),
            socket: UnixStream::pair().expect("a socket pair").0,
            lines: Lines::default(),
            outbox: Outbox::default(),
            farewell: None,
            kill_at: None,
        };
        agents.processes.insert(AgentId(1), process);
        // The other end is closed.
        agents.listen(AgentId(1), |_| {});
        assert!(agents.until_silent() > Some(Duration::from_secs(5)));
        let process = agents.processes.get_mut(&AgentId(1)).expect("it is there");
        process.kill_at = Some(Instant::now());
        assert_eq!(agents.until_silent(), Some(Duration::ZERO));
        agents.kill_the_silent();
        assert!(agents.until_silent() > Some(Duration::from_secs(5)));
    }
}
