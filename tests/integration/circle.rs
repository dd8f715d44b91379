//! The whole circle under kills: `sendmail`, router, scheduler, then a mailbox or a report.

use crate::support::router::Router;
use crate::support::{Daemon, Site, allow, generator, processes, say, until, until_within};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use zsched_tests::program;

/// Number of messages, unless `ZSCHED_CIRCLE_MESSAGES` says otherwise.
const DEFAULT_MESSAGES: usize = 1000;
/// Number of users who send at the same time.
const SENDERS: usize = 4;
/// Number of users with a mailbox.
const USERS: u64 = 20;
/// Maximum time between two kills, in microseconds.
const MAX_LIFE_MICROS: u64 = 200_000;
/// Time for each message after the last kill, before the test gives up.
const LIMIT_PER_MESSAGE: Duration = Duration::from_millis(40);

const CLAUSES: &str = "PARAMglobal-report-interval=1s\n\
    local/*\n\tmaxring=4 maxthr=2 overfeed=10 command=\"mailbox -u -M -d ${SITE}/mail\"\n\
    refusing/*\n\tmaxring=2 overfeed=10 command=\"pipe -c refusing --command ${SITE}/refuse\"\n";
const ROUTES: &str = "hostname here.test\nusers file ${SITE}/users\naliases ${SITE}/aliases\n\
    local here.test\nroute refusing.test refusing\n";

/// A message of a user, with what must become of it.
pub struct Message {
    pub number: usize,
    pub sender: String,
    pub recipients: Vec<String>,
    /// Users whose mailbox gets it.
    delivered: Vec<String>,
    /// Addresses that the sender gets a report about.
    pub refused: Vec<String>,
}

impl Message {
    /// Returns the message of this number. It is the same for the same seed.
    pub fn of(seed: u64, number: usize) -> Message {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(number as u64));
        let sender = format!("user{}", random.u64(0..USERS));
        let mut message =
            Message { number, sender, recipients: vec![], delivered: vec![], refused: vec![] };
        let count = if random.u8(0..5) == 0 { 3 } else { 1 };
        for _ in 0..count {
            let name = format!("{}-{number}", message.recipients.len());
            match random.u8(0..6) {
                0..=2 => message.add_user(format!("user{}", random.u64(0..USERS))),
                3 => message.add_list(),
                4 => message.add_refused(format!("unknown{name}@here.test")),
                _ => message.add_refused(format!("refused{name}@refusing.test")),
            }
        }
        message
    }

    fn add_user(&mut self, user: String) {
        self.recipients.push(format!("{user}@here.test"));
        self.add_delivered(user);
    }

    fn add_list(&mut self) {
        self.recipients.push("both@here.test".into());
        self.add_delivered("user0".into());
        self.add_delivered("user1".into());
    }

    /// A recipient that is reached in several ways gets one copy.
    fn add_delivered(&mut self, user: String) {
        if !self.delivered.contains(&user) {
            self.delivered.push(user);
        }
    }

    fn add_refused(&mut self, address: String) {
        self.recipients.push(address.clone());
        self.refused.push(address);
    }

    /// Gives it to `sendmail`, as a program of its user does.
    fn send(&self, zenv: &Path) {
        let mut child = Command::new(program("sendmail"))
            .args(["-oi", "-f", &format!("{}@here.test", self.sender), "--"])
            .args(&self.recipients)
            .env("ZCONFIG", zenv)
            .stdin(Stdio::piped())
            .spawn()
            .expect("sendmail starts");
        let text = format!("Subject: {}\n\nThis is the body.\n", self.number);
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("sendmail reads");
        drop(input);
        assert!(child.wait().expect("it ends").success());
    }

    /// The letters that must be in mailboxes: user and content.
    pub fn letters(&self) -> impl Iterator<Item = (String, Content)> {
        let message = |user: &String| (user.clone(), Content::Message(self.number.to_string()));
        let report = |address: &String| (self.sender.clone(), Content::Report(address.clone()));
        self.delivered.iter().map(message).chain(self.refused.iter().map(report))
    }
}

/// What a letter in a mailbox is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// The message with this subject.
    Message(String),
    /// A report about this address.
    Report(String),
}

