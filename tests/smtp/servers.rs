//! Dovecot's LMTP server and Exim as peers: what they store, and what they say of each recipient.
//!
//! `.ci/run` installs Dovecot, and unpacks Exim into the folder `ZSCHED_PEERS`. With `CI` set, a
//! test fails where its server is absent; elsewhere it says so.

use crate::support::{agent, agent_with, deliver, outcomes};
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use zsched_smtp::dialer::ClientOptions;

/// Time after which a test gives up.
const DEADLINE: Duration = Duration::from_secs(30);
/// The user `nobody`, who owns what Dovecot stores.
const NOBODY: u32 = 65534;
/// Dots, 8-bit text, a long line, and no end of the last line.
const LINES: [&str; 4] = [".", "..a", "Grüße", "end"];

pub(crate) fn body() -> String {
    format!("{}{}", LINES.join("\n"), "x".repeat(900))
}

/// The path of a program, if it is there: `usr/sbin/exim4`.
pub(crate) fn server(name: &str, package: &str) -> Option<PathBuf> {
    let peers = std::env::var_os("ZSCHED_PEERS").map(PathBuf::from);
    let unpacked = peers.map(|peers| peers.join(name));
    let paths = unpacked.into_iter().chain([Path::new("/").join(name)]);
    let found = paths.into_iter().find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{name} is missing (Debian package {package})");
        println!("*** NOT RUN: {name} is missing (Debian package {package})");
    }
    found
}

pub(crate) fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our folder");
}

/// The text of all files below a folder.
pub(crate) fn texts(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => found.extend(texts(&entry.path())),
            false => {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                found.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
            }
        }
    }
    found
}

/// Returns a program that only root can start, if it is there and the tests run as root.
pub(crate) fn server_of_root(name: &str, package: &str) -> Option<PathBuf> {
    let program = server(name, package)?;
    if !zsched_sys::users::is_root() {
        let why = format!("only root can start {}", program.display());
        assert!(std::env::var_os("CI").is_none(), "{why}");
        println!("*** NOT RUN: {why}");
        return None;
    }
    Some(program)
}

