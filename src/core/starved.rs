//! Rings that were refused an agent for the sake of others: they stand in lines, one for each thing that
//! is scarce, and are asked again in their turn.
//!
//! A ring without any agent comes before all rings that have one and want another. Otherwise a ring's place is
//! the time at which it was first refused, moved by a turn ([`RING_TURN`]) for each step that its priority is away
//! from the usual one; it keeps that place in every line until it gets an agent. So a ring is overtaken only by
//! rings that were refused less than nine turns after it.

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

/// So many rings are asked at a time whether they can be served again. It takes more only if rings move
/// from line to line.
const ASKED_AT_A_TIME: usize = 1000;

/// What a line of rings waits for; whatever the first of them gets, the others would get, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scarcity {
    /// The next second, in which agents may be started again.
    ForkRate,
    /// An agent less in all than this `maxta`.
    Agents(Option<u32>),
    /// An agent less of a channel than this `maxchannel`.
    Channel(Rc<[u8]>, Option<u32>),
}

/// A ring's place in its line. The smallest is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlaceInLine {
    /// Whether the ring has agents already.
    pub has_agents: bool,
    /// When its turn is.
    pub turn: Timestamp,
    /// Tells rings with the same turn apart.
    sequence: u64,
}

/// One line, the first ring first.
pub type Line = BTreeMap<PlaceInLine, RingId>;

/// The lines.
#[derive(Default, Serialize, Deserialize)]
pub struct Starved {
    lines: BTreeMap<Scarcity, Line>,
    next: u64,
}

impl Starved {
    /// Number of rings in lines.
    pub fn len(&self) -> usize {
        self.lines.values().map(BTreeMap::len).sum()
    }

    /// Whether no ring is in a line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether a ring stands in a line.
    pub fn has_line(&self, line: &Scarcity) -> bool {
        self.lines.contains_key(line)
    }

    /// All lines that are not empty.
    pub fn lines(&self) -> impl Iterator<Item = (&Scarcity, &Line)> {
        self.lines.iter()
    }

    /// How often a ring is in a line.
    pub fn times_in_line(&self, ring: RingId, line: Option<&Scarcity>) -> usize {
        let rings = line.and_then(|line| self.lines.get(line));
        rings.map_or(0, |rings| rings.values().filter(|other| **other == ring).count())
    }

    /// Takes the first ring out of the line whose first ring comes before those of all other lines. Lines that
    /// are `passed_over` do not count.
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

/// The turn of a ring that has waited for an agent since some time.
pub(super) fn turn_of(ring: &Ring, since: Timestamp) -> Timestamp {
    priority::turn_in_steps(since, ring.clause.mail_priority.level(), RING_TURN)
}

impl Scheduler {
    /// Puts a ring into a line, unless it is in it already.
    pub(super) fn starve(&mut self, now: Timestamp, ring: RingId, line: Scarcity) {
        // If it waited for something else until now, it would hide behind those that still do.
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

    /// The place that a ring has in its line, or would have in any.
    pub(super) fn place_of(&self, now: Timestamp, ring: RingId) -> PlaceInLine {
        let ring = &self.rings[ring];
        if ring.line.is_some() {
            return ring.place_in_line;
        }
        let since = ring.starved_since.unwrap_or(now);
        let turn = turn_of(ring, since);
        PlaceInLine { has_agents: ring.agents > 0, turn, sequence: self.starved.next }
    }

    /// Lets the rings that were refused an agent try again, each in its turn: of each line as many as
    /// are not refused for the same reason.
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

    /// A ring has lost its last agent: if it waits for one, its wait begins now.
    pub(super) fn has_no_agents(&mut self, now: Timestamp, ring: RingId) {
        self.rings[ring].starved_since = None;
        if let Some(line) = self.rings[ring].line.clone() {
            self.unstarve(ring);
            self.starve(now, ring, line);
        }
    }

    /// A ring gets an agent, and leaves its line.
    pub(super) fn gets_agent(&mut self, ring: RingId) {
        self.rings[ring].starved_since = None;
        self.unstarve(ring);
    }

    /// The clock was set: places are times.
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

    /// Takes a ring out of its line.
    pub(super) fn unstarve(&mut self, ring: RingId) {
        let place = self.rings[ring].place_in_line;
        if let Some(line) = self.rings[ring].line.take() {
            self.starved.remove(&line, place);
        }
    }

    /// Number of rings before a ring in its line, up to [`COUNTED`].
    pub(super) fn rings_before(&self, ring: &Ring) -> Option<usize> {
        let line = self.starved.lines.get(ring.line.as_ref()?)?;
        Some(line.range(..ring.place_in_line).take(COUNTED).count())
    }

    /// Empties all lines, for when everybody is asked anew.
    pub(super) fn forget_starved(&mut self) {
        let lines = std::mem::take(&mut self.starved).lines;
        for ring in lines.into_values().flat_map(BTreeMap::into_values) {
            self.rings[ring].line = None;
        }
    }
}
