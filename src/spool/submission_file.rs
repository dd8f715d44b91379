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
//! The file is complete and on disk before it gets its name in `router/`.

use super::temp_file::TempFile;
use super::{HashFolder, HashLevel, Spool, SpoolName};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Seek, Write};
use std::mem;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
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
pub struct SubmissionFile<'s> {
    spool: &'s Spool,
    scratch: TempFile,
}

impl<'s> SubmissionFile<'s> {
    /// Creates an empty file.
    pub fn create(spool: &'s Spool) -> io::Result<SubmissionFile<'s>> {
        Ok(SubmissionFile { spool, scratch: scratch_file(spool)? })
    }

    /// Its present path.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Syncs the file, and moves it into `router/`. Returns its name there.
    ///
    /// `level` is that of `router/`. No file is replaced. An error means that the router has not
    /// got it.
    pub fn publish(mut self, level: HashLevel) -> io::Result<SpoolName> {
        // Files whose number is taken are kept, so that the next one gets another inode.
        let mut passed_over = Vec::new();
        loop {
            self.scratch.file().sync_all()?;
            match move_to_router(&mut self.scratch, &self.spool.router(), level) {
                Ok(name) => {
                    self.scratch.keep();
                    return Ok(name);
                }
                Err(error)
                    if error.kind() == ErrorKind::AlreadyExists
                        && passed_over.len() < MAX_TAKEN_NUMBERS =>
                {
                    let copy = scratch_file(self.spool)?;
                    self.scratch.file().rewind()?;
                    io::copy(&mut self.scratch.file(), &mut copy.file())?;
                    let mut taken = mem::replace(&mut self.scratch, copy);
                    taken.remove()?;
                    passed_over.push(taken);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Write for SubmissionFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.scratch.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn scratch_file(spool: &Spool) -> io::Result<TempFile> {
    let folder = spool.public();
    let host: String = sys::host_name().replace('/', "_").chars().take(MAX_HOST_LEN).collect();
    let scratch = TempFile::create_in(&folder, &host)?;
    share_with_router(scratch.file(), &folder)?;
    Ok(scratch)
}

/// Allows the router to read a submission, if that allows nothing to anybody else.
///
/// The group of `folder` may read it. Where the file has another group, as in a folder without the
/// set-group-id bit, that may be a group of many users.
pub(crate) fn share_with_router(file: &File, folder: &Path) -> io::Result<()> {
    let is_of_folder = file.metadata()?.gid() == fs::metadata(folder)?.gid();
    let mode = if is_of_folder { SHARED_MODE } else { PRIVATE_MODE };
    // It does not depend on the umask.
    file.set_permissions(Permissions::from_mode(mode))
}

/// Moves a synced file into `router/`, named after the number of its inode.
///
/// Existing files are not replaced. The number is unique, but a misnamed file may be in the way:
/// then the error is [`ErrorKind::AlreadyExists`].
pub(crate) fn move_to_router(
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
    // The router has the file now. A failed sync followed by a crash could still lose it. Handing
    // it over again while the failure lasts would be worse.
    sync_name(&folder, scratch.file()).ok();
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

    fn submission(spool: &Spool) -> SubmissionFile<'_> {
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
