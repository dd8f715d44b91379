//! Malformed control files: each recorded kind, what ZMailer's scheduler did with it, and what ours
//! does. Ours deletes nothing.

use crate::support::{TestSpool, at, set_modified, spool_name};
use expect_test::{Expect, expect};
use std::fs;
use std::os::unix::fs::symlink;
use zsched_spool::load::LoadResult;
use zsched_spool::scan::scan;
use zsched_spool::{Arrival, HashLevel};

/// What ZMailer's scheduler did.
#[derive(Debug)]
enum ZmailerResult {
    /// It unlinked the control file, and left the message file.
    Deleted,
    /// It treated the message as finished and removed both files.
    Removed,
    /// It loaded the message.
    Loaded,
}
use ZmailerResult::{Deleted, Loaded, Removed};

const GOOD: &str = "@ 0x00000007\ni 1\no 40\nl <1@x.test>\ne a@x.test\ns local - a@x.test 0\n\
                    r           c a.test u1@x 0\nm\nFrom: a@x.test\nSubject: t\n\n";
const MESSAGE: &[u8] = b"rcvdfrom x\nenv-end\nFrom: a@x.test\n\nbody\n";

/// Reads a control file `1`. Returns the result and the files that exist afterwards.
fn verdict(control: &str, has_message: bool) -> String {
    let spool = TestSpool::new();
    let path = spool.write("transport/1", control.as_bytes());
    set_modified(&path, at(1_000_000_000, 0));
    if has_message {
        spool.write("queue/1", MESSAGE);
    }
    // An empty `queue/` would count as not mounted, so no message would be missing.
    let other = spool.write("queue/2", b"another message");
    let found = spool.read(HashLevel::Flat, spool_name("1"));
    std::fs::remove_file(other).expect("removed");
    let files = spool.files(&["transport", "queue", "postman"]);
    // Nothing is lost, wherever it is now.
    let contents: Vec<Vec<u8>> =
        files.iter().map(|file| spool.contents(file).expect("it is there")).collect();
    // An alternative is tagged, and becomes a recipient at the end of the file.
    let with_tags = control.replace("\nX ", "\nX+");
    let is_kept = |text: &Vec<u8>| match with_tags == control {
        true => text == control.as_bytes(),
        false => text.starts_with(with_tags.as_bytes()),
    };
    assert!(contents.iter().any(is_kept), "{control}");
    assert_eq!(contents.contains(&MESSAGE.to_vec()), has_message, "{control}");
    assert_eq!(files.len(), 1 + usize::from(has_message), "{files:?}");
    format!("{}; {}", shown(&found), files.join(" "))
}

fn shown(found: &LoadResult) -> String {
    match found {
        LoadResult::Arrival(arrival) => format!("loaded {}", groups(arrival)),
        LoadResult::Nothing => "not looked at".to_string(),
        LoadResult::Locked(_) => "locked".to_string(),
        LoadResult::Malformed { error, moved } => {
            assert!(moved.is_ok(), "{moved:?}");
            format!("refused: {error}")
        }
        LoadResult::Failed(error) => format!("failed: {error}"),
        LoadResult::NoQueue => "no message at all".to_string(),
    }
}

fn groups(arrival: &Arrival) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let groups = arrival.groups.iter().map(|group| {
        let (channel, host) = (text(&group.channel), text(&group.host));
        format!("{channel}/{host} {:?}", group.offsets)
    });
    let leftovers =
        arrival.first_undeliverable.as_ref().map(|_| "and lines without a delivery".to_string());
    groups.chain(leftovers).collect::<Vec<String>>().join(", ")
}

/// A file: its defect, what ZMailer's scheduler did, and its text.
type Case<'c> = (&'c str, ZmailerResult, String);

fn check(cases: &[Case<'_>], expected: Expect) {
    let lines = cases.iter().map(|(what, original, control)| {
        let verdict = verdict(control, *what != "no message file");
        format!("{what} ({original:?}): {verdict}\n")
    });
    expected.assert_eq(&lines.collect::<String>());
}

/// Returns the good file with a part replaced.
fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old}");
    GOOD.replace(old, new)
}

