//! Random behaviour of agents, spool and clock, from a seed: the conditions for a recorder.

use super::{START, config};
use crate::RecordedCore;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::time::Duration;
use zsched_core::{Action, AgentEnd, AgentId, Event, NoteTicket, RereadResult};
use zsched_format::time::Timestamp;
use zsched_spool::{Arrival, Group, HashFolder, SpoolName};

/// Configurations that are used alternately.
pub(crate) const CONFIGS: [&str; 3] = [
    "a/*\n\tinterval=1s retries=\"1 4\" skew=1 maxring=3 maxthr=2 overfeed=3 idlemax=20s expiry=10m \
     agent-timeout=1m command=a\nb/*\n\tinterval=3s retries=\"1 1 2\" maxring=2 user=somebody \
     command=\"b $host\"\n*/*\n\tqueueonly\n",
    "a/*\n\tinterval=7s retries=\"2 1\" maxring=5 ageorder command=a\nb/h1\n\tcommand=other\n\
     b/*\n\tuser=somebody command=\"b $host\"\n",
    "*/*\n\tmaxta=4 interval=2s command=all expiry=1m expiry2=1m\n",
];

pub(crate) struct Rehearsal {
    core: RecordedCore,
    random: fastrand::Rng,
    now: Timestamp,
    /// Jobs of the living agents, as text; an empty one stands for a due `#hungry`.
    agents: BTreeMap<AgentId, Vec<String>>,
    /// Recipients' offsets of all messages so far.
    offsets: BTreeMap<u64, Vec<u32>>,
    notes: Vec<NoteTicket>,
    removals: Vec<u64>,
    rereads: Vec<u64>,
}

impl Rehearsal {
    pub(super) fn new(core: RecordedCore, seed: u64) -> Rehearsal {
        Rehearsal {
            core,
            random: fastrand::Rng::with_seed(seed),
            now: START,
            agents: BTreeMap::new(),
            offsets: BTreeMap::new(),
            notes: Vec::new(),
            removals: Vec::new(),
            rereads: Vec::new(),
        }
    }

    /// One turn of the loop, with one random event.
    pub(super) fn step(&mut self) {
        self.now += Duration::from_millis(self.random.u64(0..400));
        match self.random.u32(0..100) {
            0..20 => self.message(),
            20..80 => self.agent_says(),
            80..84 => self.agent_ends(),
            84..90 => self.noted(),
            90..95 => self.removed(),
            95 => self.reread(),
            96 => self.now += Duration::from_secs(self.random.u64(0..60)),
            97 => self.core.handle(self.now, Event::Etrn(b"h1")),
            98 => {
                let text = CONFIGS[self.random.usize(0..CONFIGS.len())];
                self.core.handle(self.now, Event::Configured(config(text)));
            }
            99 if self.random.bool() => self.core.handle(self.now, Event::Subscribed(true)),
            _ => self.core.handle(self.now, Event::InitialScanDone),
        }
        self.core.handle(self.now, Event::Tick);
        self.perform();
        self.core.query().check_invariants();
        self.core.end_turn(self.now);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.core.is_paused()
    }

    pub(super) fn finish(mut self) {
        self.core.handle(self.now, Event::Drain);
        self.perform();
        self.core.finish(self.now);
    }

    fn perform(&mut self) {
        while let Some(action) = self.core.poll() {
            match action {
                Action::StartAgent { agent, .. } if self.random.u32(0..20) == 0 => {
                    let end = AgentEnd::NotStarted("no such program".to_string());
                    self.core.handle(self.now, Event::AgentEnded { agent, end });
                }
                Action::StartAgent { agent, .. } => {
                    self.agents.insert(agent, vec![String::new()]);
                    let pid = 1000 + agent.0 as u32;
                    self.core.handle(self.now, Event::AgentStarted { agent, pid });
                }
                Action::Feed { agent, job } => {
                    let job = String::from_utf8_lossy(&job).into_owned();
                    self.agents.get_mut(&agent).expect("the living are fed").push(job);
                }
                Action::SendIdle(agent) => {
                    self.agents.get_mut(&agent).expect("it lives").push(String::new());
                }
                Action::Note(note) => self.notes.push(note.ticket),
                Action::Remove { name, .. } => self.removals.push(name.number()),
                Action::ReadAgain(name) => self.rereads.push(name.number()),
                _ => {}
            }
        }
    }

