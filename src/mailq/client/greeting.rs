//! The first line of an answer: which version of the protocol this is, if it is MAILQ at all.

use super::failure::Failure;
use super::lines::Lines;
use super::screen::{quote, visible};
use super::server::Server;
use std::io::Read;

/// The versions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The server sends everything, unasked.
    One,
    /// The server wants a login, and is asked.
    Two,
}

/// Reads the first line.
pub fn read<R: Read>(lines: &mut Lines<R>, server: &Server) -> Result<Version, Failure> {
    let Some(line) = lines.next()? else {
        return Err(Failure::Unavailable(format!(
            "{server} closes the connection without a word: it has too many clients, or this host \
             may not ask it"
        )));
    };
    if line.starts_with(b"version zmailer 2.0") {
        return Ok(Version::Two);
    }
    if line.starts_with(b"version zmailer 1.0") {
        return Ok(Version::One);
    }
    // What a server behind tcp-wrapper says.
    if line.starts_with(b"500 ") {
        let text = visible(line);
        return Err(Failure::Unavailable(format!("{server} refuses: {}", text.trim_end())));
    }
    Err(Failure::Protocol(format!(
        "{server} is no MAILQ server, it begins with {}; option -p names another port",
        quote(line)
    )))
}

/// Why a server that speaks version 2 cannot be asked, with what it says if it would not let us in
/// anyway.
pub fn refuse_version_2<R: Read>(lines: &mut Lines<R>, server: &Server) -> Failure {
    let refusal = match lines.next() {
        Ok(Some(line)) if line.starts_with(b"550") => {
            format!("; besides, it says: {}", visible(line).trim_end())
        }
        _ => String::new(),
    };
    Failure::Unavailable(format!(
        "{server} speaks MAILQ version 2 and wants a login, which this mailq cannot do yet{refusal}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailq::client::lines::LIMITS;

    #[test]
    fn versions_and_others() {
        let server = Server::Tcp { host: "x".to_string(), port: 174 };
        for (text, version, status) in [
            (&b"version zmailer 1.0\n"[..], Some(Version::One), 0),
            (b"version zmailer 1.0 and more\n", Some(Version::One), 0),
            (b"version zmailer 2.0\n", Some(Version::Two), 0),
            (b"", None, 69),
            (b"500 TCP-WRAPPER refusing 'mailq' query from your whereabouts\r\n", None, 69),
            (b"version zmailer 3.0\n", None, 76),
            (b"220 mail.example.org ESMTP\r\n", None, 76),
            (b"\n", None, 76),
            (b"\0\xff", None, 76),
        ] {
            let read = read(&mut Lines::new(text, LIMITS), &server);
            assert_eq!(read.as_ref().ok(), version.as_ref(), "{text:?}");
            assert_eq!(read.map_or_else(|failure| failure.status(), |_| 0), status, "{text:?}");
        }
    }

    #[test]
    fn a_server_of_version_2_is_refused_or_refuses() {
        let server = Server::Tcp { host: "x".to_string(), port: 174 };
        for (text, expected) in [
            (
                &b"550 NO ACCESS FOR YOU\n"[..],
                "cannot do yet; besides, it says: 550 NO ACCESS FOR YOU",
            ),
            (b"220 MAILQ-V2-CHALLENGE: 1795255943.68171.2\n", "wants a login"),
            (b"", "wants a login"),
        ] {
            let failure = refuse_version_2(&mut Lines::new(text, LIMITS), &server);
            assert_eq!(failure.status(), 69);
            assert!(failure.to_string().contains(expected), "{failure}");
        }
    }
}
