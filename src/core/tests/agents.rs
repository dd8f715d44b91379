//! Agents that die, stall, report wrongly or are told to end.

use super::*;
use zsched_format::time::ClockStep;

const ONE: &str = "c/*\n\tmaxring=1 interval=60s retries=1 skew=1\n\tcommand=x\n";

#[test]
fn agent_death_defers_only_its_present_job() {
    let mut world = World::new(ONE);
    world.messages(1..=4, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent).len(), 3);
    for line in ["Traceback:", "  line 3", "", "Error: out of cheese ", "Error: exiting", "  "] {
        world.agent_line(agent, line);
    }
    world.dies(agent, AgentEnd::Signalled(9));
    let shown = "c/a.test Retry(60) tries=1 the transport agent was ended by signal 9 while it had \
                 this job (it said: Error: out of cheese; and at last: Error: exiting)";
    assert_eq!(world.shows(2), [shown]);
    let locks = |action: &Action| match action {
        Action::ClearLocks { name, pid } => Some((name.number(), *pid)),
        _ => None,
    };
    let cleared: Vec<(u64, u32)> = world.done.iter().filter_map(locks).collect();
    assert_eq!(cleared, [(2, 1001), (3, 1001), (4, 1001)]);
    // The next agent gets the others, in order.
    let (_, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["3\ta.test"]);
}

/// A world with one message for three recipients of one host.
fn three_recipients() -> World {
    let mut world = World::new(ONE);
    let group = Group::new(b"c", b"a.test", &[100, 200, 300]);
    let arrival = arrival(1, vec![group], world.now, world.now);
    world.handle(Event::Arrived(Box::new(arrival)));
    world
}

#[test]
fn agent_exit_within_job_leaves_unreported_recipients_due() {
    let mut world = three_recipients();
    world.messages(2..=3, "c/a.test");
    for _ in 0..2 {
        let (agent, jobs) = world.hungry_new_agent();
        assert_eq!(jobs, ["1\ta.test"]);
        let offset = if world.started.len() == 1 { 300 } else { 200 };
        world.agent_line(agent, &format!("1/{offset}\t\tok3"));
        world.dies(agent, AgentEnd::Exited(0));
    }
    // This is no death: the third agent gets the job, without a deferral of the last recipient.
    assert_eq!(world.started.len(), 3);
    let shown = world.shows(1).concat();
    assert!(shown.ends_with("tries=2 "), "{shown}");
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\ta.test", "3\ta.test"]);
    world.removed();
}

#[test]
fn agent_exit_after_all_deferred_leaves_recipients_waiting() {
    let mut world = three_recipients();
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/300\t\tok3");
    world.agent_line(agent, "1/200\t\tdeferred full");
    world.agent_line(agent, "1/100\t\tdeferred full");
    world.dies(agent, AgentEnd::Exited(0));
    assert_eq!(world.shows(1), ["c/a.test Retry(60) tries=1 full"]);
}

#[test]
fn agent_exit_0_without_finished_recipient_counts_as_death() {
    let mut world = three_recipients();
    for _ in 0..4 {
        let started = world.started.len();
        let (agent, jobs) = world.hungry_new_agent();
        assert_eq!(jobs, ["1\ta.test"]);
        world.agent_line(agent, "1/300\t\tdeferred full");
        world.dies(agent, AgentEnd::Exited(0));
        assert_eq!(world.started.len(), started, "it waits for the retry time");
        world.pass_seconds(61);
    }
}

#[test]
fn stopped_agent_exit_0_leaves_its_job_due() {
    let mut world = three_recipients();
    let (agent, _) = world.hungry_new_agent();
    world.handle(Event::Drain);
    assert_eq!(world.take_lines(agent), ["(quit)"]);
    world.dies(agent, AgentEnd::Exited(0));
    assert_eq!(world.shows(1), ["c/a.test Refused(Ending) tries=0 "]);
}

