//! The log of the agent `count.py`: one line for each event.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A line: time in seconds, the agent's name, its process, the kind of event, its subject.
#[derive(Clone, Debug)]
pub struct Event {
    pub time: f64,
    pub agent: String,
    pub pid: u32,
    pub what: String,
    pub about: String,
}

#[derive(Clone, Debug)]
pub struct Events(pub Vec<Event>);

impl Events {
    pub fn read(path: &Path) -> Events {
        let text = fs::read_to_string(path).unwrap_or_default();
        Events(text.split_inclusive('\n').filter_map(Event::parse).collect())
    }

    /// Returns the subjects of the events of a kind, in order.
    pub fn about(&self, what: &str) -> Vec<String> {
        self.of(what).map(|event| event.about.clone()).collect()
    }

    pub fn of(&self, what: &str) -> impl Iterator<Item = &Event> {
        self.0.iter().filter(move |event| event.what == what)
    }

    pub fn count(&self, what: &str) -> usize {
        self.of(what).count()
    }

    /// Returns how often each address was delivered to.
    ///
    /// Numbers of messages are used again, so tests that count deliveries use each address once.
    pub fn deliveries(&self) -> BTreeMap<String, usize> {
        let mut deliveries = BTreeMap::new();
        for event in self.of("count") {
            *deliveries.entry(event.address().to_string()).or_default() += 1;
        }
        deliveries
    }

    /// Fails unless each of `addresses` was delivered to once, and no other one.
    #[track_caller]
    pub fn assert_once_each(&self, addresses: impl IntoIterator<Item = String>) {
        let deliveries = self.deliveries();
        let repeated: Vec<_> = deliveries.iter().filter(|(_, times)| **times != 1).collect();
        assert!(repeated.is_empty(), "delivered more than once: {repeated:?}");
        let delivered: BTreeSet<String> = deliveries.into_keys().collect();
        let expected: BTreeSet<String> = addresses.into_iter().collect();
        let missing: Vec<_> = expected.difference(&delivered).collect();
        let unexpected: Vec<_> = delivered.difference(&expected).collect();
        assert!(missing.is_empty(), "not delivered: {missing:?}");
        assert!(unexpected.is_empty(), "delivered to other addresses: {unexpected:?}");
    }

    /// Returns deliveries by agents that exited before they tagged the recipient.
    pub fn interrupted(&self) -> BTreeSet<String> {
        let tagged: BTreeSet<(u32, &str)> =
            self.of("tag").map(|event| (event.pid, &event.about[..])).collect();
        let untagged = |event: &&Event| !tagged.contains(&(event.pid, &event.about[..]));
        self.of("count").filter(untagged).map(|event| event.address().to_string()).collect()
    }

    /// Returns the maximum number of living agents, of those that `counts` accepts.
    pub fn most_at_a_time(&self, counts: impl Fn(&Event) -> bool) -> usize {
        let (mut alive, mut most) = (0usize, 0);
        for event in self.0.iter().filter(|event| counts(event)) {
            match &event.what[..] {
                "start" => alive += 1,
                "end" => alive -= 1,
                _ => {}
            }
            most = most.max(alive);
        }
        most
    }
}

impl Event {
    /// Returns the address of an event about a recipient.
    pub fn address(&self) -> &str {
        self.about.rsplit(' ').next().unwrap_or_default()
    }

    fn parse(line: &str) -> Option<Event> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let time = words.next()?.parse().ok()?;
        let agent = words.next()?.to_string();
        let pid = words.next()?.parse().ok()?;
        let what = words.next()?.to_string();
        Some(Event { time, agent, pid, what, about: words.collect::<Vec<&str>>().join(" ") })
    }
}
