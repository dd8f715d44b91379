//! Output of agents is cut into the same lines, however the system cuts it into pieces.

use super::byte_source::ByteSource;
use zsched_format::line_buffer::{LineBuffer, MAX_LINE_LEN};

/// Marks a run of bytes; the next byte is its length in kB.
const RUN_MARKER: u8 = 0xfe;
/// Maximum length of a piece, in bytes.
const MAX_PIECE_LEN: usize = 64 * 1024;
/// Length of output, in bytes, after which an input adds no more.
const MAX_OUTPUT_LEN: usize = 512 * 1024;

/// The input has the lengths of the pieces up to the first 0, then the output.
pub fn run(bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let lengths: Vec<usize> = draw.until(0).iter().map(|length| piece_length(*length)).collect();
    let written = written(draw);
    let mut lengths = lengths.iter().copied().cycle();
    let mut lines = LineBuffer::default();
    let mut found: Vec<Vec<u8>> = Vec::new();
    let (mut passed_over, mut rest) = (0, &written[..]);
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(MAX_PIECE_LEN).min(rest.len());
        let (piece, behind) = rest.split_at(length);
        passed_over += lines.push(piece, |line| found.push(line.to_vec()));
        rest = behind;
    }
    let (expected, too_much, unfinished) = cut_at_once(&written);
    assert!(found == expected, "{} lines instead of {}", found.len(), expected.len());
    assert_eq!((passed_over, lines.incomplete_len()), (too_much, unfinished));
}

/// Returns a length between 1 byte and the maximum.
fn piece_length(byte: u8) -> usize {
    match byte {
        0..=200 => usize::from(byte.max(1)),
        _ => (usize::from(byte) - 200) * 1190,
    }
}

fn written(mut draw: ByteSource<'_>) -> Vec<u8> {
    let mut written = Vec::new();
    while !draw.is_over() && written.len() < MAX_OUTPUT_LEN {
        match draw.byte() {
            RUN_MARKER => written.resize(written.len() + 1024 * usize::from(draw.byte()), b'x'),
            byte => written.push(byte),
        }
    }
    written
}

/// Returns the lines and two numbers of bytes.
///
/// They are the bytes beyond the limit of lines, and those of the incomplete line.
fn cut_at_once(written: &[u8]) -> (Vec<Vec<u8>>, usize, usize) {
    let mut lines: Vec<&[u8]> = written.split(|byte| *byte == b'\n').collect();
    let unfinished = lines.pop().map_or(0, <[u8]>::len);
    let too_much = lines.iter().map(|line| line.len().saturating_sub(MAX_LINE_LEN)).sum();
    let cut = |line: &&[u8]| line[..line.len().min(MAX_LINE_LEN)].to_vec();
    (lines.iter().map(cut).collect(), too_much, unfinished)
}
