//! An installation of its own for each test.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zsched_spool::Spool;

pub const SENDMAIL: &str = env!("CARGO_BIN_EXE_sendmail");
/// Maximum time that a test waits for something.
const DEADLINE: Duration = Duration::from_secs(60);

pub struct Installation {
    root: TempDir,
    pub spool: Spool,
}

impl Installation {
    pub fn new() -> Installation {
        let root = tempfile::tempdir().expect("a temporary folder");
        allow(root.path(), 0o755);
        let spool = Spool::new(root.path().join("postoffice"));
        spool.create().expect("a spool");
        allow(spool.postoffice(), 0o755);
        let installation = Installation { root, spool };
        let postoffice = format!("POSTOFFICE={}\n", installation.spool.postoffice().display());
        fs::write(installation.zenv(), postoffice).expect("written");
        installation
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn zenv(&self) -> PathBuf {
        self.path("zmailer.conf")
    }

    pub fn add_zenv(&self, line: &str) {
        let text = fs::read_to_string(self.zenv()).expect("a file");
        fs::write(self.zenv(), format!("{text}{line}\n")).expect("written");
    }

    /// Returns a command that finds the installation as programs of users do.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("ZCONFIG", self.zenv()).env_remove("NAME").current_dir(self.root.path());
        command
    }

    pub fn sendmail(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(SENDMAIL);
        command.args(arguments);
        command
    }

    /// Sends a message. Returns the submission.
    #[track_caller]
    pub fn send(&self, arguments: &[&str], input: &[u8]) -> String {
        let output = run(self.sendmail(arguments), input);
        assert_eq!(status_and_text(&output), (Some(0), String::new()), "{arguments:?}");
        self.take()
    }

    /// Takes the only submission out of `router/`, as a router does.
    #[track_caller]
    pub fn take(&self) -> String {
        let mut all = self.take_all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Takes all submissions out of `router/`.
    #[track_caller]
    pub fn take_all(&self) -> Vec<String> {
        assert_eq!(self.names("public"), [""; 0]);
        let take = |name: String| {
            let path = self.spool.router().join(name);
            let text = fs::read(&path).expect("it can be read");
            fs::remove_file(path).expect("removed");
            String::from_utf8_lossy(&text).into_owned()
        };
        self.names("router").into_iter().map(take).collect()
    }

    /// Returns the names of the files in a folder of the spool.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.spool.postoffice().join(folder)).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    #[track_caller]
    pub fn assert_nothing_is_there(&self) {
        for folder in ["public", "router"] {
            assert_eq!(self.names(folder), [""; 0], "{folder}");
        }
    }

    /// Fails unless the command is refused with this status and a text on standard error.
    #[track_caller]
    pub fn assert_refused(&self, command: Command, input: &[u8], status: i32, text: &str) {
        let shown = format!("{command:?}");
        let (found, said) = status_and_text(&run(command, input));
        assert_eq!(found, Some(status), "{shown}: {said}");
        assert!(said.contains(text), "{shown}: {said}");
        self.assert_nothing_is_there();
    }
}

/// Runs a command with an input.
pub fn run(mut command: Command, input: &[u8]) -> Output {
    let mut child = start(&mut command);
    // A program that refuses its command line does not read its input.
    drop(child.stdin.take().expect("a pipe").write_all(input));
    child.wait_with_output().expect("it ends")
}

pub fn start(command: &mut Command) -> Child {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pipes.spawn().expect("it starts")
}

/// Returns the exit status, and what was printed on standard error.
pub fn status_and_text(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

pub fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("change the mode");
}

/// Waits until `condition` holds.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reports that a part of a test was skipped.
///
/// It writes past the test harness, which hides the output of successful tests.
pub fn not_run(why: &str) {
    let line = format!("*** NOT RUN: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes it");
}

/// Returns true if a program can be started.
pub fn has_program(name: &str) -> bool {
    let mut command = Command::new(name);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let is_there = command.status().is_ok();
    if !is_there {
        absent(name);
    }
    is_there
}

/// Reports that a program is not installed. That is an error where `CI` is set.
pub fn absent(name: &str) {
    not_run(&format!("calls of sendmail by {name}: it is not installed"));
    assert!(std::env::var_os("CI").is_none(), "{name} is not installed: see .ci/run");
}
