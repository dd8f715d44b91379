//! Other processes, as locks on files name them: by a number that may have been given away since.
//!
//! A process that started after a file was last written to cannot be the one that wrote its number
//! into it. Both times are known from different clocks, the file's from that on the wall and the
//! process' from the one that counts since boot; see [`remember_boot_time`].

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// How far a process' start, known in clock ticks and whole seconds, may be from the truth.
const START_TIME_SLACK: Duration = Duration::from_secs(2);

/// A process that is alive.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    /// What `/proc` says about it. `None` where that cannot be told.
    status: Option<Status>,
}

#[derive(Debug)]
struct Status {
    /// It is a zombie, which its parent has not taken notice of yet. Agents of a scheduler that was
    /// killed stay so where the first process of a container does not care.
    has_ended: bool,
    parent: Option<u32>,
    started: Option<Timestamp>,
}

impl Process {
    /// The process of this number, if one is alive.
    pub fn alive(pid: u32) -> Option<Process> {
        if !sys::process_exists(pid) {
            return None;
        }
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let status = status.as_deref().and_then(Status::parse);
        let has_ended = status.as_ref().is_some_and(|status| status.has_ended);
        (!has_ended).then_some(Process { pid, status })
    }

    /// Whether it can be the one that wrote its number into a file that was last `modified` then.
    pub fn may_have_written(&self, modified: Timestamp) -> bool {
        let started = self.status.as_ref().and_then(|status| status.started);
        started.is_none_or(|started| started <= modified + START_TIME_SLACK)
    }

    /// Whether it may work in the folder that we work in. A process of another user, of which that is
    /// not told, does not; one is given the benefit of the doubt if the system fails to tell.
    pub fn works_in_our_folder(&self) -> bool {
        let identity = |path: &Path| fs::metadata(path).map(|found| sys::file_identity(&found));
        match (identity(Path::new(&format!("/proc/{}/cwd", self.pid))), identity(Path::new("."))) {
            (Ok(theirs), Ok(ours)) => theirs == ours,
            (Ok(_), Err(_)) => true,
            (Err(error), _) => {
                !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
                    && error.raw_os_error() != Some(libc::ESRCH)
            }
        }
    }

    /// Whether it is this process, or was started by it.
    pub fn is_ours(&self) -> bool {
        let us = std::process::id();
        self.pid == us || self.status.as_ref().is_some_and(|status| status.parent == Some(us))
    }
}

/// The processes that work in our folder, and are not ours. None where that cannot be told.
pub fn others_in_our_folder() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_other =
        |pid: &u32| Process::alive(*pid).is_some_and(|p| !p.is_ours() && p.works_in_our_folder());
    pids.filter(is_other).collect()
}

impl Status {
    /// Reads `/proc/PID/stat`: fields 3, 4 and 22 are state, parent and start.
    fn parse(text: &str) -> Option<Status> {
        // The command, field 2, is in parentheses and may hold anything.
        let (_, after_command) = text.rsplit_once(')')?;
        let mut fields = after_command.split_ascii_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next().and_then(|pid| pid.parse().ok());
        let started = fields.nth(22 - 5).and_then(|ticks| since_boot(ticks.parse().ok()?));
        Some(Status { has_ended, parent, started })
    }
}

fn since_boot(ticks: u64) -> Option<Timestamp> {
    let start = Duration::from_millis(ticks.saturating_mul(1000) / sys::clock_ticks());
    Some(boot_time()? + start)
}

/// The time of the boot by the clock on the wall, in seconds since 1970. When that clock is put
/// forward, the kernel moves the boot, and with it the start of every process, along: a process
/// would seem to have started after it wrote its files. So we go by the earliest that we have seen.
static EARLIEST_BOOT: AtomicI64 = AtomicI64::new(i64::MAX);

/// Makes note of the time of the boot. A program that runs for long does so at its start, and is
/// not misled when the clock is put forward later.
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

/// The pid of the scheduler that ran on the spool before; 0 is unknown.
static FORMER_SCHEDULER: AtomicU32 = AtomicU32::new(0);

/// Makes note of the scheduler that ran on the spool before. Nothing was delivered under its locks.
pub fn remember_former_scheduler(pid: u32) {
    FORMER_SCHEDULER.store(pid, Ordering::Relaxed);
}

/// The scheduler that ran on the spool before, if its pid is known.
pub fn former_scheduler() -> Option<u32> {
    Some(FORMER_SCHEDULER.load(Ordering::Relaxed)).filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_may_have_written_what_is_new_but_not_what_is_old() {
        let us = Process::alive(std::process::id()).expect("we live");
        assert!(us.is_ours() && us.works_in_our_folder());
        assert!(us.may_have_written(Timestamp::now()));
        assert!(!us.may_have_written(Timestamp::from_seconds(1_000_000_000)));
    }

    #[test]
    fn a_clock_put_forward_does_not_move_the_boot() {
        let known = AtomicI64::new(i64::MAX);
        assert_eq!(earliest(&known, 1_000), 1_000);
        assert_eq!(earliest(&known, 4_600), 1_000);
        assert_eq!(earliest(&known, 900), 900);
    }

    #[test]
    fn the_command_may_hold_anything() {
        let text = "7 (a) Z 9) S 42 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 100 0 0";
        let status = Status::parse(text).expect("a status");
        assert!(!status.has_ended && status.started.is_some());
        assert_eq!(status.parent, Some(42));
        assert!(Status::parse("7 (a) Z 9").expect("a status").has_ended);
    }
}
