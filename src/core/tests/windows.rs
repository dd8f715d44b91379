//! Windows: feedback, dead destinations, rates and sharing.

use super::*;

const STEERED: &str = "c/*\n\tmaxthr=20 overfeed=0 interval=10m retries=1 expiry=3d\n\tcommand=x\n\
     \tinitial-concurrency=2 positive-feedback=1/concurrency negative-feedback=1/concurrency\n\
     \tfailed-cohort-limit=2\n";

/// Each new agent that has not been read asks for work.
fn wake_up(world: &mut World) {
    for agent in world.started.clone() {
        if world.core.dispatch.agents().get(agent).is_some_and(|agent| agent.fed_at.is_none()) {
            world.hungry(agent);
        }
    }
}

/// The job that an agent has.
fn job(world: &mut World, agent: AgentId) -> String {
    let heard = world.take_lines(agent);
    heard.last().unwrap_or_else(|| panic!("{agent:?} was told nothing")).clone()
}

/// An agent ends its job with a report, and asks for the next.
fn ends(world: &mut World, agent: AgentId, job: &str, answer: &str) {
    let number = job.split('\t').next().unwrap_or_default();
    world.agent_line(agent, &format!("{number}/100\t\t{answer}"));
    world.hungry(agent);
}

/// A world where the first agents of 30 messages have delivered one each.
fn begun() -> World {
    let mut world = World::new(STEERED);
    world.messages(1..=30, "c/h.test");
    wake_up(&mut world);
    for agent in world.started.clone() {
        let job = job(&mut world, agent);
        ends(&mut world, agent, &job, "ok3");
    }
    world
}

fn window_of(world: &World, host: &str) -> (usize, Vec<String>) {
    let thread = world.core.queue.threads().find(b"c", host.as_bytes()).expect("a thread");
    let whys = world.core.view().why_thread(b"c", host.as_bytes()).unwrap_or_default();
    let words = whys.iter().map(|wait| wait.why.word().to_string()).collect();
    (world.core.dispatch.window_size(&world.core.queue, world.core.queue.thread(thread)), words)
}

#[test]
fn window_starts_at_initial_size_and_grows() {
    let mut world = World::new(STEERED);
    world.messages(1..=30, "c/h.test");
    assert_eq!(world.started.len(), 2);
    wake_up(&mut world);
    let agents = world.started.clone();
    let first: Vec<String> = agents.iter().map(|agent| job(&mut world, *agent)).collect();
    // Two answers are a round of two.
    ends(&mut world, agents[0], &first[0], "ok3");
    assert_eq!(window_of(&world, "h.test").0, 2);
    ends(&mut world, agents[1], &first[1], "ok3");
    assert_eq!(window_of(&world, "h.test").0, 3);
    assert_eq!(world.started.len(), 3);
    // A refused recipient is an answer, too. A host that is not reached costs an agent at once.
    wake_up(&mut world);
    let jobs: Vec<String> = agents.iter().map(|agent| job(&mut world, *agent)).collect();
    ends(&mut world, agents[0], &jobs[0], "error2\t5.1.1");
    assert_eq!(window_of(&world, "h.test").0, 3);
    ends(&mut world, agents[1], &jobs[1], "deferall\tno");
    assert_eq!(window_of(&world, "h.test").0, 2);
    // Only that recipient waits, and the surplus agent ends.
    assert_eq!(job(&mut world, agents[1]), "#idle");
    assert_eq!(window_of(&world, "h.test").1, ["at-work", "at-work", "window", "retry"]);
}

