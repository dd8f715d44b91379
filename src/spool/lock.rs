//! Who holds the lock that a `~` in a control file stands for, and is he still alive?

use crate::processes::{self, Process};
use zsched_format::control_file::PidField;
use zsched_format::time::Timestamp;

/// The state of the process that a lock names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// Nobody can hold this lock any more: it may be cleared.
    Dead,
    /// The same, and it was a scheduler's, which delivers nothing.
    FormerScheduler,
    /// A process that may hold it is alive.
    Alive(u32),
}

impl LockOwner {
    /// Whether the lock may be cleared.
    pub fn is_gone(self) -> bool {
        !matches!(self, LockOwner::Alive(_))
    }
}

/// The largest pid that a lock has room for.
const MAX_WHOLE_PID: u32 = 999_999;

/// Whether a lock is certainly that of a process: a longer pid has its first digits in common with others.
pub fn is_of(field: PidField, pid: u32) -> bool {
    pid <= MAX_WHOLE_PID && field == PidField::of(pid)
}

/// Finds out who holds a lock in a control file that is not loaded: not this process, which locks recipients
/// of loaded messages only. A scheduler in a container often has the pid of its predecessor.
pub fn owner_at_load(field: PidField, modified: Timestamp) -> LockOwner {
    let us = std::process::id();
    let owner = owner_among(field, |pid| pid != us && may_hold(pid, modified));
    if is_of(field, us) { LockOwner::FormerScheduler } else { of_former_scheduler(field, owner) }
}

/// Tells the lock of the former scheduler from those of dead agents.
fn of_former_scheduler(field: PidField, owner: LockOwner) -> LockOwner {
    let former = processes::former_scheduler().is_some_and(|pid| is_of(field, pid));
    if former && owner.is_gone() { LockOwner::FormerScheduler } else { owner }
}

/// Finds out who holds a lock in a control file that was last `modified` at the given time.
///
/// A pid can have been given to another process since. Six digits may be the beginning of a longer
/// pid, so all of these are asked for.
pub fn owner_of(field: PidField, modified: Timestamp) -> LockOwner {
    of_former_scheduler(field, owner_among(field, |pid| may_hold(pid, modified)))
}

/// The same, where `may_hold` tells of a process whether it can be the one.
pub fn owner_among(field: PidField, may_hold: impl Fn(u32) -> bool) -> LockOwner {
    let Some(pid) = field.pid().filter(|pid| *pid > 0) else {
        return LockOwner::Dead;
    };
    let longer = if field.may_be_truncated() { pid * 10..pid * 10 + 10 } else { 0..0 };
    std::iter::once(pid)
        .chain(longer)
        .find(|candidate| may_hold(*candidate))
        .map_or(LockOwner::Dead, LockOwner::Alive)
}

/// Whether a process may hold a lock: it may have written it, or looks like an agent of an earlier
/// scheduler. These work in the folder that a scheduler works in too, and times cannot tell about
/// them if the clock was put forward before we began to watch it. Our own agents are known by their
/// times alone: they are often given the pids of earlier ones, above all in containers.
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

    /// Calls `look` with the pid of a process that works in `folder`, and whose parent has gone.
    fn with_orphan<T>(folder: &Path, look: impl FnOnce(u32) -> T) -> T {
        // It reads from us, and so ends when we have dropped the other end.
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
    fn an_agent_of_an_earlier_scheduler_is_known_by_its_folder() {
        let long_ago = Timestamp::from_seconds(1_000_000_000);
        let owner = |pid| owner_of(PidField::of(pid), long_ago);
        let (pid, found) = with_orphan(Path::new("."), |pid| (pid, owner(pid)));
        assert_eq!(found, LockOwner::Alive(pid));
        assert_eq!(with_orphan(Path::new("/"), owner), LockOwner::Dead);
        // What we have started ourselves has no such privilege.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat starts");
        assert_eq!(owner(child.id()), LockOwner::Dead);
        child.kill().expect("kill");
        child.wait().expect("cat ends");
    }
}
