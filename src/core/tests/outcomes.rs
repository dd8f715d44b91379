//! Effects of reports.

use super::*;
use zsched_spool::note::OutcomeKind;

const ONE: &str = "c/*\n\tmaxring=1 interval=60s retries=\"1 2\" skew=1\n\tcommand=x\n";

/// A message for a.test whose one recipient an agent has as its job.
fn at_work(config: &str) -> (World, AgentId) {
    let mut world = World::new(config);
    world.message(1, &["c/a.test"]);
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    (world, agent)
}

fn notes(world: &World) -> Vec<(OutcomeKind, Vec<u32>)> {
    let note = |action: &Action| match action {
        Action::Note(note) => Some((note.occasion, note.offsets.to_vec())),
        _ => None,
    };
    world.done.iter().filter_map(note).collect()
}

fn states(world: &World) -> Vec<&'static str> {
    let state = |action: &Action| match action {
        Action::Statistics(statistics) => Some(statistics.state),
        _ => None,
    };
    world.done.iter().filter_map(state).collect()
}

#[test]
fn final_status_finishes_recipient_and_message() {
    for (word, owes_report) in [("ok2", true), ("ok3", false), ("error2", true)] {
        let (mut world, agent) = at_work(ONE);
        world.agent_line(agent, &format!("1/100\t\t{word} some text"));
        assert_eq!(states(&world), [word]);
        assert_eq!(notes(&world), [], "{word}: the agent has noted it");
        assert_eq!(world.removed(), [""; 0], "the agent may still have to write its tag");
        world.hungry(agent);
        if owes_report {
            assert_eq!(world.removed(), [""; 0], "{word}: the report comes first");
            world.answer_report(1);
        }
        assert_eq!(world.removed(), ["1"], "{word}");
        assert_eq!(world.core.view().totals().messages, 0);
    }
}

#[test]
fn ok_and_error_are_noted_before_removal() {
    for (word, occasion) in [("ok", OutcomeKind::Success), ("error", OutcomeKind::Failure)] {
        for wrote in [false, true] {
            let (mut world, agent) = at_work(ONE);
            world.agent_line(agent, &format!("1/100\tnotary\t{word} some text"));
            world.hungry(agent);
            assert_eq!(notes(&world), [(occasion, vec![100])]);
            assert_eq!(world.removed(), [""; 0], "{word}: the note comes first");
            world.handle(Event::Noted { ticket: 1, outcome: Ok(wrote) });
            if wrote {
                assert_eq!(world.removed(), [""; 0], "{word}: the report comes first");
                world.answer_report(1);
            }
            assert_eq!(world.removed(), ["1"], "{word}");
        }
    }
}

#[test]
fn failed_note_is_written_again() {
    let (mut world, agent) = at_work(ONE);
    world.agent_line(agent, "1/100\tnotary\terror some text");
    world.hungry(agent);
    world.handle(Event::Noted { ticket: 1, outcome: Err(std::io::ErrorKind::StorageFull) });
    assert_eq!(world.removed(), [""; 0]);
    world.pass_seconds(40);
    assert_eq!(notes(&world).len(), 2);
    world.handle(Event::Noted { ticket: 1, outcome: Ok(true) });
    world.answer_report(1);
    assert_eq!(world.removed(), ["1"]);
}

#[test]
fn failed_removal_is_tried_again() {
    let (mut world, agent) = at_work(ONE);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    world.done.clear();
    let outcome = Err(std::io::ErrorKind::ReadOnlyFilesystem);
    world.handle(Event::Removed { number: 1, outcome });
    assert_eq!(
        world.core.view().number_state(1),
        NumberState::Leaving,
        "it must not be read again"
    );
    world.pass_seconds(40);
    assert_eq!(world.removed(), ["1"]);
    assert_eq!(world.core.view().number_state(1), NumberState::Unknown);
}

