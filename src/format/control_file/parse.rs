//! Parses a control file in one pass over its lines, keeping offsets.

use super::notify::Notify;
use super::quad::first_word;
use super::{
    Alternative, ControlFile, ControlFileError, DiagnosticLine, Format, HeaderBlock, NotifyLine,
    PREPARED, PidField, PreparedRecipient, Quad, Recipient, Sender, Span, Tag, find_empty_line,
};
use crate::priority;
use memchr::memchr;

/// Width of the reserved column after the pid column, in bytes.
const DELAY_COLUMN_WIDTH: usize = 4;
/// The `@` bits that are supported: pid column, delay column, `M` blocks.
const KNOWN_FORMAT_BITS: u64 = 0b111;

/// Parses the text of a control file.
///
/// Skips unknown fields, and fields that are disabled by their tag. Malformed recipients are listed
/// as undeliverable.
///
/// The error is at the first line that makes the file unusable: an unknown format bit, an
/// incomplete sender, or an invalid name or number. A file without an `i` line or without any valid
/// recipient is refused, too.
pub fn parse(text: Vec<u8>) -> Result<ControlFile, ControlFileError> {
    if text.is_empty() {
        return Err(error(0, "the file is empty"));
    }
    if u32::try_from(text.len()).is_err() {
        return Err(error(0, "the file is larger than 4 GiB"));
    }
    let file = read_fields(text)?;
    match (file.name, file.recipients.is_empty()) {
        (_, true) if !file.etrn_hosts.is_empty() => Ok(file),
        (Some(_), true) if !file.alternatives.is_empty() => Ok(file),
        (None, _) => Err(error(0, "no i line")),
        (Some(_), false) => Ok(file),
        (Some(_), true) => {
            let first = file.undeliverable_lines.into_iter().next();
            Err(first.unwrap_or_else(|| error(0, "no recipient")))
        }
    }
}

/// Parses a part of a control file.
///
/// It consists of the text before the first recipient, and of some later lines.
///
/// It need not have recipients.
pub fn parse_part(text: Vec<u8>) -> Result<ControlFile, ControlFileError> {
    let file = read_fields(text)?;
    if file.name.is_some() { Ok(file) } else { Err(error(0, "no i line")) }
}

fn read_fields(text: Vec<u8>) -> Result<ControlFile, ControlFileError> {
    let file = ControlFile { text, ..ControlFile::default() };
    let mut reader = Reader { file, ..Reader::default() };
    while let Some(line) = reader.next_line() {
        reader.take_field(line)?;
    }
    Ok(reader.file)
}

/// A field of the file: a line, or a header block.
#[derive(Clone, Copy)]
struct Line {
    id: u8,
    tag: u8,
    offset: usize,
    /// End of the value: before the line end, or after the last header.
    end: usize,
}

impl Line {
    fn value(&self) -> Span {
        Span::new((self.offset + 2).min(self.end), self.end)
    }
}

#[derive(Default)]
struct Reader {
    file: ControlFile,
    position: usize,
    /// From the `@` line, once it has been read.
    format: Option<Format>,
    /// Number of recipients that have headers. The others get those of the next `m` block.
    with_headers: usize,
    /// The same of alternatives.
    alternatives_with_headers: usize,
    /// The line that a following `N` line belongs to.
    last_recipient: Option<NotifiedLine>,
    /// Offset of the last `s` line that is prepared.
    prepared_sender: Option<u32>,
    /// True after a prepared recipient, up to the next header block.
    is_preparing: bool,
}

/// A line that an `N` line can belong to: its index.
#[derive(Clone, Copy)]
enum NotifiedLine {
    Recipient(usize),
    Alternative(usize),
}

/// Maximum length of a recipient's host, in bytes.
///
/// Agents read job lines into buffers of little more than a thousand bytes, and treat a longer line
/// as two jobs.
const MAX_HOST_LEN: usize = 900;

impl Reader {
    fn next_line(&mut self) -> Option<Line> {
        let text = &self.file.text;
        let offset = self.position;
        let id = *text.get(offset)?;
        if matches!(id, b'm' | b'M') && text.get(offset + 1) == Some(&b'\n') {
            let block = find_empty_line(&text[offset + 1..]).map(|at| offset + 1 + at);
            let end = block.map_or(text.len(), |at| at + 1);
            self.position = block.map_or(text.len(), |at| at + 2);
            if block.is_none() {
                self.file.unterminated_block = Some(offset as u32);
            }
            return Some(Line { id, tag: b'\n', offset, end });
        }
        let end = memchr(b'\n', &text[offset..]).map_or(text.len(), |at| offset + at);
        let tag = if offset + 1 < end { text[offset + 1] } else { b'\n' };
        self.position = end + 1;
        Some(Line { id, tag, offset, end })
    }

