//! MAILQ version 2 with the real scheduler: sockets, accounts, orders, and hostile clients.

use crate::support::mailq_client::address;
use crate::support::{
    Client, DEADLINE, Site, allow, hold_for, not_run, processes, timeout, until, until_within,
};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const COUNT: &str = "*/*\n\tinterval=1h retries=1 expiry=1h\n\
     c/*\n\tidlemax=1h command=\"${AGENTS}/count.py c\"\n\
     q/*\n\tqueueonly command=\"${AGENTS}/count.py q\"\n";
const ACCOUNTS: &str = "nobody:nobody:SNMP QQ TT ETRN:[127.0.0.0]/8 [ipv6.0::1]/128\n\
     root:sekret:ALL:\nfar:away:ALL:[192.0.2.0]/24\n";

/// Creates a site that speaks version 2 on a TCP port, with these accounts.
fn site(accounts: &str) -> Site {
    let site = Site::new("");
    site.write("auth", accounts);
    allow(site.path("auth"), 0o600);
    let parameters = "PARAMmailqsock=TCP:0\nPARAMauthfile=\"${SITE}/auth\"\n";
    site.write("scheduler.cf", &format!("{parameters}{COUNT}"));
    site
}

#[test]
fn queue_is_shown_over_tcp() {
    let site = site(ACCOUNTS);
    let mut daemon = site.start_with(&["-vv"]);
    site.put(&["q a.test deferred!1", "c a.test deferred!2"]);
    let mut client = Client::of(&site);
    assert!(client.challenge.starts_with("220 MAILQ-V2-CHALLENGE: "), "{}", client.challenge);
    assert_eq!(client.ask("SHOW SNMP"), "-BAD; USER MUST AUTHENTICATE\n");
    assert_eq!(client.log_in("root", "wrong"), "-BAD USER OR PASSWORD\n");
    assert_eq!(client.log_in("far", "away"), "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS\n");
    assert_eq!(client.log_in("nobody", "nobody"), "+OK\n");
    until("both threads are shown", || {
        let threads = client.ask("SHOW QUEUE THREADS2");
        let is_shown =
            |name: &str| threads.lines().any(|line| line.split('\t').next() == Some(name));
        is_shown("c") && is_shown("q")
    });
    until("the deferral is known", || client.ask("SHOW THREAD c a.test").contains("as told"));
    let thread = client.ask("SHOW THREAD c a.test");
    let [head, record] = thread.lines().collect::<Vec<&str>>()[..] else { panic!("{thread}") };
    assert!(head.starts_with("#c/a.test/0  N=1   R=1   A=1  W="), "{head}");
    let fields: Vec<&str> = record.split('\t').collect();
    assert_eq!(fields.len(), 10, "{record}");
    assert_eq!((fields[1], fields[7], fields[9]), ("0", "1", "as told: deferred"));
    assert!(fields[2].contains('@'), "the address is that of the control file: {record}");
    // The time depends on that of the day, as wake-ups are moved towards whole hours.
    assert!(fields[8].starts_with("retry in "), "{record}");
    let counters = client.ask("SHOW COUNTERS");
    assert_eq!(counters.lines().count(), 261);
    let pid = format!("SYS.SchedulerMasterPID{:>20}", daemon.pid());
    assert!(counters.lines().any(|line| line == pid), "{counters}");
    let has_space = |line: &str| {
        line.strip_prefix("SYS.SpoolFreeSpace-kB-G").is_some_and(|value| value.trim() != "0")
    };
    assert!(counters.lines().any(has_space), "{counters}");
    assert!(client.ask("SHOW WHY q/a.test").contains("waits for a request for the host's mail"));
    assert!(client.ask("KILL MSG 1").starts_with("-No KILL allowed for you."));
    assert_eq!(client.ask("QUIT"), "+Bye bye\n");
    assert_eq!(client.line(), "", "closed");
    until("the login is logged", || site.logged("logged in as \"nobody\"") == 1);
    let failure = "login from 127.0.0.1 as \"root\" failed";
    until("the failure is logged", || site.logged(failure) == 1);
    daemon.assert_runs();
}

