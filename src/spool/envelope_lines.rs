//! Finds the envelope lines of recipients in a control file that is read in parts.
//!
//! An `s` line is about the recipients between it and the next `s` line, and so is an `e` line. A
//! mailing list has an `s` line of its own, perhaps millions of lines before a recipient.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Number of bytes that are read at a time.
const READ_SIZE: usize = 256 * 1024;

/// The last `s` line before a recipient, and the last `e` line after that.
///
/// Lines before the first recipient of the file are left out: [`super::chunk`] adds them to each
/// part.
pub(crate) type EnvelopeLines = Rc<[u8]>;

/// Returns the envelope lines of the recipients at `offsets`, which must ascend.
///
/// Reads all lines up to the last of them, but keeps one. The loader has refused lines of more than
/// 16 MiB.
pub(crate) fn at_offsets(file: &impl FileExt, offsets: &[u32]) -> io::Result<Vec<EnvelopeLines>> {
    let mut reader = BufReader::with_capacity(READ_SIZE, FileReader { file, position: 0 });
    let mut scan = Scan::default();
    let (mut line, mut start) = (Vec::new(), 0);
    let mut found = Vec::with_capacity(offsets.len());
    for offset in offsets {
        while start < u64::from(*offset) {
            line.clear();
            match reader.read_until(b'\n', &mut line)? {
                0 => break,
                length => start += length as u64,
            }
            scan.add(&line);
        }
        found.push(scan.current.clone());
    }
    Ok(found)
}

#[derive(Default)]
struct Scan {
    current: EnvelopeLines,
    sender_len: usize,
    has_recipient: bool,
    is_in_headers: bool,
}

impl Scan {
    fn add(&mut self, line: &[u8]) {
        if self.is_in_headers {
            self.is_in_headers = line != b"\n";
            return;
        }
        match line {
            [b'm' | b'M', b'\n'] => self.is_in_headers = true,
            [b'r', ..] => self.has_recipient = true,
            [b's', ..] if self.has_recipient => {
                self.current = line.into();
                self.sender_len = line.len();
            }
            [b'e', ..] if self.has_recipient => {
                self.current = [&self.current[..self.sender_len], line].concat().into();
            }
            _ => {}
        }
    }
}

/// Reads a file from a position on.
struct FileReader<'f, F> {
    file: &'f F,
    position: u64,
}

impl<F: FileExt> Read for FileReader<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_file::MemoryFile;

    #[test]
    fn lines_of_headers_and_of_other_senders_are_left_out() {
        const TEXT: &str = "i 1\ns l - a 0\ne x\nr1\nm\nr\ns no\n\nr2\ns l - b 0\nr3\ne y\ne z\n\
                            r4\ns l - c 0\nr5\n";
        let file = MemoryFile::new(1, TEXT.as_bytes().to_vec());
        let offset = |line| TEXT.find(line).expect("it is there") as u32;
        let offsets = ["r1", "r2", "r3", "r3", "r4", "r5"].map(offset);
        let found = at_offsets(&file, &[&offsets[..], &[9999]].concat()).expect("read");
        let found: Vec<_> = found.iter().map(|lines| String::from_utf8_lossy(lines)).collect();
        let (b, c) = ("s l - b 0\n", "s l - c 0\n");
        assert_eq!(found, ["", "", b, b, "s l - b 0\ne z\n", c, c]);
    }
}
