//! Users and groups of the system, and the identity of this process.

use super::succeeded;
use rustix::process::{getegid, geteuid, getgid, getuid};
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
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
    /// Comment, which begins with the user's full name (GECOS). Bytes that are not UTF-8 are lost.
    pub comment: String,
    /// Home folder.
    pub home: PathBuf,
}

/// Finds the account of a name.
///
/// `Ok(None)` means that the last source of the name service has no such user; earlier sources may
/// have been unable to answer. An error means that the result is unknown.
pub fn find_account(name: &str) -> io::Result<Option<Account>> {
    // SAFETY: `find` passes valid pointers, and the length of the buffer.
    find(name, account, |name, entry, buffer, length, found| unsafe {
        libc::getpwnam_r(name, entry, buffer, length, found)
    })
}

/// Finds the account of a user id; results are as for [`find_account`].
pub fn account_of(uid: u32) -> io::Result<Option<Account>> {
    // SAFETY: `find` passes valid pointers, and the length of the buffer.
    find("", account, |_, entry, buffer, length, found| unsafe {
        libc::getpwuid_r(uid, entry, buffer, length, found)
    })
}

fn account(entry: &libc::passwd) -> Account {
    let bytes = |text: *const c_char| match text.is_null() {
        true => &[][..],
        // SAFETY: the entry points to strings within the buffer, which still lives.
        false => unsafe { CStr::from_ptr(text) }.to_bytes(),
    };
    let text = |text| String::from_utf8_lossy(bytes(text)).into_owned();
    Account {
        name: text(entry.pw_name),
        uid: entry.pw_uid,
        gid: entry.pw_gid,
        comment: text(entry.pw_gecos),
        home: OsStr::from_bytes(bytes(entry.pw_dir)).into(),
    }
}

/// User id of a name, found as by [`find_account`].
pub fn user_id(name: &str) -> io::Result<Option<u32>> {
    Ok(find_account(name)?.map(|account| account.uid))
}

/// Group id of a name. `Ok(None)` and errors are as for [`find_account`].
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    let id = |entry: &libc::group| entry.gr_gid;
    // SAFETY: `find` passes valid pointers, and the length of the buffer.
    find(name, id, |name, entry, buffer, length, found| unsafe {
        libc::getgrnam_r(name, entry, buffer, length, found)
    })
}

/// Looks a name up with growing buffers while it fails for lack of room.
///
/// `look_up` is `getpwnam_r(3)` or a function like it. It returns an error number, or 0 with a null
/// pointer for "no such entry".
fn find<E, T>(
    name: &str,
    convert: impl Fn(&E) -> T,
    look_up: impl Fn(*const c_char, *mut E, *mut c_char, usize, *mut *mut E) -> c_int,
) -> io::Result<Option<T>> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    let mut buffer: Vec<c_char> = vec![0; *BUFFER_SIZES.start()];
    loop {
        let mut entry = MaybeUninit::uninit();
        let mut found = ptr::null_mut();
        let (room, length) = (buffer.as_mut_ptr(), buffer.len());
        match look_up(name.as_ptr(), entry.as_mut_ptr(), room, length, &raw mut found) {
            // ENOENT and ESRCH do not mean "no such entry": glibc returns the error of a source
            // that failed.
            0 if found.is_null() => return Ok(None),
            // SAFETY: a result that is not null means that the entry has been filled in.
            0 => return Ok(Some(convert(unsafe { entry.assume_init_ref() }))),
            libc::ERANGE if length < *BUFFER_SIZES.end() => buffer.resize(length * 2, 0),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Real user id of this process.
pub fn real_user() -> u32 {
    getuid().as_raw()
}

/// Effective user id of this process.
pub fn effective_user() -> u32 {
    geteuid().as_raw()
}

/// Name of the user that this process runs as. For a user without an account it is the id.
pub fn effective_user_name() -> String {
    let user = effective_user();
    let account = account_of(user).ok().flatten();
    account.map_or_else(|| user.to_string(), |account| account.name)
}

/// Effective group id of this process.
pub fn effective_group() -> u32 {
    getegid().as_raw()
}

/// Gives up the rights that a set-user-id or set-group-id program has passed on to this one.
pub fn become_real_user() -> io::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    // SAFETY: takes numbers only.
    succeeded(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: takes numbers only.
    succeeded(unsafe { libc::setresuid(uid, uid, uid) })
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
        assert_eq!(account_of(0).expect("an answer"), Some(root));
        assert_eq!(account_of(4_000_000_000).expect("an answer"), None);
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
        let size = |entry: &usize| *entry;
        let entry = find("x", size, |_, entry: *mut usize, _, length, found| {
            sizes.borrow_mut().push(length);
            if length < 5000 {
                return libc::ERANGE;
            }
            // SAFETY: both pointers are valid for the call.
            unsafe { (*entry, *found) = (length, entry) };
            0
        });
        assert_eq!(entry.expect("it grows"), Some(8192));
        assert_eq!(*sizes.borrow(), [1024, 2048, 4096, 8192]);
        let error = find("x", size, |_, _, _, _, _| libc::ERANGE).expect_err("it ends");
        assert_eq!(error.raw_os_error(), Some(libc::ERANGE));
    }

    #[test]
    fn process_identity_is_consistent() {
        assert_eq!(is_root(), effective_user() == 0);
        assert_eq!(effective_group(), effective_group());
    }
}