#[test]
fn deferred_recipient_waits_for_wakeup_of_thread() {
    for word in ["deferred", "deferback"] {
        let (mut world, agent) = at_work(ONE);
        world.agent_line(agent, &format!("1/100\tn\t{word} come again"));
        world.hungry(agent);
        assert_eq!(world.shows(1), ["c/a.test Retry(60) tries=1 come again"]);
        world.hungry(agent);
        world.pass_seconds(59);
        assert_eq!(world.take_lines(agent), ["#idle"]);
        world.pass_seconds(2);
        assert_eq!(world.take_lines(agent), ["1\ta.test"], "{word}");
    }
}

/// A world where message 1 was deferred, and its agent is idle.
fn put_off() -> (World, AgentId) {
    let (mut world, agent) = at_work(ONE);
    world.agent_line(agent, "1/100\tn\tdeferred come again");
    world.hungry(agent);
    world.hungry(agent);
    world.take_lines(agent);
    (world, agent)
}

#[test]
fn new_mail_after_deferral_is_tried_at_once() {
    let (mut world, agent) = put_off();
    world.message(2, &["c/a.test"]);
    assert_eq!(world.take_lines(agent), ["2\ta.test"]);
    assert_eq!(world.shows(1), ["c/a.test Retry(60) tries=1 come again"]);
}

#[test]
fn etrn_for_unreachable_host_makes_everything_due() {
    let (mut world, agent) = at_work(ONE);
    world.agent_line(agent, "1/100\tn\tdeferall down");
    world.hungry(agent);
    world.hungry(agent);
    world.message(2, &["c/a.test"]);
    assert_eq!(world.shows(2), ["c/a.test Retry(60) tries=0 "]);
    world.take_lines(agent);
    world.handle(Event::Etrn(b"a.test"));
    assert_eq!(world.take_lines(agent), ["1\ta.test"]);
    assert!(!world.shows(2)[0].contains("Retry"), "{:?}", world.shows(2));
}

/// Each recipient has its own place in `retries`, however late its neighbours are in the list.
#[test]
fn first_deferral_uses_first_retry() {
    let (mut world, agent) = put_off();
    for _ in 0..5 {
        world.pass_seconds(121);
        let jobs = world.take_lines(agent);
        world.works(agent, jobs, FULL.split_once('\t').expect("a tab").1);
        world.hungry(agent);
    }
    world.message(2, &["c/a.test"]);
    ends(&mut world, agent, &[(2, FULL)]);
    assert_eq!(world.shows(2), ["c/a.test Retry(55) tries=1 mailbox full"], "at a whole minute");
}

#[test]
fn deferrals_at_different_times_have_own_wakeups() {
    let (mut world, agent) = put_off();
    world.pass_seconds(40);
    world.message(2, &["c/a.test"]);
    ends(&mut world, agent, &[(2, FULL)]);
    assert_eq!(world.shows(1), ["c/a.test Retry(20) tries=1 come again"]);
    assert_eq!(world.shows(2), ["c/a.test Retry(100) tries=1 mailbox full"]);
    world.hungry(agent);
    world.take_lines(agent);
    world.pass_seconds(21);
    assert_eq!(world.take_lines(agent), ["1\ta.test"], "only the recipient whose time has come");
    assert_eq!(world.shows(2), ["c/a.test Retry(79) tries=1 mailbox full"]);
}

