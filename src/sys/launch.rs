//! Starts agents at a cost independent of the size of this process.
//!
//! The cost of a fork grows with the memory of the process, and a scheduler may have gigabytes in
//! its queue. `posix_spawn(3)` starts the scheduler's own program as a process that shares memory
//! with its parent until then. That takes the same time for any size. The new process begins in
//! [`super::agent_exec`]. It reports failures over a pipe that all such processes share and that
//! agents do not inherit.

use super::process::ProcessPriority;
use super::{c_string, pointers};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// First argument of a process that is to become an agent.
pub(super) const BECOME_AGENT: &str = "--become-agent";
/// Argument for an absent value.
pub(super) const ABSENT_ARGUMENT: &str = "-";
/// Mark before variables of the agent in the environment of that process.
///
/// It keeps the dynamic linker from using a variable too early. Variables are not passed as
/// arguments, since every user can read these in `/proc`.
pub(super) const VARIABLE_MARK: &str = "+";
/// Descriptor for the report of a failure: pid and error number, four bytes each, in one write.
pub(super) const REPORT_DESCRIPTOR: i32 = 3;
/// Program of this process, even if its path names another file by now.
const OWN_PROGRAM: &CStr = c"/proc/self/exe";
/// Lowest number for our end of the pipe, above descriptors of children.
const MIN_OWN_DESCRIPTOR: i32 = 10;

/// A process whose standard input, output and error are one socket.
pub struct ChildProcess<'a> {
    /// Path of the program.
    pub program: &'a Path,
    /// Arguments, without the program's name.
    pub arguments: &'a [OsString],
    /// Complete environment.
    pub environment: &'a [(OsString, OsString)],
    /// Working folder.
    pub folder: &'a Path,
    /// Socket for its descriptors 0, 1 and 2.
    pub socket: OwnedFd,
    /// User id to change to, if any. Needs root, unless it is the present one.
    pub user: Option<u32>,
    /// Group id to change to, if any.
    pub group: Option<u32>,
    /// Priority, if it is to differ from ours.
    pub priority: Option<ProcessPriority>,
    /// Maximum number of descriptors.
    pub file_limit: u64,
    /// True if it ignores SIGHUP from the start.
    pub ignore_hangup: bool,
    /// True if it gets SIGTERM when the OS thread that starts it ends, even by SIGKILL.
    pub ends_with_starter: bool,
}

/// Starts processes.
pub struct Launcher {
    /// End of the pipe for the children.
    report: OwnedFd,
    reports: File,
}

/// Which processes of a launcher failed to run their program.
pub struct LaunchFailures {
    reports: File,
    /// Error numbers by pid, of processes that were not asked for yet.
    numbers: BTreeMap<u32, i32>,
}

