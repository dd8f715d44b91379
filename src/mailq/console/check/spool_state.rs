//! What is wrong with the spool of this host, read from its folders.

use crate::format::count;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use zsched_format::time::Timestamp;
use zsched_spool::orphans::{self, OrphanSearchLimits, Orphans};
use zsched_spool::{HashFolder, Spool, drop_folder};

/// Limits of the search for orphans in `queue/`.
const ORPHAN_LIMITS: OrphanSearchLimits =
    OrphanSearchLimits { files: 200_000, time: Duration::from_secs(2) };
/// Maximum number of files that are counted in `postman/`.
const MAX_POSTMAN_FILES: usize = 100_000;
/// Maximum number of files that are examined in `router/`.
const MAX_ROUTER_FILES: usize = 1_000;
/// Time in `router/` after which the router has failed to route a file, in seconds.
const MAX_ROUTING_TIME: i64 = 600;
/// Time in `router/` that is normal while a router is started again, in seconds.
const MAX_TIME_WITHOUT_ROUTER: i64 = 10;

/// State of the folders of a spool; the default for what this user may not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpoolState {
    /// Message files without a control file.
    pub orphans: Orphans,
    /// Messages in `postman/` whose control file is malformed.
    pub malformed: u64,
    /// Messages in `postman/` with recipient lines that cannot be delivered.
    pub undeliverable: u64,
    /// Files in `postman/`.
    pub postman: u64,
    /// Files that have been in `router/` for longer than [`MAX_ROUTING_TIME`].
    pub unrouted: u64,
    /// Files in `router/` that wait, and that no router takes.
    pub without_router: u64,
    /// What is wrong with `drop/`.
    pub drop_problems: Vec<String>,
    /// True if this user may not read the folders.
    pub is_unreadable: bool,
    /// Free part of the file system, in percent.
    ///
    /// It is that of its blocks or of its files, whichever is less.
    pub free: Option<f64>,
}

impl SpoolState {
    /// Reads the state of a spool.
    pub(crate) fn read(spool: &Spool) -> SpoolState {
        let orphans = orphans::find_orphans(spool, ORPHAN_LIMITS, Timestamp::now());
        SpoolState { orphans: orphans.unwrap_or_default(), ..SpoolState::read_fast(spool) }
    }

    /// Reads the state of a spool without a search for orphans.
    pub(crate) fn read_fast(spool: &Spool) -> SpoolState {
        let listed = fs::read_dir(spool.postman());
        let is_denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        let mut state = SpoolState {
            is_unreadable: listed.as_ref().is_err_and(is_denied),
            free: free_percent(spool),
            drop_problems: drop_folder::problems(spool),
            ..SpoolState::default()
        };
        let now = Timestamp::now();
        state.unrouted = waiting_for_router(spool, now, MAX_ROUTING_TIME);
        if !router_runs(spool) {
            state.without_router = waiting_for_router(spool, now, MAX_TIME_WITHOUT_ROUTER);
        }
        for entry in listed.into_iter().flatten().take(MAX_POSTMAN_FILES).flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            state.postman += 1;
            if name.ends_with(":message") {
                continue;
            }
            state.malformed += u64::from(name.starts_with("malformed:"));
            state.undeliverable += u64::from(name.starts_with("undeliverable:"));
        }
        state
    }

    /// Sentences about files that a person must look at.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let orphans = (self.orphans.count > 0).then(|| describe(&self.orphans));
        let malformed = (self.malformed > 0)
            .then(|| format!("{} in postman/", count(self.malformed, "malformed message")));
        let undeliverable = (self.undeliverable > 0).then(|| {
            format!(
                "{} in postman/ with a recipient line that cannot be delivered",
                count(self.undeliverable, "message")
            )
        });
        let in_router = |number: u64| {
            let at_least = if number == MAX_ROUTER_FILES as u64 { "at least " } else { "" };
            format!("{at_least}{} in router/", count(number, "file"))
        };
        let unrouted = match (self.without_router, self.unrouted) {
            (0, 0) => None,
            (0, number) => Some(in_router(number) + " for more than 10m: its log has the reason"),
            (number, _) => Some(in_router(number) + " without a router: none runs"),
        };
        let of_drop = self.drop_problems.iter().cloned();
        [orphans, malformed, undeliverable, unrouted].into_iter().flatten().chain(of_drop)
    }
}