    fn take_field(&mut self, line: Line) -> Result<(), ControlFileError> {
        match line.id {
            b'm' if line.tag == b'\n' => self.take_headers(line),
            b's' if line.tag == PREPARED => self.prepared_sender = Some(line.offset as u32),
            b'r' if line.tag == PREPARED => self.take_prepared(line),
            // A kill may have cut an append here; there is no address to lose.
            b'r' if line.end == line.offset + 1 => self.last_recipient = None,
            b'r' => self.take_recipient(line),
            b'X' => self.take_alternative(line),
            b'd' => self.take_diagnostic(line),
            // All other fields are processed only if their tag is blank.
            _ if line.tag != b' ' => {}
            b'@' => return self.take_format(line),
            b'i' => return self.take_name(line),
            b'o' => return self.take_body_offset(line),
            b'l' => self.file.log_id = Some(line.value()),
            b'e' => self.file.error_address = Some(line.value()),
            b'v' => self.file.verbose = Some(line.value()),
            b'n' => self.file.envelope_id = Some(line.value()),
            b'R' => self.file.return_mode = Some(line.value()),
            b'p' => self.take_priority(line),
            b'T' => self.file.etrn_hosts.push(first_word(&self.file.text, line.value())),
            b's' => return self.take_sender(line),
            b'N' => self.take_notify(line),
            b'x' => self.file.obsoletes.push(line.value()),
            _ => {}
        }
        Ok(())
    }

    /// An invalid priority is ignored, so that the message is still delivered.
    fn take_priority(&mut self, line: Line) {
        let text = std::str::from_utf8(self.file.get(line.value()).trim_ascii());
        if let Some(priority) = text.ok().and_then(priority::parse) {
            self.file.priority = Some(priority);
        }
    }

    fn take_format(&mut self, line: Line) -> Result<(), ControlFileError> {
        let value = self.file.get(line.value());
        let bits = c_integer(value.trim_ascii())
            .ok_or_else(|| error(line.offset, "the @ line has no number"))?;
        if bits & !KNOWN_FORMAT_BITS != 0 {
            let unknown = error(line.offset, &format!("unknown format bits in {bits:#010x}"));
            return Err(ControlFileError { unknown_format: true, ..unknown });
        }
        self.format = Some(Format { pid_column: bits & 0b01 != 0, delay_column: bits & 0b10 != 0 });
        Ok(())
    }

    fn take_name(&mut self, line: Line) -> Result<(), ControlFileError> {
        let name = line.value();
        let text = self.file.get(name);
        if !text.first().is_some_and(u8::is_ascii_digit) || text.contains(&b'/') {
            return Err(error(
                line.offset,
                "the i line is not a file name that begins with a digit",
            ));
        }
        self.file.name = Some(name);
        Ok(())
    }

    fn take_body_offset(&mut self, line: Line) -> Result<(), ControlFileError> {
        let value = self.file.get(line.value()).trim_ascii();
        let offset = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
        self.file.body_offset =
            Some(offset.ok_or_else(|| error(line.offset, "the o line is not a number"))?);
        Ok(())
    }

    fn take_sender(&mut self, line: Line) -> Result<(), ControlFileError> {
        let quad = self.quad(line, line.offset + 2, "sender")?;
        self.file.senders.push(Sender { offset: line.offset as u32, quad });
        Ok(())
    }

    /// A malformed recipient must not prevent delivery to the others.
    fn take_recipient(&mut self, line: Line) {
        self.last_recipient = None;
        match self.recipient(line) {
            Ok(recipient) => {
                self.last_recipient = Some(NotifiedLine::Recipient(self.file.recipients.len()));
                self.file.recipients.push(recipient);
            }
            Err(error) => self.file.undeliverable_lines.push(error),
        }
    }

    /// A recipient whose append is not complete. An `N` line after it is not used either.
    fn take_prepared(&mut self, line: Line) {
        (self.last_recipient, self.is_preparing) = (None, true);
        let prepared =
            PreparedRecipient { offset: line.offset as u32, sender: self.prepared_sender };
        self.file.prepared.push(prepared);
    }

    /// A malformed alternative must not prevent delivery to the others.
    fn take_alternative(&mut self, line: Line) {
        self.last_recipient = None;
        let tag = Tag::from_byte(line.tag);
        if !matches!(tag, Tag::Pending | Tag::Done | Tag::Failed) {
            return;
        }
        match self.alternative(line, tag) {
            Ok(alternative) => {
                self.last_recipient = Some(NotifiedLine::Alternative(self.file.alternatives.len()));
                self.file.alternatives.push(alternative);
            }
            Err(error) if tag == Tag::Pending => self.file.undeliverable_lines.push(error),
            Err(_) => {}
        }
    }

    /// Parses `X CLASS channel host user privilege`, with or without blank columns before it.
    fn alternative(&self, line: Line, tag: Tag) -> Result<Alternative, ControlFileError> {
        let word = first_word(&self.file.text, line.value());
        let class = std::str::from_utf8(self.file.get(word)).ok().and_then(|it| it.parse().ok());
        let class = class.ok_or_else(|| error(line.offset, "alternative has no class"))?;
        let quad = self.quad(line, word.end as usize, "alternative")?;
        if self.file.get(quad.host).len() > MAX_HOST_LEN {
            return Err(error(line.offset, "alternative has a host that is too long"));
        }
        Ok(Alternative {
            offset: line.offset as u32,
            tag,
            class,
            quad,
            sender: self.last_sender(),
            headers: None,
            notify: None,
        })
    }

