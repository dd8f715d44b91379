//! `mailbox` for the users of the system: the name service that cannot answer, and the ZENV file.

use crate::support::{Agent, MAILBOX, Spool, control_file, is_root, not_run};
use std::fs;
use std::process::Command;

/// An account that every system has, and that only `/etc/passwd` has.
const REAL: &str = "daemon";
const UNKNOWN: &str = "no-such-account-here";

fn job(spool: &Spool, user: &str) {
    spool.put("7", &control_file("7", "local - a@x", &[&format!("local h {user}")]), "body\n");
}

/// What the agent answers about mail for a user, started by a shell that has run `preparation`.
fn answer(preparation: &str, user: &str, options: &[&str]) -> String {
    let spool = Spool::new();
    job(&spool, user);
    let mut agent = Agent::start_after(&spool, preparation, MAILBOX, options);
    agent.tell("7\th\n");
    agent.end().0
}

/// A library for `LD_PRELOAD` whose `getpwnam_r` finds nobody and returns `ANSWER`.
fn blind_name_service(folder: &tempfile::TempDir) -> String {
    let source = folder.path().join("blind.c");
    let library = folder.path().join("blind.so");
    let text = "#include <pwd.h>\n#include <stdlib.h>\n\
                int getpwnam_r(const char *n, struct passwd *p, char *b, size_t s, struct passwd **r)\n\
                { *r = NULL; return atoi(getenv(\"ANSWER\")); }\n";
    fs::write(&source, text).expect("written");
    let mut cc = Command::new("cc");
    let made = cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(made.expect("cc starts").success());
    library.to_string_lossy().into_owned()
}

#[test]
fn user_that_is_certainly_unknown_fails() {
    for options in [&[][..], &["--known-account", REAL]] {
        let answer = answer("true", UNKNOWN, options);
        assert!(answer.contains("\terror2 there is no user no-such-account-here here"), "{answer}");
    }
}

#[test]
fn any_user_deferred_while_the_name_service_finds_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = blind_name_service(&folder);
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
fn user_deferred_while_there_are_no_descriptors() {
    // Standard input, output and error, the control file and the message file.
    let answer = answer("ulimit -n 5", REAL, &[]);
    assert!(answer.contains("\tdeferred cannot look up the user: "), "{answer}");
}

#[test]
fn unknown_user_deferred_while_a_known_account_is_not_found() {
    let answer = answer("true", UNKNOWN, &["--known-account", "only-ldap-has-this"]);
    let why = "the name service does not find the known account only-ldap-has-this";
    assert!(answer.contains(&format!("\tdeferred cannot look up the user: {why}")), "{answer}");
}

#[test]
fn folder_of_the_mailboxes_is_that_of_the_zenv_file() {
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
        agent.tell("7\th\n");
        let answers = agent.end().0;
        assert!(answers.contains("\tok3 "), "{answers}");
        assert!(spool.read(expected).contains("\nbody\n"), "{expected}");
    }
}
