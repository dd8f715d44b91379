//! Threads: everything queued for one channel and host.
//!
//! A thread owns the retry state of its destination. At most `maxthr` agents work on it.

use crate::dispatch::AgentId;
use crate::dispatch::window::WindowId;
use crate::list::{Links, List, ListKind};
use crate::pool::{Id, Pool};
use crate::queue::{
    DeferralCount, Destination, RetryJump, RetryPosition, RingId, ThreadChain, Unreachable, Vertex,
    VertexId, VertexState, Waves,
};
use foldhash::HashMap;
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;
use zsched_format::time::{ClockStep, Timestamp};

/// Number of vertices that cost as much as one thread.
///
/// It applies to work that is done in steps.
const VERTICES_PER_THREAD: usize = 10;

/// The number of a thread in memory.
pub type ThreadId = Id<Thread>;

/// All vertices of one channel and host.
#[derive(Serialize, Deserialize)]
pub struct Thread {
    /// Channel and host.
    pub destination: Destination,
    /// The ring whose agents serve it.
    pub ring: RingId,
    /// Its place in the ring's list of threads.
    pub ring_slot: usize,
    /// Vertices to be given to an agent, in order.
    pub due: List<ThreadChain>,
    /// Vertices that are with agents.
    pub fed: List<ThreadChain>,
    /// Vertices that wait for a time.
    pub waiting: Waves,
    /// Vertices of held messages.
    pub held_back: List<ThreadChain>,
    /// Agents working on it, the newest last.
    pub agents: Vec<AgentId>,
    /// Recipients in its vertices.
    pub recipients: u32,
    /// Those of the recipients that were tried and are not with an agent.
    pub deferred: u32,
    /// Reports about its recipients.
    pub attempts: u32,
    /// What is known about the destination as a whole.
    pub retry: Retry,
    /// No vertex of it expires before this time.
    pub expiry_check: Option<Timestamp>,
    /// The time its timer is set to.
    pub timer: Option<Timestamp>,
    /// Number of the last clock step that was applied to it.
    pub last_step: u8,
    /// It is in the ring's list of ready threads.
    pub is_ready: bool,
    /// Neighbours in that list.
    pub in_ready: Links<Thread>,
    /// Agents that died in a row over it, with no report in between.
    pub consecutive_deaths: u8,
    /// An operator holds it, so it gets no agent.
    pub held: bool,
    /// Maximum number of agents that an operator has set.
    pub max_agents: Option<u32>,
    /// Its next agent may come in spite of `wakeuprestartonly`.
    ///
    /// It was woken or released, or has just got an agent and could use more.
    #[serde(skip)]
    pub is_woken: bool,
    /// It is marked as changed ([`crate::settle`]).
    #[serde(skip)]
    is_changed: bool,
    /// Its window, if its clause needs more than a fixed `maxthr`.
    pub window: Option<WindowId>,
}

/// What is known about a destination as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Set while the destination is known to be unreachable.
    pub unreachable: Option<Box<Unreachable>>,
    /// Its place in the clause's `retries`.
    ///
    /// The first entry again when the host answers.
    pub steps: RetryPosition,
    /// Why its last jobs were deferred.
    pub deferrals: DeferralCount,
    /// Where the last random jump in `retries` went.
    pub jump: RetryJump,
}

impl Retry {
    /// Moves all times, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        if let Some(known) = &mut self.unreachable {
            known.until = known.until + step;
        }
        self.steps.shift(step);
    }
}

/// The links of a ring's list of ready threads.
pub enum ReadyChain {}

impl ListKind for ReadyChain {
    type Item = Thread;

    fn links(thread: &Thread) -> &Links<Thread> {
        &thread.in_ready
    }

    fn links_mut(thread: &mut Thread) -> &mut Links<Thread> {
        &mut thread.in_ready
    }
}

impl Thread {
    pub(crate) fn new(destination: Destination, ring: RingId, last_step: u8) -> Thread {
        Thread {
            destination,
            ring,
            ring_slot: 0,
            due: List::new(),
            fed: List::new(),
            waiting: Waves::new(),
            held_back: List::new(),
            agents: Vec::new(),
            recipients: 0,
            deferred: 0,
            attempts: 0,
            retry: Retry::default(),
            expiry_check: None,
            timer: None,
            last_step,
            is_ready: false,
            in_ready: Links::default(),
            consecutive_deaths: 0,
            held: false,
            max_agents: None,
            is_woken: false,
            is_changed: false,
            window: None,
        }
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.due.len() + self.fed.len() + self.waiting.len() + self.held_back.len()
    }

