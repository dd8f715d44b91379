//! Decides which control files to read, and when to scan for more.
//!
//! It does no I/O: callers report what was found and ask what to do.

pub mod backlog;
pub mod backlog_view;

use crate::{Backlog, RecipientRoom, Scheduler};
use backlog::FileBacklog;
use backlog_view::{BacklogCounts, BacklogView, FileLocation};
use foldhash::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::time::Duration;
use zsched_format::log_limiter::LogLimiter;
use zsched_format::time::Timestamp;
use zsched_spool::SpoolName;

/// Number of files being read that adds a tenth to the scan interval.
///
/// The interval grows up to twice its length.
const FILES_PER_TENTH: usize = 32;
/// Maximum number of invalid names that are logged.
const MAX_LOGGED_NAMES: usize = 1000;
/// Number of files being read below which a scan goes on.
const MAX_READING_TO_CONTINUE_SCAN: usize = 1000;
/// Maximum number of files being read because they were reported.
///
/// Further ones are left to the next scan, which pauses while it has found many.
const MAX_READING_OF_REPORTED: usize = 10_000;

/// Times between scans of the spool and between attempts to read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeDelays {
    /// Interval of regular scans, as in ZMailer. A busy reader makes it up to twice as long.
    pub scan_interval: Duration,
    /// Wait before a file locked by a living process is read again.
    pub locked_file: Duration,
    /// Wait before a file that could not be read is read again.
    pub unreadable_file: Duration,
    /// Wait before an unusable file that could not be moved aside is read again.
    pub refused_file: Duration,
}

impl IntakeDelays {
    /// The times of normal operation, each multiplied by `scale`.
    pub fn scaled(scale: f64) -> IntakeDelays {
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds * scale);
        IntakeDelays {
            scan_interval: seconds(10.0),
            locked_file: seconds(32.0),
            unreadable_file: seconds(60.0),
            refused_file: seconds(600.0),
        }
    }
}

impl Default for IntakeDelays {
    fn default() -> IntakeDelays {
        IntakeDelays::scaled(1.0)
    }
}

/// State of a message number in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberState {
    /// The number is free.
    Unknown,
    /// A message of this number is queued.
    Queued,
    /// The message is being removed from the spool; the number may come again.
    Leaving,
}

/// What to do with a file that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadDecision {
    /// Nothing; it is known.
    Known,
    /// Read it now.
    Read,
    /// Read it later, when memory limits allow; it is new.
    Backlog,
}

/// Memory in use, as far as it limits the reading of files.
#[derive(Clone, Copy, Debug)]
pub struct ReadBudget {
    /// Messages in memory.
    pub messages: usize,
    /// Maximum number of recipients to read of the next one; `None` is all.
    pub recipients: Option<u32>,
}

impl ReadBudget {
    /// Computes the budget from what the core has in memory and what is being read.
    pub fn of(core: &Scheduler, room: Option<RecipientRoom>, intake: &Intake) -> ReadBudget {
        let recipients = room.map(|room| room.first_chunk(intake.recipients_being_read()));
        ReadBudget { messages: core.view().loaded(), recipients }
    }
}

/// Control files between being found and being loaded.
pub struct Intake {
    delays: IntakeDelays,
    /// Files passed to the reader, with the maximum recipients of each.
    reading: HashMap<u64, u32>,
    /// Sum of these numbers.
    recipients_being_read: usize,
    /// Files to be read again later, by time.
    retries: BTreeMap<(Timestamp, u64), SpoolName>,
    retry_numbers: HashSet<u64>,
    /// Files with a recipient locked by a living process at the last reading.
    locked: HashSet<u64>,
    /// Files found while a message of the same number was leaving.
    found_while_leaving: HashMap<u64, SpoolName>,
    /// Unusable files that could not be moved aside, and when to retry.
    skipped: HashMap<u64, Timestamp>,
    /// Invalid names that were logged.
    invalid_names: HashSet<String>,
    /// Limiter for log lines about an empty `queue/`.
    queue_errors_log: LogLimiter<Timestamp>,
    next_scan: Timestamp,
    is_scanning: bool,
    is_scan_paused: bool,
    /// True if a scan was requested during a scan, which may have missed new files.
    scan_again: bool,
    /// True if there may be files that nothing has reported since the last scan began.
    has_unreported_files: bool,
    scans: u64,
    /// Maximum number of messages in memory.
    max_messages: Option<usize>,
    /// Backlog: files not read yet, and messages that are paged out.
    pub backlog: FileBacklog,
}

