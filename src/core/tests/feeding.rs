//! Jobs that hungry agents get.

use super::*;

fn lengths(bursts: &[Vec<String>]) -> Vec<usize> {
    bursts.iter().map(Vec::len).collect()
}

fn bursts(settings: &str, jobs: u64) -> Vec<Vec<String>> {
    let mut world = World::new(&format!("c/*\n\t{settings}\n\tcommand=x\n"));
    world.messages(1..=jobs, "c/a.test");
    let (agent, first) = world.hungry_new_agent();
    world.works(agent, first, "ok3 done")
}

#[test]
fn burst_lengths_match_the_original() {
    assert_eq!(lengths(&bursts("overfeed=0", 10))[..10], [1; 10]);
    assert_eq!(lengths(&bursts("overfeed=3", 10)), [1, 4, 4, 1, 1]);
    assert_eq!(lengths(&bursts("overfeed=150", 7)), [1, 6, 1]);
    assert_eq!(bursts("overfeed=150", 7).last(), Some(&vec!["#idle".to_string()]));
}

#[test]
fn job_line_has_path_and_host() {
    assert_eq!(bursts("overfeed=0", 1)[0], ["1\ta.test"]);
}

#[test]
fn job_line_has_no_host_if_command_has_it() {
    let mut world = World::new("c/*\n\tcommand=\"x $host\"\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    assert_eq!(world.started.len(), 2, "a ring for each host");
    assert_eq!(world.hungry_new_agent().1, ["2"]);
}

#[test]
fn next_burst_waits_for_answers_to_last_one() {
    let mut world = World::new("c/*\n\toverfeed=2 maxring=1\n\tcommand=x\n");
    world.messages(1..=7, "c/a.test");
    let (agent, first) = world.hungry_new_agent();
    assert_eq!(first, ["1\ta.test"]);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\ta.test", "3\ta.test", "4\ta.test"]);
    for number in [2, 3] {
        world.agent_line(agent, &format!("{number}/100\t\tok3"));
        world.hungry(agent);
        assert_eq!(world.take_lines(agent), [""; 0]);
    }
    world.agent_line(agent, "4/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["5\ta.test", "6\ta.test", "7\ta.test"]);
}

#[test]
fn agent_continues_with_another_thread_of_ring() {
    let mut world = World::new("c/*\n\tmaxring=1\n\tcommand=x\n");
    world.messages(1..=2, "c/a.test");
    world.messages(3..=5, "c/b.test");
    let (agent, first) = world.hungry_new_agent();
    let bursts = world.works(agent, first, "ok3");
    // The first job of each thread is fed alone.
    assert_eq!(
        bursts,
        [
            vec!["1\ta.test"],
            vec!["2\ta.test"],
            vec!["3\tb.test"],
            vec!["4\tb.test", "5\tb.test"],
            vec!["#idle"],
        ]
    );
}

#[test]
fn idle_agent_is_reused_preferring_its_last_host() {
    let mut world = World::new("c/*\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (first, jobs) = world.hungry_new_agent();
    world.message(2, &["c/b.test"]);
    let (second, more) = world.hungry_new_agent();
    // The agent started last has served b.test and is parked last.
    for (agent, jobs) in [(first, jobs), (second, more)] {
        assert_eq!(world.works(agent, jobs, "deferred later").last(), Some(&vec!["#idle".into()]));
        world.hungry(agent);
    }
    world.handle(Event::Etrn(b"a.test"));
    assert_eq!(world.take_lines(first), ["1\ta.test"]);
    assert_eq!(world.take_lines(second), [""; 0]);
    world.message(3, &["c/new.test"]);
    assert_eq!(world.take_lines(second), ["3\tnew.test"]);
    assert_eq!(world.started.len(), 2);
}

#[test]
fn ageorder_feeds_oldest_message_first() {
    let order = |settings: &str| -> Vec<String> {
        let mut world = World::new(&format!("c/*\n\tmaxring=1 {settings}\n\tcommand=x\n"));
        world.message(9, &["c/other.test"]);
        let (agent, jobs) = world.hungry_new_agent();
        for (number, age) in [(1, 50), (2, 10), (3, 90), (4, 30), (5, 70)] {
            world.message_of_age(number, &["c/a.test"], Duration::from_secs(age));
        }
        let all = world.works(agent, jobs, "ok3").concat();
        all.iter().filter_map(|job| Some(job.strip_suffix("\ta.test")?.to_string())).collect()
    };
    assert_eq!(order("ageorder"), ["3", "5", "1", "4", "2"]);
    assert_eq!(order(""), ["1", "2", "3", "4", "5"]);
}

#[test]
fn arrival_during_job_is_next_job_of_agent() {
    let mut world = World::new("c/*\n\tmaxring=1\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    world.message(2, &["c/a.test"]);
    assert_eq!(world.take_lines(agent), [""; 0]);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\ta.test"]);
}

#[test]
fn surplus_hungry_is_ignored() {
    let mut world = World::new("c/*\n\tmaxring=1\n\tcommand=x\n");
    world.messages(1..=5, "c/a.test");
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs.len(), 1);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent).len(), 4);
    // It asks once for each of four jobs, and twice more.
    for _ in 0..4 {
        world.hungry(agent);
    }
    assert_eq!(world.take_lines(agent), ["#idle"]);
    world.hungry(agent);
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), [""; 0]);
}

#[test]
fn selection_serves_only_selected_thread() {
    let selection = zsched_format::selection::Selection::parse("c/b.test");
    let settings = Settings { selection, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    assert_eq!(world.started.len(), 1);
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["2\tb.test"]);
    assert_eq!(world.works(agent, jobs, "ok3").last(), Some(&vec!["#idle".into()]));
}

