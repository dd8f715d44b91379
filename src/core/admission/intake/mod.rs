//! Decides which control files to read, and when to scan for more.
//!
//! It does no I/O: callers report what was found and ask what to do.

mod backlog;
pub mod backlog_view;

use crate::learned::PagedOutSource;
use crate::{Backlog, HostFilter, PagedMessage, PagedVertex, RecipientRoom, Scheduler};
use backlog::Outside;
use backlog_view::{BacklogCounts, BacklogView, Location};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_spool::SpoolName;

/// Number of files being read that adds a tenth to the scan interval.
///
/// The interval grows up to twice its length.
const FILES_PER_TENTH: usize = 32;
/// Maximum number of invalid names that are logged.
const MOST_PASSED_OVER: usize = 1000;
/// Limit of files being read below which a truncated scan continues.
const GO_ON_BELOW: usize = 1000;

/// Times between scans of the spool and between attempts to read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Interval of regular scans, as in ZMailer. A busy reader makes it up to twice as long.
    pub scan_interval: Duration,
    /// Wait before a file locked by a living process is read again.
    pub locked_file: Duration,
    /// Wait before a file that could not be read is read again.
    pub unreadable_file: Duration,
    /// Wait before an unusable file that could not be moved aside is read again.
    pub refused_file: Duration,
}

impl Delays {
    /// The times of normal operation, each multiplied by `scale`.
    pub fn scaled(scale: f64) -> Delays {
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds * scale);
        Delays {
            scan_interval: seconds(10.0),
            locked_file: seconds(32.0),
            unreadable_file: seconds(60.0),
            refused_file: seconds(600.0),
        }
    }
}

impl Default for Delays {
    fn default() -> Delays {
        Delays::scaled(1.0)
    }
}

/// State of a message number in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Not known.
    No,
    /// A message of this number is queued.
    Queued,
    /// The message is being removed from the spool; the number may come again.
    Leaving,
}

/// What to do with a file that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing; it is known.
    Known,
    /// Read it now.
    Read,
    /// Read it later, when memory limits allow; it is new.
    Later,
}

/// Unclaimed in use, as far as it limits the reading of files.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Messages in memory.
    pub messages: usize,
    /// Maximum number of recipients to read of the next one; `None` is all.
    pub recipients: Option<u32>,
}

impl Room {
    /// Computes the room from the core, its capacity and the files being read.
    pub fn of(core: &Scheduler, capacity: Option<RecipientRoom>, intake: &Intake) -> Room {
        let recipients = capacity.map(|capacity| capacity.first_chunk(intake.under_way()));
        Room { messages: core.loaded(), recipients }
    }
}

/// Control files between being found and being loaded.
pub struct Intake {
    delays: Delays,
    /// Files passed to the reader, with the maximum recipients of each.
    reading: HashMap<u64, u32>,
    /// Sum of these numbers.
    under_way: usize,
    /// Files to be read again later, by time.
    held: BTreeMap<(Timestamp, u64), SpoolName>,
    held_numbers: HashSet<u64>,
    /// Files with a recipient locked by a living process at the last reading.
    locked: HashSet<u64>,
    /// Files found while a message of the same number was leaving.
    again: HashMap<u64, SpoolName>,
    /// Unusable files that could not be moved aside, and when to retry.
    refused: HashMap<u64, Timestamp>,
    /// Invalid names that were logged.
    passed_over: HashSet<String>,
    /// Time of the last log line about an empty `queue/`.
    told_of_queue: Timestamp,
    next_scan: Timestamp,
    is_scanning: bool,
    /// True if a scan was requested during a scan, which may have missed new files.
    is_asked_again: bool,
    /// True if the last scan met a limit.
    is_truncated: bool,
    scans: u64,
    /// Maximum number of messages in memory.
    limit: Option<usize>,
    /// Backlog: files not read yet, and messages that are paged out.
    outside: Outside,
}

impl Intake {
    /// Creates an empty intake. The first scan is due at once.
    pub fn new(delays: Delays) -> Intake {
        Intake {
            delays,
            reading: HashMap::new(),
            under_way: 0,
            held: BTreeMap::new(),
            held_numbers: HashSet::new(),
            locked: HashSet::new(),
            again: HashMap::new(),
            refused: HashMap::new(),
            passed_over: HashSet::new(),
            told_of_queue: Timestamp::EPOCH,
            next_scan: Timestamp::EPOCH,
            is_scanning: false,
            is_asked_again: false,
            is_truncated: false,
            scans: 0,
            limit: None,
            outside: Outside::default(),
        }
    }

