//! Processes that locks in files name by their pid.
//!
//! The pid may have been reused since.
//!
//! A process that started after the last write to a file cannot have written its pid into it. The
//! two times come from different clocks: that of the file from the wall clock, that of the process
//! from the clock that counts since boot; see [`remember_boot_time`].

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Maximum error of a process' start time.
///
/// It is known in clock ticks since boot, and boot in whole seconds.
const START_TIME_SLACK: Duration = Duration::from_secs(2);

/// Process that is alive.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    /// Contents of `/proc/PID/stat`. `None` where these are not available.
    status: Option<ProcStat>,
}

#[derive(Debug)]
struct ProcStat {
    /// True for a zombie.
    ///
    /// Agents of a scheduler that was killed stay zombies where the first process of a container
    /// does not reap them.
    has_ended: bool,
    parent: Option<u32>,
    /// Time from boot to its start, in clock ticks.
    ticks_before_start: Option<u64>,
}

impl Process {
    /// Returns the process with this pid, if it is alive.
    pub fn alive(pid: u32) -> Option<Process> {
        if !sys::process_exists(pid) {
            return None;
        }
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let status = status.as_deref().and_then(ProcStat::parse);
        let has_ended = status.as_ref().is_some_and(|status| status.has_ended);
        (!has_ended).then_some(Process { pid, status })
    }

    /// Returns true if it can have written its pid into a file.
    ///
    /// `modified` is the time of the last write to that file.
    pub fn may_have_written(&self, modified: Timestamp) -> bool {
        let ticks = self.status.as_ref().and_then(|status| status.ticks_before_start);
        ticks.and_then(since_boot).is_none_or(|started| started <= modified + START_TIME_SLACK)
    }

    /// Returns true if the process may work in our working folder.
    ///
    /// Permission to read its folder is denied for processes of other users; these do not count. On
    /// other errors the process counts.
    pub fn works_in_our_folder(&self) -> bool {
        works_in(self.pid, folder_identity(".").ok())
    }

    /// Returns true for this process and its children.
    pub fn is_ours(&self) -> bool {
        let us = std::process::id();
        self.pid == us || self.status.as_ref().is_some_and(|status| status.parent == Some(us))
    }
}

type FolderIdentity = (u64, u64);

fn folder_identity(path: impl AsRef<Path>) -> io::Result<FolderIdentity> {
    fs::metadata(path).map(|found| sys::device_and_inode(&found))
}

/// See [`Process::works_in_our_folder`]. `None` is an unknown folder, in which all may work.
fn works_in(pid: u32, folder: Option<FolderIdentity>) -> bool {
    match folder_identity(format!("/proc/{pid}/cwd")) {
        Ok(theirs) => folder.is_none_or(|ours| theirs == ours),
        Err(error) => {
            !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
                && error.raw_os_error() != Some(libc::ESRCH)
        }
    }
}

/// Pids of processes in our working folder that are not ours. Empty without `/proc`.
pub fn foreign_processes_in_folder() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let folder = folder_identity(".").ok();
    // There may be thousands of processes, and few in the folder.
    let is_other = |pid: &u32| {
        works_in(*pid, folder) && Process::alive(*pid).is_some_and(|process| !process.is_ours())
    };
    pids.filter(is_other).collect()
}

impl ProcStat {
    /// Parses `/proc/PID/stat`: fields 3, 4 and 22 are state, parent and start.
    fn parse(text: &str) -> Option<ProcStat> {
        // The command, field 2, is in parentheses and may hold any characters.
        let (_, after_command) = text.rsplit_once(')')?;
        let mut fields = after_command.split_ascii_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next().and_then(|pid| pid.parse().ok());
        let ticks_before_start = fields.nth(22 - 5).and_then(|ticks| ticks.parse().ok());
        Some(ProcStat { has_ended, parent, ticks_before_start })
    }
}

fn since_boot(ticks: u64) -> Option<Timestamp> {
    let start = Duration::from_millis(ticks.saturating_mul(1000) / sys::clock_ticks());
    Some(boot_time()? + start)
}

/// Earliest known time of boot, in seconds since 1970.
///
/// When the wall clock is set forward, the kernel moves the time of boot and the start of every
/// process with it. A process would seem to have started after it wrote its files. So the earliest
/// known value is used.
static EARLIEST_BOOT: AtomicI64 = AtomicI64::new(i64::MAX);

/// Records the time of boot.
///
/// A program that runs for long calls this at its start, so that a clock set forward later does not
/// mislead it.
pub fn remember_boot_time() {
    boot_time();
}

fn boot_time() -> Option<Timestamp> {
    let statistics = fs::read_to_string("/proc/stat").ok()?;
    let seconds = statistics.lines().find_map(|line| line.strip_prefix("btime "))?;
    let seconds = seconds.trim().parse().ok()?;
    Some(Timestamp::from_seconds(earliest(&EARLIEST_BOOT, seconds)))
}

fn earliest(known: &AtomicI64, seconds: i64) -> i64 {
    known.fetch_min(seconds, Ordering::Relaxed).min(seconds)
}

/// Pid of the former scheduler on the spool; 0 is unknown.
static FORMER_SCHEDULER: AtomicU32 = AtomicU32::new(0);

/// Records the pid of the former scheduler on the spool. Its own locks mean no delivery.
pub fn set_former_scheduler(pid: u32) {
    FORMER_SCHEDULER.store(pid, Ordering::Relaxed);
}

/// Pid of the former scheduler on the spool, if known.
pub(crate) fn former_scheduler() -> Option<u32> {
    Some(FORMER_SCHEDULER.load(Ordering::Relaxed)).filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_may_have_written_new_file_but_not_old_one() {
        let us = Process::alive(std::process::id()).expect("we live");
        assert!(us.is_ours() && us.works_in_our_folder());
        assert!(us.may_have_written(Timestamp::now()));
        assert!(!us.may_have_written(Timestamp::from_seconds(1_000_000_000)));
    }

    #[test]
    fn boot_time_stays_when_clock_is_set_forward() {
        let known = AtomicI64::new(i64::MAX);
        assert_eq!(earliest(&known, 1_000), 1_000);
        assert_eq!(earliest(&known, 4_600), 1_000);
        assert_eq!(earliest(&known, 900), 900);
    }

    #[test]
    fn process_status_with_odd_command_is_parsed() {
        let text = "7 (a) Z 9) S 42 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 100 0 0";
        let status = ProcStat::parse(text).expect("a status");
        assert!(!status.has_ended);
        assert_eq!(status.ticks_before_start, Some(100));
        assert_eq!(status.parent, Some(42));
        assert!(ProcStat::parse("7 (a) Z 9").expect("a status").has_ended);
    }
}
