//! Waitlists of rings that were refused an agent, because a limit is reached that rings share.
//!
//! There is a waitlist for each such limit, and its rings try again one after the other.
//!
//! A ring without any agent comes before all rings that have one and could use another. Otherwise a
//! ring's place is the time at which it was first refused, moved by [`RING_TIME_SHARE`] for each
//! step between its priority and the usual one. It keeps that place on every waitlist until it gets
//! an agent. So only rings that were refused less than nine time shares after a ring overtake it.

use crate::admission::Admission;
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::dispatch::fair_share::RING_TIME_SHARE;
use crate::query::why::MAX_COUNTED;
use crate::queue::{Queue, Ring, RingId};
use crate::timers::Timer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::priority;
use zsched_format::time::{ClockStep, Timestamp};

/// Maximum number of rings that try again in one pass.
///
/// More are needed only if rings move from one waitlist to another.
const MAX_RINGS_PER_PASS: usize = 1000;

/// The resource that the rings of a waitlist need.
///
/// If the first ring is served with it, the others could be served with it, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Resource {
    /// Agent starts, which are possible again in the next second.
    ForkRate,
    /// A place for an agent under this `maxta`.
    Agents(Option<u32>),
    /// A place for an agent of a channel under this `maxchannel`.
    Channel(Rc<[u8]>, Option<u32>),
}

/// A ring's place on its waitlist; the smallest is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WaitlistPosition {
    /// The ring has agents already.
    pub has_agents: bool,
    /// When it was first refused, adjusted by priority.
    pub queue_time: Timestamp,
    /// Orders rings with the same time.
    sequence: u64,
}

/// One waitlist, in order.
pub type Waitlist = BTreeMap<WaitlistPosition, RingId>;

/// All waitlists.
#[derive(Default, Serialize, Deserialize)]
pub struct AgentWaitlists {
    /// Those that are not empty.
    pub lines: BTreeMap<Resource, Waitlist>,
    next: u64,
    /// An agent or a limit was freed: the rings try again.
    #[serde(skip)]
    pub has_news: bool,
    /// A new second has begun, and rings wait for it: they come before others.
    #[serde(skip)]
    pub may_start_again: bool,
}

impl AgentWaitlists {
    /// Number of rings on waitlists.
    pub fn len(&self) -> usize {
        self.lines.values().map(BTreeMap::len).sum()
    }

    /// Takes the first ring of all waitlists.
    ///
    /// Waitlists in `passed_over` are ignored.
    fn pop(&mut self, passed_over: &[Resource]) -> Option<(Resource, RingId)> {
        let counted = self.lines.iter().filter(|(waitlist, _)| !passed_over.contains(waitlist));
        let firsts =
            counted.filter_map(|(waitlist, rings)| Some((rings.first_key_value()?, waitlist)));
        let ((place, ring), waitlist) = firsts.min_by_key(|((place, _), _)| *place)?;
        let (place, ring, waitlist) = (*place, *ring, waitlist.clone());
        self.remove(&waitlist, place);
        Some((waitlist, ring))
    }

    fn remove(&mut self, waitlist: &Resource, place: WaitlistPosition) {
        if let Some(rings) = self.lines.get_mut(waitlist) {
            rings.remove(&place);
            if rings.is_empty() {
                self.lines.remove(waitlist);
            }
        }
    }
}

/// The `queue_time` of a ring that has waited since `since`.
pub(crate) fn queue_time_of(ring: &Ring, since: Timestamp) -> Timestamp {
    priority::sort_key_with_step(since, ring.clause.mail_priority.level(), RING_TIME_SHARE)
}

/// A pass over the waitlists, whose rings try again one after the other.
///
/// Each list continues until one of its rings is refused again.
pub(crate) struct WaitlistPass {
    /// Number of rings that may still be tried.
    left: usize,
    /// Waitlists of which a ring was refused.
    refused: Vec<Resource>,
    /// The ring that was tried last, and its waitlist.
    last: Option<(RingId, Resource)>,
}

impl Dispatch {
    /// Notes if a new second has begun, for which rings have to wait.
    pub(crate) fn begin_event(&mut self, now: Timestamp) {
        let waits = self.waitlists.lines.contains_key(&Resource::ForkRate);
        self.waitlists.may_start_again = waits && self.fork_rate.is_over(now);
    }

    /// Begins a pass over the waitlists.
    pub(super) fn begin_waitlist_pass(&mut self) {
        let pass = WaitlistPass { left: MAX_RINGS_PER_PASS, refused: Vec::new(), last: None };
        self.waitlist_pass = Some(pass);
    }

