//! A server that does what a script says, at each step of the dialogue.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a test gives up.
const DEADLINE: Duration = Duration::from_secs(30);

/// What the peer does at a step.
#[derive(Clone, Debug)]
pub enum Action {
    /// Sends a reply; LF separates lines.
    Say(String),
    /// Sends a reply byte by byte.
    Trickle(String),
    /// Sends a reply, and closes the connection.
    SayAndClose(String),
    /// Closes the connection.
    Close,
    /// Says nothing more, and reads until the other side gives up.
    Stall,
    /// Sends a reply that never ends.
    Flood,
    /// Sends one line of 10 MB.
    LongLine,
    /// Says and reads nothing more.
    Block,
    /// Reads this many bytes of the message, sends a reply, and reads the rest in silence.
    SayEarly(usize, String),
    /// Reads this many bytes of the message, then closes the connection.
    CloseWithin(usize),
    /// Reads this many bytes of the message, sends a reply, and closes the connection.
    SayWithin(usize, String),
}

/// Makes the action that sends a reply.
pub fn say(reply: &str) -> Action {
    Action::Say(reply.to_string())
}

/// What a peer does: rules by the beginning of a command, and what it offers.
///
/// The words `GREETING`, `CONTENT`, `.` (the end of a message) and `END <address>` (the same for a
/// recipient of LMTP) stand for steps without a command. After `BDAT` it reads the message in
/// silence, if it is still there.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The keywords in the answer to EHLO.
    pub offers: Vec<String>,
    pub rules: Vec<Rule>,
    /// TLS, for STARTTLS.
    pub tls: Option<Arc<ServerConfig>>,
}

/// What is done at some steps.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The beginning of the command.
    pub command: String,
    /// For how many of these commands it is in force.
    pub times: usize,
    pub action: Action,
}

impl Script {
    /// A peer that accepts everything and offers these extensions.
    pub fn offering(offers: &[&str]) -> Script {
        let offers = offers.iter().map(|offer| offer.to_string()).collect();
        Script { offers, ..Script::default() }
    }

    /// Adds a rule.
    pub fn on(self, command: &str, action: Action) -> Script {
        self.times(usize::MAX, command, action)
    }

    /// Adds a rule for the first commands of a kind.
    pub fn times(mut self, times: usize, command: &str, action: Action) -> Script {
        self.rules.push(Rule { command: command.to_string(), times, action });
        self
    }
}

/// What a peer has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub sessions: usize,
    pub commands: Vec<String>,
    /// The messages that were received to their end, without transparency.
    pub messages: Vec<Vec<u8>>,
}

/// A running peer.
pub struct Peer {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Peer {
    pub fn start(script: Script) -> Peer {
        Peer::serve(TcpListener::bind("127.0.0.1:0").expect("a free port"), script)
    }

    pub fn serve(listener: TcpListener, script: Script) -> Peer {
        let address = listener.local_addr().expect("its address");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let rules = Arc::new(Mutex::new(script.rules));
        let of_thread = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                of_thread.lock().expect("no panic").sessions += 1;
                let plain = stream.try_clone().expect("another descriptor");
                let session = Session {
                    stream: BufReader::new(Line::Plain(stream)),
                    plain,
                    tls: script.tls.clone(),
                    offers: script.offers.clone(),
                    rules: Arc::clone(&rules),
                    seen: Arc::clone(&of_thread),
                    recipients: Vec::new(),
                };
                thread::spawn(move || session.run());
            }
        });
        Peer { address, seen }
    }

    /// The host that names the peer in a job.
    pub fn host(&self) -> String {
        format!("[127.0.0.1]:{}", self.address.port())
    }

    /// Waits until clients have ended this number of sessions with QUIT.
    pub fn wait_for_quits(&self, count: usize) {
        let started = Instant::now();
        while self.seen().commands.iter().filter(|command| *command == "QUIT").count() < count {
            assert!(started.elapsed() < DEADLINE, "no QUIT: {:?}", self.seen().commands);
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().expect("no panic").clone()
    }
}