#[test]
fn ipv4_and_ipv6_are_served() {
    let site = site(ACCOUNTS);
    let _daemon = site.start();
    let Some(address) = address(&site, "[::1]") else {
        return not_run("this host has no ::1");
    };
    let mut client = Client::at(address);
    assert_eq!(client.log_in("nobody", "nobody"), "+OK\n");
    assert!(client.ask("SHOW SNMP").starts_with("Kids: 0  Idle:  0  "));
}

#[test]
fn orders_are_answered_after_execution() {
    let site = site(ACCOUNTS);
    let mut daemon = site.start();
    site.put(&["q a.test one"]);
    let others: Vec<_> = (0..300).map(|_| site.put_quietly(&["q many.test two"])).collect();
    daemon.signal(libc::SIGALRM);
    let mut client = Client::of(&site);
    assert_eq!(client.log_in("root", "sekret"), "+OK\n");
    until("all are loaded", || client.ask("SHOW QUEUE THREADS2").contains("many.test\tN=300"));
    assert_eq!(client.ask("ETRN A.TEST"), "+OK; an ETRN started something.\n");
    until("it is delivered", || site.events().count("count") == 1);
    assert_eq!(client.ask("ETRN nowhere.test"), "+OK; an ETRN didn't start anything.\n");
    assert_eq!(client.ask(&format!("KILL MSG {}", others[0].path())), "+OK; KILLed something.\n");
    assert_eq!(client.line(), "\n");
    assert!(
        !site.path(&format!("postoffice/transport/{}", others[0].path())).exists() || {
            until("it is gone", || {
                !site.path(&format!("postoffice/transport/{}", others[0].path())).exists()
            });
            true
        }
    );
    assert_eq!(client.ask("KILL THREAD q many.test"), "+OK; KILLed something.\n");
    assert_eq!(client.line(), "\n");
    assert_eq!(client.ask("SHOW QUEUE THREADS2"), "");
    site.until_empty();
    assert_eq!(site.files("postman").len(), 0, "no report is owed");
    until("they are logged", || site.logged("request by root from 127.0.0.1") == 4);
    daemon.assert_runs();
}

#[test]
fn account_edits_take_effect_at_once() {
    let site = site("root:sekret:ALL:[10.0.0.0]/8\n");
    let mut daemon = site.start();
    let greeting = || Client::of(&site).challenge;
    assert_eq!(greeting(), "550 NO ACCESS FOR YOU\n");
    until("that is logged", || site.logged("127.0.0.1 is rejected") == 1);
    site.write("auth", "root:sekret:ALL:[127.0.0.0]/8\n");
    allow(site.path("auth"), 0o600);
    assert!(greeting().starts_with("220 "));
    // The file is also read again for each login.
    let mut client = Client::of(&site);
    site.write("auth", "root:other:ALL:[127.0.0.0]/8\n");
    assert_eq!(client.log_in("root", "sekret"), "-BAD USER OR PASSWORD\n");
    assert_eq!(client.log_in("root", "other"), "+OK\n");
    for mode in [0o644, 0o606] {
        allow(site.path("auth"), mode);
        assert_eq!(greeting(), "550 NO ACCESS FOR YOU\n", "{mode:o}");
    }
    until("it is logged", || {
        site.logged("lets all users of this host see or change the passwords") >= 1
    });
    allow(site.path("auth"), 0o600);
    site.write("auth", "root:secret word:ALL:[foo]\n");
    assert_eq!(greeting(), "550 NO ACCESS FOR YOU\n", "a malformed file admits no user");
    until("it is logged", || site.logged("auth: line 1: text in brackets must be") >= 1);
    assert!(!site.log().contains("secret word"));
    std::fs::remove_file(site.path("auth")).expect("removed");
    assert_eq!(greeting(), "550 NO ACCESS FOR YOU\n");
    daemon.assert_runs();
}

