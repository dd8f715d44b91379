//! Events, as the bytes select them.

use super::super::byte_source::ByteSource;
use super::configurations::configuration;
use super::model::AgentInput;
use super::world::{START, World};
use clap::Parser;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use zsched_core::intake::NumberState;
use zsched_core::overrides::{DestinationPattern, LimitName, Scope};
use zsched_core::{AgentEnd, AgentId, Destination, Event, Order, RereadResult, Target};
use zsched_format::control_file::ControlFileError;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_mailq::{MailqOptions, show_answer};
use zsched_mailq_server::v1::GREETING;
use zsched_spool::report::UnreportedRest;
use zsched_spool::{Arrival, Group, Groups, HashFolder, Spool, SpoolId, SpoolName};

/// DestinationPattern of recipients.
const DESTINATIONS: [(&str, &str); 8] = [
    ("smtp", "a.test"),
    ("smtp", "b.test"),
    ("local", "-"),
    ("hold", "a.test"),
    ("smtp", "c.test"),
    ("local", "a.test"),
    ("hold", "b"),
    ("x", "a.test"),
];
/// Status words in reports of agents.
const STATUSES: [&str; 14] = [
    "ok",
    "ok2",
    "ok3",
    "error",
    "error2",
    "deferred later",
    "deferback later",
    "deferall down",
    "retryat +30 later",
    "retryat 0",
    "retryat 99999999999999 never",
    "retryat 1 long ago",
    "nonsense",
    "",
];
/// Errors of the disk.
const ERRORS: [ErrorKind; 4] = [
    ErrorKind::StorageFull,
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::WouldBlock,
];
/// DestinationPattern of holds and releases.
const SCOPES: [&str; 4] = ["*/*", "smtp/*", "*/a.test", "local/-"];
/// Limits that orders set.
const LIMITS: [LimitName; 3] = [LimitName::MaxRing, LimitName::MaxThr, LimitName::Overfeed];
/// Maximum number of messages at a time.
const MAX_MESSAGES: usize = 60;
/// Ages of messages when they are found, in seconds.
const AGES: [i64; 6] = [0, 1, 59, 86_400, 400_000, -86_400];
/// Steps of the clock, in seconds.
const JUMPS: [i64; 8] = [1, -1, 60, -60, 86_400, -86_400, 300_000_000, -300_000_000];
/// Minimum and maximum time that the clock is set to, in seconds since 1970.
const TIMES: (i64, i64) = (0, 4_000_000_000);

/// The world, and the bytes that select its events.
pub struct Script<'a> {
    pub world: World,
    pub draw: ByteSource<'a>,
}