struct Session {
    stream: BufReader<Line>,
    plain: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    offers: Vec<String>,
    rules: Arc<Mutex<Vec<Rule>>>,
    seen: Arc<Mutex<Seen>>,
    recipients: Vec<String>,
}

/// The session is over.
struct Over;

/// A connection, with or without TLS.
enum Line {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Line::Plain(stream) => stream.read(buffer),
            Line::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Line {
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Line::Plain(stream) => stream.write_all(bytes),
            Line::Tls(stream) => stream.write_all(bytes),
        }
    }
}

impl Session {
    fn run(mut self) {
        // It ends in either way.
        drop(self.talk());
        self.plain.shutdown(Shutdown::Both).ok();
    }

    fn start_tls(&mut self) {
        let Some(config) = self.tls.take() else { return };
        let tls = ServerConnection::new(config).expect("a configuration");
        let plain = self.plain.try_clone().expect("another descriptor");
        self.stream = BufReader::new(Line::Tls(Box::new(StreamOwned::new(tls, plain))));
        self.seen.lock().expect("no panic").commands.push("(TLS)".to_string());
    }

    fn talk(&mut self) -> Result<(), Over> {
        self.step("GREETING", "220 peer.test ESMTP")?;
        loop {
            let command = self.line()?;
            self.seen.lock().expect("no panic").commands.push(command.clone());
            let verb = command.split(' ').next().unwrap_or_default().to_ascii_uppercase();
            match verb.as_str() {
                "EHLO" | "LHLO" => {
                    let lines =
                        std::iter::once("peer.test").chain(self.offers.iter().map(|o| &**o));
                    let lines: Vec<&str> = lines.collect();
                    let last = lines.len() - 1;
                    let line = |(at, line): (usize, &&str)| {
                        format!("250{}{line}", if at == last { " " } else { "-" })
                    };
                    let reply = lines.iter().enumerate().map(line).collect::<Vec<_>>().join("\n");
                    self.step(&command, &reply)?;
                }
                "MAIL" | "RSET" => {
                    self.recipients.clear();
                    self.step(&command, "250 2.1.0 ok")?;
                }
                "RCPT" => {
                    if self.step(&command, "250 2.1.5 ok")? {
                        let address = command.split(['<', '>']).nth(1).unwrap_or_default();
                        self.recipients.push(address.to_string());
                    }
                }
                "DATA" => {
                    let default = match self.recipients.is_empty() {
                        true => "503 5.5.1 no recipients",
                        false => "354 go ahead",
                    };
                    if self.step(&command, default)? {
                        self.dotted()?;
                        self.end()?;
                    }
                }
                "BDAT" => {
                    let size = command.split(' ').nth(1).and_then(|size| size.parse().ok());
                    let action = self.action("BDAT");
                    if let Some(action) = &action {
                        self.act(action)?;
                    }
                    self.counted(size.expect("a size"))?;
                    if action.is_none() {
                        self.end()?;
                    }
                }
                "STARTTLS" => {
                    if self.step(&command, "220 2.0.0 go ahead")? {
                        self.start_tls();
                    }
                }
                "QUIT" => {
                    self.step(&command, "221 2.0.0 bye")?;
                    return Err(Over);
                }
                _ => {
                    self.step(&command, "250 2.0.0 ok")?;
                }
            }
        }
    }

    fn end(&mut self) -> Result<(), Over> {
        let is_lmtp =
            self.seen.lock().expect("no panic").commands.iter().any(|c| c.starts_with("LHLO"));
        if !is_lmtp {
            self.step(".", "250 2.6.0 accepted")?;
            return Ok(());
        }
        for address in self.recipients.clone() {
            self.step(&format!("END <{address}>"), "250 2.1.5 stored")?;
        }
        Ok(())
    }

