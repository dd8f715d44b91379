//! What is written into a mailbox: one recipient's copy of a message.

use jiff::tz::TimeZone;
use std::io::{self, Write};
use zsched_agent::{Delivery, Message};

/// The sender named in the `From_` line of a message that has none.
const NULL_SENDER: &[u8] = b"MAILER-DAEMON";

/// One recipient's copy.
pub struct Letter<'a> {
    /// Who it is for.
    pub delivery: &'a Delivery<'a>,
    /// Where its body is.
    pub message: &'a Message,
}

impl Letter<'_> {
    /// Writes the message: `Return-Path` and `Delivered-To` of our own, the headers that the router
    /// made for this recipient, the body.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let sender = self.delivery.sender().unwrap_or_default();
        out.write_all(&[b"Return-Path: <", &*printable(sender), b">\n"].concat())?;
        let recipient = printable(self.delivery.user());
        out.write_all(&[b"Delivered-To: ", &*recipient, b"\n"].concat())?;
        for line in without_return_path(self.delivery.headers()) {
            out.write_all(line)?;
        }
        out.write_all(b"\n")?;
        io::copy(&mut self.message.body(), out).map(drop)
    }

    /// The line that begins a message in an mbox file: sender, and the local time `now`.
    pub fn opening_line(&self, now: jiff::Timestamp) -> Vec<u8> {
        let sender = self.delivery.sender().unwrap_or(NULL_SENDER);
        let date = now.to_zoned(TimeZone::system()).strftime("%a %b %e %H:%M:%S %Y").to_string();
        // Readers take everything up to the first blank as the sender.
        let blanks_out = |byte| if byte == b' ' { b'_' } else { byte };
        let sender: Vec<u8> = printable(sender).into_iter().map(blanks_out).collect();
        [b"From ", &*sender, b" ", date.as_bytes(), b"\n"].concat()
    }
}

/// An address as it can stand in a line of its own.
fn printable(address: &[u8]) -> Vec<u8> {
    address.iter().map(|&byte| if byte.is_ascii_control() { b'?' } else { byte }).collect()
}

/// Headers, line by line, less those that tell the sender already: the last hop knows it best
/// (RFC 5321, 4.4).
fn without_return_path(headers: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut dropping = false;
    headers.split_inclusive(|byte| *byte == b'\n').filter(move |line| {
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            dropping = name.trim_ascii_end().eq_ignore_ascii_case(b"return-path");
        }
        !dropping
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_return_path_is_dropped_with_its_folds() {
        let headers = b"A: 1\nreturn-path:\n <x@y>\n\tmore\nB: 2\n fold\nReturn-Path : <z>\n";
        let kept: Vec<u8> = without_return_path(headers).collect::<Vec<_>>().concat();
        assert_eq!(kept, b"A: 1\nB: 2\n fold\n");
        assert_eq!(without_return_path(b"").count(), 0);
    }

    #[test]
    fn addresses_cannot_break_a_line() {
        assert_eq!(printable(b"a\rb\x01c d"), b"a?b?c d");
    }
}