    /// Number of threads that it counts as in stepwise work.
    ///
    /// Its vertices may have to be searched, so they count, too.
    pub fn step_cost(&self) -> usize {
        1 + self.len() / VERTICES_PER_THREAD
    }

    /// Its wake-up or next expiry, whichever is earlier.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.wakeup().into_iter().chain(self.expiry_check).min()
    }

    /// Returns true if nothing is queued for it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if it has neither vertices nor agents.
    pub fn is_unused(&self) -> bool {
        self.is_empty() && self.agents.is_empty()
    }

    /// Its vertices: with agents, due, waiting, held.
    pub fn vertices<'p>(&self, pool: &'p Pool<Vertex>) -> impl Iterator<Item = VertexId> + use<'p> {
        let waiting = self.waiting.iter(pool).chain(self.held_back.iter(pool));
        self.fed.iter(pool).chain(self.due.iter(pool)).chain(waiting)
    }

    /// Next time at which it or a vertex of it is due.
    ///
    /// The destination itself is due when it is unreachable and tried again.
    pub fn wakeup(&self) -> Option<Timestamp> {
        let until = self.retry.unreachable.as_ref().map(|known| known.until);
        self.waiting.next().into_iter().chain(until).min()
    }

    /// Moves a vertex to another list of its thread, or none.
    ///
    /// It comes to the end of the list.
    ///
    /// The wave of a vertex that is to wait must be set before.
    pub fn move_vertex(&mut self, pool: &mut Pool<Vertex>, vertex: VertexId, to: VertexState) {
        self.take_out(pool, vertex);
        pool[vertex].state = to;
        self.deferred += pool[vertex].deferred();
        match to {
            VertexState::Due => self.due.push_back(pool, vertex),
            VertexState::Fed => self.fed.push_back(pool, vertex),
            VertexState::Waiting => self.waiting.push_back(pool, vertex),
            VertexState::Held => self.held_back.push_back(pool, vertex),
            VertexState::Finished => {}
        }
    }

    /// Moves a vertex to the head of the due list.
    pub fn move_vertex_to_head(&mut self, pool: &mut Pool<Vertex>, vertex: VertexId) {
        self.take_out(pool, vertex);
        pool[vertex].state = VertexState::Due;
        self.deferred += pool[vertex].deferred();
        self.due.push_front(pool, vertex);
    }

    fn take_out(&mut self, pool: &mut Pool<Vertex>, vertex: VertexId) {
        self.deferred -= pool[vertex].deferred();
        match pool[vertex].state {
            VertexState::Due => self.due.remove(pool, vertex),
            VertexState::Fed => self.fed.remove(pool, vertex),
            VertexState::Waiting => self.waiting.remove(pool, vertex),
            VertexState::Held => self.held_back.remove(pool, vertex),
            VertexState::Finished => {}
        }
    }
}

/// All threads, with indexes by destination and by host.
#[derive(Default, Serialize, Deserialize)]
pub struct Threads {
    pool: Pool<Thread>,
    by_destination: HashMap<Destination, ThreadId>,
    // A checkpoint does not contain it, because it follows from the rest.
    #[serde(skip)]
    by_host: ByHost,
    /// Number of threads that are held.
    held: usize,
    // Empty between two events.
    #[serde(skip)]
    changed: VecDeque<ThreadId>,
}

impl Threads {
    pub fn find(&self, channel: &[u8], host: &[u8]) -> Option<ThreadId> {
        self.by_destination.get(&Destination::key(channel, host)[..]).copied()
    }

    /// The id of one of these threads.
    pub fn id_of(&self, thread: &Thread) -> Option<ThreadId> {
        self.by_destination.get(&thread.destination).copied()
    }

    pub fn insert(&mut self, mut thread: Thread) -> ThreadId {
        let destination = thread.destination.clone();
        thread.is_changed = true;
        let id = self.pool.insert(thread);
        self.changed.push_back(id);
        self.by_host.insert(destination.host(), id);
        self.by_destination.insert(destination, id);
        id
    }

