//! The agent `smtp` and the scheduler under kills, against a server that counts.

use crate::support::{Site, generator, processes, say, until, until_within};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use zsched_format::control_file::compose::{Address, Group, Recipient};
use zsched_spool::submit::Submitter;
use zsched_tests::program;

const MESSAGES: usize = 300;
const HOSTS: usize = 3;
/// Number of kills.
const KILLS: usize = 40;
/// Maximum time between two kills, in microseconds.
const MAX_LIFE_MICROS: u64 = 80_000;
/// Maximum time between the end of a message and the reply, in microseconds.
const MAX_REPLY_MICROS: u64 = 4_000;

/// How often each recipient has got each message, by Message-ID and address.
type Copies = Arc<Mutex<HashMap<(String, String), usize>>>;

/// Starts a server. Returns the host that names it.
fn start_server(copies: &Copies, seed: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let copies = Arc::clone(copies);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let copies = Arc::clone(&copies);
            let random = fastrand::Rng::with_seed(seed.wrapping_add(number as u64));
            thread::spawn(move || serve(stream, &copies, random));
        }
    });
    format!("[127.0.0.1]:{port}")
}

/// Takes all messages of a connection. A message counts before its reply is sent.
///
/// Returns `None` when the client is gone.
fn serve(mut stream: TcpStream, copies: &Copies, mut random: fastrand::Rng) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let mut recipients = Vec::new();
    stream.write_all(b"220 count.test ESMTP\r\n").ok()?;
    loop {
        let line = lines.next()?.ok()?;
        let reply = match line.split([' ', ':']).next()? {
            "EHLO" => "250-count.test\r\n250 PIPELINING\r\n",
            "RCPT" => {
                recipients.push(line.split(['<', '>']).nth(1)?.to_string());
                "250 2.1.5 ok\r\n"
            }
            "DATA" => {
                stream.write_all(b"354 go ahead\r\n").ok()?;
                let mut id = String::new();
                loop {
                    let line = lines.next()?.ok()?;
                    match line.strip_prefix("Message-ID: ") {
                        Some(found) => id = found.to_string(),
                        None if line == "." => break,
                        None => {}
                    }
                }
                let mut copies = copies.lock().expect("no panic");
                for recipient in recipients.drain(..) {
                    *copies.entry((id.clone(), recipient)).or_default() += 1;
                }
                drop(copies);
                thread::sleep(Duration::from_micros(random.u64(0..MAX_REPLY_MICROS)));
                "250 2.6.0 taken\r\n"
            }
            _ => "250 2.0.0 ok\r\n",
        };
        stream.write_all(reply.as_bytes()).ok()?;
    }
}

/// Puts a message for some recipients into the spool. Returns its Message-ID.
fn put(site: &Site, number: usize, host: &str, recipients: &[String]) -> String {
    let submitter = Submitter { spool: site.spool.clone(), level: site.level, sync: false };
    let recipient = |user: &String| {
        let address = Address::new("smtp", host, user, 65534);
        Recipient { address, ..Recipient::default() }
    };
    let id = format!("<{number}@kills.test>");
    let headers = format!("Message-ID: {id}\nSubject: test\n");
    let group = Group {
        sender: Address::new("local", "", "sender@x", 0),
        recipients: recipients.iter().map(recipient).collect(),
        headers: headers.clone().into_bytes(),
        ..Group::default()
    };
    let text = format!("{headers}\nThis is the body.\n");
    submitter.submit(text.as_bytes(), &id, vec![group], None).expect("submitted");
    id
}

/// How often the scheduler has listed an address as a possible duplicate.
fn listed(site: &Site) -> HashMap<String, usize> {
    let mut listed = HashMap::new();
    for line in site.read("postoffice/.scheduler.duplicates").lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let address = line["address"].as_str().expect("a text").to_string();
        *listed.entry(address).or_default() += 1;
    }
    listed
}

#[test]
fn killed_smtp_agents_and_schedulers_deliver_each_message() {
    let mut random = generator("kills of the agent smtp");
    let site = Site::new(&format!(
        "smtp/*\n\tmaxring=6 maxthr=2 overfeed=5 command=\"{} -c smtp\"\n",
        program("smtp").display()
    ));
    let copies = Copies::default();
    let hosts: Vec<String> = (0..HOSTS).map(|_| start_server(&copies, random.u64(..))).collect();
    let mut expected = Vec::new();
    for number in 0..MESSAGES {
        // No two messages have the same recipients, so an address names a recipient.
        let user = |at: usize| format!("user{number}-{at}@b.test");
        let users: Vec<String> = (0..random.usize(1..4)).map(user).collect();
        let id = put(&site, number, &hosts[number % HOSTS], &users);
        expected.extend(users.into_iter().map(|user| (id.clone(), user)));
    }
    let (mut scheduler, mut kills) = (Some(site.spawn(&[])), [0; 2]);
    for _ in 0..KILLS {
        thread::sleep(Duration::from_micros(random.u64(0..MAX_LIFE_MICROS)));
        let running = scheduler.take().expect("it runs");
        let agents = running.agents();
        match random.u8(0..3) {
            0 => {
                running.kill();
                kills[0] += 1;
            }
            _ => scheduler = Some(running),
        }
        for pid in agents {
            if random.bool() {
                // It may have ended by itself.
                drop(zsched_sys::send_signal(pid, libc::SIGKILL));
                kills[1] += 1;
            }
        }
        scheduler.get_or_insert_with(|| site.spawn(&[]));
    }
    scheduler.take().expect("it runs").kill();
    // The next scheduler finds no lock of a living process, for which it would wait.
    let folder = site.path("");
    until("former agents have ended", || processes::working_in(&folder).is_empty());
    let left = site.files("transport").len();
    let scheduler = site.start();
    until_within(Duration::from_secs(60), "all mail has left the spool", || site.is_empty());
    assert_eq!(scheduler.end(libc::SIGTERM).code(), Some(0));

    let (listed, mut found) = (listed(&site), copies.lock().expect("no panic").clone());
    let mut repeated = 0;
    for recipient in expected {
        let count = found.remove(&recipient).unwrap_or_default();
        let times = listed.get(&recipient.1).copied().unwrap_or_default();
        assert!(count > 0, "{recipient:?} is lost");
        assert!(count <= times + 1, "{recipient:?} came {count} times, listed {times} times");
        repeated += usize::from(count > 1);
    }
    assert!(found.is_empty(), "not expected: {found:?}");
    let [schedulers, agents] = kills;
    say(&format!(
        "kills of the agent smtp: {left} of {MESSAGES} messages left at the last kill; killed \
         {schedulers} schedulers, {agents} agents; {repeated} recipients got two copies, as listed"
    ));
}
