//! `mailbox` as root: a mailbox belongs to its user, and is written with that user's rights only.

use crate::support::{MAILBOX, Spool, allow, control_file, is_root, not_run};
use std::os::unix::fs::{MetadataExt, chown};
use zsched_sys::{Account, find_account};

/// Returns a user of this system other than root.
fn user() -> Option<Account> {
    if !is_root() {
        not_run("mailboxes of other users: needs root");
        return None;
    }
    let names = ["games", "nobody", "mail", "daemon", "news"];
    let user = names.iter().find_map(|name| find_account(name).expect("the database answers"));
    if user.is_none() {
        not_run("mailboxes of other users: none of the usual ones exists");
    }
    user
}

/// Delivers to `recipient` in a folder of this mode and group.
fn deliver(spool: &Spool, recipient: &str, mode: u32, group: u32, options: &[&str]) -> String {
    spool.put("7", &control_file("7", "local - a@x", &[&format!("local h {recipient}")]), "body\n");
    chown(spool.path("mail"), Some(0), Some(group)).expect("chown");
    allow(spool.path("mail"), mode);
    let mail = spool.mail();
    spool.session(MAILBOX, &[&["-d", &mail, "-w", "0"], options].concat(), "7\th\n")
}

#[test]
fn mailbox_belongs_to_its_user() {
    let Some(user) = user() else { return };
    let mail_group = 4242;
    // The traditional folder, one that is writable for all, and both with Maildir.
    for (mode, group, options, expected) in [
        (0o2775, mail_group, &[][..], mail_group),
        (0o1777, 0, &[], user.gid),
        (0o775, mail_group, &["-M"], user.gid),
        (0o1777, 0, &["-M"], user.gid),
        // One that the user cannot read, and one that only root may write to.
        (0o770, mail_group, &[], mail_group),
        (0o770, mail_group, &["-M"], user.gid),
        (0o755, 0, &[], user.gid),
        (0o755, 0, &["-M"], user.gid),
    ] {
        let spool = Spool::new();
        let answers = deliver(&spool, &format!("{}+x@x", user.name), mode, group, options);
        assert!(answers.contains("\tok3 delivered"), "{mode:o}: {answers}");
        assert_eq!(spool.names("mail"), [user.name.as_str()]);
        let mut path = spool.path("mail").join(&user.name);
        if path.is_dir() {
            let folder = format!("mail/{}/new", user.name);
            path = path.join("new").join(&spool.names(&folder)[0]);
        }
        let metadata = path.metadata().expect("a mailbox");
        let found = (metadata.uid(), metadata.gid(), metadata.mode() & 0o777);
        assert_eq!(found, (user.uid, expected, 0o600), "{mode:o}");
        // The agent is root again: it has marked the control file.
        assert!(spool.lines("7", 'r')[0].starts_with("r+ "));
    }
}

#[test]
fn mailbox_in_folder_of_root_is_written_as_user() {
    let Some(user) = user() else { return };
    let spool = Spool::new();
    let path = spool.path("mail").join(&user.name);
    std::fs::write(&path, "").expect("write");
    chown(&path, Some(user.uid), Some(user.gid)).expect("chown");
    let answers = deliver(&spool, &user.name, 0o755, 0, &[]);
    assert!(answers.contains("\tok3 "), "{answers}");
    // A mailbox of root is not written for the user.
    chown(&path, Some(0), Some(0)).expect("chown");
    allow(&path, 0o600);
    let answers = deliver(&spool, &user.name, 0o755, 0, &[]);
    assert!(answers.contains("\tdeferred cannot open the mailbox: Permission denied"), "{answers}");
    assert_eq!(spool.names("mail"), [user.name.as_str()]);
}

#[test]
fn rights_of_root_are_not_used_for_users() {
    let Some(user) = user() else { return };
    let spool = Spool::new();
    chown(spool.path("mail"), Some(user.uid + 1), None).expect("chown");
    let control = control_file("7", "local - a@x", &[&format!("local h {}", user.name)]);
    spool.put("7", &control, "body\n");
    allow(spool.path("mail"), 0o755);
    let mail = spool.mail();
    for (options, trouble) in
        [(&[][..], "cannot lock the mailbox"), (&["-M"], "cannot create the mailbox")]
    {
        let answers = spool.session(MAILBOX, &[&["-d", &mail], options].concat(), "7\th\n");
        assert!(answers.contains(&format!("\tdeferred {trouble}: Permission denied")), "{answers}");
    }
    assert!(spool.names("mail").is_empty());
}

#[test]
fn mailbox_of_other_user_is_refused() {
    let Some(user) = user() else { return };
    for make_folder in [false, true] {
        let spool = Spool::new();
        let path = spool.path("mail").join(&user.name);
        if make_folder {
            std::fs::create_dir(&path).expect("make a folder");
        } else {
            std::fs::write(&path, "").expect("write");
        }
        chown(&path, Some(user.uid + 1), None).expect("chown");
        allow(&path, 0o777);
        let answers = deliver(&spool, &user.name, 0o1777, 0, &[]);
        // Some kernels refuse even to open such a file.
        let refused = ["belongs to another user", "cannot open the mailbox"];
        assert!(refused.iter().any(|text| answers.contains(text)), "{answers}");
        assert!(answers.contains("\tdeferred "), "{answers}");
    }
}

#[test]
fn names_are_looked_up_as_written_then_in_lower_case() {
    let Some(user) = user() else { return };
    let spool = Spool::new();
    let answers = deliver(&spool, &format!("{}@x", user.name.to_uppercase()), 0o1777, 0, &[]);
    assert!(answers.contains("\tok3 "), "{answers}");
    let answers = deliver(&spool, "no-such-user@x", 0o1777, 0, &[]);
    assert!(answers.contains("\t\terror2 there is no user no-such-user here"), "{answers}");
    // Every name that the user database could contain is looked up.
    let answers = deliver(&spool, "no-such-user$@x", 0o1777, 0, &[]);
    assert!(answers.contains("\t\terror2 there is no user no-such-user$ here"), "{answers}");
    assert_eq!(spool.names("mail"), [user.name]);
}
