//! The format: its contents, reading damaged files, and its stability.

use super::*;
use crate::digest::Digest;
use crate::entry::{self, DecisionCheck, Input};
use expect_test::expect;
use std::io::ErrorKind;
use zsched_core::learned::{
    Learned, LearnedCause, LearnedMessage, LearnedText, LearnedThread, LearnedVertex,
};
use zsched_core::overrides::{Author, Hold, OverrideChange, Scope};
use zsched_core::{
    AgentEnd, AgentId, Backlog, Destination, Event, HostFilter, Order, PagedMessage, PagedVertex,
    RereadResult, Scheduler, Target, UnreachableReason,
};
use zsched_format::control_file::ControlFileError;
use zsched_format::time::ClockStep;
use zsched_spool::report::UnreportedRest;
use zsched_spool::{Arrival, Group, HashFolder, SpoolId, SpoolName};

fn arrival(base: &str) -> Arrival {
    Arrival {
        name: SpoolName::new(HashFolder::of(4711, Default::default()), base.as_bytes())
            .expect("a name"),
        modified: Timestamp::from_parts(1_795_255_449, 852_372_354),
        created: Timestamp::from_parts(-1, 5),
        priority: 5,
        report_due: true,
        delay_noted: None,
        deliver_by: None,
        schedule: None,
        first_undeliverable: Some(ControlFileError::new(17, "strange")),
        has_alternatives: true,
        last_recipient: 300,
        etrn_hosts: vec![b"a.test".as_slice().into()],
        recipients: 5,
        failed: 1,
        groups: [Group::new(b"smtp", b"\xff\0", &[300, 100, 70_000])].into(),
        locked: vec![9, 10],
        next_offset: None,
        max_unread: 0,
        is_chunk: false,
    }
}

fn hold() -> Hold {
    let modified = Timestamp::from_parts(1_795_255_449, 852_372_354);
    let scope = Scope::Message(SpoolId { number: 4711, modified });
    let author = Author { name: "root".to_string(), since: START };
    Hold { scope, author, reason: "a reason".to_string() }
}

fn id() -> SpoolId {
    SpoolId { number: 4711, modified: START }
}

fn ordered(order: Order) -> Event<'static> {
    Event::Ordered { ticket: 7, by: "root".to_string(), order }
}

fn record() -> PagedMessage {
    let to = Destination::new(b"c", b"a.test");
    let vertices = [PagedVertex::new(&to, 3, true, 7)].into();
    PagedMessage { modified: START, recipients: 2, is_scheduled: false, vertices }
}

fn learned_thread(window: Option<u32>, relay: Option<&str>) -> Learned {
    let text = "451 busy".to_string();
    let cause = LearnedCause { pid: Some(77), id: Some(id()), at: START, text };
    Learned::Thread(LearnedThread {
        channel: "smtp".to_string(),
        host: "a.test".to_string(),
        index: 2,
        wakeup: Some(START),
        reason: Some(UnreachableReason::AgentsDie),
        cause: Some(cause),
        window,
        relay: relay.map(str::to_string),
    })
}

fn learned() -> [Learned; 5] {
    let (number, modified, text) = (4711, START, "451 busy".to_string());
    let vertex = LearnedVertex {
        number,
        modified,
        channel: "smtp".to_string(),
        host: "a.test".to_string(),
        attempts: 3,
        text: text.clone(),
        due: None,
        step: 1,
    };
    [
        learned_thread(None, None),
        learned_thread(Some(3), Some("relay.test")),
        Learned::Vertex(vertex),
        Learned::Text(LearnedText { number: 1, text }),
        Learned::PagedOut(LearnedMessage { number, modified, vertices: record().vertices.into() }),
    ]
}

