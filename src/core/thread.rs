//! Threads: everything queued for one channel and host. A thread owns the retry state of its
//! destination and at most `maxthr` agents work on it.

use super::agent::AgentId;
use super::contact::Deferrals;
use super::destination::Destination;
use super::list::{Chain, Links, List};
use super::pool::{Id, Pool};
use super::retry::{Jump, Steps};
use super::ring::RingId;
use super::unreachable::Unreachable;
use super::vertex::{InThread, Place, Vertex, VertexId};
use super::waves::Waves;
use super::window::WindowId;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use zsched_format::time::{ClockStep, Timestamp};

/// So many vertices count as one thread more, where threads are dealt with in steps.
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
    /// Vertices to be given to an agent, in this order.
    pub due: List<InThread>,
    /// Vertices that agents have.
    pub fed: List<InThread>,
    /// Vertices that wait for a time.
    pub waiting: Waves,
    /// Vertices of messages that are held.
    pub held_back: List<InThread>,
    /// Agents working on it, the newest last.
    pub agents: Vec<AgentId>,
    /// Recipients in its vertices.
    pub recipients: u32,
    /// Reports about its recipients.
    pub attempts: u32,
    /// What is known of the destination as a whole.
    pub retry: Retry,
    /// No vertex of it expires before this time.
    pub expiry_check: Option<Timestamp>,
    /// The time its timer is set to.
    pub timer: Option<Timestamp>,
    /// The number of the last step of the clock that it knows of.
    pub last_step: u8,
    /// It is in the ring's list of threads that want an agent.
    pub is_ready: bool,
    /// Neighbours in that list.
    pub in_ready: Links<Thread>,
    /// Agents that died in a row over it, with no report in between.
    pub deaths: u8,
    /// An operator holds it: it gets no agent.
    pub held: bool,
    /// How many agents may work on it, if an operator has set that.
    pub max_agents: Option<u32>,
    /// Its window, if its clause asks for more than a fixed `maxthr`.
    pub window: Option<WindowId>,
}

/// What is known of a destination as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// It is known to be unreachable.
    pub unreachable: Option<Box<Unreachable>>,
    /// How far it is in the clause's `retries`; it begins anew when the host answers.
    pub steps: Steps,
    /// What its last jobs were deferred for.
    pub deferrals: Deferrals,
    /// Where the last random jump in `retries` went.
    pub jump: Jump,
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

/// The links of a ring's list of threads that want an agent.
pub enum InReady {}

impl Chain for InReady {
    type Item = Thread;

    fn links(thread: &Thread) -> &Links<Thread> {
        &thread.in_ready
    }

    fn links_mut(thread: &mut Thread) -> &mut Links<Thread> {
        &mut thread.in_ready
    }
}

impl Thread {
    pub fn new(destination: Destination, ring: RingId) -> Thread {
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
            attempts: 0,
            retry: Retry::default(),
            expiry_check: None,
            timer: None,
            last_step: 0,
            is_ready: false,
            in_ready: Links::default(),
            deaths: 0,
            held: false,
            max_agents: None,
            window: None,
        }
    }

    /// How many vertices it has.
    pub fn len(&self) -> usize {
        self.due.len() + self.fed.len() + self.waiting.len() + self.held_back.len()
    }

    /// As how many threads it counts where many are dealt with, some in each turn: its vertices may have to be
    /// looked through.
    pub fn step_cost(&self) -> usize {
        1 + self.len() / VERTICES_PER_THREAD
    }

    /// What comes first: its wake-up, or the next expiry.
    pub fn next_look(&self) -> Option<Timestamp> {
        self.wakeup().into_iter().chain(self.expiry_check).min()
    }

    /// Whether nothing is queued for it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its vertices: with agents, due, waiting, held.
    pub fn vertices<'p>(&self, pool: &'p Pool<Vertex>) -> impl Iterator<Item = VertexId> + use<'p> {
        let waiting = self.waiting.iter(pool).chain(self.held_back.iter(pool));
        self.fed.iter(pool).chain(self.due.iter(pool)).chain(waiting)
    }

    /// When something in it becomes due, or the destination is tried again.
    pub fn wakeup(&self) -> Option<Timestamp> {
        let until = self.retry.unreachable.as_ref().map(|known| known.until);
        self.waiting.next().into_iter().chain(until).min()
    }

    /// Takes a vertex of this thread out of the list it is in, and puts it at the end of another. One that
    /// is to wait names its wave.
    pub fn move_vertex(&mut self, pool: &mut Pool<Vertex>, vertex: VertexId, to: Place) {
        self.take_out(pool, vertex);
        pool[vertex].place = to;
        match to {
            Place::Due => self.due.push_back(pool, vertex),
            Place::Fed => self.fed.push_back(pool, vertex),
            Place::Waiting => self.waiting.push_back(pool, vertex),
            Place::Held => self.held_back.push_back(pool, vertex),
            Place::Spent => {}
        }
    }

    /// The same, but puts it at the head of what is due.
    pub fn move_vertex_to_head(&mut self, pool: &mut Pool<Vertex>, vertex: VertexId) {
        self.take_out(pool, vertex);
        pool[vertex].place = Place::Due;
        self.due.push_front(pool, vertex);
    }

    fn take_out(&mut self, pool: &mut Pool<Vertex>, vertex: VertexId) {
        match pool[vertex].place {
            Place::Due => self.due.remove(pool, vertex),
            Place::Fed => self.fed.remove(pool, vertex),
            Place::Waiting => self.waiting.remove(pool, vertex),
            Place::Held => self.held_back.remove(pool, vertex),
            Place::Spent => {}
        }
    }
}