    /// Tries to serve the next ring of a pass over the waitlists.
    pub(crate) fn continue_waitlist_pass(
        &mut self,
        queue: &mut Queue,
        admission: &mut Admission,
        cx: &mut Context,
        mut pass: WaitlistPass,
    ) {
        if let Some((ring, waitlist)) = pass.last.take()
            && self.of_rings[ring].waitlist.as_ref() == Some(&waitlist)
        {
            pass.refused.push(waitlist);
        }
        if pass.left == 0 {
            return cx.timers.add(cx.now + Duration::from_millis(1), Timer::ForkRate);
        }
        let Some((waitlist, ring)) = self.waitlists.pop(&pass.refused) else {
            return;
        };
        self.of_rings[ring].waitlist = None;
        self.assign_agent(queue, admission, cx, ring);
        pass.last = Some((ring, waitlist));
        pass.left -= 1;
        self.waitlist_pass = Some(pass);
    }

    /// Adds a ring to a waitlist, unless it is on it already.
    pub(super) fn join_waitlist(
        &mut self,
        queue: &Queue,
        now: Timestamp,
        ring: RingId,
        waitlist: Resource,
    ) {
        // It must leave the waitlist of another resource, where it would stay behind rings that
        // still need that.
        if self.of_rings[ring].waitlist.as_ref() == Some(&waitlist) {
            return;
        }
        self.leave_waitlist(ring);
        self.of_rings[ring].waiting_since.get_or_insert(now);
        let place = self.place_of(queue, now, ring);
        self.of_rings[ring].waitlist = Some(waitlist.clone());
        self.of_rings[ring].waitlist_position = place;
        self.waitlists.next += 1;
        self.waitlists.lines.entry(waitlist).or_default().insert(place, ring);
    }

    /// The place of a ring on its waitlist.
    ///
    /// If it is on none, the place it would get.
    pub(crate) fn place_of(&self, queue: &Queue, now: Timestamp, ring: RingId) -> WaitlistPosition {
        let agents = &self.of_rings[ring];
        if agents.waitlist.is_some() {
            return agents.waitlist_position;
        }
        let since = agents.waiting_since.unwrap_or(now);
        let queue_time = queue_time_of(queue.ring(ring), since);
        WaitlistPosition { has_agents: agents.count > 0, queue_time, sequence: self.waitlists.next }
    }

    /// Restarts the wait of a ring that has lost its last agent.
    pub(crate) fn restart_ring_wait(&mut self, queue: &Queue, now: Timestamp, ring: RingId) {
        self.of_rings[ring].waiting_since = None;
        if let Some(waitlist) = self.of_rings[ring].waitlist.clone() {
            self.leave_waitlist(ring);
            self.join_waitlist(queue, now, ring, waitlist);
        }
    }

    /// Takes a ring off its waitlist, because it gets an agent.
    pub(crate) fn end_ring_wait(&mut self, ring: RingId) {
        self.of_rings[ring].waiting_since = None;
        self.leave_waitlist(ring);
    }

    /// Moves the places, which are times, because the clock was set.
    pub(crate) fn shift_waitlists(&mut self, step: ClockStep) {
        for ring in self.of_rings.iter_mut() {
            ring.starts.shift(step);
            ring.waiting_since = ring.waiting_since.map(|since| since + step);
            ring.waitlist_position.queue_time = ring.waitlist_position.queue_time + step;
        }
        for rings in self.waitlists.lines.values_mut() {
            let members = std::mem::take(rings).into_values();
            *rings = members.map(|ring| (self.of_rings[ring].waitlist_position, ring)).collect();
        }
    }

    /// Takes a ring off its waitlist.
    pub(crate) fn leave_waitlist(&mut self, ring: RingId) {
        let place = self.of_rings[ring].waitlist_position;
        if let Some(waitlist) = self.of_rings[ring].waitlist.take() {
            self.waitlists.remove(&waitlist, place);
        }
    }

    /// Number of rings before a ring on its waitlist, up to [`MAX_COUNTED`].
    pub(crate) fn rings_before(&self, ring: RingId) -> Option<usize> {
        let ring = &self.of_rings[ring];
        let waitlist = self.waitlists.lines.get(ring.waitlist.as_ref()?)?;
        Some(waitlist.range(..ring.waitlist_position).take(MAX_COUNTED).count())
    }

    /// Empties all waitlists, before all rings try again.
    pub(crate) fn clear_waitlists(&mut self) {
        let lines = std::mem::take(&mut self.waitlists.lines);
        for ring in lines.into_values().flat_map(BTreeMap::into_values) {
            self.of_rings[ring].waitlist = None;
        }
    }
}
