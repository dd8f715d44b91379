//! The worker that takes messages of `enqueue` from the drop folder into the queue.
//!
//! A datagram on the poke socket wakes it. The socket has mode 0220: its group may send and nothing
//! more. systemd may have opened it, to start the scheduler for the first datagram. The event loop
//! learns of the messages by the notify socket, as of those of a router. The worker decides nothing
//! and keeps nothing: what it has not done when the process ends is done after the next start.

use crate::start::recovery::InterruptedSubmissions;
use crate::timeouts::Timeouts;
use zsched_service::worker;

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use zsched_spool::drop_folder::DropFolder;
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, Spool, SpoolName};
use zsched_sys as sys;

/// Mode of the poke socket: its group may send.
const POKE_SOCKET_MODE: u32 = 0o220;

/// What the worker needs.
pub(crate) struct DropWorker {
    submitter: Submitter,
    /// The socket of the event loop for new control files.
    notify: PathBuf,
}

impl DropWorker {
    pub(crate) fn new(spool: &Spool, level: HashLevel, notify: &Path) -> DropWorker {
        let submitter = Submitter { spool: spool.clone(), level, sync: true };
        DropWorker { submitter, notify: notify.to_path_buf() }
    }

    /// Starts the worker. A spool without a drop folder has none.
    pub(crate) fn start(
        self,
        timeouts: Timeouts,
        interrupted: Arc<InterruptedSubmissions>,
    ) -> io::Result<()> {
        let folder = self.submitter.spool.drop_folder();
        if !folder.is_dir() {
            return Ok(());
        }
        let socket = match sys::take_passed_datagram_socket() {
            Some(socket) => Some(socket),
            None => match open_socket(&self.submitter.spool.poke_socket(), &folder) {
                Ok(socket) => Some(socket),
                Err(error) => {
                    let path = self.submitter.spool.poke_socket();
                    log::error!("{}: the poke socket cannot be opened: {error}", path.display());
                    None
                }
            },
        };
        let interval = timeouts.drop_scan;
        let run = move || {
            // A message that is already in the queue must not be taken again.
            interrupted.complete(&self.submitter.spool);
            self.run(socket.as_ref(), interval);
        };
        worker::start("drop folder", run).map(drop)
    }

    fn run(self, socket: Option<&UnixDatagram>, interval: Duration) {
        let mut drop_folder = DropFolder::new(self.submitter.clone());
        let mut has_failed = false;
        loop {
            match drop_folder.take() {
                Ok(taken) => {
                    has_failed = false;
                    for (is_error, line) in &taken.log {
                        let level = if *is_error { log::Level::Error } else { log::Level::Info };
                        log::log!(level, "{line}");
                    }
                    taken.queued.iter().for_each(|name| self.announce(name));
                    if taken.has_more {
                        continue;
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        log::error!("drop/ cannot be listed, messages of enqueue wait: {error}");
                    }
                }
            }
            wait_for_poke(socket, interval);
        }
    }

    /// Sends a notice of a message to the event loop. Without it, a scan finds the message.
    fn announce(&self, name: &SpoolName) {
        if let Err(error) = self.submitter.notify(&self.notify, std::slice::from_ref(name)) {
            log::warn!("{name}: its notice could not be sent, a scan will find it: {error}");
        }
    }
}

/// Waits for a poke, and takes all that have come.
fn wait_for_poke(socket: Option<&UnixDatagram>, interval: Duration) {
    let Some(socket) = socket else { return thread::sleep(interval) };
    match sys::is_readable_within(socket, interval) {
        Ok(false) => {}
        Ok(true) => {
            let mut buffer = [0; 16];
            let drained =
                socket.set_nonblocking(true).map(|()| while socket.recv(&mut buffer).is_ok() {});
            if drained.is_err() {
                thread::sleep(interval);
            }
        }
        Err(_) => thread::sleep(interval),
    }
}

fn open_socket(path: &Path, folder: &Path) -> io::Result<UnixDatagram> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = UnixDatagram::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(POKE_SOCKET_MODE))?;
    let group = fs::metadata(folder)?.gid();
    if path.symlink_metadata()?.gid() != group {
        chown(path, None, Some(group))?;
    }
    Ok(socket)
}
