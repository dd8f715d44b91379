//! The example of a list in `docs/examples/lists`, in small.

use crate::support::{Site, until};
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zsched_tests::program;

/// Seconds between the submission of the digest and its time.
const DIGEST_DELAY: u64 = 5;

fn example(name: &str) -> PathBuf {
    zsched_tests::source().join("docs/examples/lists").join(name)
}

/// The clause of the example, with an agent that takes 10 ms for a recipient.
fn clause() -> String {
    let text = std::fs::read_to_string(example("scheduler.cf")).expect("the example");
    assert!(text.contains("\"smtp -s\"") && text.contains("maxring=50"), "{text}");
    text.replace("\"smtp -s\"", "\"${AGENTS}/count.py smtp 0.01\"")
        .replace("maxring=50", "maxring=3")
}

/// Writes a list of members, and returns their addresses.
fn members(site: &Site, kind: &str, count: usize) -> Vec<String> {
    let arguments = [count.to_string(), "4".to_string()];
    let output = Command::new(example("members.sh")).args(arguments).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text").replace("member", kind);
    site.write(kind, &text);
    let address = |line: &str| line.split('\t').next().expect("an address").to_string();
    text.lines().map(address).collect()
}

fn distribute(site: &Site, kind: &str, issue: &str) -> String {
    let programs = program("submit");
    let programs = programs.parent().expect("a folder").display();
    site.write("message", "Subject: {{token}}\nList-Id: <talk.example.org>\n\nThis is the body.\n");
    let output = Command::new(example("distribute.sh"))
        .args(["talk@example.org", kind, issue])
        .env("PATH", format!("{programs}:/usr/bin:/bin"))
        .env("ZENV", site.path("zmailer.conf"))
        .env("MEMBERS", site.path(""))
        .env("DIGEST_TIME", format!("+{DIGEST_DELAY}s"))
        .stdin(File::open(site.path("message")).expect("a message"))
        .output()
        .expect("sh starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a name").trim().to_string()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

#[test]
fn list_example_sends_news_digest_and_urgent_message() {
    let site = Site::new(&clause());
    let news = members(&site, "news", 1000);
    let digest = members(&site, "digest", 100);
    let board = members(&site, "urgent", 20);
    let _daemon = site.start();
    // Times of jobs are whole seconds.
    let digest_time = now().as_secs() + DIGEST_DELAY;
    let jobs = ["digest", "news"].map(|kind| distribute(&site, kind, "17"));
    until("the news are under way", || site.events().count("count") > 30);
    // The sender of a packet's recipients is made of their addresses.
    let packets = site.files("transport");
    let packet = packets.iter().map(|name| site.read(&format!("postoffice/transport/{name}")));
    let packet = packet.last().expect("a packet");
    assert!(packet.contains(" talk-bounces+news") && packet.contains("=h"), "{packet}");
    assert!(!packet.contains("{{token}}"), "{packet}");
    let urgent = distribute(&site, "urgent", "18");
    assert_eq!(distribute(&site, "news", "17"), jobs[1], "the same issue is the same job");

    let result = |job: &str| site.path(&format!("postoffice/bulk/{job}/result"));
    let all = || jobs.iter().chain([&urgent]).all(|job| result(job).exists());
    until("all jobs are finished", all);
    site.until_empty();
    let events = site.events();
    let counts: Vec<_> = events.of("count").collect();
    let last = |kind: &str| counts.iter().rposition(|it| it.address().starts_with(kind));
    assert!(last("urgent") < last("news"), "the urgent message overtakes the news");
    let early = counts.iter().filter(|it| it.address().starts_with("digest"));
    let early = early.filter(|it| it.time < digest_time as f64).count();
    assert_eq!(early, 0, "members get the digest at its time");
    events.assert_once_each([news, digest, board].concat());
}
