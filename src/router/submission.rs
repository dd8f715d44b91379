//! Reads a submission: its envelope and headers. The body stays in the file.

use super::envelope::{Envelope, EnvelopeLine, EnvelopeRecipient, EnvelopeSender};
use std::io::{self, BufRead, Read};
use zsched_format::address_list::addresses;
use zsched_format::header::Field;

/// Maximum length of a line of the envelope, in bytes.
const MAX_ENVELOPE_LINE_LEN: usize = 8192;
/// Maximum size of the envelope, in bytes.
const MAX_ENVELOPE_SIZE: u64 = 64 << 20;
/// Maximum size of the headers of a message, in bytes.
pub const MAX_HEADERS_SIZE: usize = 1 << 20;

/// A submission, apart from its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submission {
    /// The envelope.
    pub envelope: Envelope,
    /// The headers.
    pub fields: Vec<Field>,
    /// Offset of the body in the file.
    pub body_offset: u64,
}

/// Why a submission cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SubmissionError {
    /// It is not as it should be, and never will be.
    #[error("line {line}: {reason}")]
    Malformed {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file cannot be read now.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

impl Submission {
    /// Reads a submission up to its body.
    pub fn read(file: &mut impl BufRead) -> Result<Submission, SubmissionError> {
        let mut reader = LineReader { file, line: Vec::new(), number: 0, offset: 0 };
        let mut submission = Submission::default();
        let mut has_line = reader.next(MAX_ENVELOPE_LINE_LEN)?;
        // A message that was cut out of a mailbox begins so.
        if has_line && reader.line.starts_with(b"From ") {
            has_line = reader.next(MAX_ENVELOPE_LINE_LEN)?;
        }
        while has_line {
            let taken = submission.envelope.take(&reader.line).map_err(|why| reader.wrong(why))?;
            match taken {
                EnvelopeLine::Taken if reader.is_cut() => {
                    return Err(reader.wrong("a line of the envelope is too long".into()));
                }
                EnvelopeLine::Taken if reader.offset > MAX_ENVELOPE_SIZE => {
                    return Err(reader.wrong("the envelope is larger than 64 MiB".into()));
                }
                EnvelopeLine::Taken => has_line = reader.next(MAX_ENVELOPE_LINE_LEN)?,
                EnvelopeLine::End => {
                    has_line = reader.next(MAX_HEADERS_SIZE)?;
                    break;
                }
                EnvelopeLine::Message => {
                    reader.complete(MAX_HEADERS_SIZE)?;
                    break;
                }
            }
        }
        submission.read_headers(&mut reader, has_line)?;
        Ok(submission)
    }

    /// Reads headers up to the empty line, or to a line that is no header.
    fn read_headers<R: BufRead>(
        &mut self,
        reader: &mut LineReader<'_, R>,
        mut has_line: bool,
    ) -> Result<(), SubmissionError> {
        let mut size = 0;
        while has_line {
            if reader.line == b"\n" {
                self.body_offset = reader.offset;
                return Ok(());
            }
            let is_folded = matches!(reader.line[0], b' ' | b'\t');
            match (self.fields.last_mut().filter(|_| is_folded), Field::begin(&reader.line)) {
                (Some(field), _) => field.fold(&reader.line),
                (None, Some(field)) if !is_folded => self.fields.push(field),
                _ => {
                    self.body_offset = reader.offset - reader.line.len() as u64;
                    return Ok(());
                }
            }
            size += reader.line.len();
            if size > MAX_HEADERS_SIZE || reader.is_cut() {
                return Err(reader.wrong("the headers are larger than 1 MiB".into()));
            }
            has_line = reader.next(MAX_HEADERS_SIZE)?;
        }
        self.body_offset = reader.offset;
        Ok(())
    }

    /// Returns the fields with one of these names.
    pub fn fields_named<'s>(&'s self, names: &'s [&str]) -> impl Iterator<Item = &'s Field> {
        self.fields.iter().filter(|field| names.iter().any(|name| field.is(name)))
    }

    /// Takes sender and recipients from the headers, if the envelope lacks them.
    ///
    /// If there are Resent- headers, only those are used. An error says which header is wrong.
    pub fn complete_envelope(&mut self) -> Result<(), String> {
        const RESENT: [&str; 3] = ["Resent-To", "Resent-Cc", "Resent-Bcc"];
        const FIRST: [&str; 3] = ["To", "Cc", "Bcc"];
        let is_resent = self.fields_named(&RESENT).next().is_some();
        if self.envelope.recipients.is_empty() {
            let names = if is_resent { RESENT } else { FIRST };
            let found = self.addresses_in(&names)?;
            let recipient = |address| EnvelopeRecipient { address, notify: String::new() };
            self.envelope.recipients = found.into_iter().map(recipient).collect();
        }
        if self.envelope.sender.is_none() {
            let names =
                if is_resent { ["Resent-Sender", "Resent-From"] } else { ["Sender", "From"] };
            let mut found = names.iter().filter_map(|name| {
                // A wrong From header must not stop the message.
                self.addresses_in(&[name]).ok()?.into_iter().next()
            });
            self.envelope.sender = found.next().map(EnvelopeSender::Written);
        }
        Ok(())
    }

    fn addresses_in(&self, names: &[&str]) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for name in names {
            for field in self.fields_named(&[name]) {
                let list = addresses(field.value());
                found.append(&mut list.map_err(|why| format!("the {name} header: {why}"))?);
            }
        }
        Ok(found)
    }
}

/// Reads lines of limited length.
struct LineReader<'r, R> {
    file: &'r mut R,
    line: Vec<u8>,
    /// Number of the line, from 1.
    number: usize,
    /// Offset after the line.
    offset: u64,
}

impl<R: BufRead> LineReader<'_, R> {
    /// Reads the next line, or its beginning. Returns false at the end of the file.
    fn next(&mut self, max_len: usize) -> io::Result<bool> {
        self.line.clear();
        self.number += 1;
        self.complete(max_len)?;
        Ok(!self.line.is_empty())
    }

    /// Reads the rest of a line, up to this length of all of it.
    fn complete(&mut self, max_len: usize) -> io::Result<()> {
        if self.line.last() != Some(&b'\n') {
            let room = max_len.saturating_sub(self.line.len()) as u64;
            let count = (&mut *self.file).take(room).read_until(b'\n', &mut self.line)?;
            self.offset += count as u64;
        }
        Ok(())
    }

    /// Returns true if the line is too long or lacks its end.
    ///
    /// Only the last line can lack its end.
    fn is_cut(&mut self) -> bool {
        self.line.last() != Some(&b'\n') && !matches!(self.file.fill_buf(), Ok([]))
    }

    fn wrong(&self, reason: String) -> SubmissionError {
        SubmissionError::Malformed { line: self.number, reason }
    }
}
