//! Loads a control file that was found in the spool.
//!
//! | step | file |
//! |---|---|
//! | its folder: a file in the top folder moves down | [`locate`] |
//! | its text: parsed, checked, and reduced to an [`Arrival`] | [`parse`] |
//! | its tags and locks: decided tags are completed, locks of dead processes cleared | [`repair`] |
//!
//! A file that cannot be used is then moved to `postman/` ([`move_aside`]).

mod locate;
mod parse;
mod repair;

#[cfg(test)]
mod tests;

pub use parse::{check_headers, check_name};
pub use repair::{clear_locks, holder, unlock_dead};

use super::move_aside::{self, Reason};
use super::removals::RemovalList;
use super::{
    Arrival, DuplicateSink, HashLevel, LockOwner, OpenSpool, Portion, Spool, SpoolName, owner_of,
    owner_when_unloaded,
};
use locate::move_to_folder;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use zsched_format::control_file::{ControlFile, ControlFileError, PidField};
use zsched_format::time::Timestamp;

/// The result of loading a control file.
#[derive(Debug)]
pub enum LoadResult {
    /// The file is valid.
    Arrival(Box<Arrival>),
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

/// A control file that was loaded, before its text is dropped: for a line of the log.
pub struct LoadedFile<'l> {
    /// The file, or its first part if it is read in parts.
    pub file: &'l ControlFile,
    /// What is kept of it.
    pub arrival: &'l Arrival,
    /// When the file was made, as far as the file system stores that.
    pub made: Timestamp,
    /// Size of the message file, in bytes.
    pub message_size: u64,
    /// User id of the owner of the message file.
    pub owner: u32,
    /// True if the file is read in parts.
    pub is_part: bool,
}

/// Receives a loaded control file that has a message.
pub type LoadObserver<'l> = &'l mut dyn FnMut(LoadedFile<'_>);

/// What is done before a malformed message is moved aside. After an error it is not moved.
pub type BeforeMove = fn(&Spool, &SpoolName) -> io::Result<()>;

/// Size and times of a control file.
#[derive(Clone, Copy, Debug)]
struct FileStat {
    size: u64,
    /// Last change of the inode: the time when the file arrived.
    changed: Timestamp,
    /// When the file was made, if the file system stores that; else its last change.
    made: Timestamp,
}

impl FileStat {
    /// Examines an open file. A file of another kind does not exist as a control file.
    fn of(file: &File) -> io::Result<FileStat> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(ErrorKind::NotFound.into());
        }
        let changed = Timestamp::changed(&metadata);
        let made = metadata.created().map_or(changed, Timestamp::from);
        Ok(FileStat { size: metadata.len(), changed, made })
    }
}

/// Loads the control file of a message for the scheduler.
///
/// In a spool with hash levels, a file in the top folder is moved down first. `duplicates` receives
/// possible duplicates, and then locks of dead processes are cleared, in the file as well. A file
/// that cannot be used is moved aside together with its message.
pub fn load(
    spool: &OpenSpool,
    level: HashLevel,
    name: SpoolName,
    at_most: Option<u32>,
    duplicates: DuplicateSink<'_>,
    observer: LoadObserver<'_>,
    before_move: BeforeMove,
) -> LoadResult {
    let name = match move_to_folder(&spool.spool, level, name) {
        Ok(name) => name,
        Err(error) if error.kind() == ErrorKind::NotFound => return LoadResult::Nothing,
        Err(error) => return LoadResult::Failed(error),
    };
    let portion = at_most.map(|at_most| Portion { from: 0, max_recipients: at_most });
    let loaded = Loader::open(spool, &name, owner_when_unloaded, duplicates, observer)
        .and_then(|(mut loader, file)| loader.load(file, portion, true));
    move_aside_if_malformed(loaded, || {
        list_and_move_aside(&spool.spool, &name, before_move)
            .or_else(|_| move_aside::hide(&spool.spool, &name, Reason::Malformed))
    })
}