/// All threads, also by destination.
#[derive(Serialize, Deserialize)]
pub struct Threads {
    pool: Pool<Thread>,
    by_destination: HashMap<Destination, ThreadId>,
    // A checkpoint has it not: it follows from the rest.
    #[serde(skip)]
    by_host: ByHost,
    /// How many are held.
    held: usize,
    #[serde(skip)]
    key: Vec<u8>,
}

impl Threads {
    pub fn new() -> Threads {
        Threads {
            pool: Pool::new(),
            by_destination: HashMap::new(),
            by_host: ByHost::default(),
            held: 0,
            key: Vec::new(),
        }
    }

    pub fn find(&mut self, channel: &[u8], host: &[u8]) -> Option<ThreadId> {
        let key = Destination::key(channel, host, &mut self.key);
        self.by_destination.get(key).copied()
    }

    /// The same, for whoever must not change anything.
    pub fn find_existing(&self, channel: &[u8], host: &[u8]) -> Option<ThreadId> {
        self.by_destination.get(Destination::key(channel, host, &mut Vec::new())).copied()
    }

    /// The id of one of these threads.
    pub fn id_of(&self, thread: &Thread) -> Option<ThreadId> {
        self.by_destination.get(&thread.destination).copied()
    }

    pub fn insert(&mut self, thread: Thread) -> ThreadId {
        let destination = thread.destination.clone();
        let id = self.pool.insert(thread);
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

    /// All threads of a host, on any channel, in the order of their ids.
    pub fn of_host(&self, host: &[u8]) -> impl Iterator<Item = ThreadId> {
        let candidates = self.by_host.candidates(host);
        candidates.filter(move |id| self.pool[*id].destination.host() == host)
    }

    /// How many threads [`of_host`](Threads::of_host) looks at.
    #[cfg(test)]
    pub fn looked_at_for(&self, host: &[u8]) -> usize {
        self.by_host.candidates(host).count()
    }

    /// Rebuilds what a checkpoint does not contain.
    pub fn restore_index(&mut self) {
        self.by_host = ByHost::default();
        for (id, thread) in self.pool.iter() {
            self.by_host.insert(thread.destination.host(), id);
        }
    }

    /// Says whether one is held. Tells whether that has changed.
    pub fn set_held(&mut self, id: ThreadId, held: bool) -> bool {
        let was_held = std::mem::replace(&mut self.pool[id].held, held);
        self.held = self.held + usize::from(held) - usize::from(was_held);
        was_held != held
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.held
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

    /// The pool itself, for lists that go through it.
    pub fn pool(&self) -> &Pool<Thread> {
        &self.pool
    }

    /// The same, for lists that change.
    pub fn pool_mut(&mut self) -> &mut Pool<Thread> {
        &mut self.pool
    }
}

/// Index of threads by host: a set of hashes, as the names are in the threads already.
///
/// The hash has a random key, so hosts with equal hashes cannot be made up. No decision depends on it.
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

    /// Threads whose host has the hash of this one.
    fn candidates(&self, host: &[u8]) -> impl Iterator<Item = ThreadId> {
        let hash = self.hash(host);
        let first = Bound::Included((hash, ThreadId::FIRST));
        let end = hash
            .checked_add(1)
            .map_or(Bound::Unbounded, |next| Bound::Excluded((next, ThreadId::FIRST)));
        self.threads.range((first, end)).map(|(_, thread)| *thread)
    }
}

impl std::ops::Index<ThreadId> for Threads {
    type Output = Thread;

    fn index(&self, id: ThreadId) -> &Thread {
        &self.pool[id]
    }
}

impl std::ops::IndexMut<ThreadId> for Threads {
    fn index_mut(&mut self, id: ThreadId) -> &mut Thread {
        &mut self.pool[id]
    }
}
