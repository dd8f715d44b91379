//! Cache of parsed control files, for all agents and the writer.
//!
//! Otherwise each would parse a large file again. One parse is enough, since only tags change in
//! it, and lines at the end, of which only added recipients are read.

use std::collections::VecDeque;
use std::rc::Rc;
use zsched_format::control_file::{self, ControlFileError};
use zsched_format::job_recipients::IndexedControlFile;
use zsched_spool::memory_file::MemoryFile;

/// Maximum number of large files in the cache.
const MAX_CACHED_FILES: usize = 16;

/// The large files that were used last.
#[derive(Default)]
pub(crate) struct ParsedFiles {
    /// By serial number, the most recently used one in front.
    latest: VecDeque<(u64, Rc<IndexedControlFile>)>,
}

impl ParsedFiles {
    /// The parsed contents of a file.
    pub(crate) fn get(
        &mut self,
        file: &MemoryFile,
    ) -> Result<Rc<IndexedControlFile>, ControlFileError> {
        let at = self.latest.iter().position(|(serial, _)| *serial == file.serial());
        if let Some(found) = at.and_then(|at| self.latest.remove(at))
            && !control_file::has_appended_recipients(&file.text()[found.1.control.text.len()..])
        {
            let parsed = found.1.clone();
            self.latest.push_front(found);
            return Ok(parsed);
        }
        let parsed = IndexedControlFile::new(control_file::parse(file.text().clone())?);
        if !parsed.is_worth_keeping() {
            return Ok(Rc::new(parsed));
        }
        let parsed = Rc::new(parsed.with_index());
        self.latest.truncate(MAX_CACHED_FILES - 1);
        self.latest.push_front((file.serial(), parsed.clone()));
        Ok(parsed)
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
    fn a_large_file_is_parsed_once() {
        let mut files = ParsedFiles::default();
        let large = file(1, 1000);
        let parsed = files.get(&large).expect("a good file");
        assert!(Rc::ptr_eq(&parsed, &files.get(&large).expect("a good file")));
    }

    #[test]
    fn cached_files_are_limited() {
        let mut files = ParsedFiles::default();
        for serial in 0..100 {
            files.get(&file(serial, 1000)).expect("a good file");
            files.get(&file(1000 + serial, 3)).expect("a good file");
        }
        assert_eq!(files.latest.len(), MAX_CACHED_FILES);
        assert!(files.latest.iter().all(|(serial, _)| (84..100).contains(serial)));
    }
}
