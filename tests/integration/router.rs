//! The program `router` beside the scheduler: from a submission to a mailbox, or to a report.

use crate::support::router::Router;
use crate::support::{Site, until};
use std::fs;
use std::process::Command;

const MAILBOX: &str = "local/*\n\tcommand=\"mailbox -u -d ${SITE}/mail\"\n";

/// Creates a site whose router has these local users and aliases.
fn site_with(users: &str, aliases: &str) -> Site {
    let site = Site::new(MAILBOX);
    site.write("users", users);
    site.write("aliases", aliases);
    let paths = [site.path("users"), site.path("aliases")];
    let [users, aliases] = paths.each_ref().map(|path| path.display());
    site.write(
        "router.cf",
        &format!("hostname here.test\nusers file {users}\naliases {aliases}\n"),
    );
    site
}

/// Puts a submission into `router/`.
fn submit(site: &Site, text: &str) {
    let scratch = site.spool.postoffice().join("public/scratch");
    fs::write(&scratch, text).expect("written");
    fs::rename(scratch, site.spool.router().join("submission")).expect("renamed");
}

#[test]
fn submission_is_routed_delivered_and_refused() {
    let site = site_with("alice\nbob\n", "staff: alice, bob\n");
    let log = site.path("status");
    let scheduler = site.start_with(&["--status-log", &log.to_string_lossy()]);
    let _router = Router::start(&site);
    submit(
        &site,
        "from <alice@here.test>\nto <staff>\nto <nobody@here.test>\nenv-end\n\
         From: alice@here.test\nSubject: routed\n\nThis is the body.\n",
    );
    for user in ["alice", "bob"] {
        until("the mail is delivered", || {
            site.read(&format!("mail/{user}")).contains("This is the body.")
        });
        assert!(site.read(&format!("mail/{user}")).contains("Subject: routed"));
    }
    until("the sender has the report", || {
        site.read("mail/alice").contains("Final-Recipient: rfc822; nobody@here.test")
    });
    site.until_empty();
    let report = site.read("mail/alice");
    // The name of our user; the report was not about an attempt.
    let user = zsched_sys::users::account_of(zsched_sys::users::effective_user());
    let user = user.expect("it can be asked for").expect("we have an account").name;
    assert!(report.contains(&format!("Received: ({user}@")), "{report}");
    assert!(!report.contains("Last-Attempt-Date"), "{report}");
    let (_, reason) = report.split_once("The reason:").expect("a text for people");
    let (reason, _) = reason.split_once("Check ").expect("an advice");
    assert_eq!(reason.trim(), "no such user here", "only once");
    assert!(report.contains("Diagnostic-Code: x-local; 550 (no such user here)\n"), "{report}");
    until("the refusal is traced", || trace(&site, "nobody@here.test").contains("report S"));
    let trace = trace(&site, "nobody@here.test");
    assert!(trace.contains("  to nobody@here.test\n"), "{trace}");
    assert!(trace.contains(REFUSAL), "{trace}");
    scheduler.until_log_is_complete();
    assert!(site.logged("to=<nobody@here.test>, destination=error/unresolvable") == 1);
}

/// The owner of a list gets reports about its members only (RFC 3461, 5.2.7).
#[test]
fn sender_and_list_owner_get_their_own_reports() {
    let aliases = "list: alice, lost@here.test\nowner-list: carol\n";
    let site = site_with("alice\ncarol\n", aliases);
    let _scheduler = site.start();
    let _router = Router::start(&site);
    submit(
        &site,
        "from <alice@here.test>\nto <nobody@here.test>\nto <list@here.test>\nenv-end\n\
         From: alice@here.test\nSubject: routed\n\nThis is the body.\n",
    );
    let refused = |user: &str| format!("Final-Recipient: rfc822; {user}@here.test");
    until("both have a report", || {
        ["alice", "carol"].iter().all(|user| site.read(&format!("mail/{user}")).contains("Final-R"))
    });
    site.until_empty();
    let [alice, carol] = ["alice", "carol"].map(|user| site.read(&format!("mail/{user}")));
    assert!(alice.contains(&refused("nobody")) && !alice.contains(&refused("lost")), "{alice}");
    assert!(carol.contains(&refused("lost")) && !carol.contains(&refused("nobody")), "{carol}");
}

