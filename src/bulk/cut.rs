//! A job whose packets are being cut.

use super::merge::HeaderTemplate;
use super::packet::{self, ExistingPacket, PacketContents};
use super::recipient::{RecipientLine, Status};
use super::{
    BulkOrders, BulkParameters, INDEX, JobId, MESSAGE, PacketNumber, RECIPIENTS, job_folder,
};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use zsched_spool::submit::Submitter;
use zsched_spool::{Spool, SpoolName};

/// Number of bytes of `recipients` that are read at a time.
const READ_SIZE: usize = 1 << 18;

/// Numbers of recipients of a job by their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct RecipientCounts {
    /// All recipients.
    pub all: u32,
    /// Recipients that are not final.
    pub pending: u32,
    /// Delivered recipients.
    pub delivered: u32,
    /// Recipients that have failed or expired.
    pub failed: u32,
    /// Recipients of packets in `postman/`.
    pub aside: u32,
    /// Recipients that ended without an outcome of an agent.
    ///
    /// They were deleted, rerouted or exported, the job was cancelled, or its deadline has passed.
    pub dropped: u32,
}

impl RecipientCounts {
    /// Counts a recipient.
    pub fn add(&mut self, status: Status) {
        self.all += 1;
        *match status {
            Status::Pending => &mut self.pending,
            Status::Delivered => &mut self.delivered,
            Status::Failed => &mut self.failed,
            Status::Aside => &mut self.aside,
            Status::Deleted
            | Status::Rerouted
            | Status::Cancelled
            | Status::TooLate
            | Status::Exported => &mut self.dropped,
        } += 1;
    }
}

/// A destination of a job with recipients that are not cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct BulkDestination {
    /// Offset of its first recipient in `recipients`, which identifies it.
    pub offset: u32,
    /// Delivery channel.
    pub channel: String,
    /// Next host, in lower case; `-` for none.
    pub host: String,
    /// Number of recipients that are not cut.
    pub left: u32,
}

/// A packet that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadePacket {
    /// Its number.
    pub number: PacketNumber,
    /// The name of its files.
    pub name: SpoolName,
    /// Number of its recipients.
    pub recipients: u32,
}

/// A job that is open for cutting packets.
pub struct OpenJob {
    id: JobId,
    /// Its parameters.
    pub parameters: BulkParameters,
    /// What operators have changed.
    pub orders: BulkOrders,
    /// The recipients when the job was opened.
    pub counts: RecipientCounts,
    recipients: File,
    index: BufReader<File>,
    template: HeaderTemplate,
    /// Offsets of recipients in packets that existed when the job was opened.
    in_packets: BTreeSet<u32>,
    /// Destinations from which packets are cut.
    cursors: HashMap<u32, Cursor>,
}

/// The lines of a destination that may still have to be cut.
struct Cursor {
    channel: String,
    host: String,
    /// Offset of the next line.
    next: u32,
    /// Number of lines from there on.
    lines: u32,
}

impl OpenJob {
    /// Opens a job. `packets` are its packets in the spool.
    pub fn open(spool: &Spool, id: JobId, packets: &[ExistingPacket]) -> io::Result<OpenJob> {
        let folder = job_folder(spool, id);
        let parameters = BulkParameters::read(spool, id)?;
        let recipients = File::open(folder.join(RECIPIENTS))?;
        let counts = count(&recipients)?;
        let mut headers = vec![0; parameters.body_offset as usize];
        File::open(folder.join(MESSAGE))?.read_exact(&mut headers)?;
        // The empty line before the body is no header.
        headers.pop_if(|last| *last == b'\n');
        let template = match parameters.merge {
            true => HeaderTemplate::parse(&headers),
            false => HeaderTemplate::constant(headers),
        };
        Ok(OpenJob {
            id,
            parameters,
            orders: BulkOrders::read(spool, id)?,
            counts,
            recipients,
            index: BufReader::new(File::open(folder.join(INDEX))?),
            template,
            in_packets: packets.iter().flat_map(|packet| &packet.offsets).copied().collect(),
            cursors: HashMap::new(),
        })
    }

