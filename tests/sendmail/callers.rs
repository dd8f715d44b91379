//! Programs that send mail call it as `/usr/sbin/sendmail`.

use crate::support::{Installation, SENDMAIL, has_program, run, status_and_text};
use std::fs;

/// Fails unless the command succeeds. Returns the submission.
#[track_caller]
fn sent(site: &Installation, command: std::process::Command, input: &[u8]) -> String {
    let shown = format!("{command:?}");
    let output = run(command, input);
    let said =
        format!("{} {}", String::from_utf8_lossy(&output.stdout), status_and_text(&output).1);
    assert!(output.status.success(), "{shown}: {said}");
    site.take()
}

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

/// `mail()` of PHP passes `sendmail_path` to a shell, with the fifth argument behind it.
#[test]
fn php_sends_by_shell_command() {
    let site = Installation::new();
    let mut command = site.command("sh");
    command.args(["-c", "\"$0\" -t -i -f'www@example.org'", SENDMAIL]);
    let mail = "To: bob@example.net\r\nSubject: Order\r\nX-PHP-Originating-Script: 33:a.php\r\n\
                From: Shop <shop@example.org>\r\n\r\nThank you.\r\n.\r\nBye.";
    assert_eq!(
        sent(&site, command, mail.as_bytes()),
        "from <www@example.org>\nto <bob@example.net>\nenv-end\nTo: bob@example.net\nSubject: Order\n\
         X-PHP-Originating-Script: 33:a.php\nFrom: Shop <shop@example.org>\n\nThank you.\n.\nBye.\n"
    );
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

#[test]
fn python_sends_email_message() {
    let site = Installation::new();
    if !has_program("python3") {
        return;
    }
    let script = "import subprocess, sys\n\
        from email.message import EmailMessage\n\
        message = EmailMessage()\n\
        message['From'] = 'Al\u{ef}ce <alice@example.org>'\n\
        message['To'] = 'Bob <bob@example.net>, carol@example.net'\n\
        message['Bcc'] = 'dave@example.net'\n\
        message.set_content('One\\n.\\nTwo\\n')\n\
        subprocess.run([sys.argv[1], '-t', '-oi'], input=message.as_bytes(), check=True)\n";
    let mut command = site.command("python3");
    command.args(["-c", script, SENDMAIL]).env("PYTHONIOENCODING", "utf-8");
    let text = sent(&site, command, b"");
    let recipients: Vec<&str> = text.lines().filter(|line| line.starts_with("to ")).collect();
    assert_eq!(
        recipients,
        ["to <bob@example.net>", "to <carol@example.net>", "to <dave@example.net>"]
    );
    assert!(text.ends_with("\n\nOne\n.\nTwo\n") && !text.contains("Bcc"), "{text}");
}

#[test]
fn git_sends_patches() {
    let site = Installation::new();
    if !has_program("git") {
        return;
    }
    let git = |arguments: &[&str]| {
        let mut command = site.command("git");
        let settings =
            ["user.name=Al\u{ef}ce", "user.email=alice@example.org", "commit.gpgsign=false"];
        command.args(settings.iter().flat_map(|setting| ["-c", setting])).args(arguments);
        command.env("HOME", site.path("")).env("GIT_CONFIG_NOSYSTEM", "1");
        command
    };
    let patch = site.path("0001-one.patch");
    fs::write(
        &patch,
        "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n\
         From: =?UTF-8?q?Al=C3=AFce?= <alice@example.org>\nDate: Mon, 23 Nov 2026 10:00:00 +0000\n\
         Subject: [PATCH] one\n\n---\n a | 1 +\n\n-- \n2.39.0\n",
    )
    .expect("written");
    let server = format!("--smtp-server={SENDMAIL}");
    let command = git(&[
        "send-email",
        "--quiet",
        "--confirm=never",
        "--suppress-cc=all",
        &server,
        "--envelope-sender=bounces@example.org",
        "--to=Bob <bob@example.net>",
        "--cc=list@example.net",
        "--bcc=dave@example.net",
        patch.to_str().expect("text"),
    ]);
    let output = run(command, b"");
    let (status, said) = status_and_text(&output);
    if status != Some(0) && said.contains("not a git command") {
        return crate::support::not_run("git send-email: it is not installed");
    }
    assert_eq!(status, Some(0), "{said}");
    let text = site.take();
    let envelope = "from <bounces@example.org>\nto <bob@example.net>\nto <list@example.net>\n\
                    to <dave@example.net>\nenv-end\nFrom: ";
    assert!(text.starts_with(envelope), "{text}");
    assert!(text.contains("\nSubject: [PATCH] one\n") && !text.contains("Bcc: "), "{text}");
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
}
