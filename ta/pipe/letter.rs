//! The message as a program gets it on its standard input.
//!
//! The order is: SMTP commands (`b`, `B`), `From_` line, headers that are added, the headers of the
//! control file, the body.

use crate::flags::{Batch, Flags};
use crate::line_filter::LineFilter;
use std::io::{self, Write};
use zsched_agent::{Delivery, Events, Message};
use zsched_agents::mail_text::{from_line, printable, without_return_path};
use zsched_sys as sys;

/// A copy of a message for recipients that share a call of a program.
pub struct Letter<'a> {
    /// The recipients; at least one.
    pub group: &'a [Delivery<'a>],
    pub message: &'a Message,
    pub flags: Flags,
    /// True if the program may be told that 8-bit text is in the message.
    pub is_8bit: bool,
}

impl Letter<'_> {
    /// Writes all of it. Errors are those of the message file and of `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(batch) = self.flags.batch {
            self.write_commands(batch, out)?;
        }
        if !self.flags.no_from_line || self.flags.remote_from {
            self.write_line(out, &[&self.opening_line()])?;
        }
        let mut text = LineFilter::new(&mut *out, self.flags);
        self.write_added_headers(&mut text)?;
        self.write_headers(&mut text)?;
        text.write_all(b"\n")?;
        io::copy(&mut self.first().body(self.message), &mut text)?;
        let out = text.finish()?;
        if self.flags.batch.is_some() {
            self.write_line(out, &[b"."])?;
        }
        Ok(())
    }

    fn first(&self) -> &Delivery<'_> {
        &self.group[0]
    }

    /// The sender, empty for the null sender.
    fn sender(&self) -> &[u8] {
        self.first().sender().unwrap_or_default()
    }

    fn opening_line(&self) -> Vec<u8> {
        let mut line = from_line(self.first().sender(), jiff::Timestamp::now());
        if self.flags.remote_from {
            let host = sys::host_name();
            let name = host.split('.').next().unwrap_or_default();
            line.extend_from_slice(format!(" remote from {name}").as_bytes());
        }
        line
    }

    fn write_line(&self, out: &mut dyn Write, parts: &[&[u8]]) -> io::Result<()> {
        out.write_all(&parts.concat())?;
        out.write_all(self.flags.line_end())
    }

    /// Writes the envelope as SMTP commands (RFC 5321; RFC 1870, RFC 3461, RFC 6152).
    fn write_commands(&self, batch: Batch, out: &mut dyn Write) -> io::Result<()> {
        let is_extended = batch != Batch::Plain;
        if self.flags.greeting {
            let word = if is_extended { "EHLO " } else { "HELO " };
            self.write_line(out, &[word.as_bytes(), sys::host_name().as_bytes()])?;
        }
        let mut parameters = Vec::new();
        if is_extended {
            parameters.extend_from_slice(format!(" SIZE={}", self.size()?).as_bytes());
            if self.is_8bit {
                parameters.extend_from_slice(b" BODY=8BITMIME");
            }
        }
        if batch == Batch::WithDsn {
            push_parameter(&mut parameters, " ENVID=", self.first().envelope_id());
            push_parameter(&mut parameters, " RET=", self.first().return_mode());
        }
        self.write_line(out, &[b"MAIL FROM:<", self.sender(), b">", &parameters])?;
        for recipient in self.group {
            let mut parameters = Vec::new();
            if batch == Batch::WithDsn {
                let notify = recipient.notify();
                let events = words_of(notify.events);
                push_parameter(&mut parameters, " NOTIFY=", Some(events.as_bytes()));
                push_parameter(&mut parameters, " ORCPT=", notify.original_recipient);
            }
            self.write_line(out, &[b"RCPT TO:<", recipient.user(), b">", &parameters])?;
        }
        self.write_line(out, &[b"DATA"])
    }

    /// Size of the message in bytes, without what `flags` add.
    fn size(&self) -> io::Result<u64> {
        let body = io::copy(&mut self.first().body(self.message), &mut io::sink())?;
        Ok(self.first().headers().len() as u64 + 1 + body)
    }

    fn write_added_headers(&self, out: &mut impl Write) -> io::Result<()> {
        let mut header = |name: &str, value: &[u8]| {
            out.write_all(&[name.as_bytes(), b": ", &*printable(value), b"\n"].concat())
        };
        if self.flags.return_path {
            header("Return-Path", &[b"<", self.sender(), b">"].concat())?;
        }
        if self.flags.envelope_headers
            && let Some(id) = self.first().envelope_id()
        {
            header("Envelope-Id", &decoded_xtext(id))?;
        }
        for recipient in self.group {
            if self.flags.envelope_headers {
                header("X-Envelope-To", &[b"<", recipient.user(), b">"].concat())?;
            }
            if (self.flags.envelope_headers || self.flags.original_recipient)
                && let Some(original) = recipient.notify().original_recipient
            {
                header("Original-Recipient", &decoded_xtext(original))?;
            }
        }
        Ok(())
    }

    fn write_headers(&self, out: &mut impl Write) -> io::Result<()> {
        let headers = self.first().headers();
        if !self.flags.return_path {
            return out.write_all(headers);
        }
        without_return_path(headers).try_for_each(|line| out.write_all(line))
    }
}

