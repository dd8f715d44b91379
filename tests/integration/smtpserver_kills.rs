//! SMTP server, router, scheduler and agents under kills, all together, with clients that record
//! which messages got their 250.

use crate::circle::{Content, Message, circle_site, left_over, letters, possible_duplicates};
use crate::support::router::Router;
use crate::support::{Daemon, Site, generator, processes, say, until, until_within};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use zsched_tests::program;

/// Number of messages that are accepted, unless `ZSCHED_CIRCLE_MESSAGES` says otherwise.
const DEFAULT_MESSAGES: usize = 400;
/// Number of clients that send at the same time.
const CLIENTS: usize = 6;
/// Maximum time between two kills, in microseconds.
const MAX_LIFE_MICROS: u64 = 150_000;
/// Time after which a client takes a server for dead.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for each message after the last kill, before the test gives up.
const LIMIT_PER_MESSAGE: Duration = Duration::from_millis(40);

/// What a client knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It got its 250.
    Accepted,
    /// The end of the text was sent, and no reply came.
    Unknown,
    /// The end of the text was not sent.
    NotSent,
}

/// A server, which is killed in the end.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// All programs, which are killed at random times.
struct Programs<'s> {
    site: &'s Site,
    /// Where the server of now listens.
    address: &'s Mutex<Option<SocketAddr>>,
    server: Option<Server>,
    router: Option<Router>,
    scheduler: Option<Daemon<'s>>,
    /// Kills of servers, routers, schedulers and agents.
    kills: [usize; 4],
}

impl Programs<'_> {
    fn start_missing(&mut self) {
        let Programs { site, .. } = *self;
        self.scheduler.get_or_insert_with(|| site.spawn(&[]));
        self.router.get_or_insert_with(|| Router::start(site));
        if self.server.is_none() {
            let (server, address) = start_server(site);
            self.server = Some(server);
            *self.address.lock().expect("no panic") = Some(address);
        }
    }

    /// Kills some of the programs, or all.
    fn kill_some(&mut self, random: &mut fastrand::Rng) {
        let which = random.u8(1..16);
        if which & 1 != 0 {
            *self.address.lock().expect("no panic") = None;
            drop(self.server.take());
            self.kills[0] += 1;
        }
        if which & 2 != 0 {
            self.router.take().expect("it runs").kill();
            self.kills[1] += 1;
        }
        let agents = self.scheduler.as_ref().expect("it runs").agents();
        if which & 4 != 0 {
            self.scheduler.take().expect("it runs").kill();
            self.kills[2] += 1;
        }
        if which & 8 != 0 {
            self.kills[3] += agents.len();
            // They may have ended by themselves.
            agents.iter().for_each(|pid| drop(zsched_sys::send_signal(*pid, libc::SIGKILL)));
        }
    }
}

/// Starts a server on a free port, and waits until it listens.
pub fn start_server(site: &Site) -> (Server, SocketAddr) {
    let path = site.path("smtpserver-log");
    drop(std::fs::remove_file(&path));
    let mut command = Command::new(program("smtpserver"));
    command.arg("-i").arg("-Z").arg(site.path("zmailer.conf"));
    command.arg("-f").arg(site.path("smtpserver.cf")).arg("-r").arg(site.path("router.cf"));
    command.stdin(Stdio::null()).stderr(File::create(&path).expect("a log"));
    let mut server = Server(command.spawn().expect("the server starts"));
    let mut address = None;
    until("the server listens", || {
        assert_eq!(
            server.0.try_wait().expect("our child"),
            None,
            "{}",
            site.read("smtpserver-log")
        );
        let log = site.read("smtpserver-log");
        address =
            log.split_once("smtp on ").and_then(|(_, rest)| rest.lines().next()?.parse().ok());
        address.is_some()
    });
    (server, address.expect("it listens"))
}

/// A client, up to the loss of its connection.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Option<Client> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(CLIENT_TIMEOUT)).ok()?;
        let mut client = Client { reader: BufReader::new(stream) };
        (client.code()? == "220").then_some(())?;
        (client.say("EHLO c")? == "250").then_some(client)
    }

    pub fn say(&mut self, line: &str) -> Option<String> {
        self.reader.get_mut().write_all(format!("{line}\r\n").as_bytes()).ok()?;
        self.code()
    }

    fn code(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).ok()?;
            if line.ends_with('\n') && line.as_bytes().get(3) == Some(&b' ') {
                return Some(line[..3].to_string());
            }
            if line.is_empty() {
                return None;
            }
        }
    }

    /// Sends all but the end of a message. Recipients that are refused are removed from it.
    fn send_text(&mut self, message: &mut Message) -> Option<()> {
        let from = format!("MAIL FROM:<{}@here.test>", message.sender);
        (self.say(&from)? == "250").then_some(())?;
        let mut refused = Vec::new();
        for recipient in &message.recipients {
            match &*self.say(&format!("RCPT TO:<{recipient}>"))? {
                "250" => {}
                "550" => refused.push(recipient.clone()),
                other => panic!("{other} for {recipient}"),
            }
        }
        message.recipients.retain(|one| !refused.contains(one));
        message.refused.retain(|one| !refused.contains(one));
        if message.recipients.is_empty() {
            (self.say("RSET")? == "250").then_some(())?;
            return None;
        }
        (self.say("DATA")? == "354").then_some(())?;
        let text =
            format!("Subject: {}\r\n\r\n{}", message.number, "This is the body.\r\n".repeat(200));
        self.reader.get_mut().write_all(text.as_bytes()).ok()
    }

    fn send(&mut self, message: &mut Message) -> Fate {
        if self.send_text(message).is_none() {
            return Fate::NotSent;
        }
        match self.say(".").as_deref() {
            Some("250") => Fate::Accepted,
            Some(other) => panic!("{other} for a message"),
            None => Fate::Unknown,
        }
    }
}

