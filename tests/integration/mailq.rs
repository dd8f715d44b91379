//! MAILQ version 1 while mail is delivered, and hostile clients.

use crate::support::{DEADLINE, Dump, Site, processes, timeout, until, until_within};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const COUNT: &str = "c/*\n\tidlemax=1h command=\"${AGENTS}/count.py c\"\n";

/// Returns the port that the scheduler has logged.
fn port(site: &Site) -> u16 {
    let log = site.log();
    let (_, rest) = log.split_once("MAILQ is served on TCP 127.0.0.1:").expect("a port");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn dumps_during_delivery_are_complete() {
    let site = Site::new("");
    let config = "PARAMmailqsock=TCP:0\n*/*\n\tinterval=1s retries=1 expiry=2d\n";
    let clauses = "c/*\n\tmaxring=2 command=\"${AGENTS}/count.py c 0.01\"\n";
    site.write("scheduler.cf", &format!("{config}{clauses}"));
    for number in 0..300 {
        let host = number % 20;
        let second = format!("c other{host}.test deferred!{number}");
        site.put_quietly(&[&format!("c {host}.test one{number}"), &second]);
    }
    let _daemon = site.start();
    let port = port(&site);
    let fetch = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it is served");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the dump ends");
        Dump::parse(&text)
    };
    let mut dumps = 0;
    let mut kinds = [0; 3];
    while site.events().count("count") < 300 {
        let dump = fetch();
        dumps += 1;
        for vertex in &dump.vertices {
            let notes = vertex.text.rsplit_once('(').expect("notes").1;
            let expires = notes.contains(", expires in 1d23h") || notes.contains(", expires in 2d");
            assert!(expires && notes.contains(", tries="), "{}", vertex.text);
            let kind = ["running now, pid=", "waiting for thread slot", "retry in "]
                .iter()
                .position(|kind| notes.starts_with(kind));
            if let Some(kind) = kind {
                kinds[kind] += 1;
            }
        }
        assert!(dump.total("Kids") <= 2);
    }
    assert!(dumps >= 3 && kinds.iter().all(|count| *count > 0), "{dumps} dumps, {kinds:?}");
    // The final dump is checked in each detail that is certain.
    until("everything that can be has been delivered", || fetch().vertices.len() == 300);
    let dump = fetch();
    assert_eq!(dump.hosts.as_ref().map(|hosts| hosts.len()), Some(20));
    assert_eq!(dump.channels.as_ref().expect("channels")["c"].len(), 300);
    assert_eq!(dump.report[0], "c/*/0");
    let thread = dump.thread("c/other7.test").expect("it is queued");
    assert!(thread.starts_with("    c/other7.test/0\t\tN=15  R=15  A="), "{thread:?}");
    let [kids, totals] = &dump.report[dump.report.len() - 2..] else { panic!("two lines") };
    assert!(kids.contains("Msgs: 300  Thrds:  20  Rcpnts:  300  Uptime: "), "{kids}");
    assert_eq!(totals, "Msgs in 300 out 0 stored 300 Rcpnts in 600 out 300 stored 300");
}

#[test]
fn unix_socket_is_open_to_all_users() {
    let site = Site::new(COUNT);
    // A former scheduler has left its socket.
    drop(std::os::unix::net::UnixListener::bind(site.path("mailq")).expect("a socket"));
    let _daemon = site.start();
    let mode = std::fs::metadata(site.path("mailq")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    let mode = std::fs::metadata(site.notify_socket()).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o200, "routers only");
    let dump = site.mailq();
    assert_eq!((dump.vertices.len(), dump.hosts, dump.channels), (0, None, None));
    assert_eq!(dump.report.len(), 2, "{:?}", dump.report);
}

