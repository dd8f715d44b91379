//! Comparing the identities of files.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device and inode number. They differ for two files that exist at the same time.
pub fn device_and_inode(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Returns true if the path names the open file.
pub fn is_same_file(path: &Path, open: &File) -> io::Result<bool> {
    Ok(device_and_inode(&fs::metadata(path)?) == device_and_inode(&open.metadata()?))
}
