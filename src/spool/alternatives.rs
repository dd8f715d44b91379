//! Alternatives: `X` lines, of which one after the other is tried until one is delivered.
//!
//! The lines of one sender and one header block with the same number are a class, in file order.
//! The first one becomes a recipient when the file is loaded. Each other one does when the one
//! before it has failed for good. A delivery ends the class, and so does an operator who deletes
//! or reroutes the recipient. Only the failure of the last one is reported to the sender.
//!
//! Offsets identify recipients, so nothing moves: an alternative becomes a recipient by lines at
//! the end of the file.
//!
//! | step | state after a crash |
//! |---|---|
//! | append `s`, `r`, `N`, `m`, and sync; `s` and `r` have the tag [`PREPARED`] | all programs ignore the lines; others are appended |
//! | enable `s`, and sync | the same |
//! | enable `r`, and sync | the alternative is a recipient: its `N` line names the `X` line |
//! | tag the `X` line | the same |
//!
//! What is done is derived from the file whenever it is read, so a crash neither loses nor repeats
//! an alternative.

use crate::finalize::OpenControlFile;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::unix::fs::FileExt;
use zsched_format::control_file::notify::{AlternativeOf, Notify};
use zsched_format::control_file::{
    self, Alternative, ControlFile, END_OF_APPEND, MAX_QUERY_SIZE, PREPARED, Tag, mark, parse,
};
use zsched_sys as sys;

/// Maximum number of attempts to append recipients.
///
/// A second one is needed after an append that a kill has cut short in the middle of a line.
const MAX_APPENDS: usize = 4;

/// What a class is: sender, headers, number.
type ClassKey = (Option<u32>, Option<u32>, u32);

/// The state of an `X` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AlternativeState {
    Untried,
    /// It is a recipient that is not finished.
    Open,
    /// It was delivered, or an operator has ended it.
    Ended,
    Failed,
}

/// Returns true if the file of a message has alternatives that may still be tried.
pub(crate) fn are_left(file: &ControlFile) -> bool {
    let is_left = |states: &[(usize, AlternativeState)]| {
        let ended = states.iter().any(|(_, state)| *state == AlternativeState::Ended);
        !ended && states.iter().any(|(_, state)| *state == AlternativeState::Untried)
    };
    classes(file).values().any(|states| is_left(states))
}

/// Returns true if alternatives of a file of this size are tried.
///
/// A larger file is read in parts, so its classes are not known. Its `X` lines are kept.
pub(crate) fn are_tried_in(size: u64) -> bool {
    size <= MAX_QUERY_SIZE
}

/// Returns true if a file may have an `X` line.
pub(crate) fn may_be_in(file: &impl FileExt, size: u64) -> io::Result<bool> {
    let text = sys::read_part(file, 0, size as usize)?;
    Ok(memchr::memmem::find(&text, b"\nX").is_some())
}

/// Makes recipients of the alternatives whose turn has come.
///
/// `file` is what was read, with all tags completed. Returns the new text, or `None` if nothing
/// has changed. The text is read again, so what other programs have appended is in it, too.
pub fn advance(on_disk: &impl OpenControlFile, file: &ControlFile) -> io::Result<Option<Vec<u8>>> {
    let mut changed = None;
    for _ in 0..MAX_APPENDS {
        let current = changed.as_ref().unwrap_or(file);
        if current.has_torn_append {
            // The lines are ignored, but the headers need an end.
            on_disk.append(b"\n")?;
        } else {
            let next = next_of_classes(current);
            if next.is_empty() {
                break;
            }
            add_recipients(on_disk, current, &next)?;
        }
        let size = on_disk.size()?;
        changed = Some(parse(sys::read_part(on_disk, 0, size as usize)?)?);
    }
    Ok(changed.map(|file| file.text))
}

/// Returns true if [`advance`] has something to do.
pub fn must_advance(file: &ControlFile) -> bool {
    file.has_torn_append || !next_of_classes(file).is_empty()
}

