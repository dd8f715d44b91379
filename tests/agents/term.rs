//! SIGTERM in the middle of a job of many recipients: every agent stops at a recipient.
//!
//! What was reported is marked, what is marked was reported, nothing stays locked, and the rest is
//! as before.

use crate::support::{
    Agent, DISCARD, EXPIRER, HOLD, MAILBOX, PIPE, REROUTE, RUNNER, Spool, allow, control_file,
    errormail, wait_until,
};
use std::collections::BTreeMap;

/// Number of recipients of a job of a fast agent: their reports do not all fit into the socket.
const MANY: usize = 20_000;
/// Number of recipients of a job of an agent that runs a program or syncs a file for each.
const FEW: usize = 1000;

/// An agent in the table.
struct Row {
    program: &'static str,
    options: &'static [&'static str],
    /// Channel and host of the recipients.
    place: &'static str,
    /// Number of recipients, so that no agent ends the job before the signal comes.
    recipients: usize,
    /// True if its reports leave the recipients pending.
    defers: bool,
}

fn row(
    program: &'static str,
    options: &'static [&'static str],
    place: &'static str,
    recipients: usize,
    defers: bool,
) -> Row {
    Row { program, options, place, recipients, defers }
}

/// The agents; `smtp` has tests of its own (`tests/smtp/program.rs`).
fn table() -> [Row; 8] {
    [
        row(DISCARD, &[], "discard h", MANY, false),
        row(errormail(), &[], "error norecipients", MANY, false),
        row(EXPIRER, &["-c", "smtp"], "smtp h", MANY, false),
        row(HOLD, &[], "hold h", MANY, true),
        row(MAILBOX, &["-u", "-M", "-d", "{mail}"], "local h", FEW, false),
        row(PIPE, &["--command", "/bin/true"], "pipe h", FEW, false),
        row(REROUTE, &["-c", "smtp"], "smtp h", MANY, false),
        row(
            RUNNER,
            &["--command", "/bin/sh", "-c", "while read -r line; do echo 0; done"],
            "list h/l/list",
            FEW,
            false,
        ),
    ]
}

#[test]
fn term_in_the_middle_of_a_job_is_obeyed_by_every_agent() {
    for row in table() {
        let name = row.program.rsplit('/').next().unwrap_or_default();
        let spool = Spool::new();
        allow(spool.path("mail"), 0o777);
        let recipients: Vec<String> =
            (0..row.recipients).map(|_| format!("{} bob", row.place)).collect();
        let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
        let control = control_file("7", "local - a@x", &recipients);
        spool.put("7", &control, "body\n");
        let mail = spool.mail();
        let options: Vec<&str> =
            row.options.iter().map(|word| if *word == "{mail}" { &mail } else { *word }).collect();
        let mut agent = Agent::start(&spool, row.program, &options);
        agent.read_until("#hungry\n");
        let host = row.place.split(' ').nth(1).unwrap_or_default();
        agent.send(&format!("7\t{host}\n"));
        match row.defers {
            true => drop(agent.read_until("7/")),
            false => wait_until(&format!("{name} works"), || spool.read("transport/7") != control),
        }
        agent.signal("TERM");
        let (answers, status) = agent.end();
        assert_eq!(status.code(), Some(0), "{name}");
        let mut tags = BTreeMap::new();
        for line in spool.lines("7", 'r') {
            *tags.entry(line.chars().nth(1).unwrap_or_default()).or_insert(0) += 1;
        }
        let final_ones = tags.get(&'+').unwrap_or(&0) + tags.get(&'-').unwrap_or(&0);
        let reported = answers.lines().filter(|line| line.starts_with("7/")).count();
        assert_eq!(tags.get(&'~'), None, "{name}: locked: {tags:?}");
        if row.defers {
            assert_eq!(tags.get(&' '), Some(&row.recipients), "{name}");
        } else {
            assert_eq!(final_ones, reported, "{name}: {tags:?}");
        }
        // One report of errormail is about very many.
        assert!(
            reported < row.recipients || row.program == errormail(),
            "{name} has finished the whole job"
        );
        let diagnosed = spool.lines("7", 'd').len();
        assert!(diagnosed == 0 || diagnosed == reported, "{name}: {diagnosed} notes");
        // The next agent does the rest.
        let rest = spool.session(row.program, &options, &format!("7\t{host}\n"));
        let rest = rest.lines().filter(|line| line.starts_with("7/")).count();
        let expected = if row.defers { row.recipients } else { row.recipients - reported };
        assert_eq!(rest, expected, "{name}");
    }
}
