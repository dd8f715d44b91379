//! What is wrong with the spool of this host, read from its folders.

use crate::format::count;
use std::fs;
use std::io;
use std::time::Duration;
use zsched_format::time::Timestamp;
use zsched_spool::Spool;
use zsched_spool::orphans::{self, OrphanSearchLimits, Orphans};

/// Limits of the search for orphans in `queue/`.
const ORPHAN_LIMITS: OrphanSearchLimits =
    OrphanSearchLimits { files: 200_000, time: Duration::from_secs(2) };
/// Maximum number of files that are counted in `postman/`.
const MAX_POSTMAN_FILES: usize = 100_000;

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
    /// True if this user may not read the folders.
    pub is_unreadable: bool,
    /// Free part of the file system, of its blocks or of its files, whichever is less, in percent.
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
            ..SpoolState::default()
        };
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
        [orphans, malformed, undeliverable].into_iter().flatten()
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

/// Describes orphans, with the names that are known.
fn describe(orphans: &Orphans) -> String {
    let names: Vec<String> = orphans.names.iter().map(ToString::to_string).collect();
    let more = if names.len() < orphans.count { ", ..." } else { "" };
    let at_least = if orphans.is_cut { "at least " } else { "" };
    let files = count(orphans.count as u64, "message file");
    format!("{at_least}{files} without a control file in queue/ ({}{more})", names.join(", "))
}
