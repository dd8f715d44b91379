//! Backlog: control files that are known and not in memory.
//!
//! These are files to be read, and paged-out messages. Little is kept of each, as there may be
//! millions.

use crate::admission::intake::backlog_view::{BacklogCounts, FileLocation};
use crate::learned::PagedOutSource;
use crate::{HostFilter, PagedMessage, PagedVertex};
use foldhash::{HashMap, HashSet};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_spool::{HashFolder, SpoolName};

/// Maximum number of names of files to be read. Others are left to the next scan.
const MAX_BACKLOG_NAMES: usize = 2_000_000;
/// Maximum number of paged-out messages whose recipients' learned state is kept.
const MAX_PAGED_WITH_VERTICES: usize = 1_000_000;
/// One of this number of files read is a paged-out message.
///
/// This is so if there are both paged-out messages and new files.
const PAGED_READ_INTERVAL: u8 = 4;
/// Maximum number of messages and destinations compared per step.
const MAX_COMPARED_PER_STEP: usize = 2_000;
/// Marks a time that never comes.
const NEVER_DUE: u32 = u32::MAX;

/// The backlog.
#[derive(Default)]
pub struct FileBacklog {
    /// Files to be read, in the order in which they were found.
    new_files: VecDeque<SpoolName>,
    new_numbers: HashSet<u64>,
    /// Paged-out messages, by number.
    paged_out: BTreeMap<u64, PagedFile>,
    /// The same, by the second at which they are due.
    by_time: BTreeSet<(u32, u64)>,
    /// Those that wait for a time of their sender, by that time.
    ///
    /// A step of the clock does not change it.
    by_clock: BTreeSet<(u32, u64)>,
    /// Paged-out messages to be read now, with the host they were requested for, if for one.
    requested: VecDeque<(u64, Option<HostFilter>)>,
    /// Requested hosts that paged-out messages are being compared with.
    hosts_asked: BTreeSet<HostFilter>,
    /// Hosts requested since that began; they get the next round.
    hosts_asked_next: BTreeSet<HostFilter>,
    /// Number at which the comparison continues.
    compare_cursor: u64,
    /// Messages passed to the reader, with their records.
    returning: HashMap<u64, (PagedMessage, Vec<HostFilter>)>,
    /// Names of paged-out messages that are not just their numbers.
    full_names: HashMap<u64, SpoolName>,
    /// Seconds by which the clock was set since the start.
    ///
    /// The times kept here are those of the first clock, so that a step of the clock changes none
    /// of them.
    clock_offset: i32,
    reads_since_paged: u8,
}

/// Paged-out message.
struct PagedFile {
    /// Time at which it is due, in seconds of the first clock.
    ///
    /// In seconds since the epoch if it waits for a time of its sender.
    until: u32,
    folder: HashFolder,
    /// Its times are those of the first clock, too.
    record: PagedMessage,
}

impl FileBacklog {
    /// Returns true if a file is in the backlog.
    pub fn contains(&self, number: u64) -> bool {
        self.new_numbers.contains(&number) || self.paged_out.contains_key(&number)
    }

    /// Adds a file to be read. Returns true if there was room for its name.
    pub fn add(&mut self, name: SpoolName) -> bool {
        let has_room = self.new_files.len() < MAX_BACKLOG_NAMES;
        if has_room && self.new_numbers.insert(name.number()) {
            self.new_files.push_back(name);
        }
        has_room
    }

    /// Adds a paged-out message, due at a time; `None` is when it is requested.
    pub fn page_out(
        &mut self,
        name: SpoolName,
        until: Option<Timestamp>,
        mut record: PagedMessage,
    ) {
        let number = name.number();
        let offset = if record.is_scheduled { 0 } else { self.clock_offset };
        let until = until.map_or(NEVER_DUE, |until| second_after(until, offset));
        if self.paged_out.len() >= MAX_PAGED_WITH_VERTICES {
            record.vertices = Box::default();
        }
        shift_all(&mut record.vertices, self.clock_offset, 0);
        self.times(record.is_scheduled).insert((until, number));
        self.paged_out.insert(number, PagedFile { until, folder: name.folder(), record });
        if name.nonnumeric_base().is_some() {
            self.full_names.insert(number, name);
        }
    }

    /// Requests the paged-out messages of some hosts.
    ///
    /// They are searched for in steps, however many requests there are. Requests that come during a
    /// search share the next round.
    pub fn request(&mut self, wanted: &[HostFilter]) {
        self.hosts_asked_next.extend(wanted);
        self.returning.values_mut().for_each(|(_, all)| all.extend(wanted));
    }