impl Intake {
    /// Creates an empty intake. The first scan is due at once.
    pub fn new(delays: IntakeDelays) -> Intake {
        Intake {
            delays,
            reading: HashMap::default(),
            recipients_being_read: 0,
            retries: BTreeMap::new(),
            retry_numbers: HashSet::default(),
            locked: HashSet::default(),
            found_while_leaving: HashMap::default(),
            skipped: HashMap::default(),
            invalid_names: HashSet::default(),
            queue_errors_log: LogLimiter::new(1, delays.unreadable_file),
            next_scan: Timestamp::EPOCH,
            is_scanning: false,
            is_scan_paused: false,
            scan_again: false,
            has_unreported_files: false,
            scans: 0,
            max_messages: None,
            backlog: FileBacklog::default(),
        }
    }

    /// Sets the maximum number of messages in memory; `None` is no limit.
    pub fn set_max_messages(&mut self, limit: Option<usize>) {
        self.max_messages = limit;
    }

    /// Handles a file named by a scan or a notice.
    pub fn found(&mut self, name: &SpoolName, known: NumberState) -> ReadDecision {
        let number = name.number();
        match known {
            NumberState::Queued => return ReadDecision::Known,
            NumberState::Leaving => {
                self.found_while_leaving.insert(number, name.clone());
                return ReadDecision::Known;
            }
            NumberState::Unknown => {}
        }
        let is_ours = self.reading.contains_key(&number)
            || self.retry_numbers.contains(&number)
            || self.skipped.contains_key(&number)
            || self.backlog.contains(number);
        match self.max_messages {
            _ if is_ours => ReadDecision::Known,
            Some(_) if self.backlog.add(name.clone()) => ReadDecision::Backlog,
            // The next scan finds it again.
            Some(_) => ReadDecision::Known,
            None => {
                self.reading.insert(number, 0);
                ReadDecision::Read
            }
        }
    }

    /// Records a file that a router or the kernel has reported. Returns what to do with it.
    pub fn reported(&mut self, name: &SpoolName, known: NumberState) -> ReadDecision {
        if self.reading.len() >= MAX_READING_OF_REPORTED {
            self.files_not_reported();
            return ReadDecision::Known;
        }
        self.found(name, known)
    }

    /// Records that there may be files that nothing has reported: a scan has to find them.
    pub fn files_not_reported(&mut self) {
        self.has_unreported_files = true;
        self.scan_again = self.is_scanning;
    }

    /// Takes the next file from the backlog if memory limits allow.
    ///
    /// Returns it with the maximum number of open recipients to read; `None` is all.
    pub fn next_from_backlog(
        &mut self,
        now: Timestamp,
        room: &ReadBudget,
    ) -> Option<(SpoolName, Option<u32>)> {
        if !self.has_room(room) || !self.backlog.has_readable(now) {
            return None;
        }
        let name = self.backlog.next(now)?;
        self.begin_to_read(name.number(), room.recipients);
        Some((name, room.recipients))
    }

    fn begin_to_read(&mut self, number: u64, recipients: Option<u32>) {
        self.reading.insert(number, recipients.unwrap_or_default());
        self.recipients_being_read += recipients.unwrap_or_default() as usize;
    }

    /// Maximum number of recipients that may come from the files being read.
    pub fn recipients_being_read(&self) -> usize {
        self.recipients_being_read
    }

    fn has_room(&self, room: &ReadBudget) -> bool {
        let has_place =
            self.max_messages.is_none_or(|limit| room.messages + self.reading.len() < limit);
        has_place && room.recipients != Some(0)
    }

    /// Kind of files kept in the backlog only by memory limits.
    pub fn blocked_kind(&self, now: Timestamp, room: &ReadBudget) -> Backlog {
        match self.has_room(room) {
            true => Backlog::None,
            false if self.backlog.has_new() => Backlog::New,
            false if self.backlog.has_readable(now) => Backlog::PagedOut,
            false => Backlog::None,
        }
    }

    /// Takes a message out of the backlog for an operator, regardless of memory limits.
    ///
    /// Returns its name if it is to be read.
    pub fn fetch(&mut self, number: u64, recipients: Option<u32>) -> Option<SpoolName> {
        let name = self.backlog.fetch(number)?;
        self.begin_to_read(number, recipients);
        Some(name)
    }

