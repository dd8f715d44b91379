//! Who holds the lock that a `~` in a control file stands for, and is he still alive?

use crate::control_file::PidField;
use crate::sys;
use crate::time::Timestamp;
use std::fs;
use std::time::Duration;

/// The state of the process that a lock names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// Nobody can hold this lock any more: it may be cleared.
    Dead,
    /// A process that may hold it is alive.
    Alive(u32),
}

/// How far a process' start, known in clock ticks and whole seconds, may be from the truth.
const START_TIME_SLACK: Duration = Duration::from_secs(2);

/// Finds out who holds a lock in a control file that was last `modified` at the given time.
///
/// A pid can have been given to another process since. One that started after the file was last
/// written to cannot be the one that wrote its pid into it. Six digits may be the beginning of a
/// longer pid, so all of these are asked for.
pub fn owner_of(field: PidField, modified: Timestamp) -> LockOwner {
    owner_among(field, |pid| may_have_written(pid, modified))
}

/// The same, where `may_hold` tells of a process whether it can be the one.
pub(crate) fn owner_among(field: PidField, may_hold: impl Fn(u32) -> bool) -> LockOwner {
    let Some(pid) = field.pid().filter(|pid| *pid > 0) else {
        return LockOwner::Dead;
    };
    let longer = if field.may_be_truncated() { pid * 10..pid * 10 + 10 } else { 0..0 };
    std::iter::once(pid)
        .chain(longer)
        .find(|candidate| may_hold(*candidate))
        .map_or(LockOwner::Dead, LockOwner::Alive)
}

fn may_have_written(pid: u32, modified: Timestamp) -> bool {
    sys::process_exists(pid)
        && ProcessStatus::of(pid).is_none_or(|status| {
            !status.has_ended
                && status.started.is_none_or(|started| started <= modified + START_TIME_SLACK)
        })
}

/// What `/proc` tells about a process.
struct ProcessStatus {
    /// It is a zombie, which its parent has not taken notice of yet. Agents of a scheduler that was
    /// killed stay so where the first process of a container does not care.
    has_ended: bool,
    started: Option<Timestamp>,
}

impl ProcessStatus {
    /// `None` where that cannot be told.
    fn of(pid: u32) -> Option<ProcessStatus> {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command, field 2, is in parentheses and may hold anything; fields 3 and 22 are the state
        // and the start.
        let (_, after_command) = status.rsplit_once(')')?;
        let mut fields = after_command.split_ascii_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let started = fields.nth(22 - 4).and_then(|ticks| since_boot(ticks.parse().ok()?));
        Some(ProcessStatus { has_ended, started })
    }
}

fn since_boot(ticks: u64) -> Option<Timestamp> {
    Some(boot_time()? + Duration::from_millis(ticks.saturating_mul(1000) / sys::clock_ticks()))
}

fn boot_time() -> Option<Timestamp> {
    let statistics = fs::read_to_string("/proc/stat").ok()?;
    let seconds = statistics.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(Timestamp::from_seconds(seconds.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn our_own_lock_is_alive() {
        let us = PidField::of(std::process::id());
        assert_eq!(owner_of(us, Timestamp::now()), LockOwner::Alive(std::process::id()));
    }

    #[test]
    fn a_lock_older_than_its_process_is_dead() {
        let us = PidField::of(std::process::id());
        let long_ago = Timestamp::from_seconds(1_000_000_000);
        assert_eq!(owner_of(us, long_ago), LockOwner::Dead);
    }

    #[test]
    fn fields_without_a_pid_are_dead() {
        for field in [*b"      ", *b"     0", *b"abcdef", *b"-    1"] {
            assert_eq!(owner_of(PidField(field), Timestamp::now()), LockOwner::Dead);
        }
    }

    #[test]
    fn a_process_that_ended_is_dead() {
        let mut child = std::process::Command::new("true").spawn().expect("true starts");
        let field = PidField::of(child.id());
        // A zombie at first, whenever it ends; then gone.
        let deadline = Instant::now() + Duration::from_secs(30);
        while owner_of(field, Timestamp::now()) != LockOwner::Dead {
            assert!(Instant::now() < deadline, "a zombie is no owner");
        }
        child.wait().expect("true ends");
        assert_eq!(owner_of(field, Timestamp::now()), LockOwner::Dead);
    }
}
