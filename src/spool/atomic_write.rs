//! Replaces files as a whole.
//!
//! A reader gets either the old or the new file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use zsched_sys::with_suffix;

/// Replaces a file: writes a new one, syncs and renames it.
///
/// Only its owner may read it.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let new = with_suffix(path, ".new");
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let mut out = BufWriter::new(file);
    let written =
        write(&mut out).and_then(|()| out.into_inner().map_err(|error| error.into_error()));
    let renamed = written.and_then(|file| file.sync_all()).and_then(|()| fs::rename(&new, path));
    if let Err(error) = renamed {
        fs::remove_file(&new)?;
        return Err(error);
    }
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Write};

    #[test]
    fn failed_write_leaves_old_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".scheduler.learned");
        write_atomically(&path, |out| out.write_all(b"old")).expect("written");
        let failed = write_atomically(&path, |_| Err(ErrorKind::StorageFull.into()));
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).expect("it is there"), b"old");
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }
}
