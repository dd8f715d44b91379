//! A full disk: nothing is lost, and the scheduler goes on when there is room again.

use crate::support::{
    DEADLINE, Site, control_file, is_root, not_run, timeout, until, until_within,
};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The agent reports `error`, so the scheduler has to write a note.
const ALARM: &str = "c/*\n\tcommand=\"${AGENTS}/bad.py alarm c\"\n\
     d/*\n\tcommand=\"${AGENTS}/count.py d\"\n";

/// Returns a control file of exactly `size` bytes.
fn control_file_of(size: usize, name: &str, recipients: &[&str]) -> String {
    let text = control_file(name, recipients);
    let padding = format!("X-Padding: {}\n", "x".repeat(size - text.len() - "X-Padding: \n".len()));
    let text = text.replacen("\n\n", &format!("\n{padding}\n"), 1);
    assert_eq!(text.len(), size);
    text
}

/// A limit on the size of files acts as a full disk, without root.
///
/// It cuts the write short in the middle of the line. Waits for the second try, after 30 scaled
/// seconds.
#[test]
fn note_is_written_after_full_disk() {
    const SIZE: usize = 512 * 64;
    let site = Site::new(ALARM);
    site.write("go", "");
    let daemon = site.start();
    let limit = |size: &str| {
        let arguments = [format!("--pid={}", daemon.pid()), format!("--fsize={size}:")];
        assert!(Command::new("prlimit").args(arguments).status().expect("it starts").success());
    };
    limit(&SIZE.to_string());
    let text = control_file_of(SIZE - 20, "101", &["c a.test u"]);
    site.put_file("101", text.as_bytes());
    site.notify("NEW 101");
    until("the log says so", || site.logged("101: cannot write a diagnostic: ") == 1);
    let failed = text.replace("r           c", "r-          c");
    assert_eq!(site.read("postoffice/transport/101"), failed, "no half of a line is left");
    assert_eq!(site.files("queue"), ["101"]);
    // Other mail is delivered meanwhile.
    site.put(&["d a.test u"]);
    until("others are delivered", || site.events().of("count").any(|event| event.agent == "d"));
    limit("unlimited");
    until_within(timeout(30) + DEADLINE, "it has left the queue", || site.is_empty());
    let report = site.until_submission();
    assert!(report.contains("\n      no such user\n"), "{report}");
}

/// A small file system.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k,mode=755", "small"]).arg(&path);
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(path))
    }

    fn fill(&self) {
        let fill = fs::File::create(self.0.join("fill")).expect("a file");
        while std::io::Write::write(&mut &fill, &[b'x'; 1024]).is_ok() {}
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("fill")).expect("removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// The scheduler is killed while the disk is full.
#[test]
fn kill_with_full_disk_loses_nothing() {
    if !is_root() {
        return not_run("a full disk: only root can mount a small one");
    }
    let site = Site::new(ALARM);
    let Some(disk) = SmallDisk::mount(site.path("postoffice")) else {
        return not_run("a full disk: a small one cannot be mounted here");
    };
    site.spool.create().expect("a spool");
    // Each file fills a page, so an appended line needs another one.
    let text = |name: &str| control_file_of(4096, name, &["c a.test u"]);
    for name in ["101", "102"] {
        site.put_file(name, text(name).as_bytes());
    }
    let daemon = site.start();
    until("the agent has its jobs", || site.events().count("job") > 0);
    disk.fill();
    site.write("go", "");
    // The log has one line for both files.
    until("the log says so", || site.logged(": cannot write a diagnostic: no storage space") == 1);
    for name in ["101", "102"] {
        let failed = text(name).replace("r           c", "r-          c");
        until("it has its tag, and nothing else", || {
            site.read(&format!("postoffice/transport/{name}")) == failed
        });
    }
    daemon.kill();
    // There is still no room: finished mail cannot be reported, and stays.
    let daemon = site.spawn(&[]);
    until("it has looked", || site.logged("initial scan complete") == 2);
    daemon.kill();
    disk.make_room();
    let _daemon = site.start();
    site.until_empty();
    // The reason was lost with the note.
    let reports = site.submissions();
    assert_eq!(reports.len(), 2, "{reports:?}");
    for report in reports {
        assert!(report.contains("\nFinal-Recipient: x-local; u\n"), "{report}");
        assert!(report.contains("the transport agent gave no reason"), "{report}");
        assert!(report.contains("\nThis is the body.\n"), "{report}");
    }
    drop(disk);
}

/// Delivery goes on while logs cannot be written.
#[test]
fn full_logs_do_not_stop_delivery() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    std::os::unix::fs::symlink("/dev/full", site.path("statistics")).expect("a link");
    let daemon = site.start();
    site.put(&["c a.test 1"]);
    site.until_empty();
    until("the log says so", || site.logged("statistics: No space left on device") >= 1);
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    assert!(!site.path("postoffice/.pid.scheduler").exists());
    fs::remove_file(site.path("log")).expect("removed");
    std::os::unix::fs::symlink("/dev/full", site.path("log")).expect("a link");
    let daemon = site.spawn(&[]);
    site.put_quietly(&["c a.test 2"]);
    until("the second is delivered", || site.events().count("count") == 2);
    site.until_empty();
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}
