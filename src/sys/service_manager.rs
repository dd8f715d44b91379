//! The service manager, systemd for example: messages to it, sd_notify(3), and sockets that it has
//! opened, sd_listen_fds(3).

use rustix::net::SocketType;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};

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

/// First descriptor that a service manager passes.
const FIRST_PASSED: RawFd = 3;
/// Maximum number of descriptors that a service manager passes.
const MAX_PASSED: RawFd = 16;

/// Takes the datagram socket that the service manager has opened for this process, if any.
///
/// Its first socket is returned. Another call returns `None`.
pub fn take_passed_datagram_socket() -> Option<UnixDatagram> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let count = number("LISTEN_FDS").filter(|_| number("LISTEN_PID") == Some(std::process::id()));
    let is_usable = (1..=MAX_PASSED as u32).contains(&count.unwrap_or(0));
    if !is_usable || IS_TAKEN.swap(true, Ordering::SeqCst) {
        return None;
    }
    // SAFETY: the variables are for this process, so the descriptor is open, and as they are used
    // once, nothing else owns it.
    let passed = unsafe { OwnedFd::from_raw_fd(FIRST_PASSED) };
    let socket = UnixDatagram::from(passed);
    // Something else, such as a stream socket, has no use here.
    rustix::net::sockopt::socket_type(&socket).ok().filter(|kind| *kind == SocketType::DGRAM)?;
    Some(socket)
}
