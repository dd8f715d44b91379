//! The recipients of a job as they come, a line each.

use crate::{EXIT_FAILURE, Failure};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use zsched_bulk::draft::AddError;
use zsched_bulk::recipient::MAX_LINE_LEN;
use zsched_command_line::sysexits::EX_DATAERR;
use zsched_sys as sys;

/// Time without input after which the recipients of a stream are synced.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Number of bytes that are read at a time.
pub(super) const READ_SIZE: usize = 1 << 18;

/// Recipients that are read, a line each.
pub(super) struct RecipientInput {
    shown: String,
    reader: Box<dyn BufRead>,
    /// The line after the last recipient; without one, the end of the input.
    end: Option<&'static [u8]>,
    /// Time without input that is an error.
    max_idle_time: Duration,
    read_at: Instant,
    line: Vec<u8>,
    /// True if only the start of the line has come.
    is_partial: bool,
    number: u64,
}

/// What comes next in the input.
pub(super) enum InputEvent {
    /// A line, which may be empty.
    Line,
    /// No complete line has come for [`MAX_PAUSE`].
    Pause,
    End,
}

impl RecipientInput {
    /// All lines of a file until its end.
    pub(super) fn of_file(shown: String, file: impl Read + AsFd + 'static) -> RecipientInput {
        let reader = BufReader::with_capacity(READ_SIZE, PolledInput(file));
        RecipientInput::new(shown, Box::new(reader), None, Duration::MAX)
    }

    /// All lines until a certain one. Without it the input is not complete.
    ///
    /// A read must fail with `WouldBlock` after [`MAX_PAUSE`].
    pub(super) fn until_line(
        shown: String,
        reader: Box<dyn BufRead>,
        end: &'static [u8],
        max_idle_time: Duration,
    ) -> RecipientInput {
        RecipientInput::new(shown, reader, Some(end), max_idle_time)
    }

    fn new(
        shown: String,
        reader: Box<dyn BufRead>,
        end: Option<&'static [u8]>,
        max_idle_time: Duration,
    ) -> RecipientInput {
        let (read_at, line) = (Instant::now(), Vec::new());
        RecipientInput {
            shown,
            reader,
            end,
            max_idle_time,
            read_at,
            line,
            is_partial: false,
            number: 0,
        }
    }

    /// The last line, without its end.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// The number of the last line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line.
    pub(super) fn next(&mut self) -> Result<InputEvent, Failure> {
        if !self.is_partial {
            self.line.clear();
        }
        let before = self.line.len();
        // A longer line is refused as a whole, but not read as a whole.
        let limit = (MAX_LINE_LEN + 2 - before) as u64;
        let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.line);
        self.is_partial = matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock);
        if self.line.len() > before {
            self.read_at = Instant::now();
        }
        if self.is_partial && self.read_at.elapsed() < self.max_idle_time {
            return Ok(InputEvent::Pause);
        }
        let unreadable = |error| Failure::new(EXIT_FAILURE, format!("{}: {error}", self.shown));
        read.map_err(unreadable)?;
        if self.line.is_empty() {
            return self.end_of_input();
        }
        self.line.pop_if(|last| *last == b'\n');
        self.line.pop_if(|last| *last == b'\r');
        self.number += 1;
        match self.end == Some(&self.line) {
            true => Ok(InputEvent::End),
            false => Ok(InputEvent::Line),
        }
    }

    fn end_of_input(&self) -> Result<InputEvent, Failure> {
        let Some(end) = self.end else { return Ok(InputEvent::End) };
        let end = String::from_utf8_lossy(end);
        let text = format!("{} has ended before the line {end:?}", self.shown);
        Err(Failure::new(EX_DATAERR, text))
    }

    /// The failure of a submission by its last line.
    pub(super) fn failure(&self, error: AddError, consequence: &str) -> Failure {
        let place = match &error {
            AddError::Spool(_) => return Failure::new(EXIT_FAILURE, error.to_string()),
            AddError::Line(error) => format!("{}:{}", self.number, error.at + 1),
            AddError::MissingField(_) => self.number.to_string(),
        };
        Failure::new(EX_DATAERR, format!("{}:{place}: {error}; {consequence}", self.shown))
    }
}

/// A file or pipe whose reads fail with `WouldBlock` if nothing comes for [`MAX_PAUSE`].
struct PolledInput<F>(F);

impl<F: Read + AsFd> Read for PolledInput<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match sys::is_readable_within(&self.0, MAX_PAUSE)? {
            true => self.0.read(buffer),
            false => Err(ErrorKind::WouldBlock.into()),
        }
    }
}
