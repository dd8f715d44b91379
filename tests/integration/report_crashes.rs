//! Each failed recipient is in one report, whenever the scheduler is killed.

use crate::support::{
    Client, Daemon, ReadReport, Site, control_file, generator, processes, say, until, until_within,
};
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

const LONG_AGO: Duration = Duration::from_secs(10 * 24 * 60 * 60);

/// Takes submissions out of `router/`, as a router does, so that names are free again.
struct Router {
    from: PathBuf,
    to: PathBuf,
    is_over: AtomicBool,
}

impl Router {
    fn run(&self) {
        let mut count = 0;
        loop {
            // What is there at the end is taken, too.
            let is_last = self.is_over.load(Ordering::Relaxed);
            for entry in fs::read_dir(&self.from).expect("a folder").flatten() {
                fs::rename(entry.path(), self.to.join(count.to_string())).expect("taken");
                count += 1;
            }
            if is_last {
                return;
            }
            std::thread::sleep(Duration::from_micros(fastrand::u64(100..20_000)));
        }
    }
}

/// Does `work` while a router takes the submissions, and returns these.
pub(crate) fn with_router(site: &Site, work: impl FnOnce()) -> Vec<String> {
    fs::create_dir(site.path("taken")).expect("a folder");
    let [from, to] = ["postoffice/router", "taken"].map(|folder| site.path(folder));
    let router = Router { from, to, is_over: AtomicBool::new(false) };
    // A panic must end the router, too.
    struct End<'r>(&'r AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| router.run());
        let _end = End(&router.is_over);
        work();
    });
    let taken = fs::read_dir(site.path("taken")).expect("a folder").flatten();
    taken.map(|entry| fs::read_to_string(entry.path()).expect("text")).collect()
}

/// Fails unless each of these addresses is in exactly one report, and no other is.
#[track_caller]
pub(crate) fn assert_reported_once(reports: &[String], addresses: &[String]) {
    let mut times: HashMap<String, usize> = HashMap::new();
    for report in reports {
        for recipient in ReadReport::of(report).recipients() {
            *times.entry(recipient.to_string()).or_default() += 1;
        }
    }
    let lost: Vec<_> = addresses.iter().filter(|address| !times.contains_key(*address)).collect();
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), addresses.len());
    if let Some((address, _)) = twice.first() {
        let of_address =
            |report: &&String| ReadReport::of(report).recipients().contains(&address.as_str());
        reports.iter().filter(of_address).for_each(|report| println!("{address}: {report}"));
        panic!("{} are reported twice: {twice:?}", twice.len());
    }
    assert_eq!(times.len(), addresses.len());
}

fn make_old(path: &Path) {
    let file = File::options().write(true).open(path).expect("a file");
    file.set_modified(SystemTime::now() - LONG_AGO).expect("its time is set");
}

fn outbox(site: &Site) -> Vec<String> {
    site.files(".scheduler.outbox")
}

/// Kills the scheduler, and sometimes its agents.
fn kill(daemon: Daemon<'_>, random: &mut fastrand::Rng) {
    let agents = daemon.agents();
    daemon.kill();
    if random.bool() {
        agents.iter().for_each(|agent| drop(zsched_sys::send_signal(*agent, libc::SIGKILL)));
    }
}

/// Kills the scheduler very often while mail fails in all ways.
fn kills_with(test: &str, parameters: &str, rounds: usize) {
    let mut random = generator(test);
    let site = Site::new(&format!(
        "{parameters}PARAMglobal-report-interval=1s\n\
         c/*\n\tmaxring=3 maxthr=2 overfeed=10 expiry=90d \
         command=\"${{AGENTS}}/outcome.py c 0.001\"\n\
         e/*\n\tqueueonly expiry=1d expiry2=1d command=\"${{AGENTS}}/outcome.py e\"\n"
    ));
    let mut failing = Vec::new();
    let mut kinds = [0_usize; 5];
    let mut put_some = |random: &mut fastrand::Rng| {
        for _ in 0..random.usize(20..40) {
            let mut recipients = Vec::new();
            for _ in 0..random.usize(1..4) {
                let kind = random.usize(0..5);
                kinds[kind] += 1;
                let word = ["error", "error2", "silent", "expired", "ok3"][kind];
                let channel = if word == "expired" { "e" } else { "c" };
                let address = format!("{word}!{}", kinds.iter().sum::<usize>());
                recipients.push(format!("{channel} {}.test {address}", random.u32(0..8)));
                if word != "ok3" {
                    failing.push(address);
                }
            }
            let name = site.put_quietly(&recipients.iter().map(String::as_str).collect::<Vec<_>>());
            // Recipients of `e` expire without an attempt.
            if let Some(path) = Some(site.spool.message_file(&name)).filter(|path| path.exists()) {
                make_old(&path);
            }
        }
    };
    let mut left_most = 0;
    let reports = with_router(&site, || {
        for round in 0..rounds {
            put_some(&mut random);
            let daemon = site.spawn(&[]);
            std::thread::sleep(Duration::from_millis(random.u64(30..200)));
            left_most = left_most.max(outbox(&site).len());
            kill(daemon, &mut random);
            if round % 10 == 9 {
                let is_idle = || processes::working_in(&site.path("")).is_empty();
                until("former agents have ended", is_idle);
            }
        }
        until("former agents have ended", || processes::working_in(&site.path("")).is_empty());
        let daemon = site.spawn(&[]);
        let is_over = || site.files("transport").is_empty() && outbox(&site).is_empty();
        until_within(Duration::from_secs(120), "no control file is left", is_over);
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    });
    assert_reported_once(&reports, &failing);
    for folder in ["transport", "queue", "postman", "router", ".scheduler.outbox"] {
        assert_eq!(site.files(folder), [""; 0], "{folder}");
    }
    say(&format!(
        "{test}: {} failed recipients in {} reports; {kinds:?} of each kind; at most {left_most} \
         files in the outbox at a kill",
        failing.len(),
        reports.len()
    ));
}