#[test]
fn killed_programs_lose_no_accepted_message() {
    let given = std::env::var("ZSCHED_CIRCLE_MESSAGES").ok();
    let count = given.map_or(DEFAULT_MESSAGES, |text| text.parse().expect("a number"));
    let mut random = generator("kills of all programs");
    let seed = random.u64(..);
    let site = circle_site();
    site.write("smtpserver.cf", "listen 127.0.0.1:0 smtp\n");
    let address = Mutex::new(None);
    let (fates, next) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let accepted = AtomicUsize::new(0);
    let has_failed = AtomicBool::new(false);
    let client = || {
        let mut connection: Option<Client> = None;
        while accepted.load(Ordering::Relaxed) < count && !has_failed.load(Ordering::Relaxed) {
            let at = *address.lock().expect("no panic");
            let Some(client) = connection.take().or_else(|| Client::connect(at?)) else {
                thread::sleep(Duration::from_millis(2));
                continue;
            };
            let client = connection.insert(client);
            let mut message = Message::of(seed, next.fetch_add(1, Ordering::Relaxed));
            let fate = client.send(&mut message);
            accepted.fetch_add(usize::from(fate == Fate::Accepted), Ordering::Relaxed);
            if fate != Fate::Accepted {
                connection = None;
            }
            fates.lock().expect("no panic").push((message, fate));
        }
    };
    let began = Instant::now();
    let mut programs = Programs {
        site: &site,
        address: &address,
        server: None,
        router: None,
        scheduler: None,
        kills: [0; 4],
    };
    programs.start_missing();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        while clients.iter().any(|client| !client.is_finished()) {
            if clients.iter().any(|client| client.is_finished())
                && accepted.load(Ordering::Relaxed) < count
            {
                // A client has panicked: the others end, too.
                has_failed.store(true, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_micros(random.u64(0..MAX_LIFE_MICROS)));
            programs.kill_some(&mut random);
            programs.start_missing();
        }
    });
    let sent_after = began.elapsed();
    // The next scheduler finds no lock of a living process, for which it would wait.
    programs.scheduler.take().into_iter().for_each(Daemon::kill);
    let folder = site.path("");
    drop((programs.server.take(), programs.router.take()));
    until("former agents have ended", || processes::working_in(&folder).is_empty());
    let left = left_over(&site).len();
    programs.scheduler = Some(site.start());
    programs.start_missing();
    let limit = Duration::from_secs(60) + LIMIT_PER_MESSAGE * count as u32;
    // A killed server leaves scratch files, which the scheduler removes after a day.
    let is_empty = || left_over(&site).iter().all(|name| name.starts_with("public/"));
    until_within(limit, "all mail has left the spool", || is_empty() && is_empty());
    let kills = programs.kills;
    drop(programs);
    let fates = fates.into_inner().expect("no panic");
    let (repeated, unknown) = check_letters(&site, &fates);
    let [servers, routers, schedulers, agents] = kills;
    say(&format!(
        "kills of all programs: {count} messages got their 250 within {sent_after:.1?}, {left} \
         files left at the last kill; killed {servers} servers, {routers} routers, {schedulers} \
         schedulers, {agents} agents; of {} messages without a reply {} are there; {repeated} \
         letters came twice, as listed",
        unknown.0, unknown.1
    ));
}

/// Fails unless each letter is there as the fates of the messages and the list of duplicates say.
///
/// Returns the number of letters that are there twice, of messages of unknown fate, and of those
/// among them that are there.
fn check_letters(site: &Site, fates: &[(Message, Fate)]) -> (usize, (usize, usize)) {
    let mut found: HashMap<(String, Content), Vec<String>> = letters(site);
    let listed = possible_duplicates(site);
    let (mut repeated, mut unknown) = (0, (0, 0));
    for (message, fate) in fates {
        let expected: Vec<(String, Content)> = message.letters().collect();
        let there = expected.iter().filter(|letter| found.contains_key(*letter)).count();
        let number = message.number;
        match fate {
            Fate::NotSent => assert_eq!(there, 0, "message {number} was not sent to its end"),
            Fate::Accepted => assert_eq!(there, expected.len(), "message {number} is lost in part"),
            Fate::Unknown => {
                unknown.0 += 1;
                unknown.1 += usize::from(there > 0);
                assert!([0, expected.len()].contains(&there), "message {number} is there in part");
            }
        }
        for letter in expected {
            let Some(ids) = found.remove(&letter) else { continue };
            let address = format!("{}@here.test", letter.0);
            let times = listed.get(&(ids[0].clone(), address)).copied().unwrap_or(0);
            let is_one_message = ids.iter().all(|id| *id == ids[0]);
            assert!(is_one_message, "{letter:?} came from several messages: {ids:?}");
            assert!(times + 1 >= ids.len(), "{letter:?} came as {ids:?}, listed {times} times");
            repeated += usize::from(ids.len() > 1);
        }
    }
    if !found.is_empty() {
        let fates = fates.iter().map(|(message, fate)| format!("{} {fate:?}", message.number));
        let fates: Vec<String> = fates.collect();
        for name in site.files("../mail") {
            let text = site.read(&format!("mail/{name}"));
            if found.values().flatten().any(|id| text.contains(&id[1..])) {
                say(&text);
            }
        }
        panic!("these letters were not expected: {found:?}; {}", fates.join(", "));
    }
    (repeated, unknown)
}
