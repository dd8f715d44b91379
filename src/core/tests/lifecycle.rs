//! Messages from arrival to removal: wake-ups, requests, resync, expiry.

use super::*;
use zsched_format::control_file::ControlFileError;
use zsched_spool::Deadline;
use zsched_spool::note::OutcomeKind;

const ONE: &str = "c/*\n\tmaxring=1 interval=60s retries=1 skew=1\n\tcommand=x\n";

fn deferred(config: &str) -> (World, AgentId) {
    let mut world = World::new(config);
    world.message(1, &["c/a.test"]);
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred later");
    world.hungry(agent);
    world.take_lines(agent);
    (world, agent)
}

#[test]
fn message_without_recipients_is_removed_at_once() {
    let mut world = World::new(ONE);
    world.handle(Event::Arrived(Box::new(arrival(1, Vec::new(), START, START))));
    let owing = Arrival { report_due: true, ..arrival(2, Vec::new(), START, START) };
    world.handle(Event::Arrived(Box::new(owing)));
    let undeliverable = Arrival {
        first_undeliverable: Some(ControlFileError::new(9, "an X line")),
        ..arrival(3, Vec::new(), START, START)
    };
    world.handle(Event::Arrived(Box::new(undeliverable)));
    assert_eq!(world.removed(), ["1", "3*"]);
    world.answer_report(1);
    assert_eq!(world.removed(), ["2"]);
}

#[test]
fn second_arrival_of_loaded_number_is_ignored() {
    let mut world = World::new(ONE);
    world.message(1, &["c/a.test"]);
    world.message(1, &["c/b.test"]);
    assert_eq!(world.core.view().totals().messages, 1);
    assert_eq!(world.shows(1).len(), 1);
}

#[test]
fn waiting_thread_does_not_delay_due_threads() {
    let mut world = World::new(
        "c/slow*\n\tinterval=1h retries=1 command=x\nc/*\n\tinterval=60s \
                                retries=1 skew=1 command=y\n",
    );
    for (number, host) in [(1, "slow.test"), (2, "a.test"), (3, "b.test")] {
        world.message(number, &[&format!("c/{host}")]);
        let (agent, jobs) = world.hungry_new_agent();
        world.works(agent, jobs, "deferred later");
        world.dies(agent, AgentEnd::Exited(0));
    }
    assert_eq!(world.started.len(), 3);
    world.pass_seconds(61);
    assert_eq!(world.started.len(), 5, "a.test and b.test were due");
}

#[test]
fn etrn_ends_wait_and_starts_queueonly_mail() {
    let config = "*/*\n\tinterval=60s retries=1\nc/*\n\tcommand=x\nd/*\n\tqueueonly command=y\n";
    let mut world = World::new(config);
    world.message(1, &["d/a.test"]);
    assert!(world.started.is_empty());
    world.pass_seconds(7200);
    assert!(world.started.is_empty());
    assert_eq!(world.shows(1), ["d/a.test Request tries=0 "]);
    world.message(2, &["c/a.test"]);
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred later");
    world.hungry(agent);
    world.handle(Event::Etrn(b"other.test"));
    assert_eq!(world.started.len(), 1);
    world.handle(Event::Etrn(b"a.test"));
    assert_eq!(world.started.len(), 2);
    assert_eq!(world.take_lines(agent), ["2\ta.test"]);
    // After a deferral another request is needed.
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.works(agent, jobs, "deferall down");
    world.hungry(agent);
    world.pass_seconds(100);
    assert_eq!(world.take_lines(agent), [""; 0]);
    assert_eq!(world.shows(1), ["d/a.test Request tries=1 down"]);
}

#[test]
fn turn_line_in_control_file_triggers_etrn() {
    let (mut world, agent) = deferred(ONE);
    let mut request = arrival(9, Vec::new(), START, START);
    request.etrn_hosts = vec![b"a.test"[..].into()];
    world.handle(Event::Arrived(Box::new(request)));
    assert_eq!(world.take_lines(agent), ["1\ta.test"]);
    assert_eq!(world.removed(), ["9"]);
}

