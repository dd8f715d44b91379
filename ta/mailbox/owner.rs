//! Determines the owner of the mailbox for a user name.

use crate::address::{is_file_name, is_sensible};
use crate::store::Store;
use std::io;
use zsched_sys::{self as sys, Account, Accounts};

/// The users that have a mailbox.
#[derive(Clone, Debug)]
pub enum Users {
    /// The users of this system; each mailbox belongs to its user.
    SystemUsers(Accounts),
    /// Every name; all mailboxes belong to the user who runs the agent.
    AnyName,
}

/// The name and the owner of a mailbox.
#[derive(Debug)]
pub struct Owner {
    /// Name of the file or folder.
    pub name: String,
    /// The owner's account, if mailboxes belong to users.
    pub account: Option<Account>,
}

/// The reason why a user was not found.
#[derive(Debug)]
pub enum NotFound {
    /// There is no such user.
    NoSuchUser,
    /// The user database could not be read.
    Unknown(io::Error),
}

impl Users {
    /// Finds the owner of the mailbox for `name`, as written or in lower case.
    ///
    /// `store` has the mailboxes.
    pub fn find(&self, name: &str, store: &Store) -> Result<Owner, NotFound> {
        let lower_case = name.to_ascii_lowercase();
        match self {
            Users::AnyName => {
                let found = store.folder_of(name).join(name).symlink_metadata();
                let exists = sys::if_exists(found).map_err(NotFound::Unknown)?.is_some();
                let name = if exists { name.to_string() } else { lower_case };
                // `BOB.LOCK` is a valid name, but `bob.lock` is the lock of another mailbox.
                if !is_sensible(&name) {
                    return Err(NotFound::NoSuchUser);
                }
                Ok(Owner { name, account: None })
            }
            Users::SystemUsers(accounts) => {
                let names = [name, lower_case.as_str()];
                let names = if lower_case == name { &names[..1] } else { &names };
                let found = accounts.find(names).map_err(NotFound::Unknown)?;
                let account = found.filter(|account| is_file_name(&account.name));
                let account = account.ok_or(NotFound::NoSuchUser)?;
                Ok(Owner { name: account.name.clone(), account: Some(account) })
            }
        }
    }
}

impl Owner {
    /// Returns true if a file of user `uid` may be this owner's mailbox.
    pub fn may_own(&self, uid: u32) -> bool {
        uid == sys::users::effective_user() || self.account.as_ref().is_some_and(|a| a.uid == uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock_backoff::LockBackoff;
    use std::time::Duration;

    fn store(folder: std::path::PathBuf) -> Store {
        let max_lock_wait = Duration::ZERO;
        let lock_backoff = LockBackoff::default();
        Store { folder, dir_letters: 0, creates_maildirs: false, max_lock_wait, lock_backoff }
    }

    #[test]
    fn mailbox_that_cannot_be_examined_is_not_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = Users::AnyName.find("Bob", &store(folder.path().into()));
        assert_eq!(found.expect("no mailbox yet").name, "bob");
        std::os::unix::fs::symlink("loop", folder.path().join("loop")).expect("a link");
        let found = Users::AnyName.find("Bob", &store(folder.path().join("loop")));
        assert!(matches!(found, Err(NotFound::Unknown(_))), "{found:?}");
    }
}
