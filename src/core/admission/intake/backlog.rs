//! Backlog: control files that are known and not in memory.
//!
//! These are files to be read, and paged-out messages. Little is kept of each, as there may be
//! millions.

use crate::admission::intake::backlog_view::{BacklogCounts, Location};
use crate::{HostFilter, PagedMessage, PagedVertex};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_spool::{HashFolder, SpoolName};

/// Maximum number of names of files to be read. Others are left to the next scan.
const MOST_NAMES: usize = 2_000_000;
/// Maximum number of paged-out messages whose recipients' learned state is kept.
const MOST_LEARNED: usize = 1_000_000;
/// One of this number of files read is a paged-out message.
///
/// This is so if there are both paged-out messages and new files.
const ONE_BACK_IN: u8 = 4;
/// Maximum number of messages and destinations compared per step.
const MAX_COMPARED: usize = 2_000;
/// Marks a time that never comes.
const NEVER: u32 = u32::MAX;

/// The backlog.
#[derive(Default)]
pub struct Outside {
    /// Files to be read, in the order in which they were found.
    fresh: VecDeque<SpoolName>,
    fresh_numbers: HashSet<u64>,
    /// Paged-out messages, by number.
    resting: BTreeMap<u64, PagedOutSource>,
    /// The same, by the second at which they are due.
    by_time: BTreeSet<(u32, u64)>,
    /// Paged-out messages to be read now, with the host they were requested for.
    wanted: VecDeque<(u64, Option<HostFilter>)>,
    /// Requested hosts that paged-out messages are being compared with.
    asked: BTreeSet<HostFilter>,
    /// Hosts requested since that began; they get the next round.
    asked_next: BTreeSet<HostFilter>,
    /// Number at which the comparison continues.
    compared: u64,
    /// Messages passed to the reader, with their records.
    returning: HashMap<u64, (PagedMessage, Vec<HostFilter>)>,
    /// Names of paged-out messages that are not just their numbers.
    odd: HashMap<u64, SpoolName>,
    /// Seconds by which the clock was set since the start.
    ///
    /// The times kept here are those of the first clock, so that a step of the clock changes none
    /// of them.
    shifted: i32,
    turn: u8,
}

/// Paged-out message.
struct PagedOutSource {
    /// Time at which it is due, in seconds of the first clock.
    until: u32,
    folder: HashFolder,
    /// Its times are those of the first clock, too.
    rested: PagedMessage,
}

impl Outside {
    /// Returns true if a file is in the backlog.
    pub fn knows(&self, number: u64) -> bool {
        self.fresh_numbers.contains(&number) || self.resting.contains_key(&number)
    }

    /// Adds a file to be read. Returns true if there was room for its name.
    pub fn add(&mut self, name: SpoolName) -> bool {
        let has_room = self.fresh.len() < MOST_NAMES;
        if has_room && self.fresh_numbers.insert(name.number()) {
            self.fresh.push_back(name);
        }
        has_room
    }

    /// Adds a paged-out message, due at a time; `None` is when it is requested.
    pub fn rest(&mut self, name: SpoolName, until: Option<Timestamp>, mut rested: PagedMessage) {
        let number = name.number();
        let until = until.map_or(NEVER, |until| self.second_after(until));
        if self.resting.len() >= MOST_LEARNED {
            rested.vertices = Box::default();
        }
        shift_all(&mut rested.vertices, self.shifted, 0);
        self.by_time.insert((until, number));
        self.resting.insert(number, PagedOutSource { until, folder: name.folder(), rested });
        if name.nonnumeric_base().is_some() {
            self.odd.insert(number, name);
        }
    }

    /// Record of the first paged-out message, or of the first after `number`.
    pub fn behind(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [PagedVertex]>)> {
        let from = number.map_or(Some(0), |number| number.checked_add(1))?;
        let (number, PagedOutSource { rested, .. }) = self.resting.range(from..).next()?;
        let mut vertices = Cow::Borrowed(&*rested.vertices);
        if self.shifted != 0 {
            shift_all(vertices.to_mut(), 0, self.shifted);
        }
        Some((*number, rested.modified, vertices))
    }

