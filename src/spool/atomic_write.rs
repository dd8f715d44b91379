//! Replaces files of the spool as a whole.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use zsched_sys::{replace_file, with_suffix};

/// Mode of the files: only their owner may read them.
const MODE: u32 = 0o600;

/// Replaces a file. A reader gets either the old or the new one.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    replace_file(path, &with_suffix(path, ".new"), MODE, write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
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
