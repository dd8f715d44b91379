//! A spool with a configuration, and the server that works on it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zsched_spool::Spool;

/// Time after which a test gives up.
const DEADLINE: Duration = Duration::from_secs(60);

pub const SERVER: &str = env!("CARGO_BIN_EXE_smtpserver");

/// Users of the site: `alice` and `bob` at `here.test`.
const ROUTER_CONFIG: &str = "hostname mx.test\nusers file DIR/users\nrefuse gone@here.test\nlocal here.test\n\
     refuse *.invalid 5.1.2 \"no such domain\"\n";

pub struct Site {
    root: TempDir,
    pub spool: Spool,
}

impl Site {
    /// Creates a spool, and configurations. `DIR` in lines stands for the folder of the site.
    pub fn new(config: &str) -> Site {
        Site::in_folder(tempfile::tempdir().expect("a temporary folder"), config)
    }

    pub fn in_folder(root: TempDir, config: &str) -> Site {
        let spool = Spool::new(root.path().join("postoffice"));
        spool.create().expect("a spool");
        let site = Site { root, spool };
        site.write("users", "alice\nbob\n");
        site.write_config("router.cf", ROUTER_CONFIG);
        site.write_config("smtpserver.cf", config);
        site
    }

    pub fn write_config(&self, name: &str, text: &str) {
        self.write(name, text.replace("DIR", &self.path("").to_string_lossy()));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).expect("written");
    }

    pub fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn server(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(SERVER);
        command.arg("-P").arg(self.spool.postoffice());
        command.arg("-f").arg(self.path("smtpserver.cf")).arg("-r").arg(self.path("router.cf"));
        command.args(arguments).env("TZ", "UTC");
        command
    }

    /// Starts the server in the foreground, with its log in a file.
    pub fn start(&self) -> Daemon {
        self.start_command(self.server(&[]))
    }

    pub fn start_command(&self, mut command: Command) -> Daemon {
        let former = self.read("log").matches("started, pid").count();
        command.arg("-i").arg("-L").arg(self.path("log"));
        let child = command.stdin(Stdio::null()).spawn().expect("the server starts");
        let mut daemon = Daemon { child, ports: Vec::new() };
        let wanted = self.read("smtpserver.cf").matches("listen ").count();
        until("the server listens", || {
            let log = self.read("log");
            let Some((at, _)) = log.match_indices("started, pid").nth(former) else {
                return false;
            };
            let ports = log[at..].lines().filter_map(|line| line.split_once(" on "));
            daemon.ports = ports.filter_map(|(_, address)| address.parse().ok()).collect();
            daemon.ports.len() == wanted
        });
        daemon
    }

    /// The texts of the submissions in `router/`.
    pub fn submissions(&self) -> Vec<String> {
        let entries = fs::read_dir(self.spool.router()).expect("a folder");
        let text = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.expect("an entry").path();
            String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned()
        };
        entries.map(text).collect()
    }

    /// Runs the router once. Returns the only control file.
    pub fn route(&self) -> String {
        let mut router = Command::new(zsched_tests::program("router"));
        router.arg("-1").arg("-P").arg(self.spool.postoffice());
        let output = router.arg("-f").arg(self.path("router.cf")).output().expect("it runs");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let entry = fs::read_dir(self.spool.transport()).expect("a folder").next();
        let entry = entry.unwrap_or_else(|| panic!("{log}")).expect("an entry");
        fs::read_to_string(entry.path()).expect("a control file")
    }

    /// Number of files in a folder of the spool.
    pub fn count(&self, folder: &str) -> usize {
        fs::read_dir(self.spool.postoffice().join(folder)).expect("a folder").count()
    }

    /// Returns true if a file in `public/` or `router/` has a sender of this name.
    pub fn stores(&self, name: &str) -> bool {
        let sender = format!("from <{name}@x>\n");
        let folders = [self.spool.public(), self.spool.router()];
        let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
        // A file may be removed meanwhile.
        let text = |file: fs::DirEntry| fs::read(file.path()).unwrap_or_default();
        let begins = |text: Vec<u8>| {
            String::from_utf8_lossy(&text[..text.len().min(1000)]).contains(&sender)
        };
        files.filter_map(Result::ok).any(|file| begins(text(file)))
    }

    pub fn until_logged(&self, text: &str) {
        until(text, || self.read("log").contains(text));
    }
}

