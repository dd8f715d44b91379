//! Puts a submission into `router/`, from which the router takes it.
//!
//! Any user may do that. What protects the mail of others is who owns which name, not a program
//! with rights of its own:
//!
//! - `public/` and `router/` are folders of the mail system that all users may put files into, but
//!   not list ([`PUBLIC_FOLDER_MODE`](crate::folder::PUBLIC_FOLDER_MODE)). The sticky bit keeps
//!   files there from being replaced or removed by others.
//! - A submission belongs to its submitter, which is how the router knows that user. Besides, the
//!   group of the folder may read it, to which the router belongs.
//!
//! The file is complete, and its data are written out, before it gets its name in `router/`. Then
//! file and name are synced together: the journal of the file system has one transaction for both.

use super::sync::{Synced, sync_together, write_out_together};
use super::temp_file::TempFile;
use super::{HashFolder, HashLevel, Spool, SpoolId, SpoolName};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Seek, Write};
use std::mem;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Mode of a submission whose group is that of the folder.
const SHARED_MODE: u32 = 0o640;
/// Mode of any other submission. Only a router with the rights of root can read it.
const PRIVATE_MODE: u32 = 0o600;
/// Maximum length of the host's name in the name of a scratch file (as in ZMailer).
const MAX_HOST_LEN: usize = 19;
/// Maximum number of taken message numbers that are skipped.
///
/// Normally there are none, since the number is that of an inode. A copied spool may have some.
const MAX_TAKEN_NUMBERS: usize = 100;

/// A submission that is being written, in `public/`.
///
/// If this value is dropped before [`publish`](SubmissionFile::publish), the file is removed.
#[derive(Debug)]
pub struct SubmissionFile {
    public: PathBuf,
    router: PathBuf,
    scratch: TempFile,
}

/// A submission that the router has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedSubmission {
    /// Its name below `router/`.
    pub name: SpoolName,
    /// The id that its message has from now on.
    pub id: SpoolId,
}

/// A submission between the steps of [`publish_all`](SubmissionFile::publish_all).
struct Publication {
    file: SubmissionFile,
    /// Files whose number is taken. They are kept, so that the next one gets another inode.
    passed_over: Vec<TempFile>,
    published: Option<PublishedSubmission>,
}

impl SubmissionFile {
    /// Creates an empty file.
    pub fn create(spool: &Spool) -> io::Result<SubmissionFile> {
        let (public, router) = (spool.public(), spool.router());
        let scratch = scratch_file(&public)?;
        Ok(SubmissionFile { public, router, scratch })
    }

    /// Its present path.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Moves the file into `router/`, and syncs it there. Returns its name there.
    ///
    /// `level` is that of `router/`. No file is replaced. An error means that the router has not
    /// got it, unless it has taken it before the sync failed.
    pub fn publish(self, level: HashLevel) -> io::Result<SpoolName> {
        let mut results = SubmissionFile::publish_all(vec![self], level);
        results.pop().expect("one result for one file").map(|published| published.name)
    }

    /// The same for several files, which share the syncs of folders.
    ///
    /// Returns one result for each, in their order.
    pub fn publish_all(
        files: Vec<SubmissionFile>,
        level: HashLevel,
    ) -> Vec<io::Result<PublishedSubmission>> {
        let scratch: Vec<&File> = files.iter().map(|file| file.scratch.file()).collect();
        let written = write_out_together(&scratch);
        let start = |(file, written): (SubmissionFile, io::Result<()>)| {
            written.map(|()| Publication { file, passed_over: Vec::new(), published: None })
        };
        let mut states: Vec<io::Result<Publication>> =
            files.into_iter().zip(written).map(start).collect();
        for state in &mut states {
            advance(state, |publication| publication.move_to_router(level));
        }
        sync(&mut states);
        states.into_iter().map(|state| state.map(Publication::finish)).collect()
    }
}

