//! A simulated scheduler of this installation, with answers to all requests of views.

use super::fake_server::{FakeScheduler, text};
use super::support::{Site, recorded};

pub fn json(name: &str) -> String {
    String::from_utf8(recorded(&format!("json/{name}"))).expect("UTF-8")
}

/// Starts a simulated scheduler. An answer that does not begin with a sign is a text.
pub fn control(site: &Site, answers: &[(&str, &str)]) -> FakeScheduler {
    let whole = |answer: &str| match answer.starts_with(['+', '-', 'B', '*']) {
        true => answer.as_bytes().to_vec(),
        false => text(answer.as_bytes()),
    };
    let answers: Vec<(&str, Vec<u8>)> =
        answers.iter().map(|(request, answer)| (*request, whole(answer))).collect();
    FakeScheduler::with_answers(&site.spool().join(".scheduler.control"), &answers)
}

/// The answer to `SHOW JSON AGES`.
const AGES: &str = "{\"channel\":null,\"host\":null,\"recipients\":1000003,\"ages\":[3,0,0,0,0,0,0,0,0,1000000]}\n\
    {\"channel\":\"smtp\",\"host\":\"a-host-with-a-rather-long-name.test\",\"recipients\":1000000,\"ages\":[0,0,0,0,0,0,0,0,0,1000000]}\n\
    {\"channel\":\"smtp\",\"host\":\"b\\u001b.test\",\"recipients\":3,\"ages\":[3]}\n";

/// Starts a simulated scheduler with answers to all requests of views.
pub fn full(site: &Site) -> FakeScheduler {
    let threads = json("threads");
    let first = threads.split_inclusive('\n').next().expect("a first thread");
    control(
        site,
        &[
            ("SHOW JSON SUMMARY", &json("summary")),
            ("SHOW JSON THREADS limit=20 sort=backlog", &threads),
            ("SHOW JSON THREADS limit=20 sort=undelivered", &threads),
            ("SHOW JSON THREADS limit=1001 sort=backlog", &threads),
            ("SHOW JSON THREADS smtp/mx.test limit=1000000 sort=backlog", first),
            ("SHOW JSON THREADS */mx.test limit=21 sort=backlog", first),
            ("SHOW JSON AGES */* limit=20", AGES),
            ("SHOW JSON RINGS", &json("rings")),
            ("SHOW JSON AGENTS", &json("agents")),
            ("SHOW JSON ORDERS", &json("orders")),
            ("SHOW JSON MESSAGES smtp/* limit=1000", &json("messages")),
            ("SHOW JSON MESSAGES smtp/* limit=1001", &json("messages")),
            ("SHOW JSON MESSAGES smtp/mx.test limit=21", &json("messages")),
            ("SHOW JSON MESSAGE 4711", "{\"id\":\"S4711\u{9b}\"}\n"),
            ("SHOW MESSAGE 4711", "S4711AbmKUKEJuveqC\n  from\t<a@b>\x1b[2J\n..\n"),
            ("SHOW WHY smtp/mx.test", "smtp/mx.test: 3 messages wait\n"),
            ("SHOW JSON WHY smtp/mx.test", "{\"why\":\"retry\"}\n"),
            ("SHOW COUNTERS", "ZMailer SHM segment dump; Magic=0x00000000\nTime_now  5\n"),
            ("SHOW JSON COUNTERS", "{\"time\":5}\n"),
        ],
    )
}
