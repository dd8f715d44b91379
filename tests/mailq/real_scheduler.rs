//! `mailq` with a real scheduler that has messages on hold.

use super::support::{DEADLINE, Site};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use zsched_format::control_file::compose::{Address, Group, Recipient};
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, Spool};

const CONFIGURATION: &str = "PARAMmailqsock=\"UNIX:${SOCKET}\"\n\
    */*\n\tinterval=1h retries=1 expiry=3d\n\
    hold/*\n\tcommand=\"hold\"\n\
    slow/*\n\tqueueonly command=\"hold -c slow\"\n";

/// A scheduler in the foreground, which is killed when this is dropped.
pub struct Scheduler {
    child: Child,
}

impl Scheduler {
    pub fn start(site: &Site) -> Scheduler {
        Scheduler::start_with(site, "")
    }

    /// Starts it with further lines of configuration.
    pub fn start_with(site: &Site, lines: &str) -> Scheduler {
        let folder = site.path("").display().to_string();
        site.write_zenv(&format!("SOCKET={folder}mailq\nFOLDER={folder}\n"));
        let configuration = format!("{lines}{CONFIGURATION}");
        fs::write(site.path("scheduler.cf"), configuration).expect("written");
        let output = || fs::File::create(site.path("output")).expect("a file for its output");
        let child = Command::new(zsched_tests::program("scheduler"))
            .arg("-i")
            .arg("-Z")
            .arg(site.path("zmailer.conf"))
            .arg("-f")
            .arg(site.path("scheduler.cf"))
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .spawn()
            .expect("the scheduler starts");
        Scheduler { child }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The scheduler has no TCP port; another may have the default one.
#[test]
fn classic_forms_ask_the_scheduler_of_the_spool() {
    let site = Site::new();
    submit(&site, &["hold timeout:2100000000 bob@there.test"]);
    let scheduler = Scheduler::start(&site);
    let socket = format!("-p UNIX:{}", site.path("mailq").display());
    wait_for(&site, "", |text| text.contains("hold/timeout:2100000000:"));
    for options in ["", "-v", "-Q", "-S", "--summary", "-s"] {
        let named = without_times(&site.mailq(&format!("{socket} {options}")).good());
        assert_eq!(without_times(&site.mailq(options).good()), named, "{options}");
    }
    // Without a socket of MAILQ there is the control socket.
    fs::remove_file(site.spool().join(".scheduler.mailq")).expect("it was written");
    let listed = site.mailq("").good();
    assert!(listed.contains("hold/timeout:2100000000:"), "{listed}");
    drop(scheduler);
    site.mailq("").failed(69, "the scheduler is not running");
}

/// The text without times, as they may differ by a second (`3d` and `2d23h`).
fn without_times(text: &str) -> String {
    let mut in_time = false;
    let is_kept = |c: &char| {
        in_time = c.is_ascii_digit() || in_time && "dhms".contains(*c);
        !in_time
    };
    text.chars().filter(is_kept).collect()
}

/// Puts a message into the spool for recipients `channel host user`. Returns its name.
pub fn submit(site: &Site, recipients: &[&str]) -> String {
    submit_text(site, "From: alice@here.test\n", "Hello.\n", recipients)
}

/// Puts a message with these headers and this body into the spool. Returns its name.
pub fn submit_text(site: &Site, headers: &str, body: &str, recipients: &[&str]) -> String {
    let recipient = |words: &&str| {
        let [channel, host, user] = words.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{words} is no recipient");
        };
        let address = Address::new(channel, host, user, 65534);
        Recipient { address, ..Recipient::default() }
    };
    let group = Group {
        sender: Address::new("local", "", "alice@here.test", 65534),
        recipients: recipients.iter().map(recipient).collect(),
        headers: headers.into(),
        ..Group::default()
    };
    let submitter =
        Submitter { spool: Spool::new(site.spool()), level: HashLevel::Flat, sync: false };
    let message = format!("{headers}\n{body}");
    let name = submitter.submit(message.as_bytes(), "<1@here.test>", vec![group], None);
    name.expect("it is taken").path()
}

/// Asks until the answer is good. Returns it.
#[track_caller]
pub fn wait_for(site: &Site, options: &str, is_good: impl Fn(&str) -> bool) -> String {
    let started = Instant::now();
    loop {
        let run = site.mailq(&format!("-p {} {options}", site.path("mailq").display()));
        let text = String::from_utf8_lossy(&run.out).into_owned();
        if run.status == 0 && is_good(&text) {
            return text;
        }
        let output = fs::read_to_string(site.path("output")).unwrap_or_default();
        assert!(started.elapsed() < DEADLINE, "{options}: {run:?}\n{output}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn version_1_works_with_real_scheduler() {
    let site = Site::new();
    let later = "timeout:2100000000";
    let first = submit(
        &site,
        &[&format!("hold {later} bob@there.test"), &format!("hold {later} carol@there.test")],
    );
    let second = submit(&site, &["hold ns:x dave@x.test", "slow y eve@y.test"]);
    let scheduler = Scheduler::start(&site);

    let is_tried = |text: &str| text.matches("(retry in ").count() == 2;
    let listing = wait_for(&site, "", is_tried);
    let lines: Vec<&str> = listing.lines().collect();
    for (heading, message) in [
        (format!("hold/{later}:"), format!("\t{first}/2:\t")),
        ("hold/ns:x:".to_string(), format!("\t{second}:\t")),
        ("slow/y:".to_string(), format!("\t{second}:\t")),
    ] {
        let at = lines.iter().position(|line| *line == heading).expect(&heading);
        assert!(lines[at + 1].starts_with(&message), "{listing}");
    }
    assert_eq!(lines.len(), 6, "{listing}");

    let ask = |options: &str| wait_for(&site, options, |_| true);
    let detailed = ask("-v -h ns:x");
    let details = "\t  id\t<1@here.test>\n\t  from\talice@here.test\n\t  to\tdave@x.test\n";
    assert!(detailed.ends_with(details), "{detailed}");
    assert!(ask("-vv -c slow").contains("<1@here.test>, 30 bytes, age "));
    assert_eq!(ask("-SS -c slow"), "slow/y:\n\t  1 file\n");
    assert_eq!(ask("-c slow -h ns:x"), "Nothing in the queue for slow/ns:x\n");
    let own = ask("-i");
    assert!(own.contains("\t  to\tcarol@there.test\n\t\tbob@there.test\n"), "{own}");

    let report = ask("-Q");
    for start in ["hold/*/0\n", "slow/*/0\n", "Kids: ", "Msgs in 2 out 0 stored 2"] {
        assert!(report.lines().any(|line| format!("{line}\n").starts_with(start)), "{report}");
    }
    let has_thread =
        |report: &str, name: &str| report.lines().any(|line| line.trim().starts_with(name));
    assert!(has_thread(&report, &format!("hold/{later}/0")), "{report}");
    assert!(!has_thread(&ask("-QQ"), &format!("hold/{later}/0")));
    let part = ask("-Q -h y");
    assert!(has_thread(&part, "slow/y/0") && !has_thread(&part, "hold/"), "{part}");

    let summary = ask("--summary");
    let total: Vec<&str> =
        summary.lines().last().expect("a last line").split_ascii_whitespace().collect();
    assert_eq!(total[..3], ["total", "3", "4"], "{summary}");
    assert!(ask("-s").contains("2 messages in "));
    assert!(site.mailq("-ss").good().ends_with("directory: working\n"));

    drop(scheduler);
    let run = site.mailq(&format!("-p {}", site.path("mailq").display()));
    run.failed(69, "which has ended");
}

#[test]
fn version_2_works_with_real_scheduler() {
    let site = Site::new();
    let accounts = "nobody:nobody:SNMP QQ TT:\nroot:sekret:ALL:\nfew:pw:SNMP:\n";
    fs::write(site.path("accounts"), accounts).expect("written");
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(site.path("accounts"), owner_only).expect("its mode is set");
    let later = "timeout:2100000000";
    let first = submit(
        &site,
        &[&format!("hold {later} bob@there.test"), &format!("hold {later} carol@there.test")],
    );
    let second = submit(&site, &["slow y eve@y.test"]);
    let _scheduler = Scheduler::start_with(&site, "PARAMauthfile=\"${FOLDER}accounts\"\n");

    let listing = wait_for(&site, "", |text| {
        text.contains("(2 tries, expires in ") && text.contains("slow/y:")
    });
    let lines: Vec<&str> = listing.lines().collect();
    for (heading, message) in [
        (format!("hold/{later}:"), format!("\t{first}: (2 tries, expires in ")),
        ("slow/y:".to_string(), format!("\t{second}: (0 tries, expires in ")),
    ] {
        let at = lines.iter().position(|line| *line == heading).expect(&heading);
        assert!(lines[at + 1].starts_with(&message), "{listing}");
    }
    assert_eq!(lines.len(), 4, "{listing}");
    let ask = |options: &str| wait_for(&site, options, |_| true);
    let detailed = ask("-v -c slow");
    assert!(
        detailed.contains("\t  id\t<1@here.test>\n\t  from\talice@here.test\n\t  to\teve@y.test\n")
    );
    assert_eq!(ask("-SS -c slow"), "slow/y:\n\t  1 file\n");
    assert!(ask("-Q").contains("\nKids: ") && ask("-QQ").contains("hold/*/0\n"));
    assert!(ask("-QQQ").contains(" sec\nMsgs in 2 out 0 stored 2"));
    assert!(ask("-QQQQ").starts_with("ZMailer SHM segment dump; Magic=0x"));

    let socket = site.path("mailq").display().to_string();
    let run = |arguments: &str| site.mailq(&format!("-p {socket} {arguments}"));
    run("-U root/wrong").failed(77, "the password of user root");
    run("-U fred").failed(77, "user fred");
    run("-U few/pw").failed(77, "it requires TT or ALL");
    run("etrn y").failed(77, "it requires ETRN or ALL");
    assert_eq!(run("-U few/pw -QQQ").status, 0);
    assert_eq!(run("-U root/sekret -K 99999999").good(), "KILLed something.\n");
    assert_eq!(run(&format!("-U root/sekret -K {second}")).good(), "KILLed something.\n");
    wait_for(&site, "", |text| !text.contains("slow/y"));
    run("etrn --login root/sekret no.such.host")
        .failed(1, "mailq: no matching mail now: no.such.host (as a host)\n");
    // The output is the same as with ZMailer's schedulers.
    let summary = run("summary").good();
    assert!(summary.starts_with("1 message for 2 recipients, 1 destination; the oldest is "));
    let check = run("check --warn-count 0");
    assert_eq!(check.status, 1, "{check:?}");
}

#[test]
fn commands_work_with_real_scheduler() {
    let site = Site::new();
    let line = site.mailq_with_input("passwd watcher --permissions QQ,TT", "a secret\n");
    let line = line.good().replace("QQ,TT", "QQ TT");
    fs::write(site.path("accounts"), line).expect("written");
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(site.path("accounts"), owner_only).expect("its mode is set");
    fs::write(site.path("login"), "watcher/a secret\n").expect("written");
    let later = "timeout:2100000000";
    let first = submit(
        &site,
        &[&format!("hold {later} bob@there.test"), &format!("hold {later} carol@there.test")],
    );
    submit(&site, &["slow y eve@y.test"]);
    let _scheduler = Scheduler::start_with(&site, "PARAMauthfile=\"${FOLDER}accounts\"\n");
    let login = format!(
        "-p {} --login-file {}",
        site.path("mailq").display(),
        site.path("login").display()
    );
    // These requests go over the port, with SCRAM.
    let started = Instant::now();
    let summary = loop {
        let run = site.mailq(&format!("summary {login}"));
        if run.status == 0 && run.text().contains("MOST TROUBLED") {
            break run.good();
        }
        assert!(started.elapsed() < DEADLINE, "{run:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(summary.starts_with("2 messages for 3 recipients, 2 destinations; the oldest is "));
    // These go over the control socket.
    let destination = format!("hold/{later}");
    for (command, words) in [
        ("summary", "BUSIEST"),
        ("list", "slow/y "),
        ("list --sort oldest hold/*", &destination),
        ("list -m", "slow/y "),
        ("list -m --recipient carol@*", &destination),
        ("show y", "queueonly"),
        (&format!("show {first}"), &destination),
        (&format!("why {destination}"), "is known to be unreachable: "),
        ("rings", "slow/*"),
        ("agents", "hold/*"),
        ("orders", "No holds"),
        ("counters", "SC.StoredMessages-G"),
        ("check", "MAILQ OK - 2 messages, 3 recipients"),
        ("check slow/*", "MAILQ OK - 1 message, 1 recipient"),
    ] {
        let shown = site.mailq(command).good();
        assert!(shown.contains(words), "{command}: {shown}");
        if !command.starts_with("check") {
            for line in site.mailq(&format!("{command} --json")).good().lines() {
                assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
            }
        }
    }
    site.mailq(&format!("events {login}")).failed(77, "it requires EVENTS or ALL");
    let mut events = site.command("events").stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = std::io::BufReader::new(events.stdout.take().expect("a pipe"));
    // The start of the subscription cannot be observed, so messages come until it has an event.
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut lines, &mut line).expect("a line");
        line
    });
    while !reader.is_finished() {
        submit(&site, &["slow y eve@y.test"]);
        assert!(started.elapsed() < DEADLINE);
        std::thread::sleep(Duration::from_millis(100));
    }
    let event = reader.join().expect("a line");
    assert!(event.contains("  arrived"), "{event}");
    events.kill().expect("it runs");
    events.wait().expect("it is our child");
}