impl Script<'_> {
    /// Performs one event.
    pub fn perform_event(&mut self) {
        let choice = self.draw.byte();
        match if choice < 0xe0 { choice % 32 } else { 32 + choice % 4 } {
            0..=3 => self.arrive(),
            4 => (0..5).for_each(|_| self.arrive()),
            5..=7 => self.agent_speaks(),
            8..=13 => self.agent_works(),
            14 | 15 => self.agent_ends(),
            16 => self.agent_starts(),
            17 => self.answer_note_or_report(),
            18 | 19 => self.answer_removal(),
            20 => self.answer_reread(),
            21 => self.pass_some_time(),
            22 | 23 => self.pass_to_wakeup(),
            24 => self.set_clock(),
            25 => {
                let number = self.draw.below(256);
                self.world.send_event(Event::Configured(configuration(number)));
            }
            26 => {
                let (_, host) = DESTINATIONS[self.draw.below(DESTINATIONS.len())];
                self.world.send_event(Event::Etrn(host.as_bytes()));
            }
            27 => self.look(),
            28 => self.send_impossible_event(),
            29 => self.agents_work(),
            30 => self.world.send_event(Event::InitialScanDone),
            32..=34 => self.order(),
            35 => {
                let error = ERRORS[self.draw.below(ERRORS.len())];
                let stored = if self.draw.below(3) > 0 { Ok(()) } else { Err(error) };
                self.world.report_stored(stored);
            }
            31 if self.draw.byte() > 0xe0 => {
                let is_watched = self.draw.below(2) > 0;
                self.world.send_event(Event::Subscribed(is_watched));
            }
            // This is rare, as not much happens afterwards.
            _ if self.draw.byte() == 0xd0 => self.world.send_event(Event::Drain),
            _ => self.world.send_event(Event::Tick),
        }
    }

    /// An operator gives an order.
    fn order(&mut self) {
        let scope = self.scope();
        let limit = LIMITS[self.draw.below(LIMITS.len())];
        let targets = self.targets();
        let order = match self.draw.below(15) {
            0 | 1 => Order::Hold { scope, reason: String::new() },
            2 => Order::Release(scope),
            3 => Order::ReleaseAll,
            4 => Order::Retry(targets),
            5 => Order::Expire(targets),
            6 => Order::Delete(targets),
            7 => Order::Reroute(targets),
            8 => {
                let (channel, host) = DESTINATIONS[self.draw.below(DESTINATIONS.len())];
                let thread = Destination::new(channel.as_bytes(), host.as_bytes());
                Order::RetryThreads(vec![thread])
            }
            9 => {
                let until = self.world.now + Duration::from_secs(1 << self.draw.below(16));
                let until = (self.draw.below(2) == 0).then_some(until);
                Order::Set { scope, limit, value: self.draw.below(6) as u32, until }
            }
            10 => Order::Unset { scope, limit },
            11 => Order::HoldMessages { messages: self.ids(), reason: String::new() },
            12 => Order::ReleaseMessages(self.ids()),
            13 => Order::LogFinishedMessages(self.draw.below(2) == 0),
            _ => Order::RetireAgent(1000 + self.draw.below(50) as u32),
        };
        self.world.order(order);
    }

    fn scope(&mut self) -> Scope {
        let choice = self.draw.below(SCOPES.len() + 5);
        match SCOPES.get(choice) {
            Some(pattern) => {
                Scope::Destinations(DestinationPattern::parse(pattern).expect("a pattern"))
            }
            None if choice == SCOPES.len() => Scope::Ring("smtp/*".to_string()),
            None => Scope::Message(self.id()),
        }
    }

    fn id(&mut self) -> SpoolId {
        let number = 1 + self.draw.below(MAX_MESSAGES) as u64;
        let message = self.world.model.messages.get(&number);
        let modified = message.map_or(START, |message| message.arrival.modified);
        SpoolId { number, modified }
    }

    fn ids(&mut self) -> Vec<SpoolId> {
        (0..self.draw.below(4)).map(|_| self.id()).collect()
    }

    fn targets(&mut self) -> Vec<Target> {
        let (channel, host) = DESTINATIONS[self.draw.below(DESTINATIONS.len())];
        let one = Destination::new(channel.as_bytes(), host.as_bytes());
        let destination = (self.draw.below(2) == 0).then_some(one);
        let mut target = || {
            let number = 1 + self.draw.below(MAX_MESSAGES) as u64;
            Target { number, destination: destination.clone(), is_whole: self.draw.below(2) == 0 }
        };
        vec![target(), target()]
    }

    fn arrive(&mut self) {
        let number = 1 + self.draw.below(MAX_MESSAGES) as u64;
        let shape = self.draw.byte();
        let base = match shape >> 6 {
            3 => format!("{number}-x"),
            _ => number.to_string(),
        };
        let name = SpoolName::new(HashFolder::TOP, base.as_bytes()).expect("a name");
        let mut groups = Groups::new();
        let mut offset = 100;
        for _ in 0..(shape & 3) {
            let (channel, host) = DESTINATIONS[self.draw.below(DESTINATIONS.len())];
            let mut group = Group::new(channel.as_bytes(), host.as_bytes(), &[]);
            if groups.iter().any(|g| (&g.channel, &g.host) == (&group.channel, &group.host)) {
                continue;
            }
            let count = [1, 1, 2, 12][self.draw.below(4)];
            group.offsets.extend((0..count).map(|index| offset + 100 * index).rev());
            offset += 100 * count;
            groups.push(group);
        }
        let age = AGES[self.draw.below(AGES.len())];
        let modified = Timestamp::from_seconds(self.world.now.seconds() - age);
        let is_odd = shape & 4 != 0;
        self.world.arrive(Arrival {
            name,
            modified,
            created: self.world.now,
            priority: 5,
            report_due: is_odd,
            delay_noted: None,
            deliver_by: None,
            schedule: None,
            has_alternatives: false,
            last_recipient: 0,
            first_undeliverable: is_odd.then(|| ControlFileError::new(7, "an X line")),
            etrn_hosts: if is_odd { vec![b"a.test"[..].into()] } else { Vec::new() },
            recipients: groups.iter().map(|group| group.offsets.len() as u32).sum(),
            failed: 0,
            groups,
            locked: Vec::new(),
            next_offset: None,
            max_unread: 0,
            is_chunk: false,
        });
    }

    fn an_agent(&mut self) -> Option<AgentId> {
        let agents: Vec<AgentId> = self.world.model.agents.keys().copied().collect();
        self.draw.one_of(&agents).copied()
    }

    fn agent_speaks(&mut self) {
        let Some(agent) = self.an_agent() else {
            return;
        };
        match self.draw.below(12) {
            0 | 1 => self.world.agent_writes(agent, b"#hungry"),
            2 => self.flood(agent, b"#hungry", 20),
            3 => {
                let line = self.draw.until(b'\n').to_vec();
                self.world.agent_writes(agent, &line);
            }
            4 => {
                let number = self.draw.below(MAX_MESSAGES);
                self.world.agent_writes(agent, format!("#resync A/{number}").as_bytes());
            }
            5 => {
                let bytes = 1 << self.draw.below(40);
                self.world.agent_writes(agent, &[b'x'; 3000]);
                self.world.send_event(Event::LineSkipped { agent, bytes });
            }
            6 => self.flood(agent, b"# noise", 105),
            7..=10 => self.agent_reports_another(agent),
            _ => {
                let (number, offset) = (self.draw.below(MAX_MESSAGES), 100 * self.draw.below(50));
                let status = STATUSES[self.draw.below(STATUSES.len())];
                self.world.agent_writes(agent, format!("{number}/{offset}\t\t{status}").as_bytes());
            }
        }
    }

    /// An agent reports about a recipient that may be due, waiting, or at another agent.
    fn agent_reports_another(&mut self, agent: AgentId) {
        let numbers: Vec<u64> = self.world.model.messages.keys().copied().collect();
        let Some(number) = self.draw.one_of(&numbers) else {
            return;
        };
        let open: Vec<u32> = self.world.model.messages[number].open.iter().copied().collect();
        if let Some(offset) = self.draw.one_of(&open) {
            let status = STATUSES[self.draw.below(STATUSES.len())];
            self.world.agent_writes(agent, format!("{number}/{offset}\t\t{status}").as_bytes());
        }
    }

    fn flood(&mut self, agent: AgentId, line: &[u8], count: usize) {
        self.world.check_once(|world| (0..count).for_each(|_| world.agent_writes(agent, line)));
    }

    /// An agent answers some of its input.
    fn agent_works(&mut self) {
        if let Some(agent) = self.an_agent() {
            let (status, count) = (self.draw.below(STATUSES.len()), 1 + self.draw.below(4));
            self.world.check_once(|world| {
                (0..count).for_each(|_| world.work(agent, STATUSES[status], usize::MAX));
            });
        }
    }

    /// Each agent answers a part of its input.
    fn agents_work(&mut self) {
        let (status, most) = (self.draw.below(STATUSES.len()), self.draw.below(4));
        let agents: Vec<AgentId> = self.world.model.agents.keys().copied().collect();
        self.world.check_once(|world| {
            agents.into_iter().for_each(|agent| world.work(agent, STATUSES[status], most));
        });
    }

    fn agent_ends(&mut self) {
        if let Some(agent) = self.an_agent() {
            let end = match self.draw.below(4) {
                0 => AgentEnd::Exited(0),
                1 => AgentEnd::Exited(1),
                2 => AgentEnd::Signalled(9),
                _ => AgentEnd::NotStarted("no such file".to_string()),
            };
            self.world.ends(agent, end);
        }
    }

    fn agent_starts(&mut self) {
        if let Some(agent) = self.an_agent() {
            let pid = u32::from(self.draw.byte());
            self.world.starts(agent, pid);
        }
    }

    fn answer_note_or_report(&mut self) {
        let notes = self.world.model.notes.clone();
        let outcome = match self.draw.below(6) {
            0 => Ok(true),
            1 => Ok(false),
            other => Err(ERRORS[other - 2]),
        };
        let reports = self.world.model.reports.clone();
        if let Some(ticket) = self.draw.one_of(&notes) {
            self.world.noted(*ticket, outcome);
        } else if let Some(ticket) = self.draw.one_of(&reports) {
            let left = |lines| UnreportedRest { lines, unnoted_failures: lines };
            self.world.reported(*ticket, outcome.map(left));
        }
    }

    fn answer_removal(&mut self) {
        let removals = self.world.model.removals.clone();
        if let Some(number) = self.draw.one_of(&removals) {
            let outcome = match self.draw.below(8) {
                0..=3 => Ok(()),
                other => Err(ERRORS[other - 4]),
            };
            self.world.removed(*number, outcome);
        }
    }

    fn answer_reread(&mut self) {
        let rereads = self.world.model.rereads.clone();
        if let Some(name) = self.draw.one_of(&rereads) {
            let outcome = self.reread(name.number());
            self.world.read_again(name.number(), outcome);
        }
    }

    fn reread(&mut self, number: u64) -> RereadResult {
        let choice = self.draw.below(6);
        let error = ERRORS[self.draw.below(ERRORS.len())];
        match (self.world.model.messages.get(&number), choice) {
            (Some(message), 0 | 1) => RereadResult::Read(Box::new(message.again(|_| false))),
            (Some(message), 2) => {
                RereadResult::Read(Box::new(message.again(|offset| offset % 200 == 0)))
            }
            (_, 3) => RereadResult::Gone,
            (_, 4) => RereadResult::Malformed(ControlFileError::new(0, "spoilt")),
            _ => RereadResult::Failed(error),
        }
    }

    fn pass_some_time(&mut self) {
        let milliseconds = 1 << self.draw.below(20);
        self.world.pass_to(self.world.now + Duration::from_millis(milliseconds));
    }

    fn pass_to_wakeup(&mut self) {
        if let Some(next) = self.world.core.next_wakeup() {
            let latest = Timestamp::from_seconds(TIMES.1);
            self.world.pass_to(next.max(self.world.now).min(latest));
        }
    }

    /// The clock is set back, or the machine was suspended and no event tells of it.
    fn set_clock(&mut self) {
        let by = JUMPS[self.draw.below(JUMPS.len())];
        let seconds = (self.world.now.seconds() + by).clamp(TIMES.0, TIMES.1);
        let (before, now) = (self.world.now, Timestamp::from_seconds(seconds));
        if let step @ ClockStep::Back(_) = ClockStep::between(before, now) {
            self.world.now = now;
            self.world.send_event(Event::ClockSet(step));
        }
        self.world.pass_to(now);
    }

    /// Checks that the client of MAILQ has no warnings about the queue.
    fn look(&mut self) {
        let dump = self.world.dump();
        let answer = dump.strip_prefix(GREETING.as_bytes()).expect("a greeting");
        let wish = [&["mailq"][..], &["mailq", "-Q"], &["mailq", "--summary"]][self.draw.below(3)];
        let spool = Spool::new(Path::new("/dev/null/no/spool"));
        let mut shown = Vec::new();
        let complaints = show_answer(&MailqOptions::parse_from(wish), &spool, answer, &mut shown);
        let dump = String::from_utf8_lossy(&dump);
        assert!(matches!(complaints, Ok(0)), "{complaints:?} about\n{dump}");
        assert!(!shown.is_empty());
    }

    /// Sends an event that no world would send; it must be harmless.
    fn send_impossible_event(&mut self) {
        let number = self.draw.below(MAX_MESSAGES) as u64;
        let agent = AgentId(number);
        let is_known = self.world.model.agents.contains_key(&agent);
        match self.draw.below(7) {
            0 => self.world.noted(number, Ok(true)),
            1 => {
                self.world.noted(number + 100_000, Err(ErrorKind::StorageFull));
                self.world.reported(number + 100_000, Ok(UnreportedRest::default()));
            }
            2 if self.world.core.view().number_state(number) != NumberState::Leaving => {
                self.world.removed(number, Ok(()));
            }
            3 if !self.world.model.rereads.iter().any(|name| name.number() == number) => {
                self.world.send_event(Event::ReadAgain {
                    number: number + 100_000,
                    outcome: RereadResult::Gone,
                });
            }
            4 if !is_known => self.world.ends(agent, AgentEnd::Exited(0)),
            5 if !is_known => self.world.starts(agent, 1),
            _ if !is_known => self.world.agent_writes(agent, b"1/100\t\tok"),
            _ => {}
        }
    }
}

impl World {
    /// Answers an agent's oldest input; of a job, it reports at most `most` unfinished recipients.
    pub fn work(&mut self, agent: AgentId, status: &str, most: usize) {
        let Some(puppet) = self.model.agents.get(&agent) else {
            return;
        };
        if let Some(AgentInput::Job(number, host)) = puppet.pending_input.front() {
            let number = *number;
            let open: Vec<u32> = self.model.messages.get(&number).map_or(Vec::new(), |message| {
                let group = message.group(&puppet.channel, host);
                let offsets = group.map_or(&[][..], |group| &group.offsets);
                offsets.iter().copied().filter(|offset| message.open.contains(offset)).collect()
            });
            for offset in open.into_iter().take(most) {
                self.agent_writes(agent, format!("{number}/{offset}\t\t{status}").as_bytes());
            }
        }
        self.agent_writes(agent, b"#hungry");
    }
}

/// The start must be between the minimum and maximum time.
const _: () = assert!(START.seconds() > TIMES.0 && START.seconds() < TIMES.1);
