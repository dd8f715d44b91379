//! Reads a control file in parts.
//!
//! So one with millions of recipients is never in memory as a whole.
//!
//! The lines before the first recipient, such as format and name, are put in front of each part
//! before it is parsed. Only the offsets of recipients are converted to those in the file.

use crate::envelope_lines::EnvelopeLines;
use memchr::{memchr, memmem};
use std::io;
use std::os::unix::fs::FileExt;
use zsched_format::control_file::{ControlFile, ControlFileError, find_empty_line, parse_part};
use zsched_sys as sys;

/// Maximum size of the text before the first recipient, in bytes.
const MAX_HEAD_LEN: usize = 64 * 1024;
/// Number of bytes that are read at a time.
const READ_SIZE: usize = 256 * 1024;
/// Number of bytes that are read first for a recipient.
const RECIPIENT_READ_SIZE: usize = 4 * 1024;
/// Maximum size of a line or of the headers of a group, in bytes.
const MAX_FIELD_LEN: usize = 16 << 20;

/// Minimum length of a recipient line, in bytes.
///
/// It has `r`, tag, pid, delay column, and four words.
const MIN_RECIPIENT_LINE_LEN: u64 = 20;

/// Upper bound of the number of recipients after an offset.
///
/// The file has `size` bytes.
pub(crate) fn max_recipients_after(from: u32, size: u64) -> u32 {
    let lines = size.saturating_sub(from.into()).div_ceil(MIN_RECIPIENT_LINE_LEN);
    u32::try_from(lines).unwrap_or(u32::MAX)
}

/// A part of a control file.
pub(crate) struct Chunk {
    /// The parsed part. Offsets of recipients are those in the file, all others those in its text.
    pub file: ControlFile,
    /// Offset of the next part; `None` after the last one.
    pub next: Option<u32>,
    /// Difference between an offset in the file and that in the text.
    ///
    /// It does not apply to the lines before the first recipient.
    pub shift: u64,
}

/// Reads the lines from an offset on, up to two limits.
///
/// They are the number of pending recipients and a fixed size.
///
/// The recipients have the first sender of the file, unless there is another one in the part:
/// [`read_recipient`] has the right one.
///
/// The error for a file that cannot be used is a [`ControlFileError`].
pub(crate) fn read(file: &impl FileExt, from: u32, at_most: usize) -> io::Result<Chunk> {
    read_after(file, b"", from, &|tag| matches!(tag, b' ' | b'~'), (at_most, READ_SIZE))
}

/// Reads the recipient at an offset, after its envelope lines.
pub(crate) fn read_recipient(
    file: &impl FileExt,
    envelope: &EnvelopeLines,
    offset: u32,
) -> io::Result<ControlFile> {
    read_after(file, envelope, offset, &|_| true, (1, RECIPIENT_READ_SIZE)).map(|part| part.file)
}

/// Puts the head and `envelope` in front of some lines.
///
/// The head is the text before the first recipient; the lines begin at an offset.
///
/// Ends after `at_most` recipients whose tag is counted. `size` is the number of bytes that are
/// read first.
fn read_after(
    file: &impl FileExt,
    envelope: &[u8],
    from: u32,
    is_counted: &dyn Fn(u8) -> bool,
    (at_most, mut size): (usize, usize),
) -> io::Result<Chunk> {
    let mut text = sys::read_part(file, 0, MAX_HEAD_LEN)?;
    let head = end_of_head(&text);
    if head == text.len() && head == MAX_HEAD_LEN {
        let reason = "no recipient within the first 64 kB of a large file";
        return Err(ControlFileError::new(0, reason).into());
    }
    text.truncate(head);
    let start = u64::from(from).max(head as u64);
    let (lines, is_end) = loop {
        let mut lines = sys::read_part(file, start, size)?;
        let is_end = lines.len() < size;
        let end = end_of_fields(&lines, is_counted, at_most, is_end);
        if end > 0 || is_end {
            let is_all = is_end && end == lines.len();
            lines.truncate(end);
            break (lines, is_all);
        }
        size *= 4;
        if size > MAX_FIELD_LEN {
            let reason = "a field of more than 16 MiB";
            return Err(ControlFileError::new(start as usize, reason).into());
        }
    };
    let end = start + lines.len() as u64;
    let Ok(next) = u32::try_from(end) else {
        let reason = "the file is larger than 4 GiB";
        return Err(ControlFileError::new(start as usize, reason).into());
    };
    text.extend_from_slice(envelope);
    let before = text.len() as u64;
    text.extend_from_slice(&lines);
    let mut file = parse_part(text)?;
    for recipient in &mut file.recipients {
        recipient.offset = (u64::from(recipient.offset) - before + start) as u32;
    }
    Ok(Chunk { file, next: (!is_end).then_some(next), shift: start - before })
}