/// Another file has the socket's name. It stays; when it is gone, the socket is opened within 5 s.
#[test]
fn blocked_socket_is_opened_later() {
    let site = Site::new(COUNT);
    site.write("mailq", "precious");
    let mut daemon = site.spawn(&[]);
    until("it is refused", || site.logged("MAILQ cannot be served on") >= 1);
    until("notices are heard", || site.notify_socket().exists());
    site.put(&["c a.test u"]);
    until("mail is delivered all the same", || site.events().count("count") == 1);
    assert_eq!(site.read("mailq"), "precious");
    std::fs::remove_file(site.path("mailq")).expect("removed");
    until("it is served", || site.logged("MAILQ is served on") == 1);
    site.mailq();
    daemon.assert_runs();
}

#[test]
fn option_q_leaves_single_messages_out() {
    let site = Site::new("c/*\n\tqueueonly command=\"${AGENTS}/count.py c\"\n");
    let daemon = site.start_with(&["-Q"]);
    site.put(&["c a.test u"]);
    until("it is loaded", || site.mailq().thread("c/a.test").is_some());
    let dump = site.mailq();
    assert_eq!((dump.vertices.len(), dump.hosts, dump.channels), (0, None, None));
    drop(daemon);
    // Version 2 needs logins. Without an auth file, every login fails.
    let _daemon = site.start_with(&["-M", "2"]);
    let mut stream = UnixStream::connect(site.path("mailq")).expect("it is served");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it ends");
    assert_eq!(text, "version zmailer 2.0\n550 NO ACCESS FOR YOU\n");
}

/// Creates a queue whose dump fits into no buffer: 800 messages with texts of 2 kB.
///
/// The agent writes 4 kB, of which the scheduler keeps 2 kB. A test must load the queue (`-S`)
/// before the first try: mail that comes after ten failed tries waits for an hour.
fn large_queue() -> Site {
    let site = Site::new(&format!(
        "long/*\n\tinterval=1h maxring=1 command=\"${{AGENTS}}/bad.py verbose long\"\n{COUNT}"
    ));
    for _ in 0..800 {
        site.put_quietly(&["long a.test u"]);
    }
    site
}

/// Waits 60 scaled seconds.
#[test]
fn clients_that_never_read_are_disconnected() {
    let site = large_queue();
    let mut daemon = site.start_with(&["-S"]);
    until("the dump is large", || {
        site.mailq().vertices.iter().filter(|vertex| vertex.text.len() > 2000).count() == 800
    });
    // A connection that has just been served may still count.
    let (sockets, memory) = (processes::sockets(daemon.pid()), processes::memory(daemon.pid()));
    let connected = Instant::now();
    let mut lazy: Vec<UnixStream> =
        (0..100).map(|_| UnixStream::connect(site.path("mailq")).expect("it is served")).collect();
    until("all are connected", || processes::sockets(daemon.pid()) >= sockets + 99);
    for number in 0..20 {
        site.put(&[&format!("c a.test {number}")]);
        until("it is delivered", || site.events().count("count") == number + 1);
        let are_connected = processes::sockets(daemon.pid()) >= sockets + 99;
        assert!(number > 0 || are_connected, "mail has waited until they were disconnected");
    }
    assert_eq!(site.mailq().vertices.len(), 800, "a client that reads gets everything");
    let grown = processes::memory(daemon.pid()).saturating_sub(memory);
    assert!(grown < 40_000_000, "100 clients cost {grown} bytes");
    // A client that reads a little at times keeps its connection.
    let mut slow = UnixStream::connect(site.path("mailq")).expect("it is served");
    let begun = Instant::now();
    let mut taken = 0;
    let mut buffer = [0; 1000];
    let cpu = processes::cpu_time(daemon.pid());
    let mut lost = None;
    until_within(timeout(70) + DEADLINE, "the lazy ones have lost their connections", || {
        if taken < 70 && begun.elapsed() >= timeout(taken) {
            taken += 1;
            slow.read_exact(&mut buffer).expect("there is more");
        }
        // Their input is discarded while the connection is open.
        if lost.is_none() && lazy.iter().all(|mut client| client.write(b"x").is_err()) {
            lost = Some(connected.elapsed());
        }
        lost.is_some() && taken == 70
    });
    assert!(lost > Some(timeout(55)), "they have 60 scaled seconds: {lost:?}");
    let used = processes::cpu_time(daemon.pid()) - cpu;
    assert!(used < Duration::from_secs(6), "{used:?} while it only waits");
    slow.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).expect("it is still served");
    assert!(rest.ends_with(b"\n") && rest.len() > 1_000_000, "{} bytes", rest.len());
    // The dump of the others is cut short.
    let mut cut = Vec::new();
    drop(lazy[0].read_to_end(&mut cut));
    assert!(cut.len() < rest.len());
    daemon.assert_runs();
}