#[test]
fn full_mailbox_does_not_delay_new_mail() {
    let mut world = World::new(ONE);
    world.messages(1..=2, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\tn\tdeferred mailbox full");
    world.hungry(agent);
    world.agent_line(agent, "2/100\tn\tok3 fine");
    world.hungry(agent);
    world.hungry(agent);
    world.take_lines(agent);
    world.message(3, &["c/a.test"]);
    assert_eq!(world.take_lines(agent), ["3\ta.test"]);
    assert_eq!(world.shows(1), ["c/a.test Retry(60) tries=1 mailbox full"]);
}

#[test]
fn deferall_makes_whole_destination_wait() {
    let mut world = World::new(ONE);
    world.messages(1..=3, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\tn\tdeferall connection refused");
    world.hungry(agent);
    for number in 1..=3 {
        let shown = "c/a.test Retry(60) tries=1 connection refused";
        assert_eq!(world.shows(number), [shown], "message {number}");
    }
    world.message(4, &["c/a.test"]);
    assert_eq!(world.shows(4), ["c/a.test Retry(60) tries=0 "]);
    assert_eq!(world.take_lines(agent), ["#idle"]);
}

#[test]
fn expired_untried_mail_is_tried_once_despite_deferall() {
    let mut world = World::new("c/*\n\tmaxring=1 interval=60s expiry=4m\n\tcommand=x\n");
    for number in 1..=3 {
        world.message_of_age(number, &["c/a.test"], Duration::from_secs(370));
    }
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.agent_line(agent, "1/100\t\tdeferall down");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\ta.test", "3\ta.test"]);
    world.pass_seconds(1);
    assert_eq!(world.shows(1), [""; 0], "it has had its attempt, and has expired");
    assert!(world.shows(2)[0].ends_with("tries=0 "), "{:?}", world.shows(2));
}

#[test]
fn retryat_time_is_respected() {
    let at = (START + Duration::from_secs(500)).seconds();
    for (text, wait) in [
        ("+200 later".to_string(), 200),
        ("200 later".to_string(), 200),
        (format!("{at} later"), 500),
        // The time from `retries` is later.
        ("+5 later".to_string(), 60),
    ] {
        let (mut world, agent) = at_work(ONE);
        world.agent_line(agent, &format!("1/100\tn\tretryat {text}"));
        world.hungry(agent);
        assert_eq!(world.shows(1), [format!("c/a.test Retry({wait}) tries=1 later")]);
    }
    // Without a text the original crashes.
    let (mut world, agent) = at_work(ONE);
    world.agent_line(agent, "1/100\t\tretryat");
    world.hungry(agent);
    assert_eq!(world.shows(1), ["c/a.test Retry(60) tries=1 "]);
}

#[test]
fn deferrals_of_one_run_take_one_retry_step() {
    let mut world = World::new(ONE);
    world.messages(1..=5, "c/a.test");
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred later");
    world.hungry(agent);
    assert_eq!(world.shows(5), ["c/a.test Retry(60) tries=1 later"]);
    world.pass_seconds(61);
    let jobs = world.take_lines(agent);
    world.works(agent, jobs, "deferred later");
    assert_eq!(world.shows(5), ["c/a.test Retry(119) tries=2 later"]);
}

#[test]
fn unknown_status_counts_as_attempt_and_keeps_diagnosis() {
    let (mut world, agent) = at_work(ONE);
    world.agent_line(agent, "1/100\tn\tdeferred first words");
    world.agent_line(agent, "1/100\tq\tfrobnicate what");
    world.hungry(agent);
    assert_eq!(world.shows(1), ["c/a.test Retry(60) tries=1 first words"]);
}

#[test]
fn report_about_unknown_recipient_is_ignored() {
    let (mut world, agent) = at_work(ONE);
    for line in ["777/100\t\tok3", "1/101\t\tok3", "1/100\tok3", "what?", "", "# comment"] {
        world.agent_line(agent, line);
    }
    assert_eq!(world.shows(1).len(), 1);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.removed(), ["1"]);
    world.agent_line(agent, "1/100\t\tok3");
}

#[test]
fn report_about_recipient_of_other_agent_counts() {
    let mut world = World::new("c/*\n\tmaxring=1\n\tcommand=x\n");
    world.message(1, &["c/a.test", "c/b.test", "c/c.test"]);
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/300\t\tok3");
    world.agent_line(agent, "1/200\t\tok3");
    assert_eq!(world.shows(1).len(), 1);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.removed(), ["1"]);
}

#[test]
fn job_without_report_is_deferred_with_own_diagnosis() {
    let (mut world, agent) = at_work(ONE);
    world.hungry(agent);
    let words = "the agent ended the job without a word about this recipient";
    assert_eq!(world.shows(1), [format!("c/a.test Retry(60) tries=1 {words}")]);
}

