//! The greeting of a server: the version of its protocol.

use super::denial;
use super::lines::{LineSource, Lines};
use super::server::Server;
use crate::failure::Failure;
use crate::screen::{quote, visible};

/// Reads the greeting. Returns the version of the protocol.
///
/// With version 1 the server sends everything, without a request. With version 2 it requires a
/// login, and answers requests.
pub(super) fn read(lines: &mut Lines, server: &Server) -> Result<u8, Failure> {
    let Some(line) = lines.next()? else {
        return Err(Failure::Unavailable(format!(
            "{server} closes the connection without a greeting: it has too many clients, or it \
             refuses this host"
        )));
    };
    if line.starts_with(b"version zmailer 2.0") {
        return Ok(2);
    }
    if line.starts_with(b"version zmailer 1.0") {
        return Ok(1);
    }
    // A server with tcp-wrapper sends this.
    if line.starts_with(b"500 ") {
        let text = visible(line);
        return Err(Failure::Unavailable(format!("{server} refuses: {}", text.trim_end())));
    }
    Failure::protocol(format!(
        "{server} is not a MAILQ server: it begins with {}; option -p names another port",
        quote(line)
    ))
}

/// Reads the second line of a version 2 server: the login challenge.
pub(super) fn read_challenge(lines: &mut Lines, server: &Server) -> Result<Vec<u8>, Failure> {
    match lines.next()? {
        Some(line) if line.starts_with(b"550") => Err(denial::of_host(server, line)),
        Some(challenge) => Ok(challenge.to_vec()),
        None => Err(Failure::Unavailable(format!(
            "{server} closes the connection after its greeting; was it stopped?"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::lines::LIMITS;

    #[test]
    fn read_recognizes_versions() {
        let server = Server::Tcp { host: "x".to_string(), port: 174 };
        for (text, version, status) in [
            (&b"version zmailer 1.0\n"[..], Some(1), 0),
            (b"version zmailer 1.0 and more\n", Some(1), 0),
            (b"version zmailer 2.0\n", Some(2), 0),
            (b"", None, 69),
            (b"500 TCP-WRAPPER refusing 'mailq' query from your whereabouts\r\n", None, 69),
            (b"version zmailer 3.0\n", None, 76),
            (b"220 mail.example.org ESMTP\r\n", None, 76),
            (b"\n", None, 76),
            (b"\0\xff", None, 76),
        ] {
            let read = read(&mut Lines::recorded(text, LIMITS), &server);
            assert_eq!(read.as_ref().ok(), version.as_ref(), "{text:?}");
            assert_eq!(read.map_or_else(|failure| failure.status(), |_| 0), status, "{text:?}");
        }
    }

    #[test]
    fn read_challenge_accepts_both_forms_or_refusal() {
        let server = Server::Tcp { host: "x".to_string(), port: 174 };
        for (text, expected) in [
            (&b"220 MAILQ-V2-CHALLENGE: 1.2.3\n"[..], Ok(&b"220 MAILQ-V2-CHALLENGE: 1.2.3"[..])),
            (b"MAILQ-V2-CHALLENGE: 1.2.3\n", Ok(b"MAILQ-V2-CHALLENGE: 1.2.3")),
            (b"550 NO ACCESS FOR YOU\n", Err(77)),
            (b"", Err(69)),
        ] {
            let read = read_challenge(&mut Lines::recorded(text, LIMITS), &server);
            let read = read.as_deref().map_err(Failure::status);
            assert_eq!(read, expected, "{text:?}");
        }
    }
}
