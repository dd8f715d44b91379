//! Control files: parsed values are in the file, and stay there when agents mark its recipients.

use super::byte_source::ByteSource;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::notify::Notify;
use zsched_format::control_file::{ControlFile, PidField, Recipient, Span, Tag, mark, parse};
use zsched_format::time::Timestamp;
use zsched_spool::note;
use zsched_spool::{Arrival, HashFolder, SpoolName};

/// Maximum number of recipients in each file that are marked.
const MAX_MARKED: usize = 8;

pub fn run(bytes: &[u8]) {
    let Ok(file) = parse(bytes.to_vec()) else {
        return;
    };
    assert_eq!(file.text, bytes);
    check_places(&file);
    check_values(&file);
    check_arrival(&file);
    check_marks(&file, bytes);
}

/// Checks all spans and offsets.
///
/// Every span is inside the text, and every offset is that of a line with the right letter.
fn check_places(file: &ControlFile) {
    let optional = [
        file.name,
        file.log_id,
        file.error_address,
        file.verbose,
        file.envelope_id,
        file.return_mode,
    ];
    let lists = file.etrn_hosts.iter().copied();
    let headers = file.headers.iter().map(|block| block.text);
    let diagnostics = file.diagnostics.iter().map(|line| line.value);
    let notify = file.recipients.iter().filter_map(|r| Some(r.notify?.value));
    let all = optional.into_iter().flatten().chain(lists).chain(headers);
    all.chain(diagnostics).chain(notify).for_each(|span| check_span(file, span));

    for sender in &file.senders {
        check_line(file, sender.offset, b's');
    }
    for recipient in &file.recipients {
        check_line(file, recipient.offset, b'r');
        assert_eq!(file.text[recipient.offset as usize + 1], recipient.tag.byte());
        let quad = &recipient.quad;
        let line_end = end_of_line(file, recipient.offset);
        for word in [quad.channel, quad.host, quad.user, quad.privilege] {
            check_span(file, word);
            assert!(word.start > recipient.offset && word.end as usize <= line_end);
        }
        assert!([quad.channel, quad.host, quad.user].iter().all(|word| word.start < word.end));
        let found = file.recipient_at(recipient.offset).expect("found by its offset");
        assert_eq!(found.offset, recipient.offset);
        assert!(recipient.sender.is_none() || file.sender_of(recipient).is_some());
        assert!(recipient.headers.is_none() || file.headers_of(recipient).is_some());
        if let Some(notify) = recipient.notify {
            check_line(file, notify.offset, b'N');
        }
    }
    for line in &file.diagnostics {
        check_line(file, line.offset, b'd');
    }
    for block in &file.headers {
        check_line(file, block.offset, b'm');
    }
    assert!(file.recipients.is_sorted_by_key(|recipient| recipient.offset));
    assert!(!file.recipients.is_empty() || !file.etrn_hosts.is_empty(), "nothing to do");
}

fn check_span(file: &ControlFile, span: Span) {
    assert!(span.start <= span.end && span.end as usize <= file.text.len(), "{span:?}");
}

fn check_line(file: &ControlFile, offset: u32, letter: u8) {
    let offset = offset as usize;
    assert_eq!(file.text[offset], letter, "at {offset}");
    assert!(offset == 0 || file.text[offset - 1] == b'\n', "{offset} is inside a line");
}

