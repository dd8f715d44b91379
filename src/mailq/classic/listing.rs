//! The listing: each channel and host, with its messages, in ZMailer's form.
//!
//! With version 1:
//!
//! ```text
//! smtp/mail.example.org:
//! <TAB>10101639/2:<TAB>smtp; 451 busy (retry in 17s, expires in 59m41s, tries=2)
//! <TAB>  id<TAB><two@example.org>, 4096 bytes, age 1h2m3s
//! <TAB>  from<TAB>alice@example.org
//! <TAB>  to<TAB>bob@mail.example.org
//! <TAB><TAB>carol@mail.example.org
//! ```
//!
//! With version 2, without and with details, which are read from the spool:
//!
//! ```text
//! smtp/mail.example.org:
//! <TAB>10101639: (3 tries, expires in 2m59s) smtp; 451 busy
//!
//! <TAB>10101639: (3 tries, age 1h2m, expires in 2m59s, 612+4096 bytes)
//! <TAB>  id<TAB><two@example.org>
//! <TAB>  from<TAB>alice@example.org
//! <TAB>  to<TAB>bob@mail.example.org
//! <TAB>  diag<TAB>smtp; 451 busy
//! ```

use super::details::{ControlFiles, MessageDetails};
use super::queue::{QueuedThread, Vertex};
use super::v2::RecipientRecord;
use crate::failure::Failure;
use crate::options::ClassicOptions;
use crate::screen::Screen;
use std::fmt;
use std::io;
use zsched_format::time::{ShortDuration, Timestamp};

/// Prints the listing of version 1, or instead of the messages their number and size.
pub(super) fn print(
    screen: &mut Screen<'_>,
    threads: &[QueuedThread],
    options: &ClassicOptions,
    files: &mut ControlFiles<'_>,
) -> Result<(), Failure> {
    let (now, verbosity) = (Timestamp::now(), options.verbosity());
    for thread in threads {
        screen.line(&[&thread.channel, b"/", &thread.host, b":"])?;
        if options.sizes > 0 {
            print_sizes(screen, thread, options.sizes, now, files)?;
            continue;
        }
        for vertex in &thread.vertices {
            print_vertex(screen, vertex)?;
            if verbosity > 0
                && let Some(details) = files.describe(&vertex.file, &vertex.offsets)
            {
                let size = if verbosity > 1 { files.size_and_age(&vertex.file, now) } else { None };
                print_vertex_details(screen, &details, size)?;
            }
        }
    }
    Ok(())
}

fn print_vertex(screen: &mut Screen<'_>, vertex: &Vertex) -> io::Result<()> {
    screen.text(&[b"\t", &vertex.file[..]].concat())?;
    if vertex.recipients > 1 {
        write!(screen, "/{}", vertex.recipients)?;
    }
    match &vertex.text {
        Some(text) => screen.line(&[b":\t", text]),
        None => screen.line(&[b":"]),
    }
}

fn print_vertex_details(
    screen: &mut Screen<'_>,
    details: &MessageDetails,
    size: Option<(u64, i64)>,
) -> io::Result<()> {
    if let Some(log_id) = &details.log_id {
        screen.text(&[b"\t  id\t", &log_id[..]].concat())?;
        if let Some((bytes, age)) = size {
            write!(screen, ", {bytes} bytes, age {}", Age(age))?;
        }
        screen.line(&[])?;
    }
    if let Some(from) = &details.from {
        screen.line(&[b"\t  from\t", from])?;
    }
    for (index, to) in details.to.iter().flatten().enumerate() {
        screen.line(&[if index == 0 { b"\t  to\t" } else { b"\t\t" }, to])?;
    }
    Ok(())
}

fn print_sizes(
    screen: &mut Screen<'_>,
    thread: &QueuedThread,
    level: u8,
    now: Timestamp,
    files: &mut ControlFiles<'_>,
) -> io::Result<()> {
    let count = thread.vertices.len() as u64;
    let plural = if count == 1 { "" } else { "s" };
    write!(screen, "\t  {count} file{plural}")?;
    if level == 1 {
        let size = |vertex: &Vertex| files.size_and_age(&vertex.file, now).map(|(size, _)| size);
        let total = thread.vertices.iter().filter_map(size).fold(0, u64::saturating_add);
        match total {
            0 => write!(screen, ", no file size info available")?,
            _ => write!(screen, ", {total} bytes total, {} bytes average", total / count)?,
        }
    }
    screen.line(&[])
}

/// Prints a message of version 2, or a part of a very large one.
pub(super) fn print_message(
    screen: &mut Screen<'_>,
    recipients: &[RecipientRecord],
    has_details: bool,
    files: &mut ControlFiles<'_>,
) -> io::Result<()> {
    let [first, ..] = recipients else { return Ok(()) };
    if !has_details {
        // One line for all parts.
        if first.index == 0 {
            screen.text(&[b"\t", &first.file[..]].concat())?;
            write!(screen, ": ({}{}) ", tries(first), expiry(first, Timestamp::now()))?;
            screen.line(&[&first.text])?;
        }
        return Ok(());
    }
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
    screen.text(&[b"\t", &first.file[..]].concat())?;
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

/// Age of a message in ZMailer's form.
///
/// Each unit that is exceeded is shown, and seconds unless there are three others.
struct Age(i64);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0;
        let mut parts = 0;
        for (seconds, unit) in [(86_400, 'd'), (3_600, 'h'), (60, 'm')] {
            if left > seconds {
                write!(f, "{}{unit}", left / seconds)?;
                left %= seconds;
                parts += 1;
            }
        }
        if parts < 3 { write!(f, "{left}s") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_has_form_of_zmailer() {
        for (seconds, text) in [
            (0, "0s"),
            (-5, "-5s"),
            (60, "60s"),
            (61, "1m1s"),
            (3600, "60m0s"),
            (3723, "1h2m3s"),
            (90_000, "1d60m0s"),
            (93_784, "1d2h3m"),
        ] {
            assert_eq!(Age(seconds).to_string(), text);
        }
    }
}
