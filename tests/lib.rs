//! Where the tests find the programs and the files of this project.

use std::path::{Path, PathBuf};

/// The top folder of the source code.
pub fn source() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package is in a folder of the project")
}

/// The path of one of our programs, as built beside the running test.
///
/// Panics if it has not been built: `cargo test` builds all programs, `cargo test --test NAME` only
/// some.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.ancestors().nth(2).expect("a test is in target/PROFILE/deps");
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build` with the same profile",
        path.display()
    );
    path
}
