//! A server of MAILQ version 2 that says what a recorded one said.

use super::support::recorded;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// What was said to one another.
pub struct Dialogue {
    /// The challenge.
    pub challenge: String,
    /// Requests in their order, each with the answer to it.
    pub answers: Vec<(String, Vec<u8>)>,
}

impl Dialogue {
    /// A recording.
    pub fn recorded(name: &str) -> Dialogue {
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
            // Behind what KILL is answered.
            while lines.next_if(|line| *line == b"\n").is_some() {
                answer.push(b'\n');
            }
            answers.push((request.to_string(), answer));
        }
        assert_eq!(lines.next(), None, "{name}");
        let challenge = String::from_utf8(challenge.to_vec()).expect("ASCII");
        Dialogue { challenge, answers }
    }
}

/// An answer that is a text.
pub fn text(lines: &[u8]) -> Vec<u8> {
    [b"+OK until LF.LF\n", lines, b".\n"].concat()
}

/// A server that answers requests it knows, whoever asks, as often as it is asked.
pub struct Player {
    pub port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    serving: Option<JoinHandle<()>>,
}

impl Player {
    /// Plays a recording, and knows what is in it.
    pub fn of(dialogue: Dialogue) -> Player {
        Player::new(&dialogue.challenge, dialogue.answers.into_iter().collect())
    }

    /// Knows these answers; whoever logs in is welcome.
    pub fn with_answers(answers: &[(&str, Vec<u8>)]) -> Player {
        let answer = |(request, answer): &(&str, Vec<u8>)| (request.to_string(), answer.clone());
        Player::new("220 MAILQ-V2-CHALLENGE: 1.2.3\n", answers.iter().map(answer).collect())
    }

    fn new(challenge: &str, answers: HashMap<String, Vec<u8>>) -> Player {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let greeting = format!("version zmailer 2.0\n{challenge}");
        let is_recorded = answers.keys().any(|request| request.starts_with("AUTH "));
        let said = Arc::clone(&heard);
        let serving = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            serve(stream, &greeting, &answers, is_recorded, &said);
        });
        Player { port, heard, serving: Some(serving) }
    }

    /// Waits until the client is gone. Returns what it has asked.
    #[track_caller]
    pub fn end(mut self) -> Vec<String> {
        // A client that never came would be waited for.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        let serving = self.serving.take().expect("it is not over yet");
        serving.join().expect("the client was served");
        std::mem::take(&mut self.heard.lock().expect("nobody else holds it"))
    }
}

fn serve(
    mut stream: TcpStream,
    greeting: &str,
    answers: &HashMap<String, Vec<u8>>,
    is_recorded: bool,
    heard: &Mutex<Vec<String>>,
) {
    let requests = BufReader::new(stream.try_clone().expect("a second handle"));
    stream.write_all(greeting.as_bytes()).expect("it takes a greeting");
    for request in requests.lines() {
        let Ok(request) = request else { return };
        heard.lock().expect("nobody else holds it").push(request.clone());
        let answer = match answers.get(&request) {
            Some(answer) => answer.clone(),
            None if request == "QUIT" => return,
            None if request.starts_with("AUTH ") && !is_recorded => b"+OK\n".to_vec(),
            None => {
                let (verb, rest) = request.split_once(' ').unwrap_or((&request, ""));
                let rest = rest.split(' ').next().unwrap_or_default();
                format!(
                    "-MAILQ2 Unknown command, or refused by access control; VERB='{verb}' \
                     REST='{rest}'\n"
                )
                .into_bytes()
            }
        };
        // A client that has enough of it may close first.
        drop(stream.write_all(&answer));
    }
}
