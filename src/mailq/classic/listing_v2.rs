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
use super::v2::RecipientRecord;
use crate::screen::Screen;
use std::io;
use zsched_format::time::{ShortDuration, Timestamp};

/// Prints a message: one line for all of its recipients.
pub(super) fn print_message(screen: &mut Screen<'_>, first: &RecipientRecord) -> io::Result<()> {
    // The other parts of a very large message.
    if first.index > 0 {
        return Ok(());
    }
    screen.text(b"\t")?;
    screen.text(&first.file)?;
    write!(screen, ": ({}{}) ", tries(first), expiry(first, Timestamp::now()))?;
    screen.line(&[&first.text])
}

/// Prints a message, or a part of a very large one, with details.
pub(super) fn print_details(
    screen: &mut Screen<'_>,
    recipients: &[RecipientRecord],
    files: &mut ControlFiles<'_>,
) -> io::Result<()> {
    let [first, ..] = recipients else { return Ok(()) };
    let offsets: Vec<u32> = recipients.iter().map(|recipient| recipient.offset).collect();
    let details = files.describe(&first.file, &offsets);
    if first.index == 0 {
        print_head(screen, first, details.as_ref(), files)?;
    }
    for (place, recipient) in recipients.iter().enumerate() {
        match details.as_ref().map(|details| details.to[place].as_deref()) {
            Some(Some(to)) => screen.line(&[b"\t  to\t", to])?,
            Some(None) => writeln!(screen, "\t  to-ptr bad: {}", recipient.offset)?,
            None => {}
        }
        // Agents put CR between the lines of a dialogue.
        for line in recipient.text.split(|byte| *byte == b'\r').filter(|line| !line.is_empty()) {
            screen.line(&[b"\t  diag\t", line])?;
        }
    }
    Ok(())
}

fn print_head(
    screen: &mut Screen<'_>,
    first: &RecipientRecord,
    details: Option<&MessageDetails>,
    files: &mut ControlFiles<'_>,
) -> io::Result<()> {
    let now = Timestamp::now();
    let control = details.and_then(|_| files.control_size(&first.file));
    let message = control.and_then(|_| files.size_and_age(&first.file, now));
    screen.text(b"\t")?;
    screen.text(&first.file)?;
    let (tries, expiry) = (tries(first), expiry(first, now));
    match (control, message) {
        (Some(control), Some((size, age))) => {
            let age = ShortDuration(age);
            writeln!(screen, ": ({tries}, age {age}{expiry}, {control}+{size} bytes)")?;
        }
        _ => writeln!(screen, ": ({tries}{expiry})")?,
    }
    if let Some(id) = details.and_then(|details| details.log_id.as_ref()) {
        screen.line(&[b"\t  id\t", id])?;
    }
    let sender: &[u8] = if first.sender.is_empty() { b"<>" } else { &first.sender };
    screen.line(&[b"\t  from\t", sender])
}

fn tries(recipient: &RecipientRecord) -> String {
    let held = if recipient.is_held() { "held, " } else { "" };
    // ZMailer has no singular here.
    format!("{held}{} tries", recipient.tries)
}

fn expiry(recipient: &RecipientRecord, now: Timestamp) -> String {
    match recipient.expiry {
        0 => String::new(),
        at => format!(", expires in {}", ShortDuration(at.saturating_sub(now.seconds()))),
    }
}
