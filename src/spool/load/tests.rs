//! A control file moves to its folder, and keeps its message file.

use super::parse::is_empty;
use super::*;
use crate::memory_file::MemoryFile;
use crate::{HashFolder, LockOwner, PossibleDuplicates};
use std::fs;
use zsched_format::control_file::{self, Tag};
use zsched_format::time::Timestamp;

const NUMBER: &[u8] = b"4711";

fn spool() -> (tempfile::TempDir, Spool) {
    let folder = tempfile::tempdir().expect("a folder");
    let spool = Spool::new(folder.path());
    spool.create().expect("a spool");
    (folder, spool)
}

/// Writes a file of the spool. `text` is the log id of a control file, if it is in
/// `transport/`.
fn put(spool: &Spool, path: &str, text: &str) {
    let path = spool.postoffice().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let control = format!("@ 7\ni 4711\nl {text}\ns l - a 0\nr           c h u 0\nm\n\n");
    let is_control = path.starts_with(spool.transport());
    fs::write(path, if is_control { control } else { text.to_string() }).expect("written");
}

fn open(spool: &Spool) -> OpenSpool {
    OpenSpool::new(spool.clone()).expect("the folders are there")
}

/// Settles `4711` found in `folder`, and returns the folder in which it is used.
fn used_at(spool: &Spool, folder: HashFolder) -> String {
    let name = SpoolName::new(folder, NUMBER).expect("a name");
    match load(&open(spool), HashLevel::Once, name, None, &mut |_| {}, &mut |_| {}, |_, _| Ok(())) {
        LoadResult::Arrival(arrival) => arrival.name.path(),
        other => panic!("{other:?}"),
    }
}

fn text(spool: &Spool, path: &str) -> Option<String> {
    fs::read_to_string(spool.postoffice().join(path)).ok()
}

#[test]
fn interrupted_move_is_finished() {
    let (_folder, spool) = spool();
    put(&spool, "transport/F/4711", "one");
    put(&spool, "queue/4711", "one's message");
    assert_eq!(used_at(&spool, HashFolder::of(4711, HashLevel::Once)), "F/4711");
    assert_eq!(text(&spool, "queue/F/4711").as_deref(), Some("one's message"));
    assert_eq!(text(&spool, "queue/4711"), None);
}

#[test]
fn message_that_cannot_be_moved_is_not_missing() {
    let (_folder, spool) = spool();
    put(&spool, "transport/F/4711", "one");
    put(&spool, "queue/4711", "one's message");
    put(&spool, "queue/F", "in the way of the folder");
    let name = SpoolName::new(HashFolder::of(4711, HashLevel::Once), NUMBER).expect("a name");
    let found =
        load(&open(&spool), HashLevel::Once, name, None, &mut |_| {}, &mut |_| {}, |_, _| Ok(()));
    assert!(matches!(found, LoadResult::Failed(_)), "{found:?}");
    fs::remove_file(spool.postoffice().join("queue/F")).expect("it was there");
    assert_eq!(used_at(&spool, HashFolder::of(4711, HashLevel::Once)), "F/4711");
    assert_eq!(text(&spool, "queue/F/4711").as_deref(), Some("one's message"));
}

#[test]
fn a_message_that_cannot_be_examined_is_not_missing() {
    let (_folder, spool) = spool();
    put(&spool, "transport/F/4711", "one");
    put(&spool, "queue/4711", "one's message, or another's");
    std::os::unix::fs::symlink("F", spool.queue().join("F")).expect("a link to itself");
    let name = SpoolName::new(HashFolder::of(4711, HashLevel::Once), NUMBER).expect("a name");
    let found =
        load(&open(&spool), HashLevel::Once, name, None, &mut |_| {}, &mut |_| {}, |_, _| Ok(()));
    assert!(matches!(found, LoadResult::Failed(_)), "{found:?}");
    assert!(text(&spool, "queue/4711").is_some() && text(&spool, "transport/F/4711").is_some());
}

