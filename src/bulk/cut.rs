//! A job whose packets are being cut.

use super::counts::RecipientCounts;
use super::job_folder;
use super::merge::HeaderTemplate;
use super::packet::{self, ExistingPacket, OpenedPacket, PacketContents, PacketFolder};
use super::recipient::{RecipientLine, Status};
use super::store::{Store, StoreReader};
use super::stream::StreamProgress;
use super::{BulkOrders, BulkParameters, INDEX, JobId, MESSAGE, PacketNumber, RECIPIENTS};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use zsched_format::control_file::Tag;
use zsched_format::merge::MergeFields;
use zsched_format::time::Timestamp;
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, PossibleDuplicate, PossibleDuplicates, Spool, SpoolId, SpoolName};

/// Number of bytes of `recipients` that are read at a time.
const READ_SIZE: usize = 1 << 18;
/// Maximum size of a control file, in bytes, if it has more than one recipient.
const MAX_PACKET_SIZE: usize = 4 << 20;
/// Maximum number of packets that are synced together.
const MAX_PACKETS_PER_SYNC: usize = 256;
/// Maximum size of the control files that are synced together, in bytes.
const MAX_BYTES_PER_SYNC: usize = 16 << 20;
/// Maximum number of recipients in one report of possible duplicates.
const MAX_REPORTED_TOGETHER: usize = 1000;

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

/// Packets that are to be made of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedPackets {
    /// Offset of the first recipient of the destination.
    pub destination: u32,
    /// Maximum number of packets.
    pub packets: u32,
    /// Maximum number of recipients in each.
    pub at_most: u32,
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

/// A packet that is to be made.
pub struct PlannedPacket {
    /// Its number.
    pub number: PacketNumber,
    /// The name of its files.
    pub name: SpoolName,
    /// Number of its recipients.
    pub recipients: u32,
    /// The control file.
    pub text: Vec<u8>,
    /// The packet has a message file of its own, with these fields in its body.
    pub(super) merged_body: Option<MergeFields>,
    pub(super) body_offset: u64,
    /// Place of its destination among those that are wanted.
    place: usize,
    /// The lines of its recipients.
    lines: Vec<(u32, Vec<u8>)>,
    /// The destination, and where to begin if the packet cannot be made.
    from: (u32, Cursor),
}

/// A job that is open for cutting packets.
///
/// `S` is where its files are.
pub struct OpenJob<S = File> {
    id: JobId,
    /// Its parameters.
    pub parameters: BulkParameters,
    /// What operators have changed.
    pub orders: BulkOrders,
    /// The recipients when they were last counted.
    pub counts: RecipientCounts,
    /// True if recipients were in packets then.
    pub had_packets: bool,
    recipients: S,
    index: S,
    /// Position of the next destination in the index.
    index_position: u64,
    /// What is submitted so far.
    progress: StreamProgress,
    template: HeaderTemplate,
    /// Destinations from which packets are cut.
    cursors: HashMap<u32, Cursor>,
    /// Each recipient gets a message file of its own if the body has fields.
    copies_body: bool,
}

/// The lines of a destination that may still have to be cut.
#[derive(Clone)]
struct Cursor {
    channel: String,
    host: String,
    /// Offset of the next line.
    next: u32,
    /// Number of lines from there on.
    lines: u32,
}

impl OpenJob {
    /// Opens a job of a spool. [`take_up`](OpenJob::take_up) must follow.
    pub fn open(spool: &Spool, id: JobId) -> io::Result<OpenJob> {
        let folder = job_folder(spool, id);
        let parameters = BulkParameters::read(spool, id)?;
        let orders = BulkOrders::read(spool, id)?;
        let mut headers = vec![0; parameters.header_length()];
        File::open(folder.join(MESSAGE))?.read_exact(&mut headers)?;
        let recipients = OpenOptions::new().read(true).write(true).open(folder.join(RECIPIENTS))?;
        let index = File::open(folder.join(INDEX))?;
        let progress = StreamProgress::read(spool, id, &parameters)?;
        OpenJob::new(id, parameters, orders, headers, [recipients, index], progress)
    }

    /// Takes up what was submitted since. Returns true if that is anything, or the end.
    pub fn grow(&mut self, spool: &Spool) -> io::Result<bool> {
        let progress = StreamProgress::read(spool, self.id, &self.parameters)?;
        if progress == self.progress {
            return Ok(false);
        }
        self.progress = progress;
        (self.counts, _) = count(&self.recipients, self.progress.recipient_bytes)?;
        Ok(true)
    }

