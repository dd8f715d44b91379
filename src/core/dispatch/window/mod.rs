//! Windows: limits on agents and delivery starts of a destination.
//!
//! A thread has a window if its clause needs more than the fixed `maxthr` of a classic one:
//! feedback, dead destinations, a rate, or a window that threads share. A thread that could use an
//! agent asks its window. If there is room, it joins the ready threads of its ring; otherwise it
//! waits here until there is.
//!
//! ```text
//!             wants an agent          room               gets an agent
//!   thread ──────────────────► waiting ────► ready (ring) ─────────────► at work
//! ```
//!
//! So the ready threads of a window and its agents together never exceed its size.

mod broadcast;
mod delivery_signal;
mod feedback;
mod pace;
mod relay;
mod window_reason;

use crate::context::Context;
use crate::dispatch::{AgentId, Dispatch};
use crate::pool::{Id, Pool};
use crate::queue::{Cause, Queue, Thread, ThreadId, Unreachable, UnreachableReason};
use crate::timers::{Timer, Timers};
use broadcast::MemberRound;
use feedback::Feedback;
use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use zsched_format::time::{ClockStep, Timestamp};

pub use broadcast::MemberAction;
pub use delivery_signal::DeliverySignal;
pub use relay::Relays;

/// The number of a window in memory.
pub type WindowId = Id<Window>;

/// Limits for a destination, or for several that share one window.
#[derive(Default, Serialize, Deserialize)]
pub struct Window {
    /// Its name, if it may be shared.
    pub name: Option<Rc<[u8]>>,
    /// The size learned from deliveries.
    pub feedback: Feedback,
    /// Agents at work on its threads.
    pub agents: u32,
    /// It was dead: one agent checks if it still is.
    pub is_probing: bool,
    /// It is dead until this time.
    pub resume: Option<Timestamp>,
    /// The report that made it dead.
    pub cause: Cause,
    /// Time at which the next delivery may start.
    pub pace: pace::Pace,
    /// Its size changes with feedback.
    is_learned: bool,
    /// Its threads, each with the limit of its clause.
    members: BTreeMap<ThreadId, u32>,
    /// Number of members with each limit: the lowest limit applies.
    limits: BTreeMap<u32, u32>,
    /// Threads that wait for room.
    waiting: BTreeSet<ThreadId>,
    /// Threads that are ready in their rings.
    pub ready: BTreeSet<ThreadId>,
    /// The thread that became ready last.
    last_admitted: Option<ThreadId>,
    /// The action for all members that is under way.
    round: Option<MemberRound>,
    /// It is marked as changed ([`crate::settle`]).
    #[serde(skip)]
    is_changed: bool,
}

impl Window {
    fn new(name: Option<Rc<[u8]>>, concurrency: u32) -> Window {
        Window { name, feedback: Feedback::new(concurrency), is_changed: true, ..Window::default() }
    }

    /// Maximum number of agents that may work in it now.
    pub fn size(&self) -> usize {
        if self.is_suspending() {
            return 0;
        }
        let most = self.limits.first_key_value().map_or(1, |(limit, _)| *limit);
        let most = if self.is_learned { most.min(self.feedback.concurrency) } else { most };
        if self.is_probing { 1 } else { most as usize }
    }

    /// Why its members wait, if it is dead.
    pub fn suspension(&self) -> Option<Unreachable> {
        let reason = UnreachableReason::Dead;
        self.resume.map(|until| Unreachable { until, reason, cause: self.cause.clone() })
    }

    /// Returns true while its members are being suspended.
    fn is_suspending(&self) -> bool {
        self.round.is_some_and(|round| round.action == MemberAction::Suspend)
    }

    /// Returns true while its members are being woken.
    fn is_waking(&self) -> bool {
        self.round.is_some_and(|round| round.action == MemberAction::Wake)
    }

    /// Sets the limit of a member, or adds it.
    fn set_limit(&mut self, thread: ThreadId, limit: u32) {
        if let Some(former) = self.members.insert(thread, limit) {
            self.forget_limit(former);
        }
        *self.limits.entry(limit).or_default() += 1;
    }

    fn drop_member(&mut self, thread: ThreadId) {
        if let Some(limit) = self.members.remove(&thread) {
            self.forget_limit(limit);
        }
    }

