//! Control files that get their name in `transport/`, as the kernel reports them.
//!
//! With this, mail is found at once also if a router sends no notice, or if its notices are lost:
//! the kernel keeps only ten for a socket (`net.unix.max_dgram_qlen`), and routers do not wait.

use foldhash::{HashMap, HashSet};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use zsched_spool::{HashFolder, Spool, SpoolName};
use zsched_sys::{FolderEvent, FolderWatch, WatchedFolder};

/// A watch on `transport/` and its hash folders.
pub(crate) struct ArrivalWatch {
    watch: FolderWatch,
    transport: PathBuf,
    folders: HashMap<WatchedFolder, HashFolder>,
    watched: HashSet<HashFolder>,
}

/// What was read from the watch.
pub(crate) struct Arrivals {
    /// Control files, in the order in which they got their names.
    pub names: Vec<SpoolName>,
    /// True if some were not reported: a scan is needed.
    pub is_incomplete: bool,
    /// True if there may be more to read.
    pub has_more: bool,
}

impl ArrivalWatch {
    /// Watches `transport/`.
    ///
    /// The token is that of the events that tell the loop to read.
    pub(crate) fn new(
        spool: &Spool,
        registry: &Registry,
        token: Token,
    ) -> io::Result<ArrivalWatch> {
        let (watch, transport) = (FolderWatch::new()?, spool.transport().to_path_buf());
        registry.register(&mut SourceFd(&watch.as_raw_fd()), token, Interest::READABLE)?;
        let (folders, watched) = (HashMap::default(), HashSet::default());
        let mut this = ArrivalWatch { watch, transport, folders, watched };
        this.add(HashFolder::TOP)?;
        Ok(this)
    }

    /// Watches a folder in which mail was found, unless it is watched already.
    pub(crate) fn add(&mut self, folder: HashFolder) -> io::Result<()> {
        if !self.watched.contains(&folder) {
            let added = self.watch.add(&self.transport.join(folder.to_string()))?;
            self.folders.insert(added, folder);
            self.watched.insert(folder);
        }
        Ok(())
    }

    /// Reads some of the arrivals.
    pub(crate) fn read(&mut self) -> io::Result<Arrivals> {
        let (mut names, mut is_incomplete) = (Vec::new(), false);
        let has_more = self.watch.read(|event| match event {
            FolderEvent::File(folder, name) => {
                let folder = self.folders.get(&folder).copied();
                names.extend(folder.and_then(|folder| SpoolName::new(folder, name)));
            }
            FolderEvent::Lost => is_incomplete = true,
        })?;
        Ok(Arrivals { names, is_incomplete, has_more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Gives a file its name, as a router does.
    fn put(spool: &Spool, name: &str) {
        let hidden = spool.transport().join(".new");
        fs::write(&hidden, "").expect("a file");
        fs::rename(&hidden, spool.transport().join(name)).expect("a name");
    }

    fn watch(spool: &Spool) -> ArrivalWatch {
        let poll = mio::Poll::new().expect("a poll");
        ArrivalWatch::new(spool, poll.registry(), Token(0)).expect("a watch")
    }

    fn arrivals(watch: &mut ArrivalWatch) -> Vec<String> {
        let (mut names, mut has_more) = (Vec::new(), true);
        while has_more {
            let read = watch.read().expect("the watch is readable");
            names.extend(read.names.iter().map(SpoolName::path));
            has_more = read.has_more;
        }
        names
    }

    #[test]
    fn control_files_are_found_in_folders_that_were_added() {
        let top = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(top.path());
        spool.create().expect("a spool");
        fs::create_dir_all(spool.transport().join("B/C")).expect("folders");
        let mut watch = watch(&spool);
        let folder = SpoolName::from_notified(b"B/C/1").expect("a name").folder();
        watch.add(folder).expect("a watched folder");
        for name in ["17", "B/18", "B/C/19", "x20", "core"] {
            put(&spool, name);
        }
        assert_eq!(arrivals(&mut watch), ["17", "B/C/19"]);
    }

    #[test]
    fn more_arrivals_than_fit_a_turn_are_read() {
        let top = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(top.path());
        spool.create().expect("a spool");
        let mut watch = watch(&spool);
        let names: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
        names.iter().for_each(|name| put(&spool, name));
        assert!(watch.read().expect("arrivals").has_more);
        fs::remove_dir_all(spool.transport()).expect("files that are gone do no harm");
        assert_eq!(watch.read().expect("arrivals").names.len(), 256);
    }
}
