//! Messages to the service manager, systemd for example: sd_notify(3).

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a message such as `READY=1` to the service manager, without waiting.
///
/// Without `NOTIFY_SOCKET` in the environment there is no service manager, and nothing is sent.
pub fn notify_service_manager(message: &str) -> io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    // A name that begins with @ is in the abstract name space.
    let address = match path.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(format!("{message}\n").as_bytes(), &address).map(drop)
}
