//! A client of MAILQ version 2, over TCP and over the control socket.

use super::{DEADLINE, Site};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

/// Returns the address at which MAILQ is served for this host.
pub fn address(site: &Site, host: &str) -> Option<SocketAddr> {
    let log = site.log();
    let (_, rest) = log.split_once(&format!("MAILQ is served on TCP {host}:"))?;
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(format!("{host}:{port}").parse().expect("an address"))
}

/// A client of the scheduler.
pub struct Client<S: Read + Write> {
    pub stream: BufReader<S>,
    pub challenge: String,
}

impl Client<TcpStream> {
    pub fn at(address: SocketAddr) -> Client<TcpStream> {
        let stream = TcpStream::connect(address).expect("it is served");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        Client::new(stream)
    }

    pub fn of(site: &Site) -> Client<TcpStream> {
        Client::at(address(site, "127.0.0.1").expect("a port"))
    }
}

impl Client<UnixStream> {
    pub fn local(site: &Site, name: &str) -> Client<UnixStream> {
        let stream = UnixStream::connect(site.path(name)).expect("it is served");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        Client::new(stream)
    }
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Client<S> {
        let mut client = Client { stream: BufReader::new(stream), challenge: String::new() };
        if client.line() == "version zmailer 2.0\n" {
            client.challenge = client.line();
        }
        client
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line, or the end");
        line
    }

    pub fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).expect("said");
    }

    pub fn log_in(&mut self, user: &str, password: &str) -> String {
        let digest =
            format!("{:x}", md5::compute(self.challenge.trim_end().to_string() + password));
        self.ask(&format!("AUTH {user} {digest}"))
    }

    /// Sends a request. Returns the answer: a line, or the lines of a text.
    pub fn ask(&mut self, request: &str) -> String {
        self.send(&format!("{request}\n"));
        let first = self.line();
        if first != "+OK until LF.LF\n" {
            return first;
        }
        let mut text = String::new();
        loop {
            match self.line().as_str() {
                ".\n" => return text,
                "" => panic!("{request}: the answer has no end: {text}"),
                line => text += line,
            }
        }
    }

    /// Sends an order. Returns the counts in the answer.
    #[track_caller]
    pub fn order(&mut self, request: &str) -> Value {
        let answer = self.ask(request);
        let counts = answer.strip_prefix("+OK ").map(serde_json::from_str);
        let Some(Ok(counts)) = counts else { panic!("{request}: {answer}") };
        counts
    }

    /// Sends an order after a dry run, which must report the same counts. Returns the counts.
    #[track_caller]
    pub fn order_after_dry_run(&mut self, request: &str) -> Value {
        let mut foreseen = self.order(&format!("{request} dry-run=yes"));
        assert_eq!(foreseen["dry_run"], true);
        let done = self.order(request);
        foreseen["dry_run"] = false.into();
        // This count depends on limits.
        foreseen["started"] = done["started"].clone();
        assert_eq!(foreseen, done, "{request}");
        done
    }

    /// Sends an order that must be refused. Returns the reason.
    #[track_caller]
    pub fn refused(&mut self, request: &str) -> String {
        let answer = self.ask(request);
        let why = answer.strip_prefix('-');
        why.unwrap_or_else(|| panic!("{request}: {answer}")).trim_end().to_string()
    }
}