#[test]
fn recipients_of_one_vertex_finish_separately() {
    let mut world = World::new(ONE);
    let group = Group::new(b"c", b"a.test", &[472, 421, 523]);
    world.handle(Event::Arrived(Box::new(arrival(1, vec![group], START, START))));
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/421\t\tok3");
    world.agent_line(agent, "1/472\tn\tdeferred later");
    world.agent_line(agent, "1/523\t\terror2 no such user");
    world.hungry(agent);
    let message = world.core.view().message(1).expect("still queued");
    let queued = world.core.view().vertices_of(message).next().expect("with a recipient left");
    assert_eq!(queued.vertex.pending_offsets()[..], [472]);
    assert_eq!(states(&world), ["ok3", "error2"]);
}

/// The agent ends message after message with an answer for offset 100 of each.
fn ends(world: &mut World, agent: AgentId, answers: &[(u64, &str)]) {
    for (number, answer) in answers {
        world.agent_line(agent, &format!("{number}/100\t{answer}"));
        world.hungry(agent);
    }
}

/// Returns true if a new message for idle `c/a.test` is tried at once.
fn is_tried_at_once(world: &mut World, agent: AgentId, number: u64) -> bool {
    world.hungry(agent);
    world.take_lines(agent);
    world.message(number, &["c/a.test"]);
    !world.take_lines(agent).is_empty()
}

const NO_ANSWER: &str =
    "x@a.test\x01delayed\x014.4.1 (no answer)\x01smtp; 466\x01a.test\tdeferred timed out";
const FULL: &str =
    "x@a.test\x01delayed\x014.2.2 (full)\x01smtp; 452\x01a.test\tdeferred mailbox full";

#[test]
fn new_mail_waits_after_last_report_blames_host() {
    for (last, tried) in [(NO_ANSWER, false), (FULL, true), ("\tdeferred come again", true)] {
        let mut world = World::new(ONE);
        world.messages(1..=3, "c/a.test");
        let (agent, _) = world.hungry_new_agent();
        ends(&mut world, agent, &[(1, "\tok3 fine"), (2, "\tok3 fine"), (3, last)]);
        assert_eq!(is_tried_at_once(&mut world, agent, 4), tried, "{last}");
    }
}