    /// Requests those of these messages that are paged out.
    pub fn request_messages(&mut self, numbers: &[u64]) {
        let paged_out = numbers.iter().filter(|number| self.paged_out.contains_key(number));
        self.requested.extend(paged_out.map(|number| (*number, None)));
    }

    /// Compares the next paged-out messages with the requested hosts.
    fn compare_step(&mut self) {
        if self.hosts_asked.is_empty() {
            self.hosts_asked = std::mem::take(&mut self.hosts_asked_next);
            self.compare_cursor = 0;
        }
        let mut left = MAX_COMPARED_PER_STEP;
        for (number, paged) in self.paged_out.range(self.compare_cursor..) {
            if left == 0 {
                self.compare_cursor = *number;
                return;
            }
            left = left.saturating_sub(1 + paged.record.vertices.len());
            let wanted = requested_hosts(&paged.record, &self.hosts_asked);
            self.requested.extend(wanted.map(|wanted| (*number, Some(wanted))));
        }
        self.hosts_asked.clear();
    }

    fn is_comparing(&self) -> bool {
        !self.hosts_asked.is_empty() || !self.hosts_asked_next.is_empty()
    }

    /// Returns true if a file could be read now, memory permitting.
    pub fn has_readable(&self, now: Timestamp) -> bool {
        !self.new_files.is_empty() || self.has_due_or_requested(now)
    }

    /// Returns true if a file that was never read could be read now.
    pub fn has_new(&self) -> bool {
        !self.new_files.is_empty()
    }

    fn has_due_or_requested(&self, now: Timestamp) -> bool {
        !self.requested.is_empty()
            || self.is_comparing()
            || self.next_due().is_some_and(|until| until <= now)
    }

    /// The set of paged-out messages by time that one belongs to.
    fn times(&mut self, is_scheduled: bool) -> &mut BTreeSet<(u32, u64)> {
        if is_scheduled { &mut self.by_clock } else { &mut self.by_time }
    }

    /// The paged-out message that is due first, and when.
    fn first_due(&self) -> Option<(Timestamp, u64)> {
        let of = |set: &BTreeSet<(u32, u64)>, offset| {
            let (until, number) = set.first()?;
            Some((time_of(*until, offset)?, *number))
        };
        let first = [of(&self.by_time, self.clock_offset), of(&self.by_clock, 0)];
        first.into_iter().flatten().min()
    }