    /// Returns true if the reader has a file.
    pub fn is_being_read(&self, number: u64) -> bool {
        self.reading.contains_key(&number)
    }

    /// Records that the reader has finished a file.
    pub fn finish_read(&mut self, number: u64) {
        self.recipients_being_read -= self.reading.remove(&number).unwrap_or_default() as usize;
        // After a full spool has been read, few files are read at a time.
        if self.reading.capacity() > MAX_READING_OF_REPORTED
            && self.reading.len() < self.reading.capacity() / 8
        {
            self.reading.shrink_to(2 * self.reading.len());
        }
    }

    /// Schedules a file locked by a living process for later. Returns true if that is new.
    pub fn retry_locked_later(&mut self, now: Timestamp, name: SpoolName) -> bool {
        let is_new = self.locked.insert(name.number());
        self.retry_at(now + self.delays.locked_file, name);
        is_new
    }

    /// Records that no living process holds a recipient of a file.
    pub fn unlocked(&mut self, number: u64) {
        self.locked.remove(&number);
    }

    /// Makes locked files due now, or only those of these messages.
    pub fn recheck_locked(&mut self, only: Option<&HashSet<u64>>) {
        let is_rechecked = |number: &u64| {
            self.locked.contains(number) && only.is_none_or(|only| only.contains(number))
        };
        let soon = |((time, number), name)| {
            ((if is_rechecked(&number) { Timestamp::EPOCH } else { time }, number), name)
        };
        self.retries = std::mem::take(&mut self.retries).into_iter().map(soon).collect();
    }

    /// Schedules a file that could not be read for later.
    pub fn retry_unreadable_later(&mut self, now: Timestamp, name: SpoolName) {
        self.retry_at(now + self.delays.unreadable_file, name);
    }

    /// Schedules a control file for later while `queue/` is empty.
    ///
    /// Returns true if this is to be logged, which is once per interval and not for each file.
    pub fn retry_without_queue_later(&mut self, now: Timestamp, name: SpoolName) -> bool {
        self.retry_at(now + self.delays.unreadable_file, name);
        self.queue_errors_log.permit(now).is_some()
    }

    /// Records an invalid name found by a scan.
    ///
    /// Returns true if it is to be logged: once for each name, up to a limit.
    pub fn record_invalid_name(&mut self, name: &str) -> bool {
        self.invalid_names.len() < MAX_LOGGED_NAMES && self.invalid_names.insert(name.to_string())
    }

    fn retry_at(&mut self, until: Timestamp, name: SpoolName) {
        self.retry_numbers.insert(name.number());
        self.retries.insert((until, name.number()), name);
    }

    /// Skips an unusable file that could not be moved aside, for `timeouts.refused_file`.
    pub fn skip_file(&mut self, now: Timestamp, number: u64) {
        self.skipped.insert(number, now + self.delays.refused_file);
    }

    /// Records that a message has left the spool.
    ///
    /// Returns a file of its number that was found meanwhile, if it is to be read now.
    pub fn message_removed(&mut self, number: u64) -> Option<SpoolName> {
        let name = self.found_while_leaving.remove(&number)?;
        self.read_or_queue(name)
    }

    /// Takes the next file whose retry is due. The caller reads it.
    pub fn next_retry(&mut self, now: Timestamp) -> Option<SpoolName> {
        let longest = self.delays.unreadable_file.max(self.delays.locked_file);
        loop {
            let (time, number) = *self.retries.first_key_value()?.0;
            // A later time than this results from a clock that was set back. It counts as due.
            if now < time && time <= now + longest {
                return None;
            }
            self.retry_numbers.remove(&number);
            let name = self.retries.remove(&(time, number))?;
            if let Some(name) = self.read_or_queue(name) {
                return Some(name);
            }
        }
    }

    fn read_or_queue(&mut self, name: SpoolName) -> Option<SpoolName> {
        // If the name is not kept for lack of room, the next scan finds it again.
        if self.max_messages.is_some() {
            self.backlog.add(name);
            return None;
        }
        self.reading.insert(name.number(), 0);
        Some(name)
    }

    /// Starts a scan if one is due, and returns true.
    pub fn begin_scan(&mut self, now: Timestamp) -> bool {
        let may_go_on =
            self.has_unreported_files && self.reading.len() < MAX_READING_TO_CONTINUE_SCAN;
        // A later time than this results from a clock that was set back. It counts as due.
        let is_planned =
            now < self.next_scan && self.next_scan <= now + 2 * self.delays.scan_interval;
        if self.is_scanning || (is_planned && !may_go_on) {
            return false;
        }
        self.is_scanning = true;
        self.has_unreported_files = false;
        // A later time than this results from a clock that was set back. It counts as over.
        let longest = self.delays.refused_file;
        self.skipped.retain(|_, until| now < *until && *until <= now + longest);
        true
    }