/// Offset of the first recipient.
fn end_of_head(text: &[u8]) -> usize {
    if text.first() == Some(&b'r') {
        return 0;
    }
    memmem::find(text, b"\nr").map_or(text.len(), |at| at + 1)
}

/// End of the last complete field that belongs to the first `at_most` recipients that are counted.
fn end_of_fields(
    lines: &[u8],
    is_counted: &dyn Fn(u8) -> bool,
    at_most: usize,
    is_end: bool,
) -> usize {
    let (mut at, mut counted) = (0, 0);
    while at < lines.len() {
        let (id, tag) = (lines[at], lines.get(at + 1).copied().unwrap_or(b'\n'));
        // The `N` line of a recipient belongs to it.
        if counted >= at_most && id != b'N' {
            break;
        }
        let is_block = matches!(id, b'm' | b'M') && tag == b'\n';
        let end = match is_block {
            true => find_empty_line(&lines[at + 1..]).map(|end| at + 1 + end + 2),
            false => memchr(b'\n', &lines[at..]).map(|end| at + end + 1),
        };
        match end {
            Some(end) => at = end,
            None if is_end => return lines.len(),
            None => break,
        }
        counted += usize::from(id == b'r' && is_counted(tag));
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_file::MemoryFile;

    const TEXT: &str = "@ 7\ni 1\nl x\ns l - a 0\nr           c h u1 0\nN NOTIFY=NEVER\n\
                        r+          c h u2 0\nr           c h u3 0\nm\nA: 1\n\nr           c i u4 0\n\
                        m\nB: r \n\nd 1:2:3\n";

    fn parts(at_most: usize) -> Vec<Vec<(u32, bool)>> {
        let file = MemoryFile::new(1, TEXT.as_bytes().to_vec());
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let part = read(&file, at, at_most).expect("a part");
            let shown = |r: &zsched_format::control_file::Recipient| (r.offset, r.notify.is_some());
            all.push(part.file.recipients.iter().map(shown).collect());
            assert_eq!(part.file.name(), Some(&b"1"[..]));
            from = part.next;
        }
        all
    }

    #[test]
    fn parts_joined_equal_whole_file() {
        let offset = |user: &str| {
            let at = TEXT.find(user).expect("it is there");
            TEXT[..at].rfind("\nr").expect("a line") as u32 + 1
        };
        let all = [("u1", true), ("u2", false), ("u3", false), ("u4", false)];
        let [u1, u2, u3, u4] = all.map(|(user, notify)| (offset(user), notify));
        assert_eq!(
            parts(1),
            [vec![u1], vec![u2, u3], vec![u4]]
                .into_iter()
                .chain(std::iter::once(vec![]))
                .collect::<Vec<_>>()[..]
        );
        assert_eq!(parts(2), [vec![u1, u2, u3], vec![u4]]);
        assert_eq!(parts(9), [vec![u1, u2, u3, u4]]);
    }

    fn is_malformed(read: io::Result<Chunk>) -> bool {
        read.is_err_and(|error| error.downcast::<ControlFileError>().is_ok())
    }

    #[test]
    fn too_long_head_or_field_is_refused() {
        let text = format!("i 1\nx {}\nr           c h u 0\n", "y".repeat(MAX_HEAD_LEN));
        let file = MemoryFile::new(1, text.into_bytes());
        assert!(is_malformed(read(&file, 0, 1)));
        let text = format!("i 1\nr           c h {} 0\n", "y".repeat(READ_SIZE));
        let file = MemoryFile::new(1, text.into_bytes());
        assert_eq!(read(&file, 0, 1).expect("a part").file.recipients.len(), 1);
        let text = format!("i 1\nr           c h {} 0\n", "y".repeat(MAX_FIELD_LEN));
        let file = MemoryFile::new(1, text.into_bytes());
        assert!(is_malformed(read(&file, 0, 1)));
    }
}
