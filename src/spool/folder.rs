//! Creates the folders of the spool.

use super::HashFolder;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use zsched_sys as sys;

/// Mode of a folder that only the mail system writes to. Files in it get the folder's group.
pub const MAIL_FOLDER_MODE: u32 = 0o2750;
/// Mode of a folder that any user may put files into, but not list.
///
/// Files in it get the folder's group, and only their owners, or that of the folder, remove them.
pub(crate) const PUBLIC_FOLDER_MODE: u32 = 0o3773;

/// Mode of the folder that only a program with its group may put files into.
///
/// Files in it get the folder's group. No user may list it.
pub(crate) const DROP_FOLDER_MODE: u32 = 0o3730;

/// Returns true if a file of any kind has this name. An error means that it is unknown.
pub fn exists(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(false),
            _ => Err(error),
        },
    }
}

/// Renames a file. The new name must be free, and no file is ever replaced.
///
/// Where the file system cannot do this in one step, a crash may leave both names.
pub(crate) fn rename_to_free_name(from: &Path, to: &Path) -> io::Result<()> {
    match sys::rename_new(from, to) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            fs::hard_link(from, to)?;
            fs::remove_file(from).or_else(|error| fs::remove_file(to).and(Err(error)))
        }
        other => other,
    }
}

/// Creates a folder if it does not exist, and syncs its entry. Returns true if it was created.
///
/// Without the sync, files that are synced later would be lost with the folder's entry.
pub fn make(path: &Path, mode: u32) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {
            // Neither the umask nor mkdir(2) may remove bits of the mode.
            fs::set_permissions(path, Permissions::from_mode(mode))?;
            sync_entry(path)?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Syncs the entry of a new folder.
fn sync_entry(path: &Path) -> io::Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

/// Creates a folder and all missing ones above it.
///
/// Syncs their entries.
pub fn make_all(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.is_dir()).collect();
    fs::create_dir_all(path)?;
    missing.into_iter().rev().filter(|path| !path.as_os_str().is_empty()).try_for_each(sync_entry)
}

/// Creates a folder below `top`, which may be two levels down.
///
/// It gets the mode of `top`, and its owner too if root creates it. With `sync`, a new folder is on
/// disk before any file is put into it.
pub(crate) fn make_below(top: &Path, below: HashFolder, sync: bool) -> io::Result<PathBuf> {
    let mut path = top.to_path_buf();
    for letter in Path::new(&below.to_string()) {
        let parent = path.clone();
        path.push(letter);
        if path.is_dir() {
            continue;
        }
        let like = fs::metadata(top)?;
        if make(&path, like.mode() & 0o7777)? {
            if sys::users::is_root() {
                chown(&path, Some(like.uid()), Some(like.gid()))?;
                // Changing the owner may have cleared the set-gid bit.
                fs::set_permissions(&path, Permissions::from_mode(like.mode() & 0o7777))?;
            }
            if sync {
                File::open(parent)?.sync_all()?;
            }
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashLevel;

    #[test]
    fn exists_path_that_cannot_be_examined_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("loop", at("loop")).expect("a link");
        fs::write(at("file"), "").expect("a file");
        for (name, expected) in [
            ("file", Some(true)),
            ("loop", Some(true)),
            ("none", Some(false)),
            ("file/x", Some(false)),
            ("loop/x", None),
        ] {
            assert_eq!(exists(&at(name)).ok(), expected, "{name}");
        }
    }

    #[test]
    fn new_folder_has_mode_of_parent() {
        let top = tempfile::tempdir().expect("a folder");
        for (name, mode) in
            [("ours", MAIL_FOLDER_MODE), ("for-all", PUBLIC_FOLDER_MODE), ("other", 0o711)]
        {
            let top = top.path().join(name);
            assert!(make(&top, mode).expect("made"));
            assert!(!make(&top, 0o777).expect("there already"));
            let below = HashFolder::of(4711, HashLevel::Twice);
            let path = make_below(&top, below, true).expect("made");
            assert_eq!(path, top.join("Z/F"));
            for path in [&top, &top.join("Z"), &path] {
                let found = fs::metadata(path).expect("a folder").mode() & 0o7777;
                assert_eq!(found, mode, "{}", path.display());
            }
            assert_eq!(make_below(&top, below, true).expect("there already"), path);
            assert_eq!(make_below(&top, HashFolder::TOP, true).expect("nothing"), top);
        }
    }

    #[test]
    fn make_all_creates_missing_parents() {
        let top = tempfile::tempdir().expect("a folder");
        let deep = top.path().join("a/b/c");
        make_all(&deep).expect("made");
        assert!(deep.is_dir());
        make_all(&deep).expect("there already");
        fs::write(top.path().join("file"), "").expect("written");
        make_all(&top.path().join("file/x")).expect_err("not below a file");
    }
}