#[test]
fn frozen_scheduler_starts_no_agent() {
    let settings = Settings { frozen: true, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    assert!(world.started.is_empty());
    assert_eq!(world.shows(1), ["c/a.test Refused(Frozen) tries=0 "]);
}

#[test]
fn synchronous_start_waits_for_initial_scan() {
    let settings = Settings { wait_for_initial_scan: true, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    world.messages(1..=3, "c/a.test");
    assert!(world.started.is_empty());
    world.handle(Event::InitialScanDone);
    assert_eq!(world.started.len(), 1);
}

/// A thread that always has work: a message arrives for each job of its agent.
#[test]
fn busy_thread_does_not_starve_other_threads() {
    let mut world = World::new("c/*\n\tmaxring=1 overfeed=0\n\tcommand=x\n");
    world.messages(1..=2, "c/busy.test");
    world.message(1000, &["c/quiet.test"]);
    let (agent, mut jobs) = world.hungry_new_agent();
    let mut served = Vec::new();
    for number in 3..40 {
        world.message(number, &["c/busy.test"]);
        served.push(jobs[0].clone());
        world.pass_seconds(1);
        let number = jobs[0].split('\t').next().expect("a job").to_string();
        world.agent_line(agent, &format!("{number}/100\t\tok3 done"));
        world.hungry(agent);
        jobs = world.take_lines(agent);
    }
    let place = served.iter().position(|job| job == "1000\tquiet.test");
    assert_eq!(place, Some(10), "after ten seconds of the other destination: {served:?}");
    assert!(served[11..].iter().all(|job| job.ends_with("busy.test")), "{served:?}");
    assert_eq!(world.started.len(), 1);
}

#[test]
fn agent_is_retired_at_maximum_age() {
    let mut world = World::new("c/*\n\tmaxring=1 overfeed=0 agent-life=10s\n\tcommand=x\n");
    world.messages(1..=3, "c/a.test");
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.pass_seconds(9);
    world.agent_line(agent, "1/100\t\tok3 done");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\ta.test"]);
    world.pass_seconds(2);
    world.agent_line(agent, "2/100\t\tok3 done");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["(retire)"], "the agent ends after its job");
    assert_eq!(world.started.len(), 1, "an agent that is ending still counts");
    world.dies(agent, AgentEnd::Exited(0));
    let (next, jobs) = world.hungry_new_agent();
    assert_ne!(next, agent);
    assert_eq!(jobs, ["3\ta.test"]);
    // An idle agent is retired at the same age.
    world.agent_line(next, "3/100\t\tok3 done");
    world.hungry(next);
    world.hungry(next);
    assert_eq!(world.take_lines(next), ["#idle"]);
    world.pass_seconds(11);
    assert_eq!(world.take_lines(next), ["(retire)"]);
}

#[test]
fn agent_is_retired_after_maximum_number_of_jobs() {
    let mut world = World::new("c/*\n\tmaxring=1 overfeed=100 agent-jobs=3\n\tcommand=x\n");
    world.messages(1..=7, "c/a.test");
    let mut bursts = Vec::new();
    for _ in 0..3 {
        let (agent, jobs) = world.hungry_new_agent();
        bursts.extend(world.works(agent, jobs, "ok3"));
        if bursts.last().is_some_and(|burst| burst[0] == "#idle") {
            break;
        }
        world.dies(agent, AgentEnd::Exited(0));
    }
    let bursts: Vec<Vec<&str>> =
        bursts.iter().map(|burst| burst.iter().map(|job| &job[..1]).collect()).collect();
    let jobs = |bursts: &[Vec<&str>]| bursts.concat().join("");
    assert_eq!(jobs(&bursts), "123(456(7#", "{bursts:?}");
    assert!(bursts.iter().all(|burst| burst.len() <= 2), "one, then the two that are left");
}

/// Serves `count` messages, with a new one after each, and returns their numbers in order.
fn random_order(seed: u64, count: u64) -> Vec<u64> {
    let text = "c/*\n\tmaxring=1 overfeed=0 job-order=random\n\tcommand=x\n";
    let mut world = World::with(Settings { seed, ..Settings::default() }, text);
    world.messages(1..=100, "c/a.test");
    let (agent, mut jobs) = world.hungry_new_agent();
    let mut order = Vec::new();
    for new in 101..=100 + count {
        let number = jobs[0].split('\t').next().expect("a job").to_string();
        order.push(number.parse().expect("a number"));
        world.message(new, &["c/a.test"]);
        world.agent_line(agent, &format!("{number}/100\t\tok3"));
        world.hungry(agent);
        jobs = world.take_lines(agent);
    }
    order
}

#[test]
fn random_order_depends_on_seed_only() {
    let orders: Vec<Vec<u64>> = (1..=3).map(|seed| random_order(seed, 100)).collect();
    assert_eq!(orders[0], random_order(1, 100));
    assert_ne!(orders[0], orders[1]);
    assert!(orders.iter().all(|order| !order.is_sorted()));
}

#[test]
fn random_order_starves_no_message() {
    let order = random_order(7, 2000);
    for (served, number) in order.iter().enumerate() {
        // Of those that are left, the 32 that came first are candidates.
        let before = order[served..].iter().filter(|other| *other < number).count();
        let left = (1..*number).filter(|other| !order.contains(other)).count();
        assert!(before + left < 32, "{number} was chosen before its time");
    }
    let longest = order.iter().enumerate().map(|(served, number)| served as i64 - *number as i64);
    assert!(longest.max().expect("some") < 32 * 16, "a message was passed over too often");
    let all = (1..=1600).filter(|number| !order.contains(number));
    assert_eq!(all.count(), 0, "everything that came 400 messages ago is delivered");
}
