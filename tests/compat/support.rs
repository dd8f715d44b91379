//! Shared helpers: recorded data, a spool for it.

pub use crate::core_world::START;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use zsched_spool::load::{LoadResult, load};
use zsched_spool::{HashFolder, HashLevel, OpenSpool, Spool, SpoolName};

/// Returns the path of a recording.
pub fn data_path(name: &str) -> PathBuf {
    zsched_tests::source().join("tests/data/compat").join(name)
}

/// Returns a recorded file.
pub fn data(name: &str) -> Vec<u8> {
    let path = data_path(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the files under a folder of the recordings, by their path in it, sorted.
pub fn files_under(folder: &str) -> Vec<String> {
    fn walk(folder: &Path, top: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder of recordings") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, top, found);
            } else {
                let below = path.strip_prefix(top).expect("it was found there");
                found.push(below.to_str().expect("names are text").to_string());
            }
        }
    }
    let (top, mut found) = (data_path(folder), Vec::new());
    walk(&top, &top, &mut found);
    found.sort();
    found
}

/// Returns the name of a message, from its path below `transport/`.
pub fn spool_name(path: &str) -> SpoolName {
    let plain = || SpoolName::new(HashFolder::TOP, path.as_bytes());
    SpoolName::from_notified(path.as_bytes())
        .or_else(plain)
        .unwrap_or_else(|| panic!("{path} is no name"))
}

/// A temporary POSTOFFICE, which is removed when this is dropped.
pub struct TestSpool {
    pub spool: Spool,
    folder: tempfile::TempDir,
}

impl TestSpool {
    pub fn new() -> TestSpool {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        TestSpool { spool, folder }
    }

    /// Writes a file, given by its path below POSTOFFICE.
    pub fn write(&self, path: &str, contents: &[u8]) -> PathBuf {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        fs::write(&path, contents).expect("a file");
        path
    }

    /// Writes a message: its control file, and its message file of a certain age.
    pub fn message(&self, path: &str, control: &[u8], message: &[u8], received: SystemTime) {
        set_modified(&self.write(&format!("queue/{path}"), message), received);
        self.write(&format!("transport/{path}"), control);
    }

    /// Reads a message as a scheduler does that has just found it.
    pub fn read(&self, level: HashLevel, name: SpoolName) -> LoadResult {
        let spool = OpenSpool::new(self.spool.clone()).expect("the folders exist");
        load(&spool, level, name, None, &mut |_| {}, &mut |_| {}, |_, _| Ok(()))
    }

    /// Returns the contents of a file, or `None` if there is none.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.path().join(path)).ok()
    }

    /// Returns the files below some folders, by their path in POSTOFFICE, sorted.
    pub fn files(&self, folders: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        let mut to_look_at: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
        while let Some(folder) = to_look_at.pop() {
            for entry in fs::read_dir(self.folder.path().join(&folder)).expect("a folder") {
                let entry = entry.expect("an entry");
                let path = folder.join(entry.file_name());
                if entry.file_type().expect("a type").is_dir() {
                    to_look_at.push(path);
                } else {
                    found.push(path.to_str().expect("names are text").to_string());
                }
            }
        }
        found.sort();
        found
    }
}

/// Sets the modification time of a file.
pub fn set_modified(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path).expect("the file is there");
    file.set_modified(time).expect("the time can be set");
}

/// Returns a time for files.
pub fn at(seconds: u64, nanoseconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
}