/// As in ZMailer, the version depends on the file's state when the configuration is read.
#[test]
fn version_is_chosen_when_configuration_is_read() {
    let site = site(ACCOUNTS);
    std::fs::remove_file(site.path("auth")).expect("removed");
    let daemon = site.start();
    let first_line = || {
        let address = address(&site, "127.0.0.1").expect("a port");
        let mut stream = BufReader::new(TcpStream::connect(address).expect("it is served"));
        let mut line = String::new();
        stream.read_line(&mut line).expect("a line");
        line
    };
    assert_eq!(first_line(), "version zmailer 1.0\n");
    daemon.until_log_is_complete();
    assert_eq!(site.logged("using MAILQ version 1, which shows the queue"), 1);
    site.write("auth", ACCOUNTS);
    allow(site.path("auth"), 0o600);
    assert_eq!(first_line(), "version zmailer 1.0\n");
    daemon.signal(libc::SIGUSR1);
    until("version 2 is spoken", || first_line() == "version zmailer 2.0\n");
    std::fs::remove_file(site.path("auth")).expect("removed");
    daemon.signal(libc::SIGUSR1);
    until("it was read again", || site.logged("configuration loaded") == 2);
    assert_eq!(first_line(), "version zmailer 2.0\n", "there is no way back");
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    // The file overrides the option.
    site.write("auth", ACCOUNTS);
    allow(site.path("auth"), 0o600);
    site.write("log", "");
    let _daemon = site.start_with(&["-M", "1"]);
    assert_eq!(first_line(), "version zmailer 2.0\n");
}

/// A UNIX socket has no address. Lines without a list admit its user, and so do lines with its
/// name.
#[test]
fn local_users_are_identified_over_unix_socket() {
    let user = zsched_sys::users::effective_user();
    let site = Site::new(COUNT);
    let accounts =
        format!("net:x:ALL:[0.0.0.0]/0\nme:x:SNMP:[uid:{user}]\nother:x:ALL:[uid:{}]\n", user + 1);
    site.write("auth", &accounts);
    allow(site.path("auth"), 0o600);
    site.configure(COUNT);
    let config = format!("PARAMauthfile=\"${{SITE}}/auth\"\n{}", site.read("scheduler.cf"));
    site.write("scheduler.cf", &config);
    let _daemon = site.start();
    let mut client = Client::local(&site, "mailq");
    assert_eq!(client.log_in("other", "x"), "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS\n");
    assert_eq!(client.log_in("net", "x"), "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS\n");
    assert_eq!(client.log_in("me", "x"), "+OK\n");
    assert!(client.ask("SHOW SNMP").starts_with("Kids: "));
    site.write("auth", "net:x:ALL:[0.0.0.0]/0 [ipv6.::]/0\n");
    assert_eq!(Client::local(&site, "mailq").challenge, "550 NO ACCESS FOR YOU\n");
    // The control socket belongs to our user, and needs no login.
    let mut control = Client::local(&site, "postoffice/.scheduler.control");
    assert!(control.ask("SHOW QUEUE SHORT").contains("Kids: 0  "));
    assert_eq!(control.ask("KILL THREAD a b"), "-Unknown request.\n");
}

/// Some clients do not log in, and others do not read their answers. Waits the 90 scaled seconds of
/// the login timeout.
#[test]
fn stalled_clients_are_disconnected() {
    let site = site(ACCOUNTS);
    let long = "long/*\n\tinterval=1h maxring=1 command=\"${AGENTS}/bad.py verbose long\"\n";
    site.write("scheduler.cf", &format!("{}{long}", site.read("scheduler.cf")));
    for _ in 0..800 {
        site.put_quietly(&["long a.test u"]);
    }
    // All are read before the first is tried: mail that came after many failed tries would wait.
    let mut daemon = site.start_with(&["-S"]);
    let mut client = Client::of(&site);
    assert_eq!(client.log_in("root", "sekret"), "+OK\n");
    // These are 800 jobs, one after the other, each with a long text.
    until_within(Duration::from_secs(120), "the answer is large", || {
        client.ask("SHOW THREAD long a.test").len() > 1_000_000
    });
    let (sockets, memory) = (processes::sockets(daemon.pid()), processes::memory(daemon.pid()));
    let address = address(&site, "127.0.0.1").expect("a port");
    let connected = Instant::now();
    let silent: Vec<TcpStream> =
        (0..60).map(|_| TcpStream::connect(address).expect("it is served")).collect();
    let mut greedy: Vec<Client<TcpStream>> = (0..40).map(|_| Client::at(address)).collect();
    for client in &mut greedy {
        assert_eq!(client.log_in("root", "sekret"), "+OK\n");
        client.send(&"SHOW THREAD long a.test\n".repeat(100));
    }
    until("all are connected", || processes::sockets(daemon.pid()) >= sockets + 100);
    for number in 0..10 {
        let started = Instant::now();
        site.put(&[&format!("c a.test {number}")]);
        until("it is delivered", || site.events().count("count") == number + 1);
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    }
    assert!(client.ask("SHOW THREAD long a.test").len() > 1_000_000, "who reads is served");
    let grown = processes::memory(daemon.pid()).saturating_sub(memory);
    assert!(grown < 40_000_000, "100 clients cost {grown} bytes");
    let cpu = processes::cpu_time(daemon.pid());
    until_within(timeout(90) + DEADLINE, "those who did not log in have been closed", || {
        processes::sockets(daemon.pid()) <= sockets + 50
    });
    assert!(connected.elapsed() > timeout(80), "{:?}", connected.elapsed());
    let used = processes::cpu_time(daemon.pid()) - cpu;
    assert!(used < Duration::from_secs(4), "{used:?} while it only waits");
    drop((silent, greedy));
    daemon.assert_runs();
}

