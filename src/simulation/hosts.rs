//! The hosts that agents deliver to, with their speed, connection limits, refusals and outages.

use super::recorded::RecordedAttempts;
use foldhash::HashMap;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::time::Timestamp;

/// The behaviour of a host.
#[derive(Clone, Debug)]
pub struct HostBehaviour {
    /// Time until a connection is open.
    pub connect: Duration,
    /// Time for a message, for any number of recipients.
    pub latency: Duration,
    /// Maximum random addition to `latency`.
    pub spread: Duration,
    /// Maximum number of simultaneous connections; more are refused.
    pub connections: usize,
    /// True if connections stay open for the next message.
    pub keeps_connections: bool,
    /// If connections are not kept: maximum number of connections that wait to be accepted.
    pub queue: usize,
    /// Time until a refusal for lack of room, if longer than `connect`.
    pub full_timeout: Duration,
    /// Share of recipients that are deferred, 0 to 1.
    pub defer_rate: f64,
    /// Share of recipients that fail permanently, 0 to 1.
    pub fail_rate: f64,
    /// Times when the host is down.
    pub outages: Vec<Outage>,
}

/// A period in which a host is down.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// Time until a connection attempt fails; zero if it is refused.
    pub timeout: Duration,
}

impl Default for HostBehaviour {
    /// A host that is always up.
    ///
    /// It accepts every message in a quarter of a second.
    fn default() -> HostBehaviour {
        HostBehaviour {
            connect: Duration::from_millis(50),
            latency: Duration::from_millis(200),
            spread: Duration::ZERO,
            connections: usize::MAX,
            keeps_connections: true,
            queue: 0,
            full_timeout: Duration::ZERO,
            defer_rate: 0.0,
            fail_rate: 0.0,
            outages: Vec::new(),
        }
    }
}

impl HostBehaviour {
    /// The outage at a given time, if there is one.
    pub fn outage(&self, now: Timestamp) -> Option<&Outage> {
        self.outages.iter().find(|outage| outage.from <= now && now < outage.until)
    }
}

/// The index of a host.
pub(crate) type HostId = usize;

/// All hosts. Each name has the behaviour of the first pattern that matches it.
pub struct Hosts {
    rules: Vec<(glob::Pattern, Rc<HostBehaviour>)>,
    default: Rc<HostBehaviour>,
    known: HashMap<Box<[u8]>, HostId>,
    hosts: Vec<Host>,
    /// The attempts of a recording, which agents repeat instead of asking a host.
    pub recorded: Option<RecordedAttempts>,
}

struct Host {
    behaviour: Rc<HostBehaviour>,
    connections: usize,
    /// End times of connections that are open or wait, if connections are not kept.
    ends: Vec<Timestamp>,
}

/// The result of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectResult {
    /// A connection, opened after this time.
    Open(Duration),
    /// The host accepts no more connections, which is known after this time.
    Full(Duration),
    /// The host is down, which is known after this time.
    Down(Duration),
}

impl Hosts {
    /// Creates hosts by pattern; `default` is for those that match none.
    pub fn new(rules: Vec<(glob::Pattern, HostBehaviour)>, default: HostBehaviour) -> Hosts {
        Hosts {
            rules: rules.into_iter().map(|(pattern, nature)| (pattern, Rc::new(nature))).collect(),
            default: Rc::new(default),
            known: HashMap::default(),
            hosts: Vec::new(),
            recorded: None,
        }
    }

    /// Creates hosts that answer as in a recording.
    pub fn recorded(attempts: RecordedAttempts) -> Hosts {
        let hosts = Hosts::new(Vec::new(), HostBehaviour::default());
        Hosts { recorded: Some(attempts), ..hosts }
    }

    /// The host with a name in lower case.
    pub fn find(&mut self, name: &[u8]) -> HostId {
        if let Some(host) = self.known.get(name) {
            return *host;
        }
        let text = String::from_utf8_lossy(name);
        let rule = self.rules.iter().find(|(pattern, _)| pattern.matches(&text));
        let nature = rule.map_or(&self.default, |(_, nature)| nature).clone();
        let id = self.hosts.len();
        self.hosts.push(Host { behaviour: nature, connections: 0, ends: Vec::new() });
        self.known.insert(name.into(), id);
        id
    }