#[test]
fn agent_death_before_first_hungry_makes_thread_wait() {
    for (end, text) in [
        (AgentEnd::Exited(1), "the transport agent ended with status 1 before it asked for work"),
        (
            AgentEnd::NotStarted("/bin/x: No such file or directory".into()),
            "the transport agent could not be started: /bin/x: No such file or directory",
        ),
    ] {
        let mut world = World::new(ONE);
        world.messages(1..=2, "c/a.test");
        world.dies(world.started[0], end);
        for number in 1..=2 {
            assert_eq!(world.shows(number), [format!("c/a.test Retry(60) tries=0 {text}")]);
        }
        assert_eq!(world.started.len(), 1);
        world.pass_seconds(61);
        assert_eq!(world.started.len(), 2);
    }
}

#[test]
fn repeated_agent_deaths_make_thread_wait() {
    let mut world = World::new(ONE);
    world.messages(1..=10, "c/a.test");
    for _ in 0..3 {
        let (agent, jobs) = world.hungry_new_agent();
        assert_eq!(jobs.len(), 1);
        world.dies(agent, AgentEnd::Exited(70));
    }
    assert_eq!(world.started.len(), 3);
    assert!(world.shows(10)[0].starts_with("c/a.test Retry(60)"), "{:?}", world.shows(10));
}

#[test]
fn message_that_kills_agents_does_not_delay_others() {
    let mut world = World::new(ONE);
    world.messages(1..=5, "c/a.test");
    let mut delivered = 0;
    while world.core.view().totals().messages > 1 {
        let (agent, jobs) = world.hungry_new_agent();
        let mut jobs = std::collections::VecDeque::from(jobs);
        while let Some(job) = jobs.pop_front() {
            if job.starts_with("1\t") {
                world.dies(agent, AgentEnd::Signalled(11));
                break;
            }
            if job.starts_with('#') {
                break;
            }
            let number = job.split('\t').next().unwrap_or_default();
            world.agent_line(agent, &format!("{number}/100\t\tok3"));
            world.hungry(agent);
            delivered += 1;
            jobs.extend(world.take_lines(agent));
        }
        world.removed();
        assert!(world.started.len() < 4, "message 1 kills every agent");
    }
    assert_eq!(delivered, 4);
}

#[test]
fn silent_agent_is_killed_and_its_job_deferred() {
    let config = "c/*\n\tmaxring=1 interval=60s retries=1 skew=1 agent-timeout=5m\n\tcommand=x\n";
    for says_hungry in [true, false] {
        let mut world = World::new(config);
        world.message(1, &["c/a.test"]);
        let agent = world.started[0];
        if says_hungry {
            world.hungry(agent);
            world.take_lines(agent);
        }
        // Lines outside the protocol do not count as progress.
        for _ in 0..4 {
            world.pass_seconds(74);
            world.agent_line(agent, "still thinking");
        }
        assert_eq!(world.take_lines(agent), [""; 0]);
        world.pass_seconds(10);
        assert_eq!(world.take_lines(agent), ["(kill)"], "hungry: {says_hungry}");
        world.dies(agent, AgentEnd::Signalled(9));
        let shown = world.shows(1).concat();
        assert!(shown.contains("was silent for too long, and was ended by signal 9"), "{shown}");
        assert_eq!(world.started.len(), 1);
    }
}

