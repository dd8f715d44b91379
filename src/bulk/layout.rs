//! The order of recipients on disk: grouped by destination, each once.

use super::recipient::RecipientLine;
use super::sorter::LineSorter;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Recipients that are being collected, in any order.
pub struct RecipientSorter {
    /// The folder of temporary files.
    folder: PathBuf,
    records: LineSorter,
}

/// Recipients in their order on disk.
pub struct LaidOut {
    /// Lines of the index, with those of most recipients first.
    index: LineSorter,
    /// Number of the recipients.
    pub recipients: u32,
    /// Number of recipients that were given more than once.
    pub repeated: u64,
    /// Length of the lines of the recipients, in bytes.
    pub length: u64,
}

impl RecipientSorter {
    /// Creates a sorter. More than memory holds goes to temporary files in `folder`.
    pub fn new(folder: &Path) -> RecipientSorter {
        let records = LineSorter::new(folder.join("run-"));
        RecipientSorter { folder: folder.to_path_buf(), records }
    }

    /// Adds a recipient. Without a `host`, that is the domain of the address.
    pub fn add(
        &mut self,
        channel: &str,
        host: Option<&str>,
        line: &RecipientLine<'_>,
    ) -> io::Result<()> {
        let (domain, text) = (line.domain(), line.to_string());
        let host = host.map_or_else(|| domain.clone(), str::to_ascii_lowercase);
        // Domains in lower case make equal addresses equal lines.
        let (local, rest) = text.split_at(line.address.len() - domain.len());
        let rest = &rest[domain.len()..];
        let record = format!("{host}\0{channel}\0{local}{domain}{rest}");
        self.records.push(record.as_bytes())
    }

    /// Writes the lines of all recipients, which begin at `start` in their file.
    ///
    /// `is_new` gets destination and address of each, and returns false for one that the job has
    /// already.
    pub fn write(
        self,
        start: u64,
        out: &mut impl Write,
        mut is_new: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<LaidOut> {
        let index = LineSorter::new(self.folder.join("index-"));
        let mut written = LaidOut { index, recipients: 0, repeated: 0, length: 0 };
        let mut last = Vec::new();
        let mut destination: Option<DestinationEntry> = None;
        self.records.finish(|record| {
            let mut parts = record.splitn(3, |byte| *byte == 0);
            let [host, channel, line] = [(); 3].map(|()| parts.next().unwrap_or_default());
            let address_end = memchr::memchr(b'\t', line).unwrap_or(line.len());
            let key = &record[..record.len() - line.len() + address_end];
            if last == key || !is_new(key) {
                written.repeated += 1;
                return Ok(());
            }
            last = key.to_vec();
            let is_same =
                |entry: &&mut DestinationEntry| entry.host == host && entry.channel == channel;
            match destination.as_mut().filter(is_same) {
                Some(entry) => entry.count += 1,
                None => {
                    let (host, channel) = (host.to_vec(), channel.to_vec());
                    let offset = start + written.length;
                    let entry = DestinationEntry { host, channel, offset, count: 1 };
                    if let Some(former) = destination.replace(entry) {
                        former.push_to(&mut written.index)?;
                    }
                }
            }
            out.write_all(b" ")?;
            out.write_all(line)?;
            out.write_all(b"\n")?;
            written.length += line.len() as u64 + 2;
            written.recipients += 1;
            match u32::try_from(start + written.length) {
                Ok(_) => Ok(()),
                Err(_) => Err(io::Error::new(
                    ErrorKind::InvalidInput,
                    "the recipients of a job take more than 4 GiB",
                )),
            }
        })?;
        if let Some(last) = destination {
            last.push_to(&mut written.index)?;
        }
        Ok(written)
    }
}

impl LaidOut {
    /// Writes the lines of the index. Returns their length in bytes.
    pub fn write_index(self, out: &mut impl Write) -> io::Result<u64> {
        let mut length = 0;
        self.index.finish(|line| {
            // It begins with a number that sorts it.
            let line = line.splitn(2, |byte| *byte == b' ').nth(1).unwrap_or_default();
            out.write_all(line)?;
            out.write_all(b"\n")?;
            length += line.len() as u64 + 1;
            Ok(())
        })?;
        Ok(length)
    }
}

/// A line of the index.
struct DestinationEntry {
    host: Vec<u8>,
    channel: Vec<u8>,
    offset: u64,
    count: u32,
}

impl DestinationEntry {
    fn push_to(&self, index: &mut LineSorter) -> io::Result<()> {
        let DestinationEntry { host, channel, offset, count } = self;
        let host: &[u8] = if host.is_empty() { b"-" } else { host };
        let numbers = format!("{:010} {offset} {count} ", u32::MAX - count);
        index.push(&[numbers.as_bytes(), channel, b" ", host].concat())
    }
}