/// Loads all of a loaded message again, or a further portion.
///
/// Recipients that a living process has locked do not prevent this. They are listed as locked.
pub fn reload(
    spool: &OpenSpool,
    name: &SpoolName,
    portion: Option<Portion>,
    duplicates: DuplicateSink<'_>,
    before_move: BeforeMove,
) -> LoadResult {
    // A portion from the beginning is that of a message that was paged out.
    let refuses_locks = portion.is_some_and(|portion| portion.from == 0);
    let loaded = Loader::open(spool, name, owner_of, duplicates, &mut |_| {})
        .and_then(|(mut loader, file)| loader.load(file, portion, refuses_locks));
    move_aside_if_malformed(loaded, || list_and_move_aside(&spool.spool, name, before_move))
}

/// A control file that is being loaded.
struct Loader<'l> {
    spool: &'l OpenSpool,
    name: &'l SpoolName,
    /// The path of both files in their folders.
    path: String,
    stat: FileStat,
    /// Determines the owner of a lock, given the file's last change.
    owner: fn(PidField, Timestamp) -> LockOwner,
    duplicates: DuplicateSink<'l>,
    observer: LoadObserver<'l>,
    /// Its message file, once that has been found.
    message: Option<MessageFile>,
}

impl<'l> Loader<'l> {
    /// Opens the control file of a message.
    fn open(
        spool: &'l OpenSpool,
        name: &'l SpoolName,
        owner: fn(PidField, Timestamp) -> LockOwner,
        duplicates: DuplicateSink<'l>,
        observer: LoadObserver<'l>,
    ) -> Result<(Loader<'l>, File), LoadError> {
        let path = name.path();
        let file =
            spool.transport.open_file(&path).map_err(|error| match error.raw_os_error() {
                // A link or a socket.
                Some(libc::ELOOP | libc::ENXIO) => ErrorKind::NotFound.into(),
                _ => error,
            })?;
        let stat = FileStat::of(&file)?;
        Ok((Loader { spool, name, path, stat, owner, duplicates, observer, message: None }, file))
    }
}

/// What is known of a message file.
#[derive(Clone, Copy)]
struct MessageFile {
    /// When the message was received.
    received: Timestamp,
    /// Size in bytes.
    size: u64,
    /// User id of its owner.
    owner: u32,
}

/// The reason why a file yields no arrival.
pub enum LoadError {
    /// A living process with this pid has locked one of the recipients.
    Locked(u32),
    /// Neither its message file nor any other exists.
    NoQueue,
    /// A [`ControlFileError`] means that the file is malformed.
    Failed(io::Error),
}

impl<E: Into<io::Error>> From<E> for LoadError {
    fn from(error: E) -> LoadError {
        LoadError::Failed(error.into())
    }
}

/// Moves a malformed file away, and returns the result for the caller.
pub fn move_aside_if_malformed(
    loaded: Result<Arrival, LoadError>,
    move_away: impl FnOnce() -> io::Result<PathBuf>,
) -> LoadResult {
    match loaded {
        Ok(arrival) => LoadResult::Arrival(Box::new(arrival)),
        Err(LoadError::Locked(pid)) => LoadResult::Locked(pid),
        Err(LoadError::NoQueue) => LoadResult::NoQueue,
        Err(LoadError::Failed(error)) => match error.downcast() {
            Ok(error) => LoadResult::Malformed { error, moved: move_away() },
            Err(error) if error.kind() == ErrorKind::NotFound => LoadResult::Nothing,
            Err(error) => LoadResult::Failed(error),
        },
    }
}

/// Moves a malformed message to `postman/`.
///
/// It is listed first, because a kill may leave its message file in `queue/`.
fn list_and_move_aside(
    spool: &Spool,
    name: &SpoolName,
    before_move: BeforeMove,
) -> io::Result<PathBuf> {
    // The list has room for the messages of one removal.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    before_move(spool, name)?;
    let mut removals = RemovalList::new(spool.reader_removals_file());
    let message = spool.message_file(name).symlink_metadata().ok();
    let message = message.map(|found| (name, Timestamp::modified(&found)));
    if let Err(error) = removals.write(message.into_iter()) {
        log::warn!("{}: {error}", removals.path().display());
    }
    move_aside::move_aside(spool, name, Reason::Malformed)
}
