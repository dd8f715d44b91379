//! Rings: all threads of one channel that matched the same clause.
//!
//! A ring has the order in which its threads get an agent. Its agents move between them
//! ([`crate::dispatch`]).

use crate::list::List;
use crate::pool::{Id, Pool};
use crate::queue::jobs::{Jobs, Rules};
use crate::queue::{Queue, ReadyChain, ThreadId};
use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::rc::Rc;
use zsched_config::{Clause, Flow};

/// The number of a ring in memory.
pub type RingId = Id<Ring>;

/// Threads that share agents.
#[derive(Serialize, Deserialize)]
pub struct Ring {
    /// The clause that their destinations matched, with the limit overrides of operators.
    pub clause: Rc<Clause>,
    /// The clause without overrides, as the configuration has it.
    pub configured: Rc<Clause>,
    /// Their channel.
    pub channel: Rc<[u8]>,
    /// Host of its threads, if the clause's command contains `$host`.
    ///
    /// Its agents then serve that host only.
    pub host: Option<Rc<[u8]>>,
    /// Its threads, in arbitrary order.
    pub threads: Vec<ThreadId>,
    /// Threads that are ready for an agent, in order.
    pub ready: List<ReadyChain>,
    /// The order of its jobs, if it chooses by message.
    pub jobs: Option<Box<Jobs>>,
    /// Recipients in its threads.
    pub recipients: u64,
    /// It is marked as changed ([`crate::settle`]).
    #[serde(skip)]
    is_changed: bool,
    /// Its clause is no longer in force.
    ///
    /// It is removed with its last agent, once the sweep of a reload has moved its last thread.
    pub is_retired: bool,
    /// Version of the limits in its clause ([`crate::operator::overrides::Overrides`]).
    pub limits_seen: u32,
}

impl Ring {
    fn new(clause: Rc<Clause>, channel: Rc<[u8]>, host: Option<Rc<[u8]>>) -> Ring {
        Ring {
            jobs: Rules::of(&clause).map(|rules| Box::new(Jobs::new(rules))),
            configured: clause.clone(),
            clause,
            channel,
            host,
            threads: Vec::new(),
            ready: List::new(),
            recipients: 0,
            is_changed: false,
            is_retired: false,
            limits_seen: 0,
        }
    }
}

/// All rings, with an index by key.
#[derive(Default, Serialize, Deserialize)]
pub struct Rings {
    pool: Pool<Ring>,
    by_key: HashMap<RingKey, RingId>,
    /// Number of rings with jobs.
    with_jobs: usize,
    /// Rings to settle: a thread may get an agent, or the ring may be unused.
    // Empty between two events.
    #[serde(skip)]
    changed: VecDeque<RingId>,
    /// Rings of which recipients have left memory, while there are partial messages.
    #[serde(skip)]
    with_room: VecDeque<RingId>,
}

/// Key of a ring: clause, channel, and host if the command contains `$host`.
type RingKey = (zsched_config::ClauseId, Rc<[u8]>, Option<Rc<[u8]>>);

impl Rings {
    /// Finds or creates the ring for a destination whose clause is known.
    ///
    /// Returns true with a ring that is new.
    pub fn find_or_insert(
        &mut self,
        clause: &Rc<Clause>,
        channel: &[u8],
        host: &[u8],
    ) -> (RingId, bool) {
        let with_host = clause.command.as_ref().is_some_and(|command| command.serves_one_host());
        let host = with_host.then(|| Rc::from(host));
        let channel: Rc<[u8]> = Rc::from(channel);
        let key = (clause.id, channel.clone(), host.clone());
        let rings = self.pool.len();
        let ring = *self
            .by_key
            .entry(key)
            .or_insert_with(|| self.pool.insert(Ring::new(clause.clone(), channel, host)));
        let is_new = self.pool.len() > rings;
        self.with_jobs += usize::from(is_new && self.pool[ring].jobs.is_some());
        (ring, is_new)
    }

