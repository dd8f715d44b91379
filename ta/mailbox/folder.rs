//! The folder of all mailboxes, and the rights to use them.
//!
//! If the agent runs as root, it acts as the user who owns the mailbox. So all new files belong to
//! the user, and no other user's files are touched. Two kinds of folders need more:
//!
//! - The traditional one is writable by its group. While the agent works in the folder, it is in
//!   that group. It is not inside a mailbox, where the user could have prepared anything.
//! - In one that only root can write to, locks and new mailboxes are made as root. No other user
//!   can have prepared anything there.

use crate::mailbox_error::MailboxError;
use crate::owner::Owner;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;
use zsched_sys::{self as sys, Account, Impersonation};

/// The folder of mailboxes.
pub struct Folder {
    /// For syncing the folder. `None` if the agent may not read it.
    handle: Option<File>,
    metadata: Metadata,
}

impl Folder {
    /// Opens the folder with the agent's own rights.
    ///
    /// Users need not be able to read it.
    pub fn open(path: &Path) -> io::Result<Folder> {
        match File::open(path) {
            Ok(handle) => Ok(Folder { metadata: handle.metadata()?, handle: Some(handle) }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Ok(Folder { handle: None, metadata: fs::metadata(path)? })
            }
            Err(error) => Err(error),
        }
    }

    /// Begins to act as `owner` where locks and mailboxes are made. `None` means with its own
    /// rights.
    pub fn act_in_folder(&self, owner: &Owner) -> Result<Option<Impersonation>, MailboxError> {
        let Some(account) = actor(owner).filter(|_| !self.is_for_root_only()) else {
            return Ok(None);
        };
        let is_for_its_group = self.metadata.mode() & 0o022 == 0o020;
        let group = if is_for_its_group { self.metadata.gid() } else { account.gid };
        begin(account, group).map(Some)
    }

    /// Begins to act as `owner` inside the mailbox.
    pub fn act_in_mailbox(&self, owner: &Owner) -> Result<Option<Impersonation>, MailboxError> {
        actor(owner).map(|account| begin(account, account.gid)).transpose()
    }

    /// Gives a new mailbox to its owner, and syncs the folder.
    ///
    /// A folder that the agent may not read cannot be synced. Mail is delivered anyway, since most
    /// file systems write the name of a new file when the file is synced.
    pub fn give_and_sync(&self, mailbox: &Path, owner: &Owner) -> Result<(), MailboxError> {
        if let Some(account) = actor(owner).filter(|_| self.is_for_root_only()) {
            let given = lchown(mailbox, Some(account.uid), Some(account.gid));
            given.map_err(|error| match remove(mailbox) {
                Ok(()) => MailboxError::System("cannot give the mailbox to its user", error),
                Err(_) => MailboxError::System(
                    "cannot give the mailbox to its user or remove it again",
                    error,
                ),
            })?;
        }
        let synced = self.handle.as_ref().map_or(Ok(()), File::sync_all);
        synced.map_err(MailboxError::with("cannot sync the folder of mailboxes"))
    }

    fn is_for_root_only(&self) -> bool {
        self.metadata.uid() == 0 && self.metadata.mode() & 0o022 == 0
    }
}

/// The account to act as, if the agent is root and the owner is not.
fn actor(owner: &Owner) -> Option<&Account> {
    let account = owner.account.as_ref().filter(|account| account.uid != 0);
    account.filter(|_| sys::users::is_root())
}

fn begin(account: &Account, group: u32) -> Result<Impersonation, MailboxError> {
    Impersonation::begin(account, group).map_err(MailboxError::with("cannot act as the user"))
}

fn remove(mailbox: &Path) -> io::Result<()> {
    fs::remove_file(mailbox).or_else(|_| fs::remove_dir(mailbox))
}