    /// The next destinations with recipients that are not cut. Also returns true after the last.
    pub fn next_destinations(
        &mut self,
        at_most: usize,
    ) -> io::Result<(Vec<BulkDestination>, bool)> {
        let (mut found, mut line) = (Vec::new(), String::new());
        while found.len() < at_most {
            line.clear();
            if self.index.read_line(&mut line)? == 0 {
                return Ok((found, true));
            }
            let (offset, lines, channel, host) = parse_index_line(line.trim_end_matches('\n'))
                .ok_or_else(|| {
                    let text = format!("bulk/{}/{INDEX}: malformed line {line:?}", self.id);
                    io::Error::new(ErrorKind::InvalidData, text)
                })?;
            let is_untouched = self.counts.pending == self.counts.all && self.in_packets.is_empty();
            let left = if is_untouched { lines } else { self.count_uncut(offset, lines)? };
            if left > 0 {
                let (channel, host) = (channel.to_string(), host.to_string());
                let cursor =
                    Cursor { channel: channel.clone(), host: host.clone(), next: offset, lines };
                self.cursors.insert(offset, cursor);
                found.push(BulkDestination { offset, channel, host, left });
            }
        }
        Ok((found, false))
    }

    /// Starts again with the first destination, to find recipients that are in no packet any more.
    pub fn rewind(&mut self, packets: &[ExistingPacket]) -> io::Result<()> {
        self.counts = count(&self.recipients)?;
        self.index.seek(SeekFrom::Start(0))?;
        self.cursors.clear();
        self.in_packets = packets.iter().flat_map(|packet| &packet.offsets).copied().collect();
        Ok(())
    }

    fn count_uncut(&mut self, offset: u32, lines: u32) -> io::Result<u32> {
        let (mut left, in_packets) = (0, &self.in_packets);
        for_each_line(&self.recipients, offset, lines, |at, line| {
            left += u32::from(is_uncut(in_packets, at, line));
            Ok(true)
        })?;
        Ok(left)
    }

    /// Makes a packet of the next recipients of a destination.
    ///
    /// `None` if none are left. The packet is a visible control file when this returns.
    pub fn make_packet(
        &mut self,
        submitter: &Submitter,
        destination: u32,
        at_most: u32,
    ) -> io::Result<Option<MadePacket>> {
        let Some(cursor) = self.cursors.get(&destination) else {
            return Ok(None);
        };
        let (mut offsets, mut lines) = (Vec::new(), Vec::new());
        let (mut next, mut left) = (cursor.next, cursor.lines);
        let in_packets = &self.in_packets;
        for_each_line(&self.recipients, cursor.next, cursor.lines, |at, line| {
            if offsets.len() == at_most.max(1) as usize {
                return Ok(false);
            }
            if is_uncut(in_packets, at, line) {
                offsets.push(at);
                lines.push(line[1..].to_vec());
            }
            (next, left) = (at + line.len() as u32 + 1, left - 1);
            Ok(true)
        })?;
        let Some(first) = offsets.first() else {
            self.cursors.remove(&destination);
            return Ok(None);
        };
        let mut recipients = Vec::new();
        for line in &lines {
            recipients.push(RecipientLine::parse(line).map_err(|error| {
                let text = format!("bulk/{}/{RECIPIENTS}: at byte {first}: {error}", self.id);
                io::Error::new(ErrorKind::InvalidData, text)
            })?);
        }
        let number = PacketNumber { job: self.id, offset: *first };
        let contents = PacketContents {
            parameters: &self.parameters,
            template: &self.template,
            channel: &cursor.channel,
            host: &cursor.host,
            offsets: &offsets,
            recipients: &recipients,
        };
        let name = packet::make(submitter, number, &contents)?;
        let recipients = offsets.len() as u32;
        match (left, self.cursors.get_mut(&destination)) {
            (0, _) => drop(self.cursors.remove(&destination)),
            (_, Some(cursor)) => (cursor.next, cursor.lines) = (next, left),
            (_, None) => {}
        }
        Ok(Some(MadePacket { number, name, recipients }))
    }