    fn forget_limit(&mut self, limit: u32) {
        if let Entry::Occupied(mut count) = self.limits.entry(limit) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// The thread that becomes ready next: members take turns.
    fn next_waiting(&self) -> Option<ThreadId> {
        let behind = self.last_admitted.and_then(|last_admitted| {
            self.waiting.range(last_admitted..).find(|id| **id != last_admitted)
        });
        behind.or_else(|| self.waiting.first()).copied()
    }

    /// Number of agents at work or reserved for ready threads.
    fn taken(&self) -> usize {
        self.agents as usize + self.ready.len()
    }
}

/// All windows, with an index by name.
#[derive(Default, Serialize, Deserialize)]
pub struct Windows {
    pool: Pool<Window>,
    by_name: HashMap<Rc<[u8]>, WindowId>,
    /// Windows with an action for all members that is not complete.
    rounds: BTreeSet<WindowId>,
    /// Those whose action has started in this event.
    #[serde(skip)]
    started: VecDeque<WindowId>,
    /// The relay of each destination.
    pub relays: Relays,
    // Empty between two events.
    #[serde(skip)]
    changed: VecDeque<WindowId>,
}

impl Windows {
    /// Finds or creates the window of a name.
    ///
    /// Without a name, creates one.
    fn find_or_insert(&mut self, name: Option<Vec<u8>>, concurrency: u32) -> WindowId {
        let name: Option<Rc<[u8]>> = name.map(Rc::from);
        if let Some(window) = name.as_ref().and_then(|name| self.by_name.get(name)) {
            return *window;
        }
        let window = self.pool.insert(Window::new(name.clone(), concurrency));
        self.changed.push_back(window);
        self.by_name.extend(name.map(|name| (name, window)));
        window
    }

    /// The window of a thread, if it has one.
    pub fn of(&self, thread: &Thread) -> Option<&Window> {
        thread.window.map(|window| &self.pool[window])
    }

    fn remove(&mut self, id: WindowId) -> Window {
        let window = self.pool.remove(id);
        self.rounds.remove(&id);
        if let Some(name) = &window.name {
            self.by_name.remove(name);
        }
        window
    }

    /// The next window that is marked as changed.
    ///
    /// The mark stays until [`Dispatch::admit`] has finished, so that admitting does not mark it.
    pub fn next_changed(&mut self) -> Option<WindowId> {
        let mut changed = std::iter::from_fn(|| self.changed.pop_front());
        changed.find(|id| self.pool.get(*id).is_some_and(|window| window.is_changed))
    }

    pub fn iter(&self) -> impl Iterator<Item = (WindowId, &Window)> {
        self.pool.iter()
    }

    /// Moves all times, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        for window in self.pool.iter_mut() {
            window.pace.shift(step);
            window.resume = window.resume.map(|time| time + step);
        }
    }
}

impl std::ops::Index<WindowId> for Windows {
    type Output = Window;

    fn index(&self, id: WindowId) -> &Window {
        &self.pool[id]
    }
}

impl std::ops::IndexMut<WindowId> for Windows {
    /// Marks the window as changed.
    fn index_mut(&mut self, id: WindowId) -> &mut Window {
        let window = &mut self.pool[id];
        if !std::mem::replace(&mut window.is_changed, true) {
            self.changed.push_back(id);
        }
        window
    }
}

impl Dispatch {
    /// The next window that is marked as changed.
    pub(crate) fn next_changed_window(&mut self) -> Option<WindowId> {
        self.windows.next_changed()
    }

    /// Puts a thread into the window of its clause, if any.
    pub(crate) fn join_window(&mut self, queue: &mut Queue, cx: &mut Context, thread: ThreadId) {
        let flow = queue.flow(thread);
        if !flow.is_controlled() {
            return self.leave_window(queue, cx, thread);
        }
        let destination = &queue.thread(thread).destination;
        let relay = self.windows.relays.of(destination);
        let name = flow.key.as_ref().and_then(|key| key.name(destination.host(), relay));
        let present = self.windows.of(queue.thread(thread));
        if present.is_some_and(|window| window.name.as_deref() == name.as_deref()) {
            return;
        }
        self.leave_window(queue, cx, thread);
        let initial = self.initial_window(queue, thread);
        let window = self.windows.find_or_insert(name, initial);
        let agents = queue.thread(thread).agents.len() as u32;
        self.windows[window].agents += agents;
        queue.set_window(thread, Some(window));
        self.refresh_limit(queue, window, thread);
        self.wait_with_window(queue, cx, thread);
    }

