//! Rings that choose work by message.

use super::*;
use zsched_format::priority::{KEPT_PRIORITY, LOWEST_PRIORITY, PRIORITY_STEP};

const RING: &str = "interval=1m retries=1 skew=1 maxring=1 maxthr=2 overfeed=20";

/// Duration of a delivery.
const TIME_EACH: Duration = Duration::from_secs(15);

fn world(keywords: &str) -> World {
    World::new(&format!("smtp/*\n\t{RING} {keywords}\n\tcommand=x\n"))
}

/// `count` destinations of a message.
fn hosts(message: u64, count: usize) -> Vec<String> {
    (0..count).map(|host| format!("smtp/h{message}-{host}")).collect()
}

impl World {
    fn message_to(&mut self, number: u64, destinations: &[String]) {
        let destinations: Vec<&str> = destinations.iter().map(String::as_str).collect();
        self.message(number, &destinations);
    }

    /// Delivers everything with the ring's only agent. Returns the numbers of the messages in
    /// order.
    fn sequence(&mut self) -> String {
        let (agent, mut jobs) = self.hungry_new_agent();
        let mut sequence = String::new();
        while jobs.iter().all(|job| !job.starts_with('#')) {
            for job in &jobs {
                let (number, host) = job.split_once('\t').expect("a host");
                sequence.push_str(number);
                let place: u32 = host.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                self.agent_line(agent, &format!("{number}/{}\t\tok3", 100 * (place + 1)));
                self.hungry(agent);
            }
            jobs = self.take_lines(agent);
        }
        assert_eq!(jobs, ["#idle"]);
        sequence
    }
}

#[test]
fn small_messages_preempt_large_one() {
    let mut world = world("slot-cost=2 slot-discount=0 slot-loan=0 minimum-slots=0");
    world.message_to(1, &hosts(1, 10));
    [2, 3].into_iter().for_each(|number| world.message_to(number, &hosts(number, 2)));
    assert_eq!(world.sequence(), "11112211113311");
    assert_eq!(world.removed().len(), 3);
}

#[test]
fn slot_discount_makes_preemption_earlier() {
    let mut world = world("slot-cost=2 slot-discount=50 slot-loan=0 minimum-slots=0");
    world.message_to(1, &hosts(1, 10));
    [2, 3].into_iter().for_each(|number| world.message_to(number, &hosts(number, 2)));
    assert_eq!(world.sequence(), "11221111331111");
}

#[test]
fn job_order_without_slot_cost_is_fifo_over_hosts() {
    let mut world = world("job-order");
    world.message_to(1, &hosts(1, 3));
    (2..=4).for_each(|number| world.message_to(number, &["smtp/a".to_string()]));
    world.message_to(5, &hosts(5, 2));
    assert_eq!(world.sequence(), "11123455");
}

/// Several jobs are fed at once only if they are the ring's next anyway.
#[test]
fn agent_gets_burst_of_consecutive_entries_in_thread() {
    let mut world = world("job-order");
    world.messages(1..=3, "smtp/a");
    world.message(4, &["smtp/a", "smtp/b"]);
    world.messages(5..=5, "smtp/a");
    let (agent, first) = world.hungry_new_agent();
    assert_eq!(first, ["1\ta"]);
    // Message 4 has an entry in the same thread, where the connection is open.
    let bursts = world.works(agent, first, "ok3");
    assert_eq!(bursts[1], ["2\ta", "3\ta", "4\ta"]);
    assert_eq!(bursts[2..4], [["4\tb"], ["5\ta"]]);
}

/// A host at its limit of agents is skipped.
///
/// So is a message with no other host.
#[test]
fn blocked_host_is_skipped() {
    let mut world =
        World::new("smtp/*\n\tmaxring=3 maxthr=1 overfeed=0 slot-cost=5\n\tcommand=x\n");
    world.messages(1..=3, "smtp/a");
    world.messages(4..=5, "smtp/b");
    let first = world.started[0];
    world.hungry(first);
    assert_eq!(world.take_lines(first), ["1\ta"]);
    let second = world.started[1];
    world.hungry(second);
    assert_eq!(world.take_lines(second), ["4\tb"]);
    world.agent_line(first, "1/100\t\tok3");
    world.hungry(first);
    assert_eq!(world.take_lines(first), ["2\ta"]);
}

