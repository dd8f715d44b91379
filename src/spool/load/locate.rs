//! The folder in which a message is used.

use crate::folder::{self, exists};
use crate::{HashFolder, HashLevel, Spool, SpoolName};
use std::io::{self, ErrorKind};
use std::path::Path;
use zsched_sys as sys;

/// Determines where the files of a message are to be used.
///
/// If the spool has levels, a control file in the top folder moves down, and its message with it. A
/// file that cannot be moved, because another is in its way for example, is used where it is.
pub(super) fn move_to_folder(
    spool: &Spool,
    level: HashLevel,
    name: SpoolName,
) -> io::Result<SpoolName> {
    let folder = HashFolder::of(name.number(), level);
    if name.folder() != HashFolder::TOP || folder == HashFolder::TOP {
        return Ok(name);
    }
    if !is_regular(&spool.control_file(&name))? {
        return Err(ErrorKind::NotFound.into());
    }
    let below = name.in_folder(folder);
    Ok(match move_down(spool, &name, &below) {
        Ok(()) => below,
        Err(error) => {
            // If the file has disappeared meanwhile, the caller reports that.
            if error.kind() != ErrorKind::NotFound {
                log::warn!("{name}: not moved to {below}, used where it is: {error}");
            }
            name
        }
    })
}

fn is_regular(path: &Path) -> io::Result<bool> {
    Ok(sys::if_exists(path.symlink_metadata())?.is_some_and(|found| found.is_file()))
}

/// Moves a control file down, then its message.
///
/// Existing files are never replaced, since both messages would lose theirs.
fn move_down(spool: &Spool, from: &SpoolName, to: &SpoolName) -> io::Result<()> {
    let (control, control_below) = (spool.control_file(from), spool.control_file(to));
    let (message, message_below) = (spool.message_file(from), spool.message_file(to));
    if exists(&message)? && exists(&message_below)? {
        return Err(ErrorKind::AlreadyExists.into());
    }
    folder::make_below(spool.transport(), to.folder(), true)?;
    if exists(&message)? {
        folder::make_below(spool.queue(), to.folder(), true)?;
    }
    sys::rename_new(&control, &control_below)?;
    match sys::rename_new(&message, &message_below) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            sys::rename_new(&control_below, &control)?;
            Err(error)
        }
        // The message is below, perhaps from before, or the control file has none.
        _ => Ok(()),
    }
}

/// Finishes a move that a crash has cut short between its two steps.
///
/// The message is then still in the top folder, without a control file there. Returns true if it
/// was moved. While it cannot be moved it does not count as missing: that is an error.
pub(super) fn finish_move(spool: &Spool, name: &SpoolName) -> io::Result<bool> {
    let at_top = name.in_folder(HashFolder::TOP);
    let message_at_top = spool.message_file(&at_top);
    if name.folder() == HashFolder::TOP
        || !exists(&message_at_top)?
        || exists(&spool.control_file(&at_top))?
    {
        return Ok(false);
    }
    folder::make_below(spool.queue(), name.folder(), true)?;
    sys::rename_new(&message_at_top, &spool.message_file(name))?;
    log::warn!("{name}: its message file was still in the top folder of queue/; moved");
    Ok(true)
}