    /// Removes a thread from its window, if it has one.
    pub(crate) fn leave_window(&mut self, queue: &mut Queue, cx: &mut Context, thread: ThreadId) {
        let Some(id) = queue.set_window(thread, None) else {
            return;
        };
        let agents = queue.thread(thread).agents.len() as u32;
        let window = &mut self.windows[id];
        window.drop_member(thread);
        window.waiting.remove(&thread);
        window.ready.remove(&thread);
        window.agents -= agents;
        if window.members.is_empty() {
            let window = self.windows.remove(id);
            if let Some(time) = window.pace.timer() {
                cx.timers.cancel(time, Timer::Window(id));
            }
        } else if window.agents == 0 {
            window.pace.forget_delivery();
        }
    }

    /// Counts an agent that begins to work on a thread.
    pub(crate) fn enter_window(
        &mut self,
        queue: &Queue,
        cx: &mut Context,
        agent: AgentId,
        thread: ThreadId,
    ) {
        if let Some(window) = queue.thread(thread).window {
            self.windows[window].agents += 1;
            let has_permit = self.try_start_delivery(queue, cx, thread);
            self.agents[agent].has_delivery_permit = has_permit;
        }
    }

    /// Counts an agent that no longer works on a thread.
    ///
    /// `had_permit` is true if it was allowed to start a delivery, and has not started one.
    pub(crate) fn leave_window_with_agent(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        thread: ThreadId,
        had_permit: bool,
    ) {
        if let Some(window) = queue.thread(thread).window {
            self.windows[window].agents -= 1;
            if had_permit {
                self.cancel_start(cx, window);
                self.reserve_place(queue, cx, window, thread);
            }
            self.pause_after_delivery(queue, cx, thread);
        }
    }

    /// Updates the demand of a thread for agents in its window.
    pub(crate) fn update_window_demand(
        &mut self,
        queue: &mut Queue,
        id: WindowId,
        thread: ThreadId,
        wants: bool,
    ) {
        self.refresh_limit(queue, id, thread);
        let waits = self.windows[id].waiting.contains(&thread);
        if !wants {
            if waits {
                self.windows[id].waiting.remove(&thread);
            }
            self.unready(queue, thread);
        } else if !waits && !self.windows[id].ready.contains(&thread) {
            self.windows[id].waiting.insert(thread);
        }
    }

    /// Keeps a thread's place in the window.
    ///
    /// The agent was started for the thread, and gets the next entry of its ring instead. Otherwise
    /// threads that share the window might start agents for each other indefinitely.
    fn reserve_place(&mut self, queue: &mut Queue, cx: &Context, id: WindowId, thread: ThreadId) {
        let window = &self.windows[id];
        if window.taken() < window.size()
            && !window.ready.contains(&thread)
            && self.needs_agent(queue, cx, thread)
        {
            self.admit_thread(queue, id, thread);
        }
    }

    /// Panics if windows and threads disagree.
    pub(super) fn check_windows(&self, queue: &Queue, timers: &Timers) {
        for (id, window) in self.windows.iter() {
            let of_window = |thread: &ThreadId| queue.thread(*thread).window == Some(id);
            assert!(window.members.keys().all(of_window) && !window.members.is_empty(), "members");
            assert!(window.waiting.iter().all(of_window), "a stranger waits");
            assert!(window.ready.iter().all(of_window), "a stranger is ready");
            let is_in_round = self.windows.rounds.contains(&id);
            assert_eq!(window.round.is_some(), is_in_round, "a window and its round disagree");
            let limits: u32 = window.limits.values().sum();
            assert_eq!(limits as usize, window.members.len(), "limits of members");
            assert!(window.ready.is_disjoint(&window.waiting), "ready, and waits");
            let agents: usize =
                window.members.keys().map(|thread| queue.thread(*thread).agents.len()).sum();
            assert_eq!(window.agents as usize, agents, "agents of a window");
            for thread in window.members.keys() {
                let is_ready = queue.thread(*thread).is_ready;
                assert_eq!(is_ready, window.ready.contains(thread), "ready in its window");
                assert!(!is_ready || window.taken() <= window.size(), "overfull");
                let could = !window.pace.is_paused() && window.taken() < window.size();
                assert!(!could || !window.waiting.contains(thread), "there is room, but it waits");
            }
            if let Some(time) = window.pace.timer() {
                assert!(timers.contains(time, Timer::Window(id)), "a pace without a timer");
            }
            assert!(
                !window.pace.is_paused() || window.pace.timer().is_some() || window.agents > 0,
                "no timer ends the pause of a window"
            );
        }
        let members: usize = self.windows.iter().map(|(_, window)| window.members.len()).sum();
        let threads = queue.threads().iter().filter(|(_, thread)| thread.window.is_some()).count();
        assert_eq!(members, threads, "threads in windows");
    }

