//! The agents `pipe`, `expirer` and `reroute` under a real scheduler.

use crate::support::{Site, until};

const CLAUSES: &str = "\
uucp/*
\tcommand=\"pipe -8c $channel -f ${SITE}/sm.conf uucp\"
fax/*
\tcommand=\"pipe -c fax --flags n --command /bin/sh ${SITE}/fax $g $h -- $u\"
local/pipe*
\tcommand=\"pipe -c local --shell\"
gone/*
\tcommand=\"expirer -c gone -m gone-for-ever\"
old/*
\tcommand=\"reroute -c old\"
";

#[test]
fn programs_get_mail_of_their_clauses() {
    let site = Site::new(CLAUSES);
    site.write("sm.conf", "uucp m /bin/sh uux ${SITE}/uux -a$g $h!rmail ($u)\n");
    for name in ["uux", "fax"] {
        let out = site.path("mail").join(name);
        let text = format!("{{ echo \"$@\"; cat; }} >> {}\n", out.display());
        site.write(name, &text);
    }
    let alias = format!("|cat>{}", site.path("mail/alias").display());
    let daemon = site.start();
    site.put(&[
        "uucp node one",
        "uucp node two",
        "fax 0049-1 bob@x",
        &format!("local pipe.1 {alias}"),
        "gone gone.test dave | NOTIFY=NEVER",
        "old old.test erna",
    ]);
    site.until_empty();
    let uux = site.read("mail/uux");
    assert!(uux.starts_with("-asender@x node!rmail (two) (one)\nFrom sender@x "), "{uux}");
    let fax = site.read("mail/fax");
    let message = "Subject: test\n\nThis is the body.\n";
    assert_eq!(fax, format!("sender@x 0049-1 -- bob@x\n{message}"));
    assert!(site.read("mail/alias").ends_with(message));
    let [name] = &site.files("router")[..] else { panic!("one submission") };
    let submission = site.read(&format!("postoffice/router/{name}"));
    assert_eq!(submission, format!("from <sender@x>\nto <erna>\nenv-end\n{message}"));
    site.until_logged("gone-for-ever", 1);
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}

#[test]
fn wrong_sm_conf_shows_in_log_and_loses_nothing() {
    let site = Site::new(CLAUSES);
    site.write("sm.conf", "uucp - /bin/true true $x\n");
    let _daemon = site.start();
    site.put(&["uucp node one"]);
    until("the log names the place", || {
        site.logged("sm.conf:1:23: error: there is no macro `$x`") > 0
    });
    assert!(!site.is_empty());
    site.write("sm.conf", "uucp - /bin/true true $u\n");
    site.until_empty();
}