/// One event of every kind, except new configurations.
fn events() -> Vec<Event<'static>> {
    let agent = AgentId(77);
    let number = 4711;
    let ended = |end| Event::AgentEnded { agent, end };
    let again = |outcome| Event::ReadAgain { number, outcome };
    let others = vec![
        Event::Arrived(Box::new(arrival("4711"))),
        Event::Arrived(Box::new(arrival("04711-x"))),
        Event::InitialScanDone,
        Event::ChangedOnDisk { number },
        again(RereadResult::Read(Box::new(arrival("4711")))),
        again(RereadResult::Gone),
        again(RereadResult::Malformed(ControlFileError::new(3, "spoilt"))),
        again(RereadResult::Failed(ErrorKind::WouldBlock)),
        Event::Noted { ticket: 1 << 40, outcome: Ok(true) },
        Event::Noted { ticket: 2, outcome: Err(ErrorKind::StorageFull) },
        Event::Removed { number, outcome: Ok(()) },
        Event::Removed { number, outcome: Err(std::io::Error::from_raw_os_error(5).kind()) },
        Event::AgentStarted { agent, pid: u32::MAX },
        Event::AgentSaid { agent, line: b"4711/100\tn\x01\xff\tok3 \0" },
        Event::AgentSaid { agent, line: b"" },
        Event::LineSkipped { agent, bytes: 1_000_000 },
        ended(AgentEnd::Exited(-1)),
        ended(AgentEnd::Signalled(9)),
        ended(AgentEnd::NotStarted("no".to_string())),
        Event::Etrn(b"a.test"),
        Event::Override(OverrideChange::Hold(hold())),
        ordered(Order::Hold { scope: hold().scope, reason: String::new() }),
        ordered(Order::Release(Scope::Ring("c/*".to_string()))),
        ordered(Order::ReleaseAll),
        ordered(Order::Turn(b"a.test".as_slice().into())),
        ordered(Order::RetryThreads(vec![Destination::new(b"c", b"\xff")])),
        ordered(Order::Delete(vec![Target::whole(number)])),
        ordered(Order::HoldMessages { messages: vec![id()], reason: "x".to_string() }),
        ordered(Order::ReleaseMessages(vec![id()])),
        ordered(Order::RetireAgent(77)),
        ordered(Order::LogFinishedMessages(true)),
        Event::OverridesStored { ticket: Some(7), outcome: Err(ErrorKind::StorageFull) },
        Event::Drain,
        Event::Tick,
        Event::Subscribed(true),
        Event::Restored { number, record: record(), wanted: vec![HostFilter::of_host(b"a.test")] },
        Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 },
        Event::AgentExitedMidJob { agent },
        Event::Reported { ticket: 3, outcome: Ok(UnreportedRest::default()) },
        Event::ClockSet(ClockStep::Back(Duration::from_secs(600))),
    ];
    learned().map(Event::Learned).into_iter().chain(others).collect()
}

#[test]
fn every_event_is_restored() {
    let verdicts =
        [DecisionCheck { count: 0, check: 0 }, DecisionCheck { count: 300, check: 0xdead_beef }];
    for (event, verdict) in events().iter().flat_map(|event| verdicts.map(|v| (event, v))) {
        for now in [START, START + Duration::from_nanos(1), START - Duration::from_secs(1 << 32)] {
            let input = Input::Event(event);
            let block = entry::write(Vec::new(), START, now, &input).expect("written");
            let mut block = postcard::to_extend(&verdict, block).expect("written");
            block.extend_from_slice(b"next");
            let (time, input, read, rest) = entry::read(&block, START).expect("read");
            let Input::Event(again) = input else { panic!("not an event") };
            assert_eq!(format!("{again:?}"), format!("{event:?}"));
            assert_eq!((time, read, rest), (now, verdict, &b"next"[..]));
        }
    }
}

/// If this fails, existing recordings can no longer be read: raise `FORMAT`, then update the values
/// with `UPDATE_EXPECT=1`.
#[test]
fn the_format_has_not_changed() {
    let mut digest = Digest::new();
    for event in events() {
        let input = Input::Event(&event);
        let block = entry::write(Vec::new(), START, START, &input).expect("written");
        digest.bytes(&block);
    }
    let events = digest.value();
    let mut core = Scheduler::new(settings(1), config(rehearsal::CONFIGS[0]));
    core.handle(START, Event::Arrived(Box::new(arrival("4711"))));
    while core.poll().is_some() {}
    let checkpoint = postcard::to_stdvec(&core.checkpoint()).expect("written").len();
    let found =
        format!("format {FORMAT}: events {events:016x}, a checkpoint of {checkpoint} bytes");
    expect!["format 25: events d41f4dc55fd59d67, a checkpoint of 574 bytes"].assert_eq(&found);
}

#[test]
fn truncated_recording_is_read_up_to_last_complete_frame() {
    let recording = record_whole(2, 60);
    let whole = replay(&recording).expect("nothing differs");
    let mut most = 0;
    for length in 0..recording.len() {
        match replay(&recording[..length]) {
            Ok(played) => {
                assert!(played.events >= most && played.events < whole.events);
                most = played.events;
                let left = match played.ending {
                    RecordingEnd::Whole => 0,
                    RecordingEnd::Torn { offset, bytes } => {
                        assert_eq!(offset + bytes, length as u64);
                        bytes
                    }
                    RecordingEnd::Damaged { .. } => panic!("cut off at {length}, but not changed"),
                };
                assert!(left <= length as u64);
            }
            Err(ReplayError::Read(ReadError::NotARecording | ReadError::DamagedStart)) => {
                assert_eq!(most, 0, "cut off at {length}");
            }
            Err(other) => panic!("cut off at {length}: {other}"),
        }
    }
    assert!(most > 0);
}

#[test]
fn every_changed_byte_is_detected() {
    let recording = record_whole(2, 30);
    let whole = replay(&recording).expect("nothing differs").events;
    for index in 0..recording.len() {
        let change = [1, 0x80, 0xff][index % 3];
        let mut changed = recording.clone();
        changed[index] ^= change;
        match replay(&changed) {
            Ok(played) => {
                let noticed = played.ending != RecordingEnd::Whole && played.events < whole;
                assert!(noticed, "byte {index} ^ {change}: {played:?}");
            }
            Err(ReplayError::Read(_)) => {}
            Err(other) => panic!("byte {index} ^ {change}: {other}"),
        }
    }
}