    /// Requests the paged-out messages of some hosts.
    ///
    /// They are searched for in steps, however many requests there are. Requests that come during a
    /// search share the next round.
    pub fn awaken(&mut self, wanted: &[HostFilter]) {
        self.asked_next.extend(wanted);
        self.returning.values_mut().for_each(|(_, all)| all.extend(wanted));
    }

    /// Compares the next paged-out messages with the requested hosts.
    fn compare_on(&mut self) {
        if self.asked.is_empty() {
            self.asked = std::mem::take(&mut self.asked_next);
            self.compared = 0;
        }
        let mut left = MAX_COMPARED;
        for (number, resting) in self.resting.range(self.compared..) {
            if left == 0 {
                self.compared = *number;
                return;
            }
            left = left.saturating_sub(1 + resting.rested.vertices.len());
            let wanted = wanted_of(&resting.rested, &self.asked);
            self.wanted.extend(wanted.map(|wanted| (*number, Some(wanted))));
        }
        self.asked.clear();
    }

    fn is_comparing(&self) -> bool {
        !self.asked.is_empty() || !self.asked_next.is_empty()
    }

    /// Returns true if a file could be read now, memory permitting.
    pub fn has_something(&self, now: Timestamp) -> bool {
        !self.fresh.is_empty() || self.has_back(now)
    }

    /// Returns true if a file that was never read could be read now.
    pub fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    fn has_back(&self, now: Timestamp) -> bool {
        let is_due =
            |(until, _): &(u32, u64)| self.time_of(*until).is_some_and(|until| until <= now);
        !self.wanted.is_empty() || self.is_comparing() || self.by_time.first().is_some_and(is_due)
    }

    /// Time at which the next paged-out message is due.
    pub fn next_back(&self) -> Option<Timestamp> {
        self.time_of(self.by_time.first()?.0)
    }

    /// Takes the next file to be read. New ones come first, except for one in [`ONE_BACK_IN`].
    pub fn next(&mut self, now: Timestamp) -> Option<SpoolName> {
        let has_back = self.has_back(now);
        let is_turn_of_back = self.fresh.is_empty() || self.turn + 1 >= ONE_BACK_IN;
        if has_back && is_turn_of_back {
            self.turn = 0;
            if let Some(name) = self.next_of_back(now) {
                return Some(name);
            }
        }
        self.turn = if has_back { self.turn + 1 } else { 0 };
        let name = self.fresh.pop_front()?;
        self.fresh_numbers.remove(&name.number());
        if self.fresh.is_empty() {
            // Frees the memory: there may have been millions.
            (self.fresh, self.fresh_numbers) = Default::default();
        }
        Some(name)
    }

    fn next_of_back(&mut self, now: Timestamp) -> Option<SpoolName> {
        if self.wanted.is_empty() && self.is_comparing() {
            self.compare_on();
        }
        while let Some((number, wanted)) = self.wanted.pop_front() {
            match self.returning.get_mut(&number) {
                Some((_, all)) => all.extend(wanted),
                None => {
                    if let Some(name) = self.take(number, wanted) {
                        return Some(name);
                    }
                }
            }
        }
        let (until, number) = *self.by_time.first()?;
        if self.time_of(until).is_none_or(|until| until > now) {
            return None;
        }
        self.take(number, None)
    }

    fn take(&mut self, number: u64, wanted: Option<HostFilter>) -> Option<SpoolName> {
        let PagedOutSource { until, folder, mut rested } = self.resting.remove(&number)?;
        self.by_time.remove(&(until, number));
        shift_all(&mut rested.vertices, 0, self.shifted);
        // Requests whose comparison has not reached this message count, too.
        let asked = [&self.asked, &self.asked_next].into_iter();
        let asked = asked.flat_map(|asked| wanted_of(&rested, asked)).chain(wanted).collect();
        self.returning.insert(number, (rested, asked));
        let odd = self.odd.remove(&number);
        Some(odd.unwrap_or_else(|| SpoolName::plain(folder, number)))
    }

