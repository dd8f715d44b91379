//! `hold`.

use crate::support::{HOLD, Spool, allow, control_file, is_root, not_run, offset};
use std::os::unix::fs::MetadataExt;

#[test]
fn host_names_the_condition_of_release() {
    for (host, held) in [
        ("timeout:2100000000", true),
        ("TimeOut:2100000000", true),
        ("timeout:1000", false),
        ("timeout:-1", false),
        ("timeout:soon", true),
        ("timeout:", true),
        ("-", true),
        ("ns:example.org", true),
        ("home:user", true),
        ("script:name", true),
    ] {
        let spool = Spool::new();
        let control = control_file("7", "local - a@x", &[&format!("hold {host} u@x")]);
        spool.put("7", &control, "body\n");
        let answers = spool.session(HOLD, &[], &format!("7\t{}\n", host.to_lowercase()));
        let place = format!("7/{}\t", offset(&control, 0));
        let notary = "u@x\x01delayed\x014.4.3 (";
        let expected =
            if held { format!("{place}{notary}") } else { format!("{place}\tok3 handed") };
        assert!(answers.contains(&expected), "{host}: {answers:?}");
        let tag = if held { "r " } else { "r+" };
        assert!(spool.lines("7", 'r')[0].starts_with(tag), "{host}");
        assert_eq!(spool.names("router").len(), usize::from(!held), "{host}");
        assert!(spool.names("public").is_empty(), "{host}");
    }
}

#[test]
fn released_message_is_a_new_submission() {
    let spool = Spool::new();
    let recipients =
        ["hold timeout:1 u@x | NOTIFY=SUCCESS,DELAY ORCPT=rfc822;v@x", "hold timeout:1 w@x"];
    let control = control_file("7", "local - a@x", &recipients);
    let wishes = "NOTIFY=SUCCESS,DELAY ORCPT=rfc822;v@x";
    let control = control.replace(wishes, &format!("{wishes}\nR HDRS\nn ID+3D7"));
    spool.put("7", &control, "body\nFrom here on\n");
    spool.session(HOLD, &[], "7\ttimeout:1\n");
    // The wish goes along, so that this message owes no report.
    assert_eq!(spool.lines("7", 'd'), [""; 0]);
    let names = spool.names("router");
    assert_eq!(names.len(), 2);
    let mut submissions: Vec<String> =
        names.iter().map(|name| spool.read(&format!("router/{name}"))).collect();
    submissions.sort_by_key(|text| text.contains("to <w@x>"));
    let message = "Subject: test\n\nbody\nFrom here on\n";
    let common = "envid ID+3D7\nnotaryret HDRS\nfrom <a@x>\n";
    assert_eq!(submissions[0], format!("{common}todsn {wishes}\nto <u@x>\nenv-end\n{message}"));
    assert_eq!(submissions[1], format!("{common}to <w@x>\nenv-end\n{message}"));
    for name in names {
        let path = spool.path(&format!("router/{name}"));
        let metadata = path.metadata().expect("a submission");
        assert_eq!(metadata.ino().to_string(), name);
        // The group is that of the folder, and the router belongs to it.
        assert_eq!(metadata.mode() & 0o777, 0o640);
    }
}

#[test]
fn released_error_message_keeps_error_channel() {
    let spool = Spool::new();
    spool.put("7", &control_file("7", "error <> <>", &["hold timeout:1 u@x"]), "body\n");
    spool.session(HOLD, &[], "7\ttimeout:1\n");
    let submission = spool.read(&format!("router/{}", spool.names("router")[0]));
    assert!(submission.starts_with("channel error\nto <u@x>\nenv-end\n"), "{submission}");
}

#[test]
fn submission_has_owner_of_message() {
    if !is_root() {
        not_run("submissions for other users: needs root");
        return;
    }
    let spool = Spool::new();
    spool.put("7", &control_file("7", "local - a@x", &["hold timeout:1 u@x"]), "body\n");
    std::os::unix::fs::chown(spool.path("queue/7"), Some(12345), Some(54321)).expect("chown");
    spool.session(HOLD, &[], "7\ttimeout:1\n");
    let path = spool.path(&format!("router/{}", spool.names("router")[0]));
    let metadata = path.metadata().expect("a submission");
    assert_eq!((metadata.uid(), metadata.gid()), (12345, 54321));
    assert_eq!(metadata.mode() & 0o777, 0o600, "the group is not that of the folder");
}

#[test]
fn missing_router_folder_defers() {
    let spool = Spool::new();
    std::fs::remove_dir(spool.path("router")).expect("remove");
    let control = control_file("7", "local - a@x", &["hold timeout:1 u@x"]);
    spool.put("7", &control, "body\n");
    let answers = spool.session(HOLD, &[], "7\ttimeout:1\n");
    assert!(answers.contains("\tdeferred cannot hand back to the router: "), "{answers}");
    assert_eq!(spool.read("transport/7"), control);
    assert!(spool.names("public").is_empty());
}

#[test]
fn failed_submission_leaves_no_file_in_router() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["hold timeout:1 u@x"]);
    spool.put("7", &control, "body\n");
    allow(spool.path("router"), 0o555);
    let Some(answers) = spool.ordinary_session(HOLD, &[], "7\ttimeout:1\n") else { return };
    allow(spool.path("router"), 0o755);
    assert!(answers.contains("\tdeferred cannot hand back to the router: "), "{answers}");
    assert!(spool.names("router").is_empty());
    assert!(spool.names("public").is_empty());
    let answers = spool.session(HOLD, &[], "7\ttimeout:1\n");
    assert!(answers.contains("\tok3 "), "{answers}");
    assert_eq!(spool.names("router").len(), 1);
}