#[test]
fn dead_destination_is_suspended_and_probed() {
    let mut world = World::new(STEERED);
    world.messages(1..=30, "c/h.test");
    wake_up(&mut world);
    let agents = world.started.clone();
    // Rounds of two and then of one: 1/2, then 1, makes three failures in all.
    for (turn, agent) in [0, 1, 0, 1].into_iter().map(|index| (index, agents[index])) {
        let Some(last) =
            world.take_lines(agent).last().cloned().filter(|job| !job.starts_with('#'))
        else {
            continue;
        };
        ends(&mut world, agent, &last, &format!("deferall\tround {turn}"));
    }
    let (_, words) = window_of(&world, "h.test");
    assert_eq!(words, ["retry"], "everything waits");
    assert_eq!(world.core.queue.threads().iter().next().expect("one").1.waiting.len(), 30);
    // All count as tried, by two agents.
    assert_eq!(world.started.len(), 2);
    assert!(world.shows(30)[0].contains("tries=1 round"), "{:?}", world.shows(30));
    // New mail waits with them.
    world.message(31, &["c/h.test"]);
    assert_eq!(window_of(&world, "h.test").1, ["retry"]);
    world.pass_seconds(15 * 60);
    // One agent tries again.
    assert_eq!(window_of(&world, "h.test").0, 1);
    let at_work: Vec<AgentId> = agents
        .iter()
        .copied()
        .chain(world.started[2..].iter().copied())
        .filter(|agent| {
            world.core.dispatch.agents().get(*agent).is_some_and(|agent| agent.thread.is_some())
        })
        .collect();
    assert_eq!(at_work.len(), 1);
    wake_up(&mut world);
    let prober = at_work[0];
    let last = job(&mut world, prober);
    ends(&mut world, prober, &last, "deferall\tstill down");
    assert_eq!(window_of(&world, "h.test").1, ["retry"], "one failure is enough");
    assert!(world.shows(31)[0].contains("tries=1 still down"), "{:?}", world.shows(31));
    // The next one succeeds: the window is at its initial size.
    world.pass_seconds(15 * 60);
    wake_up(&mut world);
    let alive = world.core.dispatch.agents().iter().find(|(_, agent)| agent.thread.is_some());
    let prober = alive.expect("an agent at work").0;
    let last = job(&mut world, prober);
    ends(&mut world, prober, &last, "ok3");
    assert_eq!(window_of(&world, "h.test").0, 2);
}

#[test]
fn agent_death_without_report_gives_no_feedback() {
    let mut world = World::new(STEERED);
    world.messages(1..=9, "c/h.test");
    wake_up(&mut world);
    let agent = world.started[0];
    world.dies(agent, AgentEnd::Signalled(9));
    assert_eq!(window_of(&world, "h.test").0, 2);
}

#[test]
fn rate_spaces_delivery_starts() {
    let mut world = World::new("c/*\n\tmaxthr=5 rate=10/1m interval=1h command=x\n");
    world.messages(1..=5, "c/h.test");
    world.message(6, &["c/other.test"]);
    assert_eq!(world.started.len(), 2, "one for each thread");
    assert_eq!(window_of(&world, "h.test").1, ["pace"]);
    wake_up(&mut world);
    let agent = world.started[0];
    let first = job(&mut world, agent);
    ends(&mut world, agent, &first, "ok3");
    assert_eq!(job(&mut world, agent), "#idle", "it is too early for the next one");
    world.hungry(agent);
    assert_eq!(window_of(&world, "h.test").1, ["pace"]);
    world.pass(Duration::from_millis(5999));
    assert_eq!(world.take_lines(agent), Vec::<String>::new());
    world.pass(Duration::from_millis(1));
    assert_eq!(job(&mut world, agent), "2\th.test");
    // A slow delivery does not delay the planned time of the next one.
    world.pass_seconds(6);
    assert_eq!(world.started.len(), 3);
    world.pass_seconds(6);
    assert_eq!(world.started.len(), 4);
}

#[test]
fn delivery_delay_pauses_after_each_delivery() {
    let mut world = World::new("c/*\n\tmaxthr=5 delivery-delay=10s interval=1h command=x\n");
    world.messages(1..=3, "c/h.test");
    assert_eq!(world.started.len(), 1);
    wake_up(&mut world);
    world.pass_seconds(60);
    assert_eq!(world.started.len(), 1, "one at a time");
    let agent = world.started[0];
    assert_eq!(job(&mut world, agent), "1\th.test");
    ends(&mut world, agent, "1\th.test", "ok3");
    world.hungry(agent);
    assert_eq!(job(&mut world, agent), "#idle");
    world.pass(Duration::from_millis(9999));
    assert_eq!(world.take_lines(agent), Vec::<String>::new());
    world.pass(Duration::from_millis(1));
    assert_eq!(job(&mut world, agent), "2\th.test");
    // The pause also applies if the agent dies.
    world.dies(agent, AgentEnd::Signalled(9));
    assert_eq!(world.started.len(), 1);
    world.pass_seconds(10);
    assert_eq!(world.started.len(), 2);
}

