//! Users and groups of the system, and the identity of this process.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Buffer size for an entry of a database, in bytes: initial and maximum.
const BUFFER_SIZES: std::ops::RangeInclusive<usize> = 1024..=1 << 20;

/// Account data needed for deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Login name, as in the database.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Id of the login group.
    pub gid: u32,
}

/// Finds the account of a name.
///
/// `Ok(None)` means that the last source of the name service has no such user; earlier sources may
/// have been unable to answer. An error means that the result is unknown.
pub fn find_account(name: &str) -> io::Result<Option<Account>> {
    find(name, |name, buffer| {
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
        if error != 0 || found.is_null() {
            return Err(error);
        }
        // SAFETY: a result that is not null means that the entry has been filled in.
        let entry = unsafe { entry.assume_init() };
        // SAFETY: the entry points to a string within the buffer, which still lives.
        let name = unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned();
        Ok(Account { name, uid: entry.pw_uid, gid: entry.pw_gid })
    })
}

/// User id of a name, found as by [`find_account`].
pub fn user_id(name: &str) -> io::Result<Option<u32>> {
    Ok(find_account(name)?.map(|account| account.uid))
}

/// Group id of a name. `Ok(None)` and errors are as for [`find_account`].
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    find(name, |name, buffer| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: name, entry and result are valid for the call; the length is that of the buffer.
        let error = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        if error != 0 || found.is_null() {
            return Err(error);
        }
        // SAFETY: a result that is not null means that the entry has been filled in.
        Ok(unsafe { entry.assume_init() }.gr_gid)
    })
}

/// Looks a name up with growing buffers while it fails for lack of room.
///
/// `look_up` returns an error number, 0 for "no such entry".
fn find<T>(
    name: &str,
    look_up: impl Fn(&CStr, &mut [u8]) -> Result<T, libc::c_int>,
) -> io::Result<Option<T>> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    let mut buffer = vec![0; *BUFFER_SIZES.start()];
    loop {
        match look_up(&name, &mut buffer) {
            Ok(entry) => return Ok(Some(entry)),
            Err(libc::ERANGE) if buffer.len() < *BUFFER_SIZES.end() => {
                buffer.resize(buffer.len() * 2, 0);
            }
            // ENOENT and ESRCH do not mean "no such entry": glibc returns the error of a source
            // that failed.
            Err(0) => return Ok(None),
            Err(error) => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Real user id of this process.
pub fn real_user() -> u32 {
    // SAFETY: the call only returns a number and cannot fail.
    unsafe { libc::getuid() }
}

/// Effective user id of this process.
pub fn effective_user() -> u32 {
    // SAFETY: the call only returns a number and cannot fail.
    unsafe { libc::geteuid() }
}

/// Effective group id of this process.
pub fn effective_group() -> u32 {
    // SAFETY: the call only returns a number and cannot fail.
    unsafe { libc::getegid() }
}

/// Returns true if this process may become any user.
pub fn is_root() -> bool {
    effective_user() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_account_is_found() {
        let root = find_account("root").expect("the database answers").expect("root");
        assert_eq!((root.name.as_str(), root.uid, root.gid), ("root", 0, 0));
        assert_eq!(user_id("root").expect("an answer"), Some(0));
        assert_eq!(group_id("root").expect("an answer"), Some(0));
    }

    #[test]
    fn unknown_names_are_not_found() {
        for name in ["", "no-such-account-here", "ro\0ot", "0"] {
            assert_eq!(user_id(name).expect("an answer"), None, "{name:?}");
            assert_eq!(group_id(name).expect("an answer"), None, "{name:?}");
        }
    }

    #[test]
    fn lookup_buffer_too_small_grows_up_to_limit() {
        let sizes = std::cell::RefCell::new(Vec::new());
        let entry = find("x", |_, buffer| {
            sizes.borrow_mut().push(buffer.len());
            if buffer.len() < 5000 { Err(libc::ERANGE) } else { Ok(buffer.len()) }
        });
        assert_eq!(entry.expect("it grows"), Some(8192));
        assert_eq!(*sizes.borrow(), [1024, 2048, 4096, 8192]);
        let error = find("x", |_, _| Err::<(), _>(libc::ERANGE)).expect_err("it ends");
        assert_eq!(error.raw_os_error(), Some(libc::ERANGE));
    }

    #[test]
    fn process_identity_is_consistent() {
        assert_eq!(is_root(), effective_user() == 0);
        assert_eq!(effective_group(), effective_group());
    }
}
