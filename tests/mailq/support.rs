//! Runs of `mailq`, and servers for it.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time after which a test gives up.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Returns a recording.
pub fn recorded(name: &str) -> Vec<u8> {
    let path = zsched_tests::source().join("tests/data/mailq").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns ZMailer's output as ours prints it: CR, which agents put between lines, is a blank.
pub fn printed(original: &str) -> String {
    original.replace('\r', " ")
}

/// Result of a run of `mailq`.
pub struct Run {
    pub status: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let out = String::from_utf8_lossy(&self.out);
        write!(f, "status {}\n{out}\n{}", self.status, self.err)
    }
}

impl Run {
    pub fn text(&self) -> String {
        String::from_utf8(self.out.clone()).expect("the output is text")
    }

    /// Returns the output of a run without warnings.
    #[track_caller]
    pub fn good(&self) -> String {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{self:?}");
        self.text()
    }

    /// Checks that the run has failed with this status and message.
    #[track_caller]
    pub fn failed(&self, status: i32, words: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.err.contains(words), "{words:?} is not in {self:?}");
    }
}

/// Folders of an installation, with a ZENV file.
pub struct Site {
    root: TempDir,
}

impl Site {
    pub fn new() -> Site {
        let site = Site { root: tempfile::tempdir().expect("a temporary folder") };
        for folder in ["router", "transport", "queue", "deferred", "public"] {
            fs::create_dir_all(site.spool().join(folder)).expect("a folder");
        }
        site.write_zenv("");
        site
    }

    /// Creates a site whose spool has the messages of the recording `full.s2c`.
    pub fn with_messages() -> Site {
        let site = Site::new();
        for folder in ["transport", "queue"] {
            let source = zsched_tests::source().join("tests/data/mailq/spool");
            for entry in fs::read_dir(source.join(folder)).expect("recorded files") {
                let entry = entry.expect("a recorded file");
                let copy = site.spool().join(folder).join(entry.file_name());
                fs::copy(entry.path(), copy).expect("copied");
            }
        }
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn spool(&self) -> PathBuf {
        self.path("postoffice")
    }

    /// Writes the ZENV file with the spool and these lines.
    pub fn write_zenv(&self, lines: &str) {
        let text = format!("POSTOFFICE={}\n{lines}", self.spool().display());
        fs::write(self.path("zmailer.conf"), text).expect("written");
    }

    /// Returns `mailq` with our ZENV file and arguments, which must not contain blanks.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mailq"));
        command.arg("-Z").arg(self.path("zmailer.conf"));
        command.args(arguments.split_ascii_whitespace()).env("TZ", "UTC");
        command
    }

    /// Runs `mailq` until it exits.
    #[track_caller]
    pub fn mailq(&self, arguments: &str) -> Run {
        run(&mut self.command(arguments))
    }

    /// Runs `mailq` with an input until it exits.
    #[track_caller]
    pub fn mailq_with_input(&self, arguments: &str, input: &str) -> Run {
        let path = self.path("input");
        fs::write(&path, input).expect("written");
        let mut command = Command::new("sh");
        command.args(["-c", "input=$1; shift; exec \"$@\" < \"$input\"", "sh"]).arg(&path);
        command.arg(env!("CARGO_BIN_EXE_mailq")).args(arguments.split_ascii_whitespace());
        run(&mut command)
    }

    /// Runs a command with a server that gives this answer.
    #[track_caller]
    pub fn ask_command(&self, answer: &[u8], arguments: &str) -> Run {
        let server = Server::with_answer(answer);
        let run = self.mailq(&format!("{arguments} -p {} --server 127.0.0.1", server.port));
        server.end();
        run
    }

    /// Runs `mailq` with a server that gives this answer.
    #[track_caller]
    pub fn ask(&self, answer: &[u8], arguments: &str) -> Run {
        let server = Server::with_answer(answer);
        let run = self.mailq(&format!("-p {} {arguments} 127.0.0.1", server.port));
        server.end();
        run
    }
}

/// Runs a command until it exits, or fails after the deadline.
#[track_caller]
pub fn run(command: &mut Command) -> Run {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let out = collect(child.stdout.take().expect("a pipe"));
    let err = collect(child.stderr.take().expect("a pipe"));
    let status = wait(&mut child);
    let out = out.join().expect("the output is read");
    let err = err.join().expect("the errors are read");
    Run { status, out, err: String::from_utf8_lossy(&err).into_owned() }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        pipe.read_to_end(&mut all).expect("a pipe can be read");
        all
    })
}

#[track_caller]
fn wait(child: &mut Child) -> i32 {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status.code().unwrap_or_else(|| panic!("it ended with {status}"));
        }
        if started.elapsed() > DEADLINE {
            child.kill().expect("it can be killed");
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A server for one client.
pub struct Server {
    pub port: u16,
    serving: JoinHandle<()>,
}

impl Server {
    /// Starts a server that gives this answer and closes the connection.
    pub fn with_answer(answer: &[u8]) -> Server {
        let answer = answer.to_vec();
        Server::new(move |mut stream| {
            // The client may close the connection before it has read all.
            drop(stream.write_all(&answer));
            drop(stream.shutdown(Shutdown::Write));
            // A connection that is closed with unread input is reset, and loses the output.
            drop(std::io::copy(&mut stream, &mut std::io::sink()));
        })
    }

    /// Starts a server that runs `serve` with its client.
    pub fn new(serve: impl FnOnce(std::net::TcpStream) + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let serving = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            serve(stream);
        });
        Server { port, serving }
    }

    /// Waits until the client has been served.
    #[track_caller]
    pub fn end(self) {
        self.serving.join().expect("the client was served");
    }
}

/// Gives an answer to one client of a UNIX socket.
pub fn serve_unix(path: &Path, answer: Vec<u8>) -> JoinHandle<()> {
    let listener = UnixListener::bind(path).expect("a socket");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(&answer).expect("it takes everything");
        stream.shutdown(Shutdown::Both).expect("closed");
    })
}
