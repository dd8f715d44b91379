//! What the scheduler needs of a control file.

use super::{SpoolName, alternatives, note};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use zsched_format::control_file::notify::Notify;
use zsched_format::control_file::{ControlFile, ControlFileError, Recipient, Tag};
use zsched_format::priority::{self, DEFAULT_PRIORITY};
use zsched_format::schedule::DayWindow;
use zsched_format::time::Timestamp;

/// The data of a control file that scheduling needs.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Arrival {
    /// Name of the message.
    pub name: SpoolName,
    /// Time when the message arrived: the last change of its file.
    pub modified: Timestamp,
    /// Time when the message was routed.
    ///
    /// It is the last change of the control file's inode before it was read.
    pub created: Timestamp,
    /// Priority, from 0 (first) to 9.
    pub priority: u8,
    /// True if a report is due.
    ///
    /// That is so if a `d` line has not been reported, or a failure has no `d` line.
    pub report_due: bool,
    /// Time of the last notice that the message is late, in seconds since the epoch.
    pub delay_noted: Option<u32>,
    /// The deadline that the sender has set (DELIVERBY).
    pub deliver_by: Option<Deadline>,
    /// The times of delivery that the sender has set.
    pub schedule: Option<Box<Schedule>>,
    /// The first line that cannot be delivered, but must not be lost.
    pub first_undeliverable: Option<ControlFileError>,
    /// True if a failed recipient may have an alternative that is tried next.
    pub has_alternatives: bool,
    /// Offset of the last recipient line; alternatives are added after it.
    pub last_recipient: u32,
    /// Hosts whose threads are started (ETRN), in lower case.
    pub etrn_hosts: Vec<Box<[u8]>>,
    /// Number of recipients in the file, including finished ones.
    pub recipients: u32,
    /// Number of recipients that have already failed.
    pub failed: u32,
    /// Pending recipients by destination; destinations are in ascending order.
    pub groups: Groups,
    /// Offsets of recipients that an agent has locked, in ascending order.
    pub locked: Vec<u32>,
    /// Offset of the unread remainder, if there is one.
    pub next_offset: Option<u32>,
    /// Upper bound of the number of pending recipients in the remainder.
    pub max_unread: u32,
    /// True if only a part of the file has been read.
    ///
    /// It applies to the numbers of recipients and to the report that is due.
    pub is_chunk: bool,
}

/// A deadline of delivery (RFC 2852).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Deadline {
    /// When it is, in seconds since the epoch.
    pub at: u32,
    /// The message fails then. Otherwise its sender is only told that it is late.
    pub returns: bool,
}

impl Deadline {
    /// The earliest deadline of the recipients of a message that arrived at `received`.
    fn of(file: &ControlFile, received: Timestamp) -> Option<Deadline> {
        let deadlines = lines_with(file, b"BY=").filter_map(|notify| notify.deliver_by);
        let deadline = deadlines.min_by_key(|by| by.seconds)?;
        let at = received.seconds().saturating_add(deadline.seconds);
        // No deadline is before the epoch or after 2106.
        let at = u32::try_from(at.max(1)).unwrap_or(u32::MAX);
        Some(Deadline { at, returns: deadline.return_after })
    }
}

/// The times of delivery that the sender has set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Schedule {
    /// The first second of delivery, since the epoch; 0 is any.
    pub not_before: u32,
    /// The window of the day.
    pub window: Option<DayWindow>,
}

impl Schedule {
    /// The times of a message: the latest first second of its recipients, and their first window.
    ///
    /// A word that cannot be read has no effect.
    fn of(file: &ControlFile, received: Timestamp) -> Option<Schedule> {
        let not_before = lines_with(file, b"NOTBEFORE=").filter_map(|notify| notify.not_before);
        let held = lines_with(file, b"HOLDFOR=").filter_map(|notify| notify.hold_for).max();
        let held = held.map(|seconds| received.seconds().saturating_add(seconds.into()));
        let held = held.map(|until| u32::try_from(until.max(0)).unwrap_or(u32::MAX));
        let not_before = not_before.chain(held).max().unwrap_or(0);
        let window = lines_with(file, b"WINDOW=").find_map(|notify| {
            let text = std::str::from_utf8(notify.window?).ok()?;
            DayWindow::parse(text, received).ok()
        });
        (not_before > 0 || window.is_some()).then_some(Schedule { not_before, window })
    }
}

/// The `N` lines of the recipients that have a word.
fn lines_with<'f>(file: &'f ControlFile, word: &'f [u8]) -> impl Iterator<Item = Notify<'f>> {
    let lines = file.recipients.iter().filter_map(|recipient| recipient.notify);
    let values = lines.map(|line| file.get(line.value));
    let has_word =
        move |value: &&[u8]| value.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
    values.filter(has_word).map(Notify::parse)
}

