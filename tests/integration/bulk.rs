//! Bulk jobs, from `submit --bulk` to their results.

use crate::support::{Site, generator, processes, say, until, until_within};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use zsched_tests::program;

const COUNT: &str = "c/*\n\tmaxring=6 maxthr=2 command=\"${AGENTS}/count.py c\"\n";

/// Writes recipients and a message into files of the site.
fn write_inputs(site: &Site, recipients: &[String]) -> [String; 2] {
    site.write("recipients", &format!("{}\n", recipients.join("\n")));
    site.write("message", "Subject: news\n\nThis is the body.\n");
    ["recipients", "message"].map(|name| site.path(name).display().to_string())
}

fn submit(site: &Site, recipients: &[String], options: &[&str]) -> Output {
    let [recipients, message] = write_inputs(site, recipients);
    let mut command = Command::new(program("submit"));
    command.arg("-Z").arg(site.path("zmailer.conf")).args(["-c", "c", "-f", "list@example.org"]);
    command.args(["--bulk", &recipients, "--message", &message]).args(options);
    command.output().expect("it runs")
}

/// Submits a job. Returns its name.
fn submitted(site: &Site, recipients: &[String], options: &[&str]) -> String {
    let output = submit(site, recipients, options);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn result_file(site: &Site, job: &str) -> PathBuf {
    site.path("postoffice").join("bulk").join(job).join("result")
}

/// The outcomes of all recipients of a finished job.
fn outcomes(site: &Site, job: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(result_file(site, job)).expect("a result");
    let parse = |line: &str| {
        let mut words = line.split('\t');
        let outcome = words.next().expect("an outcome").to_string();
        (words.next().expect("an address").to_string(), outcome)
    };
    text.lines().map(parse).collect()
}

fn addresses(count: usize, hosts: usize) -> Vec<String> {
    (0..count).map(|n| format!("u{n}@h{}.test", n % hosts)).collect()
}

#[test]
fn job_is_delivered_and_its_result_names_each_outcome() {
    let site = Site::new(COUNT);
    let daemon = site.start();
    let mut recipients = addresses(200, 5);
    recipients.push("error!1@h0.test".to_string());
    let job = submitted(&site, &recipients, &["--packet-size", "7", "--key", "news-1"]);
    until("the job is finished", || result_file(&site, &job).exists());
    site.events().assert_once_each(recipients.clone());
    let outcomes = outcomes(&site, &job);
    assert_eq!(outcomes.len(), 201);
    for (address, outcome) in &outcomes {
        let expected = if address.starts_with("error!") { "failed" } else { "delivered" };
        assert_eq!(outcome, expected, "{address}");
    }
    site.until_empty();
    // The same key is the same job.
    let again = submit(&site, &recipients, &["--key", "news-1"]);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(String::from_utf8_lossy(&again.stdout).trim(), job);
    assert!(String::from_utf8_lossy(&again.stderr).contains("there is a job with this key"));
    assert_eq!(site.submissions(), [""; 0], "no report: the result says it");
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    assert_eq!(site.events().deliveries().len(), 201);
}

#[test]
fn job_submitted_without_scheduler_is_taken_up_by_the_next_one() {
    let site = Site::new(COUNT);
    let recipients = addresses(50, 3);
    let job = submitted(&site, &recipients, &[]);
    let _daemon = site.start();
    until("the job is finished", || result_file(&site, &job).exists());
    site.events().assert_once_each(recipients);
}

#[test]
fn job_whose_time_comes_while_no_scheduler_runs_is_delivered_by_the_next_one() {
    let site = Site::new(COUNT);
    let job = submitted(&site, &addresses(30, 3), &["--not-before", "+12s"]);
    let release = Instant::now() + Duration::from_secs(12);
    for _ in 0..2 {
        let daemon = site.start();
        until("the job is scheduled", || job_status(&site)["state"] == "scheduled");
        assert_eq!(site.files("transport"), [""; 0], "no packet before its time");
        daemon.kill();
    }
    until("the release has passed", || Instant::now() > release);
    assert_eq!(site.files("transport"), [""; 0], "no packet without a scheduler");
    let _daemon = site.start();
    until("the job is finished", || result_file(&site, &job).exists());
    assert!(outcomes(&site, &job).values().all(|outcome| outcome == "delivered"));
}

#[test]
fn malformed_recipient_is_refused_with_line_and_column() {
    let site = Site::new(COUNT);
    for (line, expected) in [
        ("b@x\tno field", ":2:5: a field is NAME=VALUE"),
        ("b\u{7f}@x", ":2:2: a control character"),
        ("<>", ":2:1: the address is empty"),
    ] {
        let output = submit(&site, &["a@x".to_string(), line.to_string()], &[]);
        assert_eq!(output.status.code(), Some(65), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(fs::read_dir(site.path("postoffice/bulk")).expect("listed").count(), 0);
    let empty = submit(&site, &[], &[]);
    assert_eq!(empty.status.code(), Some(65), "{empty:?}");
}

fn mailq(site: &Site, arguments: &[&str]) -> Output {
    let mut command = Command::new(program("mailq"));
    command.arg("-Z").arg(site.path("zmailer.conf")).args(arguments);
    command.output().expect("it runs")
}

fn job_status(site: &Site) -> serde_json::Value {
    let output = mailq(site, &["jobs", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().next().unwrap_or("null")).expect("JSON")
}

#[test]
fn job_is_shown_paused_resized_and_cancelled() {
    let site = Site::new(COUNT);
    let daemon = site.start();
    let recipients: Vec<String> = (0..100).map(|n| format!("wait!{n}@h{}.test", n % 2)).collect();
    let job = submitted(&site, &recipients, &["--packet-size", "5", "--list", "news"]);
    // Of each destination: two for its agents, half as many again, and two.
    until("packets are cut", || job_status(&site)["queued"] == 50);
    let status = job_status(&site);
    assert_eq!((&status["state"], &status["list"]), (&"running".into(), &"news".into()));
    assert_eq!((&status["recipients"], &status["pending"]), (&100.into(), &100.into()));
    let shown = mailq(&site, &["job", &job]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("c/h0.test has 25 recipients in no packet yet."), "{shown}");
    for order in [&["pause"][..], &["packet-size", "3"], &["share", "50"]] {
        let output = mailq(&site, &[&["job", &job][..], order].concat());
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(job_status(&site)["state"], "paused");
    // The orders are in force after a kill.
    daemon.kill();
    site.kill_all();
    let _daemon = site.start();
    until("the job is known again", || job_status(&site)["state"] == "paused");
    let status = job_status(&site);
    assert_eq!((&status["packet_size"], &status["share"]), (&3.into(), &50.into()));
    assert!(mailq(&site, &["job", &job, "priority", "3"]).status.success());
    assert_eq!(job_status(&site)["priority"], 3);
    assert_eq!(job_status(&site)["at_work"], 0, "agents get nothing of a paused job");
    assert!(mailq(&site, &["job", &job, "resume"]).status.success());
    // Half of two agents for each destination, with a packet of five.
    until("agents work on it", || job_status(&site)["at_work"] == 10);
    assert!(mailq(&site, &["job", &job, "cancel"]).status.success());
    let late = mailq(&site, &["job", &job, "resume"]);
    let late = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(late.contains("the job is cancelled"), "{late}");
    site.write("go", "");
    until("the job is finished", || result_file(&site, &job).exists());
    let outcomes = outcomes(&site, &job);
    let count = |outcome: &str| outcomes.values().filter(|it| *it == outcome).count();
    assert_eq!((count("delivered"), count("cancelled")), (10, 90), "also of packets in the queue");
    assert_eq!(site.events().deliveries().len(), 10);
    until("it is shown as finished", || {
        let shown = mailq(&site, &["job", &job]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        shown.contains("is finished: 100 recipients, 10 delivered")
    });
    let unknown = mailq(&site, &["job", "zzzzzz", "pause"]);
    assert!(!unknown.status.success(), "{unknown:?}");
}

/// With a memory limit, most packets that wait for their retry are not in memory.
#[test]
fn cancelled_job_ends_before_its_paged_out_packets_are_due() {
    let site = Site::new(
        "PARAMmessage-active-limit=4\nc/*\n\tmaxring=4 maxthr=2 interval=1h retries=\"24\" \
         command=\"${AGENTS}/outcome.py c\"\n",
    );
    let _daemon = site.start();
    let mut recipients: Vec<String> =
        (0..40).map(|n| format!("deferred!{n}@h{}.test", n % 4)).collect();
    // A job of which nothing was sent would leave no result.
    recipients.push("ok!u@h.test".to_string());
    let job = submitted(&site, &recipients, &["--packet-size", "1"]);
    until("each recipient is deferred", || job_status(&site)["deferred"] == 40);
    until("packets are paged out", || site.mailq().vertices.len() <= 4);
    assert!(mailq(&site, &["job", &job, "cancel"]).status.success());
    until("the job is finished", || result_file(&site, &job).exists());
    let outcomes = outcomes(&site, &job);
    let cancelled = outcomes.values().filter(|outcome| *outcome == "cancelled");
    assert_eq!((cancelled.count(), outcomes.len()), (40, 41));
    site.until_empty();
}

/// Schedulers and agents are killed at any moment.
///
/// A kill between a delivery and its mark is the only reason for a duplicate, and it is listed.
#[test]
fn hundred_kills_of_a_bulk_job_deliver_to_each_recipient() {
    const KILLS: usize = 100;
    let mut random = generator("kills of a bulk job");
    let site = Site::new(
        "c/*\n\tmaxring=4 maxthr=2 overfeed=3 \
         command=\"${AGENTS}/count.py c 0.002 c 0.002\"\n",
    );
    let recipients = addresses(4000, 9);
    let job = submitted(&site, &recipients, &["--packet-size", "9"]);
    let mut scheduler = Some(site.spawn(&[]));
    let mut at_work = 0;
    for _ in 0..KILLS {
        std::thread::sleep(Duration::from_millis(random.u64(10..150)));
        let running = scheduler.take().expect("it runs");
        let agents = running.agents();
        at_work += agents.len();
        match random.u8(0..3) {
            0 => {
                running.kill();
                scheduler = Some(site.spawn(&[]));
            }
            1 => {
                running.kill();
                for agent in agents {
                    zsched_sys::send_signal(agent, libc::SIGKILL).ok();
                }
                scheduler = Some(site.spawn(&[]));
            }
            _ => {
                let killed = agents.iter().filter(|_| random.bool());
                for agent in killed.copied().collect::<Vec<u32>>() {
                    zsched_sys::send_signal(agent, libc::SIGKILL).ok();
                }
                scheduler = Some(running);
            }
        }
    }
    let left = site.files("transport").len();
    // Locks of living agents of a former scheduler are waited for.
    let limit = Duration::from_secs(120);
    until_within(limit, "the job is finished", || result_file(&site, &job).exists());
    drop(scheduler);
    until("agents have ended", || processes::working_in(&site.path("")).is_empty());
    let events = site.events();
    let deliveries = events.deliveries();
    let missing: Vec<_> = recipients.iter().filter(|it| !deliveries.contains_key(*it)).collect();
    assert!(missing.is_empty(), "not delivered: {missing:?}");
    let twice: BTreeSet<String> =
        deliveries.iter().filter(|(_, count)| **count > 1).map(|(it, _)| it.clone()).collect();
    let unexplained: Vec<_> = twice.difference(&events.interrupted()).cloned().collect();
    assert!(unexplained.is_empty(), "delivered twice without a kill: {unexplained:?}");
    assert!(twice.len() <= at_work, "{} twice, {at_work} agents at work", twice.len());
    let listed = site.read("postoffice/.scheduler.duplicates");
    let unlisted: Vec<_> =
        twice.iter().filter(|it| !listed.contains(&format!("\"{it}\""))).collect();
    assert!(unlisted.is_empty(), "delivered twice and not listed: {unlisted:?}");
    let outcomes = outcomes(&site, &job);
    assert_eq!(outcomes.len(), recipients.len());
    assert!(outcomes.values().all(|outcome| outcome == "delivered"));
    assert_eq!(site.files("transport"), [""; 0]);
    say(&format!(
        "{} recipients, {left} packets left after {KILLS} kills, {} twice, {at_work} agents at work",
        recipients.len(),
        twice.len()
    ));
}

/// The answer to an order comes when it is stored: a kill right after it forgets nothing.
#[test]
fn answered_order_survives_kill_right_after_it() {
    let site = Site::new(COUNT);
    let mut daemon = site.start();
    let recipients: Vec<String> = (0..100).map(|n| format!("wait!{n}@h0.test")).collect();
    let job = submitted(&site, &recipients, &["--packet-size", "2"]);
    for share in [10, 20, 30, 40, 50] {
        until("the job is known", || job_status(&site)["recipients"] == 100);
        let output = mailq(&site, &["job", &job, "share", &share.to_string()]);
        assert!(output.status.success(), "{output:?}");
        daemon.kill();
        site.kill_all();
        daemon = site.start();
        until("the order is in force", || job_status(&site)["share"] == share);
    }
    let refused = mailq(&site, &["job", "zzzzzz", "pause"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("there is no such bulk job, or it is finished"), "{text}");
}

/// A control file has the form that ZMailer's programs read.
///
/// Lines with other letters than those of its manual are skipped by them.
fn assert_is_ordinary(site: &Site, name: &str) {
    let path = site.path("postoffice/transport").join(name);
    let bytes = fs::read(&path).expect("a control file");
    let text = String::from_utf8(bytes.clone()).expect("text");
    let base = path.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(base.starts_with(|first: char| first.is_ascii_digit()), "{base}");
    assert!(base.parse::<i64>().is_ok() && name.len() < 64, "{name}");
    assert!(text.starts_with("@ 0x00000007\n"), "{text}");
    assert!(text.contains(&format!("\ni {base}\n")) && text.contains("\nl "), "{text}");
    let message = fs::read_to_string(site.path("postoffice/queue").join(name)).expect("a message");
    let offset = text.lines().find_map(|line| line.strip_prefix("o ")).expect("a line o");
    assert_eq!(&message[offset.parse().expect("a number")..], "This is the body.\n");
    let (lines, block) = text.split_once("\nm\n").expect("headers");
    assert!(block.starts_with("Subject: news\n") && block.ends_with("\n\n"), "{block:?}");
    let order: String = lines.lines().map(|line| &line[..1]).collect();
    assert!(order.trim_start_matches(['@', 'i', 'o', 'l', 'J', 'p']).starts_with("sr"), "{order}");
    for line in lines.lines().filter(|line| line.starts_with('r')) {
        assert_eq!(&line[..12], "r           ", "tag and columns are blank: {line}");
        assert_eq!(line[12..].split(' ').count(), 4, "{line}");
    }
    let parsed = zsched_format::control_file::parse(bytes).expect("well-formed");
    assert_eq!(parsed.recipients.len(), order.matches('r').count());
}

/// The job is under way, and the export is killed again and again before it comes to its end.
#[test]
fn export_despite_kills_hands_each_recipient_over_once() {
    const MAX_KILLS: u32 = 500;
    let mut random = generator("kills of an export");
    let site = Site::new(COUNT);
    let recipients = addresses(1500, 400);
    let job = submitted(&site, &recipients, &["--packet-size", "2"]);
    let daemon = site.start();
    let refused = mailq(&site, &["job", &job, "--export"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("end it before the export"), "{text}");
    until("some are delivered", || site.events().deliveries().len() > 30);
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    until("agents have ended", || processes::working_in(&site.path("")).is_empty());
    let mut kills = 0;
    loop {
        let mut command = Command::new(program("mailq"));
        command.arg("-Z").arg(site.path("zmailer.conf")).args(["job", "all", "--export"]);
        let mut export = command.spawn().expect("it runs");
        if kills == MAX_KILLS {
            assert!(export.wait().expect("it ends").success());
            break;
        }
        std::thread::sleep(Duration::from_millis(random.u64(1..60)));
        if let Some(status) = export.try_wait().expect("its status") {
            assert!(status.success(), "{status}");
            break;
        }
        export.kill().expect("killed");
        export.wait().expect("it has ended");
        kills += 1;
    }
    assert!(kills > 0, "it was killed");
    let outcomes = outcomes(&site, &job);
    assert_eq!(outcomes.len(), recipients.len());
    let exported = outcomes.values().filter(|it| *it == "exported").count();
    let delivered = site.events().deliveries().len();
    assert!(exported > 0 && exported + delivered == recipients.len(), "{exported} {delivered}");
    // A control file in which an agent has worked has other tags.
    let files = site.files("transport");
    let is_untouched = |name: &&String| {
        let text = site.read(&format!("postoffice/transport/{name}"));
        !text.contains("\nr+") && !text.contains("\nr-") && !text.contains("\nd ")
    };
    files.iter().filter(is_untouched).for_each(|name| assert_is_ordinary(&site, name));
    // Another scheduler delivers them; so does ours.
    let _daemon = site.start();
    site.until_empty();
    site.events().assert_once_each(recipients);
    say(&format!("{kills} kills, {exported} recipients exported in {} files", files.len()));
}

#[test]
fn sender_gets_report_about_exported_recipient() {
    let site = Site::new(COUNT);
    let recipients = ["error!1@h0.test", "u1@h0.test"].map(str::to_string);
    let job = submitted(&site, &recipients, &[]);
    let exported = mailq(&site, &["job", &job, "--export"]);
    assert!(exported.status.success(), "{exported:?}");
    assert!(outcomes(&site, &job).values().all(|outcome| outcome == "exported"));
    let _daemon = site.start();
    let report = site.until_submission();
    assert!(report.contains("error!1@h0.test"), "{report}");
    site.until_empty();
}
