//! User at the other end of a UNIX socket.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

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
    super::succeeded(result)?;
    if length as usize != size_of::<libc::ucred>() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the length shows that all of it was written.
    Ok(unsafe { credentials.assume_init() }.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

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
}
