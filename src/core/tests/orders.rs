//! Orders of operators.

use super::*;
use crate::operator::overrides::{
    Author, DestinationPattern, Hold, LimitName, MAX_HELD_MESSAGES, OverrideChange, Scope,
};
use crate::operator::select::{Cursor, MailFilter};
use crate::query::why::Why;
use zsched_spool::SpoolId;
use zsched_spool::note::OutcomeKind;

const ONE: &str = "c/*\n\tmaxring=1 interval=60s retries=1 skew=1\n\tcommand=x\n";
const EXPIRING: &str = "c/*\n\tinterval=60s retries=1 skew=1 expiry=1h expiry2=1h command=x\n";

fn destinations(text: &str) -> Scope {
    Scope::Destinations(DestinationPattern::parse(text).expect("a pattern"))
}

fn id(number: u64) -> SpoolId {
    SpoolId { number, modified: START }
}

fn message(number: u64) -> Scope {
    Scope::Message(id(number))
}

fn hold(scope: Scope) -> Order {
    Order::Hold { scope, reason: "why not".to_string() }
}

fn whole(number: u64) -> Vec<Target> {
    vec![Target::whole(number)]
}

impl World {
    /// Gives an order and confirms its writes.
    fn order(&mut self, order: Order) -> Effect {
        self.handle(Event::Ordered { ticket: 7, by: "root".to_string(), order });
        self.store(Ok(()));
        let obeyed = self.done.iter().position(|action| matches!(action, Action::OrderDone { .. }));
        match self.done.remove(obeyed.expect("it is obeyed")) {
            Action::OrderDone { ticket: 7, effect } => effect,
            other => panic!("{other:?}"),
        }
    }

    fn store(&mut self, outcome: Result<(), std::io::ErrorKind>) {
        for action in std::mem::take(&mut self.done) {
            match action {
                Action::StoreOverrides { ticket, .. } => {
                    self.handle(Event::OverridesStored { ticket, outcome });
                }
                Action::Note(note) => {
                    self.handle(Event::Noted { ticket: note.ticket, outcome: Ok(true) });
                }
                other => self.done.push(other),
            }
        }
    }

    fn why(&self, number: u64) -> Vec<Why> {
        let waits = self.core.view().why_message(number).unwrap_or_default();
        waits.into_iter().map(|wait| wait.why).collect()
    }
}

#[test]
fn held_thread_gets_no_agent_until_release() {
    let mut world = World::new("c/*\n\tmaxring=5 command=x\n");
    let effect = world.order(hold(destinations("c/*.test")));
    assert_eq!(effect, Effect::default(), "the queue is empty");
    world.messages(1..=3, "c/a.test");
    world.message(4, &["c/other"]);
    assert_eq!(world.started.len(), 1, "only the destination that is not held gets an agent");
    assert!(matches!(&world.why(1)[..], [Why::Held { hold }] if hold.reason == "why not"));
    let effect = world.order(Order::Release(destinations("c/*.test")));
    assert_eq!((effect.threads, effect.recipients), (1, 3));
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    assert_eq!(
        world.works(agent, jobs, "ok3").concat(),
        ["1\ta.test", "2\ta.test", "3\ta.test", "#idle"]
    );
}

#[test]
fn hold_stops_feeding_agent_at_work() {
    let mut world = World::new("c/*\n\tmaxring=1 overfeed=0 command=x\n");
    world.messages(1..=3, "c/a.test");
    world.message(9, &["c/b.test"]);
    let (agent, _) = world.hungry_new_agent();
    let effect = world.order(hold(destinations("c/a.test")));
    assert_eq!((effect.threads, effect.recipients, effect.busy), (1, 3, 1));
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["9\tb.test"], "the other destination");
    let release = world.order(Order::ReleaseAll);
    assert_eq!((release.threads, release.recipients), (1, 2));
    world.agent_line(agent, "9/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\ta.test"]);
}

