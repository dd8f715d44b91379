//! The message file, which contains the body of a message.

use crate::SpoolId;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// An open message file.
///
/// The headers for a recipient are in the control file
/// ([`Delivery::headers`](crate::Delivery::headers)). The message file contains the body that
/// follows them ([`Delivery::body`](crate::Delivery::body)).
#[derive(Debug)]
pub struct Message {
    file: File,
    body_offset: u64,
    spool_id: SpoolId,
    owner: (u32, u32),
}

impl Message {
    /// Opens the message file of the message with this number.
    ///
    /// If it does not exist, or is not a regular file, the error is [`ErrorKind::NotFound`]: it
    /// will not come back. After any other error it may be usable later.
    pub(crate) fn open(path: &Path, number: u64, body_offset: Option<u64>) -> io::Result<Message> {
        let opened = sys::open_nofollow(File::options().read(true), path);
        let file = opened.map_err(|error| match error.raw_os_error() {
            // ELOOP: a symbolic link. ENXIO: a socket.
            Some(libc::ENOTDIR | libc::ELOOP | libc::ENXIO) => ErrorKind::NotFound.into(),
            _ => error,
        })?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(ErrorKind::NotFound.into());
        }
        let damaged = |text| io::Error::new(ErrorKind::InvalidData, text);
        let body_offset = body_offset.ok_or_else(|| damaged("the control file has no o line"))?;
        if body_offset > metadata.len() {
            return Err(damaged("the message file ends before the body begins"));
        }
        let spool_id = SpoolId { number, modified: Timestamp::modified(&metadata) };
        Ok(Message { file, body_offset, spool_id, owner: (metadata.uid(), metadata.gid()) })
    }

    /// A reader of the body without the fields of a recipient.
    pub(crate) fn body(&self) -> impl Read + '_ {
        Body { file: &self.file, position: self.body_offset }
    }

    /// The id of the message in logs, such as `S4711AbmABDEF`.
    ///
    /// Source: ZMailer `taspoolid()`.
    pub fn spool_id(&self) -> SpoolId {
        self.spool_id
    }

    /// The user id and group id of the message file.
    ///
    /// By custom they are those of the submitter.
    pub fn owner(&self) -> (u32, u32) {
        self.owner
    }
}

/// Reads by position, so that the copy of each recipient starts at the body.
struct Body<'a> {
    file: &'a File,
    position: u64,
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}