    /// Makes packets, as ordinary messages of the spool. See
    /// [`make_packets_in`](OpenJob::make_packets_in).
    pub fn make_packets(
        &mut self,
        submitter: &Submitter,
        wanted: &[WantedPackets],
    ) -> Vec<io::Result<Vec<MadePacket>>> {
        match packet::renew_message(submitter, self.id) {
            Ok(received) => self.make_packets_in(submitter, submitter.level, received, wanted),
            Err(error) => wanted.iter().map(|_| Err(copy_of(&error))).collect(),
        }
    }
}

impl<S: Store> OpenJob<S> {
    /// Opens a job with its files: the recipients, and the index.
    ///
    /// `headers` are those of the message, and the empty line after them.
    pub fn new(
        id: JobId,
        parameters: BulkParameters,
        orders: BulkOrders,
        mut headers: Vec<u8>,
        [recipients, index]: [S; 2],
        progress: StreamProgress,
    ) -> io::Result<OpenJob<S>> {
        let (counts, cut) = count(&recipients, progress.recipient_bytes)?;
        // The empty line before the body is no header.
        headers.pop_if(|last| *last == b'\n');
        let template = match parameters.merge {
            true => HeaderTemplate::parse(&headers),
            false => HeaderTemplate::constant(headers),
        };
        Ok(OpenJob {
            id,
            parameters,
            orders,
            counts,
            had_packets: cut > 0,
            recipients,
            index,
            index_position: 0,
            progress,
            template,
            cursors: HashMap::new(),
            copies_body: false,
        })
    }

    /// From now on, packets are for agents that do not merge fields into the body.
    ///
    /// If it has any, each recipient gets a packet and a copy of the message.
    pub fn copy_body(&mut self) {
        self.copies_body = self.parameters.body_fields.is_some();
    }

    /// Returns true if all recipients are submitted.
    pub fn is_complete(&self) -> bool {
        self.progress.is_complete
    }

    /// Compares the marks of recipients with the packets in the spool.
    ///
    /// A recipient that is marked as cut and is in no packet is lost: somebody else may have
    /// delivered its packet, and it must not be sent again without a decision. Returns the number
    /// of recipients that were found to be lost.
    ///
    /// The packets must have been listed before: the outcomes of one that has left meanwhile are
    /// written before it leaves.
    pub fn reconcile(&mut self, packets: &[ExistingPacket]) -> io::Result<u32> {
        let mut known: Vec<u32> = packets.iter().flat_map(ExistingPacket::offsets).collect();
        known.sort_unstable();
        let mut known = known.into_iter().peekable();
        let (mut lost, mut changed) = (0, false);
        for_each_line(&self.recipients, 0, self.counts.all, |at, line| {
            while known.next_if(|offset| *offset < at).is_some() {}
            let is_in_packet = known.peek() == Some(&at);
            let status = line.first().and_then(|byte| Status::of_byte(*byte));
            let status = match (status, is_in_packet) {
                (Some(Status::Cut), false) => Status::Lost,
                (Some(Status::Pending | Status::Lost), true) => Status::Cut,
                _ => return Ok(true),
            };
            lost += u32::from(status == Status::Lost);
            changed = true;
            self.recipients.write_at(&[status.byte()], at.into())?;
            Ok(true)
        })?;
        if changed {
            self.recipients.sync()?;
            (self.counts, _) = count(&self.recipients, self.progress.recipient_bytes)?;
        }
        Ok(lost)
    }

    /// Takes up the packets in the spool, and starts with the first destination.
    ///
    /// From then on their recipients count as pending: a packet counts what has become of them.
    pub fn take_up(&mut self, packets: &[ExistingPacket]) -> io::Result<Vec<OpenedPacket>> {
        self.reconcile(packets)?;
        self.rewind()?;
        self.had_packets |= !packets.is_empty();
        packets.iter().map(|packet| self.take_up_packet(packet)).collect()
    }

