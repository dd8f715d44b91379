//! Other programs as clients: Python's `smtplib`, curl, swaks, `smtp-source` of Postfix; Exim and
//! OpenSMTPD, which relay to the server.

use crate::support::{Site, peer, peer_path, skip, until};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

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

/// What other servers relay: dots, and text that is not ASCII.
const TEXT: &str =
    "From: s@x.test\nTo: alice@here.test\nSubject: relayed\n\n.\n..a\nGr\u{fc}\u{df}e\n";

/// The message is there once, for both recipients, as it was sent.
fn check_relayed(site: &Site) {
    let find = || site.submissions().into_iter().find(|text| text.contains("\nfrom <s@x.test>\n"));
    until("the message is there", || find().is_some());
    let text = find().expect("it is there");
    for line in ["from <s@x.test>", "to <alice@here.test>", "to <bob@here.test>"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(text.ends_with("\n\n.\n..a\nGr\u{fc}\u{df}e\n"), "{text}");
}

fn allow_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("our folder");
}

#[test]
fn exim_relays_to_the_server() {
    let Some(program) = peer_path("usr/sbin/exim4") else { return };
    let site = Site::new(SMTP);
    let daemon = site.start();
    let folder = site.path("exim");
    fs::create_dir(&folder).expect("a folder");
    [site.path(""), folder.clone()].iter().for_each(|path| allow_all(path));
    let (at, port, path) = (folder.display(), daemon.ports[0].port(), program.display());
    let configuration = format!(
        "exim_path = {path}\nprimary_hostname = exim.test\nspool_directory = {at}/spool\n\
         log_file_path = {at}/%slog\nkeep_environment =\nbegin routers\nrelay:\n\
         \x20 driver = manualroute\n  route_list = * 127.0.0.1\n  transport = relay\n  self = send\n\
         begin transports\nrelay:\n  driver = smtp\n  port = {port}\n"
    );
    fs::write(folder.join("conf"), configuration).expect("written");
    let mut exim = Command::new(program);
    exim.arg("-C").arg(folder.join("conf")).args(["-odf", "-oi", "-f", "s@x.test"]);
    exim.args(["alice@here.test", "bob@here.test", "nobody@here.test"]).stdin(Stdio::piped());
    let mut exim = exim.spawn().expect("Exim starts");
    exim.stdin.take().expect("a pipe").write_all(TEXT.as_bytes()).expect("written");
    assert!(exim.wait().expect("it ends").success());
    // The report about the refused one comes the same way.
    until("the report is there", || site.count("router") == 2);
    check_relayed(&site);
    assert!(
        site.submissions().iter().any(|text| text.contains("\nchannel error\nto <s@x.test>\n"))
    );
    let log = fs::read_to_string(folder.join("mainlog")).expect("a log");
    assert!(log.contains("C=\"250 2.0.0 Ok: queued as S"), "{log}");
    assert!(log.contains("** nobody@here.test") && log.contains("550 5.1.1"), "{log}");
}

/// Programs in namespaces of their own, all of which end with this.
struct Confined(Child);

impl Drop for Confined {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// OpenSMTPD knows its folders when it is built, so it gets file systems of its own there.
#[test]
fn opensmtpd_relays_to_the_server() {
    let Some(program) = peer_path("opensmtpd/usr/sbin/smtpd") else { return };
    if !zsched_sys::users::is_root() {
        return skip("OpenSMTPD needs root");
    }
    let site = Site::new(SMTP);
    let daemon = site.start();
    allow_all(&site.path(""));
    site.write(
        "smtpd.conf",
        format!(
            "action \"relay\" relay host \"smtp://127.0.0.1:{}\"\n\
             match from any for any action \"relay\"\n",
            daemon.ports[0].port()
        ),
    );
    site.write("text", TEXT);
    // Its `sendmail` must belong to the group of the queue.
    let script = "\
set -e
for folder in /var/spool /run /var/lib; do mount -t tmpfs none $folder; done
mkdir -p -m 711 /var/spool/smtpd /var/lib/opensmtpd/empty
cd $1
cp ${2%smtpd}smtpctl sendmail
chgrp opensmtpq sendmail
chmod 2755 sendmail
$2 -d -f smtpd.conf 2>smtpd-log &
while ! [ -S /run/smtpd.sock ]; do sleep 0.1; done
./sendmail -f s@x.test alice@here.test bob@here.test <text
wait
";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"]);
    command.arg(site.path("")).arg(program).stdin(Stdio::null());
    let confined = Confined(command.spawn().expect("unshare starts"));
    check_relayed(&site);
    drop(confined);
}