#[test]
fn answer_makes_host_reachable_again() {
    let mut world = World::new(ONE);
    world.messages(1..=3, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    ends(&mut world, agent, &[(1, NO_ANSWER), (2, NO_ANSWER), (3, "\terror2 no such user")]);
    assert!(is_tried_at_once(&mut world, agent, 4));
}

#[test]
fn three_failed_jobs_make_host_unreachable() {
    for (answer, tries) in [("\tdeferred come again", 3), (FULL, 6)] {
        let mut world = World::new(ONE);
        world.messages(1..=2, "c/a.test");
        let (agent, _) = world.hungry_new_agent();
        ends(&mut world, agent, &[(1, "\tok3 fine"), (2, answer)]);
        let mut tried = 1;
        while tried < 6 && is_tried_at_once(&mut world, agent, tried + 2) {
            ends(&mut world, agent, &[(tried + 2, answer)]);
            tried += 1;
        }
        assert_eq!(tried, tries, "{answer}");
        // All of them have one wake-up, whenever they arrived.
        assert_eq!(world.shows(2), world.shows(tried + 1));
        world.hungry(agent);
        world.take_lines(agent);
        world.handle(Event::Etrn(b"a.test"));
        assert_eq!(world.take_lines(agent), ["2\ta.test"], "a retry on request does not wait");
        let waits = |number| world.shows(number)[0].contains("Retry");
        assert!(!(2..=tried + 1).any(waits), "no other message waits either");
    }
}

#[test]
fn new_mail_for_unreachable_host_starts_no_tries() {
    // Each message arrives while the one before it is tried.
    for (answer, tries) in [(NO_ANSWER, 2), ("\tdeferred come again", 4)] {
        let mut world = World::new(ONE);
        world.message(1, &["c/a.test"]);
        let (agent, mut heard) = world.hungry_new_agent();
        let mut number = 1;
        while heard == [format!("{number}\ta.test")] {
            world.message(number + 1, &["c/a.test"]);
            ends(&mut world, agent, &[(number, answer)]);
            heard = world.take_lines(agent);
            number += 1;
        }
        assert_eq!((number, heard), (tries + 1, vec!["#idle".to_string()]), "{answer}");
        world.hungry(agent);
        world.pass_seconds(61);
        assert_eq!(world.take_lines(agent), ["1\ta.test"]);
    }
}

/// A world with a hundred messages for one destination.
///
/// Ten of them are processed in each turn.
fn large_thread(slots: &str) -> World {
    let settings = Settings { reload_step: 10, seed: 1, ..Settings::default() };
    let text = format!("c/*\n\tinterval=1m retries=5 maxring=1{slots}\n\tcommand=x\n");
    let mut world = World::with(settings, &text);
    world.messages(1..=100, "c/a.test");
    world
}

/// Checks that due vertices are deferred in steps, and that agents get none of them meanwhile.
fn is_put_off_in_steps(mut world: World, agent: AgentId) {
    let due =
        |world: &World| world.core.queue.threads().iter().map(|(_, thread)| thread.due.len()).sum();
    let mut left: usize = due(&world);
    assert!((80..100).contains(&left), "{left}");
    while left > 0 {
        assert_eq!(world.core.next_wakeup(), Some(world.now));
        world.handle(Event::Tick);
        assert_eq!(left - due(&world), left.min(10));
        left = due(&world);
    }
    assert!(world.take_lines(agent).iter().all(|said| said == "#idle"));
    assert_eq!(world.started, [agent]);
    assert!(world.core.next_wakeup() >= Some(world.now + Duration::from_secs(1)));
}

#[test]
fn deferall_defers_large_destination_in_steps() {
    for slots in ["", " slot-cost=2"] {
        let mut world = large_thread(slots);
        let (agent, jobs) = world.hungry_new_agent();
        assert_eq!(jobs, ["1\ta.test"]);
        world.agent_line(agent, "1/100\t\tdeferall cannot connect");
        world.hungry(agent);
        is_put_off_in_steps(world, agent);
    }
}

#[test]
fn agent_deaths_defer_large_destination_in_steps() {
    for slots in ["", " slot-cost=2"] {
        let mut world = large_thread(slots);
        let agent = world.started[0];
        world.dies(agent, AgentEnd::Exited(1));
        is_put_off_in_steps(world, agent);
    }
}

#[test]
fn etrn_cancels_deferral_in_steps() {
    let mut world = large_thread("");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tdeferall cannot connect");
    world.handle(Event::Etrn(b"a.test"));
    assert!(!world.core.queue.has_deferrals());
    world.hungry(agent);
    assert_eq!(world.take_lines(agent).len(), 99);
}

#[test]
fn large_destination_expires_in_steps() {
    let settings = Settings { reload_step: 10, seed: 1, ..Settings::default() };
    let text = "c/*\n\tinterval=1m retries=60 expiry=30m maxring=1\n\tcommand=x\n";
    let mut world = World::with(settings, text);
    world.messages(1..=100, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tdeferall cannot connect");
    world.hungry(agent);
    world.pass(Duration::from_secs(1799));
    assert_eq!(world.core.view().loaded(), 100);
    world.now += Duration::from_secs(1);
    let notes = |world: &World| {
        world.done.iter().filter(|action| matches!(action, Action::Note(_))).count()
    };
    for turn in 0..=10 {
        assert_eq!(notes(&world), 10 * turn);
        world.handle(Event::Tick);
    }
    assert_eq!(notes(&world), 100);
}

#[test]
fn second_deferall_in_turn_defers_no_more_mail() {
    let mut world = large_thread("");
    let (agent, _) = world.hungry_new_agent();
    for _ in 0..5 {
        world.agent_line(agent, "1/100\t\tdeferall cannot connect");
    }
    world.hungry(agent);
    is_put_off_in_steps(world, agent);
}
