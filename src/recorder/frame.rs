//! Frames: after a signature, a recording consists of frames with length and check value.
//!
//! So a truncated recording can be read up to the last complete frame.
//!
//! ```text
//! file   = "zsched recording\n", format (u32), frame...
//! frame  = length of the contents (u32), check value of length and contents (u64), contents
//! ```
//!
//! Numbers are little-endian.

use super::FORMAT;
use super::digest::Digest;
use std::io::{self, Read, Write};

/// The beginning of every recording.
const SIGNATURE: &[u8; 17] = b"zsched recording\n";
/// Number of bytes before the first frame.
pub(crate) const START: u64 = SIGNATURE.len() as u64 + 4;
/// Number of bytes before the contents of a frame.
pub(crate) const HEAD: u64 = 12;

/// Writes the part before the first frame.
pub(crate) fn write_start(out: &mut impl Write) -> io::Result<()> {
    out.write_all(SIGNATURE)?;
    out.write_all(&FORMAT.to_le_bytes())
}

/// Reads the part before the first frame, and returns the format version.
///
/// Returns `None` if the file is not a recording.
pub(crate) fn read_start(input: &mut impl Read) -> io::Result<Option<u32>> {
    let mut start = Vec::new();
    input.take(START).read_to_end(&mut start)?;
    let format = start.strip_prefix(SIGNATURE).and_then(|format| format.try_into().ok());
    Ok(format.map(u32::from_le_bytes))
}

/// Writes a frame.
pub(crate) fn write(out: &mut impl Write, contents: &[u8]) -> io::Result<()> {
    let length = u32::try_from(contents.len())
        .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "a frame of 4 GiB"))?;
    let mut head = [0; HEAD as usize];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&check(contents).to_le_bytes());
    out.write_all(&head)?;
    out.write_all(contents)
}

/// The result of reading a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FrameRead {
    /// A frame, with its contents.
    Frame(Vec<u8>),
    /// The end of the recording.
    End,
    /// The first bytes of a frame (their number): the recorder was stopped while it wrote.
    Torn(u64),
    /// A frame that was changed after it was written.
    Damaged,
}

/// Reads a frame, which with its head has at most `left` bytes.
pub(crate) fn read(input: &mut impl Read, left: u64) -> io::Result<FrameRead> {
    if left < HEAD {
        return Ok(if left == 0 { FrameRead::End } else { FrameRead::Torn(left) });
    }
    let mut head = [0; HEAD as usize];
    input.read_exact(&mut head)?;
    let (length, sum) = head.split_at(4);
    let length = u64::from(u32::from_le_bytes(length.try_into().expect("four bytes")));
    if length > left - HEAD {
        return Ok(FrameRead::Torn(left));
    }
    let mut contents = vec![0; length as usize];
    input.read_exact(&mut contents)?;
    let is_whole = check(&contents).to_le_bytes() == sum;
    Ok(if is_whole { FrameRead::Frame(contents) } else { FrameRead::Damaged })
}

fn check(contents: &[u8]) -> u64 {
    // The digest includes the length.
    let mut digest = Digest::new();
    digest.bytes(contents);
    digest.value()
}
