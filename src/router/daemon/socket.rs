//! The socket for notices of new submissions.

use super::scan::SubmissionName;
use mio::net::UnixDatagram;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use zsched_service::{bind_socket, with_path};

/// Mode of the socket: all users may submit mail, so all may say that they did.
const MODE: u32 = 0o222;
/// Maximum length of a notice, in bytes.
const MAX_NOTICE_LEN: usize = 1000;
/// Maximum number of notices read at a time.
const MAX_NOTICES: usize = 256;

/// A socket that takes `NEW router [X/]name`.
pub(super) struct NotifySocket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl NotifySocket {
    /// Opens the socket, in place of one that a former router has left.
    pub(super) fn open(path: &Path) -> io::Result<NotifySocket> {
        let socket = bind_socket(path, MODE, |path| UnixDatagram::bind(path));
        let socket = socket.map_err(with_path(path))?;
        Ok(NotifySocket { socket, path: path.into() })
    }

    pub(super) fn source(&mut self) -> &mut UnixDatagram {
        &mut self.socket
    }

    /// Reads notices. The scan finds what else there is.
    pub(super) fn notices(&self) -> Vec<SubmissionName> {
        let mut names = Vec::new();
        let mut buffer = [0; MAX_NOTICE_LEN];
        for _ in 0..MAX_NOTICES {
            let Ok(length) = self.socket.recv(&mut buffer) else { break };
            let path = buffer[..length].trim_ascii().strip_prefix(b"NEW router ");
            names.extend(path.and_then(|path| SubmissionName::from_notice(path.trim_ascii())));
        }
        names
    }

    /// Removes the socket.
    pub(super) fn remove(self) {
        drop(fs::remove_file(&self.path));
    }
}
