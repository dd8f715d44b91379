//! Logins that Dovecot decides about: the client's side of its authentication protocol, version 1
//! (Dovecot's documentation, "Dovecot Authentication Protocol").
//!
//! ```text
//! us       VERSION 1 2, CPID <number>
//! Dovecot  VERSION 1 <minor>, MECH <name> …, …, DONE
//! us       AUTH <id> PLAIN service=smtp … resp=<base64>
//! Dovecot  OK <id> user=<name> …, or FAIL <id> …
//! ```
//!
//! Words are separated by tabs. One login is one connection: it takes as long as Dovecot wants,
//! which delays the answer to a wrong password.

use super::service_stream::ServiceAddress;
use super::session::{Answer, LoginAnswer, Reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The version of the protocol, of which the minor number may differ.
const MAJOR_VERSION: &str = "1";
/// Maximum time of a login. Dovecot itself waits some seconds before it says that one is wrong.
pub(crate) const MAX_TIME: Duration = Duration::from_secs(30);
/// Maximum number of bytes that Dovecot may send.
const MAX_ANSWER: u64 = 64 << 10;
/// Number of the first login. Numbers of processes, which Dovecot's own clients use, are smaller.
const FIRST_NUMBER: u32 = 1 << 30;

/// What Dovecot has decided.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// With the name by which Dovecot knows the user.
    Accepted(String),
    Wrong,
    /// Dovecot cannot decide now.
    Unknown,
}

/// Checks a password that a client sent by TLS, or from this host. Dovecot has time until `end`.
pub(crate) fn check(
    socket: &ServiceAddress,
    user: &str,
    password: &str,
    peer: Option<SocketAddr>,
    end: Instant,
) -> io::Result<Answer> {
    let decision = Exchange::new(socket.connect(end)?).decide(user, password, peer)?;
    Ok(match decision {
        Decision::Accepted(name) => Answer::Login(LoginAnswer::Accepted(name)),
        Decision::Wrong => Answer::Login(LoginAnswer::Wrong),
        Decision::Unknown => unavailable(),
    })
}

/// The answer to a login while Dovecot does not answer.
pub(crate) fn unavailable() -> Answer {
    let text = "Logins cannot be checked now, try again later";
    Answer::Login(LoginAnswer::Refused(Reply::new(454, "4.7.0", text)))
}

/// A connection to Dovecot, for one login.
struct Exchange<S: Read> {
    reader: BufReader<io::Take<S>>,
}

impl<S: Read + Write> Exchange<S> {
    fn new(stream: S) -> Exchange<S> {
        Exchange { reader: BufReader::new(stream.take(MAX_ANSWER)) }
    }

    fn decide(
        &mut self,
        user: &str,
        password: &str,
        peer: Option<SocketAddr>,
    ) -> io::Result<Decision> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = FIRST_NUMBER | (LAST.fetch_add(1, Ordering::Relaxed) % FIRST_NUMBER);
        self.send(&format!("VERSION\t{MAJOR_VERSION}\t2\nCPID\t{number}\n"))?;
        self.greet()?;
        self.send(&request(user, password, peer))?;
        loop {
            let words = self.line()?;
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words[..] {
                ["OK", "1", ref rest @ ..] => {
                    let name = value(rest, "user").unwrap_or(user);
                    let is_name = !name.is_empty() && !name.contains(char::is_control);
                    let refused = || {
                        io::Error::new(ErrorKind::InvalidData, "Dovecot has an unusable user name")
                    };
                    return is_name.then(|| Decision::Accepted(name.into())).ok_or_else(refused);
                }
                ["FAIL", "1", ref rest @ ..] => {
                    let is_temporary =
                        rest.contains(&"temp") || value(rest, "code") == Some("temp_fail");
                    return Ok(if is_temporary { Decision::Unknown } else { Decision::Wrong });
                }
                // PLAIN has sent all it has.
                ["CONT", ..] => return Err(unexpected("CONT")),
                _ => {}
            }
        }
    }

    /// Reads what Dovecot says of itself.
    fn greet(&mut self) -> io::Result<()> {
        let mut has_plain = false;
        loop {
            let words = self.line()?;
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words[..] {
                ["VERSION", major, ..] if major != MAJOR_VERSION => {
                    return Err(unexpected(&format!("version {major} of the protocol")));
                }
                ["MECH", "PLAIN", ..] => has_plain = true,
                ["DONE", ..] if has_plain => return Ok(()),
                ["DONE", ..] => return Err(unexpected("no mechanism PLAIN")),
                _ => {}
            }
        }
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        self.reader.get_mut().get_mut().write_all(text.as_bytes())
    }

    /// The words of the next line.
    fn line(&mut self) -> io::Result<Vec<String>> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let Some(line) = line.strip_suffix('\n') else {
            return Err(ErrorKind::UnexpectedEof.into());
        };
        Ok(line.split('\t').map(unescape).collect())
    }
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("Dovecot has {what}"))
}