    /// Clears the index and retires all rings.
    ///
    /// New rings are created for the clauses of a new configuration. The old ones stay while they
    /// have threads or agents, but are not served.
    pub fn retire_all(&mut self) {
        self.by_key.clear();
        for ring in self.pool.iter_mut() {
            ring.is_retired = true;
            if let Some(jobs) = &mut ring.jobs {
                jobs.close();
            }
        }
    }

    pub fn remove(&mut self, id: RingId) {
        let ring = self.pool.remove(id);
        self.with_jobs -= usize::from(ring.jobs.is_some());
        if !ring.is_retired {
            self.by_key.remove(&(ring.clause.id, ring.channel, ring.host));
        }
    }

    /// Marks a ring: a thread of it may get an agent, or it may be unused.
    pub fn mark(&mut self, id: RingId) {
        if !std::mem::replace(&mut self.pool[id].is_changed, true) {
            self.changed.push_back(id);
        }
    }

    /// Marks all rings.
    pub fn mark_all(&mut self) {
        let all: Vec<RingId> = self.pool.iter().map(|(ring, _)| ring).collect();
        all.into_iter().for_each(|ring| self.mark(ring));
    }

    /// Removes the mark of the next ring that is marked, and returns it.
    pub fn next_changed(&mut self) -> Option<RingId> {
        let id = self.changed.pop_front()?;
        self.pool[id].is_changed = false;
        Some(id)
    }

    /// Marks a ring that has room for more recipients.
    pub fn mark_room(&mut self, id: RingId) {
        if self.with_room.back() != Some(&id) {
            self.with_room.push_back(id);
        }
    }

    /// Removes the mark of the next ring that has room, and returns it.
    pub fn next_with_room(&mut self) -> Option<RingId> {
        self.with_room.pop_front()
    }

    /// Returns true if rings are marked.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Returns true if any ring chooses work by message.
    pub fn have_jobs(&self) -> bool {
        self.with_jobs > 0
    }
}

impl std::ops::Deref for Rings {
    type Target = Pool<Ring>;

    fn deref(&self) -> &Pool<Ring> {
        &self.pool
    }
}

impl std::ops::DerefMut for Rings {
    fn deref_mut(&mut self) -> &mut Pool<Ring> {
        &mut self.pool
    }
}

impl Queue {
    /// The clause of a thread, with the limits in force.
    pub fn clause(&self, thread: ThreadId) -> &Clause {
        &self.rings[self.threads[thread].ring].clause
    }

    /// The flow settings in the clause of a thread.
    pub fn flow(&self, thread: ThreadId) -> &Flow {
        &self.clause(thread).flow
    }

    /// The thread of a ring that gets the next agent.
    pub fn next_ready(&self, ring: RingId) -> Option<ThreadId> {
        let ring = &self.rings[ring];
        match &ring.jobs {
            // An arrival is enqueued in the jobs a little later.
            Some(jobs) => jobs.peek().or(ring.ready.first()),
            None => ring.ready.first(),
        }
    }

    /// Adds a thread to the ready threads of its ring.
    pub fn make_ready(&mut self, thread: ThreadId) {
        let thread_ref = &mut self.threads.pool_mut()[thread];
        if std::mem::replace(&mut thread_ref.is_ready, true) {
            return;
        }
        let ring = thread_ref.ring;
        let ring_ref = &mut self.rings[ring];
        ring_ref.ready.push_back(self.threads.pool_mut(), thread);
        if let Some(jobs) = &mut ring_ref.jobs {
            jobs.set_ready(thread, true);
        }
        self.rings.mark(ring);
    }

    /// Removes a thread from the ready threads of its ring.
    pub fn unready(&mut self, thread: ThreadId) {
        let thread_ref = &mut self.threads.pool_mut()[thread];
        if !std::mem::replace(&mut thread_ref.is_ready, false) {
            return;
        }
        let ring = &mut self.rings[thread_ref.ring];
        ring.ready.remove(self.threads.pool_mut(), thread);
        if let Some(jobs) = &mut ring.jobs {
            jobs.set_ready(thread, false);
        }
    }
}
