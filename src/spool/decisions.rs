//! Recipients that a `d` line declares finished, but whose tag is missing.
//!
//! A crash came between the line and the tag.
//!
//! Every program that finishes a recipient syncs the line before it writes the tag. So the line is
//! the decision: such a recipient is finished, and its tag is completed first of all.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use zsched_format::control_file::diagnostic::{DiagnosticRecord, NOTARY_SEPARATOR};
use zsched_format::control_file::{ControlFile, END_OF_APPEND, PidField, Tag, mark};

/// Number of bytes of a large file read at a time.
const READ_SIZE: u64 = 256 * 1024;

/// The tag that a `d` line decides; `None` if it reports a delay.
///
/// The action is the second field of the notary data. A line without fields is a failure, as in
/// ZMailer's `notaryreport`.
fn verdict(diagnostic: &DiagnosticRecord<'_>) -> Option<Tag> {
    let action = diagnostic.notary.split(|byte| *byte == NOTARY_SEPARATOR).nth(1);
    match action.map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"failed") => Some(Tag::Failed),
        Some(b"delivered" | b"relayed" | b"expanded") => Some(Tag::Done),
        Some(_) => None,
    }
}

/// The final tags that the `d` lines decide, by recipient offset.
pub(crate) fn verdicts(file: &ControlFile) -> HashMap<u32, Tag> {
    let of_line = |value| {
        let diagnostic = DiagnosticRecord::parse(file.get(value))?;
        Some((diagnostic.recipient, verdict(&diagnostic)?))
    };
    file.diagnostics.iter().filter_map(|line| of_line(line.value)).collect()
}

/// Indexes of recipients whose tag must be completed, with their final tags.
///
/// `is_free` returns true for a lock that no process holds.
pub(crate) fn incomplete(
    file: &ControlFile,
    is_free: impl Fn(PidField) -> bool,
) -> Vec<(usize, Tag)> {
    if file.diagnostics.is_empty() {
        return Vec::new();
    }
    let verdicts = verdicts(file);
    let is_open = |tag, lock: Option<PidField>| match tag {
        Tag::Pending => true,
        Tag::Locked => lock.is_none_or(&is_free),
        _ => false,
    };
    let open = file.recipients.iter().enumerate().filter(|(_, r)| is_open(r.tag, r.lock));
    open.filter_map(|(place, r)| Some((place, *verdicts.get(&r.offset)?))).collect()
}

/// Completes the tags of decided recipients, on disk and in `file`.
pub(crate) fn complete(
    on_disk: &impl FileExt,
    file: &mut ControlFile,
    incomplete: &[(usize, Tag)],
) -> io::Result<()> {
    for (place, tag) in incomplete {
        let recipient = &mut file.recipients[*place];
        recipient.tag =
            mark::write_final_tag(on_disk, recipient.offset, recipient.tag, recipient.lock, *tag)?;
    }
    Ok(())
}

/// The same for a file that is too large to be read as a whole.
///
/// Reads only the `d` lines at its end, and the tags that they decide.
pub(crate) fn complete_large(
    on_disk: &impl FileExt,
    size: u64,
    is_free: impl Fn(PidField) -> bool,
) -> io::Result<()> {
    for (offset, tag) in verdicts_of_large(on_disk, size)? {
        let mut head = [0; 2 + PidField::WIDTH];
        match on_disk.read_exact_at(&mut head, offset.into()) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => continue,
            other => other?,
        }
        let [b'r', was, lock @ ..] = head else {
            continue;
        };
        let (was, lock) = (Tag::from_byte(was), PidField(lock));
        let is_open = was == Tag::Pending || (was == Tag::Locked && is_free(lock));
        if is_open {
            mark::write_final_tag(
                on_disk,
                offset,
                was,
                Some(lock).filter(|_| was == Tag::Locked),
                tag,
            )?;
        }
    }
    Ok(())
}

/// The decisions of the `d` lines at the end of a file.
///
/// These are all lines after the last other line.
pub(crate) fn verdicts_of_large(
    on_disk: &impl FileExt,
    size: u64,
) -> io::Result<HashMap<u32, Tag>> {
    let mut verdicts = HashMap::new();
    each_last_line(on_disk, size, &mut |_, line| {
        if let [b'd', b' ' | b'+', value @ ..] = line
            && let Some(diagnostic) = DiagnosticRecord::parse(value)
            && let Some(tag) = verdict(&diagnostic)
        {
            // The last line about a recipient counts, as when all of the file is read.
            verdicts.entry(diagnostic.recipient).or_insert(tag);
        }
        true
    })?;
    Ok(verdicts)
}