/// Returns the spool ids of all letters in mailboxes, by user and content.
pub fn letters(site: &Site) -> HashMap<(String, Content), Vec<String>> {
    let mut found: HashMap<(String, Content), Vec<String>> = HashMap::new();
    for entry in fs::read_dir(site.path("mail")).expect("mailboxes").flatten() {
        let user = entry.file_name().into_string().expect("a name");
        for letter in fs::read_dir(entry.path().join("new")).expect("a Maildir").flatten() {
            let text = fs::read_to_string(letter.path()).expect("a letter");
            let all_after = |prefix: &'static str| {
                text.lines().filter_map(move |line| line.strip_prefix(prefix)).map(str::to_string)
            };
            let id = text.split_once(" id S").expect("a trace line").1;
            let id = format!("S{}", id.split_once(';').expect("its end").0);
            let reported: Vec<String> = all_after("Final-Recipient: rfc822; ").collect();
            let contents = match text.contains("\nContent-Type: multipart/report;") {
                true => reported.into_iter().map(Content::Report).collect(),
                false => vec![Content::Message(all_after("Subject: ").next().expect("a subject"))],
            };
            for content in contents {
                found.entry((user.clone(), content)).or_default().push(id.clone());
            }
        }
    }
    found
}

/// Returns how often the scheduler has listed a recipient as a possible duplicate.
pub fn possible_duplicates(site: &Site) -> HashMap<(String, String), usize> {
    let mut listed = HashMap::new();
    for line in site.read("postoffice/.scheduler.duplicates").lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| line[name].as_str().expect("a text").to_string();
        *listed.entry((text("spool_id"), text("address"))).or_default() += 1;
    }
    listed
}

/// Fails unless each letter is there once, or as often as the list of duplicates allows.
///
/// Returns the number of letters that are there twice.
fn check_letters(site: &Site, messages: &[Message]) -> usize {
    let mut found = letters(site);
    let listed = possible_duplicates(site);
    let mut repeated = 0;
    let mut lost = Vec::new();
    // Two recipients of a message may have the same user, in different ways.
    let expected: HashSet<(String, Content)> = messages.iter().flat_map(Message::letters).collect();
    for letter in expected {
        let Some(ids) = found.remove(&letter) else {
            lost.push(letter);
            continue;
        };
        if ids.len() > 1 {
            let address = format!("{}@here.test", letter.0);
            let times = listed.get(&(ids[0].clone(), address)).copied().unwrap_or(0);
            let is_one_message = ids.iter().all(|id| *id == ids[0]);
            assert!(is_one_message, "{letter:?} came from several messages: {ids:?}");
            assert!(times + 1 >= ids.len(), "{letter:?} came as {ids:?}, listed {times} times");
            repeated += 1;
        }
    }
    assert!(lost.is_empty(), "{} letters are lost: {lost:?}", lost.len());
    assert!(found.is_empty(), "these letters were not expected: {found:?}");
    repeated
}

/// Folders of the spool that have nothing when all mail has left.
const FOLDERS: [&str; 9] = [
    "public",
    "router",
    "queue",
    "transport",
    ".scheduler.outbox",
    "postman",
    "deferred",
    "freezer",
    "drop",
];

pub fn left_over(site: &Site) -> Vec<String> {
    let of = |folder: &str| {
        let files = site.files(folder).into_iter();
        files.map(|name| format!("{folder}/{name}")).collect::<Vec<_>>()
    };
    FOLDERS.iter().flat_map(|folder| of(folder)).collect()
}

/// Scheduler and router, which are killed at random times.
struct Programs<'s> {
    site: &'s Site,
    scheduler: Option<Daemon<'s>>,
    router: Option<Router>,
    /// Kills of schedulers, routers and agents.
    kills: [usize; 3],
}