fn push_parameter(parameters: &mut Vec<u8>, keyword: &str, value: Option<&[u8]>) {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        parameters.extend_from_slice(keyword.as_bytes());
        parameters.extend(printable(value.trim_ascii()));
    }
}

/// The value of `NOTIFY` (RFC 3461, 4.1); empty for the default.
fn words_of(events: Events) -> String {
    if events == Events::default() {
        return String::new();
    }
    let all = [(events.success, "SUCCESS"), (events.failure, "FAILURE"), (events.delay, "DELAY")];
    let words: Vec<&str> =
        all.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word).collect();
    if words.is_empty() { "NEVER".to_string() } else { words.join(",") }
}

/// The text that xtext stands for (RFC 3461, 4). What is not xtext stays as it is.
fn decoded_xtext(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let is_hex = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        match digits.filter(is_hex).map(|digits| u8::from_str_radix(digits, 16)) {
            Some(Ok(value)) if *byte == b'+' => {
                decoded.push(value);
                rest = &behind[2..];
            }
            _ => decoded.push(*byte),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use zsched_agent::testing::TestJob;
    use zsched_agent::{Outcome, Scope, Verdict};

    const FILE: &str = "\
@ 0x00000007
i 7
o 0
n ID+2B1
R HDRS
s local - alice@x 0
r           smtp h bob@x 0
N ORCPT=rfc822;B+0A+2Bb@x NOTIFY=SUCCESS,DELAY
r           smtp h cy@x 0
m
Return-Path: <old@x>
Subject: test
.odd: header

";

    /// Writes a letter to both recipients, and hides its date and the host.
    fn check(flags: &str, expected: &Expect) {
        let mut letter = Vec::new();
        TestJob::new(FILE).with_body(".\nFrom here\nlast").run(&Scope::channel("smtp"), |job| {
            let message = job.message()?;
            job.deliver_groups(
                |_, _| true,
                |group| {
                    let flags = Flags::parse(flags).0;
                    let copy = Letter { group, message: &message, flags, is_8bit: true };
                    copy.write_to(&mut letter).expect("a Vec takes everything");
                    Outcome::new(Verdict::Delivered, "", 250, "")
                },
            )
        });
        let letter = String::from_utf8(letter).expect("text").replace('\r', "^M");
        let host = sys::host_name();
        let letter = letter.replace(&format!("EHLO {host}"), "EHLO HOST");
        let name = host.split('.').next().expect("a part");
        let letter = letter.replace(&format!("remote from {name}"), "remote from NAME");
        let hide = |line: &str| match line.split_once(" remote") {
            _ if !line.starts_with("From alice") => line.to_string(),
            Some((_, remote)) => format!("From alice@x DATE remote{remote}"),
            None => "From alice@x DATE".to_string(),
        };
        let lines: Vec<String> = letter.lines().map(hide).collect();
        expected.assert_eq(&(lines.join("\n") + "\n"));
    }

    #[test]
    fn message_follows_from_line() {
        check(
            "-",
            &expect![[r#"
            From alice@x DATE
            Return-Path: <old@x>
            Subject: test
            .odd: header

            .
            From here
            last
        "#]],
        );
    }

    #[test]
    fn headers_are_added_by_flags() {
        check(
            "nPeE",
            &expect![[r#"
            Return-Path: <alice@x>
            Envelope-Id: ID+1
            X-Envelope-To: <cy@x>
            X-Envelope-To: <bob@x>
            Original-Recipient: rfc822;B?+b@x
            Subject: test
            .odd: header

            .
            >From here
            last
        "#]],
        );
    }

    #[test]
    fn batch_has_dots_doubled_in_headers_and_body() {
        check(
            "nURBBH",
            &expect![[r#"
            EHLO HOST^M
            MAIL FROM:<alice@x> SIZE=65 BODY=8BITMIME ENVID=ID+2B1 RET=HDRS^M
            RCPT TO:<cy@x>^M
            RCPT TO:<bob@x> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;B+0A+2Bb@x^M
            DATA^M
            From alice@x DATE remote from NAME^M
            Return-Path: <old@x>^M
            Subject: test^M
            ..odd: header^M
            ^M
            ..^M
            From here^M
            last^M
            .^M
        "#]],
        );
    }
}
