//! Splits the output of an agent into lines of bounded length.

use memchr::memchr;

/// Maximum length of a line, in bytes. The rest of a longer line is skipped.
///
/// Real agents write lines of up to about 8 kB.
pub const LONGEST_LINE: usize = 64 * 1024;

/// Collects bytes and emits complete lines.
#[derive(Default)]
pub struct Lines {
    /// Beginning of an incomplete line, at most [`LONGEST_LINE`] bytes.
    begun: Vec<u8>,
    /// Number of skipped bytes of that line.
    passed_over: usize,
}

impl Lines {
    /// Adds bytes, and calls `line` for each complete line, without its line end.
    ///
    /// Returns the number of skipped bytes of overlong lines.
    pub fn take_in(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) -> usize {
        let mut passed_over = 0;
        while let Some(end) = memchr(b'\n', bytes) {
            if self.begun.is_empty() && end <= LONGEST_LINE {
                line(&bytes[..end]);
            } else {
                self.keep(&bytes[..end]);
                line(&self.begun);
                passed_over += std::mem::take(&mut self.passed_over);
                self.begun.clear();
            }
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
        passed_over
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LONGEST_LINE - self.begun.len();
        let kept = bytes.len().min(room);
        self.begun.extend_from_slice(&bytes[..kept]);
        self.passed_over += bytes.len() - kept;
    }

    /// Number of bytes of an incomplete line.
    pub fn unfinished(&self) -> usize {
        self.begun.len() + self.passed_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, usize, usize) {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        let passed_over =
            pieces.iter().map(|piece| lines.take_in(piece, |line| all.push(line.to_vec()))).sum();
        (all, passed_over, lines.unfinished())
    }

    #[test]
    fn lines_in_pieces_of_any_size_come_out_whole() {
        let text = b"#hungry\n\n4711/107\t\tok3 x\n#hun";
        let whole: Vec<Vec<u8>> =
            [&b"#hungry"[..], b"", b"4711/107\t\tok3 x"].iter().map(|line| line.to_vec()).collect();
        for size in 1..=text.len() {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(cut(&pieces), (whole.clone(), 0, 4), "pieces of {size}");
        }
    }

    #[test]
    fn line_of_ten_megabytes_is_cut_to_longest_line() {
        let mut text = vec![b'x'; 10_000_000];
        text.extend_from_slice(b"\nnext\n");
        for size in [text.len(), 4096] {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            let (lines, passed_over, unfinished) = cut(&pieces);
            assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [LONGEST_LINE, 4]);
            assert_eq!(passed_over, 10_000_000 - LONGEST_LINE);
            assert_eq!(unfinished, 0);
        }
    }
}
