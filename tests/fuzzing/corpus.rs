//! The saved inputs: seeds from recordings, edge cases made by hand, and former failures.

use crate::targets::Target;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;

/// Returns the inputs of a target and the paths of their files, sorted by path.
pub fn inputs(target: Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = zsched_tests::source().join("tests/data/fuzzing").join(target.name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder:?} is empty");
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("an input"))).collect()
}

/// Runs a target with each of its saved inputs.
pub fn run(target: Target) {
    for (path, input) in inputs(target) {
        if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
            eprintln!("this was with {}", path.display());
            panic::resume_unwind(panic);
        }
    }
}