#[test]
fn message_of_other_control_file_is_not_moved() {
    let (_folder, spool) = spool();
    put(&spool, "transport/F/4711", "one");
    put(&spool, "transport/4711", "two");
    put(&spool, "queue/4711", "two's message");
    let below = HashFolder::of(4711, HashLevel::Once);
    let name = SpoolName::new(below, NUMBER).expect("a name");
    let found =
        load(&open(&spool), HashLevel::Once, name, None, &mut |_| {}, &mut |_| {}, |_, _| Ok(()));
    assert!(matches!(found, LoadResult::Malformed { .. }), "{found:?}");
    assert_eq!(text(&spool, "queue/4711").as_deref(), Some("two's message"));
}

#[test]
fn two_messages_of_one_number_both_stay() {
    // The files that are in the way, and those in the top folder.
    for in_the_way in [&["transport/F/4711", "queue/F/4711"][..], &["queue/F/4711"]] {
        let (_folder, spool) = spool();
        let mut all = Vec::new();
        for path in in_the_way.iter().chain(&["transport/4711", "queue/4711"]) {
            put(&spool, path, path);
            all.push((path, text(&spool, path)));
        }
        assert_eq!(used_at(&spool, HashFolder::TOP), "4711");
        for (path, before) in all {
            assert_eq!(text(&spool, path), before, "{path}");
        }
    }
}

#[test]
fn no_message_is_missing_while_queue_is_empty() {
    let (_folder, spool) = spool();
    put(&spool, "transport/F/4711", "one");
    let name = SpoolName::new(HashFolder::of(4711, HashLevel::Once), NUMBER).expect("a name");
    let found = load(
        &open(&spool),
        HashLevel::Once,
        name.clone(),
        None,
        &mut |_| {},
        &mut |_| {},
        |_, _| Ok(()),
    );
    assert!(matches!(found, LoadResult::NoQueue), "{found:?}");
    put(&spool, "transport/4711", "two");
    let at_top = SpoolName::new(HashFolder::TOP, NUMBER).expect("a name");
    let found =
        load(&open(&spool), HashLevel::Once, at_top, None, &mut |_| {}, &mut |_| {}, |_, _| Ok(()));
    assert!(matches!(found, LoadResult::NoQueue), "{found:?}");
    assert!(is_empty(spool.queue()).expect("listed"), "and no folder is made");
    put(&spool, "queue/1", "another's");
    let found =
        load(&open(&spool), HashLevel::Once, name, None, &mut |_| {}, &mut |_| {}, |_, _| Ok(()));
    assert!(matches!(found, LoadResult::Malformed { .. }), "{found:?}");
}

/// An agent ended after the file was read.
///
/// It had finished one of its two recipients by then.
#[test]
fn only_recipients_still_locked_count_as_possible_duplicates() {
    let before = "@ 7\ni 4711\nl one\ns l - a 0\nr~    55    c h u 0\nr~    55    c h v 0\nm\n\n";
    let mut file = control_file::parse(before.as_bytes().to_vec()).expect("a control file");
    let on_disk = MemoryFile::new(1, before.replacen("r~    55", "r+      ", 1).into_bytes());
    let mut listed = Vec::new();
    let message =
        (&SpoolName::new(HashFolder::default(), NUMBER).expect("a name"), Timestamp::EPOCH);
    let mut sink = |found: &PossibleDuplicates| {
        listed.extend(found.recipients.iter().map(|recipient| recipient.offset));
    };
    unlock_dead(&on_disk, message, &mut file, |_| LockOwner::Dead, &mut sink).expect("unlocked");
    assert_eq!(listed, [file.recipients[1].offset]);
    let tags = file.recipients.iter().map(|recipient| recipient.tag).collect::<Vec<_>>();
    assert_eq!(tags, [Tag::Done, Tag::Pending]);
}