    /// Requests a scan now. Skipped unusable files are tried again.
    pub fn scan_now(&mut self) {
        self.skipped.clear();
        self.next_scan = Timestamp::EPOCH;
        self.scan_again = self.is_scanning;
    }

    /// Records that a scan waits until the files that it has found are read.
    pub fn pause_scan(&mut self) {
        self.is_scan_paused = true;
    }

    /// Returns true once a scan that waits may go on.
    pub fn resume_scan(&mut self) -> bool {
        let resumes = self.is_scan_paused && self.reading.len() < MAX_READING_TO_CONTINUE_SCAN;
        self.is_scan_paused &= !resumes;
        resumes
    }

    /// Records the end of a scan.
    pub fn end_scan(&mut self, now: Timestamp) {
        self.is_scanning = false;
        self.scans += 1;
        let tenths = (self.reading.len() / FILES_PER_TENTH).min(10) as u32;
        self.next_scan = match std::mem::take(&mut self.scan_again) {
            true => now,
            false => now + self.delays.scan_interval * (10 + tenths) / 10,
        };
    }

    /// Returns true if all mail found at the start is read.
    ///
    /// That is so after a complete scan, when no file is being read.
    pub fn is_complete(&self) -> bool {
        self.scans > 0 && !self.is_scanning && !self.has_unreported_files && self.reading.is_empty()
    }

    /// Time at which there is work if nothing is reported before.
    pub fn next_wakeup(&self, room: &ReadBudget) -> Option<Timestamp> {
        let has_room = self.has_room(room);
        if has_room && self.backlog.has_readable(Timestamp::EPOCH) {
            return Some(Timestamp::EPOCH);
        }
        let retry = self.retries.first_key_value().map(|((time, _), _)| *time);
        let scan = (!self.is_scanning).then_some(self.next_scan);
        let paged_out = self.backlog.next_due().filter(|_| has_room);
        [retry, scan, paged_out].into_iter().flatten().min()
    }
}

impl BacklogView for Intake {
    fn waiting(&self) -> BacklogCounts {
        // The other files that are read again later are locked.
        let is_unreadable = |(_, number): &&(Timestamp, u64)| !self.locked.contains(number);
        let unreadable = self.retries.keys().filter(is_unreadable).count() + self.skipped.len();
        BacklogCounts { unreadable, ..self.backlog.waiting() }
    }

