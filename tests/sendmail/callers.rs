//! The command lines of programs that send mail by `/usr/sbin/sendmail`.

use crate::support::{Installation, run};
use std::fs;

/// Debian's cron, cronie and systemd-cron.
#[test]
fn cron_sends_output_of_jobs() {
    let site = Installation::new();
    let mail = "From: root (Cron Daemon)\nTo: alice\nSubject: Cron <alice@host> run\n\
                Content-Type: text/plain; charset=UTF-8\nX-Cron-Env: <HOME=/home/alice>\n\noutput\n";
    for arguments in [
        &["-i", "-FCronDaemon", "-B8BITMIME", "-oem", "alice"][..],
        &["-FCronDaemon", "-i", "-odi", "-oem", "-oi", "-t", "-f", "root"],
        &["-i", "-B8BITMIME", "-t"],
    ] {
        let text = site.send(arguments, mail.as_bytes());
        assert!(text.contains("\nto <alice>\nenv-end\nFrom: root (Cron Daemon)\n"), "{text}");
        assert!(text.ends_with("\n\noutput\n"), "{text}");
    }
}

#[test]
fn mailman_sends_to_members_of_list() {
    let site = Installation::new();
    let arguments = ["-oi", "-odb", "-f", "list-bounces@example.org", "a@x.example", "b@y.example"];
    assert_eq!(
        site.send(&arguments, b"From: c@z\nTo: list@example.org\n\nhi\n"),
        "from <list-bounces@example.org>\nto <a@x.example>\nto <b@y.example>\nenv-end\n\
         From: c@z\nTo: list@example.org\n\nhi\n"
    );
}

/// Majordomo and Mailman 2 name all members on the command line.
#[test]
fn list_of_many_members_is_one_submission() {
    let site = Installation::new();
    let members: Vec<String> =
        (0..2000).map(|number| format!("member{number}@x.example")).collect();
    let mut arguments = vec!["-f", "owner-list@example.org", "-oi"];
    arguments.extend(members.iter().map(String::as_str));
    let text = site.send(&arguments, b"From: c@z\nTo: list@example.org\n\n.\nhi\n");
    let (envelope, message) = text.split_once("env-end\n").expect("an envelope");
    assert_eq!(envelope.lines().next(), Some("from <owner-list@example.org>"));
    let expected: Vec<String> = members.iter().map(|member| format!("to <{member}>")).collect();
    assert!(envelope.lines().skip(1).eq(&expected), "{envelope}");
    assert_eq!(message, "From: c@z\nTo: list@example.org\n\n.\nhi\n");
}

/// Logwatch, logcheck and apticron write all headers themselves.
#[test]
fn system_reports_name_recipients_in_headers() {
    let site = Installation::new();
    let mail = "To: root\nFrom: Logwatch <root>\nSubject: Logwatch for host (Linux)\n\
                Content-Transfer-Encoding: 8bit\nContent-Type: text/plain; charset=\"UTF-8\"\n\n\
                 ################### Logwatch ####################\n \u{fc}\n";
    for arguments in [&["-t"][..], &["-t", "-oi"], &["-oi", "-oem", "-odb", "-t"]] {
        let text = site.send(arguments, mail.as_bytes());
        assert!(text.ends_with(&format!("\nto <root>\nenv-end\n{mail}")), "{text}");
    }
}

/// mutt, s-nail and mailutils.
#[test]
fn mail_readers_send() {
    let site = Installation::new();
    for arguments in [
        &["-oem", "-oi", "-f", "me@x", "-N", "failure,delay", "-R", "hdrs", "--", "bob@y"][..],
        &["-i", "-m", "-r", "me@x", "--", "bob@y"],
        &["-oi", "-f", "me@x", "-t"],
        &["-i", "-Am", "-f", "me@x", "bob@y"],
    ] {
        let text = site.send(arguments, b"From: me@x\nTo: bob@y\n\nhi\n");
        assert!(
            text.contains("from <me@x>\n") && text.contains("\nto <bob@y>\nenv-end\n"),
            "{text}"
        );
    }
}

/// A mail program that speaks SMTP to `sendmail -bs`, with line ends of either kind.
#[test]
fn smtp_on_standard_input_takes_mail() {
    let site = Installation::new();
    site.add_zenv(&format!("MAILSHARE={}", site.path("").display()));
    fs::write(site.path("router.cf"), "users any\nrefuse *.invalid 5.1.2\nlocal here.test\n")
        .expect("written");
    // It is recorded where the caller may write.
    let status = site.path("smtp-status");
    fs::write(&status, "").expect("written");
    site.add_zenv(&format!("SMTPSTATUSLOG={}", status.display()));
    for end in ["\n", "\r\n"] {
        let script = "EHLO me\nMAIL FROM:<alice@here.test>\nRCPT TO:<a@b.invalid>\n\
            RCPT TO:<bob@far.test> NOTIFY=SUCCESS\nDATA\nSubject: x\n\n..dot\n.\nQUIT\n";
        let output = run(site.sendmail(&["-bs"]), script.replace('\n', end).as_bytes());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        let codes: Vec<&str> = said
            .lines()
            .filter(|line| line.as_bytes().get(3) == Some(&b' '))
            .map(|line| &line[..3])
            .collect();
        assert_eq!(codes, ["220", "250", "250", "550", "250", "354", "250", "221"], "{said}");
        let expected = "rcvdfrom me (stdin)\nwith ESMTP\nfrom <alice@here.test>\n\
            todsn NOTIFY=SUCCESS\nto <bob@far.test>\nenv-end\nSubject: x\n\n.dot\n";
        assert_eq!(site.take(), expected);
    }
    let recorded = fs::read_to_string(&status).expect("a log");
    assert_eq!(recorded.matches(r#""status":"accepted""#).count(), 2, "{recorded}");
    assert_eq!(recorded.matches(r#""recipient":"a@b.invalid""#).count(), 2, "{recorded}");
    assert!(recorded.contains(r#""client":"me[stdin]""#), "{recorded}");
}