    fn take_up_packet(&mut self, packet: &ExistingPacket) -> io::Result<OpenedPacket> {
        let recipients = packet.recipients.len() as u32;
        let (mut delivered, mut failed, mut removed) = (0, 0, 0);
        for (offset, tag) in &packet.recipients {
            let status = self.status_of(*offset)?.filter(|status| status.is_final());
            status.into_iter().for_each(|status| self.counts.reopen(status));
            let is_removed = status.is_some_and(Status::is_ended_by_operator);
            match tag {
                Tag::Done if is_removed => removed += 1,
                Tag::Done => delivered += 1,
                Tag::Failed => failed += 1,
                // A kill has prevented that it ended.
                _ if is_removed => {
                    self.recipients.write_at(&[Status::Cut.byte()], (*offset).into())?;
                }
                _ => {}
            }
        }
        let offset = packet.number.offset;
        Ok(OpenedPacket { offset, recipients, delivered, failed, removed })
    }

    fn status_of(&self, offset: u32) -> io::Result<Option<Status>> {
        let mut byte = [0];
        self.recipients.read_at(&mut byte, offset.into())?;
        Ok(Status::of_byte(byte[0]))
    }

    /// Counts all recipients again, and starts again with the first destination.
    pub fn rewind(&mut self) -> io::Result<RecipientCounts> {
        let (counts, cut) = count(&self.recipients, self.progress.recipient_bytes)?;
        (self.counts, self.had_packets) = (counts, cut > 0);
        self.index_position = 0;
        self.cursors.clear();
        Ok(counts)
    }

    /// The next destinations with recipients that are not cut. Also returns true after the last.
    pub fn next_destinations(
        &mut self,
        at_most: usize,
    ) -> io::Result<(Vec<BulkDestination>, bool)> {
        let is_untouched = self.counts.pending == self.counts.all && !self.had_packets;
        let reader = StoreReader::new(&self.index, self.index_position, self.progress.index_bytes);
        let (mut reader, mut found) = (BufReader::new(reader), Vec::new());
        let (mut line, mut cursors) = (String::new(), Vec::new());
        let (mut is_last, mut position) = (false, self.index_position);
        while found.len() < at_most {
            line.clear();
            let length = reader.read_line(&mut line)?;
            if length == 0 {
                is_last = true;
                break;
            }
            let entry = IndexEntry::parse(self.id, &line)?;
            let IndexEntry { offset, lines, channel, host } = entry;
            let left = if is_untouched { lines } else { self.count_uncut(offset, lines)? };
            if left > 0 {
                let (channel, host) = (channel.to_string(), host.to_string());
                let (of_channel, of_host) = (channel.clone(), host.clone());
                cursors.push(Cursor { channel: of_channel, host: of_host, next: offset, lines });
                found.push(BulkDestination { offset, channel, host, left });
            }
            position += length as u64;
        }
        self.index_position = position;
        self.cursors.extend(found.iter().map(|destination| destination.offset).zip(cursors));
        Ok((found, is_last))
    }

    fn count_uncut(&self, offset: u32, lines: u32) -> io::Result<u32> {
        let mut left = 0;
        for_each_line(&self.recipients, offset, lines, |_, line| {
            left += u32::from(has_status(line, Status::Pending));
            Ok(true)
        })?;
        Ok(left)
    }

    /// Makes packets. Their message was `received` at this time, in seconds since the epoch.
    ///
    /// Each result has what was made of a wanted destination: nothing if no recipients are left,
    /// and fewer packets than wanted if some could not be made. When this returns, the packets are
    /// visible, and their recipients are marked as cut.
    pub fn make_packets_in<F: PacketFolder>(
        &mut self,
        folder: &F,
        level: HashLevel,
        received: i64,
        wanted: &[WantedPackets],
    ) -> Vec<io::Result<Vec<MadePacket>>> {
        let mut made: Vec<io::Result<Vec<MadePacket>>> =
            wanted.iter().map(|_| Ok(Vec::new())).collect();
        let wanted = wanted.iter().copied().enumerate().rev();
        let mut wanted: Vec<(usize, WantedPackets)> = wanted.collect();
        while !wanted.is_empty() {
            let (planned, failed) = self.plan(level, &mut wanted, received);
            failed.into_iter().for_each(|(place, error)| made[place] = Err(error));
            for (place, outcome) in self.make_planned(folder, planned) {
                // What was made is reported; the rest is tried again.
                match (&mut made[place], outcome) {
                    (Ok(made), Ok(packet)) => made.push(packet),
                    (Err(_), Ok(packet)) => made[place] = Ok(vec![packet]),
                    (so_far, Err(error)) => {
                        wanted.retain(|(other, _)| *other != place);
                        if so_far.as_ref().is_ok_and(Vec::is_empty) {
                            *so_far = Err(error);
                        }
                    }
                }
            }
        }
        made
    }