/// The request about a password. The response is the last word: what follows it is ignored.
fn request(user: &str, password: &str, peer: Option<SocketAddr>) -> String {
    let peer = peer.map_or(String::new(), |peer| {
        format!("\trip={}\trport={}", peer.ip().to_canonical(), peer.port())
    });
    let response = BASE64.encode(format!("\0{user}\0{password}"));
    format!("AUTH\t1\tPLAIN\tservice=smtp\tsecured{peer}\tresp={response}\n")
}

/// The value of a parameter `name=value`.
fn value<'w>(words: &[&'w str], name: &str) -> Option<&'w str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// Removes the escapes of a word: `\001` and a character.
fn unescape(word: &str) -> String {
    let mut text = String::new();
    let mut characters = word.chars();
    while let Some(c) = characters.next() {
        let c = match c {
            '\u{1}' => match characters.next() {
                Some('0') => '\0',
                Some('1') => '\u{1}',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('n') => '\n',
                Some(other) => other,
                None => break,
            },
            c => c,
        };
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// Dovecot's lines, and what was sent to it.
    struct Script {
        said: Cursor<Vec<u8>>,
        heard: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.said.read(buffer)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const GREETING: &str =
        "VERSION\t1\t2\nMECH\tPLAIN\tplaintext\nSPID\t7\nCUID\t1\nCOOKIE\tab\nDONE\n";

    fn decide(said: &str) -> (io::Result<Decision>, String) {
        let script = Script { said: Cursor::new(said.into()), heard: Vec::new() };
        let mut exchange = Exchange::new(script);
        let peer = "[::ffff:192.0.2.7]:4711".parse().ok();
        let decision = exchange.decide("alice", "a\tb", peer);
        let heard = exchange.reader.into_inner().into_inner().heard;
        (decision, String::from_utf8(heard).expect("text"))
    }

    #[test]
    fn answers_are_understood() {
        for (answer, expected) in [
            ("OK\t1\tuser=alice@x\n", Some(Decision::Accepted("alice@x".into()))),
            ("OK\t1\n", Some(Decision::Accepted("alice".into()))),
            ("OK\t2\tuser=eve\nFAIL\t1\tuser=alice\n", Some(Decision::Wrong)),
            ("FAIL\t1\ttemp\n", Some(Decision::Unknown)),
            ("FAIL\t1\tuser=alice\tcode=temp_fail\n", Some(Decision::Unknown)),
            ("OK\t1\tuser=a\u{1}nb\n", None),
            ("CONT\t1\t\n", None),
            ("OK\t1\tuser=al", None),
            ("", None),
        ] {
            let (decision, heard) = decide(&format!("{GREETING}{answer}"));
            assert_eq!(decision.ok(), expected, "{answer}");
            let (hello, request) = heard.split_once("AUTH").expect("a request");
            assert!(hello.starts_with("VERSION\t1\t2\nCPID\t"), "{hello}");
            let expected = "\t1\tPLAIN\tservice=smtp\tsecured\trip=192.0.2.7\trport=4711\tresp=AGFsaWNlAGEJYg==\n";
            assert_eq!(request, expected);
        }
    }

    #[test]
    fn another_protocol_gets_no_password() {
        for greeting in [
            "VERSION\t2\t0\n",
            "VERSION\t1\t2\nMECH\tGSSAPI\nDONE\n",
            "220 mx.test ESMTP\r\n",
            &"x".repeat(100_000),
        ] {
            let (decision, heard) = decide(greeting);
            decision.expect_err(greeting);
            assert!(!heard.contains("resp="), "{heard}");
        }
    }
}
