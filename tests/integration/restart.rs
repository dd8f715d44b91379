//! SIGKILL at any moment, and a new start: nothing is lost, and possible duplicates are listed.

use crate::support::{
    DEADLINE, Site, control_file, generator, processes, say, timeout, until, until_within,
};
use std::fs;
use std::time::{Duration, SystemTime};
use zsched_spool::HashLevel;

/// Sleeps for a random part of `range`, in milliseconds.
fn sleep_within(random: &mut fastrand::Rng, range: std::ops::Range<u64>) {
    std::thread::sleep(Duration::from_micros(random.u64(range.start * 1000..range.end * 1000)));
}

/// A kill between delivery and mark is the only reason for a duplicate.
///
/// The agent logs each delivery before it marks the recipient as done, and once more after that.
#[test]
fn hundred_kills_under_load_lose_nothing() {
    const ROUNDS: usize = 100;
    let mut random = generator("a hundred kills");
    let site = Site::new(
        "c/*\n\tmaxring=3 maxthr=2 overfeed=10 command=\"${AGENTS}/count.py c 0.002 c 0.002\"\n",
    );
    let mut addresses = Vec::new();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    for round in 0..ROUNDS {
        for _ in 0..random.usize(20..40) {
            let recipients: Vec<String> = (0..random.usize(1..4))
                .map(|_| {
                    addresses.push(format!("u{}", addresses.len()));
                    let address = addresses.last().expect("just pushed");
                    format!("c {}.test {address}", random.u32(0..8))
                })
                .collect();
            let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
            let name = site.put_quietly(&recipients);
            if random.bool() {
                // The file looks as if it had been in the queue for a while. It may be delivered
                // already.
                let file = fs::File::options().write(true).open(site.spool.control_file(&name));
                drop(file.and_then(|file| file.set_modified(long_ago)));
            }
        }
        let daemon = site.spawn(&[]);
        sleep_within(&mut random, 30..130);
        if random.bool() {
            daemon.kill();
        } else {
            // The agents are killed, too, in any state.
            let agents = daemon.agents();
            daemon.kill();
            agents.iter().for_each(|agent| drop(zsched_sys::send_signal(*agent, libc::SIGKILL)));
        }
        if round % 10 == 9 {
            until("former agents have ended", || processes::working_in(&site.path("")).is_empty());
        }
    }
    // The last scheduler finds no lock of a living process, for which it would wait 32 s.
    until("former agents have ended", || processes::working_in(&site.path("")).is_empty());
    let left = site.files("transport").len();
    let mut daemon = site.spawn(&[]);
    let limit = Duration::from_secs(60);
    until_within(limit, "no control file is left", || site.files("transport").is_empty());
    daemon.assert_runs();
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    // A kill between the two removals leaves a message file, which is removed later.
    assert_eq!(site.files("queue"), [""; 0], "messages without control files");

    let events = site.events();
    let deliveries = events.deliveries();
    let lost: Vec<&String> =
        addresses.iter().filter(|address| !deliveries.contains_key(*address)).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), addresses.len());
    let twice: Vec<&String> =
        deliveries.iter().filter(|(_, times)| **times > 1).map(|(address, _)| address).collect();
    let interrupted = events.interrupted();
    let unexplained: Vec<&&String> =
        twice.iter().filter(|address| !interrupted.contains(**address)).collect();
    assert!(unexplained.is_empty(), "delivered twice without a reason: {unexplained:?}");
    let listed = listed(&site);
    let is_listed = |address: &str| listed.iter().any(|line| line["address"] == address);
    let unlisted: Vec<&&String> = twice.iter().filter(|address| !is_listed(address)).collect();
    assert!(unlisted.is_empty(), "delivered twice, and in no list: {unlisted:?}");
    assert_eq!(site.files("postman"), [""; 0]);
    assert!(site.files("public").is_empty());
    say(&format!(
        "a hundred kills: {} recipients, {left} messages left for the last start; \
         {} deliveries interrupted, {} repeated",
        addresses.len(),
        interrupted.len(),
        twice.len()
    ));
    assert!(left > 0, "the load was too small to mean anything");
}

/// Returns the list of possible duplicates.
fn listed(site: &Site) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(site.path("postoffice/.scheduler.duplicates"));
    let parse = |line: &str| serde_json::from_str(line).expect("JSON");
    text.unwrap_or_default().lines().map(parse).collect()
}