/// Sentences for the summary about what is wrong with a spool.
pub(crate) fn warnings(spool: &Spool) -> Vec<String> {
    /// Part of the file system below which the summary warns, in percent, as `check` by default.
    const MIN_FREE: f64 = 5.0;
    let state = SpoolState::read_fast(spool);
    let free = state.free.filter(|free| *free < MIN_FREE);
    let free = free.map(|free| format!("{free:.1} % free on the file system of the spool"));
    free.into_iter().chain(state.problems()).collect()
}

fn free_percent(spool: &Spool) -> Option<f64> {
    let found = zsched_sys::statvfs(spool.postoffice()).ok()?;
    let percent = |free: u64, all: u64| match all {
        // Some file systems do not limit the number of files.
        0 => 100.0,
        all => free as f64 * 100.0 / all as f64,
    };
    // What is reserved for root counts as used, as `df` has it.
    let used = found.f_blocks.saturating_sub(found.f_bfree);
    let blocks = percent(found.f_bavail, used + found.f_bavail);
    Some(blocks.min(percent(found.f_favail, found.f_files)))
}

/// Returns true if a router runs on the spool, ours or ZMailer's.
fn router_runs(spool: &Spool) -> bool {
    let pid = fs::read_to_string(spool.router_pid_file()).unwrap_or_default();
    pid.trim().parse().is_ok_and(zsched_sys::process_exists)
}

/// Number of files that have been in `router/` for longer than `max_time`, in seconds.
///
/// It is 0 if this user may not look at them.
fn waiting_for_router(spool: &Spool, now: Timestamp, max_time: i64) -> u64 {
    let (mut folders, mut found, mut left) = (vec![HashFolder::TOP], 0, MAX_ROUTER_FILES);
    while let Some(folder) = folders.pop() {
        let listed = fs::read_dir(spool.router().join(folder.to_string()));
        for entry in listed.into_iter().flatten().flatten().take(left) {
            let name = entry.file_name();
            folders.extend(folder.below(name.as_bytes()));
            left -= 1;
            // The change time is that of the rename into the folder.
            let is_old = |file: fs::Metadata| now.seconds() - file.ctime() > max_time;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let is_visible = !name.as_bytes().starts_with(b".");
            found += u64::from(is_file && is_visible && entry.metadata().is_ok_and(is_old));
        }
    }
    found
}

/// Describes orphans, with the names that are known.
fn describe(orphans: &Orphans) -> String {
    let names: Vec<String> = orphans.names.iter().map(ToString::to_string).collect();
    let more = if names.len() < orphans.count { ", ..." } else { "" };
    let at_least = if orphans.is_cut { "at least " } else { "" };
    let files = count(orphans.count as u64, "message file");
    format!("{at_least}{files} without a control file in queue/ ({}{more})", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_in_router_are_counted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        let waiting = |now| waiting_for_router(&spool, now, MAX_ROUTING_TIME);
        assert_eq!(waiting(Timestamp::now()), 0);
        fs::create_dir_all(spool.router().join("X")).expect("made");
        for name in ["one", "X/two", ".hidden"] {
            fs::write(spool.router().join(name), "").expect("written");
        }
        let after = |seconds| Timestamp::from_seconds(Timestamp::now().seconds() + seconds);
        assert_eq!(waiting(after(0)), 0);
        assert_eq!(waiting(after(MAX_ROUTING_TIME + 60)), 2);
        assert!(!router_runs(&spool));
        fs::write(spool.router_pid_file(), format!("{}\n", std::process::id())).expect("written");
        assert!(router_runs(&spool));
        for (without_router, expected) in [
            (0, "2 files in router/ for more than 10m: its log has the reason"),
            (3, "3 files in router/ without a router: none runs"),
        ] {
            let state = SpoolState { unrouted: 2, without_router, ..SpoolState::default() };
            assert_eq!(state.problems().collect::<Vec<String>>(), [expected]);
        }
    }
}
