//! What senders are told about their mail.

use crate::support::{Client, Daemon, ReadReport, Site, control_file, until, until_within};
use expect_test::{Expect, expect};
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

const CLAUSES: &str = "c/*\n\texpiry=3d command=\"${AGENTS}/outcome.py c\"\n\
     late/*\n\texpiry=3d reporttimes=10m command=\"${AGENTS}/outcome.py late\"\n\
     old/*\n\texpiry=30m command=\"${AGENTS}/outcome.py old\"\n\
     w/*\n\texpiry=3d command=\"${AGENTS}/outcome.py w\"\n\
     q/*\n\texpiry=3d queueonly command=\"${AGENTS}/outcome.py q\"\n";
const HOUR: Duration = Duration::from_secs(3600);

fn site(parameters: &str) -> Site {
    Site::new(&format!("{parameters}{CLAUSES}"))
}

/// A control file with these lines before the recipients, from this sender.
fn control_file_from(name: &str, sender: &str, lines: &str, recipients: &[&str]) -> String {
    let text = control_file(name, recipients);
    text.replacen("s local - sender@x 0\n", &format!("{lines}s {sender}\n"), 1)
}

/// Puts a message that is an hour old into the spool.
fn put_old(site: &Site, name: &str, text: &str) {
    put_old_with_body(site, name, text, "This is the body.\n");
}

fn put_old_with_body(site: &Site, name: &str, text: &str, body: &str) {
    let path = site.path("postoffice/transport").join(format!(".{name}"));
    let message = site.path("postoffice/queue").join(name);
    fs::write(&message, format!("Subject: test\n\n{body}")).expect("a message file");
    let file = File::options().write(true).open(&message).expect("a file");
    file.set_modified(SystemTime::now() - HOUR).expect("its time is set");
    fs::write(&path, text).expect("a control file");
    fs::rename(path, site.path("postoffice/transport").join(name)).expect("renamed");
}

fn control(site: &Site) -> Client<std::os::unix::net::UnixStream> {
    Client::local(site, "postoffice/.scheduler.control")
}

/// The text of a control file; an empty one if it has left.
fn transport(site: &Site, name: &str) -> String {
    site.read(&format!("postoffice/transport/{name}"))
}

fn end(daemon: Daemon<'_>) {
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}

/// A submission without what differs between runs and machines.
fn normalized(submission: &str) -> String {
    const DATES: [&str; 7] = [
        "Date",
        "Arrival-Date",
        "Last-Attempt-Date",
        "Will-Retry-Until",
        "X-Delivered-Date",
        "rcvdfrom STDIN",
        "Arrived",
    ];
    let mut text = String::new();
    let boundary = submission.split_once("boundary=\"").and_then(|(_, rest)| rest.split_once('"'));
    let (boundary, _) = boundary.expect("a boundary");
    for line in submission.lines() {
        let name = line.split([':', '(']).next().unwrap_or_default().trim();
        if DATES.contains(&name) && line.contains([':', '(']) {
            let indent = &line[..line.len() - line.trim_start().len()];
            text += &format!("{indent}{name}: <removed>\n");
        } else if let Some((start, _)) = line.split_once(" after 1 hour") {
            text += &format!("{start} after <age>\n");
        } else if line.trim_start().starts_with("on ") && line.ends_with("+0000") {
            text += "            on <removed>\n";
        } else if let Some((start, _)) = line.split_once("Tried again until ") {
            text += &format!("{start}Tried again until <removed>.\n");
        } else {
            text += &format!("{}\n", line.replace(boundary, "<boundary>"));
        }
    }
    let host = submission.split_once("Reporting-MTA: dns; ").expect("a host").1;
    let host = host.lines().next().unwrap_or_default();
    let words = text.split_inclusive([' ', '\n', '(', ')', '[', ']', '<', '>', ',', ';']);
    words.map(|word| without_ids(&word.replace(host, "HOST"))).collect()
}

/// Replaces spool ids and times of day in a word.
fn without_ids(word: &str) -> String {
    let is_id = |word: &str| {
        let digits = word.strip_prefix('S').unwrap_or("x").find(|c: char| !c.is_ascii_digit());
        digits.is_some_and(|at| at > 0 && word[1 + at..].starts_with("Ab"))
    };
    // The last character of an id may be a hyphen.
    let core = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    match is_id(core) {
        true => format!("SPOOLID{}", &word[core.len()..]),
        false => word.to_string(),
    }
}

