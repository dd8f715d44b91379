//! A temporary folder with all files of a scheduler.
//!
//! ```text
//! postoffice/          the spool
//! mail/                mailboxes
//! zmailer.conf         the ZENV file; defines SITE (this folder) and AGENTS (the scripted agents)
//! scheduler.cf         the configuration
//! log, statistics      what the scheduler writes
//! mailq                the MAILQ socket
//! events               what the agent count.py logs
//! ```

use super::wait::timeouts_scale;
use super::{Daemon, SCHEDULER, allow, events, processes, until};
use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zsched_format::control_file::compose::{Address, Group, Recipient};
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, Spool, SpoolName};

/// The beginning of all configurations.
const DEFAULTS: &str = "PARAMmailqsock=\"UNIX:${SITE}/mailq\"\n\
     */*\n\tinterval=1s retries=1 skew=1 expiry=1h\n";

pub struct Site {
    root: TempDir,
    pub spool: Spool,
    pub level: HashLevel,
    /// Owner of the files of new messages, if not our user.
    pub owner: Cell<Option<u32>>,
}

impl Site {
    /// Creates a site whose configuration has these clauses, behind defaults with short intervals.
    pub fn new(clauses: &str) -> Site {
        Site::in_folder(tempfile::tempdir().expect("a temporary folder"), clauses)
    }

    /// Creates a site whose spool has levels of single-letter folders.
    pub fn with_level(level: HashLevel, clauses: &str) -> Site {
        let mut site = Site::new(clauses);
        site.level = level;
        site
    }

    pub fn in_folder(root: TempDir, clauses: &str) -> Site {
        let spool = Spool::new(root.path().join("postoffice"));
        let site = Site { root, spool, level: HashLevel::Flat, owner: Cell::new(None) };
        site.spool.create().expect("a spool");
        // Agents may run as other users.
        allow(site.path(""), 0o755);
        for (name, mode) in [("mail", 0o777), ("events", 0o666)] {
            match mode {
                0o777 => fs::create_dir(site.path(name)).expect("a folder"),
                _ => fs::write(site.path(name), "").expect("a file"),
            }
            allow(site.path(name), mode);
        }
        let source = zsched_tests::source().display();
        site.write(
            "zmailer.conf",
            &format!(
                "POSTOFFICE={}\nSITE={}\nAGENTS={source}/tests/data/integration/agents\n\
                 EXAMPLES={source}/docs/examples/agents\nPATH={}\nZCONFIG={}\n",
                site.spool.postoffice().display(),
                site.root.path().display(),
                path_for_python(),
                site.path("zmailer.conf").display(),
            ),
        );
        site.configure(clauses);
        site
    }

    /// Writes a configuration with the defaults and these clauses.
    pub fn configure(&self, clauses: &str) {
        self.write("scheduler.cf", &format!("{DEFAULTS}{clauses}\n"));
    }

    /// Adds a line to the ZENV file.
    pub fn add_zenv(&self, line: &str) {
        let text = self.read("zmailer.conf");
        self.write("zmailer.conf", &format!("{text}{line}\n"));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("write a file");
    }

    /// Returns the text of a file; an empty one if the file does not exist.
    pub fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn log(&self) -> String {
        self.read("log")
    }

    /// Returns the number of lines in the log that contain `text`.
    pub fn logged(&self, text: &str) -> usize {
        self.log().lines().filter(|line| line.contains(text)).count()
    }

    /// Waits until `count` lines of the log contain `text`. A worker writes the log.
    #[track_caller]
    pub fn until_logged(&self, text: &str, count: usize) {
        until(&format!("{count} lines of the log have {text:?}"), || self.logged(text) == count);
    }