    /// Time at which the next paged-out message is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        Some(self.first_due()?.0)
    }

    /// Takes the next file to be read.
    ///
    /// New ones come first, except for one in [`PAGED_READ_INTERVAL`].
    pub fn next(&mut self, now: Timestamp) -> Option<SpoolName> {
        let has_paged = self.has_due_or_requested(now);
        let is_turn_of_paged =
            self.new_files.is_empty() || self.reads_since_paged + 1 >= PAGED_READ_INTERVAL;
        if has_paged && is_turn_of_paged {
            self.reads_since_paged = 0;
            if let Some(name) = self.next_paged(now) {
                return Some(name);
            }
        }
        self.reads_since_paged = if has_paged { self.reads_since_paged + 1 } else { 0 };
        let name = self.new_files.pop_front()?;
        self.new_numbers.remove(&name.number());
        if self.new_files.is_empty() {
            // Frees the memory: there may have been millions.
            (self.new_files, self.new_numbers) = Default::default();
        }
        Some(name)
    }

    fn next_paged(&mut self, now: Timestamp) -> Option<SpoolName> {
        if self.requested.is_empty() && self.is_comparing() {
            self.compare_step();
        }
        while let Some((number, wanted)) = self.requested.pop_front() {
            match self.returning.get_mut(&number) {
                Some((_, all)) => all.extend(wanted),
                None => {
                    if let Some(name) = self.take(number, wanted) {
                        return Some(name);
                    }
                }
            }
        }
        let (_, number) = self.first_due().filter(|(until, _)| *until <= now)?;
        self.take(number, None)
    }

    fn take(&mut self, number: u64, wanted: Option<HostFilter>) -> Option<SpoolName> {
        let PagedFile { until, folder, mut record } = self.paged_out.remove(&number)?;
        self.times(record.is_scheduled).remove(&(until, number));
        shift_all(&mut record.vertices, 0, self.clock_offset);
        // Requests whose comparison has not reached this message count, too.
        let asked = [&self.hosts_asked, &self.hosts_asked_next].into_iter();
        let asked = asked.flat_map(|asked| requested_hosts(&record, asked)).chain(wanted).collect();
        self.returning.insert(number, (record, asked));
        let full_name = self.full_names.remove(&number);
        Some(full_name.unwrap_or_else(|| SpoolName::plain(folder, number)))
    }

    /// Takes out a message that an operator needs in memory now.
    pub fn fetch(&mut self, number: u64) -> Option<SpoolName> {
        if !self.new_numbers.remove(&number) {
            return self.take(number, None);
        }
        let place = self.new_files.iter().position(|name| name.number() == number)?;
        self.new_files.remove(place)
    }

    /// Where a message is in the backlog.
    pub fn location(&self, number: u64) -> Option<FileLocation> {
        if self.new_numbers.contains(&number) {
            return Some(FileLocation::Queued);
        }
        let paged = self.paged_out.get(&number)?;
        let offset = if paged.record.is_scheduled { 0 } else { self.clock_offset };
        Some(FileLocation::PagedOut(time_of(paged.until, offset)))
    }

    /// Removes and returns the record of a paged-out message that was read again.
    pub fn take_record(&mut self, number: u64) -> Option<(PagedMessage, Vec<HostFilter>)> {
        self.returning.remove(&number)
    }

    /// Adjusts to a step of the clock.
    pub fn shift(&mut self, step: ClockStep) {
        let returning = self.returning.values_mut().flat_map(|(record, _)| &mut record.vertices);
        returning.for_each(|vertex| vertex.shift(step));
        let seconds = |by: Duration| i32::try_from(by.as_secs()).unwrap_or(i32::MAX);
        self.clock_offset = match step {
            // A fraction of a second is rounded up: later, not earlier.
            ClockStep::Forward(by) => {
                let seconds = seconds(by).saturating_add(i32::from(by.subsec_nanos() > 0));
                self.clock_offset.saturating_add(seconds)
            }
            ClockStep::Back(by) => self.clock_offset.saturating_sub(seconds(by)),
        };
    }

    /// Number of files to be read and of paged-out messages.
    pub fn waiting(&self) -> BacklogCounts {
        BacklogCounts {
            waiting_files: self.new_files.len(),
            paged_out: self.paged_out.len(),
            ..BacklogCounts::default()
        }
    }
}

/// The second at or after a time.
///
/// It is of a clock from which the present one differs by `offset`.
fn second_after(time: Timestamp, offset: i32) -> u32 {
    let second = time.seconds() + i64::from(time.subsec_nanoseconds() > 0);
    let second = second.saturating_sub(offset.into()).max(0);
    u32::try_from(second).unwrap_or(NEVER_DUE).min(NEVER_DUE - 1)
}

/// The time of a second of a clock from which the present one differs by `offset`.
fn time_of(second: u32, offset: i32) -> Option<Timestamp> {
    let is_time = second != NEVER_DUE;
    is_time.then(|| Timestamp::from_seconds(i64::from(second) + i64::from(offset)))
}