    /// Writes planned packets. The recipients of those that cannot be written are not cut.
    fn make_planned<F: PacketFolder>(
        &mut self,
        folder: &F,
        planned: Vec<PlannedPacket>,
    ) -> Vec<(usize, io::Result<MadePacket>)> {
        let hidden = folder.stage(self.id, &planned);
        let is_hidden = |(_, hidden): &(&PlannedPacket, &io::Result<F::Staged>)| hidden.is_ok();
        let to_mark = planned.iter().zip(&hidden).filter(is_hidden).map(|(packet, _)| packet);
        let marked = self.mark_cut(to_mark);
        let mut outcomes = Vec::new();
        for (packet, hidden) in planned.into_iter().zip(hidden) {
            let published = hidden.and_then(|hidden| match &marked {
                Ok(()) => folder.publish(hidden),
                Err(error) => Err(copy_of(error)),
            });
            let PlannedPacket { number, recipients, place, .. } = packet;
            let made = MadePacket { number, name: packet.name.clone(), recipients };
            if published.is_err() {
                self.take_back(packet);
            }
            outcomes.push((place, published.map(|()| made)));
        }
        outcomes
    }

    /// Plans packets that are synced together, and removes them from what is wanted.
    ///
    /// `received` is the time of the message, in seconds since the epoch.
    fn plan(
        &mut self,
        level: HashLevel,
        wanted: &mut Vec<(usize, WantedPackets)>,
        received: i64,
    ) -> (Vec<PlannedPacket>, Vec<(usize, io::Error)>) {
        let (mut planned, mut failed) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while let Some((place, next)) = wanted.last_mut() {
            let place = *place;
            match self.plan_packet(level, place, next, received) {
                Ok(Some(packet)) => {
                    bytes += packet.text.len();
                    planned.push(packet);
                    next.packets -= 1;
                    if next.packets == 0 {
                        wanted.pop();
                    }
                }
                Ok(None) => drop(wanted.pop()),
                Err(error) => {
                    failed.push((place, error));
                    wanted.pop();
                }
            }
            if planned.len() >= MAX_PACKETS_PER_SYNC || bytes >= MAX_BYTES_PER_SYNC {
                break;
            }
        }
        (planned, failed)
    }

    fn plan_packet(
        &mut self,
        level: HashLevel,
        place: usize,
        wanted: &WantedPackets,
        received: i64,
    ) -> io::Result<Option<PlannedPacket>> {
        let Some(cursor) = self.cursors.get(&wanted.destination) else {
            return Ok(None);
        };
        let at_most = if self.copies_body { 1 } else { wanted.at_most.max(1) as usize };
        let (mut lines, mut size): (Vec<(u32, Vec<u8>)>, _) = (Vec::new(), self.template.length());
        let begin = cursor.clone();
        let (mut next, mut left) = (cursor.next, cursor.lines);
        for_each_line(&self.recipients, cursor.next, cursor.lines, |at, line| {
            if has_status(line, Status::Pending) {
                size += self.size_of(line.len());
                if lines.len() == at_most || (size > MAX_PACKET_SIZE && !lines.is_empty()) {
                    return Ok(false);
                }
                lines.push((at, line.to_vec()));
            }
            (next, left) = (at + line.len() as u32 + 1, left - 1);
            Ok(true)
        })?;
        let Some((first, _)) = lines.first() else {
            self.cursors.remove(&wanted.destination);
            return Ok(None);
        };
        let mut recipients = Vec::new();
        for (_, line) in &lines {
            recipients.push(RecipientLine::parse(&line[1..]).map_err(|error| {
                let text = format!("bulk/{}/{RECIPIENTS}: at byte {first}: {error}", self.id);
                io::Error::new(ErrorKind::InvalidData, text)
            })?);
        }
        let number = PacketNumber { job: self.id, offset: *first };
        let name = number.name(level);
        let contents = PacketContents {
            parameters: &self.parameters,
            priority: self.orders.priority.or(self.parameters.priority),
            template: &self.template,
            channel: &cursor.channel,
            host: &cursor.host,
            offsets: lines.iter().map(|(at, _)| *at).collect(),
            recipients: &recipients,
            received,
            merges_by_agent: !self.copies_body,
        };
        let text = contents.text(&name, self.id)?;
        let merged_body =
            self.copies_body.then(|| packet::body_fields(&self.parameters, &recipients[0]));
        let body_offset = self.parameters.body_offset;
        let recipients = lines.len() as u32;
        if let Some(cursor) = self.cursors.get_mut(&wanted.destination) {
            (cursor.next, cursor.lines) = (next, left);
        }
        let from = (wanted.destination, begin);
        Ok(Some(PlannedPacket {
            number,
            name,
            recipients,
            text,
            merged_body,
            body_offset,
            place,
            lines,
            from,
        }))
    }