const SHARED: &str = "c/*\n\tmaxthr=4 overfeed=0 interval=10m retries=1 failed-cohort-limit=1\n\
     \twindow-key=\"*.big.test=big mx\" command=x\n";

#[test]
fn window_key_pattern_makes_hosts_share_in_turn() {
    let mut world = World::new(SHARED);
    for host in 1..=3 {
        for number in 1..=4 {
            world.message(host * 10 + number, &[&format!("c/h{host}.big.test")]);
        }
    }
    world.message(99, &["c/elsewhere.test"]);
    wake_up(&mut world);
    // Four agents for the three, and one for the other.
    assert_eq!(world.started.len(), 5);
    let agents = |world: &World, host: &str| {
        let thread = world.core.queue.threads().find(b"c", host.as_bytes()).expect("a thread");
        world.core.queue.thread(thread).agents.len()
    };
    let of_each: Vec<usize> =
        (1..=3).map(|host| agents(&world, &format!("h{host}.big.test"))).collect();
    assert_eq!(of_each.iter().sum::<usize>(), 4);
    wake_up(&mut world);
    // The first thread finishes its work; as agents end, the others take turns.
    for _ in 0..20 {
        for agent in world.started.clone() {
            let heard = world.take_lines(agent);
            if let Some(job) = heard.last().filter(|job| !job.starts_with(['#', '('])).cloned() {
                ends(&mut world, agent, &job, "ok3");
            }
        }
        wake_up(&mut world);
    }
    assert_eq!(world.removed().len(), 13);
}

#[test]
fn dead_shared_window_suspends_all_domains() {
    let mut world = World::new(SHARED);
    for host in 1..=20 {
        world.message(host, &[&format!("c/h{host}.big.test")]);
    }
    assert_eq!(world.started.len(), 4);
    wake_up(&mut world);
    // Deliveries started meanwhile continue; after a round of failures the destination is dead.
    for _ in 0..3 {
        for agent in world.started.clone() {
            let heard = world.take_lines(agent);
            if let Some(job) = heard.last().filter(|job| !job.starts_with(['#', '('])).cloned() {
                ends(&mut world, agent, &job, "deferall\tno way");
            }
        }
    }
    assert_eq!(
        world.core.queue.threads().iter().map(|(_, thread)| thread.attempts).sum::<u32>(),
        7
    );
    for host in 1..=20 {
        assert!(world.shows(host)[0].contains("tries=1 no way"), "{:?}", world.shows(host));
    }
    assert_eq!(world.started.len(), 4);
    // A new domain of the provider waits, too.
    world.message(21, &["c/h21.big.test"]);
    assert_eq!(window_of(&world, "h21.big.test").1, ["retry"]);
    world.message(22, &["c/alive.test"]);
    assert_eq!(window_of(&world, "alive.test").1, ["agent-starting"]);
    // Afterwards one agent tries, and then all the others are free.
    world.pass_seconds(15 * 60);
    wake_up(&mut world);
    let at_work = |world: &World| {
        let busy = world.core.dispatch.agents().iter().filter(|(_, agent)| agent.thread.is_some());
        busy.map(|(agent, _)| agent).collect::<Vec<_>>()
    };
    let prober: Vec<AgentId> = at_work(&world);
    let first = prober
        .into_iter()
        .find(|agent| {
            world.core.dispatch.agents()[*agent]
                .last_destination
                .as_ref()
                .is_some_and(|to| to.host().ends_with(b"big.test"))
        })
        .expect("a prober");
    let probe = job(&mut world, first);
    ends(&mut world, first, &probe, "ok3");
    wake_up(&mut world);
    let busy = at_work(&world)
        .iter()
        .filter(|agent| {
            let to = world.core.dispatch.agents()[**agent].last_destination.as_ref();
            to.is_some_and(|to| to.host().ends_with(b"big.test"))
        })
        .count();
    assert_eq!(busy, 4);
}

