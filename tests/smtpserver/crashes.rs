//! Kills and full disks: what got its 250 is there, and nothing else.

use crate::support::{Client, Site};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn missing_spool_is_reported_with_its_remedy() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    let spool = site.path("postoffice");
    std::fs::remove_dir_all(&spool).expect("removed");
    let output = site.server(&["-i"]).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    let remedy = format!("`scheduler --init {}` makes a spool", spool.display());
    assert!(!output.status.success() && error.contains(&remedy), "{error}");
}

/// Clients send numbered messages until the server is killed, several times.
#[test]
fn killed_server_has_stored_what_it_accepted() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    let (accepted, ended) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
    let counter = AtomicU64::new(0);
    for round in 0..4 {
        let mut daemon = site.start();
        let address = daemon.ports[0];
        let is_killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while !is_killed.load(Ordering::Relaxed) {
                        let number = counter.fetch_add(1, Ordering::Relaxed);
                        send(address, number, &accepted, &ended);
                    }
                });
            }
            let goal = (round + 1) * 100;
            crate::support::until("many are accepted", || {
                accepted.lock().expect("not poisoned").len() >= goal
            });
            daemon.child.kill().expect("killed");
            daemon.child.wait().expect("ended");
            is_killed.store(true, Ordering::Relaxed);
        });
    }
    let stored: BTreeSet<u64> = site
        .submissions()
        .iter()
        .map(|text| {
            assert!(text.ends_with("the last line\n"), "a part of a message: {text}");
            let number = text.split("Subject: ").nth(1).expect("a subject");
            number.lines().next().expect("a line").parse().expect("a number")
        })
        .collect();
    let (accepted, ended) =
        (accepted.into_inner().expect("whole"), ended.into_inner().expect("whole"));
    let lost: Vec<_> = accepted.difference(&stored).collect();
    assert_eq!(lost, [0u64; 0].iter().collect::<Vec<_>>(), "accepted, but not stored");
    let surplus: Vec<_> = stored.difference(&ended).collect();
    assert_eq!(surplus, [0u64; 0].iter().collect::<Vec<_>>(), "stored, but never ended by a dot");
    // A kill leaves scratch files of what was not accepted; the scheduler removes them in a day.
    let texts = site.submissions().len();
    assert_eq!(texts, stored.len(), "a message is stored twice");
}

/// Sends one message as far as possible.
fn send(
    address: std::net::SocketAddr,
    number: u64,
    accepted: &Mutex<BTreeSet<u64>>,
    ended: &Mutex<BTreeSet<u64>>,
) {
    if std::net::TcpStream::connect(address).is_err() {
        return;
    }
    let Ok(mut client) = std::panic::catch_unwind(|| Client::connect(address)) else { return };
    client.send("EHLO c\r\n");
    if client.code() != "220" || client.code() != "250" {
        return;
    }
    client.send("MAIL FROM:<s@x>\r\nRCPT TO:<alice@here.test>\r\nDATA\r\n");
    if [client.code(), client.code(), client.code()] != ["250", "250", "354"] {
        return;
    }
    client.send(format!("Subject: {number}\r\n\r\n{}the last line\r\n", "x\r\n".repeat(2000)));
    ended.lock().expect("not poisoned").insert(number);
    if client.say(".\r\n") == "250" {
        accepted.lock().expect("not poisoned").insert(number);
    }
}

/// A limit on the size of files stands for a full disk.
#[test]
fn full_disk_gets_452_and_leaves_nothing() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    let mut command = std::process::Command::new("sh");
    let server = site.server(&[]);
    command.arg("-c").arg("ulimit -f 200; exec \"$@\"").arg("sh").arg(server.get_program());
    command.args(server.get_args());
    let daemon = site.start_command(command);
    for size in [400_000, 40_000, 3_000_000] {
        let mut client = Client::hello(daemon.ports[0]);
        client.begin_data();
        client.send(format!("A: b\r\n\r\n{}", "0123456789\r\n".repeat(size / 12)));
        let reply = client.say(".\r\n");
        let expected = if size < 100_000 { "250" } else { "452" };
        assert_eq!(reply, expected, "{size}");
        assert_eq!(client.say("NOOP\r\n"), "250", "the session goes on");
    }
    assert_eq!((site.count("public"), site.count("router")), (0, 1));
}

#[test]
fn spool_that_cannot_be_written_gets_451() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    let daemon = site.start();
    std::fs::remove_dir(site.spool.public()).expect("removed");
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "451");
    zsched_spool::folder::make(&site.spool.public(), 0o3773).expect("made again");
    client.begin_data();
    let reply = client.say("A: b\r\n\r\nc\r\n.\r\n");
    // Landlock knows the folder by its inode, so a new one is none of those that may be written.
    assert!(["250", "451"].contains(&&*reply), "{reply}");
}

#[test]
fn user_gets_451_while_name_service_finds_none() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    site.write("router.cf", "local here.test\nusers system\n");
    let library = zsched_tests::failing_name_service(&site.path(""));
    for answer in ["0", "2", "5"] {
        let mut server = site.server(&[]);
        server.env("LD_PRELOAD", &library).env("ANSWER", answer);
        let daemon = site.start_command(server);
        let mut client = Client::hello(daemon.ports[0]);
        assert_eq!(client.say("MAIL FROM:<s@x.test>\r\n"), "250");
        for user in ["daemon", "no-such-account-here"] {
            assert_eq!(client.say(&format!("RCPT TO:<{user}@here.test>\r\n")), "451", "{user}");
        }
    }
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("MAIL FROM:<s@x.test>\r\n"), "250");
    assert_eq!(client.say("RCPT TO:<daemon@here.test>\r\n"), "250");
    assert_eq!(client.say("RCPT TO:<no-such-account-here@here.test>\r\n"), "550");
}

/// A 250 would be a promise that a power failure breaks.
#[test]
fn folder_that_cannot_be_synced_gets_451_and_leaves_nothing() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    let library = zsched_tests::failing_folder_sync(&site.path(""));
    let mut server = site.server(&[]);
    server.env("LD_PRELOAD", library);
    let daemon = site.start_command(server);
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "451");
    assert_eq!((site.count("public"), site.count("router")), (0, 0));
    site.until_logged("a submission cannot be stored: Input/output error");
}
