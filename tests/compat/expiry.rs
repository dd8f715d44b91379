//! The notes in a control file about expired recipients, compared with those of ZMailer's
//! scheduler.

use crate::support::{START, TestSpool, spool_name};
use crate::world::World;
use std::time::Duration;
use zsched_core::{Action, Event, Note};
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::{Tag, parse};
use zsched_spool::{Arrival, note};

/// The recorded control file. An agent deferred each recipient three times.
const CONTROL: &str = "@ 0x00000007\ni 1\no 40\nl <1@x.test>\ne a@x.test\ns local - a@x.test 0\n\
                       r           c a.test defer1@x 0\nr           c b.test deferf@x 0\n\
                       r           c d.test defere@x 0\nm\nFrom: a@x.test\nSubject: t\n\n";
/// The last report about each recipient, by host: notary data.
const LAST_REPORTS: [(&str, &str, &str); 3] = [
    ("a.test", "1/67", "defer1@x\x01delayed\x014.4.1 (sim)\x01smtp; 466 (sim)\x01sim.host"),
    ("b.test", "1/99", "deferf@x\x01failed\x014.4.1 (sim)\x01smtp; 466 (sim)\x01sim.host"),
    ("d.test", "1/131", ""),
];
/// The recorded notes of ZMailer's scheduler, in the order of the recipients.
const RECORDED: [&str; 3] = [
    "67:165:-1::1795259643\tdefer1@x\x01delayed\x014.4.1 (sim)\x01smtp; 466 (sim)\x01sim.host\t\
     \rexpired after 26 secs, problem was:\rlater please",
    "99:165:-1::1795259643\tdeferf@x\x01failed\x014.4.1 (sim)\x01smtp; 466 (sim)\x01sim.host\t\
     \rexpired after 26 secs, problem was:\rlater please",
    "131:165:-1::1795259643\t\x03\x01failed\x015.4.7 (unspecified timeout failure)\x01\
     smtp; 500 (Expired after 26 secs)\x01\t\rexpired after 26 secs, problem was:\rlater please",
];

/// Returns the control file after all recipients have expired.
fn after_expiry() -> Vec<u8> {
    let spool = TestSpool::new();
    spool.write("transport/1", CONTROL.as_bytes());
    let file = parse(CONTROL.as_bytes().to_vec()).expect("it is good");
    // The expiry was 25 s, which ZMailer made 26 s. The recorded retries make no difference.
    let mut world = World::with_disk("c/*\n\tinterval=1h retries=1 expiry=26s\n\tcommand=x\n");
    world.handle(Event::Arrived(Box::new(Arrival::new(spool_name("1"), &file, START, START))));
    let agents: Vec<_> = world.agents.keys().copied().collect();
    for (agent, (host, recipient, notary)) in agents.iter().zip(LAST_REPORTS) {
        world.agent_writes(*agent, b"#hungry");
        assert_eq!(world.take_input(*agent), format!("1\t{host}\n"));
        world.agent_writes(
            *agent,
            format!("{recipient}\t{notary}\tdeferred later please").as_bytes(),
        );
        world.agent_writes(*agent, b"#hungry");
    }
    world.pass_to(Duration::from_secs(40));
    let note = |action: &Action| match action {
        Action::Note(note) => Some(note.clone()),
        _ => None,
    };
    let notes: Vec<Note> = world.done.iter().filter_map(note).collect();
    assert_eq!(notes.len(), 3);
    for written in &notes {
        let remark = note::OutcomeNote {
            offsets: &written.offsets,
            occasion: written.occasion,
            time: written.time,
            notary: &written.notary,
            message: &written.message,
        };
        assert!(note::write(&spool.spool, &written.name, &remark).expect("it is written"));
    }
    spool.contents("transport/1").expect("it is there")
}

#[test]
fn expiry_notes_have_place_of_zmailer() {
    let file = parse(after_expiry()).expect("it is still good");
    let mut ours: Vec<DiagnosticRecord<'_>> = file
        .diagnostics
        .iter()
        .map(|line| DiagnosticRecord::parse(file.get(line.value)).expect("our own line"))
        .collect();
    ours.sort_by_key(|diagnostic| diagnostic.recipient);
    assert_eq!(ours.len(), RECORDED.len());
    for (ours, recorded) in ours.iter().zip(RECORDED) {
        let recorded = DiagnosticRecord::parse(recorded.as_bytes()).expect("a recorded line");
        let place = |d: &DiagnosticRecord<'_>| (d.recipient, d.headers, d.notify);
        assert_eq!(place(ours), place(&recorded));
        assert_eq!(ours.message, recorded.message);
        assert_eq!(ours.time, START.seconds() + 26);
        // ZMailer repeats the agent's last action. That is mostly `delayed`, and then the sender
        // gets no report. Ours always writes the action and the status that ZMailer writes when
        // there was no attempt, and the time of the last attempt behind the fields that ZMailer
        // knows.
        let fields: Vec<&[u8]> = ours.notary.split(|byte| *byte == 1).collect();
        assert_eq!(fields[..2], [&b"\x03"[..], b"failed"]);
        assert!(fields[2].starts_with(b"5.4.7 ("), "{:?}", fields[2]);
        let theirs: Vec<&[u8]> = recorded.notary.split(|byte| *byte == 1).collect();
        // ZMailer begins the reason with a capital.
        assert!(fields[3].eq_ignore_ascii_case(theirs[3]), "{fields:?}");
        assert_eq!(fields[4], theirs[4], "remote host");
        let added = fields.get(6).copied().unwrap_or(b"tried=");
        assert!(added.starts_with(b"tried="), "{fields:?}");
    }
}

/// ZMailer leaves the tags as they are, so recipients expire again after a restart.
#[test]
fn expired_recipients_are_marked_as_failed() {
    let file = parse(after_expiry()).expect("it is still good");
    assert!(file.recipients.iter().all(|recipient| recipient.tag == Tag::Failed));
    assert!(note::has_report_due(&file));
}