#[test]
fn client_input_is_ignored() {
    let site = Site::new(COUNT);
    let mut daemon = site.start();
    let sockets = processes::sockets(daemon.pid());
    let mut talkers = Vec::new();
    for number in 0..50u32 {
        let mut stream = UnixStream::connect(site.path("mailq")).expect("it is served");
        stream.set_nonblocking(true).expect("set");
        let nonsense: Vec<u8> = (0..100_000).map(|i| (i * number % 251) as u8).collect();
        match stream.write(&nonsense) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::WouldBlock) => {
            }
            Err(error) => panic!("{error}"),
        }
        if number % 2 == 0 {
            talkers.push(stream);
        }
    }
    site.put(&["c a.test u"]);
    until("mail is delivered", || site.events().count("count") == 1);
    // A client that goes on writing gets its dump, and then its connection is closed.
    let mut stream = UnixStream::connect(site.path("mailq")).expect("it is served");
    drop(stream.write(b"SHOW QUEUE\n"));
    Dump::from(stream);
    drop(talkers);
    until("no client is left", || processes::sockets(daemon.pid()) <= sockets + 1);
    daemon.assert_runs();
    assert_eq!(site.logged("error"), 0, "{}", site.log());
}

/// The client reads nothing and writes a lot. It is disconnected before it has read nothing for a
/// minute.
#[test]
fn client_that_writes_without_end_is_disconnected() {
    let site = large_queue();
    let mut daemon = site.start_with(&["-S"]);
    until("the dump is large", || {
        site.mailq().vertices.iter().filter(|vertex| vertex.text.len() > 2000).count() == 800
    });
    let started = Instant::now();
    let mut stream = UnixStream::connect(site.path("mailq")).expect("it is served");
    stream.set_write_timeout(Some(DEADLINE)).expect("a deadline");
    let mut said = 0;
    while let Ok(count) = stream.write(&[b'x'; 4096]) {
        said += count;
        assert!(said < 10_000_000, "its input is read without limit");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    daemon.assert_runs();
}

/// Further clients are refused, and the first 200 are served.
#[test]
fn clients_over_limit_are_refused() {
    let site = large_queue();
    let mut daemon = site.start_with(&["-S"]);
    until("the dump is large", || {
        site.mailq().vertices.iter().filter(|vertex| vertex.text.len() > 2000).count() == 800
    });
    let connect = || UnixStream::connect(site.path("mailq")).expect("it is served");
    let mut clients: Vec<UnixStream> = (0..200).map(|_| connect()).collect();
    let refused: Vec<UnixStream> = (0..50).map(|_| connect()).collect();
    until("they are turned away", || site.logged("MAILQ client rejected") == 1);
    for mut stream in refused {
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let mut nothing = Vec::new();
        drop(stream.read_to_end(&mut nothing));
        assert!(nothing.is_empty(), "{} bytes", nothing.len());
    }
    assert!(site.logged("MAILQ client rejected") < 4, "not a line for each: {}", site.log());
    let first = clients.remove(0);
    assert_eq!(Dump::from(first).vertices.len(), 800);
    drop(clients);
    until("there is room again", || {
        UnixStream::connect(site.path("mailq")).is_ok_and(|mut stream| {
            stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
            let mut text = String::new();
            stream.read_to_string(&mut text).is_ok() && text.starts_with("version zmailer 1.0\n")
        })
    });
    daemon.assert_runs();
}