    /// Initial size of a thread's window, in agents.
    pub(crate) fn initial_window(&self, queue: &Queue, thread: ThreadId) -> u32 {
        let most = queue.max_thread(queue.thread(thread));
        queue.flow(thread).initial.map_or(most, |initial| initial.min(most))
    }

    /// Updates the limit of a thread in its window from its clause.
    fn refresh_limit(&mut self, queue: &Queue, id: WindowId, thread: ThreadId) {
        let flow = queue.flow(thread);
        let is_learned = flow.has_feedback() || flow.initial.is_some();
        let limit = if flow.delay.is_some() { 1 } else { queue.max_thread(queue.thread(thread)) };
        let window = &self.windows[id];
        if window.is_learned != is_learned || window.members.get(&thread) != Some(&limit) {
            let window = &mut self.windows[id];
            window.is_learned = is_learned;
            window.set_limit(thread, limit);
        }
    }

    /// Learned size of a thread's window, in agents.
    ///
    /// `None` if it is the initial one.
    pub(crate) fn learned_window(&self, queue: &Queue, thread: ThreadId) -> Option<u32> {
        let window = &self.windows[queue.thread(thread).window?];
        let size = window.feedback.concurrency;
        let is_learned =
            queue.flow(thread).has_feedback() && size != self.initial_window(queue, thread);
        is_learned.then_some(size)
    }

    /// Restores the size of a window from learned state.
    pub(crate) fn restore_window(&mut self, queue: &Queue, thread: ThreadId, size: u32) {
        let most = queue.max_thread(queue.thread(thread));
        let has_feedback = queue.flow(thread).has_feedback();
        if let Some(window) = queue.thread(thread).window.filter(|_| has_feedback) {
            self.windows[window].feedback = Feedback::new(size.min(most));
        }
    }

    /// Returns true if a thread has a window that no other thread shares.
    pub(crate) fn is_alone_in_window(&self, queue: &Queue, thread: ThreadId) -> bool {
        self.windows.of(queue.thread(thread)).is_some_and(|window| window.members.len() == 1)
    }

    /// Present size of a thread's window, in agents.
    pub(crate) fn window_size(&self, queue: &Queue, thread: &Thread) -> usize {
        self.windows.of(thread).map_or_else(|| queue.max_thread(thread) as usize, Window::size)
    }

    /// Makes threads of a window ready, as far as there is room.
    ///
    /// If there is too little room, makes ready threads wait again.
    pub(crate) fn admit(&mut self, queue: &mut Queue, id: WindowId) {
        while let Some(thread) = self.windows[id].ready.last().copied()
            && (self.windows[id].pace.is_paused()
                || self.windows[id].taken() > self.windows[id].size())
        {
            self.unready(queue, thread);
            self.windows[id].waiting.insert(thread);
        }
        while !self.windows[id].pace.is_paused()
            && let Some(thread) = self.windows[id].next_waiting()
            && self.windows[id].taken() < self.windows[id].size()
        {
            self.windows[id].last_admitted = Some(thread);
            self.admit_thread(queue, id, thread);
        }
        self.windows.pool[id].is_changed = false;
    }

    /// Makes a thread of a window ready.
    fn admit_thread(&mut self, queue: &mut Queue, id: WindowId, thread: ThreadId) {
        let window = &mut self.windows[id];
        window.waiting.remove(&thread);
        window.ready.insert(thread);
        queue.make_ready(thread);
    }

    /// Returns true if a thread waits for room in its window.
    pub(crate) fn waits_for_window(&self, queue: &Queue, thread: ThreadId) -> bool {
        let window = self.windows.of(queue.thread(thread));
        window.is_some_and(|window| window.waiting.contains(&thread))
    }

    /// Returns true if the window of a thread is over its size.
    pub(crate) fn window_exceeds_size(&self, thread: &Thread) -> bool {
        self.windows.of(thread).is_some_and(|window| window.agents as usize > window.size())
    }
}
