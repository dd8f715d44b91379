//! The folder that all mailboxes are in, and whose rights are good for what in it.
//!
//! Where we are root, we act as the user whose mailbox it is, so that all that is made is the user's
//! and nothing is touched that is not. Two kinds of folders need more:
//!
//! - The traditional one is for its group to write to; while we work in it, we are in that group.
//!   Not so inside a mailbox, where the user could have prepared anything.
//! - One that only root may write to: locks and new mailboxes are made as root. Nobody else can have
//!   prepared anything there.

use crate::owner::Owner;
use crate::trouble::Trouble;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;
use zsched_sys::{self as sys, Account, Impersonation};

/// The folder of mailboxes.
pub struct Folder {
    /// To sync it. `None` where we may not read it.
    handle: Option<File>,
    metadata: Metadata,
}

impl Folder {
    /// Opens the folder, with our own rights: users need not be able to read it.
    pub fn open(path: &Path) -> io::Result<Folder> {
        match File::open(path) {
            Ok(handle) => Ok(Folder { metadata: handle.metadata()?, handle: Some(handle) }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Ok(Folder { handle: None, metadata: fs::metadata(path)? })
            }
            Err(error) => Err(error),
        }
    }

    /// Begins to act as `owner` where locks and mailboxes are made. `None` means with our own rights.
    pub fn act_in(&self, owner: &Owner) -> Result<Option<Impersonation>, Trouble> {
        let Some(account) = actor(owner).filter(|_| !self.is_for_root_only()) else {
            return Ok(None);
        };
        let is_for_its_group = self.metadata.mode() & 0o022 == 0o020;
        let group = if is_for_its_group { self.metadata.gid() } else { account.gid };
        begin(account, group).map(Some)
    }

    /// Begins to act as `owner` inside the mailbox.
    pub fn act_inside(&self, owner: &Owner) -> Result<Option<Impersonation>, Trouble> {
        actor(owner).map(|account| begin(account, account.gid)).transpose()
    }

    /// Gives a mailbox that has just been made to its owner, and makes sure that it is still there
    /// after a power failure.
    ///
    /// A folder that we may not read cannot be synced. That is no reason to let mail wait: most file
    /// systems write the name of a new file when the file is synced.
    pub fn settle(&self, mailbox: &Path, owner: &Owner) -> Result<(), Trouble> {
        if let Some(account) = actor(owner).filter(|_| self.is_for_root_only()) {
            let given = lchown(mailbox, Some(account.uid), Some(account.gid));
            given.map_err(|error| match remove(mailbox) {
                Ok(()) => Trouble::System("cannot give the mailbox to its user", error),
                Err(_) => Trouble::System("cannot give the mailbox to its user, nor undo", error),
            })?;
        }
        let synced = self.handle.as_ref().map_or(Ok(()), File::sync_all);
        synced.map_err(Trouble::with("cannot sync the folder of mailboxes"))
    }

    fn is_for_root_only(&self) -> bool {
        self.metadata.uid() == 0 && self.metadata.mode() & 0o022 == 0
    }
}

/// Whom to act as, if we are root and the owner is not.
fn actor(owner: &Owner) -> Option<&Account> {
    let account = owner.account.as_ref().filter(|account| account.uid != 0);
    account.filter(|_| sys::users::is_root())
}

fn begin(account: &Account, group: u32) -> Result<Impersonation, Trouble> {
    Impersonation::begin(account, group).map_err(Trouble::with("cannot act as the user"))
}

fn remove(mailbox: &Path) -> io::Result<()> {
    fs::remove_file(mailbox).or_else(|_| fs::remove_dir(mailbox))
}
