//! Reading a recording, frame by frame, entry by entry.

use super::entry::{self, Verdict, What};
use super::frame::{self, Found};
use super::header::Header;
use super::{FORMAT, Source};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;
use zsched_core::{Kept, Scheduler};
use zsched_format::time::Timestamp;

/// Why a recording cannot be read from its begin.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file as such.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Something else.
    #[error("it is no recording")]
    NoRecording,
    /// A recording of another program.
    #[error("it has format {0}, and this program reads format {FORMAT} only")]
    OtherFormat(u32),
    /// Its first frames are cut off or damaged.
    #[error("its begin is not whole, so nothing of it can be used")]
    NoBegin,
    /// What was kept is no state of a core of ours.
    #[error("its checkpoint does not belong to its configuration")]
    BadCheckpoint,
    /// The configuration in it cannot be used.
    #[error("the configuration in it cannot be read again: {0}")]
    BadConfiguration(String),
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a whole frame.
    Whole,
    /// Within a frame: the recorder was stopped while it wrote. So many bytes are of no use.
    Torn {
        /// Where that frame begins.
        offset: u64,
        /// How much there is of it.
        bytes: u64,
    },
    /// There is a frame that was changed since it was written.
    Damaged {
        /// Where it begins.
        offset: u64,
    },
}

/// An open recording.
pub struct Recording<R> {
    input: R,
    /// What it says of itself.
    pub header: Header,
    checkpoint: Option<Vec<u8>>,
    offset: u64,
    length: u64,
    block: Vec<u8>,
    /// Where in the file the block begins.
    block_offset: u64,
    /// How much of it has been read.
    read: usize,
    /// Where in it the last entry begins.
    last: usize,
    time: Timestamp,
    ending: Option<Ending>,
}

/// An entry of a recording.
#[derive(Debug)]
pub struct Entry<'f> {
    /// Where it begins, in bytes from the begin of the file.
    pub offset: u64,
    /// When the core was told.
    pub time: Timestamp,
    /// What.
    pub what: What<'f>,
    /// What it decided.
    pub verdict: Verdict,
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
    /// Reads the begin of a recording of so many bytes.
    pub fn new(mut input: R, length: u64) -> Result<Recording<R>, ReadError> {
        match frame::read_start(&mut input)? {
            Some(FORMAT) => {}
            Some(other) => return Err(ReadError::OtherFormat(other)),
            None => return Err(ReadError::NoRecording),
        }
        let mut offset = frame::START;
        let mut next = || match frame::read(&mut input, length.saturating_sub(offset))? {
            Found::Frame(contents) => {
                offset += frame::HEAD + contents.len() as u64;
                Ok(contents)
            }
            _ => Err(ReadError::NoBegin),
        };
        let (header, checkpoint) = (next()?, next()?);
        let header: Header = entry::read_whole(&header).map_err(|_| ReadError::NoBegin)?;
        Ok(Recording {
            input,
            time: header.begun,
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

    /// The core as it was when the file was begun.
    pub fn core(&mut self) -> Result<Scheduler, ReadError> {
        let checkpoint = self.checkpoint.take().ok_or(ReadError::BadCheckpoint)?;
        let kept: Kept = entry::read_whole(&checkpoint).map_err(|_| ReadError::BadCheckpoint)?;
        let config = read_source(&self.header.source)?;
        Scheduler::restore(kept, config).ok_or(ReadError::BadCheckpoint)
    }

    /// The next entry; `None` at the end.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry<'_>>> {
        if self.read == self.block.len() && !self.next_block()? {
            return Ok(None);
        }
        let offset = self.block_offset + self.read as u64;
        let unread = &self.block[self.read..];
        match entry::read(unread, self.time) {
            Ok((time, what, verdict, rest)) => {
                self.time = time;
                self.last = self.read;
                self.read = self.block.len() - rest.len();
                Ok(Some(Entry { offset, time, what, verdict }))
            }
            Err(_) => {
                self.ending = Some(Ending::Damaged { offset });
                self.read = self.block.len();
                Ok(None)
            }
        }
    }

    /// What the last entry says, once more.
    pub fn last_entry(&self) -> Option<What<'_>> {
        // Times count from the entry before, but nobody asks for it.
        let read = entry::read(self.block.get(self.last..)?, self.time);
        read.ok().map(|(_, what, _, _)| what)
    }

    fn next_block(&mut self) -> io::Result<bool> {
        while self.ending.is_none() {
            let offset = self.offset;
            match frame::read(&mut self.input, self.length.saturating_sub(offset))? {
                Found::Frame(contents) => {
                    self.block_offset = offset + frame::HEAD;
                    self.offset = self.block_offset + contents.len() as u64;
                    self.block = contents;
                    self.read = 0;
                    if !self.block.is_empty() {
                        return Ok(true);
                    }
                }
                Found::End => self.ending = Some(Ending::Whole),
                Found::Torn(bytes) => self.ending = Some(Ending::Torn { offset, bytes }),
                Found::Damaged => self.ending = Some(Ending::Damaged { offset }),
            }
        }
        Ok(false)
    }

    /// How it ends, when the last entry has been read.
    pub fn ending(&self) -> Ending {
        self.ending.unwrap_or(Ending::Whole)
    }
}

/// The configuration of a source.
pub fn read_source(source: &Source) -> Result<Rc<zsched_config::Config>, ReadError> {
    source.read().map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        ReadError::BadConfiguration(lines.join("\n"))
    })
}
