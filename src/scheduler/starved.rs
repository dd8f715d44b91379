//! Rings that were refused an agent for the sake of others: they stand in lines, one for each thing that
//! is scarce, and are asked again in their turn.
//!
//! Where no clause has a priority, turns are those in which rings were refused. Else a ring keeps its
//! place until it gets an agent, and the place is the time at which it was first refused, moved by a
//! minute for each step that its priority is away from the usual one: so a ring is overtaken by those
//! only that were refused less than nine minutes after it, and by each of them once.

use super::Scheduler;
use super::ring::RingId;
use super::timers::Timer;
use crate::config::priority::{self, USUAL};
use crate::time::{ClockStep, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

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

/// A ring's place in its line: when its turn is, and which of several came first.
pub type PlaceInLine = (Timestamp, u64);

/// The lines.
#[derive(Default, Serialize, Deserialize)]
pub struct Starved {
    lines: BTreeMap<Scarcity, BTreeMap<PlaceInLine, RingId>>,
    /// The line whose turn it is to be asked first.
    turn: usize,
    /// There is a ring with a priority of its own, or was.
    is_ranked: bool,
    next: u64,
}

impl Starved {
    /// How many rings are in lines.
    pub fn len(&self) -> usize {
        self.lines.values().map(BTreeMap::len).sum()
    }

    /// Whether somebody stands in a line.
    pub fn has_line(&self, line: &Scarcity) -> bool {
        self.lines.contains_key(line)
    }

    /// All lines, beginning with another one each time.
    fn in_turn(&mut self) -> Vec<Scarcity> {
        let mut lines: Vec<Scarcity> = self.lines.keys().cloned().collect();
        if !lines.is_empty() {
            self.turn = (self.turn + 1) % lines.len();
            lines.rotate_left(self.turn);
        }
        lines
    }

    /// How often a ring is in a line.
    pub fn times_in_line(&self, ring: RingId, line: Option<&Scarcity>) -> usize {
        let rings = line.and_then(|line| self.lines.get(line));
        rings.map_or(0, |rings| rings.values().filter(|other| **other == ring).count())
    }

    /// Adds a ring to a line.
    fn push(&mut self, line: Scarcity, ring: RingId, since: Timestamp, level: u8) -> PlaceInLine {
        self.is_ranked |= level != USUAL;
        let turn = if self.is_ranked { priority::turn(since, level) } else { Timestamp::EPOCH };
        let place = (turn, self.next);
        self.next += 1;
        self.lines.entry(line).or_default().insert(place, ring);
        place
    }

    fn pop(&mut self, line: &Scarcity) -> Option<RingId> {
        let rings = self.lines.get_mut(line)?;
        let first = rings.pop_first();
        if rings.is_empty() {
            self.lines.remove(line);
        }
        first.map(|(_, ring)| ring)
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

impl Scheduler {
    /// Puts a ring into a line, unless it is in it already.
    pub(super) fn starve(&mut self, now: Timestamp, ring: RingId, line: Scarcity) {
        // If it waited for something else until now, it would hide behind those that still do.
        if self.rings[ring].line.as_ref() == Some(&line) {
            return;
        }
        self.unstarve(ring);
        let ring_ref = &mut self.rings[ring];
        let since = *ring_ref.starved_since.get_or_insert(now);
        let level = ring_ref.clause.mail_priority.level();
        ring_ref.line = Some(line.clone());
        self.rings[ring].place_in_line = self.starved.push(line, ring, since, level);
    }

    /// Lets the rings that were refused an agent try again, each in its turn: of each line as many as
    /// are not refused for the same reason.
    pub(super) fn serve_starved(&mut self, now: Timestamp) {
        let mut left = ASKED_AT_A_TIME;
        for line in self.starved.in_turn() {
            while left > 0
                && let Some(ring) = self.starved.pop(&line)
            {
                left -= 1;
                self.rings[ring].line = None;
                self.serve(now, ring);
                if self.rings[ring].line.as_ref() == Some(&line) {
                    break;
                }
            }
        }
        if left == 0 {
            self.timers.add(now + Duration::from_millis(1), Timer::ForkRate);
        }
    }

    /// The clock was set: places are times, where they mean anything.
    pub(super) fn shift_starved(&mut self, step: ClockStep) {
        let is_ranked = self.starved.is_ranked;
        for ring in self.rings.iter_mut() {
            ring.starved_since = ring.starved_since.map(|since| since + step);
            if is_ranked {
                ring.place_in_line.0 = ring.place_in_line.0 + step;
            }
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

    /// Empties all lines, for when everybody is asked anew.
    pub(super) fn forget_starved(&mut self) {
        let lines = std::mem::take(&mut self.starved).lines;
        for ring in lines.into_values().flat_map(BTreeMap::into_values) {
            self.rings[ring].line = None;
        }
    }
}