#[test]
fn ring_hold_matches_clause_pattern() {
    let mut world = World::new("c/*.fi\n\tcommand=x\nc/*\n\tcommand=x\n");
    world.order(hold(Scope::Ring("c/*.fi".to_string())));
    world.message(1, &["c/a.fi", "c/a.se"]);
    let (_, jobs) = world.hungry_new_agent();
    assert_eq!((world.started.len(), &jobs[..]), (1, &["1\ta.se".to_string()][..]));
}

#[test]
fn held_message_waits_while_others_are_delivered() {
    let mut world = World::new(ONE);
    world.messages(1..=2, "c/a.test");
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    assert_eq!(world.order(hold(message(1))).busy, 1, "an agent has it");
    let effect = world.order(hold(message(2)));
    assert_eq!((effect.messages, effect.recipients), (1, 1));
    let again = world.order(hold(message(2)));
    assert_eq!(again.refusal, Some(OrderRefusal::Already));
    world.agent_line(agent, "1/100\t\tdeferred later");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["#idle"], "neither of them is due");
    world.hungry(agent);
    world.pass_seconds(86_400);
    assert!(matches!(&world.why(1)[..], [Why::Held { .. }]));
    world.dies(agent, AgentEnd::Exited(0));
    let effect = world.order(Order::Release(message(1)));
    assert_eq!((effect.messages, effect.recipients), (1, 1));
    let (_, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    assert_eq!(world.order(Order::ReleaseAll).messages, 1);
    let unknown = world.order(Order::Release(message(3)));
    assert_eq!(unknown.refusal, Some(OrderRefusal::NotFound));
}

#[test]
fn held_message_does_not_expire_and_release_tries_once() {
    let mut world = World::new(EXPIRING);
    world.message(1, &["c/a.test"]);
    let (agent, jobs) = world.hungry_new_agent();
    world.order(hold(message(1)));
    world.works(agent, jobs, "deferred later");
    world.hungry(agent);
    world.pass_seconds(100_000);
    assert_eq!(world.core.view().totals().recipients, 1, "it is still there");
    world.order(Order::Release(message(1)));
    world.pass_seconds(1);
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.works(agent, jobs, "deferred later");
    world.pass_seconds(60);
    assert_eq!(world.core.view().totals().recipients, 0, "now it is too old");
}

#[test]
fn held_thread_mail_expires() {
    let mut world = World::new(EXPIRING);
    world.order(hold(destinations("*/*")));
    world.message(1, &["c/a.test"]);
    world.pass_seconds(7300);
    assert_eq!(world.core.view().totals().recipients, 0);
}

#[test]
fn restart_keeps_overrides() {
    let mut world = World::new(ONE);
    world.messages(1..=2, "c/a.test");
    world.order(hold(message(2)));
    world.order(hold(destinations("c/b.test")));
    let orders: Vec<OverrideChange> = world.core.view().overrides().iter().collect();
    let mut next = World::new(ONE);
    for order in orders {
        next.handle(Event::Override(order));
    }
    next.messages(1..=2, "c/a.test");
    next.message(3, &["c/b.test"]);
    next.handle(Event::InitialScanDone);
    let (agent, jobs) = next.hungry_new_agent();
    assert_eq!(next.works(agent, jobs, "ok3").concat(), ["1\ta.test", "#idle"]);
    assert!(matches!(&next.why(2)[..], [Why::Held { .. }]));
    assert!(matches!(&next.why(3)[..], [Why::Held { .. }]));
}

/// A removal that waits for an agent is an override.
///
/// It is one until the message has left.
#[test]
fn pending_removal_of_fed_message_survives_restart() {
    let mut world = World::new(ONE);
    world.messages(1..=2, "c/a.test");
    world.hungry_new_agent();
    assert_eq!(world.order(Order::Delete(whole(1))).busy, 1);
    world.order(Order::Delete(whole(2)));
    let orders: Vec<OverrideChange> = world.core.view().overrides().iter().collect();
    assert_eq!(orders.len(), 1, "the other has ended at once: {orders:?}");
    let mut next = World::new(ONE);
    orders.into_iter().for_each(|order| next.handle(Event::Override(order)));
    next.messages(1..=1, "c/a.test");
    next.handle(Event::InitialScanDone);
    assert_eq!(next.core.view().totals().recipients, 0);
    assert!(next.started.is_empty());
    next.store(Ok(()));
    next.answer_report(1);
    assert_eq!(next.removed(), ["1"]);
    assert!(next.core.view().overrides().is_empty());
    let is_kept = |action: &Action| matches!(action, Action::StoreOverrides { ticket: None, .. });
    assert!(next.done.iter().any(is_kept));
    // It does not apply to another message with the same number.
    next.message_of_age(1, &["c/a.test"], Duration::from_secs(5));
    assert_eq!(next.core.view().totals().recipients, 1);
}