    fn arrival(&mut self, number: u64) -> Arrival {
        let mut offset = 100;
        let mut groups: BTreeMap<(String, String), Vec<u32>> = BTreeMap::new();
        for _ in 0..self.random.u32(1..5) {
            let channel = ["a", "a", "b", "c"][self.random.usize(0..4)].to_string();
            let host = format!("h{}", self.random.u32(0..6));
            groups.entry((channel, host)).or_default().push(offset);
            offset += 50;
        }
        let all: Vec<u32> = groups.values().flatten().copied().collect();
        self.offsets.insert(number, all.clone());
        let group = |((channel, host), offsets): ((String, String), Vec<u32>)| Group {
            channel: channel.into_bytes().into(),
            host: host.into_bytes().into(),
            offsets,
        };
        let base =
            if number.is_multiple_of(7) { format!("{number}-odd") } else { number.to_string() };
        Arrival {
            name: SpoolName::new(HashFolder::TOP, base.as_bytes()).expect("a name"),
            modified: self.now - Duration::from_secs(self.random.u64(0..100)),
            created: self.now,
            priority: 5,
            report_due: self.random.u32(0..10) == 0,
            first_undeliverable: None,
            etrn_hosts: Vec::new(),
            recipients: all.len() as u32,
            failed: 0,
            groups: groups.into_iter().map(group).collect(),
            locked: Vec::new(),
            next_offset: None,
            max_unread: 0,
            is_chunk: false,
        }
    }

    fn message(&mut self) {
        let number = self.random.u64(1..200);
        let arrival = self.arrival(number);
        self.core.handle(self.now, Event::Arrived(arrival));
    }

    fn an_agent(&mut self) -> Option<AgentId> {
        let all: Vec<AgentId> = self.agents.keys().copied().collect();
        self.random.choice(all)
    }

    fn agent_says(&mut self) {
        let Some(agent) = self.an_agent() else { return };
        let jobs = self.agents.get_mut(&agent).expect("it was chosen");
        if jobs.is_empty() || self.random.u32(0..60) == 0 {
            let line = b"# nothing in particular";
            return self.core.handle(self.now, Event::AgentSaid { agent, line });
        }
        let job = jobs.remove(0);
        let digits: String = job.chars().take_while(char::is_ascii_digit).collect();
        let number: u64 = digits.parse().unwrap_or_default();
        for offset in self.offsets.get(&number).cloned().unwrap_or_default() {
            let words = [
                "ok",
                "ok2",
                "ok3",
                "ok3",
                "ok3",
                "error",
                "error2 no",
                "deferred not now",
                "deferred again",
                "retryat +9 soon",
                "deferall down",
                "nonsense",
            ];
            let word = words[self.random.usize(0..words.len())];
            let line = format!("{number}/{offset}\tn\t{word}");
            if self.random.u32(0..20) > 0 {
                self.core.handle(self.now, Event::AgentSaid { agent, line: line.as_bytes() });
            }
        }
        if self.random.u32(0..40) == 0 {
            let line = format!("#resync {number}");
            self.core.handle(self.now, Event::AgentSaid { agent, line: line.as_bytes() });
        }
        self.core.handle(self.now, Event::AgentSaid { agent, line: b"#hungry" });
        if self.random.u32(0..100) == 0 {
            self.core.handle(self.now, Event::LineSkipped { agent, bytes: 70_000 });
        }
    }

    fn agent_ends(&mut self) {
        let Some(agent) = self.an_agent() else { return };
        self.agents.remove(&agent);
        let ends = [AgentEnd::Exited(0), AgentEnd::Exited(75), AgentEnd::Signalled(9)];
        let end = ends[self.random.usize(0..ends.len())].clone();
        self.core.handle(self.now, Event::AgentEnded { agent, end });
    }

    /// Mostly none; the others have no name in the standard library.
    fn trouble(&mut self) -> Option<ErrorKind> {
        let kinds = [
            ErrorKind::StorageFull,
            Error::from_raw_os_error(libc::EIO).kind(),
            ErrorKind::NotFound,
        ];
        (self.random.u32(0..8) == 0).then(|| kinds[self.random.usize(0..kinds.len())])
    }

    fn noted(&mut self) {
        let Some(ticket) = self.notes.pop() else { return };
        let outcome = self.trouble().map_or(Ok(true), Err);
        self.core.handle(self.now, Event::Noted { ticket, outcome });
    }

    fn removed(&mut self) {
        let Some(number) = self.removals.pop() else { return };
        let outcome = self.trouble().map_or(Ok(()), Err);
        self.core.handle(self.now, Event::Removed { number, outcome });
    }

    fn reread(&mut self) {
        let Some(number) = self.rereads.pop() else { return };
        let outcome = match self.random.u32(0..4) {
            0 => RereadResult::Gone,
            1 => RereadResult::Failed(Error::from_raw_os_error(libc::EIO).kind()),
            _ => {
                let arrival = self.arrival(number);
                RereadResult::Read(arrival)
            }
        };
        self.core.handle(self.now, Event::ReadAgain { number, outcome });
    }
}
