//! The message on standard input, and the sender in its `From_` line.

use crate::error::EnqueueError;
use crate::options::sender_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Stdin};
use std::os::fd::AsFd;

/// Maximum length of a `From_` line, in bytes.
const MAX_FROM_LINE_LEN: usize = 4096;
/// Maximum time without input, in seconds.
const MAX_INPUT_WAIT: i64 = 300;
/// The null sender in a `From_` line.
const MAILER_DAEMON: &str = "MAILER-DAEMON";
/// The null sender.
const NULL_SENDER: &str = "<>";

/// A message whose `From_` line, if it has one, is read.
pub struct Message {
    input: Stdin,
    sender: String,
    /// What was read behind the `From_` line.
    beginning: io::Cursor<Vec<u8>>,
}

impl Message {
    /// Reads the first line, if it is a `From_` line.
    pub fn begin(input: Stdin) -> Result<Message, EnqueueError> {
        let mut message =
            Message { input, sender: NULL_SENDER.into(), beginning: io::Cursor::default() };
        let mut read = Vec::new();
        let mut chunk = [0; MAX_FROM_LINE_LEN];
        let is_open = |read: &[u8]| {
            let is_from_line = read.len() < 5 || read.starts_with(b"From ");
            is_from_line && read.len() < MAX_FROM_LINE_LEN && !read.contains(&b'\n')
        };
        while is_open(&read) {
            match message.read_input(&mut chunk).map_err(EnqueueError::Input)? {
                0 => break,
                count => read.extend_from_slice(&chunk[..count]),
            }
        }
        if read.starts_with(b"From ") {
            let end = read.iter().position(|byte| *byte == b'\n');
            let end = end.ok_or(EnqueueError::FromLine("is too long"))?;
            message.sender = sender_in(&read[5..end]).map_err(EnqueueError::FromLine)?;
            read.drain(..=end);
        }
        message.beginning = io::Cursor::new(read);
        Ok(message)
    }

    /// The sender, `<>` if there is no `From_` line.
    pub fn sender(&self) -> &String {
        &self.sender
    }

    fn read_input(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let input = self.input.as_fd();
        let limit = Timespec { tv_sec: MAX_INPUT_WAIT, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&limit)) == Ok(0) {
            return Err(ErrorKind::TimedOut.into());
        }
        // Not by the buffer of standard input, which a message does not need.
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(input, &mut *buffer))?)
    }
}

impl Read for Message {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.beginning.read(buffer)? {
            0 => self.read_input(buffer),
            count => Ok(count),
        }
    }
}

/// The sender in a `From_` line, behind its first word.
fn sender_in(line: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "is not text")?;
    match text.split_whitespace().next() {
        None | Some(MAILER_DAEMON) => Ok(NULL_SENDER.into()),
        Some(word) => sender_of(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_is_first_word_of_from_line() {
        for (line, expected) in [
            ("a@b Mon Nov 23 21:00:00 2026", Ok("a@b")),
            ("MAILER-DAEMON Mon Nov 23 21:00:00 2026", Ok("<>")),
            ("<a@b> x", Ok("a@b")),
            ("", Ok("<>")),
            ("a\x01b x", Err("the sender has a blank or a control character")),
        ] {
            assert_eq!(sender_in(line.as_bytes()).as_deref().map_err(|why| *why), expected);
        }
    }
}