/// The alternative of a recipient that has failed is read after the order about the message.
#[test]
fn order_about_message_includes_later_alternatives() {
    for order in [Order::Delete(whole(1)), Order::Expire(whole(1)), Order::Reroute(whole(1))] {
        let mut world = World::new(ONE);
        let arrival_of = |offsets: &[u32], last_recipient, has_alternatives| {
            let groups = vec![Group::new(b"c", b"a.test", offsets)];
            let arrival = arrival(1, groups, START, START);
            Box::new(Arrival { has_alternatives, last_recipient, ..arrival })
        };
        world.handle(Event::Arrived(arrival_of(&[100, 150], 150, true)));
        let (agent, _) = world.hungry_new_agent();
        world.agent_line(agent, "1/100\t\terror2 no such user");
        world.agent_line(agent, "1/150\t\tdeferred busy");
        world.hungry(agent);
        assert_eq!(world.take_lines(agent), ["#idle"]);
        let is_read = |action: &Action| matches!(action, Action::ReadAgain(_));
        assert!(!world.done.iter().any(is_read), "the failure is not on disk yet");
        let effect = world.order(order);
        assert_eq!((effect.recipients, effect.busy), (1, 0));
        assert!(world.done.iter().any(is_read), "{:?}", world.done);
        let outcome = RereadResult::Read(arrival_of(&[200], 200, false));
        world.handle(Event::ReadAgain { number: 1, outcome });
        assert_eq!(world.core.view().recipients(), 0);
        world.hungry(agent);
        assert_eq!(world.take_lines(agent), [""; 0]);
        world.store(Ok(()));
        world.answer_report(1);
        assert_eq!(world.removed(), ["1"]);
        assert!(world.core.view().overrides().is_empty());
    }
}

#[test]
fn message_hold_ends_when_number_is_reused() {
    let author = Author { name: "root".to_string(), since: START };
    let held = Hold { scope: message(5), author, reason: String::new() };
    let mut world = World::new(ONE);
    world.handle(Event::Override(OverrideChange::Hold(held)));
    world.handle(Event::InitialScanDone);
    world.pass_seconds(3600);
    assert_eq!(world.core.view().overrides().len(), 1, "the held message may still arrive");
    world.message(5, &["c/a.test"]);
    assert!(world.core.view().overrides().is_empty());
    assert!(matches!(world.done[..], [Action::StoreOverrides { ticket: None, .. }]));
    assert_eq!(world.started.len(), 1);
}

#[test]
fn unstored_override_is_in_force_and_reported() {
    let mut world = World::new(ONE);
    let order = hold(destinations("c/a.test"));
    world.handle(Event::Ordered { ticket: 1, by: "root".to_string(), order });
    assert!(
        !world.done.iter().any(|action| matches!(action, Action::OrderDone { .. })),
        "too early"
    );
    world.store(Err(std::io::ErrorKind::StorageFull));
    let [Action::OrderDone { ticket: 1, effect }] = &world.done[..] else {
        panic!("{:?}", world.done);
    };
    assert_eq!(effect.unstored, Some(std::io::ErrorKind::StorageFull));
    world.done.clear();
    world.pass_seconds(31);
    assert!(matches!(world.done[..], [Action::StoreOverrides { ticket: None, .. }]), "again");
    world.message(1, &["c/a.test"]);
    assert!(world.started.is_empty());
}