/// The classes of a file: indexes of their lines, with their states.
fn classes(file: &ControlFile) -> BTreeMap<ClassKey, Vec<(usize, AlternativeState)>> {
    let mut classes: BTreeMap<ClassKey, Vec<(usize, AlternativeState)>> = BTreeMap::new();
    if file.alternatives.is_empty() {
        return classes;
    }
    let mut recipients = HashMap::new();
    for recipient in &file.recipients {
        let notify = recipient.notify.map(|line| Notify::parse(file.get(line.value)));
        if let Some(of) = notify.and_then(|notify| notify.alternative_of) {
            recipients.insert(of.offset, recipient.tag);
        }
    }
    for (index, line) in file.alternatives.iter().enumerate() {
        // Another program may have tagged a line that is no recipient.
        let state = match recipients.get(&line.offset).copied().unwrap_or(line.tag) {
            Tag::Failed => AlternativeState::Failed,
            Tag::Done => AlternativeState::Ended,
            _ if recipients.contains_key(&line.offset) => AlternativeState::Open,
            _ => AlternativeState::Untried,
        };
        classes.entry((line.sender, line.headers, line.class)).or_default().push((index, state));
    }
    classes
}

/// An `X` line that becomes a recipient: its index, and the number of lines after it in its class.
type NextAlternative = (usize, u32);

fn next_of_classes(file: &ControlFile) -> Vec<NextAlternative> {
    let next_of = |lines: &Vec<(usize, AlternativeState)>| {
        let first = lines.iter().position(|(_, state)| *state != AlternativeState::Failed)?;
        let is_open = |(_, state): &(usize, AlternativeState)| {
            matches!(state, AlternativeState::Open | AlternativeState::Ended)
        };
        let left = (lines.len() - first - 1) as u32;
        (!lines.iter().any(is_open)).then_some((lines[first].0, left))
    };
    classes(file).values().filter_map(next_of).collect()
}

fn add_recipients(
    on_disk: &impl OpenControlFile,
    file: &ControlFile,
    next: &[NextAlternative],
) -> io::Result<()> {
    let before = on_disk.size()?;
    on_disk.append(&appended_lines(file, next))?;
    // Another program may have appended in between: the offsets are those that are found.
    let size = on_disk.size()?;
    let with_lines = parse(sys::read_part(on_disk, 0, size as usize)?)?;
    let prepared = with_lines.prepared.iter().filter(|line| u64::from(line.offset) >= before);
    let prepared: Vec<_> = prepared.collect();
    let enable = |offset| mark::write_bare_tag(on_disk, offset, Tag::Pending);
    let senders = prepared.iter().filter_map(|line| line.sender);
    senders.filter(|sender| u64::from(*sender) >= before).try_for_each(enable)?;
    on_disk.sync()?;
    prepared.iter().try_for_each(|line| enable(line.offset))?;
    on_disk.sync()?;
    if prepared.len() == next.len() {
        let mut lines = next.iter().map(|(index, _)| file.alternatives[*index].offset);
        lines.try_for_each(|offset| mark::write_bare_tag(on_disk, offset, Tag::Done))?;
    }
    Ok(())
}

/// The lines that make recipients of alternatives: one group for each sender and header block.
fn appended_lines(file: &ControlFile, next: &[NextAlternative]) -> Vec<u8> {
    let mut groups: BTreeMap<_, Vec<NextAlternative>> = BTreeMap::new();
    for (index, left) in next {
        let Alternative { sender, headers, .. } = file.alternatives[*index];
        groups.entry((sender, headers)).or_default().push((*index, *left));
    }
    let mut text = Vec::new();
    for ((sender, headers), lines) in groups {
        if let Some(sender) = sender {
            let quad = file.senders[sender as usize].quad;
            text.extend([b's', PREPARED]);
            text.extend_from_slice(file.text_of(&quad));
            text.push(b'\n');
        }
        for (index, left) in lines {
            let line = &file.alternatives[index];
            text.extend([b'r', PREPARED]);
            text.extend_from_slice(&[b' '; RECIPIENT_COLUMNS]);
            text.extend_from_slice(file.text_of(&line.quad));
            let of = AlternativeOf { offset: line.offset, left };
            text.extend_from_slice(format!("\nN {of} ").as_bytes());
            text.extend_from_slice(line.notify.map_or(b"", |notify| file.get(notify.value)));
            text.push(b'\n');
        }
        text.extend_from_slice(b"m\n");
        if let Some(headers) = headers {
            text.extend_from_slice(file.get(file.headers[headers as usize].text));
        }
        text.push(b'\n');
    }
    let end = format!("{} {}\n", char::from(END_OF_APPEND), text.len());
    text.extend_from_slice(end.as_bytes());
    text
}

