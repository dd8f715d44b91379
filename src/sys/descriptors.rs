//! Descriptors: inherited ones, connections and their peers, and blocking writes.

use super::succeeded;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Keeps programs that we start from inheriting descriptors above 2.
///
/// Our parent may have left some open. Descriptors opened by our own code are closed on exec in any
/// case.
pub fn close_inherited_on_exec() -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: touches no memory of ours.
        let result = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        match succeeded(result) {
            // The descriptor that the folder was listed with.
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Connects to a UNIX socket. Waits for a place in its listen queue, but no longer than `max_time`.
///
/// The standard library waits without an end. When the time is over, the error is
/// [`ErrorKind::WouldBlock`](io::ErrorKind::WouldBlock). A signal does not end the wait.
pub fn connect_unix(path: &Path, max_time: Duration) -> io::Result<UnixStream> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let (address, end) = (SocketAddrUnix::new(path)?, Instant::now() + max_time);
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // The kernel restarts calls after a signal only if they have no timeout.
        set_socket_timeout(&socket, Timeout::Send, Some(rest))?;
        match connect(&socket, &address) {
            Err(Errno::INTR) => {}
            connected => return Ok(connected.map(|()| socket.into())?),
        }
    }
}

/// Returns true if the other end is closed or lost.
///
/// A half-closed connection may still be read by the other end. Over TCP the two cannot be told
/// apart before something was sent.
pub fn is_hung_up(stream: &impl AsFd) -> bool {
    let mut watched = [PollFd::new(stream, PollFlags::empty())];
    poll(&mut watched, Some(&Timespec::default())) == Ok(1)
        && watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Waits until there is something to read, or the end. Returns false if the time is over before.
///
/// A signal does not end the wait, and makes it longer at most by the same time.
pub fn is_readable_within(stream: impl AsFd, time: Duration) -> io::Result<bool> {
    let mut watched = [PollFd::new(&stream, PollFlags::IN)];
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    loop {
        match poll(&mut watched, Some(&time)) {
            Err(Errno::INTR) => {}
            count => return Ok(count? > 0),
        }
    }
}

/// Number of bytes written to a TCP connection that the other end has not acknowledged.
///
/// What the other end has answered to was acknowledged before, or with the answer (`SIOCOUTQ`).
pub fn unacknowledged_len(stream: impl AsFd) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the call writes one int.
    let result = unsafe { libc::ioctl(stream.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    succeeded(result)?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Makes a file opened with `O_NONBLOCK` blocking again.
pub fn set_blocking(file: &File) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(file, false)?)
}

/// User id of the other process at the time when it connected.
pub fn peer_user(socket: &impl AsFd) -> io::Result<u32> {
    let mut credentials = MaybeUninit::<libc::ucred>::uninit();
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: both pointers are valid for the call, and the length is that of the first target.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            credentials.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    succeeded(result)?;
    if length as usize != size_of::<libc::ucred>() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the length shows that all of it was written.
    Ok(unsafe { credentials.assume_init() }.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::thread::JoinHandleExt;
    use std::thread::{self, JoinHandle};

    #[test]
    fn peer_user_of_socket_pair_is_own_user() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert_eq!(peer_user(&one).expect("known"), crate::users::effective_user());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = std::net::TcpStream::connect(listener.local_addr().expect("its address"));
        // Linux returns user -1 here; other systems may return an error.
        if let Ok(user) = peer_user(&stream.expect("connected")) {
            assert_eq!(user, u32::MAX);
        }
    }

    #[test]
    fn connect_to_full_listen_queue_ends_in_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let _listener = listen_for_one(&path);
        let began = Instant::now();
        let connecting = thread::spawn(move || {
            let mut waiting = Vec::new();
            loop {
                match connect_unix(&path, Duration::from_millis(50)) {
                    Ok(stream) => waiting.push(stream),
                    Err(error) => break (waiting.len(), error.kind()),
                }
            }
        });
        interrupt_until_finished(&connecting);
        let (accepted, error) = connecting.join().expect("no panic");
        assert!(accepted > 0 && began.elapsed() < Duration::from_secs(20));
        assert_eq!(error, io::ErrorKind::WouldBlock);
    }

    /// A socket with a listen queue that is soon full.
    fn listen_for_one(path: &Path) -> OwnedFd {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let listener = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
        let address = SocketAddrUnix::new(path).expect("an address");
        rustix::net::bind(&listener, &address).expect("bound");
        rustix::net::listen(&listener, 1).expect("it listens");
        listener
    }

    /// Sends a signal with an empty handler to an OS thread every few milliseconds.
    fn interrupt_until_finished<T>(target: &JoinHandle<T>) {
        extern "C" fn do_nothing(_signal: libc::c_int) {}
        let handler: extern "C" fn(libc::c_int) = do_nothing;
        // SAFETY: the handler touches nothing, and no other test here uses the signal.
        unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
        while !target.is_finished() {
            // SAFETY: an OS thread that was not joined may be signalled.
            unsafe { libc::pthread_kill(target.as_pthread_t(), libc::SIGUSR1) };
            thread::sleep(Duration::from_millis(5));
        }
    }
}
