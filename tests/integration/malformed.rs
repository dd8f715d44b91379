//! Useless control files: they are moved aside and logged, and stop no other mail. None is deleted.

use crate::support::{
    DEADLINE, Daemon, Site, allow, control_file, hold_for, is_root, not_run, processes, timeout,
    until, until_within,
};
use std::fs;
use std::os::unix::fs::chown;
use std::process::{Command, Stdio};
use std::time::Duration;

const COUNT: &str = "c/*\n\tcommand=\"${AGENTS}/count.py c\"\n";
const NOBODY_UID: u32 = 65534;

/// Returns damaged files, each with its name and the text that the log must have.
fn malformed_files() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let good = |name: &str| control_file(name, &["c a.test u", "c a.test v"]);
    let with = |name: &str, from: &str, to: &str| good(name).replacen(from, to, 1).into_bytes();
    let alone = |name: &str, to: &str| {
        let one = control_file(name, &["c a.test u"]);
        one.replacen("r           c a.test u 0", to, 1).into_bytes()
    };
    vec![
        ("101", vec![], "offset 0: the file is empty"),
        ("102", with("102", "@ 0x00000007", "@ 0x0000000f"), "offset 0: unknown format bits"),
        ("103", with("103", "@ 0x00000007", "@ seven"), "offset 0: the @ line has no number"),
        ("104", with("104", "i 104\n", ""), "offset 0: no i line"),
        ("105", with("105", "i 105", "i 106"), "offset 13: the i line says 106"),
        ("107", with("107", "i 107", "i ../107"), "offset 13: the i line is not a file name"),
        ("108", control_file("108", &[]).into_bytes(), "offset 0: no recipient"),
        ("109", alone("109", "r   "), "offset 54: recipient cut short"),
        ("110", alone("110", "r           c"), "offset 54: recipient has no host"),
        ("111", alone("111", "r           "), "offset 54: recipient has no channel"),
        ("112", with("112", "o 15", "o many"), "offset 19: the o line is not a number"),
        ("113", with("113", "s local - sender@x 0", "s local"), "sender has no host"),
        ("114", vec![0xff; 100_000], "offset 0: no i line"),
        ("115", b"Subject: this is no control file\n\nAt all.\n".to_vec(), "no i line"),
        ("116", vec![b'\n'; 5000], "no i line"),
        ("117", b"i 117".to_vec(), "no recipient"),
        ("119", with("119", "test\n\n", "test\n"), "offset 104: the headers have no end"),
        (
            "120",
            with("120", "m\nSubject: test\n\n", "m\nA: 1\n\nM\nB: 1\n"),
            "the headers have no end",
        ),
        ("118-x", with("118-x", "i 118-x", "i 118"), "offset 13: the i line says 118"),
    ]
}

/// Waits until a damaged file is in `postman/`, complete, with its message.
fn until_aside(site: &Site, name: &str, control: &[u8]) {
    until(&format!("{name} is moved aside"), || {
        !site.files("transport").contains(&name.to_string())
            && site.files("postman").contains(&format!("malformed:{name}"))
    });
    let aside = fs::read(site.path(&format!("postoffice/postman/malformed:{name}")));
    assert_eq!(aside.expect("readable"), control, "{name}");
}

#[test]
fn malformed_files_are_moved_aside_with_messages() {
    let site = Site::new(COUNT);
    let all = malformed_files();
    for (name, control, _) in &all {
        site.put_file(name, control);
    }
    site.put_quietly(&["c a.test u"]);
    let daemon = site.start();
    for (name, control, reason) in &all {
        until_aside(&site, name, control);
        let message = site.read(&format!("postoffice/postman/malformed:{name}:message"));
        assert!(message.contains("This is the body."), "{name}: {message}");
        let begin = format!("{name}: malformed control file, ");
        until("the log says so", || site.logged(&begin) == 1);
        let log = site.log();
        let line = log.lines().find(|line| line.contains(&begin)).expect("counted");
        assert!(line.contains(reason) && line.contains("offset "), "{line}");
        assert!(line.contains(&format!("postman/malformed:{name}")), "{line}");
    }
    site.until_empty();
    assert_eq!(site.events().count("count"), 1, "the good one was delivered");
    daemon.scan();
    daemon.until_log_is_complete();
    assert_eq!(site.logged("malformed"), all.len());
    // The same number is damaged again; nothing in postman/ is lost.
    site.put_file("101", b"");
    site.notify("NEW 101");
    until("it is moved aside, too", || {
        site.files("postman").contains(&"malformed:101.2".to_string())
    });
    assert_eq!(site.files("postman").len(), 2 * all.len() + 2);
}

