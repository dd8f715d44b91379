//! The listing of a MAILQ version 2 server, in ZMailer's form.
//!
//! ```text
//! smtp/mail.example.org:
//! <TAB>10101639: (3 tries, expires in 2m59s) smtp; 451 busy
//! ```
//!
//! and with details, which are read from the spool:
//!
//! ```text
//! <TAB>10101639: (3 tries, age 1h2m, expires in 2m59s, 612+4096 bytes)
//! <TAB>  id<TAB><two@example.org>
//! <TAB>  from<TAB>alice@example.org
//! <TAB>  to<TAB>bob@mail.example.org
//! <TAB>  diag<TAB>smtp; 451 busy
//! ```

use super::details::{ControlFiles, MessageDetails};
use super::v2::{ListedThread, RecipientRecord, RecordSink};
use crate::failure::Failure;
use crate::screen::Screen;
use std::io;
use zsched_format::time::{ShortDuration, Timestamp};

/// Size of held-back output above which it is printed, in bytes.
const MAX_HELD_OUTPUT: usize = 64 << 20;

/// Maximum number of recipients gathered for one reading of a control file.
const MAX_GATHERED_RECIPIENTS: usize = 10_000;

/// Prints the contents of threads.
///
/// Output is held back until the dialogue is over, or there is much of it. A server has 90 seconds
/// for a client, and the reader of the output may take longer.
pub(super) struct Listing<'a, 's, 'w> {
    screen: &'a mut Screen<'w>,
    files: &'a mut ControlFiles<'s>,
    has_details: bool,
    owner: Option<u32>,
    now: Timestamp,
    /// Heading of the thread, until it is printed.
    heading: Option<Vec<u8>>,
    /// Recipients of the current message that were read so far.
    message: Vec<RecipientRecord>,
    file: Vec<u8>,
    is_empty: bool,
}

impl<'a, 's, 'w> Listing<'a, 's, 'w> {
    /// Creates a listing that is printed on `screen`.
    ///
    /// `owner` is the user id of the owner of messages, if only these are shown.
    pub(super) fn new(
        screen: &'a mut Screen<'w>,
        files: &'a mut ControlFiles<'s>,
        has_details: bool,
        owner: Option<u32>,
        now: Timestamp,
    ) -> Listing<'a, 's, 'w> {
        screen.hold();
        Listing {
            screen,
            files,
            has_details,
            owner,
            now,
            heading: None,
            message: Vec::new(),
            file: Vec::new(),
            is_empty: true,
        }
    }

    /// Prints held-back output. Returns true if nothing was printed at all.
    pub(super) fn finish(&mut self) -> io::Result<bool> {
        self.screen.release()?;
        Ok(self.is_empty)
    }

    fn print_message(&mut self) -> io::Result<()> {
        let recipients = std::mem::take(&mut self.message);
        let Some(first) = recipients.first() else {
            return Ok(());
        };
        if let Some(owner) = self.owner
            && self.files.owner(&self.file) != Some(owner)
        {
            return Ok(());
        }
        if let Some(heading) = self.heading.take() {
            self.screen.line(&[&heading])?;
            self.is_empty = false;
        }
        if self.has_details {
            return self.print_details(&recipients);
        }
        if first.index == 0 {
            self.print_file()?;
            write!(self.screen, "({}{}) ", Tries(first.tries), Expiry(first.expiry, self.now))?;
            self.screen.line(&[&first.text])?;
        }
        Ok(())
    }

    fn print_file(&mut self) -> io::Result<()> {
        self.screen.text(b"\t")?;
        self.screen.text(&self.file)?;
        self.screen.text(b": ")
    }

    fn print_details(&mut self, recipients: &[RecipientRecord]) -> io::Result<()> {
        let offsets: Vec<u32> = recipients.iter().map(|recipient| recipient.offset).collect();
        let details = self.files.describe(&self.file, &offsets);
        for (place, recipient) in recipients.iter().enumerate() {
            if recipient.index == 0 {
                self.print_head(recipient, details.as_ref())?;
            }
            match details.as_ref().map(|details| details.to[place].as_deref()) {
                Some(Some(to)) => self.screen.line(&[b"\t  to\t", to])?,
                Some(None) => writeln!(self.screen, "\t  to-ptr bad: {}", recipient.offset)?,
                None => {}
            }
            // Agents put CR between the lines of a dialogue.
            for line in recipient.text.split(|byte| *byte == b'\r').filter(|line| !line.is_empty())
            {
                self.screen.line(&[b"\t  diag\t", line])?;
            }
        }
        Ok(())
    }

    fn print_head(
        &mut self,
        first: &RecipientRecord,
        details: Option<&MessageDetails>,
    ) -> io::Result<()> {
        let control = details.and_then(|_| self.files.control_size(&self.file));
        let message = control.and_then(|_| self.files.size_and_age(&self.file, self.now));
        self.print_file()?;
        let (tries, expiry) = (Tries(first.tries), Expiry(first.expiry, self.now));
        match (control, message) {
            (Some(control), Some((size, age))) => {
                let age = ShortDuration(age);
                writeln!(self.screen, "({tries}, age {age}{expiry}, {control}+{size} bytes)")?;
            }
            _ => writeln!(self.screen, "({tries}{expiry})")?,
        }
        if let Some(id) = details.and_then(|details| details.log_id.as_ref()) {
            self.screen.line(&[b"\t  id\t", id])?;
        }
        let sender: &[u8] = if first.sender.is_empty() { b"<>" } else { &first.sender };
        self.screen.line(&[b"\t  from\t", sender])
    }
}

impl RecordSink for Listing<'_, '_, '_> {
    fn begin(&mut self, thread: &ListedThread, _is_running: bool) {
        self.heading = Some([thread.channel.as_slice(), b"/", &thread.host, b":"].concat());
    }

    fn take(&mut self, record: RecipientRecord) -> Result<(), Failure> {
        // Without details, only the first recipient of a message is shown.
        if !self.has_details && record.index > 0 {
            return Ok(());
        }
        if record.index == 0
            || record.file != self.file
            || self.message.len() == MAX_GATHERED_RECIPIENTS
        {
            self.print_message()?;
            self.file = record.file.clone();
        }
        self.message.push(record);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.print_message()?;
        self.file.clear();
        if self.screen.held_len() > MAX_HELD_OUTPUT {
            self.screen.release()?;
            self.screen.hold();
        }
        Ok(())
    }
}

struct Tries(u64);

impl std::fmt::Display for Tries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // ZMailer has no singular here.
        write!(f, "{} tries", self.0)
    }
}

struct Expiry(i64, Timestamp);

impl std::fmt::Display for Expiry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => Ok(()),
            at => {
                let left = at.saturating_sub(self.1.seconds());
                write!(f, ", expires in {}", ShortDuration(left))
            }
        }
    }
}
