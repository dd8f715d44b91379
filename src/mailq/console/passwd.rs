//! `mailq passwd`: prints a line for the file of accounts.
//!
//! The password cannot be read from it.

use crate::failure::Failure;
use crate::screen::Screen;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use std::io::{self, BufRead, IsTerminal};
use zsched_format::printable;
use zsched_mailq_protocol::scram::{StoredPassword, normalize_password};

/// Asks for a password and prints the line.
pub(super) fn print(
    user: &str,
    permissions: &str,
    addresses: &str,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    check(user, permissions, addresses)?;
    let password = read_password(user)?;
    if password.is_empty() {
        return Failure::usage("the password is empty");
    }
    let password =
        normalize_password(&password).map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    let stored = StoredPassword::from_password(&password)
        .map_err(|error| Failure::Installation(format!("/dev/urandom: {error}")))?;
    Ok(writeln!(screen, "{user}:{stored}:{permissions}:{addresses}")?)
}

/// Rejects texts that would break the format of the file.
///
/// The file separates by colons and lines. Blanks separate users from what follows, and a line that
/// begins with `#` or `*` is not an account.
fn check(user: &str, permissions: &str, addresses: &str) -> Result<(), Failure> {
    let is_separator = |c: char| c == ':' || c.is_whitespace() || c.is_control();
    if user.is_empty() || user.contains(is_separator) || user.starts_with(['#', '*']) {
        return Failure::usage(
            "a user's name must not have colons or blanks, or begin with # or *",
        );
    }
    if permissions.contains(|c: char| c == ':' || c.is_control()) {
        return Failure::usage("permissions are words separated by blanks");
    }
    match addresses.contains(char::is_control) {
        true => Failure::usage("addresses have the form [192.0.2.0]/24, separated by blanks"),
        false => Ok(()),
    }
}

/// Reads the password.
///
/// On a terminal it is asked for twice, without echo. Otherwise it is the first line of standard
/// input.
fn read_password(user: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::Usage(format!("standard input: {error}"));
    if !io::stdin().is_terminal() {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map_err(failed)?;
        return Ok(line.trim_end_matches(['\n', '\r']).to_string());
    }
    let first = ask(&format!("Password of {user}: ")).map_err(failed)?;
    let second = ask("Repeat password: ").map_err(failed)?;
    match first == second {
        true => Ok(first),
        false => Failure::usage("the passwords differ"),
    }
}

fn ask(question: &str) -> io::Result<String> {
    // The prompt is on standard error, since standard output may be a file.
    eprint!("{}", printable::line(question));
    enable_raw_mode()?;
    let answer = read_hidden();
    disable_raw_mode()?;
    eprintln!();
    answer
}

fn read_hidden() -> io::Result<String> {
    let mut text = String::new();
    loop {
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Ok(text),
            KeyCode::Char('c' | 'd') if with_control => {
                return Err(io::ErrorKind::Interrupted.into());
            }
            KeyCode::Char('u') if with_control => text.clear(),
            KeyCode::Char(character) if !with_control => text.push(character),
            KeyCode::Backspace => drop(text.pop()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_refuses_fields_that_break_the_line() {
        assert!(check("fred", "TT QQ", "[IPv6:::1]/128").is_ok());
        for (user, permissions, addresses) in [
            ("", "TT", ""),
            ("a b", "TT", ""),
            ("a:b", "TT", ""),
            ("#a", "TT", ""),
            ("a", "TT:", ""),
            ("a", "TT", "[::1]\nroot:x:ALL:"),
        ] {
            assert!(check(user, permissions, addresses).is_err(), "{user} {permissions}");
        }
    }
}