impl Publication {
    /// Moves the file into `router/`, with another number if its own is taken.
    fn move_to_router(&mut self, level: HashLevel) -> io::Result<()> {
        loop {
            let SubmissionFile { public, router, scratch } = &mut self.file;
            let modified = Timestamp::modified(&scratch.file().metadata()?);
            match rename_into_router(scratch, router, level) {
                Ok(name) => {
                    let id = SpoolId { number: name.number(), modified };
                    self.published = Some(PublishedSubmission { name, id });
                    return Ok(());
                }
                Err(error)
                    if error.kind() == ErrorKind::AlreadyExists
                        && self.passed_over.len() < MAX_TAKEN_NUMBERS =>
                {
                    let copy = scratch_file(public)?;
                    scratch.file().rewind()?;
                    io::copy(&mut scratch.file(), &mut copy.file())?;
                    copy.file().sync_data()?;
                    let mut taken = mem::replace(scratch, copy);
                    taken.remove()?;
                    self.passed_over.push(taken);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn finish(self) -> PublishedSubmission {
        self.published.expect("it was moved without an error")
    }
}

/// Takes the next step of a submission, unless an earlier one has failed.
fn advance(
    state: &mut io::Result<Publication>,
    step: impl FnOnce(&mut Publication) -> io::Result<()>,
) {
    if let Ok(publication) = state
        && let Err(error) = step(publication)
    {
        *state = Err(error);
    }
}

/// Syncs the files with their names in `router/`, and the folders that have got some.
///
/// What cannot be synced is taken back. It is no error that this user may not open a folder: see
/// [`sync_name`].
fn sync(states: &mut [io::Result<Publication>]) {
    fn target(publication: &Publication) -> (Option<&File>, PathBuf) {
        let scratch = &publication.file.scratch;
        (Some(scratch.file()), scratch.path().parent().unwrap_or(Path::new("")).to_path_buf())
    }
    let synced = sync_together(states.iter().flatten().map(target).collect());
    let moved = states.iter_mut().filter(|state| state.is_ok());
    for (state, Synced { file, folder }) in moved.zip(synced) {
        advance(state, |publication| {
            file?;
            match folder {
                Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
                _ => {}
            }
            publication.file.scratch.stay();
            Ok(())
        });
    }
}

impl Write for SubmissionFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.scratch.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn scratch_file(folder: &Path) -> io::Result<TempFile> {
    let host: String = sys::host_name().replace('/', "_").chars().take(MAX_HOST_LEN).collect();
    let scratch = TempFile::create_in(folder, &host)?;
    share_with_router(scratch.file(), folder)?;
    Ok(scratch)
}

/// Allows the router to read a submission, if no other user gains access by that.
///
/// The group of `folder` may read it. Where the file has another group, as in a folder without the
/// set-group-id bit, that may be a group of many users.
pub(crate) fn share_with_router(file: &File, folder: &Path) -> io::Result<()> {
    let is_of_folder = file.metadata()?.gid() == fs::metadata(folder)?.gid();
    let mode = if is_of_folder { SHARED_MODE } else { PRIVATE_MODE };
    // It does not depend on the umask.
    file.set_permissions(Permissions::from_mode(mode))
}

/// Moves a synced file into `router/`, and syncs its new name as far as possible.
pub(crate) fn move_to_router(
    scratch: &mut TempFile,
    router: &Path,
    level: HashLevel,
) -> io::Result<SpoolName> {
    let name = rename_into_router(scratch, router, level)?;
    // The router has the file now. A failed sync followed by a crash could still lose its name.
    // Handing it over again while the failure lasts would be worse.
    sync_name(scratch.path().parent().unwrap_or(router), scratch.file()).ok();
    Ok(name)
}

/// Renames a file into `router/`, named after the number of its inode.
///
/// Existing files are not replaced. The number is unique, but a misnamed file may be in the way:
/// then the error is [`ErrorKind::AlreadyExists`].
fn rename_into_router(
    scratch: &mut TempFile,
    router: &Path,
    level: HashLevel,
) -> io::Result<SpoolName> {
    let number = scratch.number()?;
    let below = existing_folder(router, HashFolder::of(number, level));
    let name =
        SpoolName::new(below, number.to_string().as_bytes()).expect("an inode number is a name");
    let folder = router.join(below.to_string());
    scratch.rename(folder.join(number.to_string()))?;
    Ok(name)
}

/// Returns `below` if it is a folder of the owner of `router`, else the top.
///
/// Any user could create a folder in `router`, and remove what others put into it.
fn existing_folder(router: &Path, below: HashFolder) -> HashFolder {
    let owner = |path: PathBuf| path.symlink_metadata().ok().filter(Metadata::is_dir);
    let owner = |path| owner(path).map(|metadata| metadata.uid());
    let is_ours = owner(router.join(below.to_string()))
        .is_some_and(|uid| Some(uid) == owner(router.to_path_buf()));
    if is_ours { below } else { HashFolder::TOP }
}

/// Syncs the new name of a file.
///
/// Only a user who may list the folder can open it and so sync it. For other users the file is
/// synced once more: ext4, XFS and btrfs write a rename to their journals together with the
/// renamed file (xfstests `generic/322` verifies that).
fn sync_name(folder: &Path, file: &File) -> io::Result<()> {
    match File::open(folder) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => file.sync_all(),
        opened => opened?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool() -> (tempfile::TempDir, Spool) {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path().join("postoffice"));
        spool.create().expect("a spool");
        (folder, spool)
    }

    fn submission(spool: &Spool) -> SubmissionFile {
        let mut file = SubmissionFile::create(spool).expect("a file");
        file.write_all(b"to <a@b>\nenv-end\n\nhi\n").expect("written");
        file
    }

    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).expect("a folder").count()
    }

    #[test]
    fn published_submission_has_number_of_its_inode() {
        let (_folder, spool) = spool();
        drop(submission(&spool));
        assert_eq!(count(&spool.public()), 0, "it is removed");
        let name = submission(&spool).publish(HashLevel::Flat).expect("published");
        let file = fs::metadata(spool.router().join(name.path())).expect("a file");
        assert_eq!(name.path(), file.ino().to_string());
        assert_eq!(file.mode() & 0o7777, SHARED_MODE);
        assert_eq!((count(&spool.public()), count(&spool.router())), (0, 1));
    }

    #[test]
    fn submissions_are_published_together() {
        let (_folder, spool) = spool();
        let files = (0..20).map(|_| submission(&spool)).collect();
        for published in SubmissionFile::publish_all(files, HashLevel::Flat) {
            let published = published.expect("published");
            let file = fs::metadata(spool.router().join(published.name.path())).expect("a file");
            assert_eq!(published.id.number, file.ino());
            assert_eq!(published.id.modified, Timestamp::modified(&file));
        }
        assert_eq!((count(&spool.public()), count(&spool.router())), (0, 20));
    }

    #[test]
    fn submission_replaces_no_file() {
        let (_folder, spool) = spool();
        let first = submission(&spool);
        let taken = spool.router().join(first.scratch.number().expect("a number").to_string());
        fs::write(&taken, "somebody's").expect("written");
        let name = first.publish(HashLevel::Flat).expect("published with another number");
        assert_ne!(spool.router().join(name.path()), taken);
        let text = |path: &Path| fs::read_to_string(path).expect("a file");
        assert_eq!(text(&taken), "somebody's");
        assert_eq!(text(&spool.router().join(name.path())), "to <a@b>\nenv-end\n\nhi\n");
        assert_eq!((count(&spool.public()), count(&spool.router())), (0, 2));
    }

    #[test]
    fn hash_folder_is_used_if_it_is_of_the_mail_system() {
        let (_folder, spool) = spool();
        let name = submission(&spool).publish(HashLevel::Once).expect("published");
        assert_eq!(name.folder(), HashFolder::TOP, "there are none yet");
        for letter in 'A'..='Z' {
            fs::create_dir(spool.router().join(letter.to_string())).expect("a folder");
        }
        let name = submission(&spool).publish(HashLevel::Once).expect("published");
        assert_eq!(name.folder(), HashFolder::of(name.number(), HashLevel::Once));
        assert!(spool.router().join(name.path()).exists());
        if !sys::users::is_root() {
            return;
        }
        for letter in 'A'..='Z' {
            let folder = spool.router().join(letter.to_string());
            std::os::unix::fs::chown(folder, Some(4242), None).expect("chown");
        }
        let name = submission(&spool).publish(HashLevel::Once).expect("published");
        assert_eq!(name.folder(), HashFolder::TOP, "they are of another user");
    }

    #[test]
    fn submission_is_private_where_folder_has_another_group() {
        let (_folder, spool) = spool();
        let file = submission(&spool);
        let mode = || file.scratch.file().metadata().expect("a file").mode() & 0o7777;
        assert_eq!(mode(), SHARED_MODE);
        if !sys::users::is_root() {
            return;
        }
        std::os::unix::fs::chown(spool.router(), None, Some(4242)).expect("chown");
        share_with_router(file.scratch.file(), &spool.router()).expect("set");
        assert_eq!(mode(), PRIVATE_MODE);
    }
}
