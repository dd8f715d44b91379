//! Messages to the service manager, systemd for example: sd_notify(3).
//!
//! Without `NOTIFY_SOCKET` in the environment there is no service manager, and nothing is sent.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Reports that the scheduler serves: at the start, and after each reload.
pub(crate) fn notify_ready() {
    notify("READY=1\n");
}

/// Reports that the configuration is being read again; [`notify_ready`] reports the end of that.
pub(crate) fn notify_reloading() {
    notify("RELOADING=1\n");
}

/// Reports the present work of the scheduler, in one line.
pub(crate) fn notify_status(status: &str) {
    notify(&format!("STATUS={status}\n"));
}

/// Reports that the scheduler ends now. From here on the service manager limits its time.
pub(crate) fn notify_stopping() {
    notify("STOPPING=1\n");
}

/// A message that cannot be sent is logged: delivery does not depend on it.
fn notify(message: &str) {
    if let Err(error) = send(message) {
        log::warn!("the service manager cannot be notified: {error}");
    }
}

/// Sends a message without waiting.
fn send(message: &str) -> io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    // A name that begins with @ is in the abstract name space.
    let address = match path.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}