/// Waits until a server listens on a port of 127.0.0.1.
pub(crate) fn wait_for_port(port: u16, log: impl Fn() -> String) {
    let started = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(started.elapsed() < DEADLINE, "the server does not listen: {}", log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port that is free now, and that the kernel gives to no other test meanwhile.
///
/// The ports that Linux chooses begin at 32768.
pub(crate) fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..30_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Asks swaks, another client, what a server says about recipients: `+` or `-` for each.
pub(crate) fn asked_by_swaks(port: u16, users: &[&str]) -> Option<String> {
    let swaks = server("usr/bin/swaks", "swaks")?;
    let one = |user: &&str| {
        let mut command = Command::new("perl");
        command.arg(&swaks).args(["--server", &format!("127.0.0.1:{port}"), "--to", user]);
        command.args(["--from", "alice@a.test", "--ehlo", "client.test", "--quit-after", "RCPT"]);
        let output = command.stdin(Stdio::null()).output().expect("perl");
        if output.status.success() { '+' } else { '-' }
    };
    Some(users.iter().map(one).collect())
}

struct Dovecot {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        // It ends its own processes when it gets SIGTERM.
        let pid = self.child.id().to_string();
        let is_sent = Command::new("kill").arg(pid).status().is_ok_and(|status| status.success());
        if is_sent {
            self.child.wait().ok();
        }
    }
}

impl Dovecot {
    fn start() -> Option<Dovecot> {
        let program = server("usr/sbin/dovecot", "dovecot-lmtpd")?;
        let folder = tempfile::tempdir().expect("a folder");
        allow(folder.path(), 0o755);
        for name in ["run", "state", "home"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        // Dovecot stores nothing as root.
        let (user, uid) = match zsched_sys::users::is_root() {
            true => ("dovecot".to_string(), NOBODY),
            false => (name_of_user(), zsched_sys::users::effective_user()),
        };
        chown(folder.path().join("home"), Some(uid), None).expect("given away");
        let at = folder.path().display();
        let configuration = format!(
            "protocols = lmtp\nbase_dir = {at}/run\nstate_dir = {at}/state\nssl = no\n\
             default_internal_user = {user}\ndefault_login_user = {user}\nlog_path = {at}/log\n\
             mail_location = maildir:~/mail\nfirst_valid_uid = 1\nfirst_valid_gid = 1\n\
             postmaster_address = postmaster@b.test\nlmtp_user_concurrency_limit = 10\n\
             passdb {{\n driver = static\n args = nopassword=y\n}}\n\
             userdb {{\n driver = passwd-file\n args = username_format=%u {at}/users\n}}\n\
             service lmtp {{\n chroot =\n unix_listener lmtp {{\n mode = 0600\n }}\n}}\n\
             service anvil {{\n chroot =\n}}\n"
        );
        let one = |user: &str| format!("{user}@b.test::{uid}:{uid}::{at}/home/{user}::\n");
        fs::write(folder.path().join("users"), one("ann") + &one("bob")).expect("write a file");
        fs::write(folder.path().join("dovecot.conf"), configuration).expect("write a file");
        let child = Command::new(program)
            .args(["-F", "-c"])
            .arg(folder.path().join("dovecot.conf"))
            .stdin(Stdio::null())
            .spawn()
            .expect("Dovecot starts");
        let dovecot = Dovecot { child, folder };
        let started = Instant::now();
        while UnixStream::connect(dovecot.folder.path().join("run/lmtp")).is_err() {
            assert!(started.elapsed() < DEADLINE, "Dovecot does not listen: {}", dovecot.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(dovecot)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

#[test]
fn dovecot_answers_for_each_recipient() {
    let Some(dovecot) = Dovecot::start() else { return };
    let host = dovecot.folder.path().join("run/lmtp").display().to_string();
    let options = ClientOptions { lmtp: true, ..ClientOptions::default() };
    let mut agent = agent_with("", options, None);
    let users = ["ann@b.test", "unknown@b.test", "bob@b.test"];
    for _ in 0..3 {
        let run = deliver(&mut agent, &host, &users, &body());
        let expected = "ann ok3, unknown error2 5.1.1, bob ok3";
        let found = outcomes(&run, &users);
        assert_eq!(found, expected, "{:?} {}", run.reports, dovecot.log());
    }
    for user in ["ann", "bob"] {
        let letters = texts(&dovecot.folder.path().join(format!("home/{user}/mail/new")));
        assert_eq!(letters.len(), 3, "{user}");
        let end = format!("Subject: test\n\n{}\n", body());
        assert!(letters.iter().all(|letter| letter.ends_with(&end)), "{letters:?}");
    }
    // One connection was enough.
    assert_eq!(dovecot.log().matches("Connect from").count(), 2, "{}", dovecot.log());
}

fn name_of_user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Serves connections with Exim, one process each. Returns the host that names it.
fn start_exim(program: PathBuf, folder: &Path) -> String {
    allow(folder, 0o777);
    let at = folder.display();
    let configuration = format!(
        "primary_hostname = exim.test\nspool_directory = {at}/spool\nlog_file_path = {at}/%slog\n\
         keep_environment =\ntls_advertise_hosts =\nqueue_only = true\n\
         recipients_max = 3\nacl_smtp_rcpt = recipient\nacl_smtp_data = message\n\
         acl_smtp_mail = sender\nbegin acl\nrecipient:\n\
         \x20 deny local_parts = bob\n  message = 550 5.1.1 unknown\n\
         \x20 defer local_parts = eve\n  message = 450 4.2.1 greylisted\n\
         \x20 accept\nmessage:\n  deny condition = ${{if match{{$message_body}}{{spam}}}}\n\
         \x20 message = 554 5.7.1 spam\n  accept\nsender:\n  accept\n"
    );
    fs::write(folder.join("conf"), configuration).expect("write a file");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let host = format!("[127.0.0.1]:{}", listener.local_addr().expect("its address").port());
    let folder = folder.to_path_buf();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let output = stream.try_clone().expect("another descriptor");
            let mut command = Command::new(&program);
            command.arg("-C").arg(folder.join("conf")).arg("-bs");
            command.stdin(OwnedFd::from(stream)).stdout(OwnedFd::from(output));
            let mut child = command.spawn().expect("Exim starts");
            std::thread::spawn(move || child.wait());
        }
    });
    host
}

#[test]
fn exim_answers_for_each_recipient() {
    let Some(program) = server("usr/sbin/exim4", "exim4-daemon-light") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let host = start_exim(program, folder.path());
    let users = ["ann@b.test", "bob@b.test", "eve@b.test"];
    let mut agent = agent();
    for text in [body(), body() + "\n.\n"] {
        let run = deliver(&mut agent, &host, &users, &text);
        let expected = "ann ok3, bob error2 5.1.1, eve deferred 4.2.1";
        assert_eq!(outcomes(&run, &users), expected, "{:?}", run.reports);
        let end = if text.ends_with('\n') { text } else { text + "\n" };
        let stored = texts(&folder.path().join("spool/input"));
        // The first line of a file with a body is its name.
        let has =
            stored.iter().any(|file| file.split_once('\n').is_some_and(|(_, body)| body == end));
        assert!(has, "{stored:?}");
    }
    // Refused as a whole, and more recipients than Exim takes in one transaction.
    let run = deliver(&mut agent, &host, &["ann@b.test"], "spam\n");
    assert_eq!(outcomes(&run, &["ann@b.test"]), "ann error2 5.7.1");
    let many = ["a@b.test", "b@b.test", "c@b.test", "d@b.test", "e@b.test"];
    let run = deliver(&mut agent, &host, &many, "Hello\n");
    assert_eq!(outcomes(&run, &many), "a ok3, b ok3, c ok3, d ok3, e ok3", "{:?}", run.reports);
}