/// A malformed line does not stop the other recipients; afterwards the file is moved to `postman/`.
#[test]
fn bad_recipient_does_not_stop_others() {
    let site = Site::new(COUNT);
    let good = |name: &str| control_file(name, &["c a.test u", "c a.test v"]);
    let recipient = "r           c a.test u 0";
    for (name, bad) in
        [("131", "r   "), ("132", "r           c"), ("133", "r?          c a.test u 0")]
    {
        site.put_file(name, good(name).replacen(recipient, bad, 1).as_bytes());
    }
    let _daemon = site.start();
    site.until_empty();
    let events = site.events();
    assert_eq!(events.count("count"), 3, "the other recipient of each");
    assert!(events.of("count").all(|event| event.address() == "v"));
    for (name, reason) in [("131", "cut short"), ("132", "has no host"), ("133", "unknown tag")] {
        let log = site.log();
        let line =
            log.lines().find(|line| line.contains(&format!("S{name}")) && line.contains("deliver"));
        assert!(line.is_some_and(|line| line.contains("offset 54: recipient ") && line.contains(reason)), "{log}");
        let kept = site.read(&format!("postoffice/postman/undeliverable:{name}"));
        assert!(kept.contains("r+          c a.test v 0"), "{kept}");
    }
}

#[test]
fn control_file_without_message_file_is_malformed() {
    let site = Site::new(COUNT);
    let queue = site.path("postoffice/queue");
    for name in ["201", "202"] {
        site.put_file(name, control_file(name, &["c a.test u"]).as_bytes());
        fs::remove_file(queue.join(name)).expect("the message is removed");
    }
    fs::create_dir(queue.join("202")).expect("a folder");
    let daemon = site.start();
    for (name, reason) in
        [("201", "there is no message file"), ("202", "the message file is not a regular file")]
    {
        site.until_logged(&format!("{name}: malformed control file, offset 13: {reason}"), 1);
    }
    daemon.scan();
    assert_eq!(site.files("postman"), ["malformed:201"]);
    // A folder is not moved with its control file, which is hidden in place.
    assert_eq!(site.files("transport"), [".malformed:202"]);
    assert!(queue.join("202").is_dir(), "what is in the queue stays");
    daemon.until_log_is_complete();
    assert_eq!(site.logged("malformed"), 2);
    assert_eq!(site.events().0.len(), 0);
}

/// The message files are on another file system, which is not mounted at the start.
///
/// Waits for the second look, after 60 scaled seconds.
#[test]
fn control_files_stay_while_queue_is_not_mounted() {
    let site = Site::new(COUNT);
    let (queue, mounted) = (site.path("postoffice/queue"), site.path("postoffice/queue.mounted"));
    let names: Vec<String> =
        (0..20).map(|_| site.put_quietly(&["c a.test u"]).to_string()).collect();
    fs::rename(&queue, &mounted).expect("unmounted");
    fs::create_dir(&queue).expect("what is below a mount point");
    let mut before = site.files("transport");
    let _daemon = site.start();
    site.until_logged("queue/ is empty: is it mounted?", 1);
    before.sort();
    assert_eq!(site.files("transport"), before);
    assert_eq!(site.files("postman"), [""; 0]);
    fs::remove_dir(&queue).expect("removed");
    fs::rename(&mounted, &queue).expect("mounted");
    until_within(timeout(60) + DEADLINE, "all are delivered", || site.is_empty());
    assert_eq!(site.events().count("count"), names.len());
    assert_eq!(site.files("postman"), [""; 0]);
}