impl<'s> Programs<'s> {
    fn start(site: &'s Site) -> Programs<'s> {
        let mut programs = Programs { site, scheduler: None, router: None, kills: [0; 3] };
        programs.start_missing();
        programs
    }

    fn start_missing(&mut self) {
        let Programs { site, .. } = *self;
        self.scheduler.get_or_insert_with(|| site.spawn(&[]));
        self.router.get_or_insert_with(|| Router::start(site));
    }

    fn kill_some(&mut self, random: &mut fastrand::Rng) {
        let which = random.u8(0..3);
        if which != 0 {
            let scheduler = self.scheduler.take().expect("it runs");
            let agents = scheduler.agents();
            scheduler.kill();
            self.kills[0] += 1;
            if random.bool() {
                self.kills[2] += agents.len();
                // They may have ended by themselves.
                agents.iter().for_each(|pid| drop(zsched_sys::send_signal(*pid, libc::SIGKILL)));
            }
        }
        if which != 1 {
            self.router.take().expect("it runs").kill();
            self.kills[1] += 1;
        }
    }

    /// Kills what runs, and waits for the end of all agents.
    ///
    /// The next scheduler finds no lock of a living process, for which it would wait 32 s.
    fn kill_all(&mut self) {
        self.scheduler.take().into_iter().for_each(Daemon::kill);
        self.router.take().into_iter().for_each(Router::kill);
        let folder = self.site.path("");
        until("former agents have ended", || processes::working_in(&folder).is_empty());
    }

    fn end(mut self) {
        let scheduler = self.scheduler.take().expect("it runs");
        assert_eq!(scheduler.end(libc::SIGTERM).code(), Some(0));
        self.router.take().expect("it runs").kill();
    }
}

pub fn circle_site() -> Site {
    let site = Site::new(CLAUSES);
    let users: String = (0..USERS).map(|number| format!("user{number}\n")).collect();
    site.write("users", &users);
    site.write("aliases", "both: user0, user1\n");
    site.write("router.cf", ROUTES);
    site.write("refuse", "#!/bin/sh\necho no such user >&2\nexit 67\n");
    allow(site.path("refuse"), 0o755);
    site
}

#[test]
fn kills_in_circle_leave_each_message_delivered_or_reported() {
    let given = std::env::var("ZSCHED_CIRCLE_MESSAGES").ok();
    let count = given.map_or(DEFAULT_MESSAGES, |text| text.parse().expect("a number"));
    let mut random = generator("kills in the circle");
    let seed = random.u64(..);
    let site = circle_site();
    let messages: Vec<Message> = (0..count).map(|number| Message::of(seed, number)).collect();
    let next = AtomicUsize::new(0);
    let zenv = site.path("zmailer.conf");
    let send = || {
        while let Some(message) = messages.get(next.fetch_add(1, Ordering::Relaxed)) {
            message.send(&zenv);
        }
    };
    let mut wait_and_kill = |programs: &mut Programs<'_>| {
        std::thread::sleep(Duration::from_micros(random.u64(0..MAX_LIFE_MICROS)));
        programs.kill_some(&mut random);
        programs.start_missing();
    };
    let began = Instant::now();
    let mut programs = Programs::start(&site);
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(send)).collect();
        while senders.iter().any(|sender| !sender.is_finished()) {
            wait_and_kill(&mut programs);
        }
    });
    let sent_after = began.elapsed();
    // The mail that is still on its way meets some more.
    for _ in 0..programs.kills[0] / 2 {
        if left_over(&site).is_empty() {
            break;
        }
        wait_and_kill(&mut programs);
    }
    programs.kill_all();
    let left = left_over(&site).len();
    programs.scheduler = Some(site.start());
    programs.start_missing();
    let limit = Duration::from_secs(60) + LIMIT_PER_MESSAGE * count as u32;
    // What leaves one folder may come into another that was looked at before.
    let is_empty = || left_over(&site).is_empty() && left_over(&site).is_empty();
    until_within(limit, "all mail has left the spool", is_empty);
    let kills = programs.kills;
    programs.end();
    assert_eq!(left_over(&site), [""; 0]);
    let repeated = check_letters(&site, &messages);
    let [schedulers, routers, agents] = kills;
    say(&format!(
        "kills in the circle: {count} messages, sent in {sent_after:.1?}, {left} files left at \
         the last kill, all done after {:.1?}; killed {schedulers} schedulers, {routers} routers, \
         {agents} agents; {repeated} letters came twice, as listed",
        began.elapsed()
    ));
}
