//! A spool with a configuration, and the router that works on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zsched_format::control_file::{self, ControlFile};
use zsched_spool::Spool;

/// Time after which a test gives up.
const DEADLINE: Duration = Duration::from_secs(60);

pub const ROUTER: &str = env!("CARGO_BIN_EXE_router");

pub struct Site {
    root: TempDir,
    pub spool: Spool,
}

impl Site {
    /// Creates a spool, and a configuration with these lines.
    ///
    /// `DIR` in them stands for the folder of the site.
    pub fn new(config: &str) -> Site {
        let root = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(root.path().join("postoffice"));
        spool.create().expect("a spool");
        let site = Site { root, spool };
        site.configure(config);
        site
    }

    pub fn configure(&self, config: &str) {
        let config = config.replace("DIR", &self.path("").to_string_lossy());
        self.write("router.cf", format!("hostname zm.example.test\n{config}"));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).expect("written");
    }

    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).expect(name)).into_owned()
    }

    /// Puts a submission into `router/`, complete at once. Returns its number.
    pub fn submit(&self, name: &str, text: impl AsRef<[u8]>) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let scratch = self.spool.postoffice().join("public").join("scratch");
        fs::write(&scratch, text).expect("written");
        let number = fs::metadata(&scratch).expect("it is there").ino();
        fs::rename(scratch, self.spool.router().join(name)).expect("renamed");
        number
    }

    /// Puts a submission into `router/` that arrived some time ago. Returns its number.
    pub fn submit_old(&self, name: &str, text: impl AsRef<[u8]>, age: Duration) -> u64 {
        let number = self.submit(name, text);
        let file = fs::File::open(self.spool.router().join(name)).expect("it is there");
        file.set_modified(std::time::SystemTime::now() - age).expect("set");
        number
    }

    /// The command that runs the router on this site.
    pub fn router(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(ROUTER);
        command.arg("-P").arg(self.spool.postoffice()).arg("-f").arg(self.path("router.cf"));
        command.args(arguments).env("TZ", "UTC");
        command
    }

    /// Runs the router, and returns what it printed.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.router(arguments).output().expect("the router starts")
    }

    /// Routes all submissions. Returns the log.
    pub fn route(&self) -> String {
        let output = self.run(&["--once"]);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{:?}\n{log}", output.status);
        log
    }

    /// Routes one submission. Returns its control file.
    pub fn route_one(&self, text: impl AsRef<[u8]>) -> String {
        let number = self.submit("one", text);
        let log = self.route();
        let path = self.spool.transport().join(number.to_string());
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{error}\n{log}"));
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The names in a folder of the spool, sorted.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.spool.postoffice().join(folder)).expect("a folder");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// Starts the router in the foreground, with its log in a file.
    pub fn start(&self, arguments: &[&str]) -> Daemon {
        self.start_command(self.router(arguments))
    }

    /// The same with a command of [`router`](Site::router).
    pub fn start_command(&self, mut command: Command) -> Daemon {
        command.arg("-i").arg("-L").arg(self.path("log"));
        let child = command.stdin(Stdio::null()).spawn().expect("the router starts");
        let daemon = Daemon { child };
        until("the router listens", || self.spool.router_socket(None).exists());
        until("the router has started", || self.read("log").contains("started, pid"));
        daemon
    }
}

/// A router that runs. It is killed in the end.
pub struct Daemon {
    pub child: Child,
}

impl Daemon {
    pub fn signal(&self, signal: i32) {
        let status = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(self.child.id().to_string())
            .status();
        assert!(status.expect("kill starts").success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits for a condition, up to the deadline.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "in vain: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// The lines of a control file that begin with one of these letters, without the pid column.
pub fn lines(text: &str, letters: &str) -> Vec<String> {
    let mut is_header = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if is_header {
            is_header = !line.is_empty();
        } else if line == "m" {
            is_header = true;
        } else if line.starts_with(|letter| letters.contains(letter)) {
            found.push(line.replace("           ", " ").replace("          ", " "));
        }
    }
    found
}

pub fn parse(text: &str) -> ControlFile {
    control_file::parse(text.as_bytes().to_vec()).expect(text)
}

/// Reads a file of the test data.
pub fn data(name: &str) -> Vec<u8> {
    let path: &Path = &zsched_tests::source().join("tests/data/compat/control-files").join(name);
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
