//! Rings that share agents under `maxta`, `maxchannel` and the fork rate.

use super::*;

/// Rings with endless mail: more arrives after each job.
struct Rivals {
    world: World,
    next: u64,
    /// Destinations of all jobs, in the order in which they ended.
    ended: Vec<String>,
}

impl Rivals {
    fn new(config: &str) -> Rivals {
        Rivals { world: World::new(config), next: 1, ended: Vec::new() }
    }

    fn mail(&mut self, destinations: &[&str]) {
        for destination in destinations {
            self.next += 1;
            self.world.message(self.next, &[destination]);
        }
    }

    /// Ends the jobs of every agent, after the arrival that `more` returns for each.
    ///
    /// Agents that were told to end are gone afterwards.
    fn second_passes(&mut self, more: impl Fn(&str) -> Option<String>) {
        self.world.pass_seconds(1);
        for agent in self.world.started.clone() {
            if self
                .world
                .core
                .dispatch
                .agents()
                .get(agent)
                .is_none_or(|agent| agent.owed.is_empty())
            {
                continue;
            }
            let jobs = self.world.take_lines(agent);
            if jobs.is_empty() {
                self.world.hungry(agent);
            }
            for job in jobs {
                let Some((number, host)) = job.split_once('\t') else {
                    match job.as_str() {
                        "#idle" => self.world.hungry(agent),
                        _ => self.world.dies(agent, AgentEnd::Exited(0)),
                    }
                    continue;
                };
                self.ended.push(host.to_string());
                if let Some(destination) = more(host) {
                    self.mail(&[&destination]);
                }
                self.world.agent_line(agent, &format!("{number}/100\t\tok3"));
                self.world.hungry(agent);
            }
            self.agents_end();
        }
    }

    fn agents_end(&mut self) {
        for agent in self.world.started.clone() {
            let is_ending = self.world.core.dispatch.agents().counts.ending.contains(&agent);
            let has_jobs =
                self.world.core.dispatch.agents().get(agent).is_some_and(|a| a.jobs().count() > 0);
            if is_ending && !has_jobs {
                self.world.take_lines(agent);
                self.world.dies(agent, AgentEnd::Exited(0));
            }
        }
    }

    fn count(&self, host: &str) -> usize {
        self.ended.iter().filter(|ended| *ended == host).count()
    }
}

/// More mail for the busy hosts, `b*`, of channel `c`.
fn busy(host: &str) -> Option<String> {
    host.starts_with('b').then(|| format!("c/{host}"))
}

#[test]
fn busy_ring_gives_agent_to_ring_without_one() {
    for limits in ["maxta=3", "maxta=3 overfeed=0", "maxta=3 job-order"] {
        let clauses = format!("*/*\n\t{limits}\nc/*\n\tcommand=x\nd/*\n\tcommand=y\n");
        let mut rivals = Rivals::new(&clauses);
        rivals.mail(&["c/b1", "c/b2", "c/b3", "c/b1", "c/b2"]);
        (0..4).for_each(|_| rivals.second_passes(busy));
        rivals.mail(&["d/quiet"]);
        for _ in 0..20 {
            rivals.second_passes(busy);
        }
        assert_eq!(rivals.count("quiet"), 1, "{limits}: {:?}", rivals.ended);
        let seen = rivals.ended.iter().position(|host| host == "quiet");
        assert!(seen < Some(30), "{limits}: {seen:?} of {}", rivals.ended.len());
        assert_eq!(
            rivals.world.core.dispatch.agents().len(),
            3,
            "{limits}: the place is not left empty"
        );
        assert_eq!(
            rivals.world.started.len(),
            5,
            "{limits}: one agent for the other ring, and back"
        );
    }
}

