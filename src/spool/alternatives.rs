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
    let mut groups: BTreeMap<(Option<u32>, Option<u32>), Vec<(&Alternative, u32)>> =
        BTreeMap::new();
    for (index, left) in next {
        let line = &file.alternatives[*index];
        groups.entry((line.sender, line.headers)).or_default().push((line, *left));
    }
    let mut text = Vec::new();
    for ((sender, headers), lines) in groups {
        if let Some(sender) = sender {
            let quad = file.senders[sender as usize].quad;
            text.extend([b's', PREPARED]);
            text.extend_from_slice(file.text_of(&quad));
            text.push(b'\n');
        }
        for (line, left) in lines {
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