    /// Estimates the size of a recipient in a control file, in bytes, by its line.
    fn size_of(&self, line: usize) -> usize {
        // Its address is in the sender, too.
        let envelope = 2 * line + 200;
        let headers = if self.parameters.merge { self.template.length() + line } else { 0 };
        // Encoded as xtext.
        let fields = if self.parameters.body_fields.is_some() { 3 * line } else { 0 };
        envelope + headers + fields
    }

    /// Marks the recipients of packets as cut, and returns when that is on disk.
    fn mark_cut<'p>(&self, packets: impl Iterator<Item = &'p PlannedPacket>) -> io::Result<()> {
        let mut marks = Marks::new(&self.recipients, Status::Cut);
        let mut is_empty = true;
        for (at, line) in packets.flat_map(|packet| &packet.lines) {
            marks.add(*at, line)?;
            is_empty = false;
        }
        marks.flush()?;
        if is_empty { Ok(()) } else { self.recipients.sync() }
    }

    /// Takes back a packet that could not be made: its recipients are cut later.
    fn take_back(&mut self, packet: PlannedPacket) {
        let PlannedPacket { lines, from: (destination, cursor), .. } = packet;
        let mut marks = Marks::new(&self.recipients, Status::Pending);
        let written = lines.iter().try_for_each(|(at, line)| marks.add(*at, line));
        if let Err(error) = written.and_then(|()| marks.flush()) {
            // The next start finds that the recipients are in no packet.
            log::error!("bulk/{}/{RECIPIENTS}: {error}", self.id);
        }
        let present = self.cursors.get(&destination);
        if present.is_none_or(|present| present.next > cursor.next) {
            self.cursors.insert(destination, cursor);
        }
    }

    /// Marks the recipients of a packet that are not final as not cut. Its removal must follow.
    pub fn uncut(&self, packet: &ExistingPacket, status: Status) -> io::Result<()> {
        for offset in packet.offsets() {
            if self.status_of(offset)? == Some(Status::Cut) {
                self.recipients.write_at(&[status.byte()], offset.into())?;
            }
        }
        self.recipients.sync()
    }

    /// Ends all recipients that are not cut. Returns their number.
    pub fn drop_rest(&mut self, status: Status) -> io::Result<u32> {
        self.change_all(Status::Pending, status)
    }

    /// Carries out the decision about recipients whose packets have vanished. Returns their number.
    ///
    /// They are cut again, or given up. `tell` gets those that are cut again, before.
    pub fn decide_lost(
        &mut self,
        are_sent: bool,
        tell: &mut dyn FnMut(&PossibleDuplicates),
    ) -> io::Result<u32> {
        if !are_sent {
            return self.change_all(Status::Lost, Status::Unknown);
        }
        let reader = StoreReader::new(&self.index, 0, self.progress.index_bytes);
        let (mut reader, mut line) = (BufReader::new(reader), String::new());
        while reader.read_line(&mut line)? > 0 {
            let IndexEntry { offset, lines, channel, host } = IndexEntry::parse(self.id, &line)?;
            let mut found = Vec::new();
            for_each_line(&self.recipients, offset, lines, |at, line| {
                if has_status(line, Status::Lost) {
                    let address = line[1..].split(|byte| *byte == b'\t').next();
                    found.push(PossibleDuplicate {
                        offset: at,
                        channel: channel.as_bytes().to_vec(),
                        host: host.as_bytes().to_vec(),
                        address: address.unwrap_or_default().to_vec(),
                        pid: None,
                    });
                }
                Ok(true)
            })?;
            for recipients in found.chunks(MAX_REPORTED_TOGETHER) {
                let offset = recipients[0].offset;
                let number = PacketNumber { job: self.id, offset }.message();
                let modified = Timestamp::from_seconds(self.parameters.submitted);
                let spool_id = SpoolId { number, modified };
                tell(&PossibleDuplicates { spool_id, recipients: recipients.to_vec() });
            }
            line.clear();
        }
        let count = self.change_all(Status::Lost, Status::Pending)?;
        self.rewind()?;
        Ok(count)
    }

    /// Changes the status of all recipients with a certain status. Returns their number.
    fn change_all(&mut self, from: Status, to: Status) -> io::Result<u32> {
        let (all, _) = count(&self.recipients, self.progress.recipient_bytes)?;
        let (mut changed, mut marks) = (0, Marks::new(&self.recipients, to));
        for_each_line(&self.recipients, 0, all.all, |at, line| {
            if has_status(line, from) {
                marks.add(at, line)?;
                changed += 1;
            }
            Ok(true)
        })?;
        marks.flush()?;
        if changed > 0 {
            self.recipients.sync()?;
        }
        (self.counts, _) = count(&self.recipients, self.progress.recipient_bytes)?;
        Ok(changed)
    }
}