/// The `p` line, or else the most urgent `MT-PRIORITY` of the recipients.
fn priority_of(file: &ControlFile) -> u8 {
    let of_lines = || {
        let all = lines_with(file, b"MT-PRIORITY=").filter_map(|notify| notify.transfer_priority);
        all.max().map(priority::of_transfer_priority)
    };
    file.priority.or_else(of_lines).unwrap_or(DEFAULT_PRIORITY)
}

/// The part of a control file that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Portion {
    /// Offset of the first line to read; 0 is the beginning.
    pub from: u32,
    /// Maximum number of pending recipients, at least one.
    pub max_recipients: u32,
}

/// Recipients of one message by destination.
///
/// A single destination is stored in place. Most messages have one, and the memory would be
/// allocated by one thread and freed by another, which is slow.
pub type Groups = SmallVec<[Group; 1]>;

/// Offsets of recipients' lines in a control file.
///
/// Up to four are stored in place. The value is as large as a `Vec`.
pub type Offsets = SmallVec<[u32; 4]>;

/// The recipients of one message with the same destination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Group {
    /// Delivery channel, in lower case.
    #[cfg_attr(feature = "serde", serde(with = "zsched_format::serde_bytes"))]
    pub channel: SmallVec<[u8; 16]>,
    /// Next host, in lower case.
    #[cfg_attr(feature = "serde", serde(with = "zsched_format::serde_bytes"))]
    pub host: SmallVec<[u8; 32]>,
    /// Offsets of the recipients' lines, in descending order of the lines' text.
    ///
    /// MAILQ lists them in this order.
    pub offsets: Offsets,
}

impl Group {
    /// Creates a group. Channel and host are in lower case.
    pub fn new(channel: &[u8], host: &[u8], offsets: &[u32]) -> Group {
        Group { channel: channel.into(), host: host.into(), offsets: offsets.into() }
    }

    fn of_one(file: &ControlFile, recipient: &Recipient) -> Group {
        let quad = &recipient.quad;
        let (channel, host) = (file.get(quad.channel), file.get(quad.host));
        let mut group = Group::new(channel, host, &[recipient.offset]);
        group.channel.make_ascii_lowercase();
        group.host.make_ascii_lowercase();
        group
    }
}

impl Arrival {
    /// Extracts from a control file the data that scheduling needs.
    pub fn new(
        name: SpoolName,
        file: &ControlFile,
        modified: Timestamp,
        created: Timestamp,
    ) -> Arrival {
        let with_tag = |tag| file.recipients.iter().filter(move |r| r.tag == tag);
        Arrival {
            name,
            modified,
            created,
            priority: priority_of(file),
            report_due: note::has_report_due(file)
                || !note::unnoted_failures(file, |tag| tag == Tag::Failed).is_empty(),
            delay_noted: note::last_delay(file),
            deliver_by: Deadline::of(file, modified),
            schedule: Schedule::of(file, modified).map(Box::new),
            first_undeliverable: file.undeliverable_lines.first().cloned(),
            has_alternatives: alternatives::are_left(file),
            last_recipient: file.recipients.last().map_or(0, |recipient| recipient.offset),
            etrn_hosts: file.etrn_hosts.iter().map(|host| lower_case(file.get(*host))).collect(),
            recipients: file.recipients.len() as u32,
            failed: with_tag(Tag::Failed).count() as u32,
            groups: group(file),
            locked: with_tag(Tag::Locked).map(|recipient| recipient.offset).collect(),
            next_offset: None,
            max_unread: 0,
            is_chunk: false,
        }
    }

    /// Creates a message with these pending recipients and nothing else.
    pub fn of_groups(
        name: SpoolName,
        modified: Timestamp,
        created: Timestamp,
        groups: impl IntoIterator<Item = Group>,
    ) -> Arrival {
        let groups: Groups = groups.into_iter().collect();
        Arrival {
            name,
            modified,
            created,
            priority: DEFAULT_PRIORITY,
            report_due: false,
            delay_noted: None,
            deliver_by: None,
            schedule: None,
            first_undeliverable: None,
            has_alternatives: false,
            last_recipient: 0,
            etrn_hosts: Vec::new(),
            recipients: groups.iter().map(|group| group.offsets.len() as u32).sum(),
            failed: 0,
            groups,
            locked: Vec::new(),
            next_offset: None,
            max_unread: 0,
            is_chunk: false,
        }
    }

    /// Keeps the alternatives of a file that is too large to try them.
    pub(crate) fn keep_alternatives(&mut self, file: &ControlFile) {
        self.has_alternatives = false;
        let mut lines = file.alternatives.iter().filter(|line| line.tag == Tag::Pending);
        if let Some(line) = lines.next() {
            let reason = "an alternative in a file of more than 8 MiB";
            let error = ControlFileError::new(line.offset as usize, reason);
            self.first_undeliverable.get_or_insert(error);
        }
    }