#[test]
fn reload_moves_jobs_to_other_rings_and_back() {
    let text = |more: &str| format!("smtp/*\n\tmaxring=1 overfeed=0 {more}\n\tcommand=x\n");
    let mut world = World::new(&text(""));
    world.message_to(1, &hosts(1, 3));
    world.message_to(2, &hosts(2, 3));
    let (agent, first) = world.hungry_new_agent();
    assert_eq!(first.len(), 1);
    for more in ["slot-cost=5", "", "job-order", "slot-cost=2"] {
        world.handle(Event::Configured(Rc::new(config(&text(more)))));
        world.pass_seconds(1);
        world.core.check_invariants();
    }
    // The agent's first job is under way.
    let number = first[0].split('\t').next().expect("a number").to_string();
    world.agent_line(agent, &format!("{number}/100\t\tok3"));
    world.hungry(agent);
    let next = world.take_lines(agent);
    assert!(next[0].starts_with("1\t"), "{next:?}");
}

#[test]
fn deferred_entry_returns_as_own_job() {
    let mut world = world("slot-cost=5");
    world.message_to(1, &hosts(1, 2));
    let (agent, first) = world.hungry_new_agent();
    assert_eq!(first, ["1\th1-0"]);
    world.agent_line(agent, "1/100\t\tdeferred");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["1\th1-1"]);
    world.agent_line(agent, "1/200\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["#idle"]);
    world.hungry(agent);
    world.pass_seconds(61);
    assert_eq!(world.take_lines(agent), ["1\th1-0"]);
}

/// Unstarted jobs of an agent that dies keep their place in the order.
#[test]
fn agent_death_makes_unstarted_jobs_due_in_place() {
    let mut world = world("job-order");
    world.messages(1..=4, "smtp/a");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["2\ta", "3\ta", "4\ta"]);
    world.dies(agent, AgentEnd::Signalled(9));
    let (_, next) = world.hungry_new_agent();
    assert_eq!(next, ["3\ta"]);
}

fn urgent(number: u64, priority: u8, now: Timestamp) -> Arrival {
    let group = Group::new(b"smtp", format!("p{number}").as_bytes(), &[100]);
    Arrival { priority, ..arrival(number, vec![group], now, now) }
}

/// A message of each priority at the same time, in a ring with one agent.
#[test]
fn urgent_messages_go_first() {
    let mut world = world("job-order");
    for (number, priority) in [(1, 9), (2, 5), (3, 0), (4, 5), (5, 1)] {
        let now = world.now;
        world.handle(Event::Arrived(Box::new(urgent(number, priority, now))));
    }
    assert_eq!(world.sequence(), "35241");
}

/// A message is overtaken by later ones of higher priority only.
///
/// They arrive less than a minute later for each step between the priorities.
#[test]
fn urgent_messages_do_not_starve_others() {
    let mut world = world("job-order");
    let now = world.now;
    world.handle(Event::Arrived(Box::new(urgent(1, LOWEST_PRIORITY, now))));
    let (agent, mut jobs) = world.hungry_new_agent();
    // The agent has another job when the flood begins.
    assert_eq!(jobs, ["1\tp1"]);
    world.handle(Event::Arrived(Box::new(urgent(2, LOWEST_PRIORITY, now))));
    let mut number = 2;
    loop {
        // Two urgent messages arrive for each delivery, so their queue never empties.
        for _ in 0..2 {
            number += 1;
            let now = world.now;
            world.handle(Event::Arrived(Box::new(urgent(number, 0, now))));
        }
        let done = jobs[0].split('\t').next().expect("a number").to_string();
        if done == "2" {
            break;
        }
        world.now += TIME_EACH;
        world.agent_line(agent, &format!("{done}/100\t\tok3"));
        world.hungry(agent);
        jobs = world.take_lines(agent);
    }
    let waited = world.now.since(now);
    let bound = PRIORITY_STEP * u32::from(LOWEST_PRIORITY);
    // Messages within the bound go first: two arrive during each delivery.
    assert!(waited >= bound && waited <= bound * 2 + TIME_EACH * 2, "{waited:?}");
}

#[test]
fn ring_with_urgent_mail_gets_agent_first() {
    let mut world = World::new(
        "a/*\n\tmaxta=1 command=x\nb/*\n\tmaxta=1 mail-priority=9\n\tcommand=y\n\
         c/*\n\tmaxta=1 mail-priority=1\n\tcommand=z\nd/*\n\tmaxta=1 mail-priority=z\n\tcommand=z\n",
    );
    for (number, channel) in [(1, "a"), (2, "b"), (3, "d"), (4, "c")] {
        world.message(number, &[&format!("{channel}/h")]);
    }
    let mut order = Vec::new();
    for _ in 0..3 {
        let agent = *world.started.last().expect("an agent was started");
        world.hungry(agent);
        let job = world.take_lines(agent).remove(0);
        let number = job.split('\t').next().expect("a number").to_string();
        order.push(number.clone());
        world.agent_line(agent, &format!("{number}/100\t\tok3"));
        world.dies(agent, AgentEnd::Exited(0));
    }
    assert_eq!(order, ["1", "4", "2"]);
    // Kept mail (`mail-priority=z`) gets no agent until the configuration changes.
    assert_eq!(world.started.len(), 3);
    let why = world.core.view().why_thread(b"d", b"h").expect("it is there");
    assert!(
        matches!(why[0].why, why::Why::Refused { refusal: Refusal::PriorityHeld, .. }),
        "{why:?}"
    );
    world.handle(Event::Configured(Rc::new(config("*/*\n\tcommand=x\n"))));
    assert_eq!(world.started.len(), 4);
}

