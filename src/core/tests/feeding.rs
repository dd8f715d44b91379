//! What hungry agents get.

use super::*;

fn lengths(bursts: &[Vec<String>]) -> Vec<usize> {
    bursts.iter().map(Vec::len).collect()
}

fn bursts(settings: &str, jobs: u64) -> Vec<Vec<String>> {
    let mut world = World::new(&format!("c/*\n\t{settings}\n\tcommand=x\n"));
    world.messages(1..=jobs, "c/a.test");
    let (agent, first) = world.newborn();
    world.works(agent, first, "ok3 done")
}

#[test]
fn bursts_are_as_long_as_the_original_s() {
    assert_eq!(lengths(&bursts("overfeed=0", 10))[..10], [1; 10]);
    assert_eq!(lengths(&bursts("overfeed=3", 10)), [1, 4, 4, 1, 1]);
    assert_eq!(lengths(&bursts("overfeed=150", 7)), [1, 6, 1]);
    assert_eq!(bursts("overfeed=150", 7).last(), Some(&vec!["#idle".to_string()]));
}

#[test]
fn job_lines_have_path_and_host() {
    assert_eq!(bursts("overfeed=0", 1)[0], ["1\ta.test"]);
}

#[test]
fn job_lines_have_no_host_where_the_command_has_it() {
    let mut world = World::new("c/*\n\tcommand=\"x $host\"\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    assert_eq!(world.started.len(), 2, "a ring for each host");
    assert_eq!(world.newborn().1, ["2"]);
}

#[test]
fn the_next_burst_waits_until_all_of_the_last_is_answered() {
    let mut world = World::new("c/*\n\toverfeed=2 maxring=1\n\tcommand=x\n");
    world.messages(1..=7, "c/a.test");
    let (agent, first) = world.newborn();
    assert_eq!(first, ["1\ta.test"]);
    world.says(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.heard_by(agent), ["2\ta.test", "3\ta.test", "4\ta.test"]);
    for number in [2, 3] {
        world.says(agent, &format!("{number}/100\t\tok3"));
        world.hungry(agent);
        assert_eq!(world.heard_by(agent), [""; 0]);
    }
    world.says(agent, "4/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.heard_by(agent), ["5\ta.test", "6\ta.test", "7\ta.test"]);
}

#[test]
fn an_agent_goes_on_to_another_thread_of_its_ring() {
    let mut world = World::new("c/*\n\tmaxring=1\n\tcommand=x\n");
    world.messages(1..=2, "c/a.test");
    world.messages(3..=5, "c/b.test");
    let (agent, first) = world.newborn();
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
fn an_idle_agent_is_used_again_and_the_one_that_knows_the_host_first() {
    let mut world = World::new("c/*\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (first, jobs) = world.newborn();
    world.message(2, &["c/b.test"]);
    let (second, more) = world.newborn();
    // The later one has served b.test and is parked last.
    for (agent, jobs) in [(first, jobs), (second, more)] {
        assert_eq!(world.works(agent, jobs, "deferred later").last(), Some(&vec!["#idle".into()]));
        world.hungry(agent);
    }
    world.tell(Event::Turn(b"a.test"));
    assert_eq!(world.heard_by(first), ["1\ta.test"]);
    assert_eq!(world.heard_by(second), [""; 0]);
    world.message(3, &["c/new.test"]);
    assert_eq!(world.heard_by(second), ["3\tnew.test"]);
    assert_eq!(world.started.len(), 2);
}

#[test]
fn the_oldest_message_goes_first_where_that_is_asked_for() {
    let order = |settings: &str| -> Vec<String> {
        let mut world = World::new(&format!("c/*\n\tmaxring=1 {settings}\n\tcommand=x\n"));
        world.message(9, &["c/other.test"]);
        let (agent, jobs) = world.newborn();
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
fn what_arrives_while_an_agent_is_at_work_is_its_next_job() {
    let mut world = World::new("c/*\n\tmaxring=1\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    let (agent, _) = world.newborn();
    world.message(2, &["c/a.test"]);
    assert_eq!(world.heard_by(agent), [""; 0]);
    world.says(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.heard_by(agent), ["2\ta.test"]);
}

#[test]
fn one_hungry_too_many_is_no_harm() {
    let mut world = World::new("c/*\n\tmaxring=1\n\tcommand=x\n");
    world.messages(1..=5, "c/a.test");
    let (agent, jobs) = world.newborn();
    assert_eq!(jobs.len(), 1);
    world.says(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.heard_by(agent).len(), 4);
    // It answers for four jobs, and twice for nothing.
    for _ in 0..4 {
        world.hungry(agent);
    }
    assert_eq!(world.heard_by(agent), ["#idle"]);
    world.hungry(agent);
    world.hungry(agent);
    assert_eq!(world.heard_by(agent), [""; 0]);
}

#[test]
fn only_the_selected_thread_is_served() {
    let selection = zsched_format::selection::Selection::parse("c/b.test");
    let settings = Settings { selection, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    world.message(2, &["c/b.test"]);
    assert_eq!(world.started.len(), 1);
    let (agent, jobs) = world.newborn();
    assert_eq!(jobs, ["2\tb.test"]);
    assert_eq!(world.works(agent, jobs, "ok3").last(), Some(&vec!["#idle".into()]));
}

#[test]
fn a_frozen_scheduler_only_looks() {
    let settings = Settings { frozen: true, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    world.message(1, &["c/a.test"]);
    assert!(world.started.is_empty());
    assert_eq!(world.shows(1), ["c/a.test Inactive tries=0 "]);
}

#[test]
fn a_synchronous_start_waits_until_all_is_loaded() {
    let settings = Settings { wait_for_initial_scan: true, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\n");
    world.messages(1..=3, "c/a.test");
    assert!(world.started.is_empty());
    world.tell(Event::InitialScanDone);
    assert_eq!(world.started.len(), 1);
}

/// A thread that never runs dry: its agent has a message more whenever it asks.
#[test]
fn a_busy_thread_does_not_starve_its_neighbours() {
    let mut world = World::new("c/*\n\tmaxring=1 overfeed=0\n\tcommand=x\n");
    world.messages(1..=2, "c/busy.test");
    world.message(1000, &["c/quiet.test"]);
    let (agent, mut jobs) = world.newborn();
    let mut served = Vec::new();
    for number in 3..40 {
        world.message(number, &["c/busy.test"]);
        served.push(jobs[0].clone());
        world.pass_seconds(1);
        let number = jobs[0].split('\t').next().expect("a job").to_string();
        world.says(agent, &format!("{number}/100\t\tok3 done"));
        world.hungry(agent);
        jobs = world.heard_by(agent);
    }
    let turn = served.iter().position(|job| job == "1000\tquiet.test");
    assert_eq!(turn, Some(10), "after ten seconds of the other: {served:?}");
    assert!(served[11..].iter().all(|job| job.ends_with("busy.test")), "{served:?}");
    assert_eq!(world.started.len(), 1);
}

#[test]
fn an_agent_is_retired_when_it_is_old() {
    let mut world = World::new("c/*\n\tmaxring=1 overfeed=0 agent-life=10s\n\tcommand=x\n");
    world.messages(1..=3, "c/a.test");
    let (agent, jobs) = world.newborn();
    assert_eq!(jobs, ["1\ta.test"]);
    world.pass_seconds(9);
    world.says(agent, "1/100\t\tok3 done");
    world.hungry(agent);
    assert_eq!(world.heard_by(agent), ["2\ta.test"]);
    world.pass_seconds(2);
    world.says(agent, "2/100\t\tok3 done");
    world.hungry(agent);
    assert_eq!(world.heard_by(agent), ["(retire)"], "after its job, not in the middle of it");
    assert_eq!(world.started.len(), 1, "its place is taken until it is gone");
    world.dies(agent, AgentEnd::Exited(0));
    let (next, jobs) = world.newborn();
    assert_ne!(next, agent);
    assert_eq!(jobs, ["3\ta.test"]);
    // One that has nothing to do is retired at the same age.
    world.says(next, "3/100\t\tok3 done");
    world.hungry(next);
    world.hungry(next);
    assert_eq!(world.heard_by(next), ["#idle"]);
    world.pass_seconds(11);
    assert_eq!(world.heard_by(next), ["(retire)"]);
}
