//! Users and groups of the system, and who this process runs as.

use std::ffi::{CStr, CString, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;

/// First size of the buffer for an entry of the user or group database, in bytes.
const SMALL_BUFFER: usize = 1024;
/// An entry that does not fit into this many bytes counts as absent.
const LARGEST_BUFFER: usize = 1 << 20;

/// An account, from the system's user database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The account's name.
    pub name: String,
    /// Its user id.
    pub uid: u32,
    /// The id of its login group.
    pub gid: u32,
    /// Its home folder.
    pub home: PathBuf,
}

/// The account of this name, or `None` if there is none.
pub fn user(name: &str) -> Option<User> {
    let c_name = CString::new(name).ok()?;
    with_growing_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: name, entry and result are valid for the call; the length is that of the buffer.
        let error = unsafe {
            libc::getpwnam_r(
                c_name.as_ptr(),
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
        let home = if entry.pw_dir.is_null() {
            Vec::new()
        } else {
            // SAFETY: the entry points to a string within the buffer, which still lives.
            unsafe { CStr::from_ptr(entry.pw_dir) }.to_bytes().to_vec()
        };
        let home = PathBuf::from(OsString::from_vec(home));
        Ok(User { name: name.to_string(), uid: entry.pw_uid, gid: entry.pw_gid, home })
    })
}

/// The id of the account of this name.
pub fn user_id(name: &str) -> Option<u32> {
    user(name).map(|user| user.uid)
}

/// The id of the group of this name.
pub fn group_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    with_growing_buffer(|buffer| {
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

/// Calls `look_up` with larger and larger buffers while it fails for the lack of room. Any other
/// error number, and zero for "no such entry", give `None`.
fn with_growing_buffer<T>(look_up: impl Fn(&mut [u8]) -> Result<T, libc::c_int>) -> Option<T> {
    let mut buffer = vec![0; SMALL_BUFFER];
    loop {
        match look_up(&mut buffer) {
            Ok(entry) => return Some(entry),
            Err(libc::ERANGE) if buffer.len() < LARGEST_BUFFER => {
                buffer.resize(buffer.len() * 2, 0);
            }
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_everywhere() {
        let root = user("root").expect("every system has a root");
        assert_eq!((root.name.as_str(), root.uid, root.gid), ("root", 0, 0));
        assert!(root.home.is_absolute());
        assert_eq!(user_id("root"), Some(0));
        assert_eq!(group_id("root"), Some(0));
    }

    #[test]
    fn others_are_not() {
        for name in ["", "no-such-account-here", "ro\0ot", "0"] {
            assert_eq!(user_id(name), None, "{name:?}");
            assert_eq!(group_id(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_small_buffer_grows() {
        let sizes = std::cell::RefCell::new(Vec::new());
        let entry = with_growing_buffer(|buffer| {
            sizes.borrow_mut().push(buffer.len());
            if buffer.len() < 5000 { Err(libc::ERANGE) } else { Ok(buffer.len()) }
        });
        assert_eq!(entry, Some(8192));
        assert_eq!(*sizes.borrow(), [1024, 2048, 4096, 8192]);
        assert_eq!(with_growing_buffer(|_| Err::<(), _>(libc::ERANGE)), None);
    }

    #[test]
    fn the_process_is_somebody() {
        assert_eq!(is_root(), effective_user() == 0);
        assert_eq!(effective_group(), effective_group());
    }
}
