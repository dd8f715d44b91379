//! UNIX sockets with a name.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

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
