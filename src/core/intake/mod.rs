//! Which control files are to be read, and when to look for more. Pure: told what was found, asked
//! what to do.

pub mod elsewhere;
mod outside;

use crate::learned::Resting;
use crate::{Capacity, Crowd, Rested, RestedVertex, Scheduler, Wanted};
use elsewhere::{Elsewhere, Waiting, Whereabouts};
use outside::Outside;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_spool::SpoolName;

/// Number of files being read that makes the time between scans a tenth longer, up to twice as long.
const FILES_PER_TENTH: usize = 32;
/// Of so many names that were passed over the log tells.
const MOST_PASSED_OVER: usize = 1000;
/// A scan that met a limit goes on when no more files than this are being read.
const GO_ON_BELOW: usize = 1000;

/// Times between looks at the spool and at its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Time between regular scans, as in the original. A busy reader makes it up to twice as long.
    pub scan_interval: Duration,
    /// Wait before a second look at a file that a living process has locked.
    pub locked_file: Duration,
    /// Wait before a second attempt at a file that could not be read.
    pub unreadable_file: Duration,
    /// Wait before a second attempt at a file that cannot be used and could not be moved aside.
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

/// What the scheduler knows of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    No,
    /// A message of this number is queued.
    Queued,
    /// A message of this number is being taken out of the spool; it may come again.
    Leaving,
}

/// What is to be done about a file that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, it is known.
    Known,
    /// It is to be read.
    Read,
    /// It is new, and is read when there is room for it.
    Later,
}

/// What is in memory, as far as it matters to whoever has files read.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Messages in memory.
    pub messages: usize,
    /// How many recipients may be read of the next one; `None` is all.
    pub recipients: Option<u32>,
}

impl Room {
    /// What a core has in memory, whose capacity is known, while so much is being read.
    pub fn of(core: &Scheduler, capacity: Option<Capacity>, intake: &Intake) -> Room {
        let recipients = capacity.map(|capacity| capacity.first_batch(intake.under_way()));
        Room { messages: core.loaded(), recipients }
    }
}

/// Control files between being found and being loaded.
pub struct Intake {
    delays: Delays,
    /// Files that were handed to the reader, with how many recipients they may bring at the most.
    reading: HashMap<u64, u32>,
    /// The sum of these.
    under_way: usize,
    /// Files that are to be looked at again, by time.
    held: BTreeMap<(Timestamp, u64), SpoolName>,
    held_numbers: HashSet<u64>,
    /// Files that were held by a living process at the last look.
    locked: HashSet<u64>,
    /// Files that were found while a message of the same number was leaving.
    again: HashMap<u64, SpoolName>,
    /// Files that cannot be used and could not be moved aside: not to be read before this time.
    refused: HashMap<u64, Timestamp>,
    /// Names that no control file can have; somebody was told of them.
    passed_over: HashSet<String>,
    /// When somebody was last told that all message files are missing.
    told_of_queue: Timestamp,
    next_scan: Timestamp,
    is_scanning: bool,
    /// Somebody asked for a scan while there was one, which may have missed what is meant.
    is_asked_again: bool,
    /// The last scan met a limit.
    is_truncated: bool,
    scans: u64,
    /// How many messages may be in memory.
    limit: Option<usize>,
    /// What waits until there is room, and what rests.
    outside: Outside,
}

impl Intake {
    /// Nothing found yet; the first scan is due at once.
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