#[test]
fn kills_leave_each_failure_in_one_report() {
    kills_with("kills while mail fails", "", 60);
}

#[test]
fn kills_with_memory_limit_leave_each_failure_in_one_report() {
    let limits = "PARAMmessage-active-limit=5\nPARAMmessage-recipient-limit=50\n\
                  PARAMmessage-recipient-minimum=3\nPARAMmsgwriteasync=1\n";
    kills_with("kills while mail fails, with a memory limit", limits, 40);
}

/// Former versions have kept messages that owe a report in `postman/`.
#[test]
fn messages_of_former_versions_are_reported_once() {
    let mut random = generator("messages of former versions");
    let site = Site::new("q/*\n\tqueueonly command=\"${AGENTS}/outcome.py q\"\n");
    let mut failing = Vec::new();
    let mut used = Vec::new();
    for number in 1..=200 {
        let (name, address) = (format!("4{number:03}"), format!("u{number}@x"));
        let file = match number % 10 {
            1 => format!("{name}:owed-report"),
            2 => format!("owed-report:{name}.{}", number % 3),
            _ => format!("owed-report:{name}"),
        };
        let text = control_file(&name, &[&format!("c a.test {address}")]);
        let text = text.replace("r           c", "r-          c");
        let recipient = text.find("\nr-").expect("a recipient") + 1;
        // Every third was reported by an agent, others not at all.
        let line = match number % 3 {
            0 => format!(
                "d {recipient}:-1:-1::1795255906\t{address}\x01failed\x015.1.1\x01smtp; 550\x01\tno\n"
            ),
            _ => String::new(),
        };
        let path = |name: &str| site.path("postoffice/postman").join(name);
        fs::write(path(&file), text + &line).expect("written");
        let message = "Subject: test\n\nThis is the body.\n";
        fs::write(path(&format!("{file}:message")), message).expect("written");
        failing.push(address);
        if number % 20 == 5 {
            // Other mail has its number now.
            let other = control_file(&name, &[&format!("q a.test other{number}")]);
            site.put_file(&name, other.as_bytes());
            used.push(name);
        }
    }
    let reports = with_router(&site, || {
        let mut kills = 0;
        let left = || site.files("postman").len();
        while left() > 2 * used.len() && kills < 200 {
            let before = left();
            let daemon = site.spawn(&[]);
            let has_begun = || left() < before || left() <= 2 * used.len();
            until("some are taken up", has_begun);
            std::thread::sleep(Duration::from_micros(random.u64(0..3000)));
            daemon.kill();
            kills += 1;
        }
        say(&format!("messages of former versions: {kills} kills"));
        let daemon = site.start();
        until("those whose numbers are free have left", || {
            site.files("transport").len() == used.len() && left() == 2 * used.len()
        });
        let mut client = Client::local(&site, "postoffice/.scheduler.control");
        client.ask("ETRN a.test");
        site.until_empty();
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
        let daemon = site.start();
        until("the others are taken up", || left() == 0 && site.is_empty());
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    });
    assert_reported_once(&reports, &failing);
    assert_eq!(outbox(&site), [""; 0]);
}

/// Mail for a dead provider expires, and other mail is delivered meanwhile.
#[test]
fn many_bounces_do_not_stop_delivery() {
    const BOUNCES: usize = 20_000;
    let site = Site::new(
        "PARAMmsgwriteasync=1\n\
         e/*\n\tqueueonly expiry=1d expiry2=1d command=\"${AGENTS}/count.py e\"\n\
         c/*\n\tcommand=\"${AGENTS}/count.py c\"\n",
    );
    for number in 0..BOUNCES {
        let name = site.put_quietly(&[&format!("e dead.test u{number}")]);
        make_old(&site.spool.message_file(&name));
    }
    let mut daemon = site.start();
    let reports = || fs::read_dir(site.path("postoffice/router")).expect("a folder").count();
    until("reports are being sent", || reports() > 0);
    for number in 0..5 {
        site.put(&[&format!("c a.test other{number}")]);
        until("other mail is delivered", || site.events().count("count") > number);
    }
    let meanwhile = reports();
    assert!(meanwhile < BOUNCES, "all reports came first");
    let limit = Duration::from_secs(240);
    until_within(limit, "all have left", || site.files("transport").is_empty());
    daemon.assert_runs();
    assert_eq!(reports(), BOUNCES);
    let memory = peak_memory(daemon.pid());
    say(&format!("{meanwhile} of {BOUNCES} reports before other mail; {memory} KiB at most"));
    assert!(memory < 300 << 10, "{memory} KiB");
}

/// The largest size of a process in memory, in KiB.
fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
