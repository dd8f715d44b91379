//! The folder in which a message is used.

use crate::folder::{self, exists};
use crate::{HashFolder, HashLevel, Spool, SpoolName};
use std::io::{self, ErrorKind};
use zsched_sys as sys;

/// Determines where the files of a message are to be used.
///
/// If the spool has levels, a control file in the top folder moves down, and its message with it. A
/// move that a crash has cut short is finished. A file that cannot be moved, because another is in
/// its way for example, is used where it is. Returns an error only if the message file is still in
/// the top folder and cannot be moved yet.
pub(super) fn move_to_folder(
    spool: &Spool,
    level: HashLevel,
    name: SpoolName,
) -> io::Result<SpoolName> {
    let folder = HashFolder::of(name.number(), level);
    if name.folder() != HashFolder::TOP {
        finish_move(spool, &name)?;
        return Ok(name);
    }
    if folder == HashFolder::TOP {
        return Ok(name);
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
/// The message is then still in the top folder, without a control file there. While it cannot be
/// moved it does not count as missing.
fn finish_move(spool: &Spool, name: &SpoolName) -> io::Result<()> {
    let at_top = name.in_folder(HashFolder::TOP);
    let (message, message_at_top) = (spool.message_file(name), spool.message_file(&at_top));
    if exists(&message)? || !exists(&message_at_top)? || exists(&spool.control_file(&at_top))? {
        return Ok(());
    }
    folder::make_below(spool.queue(), name.folder(), true)?;
    sys::rename_new(&message_at_top, &message)?;
    log::warn!("{name}: its message file was still in the top folder of queue/; moved");
    Ok(())
}
