//! Sorts more lines than memory holds.
//!
//! Lines are sorted in a buffer. A full buffer is written to a temporary file, and the files are
//! merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;

/// Maximum size of the lines in memory, in bytes.
const MAX_BUFFER: usize = 32 << 20;

/// Lines to be sorted by their bytes.
pub(super) struct LineSorter {
    /// Beginning of the paths of temporary files.
    prefix: PathBuf,
    text: Vec<u8>,
    /// Start and length of each line in `text`, without its line end.
    lines: Vec<(u32, u32)>,
    runs: Vec<PathBuf>,
    max_buffer: usize,
}

impl LineSorter {
    /// Creates a sorter. Its temporary files have names that begin with `prefix`.
    pub(super) fn new(prefix: PathBuf) -> LineSorter {
        LineSorter::with_buffer(prefix, MAX_BUFFER)
    }

    /// Creates a sorter with another maximum size of the lines in memory.
    pub(super) fn with_buffer(prefix: PathBuf, max_buffer: usize) -> LineSorter {
        LineSorter { prefix, text: Vec::new(), lines: Vec::new(), runs: Vec::new(), max_buffer }
    }

    /// Adds a line, which has no line end in it.
    pub(super) fn push(&mut self, line: &[u8]) -> io::Result<()> {
        if self.text.len() + line.len() > self.max_buffer && !self.lines.is_empty() {
            self.write_run()?;
        }
        self.lines.push((self.text.len() as u32, line.len() as u32));
        self.text.extend_from_slice(line);
        Ok(())
    }

    fn sort(&mut self) {
        let text = &self.text;
        self.lines.sort_unstable_by_key(|line| line_of(text, line));
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.sort();
        let mut path = self.prefix.clone().into_os_string();
        path.push(self.runs.len().to_string());
        let path = PathBuf::from(path);
        let mut out = BufWriter::new(File::create_new(&path)?);
        self.runs.push(path);
        for line in &self.lines {
            out.write_all(line_of(&self.text, line))?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        self.text.clear();
        self.lines.clear();
        Ok(())
    }

    /// Returns the lines in ascending order, one by one.
    pub(super) fn into_lines(mut self) -> io::Result<SortedLines> {
        if self.runs.is_empty() {
            self.sort();
        } else {
            self.write_run()?;
            self.text = Vec::new();
        }
        let (mut runs, mut heads) = (Vec::new(), BinaryHeap::new());
        for path in &self.runs {
            runs.push(BufReader::new(File::open(path)?));
        }
        for (index, run) in runs.iter_mut().enumerate() {
            heads.extend(next_line(run)?.map(|line| Reverse((line, index))));
        }
        Ok(SortedLines { sorter: self, place: 0, runs, heads })
    }

    /// Passes all lines on in ascending order.
    pub(super) fn finish(self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut lines = self.into_lines()?;
        while let Some(line) = lines.next()? {
            each(&line)?;
        }
        Ok(())
    }
}

/// Sorted lines.
pub(super) struct SortedLines {
    sorter: LineSorter,
    /// The next line in memory.
    place: usize,
    runs: Vec<BufReader<File>>,
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

impl SortedLines {
    /// The next line.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.runs.is_empty() {
            let line = self.sorter.lines.get(self.place);
            self.place += 1;
            return Ok(line.map(|line| line_of(&self.sorter.text, line).to_vec()));
        }
        let Some(Reverse((line, index))) = self.heads.pop() else { return Ok(None) };
        self.heads.extend(next_line(&mut self.runs[index])?.map(|line| Reverse((line, index))));
        Ok(Some(line))
    }
}

impl Drop for LineSorter {
    fn drop(&mut self) {
        for run in &self.runs {
            // The folder is removed as a whole if that fails.
            fs::remove_file(run).ok();
        }
    }
}

fn line_of<'t>(text: &'t [u8], (start, length): &(u32, u32)) -> &'t [u8] {
    &text[*start as usize..][..*length as usize]
}

fn next_line(run: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    if run.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    line.pop_if(|last| *last == b'\n');
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_with_and_without_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let lines: Vec<String> = (0..1000).map(|n| format!("{:03}", n * 617 % 1000)).collect();
        for max_buffer in [1, 100, 1 << 20] {
            let mut sorter = LineSorter::with_buffer(folder.path().join("run-"), max_buffer);
            lines.iter().try_for_each(|line| sorter.push(line.as_bytes())).expect("pushed");
            let mut sorted = Vec::new();
            let each = |line: &[u8]| {
                sorted.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            };
            sorter.finish(each).expect("sorted");
            let expected: Vec<String> = (0..1000).map(|n| format!("{n:03}")).collect();
            assert_eq!(sorted, expected, "{max_buffer}");
            assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0);
        }
    }
}