impl PagedOutSource for FileBacklog {
    fn next_after(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [PagedVertex]>)> {
        let from = number.map_or(Some(0), |number| number.checked_add(1))?;
        let (number, PagedFile { record, .. }) = self.paged_out.range(from..).next()?;
        let mut vertices = Cow::Borrowed(&*record.vertices);
        if self.clock_offset != 0 {
            shift_all(vertices.to_mut(), 0, self.clock_offset);
        }
        Some((*number, record.modified, vertices))
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
fn requested_hosts(
    record: &PagedMessage,
    asked: &BTreeSet<HostFilter>,
) -> impl Iterator<Item = HostFilter> {
    let of_vertices = record.vertices.iter().map(|vertex| HostFilter::of_vertex(*vertex));
    let found: BTreeSet<HostFilter> = match record.vertices.is_empty() {
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

    fn record(host: &str) -> PagedMessage {
        let to = Destination::new(b"smtp", host.as_bytes());
        let vertices = [PagedVertex::new(&to, 1, true, 0)].into();
        PagedMessage { modified: NOW, recipients: 1, is_scheduled: false, vertices }
    }

    fn numbers(backlog: &mut FileBacklog, now: Timestamp) -> Vec<u64> {
        std::iter::from_fn(|| backlog.next(now)).map(|name| name.number()).collect()
    }

    #[test]
    fn new_files_come_first_with_a_share_for_paged_out_messages() {
        let mut backlog = FileBacklog::default();
        (1..=8).for_each(|number| assert!(backlog.add(name(number))));
        (11..=13).for_each(|number| backlog.page_out(name(number), Some(NOW), record("a.x")));
        assert!(backlog.contains(8) && backlog.contains(13) && !backlog.contains(9));
        assert_eq!(numbers(&mut backlog, NOW), [1, 2, 3, 11, 4, 5, 6, 12, 7, 8, 13]);
        assert_eq!(backlog.waiting(), BacklogCounts::default());
        assert!(backlog.take_record(11).is_some() && backlog.take_record(11).is_none());
    }

    #[test]
    fn paged_out_message_is_read_when_due_or_requested() {
        let mut backlog = FileBacklog::default();
        let at = |seconds| NOW + Duration::from_secs(seconds);
        backlog.page_out(name(1), Some(at(20)), record("a.x"));
        backlog.page_out(name(2), Some(at(10)), record("b.x"));
        let odd = SpoolName::new(HashFolder::TOP, b"3-x").expect("a name");
        backlog.page_out(odd.clone(), None, record("c.x"));
        assert_eq!(backlog.next_due(), Some(at(10)));
        assert_eq!(numbers(&mut backlog, at(9)), [0; 0]);
        assert_eq!(numbers(&mut backlog, at(10)), [2]);
        backlog.request(&[HostFilter::of_host(b"c.x"), HostFilter::of_host(b"d.x")]);
        assert_eq!(backlog.next(at(10)), Some(odd));
        let (_, wanted) = backlog.take_record(3).expect("known");
        assert_eq!(wanted, [HostFilter::of_host(b"c.x")]);
        backlog.shift(ClockStep::Back(Duration::from_secs(15)));
        assert_eq!(numbers(&mut backlog, at(5)), [1]);
    }

    #[test]
    fn requested_messages_are_read_before_they_are_due() {
        let mut backlog = FileBacklog::default();
        (1..=3).for_each(|number| backlog.page_out(name(number), None, record("a.x")));
        backlog.request_messages(&[3, 4, 1]);
        assert!(backlog.has_readable(NOW));
        assert_eq!(numbers(&mut backlog, NOW), [3, 1]);
        assert_eq!(backlog.take_record(3).expect("known").1, []);
    }

    #[test]
    fn scheduled_message_is_due_at_its_time_of_any_clock() {
        let mut backlog = FileBacklog::default();
        let at = |seconds| NOW + Duration::from_secs(seconds);
        let scheduled = PagedMessage { is_scheduled: true, ..record("a.x") };
        backlog.page_out(name(1), Some(at(100)), scheduled);
        backlog.page_out(name(2), Some(at(100)), record("b.x"));
        backlog.shift(ClockStep::Forward(Duration::from_secs(50)));
        assert_eq!(backlog.next_due(), Some(at(100)));
        assert_eq!(numbers(&mut backlog, at(100)), [1]);
        assert_eq!(numbers(&mut backlog, at(150)), [2]);
    }

    #[test]
    fn requested_hosts_are_compared_in_steps() {
        let mut backlog = FileBacklog::default();
        let count = 3 * MAX_COMPARED_PER_STEP as u64;
        (1..=count).for_each(|number| backlog.page_out(name(number), None, record("a.x")));
        backlog.page_out(name(count + 1), None, record("b.x"));
        // All these requests share one round.
        (0..500).for_each(|_| backlog.request(&[HostFilter::of_host(b"b.x")]));
        let mut steps = 0;
        let found = loop {
            steps += 1;
            assert!(backlog.has_readable(NOW) && steps < 100, "step {steps}");
            if let Some(found) = backlog.next(NOW) {
                break found;
            }
        };
        assert_eq!((found.number(), steps), (count + 1, 7));
        assert!(!backlog.has_readable(NOW));
    }

    #[test]
    fn message_read_before_its_comparison_keeps_its_requests() {
        let mut backlog = FileBacklog::default();
        backlog.page_out(name(1), None, record("a.x"));
        backlog.page_out(name(2), None, record("a.x"));
        backlog.request(&[HostFilter::of_host(b"a.x")]);
        assert_eq!(backlog.fetch(2), Some(name(2)));
        assert_eq!(backlog.take_record(2).expect("known").1, [HostFilter::of_host(b"a.x")]);
        assert_eq!(numbers(&mut backlog, NOW), [1]);
    }

    #[test]
    fn backlog_records_are_small() {
        assert_eq!(size_of::<PagedFile>(), 40);
        assert_eq!(size_of::<PagedVertex>(), 16);
    }
}
