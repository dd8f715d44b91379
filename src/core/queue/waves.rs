//! Waves: groups of waiting vertices of a thread that become due together.
//!
//! A vertex waits for its own next try, so the times differ. Vertices with close times share a
//! wave, so that those deferred together are tried together. So the number of waves stays small
//! however many vertices wait. A vertex stores the number of its wave, so a wave's time can change
//! without a look at its vertices.

use crate::list::List;
use crate::pool::Pool;
use crate::queue::{ThreadChain, Vertex, VertexId};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};

/// Maximum number of waves of a thread.
const MAX_WAVES: usize = 100;

/// Vertices that become due together.
#[derive(Serialize, Deserialize)]
struct Wave {
    /// When they become due; `None` is on request.
    wakeup: Option<Timestamp>,
    /// They wait only for the destination.
    ///
    /// They are due as soon as it can be reached.
    is_for_destination: bool,
    vertices: List<ThreadChain>,
}

impl Wave {
    /// Sort key: the sooner wave has the smaller one.
    fn order(&self) -> i64 {
        self.wakeup.map_or(i64::MAX, Timestamp::nanoseconds)
    }
}

/// The waiting vertices of a thread.
#[derive(Default, Serialize, Deserialize)]
pub struct Waves {
    /// Waves by number. An empty one is free.
    waves: Vec<Wave>,
}

impl Waves {
    pub const fn new() -> Waves {
        Waves { waves: Vec::new() }
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.waves.iter().map(|wave| wave.vertices.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.used().next().is_none()
    }

    /// The vertices, with those of the next wave first.
    pub fn iter<'p>(&self, pool: &'p Pool<Vertex>) -> impl Iterator<Item = VertexId> + use<'p> {
        let lists: Vec<_> = self.in_order().map(|(_, wave)| wave.vertices.iter(pool)).collect();
        lists.into_iter().flatten()
    }

    /// Number, length and first vertex of each wave, with the next wave first.
    pub fn waves(&self) -> impl Iterator<Item = (u8, usize, VertexId)> + use<'_> {
        self.in_order().filter_map(|(number, wave)| {
            Some((number as u8, wave.vertices.len(), wave.vertices.first()?))
        })
    }

    /// When the next wave becomes due; `None` is only on request.
    pub fn next(&self) -> Option<Timestamp> {
        self.used().filter_map(|wave| wave.wakeup).min()
    }

    /// When a wave becomes due; `None` is only on request.
    pub fn wakeup(&self, wave: u8) -> Option<Timestamp> {
        self.waves.get(usize::from(wave)).and_then(|wave| wave.wakeup)
    }

    /// Returns true if a wave waits only for the destination.
    pub fn is_for_destination(&self, wave: u8) -> bool {
        self.waves.get(usize::from(wave)).is_some_and(|wave| wave.is_for_destination)
    }

    /// Finds or creates a wave that is due at `wakeup`.
    ///
    /// It may be due up to `tolerance` before.
    ///
    /// With [`MAX_WAVES`] waves it is the nearest one. Returns its number.
    pub fn place(
        &mut self,
        wakeup: Option<Timestamp>,
        tolerance: Duration,
        is_for_destination: bool,
    ) -> u8 {
        let is_early = |wave: &Wave| wave.wakeup <= wakeup;
        let distance = |wave: &Wave| match (wave.wakeup, wakeup) {
            (Some(one), Some(other)) => one.since(other).max(other.since(one)),
            (None, None) => Duration::ZERO,
            _ => Duration::MAX,
        };
        let fits = |wave: &Wave| {
            wave.is_for_destination == is_for_destination && !wave.vertices.is_empty()
        };
        let all = self.waves.iter().enumerate();
        let is_full = self.used().count() >= MAX_WAVES;
        let is_near = |wave: &Wave| is_early(wave) && distance(wave) <= tolerance || is_full;
        let nearest = all.filter(|(_, wave)| fits(wave) && is_near(wave));
        if let Some((number, _)) = nearest.min_by_key(|(_, wave)| distance(wave)) {
            return number as u8;
        }
        let wave = Wave { wakeup, is_for_destination, vertices: List::new() };
        let free = self.waves.iter().position(|wave| wave.vertices.is_empty());
        let number = free.unwrap_or(self.waves.len());
        match self.waves.get_mut(number) {
            Some(free) => *free = wave,
            None => {
                // Most threads have one or two waves.
                self.waves.reserve_exact(1 + number / 2);
                self.waves.push(wave);
            }
        }
        number as u8
    }

    /// Adds a vertex to the wave that it names.
    pub fn push_back(&mut self, pool: &mut Pool<Vertex>, vertex: VertexId) {
        let wave = usize::from(pool[vertex].wave);
        self.waves[wave].vertices.push_back(pool, vertex);
    }

    /// Takes a vertex out of the wave that it names.
    pub fn remove(&mut self, pool: &mut Pool<Vertex>, vertex: VertexId) {
        let wave = usize::from(pool[vertex].wave);
        self.waves[wave].vertices.remove(pool, vertex);
        if self.is_empty() {
            self.waves = Vec::new();
        }
    }

    /// Up to `count` vertices that are due, in the order of their times.
    pub fn due(&self, now: Timestamp, count: usize, pool: &Pool<Vertex>) -> Vec<VertexId> {
        let is_due = |wave: &Wave| wave.wakeup.is_some_and(|wakeup| wakeup <= now);
        let due = self.in_order().take_while(|(_, wave)| is_due(wave));
        due.flat_map(|(_, wave)| wave.vertices.iter(pool)).take(count).collect()
    }

    /// Moves all times to at least `until`.
    pub fn postpone(&mut self, until: Timestamp) {
        for wakeup in self.waves.iter_mut().filter_map(|wave| wave.wakeup.as_mut()) {
            *wakeup = until.max(*wakeup);
        }
    }

    /// Makes all waves due now.
    pub fn wake(&mut self, now: Timestamp) {
        for wave in &mut self.waves {
            wave.wakeup = Some(wave.wakeup.map_or(now, |wakeup| wakeup.min(now)));
        }
    }

    /// Makes waves due that wait only for the destination.
    ///
    /// Returns true if any have vertices.
    pub fn wake_for_destination(&mut self, now: Timestamp) -> bool {
        let mut is_any = false;
        for wave in self.waves.iter_mut().filter(|wave| wave.is_for_destination) {
            wave.wakeup = Some(now);
            is_any |= !wave.vertices.is_empty();
        }
        is_any
    }

    /// Sets the time of waves that wait for a request.
    ///
    /// `None` clears all times.
    pub fn set_all(&mut self, wakeup: Option<Timestamp>) {
        for wave in &mut self.waves {
            wave.wakeup = wakeup.and_then(|time| wave.wakeup.or(Some(time)));
        }
    }

    /// Moves all times, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        for wave in &mut self.waves {
            wave.wakeup = wave.wakeup.map(|wakeup| wakeup + step);
        }
    }

    fn used(&self) -> impl Iterator<Item = &Wave> {
        self.waves.iter().filter(|wave| !wave.vertices.is_empty())
    }

    /// The waves with their numbers, the next one first.
    fn in_order(&self) -> impl Iterator<Item = (usize, &Wave)> + use<'_> {
        let mut waves: Vec<(usize, &Wave)> = self.waves.iter().enumerate().collect();
        waves.retain(|(_, wave)| !wave.vertices.is_empty());
        waves.sort_by_key(|(_, wave)| wave.order());
        waves.into_iter()
    }
}