fn end_of_line(file: &ControlFile, offset: u32) -> usize {
    let rest = &file.text[offset as usize..];
    offset as usize + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

/// Checks all values with a grammar.
///
/// They can be parsed, and a diagnostic is written as it was read.
fn check_values(file: &ControlFile) {
    for recipient in &file.recipients {
        if let Some(notify) = recipient.notify {
            Notify::parse(file.get(notify.value));
        }
    }
    for line in &file.diagnostics {
        let Some(diagnostic) = DiagnosticRecord::parse(file.get(line.value)) else { continue };
        let mut written = Vec::new();
        diagnostic.write_to(&mut written);
        let value = written.strip_prefix(b"d ").and_then(|line| line.strip_suffix(b"\n"));
        let again = DiagnosticRecord::parse(value.expect("one whole line"));
        assert_eq!(again.as_ref(), Some(&diagnostic));
    }
}

/// Checks that the data for scheduling has each recipient once.
fn check_arrival(file: &ControlFile) {
    let name = SpoolName::new(HashFolder::TOP, b"4711").expect("a name");
    let arrival = Arrival::new(name, file, Timestamp::EPOCH, Timestamp::EPOCH);
    let mut offsets: Vec<u32> = arrival
        .groups
        .iter()
        .flat_map(|group| &group.offsets)
        .chain(&arrival.locked)
        .copied()
        .collect();
    offsets.sort_unstable();
    let is_open = |recipient: &&Recipient| matches!(recipient.tag, Tag::Pending | Tag::Locked);
    let expected: Vec<u32> = file.recipients.iter().filter(is_open).map(|r| r.offset).collect();
    assert_eq!(offsets, expected);
    let destinations = arrival.groups.iter().map(|group| (&group.channel, &group.host));
    assert!(destinations.is_sorted_by(|a, b| a < b), "a destination is there twice");
    if note::has_report_due(file) {
        assert!(arrival.report_due);
    }
}

/// Marks some recipients in the file. All other recipients and all addresses must stay the same.
fn check_marks(file: &ControlFile, bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let on_disk = OnDisk::with(&file.text);
    let mut tags: Vec<Tag> = file.recipients.iter().map(|recipient| recipient.tag).collect();
    let has_column = file.recipients.iter().enumerate().filter(|(_, r)| r.lock.is_some());
    for (index, recipient) in has_column.take(MAX_MARKED) {
        let was = tags[index];
        let new = [Tag::Pending, Tag::Locked, Tag::Done, Tag::Failed][draw.below(4)];
        let offset = recipient.offset;
        let has_known_column = matches!(file.text[offset as usize + 2], b' ' | b'0'..=b'9');
        let other = if was == Tag::Done { Tag::Failed } else { Tag::Done };
        let changed = on_disk.mark(|file| mark::change_tag(file, offset, other, new, 4711));
        assert!(!changed, "another tag was there");
        match draw.below(3) {
            0 if has_known_column => {
                let changed = on_disk.mark(|file| mark::change_tag(file, offset, was, new, 4711));
                assert!(changed);
                tags[index] = new;
            }
            1 => {
                on_disk.mark(|file| mark::set_tag(file, offset, new));
                tags[index] = new;
            }
            _ => {
                let owner = recipient.lock.filter(|_| was == Tag::Locked);
                let owner = owner.or(Some(PidField(*b"nobody")));
                let tag = on_disk.mark(|file| mark::clear_dead_lock(file, offset, owner));
                tags[index] = tag;
                assert!(tag == was || was == Tag::Locked);
            }
        }
    }
    let marked = on_disk.text();
    assert_eq!(marked.len(), file.text.len());
    let again = parse(marked).expect("marking does no harm");
    assert_eq!(again.recipients.len(), file.recipients.len());
    for ((before, after), tag) in file.recipients.iter().zip(&again.recipients).zip(tags) {
        assert_eq!((after.offset, after.tag, after.quad), (before.offset, tag, before.quad));
        for word in [before.quad.channel, before.quad.host, before.quad.user] {
            assert_eq!(file.get(word), again.get(word));
        }
    }
}

/// A control file on disk. All inputs use one, since its creation would take most of the time.
struct OnDisk;

thread_local! {
    static SCRATCH: RefCell<Option<File>> = const { RefCell::new(None) };
}

impl OnDisk {
    fn with(text: &[u8]) -> OnDisk {
        SCRATCH.with_borrow_mut(|scratch| {
            let file = scratch.get_or_insert_with(|| tempfile::tempfile().expect("a file"));
            file.set_len(text.len() as u64).expect("room");
            file.write_all_at(text, 0).expect("written");
        });
        OnDisk
    }

    fn mark<T>(&self, change: impl FnOnce(&File) -> std::io::Result<T>) -> T {
        SCRATCH.with_borrow(|file| change(file.as_ref().expect("made"))).expect("marked")
    }

    fn text(&self) -> Vec<u8> {
        self.mark(|file| {
            let mut text = vec![0; file.metadata()?.len() as usize];
            file.read_exact_at(&mut text, 0)?;
            Ok(text)
        })
    }
}