    /// Index of the sender of the following recipients.
    fn last_sender(&self) -> Option<u32> {
        self.file.senders.len().checked_sub(1).map(|index| index as u32)
    }

    fn recipient(&self, line: Line) -> Result<Recipient, ControlFileError> {
        let tag = Tag::from_byte(line.tag);
        if matches!(tag, Tag::Disabled(_)) {
            return Err(error(line.offset, "recipient has an unknown tag"));
        }
        let columns_from = line.offset + 2;
        let format = self.format.unwrap_or_else(|| self.guess_format(columns_from, line.end));
        let mut quad_from = columns_from;
        let mut lock = None;
        if format.pid_column {
            quad_from += PidField::WIDTH;
            let field = self.file.text[..line.end].get(columns_from..quad_from);
            let bytes = field.and_then(|bytes| <[u8; PidField::WIDTH]>::try_from(bytes).ok());
            lock = Some(PidField(bytes.ok_or_else(|| error(line.offset, "recipient cut short"))?));
        }
        if format.delay_column {
            quad_from += DELAY_COLUMN_WIDTH;
        }
        let quad = self.quad(line, quad_from, "recipient")?;
        if self.file.get(quad.host).len() > MAX_HOST_LEN {
            return Err(error(line.offset, "recipient has a host that is too long for a job line"));
        }
        Ok(Recipient {
            offset: line.offset as u32,
            tag,
            lock,
            quad,
            sender: self.last_sender(),
            headers: None,
            notify: None,
        })
    }

    /// Guesses the columns of a file without an `@` line.
    ///
    /// There are blanks or digits at their positions.
    fn guess_format(&self, columns_from: usize, end: usize) -> Format {
        let text = &self.file.text[..end];
        let looks_like_column =
            |at: usize| text.get(at).is_some_and(|&byte| byte == b' ' || byte.is_ascii_digit());
        let pid_column = looks_like_column(columns_from);
        let delay_column = pid_column && looks_like_column(columns_from + PidField::WIDTH);
        Format { pid_column, delay_column }
    }

    fn take_notify(&mut self, line: Line) {
        let notify = NotifyLine { offset: line.offset as u32, value: line.value() };
        match self.last_recipient {
            Some(NotifiedLine::Recipient(index)) => {
                self.file.recipients[index].notify.get_or_insert(notify);
                self.take_sender_of_alternative(index, notify);
            }
            Some(NotifiedLine::Alternative(index)) => {
                self.file.alternatives[index].notify.get_or_insert(notify);
            }
            None => {}
        }
    }

    /// Gives a recipient that was an alternative the sender of its `X` line.
    ///
    /// It has the same quad as the one before the recipient. But an `e` line counts only for the
    /// senders before it.
    fn take_sender_of_alternative(&mut self, recipient: usize, notify: NotifyLine) {
        if self.file.alternatives.is_empty() {
            return;
        }
        let of = Notify::parse(self.file.get(notify.value)).alternative_of;
        if let Some(line) = of.and_then(|of| self.file.alternative_at(of.offset)) {
            self.file.recipients[recipient].sender = line.sender;
        }
    }

    fn take_headers(&mut self, line: Line) {
        let index = self.file.headers.len() as u32;
        self.file.headers.push(HeaderBlock { offset: line.offset as u32, text: line.value() });
        for recipient in &mut self.file.recipients[self.with_headers..] {
            recipient.headers = Some(index);
        }
        self.with_headers = self.file.recipients.len();
        for alternative in &mut self.file.alternatives[self.alternatives_with_headers..] {
            alternative.headers = Some(index);
        }
        self.alternatives_with_headers = self.file.alternatives.len();
        let is_unterminated = self.file.unterminated_block == Some(line.offset as u32);
        self.file.has_torn_append = is_unterminated && self.is_preparing;
        self.is_preparing = false;
    }

    fn take_diagnostic(&mut self, line: Line) {
        // Programs write only `d ` and `d+`; any other tag disables the line.
        let reported = match line.tag {
            b' ' => false,
            b'+' => true,
            _ => return,
        };
        let offset = line.offset as u32;
        self.file.diagnostics.push(DiagnosticLine { offset, reported, value: line.value() });
    }

    fn quad(&self, line: Line, from: usize, what: &str) -> Result<Quad, ControlFileError> {
        Quad::parse(&self.file.text, from.min(line.end), line.end)
            .map_err(|missing| error(line.offset, &format!("{what} has {missing}")))
    }
}

/// Parses a number in C syntax: `0x7`, `7`, `07`.
fn c_integer(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(hexadecimal) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hexadecimal, 16).ok();
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

fn error(offset: usize, reason: &str) -> ControlFileError {
    ControlFileError::new(offset, reason)
}

#[cfg(test)]
mod tests;
