//! Reading a control file that was found in the spool.

use super::remove::{self, Reason};
use super::{Arrival, HashFolder, HashLevel, LockOwner, Spool, SpoolName, owner_of};
use crate::control_file::{self, ControlFile, ControlFileError, Tag, mark};
use crate::time::Timestamp;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

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

/// Reads the control file of a message, on behalf of the scheduler as a whole.
///
/// A file in the top folder of a spool with hash levels is moved down first. Locks of dead processes
/// are cleared, in the file too. A file that cannot be used is moved aside together with its message.
pub fn read(spool: &Spool, level: HashLevel, name: SpoolName) -> Found {
    let name = move_down(spool, level, name);
    match examine(spool, &name) {
        Ok(arrival) => Found::Arrival(arrival),
        Err(Problem::Gone) => Found::Nothing,
        Err(Problem::Locked(pid)) => Found::Locked(pid),
        Err(Problem::Failed(error)) => Found::Failed(error),
        Err(Problem::Malformed(error)) => {
            let moved = remove::move_aside(spool, &name, Reason::Malformed)
                .or_else(|_| remove::hide(spool, &name, Reason::Malformed));
            Found::Malformed { error, moved }
        }
    }
}

/// Reads the control file of a message that is loaded already. Recipients that a living process holds
/// are no obstacle: they are listed as locked.
pub fn read_again(spool: &Spool, name: SpoolName) -> Found {
    match parse_and_clear(spool, &name) {
        Ok((file, control, message)) => Found::Arrival(arrival(name, &file, &control, &message)),
        Err(Problem::Gone) => Found::Nothing,
        Err(Problem::Locked(pid)) => Found::Locked(pid),
        Err(Problem::Failed(error)) => Found::Failed(error),
        Err(Problem::Malformed(error)) => {
            let moved = remove::move_aside(spool, &name, Reason::Malformed);
            Found::Malformed { error, moved }
        }
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
    let Ok(parsed) = control_file::parse(text) else {
        return Ok(());
    };
    for recipient in parsed.recipients.iter().filter(|r| r.tag == Tag::Locked) {
        let field = recipient.lock;
        let is_dead = field.is_none_or(|field| {
            field.pid() == Some(dead) || owner_of(field, modified) == LockOwner::Dead
        });
        if is_dead {
            mark::change_tag(&file, recipient.offset, Tag::Locked, Tag::Pending, 0)?;
        }
    }
    Ok(())
}

enum Problem {
    Gone,
    Locked(u32),
    Malformed(ControlFileError),
    Failed(io::Error),
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

fn examine(spool: &Spool, name: &SpoolName) -> Result<Arrival, Problem> {
    let (file, control, message) = parse_and_clear(spool, name)?;
    if let Some(locked) = file.recipients.iter().find(|recipient| recipient.tag == Tag::Locked) {
        return Err(Problem::Locked(locked.lock.and_then(|field| field.pid()).unwrap_or_default()));
    }
    Ok(arrival(name.clone(), &file, &control, &message))
}

/// Reads and parses a control file, with the locks of dead processes cleared, and looks at its
/// message file.
fn parse_and_clear(
    spool: &Spool,
    name: &SpoolName,
) -> Result<(ControlFile, Metadata, Option<Metadata>), Problem> {
    let path = spool.control_file(name);
    let metadata = fs::symlink_metadata(&path)?;
    if !metadata.is_file() {
        return Err(Problem::Gone);
    }
    let mut text = Vec::with_capacity(metadata.len() as usize + 1);
    File::open(&path)?.read_to_end(&mut text)?;
    let mut file = control_file::parse(text).map_err(Problem::Malformed)?;
    let message = check_message(spool, name, &file)?;
    clear_dead_locks(&path, &metadata, &mut file)?;
    Ok((file, metadata, message))
}

/// The message file that a control file must have, unless it only asks for a host to be tried.
fn check_message(
    spool: &Spool,
    name: &SpoolName,
    file: &ControlFile,
) -> Result<Option<Metadata>, Problem> {
    let Some(own_name) = file.name() else {
        return Ok(None);
    };
    let offset = file.name.map_or(0, |span| span.start as usize - 2);
    let malformed = |reason: String| Problem::Malformed(ControlFileError::new(offset, reason));
    if own_name != name.base().as_bytes() {
        let shown = String::from_utf8_lossy(own_name);
        return Err(malformed(format!("the i line says {shown}")));
    }
    let error = match fs::metadata(spool.message_file(name)) {
        Ok(message) if message.is_file() => return Ok(Some(message)),
        Ok(_) => return Err(malformed("the message file is no regular file".to_string())),
        Err(error) => error,
    };
    // Somebody may have taken both away since.
    if error.kind() == ErrorKind::NotFound && spool.control_file(name).symlink_metadata().is_ok() {
        return Err(malformed("there is no message file".to_string()));
    }
    Err(error.into())
}

fn clear_dead_locks(
    path: &std::path::Path,
    metadata: &Metadata,
    file: &mut ControlFile,
) -> io::Result<()> {
    let modified = modified(metadata);
    let is_dead = |recipient: &control_file::Recipient| {
        let owner = recipient.lock.map(|field| owner_of(field, modified));
        recipient.tag == Tag::Locked && owner.is_none_or(|owner| owner == LockOwner::Dead)
    };
    if !file.recipients.iter().any(is_dead) {
        return Ok(());
    }
    let on_disk = OpenOptions::new().read(true).write(true).open(path)?;
    for recipient in file.recipients.iter_mut().filter(|recipient| is_dead(recipient)) {
        mark::change_tag(&on_disk, recipient.offset, Tag::Locked, Tag::Pending, 0)?;
        recipient.tag = Tag::Pending;
    }
    Ok(())
}

fn arrival(
    name: SpoolName,
    file: &ControlFile,
    control: &Metadata,
    message: &Option<Metadata>,
) -> Arrival {
    let created = Timestamp::from_parts(control.ctime(), control.ctime_nsec());
    Arrival::new(name, file, message.as_ref().map_or(created, modified), created)
}

fn modified(metadata: &Metadata) -> Timestamp {
    Timestamp::from_parts(metadata.mtime(), metadata.mtime_nsec())
}
