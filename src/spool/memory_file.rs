//! A control file in memory. An open one remains accessible when it is moved.

use std::cell::{Ref, RefCell};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// A file that supports reads and writes by position, and appends.
#[derive(Debug)]
pub struct MemoryFile {
    serial: u64,
    text: RefCell<Vec<u8>>,
}

impl MemoryFile {
    /// Creates a file with this text. The serial number must be unique.
    pub fn new(serial: u64, text: Vec<u8>) -> MemoryFile {
        MemoryFile { serial, text: RefCell::new(text) }
    }

    /// Identifies this file permanently; names in the spool are reused.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The text.
    pub fn text(&self) -> Ref<'_, Vec<u8>> {
        self.text.borrow()
    }

    /// Appends to the text.
    pub fn append(&self, bytes: &[u8]) {
        self.text.borrow_mut().extend_from_slice(bytes);
    }
}

impl FileExt for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let text = self.text.borrow();
        let from = usize::try_from(position).map_or(text.len(), |from| from.min(text.len()));
        let count = buffer.len().min(text.len() - from);
        buffer[..count].copy_from_slice(&text[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let mut text = self.text.borrow_mut();
        let from = usize::try_from(position).map_err(|_| ErrorKind::FileTooLarge)?;
        let end = from + bytes.len();
        if end > text.len() {
            text.resize(end, 0);
        }
        text[from..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}