/// Agent and scheduler are killed between delivery and mark.
///
/// The next scheduler lists the recipients that may get the mail twice, and delivers to all.
#[test]
fn possible_duplicates_are_listed() {
    // The agent waits between the delivery and the mark.
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c 0 c 600\"\n");
    let daemon = site.start();
    let name = site.put(&["c A.test u@a.test", "c a.test v@a.test"]);
    until("one is delivered", || site.events().count("count") == 1);
    let agents = daemon.agents();
    daemon.kill();
    agents.iter().for_each(|agent| drop(zsched_sys::send_signal(*agent, libc::SIGKILL)));
    until("the agent is gone", || processes::working_in(&site.path("")).is_empty());
    let delivered = site.events().of("count").next().expect("one").address().to_string();

    site.configure("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let daemon = site.start();
    site.until_empty();
    let listed = listed(&site);
    assert_eq!(listed.len(), 1, "{listed:?}");
    let of = |name: &str| listed[0][name].clone();
    assert_eq!((of("address"), of("pid")), (delivered.clone().into(), agents[0].into()));
    assert_eq!((of("channel"), of("host")), ("c".into(), "a.test".into()));
    let id = of("spool_id").as_str().expect("an id").to_string();
    assert!(id.starts_with(&format!("S{}A", name.number())), "{id}");
    let line = format!("{id}: 1 recipient for c/a.test left locked by process {}", agents[0]);
    site.until_logged(&line, 1);
    until("the total is told", || {
        site.logged("1 recipient of 1 message may be delivered twice") == 1
    });
    let deliveries = site.events().deliveries();
    assert_eq!(deliveries.values().sum::<usize>(), 3);
    assert_eq!(deliveries[&delivered], 2);
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));

    // Entries of the list stay, and other recipients are not added.
    let _daemon = site.start();
    site.put(&["c b.test w@b.test"]);
    site.until_empty();
    assert_eq!(self::listed(&site).len(), 1);
}

/// A lock that a former agent sets during the first scan is respected.
///
/// The agent of a killed scheduler goes on with its jobs, while the next one scans a large spool.
/// The age of the file does not matter.
#[test]
fn locks_taken_during_first_scan_are_respected() {
    let site = Site::new(
        "q/*\n\tqueueonly command=\"discard -c q\"\n\
         c/*\n\toverfeed=1000 command=\"${AGENTS}/count.py c 0.1\"\n",
    );
    for _ in 0..6000 {
        site.put_quietly(&["q a.test u"]);
    }
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    for number in 0..200 {
        let name = site.put_quietly(&[&format!("c a.test u{number}")]);
        let file = fs::File::options().write(true).open(site.spool.control_file(&name));
        file.and_then(|file| file.set_modified(long_ago)).expect("made older");
    }
    let daemon = site.start_with(&["-S"]);
    // The first job comes alone; then the agent gets all others.
    until("the agent has all its jobs", || site.events().count("count") == 2);
    let agent = daemon.agents();
    daemon.kill();
    let _daemon = site.start();
    until("a second agent is at work", || site.events().of("take").any(|e| e.pid != agent[0]));
    let moment = site.events().count("count");
    until("both go on", || site.events().count("count") > moment + 10);
    let deliveries = site.events().deliveries();
    let twice: Vec<_> = deliveries.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "delivered twice: {twice:?}");
}

/// The scheduler was killed between the two steps of a move into a letter folder.
#[test]
fn message_file_left_at_top_is_moved() {
    let site = Site::with_level(HashLevel::Twice, "c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    for name in ["Z/F/4711", "B/I/15582"] {
        let number = &name[4..];
        site.put_file(name, control_file(number, &["c a.test u"]).as_bytes());
        let queue = site.path("postoffice/queue");
        fs::rename(queue.join(name), queue.join(number)).expect("as if it were not moved yet");
    }
    let _daemon = site.start();
    site.until_empty();
    assert_eq!(site.events().count("count"), 2);
    assert_eq!(site.files("postman"), [""; 0], "{}", site.log());
}

