//! Reloads while agents are at work.

use super::*;
use crate::queue::deferral::DeferralNote;
use crate::queue::unreachable::Unreachable;

fn reload(world: &mut World, text: &str) {
    world.handle(Event::Configured(Rc::new(config(text))));
}

#[test]
fn ring_with_same_command_keeps_agents_with_new_limits() {
    let mut world = World::new("c/*\n\tmaxring=1 command=x\n");
    for number in 1..=4 {
        world.message(number, &[&format!("c/h{number}.test")]);
    }
    assert_eq!(world.started.len(), 1);
    reload(&mut world, "c/*\n\tmaxring=3 command=x\n");
    assert_eq!(world.started.len(), 3);
    let first = world.started[0];
    world.hungry(first);
    assert_eq!(world.take_lines(first), ["1\th1.test"], "the old agent goes on");
}

#[test]
fn agents_of_old_command_finish_and_end() {
    let mut world = World::new("c/*\n\tmaxring=1 command=x\n");
    world.messages(1..=3, "c/a.test");
    let (old, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    reload(&mut world, "c/*\n\tmaxring=1 command=y\n");
    world.agent_line(old, "1/100\t\tok3");
    world.hungry(old);
    assert_eq!(world.take_lines(old), ["(retire)"]);
    let (new, jobs) = world.hungry_new_agent();
    assert_ne!(new, old);
    assert_eq!(jobs, ["2\ta.test"]);
    world.dies(old, AgentEnd::Exited(0));
    world.works(new, jobs, "ok3");
    assert_eq!(world.removed(), ["1", "2", "3"]);
}

#[test]
fn idle_agents_of_same_command_get_next_message() {
    let mut world = World::new("c/a*\n\tcommand=x\nc/*\n\tcommand=x\n");
    let agent = world.idle_agent("c/b.test");
    reload(&mut world, "c/a*\n\tcommand=y\nc/b*\n\tcommand=x idlemax=1h\n");
    world.message(2, &["c/b2.test"]);
    assert_eq!(world.take_lines(agent), ["2\tb2.test"]);
    assert_eq!((world.started.len(), world.core.view().ring_ids().len()), (1, 1));
}

#[test]
fn idle_agents_of_old_command_end_at_once() {
    let mut world = World::new("c/*\n\tcommand=x\n");
    let agent = world.idle_agent("c/a.test");
    reload(&mut world, "c/*\n\tcommand=y\n");
    assert_eq!(world.take_lines(agent), ["(retire)"]);
    world.dies(agent, AgentEnd::Exited(0));
    assert_eq!(world.core.view().ring_ids().len(), 0);
}

#[test]
fn threads_move_to_rings_of_new_clauses() {
    let mut world = World::new("c/*\n\tmaxring=1 interval=1h retries=1 command=x\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    reload(&mut world, "c/b.test\n\tcommand=y\nc/*\n\tmaxring=1 interval=1h retries=1 command=x\n");
    assert_eq!(world.started.len(), 2, "b.test has a ring of its own now");
    assert_eq!(world.hungry_new_agent().1, ["2\tb.test"]);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["#idle"]);
}

#[test]
fn thread_with_agent_of_other_ring_gets_own_agent() {
    let mut world = World::new("c/a*\n\tmaxring=1 command=x\nc/*\n\tmaxring=1 command=y\n");
    world.messages(1..=3, "c/a.test");
    let (old, _) = world.hungry_new_agent();
    // The same two programs, but a.test has moved to the other one.
    reload(&mut world, "c/b*\n\tmaxring=1 command=x\nc/*\n\tmaxring=1 command=y\n");
    world.agent_line(old, "1/100\t\tok3");
    world.hungry(old);
    let (new, jobs) = world.hungry_new_agent();
    assert_ne!(new, old);
    assert_eq!(jobs, ["2\ta.test"]);
}

#[test]
fn waiting_mail_keeps_waiting_and_is_delivered() {
    let mut world = World::new("c/*\n\tmaxring=1 interval=1h retries=1 skew=1 command=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred later");
    world.hungry(agent);
    world.take_lines(agent);
    reload(&mut world, "c/*\n\tmaxring=1 interval=1h retries=2 skew=1 command=x\n");
    assert_eq!(world.shows(1), ["c/a.test Retry(3600) tries=1 later"]);
    // To a `queueonly` clause without retries, and back.
    reload(&mut world, "c/*\n\tqueueonly command=x\n");
    assert_eq!(world.shows(1), ["c/a.test Request tries=1 later"]);
    reload(&mut world, "c/*\n\tmaxring=1 interval=1h retries=2 skew=1 command=x\n");
    assert_eq!(world.shows(1), ["c/a.test Retry(7200) tries=1 later"]);
    world.pass_seconds(7201);
    assert_eq!(world.take_lines(agent), ["1\ta.test"]);
}

#[test]
fn shorter_expiry_takes_effect() {
    let mut world = World::new("c/*\n\tmaxring=1 interval=1d retries=9 expiry=3d command=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred later");
    world.pass_seconds(7200);
    assert_eq!(world.shows(1).len(), 1);
    reload(&mut world, "c/*\n\tmaxring=1 interval=1d retries=9 expiry=1h command=x\n");
    world.pass_seconds(1);
    assert_eq!(world.shows(1).len(), 0);
}

#[test]
fn removed_clause_leaves_mail_queued() {
    let mut world = World::new("c/*\n\tcommand=x\nd/*\n\tcommand=y\n");
    world.message(1, &["d/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    reload(&mut world, "c/*\n\tcommand=x\n");
    world.agent_line(agent, "1/100\tn\tdeferred later");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["(retire)"]);
    world.dies(agent, AgentEnd::Exited(0));
    assert_eq!(world.shows(1).len(), 1);
    reload(&mut world, "c/*\n\tcommand=x\nd/*\n\tcommand=y\n");
    world.pass_seconds(3600);
    assert_eq!(world.started.len(), 2);
}

/// Number of messages in [`crowded`], each in its own thread.
const MANY: u64 = 100;
/// A message in one of the last threads that move.
const LATE: u64 = 80;

/// More threads than a reload moves at a time.
fn crowded(text: &str) -> World {
    let settings = Settings { reload_step: 20, seed: 1, ..Settings::default() };
    let mut world = World::with(settings, text);
    (1..=MANY).for_each(|number| world.message(number, &[&format!("c/h{number}.test")]));
    world
}

fn is_sweeping(world: &World) -> bool {
    world.core.sweep.applies(crate::sweep::SweptChange::Configuration)
}

fn is_settled(world: &World, number: u64) -> bool {
    let thread = world.core.queue.threads().find(b"c", format!("h{number}.test").as_bytes());
    let thread = world.core.queue.thread(thread.expect("it is queued"));
    !world.core.queue.ring(thread.ring).is_retired
}

/// Delivers all jobs of an agent, including those it gets then. Returns their number.
fn delivers(world: &mut World, agent: AgentId) -> usize {
    let jobs = world.take_lines(agent);
    let heard = world.works(agent, jobs, "ok3");
    heard.iter().flatten().filter(|line| line.contains('\t')).count()
}

#[test]
fn agents_deliver_while_threads_move() {
    let mut world = crowded("c/*\n\tmaxring=1 command=x\n");
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\th1.test"]);
    reload(&mut world, "c/*\n\tmaxring=2 command=x\n");
    assert!(is_sweeping(&world));
    assert_eq!(world.started.len(), 2, "the new limit is in force");
    assert!(is_settled(&world, 2) && !is_settled(&world, LATE));
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    let heard = world.take_lines(agent);
    assert!(heard[0].contains('\t'), "it goes on with a thread that has moved: {heard:?}");
    // Threads that have not moved report that. A thread that something arrives for moves at once.
    assert_eq!(world.shows(LATE), ["c/h80.test Refused(Reloading) tries=0 "]);
    let why = world.core.view().why_thread(b"c", b"h80.test");
    let why = &why.expect("it is queued")[0].why;
    assert!(matches!(why, why::Why::Refused { refusal: Refusal::Reloading, .. }), "{why:?}");
    world.message(MANY + 1, &["c/h80.test"]);
    assert!(is_settled(&world, LATE) && !is_settled(&world, LATE + 1));
    assert_eq!(world.shows(LATE), ["c/h80.test Refused(MaxRing) tries=0 "]);
    world.pass_seconds(0);
    assert!(!is_sweeping(&world));
    assert_eq!(world.core.view().ring_ids().len(), 1);
    assert_eq!(world.shows(LATE + 1), ["c/h81.test Refused(MaxRing) tries=0 "]);
    assert_eq!(world.started.len(), 2);
}

#[test]
fn idle_agent_waits_for_threads_that_move() {
    let mut world = crowded("c/*\n\tmaxring=1 overfeed=50 command=x\n");
    let agent = world.started[0];
    world.hungry(agent);
    reload(&mut world, "c/*\n\tmaxring=1 overfeed=50 command=x\n");
    let first = delivers(&mut world, agent);
    assert_eq!(first, 20, "the messages that have moved");
    world.hungry(agent);
    assert!(is_sweeping(&world));
    world.handle(Event::Tick);
    let second = delivers(&mut world, agent);
    assert!(second > 0, "the first that moved gave it work again");
    world.hungry(agent);
    world.pass_seconds(0);
    let third = delivers(&mut world, agent);
    assert_eq!(first + second + third, MANY as usize);
    assert_eq!(world.started.len(), 1);
}

#[test]
fn second_reload_restarts_sweep() {
    let (x, y) = ("c/*\n\tmaxring=1 command=x\n", "c/*\n\tmaxring=1 command=y\n");
    let mut world = crowded(x);
    let (old, jobs) = world.hungry_new_agent();
    reload(&mut world, y);
    assert!(is_sweeping(&world));
    let (between, _) = world.hungry_new_agent();
    assert_ne!(between, old);
    world.handle(Event::Tick);
    reload(&mut world, x);
    assert!(is_sweeping(&world));
    assert!(is_settled(&world, 1) && !is_settled(&world, LATE));
    // The ring of the first agent has threads left, so it continues. The program of the other is
    // not needed.
    world
        .agent_line(old, &format!("{}/100\t\tok3", jobs[0].split('\t').next().unwrap_or_default()));
    world.hungry(old);
    assert!(world.take_lines(old)[0].contains('\t'));
    world.hungry(between);
    assert_eq!(world.take_lines(between), ["(retire)"]);
    world.pass_seconds(0);
    assert!(!is_sweeping(&world));
    assert_eq!(world.core.view().ring_ids().len(), 2);
    world.dies(between, AgentEnd::Exited(0));
    assert_eq!(world.core.view().ring_ids().len(), 1);
    assert_eq!(world.started.len(), 2);
}

#[test]
fn wakeup_moves_thread_to_new_clause() {
    let text =
        |retries| format!("c/*\n\tmaxring=1 interval=1m retries={retries} skew=1 command=x\n");
    let mut world = crowded(&text(1));
    let (agent, _) = world.hungry_new_agent();
    let threads: Vec<_> = world.core.queue.threads().iter().map(|(id, _)| id).collect();
    for thread in threads.into_iter().skip(LATE as usize - 20) {
        let reason = UnreachableReason::HostDown;
        let known = Unreachable { until: world.now, reason, cause: None };
        world.core.queue.block_thread(&mut world.core.cx, thread, known, DeferralNote::None);
    }
    // The late ones wake up before the sweep reaches them.
    world.now += Duration::from_secs(60);
    reload(&mut world, &text(2));
    world.handle(Event::Tick);
    assert!(is_sweeping(&world));
    assert!(is_settled(&world, LATE));
    world.pass_seconds(0);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\th2.test"]);
}
