//! The listing: each channel and host, with its messages.
//!
//! ```text
//! smtp/mail.example.org:
//! <TAB>10101639/2:<TAB>smtp; 451 busy (retry in 17s, expires in 59m41s, tries=2)
//! <TAB>  id<TAB><two@example.org>, 4096 bytes, age 1h2m3s
//! <TAB>  from<TAB>alice@example.org
//! <TAB>  to<TAB>bob@mail.example.org
//! <TAB><TAB>carol@mail.example.org
//! ```

use super::details::{ControlFiles, MessageDetails};
use super::queue::{Queue, QueuedThread, Vertex};
use crate::failure::Failure;
use crate::screen::Screen;
use std::fmt;
use std::io;
use zsched_format::selection::Selection;
use zsched_format::time::Timestamp;

/// Filter and level of detail of the output.
pub(super) struct OutputFilter {
    /// Selected channel and host.
    pub selection: Selection,
    /// User id of the owner of messages, if only these are shown.
    pub owner: Option<u32>,
    /// Level of detail of each message: 0, 1 or 2.
    pub verbose: u8,
    /// Instead of messages, 1 shows counts and sizes, 2 only counts.
    pub sizes: u8,
}

impl OutputFilter {
    /// The threads of a queue that match.
    pub(super) fn threads<'q>(
        &self,
        queue: &'q Queue,
        files: &mut ControlFiles<'_>,
    ) -> Vec<QueuedThread<'q>> {
        let mut threads = queue.threads();
        threads.retain(|thread| self.selection.matches(thread.channel, thread.host));
        if let Some(owner) = self.owner {
            for thread in &mut threads {
                thread.vertices.retain(|vertex| files.owner(&vertex.file) == Some(owner));
            }
        }
        threads.retain(|thread| !thread.vertices.is_empty());
        threads
    }

    /// Text for an empty result.
    pub(super) fn empty_text(&self, is_queue_empty: bool) -> String {
        let Selection { channel, host } = &self.selection;
        let name = |name: &Option<Box<[u8]>>| {
            name.as_deref().map_or("*".to_string(), |name| String::from_utf8_lossy(name).into())
        };
        match (self.owner, channel, host) {
            (Some(_), ..) => "No user messages found".to_string(),
            (None, None, None) => EMPTY_QUEUE_TEXT.to_string(),
            _ if is_queue_empty => EMPTY_QUEUE_TEXT.to_string(),
            _ => format!("Nothing in the queue for {}/{}", name(channel), name(host)),
        }
    }
}

/// ZMailer's text for an empty queue, which scripts parse.
pub(super) const EMPTY_QUEUE_TEXT: &str = "Transport queue is empty -- or scheduler uses -Q -mode";

/// Prints the listing.
pub(super) fn print(
    screen: &mut Screen<'_>,
    queue: &Queue,
    filter: &OutputFilter,
    files: &mut ControlFiles<'_>,
) -> Result<(), Failure> {
    let threads = filter.threads(queue, files);
    if threads.is_empty() {
        writeln!(screen, "{}", filter.empty_text(queue.count() == 0))?;
    }
    let now = Timestamp::now();
    for thread in threads {
        screen.line(&[thread.channel, b"/", thread.host, b":"])?;
        if filter.sizes > 0 {
            print_sizes(screen, &thread, filter.sizes, now, files)?;
            continue;
        }
        for vertex in thread.vertices {
            print_vertex(screen, vertex)?;
            if filter.verbose > 0
                && let Some(details) = files.describe(&vertex.file, &vertex.offsets)
            {
                let size =
                    if filter.verbose > 1 { files.size_and_age(&vertex.file, now) } else { None };
                print_details(screen, &details, size)?;
            }
        }
    }
    Ok(())
}

fn print_vertex(screen: &mut Screen<'_>, vertex: &Vertex) -> io::Result<()> {
    screen.text(b"\t")?;
    screen.text(&vertex.file)?;
    if vertex.recipients > 1 {
        write!(screen, "/{}", vertex.recipients)?;
    }
    match &vertex.text {
        Some(text) => screen.line(&[b":\t", text]),
        None => screen.line(&[b":"]),
    }
}

fn print_details(
    screen: &mut Screen<'_>,
    details: &MessageDetails,
    size: Option<(u64, i64)>,
) -> io::Result<()> {
    if let Some(log_id) = &details.log_id {
        screen.text(b"\t  id\t")?;
        screen.text(log_id)?;
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
    thread: &QueuedThread<'_>,
    level: u8,
    now: Timestamp,
    files: &mut ControlFiles<'_>,
) -> io::Result<()> {
    let count = thread.vertices.len() as u64;
    let plural = if count == 1 { "" } else { "s" };
    write!(screen, "\t  {count} file{plural}")?;
    if level == 1 {
        let size = |vertex: &&Vertex| files.size_and_age(&vertex.file, now).map(|(size, _)| size);
        let total = thread.vertices.iter().filter_map(size).fold(0, u64::saturating_add);
        match total {
            0 => write!(screen, ", no file size info available")?,
            _ => write!(screen, ", {total} bytes total, {} bytes average", total / count)?,
        }
    }
    screen.line(&[])
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