    /// Keeps only a portion of the pending recipients.
    pub fn cut(&mut self, portion: Portion) {
        let of_groups = self.groups.iter().flat_map(|group| &group.offsets);
        let mut offsets: Vec<u32> = of_groups.chain(&self.locked).copied().collect();
        offsets.retain(|offset| *offset >= portion.from);
        offsets.sort_unstable();
        self.next_offset = offsets.get(portion.max_recipients as usize).copied();
        self.max_unread = offsets.len().saturating_sub(portion.max_recipients as usize) as u32;
        let end = self.next_offset.unwrap_or(u32::MAX);
        let is_meant = |offset: &u32| (portion.from..end).contains(offset);
        for group in &mut self.groups {
            group.offsets.retain(|offset| is_meant(offset));
        }
        self.groups.retain(|group| !group.offsets.is_empty());
        self.locked.retain(is_meant);
        if portion.from > 0 {
            self.etrn_hosts.clear();
        }
    }

    /// Adds the data of the following part of the file.
    pub fn add(&mut self, part: Arrival) {
        self.report_due |= part.report_due;
        self.first_undeliverable = self.first_undeliverable.take().or(part.first_undeliverable);
        self.recipients += part.recipients;
        self.last_recipient = self.last_recipient.max(part.last_recipient);
        self.failed += part.failed;
        self.groups.extend(part.groups);
        self.locked.extend(part.locked);
        (self.next_offset, self.max_unread) = (part.next_offset, part.max_unread);
    }

    /// Number of pending recipients, without locked ones.
    pub fn pending(&self) -> usize {
        self.groups.iter().map(|group| group.offsets.len()).sum()
    }
}

fn group(file: &ControlFile) -> Groups {
    if let [only] = &file.recipients[..] {
        return if only.tag == Tag::Pending {
            smallvec![Group::of_one(file, only)]
        } else {
            Groups::new()
        };
    }
    let mut to_do: Vec<Line<'_>> = file
        .recipients
        .iter()
        .filter(|recipient| recipient.tag == Tag::Pending)
        .map(|recipient| Line::new(file, recipient))
        .collect();
    to_do.sort_by(|a, b| a.destination().cmp(&b.destination()).then_with(|| b.text.cmp(&a.text)));
    to_do
        .chunk_by(|a, b| a.destination() == b.destination())
        .map(|lines| Group {
            channel: lines[0].destination().0.into(),
            host: lines[0].destination().1.into(),
            offsets: lines.iter().map(|line| line.offset).collect(),
        })
        .collect()
}

/// A recipient's quad in lower case.
struct Line<'f> {
    offset: u32,
    text: Cow<'f, [u8]>,
    channel_end: usize,
    host_start: usize,
    host_end: usize,
}

impl<'f> Line<'f> {
    fn new(file: &'f ControlFile, recipient: &Recipient) -> Line<'f> {
        let quad = &recipient.quad;
        let start = quad.channel.start as usize;
        let text = &file.text[start..quad.privilege.end as usize];
        let has_upper_case = text.iter().any(u8::is_ascii_uppercase);
        Line {
            offset: recipient.offset,
            text: if has_upper_case { text.to_ascii_lowercase().into() } else { text.into() },
            channel_end: quad.channel.end as usize - start,
            host_start: quad.host.start as usize - start,
            host_end: quad.host.end as usize - start,
        }
    }

    fn destination(&self) -> (&[u8], &[u8]) {
        (&self.text[..self.channel_end], &self.text[self.host_start..self.host_end])
    }
}

fn lower_case(bytes: &[u8]) -> Box<[u8]> {
    bytes.to_ascii_lowercase().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFolder;
    use zsched_format::control_file::parse;

    fn groups(recipients: &str) -> Vec<(String, Vec<u32>)> {
        let text = format!("@ 7\ni 1\nl x\ns l - a 0\n{recipients}m\n\n");
        let file = parse(text.into_bytes()).expect("a good control file");
        let name = SpoolName::new(HashFolder::TOP, b"1").expect("a name");
        let arrival = Arrival::new(name, &file, Timestamp::EPOCH, Timestamp::EPOCH);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let show = |group: &Group| format!("{}/{}", text(&group.channel), text(&group.host));
        arrival.groups.iter().map(|group| (show(group), group.offsets.to_vec())).collect()
    }

    #[test]
    fn recipients_are_grouped_by_destination_in_descending_text_order() {
        let recipients = "r           smtp b.x a@b.x 0\nr           SMTP  A.x z@a.x 0\n\
                          r           smtp a.X b@a.x 0\nr+          smtp a.x done@a.x 0\n\
                          r           local - dave 0\nr           smtp b.x b@b.x 0\n";
        assert_eq!(
            groups(recipients),
            [
                ("local/-".to_string(), vec![142]),
                ("smtp/a.x".to_string(), vec![81, 51]),
                ("smtp/b.x".to_string(), vec![169, 22]),
            ]
            .map(|(name, offsets)| (name, offsets))
        );
    }
}
