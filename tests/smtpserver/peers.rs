//! Other programs as clients: Python's `smtplib`, curl, swaks, and `smtp-source` of Postfix.

use crate::support::{Site, peer};
use std::process::Command;

const SMTP: &str = "listen 127.0.0.1:0 smtp\n";

/// Runs a peer to its end.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

#[test]
fn python_sends_mail() {
    let site = Site::new(SMTP);
    let daemon = site.start();
    let script = "\
import smtplib, sys
smtp = smtplib.SMTP('127.0.0.1', int(sys.argv[1]))
refused = smtp.sendmail('s@x.test', ['alice@here.test', 'nobody@here.test'],
    'Subject: x\\r\\n\\r\\n.dot\\r\\n', mail_options=['BODY=8BITMIME', 'RET=HDRS'],
    rcpt_options=['NOTIFY=SUCCESS,DELAY'])
print(refused['nobody@here.test'][0])
smtp.send_message(__import__('email').message_from_string('From: a@x\\nTo: bob@here.test\\n\\nx'))
smtp.quit()
";
    let said =
        run(Command::new("python3").arg("-c").arg(script).arg(daemon.ports[0].port().to_string()));
    assert_eq!(said.trim(), "550");
    let all = site.submissions().concat();
    assert_eq!(site.count("router"), 2);
    assert!(all.contains("todsn NOTIFY=SUCCESS,DELAY\nto <alice@here.test>\n"), "{all}");
    assert!(all.contains("\n\n.dot\n"), "{all}");
}

#[test]
fn curl_sends_mail() {
    let site = Site::new(SMTP);
    let daemon = site.start();
    site.write("message", "Subject: x\r\n\r\n.\r\n..\r\nlast");
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--mail-from", "s@x.test", "--mail-rcpt", "alice@here.test"]);
    curl.arg("--upload-file").arg(site.path("message"));
    run(curl.arg(format!("smtp://{}/client.test", daemon.ports[0])));
    let text = &site.submissions()[0];
    assert!(text.ends_with("env-end\nSubject: x\n\n.\n..\nlast\n"), "{text}");
}

#[test]
fn swaks_sends_mail() {
    let Some(mut swaks) = peer("usr/bin/swaks") else { return };
    let site = Site::new(SMTP);
    let daemon = site.start();
    swaks.args(["--server", &daemon.ports[0].to_string(), "--helo", "client.test"]);
    let said = run(swaks.args(["--from", "s@x.test", "--to", "alice@here.test,bob@here.test"]));
    assert!(said.contains("250 2.0.0 Ok: queued as S"), "{said}");
    assert_eq!(site.count("router"), 1);
}

#[test]
fn smtp_source_sends_messages_in_parallel() {
    let Some(mut source) = peer("usr/sbin/smtp-source") else { return };
    let site = Site::new(SMTP);
    let daemon = site.start();
    source.args(["-c", "-s", "20", "-m", "500", "-l", "5000", "-f", "s@x.test"]);
    run(source.args(["-t", "alice@here.test", &daemon.ports[0].to_string()]));
    assert_eq!(site.count("router"), 500);
    assert_eq!(site.count("public"), 0);
    assert!(site.submissions().iter().all(|text| text.len() > 5000));
}
