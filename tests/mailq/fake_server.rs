//! Servers of MAILQ version 2 that replay answers.

use super::support::recorded;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use zsched_mailq_protocol::scram::{self, StoredPassword};

/// A session of a client.
pub struct RecordedSession {
    /// The challenge.
    pub challenge: String,
    /// Requests in their order, each with its answer.
    pub answers: Vec<(String, Vec<u8>)>,
}

impl RecordedSession {
    /// Reads a recording.
    pub fn recorded(name: &str) -> RecordedSession {
        let requests = String::from_utf8(recorded(&format!("v2/{name}.c2s"))).expect("ASCII");
        let said = recorded(&format!("v2/{name}.s2c"));
        let mut lines = said.split_inclusive(|byte| *byte == b'\n').peekable();
        assert_eq!(lines.next(), Some(&b"version zmailer 2.0\n"[..]));
        let challenge = lines.next().expect("a challenge");
        let mut answers = Vec::new();
        for request in requests.lines() {
            let mut answer = lines.next().unwrap_or_default().to_vec();
            if answer == b"+OK until LF.LF\n" {
                while !answer.ends_with(b"\n.\n") {
                    answer.extend(lines.next().expect("an end"));
                }
            }
            // An empty line follows the answer to KILL.
            while lines.next_if(|line| *line == b"\n").is_some() {
                answer.push(b'\n');
            }
            answers.push((request.to_string(), answer));
        }
        assert_eq!(lines.next(), None, "{name}");
        let challenge = String::from_utf8(challenge.to_vec()).expect("ASCII");
        RecordedSession { challenge, answers }
    }
}

/// Returns an answer that is a text.
pub fn text(lines: &[u8]) -> Vec<u8> {
    [b"+OK until LF.LF\n", lines, b".\n"].concat()
}

/// A server that answers fixed requests, in any order and any number of times.
pub struct FakeServer {
    pub port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    serving: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// Starts a server that replays a recording.
    pub fn of(session: RecordedSession) -> FakeServer {
        FakeServer::new(&session.challenge, session.answers.into_iter().collect())
    }

    /// Starts a server with these answers, which accepts every login.
    pub fn with_answers(answers: &[(&str, Vec<u8>)]) -> FakeServer {
        let answer = |(request, answer): &(&str, Vec<u8>)| (request.to_string(), answer.clone());
        FakeServer::new("220 MAILQ-V2-CHALLENGE: 1.2.3\n", answers.iter().map(answer).collect())
    }

    fn new(challenge: &str, answers: HashMap<String, Vec<u8>>) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let greeting = format!("version zmailer 2.0\n{challenge}");
        let is_recorded = answers.keys().any(|request| request.starts_with("AUTH "));
        let seen = Arc::clone(&requests);
        let serving = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            serve(stream, &greeting, &answers, is_recorded, &seen);
        });
        FakeServer { port, requests, serving: Some(serving) }
    }

    /// Waits until the client is gone. Returns its requests.
    #[track_caller]
    pub fn end(mut self) -> Vec<String> {
        // Without a client, the server would wait for one.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        let serving = self.serving.take().expect("it is not over yet");
        serving.join().expect("the client was served");
        std::mem::take(&mut self.requests.lock().expect("the mutex is not poisoned"))
    }
}

fn serve(
    mut stream: TcpStream,
    greeting: &str,
    answers: &HashMap<String, Vec<u8>>,
    is_recorded: bool,
    requests: &Mutex<Vec<String>>,
) {
    stream.write_all(greeting.as_bytes()).expect("it takes a greeting");
    let input = stream.try_clone().expect("a second handle");
    answer_all(input, &mut stream, requests, |request| match answers.get(request) {
        Some(answer) => answer.clone(),
        None if request.starts_with("AUTH ") && !is_recorded => b"+OK\n".to_vec(),
        None => {
            let (verb, rest) = request.split_once(' ').unwrap_or((request, ""));
            let rest = rest.split(' ').next().unwrap_or_default();
            format!(
                "-MAILQ2 Unknown command, or refused by access control; VERB='{verb}' REST='{rest}'\n"
            )
            .into_bytes()
        }
    });
}

impl FakeServer {
    /// Starts a server with these answers, which checks the password by SCRAM.
    pub fn with_scram(user: &str, password: &str, answers: &[(&str, Vec<u8>)]) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let answer = |(request, answer): &(&str, Vec<u8>)| (request.to_string(), answer.clone());
        let answers: HashMap<String, Vec<u8>> = answers.iter().map(answer).collect();
        let stored = StoredPassword::with_salt(password, b"salt".to_vec(), 4096);
        let user = user.to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.write_all(b"version zmailer 2.0\n220 x\n").expect("it takes a greeting");
            let input = stream.try_clone().expect("a second handle");
            let login = RefCell::new(None);
            answer_all(input, &mut stream, &seen, |request| {
                if let Some(first) = request.strip_prefix("AUTH2 SCRAM-SHA-256 ") {
                    let first = scram::ClientFirst::parse(first.as_bytes());
                    let first = first.expect("a good message");
                    assert_eq!(first.user, user.as_bytes());
                    let server = scram::Server::new(first, stored.clone(), "chance");
                    let answer = format!("+{}\n", server.first());
                    *login.borrow_mut() = Some(server);
                    return answer.into_bytes();
                }
                if let Some(server) = login.borrow_mut().take() {
                    return match server.finish(request.as_bytes()) {
                        Ok(last) => format!("+OK {last}\n").into_bytes(),
                        Err(_) => b"-BAD USER OR PASSWORD\n".to_vec(),
                    };
                }
                answers.get(request).cloned().unwrap_or(b"-not known\n".to_vec())
            });
        });
        FakeServer { port, requests, serving: Some(serving) }
    }
}

/// Answers until the client disconnects. After an answer that begins with `BYE` it hangs up.
fn answer_all(
    input: impl Read,
    stream: &mut impl Write,
    requests: &Mutex<Vec<String>>,
    answer: impl Fn(&str) -> Vec<u8>,
) {
    for request in BufReader::new(input).lines() {
        let Ok(request) = request else { return };
        requests.lock().expect("the mutex is not poisoned").push(request.clone());
        if request == "QUIT" {
            return;
        }
        let answer = answer(&request);
        // The client may close the connection before it has read all.
        if stream.write_all(answer.strip_prefix(b"BYE").unwrap_or(&answer)).is_err() {
            return;
        }
        if answer.starts_with(b"BYE") {
            return;
        }
    }
}

/// A simulated scheduler behind its control socket, for any number of clients.
pub struct FakeScheduler {
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeScheduler {
    /// Starts it with these answers.
    pub fn with_answers(path: &Path, answers: &[(&str, Vec<u8>)]) -> FakeScheduler {
        let listener = UnixListener::bind(path).expect("a socket");
        let answer = |(request, answer): &(&str, Vec<u8>)| (request.to_string(), answer.clone());
        let answers: HashMap<String, Vec<u8>> = answers.iter().map(answer).collect();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        // The thread ends with the test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a client");
                let input = stream.try_clone().expect("a second handle");
                drop(stream.write_all(b"version zsched 1.0\n"));
                answer_all(input, &mut stream, &seen, |request| {
                    let unknown = || format!("-{request} is not known\n").into_bytes();
                    answers.get(request).cloned().unwrap_or_else(unknown)
                });
                drop(stream.shutdown(Shutdown::Both));
            }
        });
        FakeScheduler { requests }
    }

    /// Returns the requests since the last call.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().expect("the mutex is not poisoned"))
    }
}