    /// Lets at most so many messages be in memory from now on; `None` is all.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit;
    }

    /// A scan or a datagram has named a file.
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

    /// The next file that waits outside and for which there is room, and how many recipients to do are to be
    /// read of it; `None` is all.
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

    /// How many recipients may come with what is being read.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    fn has_room(&self, room: &Room) -> bool {
        let has_place = self.limit.is_none_or(|limit| room.messages + self.reading.len() < limit);
        has_place && room.recipients != Some(0)
    }

    /// Whether files wait outside only because there is no room for them, and which.
    pub fn crowd(&self, now: Timestamp, room: &Room) -> Crowd {
        match self.has_room(room) {
            true => Crowd::None,
            false if self.outside.has_fresh() => Crowd::New,
            false if self.outside.has_something(now) => Crowd::Rested,
            false => Crowd::None,
        }
    }

    /// A message has left memory and rests on disk until a certain time; `None` is when it is wanted.
    pub fn rest(&mut self, name: SpoolName, until: Option<Timestamp>, rested: Rested) {
        self.outside.rest(name, until, rested);
    }

    /// What is known of a message that was read again because it has rested.
    pub fn recall(&mut self, number: u64) -> Option<(Rested, Vec<Wanted>)> {
        self.outside.recall(number)
    }

    /// Somebody asks for messages that rest.
    pub fn awaken(&mut self, wanted: &[Wanted]) {
        self.outside.awaken(wanted);
    }

    /// Somebody wants to have a message in memory, whether there is room or not. It is returned if it is to
    /// be read.
    pub fn fetch(&mut self, number: u64, recipients: Option<u32>) -> Option<SpoolName> {
        let name = self.outside.fetch(number)?;
        self.begin_to_read(number, recipients);
        Some(name)
    }

    /// The clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        self.outside.shift(step);
    }

    /// The reader is through with a file.
    pub fn read(&mut self, number: u64) {
        self.under_way -= self.reading.remove(&number).unwrap_or_default() as usize;
    }

    /// A living process holds a recipient of a file: it is to be looked at again later. Tells whether
    /// that is new.
    pub fn locked(&mut self, now: Timestamp, name: SpoolName) -> bool {
        let is_new = self.locked.insert(name.number());
        self.hold(now + self.delays.locked_file, name);
        is_new
    }

    /// No living process holds a recipient of a file.
    pub fn unlocked(&mut self, number: u64) {
        self.locked.remove(&number);
    }

    /// Locked files, or only those of these messages, are to be looked at now.
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

    /// A file could not be read: it is to be looked at again later.
    pub fn failed(&mut self, now: Timestamp, name: SpoolName) {
        self.hold(now + self.delays.unreadable_file, name);
    }

    /// There is no message of a file, nor any other: it is to be looked at again later. Tells whether
    /// somebody must hear of it; not for each of a million files.
    pub fn without_queue(&mut self, now: Timestamp, name: SpoolName) -> bool {
        self.hold(now + self.delays.unreadable_file, name);
        let must_be_told = now >= self.told_of_queue + self.delays.unreadable_file;
        if must_be_told {
            self.told_of_queue = now;
        }
        must_be_told
    }

    /// A scan has passed over a name that no control file can have. Tells whether somebody must hear of
    /// it: once of each, as long as they are few.
    pub fn passed_over(&mut self, name: &str) -> bool {
        self.passed_over.len() < MOST_PASSED_OVER && self.passed_over.insert(name.to_string())
    }

    fn hold(&mut self, until: Timestamp, name: SpoolName) {
        self.held_numbers.insert(name.number());
        self.held.insert((until, name.number()), name);
    }

    /// A file cannot be used, and could not be moved out of the way: it is not read again
    /// for a while.
    pub fn refuse(&mut self, now: Timestamp, number: u64) {
        self.refused.insert(number, now + self.delays.refused_file);
    }

    /// A message has left the spool. If a file of its number was found meanwhile, that is to be read; it is
    /// returned, unless it has to wait for room.
    pub fn left(&mut self, number: u64) -> Option<SpoolName> {
        let name = self.again.remove(&number)?;
        self.read_or_wait(name)
    }

    /// A file that was held and is to be looked at now.
    pub fn next_held(&mut self, now: Timestamp) -> Option<SpoolName> {
        let longest = self.delays.unreadable_file.max(self.delays.locked_file);
        loop {
            let (time, number) = *self.held.first_key_value()?.0;
            // Nothing is held for longer than that, but by a clock that has been set back since.
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
        // If there is no room for the name, the next scan finds it again.
        if self.limit.is_some() {
            self.outside.add(name);
            return None;
        }
        self.reading.insert(name.number(), 0);
        Some(name)
    }

    /// Whether to begin a scan now. If so, it has begun.
    pub fn begin_scan(&mut self, now: Timestamp) -> bool {
        let may_go_on = self.is_truncated && self.reading.len() < GO_ON_BELOW;
        // No scan is planned for later than that, but by a clock that has been set back since.
        let is_planned =
            now < self.next_scan && self.next_scan <= now + 2 * self.delays.scan_interval;
        if self.is_scanning || (is_planned && !may_go_on) {
            return false;
        }
        self.is_scanning = true;
        self.is_truncated = false;
        // None waits for longer than that, but by a clock that has been set back since.
        let longest = self.delays.refused_file;
        self.refused.retain(|_, until| now < *until && *until <= now + longest);
        true
    }

    /// Somebody asks for a scan now. Files that could not be dealt with get another chance.
    pub fn scan_now(&mut self) {
        self.refused.clear();
        self.next_scan = Timestamp::EPOCH;
        self.is_asked_again = self.is_scanning;
    }

    /// A scan has ended, having met a limit or not.
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

    /// Whether everything that was there at the start has been read: the first scan went through, and
    /// nothing is being read.
    pub fn is_settled(&self) -> bool {
        self.scans > 0 && !self.is_scanning && !self.is_truncated && self.reading.is_empty()
    }

    /// When something is to be done, if nothing is told before.
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

impl Resting for Intake {
    fn behind(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [RestedVertex]>)> {
        self.outside.behind(number)
    }
}

impl Elsewhere for Intake {
    fn waiting(&self) -> Waiting {
        self.outside.waiting()
    }

    fn whereabouts(&self, number: u64) -> Option<Whereabouts> {
        let is_read = self.reading.contains_key(&number).then_some(Whereabouts::Read);
        is_read.or_else(|| self.outside.whereabouts(number))
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
    fn a_file_is_read_once_however_often_it_is_found() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Read);
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Known);
        intake.read(1);
        assert_eq!(intake.found(&name(1), Known::Queued), Verdict::Known);
        assert_eq!(intake.found(&name(1), Known::No), Verdict::Read);
    }

    #[test]
    fn a_number_that_comes_again_while_it_leaves_is_not_forgotten() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), Known::Leaving), Verdict::Known);
        assert_eq!(intake.left(1), Some(name(1)));
        assert_eq!(intake.left(1), None);
        assert_eq!(intake.left(2), None);
    }

    #[test]
    fn a_locked_file_is_looked_at_again_in_time() {
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
    fn locked_file_that_has_changed_is_looked_at_at_once() {
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
    fn a_queue_that_is_missing_is_told_of_once_a_minute() {
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
    fn names_that_are_passed_over_are_told_of_once_and_not_for_ever() {
        let mut intake = intake();
        assert!(intake.passed_over("1 2"));
        assert!(!intake.passed_over("1 2"));
        let told = (0..2 * MOST_PASSED_OVER).filter(|n| intake.passed_over(&format!("{n} x")));
        assert_eq!(told.count(), MOST_PASSED_OVER - 1);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_up_nothing() {
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
    fn a_refused_file_is_read_again_with_a_scan_after_a_while() {
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
    fn scans_follow_each_other_at_intervals_and_at_once_when_cut_short() {
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
    fn who_asks_during_a_scan_gets_another_one() {
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
    fn a_busy_reader_makes_scans_rarer() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        for number in 1..=100 {
            intake.found(&name(number), Known::No);
        }
        intake.end_scan(NOW, false);
        assert_eq!(intake.next_wakeup(&room(0)), Some(NOW + Duration::from_secs(13)));
    }

    #[test]
    fn files_wait_until_there_is_room() {
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
        assert_eq!(intake.crowd(NOW, &room(1)), Crowd::New);
        intake.read(1);
        assert_eq!(read(&mut intake, 2), [0; 0], "one was loaded, one is being read");
        intake.read(2);
        assert_eq!(read(&mut intake, 2), [3]);
        assert_eq!(intake.waiting(), Waiting { to_be_read: 2, resting: 0 });
        intake.set_limit(None);
        assert_eq!(read(&mut intake, 100), [4, 5]);
        assert_eq!(intake.crowd(NOW, &room(100)), Crowd::None);
    }

    #[test]
    fn what_was_held_waits_for_room_too() {
        let mut intake = intake();
        intake.set_limit(Some(1));
        intake.locked(NOW, name(1));
        let later = NOW + Duration::from_secs(32);
        assert_eq!(intake.next_held(later), None);
        assert_eq!(intake.next_outside(later, &room(1)), None);
        assert_eq!(intake.next_outside(later, &room(0)), Some((name(1), None)));
    }
}
