//! A letter: the copy of a message in a mailbox.

use jiff::tz::TimeZone;
use std::io::{self, Write};
use zsched_agent::{Delivery, Message};

/// The sender in the `From_` line of a message with the null sender.
const NULL_SENDER: &[u8] = b"MAILER-DAEMON";

/// One recipient's copy.
pub struct Letter<'a> {
    /// The recipient.
    pub delivery: &'a Delivery<'a>,
    /// The message with its body.
    pub message: &'a Message,
}

impl Letter<'_> {
    /// Writes the message: `Return-Path`, `Delivered-To`, the router's headers for this recipient,
    /// the body.
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

    /// The line that begins a message in an mbox file: sender, and local time `now`.
    pub fn opening_line(&self, now: jiff::Timestamp) -> Vec<u8> {
        let sender = self.delivery.sender().unwrap_or(NULL_SENDER);
        let date = now.to_zoned(TimeZone::system()).strftime("%a %b %e %H:%M:%S %Y").to_string();
        // Readers take the text up to the first blank as the sender.
        let blanks_out = |byte| if byte == b' ' { b'_' } else { byte };
        let sender: Vec<u8> = printable(sender).into_iter().map(blanks_out).collect();
        [b"From ", &*sender, b" ", date.as_bytes(), b"\n"].concat()
    }
}

/// An address without control characters, for a line of its own.
fn printable(address: &[u8]) -> Vec<u8> {
    address.iter().map(|&byte| if byte.is_ascii_control() { b'?' } else { byte }).collect()
}

/// The headers, line by line, without an earlier `Return-Path`.
///
/// The last hop adds its own (RFC 5321, 4.4).
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
    fn foreign_return_path_is_dropped_with_folded_lines() {
        let headers = b"A: 1\nreturn-path:\n <x@y>\n\tmore\nB: 2\n fold\nReturn-Path : <z>\n";
        let kept: Vec<u8> = without_return_path(headers).collect::<Vec<_>>().concat();
        assert_eq!(kept, b"A: 1\nB: 2\n fold\n");
        assert_eq!(without_return_path(b"").count(), 0);
    }

    #[test]
    fn control_characters_in_address_are_replaced() {
        assert_eq!(printable(b"a\rb\x01c d"), b"a?b?c d");
    }
}
