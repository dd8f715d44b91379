//! Reading a control file that was found in the spool.

use super::remove::{self, Reason};
use super::{Arrival, HashFolder, HashLevel, LockOwner, Spool, SpoolName, owner_of};
use crate::control_file::{self, ControlFile, ControlFileError, PidField, Tag, mark};
use crate::time::Timestamp;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a look at a control file brought.
#[derive(Debug)]
pub enum Found {
    /// It is good.
    Arrival(Arrival),
    /// There is none of this name, or what is there is no regular file.
    Nothing,
    /// A living process holds a recipient of it.
    Locked(u32),
    /// It cannot be used, and was moved out of the way.
    Malformed {
        /// What is wrong with it.
        error: ControlFileError,
        /// Where it is now; or why it could not be moved, and stays where it is.
        moved: Result<PathBuf, io::Error>,
    },
    /// It could not be read.
    Failed(io::Error),
}

/// What a look at a control file from outside tells. Taken before it is opened, it saves a second one.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    size: u64,
    /// When the inode last changed: when the file came.
    pub changed: Timestamp,
}

impl Look {
    /// Looks at the control file of a message. `None` if there is none, or no regular file.
    pub fn at(spool: &Spool, name: &SpoolName) -> io::Result<Option<Look>> {
        match fs::symlink_metadata(spool.control_file(name)) {
            Ok(metadata) if metadata.is_file() => Ok(Some(Look {
                size: metadata.len(),
                changed: Timestamp::from_parts(metadata.ctime(), metadata.ctime_nsec()),
            })),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads the control file of a message, on behalf of the scheduler as a whole.
///
/// A file in the top folder of a spool with hash levels is moved down first. Locks of dead processes
/// are cleared, in the file too. A file that cannot be used is moved aside together with its message.
pub fn read(spool: &Spool, level: HashLevel, name: SpoolName) -> Found {
    match Look::at(spool, &name) {
        Ok(Some(look)) => read_looked_at(spool, level, name, &look),
        Ok(None) => Found::Nothing,
        Err(error) => Found::Failed(error),
    }
}

/// The same, for a file that has been looked at just now.
pub fn read_looked_at(spool: &Spool, level: HashLevel, name: SpoolName, look: &Look) -> Found {
    let name = move_down(spool, level, name);
    match examine(spool, &name, look) {
        Ok(arrival) => Found::Arrival(arrival),
        Err(problem) => problem.found(|| {
            remove::move_aside(spool, &name, Reason::Malformed)
                .or_else(|_| remove::hide(spool, &name, Reason::Malformed))
        }),
    }
}

/// Reads the control file of a message that is loaded already. Recipients that a living process holds
/// are no obstacle: they are listed as locked.
pub fn read_again(spool: &Spool, name: SpoolName) -> Found {
    let look = match Look::at(spool, &name) {
        Ok(Some(look)) => look,
        Ok(None) => return Found::Nothing,
        Err(error) => return Found::Failed(error),
    };
    match parse_and_clear(spool, &name, &look) {
        Ok((file, received)) => Found::Arrival(arrival(name, &file, &look, received)),
        Err(problem) => problem.found(|| remove::move_aside(spool, &name, Reason::Malformed)),
    }
}

/// Clears the locks that dead processes hold in a control file, among them the given one.
pub fn clear_locks(spool: &Spool, name: &SpoolName, dead: u32) -> io::Result<()> {
    let path = spool.control_file(name);
    let file = match OpenOptions::new().read(true).write(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let modified = modified(&file.metadata()?);
    let mut text = Vec::new();
    (&file).read_to_end(&mut text)?;
    let Ok(mut parsed) = control_file::parse(text) else {
        return Ok(());
    };
    unlock_dead(&file, &mut parsed, |field| {
        field.pid() == Some(dead) || owner_of(field, modified) == LockOwner::Dead
    })
}

/// Takes the locks of dead processes off, on disk and in what was read of it. Locks without a pid are
/// nobody's.
pub(crate) fn unlock_dead(
    on_disk: &impl FileExt,
    file: &mut ControlFile,
    is_dead: impl Fn(PidField) -> bool,
) -> io::Result<()> {
    for recipient in file.recipients.iter_mut().filter(|r| r.tag == Tag::Locked) {
        if recipient.lock.is_none_or(&is_dead) {
            recipient.tag = mark::unlock(on_disk, recipient.offset, recipient.lock)?;
        }
    }
    Ok(())
}

/// The process that holds the first locked recipient of a file; 0 if the file does not say.
pub(crate) fn holder(file: &ControlFile) -> Option<u32> {
    let locked = file.recipients.iter().find(|recipient| recipient.tag == Tag::Locked)?;
    Some(locked.lock.and_then(|field| field.pid()).unwrap_or_default())
}

enum Problem {
    Gone,
    Locked(u32),
    Malformed(ControlFileError),
    Failed(io::Error),
}

impl Problem {
    /// The verdict on the file; a malformed one is moved out of the way.
    fn found(self, move_away: impl FnOnce() -> io::Result<PathBuf>) -> Found {
        match self {
            Problem::Gone => Found::Nothing,
            Problem::Locked(pid) => Found::Locked(pid),
            Problem::Failed(error) => Found::Failed(error),
            Problem::Malformed(error) => Found::Malformed { error, moved: move_away() },
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        match error.kind() {
            ErrorKind::NotFound => Problem::Gone,
            _ => Problem::Failed(error),
        }
    }
}

/// A file found at the top, although the spool has levels, goes where it belongs: its control file
/// first. If that fails it is used where it is.
fn move_down(spool: &Spool, level: HashLevel, name: SpoolName) -> SpoolName {
    let folder = HashFolder::of(name.number(), level);
    if name.folder() != HashFolder::TOP || folder == HashFolder::TOP {
        return name;
    }
    let below = name.in_folder(folder);
    let moves = || {
        rename_into(spool.control_file(&name), spool.control_file(&below))?;
        rename_into(spool.message_file(&name), spool.message_file(&below))
    };
    match moves() {
        Ok(()) => below,
        // The control file may have moved all the same, or both may be there by now.
        Err(_) if spool.control_file(&name).symlink_metadata().is_ok() => name,
        Err(_) => below,
    }
}

fn rename_into(from: PathBuf, to: PathBuf) -> io::Result<()> {
    match fs::rename(&from, &to) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = to.parent().ok_or(ErrorKind::InvalidInput)?;
            fs::create_dir_all(folder)?;
            fs::rename(from, to)
        }
        other => other,
    }
}

fn examine(spool: &Spool, name: &SpoolName, look: &Look) -> Result<Arrival, Problem> {
    let (file, received) = parse_and_clear(spool, name, look)?;
    if let Some(pid) = holder(&file) {
        return Err(Problem::Locked(pid));
    }
    Ok(arrival(name.clone(), &file, look, received))
}

/// Reads and parses a control file, with the locks of dead processes cleared. Also tells when its
/// message was received, if it has one.
fn parse_and_clear(
    spool: &Spool,
    name: &SpoolName,
    look: &Look,
) -> Result<(ControlFile, Option<Timestamp>), Problem> {
    let path = spool.control_file(name);
    let mut file = control_file::parse(contents(&path, look)?).map_err(Problem::Malformed)?;
    let received = check_message(spool, name, &file)?;
    clear_dead_locks(&path, &mut file)?;
    Ok((file, received))
}

/// What is in a control file: mostly one system call, since its size is known.
fn contents(path: &Path, look: &Look) -> io::Result<Vec<u8>> {
    // It may have been replaced by something else meanwhile; that must not hold us up.
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let size = usize::try_from(look.size).map_err(|_| ErrorKind::FileTooLarge)?;
    // One byte more: if that stays free, the end has been reached.
    let mut text = vec![0; size + 1];
    let count = file.read(&mut text)?;
    text.truncate(count);
    if count > size {
        file.read_to_end(&mut text)?;
    }
    Ok(text)
}

/// A control file must name itself, unless it names nothing.
pub(crate) fn check_name(name: &SpoolName, file: &ControlFile) -> Result<(), ControlFileError> {
    match file.name() {
        Some(own_name) if own_name != name.base().as_bytes() => {
            let shown = String::from_utf8_lossy(own_name);
            Err(error_in_name(file, format!("the i line says {shown}")))
        }
        _ => Ok(()),
    }
}

fn error_in_name(file: &ControlFile, reason: String) -> ControlFileError {
    let offset = file.name.map_or(0, |span| span.start as usize - 2);
    ControlFileError::new(offset, reason)
}

/// The message file that a control file must have, unless it only asks for a host to be tried.
fn check_message(
    spool: &Spool,
    name: &SpoolName,
    file: &ControlFile,
) -> Result<Option<Timestamp>, Problem> {
    if file.name().is_none() {
        return Ok(None);
    }
    check_name(name, file).map_err(Problem::Malformed)?;
    let malformed = |reason: String| Problem::Malformed(error_in_name(file, reason));
    let error = match fs::metadata(spool.message_file(name)) {
        Ok(message) if message.is_file() => return Ok(Some(modified(&message))),
        Ok(_) => return Err(malformed("the message file is no regular file".to_string())),
        Err(error) => error,
    };
    // Somebody may have taken both away since.
    if error.kind() == ErrorKind::NotFound && spool.control_file(name).symlink_metadata().is_ok() {
        return Err(malformed("there is no message file".to_string()));
    }
    Err(error.into())
}

/// Clears the locks of dead processes, in the file too.
///
/// How old the locks may be is asked only now: the look at the file, a long scan ago, may have been
/// before an agent of an earlier scheduler took a recipient.
fn clear_dead_locks(path: &Path, file: &mut ControlFile) -> io::Result<()> {
    if file.recipients.iter().all(|recipient| recipient.tag != Tag::Locked) {
        return Ok(());
    }
    let modified = modified(&fs::symlink_metadata(path)?);
    let is_dead = |recipient: &control_file::Recipient| {
        let owner = recipient.lock.map(|field| owner_of(field, modified));
        recipient.tag == Tag::Locked && owner.is_none_or(|owner| owner == LockOwner::Dead)
    };
    if !file.recipients.iter().any(is_dead) {
        return Ok(());
    }
    let on_disk = OpenOptions::new().read(true).write(true).open(path)?;
    unlock_dead(&on_disk, file, |field| owner_of(field, modified) == LockOwner::Dead)
}

fn arrival(
    name: SpoolName,
    file: &ControlFile,
    look: &Look,
    received: Option<Timestamp>,
) -> Arrival {
    Arrival::new(name, file, received.unwrap_or(look.changed), look.changed)
}

fn modified(metadata: &Metadata) -> Timestamp {
    Timestamp::from_parts(metadata.mtime(), metadata.mtime_nsec())
}
