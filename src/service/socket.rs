//! UNIX sockets with a name.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

/// Errors of `accept` that concern only one connection (accept(2)).
///
/// The next connection may be good.
const SINGLE_CONNECTION_ERRORS: [i32; 9] = [
    libc::ECONNABORTED,
    libc::EINTR,
    libc::EPERM,
    libc::EPROTO,
    libc::ENETDOWN,
    libc::ENETUNREACH,
    libc::EHOSTDOWN,
    libc::EHOSTUNREACH,
    libc::ENOPROTOOPT,
];

/// Returns true if an error of `accept` concerns only one client.
///
/// After any other error, such as a lack of descriptors, a listener should pause.
pub fn is_single_connection_error(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| SINGLE_CONNECTION_ERRORS.contains(&number))
}

/// Binds a socket in place of one that a former process left, and sets its mode.
///
/// A file of another type is an error, and stays.
///
/// Until the mode is set, only the service's user and root can use the socket: the umask (022)
/// denies write permission to others. The umask is not changed instead, since workers may be
/// creating files and folders at the same time.
pub fn bind_socket<S>(
    path: &Path,
    mode: u32,
    bind: impl FnOnce(&Path) -> io::Result<S>,
) -> io::Result<S> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => {
            let text = "there is a file that is no socket";
            return Err(io::Error::new(ErrorKind::AlreadyExists, text));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_error_of_one_connection_does_not_stop_accepting() {
        let concerns = |number| is_single_connection_error(&io::Error::from_raw_os_error(number));
        assert!(concerns(libc::ECONNABORTED) && concerns(libc::EPROTO));
        assert!(!concerns(libc::EMFILE) && !concerns(libc::ENFILE) && !concerns(libc::EBADF));
    }
}
