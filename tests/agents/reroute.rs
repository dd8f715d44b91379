//! `reroute`.

use crate::support::{REROUTE, Spool, control_file};
use std::os::unix::fs::MetadataExt;

fn submissions(spool: &Spool) -> Vec<String> {
    let names = spool.names("router");
    names.iter().map(|name| spool.read(&format!("router/{name}"))).collect()
}

#[test]
fn recipients_of_one_sender_are_one_submission() {
    let spool = Spool::new();
    let recipients = [
        "smtp h u@x | NOTIFY=SUCCESS ORCPT=rfc822;v@x",
        "smtp h v@x | BY=120;R",
        "smtp other w@x",
        "fax h x@x",
    ];
    let control = control_file("7", "local - a@x", &recipients);
    spool.put("7", &control, "body\nFrom here on\n");
    let answers = spool.session(REROUTE, &["-c", "smtp"], "7\th\n");
    let name = &spool.names("router")[0];
    let report = format!("\t\tok3 given back to the router as {name}\n");
    assert_eq!(answers.matches(&report).count(), 2, "{answers}");
    let expected = "from <a@x>\ntodsn BY=120;R\nto <v@x>\n\
                    todsn NOTIFY=SUCCESS ORCPT=rfc822;v@x\nto <u@x>\nenv-end\n\
                    Subject: test\n\nbody\nFrom here on\n";
    assert_eq!(submissions(&spool), [expected]);
    let inode = spool.path(&format!("router/{name}")).metadata().expect("a file").ino();
    assert_eq!(&inode.to_string(), name);
    let tags: String = spool.lines("7", 'r').iter().map(|line| &line[1..2]).collect();
    assert_eq!(tags, "++  ");
    // The wish goes along, so that this message owes no report.
    assert_eq!(spool.lines("7", 'd'), [""; 0]);
}

#[test]
fn senders_and_headers_are_not_mixed() {
    let spool = Spool::new();
    let parts = [("local - a@x", "u@x"), ("error - <>", "v@x"), ("local - c@x", "w@x")];
    let mut control = String::from("@ 0x00000007\ni 7\no 6\nl <id@x>\n");
    for (sender, user) in parts {
        control += &format!("s {sender} 0\nr           smtp h {user} 0\nm\nTo: {user}\n\n");
    }
    spool.put("7", &control, "body\n");
    spool.session(REROUTE, &[], "7\th\n");
    let mut found = submissions(&spool);
    found.sort();
    let mut expected = ["from <a@x>", "channel error", "from <c@x>"].map(str::to_string);
    for (envelope, (_, user)) in expected.iter_mut().zip(parts) {
        *envelope += &format!("\nto <{user}>\nenv-end\nTo: {user}\n\nbody\n");
    }
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn many_recipients_are_few_submissions() {
    let spool = Spool::new();
    let recipients: Vec<String> = (0..2500).map(|n| format!("smtp h user{n}@x")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    spool.put("7", &control_file("7", "local - a@x", &recipients), "body\n");
    let answers = spool.session(REROUTE, &["-c", "smtp"], "7\th\n");
    assert_eq!(answers.matches("\tok3 ").count(), 2500);
    let mut counts: Vec<usize> =
        submissions(&spool).iter().map(|text| text.matches("\nto <").count()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [500, 1000, 1000]);
}

#[test]
fn missing_router_folder_defers() {
    let spool = Spool::new();
    std::fs::remove_dir(spool.path("router")).expect("remove");
    let control = control_file("7", "local - a@x", &["smtp h u@x", "smtp h v@x"]);
    spool.put("7", &control, "body\n");
    let answers = spool.session(REROUTE, &["-c", "smtp"], "7\th\n");
    assert_eq!(answers.matches("\tdeferred cannot give back to the router: ").count(), 2);
    assert_eq!(spool.read("transport/7"), control);
}
