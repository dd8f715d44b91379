//! Splits the output of an agent into lines of bounded length.

use memchr::memchr;

/// Maximum length of a line, in bytes. The rest of a longer line is skipped.
///
/// Real agents write lines of up to about 8 kB.
pub const MAX_LINE_LEN: usize = 64 * 1024;

/// Collects bytes and emits complete lines.
#[derive(Default)]
pub struct LineBuffer {
    /// Beginning of an incomplete line, at most [`MAX_LINE_LEN`] bytes.
    partial_line: Vec<u8>,
    /// Number of skipped bytes of that line.
    skipped: usize,
}

impl LineBuffer {
    /// Adds bytes, and calls `line` for each complete line, without its line end.
    ///
    /// Returns the number of skipped bytes of overlong lines.
    pub fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) -> usize {
        let mut passed_over = 0;
        while let Some(end) = memchr(b'\n', bytes) {
            if self.partial_line.is_empty() && end <= MAX_LINE_LEN {
                line(&bytes[..end]);
            } else {
                self.keep(&bytes[..end]);
                line(&self.partial_line);
                passed_over += std::mem::take(&mut self.skipped);
                self.partial_line.clear();
            }
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
        passed_over
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_LINE_LEN - self.partial_line.len();
        let kept = bytes.len().min(room);
        self.partial_line.extend_from_slice(&bytes[..kept]);
        self.skipped += bytes.len() - kept;
    }

    /// Number of bytes of an incomplete line.
    pub fn incomplete_len(&self) -> usize {
        self.partial_line.len() + self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, usize, usize) {
        let mut lines = LineBuffer::default();
        let mut all = Vec::new();
        let passed_over =
            pieces.iter().map(|piece| lines.push(piece, |line| all.push(line.to_vec()))).sum();
        (all, passed_over, lines.incomplete_len())
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
            assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [MAX_LINE_LEN, 4]);
            assert_eq!(passed_over, 10_000_000 - MAX_LINE_LEN);
            assert_eq!(unfinished, 0);
        }
    }
}
