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
use super::queue::{QueuedThread, Vertex};
use crate::failure::Failure;
use crate::options::ClassicOptions;
use crate::screen::Screen;
use std::fmt;
use std::io;
use zsched_format::time::Timestamp;

/// Prints the listing, or instead of the messages their number and size.
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
