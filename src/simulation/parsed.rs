//! Cache of parsed control files, for all agents and the writer.
//!
//! Otherwise each would parse a file again. One parse is enough, since only tags change in it, and
//! lines at the end, of which only added recipients are read.

use foldhash::HashMap;
use std::rc::Rc;
use zsched_format::control_file::{self, ControlFile, ControlFileError};
use zsched_format::job_recipients::IndexedControlFile;
use zsched_spool::memory_file::MemoryFile;

/// Maximum size of the texts in a generation, in bytes, without its last one.
const MAX_GENERATION_SIZE: usize = 64 * 1024 * 1024;

/// The files that were used recently.
///
/// When the recent generation is full, the files that are only in the earlier one are dropped.
#[derive(Default)]
pub(crate) struct ParsedFiles {
    recent: HashMap<u64, Rc<IndexedControlFile>>,
    earlier: HashMap<u64, Rc<IndexedControlFile>>,
    /// Size of the texts in `recent`, in bytes.
    recent_size: usize,
}

impl ParsedFiles {
    /// The parsed contents of a file. Its tags may be out of date.
    pub(crate) fn get(
        &mut self,
        file: &MemoryFile,
    ) -> Result<Rc<IndexedControlFile>, ControlFileError> {
        let serial = file.serial();
        let is_current = |parsed: &&Rc<IndexedControlFile>| {
            let appended = &file.text()[parsed.control.text.len()..];
            !control_file::has_appended_recipients(appended)
        };
        if let Some(found) = self.recent.get(&serial).filter(is_current) {
            return Ok(found.clone());
        }
        if let Some(found) = self.earlier.remove(&serial).filter(|found| is_current(&found)) {
            self.insert(serial, found.clone());
            return Ok(found);
        }
        let parsed = IndexedControlFile::new(control_file::parse(file.text().clone())?);
        let is_large = parsed.is_worth_keeping();
        let parsed = Rc::new(if is_large { parsed.with_index() } else { parsed });
        self.insert(serial, parsed.clone());
        Ok(parsed)
    }

    /// Adds the contents of a file that was parsed elsewhere.
    ///
    /// A large file is not added: its portions are read one by one, and each time it would be
    /// indexed.
    pub(crate) fn add_small(&mut self, serial: u64, control: ControlFile) {
        let parsed = IndexedControlFile::new(control);
        if !parsed.is_worth_keeping() {
            self.insert(serial, Rc::new(parsed));
        }
    }

    /// Drops a file that has left the spool.
    pub(crate) fn remove(&mut self, file: &MemoryFile) {
        self.earlier.remove(&file.serial());
        if let Some(removed) = self.recent.remove(&file.serial()) {
            self.recent_size -= removed.control.text.len();
        }
    }

    fn insert(&mut self, serial: u64, parsed: Rc<IndexedControlFile>) {
        if self.recent_size >= MAX_GENERATION_SIZE {
            self.earlier = std::mem::take(&mut self.recent);
            self.recent_size = 0;
        }
        self.recent_size += parsed.control.text.len();
        if let Some(replaced) = self.recent.insert(serial, parsed) {
            self.recent_size -= replaced.control.text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(serial: u64, recipients: usize) -> MemoryFile {
        let line = |n: usize| format!("r           smtp H{}.x user{n}@h.x 0\n", n % 10);
        let lines: String = (0..recipients).map(line).collect();
        let text = format!("@ 0x00000007\ni 1\ns local - x 0\n{lines}m\n\n");
        MemoryFile::new(serial, text.into_bytes())
    }

    #[test]
    fn file_is_parsed_once() {
        let mut files = ParsedFiles::default();
        for file in [file(1, 1), file(2, 1000)] {
            let parsed = files.get(&file).expect("a good file");
            assert!(Rc::ptr_eq(&parsed, &files.get(&file).expect("a good file")));
        }
    }

    #[test]
    fn appended_recipient_is_seen() {
        let mut files = ParsedFiles::default();
        let file = file(1, 1);
        files.get(&file).expect("a good file");
        let added = "s local - x 0\nr           smtp h.x other@h.x 0\nm\n\n";
        file.append(format!("{added}A {}\n", added.len()).as_bytes());
        assert_eq!(files.get(&file).expect("a good file").control.recipients.len(), 2);
    }

    #[test]
    fn cache_is_bounded_and_keeps_files_in_use() {
        let mut files = ParsedFiles::default();
        let used = file(0, 1);
        let first = files.get(&used).expect("a good file");
        let recipients = MAX_GENERATION_SIZE / 32 / 10;
        for serial in 1..=25 {
            files.get(&file(serial, recipients)).expect("a good file");
            assert!(Rc::ptr_eq(&first, &files.get(&used).expect("a good file")));
        }
        let size: usize = files
            .recent
            .values()
            .chain(files.earlier.values())
            .map(|parsed| parsed.control.text.len())
            .sum();
        assert!(size < MAX_GENERATION_SIZE * 5 / 2, "{size}");
        assert!(!files.recent.contains_key(&1) && !files.earlier.contains_key(&1));
    }
}
