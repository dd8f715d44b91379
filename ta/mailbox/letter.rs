//! A letter: the copy of a message in a mailbox.

use std::io::{self, Write};
use zsched_agent::{Delivery, Message};
use zsched_agents::mail_text::{from_line, printable, without_return_path};

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
        io::copy(&mut self.delivery.body(self.message), out).map(drop)
    }

    /// The line that begins a message in an mbox file: sender, and local time `now`.
    pub fn opening_line(&self, now: jiff::Timestamp) -> Vec<u8> {
        [&*from_line(self.delivery.sender(), now), b"\n"].concat()
    }
}