    /// Starts the scheduler and waits until the initial scan is over.
    pub fn start(&self) -> Daemon<'_> {
        self.start_with(&[])
    }

    pub fn start_with(&self, options: &[&str]) -> Daemon<'_> {
        let looked = self.logged("initial scan complete");
        let mut daemon = self.spawn(options);
        until("the scheduler has looked through the spool", || {
            daemon.assert_runs();
            self.logged("initial scan complete") > looked
        });
        daemon
    }

    /// Starts the scheduler in the foreground.
    pub fn spawn(&self, options: &[&str]) -> Daemon<'_> {
        self.spawn_into("output", options)
    }

    /// Starts the scheduler in the foreground, with its standard output and error in this file.
    pub fn spawn_into(&self, name: &str, options: &[&str]) -> Daemon<'_> {
        let mut command = self.scheduler();
        command.arg("-i").args(self.file_options()).args(options);
        let output = || fs::File::create(self.path(name)).expect("a file for its output");
        command.stdin(Stdio::null()).stdout(output()).stderr(output());
        Daemon::new(self, command.spawn().expect("the scheduler starts"))
    }

    /// Returns the scheduler's command, with our ZENV file and configuration, and scaled timeouts.
    ///
    /// A test that must not reach a timeout adds `--timeouts-scale=1`.
    pub fn scheduler(&self) -> Command {
        let mut command = Command::new(SCHEDULER);
        command.arg("-Z").arg(self.path("zmailer.conf")).arg("-f").arg(self.path("scheduler.cf"));
        command.arg(format!("--timeouts-scale={}", timeouts_scale()));
        command.env_remove("TZ");
        command
    }

    /// Returns the options that name the output files.
    pub fn file_options(&self) -> Vec<String> {
        let path = |name| self.path(name).to_string_lossy().into_owned();
        let (log, statistics, dump) = (path("log"), path("statistics"), path("rendezvous"));
        let options = ["-L", &log, "-l", &statistics, "-q", &dump];
        let level: &[&str] = match self.level {
            HashLevel::Flat => &[],
            HashLevel::Once => &["-H"],
            HashLevel::Twice => &["-HH"],
        };
        options.iter().chain(level).map(|option| option.to_string()).collect()
    }

    /// Runs the scheduler until it exits.
    pub fn run(&self, options: &[&str]) -> Output {
        let mut command = self.scheduler();
        command.args(options).stdin(Stdio::null());
        command.output().expect("the scheduler starts")
    }

    /// Submits a message with the program `submit`. Returns its name.
    pub fn submit(&self, arguments: &[&str], text: &str) -> String {
        let mut child = Command::new(zsched_tests::program("submit"))
            .arg("-Z")
            .arg(self.path("zmailer.conf"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("submit starts");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("submit reads");
        drop(input);
        let output = child.wait_with_output().expect("submit ends");
        assert!(output.status.success(), "submit: {}", output.status);
        String::from_utf8(output.stdout).expect("a name").trim().to_string()
    }

    /// Puts a message into the spool as a router does, without a notification.
    ///
    /// Recipients are `channel host user`.
    pub fn put_quietly(&self, recipients: &[&str]) -> SpoolName {
        let submitter = Submitter { spool: self.spool.clone(), level: self.level, sync: false };
        let recipient = |text: &&str| {
            let (words, notify) = text.split_once(" | ").unwrap_or((text, ""));
            let words: Vec<&str> = words.split(' ').collect();
            let address = Address::new(words[0], words[1], words[2], 65534);
            Recipient { address, notify: notify.to_string(), end: None }
        };
        let group = Group {
            sender: Address::new("local", "", "sender@x", 0),
            recipients: recipients.iter().map(recipient).collect(),
            headers: "Subject: test\n".into(),
            ..Group::default()
        };
        let message = b"Subject: test\n\nThis is the body.\n";
        let name = submitter.submit(message, "<id@x>", vec![group], None).expect("submitted");
        if let Some(owner) = self.owner.get() {
            for path in [self.spool.message_file(&name), self.spool.control_file(&name)] {
                chown(path, Some(owner), Some(owner)).expect("given away");
            }
        }
        name
    }

    /// Puts a message into the spool and notifies the scheduler.
    pub fn put(&self, recipients: &[&str]) -> SpoolName {
        let name = self.put_quietly(recipients);
        self.notify(&format!("NEW {name}"));
        name
    }

    /// Sends a datagram to the scheduler.
    pub fn notify(&self, text: &str) {
        self.notify_bytes(text.as_bytes());
    }

    pub fn notify_bytes(&self, datagram: &[u8]) {
        let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        let sent = socket.send_to(datagram, self.notify_socket());
        sent.expect("the scheduler has its socket open");
    }

    pub fn notify_socket(&self) -> PathBuf {
        self.path("postoffice/.scheduler.notify")
    }

    /// Writes a control file and a message file of the same name.
    ///
    /// The control file may be malformed.
    pub fn put_file(&self, name: &str, control: &[u8]) {
        self.put_prepared_file(name, control, |_| {});
    }

    /// The same, with changes to the message file before the scheduler can see the message.
    pub fn put_prepared_file(&self, name: &str, control: &[u8], prepare: impl FnOnce(&Path)) {
        let message = self.path(&format!("postoffice/queue/{name}"));
        let control_file = self.path(&format!("postoffice/transport/{name}"));
        for path in [&message, &control_file] {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        }
        fs::write(&message, "Subject: test\n\nThis is the body.\n").expect("a message file");
        prepare(&message);
        let hidden = control_file.with_file_name(".new");
        fs::write(&hidden, control).expect("a control file");
        fs::rename(hidden, control_file).expect("renamed");
    }

    /// Returns the sorted names of all files below a folder of the spool.
    ///
    /// Hidden files are included.
    pub fn files(&self, folder: &str) -> Vec<String> {
        let top = self.path("postoffice").join(folder);
        let mut found = Vec::new();
        collect(&top, &top, &mut found);
        found.sort();
        found
    }

    /// Returns true if neither control files nor message files are left.
    pub fn is_empty(&self) -> bool {
        self.files("transport").is_empty() && self.files("queue").is_empty()
    }

    #[track_caller]
    pub fn until_empty(&self) {
        until("the spool is empty", || self.is_empty());
    }

    /// The submissions that the router has, in order of their texts.
    pub fn submissions(&self) -> Vec<String> {
        let names = self.files("router").into_iter();
        // One may be renamed meanwhile.
        let mut texts: Vec<String> = names
            .filter_map(|name| fs::read(self.path(&format!("postoffice/router/{name}"))).ok())
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect();
        texts.sort();
        texts
    }

    /// Waits until the router has one submission, and returns it.
    pub fn until_submission(&self) -> String {
        super::until("the router has a submission", || self.files("router").len() == 1);
        self.submissions().remove(0)
    }

    pub fn events(&self) -> events::Events {
        events::Events::read(&self.path("events"))
    }

    pub fn mailq(&self) -> super::Dump {
        super::Dump::fetch(&self.path("mailq"))
    }

    /// Waits until MAILQ shows a vertex with `text` in its line. Returns that line's text.
    #[track_caller]
    pub fn until_shown(&self, text: &str) -> String {
        super::until_some(&format!("MAILQ shows {text:?}"), || {
            let dump = self.mailq();
            dump.vertices
                .iter()
                .map(|vertex| vertex.text.clone())
                .find(|shown| shown.contains(text))
        })
    }

    /// Kills all processes that work in the site's folder.
    pub fn kill_all(&self) {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(10) {
            let processes = processes::working_in(self.root.path());
            if processes.is_empty() {
                return;
            }
            for pid in processes {
                // The process may have exited meanwhile.
                drop(zsched_sys::send_signal(pid, 9));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill_all();
        if std::thread::panicking() {
            for (title, text) in [("log", self.log()), ("events", self.read("events"))] {
                let lines: Vec<&str> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(60)..];
                println!("--- the end of the {title}:\n{}", last.join("\n"));
            }
            for folder in ["transport", "queue", "postman"] {
                let files = self.files(folder);
                let some = &files[..files.len().min(20)];
                println!("--- {} files in {folder}: {some:?}", files.len());
            }
            println!("--- output:\n{}", self.read("output"));
        }
    }
}

fn collect(top: &Path, folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(top, &path, found);
        } else {
            let name = path.strip_prefix(top).expect("below the folder");
            found.push(name.to_string_lossy().into_owned());
        }
    }
}

/// Returns the text of a control file for message `name`.
///
/// Recipients are `channel host user`, each with an optional `N` line behind ` | `.
pub fn control_file(name: &str, recipients: &[&str]) -> String {
    let mut text = format!("@ 0x00000007\ni {name}\no 15\nl <id@x>\ns local - sender@x 0\n");
    for recipient in recipients {
        let (address, notify) = recipient.split_once(" | ").unwrap_or((recipient, ""));
        text.push_str(&format!("r           {address} 0\n"));
        if !notify.is_empty() {
            text.push_str(&format!("N {notify}\n"));
        }
    }
    text + "m\nSubject: test\n\n"
}

/// Returns a search path with a python3 that every user can run.
fn path_for_python() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let usual = "/usr/bin:/bin".to_string();
        if Path::new("/usr/bin/python3").exists() {
            return usual;
        }
        let ask = "import os, sys; print(os.path.dirname(sys.executable))";
        let output = Command::new("python3").args(["-c", ask]).output();
        let output = output.expect("these tests need python3");
        format!("{}:{usual}", String::from_utf8_lossy(&output.stdout).trim())
    })
}
