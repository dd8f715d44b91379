//! The two folders of messages, open for work on many messages.

use crate::{Spool, SpoolName};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};
use zsched_sys::Folder;

/// Time after which the folders are opened again.
///
/// Another file system may have been mounted there meanwhile.
const MAX_TIME_OPEN: Duration = Duration::from_secs(1);

/// A spool whose folders `transport/` and `queue/` are open.
#[derive(Debug)]
pub struct OpenSpool {
    pub(crate) spool: Spool,
    pub(crate) transport: Folder,
    pub(crate) queue: Folder,
}

impl OpenSpool {
    /// Opens both folders.
    pub fn new(spool: Spool) -> io::Result<OpenSpool> {
        let (transport, queue) = (Folder::open(spool.transport())?, Folder::open(spool.queue())?);
        Ok(OpenSpool { spool, transport, queue })
    }

    /// Opens the control file of a message for reading.
    ///
    /// It follows no link and waits for no pipe.
    pub fn open_control_file(&self, name: &SpoolName) -> io::Result<File> {
        self.transport.open_file(&name.path())
    }
}

/// Keeps the folders of a spool open, for up to a second.
pub struct SpoolOpener {
    spool: Spool,
    opened: Option<(Instant, OpenSpool)>,
}

impl SpoolOpener {
    /// Creates an opener that has nothing open.
    pub fn new(spool: Spool) -> SpoolOpener {
        SpoolOpener { spool, opened: None }
    }

    /// The spool with its folders open.
    pub fn open(&mut self) -> io::Result<&OpenSpool> {
        if self.opened.as_ref().is_none_or(|(since, _)| since.elapsed() > MAX_TIME_OPEN) {
            self.opened = Some((Instant::now(), OpenSpool::new(self.spool.clone())?));
        }
        let (_, open) = self.opened.as_ref().expect("opened above");
        Ok(open)
    }
}

impl Clone for SpoolOpener {
    /// Creates an opener of the same spool that has nothing open.
    fn clone(&self) -> SpoolOpener {
        SpoolOpener::new(self.spool.clone())
    }
}