#[test]
fn unstored_holds_are_stored_with_next_order() {
    let mut world = World::new(ONE);
    world.message(1, &["c/a.test"]);
    let order = Order::HoldMessages { messages: vec![id(1)], reason: String::new() };
    world.handle(Event::Ordered { ticket: 1, by: "root".to_string(), order: order.clone() });
    world.store(Err(std::io::ErrorKind::StorageFull));
    world.done.clear();
    world.handle(Event::Ordered { ticket: 2, by: "root".to_string(), order });
    assert!(matches!(world.done[..], [Action::StoreOverrides { ticket: Some(2), .. }]), "not yet");
    world.store(Err(std::io::ErrorKind::StorageFull));
    let unstored = |action: &Action| matches!(action, Action::OrderDone { ticket: 2, effect } if effect.unstored.is_some());
    assert!(world.done.iter().any(unstored), "{:?}", world.done);
}

#[test]
fn retry_ends_wait_of_message_or_thread() {
    let mut world = World::new("c/*\n\tmaxring=1 interval=1h retries=1 skew=1 command=x\n");
    world.messages(1..=2, "c/a.test");
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred later");
    world.hungry(agent);
    let effect = world.order(Order::Retry(whole(2)));
    assert_eq!((effect.messages, effect.recipients), (1, 1));
    assert_eq!(world.take_lines(agent), ["2\ta.test"]);
    world.agent_line(agent, "2/100\t\tdeferred later");
    world.hungry(agent);
    world.hungry(agent);
    world.take_lines(agent);
    let thread = Destination::new(b"c", b"a.test");
    let effect = world.order(Order::RetryThreads(vec![thread]));
    assert!(effect.started && effect.threads == 1 && effect.recipients == 2, "{effect:?}");
    assert_eq!(world.take_lines(agent), ["1\ta.test"]);
}

#[test]
fn etrn_reports_if_agent_started() {
    let mut world = World::new("c/*\n\tqueueonly command=x\n");
    world.message(1, &["c/a.test"]);
    let turn = |host: &str| Order::Turn(host.as_bytes().into());
    assert!(!world.order(turn("b.test")).started);
    assert!(world.order(turn("a.test")).started);
    let again = world.order(turn("a.test"));
    assert!(!again.started && again.threads == 0, "an agent is at work already");
}

