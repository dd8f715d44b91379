//! Limits on agents, and the order in which rings get one.

use super::*;
use zsched_format::time::ClockStep;

#[test]
fn maxring_limits_agents_of_ring() {
    let mut world = World::new("c/*\n\tmaxring=2\n\tcommand=x\n");
    for number in 1..=4 {
        world.message(number, &[&format!("c/h{number}.test")]);
    }
    assert_eq!(world.started.len(), 2);
    assert_eq!(world.shows(3), ["c/h3.test Refused(MaxRing) tries=0 "]);
    assert_eq!(world.shows(4), ["c/h4.test Refused(MaxRing) tries=0 "]);
    // Its own agents come to serve the other threads.
    let (agent, jobs) = world.hungry_new_agent();
    let all = world.works(agent, jobs, "ok3").concat();
    assert_eq!(all, ["2\th2.test", "3\th3.test", "4\th4.test", "#idle"]);
}

#[test]
fn maxchannel_limits_agents_of_channel_over_clauses() {
    let mut world =
        World::new("c/a.test\n\tmaxchannel=2 command=x\nc/*\n\tmaxchannel=2 command=y\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    world.message(3, &["c/c.test"]);
    assert_eq!(world.started.len(), 2);
    assert_eq!(world.shows(3), ["c/c.test Refused(MaxChannel) tries=0 "]);
    // The agent of a.test, of another ring, ends, which makes room.
    world.agent_line(world.started[0], "1/100\t\tok3");
    world.dies(world.started[0], AgentEnd::Exited(0));
    assert_eq!(world.started.len(), 3);
}

#[test]
fn maxta_limits_all_agents() {
    let mut world = World::new("c/*\n\tcommand=x\nd/*\n\tmaxta=2 command=y\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    world.message(3, &["d/a.test"]);
    assert_eq!(world.shows(3), ["d/a.test Refused(MaxAgents) tries=0 "]);
    // Only the clause that has the limit is checked against it.
    world.message(4, &["c/c.test"]);
    assert_eq!(world.started.len(), 3);
}

#[test]
fn idle_agent_ends_for_other_ring() {
    let mut world = World::new("*/*\n\tmaxta=2\nc/*\n\tcommand=x\nd/*\n\tcommand=y\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    for agent in world.started.clone() {
        world.hungry(agent);
        let jobs = world.take_lines(agent);
        world.works(agent, jobs, "ok3");
        world.hungry(agent);
    }
    world.message(3, &["d/a.test"]);
    let first = world.started[0];
    assert_eq!(world.take_lines(first), ["(retire)"]);
    assert_eq!(world.take_lines(world.started[1]), [""; 0], "one idle agent ends for one ring");
    world.dies(first, AgentEnd::Exited(0));
    assert_eq!(world.started.len(), 3);
}

#[test]
fn agent_that_becomes_idle_ends_for_waiting_ring() {
    let mut world = World::new("*/*\n\tmaxta=1\nc/*\n\tcommand=x\nd/*\n\tcommand=y\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["d/a.test"]);
    let (first, jobs) = world.hungry_new_agent();
    assert_eq!(world.works(first, jobs, "ok3").last(), Some(&vec!["#idle".into()]));
    world.hungry(first);
    assert_eq!(world.take_lines(first), ["(retire)"]);
    world.dies(first, AgentEnd::Exited(0));
    assert_eq!(world.hungry_new_agent().1, ["2\ta.test"]);
}

#[test]
fn maxthr_agents_share_work_of_thread() {
    let mut world = World::new("c/*\n\tmaxthr=3 overfeed=0 command=x\n");
    world.message(1, &["c/a.test"]);
    assert_eq!(world.started.len(), 1, "one job, one agent");
    world.messages(2..=6, "c/a.test");
    assert_eq!(world.started.len(), 3);
    for agent in world.started.clone() {
        world.hungry(agent);
        assert_eq!(world.take_lines(agent).len(), 1);
    }
}

#[test]
fn wakeup_restart_only_arrival_starts_no_second_agent() {
    let mut world = World::new("c/*\n\tmaxthr=3 overfeed=0 wakeuprestartonly command=x\n");
    world.messages(1..=6, "c/a.test");
    assert_eq!(world.started.len(), 1);
    world.handle(Event::Etrn(b"a.test"));
    assert_eq!(world.started.len(), 3);
}

#[test]
fn fork_rate_limits_starts_per_second() {
    let settings = Settings { fork_rate: 3, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    for number in 1..=8 {
        world.message(number, &[&format!("c/h{number}.test")]);
    }
    assert_eq!(world.started.len(), 3);
    world.hungry(world.started[0]);
    world.pass_seconds(1);
    assert_eq!(world.started.len(), 6);
    world.pass_seconds(1);
    assert_eq!(world.started.len(), 8);
}

#[test]
fn clock_set_back_does_not_stop_starts() {
    let settings = Settings { fork_rate: 1, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    (1..=3).for_each(|number| world.message(number, &[&format!("c/h{number}.test")]));
    assert_eq!(world.started.len(), 1);
    let step = ClockStep::Back(Duration::from_secs(3600));
    world.now = world.now + step;
    world.handle(Event::ClockSet(step));
    assert_eq!(world.started.len(), 2);
    world.pass_seconds(1);
    assert_eq!(world.started.len(), 3);
}

#[test]
fn process_limit_applies_without_other_limits() {
    let settings = Settings { max_agents: 5, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tmaxta=0 maxring=0 command=x\n");
    for number in 1..=8 {
        world.message(number, &[&format!("c/h{number}.test")]);
    }
    world.hungry(world.started[0]);
    assert_eq!(world.started.len(), 5);
}

#[test]
fn clause_without_command_keeps_mail_and_logs() {
    let mut world = World::new("c/*\n\tmaxring=3\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["nowhere/a.test"]);
    assert!(world.started.is_empty());
    let pending: Vec<_> = world
        .core
        .view()
        .ring_ids()
        .iter()
        .filter_map(|ring| world.core.view().ring(*ring))
        .flat_map(|ring| &ring.threads)
        .filter_map(|thread| world.core.view().pending_reason(world.core.view().thread(*thread)?))
        .collect();
    assert_eq!(pending, [Reason::Refused(Refusal::NoCommand); 2]);
    let logged = |line: &&String| line.contains("no clause has a command");
    let logged: Vec<_> = world.log.iter().filter(logged).collect();
    assert_eq!(
        logged,
        [
            "c/a.test (scheduler.cf:1): no clause has a command for it; its mail stays",
            "nowhere/a.test: no clause has a command for it; its mail stays"
        ]
    );
}

/// Rings that wait for different resources all get their turn.
///
/// With one start per second, no ring is always first.
#[test]
fn waitlists_of_all_resources_get_turns() {
    let settings = Settings { fork_rate: 1, ..Settings::default() };
    let clauses = "a/*\n\tmaxta=100 command=x\nb/*\n\tmaxta=200 command=x\nc/*\n\tcommand=x\n";
    let mut world = World::with(settings, clauses);
    let mut number = 0;
    for host in 0..20 {
        for channel in ["a", "b", "c"] {
            number += 1;
            world.message(number, &[&format!("{channel}/h{host}.test")]);
        }
    }
    let started = |world: &World, channel: &str| {
        let threads = world.core.view().why_thread(channel.as_bytes(), b"h0.test");
        threads.is_some_and(|waits| {
            matches!(waits[0].why, crate::query::why::Why::AgentStarting { .. })
        })
    };
    world.pass_seconds(6);
    for channel in ["a", "b", "c"] {
        assert!(started(&world, channel), "{channel} had no turn in six seconds");
    }
}

/// A ring with much new mail leaves starts to others.
///
/// Another ring waits for the starts of each second.
#[test]
fn busy_ring_does_not_overtake_waiting_ring() {
    let settings = Settings { fork_rate: 2, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\nd/*\n\tcommand=x\n");
    (1..=4).for_each(|number| world.message(number, &[&format!("c/h{number}.test")]));
    world.message(1000, &["d/quiet.test"]);
    for number in 5..25 {
        world.now += Duration::from_millis(500);
        world.message(number, &[&format!("c/h{number}.test")]);
    }
    let waits = world.core.view().why_thread(b"d", b"quiet.test").expect("it is queued");
    assert!(matches!(waits[0].why, crate::query::why::Why::AgentStarting { .. }), "{waits:?}");
}

#[test]
fn slow_stopping_agent_does_not_block_waiting_rings() {
    let mut world = World::new("*/*\n\tmaxta=2 idlemax=1h\nc/*\n\tcommand=x\nd/*\n\tcommand=x\n");
    world.message(1, &["c/a.test", "c/b.test"]);
    let idle: Vec<AgentId> = world.started.clone();
    for agent in &idle {
        world.hungry(*agent);
        let job = world.take_lines(*agent)[0].clone();
        let offset = if job.ends_with("a.test") { 100 } else { 200 };
        world.agent_line(*agent, &format!("1/{offset}\t\tok3"));
        world.hungry(*agent);
        world.hungry(*agent);
        assert_eq!(world.take_lines(*agent), ["#idle"]);
    }
    world.message(2, &["d/x.test"]);
    let told = |world: &mut World| {
        idle.iter().filter(|agent| world.take_lines(**agent) == ["(retire)"]).count()
    };
    assert_eq!(told(&mut world), 1);
    world.pass_seconds(5);
    assert_eq!(told(&mut world), 0);
    world.pass_seconds(10);
    assert_eq!(told(&mut world), 1, "the first agent does not end");
}
