//! Which users may use a file of the installation.

use crate::failure::Failure;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zsched_sys::users;

/// The failure to read a file; if this user may not, with the users that may.
pub(crate) fn failure(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => {
            let users = only_users_of(path);
            Failure::Denied(format!("{shown}: permission denied; {users} may read it"))
        }
        _ => Failure::Installation(format!("{shown}: {error}")),
    }
}

/// The users of a file: `only root and zsched`.
///
/// For a file that this user may not even look at, they are those of its folder.
pub(crate) fn only_users_of(path: &Path) -> String {
    let known = path.ancestors().find_map(|path| fs::symlink_metadata(path).ok());
    only_root_and(known.map_or(0, |known| known.uid()))
}

/// Root and the user of this number.
pub(crate) fn only_root_and(user: u32) -> String {
    if user == 0 {
        return "only root".to_string();
    }
    let name = users::account_of(user).ok().flatten().map(|account| account.name);
    format!("only root and {}", name.unwrap_or_else(|| format!("user {user}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_of_rights_names_users() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        let denied = failure(&path, &ErrorKind::PermissionDenied.into());
        let own = users::effective_user_name();
        let users =
            if users::is_root() { "only root".into() } else { format!("only root and {own}") };
        let expected = format!("{}: permission denied; {users} may read it", path.display());
        assert_eq!((denied.to_string(), denied.status()), (expected, 77));
        assert_eq!(only_root_and(4_000_000_000), "only root and user 4000000000");
        assert_eq!(failure(&path, &ErrorKind::NotFound.into()).status(), 72);
    }
}
