//! Steps of the clock.

use super::*;
use zsched_format::time::ClockStep;

const HOUR: Duration = Duration::from_secs(3600);

/// A hundred destinations that wait for ten minutes; ten are processed in each turn.
fn waiting() -> World {
    let settings = Settings { reload_step: 10, seed: 1, ..Settings::default() };
    let text = "c/*\n\tinterval=10m retries=1 maxring=1 skew=1 idlemax=1h expiry=1d\n\tcommand=x\n";
    let mut world = World::with(settings, text);
    let destinations: Vec<String> = (0..100).map(|n| format!("c/h{n}")).collect();
    let destinations: Vec<&str> = destinations.iter().map(String::as_str).collect();
    world.message(1, &destinations);
    let (agent, mut jobs) = world.hungry_new_agent();
    for _ in 0..100 {
        let offset =
            jobs[0].rsplit_once("\th").expect("a host").1.parse::<u32>().expect("a number");
        world.agent_line(agent, &format!("1/{}\t\tdeferall cannot connect", 100 * (offset + 1)));
        world.hungry(agent);
        jobs = world.take_lines(agent);
    }
    assert_eq!(jobs, ["#idle"]);
    world.hungry(agent);
    world
}

fn set_clock(world: &mut World, step: ClockStep) {
    world.now = world.now + step;
    world.handle(Event::ClockSet(step));
}

fn told(world: &World) -> usize {
    let threads = world.core.queue.threads().iter();
    threads.filter(|(id, _)| world.core.queue.is_shifted(*id)).count()
}

#[test]
fn clock_step_is_applied_to_some_threads_per_turn() {
    for step in [ClockStep::Forward(HOUR), ClockStep::Back(HOUR)] {
        let mut world = waiting();
        set_clock(&mut world, step);
        let mut former = 0;
        // Expiry of the threads that were processed is checked in turns between.
        for _ in 0..20 {
            assert!((former..=former + 10).contains(&told(&world)));
            former = told(&world);
            assert!(world.shows(1).iter().all(|shown| shown.contains(" Retry(600)")));
            world.handle(Event::Tick);
        }
        assert_eq!(former, 100);
        world.pass_seconds(599);
        assert!(world.started.len() == 1 && world.shows(1).len() == 100);
        world.pass_seconds(1);
        let agent = world.started[0];
        assert!(world.take_lines(agent).iter().any(|job| job.starts_with("1\th")));
    }
}

#[test]
fn clock_step_is_applied_early_to_thread_that_changes() {
    let mut world = waiting();
    set_clock(&mut world, ClockStep::Forward(HOUR));
    world.message(2, &["c/h99"]);
    assert_eq!(told(&world), 11);
    assert_eq!(world.shows(2), ["c/h99 Retry(600) tries=0 "]);
    world.handle(Event::Etrn(b"h98"));
    assert!(world.take_lines(world.started[0]).iter().any(|job| job.starts_with("1\th98")));
}

#[test]
fn second_clock_step_in_same_turn_applies_to_all_threads() {
    let mut world = waiting();
    set_clock(&mut world, ClockStep::Forward(HOUR));
    set_clock(&mut world, ClockStep::Back(HOUR));
    assert!(world.shows(1).iter().all(|shown| shown.contains(" Retry(600)")));
    for _ in 0..20 {
        world.handle(Event::Tick);
    }
    assert_eq!(told(&world), 100);
    assert!(world.shows(1).iter().all(|shown| shown.contains(" Retry(600)")));
}
