//! Finds message files in `queue/` that have no control file.
//!
//! A power failure or a killed program may have left them.
//!
//! They are only reported. A person must decide on deleting one, since it may be all that is left
//! of a message.

use super::removals::has_control_file;
use super::{HashFolder, Spool, SpoolName};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};
use zsched_format::time::Timestamp;
use zsched_sys::if_exists;

/// Maximum number of orphans that are listed by name.
const MAX_NAMED: usize = 10;
/// Minimum age of an orphan.
///
/// A router creates the message file first, and the scheduler removes it last, so a younger one is
/// normal.
const MIN_AGE: Duration = Duration::from_secs(600);

/// Limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct OrphanSearchLimits {
    /// Maximum number of files.
    pub files: usize,
    /// Maximum time.
    pub time: Duration,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orphans {
    /// Their number.
    pub count: usize,
    /// The names of some of them.
    pub names: Vec<SpoolName>,
    /// True if a limit was reached, so there may be more.
    pub is_cut: bool,
}

/// Finds message files without a control file. Changes nothing.
pub fn find_orphans(
    spool: &Spool,
    limits: OrphanSearchLimits,
    now: Timestamp,
) -> io::Result<Orphans> {
    let begun = Instant::now();
    let (mut suspects, mut files, mut is_cut) = (Vec::new(), 0, false);
    let mut folders = vec![HashFolder::TOP];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(spool.queue().join(folder.to_string()))? {
            let base = entry?.file_name();
            folders.extend(folder.below(base.as_bytes()));
            let Some(name) = SpoolName::new(folder, base.as_bytes()) else {
                continue;
            };
            files += 1;
            if files > limits.files || begun.elapsed() > limits.time {
                is_cut = true;
                folders.clear();
                break;
            }
            if !has_control_file(spool, &name)? {
                suspects.push(name);
            }
        }
    }
    let mut orphans = Orphans { is_cut, ..Orphans::default() };
    for name in suspects {
        // The message may have been removed meanwhile.
        if is_old(spool, &name, now)? && !has_control_file(spool, &name)? {
            orphans.count += 1;
            if orphans.names.len() < MAX_NAMED {
                orphans.names.push(name);
            }
        }
    }
    Ok(orphans)
}

/// Returns true if a message file exists and is older than [`MIN_AGE`].
fn is_old(spool: &Spool, name: &SpoolName, now: Timestamp) -> io::Result<bool> {
    let metadata = if_exists(fs::symlink_metadata(spool.message_file(name)))?;
    let is_old = |file: Metadata| file.is_file() && now.since(Timestamp::changed(&file)) >= MIN_AGE;
    Ok(metadata.is_some_and(is_old))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashLevel;

    const ALL: OrphanSearchLimits = OrphanSearchLimits { files: usize::MAX, time: Duration::MAX };

    #[test]
    fn old_message_files_without_control_file_are_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let below = HashFolder::of(4711, HashLevel::Twice);
        let of = |folder, base: &str| SpoolName::new(folder, base.as_bytes()).expect("a name");
        let all = [
            (HashFolder::TOP, "1"),
            (HashFolder::TOP, "2"),
            (HashFolder::TOP, "3"),
            (below, "4711"),
        ];
        for (folder, base) in all {
            let path = spool.message_file(&of(folder, base));
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, "x").expect("written");
        }
        fs::write(spool.transport().join("1"), "x").expect("a control file");
        fs::write(spool.transport().join(".2"), "x").expect("one in the making");
        let now = Timestamp::now();
        assert_eq!(find_orphans(&spool, ALL, now).expect("looked"), Orphans::default());
        let later = now + MIN_AGE + Duration::from_secs(5);
        let found = find_orphans(&spool, ALL, later).expect("looked");
        let mut names: Vec<String> = found.names.iter().map(SpoolName::path).collect();
        names.sort();
        assert_eq!(
            (found.count, found.is_cut, names),
            (2, false, vec!["3".into(), "Z/F/4711".into()])
        );
        assert_eq!(spool.queue().read_dir().expect("listed").count(), 4, "nothing is removed");
        let some =
            find_orphans(&spool, OrphanSearchLimits { files: 2, ..ALL }, later).expect("looked");
        assert!(some.is_cut && some.count <= 2, "{some:?}");
    }
}
