//! Acting as another user for a while, then as root again.

use super::succeeded;
use super::users::{Account, effective_group, effective_user};
use rustix::process::getgroups;
use std::ffi::CString;
use std::io;

/// Guard: while it lives, the process acts as another user.
///
/// It has the user's effective user id, a group, and the supplementary groups. The real user stays
/// root, so that the user can neither signal nor trace the process. Needs root.
#[derive(Debug)]
pub struct Impersonation {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

impl Impersonation {
    /// Starts acting as `account`, with `group` as the effective group.
    ///
    /// That is the account's own group, or that of a folder which only its group may write to.
    pub fn begin(account: &Account, group: u32) -> io::Result<Impersonation> {
        let name = CString::new(account.name.as_str())?;
        let former = Impersonation::current()?;
        // From here on, dropping the value undoes all that was done.
        // SAFETY: the name is a C string that outlives the call.
        succeeded(unsafe { libc::initgroups(name.as_ptr(), account.gid) })?;
        // SAFETY: takes a number only.
        succeeded(unsafe { libc::setegid(group) })?;
        // SAFETY: takes a number only.
        succeeded(unsafe { libc::seteuid(account.uid) })?;
        Ok(former)
    }

    /// Records the present identity to return to. Fails unless the process is root.
    fn current() -> io::Result<Impersonation> {
        let groups = getgroups()?.into_iter().map(|group| group.as_raw()).collect();
        let (uid, gid) = (effective_user(), effective_group());
        if uid != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Impersonation { uid, gid, groups })
    }

    fn end(&self) -> io::Result<()> {
        // SAFETY: takes a number only.
        succeeded(unsafe { libc::seteuid(self.uid) })?;
        // SAFETY: takes a number only.
        succeeded(unsafe { libc::setegid(self.gid) })?;
        // SAFETY: the list and its length belong together.
        succeeded(unsafe { libc::setgroups(self.groups.len() as _, self.groups.as_ptr()) })
    }
}

impl Drop for Impersonation {
    fn drop(&mut self) {
        // Going on with the rights of the wrong user would be worse than to abort.
        if self.end().is_err() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impersonation_without_root_is_refused() {
        // SAFETY: the call only returns a number and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            // Switching would show in all other tests of this process; `tests/agents` does it.
            return;
        }
        let root = crate::find_account("root").expect("an answer").expect("root exists");
        let refused = Impersonation::begin(&root, 0).expect_err("we are not root");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