#[test]
fn resync_finishes_recipients_finished_on_disk() {
    let mut world = World::new(ONE);
    world.message(1, &["c/a.test", "c/b.test", "c/c.test"]);
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "#resync 1");
    assert!(world.done.is_empty(), "the reports are read before the control file");
    world.hungry(agent);
    assert!(matches!(&world.done[..], [Action::ReadAgain(name)] if name.number() == 1));
    // Another program has finished a.test and c.test; another process has a lock on b.test.
    let now_there = Arrival { locked: vec![200], ..arrival(1, Vec::new(), START, START) };
    world.handle(Event::ReadAgain { number: 1, outcome: RereadResult::Read(Box::new(now_there)) });
    let left: Vec<String> = world.shows(1);
    assert_eq!(left.len(), 1);
    assert!(left[0].starts_with("c/b.test"), "{left:?}");
}

#[test]
fn failures_that_resync_finds_before_their_reports_count_once() {
    let mut world = World::new(&ONE.replace("maxring", "packet=1 overfeed=3 maxring"));
    world.message(1, &["c/a.test"]);
    let group = Group::new(b"c", b"a.test", &[100, 200, 300]);
    world.handle(Event::Arrived(Box::new(arrival(2, vec![group], START, START))));
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    let jobs = world.take_lines(agent);
    assert_eq!(jobs.len(), 3);
    let job = |line: &String| line.rsplit('\t').next().expect("an offset").to_string();
    let offsets: Vec<String> = jobs.iter().map(job).collect();
    world.agent_line(agent, &format!("2/{}\t\terror2 no such user", offsets[0]));
    world.agent_line(agent, "#resync 2");
    world.hungry(agent);
    // Its tags are in the file before its reports are read.
    let now_there = Arrival { failed: 3, ..arrival(2, Vec::new(), START, START) };
    world.handle(Event::ReadAgain { number: 2, outcome: RereadResult::Read(Box::new(now_there)) });
    for offset in &offsets[1..] {
        world.agent_line(agent, &format!("2/{offset}\t\terror2 no such user"));
    }
    let message = world.core.queue.messages().find(2).expect("its agent has jobs of it");
    assert_eq!(world.core.queue.message(message).failed, 3);
}

/// An agent of an earlier scheduler takes an alternative before the scheduler knows of it.
#[test]
fn message_stays_while_another_agent_has_its_alternative() {
    let mut world = World::new(ONE);
    world.has_disk = true;
    let group = |offset| Group::new(b"c", b"a.test", &[offset]);
    let first = Arrival {
        has_alternatives: true,
        last_recipient: 100,
        ..arrival(1, vec![group(100)], START, START)
    };
    world.handle(Event::Arrived(Box::new(first)));
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\terror2 no such user");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["#idle"]);
    world.hungry(agent);
    let read = |world: &mut World, locked: Vec<u32>, groups: Vec<Group>| {
        let is_read = |action: &Action| matches!(action, Action::ReadAgain(_));
        assert!(world.done.iter().any(is_read), "{:?}", world.done);
        world.done.clear();
        let last_recipient = 200;
        let arrival = Arrival { locked, last_recipient, ..arrival(1, groups, START, START) };
        world
            .handle(Event::ReadAgain { number: 1, outcome: RereadResult::Read(Box::new(arrival)) });
    };
    read(&mut world, vec![200], Vec::new());
    assert_eq!(world.removed(), [""; 0], "the other agent has the recipient");
    assert_eq!(world.core.view().totals().messages, 1);
    // That agent was killed.
    world.pass(Settings::default().failed_write);
    read(&mut world, Vec::new(), vec![group(200)]);
    assert_eq!(world.take_lines(agent), ["1\ta.test"]);
    world.agent_line(agent, "1/200\t\tok3");
    world.hungry(agent);
    assert_eq!(world.removed(), ["1"]);
}

