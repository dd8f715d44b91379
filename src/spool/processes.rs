//! Processes that locks in files name by their pid.
//!
//! The pid may have been reused since.
//!
//! A process that started after the last write to a file cannot have written its pid into it. The
//! two times come from different clocks: that of the file from the wall clock, that of the process
//! from the clock that counts since boot; see [`remember_boot_time`].

use std::fs;
use std::io::ErrorKind;
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
    started: Option<Timestamp>,
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
        let started = self.status.as_ref().and_then(|status| status.started);
        started.is_none_or(|started| started <= modified + START_TIME_SLACK)
    }

    /// Returns true if the process may work in our working folder.
    ///
    /// Permission to read its folder is denied for processes of other users; these do not count. On
    /// other errors the process counts.
    pub fn works_in_our_folder(&self) -> bool {
        let identity = |path: &Path| fs::metadata(path).map(|found| sys::device_and_inode(&found));
        match (identity(Path::new(&format!("/proc/{}/cwd", self.pid))), identity(Path::new("."))) {
            (Ok(theirs), Ok(ours)) => theirs == ours,
            (Ok(_), Err(_)) => true,
            (Err(error), _) => {
                !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
                    && error.raw_os_error() != Some(libc::ESRCH)
            }
        }
    }

    /// Returns true for this process and its children.
    pub fn is_ours(&self) -> bool {
        let us = std::process::id();
        self.pid == us || self.status.as_ref().is_some_and(|status| status.parent == Some(us))
    }
}

/// Pids of processes in our working folder that are not ours. Empty without `/proc`.
pub fn foreign_processes_in_folder() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_other =
        |pid: &u32| Process::alive(*pid).is_some_and(|p| !p.is_ours() && p.works_in_our_folder());
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
        let started = fields.nth(22 - 5).and_then(|ticks| since_boot(ticks.parse().ok()?));
        Some(ProcStat { has_ended, parent, started })
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
        assert!(!status.has_ended && status.started.is_some());
        assert_eq!(status.parent, Some(42));
        assert!(ProcStat::parse("7 (a) Z 9").expect("a status").has_ended);
    }
}
