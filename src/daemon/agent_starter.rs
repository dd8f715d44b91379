//! Worker that starts agents.
//!
//! A start ends when the new process has run for the first time. That takes some milliseconds while
//! the processors are busy, and the loop does not wait for it. The worker also looks for the
//! program on disk.

use crate::agents::AgentSettings;
use mio::Waker;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use zsched_core::AgentId;
use zsched_service::worker;
use zsched_sys::{ChildProcess, Launcher, ProcessPriority};

/// An agent to be started.
pub(crate) struct StartRequest {
    pub agent: AgentId,
    /// Program, with or without a path.
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub user: Option<u32>,
    pub group: Option<u32>,
    pub priority: Option<ProcessPriority>,
}

/// How a start has ended.
pub(crate) struct StartResult {
    pub agent: AgentId,
    /// Path of the program.
    pub program: PathBuf,
    /// Pid of the agent, and our end of its socket. On an error there is no process.
    pub process: io::Result<(u32, UnixStream)>,
}

/// The loop's end of the worker.
pub(crate) struct AgentStarter {
    requests: Sender<StartRequest>,
    results: Receiver<StartResult>,
}

impl AgentStarter {
    /// Starts the worker, which wakes the loop through `waker`.
    pub(crate) fn start(
        settings: Arc<AgentSettings>,
        launcher: Launcher,
        waker: Arc<Waker>,
    ) -> io::Result<AgentStarter> {
        let (requests, wanted) = channel::<StartRequest>();
        let (started, results) = channel();
        worker::start("agent starter", move || {
            for request in wanted {
                if started.send(request.carry_out(&settings, &launcher)).is_err() {
                    return;
                }
                // Waking fails only if the loop is gone. Then the result is not needed.
                drop(waker.wake());
            }
        })?;
        Ok(AgentStarter { requests, results })
    }

    /// Creates the loop's end, with the ends of the worker.
    #[cfg(test)]
    pub(crate) fn without_worker() -> (AgentStarter, Receiver<StartRequest>, Sender<StartResult>) {
        let ((requests, wanted), (started, results)) = (channel(), channel());
        (AgentStarter { requests, results }, wanted, started)
    }

    /// Requests a start.
    pub(crate) fn request(&self, request: StartRequest) {
        self.requests.send(request).expect("the worker runs until the loop ends");
    }

    /// Removes and returns the next result.
    pub(crate) fn next_result(&self) -> Option<StartResult> {
        self.results.try_recv().ok()
    }
}

impl StartRequest {
    fn carry_out(&self, settings: &AgentSettings, launcher: &Launcher) -> StartResult {
        let program = program_path(&self.program, &settings.programs);
        let process = self.launch(&program, settings, launcher);
        StartResult { agent: self.agent, program, process }
    }

    fn launch(
        &self,
        program: &Path,
        settings: &AgentSettings,
        launcher: &Launcher,
    ) -> io::Result<(u32, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()
            .map_err(|error| io::Error::new(error.kind(), format!("no socket pair: {error}")))?;
        let pid = launcher.start(ChildProcess {
            program,
            arguments: &self.arguments,
            environment: &self.environment,
            folder: &settings.folder,
            socket: theirs.into(),
            user: self.user,
            group: self.group,
            priority: self.priority,
            file_limit: settings.file_limit,
            ignore_hangup: settings.ignore_hangup,
            ends_with_starter: false,
        })?;
        Ok((pid, ours))
    }
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
