//! Which control files are to be read, and when to look for more. Pure: told what was found, asked
//! what to do.

use crate::spool::SpoolName;
use crate::time::Timestamp;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// A file with a recipient that a living process holds is looked at again after this time.
const LOCKED_WAIT: Duration = Duration::from_secs(32);
/// A file that could not be read is looked at again after this time.
const FAILED_WAIT: Duration = Duration::from_secs(60);
/// A file that cannot be used and could not be moved aside is read again after this time: its number may
/// have become that of another one.
const REFUSED_WAIT: Duration = Duration::from_secs(600);
/// The regular time between scans, as in the original.
const SCAN_INTERVAL: Duration = Duration::from_secs(10);
/// So many files being read add one second to it, up to ten.
const FILES_PER_SECOND: usize = 32;
/// Of so many names that were passed over the log tells.
const MOST_PASSED_OVER: usize = 1000;
/// So the time between scans is never longer than this.
const LONGEST_SCAN_INTERVAL: Duration = Duration::from_secs(20);
/// A scan that met a limit goes on when no more files than this are being read.
const GO_ON_BELOW: usize = 1000;

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

/// Control files between being found and being loaded.
pub struct Intake {
    /// Files that were handed to the reader.
    reading: HashSet<u64>,
    /// Files that are to be looked at again, by time.
    held: BTreeMap<(Timestamp, u64), SpoolName>,
    held_numbers: HashSet<u64>,
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
}

impl Intake {
    /// Nothing found yet; the first scan is due at once.
    pub fn new() -> Intake {
        Intake {
            reading: HashSet::new(),
            held: BTreeMap::new(),
            held_numbers: HashSet::new(),
            again: HashMap::new(),
            refused: HashMap::new(),
            passed_over: HashSet::new(),
            told_of_queue: Timestamp::EPOCH,
            next_scan: Timestamp::EPOCH,
            is_scanning: false,
            is_asked_again: false,
            is_truncated: false,
            scans: 0,
        }
    }

    /// A scan or a datagram has named a file. Tells whether it is to be read.
    pub fn found(&mut self, name: &SpoolName, known: Known) -> bool {
        let number = name.number();
        match known {
            Known::Queued => return false,
            Known::Leaving => {
                self.again.insert(number, name.clone());
                return false;
            }
            Known::No => {}
        }
        let is_ours = self.reading.contains(&number)
            || self.held_numbers.contains(&number)
            || self.refused.contains_key(&number);
        if !is_ours {
            self.reading.insert(number);
        }
        !is_ours
    }

    /// The reader is through with a file.
    pub fn read(&mut self, number: u64) {
        self.reading.remove(&number);
    }

    /// A file is held by somebody: it is to be looked at again later.
    pub fn locked(&mut self, now: Timestamp, name: SpoolName) {
        self.hold(now + LOCKED_WAIT, name);
    }

    /// A file could not be read: it is to be looked at again later.
    pub fn failed(&mut self, now: Timestamp, name: SpoolName) {
        self.hold(now + FAILED_WAIT, name);
    }

    /// There is no message of a file, nor any other: it is to be looked at again later. Tells whether
    /// somebody must hear of it; not for each of a million files.
    pub fn without_queue(&mut self, now: Timestamp, name: SpoolName) -> bool {
        self.hold(now + FAILED_WAIT, name);
        let must_be_told = now >= self.told_of_queue + FAILED_WAIT;
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
        self.refused.insert(number, now + REFUSED_WAIT);
    }

    /// A message has left the spool. If a file of its number was found meanwhile, that is to be read.
    pub fn left(&mut self, number: u64) -> Option<SpoolName> {
        let name = self.again.remove(&number)?;
        self.reading.insert(number);
        Some(name)
    }

    /// A file that was held and is to be looked at now.
    pub fn next_held(&mut self, now: Timestamp) -> Option<SpoolName> {
        let (time, number) = *self.held.first_key_value()?.0;
        // Nothing is held for longer than that, but by a clock that has been set back since.
        if now < time && time <= now + FAILED_WAIT.max(LOCKED_WAIT) {
            return None;
        }
        self.held_numbers.remove(&number);
        self.reading.insert(number);
        self.held.remove(&(time, number))
    }