#[test]
fn window_key_mx_makes_hosts_of_relay_share() {
    let mut world = World::new(SHARED);
    for host in 1..=3 {
        for number in 1..=5 {
            world.message(host * 10 + number, &[&format!("c/h{host}.test")]);
        }
    }
    // The first few deliveries show that the program works.
    wake_up(&mut world);
    assert_eq!(world.started.len(), 12);
    wake_up(&mut world);
    let agents = world.started.clone();
    for agent in agents {
        let Some(last) =
            world.take_lines(agent).last().cloned().filter(|job| !job.starts_with('#'))
        else {
            continue;
        };
        let number = last.split('\t').next().unwrap_or_default().to_string();
        world.agent_line(
            agent,
            &format!(
                "{number}/100\tr\x01delivered\x012.0.0\x01smtp; 250\x01dns; mx.provider.test (192.0.2.1|25)\tok3"
            ),
        );
        world.hungry(agent);
    }
    let shared = world.core.dispatch.windows().iter().find(|(_, window)| window.name.is_some());
    let window = shared.expect("a shared window").1;
    assert_eq!(window.name.as_deref(), Some(&b"mx.provider.test"[..]));
    assert!(window.agents <= 4, "{}", window.agents);
}

#[test]
fn reload_keeps_needed_windows_only() {
    let mut world = begun();
    assert_eq!(window_of(&world, "h.test").0, 3);
    world.handle(Event::Configured(Rc::new(config(&STEERED.replace("expiry=3d", "expiry=4d")))));
    assert_eq!(window_of(&world, "h.test").0, 3);
    world.handle(Event::Configured(Rc::new(config("c/*\n\tmaxthr=7 command=x\n"))));
    assert_eq!(window_of(&world, "h.test").0, 7);
    assert_eq!(world.core.dispatch.windows().iter().count(), 0);
}

#[test]
fn restart_keeps_windows() {
    let world = begun();
    let mut cursor = crate::learned::LearnedExport::default();
    let mut all = Vec::new();
    while !cursor.is_done() {
        cursor.export(&world.core, &(), 10, |learned| all.push(learned));
    }
    let mut world = World::new(STEERED);
    all.into_iter().for_each(|learned| world.handle(Event::Learned(learned)));
    world.messages(1..=30, "c/h.test");
    assert_eq!(window_of(&world, "h.test").0, 3);
}

/// Number of domains of the provider in the next test.
const DOMAINS: u64 = 5000;

fn dead_domains(world: &World) -> usize {
    let threads = world.core.queue.threads().iter();
    threads
        .filter(|(_, thread)| {
            let known = thread.retry.unreachable.as_ref();
            known.is_some_and(|known| known.reason == UnreachableReason::Dead)
        })
        .count()
}