/// A server that runs. It is killed in the end.
pub struct Daemon {
    pub child: Child,
    /// The ports, in the order of the configuration.
    pub ports: Vec<SocketAddr>,
}

impl Daemon {
    pub fn connect(&self) -> Client {
        Client::connect(self.ports[0])
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status();
        assert!(status.expect("kill starts").success());
    }

    /// Value of a line of `/proc/PID/status`, in kilobytes.
    pub fn memory(&self, line: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(path).expect("the process runs");
        let value = text.lines().find_map(|found| found.strip_prefix(line));
        let digits = value.expect("the line").trim_matches(|c: char| !c.is_ascii_digit());
        digits.parse().expect("a number")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A client that sends what a test says.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(DEADLINE)).expect("set");
        Client { reader: BufReader::new(stream) }
    }

    /// A client that has read the greeting and said hello.
    pub fn hello(address: SocketAddr) -> Client {
        let mut client = Client::connect(address);
        assert_eq!(client.code(), "220");
        assert_eq!(client.say("EHLO client.test\r\n"), "250");
        client
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The server may have closed the connection.
        drop(self.reader.get_mut().write_all(bytes.as_ref()));
    }

    /// Waits until the server has sent something, which is not read.
    pub fn wait_for_bytes(&self) {
        assert!(self.reader.buffer().is_empty());
        assert_eq!(self.reader.get_ref().peek(&mut [0]).expect("a byte"), 1);
    }

    /// The next reply, all of its lines. Empty at the end.
    pub fn reply(&mut self) -> String {
        let mut reply = String::new();
        loop {
            let mut line = String::new();
            // A reset is an end, too.
            let count = self.reader.read_line(&mut line).unwrap_or(0);
            reply.push_str(&line);
            if count == 0 || line.as_bytes().get(3) != Some(&b'-') {
                return reply;
            }
        }
    }

    /// The code of the next reply; `end` at the end.
    pub fn code(&mut self) -> String {
        self.reply().get(..3).unwrap_or("end").to_string()
    }

    /// Sends a line. Returns the code of the reply.
    pub fn say(&mut self, line: &str) -> String {
        self.send(line);
        self.code()
    }

    /// Sends an envelope up to the reply to DATA.
    pub fn begin_data(&mut self) {
        assert_eq!(self.say("MAIL FROM:<s@client.test>\r\n"), "250");
        assert_eq!(self.say("RCPT TO:<alice@here.test>\r\n"), "250");
        assert_eq!(self.say("DATA\r\n"), "354");
    }

    /// Closes this side only.
    pub fn shut(&mut self) {
        self.reader.get_mut().shutdown(std::net::Shutdown::Write).expect("shut");
    }

    /// All bytes up to the end of the connection. A reset is an end, too.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        drop(self.reader.read_to_end(&mut rest));
        rest
    }

    /// Returns true if the server closes the connection.
    pub fn is_closed(&mut self) -> bool {
        self.rest().is_empty()
    }
}

/// The path of a file of another package: unpacked below `ZSCHED_PEERS` by `.ci/run`, or installed.
///
/// With `CI` set, a test fails where its peer is absent; elsewhere it says so.
pub fn peer_path(path: &str) -> Option<PathBuf> {
    let roots = std::env::var_os("ZSCHED_PEERS").map(PathBuf::from).into_iter();
    let found = roots.chain([PathBuf::from("/")]).map(|root| root.join(path));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        skip(&format!("{path} is missing; ZSCHED_PEERS may name a folder with it"));
    }
    found
}

/// Says that a test is not run. With `CI` set, it fails.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    println!("*** NOT RUN: {why}");
}

/// The command that runs a program of another package.
pub fn peer(path: &str) -> Option<Command> {
    let program = peer_path(path)?;
    let mut command = Command::new(&program);
    let libraries = program.ancestors().nth(2).map(|usr| usr.join("lib/postfix"));
    command.env("LD_LIBRARY_PATH", libraries.unwrap_or_default());
    Some(command)
}

/// Waits for a condition, up to the deadline.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "in vain: {what}");
        sleep(Duration::from_millis(5));
    }
}