/// A sparse file takes no room on the disk, but would take it in memory.
#[test]
fn oversized_file_is_not_read() {
    const LIMIT: u64 = 256 << 20;
    let site = Site::new(COUNT);
    let sizes = [("221", LIMIT + 1), ("222", 4 << 40)];
    for (name, size) in sizes {
        site.put_file(name, control_file(name, &["c a.test u"]).as_bytes());
        let path = site.path("postoffice/transport").join(name);
        let file = fs::File::options().write(true).open(path).expect("it is there");
        file.set_len(size).expect("a sparse file");
    }
    let mut daemon = site.start();
    for name in ["221", "222"] {
        let reason = "malformed control file, offset 0: the file is larger than 256 MiB";
        until("the log says so", || site.logged(&format!("{name}: {reason}")) == 1);
        assert!(site.files("postman").contains(&format!("malformed:{name}:message")));
    }
    site.until_empty();
    daemon.assert_runs();
}

#[test]
fn minimal_files_are_delivered() {
    let site = Site::new(COUNT);
    let whole = |name: &str| control_file(name, &["c a.test u"]);
    for (name, from, to) in [
        ("301", "@ 0x00000007\n", ""),
        ("302", "o 15\n", ""),
        ("303", "l <id@x>\n", ""),
        ("304", "\nm\nSubject: test\n\n", "\n"),
        ("306", "l <id@x>\n", "l <id@x>\nz what is this\nd\nd!nonsense\nq\n\n"),
        ("307", " c a.test u 0", " c a.test u -2"),
        ("308", " c a.test u 0", " c a.test u"),
    ] {
        let text = whole(name);
        assert!(text.contains(from), "{from:?} in {text:?}");
        site.put_file(name, text.replacen(from, to, 1).as_bytes());
    }
    let _daemon = site.start();
    site.until_empty();
    assert_eq!(site.files("postman"), [""; 0], "{}", site.log());
    until("the statistics log has all", || site.read("statistics").lines().count() == 7);
}

/// `postman/` cannot be made, because a file has its name. The control file is hidden in place, and
/// is not read again and again.
#[test]
fn malformed_file_is_hidden_without_postman_folder() {
    let site = Site::new(COUNT);
    fs::remove_dir(site.path("postoffice/postman")).expect("removed");
    site.write("postoffice/postman", "in the way");
    let spoilt = malformed_files();
    for (name, control, _) in &spoilt {
        site.put_file(name, control);
    }
    let daemon = site.start();
    until("all are hidden", || site.files("transport").iter().all(|name| name.starts_with('.')));
    for (name, control, _) in &spoilt {
        let hidden = site.path(&format!("postoffice/transport/.malformed:{name}"));
        assert_eq!(&fs::read(hidden).expect("hidden"), control, "{name}");
        site.until_logged(&format!("{name}: malformed control file, "), 1);
    }
    assert_eq!(site.files("queue").len(), spoilt.len(), "their messages stay");
    daemon.scan();
    site.put(&["c a.test u"]);
    until("others are delivered", || site.events().count("count") == 1);
    assert_is_idle(&daemon);
    daemon.until_log_is_complete();
    assert_eq!(site.logged("malformed"), spoilt.len());
}

/// Fails unless the scheduler uses almost no CPU time.
fn assert_is_idle(daemon: &Daemon<'_>) {
    let before = processes::cpu_time(daemon.pid());
    let watched = Duration::from_millis(1500);
    hold_for(watched, "it runs", || processes::is_alive(daemon.pid()));
    let used = processes::cpu_time(daemon.pid()) - before;
    assert!(used < Duration::from_millis(200), "it used {used:?} in {watched:?}");
}