#[test]
fn shared_window_of_5000_domains_suspends_and_wakes_in_steps() {
    let mut world = World::new(SHARED);
    world.is_checked = false;
    for domain in 1..=DOMAINS {
        world.message(domain, &[&format!("c/h{domain}.big.test")]);
    }
    assert_eq!(world.started.len(), 4);
    assert_eq!(world.core.dispatch.windows().iter().count(), 1);
    wake_up(&mut world);
    let mut attempts = 0;
    while world.core.dispatch.windows().iter().all(|(_, window)| window.resume.is_none()) {
        let agent = world.started[attempts % 4];
        let job = job(&mut world, agent);
        ends(&mut world, agent, &job, "deferall\tno way");
        attempts += 1;
        assert!(attempts < 10, "it does not die");
    }
    // A turn does not suspend all of them, but no other thread becomes ready from now on.
    assert!(dead_domains(&world) < DOMAINS as usize);
    world.core.check_invariants();
    world.pass_seconds(0);
    for agent in world.started.clone() {
        let Some(job) =
            world.take_lines(agent).last().filter(|job| !job.starts_with(['#', '('])).cloned()
        else {
            continue;
        };
        ends(&mut world, agent, &job, "deferall\tno way");
        attempts += 1;
    }
    assert_eq!(dead_domains(&world), DOMAINS as usize);
    let tried: u32 = world.core.queue.threads().iter().map(|(_, thread)| thread.attempts).sum();
    assert_eq!(tried as usize, attempts, "no agent for each domain");
    assert_eq!(world.started.len(), 4);
    for domain in 1..=DOMAINS {
        assert!(world.shows(domain)[0].contains("tries=1 no way"), "{:?}", world.shows(domain));
    }
    // All wake up, a thousand in each turn, and one of them is tried.
    world.core.check_invariants();
    world.pass_seconds(15 * 60);
    world.core.check_invariants();
    wake_up(&mut world);
    assert_eq!(dead_domains(&world), 0);
    let at_work = |world: &World| {
        let busy = world.core.dispatch.agents().iter().filter(|(_, agent)| agent.thread.is_some());
        busy.map(|(agent, _)| agent).collect::<Vec<_>>()
    };
    let probe = at_work(&world);
    assert_eq!(probe.len(), 1, "one agent tries the host first");
    // It is still dead, so all wait again.
    let first = job(&mut world, probe[0]);
    ends(&mut world, probe[0], &first, "deferall\tstill not");
    world.core.check_invariants();
    world.pass_seconds(0);
    assert_eq!(dead_domains(&world), DOMAINS as usize);
    assert!(world.shows(DOMAINS)[0].contains("tries=2 still not"), "{:?}", world.shows(DOMAINS));
    world.core.check_invariants();
    world.pass_seconds(15 * 60);
    world.core.check_invariants();
    wake_up(&mut world);
    let probe = at_work(&world);
    assert_eq!(probe.len(), 1, "one agent tries the host first");
    let first = job(&mut world, probe[0]);
    ends(&mut world, probe[0], &first, "ok3");
    world.core.check_invariants();
    world.pass_seconds(0);
    wake_up(&mut world);
    assert_eq!(at_work(&world).len(), 4, "the first window");
    // Everything is delivered through that one window.
    while world.core.view().totals().recipients > 0 {
        for agent in at_work(&world) {
            let job = job(&mut world, agent);
            ends(&mut world, agent, &job, "ok3");
        }
        wake_up(&mut world);
        assert!(at_work(&world).len() <= 4);
    }
    world.core.check_invariants();
}

/// The last report decides when a dead destination is tried; the window still becomes dead again.
#[test]
fn retryat_does_not_keep_window_from_dying_again() {
    let text =
        "c/*\n\tmaxthr=2 overfeed=0 interval=10m retries=1 failed-cohort-limit=1\n\tcommand=x\n";
    let mut world = World::new(text);
    world.messages(1..=10, "c/h.test");
    wake_up(&mut world);
    let block = |world: &World| {
        let thread = world.core.queue.threads().find(b"c", b"h.test").expect("a thread");
        world.core.queue.thread(thread).retry.unreachable.as_ref().map(|known| known.reason)
    };
    let agents = world.started.clone();
    let slow = job(&mut world, agents[1]);
    while block(&world).is_none() {
        let last = job(&mut world, agents[0]);
        ends(&mut world, agents[0], &last, "deferall cannot connect");
    }
    assert_eq!(block(&world), Some(UnreachableReason::Dead));
    ends(&mut world, agents[1], &slow, "retryat +900 busy");
    assert_eq!(block(&world), Some(UnreachableReason::RetryAt));
    world.pass_seconds(1200);
    wake_up(&mut world);
    assert_eq!(block(&world), None);
    while block(&world).is_none() {
        let at_work =
            world.core.dispatch.agents().iter().find(|(_, agent)| agent.jobs().next().is_some());
        let agent = at_work.expect("the failures come to an end").0;
        let last = job(&mut world, agent);
        ends(&mut world, agent, &last, "deferall cannot connect");
    }
    assert_eq!(block(&world), Some(UnreachableReason::Dead));
}
