//! Watched folders: the kernel reports the files that get a name there, by inotify(7).

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Number of events after which [`FolderWatch::read`] ends.
const MAX_EVENTS: usize = 256;

/// Folders that are watched.
#[derive(Debug)]
pub struct FolderWatch(OwnedFd);

/// A watched folder, as events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchedFolder(i32);

/// What has happened in a watched folder.
#[derive(Debug, PartialEq, Eq)]
pub enum FolderEvent<'e> {
    /// A file was renamed to this name, so it is complete.
    File(WatchedFolder, &'e [u8]),
    /// Events were lost, because they came faster than they were read.
    Lost,
}

impl FolderWatch {
    /// Creates a watch without folders. Fails if the user has too many already.
    pub fn new() -> io::Result<FolderWatch> {
        Ok(FolderWatch(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Watches a folder.
    pub fn add(&self, path: &Path) -> io::Result<WatchedFolder> {
        let flags = WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        Ok(WatchedFolder(inotify::add_watch(&self.0, path, flags)?))
    }

    /// Reads some events, without waiting. Returns true if there may be more.
    pub fn read(&self, mut each: impl FnMut(FolderEvent<'_>)) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(&self.0, &mut buffer);
        for count in 1.. {
            let event = match reader.next() {
                Err(rustix::io::Errno::AGAIN) => return Ok(false),
                other => other?,
            };
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                each(FolderEvent::Lost);
            } else if flags.contains(ReadFlags::MOVED_TO) && !flags.contains(ReadFlags::ISDIR) {
                let name = event.file_name().map_or(&[][..], |name| name.to_bytes());
                each(FolderEvent::File(WatchedFolder(event.wd()), name));
            }
            if count >= MAX_EVENTS && reader.is_buffer_empty() {
                break;
            }
        }
        Ok(true)
    }
}

impl AsRawFd for FolderWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// All events up to now, as text.
    fn events(watch: &FolderWatch) -> Vec<String> {
        let mut found = Vec::new();
        while watch.read(|event| found.push(format!("{event:?}"))).expect("the watch is readable") {
        }
        found
    }

    #[test]
    fn files_are_reported_once_they_have_their_name() {
        let top = tempfile::tempdir().expect("a temporary folder");
        let watch = FolderWatch::new().expect("a watch");
        let folder = watch.add(top.path()).expect("a watched folder");
        fs::write(top.path().join(".hidden"), "a").expect("a file");
        fs::write(top.path().join("written"), "a").expect("a file");
        assert_eq!(events(&watch), [""; 0]);
        fs::rename(top.path().join(".hidden"), top.path().join("17")).expect("a file");
        fs::create_dir(top.path().join("A")).expect("a folder");
        assert_eq!(events(&watch), [format!("{:?}", FolderEvent::File(folder, b"17"))]);
    }

    #[test]
    fn only_folders_can_be_watched() {
        let top = tempfile::tempdir().expect("a temporary folder");
        let file = top.path().join("file");
        fs::write(&file, "").expect("a file");
        let watch = FolderWatch::new().expect("a watch");
        assert!(watch.add(&file).is_err());
        assert!(watch.add(&top.path().join("absent")).is_err());
    }
}
