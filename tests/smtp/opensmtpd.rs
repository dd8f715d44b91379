//! OpenSMTPD as the peer, in a root folder of its own, since its paths and users are fixed.
//!
//! `.ci/run` unpacks it into the folder `ZSCHED_PEERS`. All mail stays in its queue.

use crate::servers::{
    allow, asked_by_swaks, body, free_port, server_of_root, texts, wait_for_port,
};
use crate::support::{agent, deliver, outcomes};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const USERS: [&str; 3] = ["ann@b.test", "bob@b.test", "eve@b.test"];

struct OpenSmtpd(Child);

impl Drop for OpenSmtpd {
    fn drop(&mut self) {
        // It ends its own processes.
        let pid = self.0.id().to_string();
        let is_sent = Command::new("kill").arg(pid).status().is_ok_and(|status| status.success());
        if is_sent {
            self.0.wait().ok();
        }
    }
}

/// Makes the root folder: the program with its libraries, users, and a configuration.
fn make_root(root: &Path, program: &Path, port: u16) {
    allow(root, 0o755);
    for name in
        ["dev", "etc/ssl", "usr/sbin", "var/run", "var/spool/smtpd", "var/lib/opensmtpd/empty"]
    {
        fs::create_dir_all(root.join(name)).expect("a folder");
    }
    allow(&root.join("var/spool/smtpd"), 0o711);
    for name in ["dev/null", "dev/urandom"] {
        fs::write(root.join(name), "").expect("write a file");
    }
    let libraries = Command::new("ldd").arg(program).output().expect("ldd");
    let libraries = String::from_utf8_lossy(&libraries.stdout).into_owned();
    for library in libraries.split_ascii_whitespace().filter(|word| word.starts_with('/')) {
        let copy = root.join(&library[1..]);
        fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
        fs::copy(library, copy).expect("copy a library");
    }
    fs::copy(program, root.join("usr/sbin/smtpd")).expect("copy the program");
    let write = |name: &str, text: &str| {
        fs::write(root.join("etc").join(name), text).expect("write a file");
    };
    let home = "/var/lib/opensmtpd/empty:/bin/sh";
    write(
        "passwd",
        &format!(
            "root:x:0:0::/:/bin/sh\nopensmtpd:x:990:990::{home}\nopensmtpq:x:991:991::{home}\n"
        ),
    );
    write("group", "root:x:0:\nopensmtpd:x:990:\nopensmtpq:x:991:\n");
    write("nsswitch.conf", "passwd: files\ngroup: files\n");
    write("hosts", "127.0.0.1 localhost\n");
    write("mailname", "opensmtpd.test\n");
    write(
        "smtpd.conf",
        &format!(
            "smtp max-message-size 1M\nlisten on 127.0.0.1 port {port}\n\
             action \"store\" relay host \"smtp://127.0.0.1:9\"\n\
             match from any for rcpt-to {{ \"ann@b.test\", \"eve@b.test\" }} action \"store\"\n"
        ),
    );
}

#[test]
fn opensmtpd_answers_for_each_recipient() {
    let Some(program) = server_of_root("opensmtpd/usr/sbin/smtpd", "opensmtpd") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (root, port) = (folder.path().join("root"), free_port());
    fs::create_dir(&root).expect("a folder");
    make_root(&root, &program, port);
    let log = fs::File::create(folder.path().join("log")).expect("a file");
    let child = Command::new("chroot")
        .arg(&root)
        .args(["/usr/sbin/smtpd", "-d"])
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("another descriptor"))
        .stderr(log)
        .spawn()
        .expect("OpenSMTPD starts");
    let _server = OpenSmtpd(child);
    let log = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    wait_for_port(port, log);
    // Another client gets the same answers.
    if let Some(answers) = asked_by_swaks(port, &USERS) {
        assert_eq!(answers, "+-+");
    }
    let (host, mut agent) = (format!("[127.0.0.1]:{port}"), agent());
    for text in [body() + "\n", body() + "\n.\n"] {
        let run = deliver(&mut agent, &host, &USERS, &text);
        let expected = "ann ok3, bob error2 5.0.0, eve ok3";
        assert_eq!(outcomes(&run, &USERS), expected, "{:?} {}", run.reports, log());
        let stored = texts(&root.join("var/spool/smtpd/queue"));
        assert!(stored.iter().any(|message| message.ends_with(&text)), "{stored:?}");
    }
    let run = deliver(&mut agent, &host, &USERS[..1], &"x\n".repeat(600_000));
    assert_eq!(outcomes(&run, &USERS[..1]), "ann error2 5.3.4", "{:?}", run.reports);
}