/// An agent finds an alternative for its host before the scheduler has read it.
#[test]
fn report_on_alternative_that_is_not_read_yet_counts() {
    let mut world = World::new(ONE);
    let group = |offsets: &[u32]| Group::new(b"c", b"a.test", offsets);
    let (groups, has_alternatives, last_recipient) = (vec![group(&[100, 150])], true, 150);
    let first = Arrival { has_alternatives, last_recipient, ..arrival(1, groups, START, START) };
    world.handle(Event::Arrived(Box::new(first)));
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\terror2 no such user");
    world.agent_line(agent, "1/150\t\tdeferred busy");
    world.hungry(agent);
    world.handle(Event::Noted { ticket: 1, outcome: Ok(false) });
    let is_read = |action: &Action| matches!(action, Action::ReadAgain(_));
    assert!(world.done.iter().any(is_read), "{:?}", world.done);
    assert_eq!(world.take_lines(agent), ["#idle"]);
    world.hungry(agent);
    world.handle(Event::Etrn(b"a.test"));
    assert_eq!(world.take_lines(agent), ["1\ta.test"]);
    world.done.clear();
    world.agent_line(agent, "1/200\t\tok taken");
    world.agent_line(agent, "1/300\t\tdeferred busy");
    let notes = world.done.iter().filter_map(|action| match action {
        Action::Note(note) => Some((note.offsets.to_vec(), note.occasion)),
        _ => None,
    });
    assert_eq!(notes.collect::<Vec<_>>(), [(vec![200], OutcomeKind::Success)]);
    let groups = vec![group(&[150, 300])];
    let last_recipient = 300;
    let now_there = Arrival { last_recipient, ..arrival(1, groups, START, START) };
    world.handle(Event::ReadAgain { number: 1, outcome: RereadResult::Read(Box::new(now_there)) });
    assert_eq!(world.core.view().recipients(), 2);
}

/// A read that the core did not ask for is ignored.
///
/// It would answer one that the core asks for meanwhile.
#[test]
fn control_file_is_read_only_on_request() {
    let mut world = World::new(ONE);
    world.message(1, &["c/a.test"]);
    let reads = |world: &World| {
        world.done.iter().filter(|action| matches!(action, Action::ReadAgain(_))).count()
    };
    world.handle(Event::ReadAgain { number: 1, outcome: RereadResult::Gone });
    assert_eq!(world.core.view().totals().messages, 1, "the core did not ask for the file");
    for _ in 0..2 {
        world.handle(Event::ChangedOnDisk { number: 1 });
        assert_eq!(reads(&world), 1, "one at a time");
    }
    world.handle(Event::ReadAgain { number: 1, outcome: RereadResult::Gone });
    assert_eq!(world.core.view().totals().messages, 0);
    world.handle(Event::ChangedOnDisk { number: 1 });
    assert_eq!(reads(&world), 1, "it is not known any more");
}

#[test]
fn resync_without_control_file_forgets_message() {
    for outcome in [
        RereadResult::Gone,
        RereadResult::Malformed(zsched_format::control_file::ControlFileError::new(0, "torn")),
    ] {
        let mut world = World::new(ONE);
        world.message(1, &["c/a.test", "c/b.test"]);
        let (agent, _) = world.hungry_new_agent();
        world.agent_line(agent, "#resync 1");
        world.hungry(agent);
        world.handle(Event::ReadAgain { number: 1, outcome });
        assert_eq!(world.core.view().totals().messages, 0);
        assert_eq!(world.removed(), [""; 0], "there is nothing to remove");
        // The agent has b.test as its next job by then.
        world.agent_line(agent, "1/200\t\tok3");
        world.hungry(agent);
    }
}

