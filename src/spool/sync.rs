//! Writes several files and folders to the disk at the same time: the file system then needs few
//! transactions for them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use zsched_sys as sys;

/// Maximum number of files that are synced at the same time.
const MAX_SYNCING: usize = 32;

/// What became of a file, and of the folder that has its name.
pub struct Synced {
    /// The result for the file.
    pub file: io::Result<()>,
    /// The result for the folder.
    pub folder: io::Result<()>,
}

/// A file or folder to be synced, and what became of it.
struct Job<'f> {
    file: Option<&'f File>,
    folder: Option<PathBuf>,
    result: io::Result<()>,
}

impl Job<'_> {
    fn run(&mut self) {
        let of_file = self.file.map_or(Ok(()), File::sync_all);
        let of_folder = self.folder.as_ref().map_or(Ok(()), |path| File::open(path)?.sync_all());
        self.result = of_file.and(of_folder);
    }
}

/// Syncs files, each unless it is `None`, and the folders beside them, each once.
///
/// Returns one result for each pair, in their order.
pub fn sync_together(pairs: Vec<(Option<&File>, PathBuf)>) -> Vec<Synced> {
    let (files, places): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let new = |file, folder| Job { file, folder, result: Ok(()) };
    let mut jobs: Vec<Job<'_>> = files.iter().map(|file| new(*file, None)).collect();
    let mut folders = BTreeMap::new();
    for path in &places {
        folders.entry(path).or_insert_with(|| {
            jobs.push(new(None, Some(path.clone())));
            jobs.len() - 1
        });
    }
    run(&mut jobs);
    let results: Vec<io::Result<()>> = jobs.into_iter().map(|job| job.result).collect();
    let copy = |result: &io::Result<()>| match result {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    };
    let synced = |(at, path): (usize, &PathBuf)| Synced {
        file: copy(&results[at]),
        folder: copy(&results[folders[path]]),
    };
    places.iter().enumerate().map(synced).collect()
}

/// Writes the data of files to the disk, before they get their names.
///
/// Where the file system keeps no order, the files are synced.
pub fn write_out_together(files: &[&File]) -> Vec<io::Result<()>> {
    if files.first().is_some_and(|file| sys::keeps_order(file)) {
        files.iter().for_each(|file| sys::begin_write_out(file));
        return files.iter().map(|file| sys::write_out(file)).collect();
    }
    let mut jobs = Vec::from_iter(files.iter().map(|file| Job {
        file: Some(*file),
        folder: None,
        result: Ok(()),
    }));
    run(&mut jobs);
    jobs.into_iter().map(|job| job.result).collect()
}

fn run(jobs: &mut [Job<'_>]) {
    let share = jobs.len().div_ceil(MAX_SYNCING).max(1);
    std::thread::scope(|scope| {
        let mut parts = jobs.chunks_mut(share);
        let own = parts.next();
        for part in parts {
            scope.spawn(|| part.iter_mut().for_each(Job::run));
        }
        own.into_iter().flatten().for_each(Job::run);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_gets_its_results() {
        let folder = tempfile::tempdir().expect("a folder");
        let (good, absent) = (folder.path().to_path_buf(), folder.path().join("absent"));
        let file = File::create(folder.path().join("file")).expect("a file");
        let mut pairs = vec![(Some(&file), good.clone()), (None, absent)];
        // More than are synced at the same time.
        pairs.extend((0..100).map(|_| (Some(&file), good.clone())));
        let synced = sync_together(pairs);
        let failed = |one: &Synced| (one.file.is_err(), one.folder.is_err());
        assert_eq!(failed(&synced[0]), (false, false));
        assert_eq!(failed(&synced[1]), (false, true));
        assert!(synced[2..].iter().all(|one| failed(one) == (false, false)));
        assert_eq!(sync_together(Vec::new()).len(), 0);
    }
}
