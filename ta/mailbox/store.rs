//! The mailboxes: where they are, of which kind, and with whose rights they are touched.

use crate::letter::Letter;
use crate::owner::Owner;
use crate::trouble::Trouble;
use crate::{maildir, mbox};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zsched::sys::{self, Impersonation};

/// A folder of mailboxes.
#[derive(Debug)]
pub struct Store {
    /// Where the mailboxes are, each under the name of its owner.
    pub folder: PathBuf,
    /// Mailboxes are made as Maildir folders.
    pub new_ones_are_folders: bool,
    /// How long to wait for a locked mailbox.
    pub patience: Duration,
}

impl Store {
    /// Puts a letter into the mailbox of `owner`. Done means on disk.
    pub fn deliver(&self, owner: &Owner, letter: &Letter<'_>) -> Result<(), Trouble> {
        let path = self.folder.join(&owner.name);
        let is_new = match self.kind(&path)? {
            Kind::File => {
                let _acting = self.act_as(owner, Place::Folder)?;
                mbox::append(&path, owner, letter, self.patience)?
            }
            Kind::Folder { is_new } => {
                if is_new {
                    let _acting = self.act_as(owner, Place::Folder)?;
                    maildir::create(&path)?;
                }
                let _acting = self.act_as(owner, Place::Mailbox)?;
                maildir::deliver(&path, owner, letter)?;
                is_new
            }
        };
        if is_new {
            // With our own rights again: users need not be able to read the folder of all.
            sync(&self.folder).map_err(Trouble::with("cannot sync the folder of mailboxes"))?;
        }
        Ok(())
    }

    fn kind(&self, path: &Path) -> Result<Kind, Trouble> {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => {
                Err(Trouble::Unusable("the mailbox is a symbolic link"))
            }
            Ok(metadata) if metadata.is_dir() => Ok(Kind::Folder { is_new: false }),
            Ok(_) => Ok(Kind::File),
            Err(error) if error.kind() == ErrorKind::NotFound => match self.new_ones_are_folders {
                true => Ok(Kind::Folder { is_new: true }),
                false => Ok(Kind::File),
            },
            Err(error) => Err(Trouble::System("cannot examine the mailbox", error)),
        }
    }

    /// Acts as the user whose mailbox it is, if we are root, so that all that is made is the user's
    /// and nothing is touched that is not.
    ///
    /// The traditional folder of mailboxes is for its group to write to; while we work in it, we are
    /// in that group. Not so inside a mailbox, where the user could have prepared anything.
    fn act_as(&self, owner: &Owner, place: Place) -> Result<Option<Impersonation>, Trouble> {
        let Some(account) = owner.account.as_ref().filter(|account| account.uid != 0) else {
            return Ok(None);
        };
        if !sys::users::is_root() {
            return Ok(None);
        }
        let folder = fs::metadata(&self.folder)
            .map_err(Trouble::with("cannot examine the folder of mailboxes"))?;
        let for_group_only = folder.mode() & 0o022 == 0o020;
        let group = match place {
            Place::Folder if for_group_only => folder.gid(),
            _ => account.gid,
        };
        let acting = Impersonation::begin(account, group);
        acting.map(Some).map_err(Trouble::with("cannot act as the user"))
    }
}

/// What a mailbox is, or will be.
enum Kind {
    File,
    Folder { is_new: bool },
}

/// Where we need rights.
#[derive(Clone, Copy)]
enum Place {
    /// In the folder of mailboxes.
    Folder,
    /// Inside a mailbox.
    Mailbox,
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