    fn location(&self, number: u64) -> Option<FileLocation> {
        let is_read = self.reading.contains_key(&number).then_some(FileLocation::Loading);
        is_read.or_else(|| self.backlog.location(number))
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

    fn room(messages: usize) -> ReadBudget {
        ReadBudget { messages, recipients: None }
    }

    fn intake() -> Intake {
        Intake::new(IntakeDelays::default())
    }

    #[test]
    fn file_found_repeatedly_is_read_once() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), NumberState::Unknown), ReadDecision::Read);
        assert_eq!(intake.found(&name(1), NumberState::Unknown), ReadDecision::Known);
        intake.finish_read(1);
        assert_eq!(intake.found(&name(1), NumberState::Queued), ReadDecision::Known);
        assert_eq!(intake.found(&name(1), NumberState::Unknown), ReadDecision::Read);
    }

    #[test]
    fn memory_of_full_spool_is_freed_after_reading() {
        let mut intake = intake();
        let files = 8 * MAX_READING_OF_REPORTED as u64;
        for number in 1..=files {
            assert_eq!(intake.found(&name(number), NumberState::Unknown), ReadDecision::Read);
        }
        (1..=files).for_each(|number| intake.finish_read(number));
        assert!(intake.reading.capacity() <= 2 * MAX_READING_OF_REPORTED);
    }

    #[test]
    fn file_found_while_its_number_leaves_is_read_afterwards() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), NumberState::Leaving), ReadDecision::Known);
        assert_eq!(intake.message_removed(1), Some(name(1)));
        assert_eq!(intake.message_removed(1), None);
        assert_eq!(intake.message_removed(2), None);
    }

    #[test]
    fn locked_file_is_read_again_after_interval() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), NumberState::Unknown), ReadDecision::Read);
        intake.finish_read(1);
        intake.retry_locked_later(NOW, name(1));
        assert_eq!(intake.found(&name(1), NumberState::Unknown), ReadDecision::Known);
        assert_eq!(intake.next_retry(NOW + Duration::from_secs(31)), None);
        assert_eq!(intake.next_retry(NOW + Duration::from_secs(32)), Some(name(1)));
        assert_eq!(intake.next_retry(NOW + Duration::from_secs(32)), None);
    }

    #[test]
    fn locked_file_that_has_changed_is_read_at_once() {
        let mut intake = intake();
        for number in 1..=3 {
            assert!(intake.retry_locked_later(NOW, name(number)));
        }
        intake.retry_unreadable_later(NOW, name(4));
        intake.recheck_locked(Some(&[2, 4, 5].into_iter().collect()));
        assert_eq!(intake.next_wakeup(&room(0)), Some(Timestamp::EPOCH));
        assert_eq!(intake.next_retry(NOW), Some(name(2)));
        assert_eq!(intake.next_retry(NOW), None);
        assert!(!intake.retry_locked_later(NOW, name(2)), "it was locked before");
        intake.recheck_locked(None);
        let mut all: Vec<_> = std::iter::from_fn(|| intake.next_retry(NOW)).collect();
        all.sort_by_key(SpoolName::number);
        assert_eq!(all, [name(1), name(2), name(3)]);
        intake.unlocked(2);
        assert!(intake.retry_locked_later(NOW, name(2)));
    }

    #[test]
    fn empty_queue_folder_is_reported_once_a_minute() {
        let mut intake = intake();
        assert!(intake.retry_without_queue_later(NOW, name(1)));
        assert!(!intake.retry_without_queue_later(NOW, name(2)));
        assert_eq!(intake.found(&name(2), NumberState::Unknown), ReadDecision::Known);
        let later = NOW + Duration::from_secs(60);
        assert_eq!(intake.next_retry(later), Some(name(1)));
        assert_eq!(intake.next_retry(later), Some(name(2)));
        assert!(intake.retry_without_queue_later(later, name(2)));
    }

    #[test]
    fn invalid_names_are_reported_once_up_to_limit() {
        let mut intake = intake();
        assert!(intake.record_invalid_name("1 2"));
        assert!(!intake.record_invalid_name("1 2"));
        let told =
            (0..2 * MAX_LOGGED_NAMES).filter(|n| intake.record_invalid_name(&format!("{n} x")));
        assert_eq!(told.count(), MAX_LOGGED_NAMES - 1);
    }

    #[test]
    fn clock_set_back_delays_no_file_and_no_scan() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        intake.end_scan(NOW);
        assert_eq!(intake.found(&name(1), NumberState::Unknown), ReadDecision::Read);
        intake.retry_locked_later(NOW, name(1));
        let before = NOW - Duration::from_secs(3600);
        assert_eq!(intake.next_retry(before), Some(name(1)));
        assert!(intake.begin_scan(before));
    }

    #[test]
    fn refused_file_is_read_again_after_interval() {
        let mut intake = intake();
        assert_eq!(intake.found(&name(1), NumberState::Unknown), ReadDecision::Read);
        intake.finish_read(1);
        intake.skip_file(NOW, 1);
        for (seconds, is_read) in [(0, false), (599, false), (600, true)] {
            assert!(intake.begin_scan(NOW + Duration::from_secs(seconds)));
            let verdict = intake.found(&name(1), NumberState::Unknown);
            assert_eq!(verdict == ReadDecision::Read, is_read, "after {seconds} s");
            intake.end_scan(NOW);
        }
        intake.skip_file(NOW, 2);
        assert!(intake.begin_scan(NOW + Duration::from_secs(601)));
        intake.end_scan(NOW - Duration::from_secs(3600));
        intake.skip_file(NOW, 2);
        assert_eq!(intake.found(&name(2), NumberState::Unknown), ReadDecision::Known);
        assert!(intake.begin_scan(NOW - Duration::from_secs(1800)));
        let verdict = intake.found(&name(2), NumberState::Unknown);
        assert_eq!(verdict, ReadDecision::Read, "the clock has been set back");
    }

    #[test]
    fn reported_files_are_left_to_a_scan_when_many_are_being_read() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        intake.end_scan(NOW);
        let files = 1..=MAX_READING_OF_REPORTED as u64;
        for number in files.clone() {
            let verdict = intake.reported(&name(number), NumberState::Unknown);
            assert_eq!(verdict, ReadDecision::Read);
        }
        let further = name(files.end() + 1);
        assert_eq!(intake.reported(&further, NumberState::Unknown), ReadDecision::Known);
        assert!(!intake.begin_scan(NOW), "too many are being read");
        files.for_each(|number| {
            intake.finish_read(number);
        });
        assert!(intake.begin_scan(NOW));
        assert_eq!(intake.found(&further, NumberState::Unknown), ReadDecision::Read);
    }

    #[test]
    fn loss_of_reports_during_a_scan_leads_to_another_scan() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        intake.files_not_reported();
        intake.end_scan(NOW);
        assert!(intake.begin_scan(NOW));
        intake.end_scan(NOW);
        assert!(!intake.begin_scan(NOW));
    }

    #[test]
    fn scans_run_at_intervals() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        assert!(!intake.begin_scan(NOW));
        intake.end_scan(NOW);
        assert!(!intake.begin_scan(NOW + Duration::from_secs(9)));
        assert!(intake.begin_scan(NOW + Duration::from_secs(10)));
    }

    #[test]
    fn paused_scan_goes_on_when_its_files_are_read() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        let files = 1..=2 * MAX_READING_TO_CONTINUE_SCAN as u64;
        for number in files.clone() {
            intake.found(&name(number), NumberState::Unknown);
        }
        assert!(!intake.resume_scan(), "it is not paused");
        intake.pause_scan();
        assert!(!intake.resume_scan(), "too many are being read");
        files.for_each(|number| intake.finish_read(number));
        assert!(!intake.is_complete());
        assert!(intake.resume_scan());
        assert!(!intake.resume_scan(), "it goes on already");
        intake.end_scan(NOW);
        assert!(intake.is_complete());
    }

    #[test]
    fn scan_requested_during_scan_is_run_afterwards() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        intake.scan_now();
        assert!(!intake.begin_scan(NOW));
        intake.end_scan(NOW);
        assert!(intake.begin_scan(NOW));
        intake.end_scan(NOW);
        assert!(!intake.begin_scan(NOW));
    }

    #[test]
    fn busy_reader_lengthens_scan_interval() {
        let mut intake = intake();
        assert!(intake.begin_scan(NOW));
        for number in 1..=100 {
            intake.found(&name(number), NumberState::Unknown);
        }
        intake.end_scan(NOW);
        assert_eq!(intake.next_wakeup(&room(0)), Some(NOW + Duration::from_secs(13)));
    }

    #[test]
    fn files_beyond_limit_wait_for_room() {
        let mut intake = intake();
        intake.set_max_messages(Some(3));
        for number in 1..=5 {
            assert_eq!(intake.found(&name(number), NumberState::Unknown), ReadDecision::Backlog);
            assert_eq!(intake.found(&name(number), NumberState::Unknown), ReadDecision::Known);
        }
        assert_eq!(intake.next_wakeup(&room(0)), Some(Timestamp::EPOCH));
        let read = |intake: &mut Intake, loaded| {
            let all = std::iter::from_fn(|| intake.next_from_backlog(NOW, &room(loaded)));
            all.map(|(name, _)| name.number()).collect::<Vec<u64>>()
        };
        assert_eq!(read(&mut intake, 1), [1, 2]);
        assert_eq!(intake.blocked_kind(NOW, &room(1)), Backlog::New);
        intake.finish_read(1);
        assert_eq!(read(&mut intake, 2), [0; 0], "one was loaded, one is being read");
        intake.finish_read(2);
        assert_eq!(read(&mut intake, 2), [3]);
        assert_eq!(
            intake.waiting(),
            BacklogCounts { waiting_files: 2, ..BacklogCounts::default() }
        );
        intake.set_max_messages(None);
        assert_eq!(read(&mut intake, 100), [4, 5]);
        assert_eq!(intake.blocked_kind(NOW, &room(100)), Backlog::None);
    }

    #[test]
    fn held_files_beyond_limit_wait_for_room() {
        let mut intake = intake();
        intake.set_max_messages(Some(1));
        intake.retry_locked_later(NOW, name(1));
        let later = NOW + Duration::from_secs(32);
        assert_eq!(intake.next_retry(later), None);
        assert_eq!(intake.next_from_backlog(later, &room(1)), None);
        assert_eq!(intake.next_from_backlog(later, &room(0)), Some((name(1), None)));
    }
}
