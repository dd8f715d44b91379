//! The file with the counters, for `mailq summary`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use zsched_service::log_file::LOG_MODE;
use zsched_service::with_path;
use zsched_sys as sys;

/// The file, which stays open: the process may not be able to open it again.
pub(super) struct TrafficFile(Mutex<Option<File>>);

impl TrafficFile {
    /// Opens or creates the file.
    pub(super) fn open(path: &Path) -> io::Result<TrafficFile> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(LOG_MODE);
        let file = sys::open_regular(&mut options, path).map_err(with_path(path))?;
        Ok(TrafficFile(Mutex::new(Some(file))))
    }

    /// Writes the counters. Nothing is written after those of the end.
    ///
    /// Readers of a file that is being written find no JSON, and read it again.
    pub(super) fn write(&self, text: &[u8], is_end: bool) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = &*file else { return };
        let written = open.write_all_at(text, 0).and_then(|()| open.set_len(text.len() as u64));
        if let Err(error) = written {
            log::error!("the counters cannot be written: {error}");
        }
        if is_end {
            *file = None;
        }
    }
}
