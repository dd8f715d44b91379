//! Whether names and descriptors lead to the same file.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device and inode number of a file: those of two files that exist at the same time differ.
pub fn file_identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether a name leads to the file that is open.
pub fn leads_to(path: &Path, open: &File) -> io::Result<bool> {
    Ok(file_identity(&fs::metadata(path)?) == file_identity(&open.metadata()?))
}
