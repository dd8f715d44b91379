//! Postfix's policy delegation protocol (`SMTPD_POLICY_README`): a service decides about each
//! recipient.
//!
//! A request is lines `name=value` and an empty line; the reply is `action=…` and an empty line.

use super::session::{RecipientQuestion, Reply};
use super::timed_stream::TimedStream;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum time to connect, and then to answer (`smtpd_policy_service_timeout`, which is 100 s).
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum length of a reply, in bytes.
const MAX_REPLY_LEN: u64 = 8192;

/// Where a policy service listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyAddress {
    /// A UNIX socket.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String),
}

impl PolicyAddress {
    /// Parses `unix:/path`, `host:port` or `inet:host:port`.
    pub fn parse(text: &str) -> Result<PolicyAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(PolicyAddress::Unix(path.into())),
                false => Err("the path of the socket does not begin with a slash".into()),
            };
        }
        let address = text.strip_prefix("inet:").unwrap_or(text);
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        match port {
            Some(_) => Ok(PolicyAddress::Tcp(address.into())),
            None => Err("this is neither unix: and a path nor a host and a port".into()),
        }
    }

    /// Asks about a recipient. `None` means that the service has no objection.
    ///
    /// A service that does not answer defers the recipient, as in Postfix.
    pub fn ask(&self, question: &RecipientQuestion) -> Option<Reply> {
        match self.talk(&request(question)) {
            Ok(action) => verdict(&action),
            Err(error) => {
                log::error!("the policy service does not answer: {error}");
                Some(Reply::new(451, "4.3.5", "The policy service does not answer"))
            }
        }
    }

    fn talk(&self, request: &str) -> io::Result<String> {
        match self {
            PolicyAddress::Unix(path) => {
                exchange(TimedStream::new(UnixStream::connect(path)?, TIMEOUT)?, request)
            }
            PolicyAddress::Tcp(address) => {
                let address = address.to_socket_addrs()?.next();
                let address = address.ok_or_else(|| io::Error::other("unknown host"))?;
                let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
                exchange(TimedStream::new(stream, TIMEOUT)?, request)
            }
        }
    }
}

/// Sends a request. Returns the action.
fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream).take(MAX_REPLY_LEN);
    let mut action = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match (line.trim_end_matches(['\r', '\n']), action) {
            ("", Some(action)) => return Ok(action),
            (line, former) => action = line.strip_prefix("action=").map(str::to_string).or(former),
        }
    }
}

fn request(question: &RecipientQuestion) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let ip = question.ip.map_or(String::new(), |ip| ip.to_canonical().to_string());
    let (protocol, cipher) = match &question.tls {
        Some(tls) => (tls.version.clone(), tls.cipher.clone()),
        None => Default::default(),
    };
    let attributes = [
        ("request", "smtpd_access_policy".to_string()),
        ("protocol_state", "RCPT".into()),
        ("protocol_name", question.protocol.into()),
        ("client_address", ip),
        ("client_name", "unknown".into()),
        ("client_port", question.port.to_string()),
        ("reverse_client_name", "unknown".into()),
        ("helo_name", question.client_name.clone()),
        ("sender", text(&question.sender)),
        ("recipient", question.recipient.clone()),
        ("recipient_count", "0".into()),
        ("queue_id", String::new()),
        ("size", question.size.unwrap_or(0).to_string()),
        ("sasl_username", text(&question.login)),
        ("encryption_protocol", protocol),
        ("encryption_cipher", cipher),
    ];
    let lines = attributes.map(|(name, value)| format!("{name}={value}\n"));
    lines.concat() + "\n"
}

/// What an action means (access(5) of Postfix).
fn verdict(action: &str) -> Option<Reply> {
    let (word, text) = action.trim().split_once([' ', '\t']).unwrap_or((action.trim(), ""));
    let text = text.trim();
    let or = |default: &str| if text.is_empty() { default.to_string() } else { text.to_string() };
    match &*word.to_ascii_uppercase() {
        "OK" | "DUNNO" | "PERMIT" => None,
        "REJECT" => Some(coded(554, "5.7.1", &or("Refused by policy"))),
        "DEFER" | "DEFER_IF_PERMIT" | "DEFER_IF_REJECT" => {
            Some(coded(450, "4.7.1", &or("Deferred by policy")))
        }
        code => match code.parse::<u16>() {
            Ok(code @ 400..=499) => Some(coded(code, "4.7.1", &or("Deferred by policy"))),
            Ok(code @ 500..=599) => Some(coded(code, "5.7.1", &or("Refused by policy"))),
            _ => {
                log::warn!("the policy service wants {word}, which this server cannot do; ignored");
                None
            }
        },
    }
}

/// A reply whose text may begin with a status code of its own.
fn coded(code: u16, status: &'static str, text: &str) -> Reply {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let is_status = word.starts_with(&status[..2])
        && word.split('.').count() == 3
        && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match is_status {
        true => Reply::new(code, word.to_string(), rest),
        false => Reply::new(code, status, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_understood() {
        for (action, expected) in [
            ("DUNNO", None),
            ("ok", None),
            ("PREPEND X-A: b", None),
            ("REJECT", Some("554 5.7.1 Refused by policy")),
            ("REJECT 5.1.8 bad sender", Some("554 5.1.8 bad sender")),
            ("defer_if_permit Greylisted", Some("450 4.7.1 Greylisted")),
            ("550 no such user", Some("550 5.7.1 no such user")),
            ("421 4.7.0 later", Some("421 4.7.0 later")),
        ] {
            assert_eq!(verdict(action).map(|reply| reply.to_string()).as_deref(), expected);
        }
    }

    #[test]
    fn addresses_are_parsed() {
        assert_eq!(PolicyAddress::parse("unix:/run/p"), Ok(PolicyAddress::Unix("/run/p".into())));
        assert_eq!(
            PolicyAddress::parse("inet:127.0.0.1:10"),
            Ok(PolicyAddress::Tcp("127.0.0.1:10".into()))
        );
        for wrong in ["", "unix:run", "host", "host:x"] {
            PolicyAddress::parse(wrong).expect_err(wrong);
        }
    }
}