#[test]
fn slow_agent_that_reports_is_not_killed() {
    let mut world = World::new("c/*\n\tmaxring=1 agent-timeout=5m\n\tcommand=x\n");
    world.messages(1..=100, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    for number in 1..=100 {
        world.pass_seconds(290);
        world.agent_line(agent, &format!("{number}/100\t\tok3"));
        world.hungry(agent);
        assert!(!world.take_lines(agent).contains(&"(kill)".to_string()));
    }
}

#[test]
fn idle_agent_ends_after_idle_timeout() {
    let mut world = World::new("c/*\n\tmaxring=1 idlemax=3m\n\tcommand=x\n");
    let agent = world.idle_agent("c/a.test");
    world.pass_seconds(179);
    assert_eq!(world.take_lines(agent), [""; 0]);
    world.pass_seconds(2);
    assert_eq!(world.take_lines(agent), ["(retire)"]);
    // It ends slowly after `(retire)`.
    world.pass_seconds(298);
    assert_eq!(world.take_lines(agent), [""; 0]);
    world.pass_seconds(2);
    assert_eq!(world.take_lines(agent), ["(kill)"]);
    world.dies(agent, AgentEnd::Signalled(9));
    assert!(!world.core.view().has_agents());
}

#[test]
fn parked_agent_death_lets_next_mail_start_agent() {
    let mut world = World::new(ONE);
    let agent = world.idle_agent("c/a.test");
    world.dies(agent, AgentEnd::Exited(0));
    world.message(2, &["c/a.test"]);
    assert_eq!(world.started.len(), 2);
}

#[test]
fn drain_stops_agents_and_starts_none() {
    let mut world = World::new("c/*\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    let (second, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["2\tb.test"]);
    world.handle(Event::Drain);
    assert_eq!(world.take_lines(world.started[0]), ["(quit)"]);
    assert_eq!(world.take_lines(second), ["(quit)"]);
    // It finishes the jobs it has.
    world.agent_line(second, "2/100\t\tok3");
    world.hungry(second);
    assert_eq!(world.removed(), ["2"]);
    for agent in world.started.clone() {
        world.dies(agent, AgentEnd::Exited(0));
    }
    assert!(!world.core.view().has_agents());
    assert_eq!(world.started.len(), 2);
    assert!(world.shows(1)[0].ends_with("tries=0 "), "{:?}", world.shows(1));
}

/// All of its present job is reported when it dies.
///
/// So the jobs behind it do not count as tried.
#[test]
fn agent_death_does_not_count_unstarted_jobs_as_tried() {
    let mut world = World::new("c/*\n\tmaxring=1 overfeed=5\n\tcommand=x\n");
    world.messages(1..=4, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\ta.test", "3\ta.test", "4\ta.test"]);
    world.agent_line(agent, "2/100\t\tok3");
    world.dies(agent, AgentEnd::Signalled(9));
    for number in [3, 4] {
        let shown = world.shows(number);
        assert!(shown[0].ends_with("tries=0 "), "{shown:?}");
    }
    assert_eq!(world.hungry_new_agent().1, ["3\ta.test"]);
}

#[test]
fn agent_death_keeps_its_reports() {
    let mut world = World::new("c/*\n\tmaxring=1\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\tn\tdeferred mailbox full");
    world.dies(agent, AgentEnd::Exited(0));
    let shown = world.shows(1);
    assert!(shown[0].ends_with("tries=1 mailbox full"), "{shown:?}");
}

/// It was told to end and has jobs: it is killed only when it makes no more progress.
#[test]
fn stopped_agent_may_finish_its_jobs() {
    let mut world = World::new("c/*\n\tmaxring=1 overfeed=200 agent-timeout=1h\n\tcommand=x\n");
    world.messages(1..=100, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    world.take_lines(agent);
    world.handle(Event::Drain);
    assert_eq!(world.take_lines(agent), ["(quit)"]);
    for number in 2..=50 {
        world.pass_seconds(60);
        world.agent_line(agent, &format!("{number}/100\t\tok3"));
        world.hungry(agent);
    }
    assert_eq!(world.take_lines(agent), [""; 0], "an agent that makes progress is not stopped");
    world.pass_seconds(3599);
    assert_eq!(world.take_lines(agent), [""; 0]);
    world.pass_seconds(2);
    assert_eq!(world.take_lines(agent), ["(kill)"]);
}

/// An agent that cannot be killed (its disk does not answer) has the thread's only job.
#[test]
fn unkillable_agent_does_not_keep_thread_from_new_agent() {
    let mut world = World::new("c/*\n\tmaxthr=2 agent-timeout=10s\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    world.pass_seconds(11);
    assert_eq!(world.take_lines(agent), ["(kill)"]);
    world.message(2, &["c/a.test"]);
    let (next, jobs) = world.hungry_new_agent();
    assert_ne!(next, agent);
    assert_eq!(jobs, ["2\ta.test"]);
}

#[test]
fn idle_agent_that_served_host_last_is_preferred() {
    let mut world = World::new("c/*\n\tidlemax=1h\n\tcommand=x\n");
    let mut agents = Vec::new();
    world.message(1, &["c/a.test", "c/b.test"]);
    for index in 0..2 {
        let agent = world.started[index];
        world.hungry(agent);
        let jobs = world.take_lines(agent);
        let offset = if jobs[0].ends_with("a.test") { 100 } else { 200 };
        agents.push((agent, jobs[0].clone(), offset));
    }
    for (agent, _, offset) in &agents {
        world.agent_line(*agent, &format!("1/{offset}\t\tok3"));
        world.hungry(*agent);
        world.hungry(*agent);
        assert_eq!(world.take_lines(*agent), ["#idle"]);
    }
    for (number, host) in [(2, "b.test"), (3, "a.test"), (4, "a.test"), (5, "b.test")] {
        world.message(number, &[&format!("c/{host}")]);
        let (agent, _, _) = agents.iter().find(|(_, job, _)| job.ends_with(host)).expect("one");
        assert_eq!(world.take_lines(*agent), [format!("{number}\t{host}")]);
        world.agent_line(*agent, &format!("{number}/100\t\tok3"));
        world.hungry(*agent);
        world.hungry(*agent);
        world.take_lines(*agent);
    }
    assert_eq!(world.started.len(), 2);
}

#[test]
fn clock_step_keeps_durations() {
    let config = "c/*\n\tmaxring=1 interval=60s retries=1 skew=1 agent-timeout=1h\n\tcommand=x\n";
    for step in [
        ClockStep::Forward(Duration::from_secs(7200)),
        ClockStep::Back(Duration::from_secs(36_000)),
    ] {
        let mut world = World::new(config);
        world.messages(1..=2, "c/a.test");
        let (agent, _) = world.hungry_new_agent();
        world.agent_line(agent, "1/100\tn\tdeferred later");
        world.hungry(agent);
        world.take_lines(agent);
        world.now = world.now + step;
        world.handle(Event::ClockSet(step));
        world.pass_seconds(10);
        assert_eq!(world.take_lines(agent), [""; 0], "it is not killed");
        assert_eq!(world.shows(1), ["c/a.test Retry(50) tries=1 later"]);
        world.pass_seconds(3580);
        assert_eq!(world.take_lines(agent), [""; 0]);
        world.pass_seconds(20);
        assert_eq!(world.take_lines(agent), ["(kill)"]);
    }
}

/// A world with a message for each of `hosts` hosts of the channels `c` and `d`.
fn many_hosts(hosts: u64) -> World {
    let settings = Settings { fork_rate: 20, ..Settings::default() };
    let mut world =
        World::with(settings, "*/*\n\tinterval=1m\nc/*\n\tcommand=x\nd/*\n\tcommand=y\n");
    (1..=hosts).for_each(|number| world.message(number, &[&format!("c/h{number}")]));
    world
}

/// Ends all agents that have not asked for work yet in the given way. Returns their number.
fn new_agents_end(world: &mut World, end: &AgentEnd) -> usize {
    let has_never_asked = |agent: &&AgentId| {
        let agent = world.core.dispatch.agents().get(**agent);
        agent.is_some_and(|agent| agent.owed.front() == Some(&crate::dispatch::agent::Owed::Start))
    };
    let newborns: Vec<AgentId> = world.started.iter().filter(has_never_asked).copied().collect();
    newborns.iter().for_each(|agent| world.dies(*agent, end.clone()));
    newborns.len()
}

#[test]
fn failed_agent_start_suspends_ring() {
    let missing = AgentEnd::NotStarted("/bin/x: No such file or directory".into());
    for end in [missing, AgentEnd::Exited(78), AgentEnd::Signalled(11)] {
        let mut world = many_hosts(240);
        let mut failed = new_agents_end(&mut world, &end);
        for _ in 0..120 {
            world.pass_seconds(1);
            failed += new_agents_end(&mut world, &end);
        }
        assert!(failed <= 4 + 7, "{failed} failed starts in two minutes: {end}");
        let why = world.core.view().why_message(240).expect("it waits");
        let why::Why::Suspended { failure, .. } = &why[0].why else { panic!("{why:?}") };
        assert_eq!(failure.reason, end.to_string());
        // The fork rate is left to other rings.
        let before = world.started.len();
        (241..=260).for_each(|number| world.message(number, &[&format!("d/h{number}")]));
        let (agent, _) = world.hungry_new_agent();
        world.pass_seconds(1);
        assert!(world.started.len() >= before + 15, "{} after {before}", world.started.len());
        assert!(world.core.dispatch.agents().get(agent).is_some());
    }
}

#[test]
fn first_hungry_ends_suspension_of_ring() {
    let mut world = many_hosts(30);
    let end = AgentEnd::NotStarted("no such file".into());
    new_agents_end(&mut world, &end);
    let failed = world.started.len();
    world.pass_seconds(1);
    assert_eq!(world.started.len(), failed + 1, "one at a time");
    world.pass_seconds(100);
    assert_eq!(world.started.len(), failed + 1);
    let (_, jobs) = world.hungry_new_agent();
    assert_eq!(jobs.len(), 1);
    world.pass_seconds(2);
    assert_eq!(world.started.len(), failed + 30, "one for each host");
}

#[test]
fn etrn_starts_agent_of_suspended_ring_at_once() {
    let mut world = many_hosts(3);
    let end = AgentEnd::NotStarted("no such file".into());
    for _ in 0..4 {
        new_agents_end(&mut world, &end);
        world.pass_seconds(20);
    }
    new_agents_end(&mut world, &end);
    let failed = world.started.len();
    world.message(4, &["c/h4"]);
    assert_eq!(world.started.len(), failed);
    world.handle(Event::Etrn(b"h4"));
    assert_eq!(world.started.len(), failed + 1);
}

#[test]
fn reload_ends_suspension_of_ring() {
    let mut world = many_hosts(30);
    for _ in 0..4 {
        new_agents_end(&mut world, &AgentEnd::Exited(1));
        world.pass_seconds(20);
    }
    new_agents_end(&mut world, &AgentEnd::Exited(1));
    let failed = world.started.len();
    world.pass_seconds(2);
    assert_eq!(world.started.len(), failed);
    let same = config("*/*\n\tinterval=1m\nc/*\n\tcommand=x\n");
    world.handle(Event::Configured(Rc::new(same)));
    assert!(world.started.len() > failed);
}

#[test]
fn failed_start_does_not_suspend_ring_with_working_agents() {
    let mut world = many_hosts(3);
    let working = world.started[0];
    world.hungry(working);
    let failed = new_agents_end(&mut world, &AgentEnd::Exited(1));
    assert_eq!(failed, 2);
    world.message(4, &["c/h4"]);
    assert_eq!(world.started.len(), 4, "another host is served at once");
}

#[test]
fn idle_agent_that_answers_stays_until_idle_timeout() {
    let mut world = World::new("c/*\n\tmaxring=1 idlemax=3m idle-ping=1m\n\tcommand=x\n");
    let agent = world.idle_agent("c/a.test");
    for _ in 0..2 {
        world.pass_seconds(59);
        assert_eq!(world.take_lines(agent), [""; 0]);
        world.pass_seconds(1);
        assert_eq!(world.take_lines(agent), ["#idle"]);
        world.hungry(agent);
    }
    // The questions do not make its idle time begin again.
    world.pass_seconds(60);
    assert_eq!(world.take_lines(agent), ["(retire)"]);
}

#[test]
fn idle_agent_that_does_not_answer_is_replaced() {
    let mut world = World::new("c/*\n\tmaxring=1 idlemax=1h idle-ping=1m\n\tcommand=x\n");
    let agent = world.idle_agent("c/a.test");
    world.pass_seconds(60);
    assert_eq!(world.take_lines(agent), ["#idle"]);
    // Mail that comes meanwhile stays queued, and is not lost on an agent that hangs.
    world.message(2, &["c/a.test"]);
    assert_eq!(world.take_lines(agent), [""; 0]);
    world.pass_seconds(30);
    assert_eq!(world.take_lines(agent), ["(kill)"]);
    world.dies(agent, AgentEnd::Signalled(9));
    let (next, jobs) = world.hungry_new_agent();
    assert_ne!(next, agent);
    assert_eq!(jobs, ["2\ta.test"]);
}

#[test]
fn mail_waits_for_agent_that_is_asked_only_until_it_answers() {
    let mut world = World::new("c/*\n\tmaxring=1 idlemax=1h idle-ping=1m\n\tcommand=x\n");
    let agent = world.idle_agent("c/a.test");
    world.pass_seconds(60);
    world.message(2, &["c/a.test"]);
    assert_eq!(world.take_lines(agent), ["#idle"]);
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\ta.test"]);
    assert_eq!(world.started.len(), 1);
}
