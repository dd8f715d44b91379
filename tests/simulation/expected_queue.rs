//! The expected contents of the queue: messages and their unfinished recipients, as events imply.

use std::collections::{BTreeMap, BTreeSet};
use zsched_core::view::Totals;
use zsched_core::{Action, Destination, Event, RereadResult};
use zsched_format::agent_protocol::AgentLine;
use zsched_format::control_file::Tag;
use zsched_spool::Arrival;

/// A recipient: number of its message, and offset in the control file.
pub type Recipient = (u64, u32);

/// Expected queue of the running scheduler, derived from its events and actions.
#[derive(Default)]
pub struct ExpectedQueue {
    messages: BTreeMap<u64, Entry>,
    /// Number of vertices of each destination.
    vertices: BTreeMap<Destination, usize>,
    /// Numbers of messages that were removed.
    ///
    /// Later reports of agents about such a number do not concern the next message that gets it.
    forgotten: BTreeSet<u64>,
    /// Changes since a client began to read a dump.
    pub journal: DumpChanges,
}

/// A message.
struct Entry {
    path: String,
    to_do: BTreeMap<u32, Destination>,
    /// Recipients that may or may not be finished for the scheduler; an observer cannot tell.
    unsure: BTreeMap<u32, Destination>,
    /// Offset of the last recipient line.
    last: u32,
}

/// Changes since a client began to read a dump.
#[derive(Default)]
pub struct DumpChanges {
    pub arrived: BTreeSet<Recipient>,
    pub ended: BTreeSet<Recipient>,
    /// Destinations that had no mail for some time.
    pub emptied: BTreeSet<Destination>,
    pub reloaded: bool,
}

impl ExpectedQueue {
    /// Records an event before the scheduler handles it.
    ///
    /// `lags`: the event is a line of an agent whose earlier answers are ambiguous, so the
    /// scheduler may ignore it.
    pub fn record_event(&mut self, event: &Event<'_>, lags: bool) {
        match event {
            Event::Arrived(arrival) => self.arrived(arrival),
            Event::ReadAgain { number, outcome } => self.read_again(*number, outcome),
            Event::MoreRead { number, outcome: RereadResult::Read(arrival) } => {
                self.more(*number, arrival);
            }
            Event::MoreRead { number, outcome } => self.read_again(*number, outcome),
            Event::Removed { number, outcome: Ok(()) } => self.forget(*number),
            Event::AgentSaid { line, .. } => {
                if let AgentLine::Report(report) = AgentLine::parse(line)
                    && report.status.tag() != Tag::Pending
                {
                    match lags || self.forgotten.contains(&report.number) {
                        true => self.mark_unsure(report.number, report.offset),
                        false => self.end(report.number, report.offset),
                    }
                }
            }
            Event::Configured(_) => self.journal.reloaded = true,
            _ => {}
        }
    }

    /// Records an action of the scheduler.
    pub fn record_action(&mut self, action: &Action) {
        match action {
            Action::Note(note) if note.occasion.ends_recipients() => {
                note.offsets.iter().for_each(|offset| self.end(note.name.number(), *offset));
            }
            Action::PageOut { name, .. } => self.forget(name.number()),
            _ => {}
        }
    }

    fn arrived(&mut self, arrival: &Arrival) {
        let number = arrival.name.number();
        if self.messages.contains_key(&number) {
            return;
        }
        if arrival.next_offset.is_some() || arrival.is_chunk {
            let (path, to_do) = (arrival.name.path(), BTreeMap::new());
            let last = arrival.last_recipient;
            self.messages.insert(number, Entry { path, to_do, unsure: BTreeMap::new(), last });
            return self.more(number, arrival);
        }
        let mut to_do = BTreeMap::new();
        for group in &arrival.groups {
            let destination = Destination::new(&group.channel, &group.host);
            *self.vertices.entry(destination.clone()).or_default() += 1;
            for offset in &group.offsets {
                to_do.insert(*offset, destination.clone());
                self.journal.arrived.insert((number, *offset));
            }
        }
        let (path, last) = (arrival.name.path(), arrival.last_recipient);
        let entry = Entry { path, to_do, unsure: BTreeMap::new(), last };
        self.messages.insert(number, entry);
    }

    /// Records another chunk of a large message. The scheduler decides which recipients are loaded.
    fn more(&mut self, number: u64, arrival: &Arrival) {
        let Some(entry) = self.messages.get_mut(&number) else {
            return;
        };
        entry.last = entry.last.max(arrival.last_recipient);
        for group in &arrival.groups {
            let destination = Destination::new(&group.channel, &group.host);
            for offset in &group.offsets {
                entry.unsure.insert(*offset, destination.clone());
                self.journal.arrived.insert((number, *offset));
            }
            self.journal.emptied.insert(destination);
        }
    }

    /// Records the state of a file that was read again.
    ///
    /// Recipients that are finished in the file are finished in memory, unless an agent has them as
    /// a job.
    fn read_again(&mut self, number: u64, outcome: &RereadResult) {
        let Some(entry) = self.messages.get(&number) else {
            return;
        };
        match outcome {
            RereadResult::Read(arrival) => {
                let groups = arrival.groups.iter().flat_map(|group| &group.offsets);
                let unfinished: BTreeSet<u32> = groups.chain(&arrival.locked).copied().collect();
                let finished = |offset: &&u32| !unfinished.contains(offset);
                let finished: Vec<u32> = entry.to_do.keys().filter(finished).copied().collect();
                finished.into_iter().for_each(|offset| self.mark_unsure(number, offset));
                self.add_alternatives(number, arrival);
            }
            RereadResult::Gone | RereadResult::Malformed(_) => {
                self.forgotten.insert(number);
                self.forget(number);
            }
            RereadResult::Failed(_) => {}
        }
    }

