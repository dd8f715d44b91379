//! `mailbox` for users of the system: failures of the name service, and the ZENV file.

use crate::support::{Agent, MAILBOX, Spool, control_file, is_root, not_run};
use std::fs;
use zsched_tests::failing_name_service;

/// An account that exists on every system, in `/etc/passwd` only.
const REAL: &str = "daemon";
const UNKNOWN: &str = "no-such-account-here";

fn job(spool: &Spool, user: &str) {
    spool.put("7", &control_file("7", "local - a@x", &[&format!("local h {user}")]), "body\n");
}

/// Returns the agent's answer about mail for a user, after a shell has run `preparation`.
fn answer(preparation: &str, user: &str, options: &[&str]) -> String {
    let spool = Spool::new();
    job(&spool, user);
    let mut agent = Agent::start_after(&spool, preparation, MAILBOX, options);
    agent.send("7\th\n");
    agent.end().0
}

#[test]
fn unknown_user_fails() {
    for options in [&[][..], &["--known-account", REAL]] {
        let answer = answer("true", UNKNOWN, options);
        assert!(answer.contains("\terror2 there is no user no-such-account-here here"), "{answer}");
    }
}

#[test]
fn users_are_deferred_while_name_service_finds_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = failing_name_service(folder.path());
    for code in [0, libc::ENOENT, libc::ESRCH, libc::EMFILE, libc::EIO] {
        let preparation = format!("export ANSWER={code} LD_PRELOAD={library}");
        for user in [REAL, UNKNOWN] {
            let answer = answer(&preparation, user, &[]);
            let deferred = "\tdeferred cannot look up the user: ";
            assert!(answer.contains(deferred), "{user}, {code}: {answer}");
        }
    }
}

#[test]
fn user_is_deferred_without_free_descriptors() {
    // The five are standard input, output and error, the control file and the message file.
    let answer = answer("ulimit -n 5", REAL, &[]);
    assert!(answer.contains("\tdeferred cannot look up the user: "), "{answer}");
}

#[test]
fn unknown_user_is_deferred_while_known_account_is_missing() {
    let answer = answer("true", UNKNOWN, &["--known-account", "only-ldap-has-this"]);
    let why = "the name service does not find the known account only-ldap-has-this";
    assert!(answer.contains(&format!("\tdeferred cannot look up the user: {why}")), "{answer}");
}

#[test]
fn mailbox_folder_comes_from_zenv_file() {
    if !is_root() {
        return not_run("mailboxes of other users: needs root");
    }
    for (options, expected) in [(&["-8"][..], "mail/daemon"), (&["-8", "-DD"], "mail/d/a/daemon")] {
        let spool = Spool::new();
        job(&spool, REAL);
        fs::create_dir_all(spool.path("mail/d/a")).expect("folders");
        spool.write("zmailer.conf", &format!("MAILBOX={}\n", spool.mail()));
        let zenv = spool.path("zmailer.conf");
        let preparation = format!("export ZCONFIG={}", zenv.display());
        let mut agent = Agent::start_after(&spool, &preparation, MAILBOX, options);
        agent.send("7\th\n");
        let answers = agent.end().0;
        assert!(answers.contains("\tok3 "), "{answers}");
        assert!(spool.read(expected).contains("\nbody\n"), "{expected}");
    }
}
