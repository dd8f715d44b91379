//! Reads the bytes of a control file.

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};

/// Maximum size of a control file read as a whole, in bytes.
///
/// A million recipients with their `N` lines need about half of it. A limit is needed since a
/// sparse file can have any size.
pub const MAX_CONTROL_FILE_SIZE: u64 = 256 << 20;

/// Maximum size of a file read as a whole for a query.
pub const MAX_QUERY_SIZE: u64 = 8 << 20;

/// Size that most control files do not reach, in bytes.
///
/// Passed to [`read_all`], it saves the system call that asks for the size.
pub const USUAL_CONTROL_FILE_SIZE: u64 = 4 << 10;

/// Reads all of a file that had this `size` a moment ago.
///
/// A file beyond [`MAX_CONTROL_FILE_SIZE`] is not read; the error is then
/// [`ErrorKind::FileTooLarge`].
pub fn read_all(file: &File, size: u64) -> io::Result<Vec<u8>> {
    if size > MAX_CONTROL_FILE_SIZE {
        return Err(ErrorKind::FileTooLarge.into());
    }
    // One byte more than expected: if it remains unused, the end has been reached.
    let mut text = Vec::with_capacity(size as usize + 1);
    read_once(file, &mut text)?;
    if text.len() == text.capacity() {
        file.take(MAX_CONTROL_FILE_SIZE).read_to_end(&mut text)?;
    }
    match text.len() as u64 > MAX_CONTROL_FILE_SIZE {
        true => Err(ErrorKind::FileTooLarge.into()),
        false => Ok(text),
    }
}

/// Reads with one system call, up to the capacity of the empty `text`.
///
/// Before the end of a regular file that reaches the capacity. `Read` would fill the buffer with
/// zeros first, which takes as long as the parser needs for a small file.
fn read_once(file: &File, text: &mut Vec<u8>) -> io::Result<()> {
    retry_on_intr(|| rustix::io::read(file, spare_capacity(text)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    fn file(contents: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(contents).expect("written");
        file.rewind().expect("back to its start");
        file
    }

    #[test]
    fn contents_reads_whole_file_of_wrong_expected_size() {
        for size in [0, 3, 6, 7, 100] {
            assert_eq!(read_all(&file(b"i 4711"), size).expect("read"), b"i 4711", "{size}");
        }
    }

    #[test]
    fn contents_of_too_large_file_is_refused() {
        let sparse = file(b"i 4711\n");
        for size in [MAX_CONTROL_FILE_SIZE + 1, 15 << 40, u64::MAX] {
            let refused = read_all(&sparse, size);
            assert_eq!(refused.expect_err("too large").kind(), ErrorKind::FileTooLarge);
        }
    }

    #[test]
    fn contents_of_file_growing_beyond_limit_is_refused() {
        let growing = file(b"i 4711\n");
        growing.set_len(MAX_CONTROL_FILE_SIZE + 1).expect("a sparse file");
        let refused = read_all(&growing, 7).expect_err("too large");
        assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
    }
}