#[test]
fn resync_with_reused_number_forgets_old_message_only() {
    let mut world = World::new(ONE);
    world.message(1, &["c/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "#resync 1");
    world.hungry(agent);
    let other = arrival(1, Vec::new(), START + Duration::from_secs(9), START);
    world.handle(Event::ReadAgain { number: 1, outcome: RereadResult::Read(Box::new(other)) });
    assert_eq!(world.removed(), [""; 0], "the files belong to another message");
    assert_eq!(
        world.core.view().number_state(1),
        NumberState::Unknown,
        "a scan finds the other message"
    );
}

#[test]
fn repeated_resync_waits_for_retries() {
    let mut world = World::new(ONE);
    world.message(1, &["c/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    for round in 0..50 {
        world.agent_line(agent, "#resync 1");
        world.hungry(agent);
        let group = Group::new(b"c", b"a.test", &[100]);
        let same = arrival(1, vec![group], START, START);
        world.handle(Event::ReadAgain { number: 1, outcome: RereadResult::Read(Box::new(same)) });
        assert_eq!(world.take_lines(agent), ["#idle"], "round {round}");
        world.hungry(agent);
        world.pass_seconds(61);
        assert_eq!(world.take_lines(agent), ["1\ta.test"], "round {round}");
    }
}

#[test]
fn tried_recipient_expires_at_expiry() {
    let (mut world, _) =
        deferred("c/*\n\tmaxring=1 interval=1h retries=9 expiry=100s\n\tcommand=x\n");
    world.pass_seconds(99);
    assert_eq!(world.shows(1).len(), 1);
    world.pass_seconds(2);
    let note = world.done.iter().find_map(|action| match action {
        Action::Note(note) => Some(note.clone()),
        _ => None,
    });
    let note = note.expect("the sender is to be told");
    assert_eq!(note.offsets[..], [100]);
    let text = String::from_utf8_lossy(&note.message).into_owned();
    assert_eq!(text, "\rexpired after 1 min 40 secs, problem was:\rlater");
    assert!(note.notary.starts_with(b"\x03\x01failed\x015.4.7"));
    world.handle(Event::Noted { ticket: note.ticket, outcome: Ok(true) });
    assert_eq!(world.removed(), [""; 0]);
    world.answer_report(1);
    assert_eq!(world.removed(), ["1"]);
}

/// The time of a notice in a control file has no fraction.
///
/// That of the message has one.
#[test]
fn delay_notice_of_former_scheduler_is_not_repeated() {
    for (noted, expected) in [(true, 0), (false, 1)] {
        let mut world = World::new("c/*\n\tqueueonly reporttimes=\"5m 1h\"\n\tcommand=x\n");
        let modified =
            Timestamp::from_seconds(world.now.seconds()) - Duration::from_millis(400_500);
        let group = Group::new(b"c", b"a.test", &[100]);
        let mut arrival = arrival(1, vec![group], modified, world.now);
        let notice = modified + Duration::from_secs(300);
        arrival.delay_noted = noted.then_some(notice.seconds() as u32);
        world.handle(Event::Arrived(Box::new(arrival)));
        world.pass_seconds(20);
        let is_note = |action: &&Action| matches!(action, Action::Note(_));
        assert_eq!(world.done.iter().filter(is_note).count(), expected, "noted: {noted}");
    }
}

/// Only the notice about the deadline is owed to senders that want no notices of delays.
#[test]
fn passed_deadline_is_noted_once_among_delay_notices() {
    let mut world = World::new("c/*\n\tqueueonly reporttimes=\"1m 5m 1h\"\n\tcommand=x\n");
    let group = Group::new(b"c", b"a.test", &[100]);
    let mut arrival = arrival(1, vec![group], world.now, world.now);
    let at = world.now.seconds() as u32 + 180;
    arrival.deliver_by = Some(Deadline { at, returns: false });
    world.handle(Event::Arrived(Box::new(arrival)));
    world.pass_seconds(2 * 3600);
    let occasion = |action: &Action| match action {
        Action::Note(note) => Some(note.occasion),
        _ => None,
    };
    let occasions: Vec<OutcomeKind> = world.done.iter().filter_map(occasion).collect();
    let delay = OutcomeKind::Delay;
    assert_eq!(occasions, [delay, OutcomeKind::DeadlinePassed, delay, delay]);
}

#[test]
fn queueonly_with_retries_is_tried_at_retry_times() {
    let config = "*/*\n\tinterval=1m retries=1\nc/*\n\tqueueonly interval=1h retries=24 skew=1\n\tcommand=x\n";
    let mut world = World::new(config);
    world.message(1, &["c/a.test"]);
    world.pass_seconds(86_390);
    assert!(world.started.is_empty(), "it waits for a request until then");
    world.pass_seconds(20);
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.works(agent, jobs, "deferall down");
    world.hungry(agent);
    world.dies(agent, AgentEnd::Exited(0));
    world.message(2, &["c/a.test"]);
    assert_eq!(world.started.len(), 1);
    world.pass_seconds(86_400);
    assert_eq!(world.hungry_new_agent().1.len(), 1, "one job when the next retry time has come");
    assert_eq!(world.started.len(), 2);
}

#[test]
fn untried_recipient_expires_at_expiry2() {
    for (settings, seconds) in [("expiry=100s expiry2=50s", 150), ("expiry=100s", 100 + 86_400)] {
        let config = format!("c/*\n\tqueueonly {settings}\n\tcommand=x\n");
        let mut world = World::new(&config);
        world.message(1, &["c/a.test"]);
        world.pass_seconds(seconds - 2);
        assert_eq!(world.shows(1).len(), 1, "{settings}");
        world.pass_seconds(4);
        assert_eq!(world.shows(1).len(), 0, "{settings}");
    }
}

#[test]
fn recipient_with_agent_does_not_expire() {
    let mut world = World::new("c/*\n\tmaxring=1 expiry=100s expiry2=1s\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    world.pass_seconds(300);
    assert_eq!(world.shows(1).len(), 1);
    world.agent_line(agent, "1/100\tn\tdeferred later");
    world.hungry(agent);
    world.pass_seconds(1);
    assert_eq!(world.shows(1).len(), 0);
}

#[test]
fn no_expiry_means_no_expiration() {
    let (mut world, _) =
        deferred("c/*\n\tmaxring=1 interval=10d retries=9 expiry=0\n\tcommand=x\n");
    world.pass_seconds(80 * 86_400);
    assert_eq!(world.shows(1).len(), 1);
}

#[test]
fn finished_messages_leave_no_state() {
    let mut world = World::new("c/*\n\tmaxring=3 overfeed=10\n\tcommand=x\n");
    for number in 1..=1000 {
        world.message(number, &[&format!("c/h{}.test", number % 17)]);
    }
    for agent in world.started.clone() {
        world.hungry(agent);
    }
    for agent in world.started.clone() {
        let jobs = world.take_lines(agent);
        world.works(agent, jobs, "ok3");
    }
    assert_eq!(world.removed().len(), 1000);
    let totals = world.core.view().totals();
    assert_eq!((totals.messages, totals.threads, totals.vertices, totals.recipients), (0, 0, 0, 0));
    assert_eq!(totals.counters.recipients_out, 1000);
}

#[test]
fn deferall_counts_as_attempt_for_expiry() {
    let config = "c/*\n\tmaxring=1 interval=30m retries=1 expiry=1h expiry2=1d\n\tcommand=x\n";
    let mut world = World::new(config);
    world.messages(1..=2, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    world.pass_seconds(3000);
    world.agent_line(agent, "1/100\tn\tdeferall no answer");
    world.hungry(agent);
    world.pass_seconds(700);
    // Both count as tried, one through `deferall`. They expire after an hour, not at the next
    // wake-up.
    let notes = world.done.iter().filter(|action| matches!(action, Action::Note(_))).count();
    assert_eq!(notes, 2);
}

#[test]
fn retryat_in_milliseconds_is_limited_to_a_day() {
    let mut world = World::new("c/*\n\tmaxring=1 expiry=0\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    // The agent sent milliseconds, by mistake.
    world.agent_line(agent, "1/100\tn\tretryat 1795255200000 later");
    world.hungry(agent);
    world.take_lines(agent);
    assert_eq!(world.shows(1), ["c/a.test Retry(86400) tries=1 later"]);
}

/// An operator has disabled the last recipient by hand, and an agent finds nothing to do.
#[test]
fn message_with_undeliverable_line_is_moved_aside() {
    let (mut world, agent) = deferred(ONE);
    world.pass_seconds(61);
    world.take_lines(agent);
    world.agent_line(agent, "#resync 1");
    world.hungry(agent);
    let reread = Arrival {
        first_undeliverable: Some(ControlFileError::new(100, "recipient has an unknown tag")),
        ..arrival(1, Vec::new(), START, START)
    };
    world.handle(Event::ReadAgain { number: 1, outcome: RereadResult::Read(Box::new(reread)) });
    assert_eq!(world.removed(), ["1*"]);
}

/// The files of a message are gone while an agent has it.
///
/// A router uses its number again.
#[test]
fn report_about_forgotten_message_does_not_apply_to_reused_number() {
    let mut world = World::new("c/*\n\tmaxring=2 maxthr=1\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.handle(Event::ChangedOnDisk { number: 1 });
    world.handle(Event::ReadAgain { number: 1, outcome: RereadResult::Gone });
    world.message(1, &["c/b.test"]);
    world.agent_line(agent, "1/100\t\tok3 delivered the old one");
    assert_eq!(world.removed(), [""; 0]);
    assert!(world.shows(1)[0].starts_with("c/b.test"), "{:?}", world.shows(1));
    world.hungry(agent);
    let other = *world.started.last().expect("for b.test");
    world.hungry(other);
    assert_eq!(world.take_lines(other), ["1\tb.test"]);
    world.agent_line(other, "1/100\t\tok3");
    world.hungry(other);
    assert_eq!(world.removed(), ["1"]);
}