impl Launcher {
    /// Creates a launcher.
    ///
    /// The program of this process must call [`become_agent`](super::become_agent) before anything
    /// else.
    pub fn new() -> io::Result<Launcher> {
        let (reports, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let report = fcntl_dupfd_cloexec(writer, MIN_OWN_DESCRIPTOR)?;
        Ok(Launcher { report, reports: reports.into() })
    }

    /// Starts a process and returns its pid. On an error there is no process.
    ///
    /// A program that cannot be run shows only when the process has ended:
    /// [`LaunchFailures`].
    pub fn start(&self, child: ChildProcess<'_>) -> io::Result<u32> {
        if !child.program.as_os_str().as_bytes().contains(&b'/') {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        let (words, variables) = (child.command_line()?, child.variables()?);
        let (arguments, environment) = (pointers(&words), pointers(&variables));
        let socket = child.socket.as_raw_fd();
        let report = (self.report.as_raw_fd(), REPORT_DESCRIPTOR);
        let targets = [(socket, 0), (socket, 1), (socket, 2), report];
        let (attributes, actions) = (Attributes::new()?, FileActions::new(&targets)?);
        let mut pid = 0;
        // SAFETY: all structures have been set up and outlive the call, as do the strings. The
        // lists of arguments and variables end with a null pointer.
        error_number(unsafe {
            libc::posix_spawn(
                &raw mut pid,
                OWN_PROGRAM.as_ptr(),
                &raw const actions.0,
                &raw const attributes.0,
                arguments.as_ptr(),
                environment.as_ptr(),
            )
        })?;
        u32::try_from(pid).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// The failures of the processes that it starts.
    pub fn failures(&self) -> io::Result<LaunchFailures> {
        Ok(LaunchFailures { reports: self.reports.try_clone()?, numbers: BTreeMap::new() })
    }
}

impl LaunchFailures {
    /// Error of an ended process that failed to run its program.
    pub fn of(&mut self, pid: u32) -> Option<io::Error> {
        let mut record = [0; 8];
        // Each record is written at once, and so is read as a whole.
        while let Ok(()) = self.reports.read_exact(&mut record) {
            let [a, b, c, d, number @ ..] = record;
            self.numbers.insert(u32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes(number));
        }
        self.numbers.remove(&pid).map(io::Error::from_raw_os_error)
    }
}

impl ChildProcess<'_> {
    /// Command line that describes the agent to the new process.
    fn command_line(&self) -> io::Result<Vec<CString>> {
        let or_absent = |value: Option<String>| value.unwrap_or(ABSENT_ARGUMENT.to_string());
        let number = |number: Option<u32>| or_absent(number.map(|number| number.to_string()));
        let priority = self.priority.map(|priority| match priority {
            ProcessPriority::Absolute(value) => format!("absolute:{value}"),
            ProcessPriority::Relative(by) => format!("relative:{by}"),
        });
        let words = [
            "scheduler".to_string(),
            BECOME_AGENT.to_string(),
            self.file_limit.to_string(),
            number(self.user),
            number(self.group),
            or_absent(priority),
            or_absent(self.ignore_hangup.then(|| "ignore-hangup".to_string())),
            number(self.ends_with_starter.then(std::process::id)),
        ];
        let words = words.iter().map(OsStr::new);
        let paths = [self.folder.as_os_str(), self.program.as_os_str()];
        let arguments = self.arguments.iter().map(OsString::as_os_str);
        words.chain(paths).chain(arguments).map(c_string).collect()
    }

    /// Environment of the new process, with marked names.
    fn variables(&self) -> io::Result<Vec<CString>> {
        let marked = |(name, value): &(OsString, OsString)| {
            let parts = [VARIABLE_MARK.as_bytes(), name.as_bytes(), b"=", value.as_bytes()];
            Ok(CString::new(parts.concat())?)
        };
        self.environment.iter().map(marked).collect()
    }
}

/// Result of a call that returns an error number.
fn error_number(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

/// Spawn attributes: signals stay blocked until the child has set their dispositions.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Attributes> {
        let mut attributes = MaybeUninit::uninit();
        let mut all = MaybeUninit::uninit();
        // SAFETY: posix_spawnattr_init and sigfillset fill in their arguments before use.
        unsafe {
            error_number(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            let mut attributes = Attributes(attributes.assume_init());
            libc::sigfillset(all.as_mut_ptr());
            let flags = libc::POSIX_SPAWN_SETSIGMASK as libc::c_short;
            error_number(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags))?;
            error_number(libc::posix_spawnattr_setsigmask(&raw mut attributes.0, all.as_ptr()))?;
            Ok(attributes)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: it was initialised, and is no longer used.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// Our descriptors that become the child's. All others are closed when it runs a program.
struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new(targets: &[(i32, i32)]) -> io::Result<FileActions> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: posix_spawn_file_actions_init fills in what it is given, before it is used.
        let mut actions = unsafe {
            error_number(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            FileActions(actions.assume_init())
        };
        for (ours, theirs) in targets {
            let actions = &raw mut actions.0;
            // SAFETY: the list has been initialised; the others are numbers.
            error_number(unsafe {
                libc::posix_spawn_file_actions_adddup2(actions, *ours, *theirs)
            })?;
        }
        Ok(actions)
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: it was initialised, and is no longer used.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes a process. If started, it would run the test program, which ignores the request.
    fn child<'a>(
        program: &'a Path,
        arguments: &'a [OsString],
        socket: OwnedFd,
    ) -> ChildProcess<'a> {
        ChildProcess {
            program,
            arguments,
            environment: &[],
            folder: Path::new("/"),
            socket,
            user: None,
            group: Some(7),
            priority: Some(ProcessPriority::Relative(-3)),
            file_limit: 32,
            ignore_hangup: true,
            ends_with_starter: false,
        }
    }

    fn socket() -> OwnedFd {
        std::os::unix::net::UnixStream::pair().expect("a socket pair").0.into()
    }

    #[test]
    fn command_line_describes_agent_without_variables() {
        let arguments = ["x".into(), "".into()];
        let child = ChildProcess {
            environment: &[("A".into(), "b c".into())],
            ..child(Path::new("/bin/agent"), &arguments, socket())
        };
        let words = child.command_line().expect("no null bytes");
        let words: Vec<&str> = words.iter().map(|word| word.to_str().expect("UTF-8")).collect();
        let expected = "scheduler --become-agent 32 - 7 relative:-3 ignore-hangup - / /bin/agent x";
        assert_eq!(words[..11], expected.split(' ').collect::<Vec<&str>>());
        assert_eq!(words[11..], [""], "variables are not on it: every user can read it");
        assert_eq!(child.variables().expect("no null bytes"), [c"+A=b c".to_owned()]);
    }

    #[test]
    fn child_that_cannot_be_a_program_is_refused_at_once() {
        let launcher = Launcher::new().expect("a pipe");
        let refused =
            launcher.start(child(Path::new("agent"), &[], socket())).expect_err("no path");
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        let words = [OsString::from("a\0b")];
        launcher.start(child(Path::new("/bin/x"), &words, socket())).expect_err("a null byte");
        let long = [OsString::from("x".repeat(1 << 20))];
        let refused =
            launcher.start(child(Path::new("/bin/x"), &long, socket())).expect_err("too long");
        assert_eq!(refused.raw_os_error(), Some(libc::E2BIG));
    }

    #[test]
    fn launch_failures_are_reported_by_pid_once() {
        let launcher = Launcher::new().expect("a pipe");
        let mut failures = launcher.failures().expect("another descriptor");
        let mut child = File::from(launcher.report.try_clone().expect("a copy"));
        for (pid, number) in [(4711u32, libc::ENOENT), (4712, libc::EACCES)] {
            let record = [pid.to_ne_bytes(), number.to_ne_bytes()].concat();
            std::io::Write::write_all(&mut child, &record).expect("there is room");
        }
        let mut failure = |pid| failures.of(pid).and_then(|error| error.raw_os_error());
        assert_eq!(failure(4712), Some(libc::EACCES));
        assert_eq!(failure(4712), None);
        assert_eq!(failure(1), None);
        assert_eq!(failure(4711), Some(libc::ENOENT));
    }
}