    /// Ends all recipients that are not cut. Returns their number.
    ///
    /// `packets` are the job's packets in the spool.
    pub fn drop_rest(
        &mut self,
        spool: &Spool,
        packets: &[ExistingPacket],
        status: Status,
    ) -> io::Result<u32> {
        let path = job_folder(spool, self.id).join(RECIPIENTS);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        self.rewind(packets)?;
        let (mut dropped, in_packets) = (0, &self.in_packets);
        for_each_line(&file, 0, self.counts.all, |at, line| {
            if is_uncut(in_packets, at, line) {
                // One byte at a time: the writer changes others meanwhile.
                file.write_all_at(&[status.byte()], at.into())?;
                dropped += 1;
            }
            Ok(true)
        })?;
        file.sync_data()?;
        self.counts.pending -= dropped;
        self.counts.dropped += dropped;
        Ok(dropped)
    }
}

fn is_uncut(in_packets: &BTreeSet<u32>, at: u32, line: &[u8]) -> bool {
    line.first() == Some(&Status::Pending.byte()) && !in_packets.contains(&at)
}

fn parse_index_line(line: &str) -> Option<(u32, u32, &str, &str)> {
    let mut words = line.splitn(4, ' ');
    let (offset, count) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((offset, count, words.next()?, words.next()?))
}

/// Calls `each` with the offsets and texts of lines, until it returns false.
pub(super) fn for_each_line(
    file: &File,
    from: u32,
    lines: u32,
    mut each: impl FnMut(u32, &[u8]) -> io::Result<bool>,
) -> io::Result<()> {
    // A small destination needs no large buffer.
    let size = READ_SIZE.min(lines.saturating_mul(64).max(512) as usize);
    let mut reader = BufReader::with_capacity(size, At { file, position: from.into() });
    let (mut at, mut line) = (from, Vec::new());
    for _ in 0..lines {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            let text = format!("a line of recipients is cut short at byte {at}");
            return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
        }
        if !each(at, &line)? {
            break;
        }
        at = at.saturating_add(length as u32);
    }
    Ok(())
}

/// Reads a file from a position, without moving that of the file.
struct At<'f> {
    file: &'f File,
    position: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(buffer, self.position)?;
        self.position += length as u64;
        Ok(length)
    }
}

/// Counts all recipients by their status.
pub(super) fn count(file: &File) -> io::Result<RecipientCounts> {
    let mut counts = RecipientCounts::default();
    let mut reader = BufReader::with_capacity(READ_SIZE, At { file, position: 0 });
    let mut is_start = true;
    loop {
        let text = reader.fill_buf()?;
        if text.is_empty() {
            return Ok(counts);
        }
        let mut take = |byte: Option<&u8>| {
            if let Some(status) = byte.and_then(|byte| Status::of_byte(*byte)) {
                counts.add(status);
            }
        };
        if is_start {
            take(text.first());
        }
        for end in memchr::memchr_iter(b'\n', text) {
            take(text.get(end + 1));
        }
        is_start = text.ends_with(b"\n");
        let length = text.len();
        reader.consume(length);
    }
}

/// Replaces the message by a copy if it is older than `age` seconds.
///
/// Its time is the arrival of the packets made from it, and they expire by it.
pub(super) fn renew_message(spool: &Spool, job: JobId, age: i64) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let path = job_folder(spool, job).join(MESSAGE);
    let metadata = fs::metadata(&path)?;
    let now = zsched_format::time::Timestamp::now().seconds();
    if now - metadata.mtime() <= age {
        return Ok(());
    }
    let new = zsched_sys::with_suffix(&path, ".new");
    zsched_sys::if_exists(fs::remove_file(&new))?;
    fs::copy(&path, &new)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, &path)
}