#[test]
fn rings_of_a_channel_take_turns_under_maxchannel() {
    let mut rivals = Rivals::new(
        "c/b1\n\tmaxchannel=1 command=x\nc/b2\n\tmaxchannel=1 command=y\nd/*\n\tcommand=z\n",
    );
    rivals.mail(&["c/b1", "c/b2", "d/b3"]);
    (0..60).for_each(|_| rivals.second_passes(busy));
    let (one, two) = (rivals.count("b1"), rivals.count("b2"));
    assert!(one.abs_diff(two) <= 8 && one + two > 40, "{one} and {two}");
    // At most one agent changes in five seconds.
    assert!(rivals.world.started.len() <= 60 / 5 + 2, "{} agents", rivals.world.started.len());
}

#[test]
fn maxchannel_does_not_end_agents_of_other_channels() {
    let mut rivals = Rivals::new(
        "c/b1\n\tmaxchannel=1 command=x\nc/b2\n\tmaxchannel=1 command=y\nd/*\n\tcommand=z\n",
    );
    rivals.mail(&["d/e", "c/b1", "c/b2"]);
    let first = rivals.world.started[0];
    let more = |host: &str| Some(format!("{}/{host}", if host == "e" { "d" } else { "c" }));
    (0..30).for_each(|_| rivals.second_passes(more));
    assert!(rivals.world.core.dispatch.agents().get(first).is_some(), "it still delivers to e");
    assert!(rivals.count("b1") > 5 && rivals.count("b2") > 5);
}

#[test]
fn only_agent_of_ring_stays_while_another_ring_has_two() {
    let mut rivals =
        Rivals::new("*/*\n\tmaxta=3\nc/b[12]\n\tcommand=x\nc/b3\n\tcommand=y\nd/*\n\tcommand=z\n");
    rivals.mail(&["c/b3", "c/b1", "c/b2"]);
    let only = rivals.world.started[0];
    (0..8).for_each(|_| rivals.second_passes(busy));
    rivals.mail(&["d/quiet"]);
    (0..3).for_each(|_| rivals.second_passes(busy));
    assert_eq!(rivals.count("quiet"), 1);
    assert!(rivals.world.core.dispatch.agents().get(only).is_some());
}

#[test]
fn ring_with_lower_maxta_gets_agent_eventually() {
    let mut rivals = Rivals::new("c/*\n\tcommand=x\nd/*\n\tmaxta=2 command=y\n");
    rivals.mail(&["c/b1", "c/b2", "c/b3", "c/b4", "d/quiet"]);
    (0..4).for_each(|_| rivals.second_passes(busy));
    assert_eq!(rivals.count("quiet"), 0, "maxta of one ring does not limit the others");
    (0..9).for_each(|_| rivals.second_passes(busy));
    assert_eq!(rivals.count("quiet"), 1, "{:?}", rivals.ended);
    (0..9).for_each(|_| rivals.second_passes(busy));
    let at_work =
        rivals.world.core.dispatch.agents().values().filter(|agent| agent.thread.is_some());
    assert_eq!(at_work.count(), 4, "the busy rings have their agents again");
}

#[test]
fn rings_take_turns_under_fork_rate() {
    let settings = Settings { fork_rate: 2, ..Settings::default() };
    let mut world = World::with(settings, "c/*\n\tcommand=x\nd/*\n\tcommand=y\ne/*\n\tcommand=z\n");
    (1..=20).for_each(|number| world.message(number, &[&format!("c/h{number}")]));
    world.message(21, &["d/h"]);
    world.message(22, &["e/h"]);
    world.pass_seconds(1);
    let ring_of = |agent: &AgentId| {
        world.core.queue.ring(world.core.dispatch.agents()[*agent].ring).channel.clone()
    };
    let channels: Vec<_> = world.started[2..].iter().map(ring_of).collect();
    assert_eq!(channels, [b"d"[..].into(), b"e"[..].into()]);
}

#[test]
fn burst_is_limited_to_jobs_of_one_turn() {
    let mut world = World::new("c/*\n\toverfeed=150 command=x\n");
    world.messages(1..=300, "c/a.test");
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs.len(), 1);
    world.now += Duration::from_millis(500);
    world.agent_line(agent, "1/100\t\tok3");
    world.hungry(agent);
    assert_eq!(world.take_lines(agent).len(), 10);
}