    /// Whether to begin a scan now. If so, it has begun.
    pub fn begin_scan(&mut self, now: Timestamp) -> bool {
        let may_go_on = self.is_truncated && self.reading.len() < GO_ON_BELOW;
        // No scan is planned for later than that, but by a clock that has been set back since.
        let is_planned = now < self.next_scan && self.next_scan <= now + LONGEST_SCAN_INTERVAL;
        if self.is_scanning || (is_planned && !may_go_on) {
            return false;
        }
        self.is_scanning = true;
        self.is_truncated = false;
        // None waits for longer than that, but by a clock that has been set back since.
        self.refused.retain(|_, until| now < *until && *until <= now + REFUSED_WAIT);
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
        let longer = (self.reading.len() / FILES_PER_SECOND).min(10) as u64;
        self.next_scan = match std::mem::take(&mut self.is_asked_again) {
            true => now,
            false => now + SCAN_INTERVAL + Duration::from_secs(longer),
        };
    }

    /// Whether everything that was there at the start has been read: the first scan went through, and
    /// nothing is being read.
    pub fn is_settled(&self) -> bool {
        self.scans > 0 && !self.is_scanning && !self.is_truncated && self.reading.is_empty()
    }

    /// When something is to be done, if nothing is told before.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let held = self.held.first_key_value().map(|((time, _), _)| *time);
        let scan = (!self.is_scanning).then_some(self.next_scan);
        match (held, scan) {
            (Some(held), Some(scan)) => Some(held.min(scan)),
            (held, scan) => held.or(scan),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::HashFolder;

    const NOW: Timestamp = Timestamp::from_seconds(1_795_259_643);

    fn name(number: u64) -> SpoolName {
        SpoolName::new(HashFolder::TOP, number.to_string().as_bytes()).expect("a name")
    }

    fn intake() -> Intake {
        Intake::new()
    }

    #[test]
    fn a_file_is_read_once_however_often_it_is_found() {
        let mut intake = intake();
        assert!(intake.found(&name(1), Known::No));
        assert!(!intake.found(&name(1), Known::No));
        intake.read(1);
        assert!(!intake.found(&name(1), Known::Queued));
        assert!(intake.found(&name(1), Known::No));
    }

    #[test]
    fn a_number_that_comes_again_while_it_leaves_is_not_forgotten() {
        let mut intake = intake();
        assert!(!intake.found(&name(1), Known::Leaving));
        assert_eq!(intake.left(1), Some(name(1)));
        assert_eq!(intake.left(1), None);
        assert_eq!(intake.left(2), None);
    }

    #[test]
    fn a_locked_file_is_looked_at_again_in_time() {
        let mut intake = intake();
        assert!(intake.found(&name(1), Known::No));
        intake.read(1);
        intake.locked(NOW, name(1));
        assert!(!intake.found(&name(1), Known::No));
        assert_eq!(intake.next_held(NOW + Duration::from_secs(31)), None);
        assert_eq!(intake.next_held(NOW + Duration::from_secs(32)), Some(name(1)));
        assert_eq!(intake.next_held(NOW + Duration::from_secs(32)), None);
    }

    #[test]
    fn a_queue_that_is_missing_is_told_of_once_a_minute() {
        let mut intake = intake();
        assert!(intake.without_queue(NOW, name(1)));
        assert!(!intake.without_queue(NOW, name(2)));
        assert!(!intake.found(&name(2), Known::No));
        let later = NOW + FAILED_WAIT;
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
        assert!(intake.found(&name(1), Known::No));
        intake.locked(NOW, name(1));
        let before = NOW - Duration::from_secs(3600);
        assert_eq!(intake.next_held(before), Some(name(1)));
        assert!(intake.begin_scan(before));
    }

    #[test]
    fn a_refused_file_is_read_again_with_a_scan_after_a_while() {
        let mut intake = intake();
        assert!(intake.found(&name(1), Known::No));
        intake.read(1);
        intake.refuse(NOW, 1);
        for (seconds, is_read) in [(0, false), (599, false), (600, true)] {
            assert!(intake.begin_scan(NOW + Duration::from_secs(seconds)));
            assert_eq!(intake.found(&name(1), Known::No), is_read, "after {seconds} s");
            intake.end_scan(NOW, false);
        }
        intake.refuse(NOW, 2);
        assert!(intake.begin_scan(NOW + Duration::from_secs(601)));
        intake.end_scan(NOW - Duration::from_secs(3600), false);
        intake.refuse(NOW, 2);
        assert!(!intake.found(&name(2), Known::No));
        assert!(intake.begin_scan(NOW - Duration::from_secs(1800)));
        assert!(intake.found(&name(2), Known::No), "the clock has been set back");
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
        assert_eq!(intake.next_wakeup(), Some(NOW + Duration::from_secs(13)));
    }
}