    /// Ends all faults and outages of hosts.
    pub fn end_faults(&mut self) {
        for host in &mut self.hosts {
            host.behaviour = Rc::new(HostBehaviour::default());
        }
        self.rules.clear();
        self.default = Rc::new(HostBehaviour::default());
    }

    /// The behaviour of a host.
    pub fn behaviour(&self, host: HostId) -> &HostBehaviour {
        &self.hosts[host].behaviour
    }

    /// Opens a connection for a message of this duration.
    ///
    /// The caller must [close](Self::disconnect) it if the host keeps connections.
    pub(crate) fn connect(
        &mut self,
        now: Timestamp,
        host: HostId,
        duration: Duration,
    ) -> ConnectResult {
        let Host { behaviour: nature, connections, ends } = &mut self.hosts[host];
        let full = ConnectResult::Full(nature.connect.max(nature.full_timeout));
        if let Some(outage) = nature.outage(now) {
            return ConnectResult::Down(nature.connect.max(outage.timeout));
        }
        if nature.keeps_connections {
            if *connections >= nature.connections {
                return full;
            }
            *connections += 1;
            return ConnectResult::Open(nature.connect);
        }
        ends.retain(|end| *end > now);
        ends.sort_unstable();
        let most = nature.connections.saturating_add(nature.queue);
        if ends.len() >= most {
            return full;
        }
        // A waiting connection is accepted when enough earlier ones have ended.
        let before =
            ends.len().checked_sub(nature.connections).map_or(now, |too_many| ends[too_many]);
        let open = before.max(now + nature.connect);
        ends.push(open + duration);
        ConnectResult::Open(open.since(now))
    }

    /// Closes a connection.
    pub fn disconnect(&mut self, host: HostId) {
        self.hosts[host].connections -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_connections_wait_while_queue_has_room() {
        let second = Duration::from_secs(1);
        let nature = HostBehaviour {
            connect: Duration::ZERO,
            connections: 2,
            keeps_connections: false,
            queue: 2,
            full_timeout: 30 * second,
            ..HostBehaviour::default()
        };
        let mut hosts = Hosts::new(Vec::new(), nature);
        let host = hosts.find(b"a.x");
        let start = Timestamp::from_seconds(100);
        let mut visit = |seconds: u32| hosts.connect(start + seconds * second, host, 10 * second);
        assert_eq!(visit(0), ConnectResult::Open(Duration::ZERO));
        assert_eq!(visit(4), ConnectResult::Open(Duration::ZERO));
        assert_eq!(visit(5), ConnectResult::Open(5 * second));
        assert_eq!(visit(5), ConnectResult::Open(9 * second));
        assert_eq!(visit(5), ConnectResult::Full(30 * second));
        // The first has ended, and the third has its place.
        assert_eq!(visit(11), ConnectResult::Open(9 * second));
        assert_eq!(visit(11), ConnectResult::Full(30 * second));
    }

    #[test]
    fn host_accepts_connections_up_to_limit() {
        let at = Timestamp::from_seconds;
        let outage = Outage { from: at(10), until: at(20), timeout: Duration::from_secs(30) };
        let nature =
            HostBehaviour { connections: 1, outages: vec![outage], ..HostBehaviour::default() };
        let pattern = glob::Pattern::new("*.x").expect("a pattern");
        let mut hosts = Hosts::new(vec![(pattern, nature)], HostBehaviour::default());
        let (host, other) = (hosts.find(b"a.x"), hosts.find(b"b.y"));
        let visit =
            |hosts: &mut Hosts, seconds, host| hosts.connect(at(seconds), host, Duration::ZERO);
        let connect = HostBehaviour::default().connect;
        assert_eq!(visit(&mut hosts, 1, host), ConnectResult::Open(connect));
        assert_eq!(visit(&mut hosts, 1, host), ConnectResult::Full(connect));
        hosts.disconnect(host);
        assert_eq!(visit(&mut hosts, 9, host), ConnectResult::Open(connect));
        assert_eq!(visit(&mut hosts, 10, host), ConnectResult::Down(Duration::from_secs(30)));
        assert_eq!(visit(&mut hosts, 10, other), ConnectResult::Open(connect));
    }
}