/// In rings that choose work by message, `why` names the messages that come first.
#[test]
fn why_names_messages_that_come_first() {
    let mut world =
        World::new("smtp/*\n\tmaxring=2 maxthr=1 overfeed=0 slot-cost=2\n\tcommand=x\n");
    world.message(1, &["smtp/a", "smtp/b"]);
    world.messages(2..=3, "smtp/a");
    world.handle(Event::Arrived(Box::new(urgent(4, 7, START))));
    let rank = |world: &World, number| {
        let mut waits = world.core.view().why_message(number).expect("it is queued");
        waits.remove(0).rank
    };
    // Agents were started for the first messages, and have not asked for work yet.
    let first = rank(&world, 1).expect("it is due");
    assert_eq!((first.job.before, first.keyword, first.job.due), (0, "slot-cost", 2));
    for agent in [0, 1] {
        world.hungry(world.started[agent]);
    }
    assert_eq!(rank(&world, 1), None, "an agent has it");
    let third = rank(&world, 3).expect("it is due");
    assert!((third.job.before, third.job.is_blocked) == (1, true), "{third:?}");
    let waits = world.core.view().why_message(3).expect("it is queued");
    assert!(matches!(waits[0].why, why::Why::InLine { before: None, .. }), "{waits:?}");
    let late = rank(&world, 4).expect("it is due");
    assert_eq!((late.job.before, late.priority, late.job.is_blocked), (2, 7, false));
    assert_eq!(late.job.current.expect("it is its turn").message, late.id);
    world.handle(Event::Configured(Rc::new(config("smtp/*\n\tcommand=x\n"))));
    assert_eq!(rank(&world, 3), None, "threads take turns");
}

/// A reload finds very many entries in a thread.
///
/// They are enqueued in its jobs in steps, while others arrive, are deleted and are delivered.
#[test]
fn reload_enqueues_large_thread_in_steps() {
    let text =
        |cost: u32| format!("smtp/*\n\tmaxring=1 overfeed=0 slot-cost={cost}\n\tcommand=x\n");
    let settings = Settings { reload_step: 10, seed: 1, ..Settings::default() };
    let mut world = World::with(settings, &text(2));
    world.message_to(1, &hosts(1, 5));
    world.messages(2..=200, "smtp/a");
    let first = world.started[0];
    world.hungry(first);
    let mut delivered = 0;
    let mut turn = |world: &mut World| {
        for job in world.take_lines(first) {
            let Some((number, host)) = job.split_once('\t') else {
                continue;
            };
            let place: u32 = host.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            world.agent_line(first, &format!("{number}/{}\t\tok3", 100 * (place + 1)));
            delivered += 1;
        }
        world.hungry(first);
        delivered
    };
    world.handle(Event::Configured(Rc::new(config(&text(3)))));
    for number in 201..=210 {
        turn(&mut world);
        world.messages(number..=number, "smtp/a");
        world.handle(Event::Tick);
    }
    // Another reload comes before that is complete.
    world.handle(Event::Configured(Rc::new(config(&text(4)))));
    let order = Order::Delete(vec![Target::whole(190)]);
    world.handle(Event::Ordered { ticket: 7, by: "root".to_string(), order });
    assert!(world.core.queue.has_backfill());
    for _ in 0..500 {
        turn(&mut world);
        world.handle(Event::Tick);
    }
    assert_eq!(turn(&mut world), 5 + 208);
    assert_eq!(world.core.queue.threads().len(), 0);
    assert!(!world.core.queue.has_backfill());
}

