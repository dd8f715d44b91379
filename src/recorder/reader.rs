//! Reads a recording, frame by frame and entry by entry.

use super::entry::{self, DecisionCheck, ReadInput};
use super::frame::{self, FrameRead};
use super::header::Header;
use super::{ConfigSource, FORMAT};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;
use zsched_core::{SavedState, Scheduler};
use zsched_format::time::Timestamp;

/// The reason why a recording cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An error of the file itself.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not a recording.
    #[error("not a recording")]
    NotARecording,
    /// A recording with another version of the format.
    #[error("recording format {0} is not supported; this program reads format {FORMAT}")]
    OtherFormat(u32),
    /// Its first frames are truncated or damaged.
    #[error("the beginning of the recording is damaged")]
    DamagedStart,
    /// The checkpoint is not a valid state of the core.
    #[error("the checkpoint of the recording is invalid")]
    BadCheckpoint,
    /// The configuration in it cannot be used.
    #[error("the recorded configuration is invalid: {0}")]
    BadConfiguration(String),
}

/// The state of a recording's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    /// It ends with a complete frame.
    Whole,
    /// It ends within a frame, because the recorder was stopped while it wrote.
    Torn {
        /// Offset of that frame.
        offset: u64,
        /// Number of bytes of that frame in the file, which are not used.
        bytes: u64,
    },
    /// A frame was changed after it was written.
    Damaged {
        /// Offset of that frame.
        offset: u64,
    },
}

/// An open recording.
pub struct Recording<R> {
    input: R,
    /// The header.
    pub header: Header,
    checkpoint: Option<Vec<u8>>,
    offset: u64,
    length: u64,
    block: Vec<u8>,
    /// Offset of the block in the file.
    block_offset: u64,
    /// Number of its bytes that have been read.
    read: usize,
    /// Offset of the last entry in it.
    last: usize,
    time: Timestamp,
    ending: Option<RecordingEnd>,
}

/// An entry of a recording.
#[derive(Debug)]
pub(crate) struct RecordedEntry<'f> {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Time of the event.
    pub time: Timestamp,
    /// The input of the core.
    pub input: ReadInput<'f>,
    /// The decisions of the core.
    pub verdict: DecisionCheck,
}

impl Recording<BufReader<File>> {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Recording::new(BufReader::with_capacity(1 << 16, file), length)
    }
}

impl<R: Read> Recording<R> {
    /// Reads the beginning of a recording of `length` bytes.
    pub fn new(mut input: R, length: u64) -> Result<Recording<R>, ReadError> {
        match frame::read_start(&mut input)? {
            Some(FORMAT) => {}
            Some(other) => return Err(ReadError::OtherFormat(other)),
            None => return Err(ReadError::NotARecording),
        }
        let mut offset = frame::START;
        let mut next = || match frame::read(&mut input, length.saturating_sub(offset))? {
            FrameRead::Frame(contents) => {
                offset += frame::HEAD + contents.len() as u64;
                Ok(contents)
            }
            _ => Err(ReadError::DamagedStart),
        };
        let (header, checkpoint) = (next()?, next()?);
        let header: Header = postcard::from_bytes(&header).map_err(|_| ReadError::DamagedStart)?;
        Ok(Recording {
            input,
            time: header.started,
            header,
            checkpoint: Some(checkpoint),
            offset,
            length,
            block: Vec::new(),
            block_offset: offset,
            read: 0,
            last: 0,
            ending: None,
        })
    }

    /// The state of the core at the beginning of the file.
    pub fn core(&mut self) -> Result<Scheduler, ReadError> {
        let checkpoint = self.checkpoint.take().ok_or(ReadError::BadCheckpoint)?;
        let kept: SavedState =
            postcard::from_bytes(&checkpoint).map_err(|_| ReadError::BadCheckpoint)?;
        let config = read_source(&self.header.source)?;
        Scheduler::restore(kept, config).ok_or(ReadError::BadCheckpoint)
    }

    /// The next entry; `None` at the end.
    pub(crate) fn next_entry(&mut self) -> io::Result<Option<RecordedEntry<'_>>> {
        if self.read == self.block.len() && !self.next_block()? {
            return Ok(None);
        }
        let offset = self.block_offset + self.read as u64;
        let unread = &self.block[self.read..];
        match entry::read(unread, self.time) {
            Ok((time, input, verdict, rest)) => {
                self.time = time;
                self.last = self.read;
                self.read = self.block.len() - rest.len();
                Ok(Some(RecordedEntry { offset, time, input, verdict }))
            }
            Err(_) => {
                self.ending = Some(RecordingEnd::Damaged { offset });
                self.read = self.block.len();
                Ok(None)
            }
        }
    }

    /// The contents of the last entry again.
    pub(crate) fn last_entry(&self) -> Option<ReadInput<'_>> {
        // The time would be relative to the previous entry, but it is not used.
        let read = entry::read(self.block.get(self.last..)?, self.time);
        read.ok().map(|(_, input, _, _)| input)
    }

    fn next_block(&mut self) -> io::Result<bool> {
        while self.ending.is_none() {
            let offset = self.offset;
            match frame::read(&mut self.input, self.length.saturating_sub(offset))? {
                FrameRead::Frame(contents) => {
                    self.block_offset = offset + frame::HEAD;
                    self.offset = self.block_offset + contents.len() as u64;
                    self.block = contents;
                    self.read = 0;
                    if !self.block.is_empty() {
                        return Ok(true);
                    }
                }
                FrameRead::End => self.ending = Some(RecordingEnd::Whole),
                FrameRead::Torn(bytes) => self.ending = Some(RecordingEnd::Torn { offset, bytes }),
                FrameRead::Damaged => self.ending = Some(RecordingEnd::Damaged { offset }),
            }
        }
        Ok(false)
    }

    /// The state of the end, after the last entry has been read.
    pub fn ending(&self) -> RecordingEnd {
        self.ending.unwrap_or(RecordingEnd::Whole)
    }
}

/// The configuration of a source.
pub(crate) fn read_source(source: &ConfigSource) -> Result<Rc<zsched_config::Config>, ReadError> {
    source.read().map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        ReadError::BadConfiguration(lines.join("\n"))
    })
}
