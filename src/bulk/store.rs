//! Files that are read and changed by position.
//!
//! In the spool they are files; in the simulated world they are in memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// The file of recipients or destinations of a job.
pub trait Store {
    /// Reads at a position. Returns 0 at the end.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Replaces bytes at a position.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;

    /// Returns when all changes are on disk.
    fn sync(&self) -> io::Result<()>;
}

impl Store for File {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.write_all_at(bytes, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Reads a store from a position to an end.
pub(super) struct StoreReader<'s, S> {
    store: &'s S,
    position: u64,
    end: u64,
}

impl<'s, S: Store> StoreReader<'s, S> {
    pub(super) fn new(store: &'s S, position: u64, end: u64) -> StoreReader<'s, S> {
        StoreReader { store, position, end }
    }
}

impl<S: Store> Read for StoreReader<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let count = self.store.read_at(&mut buffer[..most], self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}
