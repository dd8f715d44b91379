//! Waitlists of rings that were refused an agent.
//!
//! Limits that they share with others leave too few.
//!
//! There is a waitlist for each scarce resource, and its rings try again in turn.
//!
//! A ring without any agent comes before all rings that have one and could use another. Otherwise a
//! ring's place is the time at which it was first refused, moved by a turn ([`RING_TURN`]) for each
//! step between its priority and the usual one. It keeps that place on every waitlist until it gets
//! an agent. So a ring is overtaken only by rings that were refused less than nine turns after it.

use super::Scheduler;
use super::ring::{Ring, RingId};
use super::share::RING_TURN;
use super::timers::Timer;
use super::why::COUNTED;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::priority;
use zsched_format::time::{ClockStep, Timestamp};

/// Maximum number of rings that try again in one call.
///
/// More are needed only if rings move from one waitlist to another.
const ASKED_AT_A_TIME: usize = 1000;

/// The resource that the rings of a waitlist need.
///
/// If the first ring is served with it, the others could be served with it, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scarcity {
    /// Agent starts, which are possible again in the next second.
    ForkRate,
    /// A place for an agent under this `maxta`.
    Agents(Option<u32>),
    /// A place for an agent of a channel under this `maxchannel`.
    Channel(Rc<[u8]>, Option<u32>),
}

/// A ring's place on its waitlist; the smallest is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlaceInLine {
    /// The ring has agents already.
    pub has_agents: bool,
    /// Its turn.
    pub turn: Timestamp,
    /// Orders rings with the same turn.
    sequence: u64,
}

/// One waitlist, in order.
pub type Line = BTreeMap<PlaceInLine, RingId>;

/// All waitlists.
#[derive(Default, Serialize, Deserialize)]
pub struct Starved {
    lines: BTreeMap<Scarcity, Line>,
    next: u64,
}

impl Starved {
    /// Number of rings on waitlists.
    pub fn len(&self) -> usize {
        self.lines.values().map(BTreeMap::len).sum()
    }

    /// Returns true if no ring is on a waitlist.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns true if a ring is on this waitlist.
    pub fn has_line(&self, line: &Scarcity) -> bool {
        self.lines.contains_key(line)
    }

    /// All waitlists that are not empty.
    pub fn lines(&self) -> impl Iterator<Item = (&Scarcity, &Line)> {
        self.lines.iter()
    }

    /// Number of entries of a ring on a waitlist.
    pub fn times_in_line(&self, ring: RingId, line: Option<&Scarcity>) -> usize {
        let rings = line.and_then(|line| self.lines.get(line));
        rings.map_or(0, |rings| rings.values().filter(|other| **other == ring).count())
    }

    /// Takes the first ring of all waitlists.
    ///
    /// Waitlists in `passed_over` are ignored.
    fn pop(&mut self, passed_over: &[Scarcity]) -> Option<(Scarcity, RingId)> {
        let counts = |(line, _): &(&Scarcity, &Line)| !passed_over.contains(line);
        let first =
            self.lines.iter().filter(counts).min_by_key(|(_, rings)| rings.keys().next())?;
        let line = first.0.clone();
        let rings = self.lines.get_mut(&line)?;
        let (_, ring) = rings.pop_first()?;
        if rings.is_empty() {
            self.lines.remove(&line);
        }
        Some((line, ring))
    }

    fn remove(&mut self, line: &Scarcity, place: PlaceInLine) {
        if let Some(rings) = self.lines.get_mut(line) {
            rings.remove(&place);
            if rings.is_empty() {
                self.lines.remove(line);
            }
        }
    }
}

/// The turn of a ring that has waited since `since`.
pub(super) fn turn_of(ring: &Ring, since: Timestamp) -> Timestamp {
    priority::turn_in_steps(since, ring.clause.mail_priority.level(), RING_TURN)
}

