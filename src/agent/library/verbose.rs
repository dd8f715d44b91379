//! The verbose file: where a user who asked for it (`v` line) can watch the delivery.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Appends one line. An agent may run as root and the user chose the path, so the file must be there
/// already, be an ordinary file of one name, and belong to `owner`, the user that the control file
/// belongs to.
pub(super) fn append(path: &Path, owner: u32, line: &str) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut file = OpenOptions::new().append(true).custom_flags(flags).open(path)?;
    if !is_harmless(&file, owner)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    file.write_all(line.as_bytes())
}

fn is_harmless(file: &File, owner: u32) -> io::Result<bool> {
    let metadata = file.metadata()?;
    Ok(metadata.is_file() && metadata.nlink() == 1 && metadata.uid() == owner)
}