/// The wait of a thread with very many entries ends, and they become due in steps.
#[test]
fn large_wave_becomes_due_in_steps() {
    let text = "smtp/*\n\tinterval=1m retries=5 maxring=1 overfeed=0 idlemax=1h slot-cost=2\n\tcommand=x\n";
    let settings = Settings { reload_step: 10, seed: 1, ..Settings::default() };
    let mut world = World::with(settings, text);
    world.messages(1..=200, "smtp/a");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tdeferall 421 too many connections");
    world.hungry(agent);
    let retry = || Order::RetryThreads(vec![Destination::new(b"smtp", b"a")]);
    while world.core.queue.has_deferrals() {
        world.handle(Event::Tick);
    }
    world.handle(Event::Ordered { ticket: 7, by: "root".to_string(), order: retry() });
    let waiting = |world: &World| {
        world.core.queue.threads().iter().map(|(_, thread)| thread.waiting.len()).sum::<usize>()
    };
    assert_eq!(waiting(&world), 190);
    // Meanwhile some of them are deferred again, and others arrive.
    let mut jobs = world.take_lines(agent);
    let number = jobs.pop().expect("a job").split('\t').next().expect("a number").to_string();
    world.agent_line(agent, &format!("{number}/100\t\tdeferall 421 too many connections"));
    world.hungry(agent);
    world.messages(201..=210, "smtp/a");
    world.handle(Event::Ordered { ticket: 8, by: "root".to_string(), order: retry() });
    world.pass_seconds(1);
    assert_eq!(waiting(&world), 0);
    let jobs = world.take_lines(agent);
    let bursts = world.works(agent, jobs, "ok3");
    assert_eq!(bursts.iter().filter(|burst| burst[0] != "#idle").count(), 210);
    assert_eq!(world.core.queue.threads().len(), 0);
}

/// Bulk for 500 hosts; an urgent message comes in the middle, or its priority is set then.
#[test]
fn urgent_message_goes_before_the_rest_of_bulk() {
    for is_set_later in [false, true] {
        let mut world =
            World::new("c/*\n\tmaxring=1 overfeed=0 job-order priority-step=1d\n\tcommand=x\n");
        let hosts = |count: usize| (0..count).map(|n| format!("c/h{n}")).collect::<Vec<_>>();
        let deliver = |world: &mut World, agent, jobs: Vec<String>| {
            let [number, host] = jobs[0].split('\t').collect::<Vec<_>>()[..] else { panic!() };
            let offset = 100 * (host[1..].parse::<u32>().expect("a number") + 1);
            let line = format!("{number}/{offset}\t\tok3");
            world.agent_line(agent, &line);
            world.hungry(agent);
            number.to_string()
        };
        let bulk = hosts(500);
        world.message(1, &bulk.iter().map(String::as_str).collect::<Vec<_>>());
        let (agent, mut jobs) = world.hungry_new_agent();
        for _ in 0..100 {
            deliver(&mut world, agent, jobs);
            jobs = world.take_lines(agent);
        }
        world.pass_seconds(600);
        let few = hosts(20);
        world.message(2, &few.iter().map(String::as_str).collect::<Vec<_>>());
        let id = world.core.view().message(2).expect("queued").spool_id();
        let priority = if is_set_later { 0 } else { 5 };
        let order = Order::SetPriority { messages: vec![id], priority };
        world.handle(Event::Ordered { ticket: 1, by: "root".to_string(), order });
        // The present job, and then the urgent message or the rest of the bulk.
        assert_eq!(deliver(&mut world, agent, jobs), "1");
        let mut served = Vec::new();
        for _ in 0..20 {
            jobs = world.take_lines(agent);
            served.push(deliver(&mut world, agent, jobs));
        }
        let expected = if is_set_later { "2" } else { "1" };
        assert!(served.iter().all(|number| number == expected), "{served:?}");
    }
}

#[test]
fn priority_z_keeps_message_and_survives_restart() {
    let mut world = World::new("c/*\n\tmaxring=1 job-order\n\tcommand=x\n");
    world.cannot_start_agents = true;
    world.message(1, &["c/a.test"]);
    let id = world.core.view().message(1).expect("queued").spool_id();
    let set = |priority| Order::SetPriority { messages: vec![id], priority };
    world.handle(Event::Ordered { ticket: 1, by: "root".into(), order: set(KEPT_PRIORITY) });
    assert!(world.shows(1)[0].contains(" Kept "), "{:?}", world.shows(1));
    let changes: Vec<_> = world.core.view().overrides().iter().collect();
    let mut next = World::new("c/*\n\tmaxring=1\n\tcommand=x\n");
    changes.into_iter().for_each(|change| next.handle(Event::Override(change)));
    next.message(1, &["c/a.test"]);
    assert!(next.shows(1)[0].contains(" Kept "), "{:?}", next.shows(1));
    assert!(next.started.is_empty());
    next.handle(Event::Ordered { ticket: 2, by: "root".into(), order: set(1) });
    assert_eq!(next.started.len(), 1);
}