    /// Takes out a message that an operator needs in memory now.
    pub fn fetch(&mut self, number: u64) -> Option<SpoolName> {
        if !self.fresh_numbers.remove(&number) {
            return self.take(number, None);
        }
        let place = self.fresh.iter().position(|name| name.number() == number)?;
        self.fresh.remove(place)
    }

    /// Where a message is in the backlog.
    pub fn location(&self, number: u64) -> Option<Location> {
        if self.fresh_numbers.contains(&number) {
            return Some(Location::Queued);
        }
        self.resting.get(&number).map(|resting| Location::PagedOut(self.time_of(resting.until)))
    }

    /// Removes and returns the record of a paged-out message that was read again.
    pub fn recall(&mut self, number: u64) -> Option<(PagedMessage, Vec<HostFilter>)> {
        self.returning.remove(&number)
    }

    /// Adjusts to a step of the clock.
    pub fn shift(&mut self, step: ClockStep) {
        let returning = self.returning.values_mut().flat_map(|(rested, _)| &mut rested.vertices);
        returning.for_each(|vertex| vertex.shift(step));
        let seconds = |by: Duration| i32::try_from(by.as_secs()).unwrap_or(i32::MAX);
        self.shifted = match step {
            // A fraction of a second is rounded up: later, not earlier.
            ClockStep::Forward(by) => {
                let seconds = seconds(by).saturating_add(i32::from(by.subsec_nanos() > 0));
                self.shifted.saturating_add(seconds)
            }
            ClockStep::Back(by) => self.shifted.saturating_sub(seconds(by)),
        };
    }

    /// The second at or after a time, of the first clock.
    fn second_after(&self, time: Timestamp) -> u32 {
        let second = time.seconds() + i64::from(time.subsec_nanoseconds() > 0);
        let second = second.saturating_sub(self.shifted.into()).max(0);
        u32::try_from(second).unwrap_or(NEVER).min(NEVER - 1)
    }

    /// The time of a second of the first clock.
    fn time_of(&self, second: u32) -> Option<Timestamp> {
        let is_time = second != NEVER;
        is_time.then(|| Timestamp::from_seconds(i64::from(second) + i64::from(self.shifted)))
    }

    /// Number of files to be read and of paged-out messages.
    pub fn waiting(&self) -> BacklogCounts {
        BacklogCounts { waiting_files: self.fresh.len(), resting: self.resting.len() }
    }
}

/// Converts times between clocks set by `from` and by `to` seconds.
fn shift_all(vertices: &mut [PagedVertex], from: i32, to: i32) {
    if from != to {
        let [from, to] = [from, to].map(|by| Timestamp::from_seconds(by.into()));
        let step = ClockStep::between(from, to);
        vertices.iter_mut().for_each(|vertex| vertex.shift(step));
    }
}

