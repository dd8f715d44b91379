//! Names of messages from folders and from notifications of routers.

use zsched_spool::{HashFolder, HashLevel, SpoolName};

/// The input is a notification (`NEW <path>`) or a name.
pub fn run(bytes: &[u8]) {
    let path = bytes.strip_prefix(b"NEW ").unwrap_or(bytes);
    if let Some(name) = SpoolName::from_notified(path) {
        assert_eq!(name.path().as_bytes(), path);
        check(&name);
    }
    if let Some(name) = SpoolName::new(HashFolder::TOP, path) {
        assert_eq!(name.base().as_bytes(), path);
        check(&name);
    }
}

/// Checks that a name leads only into its folder, and is found again there.
fn check(name: &SpoolName) {
    let base = name.base();
    assert!(!base.contains('/') && base.starts_with(|c: char| c.is_ascii_digit()));
    assert!(base.len() <= 48 && base.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(SpoolName::new(name.folder(), base.as_bytes()).as_ref(), Some(name));
    for level in [HashLevel::Flat, HashLevel::Once, HashLevel::Twice] {
        let moved = name.in_folder(HashFolder::of(name.number(), level));
        assert_eq!((moved.number(), moved.base()), (name.number(), name.base()));
        if !base.starts_with('0') {
            assert_eq!(SpoolName::from_notified(moved.path().as_bytes()), Some(moved));
        }
    }
}
