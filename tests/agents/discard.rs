//! `discard`.

use crate::support::{DISCARD, Spool, control_file, offset};

#[test]
fn recipients_are_marked_without_message_file() {
    let spool = Spool::new();
    let recipients = ["discard h a@x", "discard h b@x", "other h c@x", "discard H d@x"];
    let control = control_file("7", "local - a@x", &recipients);
    spool.write("transport/7", &control);
    let answers = spool.session(DISCARD, &[], "7\th\n");
    let reports: Vec<String> =
        [3, 1, 0].map(|index| format!("7/{}\t\tok3 discarded\n", offset(&control, index))).into();
    assert_eq!(answers, format!("#hungry\n{}#hungry\n", reports.concat()));
    let expected = control.replace("r           discard", "r+          discard");
    assert_eq!(spool.read("transport/7"), expected);
}

#[test]
fn requested_success_is_noted() {
    let spool = Spool::new();
    let recipients = ["discard h a@x | NOTIFY=SUCCESS", "discard h b@x|NOTIFY=NEVER"];
    let control = control_file("7", "local - a@x", &recipients);
    spool.write("transport/7", &control);
    let answers = spool.session(DISCARD, &[], "7\th\n");
    assert!(answers.contains(&format!("7/{}\t\tok2 ", offset(&control, 0))), "{answers}");
    assert!(answers.contains(&format!("7/{}\t\tok3 ", offset(&control, 1))), "{answers}");
    let notes = spool.lines("7", 'd');
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("\ta@x\x01delivered\x012.0.0 (discarded)\x01"), "{notes:?}");
}

#[test]
fn many_recipients_are_discarded_in_one_job() {
    let spool = Spool::new();
    let recipients: Vec<String> = (0..1000).map(|n| format!("discard h user{n}@x")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    spool.write("transport/7", &control_file("7", "local - a@x", &recipients));
    let answers = spool.session(DISCARD, &[], "7\th\n7\th\n");
    assert_eq!(answers.matches("\tok3 ").count(), 1000);
    assert!(answers.ends_with("#hungry\n#resync 7\n#hungry\n"));
    assert!(spool.lines("7", 'r').iter().all(|line| line.starts_with("r+      ")));
}
