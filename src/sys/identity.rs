//! Working with somebody else's rights: act as a user for a while, then be root again.

use super::succeeded;
use super::users::Account;
use std::ffi::CString;
use std::io;
use std::ptr;

/// While this value lives, the process acts as another user: effective user and group, and the
/// user's supplementary groups. The real user stays root, so the user can neither signal nor trace
/// the process. Only a process that runs as root can do this.
#[derive(Debug)]
pub struct Impersonation {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

impl Impersonation {
    /// Begins to act as `account`, with `group` as the effective group: the account's own, or that
    /// of a folder which only its group may write to.
    pub fn begin(account: &Account, group: u32) -> io::Result<Impersonation> {
        let name = CString::new(account.name.as_str())?;
        let former = Impersonation::current()?;
        // From here on, dropping the value undoes whatever has been done.
        // SAFETY: the name is a C string that outlives the call.
        succeeded(unsafe { libc::initgroups(name.as_ptr(), account.gid) })?;
        // SAFETY: takes a number only.
        succeeded(unsafe { libc::setegid(group) })?;
        // SAFETY: takes a number only.
        succeeded(unsafe { libc::seteuid(account.uid) })?;
        Ok(former)
    }

    /// The way back, for a process that may go it.
    fn current() -> io::Result<Impersonation> {
        // SAFETY: asks for the number of groups only; no memory is written to.
        let count = unsafe { libc::getgroups(0, ptr::null_mut()) };
        let capacity = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let mut groups = vec![0; capacity];
        // SAFETY: the list has room for `count` groups.
        let count = unsafe { libc::getgroups(count, groups.as_mut_ptr()) };
        groups.truncate(usize::try_from(count).map_err(|_| io::Error::last_os_error())?);
        // SAFETY: both calls only return a number and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
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
        // To go on with the rights of one user where another's are meant would be worse than to die.
        if self.end().is_err() {
            std::process::abort();
        }
    }
}

/// The name of this host, as the kernel has it.
pub fn host_name() -> io::Result<String> {
    let mut buffer = [0u8; 256];
    // SAFETY: the length is that of the buffer, less one: so there is an end even where the name is
    // cut short.
    succeeded(unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) })?;
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    Ok(String::from_utf8_lossy(&buffer[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_acts_as_others() {
        // SAFETY: the call only returns a number and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            // Switching would show in all other tests of this process; `tests/agents` does it.
            return;
        }
        let root = crate::find_account("root").expect("an answer").expect("root exists");
        let refused = Impersonation::begin(&root, 0).expect_err("we are not root");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_host_has_a_name() {
        assert!(!host_name().expect("a name").is_empty());
    }
}
