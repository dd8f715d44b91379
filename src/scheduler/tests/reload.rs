//! New configurations while agents are at work.

use super::*;

fn reload(world: &mut World, text: &str) {
    world.tell(Event::Configured(Rc::new(config(text))));
}

#[test]
fn a_ring_that_runs_the_same_lives_on_with_new_limits() {
    let mut world = World::new("c/*\n\tmaxring=1 command=x\n");
    for number in 1..=4 {
        world.message(number, &[&format!("c/h{number}.test")]);
    }
    assert_eq!(world.started.len(), 1);
    reload(&mut world, "c/*\n\tmaxring=3 command=x\n");
    assert_eq!(world.started.len(), 3);
    let first = world.started[0];
    world.hungry(first);
    assert_eq!(world.heard_by(first), ["1\th1.test"], "the old agent goes on");
}

#[test]
fn agents_of_an_old_command_finish_and_end() {
    let mut world = World::new("c/*\n\tmaxring=1 command=x\n");
    world.messages(1..=3, "c/a.test");
    let (old, jobs) = world.newborn();
    assert_eq!(jobs, ["1\ta.test"]);
    reload(&mut world, "c/*\n\tmaxring=1 command=y\n");
    world.says(old, "1/100\t\tok3");
    world.hungry(old);
    assert_eq!(world.heard_by(old), ["(retire)"]);
    let (new, jobs) = world.newborn();
    assert_ne!(new, old);
    assert_eq!(jobs, ["2\ta.test"]);
    world.dies(old, AgentEnd::Exited(0));
    world.works(new, jobs, "ok3");
    assert_eq!(world.removed(), ["1", "2", "3"]);
}

#[test]
fn idle_agents_of_an_old_command_end_at_once() {
    let mut world = World::new("c/*\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, jobs) = world.newborn();
    world.works(agent, jobs, "ok3");
    world.hungry(agent);
    reload(&mut world, "c/*\n\tcommand=y\n");
    assert_eq!(world.heard_by(agent), ["(retire)"]);
    world.dies(agent, AgentEnd::Exited(0));
    assert_eq!(world.core.ring_ids().len(), 0);
}

#[test]
fn threads_move_to_the_rings_of_new_clauses() {
    let mut world = World::new("c/*\n\tmaxring=1 interval=1h retries=1 command=x\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    let (agent, jobs) = world.newborn();
    assert_eq!(jobs, ["1\ta.test"]);
    reload(&mut world, "c/b.test\n\tcommand=y\nc/*\n\tmaxring=1 interval=1h retries=1 command=x\n");
    assert_eq!(world.started.len(), 2, "b.test has a ring of its own now");
    assert_eq!(world.newborn().1, ["2\tb.test"]);
    world.says(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.heard_by(agent), ["#idle"]);
}

#[test]
fn a_thread_whose_agent_is_of_another_ring_gets_one_of_its_own() {
    let mut world = World::new("c/a*\n\tmaxring=1 command=x\nc/*\n\tmaxring=1 command=y\n");
    world.messages(1..=3, "c/a.test");
    let (old, _) = world.newborn();
    // The same two programs, but a.test is the other one's now.
    reload(&mut world, "c/b*\n\tmaxring=1 command=x\nc/*\n\tmaxring=1 command=y\n");
    world.says(old, "1/100\t\tok3");
    world.hungry(old);
    let (new, jobs) = world.newborn();
    assert_ne!(new, old);
    assert_eq!(jobs, ["2\ta.test"]);
}

#[test]
fn what_waits_goes_on_waiting_and_nothing_is_stuck() {
    let mut world = World::new("c/*\n\tmaxring=1 interval=1h retries=1 skew=1 command=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, jobs) = world.newborn();
    world.works(agent, jobs, "deferred later");
    world.hungry(agent);
    world.heard_by(agent);
    reload(&mut world, "c/*\n\tmaxring=1 interval=1h retries=2 skew=1 command=x\n");
    assert_eq!(world.shows(1), ["c/a.test Retry(3600) tries=1 later"]);
    // To a clause that waits for requests only, and back.
    reload(&mut world, "c/*\n\tqueueonly interval=1h retries=2 skew=1 command=x\n");
    assert_eq!(world.shows(1), ["c/a.test Inactive tries=1 later"]);
    reload(&mut world, "c/*\n\tmaxring=1 interval=1h retries=2 skew=1 command=x\n");
    assert_eq!(world.shows(1), ["c/a.test Retry(7200) tries=1 later"]);
    world.pass_seconds(7201);
    assert_eq!(world.heard_by(agent), ["1\ta.test"]);
}

#[test]
fn a_shorter_expiry_takes_effect() {
    let mut world = World::new("c/*\n\tmaxring=1 interval=1d retries=9 expiry=3d command=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, jobs) = world.newborn();
    world.works(agent, jobs, "deferred later");
    world.pass_seconds(7200);
    assert_eq!(world.shows(1).len(), 1);
    reload(&mut world, "c/*\n\tmaxring=1 interval=1d retries=9 expiry=1h command=x\n");
    world.pass_seconds(1);
    assert_eq!(world.shows(1).len(), 0);
}

#[test]
fn a_clause_that_is_gone_leaves_its_mail_queued() {
    let mut world = World::new("c/*\n\tcommand=x\nd/*\n\tcommand=y\n");
    world.message(1, &["d/a.test"]);
    let (agent, _) = world.newborn();
    reload(&mut world, "c/*\n\tcommand=x\n");
    world.says(agent, "1/100\tn\tdeferred later");
    world.hungry(agent);
    assert_eq!(world.heard_by(agent), ["(retire)"]);
    world.dies(agent, AgentEnd::Exited(0));
    assert_eq!(world.shows(1).len(), 1);
    reload(&mut world, "c/*\n\tcommand=x\nd/*\n\tcommand=y\n");
    world.pass_seconds(3600);
    assert_eq!(world.started.len(), 2);
}