    pub fn remove(&mut self, id: ThreadId) -> Thread {
        let thread = self.pool.remove(id);
        self.by_destination.remove(&thread.destination);
        self.by_host.remove(thread.destination.host(), id);
        self.held -= usize::from(thread.held);
        thread
    }

    /// All threads of a host, in the order of their ids.
    ///
    /// They are of any channel.
    pub fn of_host(&self, host: &[u8]) -> impl Iterator<Item = ThreadId> {
        let candidates = self.by_host.candidates(host);
        candidates.filter(move |id| self.pool[*id].destination.host() == host)
    }

    /// Number of threads that [`of_host`](Threads::of_host) looks at.
    #[cfg(test)]
    pub fn host_candidates(&self, host: &[u8]) -> usize {
        self.by_host.candidates(host).count()
    }

    /// Rebuilds what a checkpoint does not contain.
    pub fn restore_index(&mut self) {
        self.by_host = ByHost::default();
        for (id, thread) in self.pool.iter() {
            self.by_host.insert(thread.destination.host(), id);
        }
    }

    /// Sets or clears the hold of a thread.
    ///
    /// Returns true if that changes it.
    pub fn set_held(&mut self, id: ThreadId, held: bool) -> bool {
        let was_held = std::mem::replace(&mut self[id].held, held);
        self.held = self.held + usize::from(held) - usize::from(was_held);
        was_held != held
    }

    /// Number of threads that are held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The next thread that is marked as changed.
    ///
    /// The mark stays until [`settled`](Threads::settled), so that settling it does not mark it.
    pub fn next_changed(&mut self) -> Option<ThreadId> {
        // Those that were removed meanwhile are passed over.
        let mut changed = std::iter::from_fn(|| self.changed.pop_front());
        changed.find(|id| self.pool.get(*id).is_some_and(|thread| thread.is_changed))
    }

    /// Marks a thread: something outside it has changed that it depends on.
    pub fn mark(&mut self, id: ThreadId) -> &mut Thread {
        let thread = &mut self.pool[id];
        if !std::mem::replace(&mut thread.is_changed, true) {
            self.changed.push_back(id);
        }
        thread
    }

    /// Removes the mark of a thread that is up to date.
    pub fn settled(&mut self, id: ThreadId) {
        let thread = &mut self.pool[id];
        (thread.is_changed, thread.is_woken) = (false, false);
    }

    pub fn get(&self, id: ThreadId) -> Option<&Thread> {
        self.pool.get(id)
    }

    pub fn len(&self) -> usize {
        self.pool.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (ThreadId, &Thread)> {
        self.pool.iter()
    }

    /// The pool itself, for lists that traverse it.
    pub fn pool(&self) -> &Pool<Thread> {
        &self.pool
    }

    /// The pool itself, for changes that mark no thread.
    ///
    /// They are those of dispatch, and counts on which nothing depends.
    pub fn pool_mut(&mut self) -> &mut Pool<Thread> {
        &mut self.pool
    }
}

/// Index of threads by host.
///
/// It is a set of hashes, since the names are in the threads already. The hash has a random key, so
/// a sender cannot construct hosts with equal hashes. No decision depends on it.
#[derive(Default)]
struct ByHost {
    hasher: RandomState,
    threads: BTreeSet<(u32, ThreadId)>,
}

impl ByHost {
    fn hash(&self, host: &[u8]) -> u32 {
        self.hasher.hash_one(host) as u32
    }

    fn insert(&mut self, host: &[u8], thread: ThreadId) {
        self.threads.insert((self.hash(host), thread));
    }

    fn remove(&mut self, host: &[u8], thread: ThreadId) {
        self.threads.remove(&(self.hash(host), thread));
    }

    /// Threads whose host has the same hash as `host`.
    fn candidates(&self, host: &[u8]) -> impl Iterator<Item = ThreadId> {
        let hash = self.hash(host);
        let same = self.threads.range((hash, ThreadId::FIRST)..);
        same.take_while(move |(other, _)| *other == hash).map(|(_, thread)| *thread)
    }
}

impl std::ops::Index<ThreadId> for Threads {
    type Output = Thread;

    fn index(&self, id: ThreadId) -> &Thread {
        &self.pool[id]
    }
}

impl std::ops::IndexMut<ThreadId> for Threads {
    /// Marks the thread as changed.
    fn index_mut(&mut self, id: ThreadId) -> &mut Thread {
        self.mark(id)
    }
}
