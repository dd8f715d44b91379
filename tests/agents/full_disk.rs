//! Full disks and folders that are not writable.
//!
//! A limit on the size of files has the effect of a full disk, for root too: a write fails or is
//! cut short at a chosen place.

use crate::support::{
    Agent, DISCARD, MAILBOX, Spool, allow, control_file, is_root, not_run, offset,
};

/// Runs an agent whose files may have at most `blocks` of 512 bytes.
fn session_with_limit(spool: &Spool, blocks: u32, words: &[&str], input: &str) -> String {
    let mut agent =
        Agent::start_after(spool, &format!("ulimit -f {blocks}"), words[0], &words[1..]);
    agent.send(input);
    let (answers, status) = agent.end();
    assert!(status.success(), "{status}: {answers}");
    answers
}

#[test]
fn full_disk_leaves_mailbox_unchanged() {
    let spool = Spool::new();
    let before = "From a@x Sat Nov 21 10:04:09 2026\n\nold\n\n";
    spool.write("mail/bob", before);
    let control = control_file("7", "local - a@x", &["local h bob@x"]);
    spool.put("7", &control, &"0123456789abcdef\n".repeat(20_000));
    let mail = spool.mail();
    let answers = session_with_limit(&spool, 64, &[MAILBOX, "-u", "-d", &mail], "7\th\n");
    assert!(answers.contains("\x01delayed\x014.2.2 (File too large)\x01"), "{answers}");
    assert!(answers.contains("\tdeferred cannot copy the message to the mailbox: "), "{answers}");
    assert_eq!(spool.read("mail/bob"), before);
    assert_eq!(spool.names("mail"), ["bob"]);
    assert_eq!(spool.read("transport/7"), control);
    // When there is room again, it is delivered.
    assert!(spool.deliver(&[], "7\th\n").contains("\tok3 "));
    assert!(spool.read("mail/bob").starts_with(before));
}

#[test]
fn full_disk_leaves_no_file_in_maildir() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["local h bob@x"]);
    spool.put("7", &control, &"0123456789abcdef\n".repeat(20_000));
    let mail = spool.mail();
    let answers = session_with_limit(&spool, 64, &[MAILBOX, "-Mu", "-d", &mail], "7\th\n");
    assert!(answers.contains("\tdeferred cannot copy the message to the mailbox: "), "{answers}");
    assert!(spool.names("mail/bob/tmp").is_empty());
    assert!(spool.names("mail/bob/new").is_empty());
    assert_eq!(spool.read("transport/7"), control);
}

/// Returns a control file without room for `d` lines under a limit of four blocks.
fn full_control_file(recipient: &str) -> String {
    let control = control_file("7", "local - a@x", &[recipient]);
    let room = 4 * 512 - 10 - control.len();
    control.replace("m\nSubject: test", &format!("m\nSubject: test{}", "x".repeat(room)))
}

#[test]
fn failure_without_room_for_note_becomes_deferral() {
    let spool = Spool::new();
    let control = full_control_file("local h ../bob@x");
    spool.put("7", &control, "body\n");
    let mail = spool.mail();
    let answers = session_with_limit(&spool, 4, &[MAILBOX, "-u", "-d", &mail], "7\th\n");
    assert!(answers.contains("\tdeferred cannot append to the control file: "), "{answers}");
    assert!(answers.contains("(no such user)\n"), "{answers}");
    assert_eq!(spool.read("transport/7"), control);
}

#[test]
fn delivery_without_room_for_note_is_reported_to_scheduler() {
    for words in [&[DISCARD, "-c", "local"][..], &[MAILBOX, "-u", "-d", "MAIL"]] {
        let spool = Spool::new();
        let control = full_control_file("local h bob@x | NOTIFY=SUCCESS");
        spool.put("7", &control, "body\n");
        let mail = spool.mail();
        let words: Vec<&str> =
            words.iter().map(|w| if *w == "MAIL" { &*mail } else { w }).collect();
        let answers = session_with_limit(&spool, 4, &words, "7\th\n");
        let report = format!("7/{}\tbob@x\x01delivered\x012.", offset(&control, 0));
        assert!(answers.contains(&report), "{answers}");
        assert!(answers.contains("\tok d"), "{answers}");
        let after = control.replace("r           local", "r+          local");
        assert_eq!(spool.read("transport/7"), after);
    }
}

#[test]
fn read_only_folder_defers() {
    if is_root() {
        not_run("a read-only folder as the running user: root may write everywhere");
        return;
    }
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["local h bob@x"]);
    spool.put("7", &control, "body\n");
    for options in [&[][..], &["-M"]] {
        allow(spool.path("mail"), 0o555);
        let answers = spool.deliver(options, "7\th\n");
        allow(spool.path("mail"), 0o755);
        assert!(answers.contains("\tdeferred cannot "), "{answers}");
        assert!(answers.contains(": Permission denied\n"), "{answers}");
        assert!(spool.names("mail").is_empty());
    }
}

#[test]
fn missing_folder_defers() {
    let spool = Spool::new();
    std::fs::remove_dir(spool.path("mail")).expect("remove");
    let control = control_file("7", "local - a@x", &["local h bob@x"]);
    spool.put("7", &control, "body\n");
    for options in [&[][..], &["-M"]] {
        let answers = spool.deliver(options, "7\th\n");
        assert!(answers.contains("\tdeferred cannot "), "{answers}");
        assert_eq!(spool.read("transport/7"), control);
    }
}
