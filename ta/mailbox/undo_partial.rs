//! Removes the beginning of a letter whose agent was killed while appending.
//!
//! The agent's lock has the old length of the mailbox and the first line of the letter. The mailbox
//! is truncated only if exactly this letter begins there, and nothing after it could be another
//! message. Then only a part of a letter that will be delivered again is removed.

use crate::lock_text::Append;
use memchr::memmem;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use zsched_sys as sys;

/// Number of bytes of a mailbox that are searched at a time.
const SEARCH_WINDOW: usize = 64 * 1024;
/// Maximum length of an opening line that is reliably found, in bytes.
const MAX_OPENING_LINE_LEN: usize = 4 * 1024;
const WEEKDAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

/// Truncates the mailbox to its length before `append`.
///
/// Does so only if all text after that came from the append.
///
/// The caller must have locked the mailbox.
pub fn truncate_partial(mailbox: &File, append: &Append) -> io::Result<()> {
    let length = mailbox.metadata()?.len();
    if length <= append.old_length || !letter_begins(mailbox, append)? {
        return Ok(());
    }
    let rest = append.old_length + append.opening_line.len() as u64;
    match other_message_begins(mailbox, rest)? {
        true => Ok(()),
        false => mailbox.set_len(append.old_length),
    }
}

fn letter_begins(mailbox: &File, append: &Append) -> io::Result<bool> {
    let gap = missing_line_ends(mailbox, append.old_length)?;
    let expected = [gap, &append.opening_line].concat();
    let mut found = vec![0; expected.len()];
    let count = sys::read_up_to(mailbox, &mut found, append.old_length)?;
    Ok(expected.starts_with(&found[..count]))
}

/// Returns true if text like the first line of a message follows `position`.
///
/// It is found even within a line, because not every program begins a new one. A letter that quotes
/// such a line is kept.
fn other_message_begins(mailbox: &File, mut position: u64) -> io::Result<bool> {
    let mut window = vec![0; SEARCH_WINDOW];
    loop {
        let count = sys::read_up_to(mailbox, &mut window, position)?;
        let text = &window[..count];
        if memmem::find_iter(text, b"From ").any(|at| has_date(&text[at..])) {
            return Ok(true);
        }
        if count < SEARCH_WINDOW {
            return Ok(false);
        }
        position += (count - MAX_OPENING_LINE_LEN) as u64;
    }
}

fn has_date(text: &[u8]) -> bool {
    let text = &text[..text.len().min(MAX_OPENING_LINE_LEN)];
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.split(|byte| *byte == b' ').any(|word| WEEKDAYS.contains(&word))
}

/// The line ends needed for an empty line before a message at `length`.
///
/// Another program may have left any text at the end of the mailbox.
pub fn missing_line_ends(file: &File, length: u64) -> io::Result<&'static [u8]> {
    let mut last = [b'\n'; 2];
    let known = usize::try_from(length.min(2)).unwrap_or(2);
    file.read_exact_at(&mut last[2 - known..], length - known as u64)?;
    Ok(match last {
        [b'\n', b'\n'] => b"",
        [_, b'\n'] => b"\n",
        _ => b"\n\n",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const OPENING: &str = "From a@x Sat Nov 21 10:04:09 2026\n";

    /// The remaining text of a mailbox.
    ///
    /// `rest` follows the five bytes that were there before.
    fn after(rest: &[u8]) -> Vec<u8> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[b"old\n\n", rest].concat()).expect("write");
        let opening_line = OPENING.as_bytes().to_vec();
        truncate_partial(&file, &Append { old_length: 5, opening_line }).expect("it can be read");
        let mut left = vec![0; 1 << 20];
        let count = sys::read_up_to(&file, &mut left, 0).expect("read");
        left.truncate(count);
        left
    }

    #[test]
    fn only_own_partial_letter_is_removed() {
        let long = "From here on\n".repeat(20_000);
        for rest in ["From a", OPENING, &format!("{OPENING}Subject: x\n\n{long}")] {
            assert_eq!(after(rest.as_bytes()), b"old\n\n", "{rest:.60}");
        }
        let other = "From b@x Sun Nov 22 10:04:09 2026\n";
        for rest in [
            "",
            "Fr0m a",
            other,
            &format!("\n{OPENING}"),
            &format!("{OPENING}Subject: x\n\nbody\n\n{other}\nbody\n"),
            &format!("{OPENING}Subje{other}\nbody\n"),
            &format!("{OPENING}{long}{other}\nbody\n"),
        ] {
            assert_eq!(after(rest.as_bytes()), ["old\n\n", rest].concat().as_bytes(), "{rest:.60}");
        }
        // Across the boundary of two windows.
        for shift in SEARCH_WINDOW - 40..SEARCH_WINDOW {
            let rest = format!("{OPENING}{}{other}", "x".repeat(shift));
            assert_eq!(after(rest.as_bytes()).len(), 5 + rest.len(), "{shift}");
        }
    }
}