/// Both files of each message are in `postman/` after kills during the moves.
#[test]
fn kills_during_moves_to_postman_lose_nothing() {
    let mut random = generator("kills while files are moved");
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let spoilt = |number: usize| match number % 3 {
        0 => String::new(),
        1 => control_file(&number.to_string(), &["c a.test u"]).replace("@ 0x00000007", "@ 8"),
        _ => control_file("1", &["c a.test u"]),
    };
    let numbers = 1000..1600;
    for number in numbers.clone() {
        site.put_file(&number.to_string(), spoilt(number).as_bytes());
    }
    let visible = || site.files("transport").iter().filter(|name| !name.starts_with('.')).count();
    let mut kills = 0;
    while visible() > 0 && kills < 200 {
        let daemon = site.spawn(&[]);
        let before = visible();
        until("it has begun", || visible() < before || visible() == 0);
        sleep_within(&mut random, 0..3);
        daemon.kill();
        kills += 1;
    }
    let _daemon = site.start();
    until("all are out of the way", || visible() == 0);
    say(&format!("kills while files are moved: {kills}"));
    assert!(kills > 3, "too few kills to mean anything: {kills}");
    let (postman, transport) = (site.files("postman"), site.files("transport"));
    for number in numbers {
        let aside = format!("malformed:{number}");
        // The remains of a kill may have blocked the name; then it has another one, or is hidden.
        let is_it = |name: &&String| name.starts_with(&aside) && !name.ends_with(":message");
        let (control, message) = match postman.iter().find(is_it) {
            Some(name) => (format!("postman/{name}"), format!("postman/{name}:message")),
            None => {
                assert!(transport.contains(&format!(".{aside}")), "{number} is gone");
                (format!("transport/.{aside}"), format!("queue/{number}"))
            }
        };
        assert_eq!(site.read(&format!("postoffice/{control}")), spoilt(number), "{control}");
        let text = site.read(&format!("postoffice/{message}"));
        assert!(text.contains("This is the body."), "{message}");
        let has_second_name =
            message.starts_with("postman") && site.files("queue").contains(&number.to_string());
        assert!(!has_second_name, "{number} is in queue/, too");
    }
}

/// A kill during removals leaves complete messages or nothing: never a control file without its
/// message.
#[test]
fn kills_during_removals_leave_no_partial_messages() {
    let mut random = generator("kills while messages are removed");
    let site = Site::new("c/*\n\tcommand=\"discard -c c\"\n");
    for number in 0..3000 {
        site.put_quietly(&[&format!("c {}.test u{number}", number % 5)]);
    }
    let mut kills = 0;
    loop {
        let before = site.files("transport").len();
        if before == 0 || kills == 100 {
            break;
        }
        let daemon = site.spawn(&[]);
        until("it removes", || site.files("transport").len() < before);
        sleep_within(&mut random, 0..5);
        daemon.kill();
        kills += 1;
        let queue = site.files("queue");
        for name in site.files("transport") {
            assert!(queue.binary_search(&name).is_ok(), "{name} has no message file");
        }
    }
    let daemon = site.start();
    until("the rest is delivered", || site.files("transport").is_empty());
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    assert_eq!(site.files("postman"), [""; 0], "{}", site.log());
    assert_eq!(site.files("queue"), [""; 0], "message files without control files");
    let finished = site.logged("message files left by the former scheduler");
    say(&format!("kills while messages are removed: {kills}, finished at {finished} starts"));
}

/// A new scheduler continues with the learned retry times and counts.
///
/// Waits for the regular write of the file, which takes 30 scaled seconds.
#[test]
fn learned_state_survives_exit_and_kill() {
    let site = Site::new("c/*\n\tinterval=1h retries=1 command=\"${AGENTS}/count.py c\"\n");
    let file = site.path("postoffice/.scheduler.learned");
    let shown = |site: &Site| site.until_shown("as told: deferred (retry in ");
    let daemon = site.start();
    site.put(&["c a.test deferred!1"]);
    assert!(shown(&site).ends_with("tries=1)"));
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    assert!(file.exists());

    let daemon = site.start();
    assert!(shown(&site).ends_with("tries=1)"), "it waits on");
    site.put(&["c b.test deferred!2"]);
    until_within(timeout(30) + DEADLINE, "the file has both", || {
        site.read("postoffice/.scheduler.learned").matches("\"vertex\"").count() == 2
    });
    daemon.kill();

    // A crash during the write leaves a part of the new file, which is ignored.
    site.write("postoffice/.scheduler.learned.new", "{\"zsched-learned\":1}\n{\"ver");
    let daemon = site.start();
    until("both wait on", || {
        let dump = site.mailq();
        dump.vertices.iter().filter(|vertex| vertex.text.contains("tries=1")).count() == 2
    });
    assert_eq!(site.events().count("take"), 2, "nothing was tried again");
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));

    // A damaged file has the effect of none.
    site.write("postoffice/.scheduler.learned", "\u{1}\n{\n");
    let _daemon = site.start();
    until("both are tried", || site.events().count("take") == 4);
    site.until_logged("2 lines cannot be used", 1);
}

/// Programs that submit mail write it into `public/` first.
#[test]
fn scratch_files_of_killed_programs_are_removed() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let site = Site::new("");
    for (name, age) in [("host:1:0", DAY), ("host:2:0", DAY / 2), ("v_1", DAY)] {
        let file = fs::File::create(site.path("postoffice/public").join(name)).expect("a file");
        file.set_modified(SystemTime::now() - age).expect("its time is set");
    }
    let daemon = site.start();
    site.until_logged("removed 1 file that killed programs have left in public/ a day ago", 1);
    let mut left = site.files("public");
    left.sort();
    assert_eq!(left, ["host:2:0", "v_1"]);
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}