impl Scheduler {
    /// Adds a ring to a waitlist, unless it is on it already.
    pub(super) fn starve(&mut self, now: Timestamp, ring: RingId, line: Scarcity) {
        // It must leave the waitlist of another resource, where it would stay behind rings that
        // still need that.
        if self.rings[ring].line.as_ref() == Some(&line) {
            return;
        }
        self.unstarve(ring);
        let ring_ref = &mut self.rings[ring];
        ring_ref.starved_since.get_or_insert(now);
        let place = self.place_of(now, ring);
        self.rings[ring].line = Some(line.clone());
        self.rings[ring].place_in_line = place;
        self.starved.next += 1;
        self.starved.lines.entry(line).or_default().insert(place, ring);
    }

    /// The place of a ring on its waitlist.
    ///
    /// If it is on none, the place it would get.
    pub(super) fn place_of(&self, now: Timestamp, ring: RingId) -> PlaceInLine {
        let ring = &self.rings[ring];
        if ring.line.is_some() {
            return ring.place_in_line;
        }
        let since = ring.starved_since.unwrap_or(now);
        let turn = turn_of(ring, since);
        PlaceInLine { has_agents: ring.agents > 0, turn, sequence: self.starved.next }
    }

    /// Tries again to serve rings on waitlists, in turn.
    ///
    /// Each list continues until one of its rings is refused again.
    pub(super) fn serve_starved(&mut self, now: Timestamp) {
        let mut left = ASKED_AT_A_TIME;
        let mut refused = Vec::new();
        while left > 0
            && let Some((line, ring)) = self.starved.pop(&refused)
        {
            left -= 1;
            self.rings[ring].line = None;
            self.serve(now, ring);
            if self.rings[ring].line.as_ref() == Some(&line) {
                refused.push(line);
            }
        }
        if left == 0 {
            self.timers.add(now + Duration::from_millis(1), Timer::ForkRate);
        }
    }

    /// Restarts the wait of a ring that has lost its last agent.
    pub(super) fn has_no_agents(&mut self, now: Timestamp, ring: RingId) {
        self.rings[ring].starved_since = None;
        if let Some(line) = self.rings[ring].line.clone() {
            self.unstarve(ring);
            self.starve(now, ring, line);
        }
    }

    /// Takes a ring off its waitlist, because it gets an agent.
    pub(super) fn gets_agent(&mut self, ring: RingId) {
        self.rings[ring].starved_since = None;
        self.unstarve(ring);
    }

    /// Moves the places, which are times, because the clock was set.
    pub(super) fn shift_starved(&mut self, step: ClockStep) {
        for ring in self.rings.iter_mut() {
            ring.starts.shift(step);
            ring.starved_since = ring.starved_since.map(|since| since + step);
            ring.place_in_line.turn = ring.place_in_line.turn + step;
        }
        for rings in self.starved.lines.values_mut() {
            let members = std::mem::take(rings).into_values();
            *rings = members.map(|ring| (self.rings[ring].place_in_line, ring)).collect();
        }
    }

    /// Takes a ring off its waitlist.
    pub(super) fn unstarve(&mut self, ring: RingId) {
        let place = self.rings[ring].place_in_line;
        if let Some(line) = self.rings[ring].line.take() {
            self.starved.remove(&line, place);
        }
    }

    /// Number of rings before a ring on its waitlist, up to [`COUNTED`].
    pub(super) fn rings_before(&self, ring: &Ring) -> Option<usize> {
        let line = self.starved.lines.get(ring.line.as_ref()?)?;
        Some(line.range(..ring.place_in_line).take(COUNTED).count())
    }

    /// Empties all waitlists, before all rings try again.
    pub(super) fn forget_starved(&mut self) {
        let lines = std::mem::take(&mut self.starved).lines;
        for ring in lines.into_values().flat_map(BTreeMap::into_values) {
            self.rings[ring].line = None;
        }
    }
}