/// A line of the index.
struct IndexEntry<'l> {
    offset: u32,
    lines: u32,
    channel: &'l str,
    host: &'l str,
}

impl IndexEntry<'_> {
    fn parse(id: JobId, line: &str) -> io::Result<IndexEntry<'_>> {
        let parse = |line: &'_ str| {
            let mut words = line.splitn(4, ' ');
            let (offset, lines) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((offset, lines))
        };
        let malformed = || {
            let text = format!("bulk/{id}/{INDEX}: malformed line {line:?}");
            io::Error::new(ErrorKind::InvalidData, text)
        };
        let text = line.strip_suffix('\n').ok_or_else(malformed)?;
        let (offset, lines) = parse(text).ok_or_else(malformed)?;
        let mut names = text.splitn(4, ' ').skip(2);
        match (names.next(), names.next()) {
            (Some(channel), Some(host)) => Ok(IndexEntry { offset, lines, channel, host }),
            _ => Err(malformed()),
        }
    }
}

/// Writes a status to lines of `recipients`.
///
/// Lines that follow one another are written at once. Only a status changes, so others may change
/// those of other lines meanwhile.
struct Marks<'s, S> {
    store: &'s S,
    status: Status,
    from: u32,
    text: Vec<u8>,
}

impl<'s, S: Store> Marks<'s, S> {
    fn new(store: &'s S, status: Status) -> Marks<'s, S> {
        Marks { store, status, from: 0, text: Vec::new() }
    }

    /// Adds a line with its former status, without its line end.
    fn add(&mut self, at: u32, line: &[u8]) -> io::Result<()> {
        if self.from as usize + self.text.len() != at as usize || self.text.len() >= READ_SIZE {
            self.flush()?;
            self.from = at;
        }
        self.text.push(self.status.byte());
        self.text.extend_from_slice(line.get(1..).unwrap_or_default());
        self.text.push(b'\n');
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.text.is_empty() {
            self.store.write_at(&self.text, self.from.into())?;
            self.text.clear();
        }
        Ok(())
    }
}

fn has_status(line: &[u8], status: Status) -> bool {
    line.first() == Some(&status.byte())
}

fn copy_of(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// Calls `each` with the offsets and texts of lines, until it returns false.
pub(super) fn for_each_line<S: Store>(
    store: &S,
    from: u32,
    lines: u32,
    mut each: impl FnMut(u32, &[u8]) -> io::Result<bool>,
) -> io::Result<()> {
    // A small destination needs no large buffer.
    let size = READ_SIZE.min(lines.saturating_mul(64).max(512) as usize);
    let reader = StoreReader::new(store, from.into(), u64::MAX);
    let mut reader = BufReader::with_capacity(size, reader);
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

/// Counts all recipients by their status, up to a position. Also returns the number of cut ones.
pub fn count<S: Store>(store: &S, end: u64) -> io::Result<(RecipientCounts, u32)> {
    let (mut counts, mut cut) = (RecipientCounts::default(), 0);
    let reader = StoreReader::new(store, 0, end);
    let mut reader = BufReader::with_capacity(READ_SIZE, reader);
    let mut is_start = true;
    loop {
        let text = reader.fill_buf()?;
        if text.is_empty() {
            return Ok((counts, cut));
        }
        let mut take = |byte: Option<&u8>| {
            if let Some(status) = byte.and_then(|byte| Status::of_byte(*byte)) {
                counts.add(status);
                cut += u32::from(status == Status::Cut);
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
