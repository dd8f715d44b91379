//! A spool, and an agent at the other end of a socket pair.

use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time after which a test gives up.
const DEADLINE: Duration = Duration::from_secs(120);

/// A spool in a temporary folder, which also has a folder of mailboxes.
pub struct Spool {
    root: TempDir,
}

impl Default for Spool {
    fn default() -> Spool {
        Spool::new()
    }
}

impl Spool {
    /// Creates a spool with its folders.
    pub fn new() -> Spool {
        let root = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool { root };
        // Agents may act as other users, which need access to the folders.
        allow(spool.path(""), 0o755);
        for folder in ["transport", "queue", "public", "router", "mail"] {
            fs::create_dir(spool.path(folder)).expect("make a folder");
        }
        spool
    }

    /// Returns a path in the spool.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Puts a message into the queue: control file, and message file with this body at offset 6.
    pub fn put(&self, name: &str, control: &str, body: &str) {
        self.write(&format!("queue/{name}"), &format!("H: x\n\n{body}"));
        self.write(&format!("transport/{name}"), control);
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("write a file");
    }

    /// Returns the text of a file.
    pub fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).expect("read a file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the names in a folder, sorted.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).expect("read a folder");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// Returns the lines of the control file `name` that begin with `id`.
    pub fn lines(&self, name: &str, id: char) -> Vec<String> {
        let text = self.read(&format!("transport/{name}"));
        text.lines().filter(|line| line.starts_with(id)).map(str::to_string).collect()
    }

    /// Returns our folder of mailboxes, as `mailbox` gets it in an option.
    pub fn mail(&self) -> String {
        self.path("mail").to_string_lossy().into_owned()
    }

    /// Runs `program` with `input` until it exits. Returns its whole output.
    pub fn session(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let mut agent = Agent::start(self, program, arguments);
        agent.send(input);
        let (answers, status) = agent.end();
        assert!(status.success(), "{program} ended with {status}, after {answers:?}");
        answers
    }

    /// Runs `program` like `session`, but not as root.
    ///
    /// If necessary, all files are given to another user first. Returns `None` if that user may not
    /// run the program.
    pub fn ordinary_session(
        &self,
        program: &str,
        arguments: &[&str],
        input: &str,
    ) -> Option<String> {
        let nobody = 65534;
        if is_root() {
            let given =
                Command::new("chown").args(["-R", &nobody.to_string()]).arg(self.path("")).status();
            assert!(given.expect("chown starts").success());
        }
        let user = is_root().then_some(nobody);
        let Ok(mut agent) = Agent::start_as(self, user, program, arguments) else {
            not_run(&format!("{program} as an ordinary user: it may not be run"));
            return None;
        };
        agent.send(input);
        let (answers, status) = agent.end();
        assert!(status.success(), "{program} ended with {status}, after {answers:?}");
        Some(answers)
    }

    /// Runs `mailbox` with our folder, without regard to the user who runs the tests.
    pub fn deliver(&self, arguments: &[&str], input: &str) -> String {
        let mail = self.mail();
        let mailbox = crate::program("mailbox");
        let mailbox = mailbox.to_str().expect("the path is text");
        self.session(mailbox, &[&["-u", "-d", &mail], arguments].concat(), input)
    }
}

/// Returns the text of a control file for message `name` from `sender`.
///
/// Recipients are `channel host user`, each with an optional `N` line behind ` | `.
pub fn control_file(name: &str, sender: &str, recipients: &[&str]) -> String {
    let mut text = format!("@ 0x00000007\ni {name}\no 6\nl <id@x>\ns {sender} 0\n");
    for recipient in recipients {
        let (address, notify) = recipient.split_once(" | ").unwrap_or((recipient, ""));
        writeln!(text, "r           {address} 0").expect("a String takes everything");
        if !notify.is_empty() {
            writeln!(text, "N {notify}").expect("a String takes everything");
        }
    }
    text + "m\nSubject: test\n\n"
}

/// Returns the offset of the recipient line number `index` in a control file.
pub fn offset(control: &str, index: usize) -> usize {
    let places = control.match_indices("\nr").map(|(at, _)| at + 1);
    places.into_iter().nth(index).expect("enough recipients")
}

