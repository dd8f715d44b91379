//! What the scheduler keeps of a control file: who is still to be delivered to, and where.

use super::{SpoolName, note};
use serde::{Deserialize, Serialize};
use zsched_format::control_file::{ControlFile, ControlFileError, Recipient, Tag};
use zsched_format::priority::USUAL;
use zsched_format::time::Timestamp;

/// A control file, as far as scheduling is concerned.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Arrival {
    /// Name of the message.
    pub name: SpoolName,
    /// When the message file was last modified: when the message came in.
    pub modified: Timestamp,
    /// When the control file's inode last changed before it was read: when it was routed.
    pub created: Timestamp,
    /// How urgent it is, 0 to 9, 0 first.
    pub priority: u8,
    /// A `d` line waits to be reported, or a failure that was not noted.
    pub owes_report: bool,
    /// The first of the lines that nobody can deliver, but that must not be lost either.
    pub leftover: Option<ControlFileError>,
    /// Hosts whose threads are to be started, in lower case (`T` lines).
    pub turns: Vec<Box<[u8]>>,
    /// Recipients in the file, finished ones included.
    pub recipients: u32,
    /// Recipients that have failed already.
    pub failed: u32,
    /// Recipients to do, by destination; destinations in ascending order.
    pub groups: Vec<Group>,
    /// Offsets of recipients that an agent holds, in ascending order.
    pub locked: Vec<u32>,
    /// Where the rest begins, if this is not all of the file.
    pub unread: Option<u32>,
    /// How many recipients to do may be in the rest, at the most.
    pub unread_at_most: u32,
    /// The numbers of recipients, and what is owed, are those of this part of the file only.
    pub is_part: bool,
}

/// How much of a control file is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portion {
    /// Offset of the first line that is of interest; 0 is the beginning.
    pub from: u32,
    /// So many recipients to do at the most, at least one.
    pub at_most: u32,
}

/// The recipients of one message that go the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Delivery channel, in lower case.
    #[serde(with = "zsched_format::serde_bytes")]
    pub channel: Box<[u8]>,
    /// Next host, in lower case.
    #[serde(with = "zsched_format::serde_bytes")]
    pub host: Box<[u8]>,
    /// Offsets of the recipients' lines, in descending order of the lines' text, which is the order
    /// in which MAILQ lists them.
    pub offsets: Vec<u32>,
}

impl Arrival {
    /// Picks what scheduling needs out of a control file.
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
            priority: file.priority.unwrap_or(USUAL),
            owes_report: note::owes_report(file)
                || note::hides_failure(file, |tag| tag == Tag::Failed),
            leftover: file.undeliverable.first().cloned(),
            turns: file.turns.iter().map(|host| lower_case(file.get(*host))).collect(),
            recipients: file.recipients.len() as u32,
            failed: with_tag(Tag::Failed).count() as u32,
            groups: group(file),
            locked: with_tag(Tag::Locked).map(|recipient| recipient.offset).collect(),
            unread: None,
            unread_at_most: 0,
            is_part: false,
        }
    }

    /// Leaves only a portion of the recipients to do.
    pub fn cut(&mut self, portion: Portion) {
        let of_groups = self.groups.iter().flat_map(|group| &group.offsets);
        let mut offsets: Vec<u32> = of_groups.chain(&self.locked).copied().collect();
        offsets.retain(|offset| *offset >= portion.from);
        offsets.sort_unstable();
        self.unread = offsets.get(portion.at_most as usize).copied();
        self.unread_at_most = offsets.len().saturating_sub(portion.at_most as usize) as u32;
        let end = self.unread.unwrap_or(u32::MAX);
        let is_meant = |offset: &u32| (portion.from..end).contains(offset);
        for group in &mut self.groups {
            group.offsets.retain(is_meant);
        }
        self.groups.retain(|group| !group.offsets.is_empty());
        self.locked.retain(is_meant);
        if portion.from > 0 {
            self.turns.clear();
        }
    }

    /// Adds what follows in the file.
    pub fn add(&mut self, part: Arrival) {
        self.owes_report |= part.owes_report;
        self.leftover = self.leftover.take().or(part.leftover);
        self.recipients += part.recipients;
        self.failed += part.failed;
        self.groups.extend(part.groups);
        self.locked.extend(part.locked);
        (self.unread, self.unread_at_most) = (part.unread, part.unread_at_most);
    }

    /// Recipients still to be delivered to, locked ones not counted.
    pub fn pending(&self) -> usize {
        self.groups.iter().map(|group| group.offsets.len()).sum()
    }
}

fn group(file: &ControlFile) -> Vec<Group> {
    let mut to_do: Vec<Line> = file
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
struct Line {
    offset: u32,
    text: Box<[u8]>,
    channel_end: usize,
    host_start: usize,
    host_end: usize,
}

impl Line {
    fn new(file: &ControlFile, recipient: &Recipient) -> Line {
        let quad = &recipient.quad;
        let start = quad.channel.start as usize;
        Line {
            offset: recipient.offset,
            text: lower_case(&file.text[start..quad.privilege.end as usize]),
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
        arrival.groups.iter().map(|group| (show(group), group.offsets.clone())).collect()
    }

    #[test]
    fn recipients_are_grouped_by_destination_and_listed_in_descending_text_order() {
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
