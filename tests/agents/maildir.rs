//! `mailbox` and Maildir folders.

use crate::support::{Spool, control_file};
use std::fs;
use std::os::unix::fs::MetadataExt;

const MESSAGE: &str =
    "Return-Path: <a@x>\nDelivered-To: bob@x\nSubject: test\n\nFrom here on\nno end";

fn put(spool: &Spool) {
    let control = control_file("7", "local - a@x", &["local h bob@x"]);
    spool.put("7", &control, "From here on\nno end");
}

fn the_only_message(spool: &Spool) -> String {
    let names = spool.names("mail/bob/new");
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(spool.names("mail/bob/tmp"), [""; 0]);
    assert!(spool.names("mail/bob/cur").is_empty());
    spool.read(&format!("mail/bob/new/{}", names[0]))
}

#[test]
fn mailbox_folder_gets_files() {
    let spool = Spool::new();
    put(&spool);
    for folder in ["mail/bob", "mail/bob/tmp", "mail/bob/new", "mail/bob/cur"] {
        fs::create_dir(spool.path(folder)).expect("make a folder");
    }
    let answers = spool.deliver(&[], "7\th\n");
    assert!(answers.contains("\t\tok3 delivered"), "{answers}");
    assert_eq!(the_only_message(&spool), MESSAGE);
    let name = &spool.names("mail/bob/new")[0];
    let parts: Vec<&str> = name.splitn(3, '.').collect();
    assert!(parts[0].parse::<u64>().is_ok() && parts[1].starts_with('M'), "{name}");
    assert!(!name.contains([':', '/']), "{name}");
}

#[test]
fn option_m_creates_maildir() {
    let spool = Spool::new();
    put(&spool);
    spool.deliver(&["-M"], "7\th\n");
    assert_eq!(the_only_message(&spool), MESSAGE);
    let mode = |name: &str| spool.path(name).metadata().expect(name).mode() & 0o777;
    assert_eq!((mode("mail/bob"), mode("mail/bob/new")), (0o700, 0o700));
    assert_eq!(mode(&format!("mail/bob/new/{}", spool.names("mail/bob/new")[0])), 0o600);
    // A mailbox that is a file stays one.
    spool.write("mail/ann", "");
    spool.put("8", &control_file("8", "local - a@x", &["local h ann@x"]), "body\n");
    spool.deliver(&["-M"], "8\th\n");
    assert!(spool.read("mail/ann").contains("\nbody\n"));
}

#[test]
fn trailing_slash_creates_maildir() {
    let spool = Spool::new();
    put(&spool);
    let folder = spool.mail() + "/";
    spool.session(crate::support::MAILBOX, &["-u", "-d", &folder], "7\th\n");
    assert_eq!(the_only_message(&spool), MESSAGE);
}

#[test]
fn messages_have_unique_names() {
    let spool = Spool::new();
    let mut orders = String::new();
    for name in 1..=50 {
        let name = name.to_string();
        spool.put(&name, &control_file(&name, "local - a@x", &["local h bob@x"]), "body\n");
        orders += &format!("{name}\th\n");
    }
    spool.deliver(&["-M"], &orders);
    assert_eq!(spool.names("mail/bob/new").len(), 50);
}

#[test]
fn symbolic_link_to_folder_is_refused() {
    let spool = Spool::new();
    put(&spool);
    fs::create_dir(spool.path("elsewhere")).expect("make a folder");
    std::os::unix::fs::symlink(spool.path("elsewhere"), spool.path("mail/bob")).expect("a link");
    let answers = spool.deliver(&["-M"], "7\th\n");
    assert!(answers.contains("\tdeferred the mailbox is a symbolic link"), "{answers}");
    assert!(spool.names("elsewhere").is_empty());
}