#[test]
fn failed_logins_and_endless_lines_end_the_session() {
    let site = site(ACCOUNTS);
    let mut daemon = site.start();
    let mut client = Client::of(&site);
    for _ in 0..10 {
        assert_eq!(client.log_in("root", "guess"), "-BAD USER OR PASSWORD\n");
    }
    assert_eq!(client.line(), "", "closed");
    daemon.until_log_is_complete();
    assert_eq!(site.logged(" failed"), 1);
    // The right password still works, and each failure is counted.
    let mut client = Client::of(&site);
    assert_eq!(client.log_in("root", "sekret"), "+OK\n");
    let counters = client.ask("SHOW COUNTERS");
    let refused = counters.lines().find(|line| line.starts_with("SC.MQ2AuthRej"));
    assert!(refused.is_some_and(|line| line.trim_end().ends_with(" 10")), "{counters}");

    let mut client = Client::of(&site);
    let mut said = 0;
    loop {
        match client.stream.get_mut().write(&[b'x'; 4096]) {
            Ok(count) => said += count,
            Err(error) => {
                let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
                assert!(kinds.contains(&error.kind()), "{error}");
                break;
            }
        }
        assert!(said < 50_000_000, "its input is read without limit");
    }
    daemon.assert_runs();
}

/// Many sessions at once get full answers while mail is delivered.
#[test]
fn many_sessions_are_served_while_mail_is_delivered() {
    let site = site(ACCOUNTS);
    for number in 0..200 {
        site.put_quietly(&[&format!("q host{number}.test one{number}")]);
    }
    let mut daemon = site.start();
    let mut clients: Vec<Client<TcpStream>> = (0..100).map(|_| Client::of(&site)).collect();
    for client in &mut clients {
        assert_eq!(client.log_in("nobody", "nobody"), "+OK\n");
    }
    until("all is loaded", || clients[0].ask("SHOW QUEUE THREADS2").lines().count() == 200);
    for number in 0..10 {
        site.put(&[&format!("c a.test {number}")]);
    }
    for client in &mut clients {
        client.send("SHOW QUEUE THREADS\nSHOW QUEUE SHORT\nFOO\nSHOW COUNTERS\n");
    }
    for client in &mut clients {
        let mut lines = Vec::new();
        while lines.iter().filter(|line| *line == ".\n").count() < 3 {
            let line = client.line();
            assert!(!line.is_empty(), "{lines:?}");
            lines.push(line);
        }
        assert_eq!(lines.iter().filter(|line| line.starts_with("    q/host")).count(), 200);
        assert_eq!(lines.iter().filter(|line| line.contains("VERB='FOO'")).count(), 1);
    }
    until("mail is delivered", || site.events().count("count") == 10);
    // A client that shuts down its sending side still gets its answers.
    let mut client = clients.pop().expect("one of them");
    client.send("SHOW SNMP\nSHOW SNMP");
    client.stream.get_mut().shutdown(std::net::Shutdown::Write).expect("closed");
    let mut rest = String::new();
    client.stream.read_to_string(&mut rest).expect("answered");
    assert_eq!(rest.matches("Kids: ").count(), 1, "a line without its end is no request: {rest}");
    drop(clients);
    let quiet = processes::sockets(daemon.pid());
    hold_for(Duration::from_millis(300), "nothing is left over", || {
        processes::sockets(daemon.pid()) <= quiet
    });
    daemon.assert_runs();
}