/// Requested hosts of a message's recipients; all of them if its recipients are not known.
fn wanted_of(
    rested: &PagedMessage,
    asked: &BTreeSet<HostFilter>,
) -> impl Iterator<Item = HostFilter> {
    let of_vertices = rested.vertices.iter().map(|vertex| HostFilter::of_vertex(*vertex));
    let found: BTreeSet<HostFilter> = match rested.vertices.is_empty() {
        true => asked.clone(),
        false if asked.is_empty() => BTreeSet::new(),
        false => of_vertices.filter(|wanted| asked.contains(wanted)).collect(),
    };
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Destination;

    const NOW: Timestamp = Timestamp::from_seconds(1_795_259_643);

    fn name(number: u64) -> SpoolName {
        SpoolName::plain(HashFolder::TOP, number)
    }

    fn rested(host: &str) -> PagedMessage {
        let to = Destination::new(b"smtp", host.as_bytes());
        let vertices = [PagedVertex::new(&to, 1, true, 0)].into();
        PagedMessage { modified: NOW, recipients: 1, vertices }
    }

    fn numbers(outside: &mut Outside, now: Timestamp) -> Vec<u64> {
        std::iter::from_fn(|| outside.next(now)).map(|name| name.number()).collect()
    }

    #[test]
    fn new_files_come_first_with_a_share_for_paged_out_messages() {
        let mut outside = Outside::default();
        (1..=8).for_each(|number| assert!(outside.add(name(number))));
        (11..=13).for_each(|number| outside.rest(name(number), Some(NOW), rested("a.x")));
        assert!(outside.knows(8) && outside.knows(13) && !outside.knows(9));
        assert_eq!(numbers(&mut outside, NOW), [1, 2, 3, 11, 4, 5, 6, 12, 7, 8, 13]);
        assert_eq!(outside.waiting(), BacklogCounts::default());
        assert!(outside.recall(11).is_some() && outside.recall(11).is_none());
    }

    #[test]
    fn paged_out_message_is_read_when_due_or_requested() {
        let mut outside = Outside::default();
        let at = |seconds| NOW + Duration::from_secs(seconds);
        outside.rest(name(1), Some(at(20)), rested("a.x"));
        outside.rest(name(2), Some(at(10)), rested("b.x"));
        let odd = SpoolName::new(HashFolder::TOP, b"3-x").expect("a name");
        outside.rest(odd.clone(), None, rested("c.x"));
        assert_eq!(outside.next_back(), Some(at(10)));
        assert_eq!(numbers(&mut outside, at(9)), [0; 0]);
        assert_eq!(numbers(&mut outside, at(10)), [2]);
        outside.awaken(&[HostFilter::of_host(b"c.x"), HostFilter::of_host(b"d.x")]);
        assert_eq!(outside.next(at(10)), Some(odd));
        let (_, wanted) = outside.recall(3).expect("known");
        assert_eq!(wanted, [HostFilter::of_host(b"c.x")]);
        outside.shift(ClockStep::Back(Duration::from_secs(15)));
        assert_eq!(numbers(&mut outside, at(5)), [1]);
    }

    #[test]
    fn requested_hosts_are_compared_in_steps() {
        let mut outside = Outside::default();
        let count = 3 * MAX_COMPARED as u64;
        (1..=count).for_each(|number| outside.rest(name(number), None, rested("a.x")));
        outside.rest(name(count + 1), None, rested("b.x"));
        // All these requests share one round.
        (0..500).for_each(|_| outside.awaken(&[HostFilter::of_host(b"b.x")]));
        let mut steps = 0;
        let found = loop {
            steps += 1;
            assert!(outside.has_something(NOW) && steps < 100, "step {steps}");
            if let Some(found) = outside.next(NOW) {
                break found;
            }
        };
        assert_eq!((found.number(), steps), (count + 1, 7));
        assert!(!outside.has_something(NOW));
    }

    #[test]
    fn message_read_before_its_comparison_keeps_its_requests() {
        let mut outside = Outside::default();
        outside.rest(name(1), None, rested("a.x"));
        outside.rest(name(2), None, rested("a.x"));
        outside.awaken(&[HostFilter::of_host(b"a.x")]);
        assert_eq!(outside.fetch(2), Some(name(2)));
        assert_eq!(outside.recall(2).expect("known").1, [HostFilter::of_host(b"a.x")]);
        assert_eq!(numbers(&mut outside, NOW), [1]);
    }

    #[test]
    fn backlog_records_are_small() {
        assert_eq!(size_of::<PagedOutSource>(), 40);
        assert_eq!(size_of::<PagedVertex>(), 16);
    }
}
