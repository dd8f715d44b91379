//! Working with somebody else's rights: look up an account, act as it for a while, be root again.

use super::succeeded;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Size of the buffer for an entry of the user database, in bytes: at first, and at most.
const BUFFER: std::ops::RangeInclusive<usize> = 1024..=1 << 20;

/// What deliveries need to know of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Login name, as the database has it.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Id of the login group.
    pub gid: u32,
}

/// Finds the account of this name. `Ok(None)` means that the database answered and knows no such
/// user; an error, that it could not be asked, so that the question is still open.
pub fn find_account(name: &str) -> io::Result<Option<Account>> {
    let Ok(c_name) = CString::new(name) else {
        return Ok(None);
    };
    let mut buffer = vec![0u8; *BUFFER.start()];
    loop {
        match look_up(&c_name, &mut buffer) {
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
                if buffer.len() >= *BUFFER.end() {
                    return Err(error);
                }
                buffer.resize(buffer.len() * 2, 0);
            }
            // What C libraries answer for "no such user" where they set an error at all.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {
                return Ok(None);
            }
            other => return other,
        }
    }
}

fn look_up(name: &CStr, buffer: &mut [u8]) -> io::Result<Option<Account>> {
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = ptr::null_mut();
    // SAFETY: name, entry and result are valid for the call; the length is that of the buffer.
    let error = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            &raw mut found,
        )
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    if found.is_null() {
        return Ok(None);
    }
    // SAFETY: a result that is not null means that the entry has been filled in.
    let entry = unsafe { entry.assume_init() };
    // SAFETY: the entry points to a string within the buffer, which still lives.
    let name = unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned();
    Ok(Some(Account { name, uid: entry.pw_uid, gid: entry.pw_gid }))
}

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
    fn root_is_known_and_nonsense_is_not() {
        let root = find_account("root").expect("the database answers").expect("root exists");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(find_account("no-such-user-at-all").expect("an answer"), None);
        assert_eq!(find_account("nul\0byte").expect("an answer"), None);
    }

    #[test]
    fn only_root_acts_as_others() {
        // SAFETY: the call only returns a number and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            // Switching would show in all other tests of this process; `tests/agents` does it.
            return;
        }
        let root = find_account("root").expect("an answer").expect("root exists");
        let refused = Impersonation::begin(&root, 0).expect_err("we are not root");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_host_has_a_name() {
        assert!(!host_name().expect("a name").is_empty());
    }
}
