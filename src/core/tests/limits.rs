//! How many agents there may be, and who waits for one.

use super::*;
use zsched_format::time::ClockStep;

#[test]
fn a_ring_has_no_more_agents_than_maxring() {
    let mut world = World::new("c/*\n\tmaxring=2\n\tcommand=x\n");
    for number in 1..=4 {
        world.message(number, &[&format!("c/h{number}.test")]);
    }
    assert_eq!(world.started.len(), 2);
    assert_eq!(world.shows(3), ["c/h3.test Slot(Ring) tries=0 "]);
    assert_eq!(world.shows(4), ["c/h4.test Slot(Ring) tries=0 "]);
    // Its own agents come to serve the others.
    let (agent, jobs) = world.newborn();
    let all = world.works(agent, jobs, "ok3").concat();
    assert_eq!(all, ["2\th2.test", "3\th3.test", "4\th4.test", "#idle"]);
}

#[test]
fn a_channel_has_no_more_agents_than_maxchannel_under_all_clauses() {
    let mut world =
        World::new("c/a.test\n\tmaxchannel=2 command=x\nc/*\n\tmaxchannel=2 command=y\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    world.message(3, &["c/c.test"]);
    assert_eq!(world.started.len(), 2);
    assert_eq!(world.shows(3), ["c/c.test Slot(Channel) tries=0 "]);
    // The agent of a.test, of another ring, ends: there is room now.
    world.says(world.started[0], "1/100\t\tok3");
    world.dies(world.started[0], AgentEnd::Exited(0));
    assert_eq!(world.started.len(), 3);
}

#[test]
fn maxta_counts_all_agents() {
    let mut world = World::new("c/*\n\tcommand=x\nd/*\n\tmaxta=2 command=y\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    world.message(3, &["d/a.test"]);
    assert_eq!(world.shows(3), ["d/a.test Slot(General) tries=0 "]);
    // It is tested only for the clause that has it.
    world.message(4, &["c/c.test"]);
    assert_eq!(world.started.len(), 3);
}

#[test]
fn idle_agents_make_room_for_other_rings() {
    let mut world = World::new("*/*\n\tmaxta=2\nc/*\n\tcommand=x\nd/*\n\tcommand=y\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    for agent in world.started.clone() {
        world.hungry(agent);
        let jobs = world.heard_by(agent);
        world.works(agent, jobs, "ok3");
        world.hungry(agent);
    }
    world.message(3, &["d/a.test"]);
    let first = world.started[0];
    assert_eq!(world.heard_by(first), ["(retire)"]);
    assert_eq!(world.heard_by(world.started[1]), [""; 0], "one is enough");
    world.dies(first, AgentEnd::Exited(0));
    assert_eq!(world.started.len(), 3);
}

#[test]
fn an_agent_that_becomes_idle_makes_room_for_a_ring_that_waits() {
    let mut world = World::new("*/*\n\tmaxta=1\nc/*\n\tcommand=x\nd/*\n\tcommand=y\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["d/a.test"]);
    let (first, jobs) = world.newborn();
    assert_eq!(world.works(first, jobs, "ok3").last(), Some(&vec!["#idle".into()]));
    world.hungry(first);
    assert_eq!(world.heard_by(first), ["(retire)"]);
    world.dies(first, AgentEnd::Exited(0));
    assert_eq!(world.newborn().1, ["2\ta.test"]);
}

#[test]
fn a_thread_shares_its_work_among_maxthr_agents() {
    let mut world = World::new("c/*\n\tmaxthr=3 overfeed=0 command=x\n");
    world.message(1, &["c/a.test"]);
    assert_eq!(world.started.len(), 1, "one job, one agent");
    world.messages(2..=6, "c/a.test");
    assert_eq!(world.started.len(), 3);
    for agent in world.started.clone() {
        world.hungry(agent);
        assert_eq!(world.heard_by(agent).len(), 1);
    }
}

#[test]
fn arrivals_start_no_second_agent_where_only_wakeups_may() {
    let mut world = World::new("c/*\n\tmaxthr=3 overfeed=0 wakeuprestartonly command=x\n");
    world.messages(1..=6, "c/a.test");
    assert_eq!(world.started.len(), 1);
    world.tell(Event::Turn(b"a.test"));
    assert_eq!(world.started.len(), 3);
}

#[test]
fn no_more_agents_are_started_in_a_second_than_the_fork_rate() {
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
fn a_clock_that_is_set_back_does_not_lengthen_the_second() {
    let settings = Settings { fork_rate: 1, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    (1..=3).for_each(|number| world.message(number, &[&format!("c/h{number}.test")]));
    assert_eq!(world.started.len(), 1);
    let step = ClockStep::Back(Duration::from_secs(3600));
    world.now = world.now + step;
    world.tell(Event::ClockSet(step));
    assert_eq!(world.started.len(), 2);
    world.pass_seconds(1);
    assert_eq!(world.started.len(), 3);
}

#[test]
fn the_process_limit_holds_where_no_other_does() {
    let settings = Settings { max_agents: 5, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tmaxta=0 maxring=0 command=x\n");
    for number in 1..=8 {
        world.message(number, &[&format!("c/h{number}.test")]);
    }
    world.hungry(world.started[0]);
    assert_eq!(world.started.len(), 5);
}

#[test]
fn without_a_command_mail_stays_and_says_why() {
    let mut world = World::new("c/*\n\tmaxring=3\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["nowhere/a.test"]);
    assert!(world.started.is_empty());
    let pending: Vec<_> = world
        .core
        .ring_ids()
        .iter()
        .filter_map(|ring| world.core.ring_view(*ring))
        .flat_map(|ring| ring.threads.clone())
        .filter_map(|thread| world.core.thread_view(world.now, thread)?.refusal?.pending)
        .collect();
    assert_eq!(pending, ["ConfBUG:NoCmdDefined!"; 2]);
}

/// Rings that wait for different things all get their turn: the second in which two agents may be started
/// is not always given to the same one.
#[test]
fn all_lines_get_their_turn() {
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
        let threads = world.core.why_thread(channel.as_bytes(), b"h0.test");
        threads.is_some_and(|waits| matches!(waits[0].why, crate::why::Why::AgentStarting { .. }))
    };
    world.pass_seconds(6);
    for channel in ["a", "b", "c"] {
        assert!(started(&world, channel), "{channel} had no turn in six seconds");
    }
}

/// A ring that always has something new does not take every second's agents from one that waits.
#[test]
fn a_busy_ring_does_not_jump_the_line() {
    let settings = Settings { fork_rate: 2, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\nd/*\n\tcommand=x\n");
    (1..=4).for_each(|number| world.message(number, &[&format!("c/h{number}.test")]));
    world.message(1000, &["d/quiet.test"]);
    for number in 5..25 {
        world.now += Duration::from_millis(500);
        world.message(number, &[&format!("c/h{number}.test")]);
    }
    let waits = world.core.why_thread(b"d", b"quiet.test").expect("it is queued");
    assert!(matches!(waits[0].why, crate::why::Why::AgentStarting { .. }), "{waits:?}");
}

#[test]
fn one_that_is_slow_to_end_does_not_hold_up_all_who_wait() {
    let mut world = World::new("*/*\n\tmaxta=2 idlemax=1h\nc/*\n\tcommand=x\nd/*\n\tcommand=x\n");
    world.message(1, &["c/a.test", "c/b.test"]);
    let idle: Vec<AgentId> = world.started.clone();
    for agent in &idle {
        world.hungry(*agent);
        let job = world.heard_by(*agent)[0].clone();
        let offset = if job.ends_with("a.test") { 100 } else { 200 };
        world.says(*agent, &format!("1/{offset}\t\tok3"));
        world.hungry(*agent);
        world.hungry(*agent);
        assert_eq!(world.heard_by(*agent), ["#idle"]);
    }
    world.message(2, &["d/x.test"]);
    let told = |world: &mut World| {
        idle.iter().filter(|agent| world.heard_by(**agent) == ["(retire)"]).count()
    };
    assert_eq!(told(&mut world), 1);
    world.pass_seconds(5);
    assert_eq!(told(&mut world), 0);
    world.pass_seconds(10);
    assert_eq!(told(&mut world), 1, "the first one does not end");
}
