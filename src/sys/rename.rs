//! Renaming without replacing.

use super::succeeded;
use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Renames a file unless the new name exists.
///
/// If it exists, the error is [`ErrorKind::AlreadyExists`] and nothing has changed. The error is
/// [`ErrorKind::Unsupported`] where the file system lacks the operation.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let from = CString::new(from.as_os_str().as_bytes())?;
    let to = CString::new(to.as_os_str().as_bytes())?;
    // SAFETY: both names are C strings that outlive the call.
    let result = unsafe {
        libc::renameat2(
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    succeeded(result).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL | libc::ENOSYS) => ErrorKind::Unsupported.into(),
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn rename_new_to_existing_file_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let content = |name: &str| fs::read_to_string(at(name)).ok();
        for name in ["a", "b"] {
            fs::write(at(name), name).expect("written");
        }
        let refused = rename_new(&at("a"), &at("b")).expect_err("b is there");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!((content("a").as_deref(), content("b").as_deref()), (Some("a"), Some("b")));
        rename_new(&at("a"), &at("c")).expect("c is free");
        assert_eq!((content("a"), content("c").as_deref()), (None, Some("a")));
        let missing = rename_new(&at("a"), &at("d")).expect_err("a is gone");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }
}