/// Changes the mode of a file.
pub fn allow(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("change the mode");
}

/// Returns true if root runs the tests.
pub fn is_root() -> bool {
    zsched_sys::users::is_root()
}

/// Reports that a part of a test was skipped.
///
/// It writes past the test harness, which hides the output of successful tests.
pub fn not_run(why: &str) {
    let line = format!("*** NOT RUN: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes it");
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running agent, with the scheduler's end of its socket.
pub struct Agent {
    child: Child,
    socket: UnixStream,
    /// Output that was received but not returned.
    unread: Vec<u8>,
}

impl Agent {
    /// Starts an agent in `transport/`, with a socket as its input and output.
    pub fn start(spool: &Spool, program: &str, arguments: &[&str]) -> Agent {
        Agent::start_as(spool, None, program, arguments).expect("the agent starts")
    }

    /// Starts an agent as another user, whose only group has the same number.
    fn start_as(
        spool: &Spool,
        user: Option<u32>,
        program: &str,
        arguments: &[&str],
    ) -> std::io::Result<Agent> {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let descriptor = || OwnedFd::from(theirs.try_clone().expect("another descriptor"));
        let mut command = Command::new(program);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let child = command
            .args(arguments)
            .current_dir(spool.path("transport"))
            .stdin(descriptor())
            .stdout(descriptor())
            .stderr(descriptor())
            .spawn()?;
        ours.set_read_timeout(Some(DEADLINE)).expect("set a deadline");
        Ok(Agent { child, socket: ours, unread: Vec::new() })
    }

    /// Starts an agent from a shell that has run `preparation` first.
    pub fn start_after(
        spool: &Spool,
        preparation: &str,
        program: &str,
        arguments: &[&str],
    ) -> Agent {
        let script = format!("{preparation}; exec \"$@\"");
        let words = [&["-c", &script, "sh", program], arguments].concat();
        Agent::start(spool, "sh", &words)
    }

    /// The process of the agent.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends text to the agent.
    pub fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).expect("the agent listens");
    }

    /// Returns the output up to and including the next line that begins with `word`.
    pub fn read_until(&mut self, word: &str) -> String {
        let mut heard = String::new();
        loop {
            let line = self.line().unwrap_or_else(|| panic!("no {word} behind {heard:?}"));
            heard.push_str(&line);
            if line.starts_with(word) {
                return heard;
            }
        }
    }

    /// Returns the next line, which may be incomplete. Returns `None` at the end.
    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line).into_owned());
            }
            if !self.receive() {
                let rest = std::mem::take(&mut self.unread);
                let rest = String::from_utf8_lossy(&rest).into_owned();
                return (!rest.is_empty()).then_some(rest);
            }
        }
    }

    fn receive(&mut self) -> bool {
        let mut buffer = [0; 65536];
        match self.socket.read(&mut buffer) {
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                count > 0
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => self.receive(),
            // The agent exited with unread input.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("the agent says nothing: {error}"),
        }
    }

    /// Ends the input. Returns the remaining output and the status.
    pub fn end(mut self) -> (String, ExitStatus) {
        self.close_input();
        let mut heard = String::new();
        while let Some(line) = self.line() {
            heard.push_str(&line);
        }
        (heard, self.wait())
    }

    /// Ends the input of the agent.
    pub fn close_input(&mut self) {
        match self.socket.shutdown(std::net::Shutdown::Write) {
            Err(error) if error.kind() != ErrorKind::NotConnected => panic!("{error}"),
            _ => {}
        }
    }

    /// Closes the socket like a killed scheduler, then runs `then`. Returns the agent's status.
    pub fn disconnect(self, then: impl FnOnce()) -> ExitStatus {
        let Agent { mut child, socket, .. } = self;
        drop(socket);
        then();
        wait(&mut child)
    }

    /// Waits until the agent has exited.
    pub fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Sends a signal to the agent: the name without SIG.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().expect("kill starts");
        assert!(status.success(), "kill -s {name}");
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the agent ends", || {
        status = child.try_wait().expect("it is our child");
        status.is_some()
    });
    status.expect("waited for it")
}