#[test]
fn expire_order_fails_mail_and_notifies_sender() {
    let mut world = World::new(ONE);
    world.messages(1..=2, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    world.handle(Event::Ordered {
        ticket: 1,
        by: "root".to_string(),
        order: Order::Expire([whole(1), whole(2)].concat()),
    });
    let [Action::Note(note), Action::Statistics(end), Action::StoreOverrides { .. }] =
        &world.done[..3]
    else {
        panic!("{:?}", world.done);
    };
    assert_eq!((end.state, note.occasion), ("expire", OutcomeKind::Expiry));
    let text = String::from_utf8_lossy(&note.message).into_owned();
    assert_eq!(text, "was given up by root after 0 sec");
    world.store(Ok(()));
    // The first one is with an agent, whose report decides.
    world.agent_line(agent, "1/100\t\tdeferred later");
    world.hungry(agent);
    world.store(Ok(()));
    assert_eq!(world.core.view().totals().recipients, 0);
}

#[test]
fn delete_is_answered_after_tags_are_written() {
    let mut world = World::new("c/*\n\tqueueonly command=x\n");
    world.message(1, &["c/a.test", "c/b.test"]);
    let only =
        Target { number: 1, destination: Some(Destination::new(b"c", b"b.test")), is_whole: false };
    world.handle(Event::Ordered { ticket: 1, by: "root".into(), order: Order::Delete(vec![only]) });
    let deletion = |action: &Action| {
        matches!(action, Action::Note(note)
        if note.occasion == OutcomeKind::Deletion && note.offsets[..] == [200])
    };
    assert!(world.done.iter().any(deletion), "{:?}", world.done);
    assert!(!world.done.iter().any(|action| matches!(action, Action::OrderDone { .. })));
    world.store(Ok(()));
    let obeyed = |action: &Action| {
        matches!(action, Action::OrderDone { effect, .. }
        if (effect.messages, effect.recipients) == (1, 1))
    };
    assert!(world.done.iter().any(obeyed), "{:?}", world.done);
    world.done.clear();
    world.order(Order::Delete(whole(1)));
    assert_eq!(world.core.view().totals().recipients, 0);
}

#[test]
fn delete_with_duplicate_target_counts_once() {
    let mut world = World::new("c/*\n\tqueueonly command=x\n");
    world.messages(1..=2, "c/a.test");
    let effect = world.order(Order::Delete([whole(1), whole(2), whole(1)].concat()));
    assert_eq!((effect.messages, effect.recipients), (2, 2));
}

#[test]
fn delete_and_reroute_of_fed_mail_wait_for_job_end() {
    for (order, occasion) in [
        (Order::Delete(whole(1)), OutcomeKind::Deletion),
        (Order::Reroute(whole(1)), OutcomeKind::Reroute),
    ] {
        let mut world = World::new(ONE);
        world.message(1, &["c/a.test"]);
        let (agent, _) = world.hungry_new_agent();
        let effect = world.order(order);
        assert_eq!((effect.recipients, effect.busy), (0, 1));
        world.dies(agent, AgentEnd::Signalled(9));
        let is_it =
            |action: &Action| matches!(action, Action::Note(note) if note.occasion == occasion);
        assert!(world.done.iter().any(is_it), "{:?}", world.done);
        assert_eq!(world.core.view().totals().recipients, 0);
    }
}

#[test]
fn limit_override_ends_at_its_time() {
    let mut world = World::new("c/*\n\tmaxring=1 command=x\n");
    world.message(1, &["c/a.test", "c/b.test", "c/d.test"]);
    assert_eq!(world.started.len(), 1);
    let set = |scope: Scope, limit, value| Order::Set {
        scope,
        limit,
        value,
        until: Some(START + Duration::from_secs(60)),
    };
    let ring = || Scope::Ring("c/*".to_string());
    world.order(set(ring(), LimitName::MaxRing, 2));
    assert_eq!(world.started.len(), 2);
    let zero = world.order(set(ring(), LimitName::MaxRing, 0));
    assert_eq!(zero.refusal, Some(OrderRefusal::BadValue));
    let of_thread = world.order(set(destinations("c/a.test"), LimitName::MaxRing, 2));
    assert_eq!(of_thread.refusal, Some(OrderRefusal::OfRings));
    world.pass_seconds(61);
    assert!(world.core.view().overrides().is_empty());
    for agent in world.started.clone() {
        world.dies(agent, AgentEnd::Exited(0));
    }
    let unset = world.order(Order::Unset { scope: ring(), limit: LimitName::MaxRing });
    assert_eq!(unset.refusal, Some(OrderRefusal::NotFound));
}

#[test]
fn maxthr_override_allows_more_agents() {
    let mut world = World::new("c/*\n\tmaxring=9 maxthr=1 overfeed=0 command=x\n");
    world.messages(1..=5, "c/a.test");
    assert_eq!(world.started.len(), 1);
    let limit = LimitName::MaxThr;
    let scope = destinations("c/a.*");
    world.order(Order::Set { scope: scope.clone(), limit, value: 3, until: None });
    assert_eq!(world.started.len(), 3);
    world.order(Order::Unset { scope, limit });
    assert!(world.core.view().overrides().is_empty());
}

#[test]
fn retire_order_ends_one_agent() {
    let mut world = World::new(ONE);
    world.messages(1..=2, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    let unknown = world.order(Order::RetireAgent(1));
    assert_eq!(unknown.refusal, Some(OrderRefusal::NotFound));
    assert_eq!(world.order(Order::RetireAgent(1000 + agent.0 as u32)).agents, 1);
    assert_eq!(world.take_lines(agent), ["(quit)"]);
}

#[test]
fn selection_proceeds_in_steps() {
    let mut world = World::new("c/*\n\tqueueonly command=x\n");
    for number in 1..=10 {
        world.message_of_age(number, &["c/a.test", "c/b.test"], Duration::from_secs(number * 60));
    }
    let find = |selector: &MailFilter| {
        let (mut cursor, mut found) = (Cursor::default(), Vec::new());
        while !cursor.is_over() {
            let selected = world.core.view().select(selector, &mut cursor, 3);
            assert!(selected.len() <= 4);
            found.extend(selected.iter().map(|selected| selected.target.number));
        }
        found
    };
    assert_eq!(find(&MailFilter::default()).len(), 20);
    let a = DestinationPattern::parse("c/a*").expect("a pattern");
    let old = START - Duration::from_secs(8 * 60);
    let selector =
        MailFilter { destinations: Some(a), older_than: Some(old), ..MailFilter::default() };
    assert_eq!(find(&selector), [9, 10]);
    let number = Some(4);
    assert_eq!(find(&MailFilter { number, ..MailFilter::default() }), [4, 4]);
    assert!(find(&MailFilter { number: Some(99), ..MailFilter::default() }).is_empty());
}

/// With many threads, some are examined in each turn.
///
/// The answer comes after the last one. Mail that arrives meanwhile is held at once.
#[test]
fn holds_and_limits_are_applied_to_threads_in_steps() {
    let config = "c/*\n\tmaxring=500 maxthr=1 command=x\n";
    let settings = Settings { reload_step: 20, frozen: true, seed: 1, ..Settings::default() };
    let mut world = World::with(settings, config);
    for number in 1..=100 {
        world.message(number, &[&format!("c/host{number}.test")]);
    }
    let set = |scope| Order::Set { scope, limit: LimitName::MaxThr, value: 2, until: None };
    let answers = |world: &mut World| {
        world.store(Ok(()));
        let is_answer = |action: &Action| matches!(action, Action::OrderDone { .. });
        world.done.extract_if(.., |action| is_answer(action)).collect::<Vec<Action>>()
    };
    for (order, changed) in [
        (hold(destinations("c/*")), 100),
        (hold(destinations("c/host7*")), 0),
        (Order::Release(destinations("c/*")), 90),
        (Order::ReleaseAll, 11),
        (set(destinations("c/host?.test")), 9),
        (set(Scope::Ring("c/*".to_string())), 0),
    ] {
        let is_hold = matches!(order, Order::Hold { .. });
        world.handle(Event::Ordered { ticket: 7, by: "root".to_string(), order });
        let mut turns: u32 = 1;
        let answer = loop {
            if let Some(answer) = answers(&mut world).pop() {
                break answer;
            }
            if turns == 2 && is_hold && changed > 0 {
                world.message(1000, &["c/late.test"]);
                assert!(matches!(&world.why(1000)[..], [Why::Held { .. }]));
            }
            world.handle(Event::Tick);
            turns += 1;
        };
        assert!((5..=6).contains(&turns), "{turns}");
        let Action::OrderDone { effect, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(effect.threads, changed, "{effect:?}");
    }
}

/// Two orders at a time: each is answered after a complete pass since it was given.
#[test]
fn concurrent_orders_are_answered_after_own_pass() {
    let settings = Settings { reload_step: 20, frozen: true, seed: 1, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    for number in 1..=100 {
        world.message(number, &[&format!("c/host{number}.test")]);
    }
    let ordered = |ticket, order| Event::Ordered { ticket, by: "root".to_string(), order };
    world.handle(ordered(1, hold(destinations("c/*1.test"))));
    world.handle(Event::Tick);
    world.handle(ordered(2, hold(destinations("c/*2.test"))));
    let mut answered = Vec::new();
    while answered.len() < 2 {
        world.store(Ok(()));
        for action in std::mem::take(&mut world.done) {
            if let Action::OrderDone { ticket, .. } = action {
                answered.push(ticket);
            }
        }
        world.handle(Event::Tick);
    }
    assert_eq!(answered, [1, 2]);
    for number in 1..=100 {
        let is_held = matches!(&world.why(number)[..], [Why::Held { .. }]);
        assert_eq!(is_held, matches!(number % 10, 1 | 2), "{number}");
    }
}

#[test]
fn hold_messages_holds_and_releases_several() {
    let mut world = World::new(ONE);
    world.messages(1..=5, "c/a.test");
    let messages = vec![id(2), id(3), id(99), id(3)];
    let effect = world.order(Order::HoldMessages { messages, reason: String::new() });
    assert_eq!((effect.messages, effect.recipients, effect.refusal), (2, 2, None));
    assert_eq!(world.core.view().dry_run_release(id(2)).recipients, 1);
    assert_eq!(world.core.view().dry_run_release(id(4)), Effect::default());
    let selector = MailFilter { held: true, ..MailFilter::default() };
    let found = world.core.view().select(&selector, &mut Cursor::default(), 100);
    assert_eq!(found.iter().map(|found| found.id.number).collect::<Vec<_>>(), [2, 3]);
    let effect = world.order(Order::ReleaseMessages(vec![id(3), id(4)]));
    assert_eq!((effect.messages, effect.recipients), (1, 1));
    assert_eq!(world.core.view().overrides().len(), 1);
}

/// Each individually held message takes room in the file of orders.
#[test]
fn held_messages_are_limited() {
    let mut world = World::new(ONE);
    world.messages(1..=3, "c/a.test");
    let author = Author { name: "root".to_string(), since: START };
    // Held before, and not loaded yet.
    for number in 10..10 + MAX_HELD_MESSAGES as u64 - 2 {
        let (scope, author) = (Scope::Message(id(number)), author.clone());
        let hold = Hold { scope, author, reason: String::new() };
        world.core.handle(world.now, Event::Override(OverrideChange::Hold(hold)));
    }
    let messages = vec![id(1), id(2), id(3)];
    let effect = world.order(Order::HoldMessages { messages, reason: String::new() });
    assert_eq!((effect.messages, effect.refusal), (2, Some(OrderRefusal::TooMany)));
    let more = Order::Hold { scope: Scope::Message(id(3)), reason: String::new() };
    assert_eq!(world.order(more.clone()).refusal, Some(OrderRefusal::TooMany));
    assert_eq!(world.order(Order::ReleaseMessages(vec![id(1)])).messages, 1);
    assert_eq!((world.order(more).refusal, world.why(1).len()), (None, 1));
    assert!(matches!(&world.why(3)[..], [Why::Held { .. }]));
}

/// An order whose note cannot be written is answered at once.
///
/// The note is written later.
#[test]
fn order_with_failed_note_is_answered() {
    let mut world = World::new(ONE);
    world.messages(1..=2, "c/a.test");
    world.handle(Event::Ordered {
        ticket: 7,
        by: "root".to_string(),
        order: Order::Delete(whole(2)),
    });
    let note = world.done.iter().find_map(|action| match action {
        Action::Note(note) => Some(note.ticket),
        _ => None,
    });
    let ticket = note.expect("it is to be noted");
    let full = std::io::ErrorKind::StorageFull;
    world.handle(Event::Noted { ticket, outcome: Err(full) });
    let obeyed = |action: &Action| matches!(action, Action::OrderDone { effect, .. } if effect.unstored == Some(full));
    assert!(world.done.iter().any(obeyed), "{:?}", world.done);
    world.handle(Event::Noted { ticket, outcome: Ok(false) });
}

/// A search stops and continues within a message of many destinations, even if some are gone.
#[test]
fn selection_continues_within_message() {
    let mut world =
        World::with(Settings { frozen: true, ..Settings::default() }, "c/*\n\tcommand=x\n");
    let hosts: Vec<String> = (0..50).map(|number| format!("c/h{number:02}.test")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    world.message(1, &hosts);
    world.message(2, &hosts[..3]);
    let (mut cursor, mut found, mut steps) = (Cursor::default(), Vec::new(), 0);
    while !cursor.is_over() {
        let selected = world.core.view().select(&MailFilter::default(), &mut cursor, 7);
        assert!(selected.len() <= 7);
        let targets: Vec<Target> = selected.into_iter().map(|found| found.target).collect();
        let effect = world.order(Order::Delete(targets.clone()));
        assert_eq!(effect.recipients as usize, targets.len());
        found.extend(targets);
        steps += 1;
    }
    assert!(found.len() == 53 && steps <= 9, "{} in {steps}", found.len());
}