#[test]
fn files_that_zmailer_deletes_are_moved_aside() {
    check(
        &[
            ("unknown format bit", Deleted, with("0x00000007", "0x00000008")),
            ("no i line", Deleted, with("i 1\n", "")),
            ("no l line", Deleted, with("l <1@x.test>\n", "")),
            ("no message file", Deleted, GOOD.to_string()),
            ("the i line names another file", Deleted, with("i 1\n", "i 9999\n")),
            ("an empty file", Deleted, String::new()),
            ("two lines", Deleted, "@ 0x00000007\no 40\n".to_string()),
        ],
        expect![[r#"
            unknown format bit (Deleted): refused: offset 0: unknown format bits in 0x00000008; postman/malformed:1 postman/malformed:1:message
            no i line (Deleted): refused: offset 0: no i line; postman/malformed:1 postman/malformed:1:message
            no l line (Deleted): loaded c/a.test [54]; queue/1 transport/1
            no message file (Deleted): refused: offset 13: there is no message file; postman/malformed:1
            the i line names another file (Deleted): refused: offset 13: the i line says 9999; postman/malformed:1 postman/malformed:1:message
            an empty file (Deleted): refused: offset 0: the file is empty; postman/malformed:1 postman/malformed:1:message
            two lines (Deleted): refused: offset 0: no i line; postman/malformed:1 postman/malformed:1:message
        "#]],
    );
}

#[test]
fn files_that_zmailer_treats_as_finished_are_kept() {
    check(
        &[
            ("no recipient", Removed, with("r           c a.test u1@x 0\n", "")),
            ("only an alternative", Removed, with("r           c", "X 1 c")),
            ("only a disabled recipient", Removed, with("r  ", "r? ")),
            // This message really is finished; the core has it removed.
            ("all delivered", Removed, with("r  ", "r+ ")),
        ],
        expect![[r#"
            no recipient (Removed): refused: offset 0: no recipient; postman/malformed:1 postman/malformed:1:message
            only an alternative (Removed): loaded c/a.test [137]; queue/1 transport/1
            only a disabled recipient (Removed): refused: offset 67: recipient has an unknown tag; postman/malformed:1 postman/malformed:1:message
            all delivered (Removed): loaded ; queue/1 transport/1
        "#]],
    );
}

#[test]
fn files_that_zmailer_loads_are_loaded() {
    let recipient = "r           c a.test u1@x 0\n";
    check(
        &[
            ("nothing", Loaded, GOOD.to_string()),
            ("no @ line", Loaded, with("@ 0x00000007\n", "")),
            ("no o line", Loaded, with("o 40\n", "")),
            ("unknown letters", Loaded, with("o 40\n", "o 40\nq what\nz\n\n")),
            ("no header block", Loaded, with("m\nFrom: a@x.test\nSubject: t\n\n", "")),
            ("no end of the header block", Loaded, with("t\n\n", "t\n")),
            ("no columns", Loaded, with("@ 0x00000007\n", "").replace("r           c", "r c")),
            ("capitals", Loaded, with("c a.test u1@x", "C A.Test U1@X")),
            ("a host in quotes", Loaded, with("c a.test", "c \"a b.test\"")),
            (
                "an alternative, too",
                Loaded,
                with(recipient, &format!("{recipient}X 1 c b.test u1@x 0\n")),
            ),
            // Ours refuses this one: agents refuse headers without an end, and ZMailer reads the
            // host as 0.
            ("no user", Loaded, with("c a.test u1@x 0", "c 0")),
        ],
        expect![[r#"
            nothing (Loaded): loaded c/a.test [67]; queue/1 transport/1
            no @ line (Loaded): loaded c/a.test [54]; queue/1 transport/1
            no o line (Loaded): loaded c/a.test [62]; queue/1 transport/1
            unknown letters (Loaded): loaded c/a.test [77]; queue/1 transport/1
            no header block (Loaded): loaded c/a.test [67]; queue/1 transport/1
            no end of the header block (Loaded): refused: offset 95: the headers have no end; postman/malformed:1 postman/malformed:1:message
            no columns (Loaded): loaded c/a.test [54]; queue/1 transport/1
            capitals (Loaded): loaded c/a.test [67]; queue/1 transport/1
            a host in quotes (Loaded): loaded c/"a b.test" [67]; queue/1 transport/1
            an alternative, too (Loaded): loaded c/a.test [67], c/b.test [165]; queue/1 transport/1
            no user (Loaded): refused: offset 67: recipient has no user; postman/malformed:1 postman/malformed:1:message
        "#]],
    );
}

#[test]
fn files_that_zmailer_ignores_are_ignored() {
    let spool = TestSpool::new();
    let good = spool.write("elsewhere", GOOD.as_bytes());
    let transport = spool.spool.transport();
    symlink(&good, transport.join("1")).expect("a link");
    fs::create_dir(transport.join("2")).expect("a folder");
    for name in ["x3", ".4", "..etrn-5"] {
        spool.write(&format!("transport/{name}"), GOOD.as_bytes());
    }
    fs::create_dir(transport.join("lower")).expect("a folder");
    spool.write("transport/lower/6", GOOD.as_bytes());
    let before = spool.files(&["."]);
    let mut found = Vec::new();
    scan(&spool.spool, |names| {
        found.extend(names.iter().cloned());
        true
    });
    found.sort_by_key(|name| name.number());
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1", "2"]);
    for name in found {
        let found = spool.read(HashLevel::Flat, name);
        assert!(matches!(found, LoadResult::Nothing), "{found:?}");
    }
    assert_eq!(spool.files(&["."]), before);
}

/// A name may have more than a number, and a file may only request a host's mail.
#[test]
fn odd_names_and_etrn_files_are_loaded() {
    let spool = TestSpool::new();
    let (path, control) = ("701-abc", GOOD.replace("i 1\n", "i 701-abc\n"));
    spool.message(path, control.as_bytes(), MESSAGE, at(1_000_000_000, 0));
    let LoadResult::Arrival(arrival) = spool.read(HashLevel::Flat, spool_name(path)) else {
        panic!("it is good");
    };
    assert_eq!((arrival.name.number(), arrival.name.to_string().as_str()), (701, "701-abc"));
    assert_eq!(groups(&arrival), "c/a.test [73]");
    spool.write("transport/9002-etrn", b"T ETRN.TEST [127.0.0.1]\n");
    let LoadResult::Arrival(arrival) = spool.read(HashLevel::Flat, spool_name("9002-etrn")) else {
        panic!("it is good");
    };
    assert_eq!(arrival.etrn_hosts, [b"etrn.test".as_slice().into()]);
    assert_eq!((arrival.pending(), arrival.recipients), (0, 0));
}