    /// Reads a message up to its dot.
    fn dotted(&mut self) -> Result<(), Over> {
        let (mut message, mut action) = (Vec::new(), self.action("CONTENT"));
        loop {
            self.within(&message, &mut action)?;
            let start = message.len();
            self.stream.read_until(b'\n', &mut message).map_err(|_| Over)?;
            match &message[start..] {
                b".\r\n" => {
                    message.truncate(start);
                    self.seen.lock().expect("no panic").messages.push(message);
                    return Ok(());
                }
                [] => return Err(Over),
                [b'.', ..] => drop(message.remove(start)),
                _ => {}
            }
        }
    }

    /// Reads a message of this size.
    fn counted(&mut self, size: usize) -> Result<(), Over> {
        let (mut message, mut action) = (Vec::new(), self.action("CONTENT"));
        while message.len() < size {
            self.within(&message, &mut action)?;
            let part = self.stream.fill_buf().map_err(|_| Over)?;
            let max = if action.is_some() { 1 } else { size - message.len() };
            let count = part.len().min(max);
            if count == 0 {
                return Err(Over);
            }
            message.extend_from_slice(&part[..count]);
            self.stream.consume(count);
        }
        self.seen.lock().expect("no panic").messages.push(message);
        Ok(())
    }

    /// Does what is to be done within a message, once enough of it is there.
    fn within(&mut self, message: &[u8], action: &mut Option<Action>) -> Result<(), Over> {
        let limit = match action {
            Some(Action::CloseWithin(limit) | Action::SayWithin(limit, _)) => *limit,
            Some(Action::SayEarly(limit, _)) => *limit,
            Some(_) => 0,
            None => return Ok(()),
        };
        match action.take_if(|_| message.len() >= limit) {
            None => Ok(()),
            Some(Action::SayWithin(_, reply)) => {
                self.send(&reply)?;
                Err(Over)
            }
            Some(Action::SayEarly(_, reply)) => {
                self.send(&reply)?;
                self.silence()
            }
            Some(action) => self.act(&action),
        }
    }

    /// Reads until the other side gives up.
    fn silence(&mut self) -> Result<(), Over> {
        self.stream.read_to_end(&mut Vec::new()).ok();
        Err(Over)
    }

    fn line(&mut self) -> Result<String, Over> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).map_err(|_| Over)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(Over),
        }
    }

    fn action(&self, command: &str) -> Option<Action> {
        let mut rules = self.rules.lock().expect("no panic");
        let rule =
            rules.iter_mut().find(|rule| rule.times > 0 && command.starts_with(&rule.command))?;
        rule.times -= 1;
        Some(rule.action.clone())
    }

    /// Does what the script says, or sends the default reply. Returns true if it was positive.
    fn step(&mut self, command: &str, default: &str) -> Result<bool, Over> {
        let action = self.action(command).unwrap_or_else(|| say(default));
        self.act(&action)?;
        let (Action::Say(reply) | Action::Trickle(reply)) = action else { return Ok(true) };
        Ok(reply.starts_with(['2', '3']))
    }

    fn act(&mut self, action: &Action) -> Result<(), Over> {
        match action {
            Action::Say(reply) => self.send(reply),
            Action::Trickle(reply) => {
                for byte in format!("{}\r\n", reply.replace('\n', "\r\n")).bytes() {
                    self.stream.get_mut().write_all(&[byte]).map_err(|_| Over)?;
                    thread::yield_now();
                }
                Ok(())
            }
            Action::SayAndClose(reply) => {
                self.send(reply)?;
                Err(Over)
            }
            Action::Close | Action::CloseWithin(_) | Action::SayWithin(..) => Err(Over),
            Action::Stall | Action::SayEarly(..) => self.silence(),
            // The connection stays open until the tests are over.
            Action::Block => loop {
                thread::park();
            },
            Action::Flood => loop {
                self.send("250-flood")?;
            },
            Action::LongLine => self.send(&("250 ".to_string() + &"x".repeat(10_000_000))),
        }
    }

    fn send(&mut self, reply: &str) -> Result<(), Over> {
        let reply = format!("{}\r\n", reply.replace('\n', "\r\n"));
        self.stream.get_mut().write_all(reply.as_bytes()).map_err(|_| Over)
    }
}
