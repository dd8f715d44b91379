//! `--why`: asks over the control socket why something waits.

use super::connection::{Connection, PATIENCE};
use super::failure::Failure;
use super::installation::Installation;
use super::lines::{LIMITS, Lines};
use super::screen::{Screen, quote, visible};
use super::server::{Addresses, Server};
use crate::mailq::v2::{CONTROL_GREETING, UNTIL_DOT};
use std::io::{Read, Write};

/// Prints why something waits.
pub fn print<W: Write>(
    subject: &str,
    installation: &Installation,
    screen: &mut Screen<W>,
) -> Result<(), Failure> {
    if subject.contains(char::is_control) {
        return Err(Failure::Usage(
            "there is a control character in what is asked for".to_string(),
        ));
    }
    let path = installation.spool().control_socket();
    let server = Server::Unix(path.clone());
    let mut connection = Connection::open(&server, &Addresses::Path(path), PATIENCE)
        .map_err(|refusal| refusal.explain(&server, true, installation))?;
    // If it is gone already, what it said before tells more.
    drop(connection.say(format!("SHOW WHY {subject}\nQUIT\n").as_bytes()));
    print_answer(&mut Lines::new(connection, LIMITS), &server, screen)
}

fn print_answer<R: Read, W: Write>(
    lines: &mut Lines<R>,
    server: &Server,
    screen: &mut Screen<W>,
) -> Result<(), Failure> {
    let mut next = |expected: &str| -> Result<Vec<u8>, Failure> {
        let line = lines.next()?.ok_or_else(|| {
            Failure::Protocol(format!("{server} closes the connection before {expected}"))
        })?;
        Ok(line.to_vec())
    };
    let greeting = next("it says what it is")?;
    if greeting != CONTROL_GREETING.trim_end().as_bytes() {
        let begin = quote(&greeting);
        return Err(Failure::Protocol(format!(
            "{server} is no control socket, it begins with {begin}"
        )));
    }
    let verdict = next("it answers")?;
    if verdict != UNTIL_DOT.as_bytes() {
        let text = visible(verdict.strip_prefix(b"-").unwrap_or(&verdict));
        return Err(Failure::Unavailable(text));
    }
    loop {
        let line = next("the end of its answer")?;
        match line.strip_prefix(b".") {
            Some(b"") => return Ok(()),
            Some(rest) => screen.line(&[rest])?,
            None => screen.line(&[&line])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn answer(text: &str) -> Result<String, i32> {
        let server = Server::Unix(PathBuf::from("/control"));
        let mut shown = Vec::new();
        let printed = {
            let mut screen = Screen::new(&mut shown, true);
            print_answer(&mut Lines::new(text.as_bytes(), LIMITS), &server, &mut screen)
        };
        printed.map_err(|failure| failure.status())?;
        Ok(String::from_utf8(shown).expect("text"))
    }

    #[test]
    fn answers_are_printed_without_their_dots() {
        let text = "version zsched 1.0\n+OK until LF.LF\na waits\n..b\n.\n";
        assert_eq!(answer(text).as_deref(), Ok("a waits\n.b\n"));
    }

    #[test]
    fn what_is_no_answer_has_a_status() {
        for (text, status) in [
            ("", 76),
            ("version zmailer 1.0\nVertices:\n", 76),
            ("version zsched 1.0\n", 76),
            ("version zsched 1.0\n-nothing is queued for x\n", 69),
            ("version zsched 1.0\n+OK until LF.LF\na waits\n", 76),
        ] {
            assert_eq!(answer(text), Err(status), "{text:?}");
        }
    }
}
