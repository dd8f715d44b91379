//! Tests of the order of work, without the rest of the core.

mod diagrams;
mod model;
mod rank;
mod vectors;

use super::*;
use std::collections::BTreeMap;
use std::time::Duration;

pub const START: Timestamp = Timestamp::from_seconds(1_795_255_200);

/// Rules of a test: only a slot cost.
pub fn rules(cost: u32) -> Rules {
    Rules { cost, discount: 0, loan: 0, minimum: 0 }
}

pub fn thread(number: usize) -> ThreadId {
    ThreadId::from_index(number)
}

impl Jobs {
    /// Returns the jobs in order, each with what is left of it.
    pub fn in_order(&self) -> Vec<&Job> {
        let mut jobs: Vec<&Job> = self.jobs.iter().map(|(_, job)| job).collect();
        jobs.sort_by_key(|job| &job.key);
        jobs
    }

    /// Returns true if there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.jobs.len() == 0
    }
}

/// Jobs with their entries; messages and threads are known by numbers.
pub struct Ring {
    pub jobs: Jobs,
    pub now: Timestamp,
    vertices: usize,
    windows: BTreeMap<usize, usize>,
    under_way: BTreeMap<usize, usize>,
    due: BTreeMap<usize, usize>,
}

impl Ring {
    pub fn new(rules: Rules) -> Ring {
        Ring {
            jobs: Jobs::new(rules),
            now: START,
            vertices: 0,
            windows: BTreeMap::new(),
            under_way: BTreeMap::new(),
            due: BTreeMap::new(),
        }
    }

    /// A message arrives, a second after the last one.
    ///
    /// It has one entry for each of these threads.
    pub fn comes(&mut self, message: usize, threads: &[usize]) {
        self.comes_in_part(message, threads, 0);
    }

    /// Like `comes`, with some recipients that are unread.
    pub fn comes_in_part(&mut self, message: usize, threads: &[usize], unread: u32) {
        self.now += Duration::from_secs(1);
        let mut entries = Vec::new();
        for number in threads {
            entries.push((thread(*number), VertexId::from_index(self.vertices)));
            self.vertices += 1;
            *self.due.entry(*number).or_default() += 1;
        }
        let new_job = NewJob { arrival: self.now, sequence: message as u64, unread };
        self.jobs.join(MessageId::from_index(message), new_job, &entries);
        threads.iter().for_each(|number| self.look_at(*number));
    }

    /// Like `comes`, with `entries` threads that no other message uses.
    pub fn comes_alone(&mut self, message: usize, entries: usize) {
        let first = 1000 * message;
        self.comes(message, &(first..first + entries).collect::<Vec<_>>());
    }

    /// Sets the maximum number of entries of a thread under way.
    ///
    /// The default is no limit.
    pub fn set_window(&mut self, number: usize, window: usize) {
        self.windows.insert(number, window);
        self.look_at(number);
    }

    /// Sets the window of all threads that only this message uses.
    pub fn set_windows(&mut self, message: usize, window: usize) {
        (1000 * message..1000 * message + 60).for_each(|number| self.set_window(number, window));
        self.jobs.check();
    }

    fn look_at(&mut self, number: usize) {
        let window = self.windows.get(&number).copied().unwrap_or(usize::MAX);
        let under_way = self.under_way.get(&number).copied().unwrap_or_default();
        let is_due = self.due.get(&number).is_some_and(|due| *due > 0);
        self.jobs.set_ready(thread(number), is_due && under_way < window);
    }

    /// A hungry agent gets an entry. Returns its message and thread.
    pub fn next(&mut self) -> Option<(usize, usize)> {
        let (chosen, vertex) = self.jobs.choose(self.now, None)?;
        let mut entries = self.jobs.all_entries();
        let job = entries.find(|(_, due, found)| (*due, *found) == (chosen, vertex));
        let (job, _, _) = job.expect("it is due");
        drop(entries);
        let message = self.jobs.jobs[job].message;
        self.jobs.select(message, chosen, vertex);
        *self.due.get_mut(&chosen.index()).expect("it is due") -= 1;
        *self.under_way.entry(chosen.index()).or_default() += 1;
        self.look_at(chosen.index());
        self.jobs.check();
        Some((message.index(), chosen.index()))
    }

    /// An agent has finished an entry.
    pub fn done(&mut self, number: usize) {
        *self.under_way.get_mut(&number).expect("something is under way") -= 1;
        self.look_at(number);
    }

    /// Messages of the next entries, each finished before the next is chosen.
    pub fn sequence(&mut self, length: usize) -> String {
        let mut sequence = String::new();
        for _ in 0..length {
            let Some((message, thread)) = self.next() else {
                break;
            };
            sequence.push_str(&message.to_string());
            self.done(thread);
        }
        sequence
    }

    /// The jobs in order, as text.
    pub fn order(&self) -> String {
        let jobs = self.jobs.in_order().into_iter();
        jobs.map(|job| job.message.index().to_string()).collect::<Vec<_>>().join("--")
    }
}