/// The sender asked for reports about these recipients, also if a list leads to them.
#[test]
fn sender_gets_reports_about_own_recipients_in_any_order() {
    let site = site_with("alice\nbob\ncarol\n", "list: bob, lost\nowner-list: carol\n");
    let _scheduler = site.start();
    let _router = Router::start(&site);
    for (round, names) in [["list", "lost", "bob"], ["bob", "lost", "list"]].into_iter().enumerate()
    {
        let recipients = names.map(|name| format!("todsn NOTIFY=SUCCESS,FAILURE\nto <{name}>\n"));
        let recipients = recipients.concat();
        submit(
            &site,
            &format!("from <alice@here.test>\n{recipients}env-end\nSubject: x\n\nbody\n"),
        );
        for name in names {
            let reported = format!("Final-Recipient: rfc822; {name}@here.test");
            until("the sender has the report", || {
                site.read("mail/alice").matches(&reported).count() == round + 1
            });
        }
        site.until_empty();
    }
    assert!(!site.path("mail/carol").exists(), "all members are recipients of the sender");
    assert_eq!(site.read("mail/bob").matches("Subject: x").count(), 2, "one copy of each message");
}

#[test]
fn sender_to_empty_list_gets_report() {
    let site = site_with("alice\ncarol\n", "");
    let empty = site.path("empty");
    let list = format!(":include:{}", empty.display());
    site.write("empty", "# no member yet\n");
    site.write("aliases", &format!("empty: {list}\nlist: {list}\nowner-list: carol\n"));
    let _scheduler = site.start();
    let _router = Router::start(&site);
    for name in ["empty", "list"] {
        let recipient = format!("todsn NOTIFY=SUCCESS,FAILURE\nto <{name}@here.test>");
        submit(&site, &format!("from <alice@here.test>\n{recipient}\nenv-end\nSubject: x\n\nx\n"));
        until("the sender has the report", || {
            site.read("mail/alice").contains(&format!("Final-Recipient: rfc822; {name}@here.test"))
        });
    }
    site.until_empty();
    let reports = site.read("mail/alice");
    assert_eq!(reports.matches("Action: failed").count(), 2, "{reports}");
    assert_eq!(reports.matches("Status: 5.2.4 (the list has no members)").count(), 2, "{reports}");
    assert!(!site.path("mail/carol").exists(), "the list has not got the message");
    assert_eq!(site.files("postman"), [""; 0]);
}

/// The list is refused, and the other recipient gets the message.
#[test]
fn sender_to_list_that_stays_unreadable_gets_report() {
    let aliases = "inc: :include:/nonexistent/list\nowner-inc: carol\n";
    let site = site_with("alice\nbob\ncarol\n", aliases);
    let scratch = site.spool.postoffice().join("public/scratch");
    let recipients = "to <inc@here.test>\nto <bob@here.test>";
    let text = format!("from <alice@here.test>\n{recipients}\nenv-end\nSubject: x\n\nx\n");
    fs::write(&scratch, text).expect("written");
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let yesterday = std::time::SystemTime::now() - day;
    let file = fs::File::open(&scratch).expect("it is there");
    file.set_modified(yesterday).expect("set");
    fs::rename(scratch, site.spool.router().join("submission")).expect("renamed");
    let _scheduler = site.start();
    let _router = Router::start(&site);
    until("the sender has the report", || {
        site.read("mail/alice").contains("Final-Recipient: rfc822; inc@here.test")
    });
    until("the other recipient has it", || site.read("mail/bob").contains("Subject: x"));
    site.until_empty();
    let report = site.read("mail/alice");
    assert!(report.contains("Status: 4.4.3 (the list cannot be read)"), "{report}");
    assert!(!report.contains("nonexistent"), "files are not the sender's business: {report}");
    assert_eq!(site.files("postman"), [""; 0]);
}

const REFUSAL: &str = "failed 5.1.1, error/unresolvable, no agent: no such user";

fn trace(site: &Site, what: &str) -> String {
    let mut mailq = Command::new(zsched_tests::program("mailq"));
    mailq.arg("-Z").arg(site.path("zmailer.conf")).args(["trace", what]);
    let output = mailq.arg("--status-log").arg(site.path("status")).output();
    String::from_utf8_lossy(&output.expect("mailq starts").stdout).into_owned()
}

#[test]
fn refusal_without_report_is_traced() {
    let site = site_with("alice\n", "");
    let log = site.path("status");
    let scheduler = site.start_with(&["--status-log", &log.to_string_lossy()]);
    let _router = Router::start(&site);
    for (sender, name) in
        [("from <alice@here.test>\ntodsn NOTIFY=NEVER", "never"), ("channel error", "report")]
    {
        let address = format!("{name}@here.test");
        submit(&site, &format!("{sender}\nto <{address}>\nenv-end\nSubject: x\n\nbody\n"));
        until("the refusal is traced", || trace(&site, &address).contains(REFUSAL));
        site.until_empty();
        let trace = trace(&site, &address);
        assert!(!trace.contains("report S"), "{trace}");
        scheduler.until_log_is_complete();
        assert_eq!(site.logged(&format!("to=<{address}>, destination=error/unresolvable")), 1);
    }
    assert!(!site.path("mail/alice").exists(), "no report");
    assert_eq!(site.files("postman"), [""; 0]);
}
