//! Times of delivery that senders set.

use super::*;
use zsched_format::schedule::DayWindow;
use zsched_format::time::ClockStep;
use zsched_spool::{Deadline, Schedule};

const CF: &str = "c/*\n\tmaxring=1 overfeed=0 interval=10m retries=1 skew=1 expiry=1h expiry2=1s \
                  reporttimes=30m agent-timeout=1d idlemax=1d\n\tcommand=x\n";

/// A message for `c/a.test` that may be delivered at `hours` from the start on.
fn scheduled(world: &World, number: u64, hours: u64, window: Option<&str>) -> Arrival {
    let group = Group::new(b"c", b"a.test", &[100]);
    let not_before = match hours {
        0 => 0,
        hours => (START + Duration::from_secs(hours * 3600)).seconds() as u32,
    };
    let window = window.map(|text| DayWindow::parse(text, START).expect("a window"));
    let schedule = Some(Box::new(Schedule { not_before, window }));
    Arrival { schedule, ..arrival(number, vec![group], world.now, world.now) }
}

impl World {
    fn scheduled(&mut self, number: u64, hours: u64, window: Option<&str>) {
        let arrival = scheduled(self, number, hours, window);
        self.handle(Event::Arrived(Box::new(arrival)));
    }

    /// The messages that a new agent delivers until it is idle.
    fn delivered(&mut self) -> Vec<String> {
        if self.started.is_empty() {
            return Vec::new();
        }
        let (agent, jobs) = self.hungry_new_agent();
        let all = self.works(agent, jobs, "ok3").concat();
        self.hungry(agent);
        all.into_iter().filter(|line| !line.starts_with(['#', '('])).collect()
    }

    fn notes(&self) -> usize {
        self.done.iter().filter(|action| matches!(action, Action::Note(_))).count()
    }

    fn set_clock(&mut self, step: ClockStep) {
        self.now = self.now + step;
        self.handle(Event::ClockSet(step));
        self.handle(Event::Tick);
    }
}

fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3600)
}

#[test]
fn scheduled_message_waits_for_its_time() {
    let mut world = World::new(CF);
    world.scheduled(1, 2, None);
    let shown = world.shows(1);
    assert!(shown[0].starts_with("c/a.test Scheduled("), "{shown:?}");
    world.handle(Event::Etrn(b"a.test"));
    world.pass(hours(2) - Duration::from_secs(1));
    assert_eq!((world.started.len(), world.notes()), (0, 0), "neither tried nor late");
    assert_eq!(world.core.next_wakeup(), Some(START + hours(2)));
    world.pass_seconds(1);
    assert_eq!(world.delivered(), ["1\ta.test"]);
    assert_eq!(world.removed(), ["1"]);
}

#[test]
fn age_of_scheduled_message_counts_from_its_time() {
    let mut world = World::new(CF);
    world.has_disk = true;
    world.scheduled(1, 5, None);
    world.pass(hours(5));
    let (agent, mut jobs) = world.hungry_new_agent();
    let mut notes = Vec::new();
    while !world.shows(1).is_empty() && notes.len() < 20 {
        world.works(agent, jobs, "deferred busy");
        world.hungry(agent);
        world.pass_seconds(600);
        notes.push(world.notes());
        jobs = world.take_lines(agent);
        jobs.retain(|line| !line.starts_with('#'));
    }
    // A notice of the delay after half an hour, expiry after an hour.
    assert_eq!(notes, [0, 0, 1, 1, 1, 2]);
}

#[test]
fn deadline_before_its_time_ends_scheduled_message() {
    for (returns, left) in [(true, 0), (false, 1)] {
        let mut world = World::new(CF);
        world.has_disk = true;
        let at = world.now.seconds() as u32 + 600;
        let deliver_by = Some(Deadline { at, returns });
        let arrival = Arrival { deliver_by, ..scheduled(&world, 1, 5, None) };
        world.handle(Event::Arrived(Box::new(arrival)));
        world.pass_seconds(590);
        assert_eq!(world.notes(), 0);
        world.pass_seconds(20);
        assert_eq!((world.notes(), world.shows(1).len()), (1, left));
        assert!(world.started.is_empty());
    }
}

#[test]
fn window_of_the_day_closes_and_opens_again() {
    let mut world = World::new(&CF.replace("expiry=1h", "expiry=3d"));
    // The start is 2026-11-21, a Saturday, 10:00 UTC.
    (1..=3).for_each(|number| world.scheduled(number, 0, Some("11:00-12:00;UTC")));
    world.pass(hours(1) - Duration::from_secs(1));
    assert!(world.started.is_empty());
    world.pass_seconds(1);
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.pass(hours(1));
    world.agent_line(agent, "1/100\t\tdeferred busy");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["#idle"], "the window is closed");
    world.hungry(agent);
    for number in 1..=3 {
        assert!(world.shows(number)[0].contains(" Scheduled("), "{number}");
    }
    world.pass(hours(23) - Duration::from_secs(1));
    assert!(world.take_lines(agent).is_empty());
    world.pass_seconds(1);
    let jobs = world.take_lines(agent);
    assert_eq!(jobs, ["1\ta.test"]);
    let delivered = world.works(agent, jobs, "ok3").concat();
    assert_eq!(delivered, ["1\ta.test", "2\ta.test", "3\ta.test", "#idle"]);
}

#[test]
fn step_of_the_clock_changes_no_scheduled_time() {
    let mut world = World::new(CF);
    world.scheduled(1, 10, None);
    world.scheduled(2, 0, Some("08:00-09:00;UTC"));
    world.set_clock(ClockStep::Back(hours(2)));
    assert!(!world.started.is_empty(), "08:00: the window is open");
    world.set_clock(ClockStep::Forward(hours(11)));
    assert!(world.shows(2)[0].contains(" Scheduled("), "19:00: it is closed");
    world.set_clock(ClockStep::Forward(hours(2)));
    assert!(!world.shows(1)[0].contains(" Scheduled("), "21:00: released");
    world.set_clock(ClockStep::Back(hours(2)));
    assert!(world.shows(1)[0].contains(" Scheduled("), "19:00: not before 20:00");
    world.pass(hours(1));
    assert!(!world.shows(1)[0].contains(" Scheduled("));
}

#[test]
fn many_scheduled_messages_are_released_in_steps() {
    let settings = Settings { reload_step: 10, seed: 1, ..Settings::default() };
    let mut world = World::with(settings, CF);
    (1..=100).for_each(|number| world.scheduled(number, 1, None));
    world.now = START + hours(1);
    let mut turns = 0;
    while world.core.next_wakeup().is_some_and(|wakeup| wakeup <= world.now) {
        world.handle(Event::Tick);
        turns += 1;
        let due =
            world.core.queue.threads().iter().map(|(_, thread)| thread.due.len()).sum::<usize>();
        assert!(due <= 10 * turns, "turn {turns}: {due}");
    }
    assert!(turns >= 10);
    assert_eq!(world.delivered().len(), 100);
}

#[test]
fn scheduled_message_is_paged_out_until_its_time() {
    let mut world = World::new(&format!("PARAMmessage-active-limit=2\n{CF}"));
    world.scheduled(1, 3, None);
    world.handle(Event::BacklogChanged { waiting: Backlog::New, reading: 0 });
    world.handle(Event::Tick);
    let paged = world.done.iter().find_map(|action| match action {
        Action::PageOut { until, record, .. } => Some((*until, record.is_scheduled)),
        _ => None,
    });
    assert_eq!(paged, Some((Some(START + hours(3)), true)));
    assert_eq!(world.core.view().loaded(), 0);
}