/// Starts the scheduler as a user other than root, who owns the site.
///
/// Returns `None` where that is impossible.
fn as_other_user<'s>(site: &'s Site) -> Option<Daemon<'s>> {
    if !is_root() {
        return Some(site.start());
    }
    let chown_all = Command::new("chown").args(["-R", "65534:65534"]).arg(site.path("")).status();
    assert!(chown_all.expect("chown starts").success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let scheduler = site.scheduler();
    command.arg(scheduler.get_program()).args(scheduler.get_args()).arg("-i");
    command.args(site.file_options()).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().ok()?;
    let daemon = Daemon::new(site, child);
    site.owner.set(Some(NOBODY_UID));
    until("it has looked through the spool", || site.logged("initial scan complete") == 1);
    Some(daemon)
}

#[test]
fn unreadable_file_is_left_in_place() {
    let site = Site::new(COUNT);
    let unreadable = control_file("401", &["c a.test u"]);
    site.put_file("401", unreadable.as_bytes());
    let path = site.path("postoffice/transport/401");
    allow(&path, 0o000);
    let Some(daemon) = as_other_user(&site) else {
        return not_run("unreadable files: the scheduler cannot be run as another user");
    };
    if is_root() {
        chown(&path, Some(0), Some(0)).expect("given back");
    }
    until("the log says so", || site.logged("401: the control file cannot be read: ") == 1);
    site.put(&["c a.test u"]);
    until("others are delivered", || site.events().count("count") == 1);
    daemon.scan();
    daemon.until_log_is_complete();
    assert_eq!(site.logged("401: "), 1);
    assert_eq!(fs::metadata(&path).expect("it is there").len(), unreadable.len() as u64);
    assert_is_idle(&daemon);
}

/// Neither `postman/` nor the folder of the file is writable. The file stays, and scans do not read
/// it again.
#[test]
fn file_that_cannot_be_hidden_is_not_read_again() {
    let site = Site::new(COUNT);
    fs::remove_dir(site.path("postoffice/postman")).expect("removed");
    site.write("postoffice/postman", "in the way");
    site.put_file("A/501", b"");
    let Some(daemon) = as_other_user(&site) else {
        return not_run("folders that cannot be written to: the scheduler cannot be another user");
    };
    // The first scheduler hid the file; now it has its name again, in a folder that is not
    // writable.
    let folder = site.path("postoffice/transport/A");
    until("it is hidden", || folder.join(".malformed:501").exists());
    fs::rename(folder.join(".malformed:501"), folder.join("501")).expect("back again");
    if is_root() {
        for name in ["A", "A/501"] {
            let path = site.path("postoffice/transport").join(name);
            chown(path, Some(NOBODY_UID), Some(NOBODY_UID)).expect("it was theirs");
        }
    }
    allow(&folder, 0o555);
    let before = site.logged("501: malformed");
    site.notify("NEW A/501");
    until("the log says so", || site.logged("501: malformed") == before + 1);
    site.until_logged("cannot be moved", 1);
    site.notify("NEW A/501");
    site.put(&["c a.test u"]);
    until("others are delivered", || site.events().count("count") == 1);
    assert_is_idle(&daemon);
    daemon.until_log_is_complete();
    assert_eq!(site.logged("501: malformed"), before + 1);
    assert!(folder.join("501").exists());
    allow(&folder, 0o755);
}

/// A crash has left the message's second name in `postman/`. It does not prevent the move of the
/// pair.
#[test]
fn remains_in_postman_do_not_block_move() {
    let site = Site::new(COUNT);
    site.put_file("601", b"");
    let message = site.path("postoffice/queue/601");
    fs::hard_link(&message, site.path("postoffice/postman/malformed:601:message")).expect("a link");
    let _daemon = site.start();
    site.until_empty();
    let postman = site.files("postman");
    let aside = postman.iter().find(|name| {
        name.starts_with("malformed:601") && postman.contains(&format!("{name}:message"))
    });
    let aside = aside.unwrap_or_else(|| panic!("no pair: {postman:?}"));
    assert_eq!(site.read(&format!("postoffice/postman/{aside}")), "");
}