/// Passes the `d` lines at the end of a file to `visit`.
///
/// They have their offsets, the last one first.
///
/// These are all lines after the last other line, without appended recipients. `visit` returns
/// false to stop. Returns false if it has.
pub(crate) fn each_last_line(
    on_disk: &impl FileExt,
    size: u64,
    visit: &mut dyn FnMut(u32, &[u8]) -> bool,
) -> io::Result<bool> {
    // The current piece ends here, before the lines that have been read.
    let mut end = size;
    let mut length_of_piece = READ_SIZE;
    'pieces: while end > 0 {
        let start = end.saturating_sub(length_of_piece);
        let mut piece = vec![0; (end - start) as usize];
        on_disk.read_exact_at(&mut piece, start)?;
        // Its first line may have begun before the piece.
        let from = match start {
            0 => 0,
            _ => memchr::memchr(b'\n', &piece).map_or(piece.len(), |at| at + 1),
        };
        if from == piece.len() && start > 0 {
            length_of_piece *= 2;
            if length_of_piece > zsched_format::control_file::MAX_CONTROL_FILE_SIZE {
                return Ok(true);
            }
            continue;
        }
        let text = piece[from..].strip_suffix(b"\n").unwrap_or(&piece[from..]);
        let mut line_end = start + from as u64 + text.len() as u64;
        for line in text.rsplit(|byte| *byte == b'\n') {
            let offset = line_end - line.len() as u64;
            match (line, u32::try_from(offset)) {
                ([b'd', ..], Ok(offset)) if !visit(offset, line) => return Ok(false),
                ([b'd', ..], _) => line_end = offset.saturating_sub(1),
                ([END_OF_APPEND, b' ', length @ ..], _) => {
                    // `d` lines may precede recipients that were appended.
                    match start_of_append(offset, length) {
                        Some(start) => (end, length_of_piece) = (start, READ_SIZE),
                        None => return Ok(true),
                    }
                    continue 'pieces;
                }
                _ => return Ok(true),
            }
        }
        (end, length_of_piece) = (start + from as u64, READ_SIZE);
        if start == 0 {
            break;
        }
    }
    Ok(true)
}

/// Offset at which an append of recipients begins, given its last line.
fn start_of_append(end: u64, length: &[u8]) -> Option<u64> {
    let length: u64 = std::str::from_utf8(length).ok()?.parse().ok()?;
    end.checked_sub(length).filter(|_| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_file::MemoryFile;
    use zsched_format::control_file::parse;

    const HEAD: &str = "@ 7\ni 1\nl x\ns l - a 0\n";

    fn lines(count: usize) -> String {
        // A line that reports a delay decides nothing.
        let action = |n: usize| ["failed", "delivered", "delayed", "relayed"][n % 4];
        let offset = |n: usize| HEAD.len() + n * RECIPIENT.len();
        let line = |n| format!("d {}:1:-1::5\t\u{3}\u{1}{}\u{1}x\ttext\n", offset(n), action(n));
        (0..count).map(line).collect()
    }

    const RECIPIENT: &str = "r           c h u 0\n";

    fn file(count: usize, lines: &str) -> MemoryFile {
        let text = format!("{HEAD}{}m\nd: like a line\n\n{lines}", RECIPIENT.repeat(count));
        MemoryFile::new(1, text.into_bytes())
    }

    fn tags(file: &MemoryFile) -> String {
        let parsed = parse(file.text().clone()).expect("a control file");
        parsed.recipients.iter().map(|recipient| char::from(recipient.tag.byte())).collect()
    }

    #[test]
    fn d_line_decides_pending_and_dead_recipients() {
        for (tag, is_free, expected) in
            [("r   ", false, "-+ +"), ("r~  ", true, "-+~+"), ("r~  ", false, "~~~~")]
        {
            let text = file(4, &lines(4)).text().clone();
            let text = String::from_utf8(text).expect("text").replace("r   ", tag);
            for is_large in [false, true] {
                let on_disk = MemoryFile::new(1, text.clone().into_bytes());
                if is_large {
                    complete_large(&on_disk, text.len() as u64, |_| is_free).expect("done");
                } else {
                    let mut parsed = parse(text.clone().into_bytes()).expect("a control file");
                    let todo = incomplete(&parsed, |_| is_free);
                    complete(&on_disk, &mut parsed, &todo).expect("done");
                }
                assert_eq!(tags(&on_disk), expected, "{tag:?} {is_free} {is_large}");
            }
        }
    }

    #[test]
    fn d_line_cut_short_decides_nothing() {
        let mut text = lines(2);
        text.truncate(text.rfind('\t').expect("a tab"));
        let on_disk = file(2, &text);
        let size = on_disk.text().len() as u64;
        complete_large(&on_disk, size, |_| true).expect("done");
        assert_eq!(tags(&on_disk), "- ");
        let parsed = parse(file(2, &text).text().clone()).expect("a control file");
        assert_eq!(incomplete(&parsed, |_| true), [(0, Tag::Failed)]);
    }

    #[test]
    fn many_d_lines_are_read_piece_by_piece() {
        let on_disk = file(20_000, &lines(20_000));
        let size = on_disk.text().len() as u64;
        assert!(size > 3 * READ_SIZE);
        complete_large(&on_disk, size, |_| true).expect("done");
        assert_eq!(tags(&on_disk), "-+ +".repeat(5_000));
    }
}