    /// Sets the maximum number of messages in memory; `None` is no limit.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit;
    }

    /// Handles a file named by a scan or a notice.
    pub fn found(&mut self, name: &SpoolName, known: Known) -> Verdict {
        let number = name.number();
        match known {
            Known::Queued => return Verdict::Known,
            Known::Leaving => {
                self.again.insert(number, name.clone());
                return Verdict::Known;
            }
            Known::No => {}
        }
        let is_ours = self.reading.contains_key(&number)
            || self.held_numbers.contains(&number)
            || self.refused.contains_key(&number)
            || self.outside.knows(number);
        match self.limit {
            _ if is_ours => Verdict::Known,
            Some(_) if self.outside.add(name.clone()) => Verdict::Later,
            // The next scan finds it again.
            Some(_) => Verdict::Known,
            None => {
                self.reading.insert(number, 0);
                Verdict::Read
            }
        }
    }

    /// Takes the next file from the backlog if memory limits allow.
    ///
    /// Returns it with the maximum number of open recipients to read; `None` is all.
    pub fn next_outside(
        &mut self,
        now: Timestamp,
        room: &Room,
    ) -> Option<(SpoolName, Option<u32>)> {
        if !self.has_room(room) || !self.outside.has_something(now) {
            return None;
        }
        let name = self.outside.next(now)?;
        self.begin_to_read(name.number(), room.recipients);
        Some((name, room.recipients))
    }

    fn begin_to_read(&mut self, number: u64, recipients: Option<u32>) {
        self.reading.insert(number, recipients.unwrap_or_default());
        self.under_way += recipients.unwrap_or_default() as usize;
    }

    /// Maximum number of recipients that may come from the files being read.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    fn has_room(&self, room: &Room) -> bool {
        let has_place = self.limit.is_none_or(|limit| room.messages + self.reading.len() < limit);
        has_place && room.recipients != Some(0)
    }

    /// Kind of files kept in the backlog only by memory limits.
    pub fn crowd(&self, now: Timestamp, room: &Room) -> Backlog {
        match self.has_room(room) {
            true => Backlog::None,
            false if self.outside.has_fresh() => Backlog::New,
            false if self.outside.has_something(now) => Backlog::PagedOut,
            false => Backlog::None,
        }
    }

    /// Records a message as paged out until a time; `None` is until it is requested.
    pub fn rest(&mut self, name: SpoolName, until: Option<Timestamp>, rested: PagedMessage) {
        self.outside.rest(name, until, rested);
    }

    /// Removes and returns the record of a paged-out message that was loaded again.
    pub fn recall(&mut self, number: u64) -> Option<(PagedMessage, Vec<HostFilter>)> {
        self.outside.recall(number)
    }

    /// Requests paged-out messages of some hosts.
    pub fn awaken(&mut self, wanted: &[HostFilter]) {
        self.outside.awaken(wanted);
    }

    /// Takes a message out of the backlog for an operator, regardless of memory limits.
    ///
    /// Returns its name if it is to be read.
    pub fn fetch(&mut self, number: u64, recipients: Option<u32>) -> Option<SpoolName> {
        let name = self.outside.fetch(number)?;
        self.begin_to_read(number, recipients);
        Some(name)
    }

    /// Adjusts to a step of the clock.
    pub fn shift(&mut self, step: ClockStep) {
        self.outside.shift(step);
    }

    /// Records that the reader has finished a file.
    pub fn read(&mut self, number: u64) {
        self.under_way -= self.reading.remove(&number).unwrap_or_default() as usize;
    }

    /// Schedules a file locked by a living process for later. Returns true if that is new.
    pub fn locked(&mut self, now: Timestamp, name: SpoolName) -> bool {
        let is_new = self.locked.insert(name.number());
        self.hold(now + self.delays.locked_file, name);
        is_new
    }

    /// Records that no living process holds a recipient of a file.
    pub fn unlocked(&mut self, number: u64) {
        self.locked.remove(&number);
    }

    /// Makes locked files due now, or only those of these messages.
    pub fn look_at_locked(&mut self, only: Option<&HashSet<u64>>) {
        let is_meant = |number: &u64| {
            self.locked.contains(number) && only.is_none_or(|only| only.contains(number))
        };
        let soon = |((time, number), name)| match is_meant(&number) {
            true => ((Timestamp::EPOCH, number), name),
            false => ((time, number), name),
        };
        self.held = std::mem::take(&mut self.held).into_iter().map(soon).collect();
    }

    /// Schedules a file that could not be read for later.
    pub fn failed(&mut self, now: Timestamp, name: SpoolName) {
        self.hold(now + self.delays.unreadable_file, name);
    }

    /// Schedules a control file for later while `queue/` is empty.
    ///
    /// Returns true if this is to be logged, which is once per interval and not for each file.
    pub fn without_queue(&mut self, now: Timestamp, name: SpoolName) -> bool {
        self.hold(now + self.delays.unreadable_file, name);
        let must_be_told = now >= self.told_of_queue + self.delays.unreadable_file;
        if must_be_told {
            self.told_of_queue = now;
        }
        must_be_told
    }

    /// Records an invalid name found by a scan.
    ///
    /// Returns true if it is to be logged: once for each name, up to a limit.
    pub fn passed_over(&mut self, name: &str) -> bool {
        self.passed_over.len() < MOST_PASSED_OVER && self.passed_over.insert(name.to_string())
    }

    fn hold(&mut self, until: Timestamp, name: SpoolName) {
        self.held_numbers.insert(name.number());
        self.held.insert((until, name.number()), name);
    }

    /// Skips an unusable file that could not be moved aside, for `timeouts.refused_file`.
    pub fn refuse(&mut self, now: Timestamp, number: u64) {
        self.refused.insert(number, now + self.delays.refused_file);
    }

    /// Records that a message has left the spool.
    ///
    /// Returns a file of its number that was found meanwhile, if it is to be read now.
    pub fn left(&mut self, number: u64) -> Option<SpoolName> {
        let name = self.again.remove(&number)?;
        self.read_or_wait(name)
    }

    /// Returns a held file that is due to be read.
    pub fn next_held(&mut self, now: Timestamp) -> Option<SpoolName> {
        let longest = self.delays.unreadable_file.max(self.delays.locked_file);
        loop {
            let (time, number) = *self.held.first_key_value()?.0;
            // A later time than this results from a clock that was set back. It counts as due.
            if now < time && time <= now + longest {
                return None;
            }
            self.held_numbers.remove(&number);
            let name = self.held.remove(&(time, number))?;
            if let Some(name) = self.read_or_wait(name) {
                return Some(name);
            }
        }
    }

    fn read_or_wait(&mut self, name: SpoolName) -> Option<SpoolName> {
        // If the name is not kept for lack of room, the next scan finds it again.
        if self.limit.is_some() {
            self.outside.add(name);
            return None;
        }
        self.reading.insert(name.number(), 0);
        Some(name)
    }

    /// Starts a scan if one is due, and returns true.
    pub fn begin_scan(&mut self, now: Timestamp) -> bool {
        let may_go_on = self.is_truncated && self.reading.len() < GO_ON_BELOW;
        // A later time than this results from a clock that was set back. It counts as due.
        let is_planned =
            now < self.next_scan && self.next_scan <= now + 2 * self.delays.scan_interval;
        if self.is_scanning || (is_planned && !may_go_on) {
            return false;
        }
        self.is_scanning = true;
        self.is_truncated = false;
        // A later time than this results from a clock that was set back. It counts as over.
        let longest = self.delays.refused_file;
        self.refused.retain(|_, until| now < *until && *until <= now + longest);
        true
    }

    /// Requests a scan now. Skipped unusable files are tried again.
    pub fn scan_now(&mut self) {
        self.refused.clear();
        self.next_scan = Timestamp::EPOCH;
        self.is_asked_again = self.is_scanning;
    }

    /// Records the end of a scan; `truncated` if it met a limit.
    pub fn end_scan(&mut self, now: Timestamp, truncated: bool) {
        self.is_scanning = false;
        self.is_truncated = truncated;
        self.scans += 1;
        let tenths = (self.reading.len() / FILES_PER_TENTH).min(10) as u32;
        self.next_scan = match std::mem::take(&mut self.is_asked_again) {
            true => now,
            false => now + self.delays.scan_interval * (10 + tenths) / 10,
        };
    }

    /// Returns true if all mail found at the start is read.
    ///
    /// That is so after a complete scan, when no file is being read.
    pub fn is_settled(&self) -> bool {
        self.scans > 0 && !self.is_scanning && !self.is_truncated && self.reading.is_empty()
    }

    /// Time at which there is work if nothing is reported before.
    pub fn next_wakeup(&self, room: &Room) -> Option<Timestamp> {
        let next = self.next_planned();
        let back = self.outside.next_back().filter(|_| self.has_room(room));
        match self.outside.has_something(Timestamp::EPOCH) && self.has_room(room) {
            true => Some(Timestamp::EPOCH),
            false => next.into_iter().chain(back).min(),
        }
    }

    fn next_planned(&self) -> Option<Timestamp> {
        let held = self.held.first_key_value().map(|((time, _), _)| *time);
        let scan = (!self.is_scanning).then_some(self.next_scan);
        match (held, scan) {
            (Some(held), Some(scan)) => Some(held.min(scan)),
            (held, scan) => held.or(scan),
        }
    }
}