#[track_caller]
fn check(submission: &str, expected: &Expect) {
    ReadReport::checked(submission);
    expected.assert_eq(&normalized(submission));
}

#[test]
fn ten_outcomes_are_reported_as_requested() {
    // Without an attempt the reason for a delay does not depend on when the agent answers.
    let clauses = CLAUSES.replace("reporttimes=10m", "reporttimes=10m queueonly");
    let site = Site::new(&clauses);
    let recipients = [
        "c a.test quiet@a.test",
        "c a.test ok!loud@a.test | NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Loud+2B1@x",
        "c a.test error!refused@a.test",
        "c a.test error!never@a.test | NOTIFY=NEVER",
        "c a.test error2!by-agent@a.test | NOTIFY=FAILURE",
        "old a.test deferred!old@a.test",
        "late a.test deferred!asked@a.test | NOTIFY=DELAY",
        "late a.test deferred!default@a.test",
        "late a.test deferred!not-asked@a.test | NOTIFY=FAILURE",
    ];
    let second = "s local - owner@list 0\nr           c b.test error!member@b.test 0\n\
                  m\nSubject: list\n\n";
    let text = control_file("4711", &recipients) + second;
    let text = text.replace(
        "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Loud+2B1@x\n",
        "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Loud+2B1@x\nn ENV+3D1\n",
    );
    put_old(&site, "4711", &text);
    let daemon = site.start();
    until("all that is to be reported is noted", || {
        transport(&site, "4711").matches("\nd ").count() == 7
    });
    end(daemon);
    site.configure(&format!("PARAMglobal-report-interval=1s\n{clauses}"));
    let daemon = site.start();
    until("both senders have a report", || site.files("router").len() == 2);
    let reports = site.submissions();
    let (list, sender): (Vec<&String>, Vec<&String>) =
        reports.iter().partition(|report| report.contains("owner@list"));
    ReadReport::checked(sender[0]);
    let text = normalized(sender[0]);
    // Several agents and the scheduler note outcomes at the same time, in any order.
    let mut paragraphs: Vec<&str> = text.trim_end().split("\n\n").collect();
    paragraphs.sort_unstable();
    let expected = expect![[r#"
          Loud+1@x
            resolved to ok!loud@a.test
                    on <removed>
            Last attempt, at the mail server mx.test (192.0.2.1):
              delivered

          Subject: test
          Arrived: <removed>
          Logged as: SPOOLID

          deferred!asked@a.test
            The reason:
              delivery was not tried yet
            Tried again until <removed>.

          deferred!default@a.test
            The reason:
              delivery was not tried yet
            Tried again until <removed>.

          deferred!old@a.test
            Last attempt, at the mail server mx.test (192.0.2.1):
              expired after <age>
              mailbox full
            The mail system of the recipient could not be reached for too long.
            Send the message again later, or contact the recipient in another
            way.

          error!refused@a.test
            Last attempt, at the mail server mx.test (192.0.2.1):
              no such user
            Check the spelling of the address, or ask the recipient for the
            right one.

          error2!by-agent@a.test
            Last attempt, at the mail server mx.test (192.0.2.1):
              no such user
            Check the spelling of the address, or ask the recipient for the
            right one.

        --<boundary>
        Content-Type: message/delivery-status
        Content-Description: Report for programs
        Content-Transfer-Encoding: 7bit

        --<boundary>
        Content-Type: message/rfc822
        Content-Description: Original message
        Content-Transfer-Encoding: 7bit

        --<boundary>
        Content-Type: text/plain; charset="utf-8"
        Content-Description: Report for people
        Content-Transfer-Encoding: 7bit

        --<boundary>--

        Final-Recipient: rfc822; deferred!asked@a.test
        Action: delayed
        Status: 4.4.7 (delivery delayed)
        Diagnostic-Code: x-local; delivery was not tried yet
        Final-Log-ID: SPOOLID
        Will-Retry-Until: <removed>
        X-Destination: late/a.test

        Final-Recipient: rfc822; deferred!default@a.test
        Action: delayed
        Status: 4.4.7 (delivery delayed)
        Diagnostic-Code: x-local; delivery was not tried yet
        Final-Log-ID: SPOOLID
        Will-Retry-Until: <removed>
        X-Destination: late/a.test

        Final-Recipient: rfc822; deferred!old@a.test
        Action: failed
        Status: 5.4.7 (delivery time expired)
        Remote-MTA: dns; mx.test (192.0.2.1)
        Diagnostic-Code: smtp; 452 (mailbox full)
        Last-Attempt-Date: <removed>
        Final-Log-ID: SPOOLID
        X-Destination: old/a.test

        Final-Recipient: rfc822; error!refused@a.test
        Action: failed
        Status: 5.1.1 (no such user)
        Remote-MTA: dns; mx.test (192.0.2.1)
        Diagnostic-Code: smtp; 550 (no such user)
        Last-Attempt-Date: <removed>
        Final-Log-ID: SPOOLID
        X-Destination: c/a.test

        Final-Recipient: rfc822; error2!by-agent@a.test
        Action: failed
        Status: 5.1.1 (no such user)
        Remote-MTA: dns; mx.test (192.0.2.1)
        Diagnostic-Code: smtp; 550 (no such user)
        Last-Attempt-Date: <removed>
        Final-Log-ID: SPOOLID
        X-Destination: c/a.test

        If you need help, send this whole report to postmaster@HOST.

        Original-Envelope-Id: ENV=1
        Reporting-MTA: dns; HOST
        Arrival-Date: <removed>

        Original-Recipient: rfc822; Loud+1@x
        Final-Recipient: rfc822; ok!loud@a.test
        Action: delivered
        Status: 2.1.5 (delivered)
        Remote-MTA: dns; mx.test (192.0.2.1)
        Diagnostic-Code: smtp; 250 (delivered)
        Last-Attempt-Date: <removed>
        Final-Log-ID: SPOOLID
        X-Destination: c/a.test

        Subject: test

        The message is attached:

        This is the body.

        This is the mail system at HOST.

        Your message could not be delivered to 3 recipients, and is not tried
        again:

        Your message has not reached 2 recipients yet. It is tried again: you
        need not do anything, and need not send it again.

        Your message was delivered to 1 recipient:

        rcvdfrom STDIN: <removed>
        channel error
        errormsg
        todsn ORCPT=rfc822;sender@x
        to <sender@x>
        env-end
        To: <sender@x>
        From: "Mail Delivery System" <postmaster@HOST>
        Sender: <MAILER-DAEMON@HOST>
        Subject: Not delivered: your mail to 3 recipients
        Date: <removed>
        Message-ID: <SPOOLID>
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type="delivery-status";
         boundary="<boundary>"
        Content-Transfer-Encoding: 7bit
    "#]];
    expected.assert_eq(&format!("{}\n", paragraphs.join("\n\n")));
    check(
        list[0],
        &expect![[r#"
        rcvdfrom STDIN: <removed>
        channel error
        errormsg
        todsn ORCPT=rfc822;owner@list
        to <owner@list>
        env-end
        To: <owner@list>
        From: "Mail Delivery System" <postmaster@HOST>
        Sender: <MAILER-DAEMON@HOST>
        Subject: Not delivered: your mail to error!member@b.test
        Date: <removed>
        Message-ID: <SPOOLID>
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type="delivery-status";
         boundary="<boundary>"
        Content-Transfer-Encoding: 7bit

        --<boundary>
        Content-Type: text/plain; charset="utf-8"
        Content-Description: Report for people
        Content-Transfer-Encoding: 7bit

        This is the mail system at HOST.

        Your message could not be delivered to 1 recipient, and is not tried
        again:

          error!member@b.test
            Last attempt, at the mail server mx.test (192.0.2.1):
              no such user
            Check the spelling of the address, or ask the recipient for the
            right one.

        If you need help, send this whole report to postmaster@HOST.

        The message is attached:

          Subject: list
          Arrived: <removed>
          Logged as: SPOOLID

        --<boundary>
        Content-Type: message/delivery-status
        Content-Description: Report for programs
        Content-Transfer-Encoding: 7bit

        Reporting-MTA: dns; HOST
        Arrival-Date: <removed>

        Final-Recipient: rfc822; error!member@b.test
        Action: failed
        Status: 5.1.1 (no such user)
        Remote-MTA: dns; mx.test (192.0.2.1)
        Diagnostic-Code: smtp; 550 (no such user)
        Last-Attempt-Date: <removed>
        Final-Log-ID: SPOOLID
        X-Destination: c/b.test

        --<boundary>
        Content-Type: message/rfc822
        Content-Description: Original message
        Content-Transfer-Encoding: 7bit

        Subject: list

        This is the body.

        --<boundary>--
    "#]],
    );
    site.write("open", "");
    control(&site).order("RETRY late/*");
    site.until_empty();
    assert_eq!(site.files("router").len(), 2, "the deliveries are not reported");
    end(daemon);
}

#[test]
fn deadline_of_sender_fails_or_is_told() {
    let site = site("");
    put_old(&site, "1", &control_file("1", &["c a.test deferred!returned@a.test | BY=60;R"]));
    let _daemon = site.start();
    check(
        &site.until_submission(),
        &expect![[r#"
        rcvdfrom STDIN: <removed>
        channel error
        errormsg
        todsn ORCPT=rfc822;sender@x
        to <sender@x>
        env-end
        To: <sender@x>
        From: "Mail Delivery System" <postmaster@HOST>
        Sender: <MAILER-DAEMON@HOST>
        Subject: Not delivered: your mail to deferred!returned@a.test
        Date: <removed>
        Message-ID: <SPOOLID>
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type="delivery-status";
         boundary="<boundary>"
        Content-Transfer-Encoding: 7bit

        --<boundary>
        Content-Type: text/plain; charset="utf-8"
        Content-Description: Report for people
        Content-Transfer-Encoding: 7bit

        This is the mail system at HOST.

        Your message could not be delivered to 1 recipient, and is not tried
        again:

          deferred!returned@a.test
            The reason:
              deliver-by time passed after <age>
            The mail system of the recipient could not be reached for too long.
            Send the message again later, or contact the recipient in another
            way.

        If you need help, send this whole report to postmaster@HOST.

        The message is attached:

          Subject: test
          Arrived: <removed>
          Logged as: SPOOLID

        --<boundary>
        Content-Type: message/delivery-status
        Content-Description: Report for programs
        Content-Transfer-Encoding: 7bit

        Reporting-MTA: dns; HOST
        Arrival-Date: <removed>

        Final-Recipient: rfc822; deferred!returned@a.test
        Action: failed
        Status: 5.4.7 (delivery time expired)
        Diagnostic-Code: smtp; 500 (deliver-by time passed after <age>
        Final-Log-ID: SPOOLID
        X-Destination: c/a.test

        --<boundary>
        Content-Type: message/rfc822
        Content-Description: Original message
        Content-Transfer-Encoding: 7bit

        Subject: test

        This is the body.

        --<boundary>--
    "#]],
    );
    fs::remove_file(site.path("postoffice/router").join(&site.files("router")[0])).expect("taken");
    let late =
        ["q a.test deferred!told@a.test | BY=60;N", "q a.test deferred!no@a.test | NOTIFY=NEVER"];
    put_old(&site, "2", &control_file("2", &late));
    site.notify("NEW 2");
    check(
        &site.until_submission(),
        &expect![[r#"
        rcvdfrom STDIN: <removed>
        channel error
        errormsg
        todsn ORCPT=rfc822;sender@x
        to <sender@x>
        env-end
        To: <sender@x>
        From: "Mail Delivery System" <postmaster@HOST>
        Sender: <MAILER-DAEMON@HOST>
        Subject: Delayed, still trying: your mail to deferred!told@a.test
        Date: <removed>
        Message-ID: <SPOOLID>
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type="delivery-status";
         boundary="<boundary>"
        Content-Transfer-Encoding: 7bit

        --<boundary>
        Content-Type: text/plain; charset="utf-8"
        Content-Description: Report for people
        Content-Transfer-Encoding: 7bit

        This is the mail system at HOST.

        Your message has not reached 1 recipient yet. It is tried again: you
        need not do anything, and need not send it again.

          deferred!told@a.test
            The reason:
              delivery was not tried yet
            Tried again until <removed>.

        The headers of the message are attached:

          Subject: test
          Arrived: <removed>
          Logged as: SPOOLID

        --<boundary>
        Content-Type: message/delivery-status
        Content-Description: Report for programs
        Content-Transfer-Encoding: 7bit

        Reporting-MTA: dns; HOST
        Arrival-Date: <removed>

        Final-Recipient: rfc822; deferred!told@a.test
        Action: delayed
        Status: 4.4.7 (deliver-by time passed)
        Diagnostic-Code: x-local; delivery was not tried yet
        Final-Log-ID: SPOOLID
        Will-Retry-Until: <removed>
        X-Destination: q/a.test

        --<boundary>
        Content-Type: text/rfc822-headers
        Content-Description: Original message
        Content-Transfer-Encoding: 7bit

        Subject: test

        --<boundary>--
    "#]],
    );
    site.write("open", "");
    control(&site).order("RETRY q/*");
    site.until_empty();
    assert_eq!(site.files("router").len(), 1, "the delivery is not reported");
}

/// It would say that the recipient is tried again.
#[test]
fn delay_is_not_reported_after_the_end_of_a_recipient() {
    let site = site("PARAMglobal-report-interval=1h\n");
    let recipients = ["late a.test deferred!u1", "late a.test deferred!u2 | NOTIFY=DELAY"];
    put_old(&site, "1", &control_file("1", &recipients));
    let _daemon = site.start();
    until("the delays are noted", || transport(&site, "1").matches("\nd ").count() == 2);
    site.write("open", "");
    site.until_empty();
    assert_eq!(site.submissions(), [""; 0]);
}

#[test]
fn reports_about_reports_are_not_sent() {
    for (switch, stored) in [("0", 0), ("1", 1)] {
        let site = site(&format!("PARAMstore-error-on-error={switch}\n"));
        let recipients = ["c a.test error!a@a.test", "c a.test error2!b@a.test"];
        let text = control_file_from("7", "error - - 0", "", &recipients);
        put_old(&site, "7", &text);
        let daemon = site.start();
        site.until_empty();
        assert_eq!(site.files("router"), [""; 0]);
        let postman = site.files("postman");
        assert_eq!(postman.len(), stored, "{postman:?}");
        if let Some(name) = postman.first() {
            assert!(name.ends_with(":error-on-error"), "{name}");
            let text = site.read(&format!("postoffice/postman/{name}"));
            assert!(text.contains("a@a.test") && text.contains("b@a.test"), "{text}");
        }
        end(daemon);
    }
}

/// Failures within the interval are one report, and a later one is in another.
#[test]
fn later_failure_is_in_second_report() {
    let site = site("PARAMglobal-report-interval=1s\n");
    let _daemon = site.start();
    site.put(&["c a.test error!a", "c a.test error2!b", "w c.test wait!c"]);
    let reported = || site.submissions();
    let two = |report: &String| {
        let report = ReadReport::of(report);
        let mut recipients = report.recipients();
        recipients.sort_unstable();
        recipients == ["error!a", "error2!b"]
    };
    until("two are reported", || reported().iter().any(two));
    site.write("go", "");
    site.until_empty();
    let reports = reported();
    assert_eq!(reports.len(), 2, "{reports:?}");
    let last = reports.iter().find(|report| !two(report)).expect("a second report");
    assert_eq!(ReadReport::checked(last).recipients(), ["wait!c"]);
}

#[test]
fn many_recipients_are_few_bounded_reports() {
    let site = site("PARAMmsgwriteasync=1\n");
    let fail = |name: &str, count: usize| {
        let recipients: Vec<String> = (0..count).map(|n| format!("c a.test u{n}@a.test")).collect();
        let text = control_file(name, &recipients.iter().map(String::as_str).collect::<Vec<_>>());
        // Agents have failed all of them.
        put_old(&site, name, &text.replace("\nr           c", "\nr-          c"));
    };
    fail("1", 10_000);
    fail("2", 25_000);
    let _daemon = site.start();
    until_within(Duration::from_secs(120), "both have left", || site.is_empty());
    let reports: Vec<ReadReport> =
        site.submissions().iter().map(|one| ReadReport::of(one)).collect();
    let mut counts: Vec<usize> = reports.iter().map(|report| report.recipients().len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [5_000, 10_000, 10_000, 10_000]);
    let mut all: Vec<&str> = reports.iter().flat_map(ReadReport::recipients).collect();
    all.sort_unstable();
    let total = all.len();
    all.dedup();
    assert_eq!((total, all.len()), (35_000, 25_000));
}

#[test]
fn sender_and_size_decide_whether_body_is_returned() {
    let site = site("");
    let long = "This is a long line of the body.\n".repeat(2000);
    let put = |name: &str, lines: &str, body: &str| {
        let text = control_file(name, &[&format!("c a.test error!{name} | NOTIFY=FAILURE")]);
        put_old_with_body(
            &site,
            name,
            &text.replace("m\nSubject", &format!("{lines}m\nSubject")),
            body,
        );
    };
    let body = "This is the body.\n";
    put("1", "", body);
    put("2", "R HDRS\n", body);
    put("3", "R FULL\n", body);
    put("4", "R FULL\n", &long);
    let returned = || -> Vec<(String, String)> {
        site.until_empty();
        let reports = site.submissions();
        let reports = reports.iter().map(|report| ReadReport::checked(report));
        let mut found: Vec<_> = reports
            .map(|report| {
                assert!(report.original.contains("Subject: test\n"), "{report:?}");
                assert_eq!(
                    report.original.contains(" the body.\n"),
                    report.original_type == "rfc822"
                );
                (report.recipients()[0].to_string(), report.original_type.clone())
            })
            .collect();
        found.sort();
        found
    };
    let expected = |types: [&str; 4]| {
        let names = ["error!1", "error!2", "error!3", "error!4"].map(String::from);
        names.into_iter().zip(types.map(String::from)).collect::<Vec<_>>()
    };
    let headers = "rfc822-headers";
    let daemon = site.start();
    assert_eq!(returned(), expected(["rfc822", headers, "rfc822", headers]));
    end(daemon);
    for name in site.files("router") {
        fs::remove_file(site.path("postoffice/router").join(name)).expect("taken");
    }
    put("1", "", body);
    put("2", "R HDRS\n", body);
    put("3", "R FULL\n", body);
    put("4", "", &long);
    let _daemon = site.start_with(&["-n"]);
    assert_eq!(returned(), expected([headers, headers, "rfc822", headers]));
}

#[test]
fn forms_of_languages_are_used() {
    let site = site("");
    site.add_zenv(&format!("MAILSHARE={}", site.path("share").display()));
    for (folder, text) in [("", "Unfortunately not.\n"), ("de", "Leider nicht.\n"), ("fr", "")] {
        let folder = site.path("share/forms").join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("delivery"), format!("HDR From: us <postmaster>\n\n{text}"))
            .expect("a form");
    }
    // This one lacks a name of a header.
    fs::write(site.path("share/forms/fr/delivery"), "HDR no header\n\nHelas.\n").expect("a form");
    let of = |name: &str, header: &str| {
        let text = control_file(name, &[&format!("c a.test error!{name}")]);
        put_old(&site, name, &text.replace("m\nSubject", &format!("m\n{header}Subject")));
    };
    of("1", "");
    of("2", "Accept-Language: de-AT, en;q=0.5\n");
    of("3", "Accept-Language: fr\n");
    // A form of `errormail`.
    fs::write(site.path("share/forms/de/unresolvable"), "SUB Wrong\n").expect("a form");
    let checked = site.run(&["-t"]);
    let mistake = "share/forms/fr/delivery:1";
    let said = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
    assert!(said.contains(mistake) && said.contains("the form is not used"), "{said}");
    assert!(said.contains("share/forms/de/unresolvable:1:5"), "{said}");
    let _daemon = site.start();
    site.until_empty();
    assert!(
        site.logged(mistake) + site.read("output").matches(mistake).count() > 0,
        "{}",
        site.log()
    );
    let reports = site.submissions();
    for (name, text) in [("error!1", "Unfortunately not."), ("error!2", "Leider nicht.")] {
        let of = reports.iter().map(|report| ReadReport::checked(report));
        let report = of.into_iter().find(|report| report.recipients() == [name]).expect("a report");
        assert!(report.text.contains(text), "{}", report.text);
    }
    assert_eq!(reports.len(), 3);
    assert!(!reports.iter().any(|report| report.contains("Helas")));
}

#[test]
fn unusual_error_addresses_get_reports() {
    let site = site("");
    let senders = [
        ("1", "|/bin/program", "postmaster"),
        ("2", "/var/spool/file", "postmaster"),
        ("3", "/C=de/O=x/S=y/@gate", "/C=de/O=x/S=y/@gate"),
        ("4", "b\u{f6}b@b\u{fc}cher.test", "b\u{f6}b@b\u{fc}cher.test"),
    ];
    for (name, sender, _) in senders {
        let recipient = format!("c a.test error!r\u{e4}t{name}");
        put_old(
            &site,
            name,
            &control_file_from(name, &format!("local - {sender} 0"), "", &[&recipient]),
        );
    }
    // This line overrides the sender only if it comes after it.
    let text = control_file_from(
        "5",
        "local - sender@x 0",
        "e <games@x>\ne games@x\n",
        &["c a.test error!5"],
    );
    put_old(&site, "5", &text);
    let _daemon = site.start();
    site.until_empty();
    let reports = site.submissions();
    let mut found: Vec<(String, String)> = reports
        .iter()
        .map(|report| ReadReport::checked(report))
        .map(|report| (report.recipients()[0].to_string(), report.to.join(" ")))
        .collect();
    found.sort();
    let mut expected: Vec<(String, String)> = senders
        .iter()
        .map(|(name, _, to)| (format!("error!r\u{e4}t{name}"), to.to_string()))
        .chain([("error!5".to_string(), "sender@x".to_string())])
        .collect();
    expected.sort();
    assert_eq!(found, expected);
}

/// Control files as agents and scheduler of the original have left them.
#[test]
fn recorded_failures_are_reported_with_all_facts() {
    let folder = zsched_tests::source().join("tests/data/compat/control-files-after/run1");
    let mut checked = 0;
    for number in fs::read_dir(folder).expect("recordings").flatten() {
        let versions = fs::read_dir(number.path()).expect("versions").flatten();
        let Some(last) = versions.map(|version| version.path()).max() else {
            continue;
        };
        let text = String::from_utf8_lossy(&fs::read(last).expect("a recording")).into_owned();
        // Lines that are reported already are to be reported again.
        let text = text.replace("\nd+", "\nd ");
        if !text.contains("\nd ") {
            continue;
        }
        // Recipients without an end have been delivered.
        let text = text.replace("\nr ", "\nr+").replace("\nr~", "\nr+");
        let site = site("");
        let name = number.file_name().into_string().expect("a number");
        put_old(&site, &name, &text);
        let daemon = site.start();
        site.until_empty();
        end(daemon);
        let reports = site.submissions();
        let all: Vec<ReadReport> = reports.iter().map(|one| ReadReport::checked(one)).collect();
        for line in text.lines().filter_map(|line| line.strip_prefix("d ")) {
            let (offset, rest) = line.split_once(':').expect("an offset");
            let recipient = &text[offset.parse::<usize>().expect("an offset")..];
            let is_of = |line: &&str| line.starts_with("N ");
            let notify = recipient.lines().nth(1).filter(is_of).unwrap_or_default();
            let [_, notary, message] = rest.splitn(3, '\t').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let fields: Vec<&str> = notary.split('\x01').collect();
            let is_expiry = message.trim_start().starts_with("expired after");
            let word = match (is_expiry, fields[1]) {
                (true, _) | (_, "failed") => "FAILURE",
                (_, "delayed") => "DELAY",
                _ => "SUCCESS",
            };
            let is_wanted = match notify.contains("NOTIFY=") {
                true => notify.contains(word),
                false => word != "SUCCESS",
            };
            let user = recipient.lines().next().and_then(|line| line.split(' ').nth_back(1));
            let has_user = |report: &&ReadReport| {
                report.recipients().contains(&user.unwrap_or("?"))
                    || report.recipients().contains(&fields[0])
            };
            // The reports of the original are not reported.
            let is_wanted = is_wanted && !text.contains("\ns error ");
            let report = all.iter().find(has_user);
            assert_eq!(report.is_some(), is_wanted, "{name}: {line}: {all:?}");
            let Some(report) = report else { continue };
            let status = fields[2].split(' ').next().unwrap_or_default();
            if !is_expiry {
                let has = |name: &str, value: &str| {
                    report.values(name).iter().any(|found| found.starts_with(value))
                };
                assert!(
                    has("Action", fields[1]) && has("Status", status),
                    "{name}: {line}: {report:?}"
                );
            }
            let first = message.split('\r').rfind(|part| !part.is_empty()).unwrap_or_default();
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words(&report.text).contains(&words(first)), "{name}: {line}: {report:?}");
            checked += 1;
        }
    }
    assert!(checked > 5, "{checked} lines");
}

/// Nothing is lost while the router's folder is missing, as on a file system that is not mounted.
#[test]
fn missing_router_folder_delays_reports_and_rerouting() {
    let site = site("");
    let daemon = site.start();
    let [router, aside] = ["router", "router-aside"].map(|name| site.path("postoffice").join(name));
    fs::rename(&router, &aside).expect("moved");
    let failed = site.put(&["c a.test error!a"]).to_string();
    until("the log says so", || site.logged("router/: POSTOFFICE/router is missing, or") >= 1);
    let rerouted = site.put(&["q b.test u"]).to_string();
    let mut client = control(&site);
    until("it is known", || client.order("RETRY q/* dry-run=yes")["messages"] == 1);
    let answer = client.refused(&format!("REROUTE id={rerouted}"));
    assert!(answer.contains("could not be stored"), "{answer}");
    end(daemon);
    let mut left = [rerouted, failed];
    left.sort();
    assert_eq!(site.files("transport"), left);
    let daemon = site.start();
    fs::rename(&aside, &router).expect("moved back");
    until("the report is sent", || site.files("router").len() == 1);
    // The order has failed with the former scheduler.
    let mut client = control(&site);
    client.order("REROUTE q/*");
    site.until_empty();
    assert_eq!(site.files("router").len(), 2);
    end(daemon);
}

#[test]
fn orders_do_not_lose_owed_reports() {
    let site = site("PARAMglobal-report-interval=1h\n");
    let mut daemon = site.start();
    let mut client = control(&site);
    let put = |name: &str| {
        let rest = format!("q {name}.test u");
        let name = site.put(&["c a.test error2!a", &rest]);
        until("a report is owed", || transport(&site, &name.to_string()).contains("\nd "));
        name
    };
    let taken = || {
        let text = site.until_submission();
        let name = site.files("router").remove(0);
        fs::remove_file(site.path("postoffice/router").join(name)).expect("taken");
        ReadReport::checked(&text)
            .recipients()
            .iter()
            .map(|one| one.to_string())
            .collect::<Vec<_>>()
    };
    let is_gone = |name: &str| transport(&site, name).is_empty();

    let deleted = put("deleted");
    client.order(&format!("DELETE id={deleted}"));
    assert_eq!(taken(), ["error2!a"]);
    until("it has left", || is_gone(&deleted.to_string()));

    let expired = put("expired");
    client.order(&format!("EXPIRE id={expired}"));
    assert_eq!(taken(), ["error2!a", "u"]);
    until("it has left", || is_gone(&expired.to_string()));

    let rerouted = put("rerouted");
    client.order(&format!("REROUTE id={rerouted}"));
    until("both are in router/", || site.files("router").len() == 2);
    let is_report = |text: &String| text.contains("\nerrormsg\n");
    assert_eq!(site.submissions().iter().filter(|text| is_report(text)).count(), 1);
    for name in site.files("router") {
        fs::remove_file(site.path("postoffice/router").join(name)).expect("taken");
    }
    until("it has left", || is_gone(&rerouted.to_string()));

    let requested = put("requested");
    client.ask("ETRN requested.test");
    assert_eq!(taken(), ["error2!a"]);
    until("it has left", || is_gone(&requested.to_string()));
    daemon.assert_runs();
}

/// The hold is about recipients that wait, not about what has failed before.
#[test]
fn report_of_held_message_is_sent() {
    let site = site("PARAMglobal-report-interval=2s\n");
    let _daemon = site.start();
    let mut client = control(&site);
    let name = site.put(&["c a.test error2!a", "q b.test u"]);
    until("a report is owed", || transport(&site, &name.to_string()).contains("\nd"));
    client.order(&format!("HOLD id={name}"));
    assert_eq!(ReadReport::checked(&site.until_submission()).recipients(), ["error2!a"]);
    assert!(transport(&site, &name.to_string()).contains("\nd+"));
    client.order(&format!("DELETE id={name}"));
    site.until_empty();
    assert_eq!(site.files("router").len(), 1);
}

#[test]
fn reload_changes_how_reports_are_sent() {
    let clauses = |switches: &str| format!("{switches}{CLAUSES}");
    let site = Site::new(&clauses("PARAMmsgwriteasync=1\nPARAMstore-error-on-error=0\n"));
    let daemon = site.start();
    let put = |name: &str| {
        let text = control_file_from(name, "error - - 0", "", &["c a.test error!a@a.test"]);
        put_old(&site, name, &text);
        site.put(&["c a.test error!b@a.test"]);
        site.notify(&format!("NEW {name}"));
        site.until_empty();
    };
    put("1");
    assert_eq!((site.files("postman").len(), site.files("router").len()), (0, 1));
    site.configure(&clauses("PARAMmsgwriteasync=0\nPARAMstore-error-on-error=1\n"));
    daemon.signal(libc::SIGUSR1);
    site.until_logged("scheduler.cf: configuration loaded", 1);
    put("2");
    assert_eq!((site.files("postman").len(), site.files("router").len()), (1, 2));
}
