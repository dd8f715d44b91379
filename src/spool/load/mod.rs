//! Loads a control file that was found in the spool.
//!
//! | step | file |
//! |---|---|
//! | its folder: a file in the top folder moves down | [`locate`] |
//! | its text: parsed, checked, and reduced to an [`Arrival`] | [`parse`] |
//! | its tags and locks: decided tags are completed, locks of dead processes cleared | [`repair`] |
//!
//! A file that cannot be used is then moved to `postman/`.

mod locate;
mod parse;
mod repair;

#[cfg(test)]
mod tests;

pub use parse::{check_headers, check_name};
pub use repair::{clear_locks, holder, unlock_dead};

use super::removals::RemovalList;
use super::remove::{self, Reason};
use super::{
    Arrival, DuplicateSink, HashLevel, Portion, Spool, SpoolName, owner_of, owner_when_unloaded,
};
use locate::move_to_folder;
use parse::{arrival, examine, parse_and_clear};
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use zsched_format::control_file::ControlFileError;
use zsched_format::time::Timestamp;

/// The result of loading a control file.
#[derive(Debug)]
pub enum LoadResult {
    /// The file is valid.
    Arrival(Arrival),
    /// There is no regular file of this name.
    Nothing,
    /// A living process with this pid has locked one of the recipients.
    Locked(u32),
    /// The file cannot be used, and was moved away.
    Malformed {
        /// The error in it.
        error: ControlFileError,
        /// Its new path, or the reason why it stays where it is.
        moved: Result<PathBuf, io::Error>,
    },
    /// The file could not be read.
    Failed(io::Error),
    /// Neither its message file nor any other exists.
    ///
    /// Most likely the folder of the message files is not mounted. The control file stays as it is.
    NoQueue,
}

/// Size and time of a control file, from one `stat(2)`.
///
/// With it, loading needs no second call.
#[derive(Clone, Copy, Debug)]
pub struct FileStat {
    size: u64,
    /// Last change of the inode: the time when the file arrived.
    pub changed: Timestamp,
}

impl FileStat {
    /// Examines the control file of a message. Returns `None` if there is no regular file.
    pub fn at(spool: &Spool, name: &SpoolName) -> io::Result<Option<FileStat>> {
        match fs::symlink_metadata(spool.control_file(name)) {
            Ok(metadata) if metadata.is_file() => Ok(Some(FileStat {
                size: metadata.len(),
                changed: Timestamp::from_parts(metadata.ctime(), metadata.ctime_nsec()),
            })),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Loads the control file of a message for the scheduler.
///
/// In a spool with hash levels, a file in the top folder is moved down first. `duplicates` receives
/// possible duplicates, and then locks of dead processes are cleared, in the file as well. A file
/// that cannot be used is moved aside together with its message.
pub fn load(
    spool: &Spool,
    level: HashLevel,
    name: SpoolName,
    at_most: Option<u32>,
    duplicates: DuplicateSink<'_>,
) -> LoadResult {
    match FileStat::at(spool, &name) {
        Ok(Some(stat)) => load_examined(spool, level, name, &stat, at_most, duplicates),
        Ok(None) => LoadResult::Nothing,
        Err(error) => LoadResult::Failed(error),
    }
}

/// The same, for a file that has just been examined.
pub fn load_examined(
    spool: &Spool,
    level: HashLevel,
    name: SpoolName,
    stat: &FileStat,
    at_most: Option<u32>,
    duplicates: DuplicateSink<'_>,
) -> LoadResult {
    let name = match move_to_folder(spool, level, name) {
        Ok(name) => name,
        Err(error) => return LoadResult::Failed(error),
    };
    let portion = at_most.map(|at_most| Portion { from: 0, max_recipients: at_most });
    match examine(spool, &name, stat, portion, (owner_when_unloaded, duplicates)) {
        Ok(arrival) => LoadResult::Arrival(arrival),
        Err(problem) => problem.found(|| {
            move_aside_malformed(spool, &name)
                .or_else(|_| remove::hide(spool, &name, Reason::Malformed))
        }),
    }
}

/// Loads a further portion of a partly loaded message.
///
/// Recipients that a living process has locked do not prevent this. They are listed as locked.
pub fn load_more(
    spool: &Spool,
    name: SpoolName,
    portion: Portion,
    duplicates: DuplicateSink<'_>,
) -> LoadResult {
    let stat = match FileStat::at(spool, &name) {
        Ok(Some(stat)) => stat,
        Ok(None) => return LoadResult::Nothing,
        Err(error) => return LoadResult::Failed(error),
    };
    match examine(spool, &name, &stat, Some(portion), (owner_of, duplicates)) {
        Ok(arrival) => LoadResult::Arrival(arrival),
        Err(problem) => problem.found(|| move_aside_malformed(spool, &name)),
    }
}

/// Loads the control file of a message that is already loaded.
///
/// Recipients that a living process has locked do not prevent this. They are listed as locked.
pub fn reload(spool: &Spool, name: SpoolName, duplicates: DuplicateSink<'_>) -> LoadResult {
    let stat = match FileStat::at(spool, &name) {
        Ok(Some(stat)) => stat,
        Ok(None) => return LoadResult::Nothing,
        Err(error) => return LoadResult::Failed(error),
    };
    match parse_and_clear(spool, &name, &stat, (owner_of, duplicates)) {
        Ok((file, received)) => LoadResult::Arrival(arrival(name, &file, &stat, received)),
        Err(problem) => problem.found(|| move_aside_malformed(spool, &name)),
    }
}

/// Moves a malformed message to `postman/`.
///
/// It is listed first, because a kill may leave its message file in `queue/`.
fn move_aside_malformed(spool: &Spool, name: &SpoolName) -> io::Result<PathBuf> {
    let mut removals = RemovalList::new(spool.reader_removals_file());
    if let Err(error) = removals.write(spool, std::iter::once(name)) {
        log::warn!("{}: {error}", removals.path().display());
    }
    remove::move_aside(spool, name, Reason::Malformed)
}

pub(super) enum LoadError {
    Gone,
    Locked(u32),
    Malformed(ControlFileError),
    Failed(io::Error),
    NoQueue,
}

impl LoadError {
    /// The result for the caller. A malformed file is moved away.
    fn found(self, move_away: impl FnOnce() -> io::Result<PathBuf>) -> LoadResult {
        match self {
            LoadError::Gone => LoadResult::Nothing,
            LoadError::Locked(pid) => LoadResult::Locked(pid),
            LoadError::Failed(error) => LoadResult::Failed(error),
            LoadError::NoQueue => LoadResult::NoQueue,
            LoadError::Malformed(error) => LoadResult::Malformed { error, moved: move_away() },
        }
    }
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        match error.kind() {
            ErrorKind::NotFound => LoadError::Gone,
            _ => LoadError::Failed(error),
        }
    }
}

pub(super) fn modified(metadata: &Metadata) -> Timestamp {
    Timestamp::from_parts(metadata.mtime(), metadata.mtime_nsec())
}