/// Width of the columns of a recipient line, in bytes: the pid, and the one for delay reports.
const RECIPIENT_COLUMNS: usize = control_file::PidField::WIDTH + 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_file::MemoryFile;
    use std::cell::Cell;
    use std::io::ErrorKind;

    /// A file whose writer is killed when no bytes are left. Tags count as one byte.
    struct KilledFile {
        file: MemoryFile,
        left: Cell<usize>,
    }

    impl KilledFile {
        fn new(text: &str, left: usize) -> KilledFile {
            let file = MemoryFile::new(1, text.as_bytes().to_vec());
            KilledFile { file, left: Cell::new(left) }
        }

        fn text(&self) -> String {
            String::from_utf8(self.file.text().clone()).expect("text")
        }

        fn parsed(&self) -> ControlFile {
            parse(self.file.text().clone()).expect("a control file")
        }

        fn take(&self, wanted: usize) -> usize {
            let taken = wanted.min(self.left.get());
            self.left.set(self.left.get() - taken);
            taken
        }
    }

    impl FileExt for KilledFile {
        fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
            self.file.read_at(buffer, position)
        }

        fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
            match self.take(1) {
                0 => Err(ErrorKind::BrokenPipe.into()),
                _ => self.file.write_at(bytes, position),
            }
        }
    }

    impl OpenControlFile for KilledFile {
        fn size(&self) -> io::Result<u64> {
            Ok(self.file.text().len() as u64)
        }

        fn append(&self, lines: &[u8]) -> io::Result<()> {
            let lines = mark::on_new_line(&self.file, self.size()?, lines)?;
            let written = self.take(lines.len());
            self.file.append(&lines[..written]);
            if written < lines.len() { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    const HEAD: &str = "@ 0x00000007\ni 1\nl x\ns local - a@x 0\n";
    const LINES: &str = "r           c h u1 0\nX 1 c h1 v1 0\nN NOTIFY=DELAY\nX 2 c h4 w 0\n\
                         X 1 c h2 v2 0\ns local - b@x 0\nX 1 c h3 v3 0\nm\nA: 1\n\n";

    /// Advances a file. Returns the quads of recipients that were added, with their tags.
    fn advance_all(file: &KilledFile) -> io::Result<Vec<String>> {
        let text = advance(file, &file.parsed())?;
        assert!(text.is_none_or(|text| text == *file.file.text()), "it is what is on disk");
        let parsed = file.parsed();
        assert!(!parsed.has_torn_append && parsed.undeliverable_lines.is_empty());
        let added = parsed.recipients.iter().filter(|one| {
            let line = one.notify.map(|line| Notify::parse(parsed.get(line.value)));
            line.is_some_and(|line| line.alternative_of.is_some())
        });
        let shown = added.map(|one| {
            assert!(parsed.headers_of(one).is_some_and(|it| parsed.get(it.text) == b"A: 1\n"));
            let quad = String::from_utf8_lossy(parsed.text_of(&one.quad));
            format!("{}{quad}", char::from(one.tag.byte()))
        });
        Ok(shown.collect())
    }

    /// Tags the last recipient of a host.
    fn finish(file: &KilledFile, host: &str, tag: Tag) {
        let parsed = file.parsed();
        let mut of_host =
            parsed.recipients.iter().filter(|one| parsed.get(one.quad.host) == host.as_bytes());
        mark::set_tag(&file.file, of_host.next_back().expect("a recipient").offset, tag)
            .expect("written");
    }

    #[test]
    fn next_alternative_is_added_after_failure_only() {
        let file = KilledFile::new(&format!("{HEAD}{LINES}"), usize::MAX);
        assert_eq!(advance_all(&file).expect("written"), [" c h1 v1 0", " c h4 w 0", " c h3 v3 0"]);
        let added = "s local - a@x 0\nr           c h1 v1 0\nN ALTERNATIVE=58,1 NOTIFY=DELAY\n\
                     r           c h4 w 0\nN ALTERNATIVE=87,0 \nm\nA: 1\n\n\
                     s local - b@x 0\nr           c h3 v3 0\nN ALTERNATIVE=130,0 \nm\nA: 1\n\n";
        let expected = format!("{HEAD}{LINES}{added}A {}\n", added.len());
        let expected = expected.replace("X 1 c h1", "X+1 c h1").replace("X 2", "X+2");
        assert_eq!(file.text(), expected.replace("X 1 c h3", "X+1 c h3"));
        assert!(!must_advance(&file.parsed()));
        assert!(are_left(&file.parsed()), "h2 is left");
        finish(&file, "h4", Tag::Failed);
        assert_eq!(advance_all(&file).expect("read").len(), 3, "w was the last of its class");
        finish(&file, "h1", Tag::Failed);
        assert_eq!(advance_all(&file).expect("written")[3..], [" c h2 v2 0"]);
        assert!(!are_left(&file.parsed()));
        let parsed = file.parsed();
        let senders = parsed.recipients.iter().map(|one| parsed.sender_address(one));
        let senders: Vec<_> = senders.map(|it| it.unwrap_or_default()[0] as char).collect();
        assert_eq!(senders, ['a', 'a', 'a', 'b', 'a']);
    }

    #[test]
    fn delivery_or_removal_ends_class() {
        let file = KilledFile::new(&format!("{HEAD}{LINES}"), usize::MAX);
        advance_all(&file).expect("written");
        finish(&file, "h1", Tag::Done);
        assert_eq!(advance_all(&file).expect("read").len(), 3);
        assert!(!are_left(&file.parsed()));
    }

    #[test]
    fn kill_at_any_step_neither_loses_nor_repeats_alternative() {
        let whole = KilledFile::new(&format!("{HEAD}{LINES}"), usize::MAX);
        advance_all(&whole).expect("written");
        let steps = whole.text().len() - HEAD.len() - LINES.len() + 12;
        for kill in 0..steps {
            for line in ["", "d 46:-1:-1::1\tx\ty\n"] {
                let file = KilledFile::new(&format!("{HEAD}{LINES}"), kill);
                advance_all(&file).err();
                file.left.set(usize::MAX);
                // An agent that is still alive notes something.
                file.append(line.as_bytes()).expect("appended");
                let added = advance_all(&file).expect("written");
                let mut sorted = added.clone();
                sorted.sort();
                let expected = [" c h1 v1 0", " c h3 v3 0", " c h4 w 0"];
                assert_eq!(sorted, expected, "killed after {kill}:\n{}", file.text());
            }
        }
    }

    #[test]
    fn d_lines_before_added_recipients_are_found_from_the_end() {
        let file = KilledFile::new(&format!("{HEAD}{LINES}d 46:-1:-1::1\tx\ty\n"), usize::MAX);
        advance_all(&file).expect("written");
        file.append(b"d 46:-1:-1::2\tx\ty\n").expect("appended");
        let mut found = Vec::new();
        let size = file.size().expect("a size");
        crate::decisions::each_last_line(&file, size, &mut |offset, _| {
            found.push(offset as usize);
            true
        })
        .expect("read");
        let of_file: Vec<usize> =
            file.parsed().diagnostics.iter().rev().map(|line| line.offset as usize).collect();
        assert_eq!(found, of_file);
        assert_eq!(found.len(), 2);
    }
}