impl PagedOutSource for Intake {
    fn behind(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [PagedVertex]>)> {
        self.outside.behind(number)
    }
}

impl BacklogView for Intake {
    fn waiting(&self) -> BacklogCounts {
        self.outside.waiting()
    }

    fn location(&self, number: u64) -> Option<Location> {
        let is_read = self.reading.contains_key(&number).then_some(Location::Loading);
        is_read.or_else(|| self.outside.location(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use zsched_spool::HashFolder;

    const NOW: Timestamp = Timestamp::from_seconds(1_795_259_643);

    fn name(number: u64) -> SpoolName {
        SpoolName::new(HashFolder::TOP, number.to_string().as_bytes()).expect("a name")
    }

    fn room(messages: usize) -> Room {
        Room { messages, recipients: None }
    }

    fn intake() -> Intake {
        Intake::new(Delays::default())
    }

    #[test]
    fn file_found_repeatedly_is_read_once() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Read);
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Known);
        intake.read(1);
        assert_eq!(intake.found(&name(1), Known::Queued), Verdict::Known);
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Read);
    }

    #[test]
    fn file_found_while_its_number_leaves_is_read_afterwards() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), Known::Leaving), Verdict::Known);
        assert_eq!(intake.left(1), Some(name(1)));
        assert_eq!(intake.left(1), None);
        assert_eq!(intake.left(2), None);
    }

    #[test]
    fn locked_file_is_read_again_after_interval() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Read);
        intake.read(1);
        intake.locked(NOW, name(1));
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Known);
        assert_eq!(intake.next_held(NOW + Duration::from_secs(31)), None);
        assert_eq!(intake.next_held(NOW + Duration::from_secs(32)), Some(name(1)));
        assert_eq!(intake.next_held(NOW + Duration::from_secs(32)), None);
    }

    #[test]
    fn locked_file_that_has_changed_is_read_at_once() {
        let mut intake = intake();
        for number in 1..=3 {
            assert!(intake.locked(NOW, name(number)));
        }
        intake.failed(NOW, name(4));
        intake.look_at_locked(Some(&HashSet::from([2, 4, 5])));
        assert_eq!(intake.next_wakeup(&room(0)), Some(Timestamp::EPOCH));
        assert_eq!(intake.next_held(NOW), Some(name(2)));
        assert_eq!(intake.next_held(NOW), None);
        assert!(!intake.locked(NOW, name(2)), "it was locked before");
        intake.look_at_locked(None);
        let mut all: Vec<_> = std::iter::from_fn(|| intake.next_held(NOW)).collect();
        all.sort_by_key(SpoolName::number);
        assert_eq!(all, [name(1), name(2), name(3)]);
        intake.unlocked(2);
        assert!(intake.locked(NOW, name(2)));
    }

    #[test]
    fn empty_queue_folder_is_reported_once_a_minute() {
        let mut intake = intake();
        assert!(intake.without_queue(NOW, name(1)));
        assert!(!intake.without_queue(NOW, name(2)));
        assert_eq!(intake.found(&name(2), Known::No), Verdict::Known);
        let later = NOW + Duration::from_secs(60);
        assert_eq!(intake.next_held(later), Some(name(1)));
        assert_eq!(intake.next_held(later), Some(name(2)));
        assert!(intake.without_queue(later, name(2)));
    }

    #[test]
    fn invalid_names_are_reported_once_up_to_limit() {
        let mut intake = intake();
        assert!(intake.passed_over("1 2"));
        assert!(!intake.passed_over("1 2"));
        let told = (0..2 * MOST_PASSED_OVER).filter(|n| intake.passed_over(&format!("{n} x")));
        assert_eq!(told.count(), MOST_PASSED_OVER - 1);
    }

    #[test]
    fn clock_set_back_delays_no_file_and_no_scan() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        intake.end_scan(NOW, false);
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Read);
        intake.locked(NOW, name(1));
        let before = NOW - Duration::from_secs(3600);
        assert_eq!(intake.next_held(before), Some(name(1)));
        assert!(intake.begin_scan(before));
    }

    #[test]
    fn refused_file_is_read_again_after_interval() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Read);
        intake.read(1);
        intake.refuse(NOW, 1);
        for (seconds, is_read) in [(0, false), (599, false), (600, true)] {
            assert!(intake.begin_scan(NOW + Duration::from_secs(seconds)));
            let verdict = intake.found(&name(1), Known::No);
            assert_eq!(verdict == Verdict::Read, is_read, "after {seconds} s");
            intake.end_scan(NOW, false);
        }
        intake.refuse(NOW, 2);
        assert!(intake.begin_scan(NOW + Duration::from_secs(601)));
        intake.end_scan(NOW - Duration::from_secs(3600), false);
        intake.refuse(NOW, 2);
        assert_eq!(intake.found(&name(2), Known::No), Verdict::Known);
        assert!(intake.begin_scan(NOW - Duration::from_secs(1800)));
        let verdict = intake.found(&name(2), Known::No);
        assert_eq!(verdict, Verdict::Read, "the clock has been set back");
    }

    #[test]
    fn scans_run_at_intervals_and_at_once_when_truncated() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        assert!(!intake.begin_scan(NOW));
        intake.end_scan(NOW, false);
        assert!(!intake.begin_scan(NOW + Duration::from_secs(9)));
        assert!(intake.begin_scan(NOW + Duration::from_secs(10)));
        intake.end_scan(NOW, true);
        assert!(!intake.is_settled());
        assert!(intake.begin_scan(NOW));
        intake.end_scan(NOW, false);
        assert!(intake.is_settled());
    }

    #[test]
    fn scan_requested_during_scan_is_run_afterwards() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        intake.scan_now();
        assert!(!intake.begin_scan(NOW));
        intake.end_scan(NOW, false);
        assert!(intake.begin_scan(NOW));
        intake.end_scan(NOW, false);
        assert!(!intake.begin_scan(NOW));
    }

    #[test]
    fn busy_reader_lengthens_scan_interval() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        for number in 1..=100 {
            intake.found(&name(number), Known::No);
        }
        intake.end_scan(NOW, false);
        assert_eq!(intake.next_wakeup(&room(0)), Some(NOW + Duration::from_secs(13)));
    }

    #[test]
    fn files_beyond_limit_wait_for_room() {
        let mut intake = intake();
        intake.set_limit(Some(3));
        for number in 1..=5 {
            assert_eq!(intake.found(&name(number), Known::No), Verdict::Later);
            assert_eq!(intake.found(&name(number), Known::No), Verdict::Known);
        }
        assert_eq!(intake.next_wakeup(&room(0)), Some(Timestamp::EPOCH));
        let read = |intake: &mut Intake, loaded| {
            let all = std::iter::from_fn(|| intake.next_outside(NOW, &room(loaded)));
            all.map(|(name, _)| name.number()).collect::<Vec<u64>>()
        };
        assert_eq!(read(&mut intake, 1), [1, 2]);
        assert_eq!(intake.crowd(NOW, &room(1)), Backlog::New);
        intake.read(1);
        assert_eq!(read(&mut intake, 2), [0; 0], "one was loaded, one is being read");
        intake.read(2);
        assert_eq!(read(&mut intake, 2), [3]);
        assert_eq!(intake.waiting(), BacklogCounts { waiting_files: 2, resting: 0 });
        intake.set_limit(None);
        assert_eq!(read(&mut intake, 100), [4, 5]);
        assert_eq!(intake.crowd(NOW, &room(100)), Backlog::None);
    }

    #[test]
    fn held_files_beyond_limit_wait_for_room() {
        let mut intake = intake();
        intake.set_limit(Some(1));
        intake.locked(NOW, name(1));
        let later = NOW + Duration::from_secs(32);
        assert_eq!(intake.next_held(later), None);
        assert_eq!(intake.next_outside(later, &room(1)), None);
        assert_eq!(intake.next_outside(later, &room(0)), Some((name(1), None)));
    }
}