    /// Records recipients that have taken the place of failed ones.
    ///
    /// An agent may have one of them already, which is not known here.
    fn add_alternatives(&mut self, number: u64, arrival: &Arrival) {
        let Some(entry) = self.messages.get_mut(&number) else {
            return;
        };
        let known = entry.last;
        if arrival.locked.iter().any(|offset| *offset > known) {
            // The scheduler reads the file again when the agent is done.
            return;
        }
        entry.last = known.max(arrival.last_recipient);
        for group in &arrival.groups {
            let destination = Destination::new(&group.channel, &group.host);
            for offset in group.offsets.iter().filter(|offset| **offset > known) {
                entry.unsure.insert(*offset, destination.clone());
                self.journal.arrived.insert((number, *offset));
                self.journal.emptied.insert(destination.clone());
            }
        }
    }

    fn forget(&mut self, number: u64) {
        let entry = self.messages.get(&number);
        let left = entry.into_iter().flat_map(|entry| entry.to_do.keys().copied());
        let left: Vec<u32> = left.collect();
        left.into_iter().for_each(|offset| self.end(number, offset));
        self.messages.remove(&number);
    }

    fn mark_unsure(&mut self, number: u64, offset: u32) {
        let entry = self.messages.get(&number);
        let of = |entry: &Entry| entry.to_do.get(&offset).or(entry.unsure.get(&offset)).cloned();
        let destination = entry.and_then(of);
        self.end(number, offset);
        if let Some(destination) = destination
            && let Some(entry) = self.messages.get_mut(&number)
        {
            entry.unsure.insert(offset, destination);
        }
    }

    fn end(&mut self, number: u64, offset: u32) {
        let Some(entry) = self.messages.get_mut(&number) else {
            return;
        };
        entry.unsure.remove(&offset);
        let Some(destination) = entry.to_do.remove(&offset) else {
            return;
        };
        self.journal.ended.insert((number, offset));
        if entry.to_do.values().any(|other| *other == destination) {
            return;
        }
        let left = self.vertices.get_mut(&destination).expect("it was counted when it came");
        *left -= 1;
        if *left == 0 {
            self.vertices.remove(&destination);
            self.journal.emptied.insert(destination);
        }
    }

    /// Returns all unfinished recipients and their destinations.
    pub fn to_do(&self) -> BTreeMap<Recipient, Destination> {
        let mut all = BTreeMap::new();
        for (number, entry) in &self.messages {
            all.extend(entry.to_do.iter().map(|(offset, to)| ((*number, *offset), to.clone())));
        }
        all
    }

    /// Returns the recipients that may or may not be finished.
    pub fn unsure(&self) -> BTreeSet<Recipient> {
        let mut all = BTreeSet::new();
        for (number, entry) in &self.messages {
            all.extend(entry.unsure.keys().map(|offset| (*number, *offset)));
        }
        all
    }

    /// Returns the destination of a recipient that is not finished.
    pub fn destination(&self, number: u64, offset: u32) -> Option<&Destination> {
        let entry = self.messages.get(&number)?;
        entry.to_do.get(&offset).or_else(|| entry.unsure.get(&offset))
    }

    /// Returns true if a recipient may or may not be finished.
    pub fn is_unsure(&self, number: u64, offset: u32) -> bool {
        self.messages.get(&number).is_some_and(|entry| entry.unsure.contains_key(&offset))
    }

    /// Returns true if a message has unfinished recipients for a destination.
    pub fn has_to_do(&self, number: u64, to: &Destination) -> bool {
        self.messages.get(&number).is_some_and(|entry| entry.to_do.values().any(|of| of == to))
    }

    /// Returns the destinations with unfinished recipients.
    pub fn destinations(&self) -> BTreeSet<Destination> {
        self.vertices.keys().cloned().collect()
    }

    /// Returns the path of a message below `transport/`.
    pub fn path(&self, number: u64) -> Option<&str> {
        Some(&self.messages.get(&number)?.path)
    }

    /// Compares the expected contents with the scheduler's totals.
    ///
    /// With packets there may be as many vertices as recipients.
    pub fn check(&self, totals: &Totals, has_packets: bool) {
        assert_eq!(totals.messages, self.messages.len(), "messages that the scheduler knows");
        let sure: usize = self.messages.values().map(|entry| entry.to_do.len()).sum();
        let unsure: usize = self.messages.values().map(|entry| entry.unsure.len()).sum();
        let range = sure as u64..=(sure + unsure) as u64;
        let found = totals.recipients;
        assert!(range.contains(&found), "{found} recipients to do, and not {range:?}");
        let vertices: usize = self.vertices.values().sum();
        let most = if has_packets { sure } else { vertices };
        let is_right = (vertices..=most + unsure).contains(&totals.vertices);
        assert!(is_right, "{} vertices, and not {vertices} (+{unsure})", totals.vertices);
    }
}
