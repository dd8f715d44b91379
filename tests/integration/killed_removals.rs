//! Kills between the steps of EXPIRE and REROUTE: no recipient is both delivered and reported as
//! failed, or both delivered and given to the router.

use crate::support::{Client, Site, control_file, until};
use std::fs;
use std::os::unix::fs::MetadataExt;

const CLAUSES: &str = "q/*\n\tqueueonly\nc/*\n\tmaxring=5 command=\"${AGENTS}/count.py c\"\n";
/// A pid that no process has.
const DEAD_PID: u32 = 999_999;
const NUMBER: &str = "4711";

/// Creates the spool of a killed scheduler.
///
/// It has a message with two recipients, which have these tags and pids, and `lines` behind them.
fn killed_spool(tags: [&str; 2], lines: &str) -> Site {
    let site = Site::new(CLAUSES);
    let text = control_file(NUMBER, &["c a.test one", "c a.test two"]);
    let offsets = offsets(&text);
    let mut text = text.replace("r           ", "r{tag}    ");
    for tag in tags {
        text = text.replacen("{tag}", tag, 1);
    }
    let lines =
        lines.replace("{1}", &offsets[0].to_string()).replace("{2}", &offsets[1].to_string());
    site.put_file(NUMBER, format!("{text}{lines}").as_bytes());
    site.write("postoffice/.pid.scheduler", &format!("{DEAD_PID}\n"));
    site
}

fn offsets(text: &str) -> Vec<usize> {
    text.match_indices("\nr").map(|(at, _)| at + 1).collect()
}

fn delivered(site: &Site) -> Vec<String> {
    let events = site.events();
    let mut users: Vec<String> = events
        .about("count")
        .iter()
        .filter_map(|event| event.split(' ').next_back())
        .map(str::to_string)
        .collect();
    users.sort();
    users
}

/// A `d` line of an expiry.
const EXPIRED: &str = "d {1}:1:-1::1795259643\t\u{3}\u{1}failed\u{1}5.4.7 (delivery time expired)\u{1}\
                       smtp; 500 (expired after 3d)\u{1}\texpired after 3d\n";

fn dead_lock() -> String {
    format!("~{DEAD_PID:6}")
}

#[test]
fn expiry_killed_before_its_line_leaves_the_recipient_to_be_delivered() {
    let lock = dead_lock();
    let site = killed_spool([&lock, &lock], "");
    let _daemon = site.start();
    site.until_empty();
    assert_eq!(delivered(&site), ["one", "two"]);
    let doubts = site.path("postoffice/.scheduler.duplicates");
    assert!(!doubts.exists(), "a scheduler delivers nothing: {:?}", fs::read_to_string(doubts));
}

#[test]
fn expiry_killed_after_its_line_is_completed() {
    let lock = dead_lock();
    for tag in [&lock, "       "] {
        let site = killed_spool([tag, tag], EXPIRED);
        let _daemon = site.start();
        site.until_empty();
        assert_eq!(delivered(&site), ["two"], "{tag:?}");
        let report = site.until_submission();
        assert!(report.contains("\nFinal-Recipient: x-local; one\n"), "{report}");
        assert_eq!(report.matches("\nAction: ").count(), 1, "{report}");
    }
}

/// Puts a submission for both recipients into the outbox. Returns its id.
fn put_entry(site: &Site) -> u64 {
    let outbox = site.path("postoffice/.scheduler.outbox");
    fs::create_dir_all(&outbox).expect("a folder");
    let new = outbox.join("new");
    fs::write(&new, "from <a@x>\nto <one>\nto <two>\nenv-end\n\nbody\n").expect("written");
    let id = fs::metadata(&new).expect("a file").ino();
    fs::rename(new, outbox.join(format!("{NUMBER}:{id}.draft"))).expect("renamed");
    let control =
        fs::metadata(site.path(&format!("postoffice/transport/{NUMBER}"))).expect("a file");
    let message = fs::metadata(site.path(&format!("postoffice/queue/{NUMBER}"))).expect("a file");
    let offsets = offsets(&site.read(&format!("postoffice/transport/{NUMBER}")));
    let list = format!(
        "zsched outbox 1\nmessage {NUMBER} {} {} {}\nline {}\nline {}\nend\n",
        control.ino(),
        message.mtime(),
        message.mtime_nsec(),
        offsets[0],
        offsets[1]
    );
    fs::write(outbox.join(format!("{NUMBER}:{id}.lines")), list).expect("written");
    id
}

#[test]
fn reroute_killed_before_its_first_tag_is_undone() {
    let lock = dead_lock();
    let site = killed_spool([&lock, &lock], "");
    put_entry(&site);
    let _daemon = site.start();
    site.until_empty();
    assert_eq!(delivered(&site), ["one", "two"]);
    assert_eq!(site.files("router"), [""; 0]);
    assert_eq!(site.files(".scheduler.outbox"), [""; 0]);
}

#[test]
fn reroute_killed_after_its_first_tag_is_completed() {
    let lock = dead_lock();
    for tags in [["+      ", &lock], ["+      ", "+      "]] {
        let site = killed_spool(tags, "");
        let id = put_entry(&site);
        let _daemon = site.start();
        site.until_empty();
        assert_eq!(delivered(&site), [""; 0]);
        assert_eq!(site.files("router"), [id.to_string()]);
        assert_eq!(site.files(".scheduler.outbox"), [""; 0]);
    }
}

#[test]
fn reroute_killed_after_its_publication_leaves_no_list() {
    let site = killed_spool(["+      ", "+      "], "");
    let id = put_entry(&site);
    fs::rename(
        site.path(&format!("postoffice/.scheduler.outbox/{NUMBER}:{id}.draft")),
        site.path(&format!("postoffice/router/{id}")),
    )
    .expect("published");
    let _daemon = site.start();
    site.until_empty();
    assert_eq!(site.files("router"), [id.to_string()]);
    assert_eq!(site.files(".scheduler.outbox"), [""; 0]);
}

/// The order is carried out up to the move to `router/`, which fails.
#[test]
fn reroute_killed_while_the_router_folder_is_unusable_is_published_later() {
    let site = Site::new(CLAUSES);
    let name = site.put_quietly(&["q a.test one", "q b.test two"]).to_string();
    let other = site.put_quietly(&["q b.test three"]).to_string();
    let router = site.path("postoffice/router");
    fs::remove_dir(&router).expect("removed");
    fs::write(&router, "in the way").expect("written");
    let daemon = site.start();
    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    until("both are known", || client.order("RETRY */* dry-run=yes")["messages"] == 2);
    let answer = client.refused(&format!("REROUTE id={name}"));
    assert!(answer.contains("could not be stored"), "{answer}");
    until("it is decided", || {
        let text = site.read(&format!("postoffice/transport/{name}"));
        text.lines().filter(|line| line.starts_with("r+")).count() == 2
    });
    daemon.kill();
    // The message leaves before its submission is given to the router.
    let daemon = site.start();
    until("it has left", || site.files("transport") == [other.clone()]);
    daemon.kill();
    fs::remove_file(&router).expect("removed");
    fs::create_dir(&router).expect("made");
    assert_eq!(site.files(".scheduler.outbox").len(), 1);
    let _daemon = site.start();
    until("it is published", || site.files("router").len() == 1);
    let id = &site.files("router")[0];
    let text = site.read(&format!("postoffice/router/{id}"));
    assert!(text.contains("to <one>\n") && text.contains("to <two>\n"), "{text}");
    assert_eq!(site.files(".scheduler.outbox"), [""; 0]);
    assert_eq!(site.files("transport"), [other]);
}
