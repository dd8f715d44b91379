//! Owners of locks (`~`) in control files.

use crate::processes::{self, Process};
use zsched_format::control_file::PidField;
use zsched_format::time::Timestamp;

/// The state of the process that a lock names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// No process holds this lock any longer: it may be cleared.
    Dead,
    /// The same, and it belonged to a scheduler, which delivers nothing.
    FormerScheduler,
    /// A process that may hold it is alive.
    Alive(u32),
}

impl LockOwner {
    /// Returns true if the lock may be cleared.
    pub fn is_gone(self) -> bool {
        !matches!(self, LockOwner::Alive(_))
    }
}

/// Largest pid that fits into the pid column.
const MAX_UNTRUNCATED_PID: u32 = 999_999;

/// Returns true if a lock certainly belongs to a process. Longer pids share their first digits.
fn is_pid_of(field: PidField, pid: u32) -> bool {
    pid <= MAX_UNTRUNCATED_PID && field == PidField::from_pid(pid)
}

/// Determines the owner of a lock in an unloaded control file.
///
/// It cannot be this process, which locks recipients of loaded messages only. A scheduler in a
/// container often has the pid of its predecessor.
pub fn owner_when_unloaded(field: PidField, modified: Timestamp) -> LockOwner {
    let us = std::process::id();
    let owner = owner_if(field, |pid| pid != us && may_hold(pid, modified));
    if is_pid_of(field, us) {
        LockOwner::FormerScheduler
    } else {
        as_former_scheduler(field, owner)
    }
}

/// Distinguishes the lock of the former scheduler from those of dead agents.
fn as_former_scheduler(field: PidField, owner: LockOwner) -> LockOwner {
    let former = processes::former_scheduler().is_some_and(|pid| is_pid_of(field, pid));
    if former && owner.is_gone() { LockOwner::FormerScheduler } else { owner }
}

/// Determines the owner of a lock in a control file.
///
/// The file was last changed at `modified`.
///
/// Another process may have the pid now. Six digits may be the beginning of a longer pid, so all of
/// these are checked.
pub fn owner_of(field: PidField, modified: Timestamp) -> LockOwner {
    as_former_scheduler(field, owner_if(field, |pid| may_hold(pid, modified)))
}

/// Determines the owner of a lock by a test for its pid.
///
/// `may_hold` returns true for a process that may be the owner.
pub fn owner_if(field: PidField, may_hold: impl Fn(u32) -> bool) -> LockOwner {
    let Some(pid) = field.pid().filter(|pid| *pid > 0) else {
        return LockOwner::Dead;
    };
    let longer = if field.may_be_truncated() { pid * 10..pid * 10 + 10 } else { 0..0 };
    std::iter::once(pid)
        .chain(longer)
        .find(|candidate| may_hold(*candidate))
        .map_or(LockOwner::Dead, LockOwner::Alive)
}

/// Returns true if a process may hold a lock.
///
/// Either it may have written the lock, or it resembles an agent of an earlier scheduler. Those
/// work in the folder that a scheduler works in, too. Their times are not reliable if the clock was
/// put forward before this scheduler began to watch it. The scheduler's own agents are judged by
/// their times alone, because they often get the pids of earlier ones, especially in containers.
fn may_hold(pid: u32, modified: Timestamp) -> bool {
    Process::alive(pid).is_some_and(|process| {
        process.may_have_written(modified) || (!process.is_ours() && process.works_in_our_folder())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn lock_of_this_process_is_alive() {
        let us = PidField::from_pid(std::process::id());
        assert_eq!(owner_of(us, Timestamp::now()), LockOwner::Alive(std::process::id()));
    }

    #[test]
    fn a_lock_older_than_its_process_is_dead() {
        let us = PidField::from_pid(std::process::id());
        let long_ago = Timestamp::from_seconds(1_000_000_000);
        assert_eq!(owner_of(us, long_ago), LockOwner::Dead);
    }

    #[test]
    fn lock_without_pid_is_dead() {
        for field in [*b"      ", *b"     0", *b"abcdef", *b"-    1"] {
            assert_eq!(owner_of(PidField(field), Timestamp::now()), LockOwner::Dead);
        }
    }

    #[test]
    fn lock_of_ended_process_is_dead() {
        let mut child = std::process::Command::new("true").spawn().expect("true starts");
        let field = PidField::from_pid(child.id());
        // At first the process is a zombie, then it is gone.
        let deadline = Instant::now() + Duration::from_secs(30);
        while owner_of(field, Timestamp::now()) != LockOwner::Dead {
            assert!(Instant::now() < deadline, "a zombie is no owner");
        }
        child.wait().expect("true ends");
        assert_eq!(owner_of(field, Timestamp::now()), LockOwner::Dead);
    }

    /// Calls `look` with the pid of an orphaned process in `folder`.
    fn with_orphan<T>(folder: &Path, look: impl FnOnce(u32) -> T) -> T {
        // It reads from this process, and so ends when the other end is dropped.
        let script = "exec 3<&0; cat <&3 >/dev/null & echo $!";
        let mut parent = Command::new("sh")
            .args(["-c", script])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let _input = parent.stdin.take();
        let mut pid = String::new();
        parent.stdout.take().expect("a pipe").read_to_string(&mut pid).expect("a line");
        parent.wait().expect("sh ends");
        look(pid.trim().parse().expect("a pid"))
    }

    #[test]
    fn agent_of_earlier_scheduler_is_recognized_by_folder() {
        let long_ago = Timestamp::from_seconds(1_000_000_000);
        let owner = |pid| owner_of(PidField::from_pid(pid), long_ago);
        let (pid, found) = with_orphan(Path::new("."), |pid| (pid, owner(pid)));
        assert_eq!(found, LockOwner::Alive(pid));
        assert_eq!(with_orphan(Path::new("/"), owner), LockOwner::Dead);
        // A child of this process is not recognized by its folder.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat starts");
        assert_eq!(owner(child.id()), LockOwner::Dead);
        child.kill().expect("kill");
        child.wait().expect("cat ends");
    }
}
