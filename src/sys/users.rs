//! Users and groups of the system, and who this process runs as.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Size of the buffer for an entry of a database, in bytes: at first, and at most.
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

/// Finds the account of this name. `Ok(None)` means that the last source of the name service knows no
/// such user; the others may have been unable to answer. An error means that the question is open.
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

/// The id of the account of this name, as [`find_account`] finds it.
pub fn user_id(name: &str) -> io::Result<Option<u32>> {
    Ok(find_account(name)?.map(|account| account.uid))
}

/// The id of the group of this name. `Ok(None)` and errors are as for [`find_account`].
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

/// Looks a name up with larger and larger buffers while it fails for the lack of room. `look_up`
/// gives an error number, 0 for "no such entry".
fn find<T>(
    name: &str,
    look_up: impl Fn(&CStr, &mut [u8]) -> Result<T, libc::c_int>,
) -> io::Result<Option<T>> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    let mut buffer = vec![0; *BUFFER.start()];
    loop {
        match look_up(&name, &mut buffer) {
            Ok(entry) => return Ok(Some(entry)),
            Err(libc::ERANGE) if buffer.len() < *BUFFER.end() => {
                buffer.resize(buffer.len() * 2, 0);
            }
            // ENOENT and ESRCH are no such answer here: glibc hands on the error of a source that is away.
            Err(0) => return Ok(None),
            Err(error) => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// The user who started this process.
pub fn real_user() -> u32 {
    // SAFETY: the call only returns a number and cannot fail.
    unsafe { libc::getuid() }
}

/// The user this process acts as.
pub fn effective_user() -> u32 {
    // SAFETY: the call only returns a number and cannot fail.
    unsafe { libc::geteuid() }
}

/// The group this process acts as.
pub fn effective_group() -> u32 {
    // SAFETY: the call only returns a number and cannot fail.
    unsafe { libc::getegid() }
}

/// Whether this process may become any user.
pub fn is_root() -> bool {
    effective_user() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_everywhere() {
        let root = find_account("root").expect("the database answers").expect("root");
        assert_eq!((root.name.as_str(), root.uid, root.gid), ("root", 0, 0));
        assert_eq!(user_id("root").expect("an answer"), Some(0));
        assert_eq!(group_id("root").expect("an answer"), Some(0));
    }

    #[test]
    fn others_are_not() {
        for name in ["", "no-such-account-here", "ro\0ot", "0"] {
            assert_eq!(user_id(name).expect("an answer"), None, "{name:?}");
            assert_eq!(group_id(name).expect("an answer"), None, "{name:?}");
        }
    }

    #[test]
    fn a_small_buffer_grows() {
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
    fn the_process_is_somebody() {
        assert_eq!(is_root(), effective_user() == 0);
        assert_eq!(effective_group(), effective_group());
    }
}
