//! Takes submissions out of `router/`: each gets a control file and goes to the scheduler.
//!
//! | step | state after a crash | at the next start |
//! |---|---|---|
//! | the control files are written under hidden names | the submission is in `router/` | it is routed again, and the hidden file is replaced |
//! | they are synced, together with their folders | the same | the same |
//! | the messages are renamed into `queue/` | the message is in `queue/`, its control file hidden | the control file gets its name ([`unfinished`](super::unfinished)) |
//! | the folders in `queue/` are synced | the same | the same |
//! | the control files get their names | both are in the spool, or the same as before | the scheduler finds them, or as before |
//!
//! So the rename into `queue/` is the decision: before it the submission is routed again, after it
//! never. Several messages share the syncs of their folders. The last names are not synced: after a
//! power failure the next start of the router gives them again.

use super::submit::Submitter;
use super::sync::{Synced, sync_together};
use super::temp_file::TempFile;
use super::{SpoolName, folder};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use zsched_format::control_file::compose::ControlFileDraft;
use zsched_sys as sys;

/// Mode of a message file that belongs to another user than the scheduler's.
///
/// The group is that of `queue/`.
const FOREIGN_MESSAGE_MODE: u32 = 0o640;

/// A submission that has been routed.
#[derive(Debug)]
pub struct RoutedSubmission {
    /// Its path in `router/`.
    pub path: PathBuf,
    /// The file itself, so that no other file of that name is taken for it.
    pub file: File,
    /// Its control file, apart from the name.
    pub draft: ControlFileDraft,
}

/// Why a submission was not accepted.
#[derive(Debug)]
pub enum AcceptError {
    /// It is still in `router/`.
    NotTaken(io::Error),
    /// It is in `queue/`, and its control file is hidden: [`unfinished`](super::unfinished).
    Unfinished(io::Error),
}

impl std::error::Error for AcceptError {}

impl fmt::Display for AcceptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcceptError::NotTaken(error) => write!(f, "{error}"),
            AcceptError::Unfinished(error) => {
                write!(f, "{error}; its control file stays hidden for now")
            }
        }
    }
}

/// A submission between the steps.
struct Pending {
    name: SpoolName,
    path: PathBuf,
    file: File,
    control: TempFile,
}

impl Submitter {
    /// Puts routed submissions into the spool, in the order of the module's table.
    ///
    /// Returns one result for each, in their order. Nothing in the spool is replaced.
    pub fn accept(&self, routed: Vec<RoutedSubmission>) -> Vec<Result<SpoolName, AcceptError>> {
        let mut states: Vec<Result<Pending, AcceptError>> = routed
            .into_iter()
            .map(|routed| self.hide(routed).map_err(AcceptError::NotTaken))
            .collect();
        self.sync_below(self.spool.transport(), &mut states, AcceptError::NotTaken);
        for state in &mut states {
            advance(state, |pending| self.take(pending).map_err(AcceptError::NotTaken));
        }
        self.sync_below(self.spool.queue(), &mut states, AcceptError::Unfinished);
        let show = |pending: &mut Pending| {
            let shown = self.spool.control_file(&pending.name);
            pending.control.rename(shown).map_err(AcceptError::Unfinished)
        };
        states.iter_mut().for_each(|state| advance(state, show));
        states.into_iter().map(finished).collect()
    }

    /// Returns true if a submission is in the spool already, under a second name.
    ///
    /// A crash leaves two names on a file system that renames in two steps.
    pub fn has_accepted(&self, file: &File) -> io::Result<bool> {
        let name = self.name_of(file.metadata()?.ino());
        let is_queued = sys::if_exists(sys::is_name_of(&self.spool.message_file(&name), file))?;
        Ok(is_queued == Some(true) && folder::exists(&self.spool.control_file(&name))?)
    }

    /// Writes the hidden control file of a submission.
    fn hide(&self, routed: RoutedSubmission) -> io::Result<Pending> {
        let RoutedSubmission { path, file, mut draft } = routed;
        let name = self.name_of(file.metadata()?.ino());
        draft.name = name.base();
        if folder::exists(&self.spool.control_file(&name))? {
            return Err(taken(&self.spool.control_file(&name)));
        }
        let (_, folder) = self.folders(&name)?;
        let control = self.hidden_control_file(&folder, &name, &draft.to_text()?)?;
        Ok(Pending { name, path, file, control })
    }

    /// Renames a message into `queue/`.
    fn take(&self, pending: &mut Pending) -> io::Result<()> {
        let to = self.spool.message_file(&pending.name);
        if !sys::is_name_of(&pending.path, &pending.file)? {
            return Err(replaced());
        }
        share_with_scheduler(&pending.file, self.spool.queue())?;
        match folder::rename_to_free_name(&pending.path, &to) {
            // A crash on a file system that renames in two steps has left both names.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if !sys::is_name_of(&to, &pending.file)? {
                    return Err(taken(&to));
                }
                fs::remove_file(&pending.path)?;
            }
            other => other?,
        }
        // Its owner may have put another file in its place after the first look.
        if !sys::is_name_of(&to, &pending.file)? {
            folder::rename_to_free_name(&to, &pending.path)?;
            return Err(replaced());
        }
        pending.control.stay();
        Ok(())
    }

    /// Syncs folders below `top`, and the control files if that is where they are.
    ///
    /// An error of a folder concerns all messages in it.
    fn sync_below(
        &self,
        top: &Path,
        states: &mut [Result<Pending, AcceptError>],
        failed: fn(io::Error) -> AcceptError,
    ) {
        if !self.sync {
            return;
        }
        let with_file = top == self.spool.transport();
        let target = |pending| {
            let Pending { name, control, .. }: &Pending = pending;
            (with_file.then(|| control.file()), top.join(name.folder().to_string()))
        };
        let synced = sync_together(states.iter().flatten().map(target).collect());
        let pending = states.iter_mut().filter(|state| state.is_ok());
        for (state, Synced { file, folder }) in pending.zip(synced) {
            advance(state, |_| file.and(folder).map_err(failed));
        }
    }
}

/// Takes the next step of a submission, unless an earlier one has failed.
fn advance(
    state: &mut Result<Pending, AcceptError>,
    step: impl FnOnce(&mut Pending) -> Result<(), AcceptError>,
) {
    if let Ok(pending) = state
        && let Err(error) = step(pending)
    {
        *state = Err(error);
    }
}

fn finished(state: Result<Pending, AcceptError>) -> Result<SpoolName, AcceptError> {
    state.map(|pending| {
        pending.control.keep();
        pending.name
    })
}

fn replaced() -> io::Error {
    io::Error::other("it was replaced while it was being routed")
}

fn taken(path: &Path) -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, format!("{} exists already", path.display()))
}

/// Gives the group of `queue/` access to a message file, which keeps its owner.
///
/// Only root can, and only where the scheduler is another user than root.
fn share_with_scheduler(file: &File, queue: &Path) -> io::Result<()> {
    let (folder, metadata) = (fs::metadata(queue)?, file.metadata()?);
    if !sys::users::is_root() || folder.uid() == 0 || folder.uid() == metadata.uid() {
        return Ok(());
    }
    fchown(file, None, Some(folder.gid()))?;
    file.set_permissions(fs::Permissions::from_mode(FOREIGN_MESSAGE_MODE))
}
