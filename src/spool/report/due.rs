//! Which `d` lines of a control file are owed to which sender.

use super::RefusedRecipient;
use crate::note::{
    events, is_expiry_of_original, is_refusal_of_router, is_requested, unnoted_failures,
};
use crate::{chunk, decisions, envelope_lines};
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use zsched_format::control_file::diagnostic::{
    DiagnosticRecord, MAX_REPORTED_RECIPIENTS, NOTARY_SEPARATOR, expiry_notary,
};
use zsched_format::control_file::{self, ControlFile, Recipient, Tag};
use zsched_sys as sys;

/// The reports that are due.
#[derive(Debug, Default)]
pub struct DueReports {
    /// One for each sender in the control file.
    pub groups: Vec<ReportGroup>,
    /// Lines of which the sender requested no report, or that cannot be read.
    pub ignored: Vec<u32>,
    /// Recipients that the router has refused, also those whose sender requested no report.
    pub refused: Vec<RefusedRecipient>,
    /// True if there are more lines than [`MAX_REPORTED_RECIPIENTS`].
    pub has_more: bool,
    /// The control file, or the beginning of a large one.
    pub message: ControlFile,
    is_large: bool,
}

/// A report to one sender.
#[derive(Debug)]
pub struct ReportGroup {
    /// The address that gets it; `None` for a message that is a report itself.
    pub sender: Option<Box<[u8]>>,
    /// Offsets of the `d` lines.
    pub lines: Vec<u32>,
    /// What they say.
    pub recipients: Vec<ReportedRecipient>,
    /// The headers of the last recipient, if they are in the part that was read.
    pub headers: Option<Vec<u8>>,
    /// The sender is that of the message, not the owner of a list
    /// ([`ControlFile::has_original_envelope`]).
    pub has_original_envelope: bool,
}

/// A `d` line, and the recipient that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedRecipient {
    /// The address: the user field of the `r` line.
    pub address: Vec<u8>,
    /// The delivery channel.
    pub channel: Vec<u8>,
    /// The host of the `r` line.
    pub host: Vec<u8>,
    /// The value of its `N` line.
    pub notify: Vec<u8>,
    /// Time of the event, in seconds since the epoch.
    pub time: i64,
    /// Notary data.
    pub notary: Vec<u8>,
    /// Text for people, in which a CR stands for a line break.
    pub text: Vec<u8>,
}

/// A `d` line: its offset, and if it is tagged as reported.
type DueLine = (u32, bool);

impl DueReports {
    /// Reads what is due from a control file of `size` bytes.
    ///
    /// `is_due` is asked for each `d` line, with its offset and true if it is tagged as reported.
    pub fn read(
        file: &impl FileExt,
        size: u64,
        is_due: &dyn Fn(u32, bool) -> bool,
    ) -> io::Result<DueReports> {
        if size > control_file::MAX_QUERY_SIZE {
            return DueReports::read_large(file, size, is_due);
        }
        let file = control_file::parse(sys::read_part(file, 0, size as usize)?)?;
        Ok(DueReports::of(file, is_due))
    }

    /// What is due in a control file.
    fn of(file: ControlFile, is_due: &dyn Fn(u32, bool) -> bool) -> DueReports {
        let mut due = DueReports::default();
        let mut lines = file.diagnostics.iter().filter(|line| is_due(line.offset, line.reported));
        let read = lines.by_ref().take(MAX_REPORTED_RECIPIENTS);
        let read = read.map(|line| ((line.offset, line.reported), file.get(line.value)));
        for (line, record) in due.parse(read) {
            due.add(line, &record, &file);
        }
        due.has_more = lines.next().is_some();
        due.message = file;
        due
    }

    /// The same for a file that is too large to be read as a whole.
    fn read_large(
        file: &impl FileExt,
        size: u64,
        is_due: &dyn Fn(u32, bool) -> bool,
    ) -> io::Result<DueReports> {
        let mut lines: Vec<(DueLine, Vec<u8>)> = Vec::new();
        let has_more = !decisions::each_last_line(file, size, &mut |offset, line| match line {
            [b'd', tag @ (b' ' | b'+'), value @ ..] if is_due(offset, *tag == b'+') => {
                let has_room = lines.len() < MAX_REPORTED_RECIPIENTS;
                if has_room {
                    lines.push(((offset, *tag == b'+'), value.to_vec()));
                }
                has_room
            }
            _ => true,
        })?;
        // The first recipient, and the `R` and `n` lines after it.
        let message = chunk::read(file, 0, 2)?.file;
        let mut due = DueReports { message, has_more, is_large: true, ..DueReports::default() };
        // They were found from the last to the first.
        let mut records = due.parse(lines.iter().rev().map(|(line, value)| (*line, &value[..])));
        records.sort_by_key(|(_, record)| record.recipient);
        let recipients: Vec<u32> = records.iter().map(|(_, record)| record.recipient).collect();
        let envelopes = envelope_lines::at_offsets(file, &recipients)?;
        for ((line, record), envelope) in records.iter().zip(&envelopes) {
            let mut part = chunk::read_recipient(file, envelope, record.recipient)?;
            // Offsets of headers are those in the part.
            part.recipients.iter_mut().for_each(|recipient| recipient.headers = None);
            due.add(*line, record, &part);
        }
        Ok(due)
    }

    /// Parses `d` lines, and ignores those that cannot be parsed or that later ones replace.
    fn parse<'l>(
        &mut self,
        lines: impl Iterator<Item = (DueLine, &'l [u8])>,
    ) -> Vec<(DueLine, DiagnosticRecord<'l>)> {
        let mut records: Vec<(DueLine, DiagnosticRecord<'l>)> = Vec::new();
        let mut last_delays: HashMap<u32, usize> = HashMap::new();
        for (line, value) in lines {
            match DiagnosticRecord::parse(value) {
                Some(record) if is_delay(&record) => {
                    let place = *last_delays.entry(record.recipient).or_insert(records.len());
                    match records.get_mut(place) {
                        Some(former) => {
                            self.ignored.push(former.0.0);
                            *former = (line, record);
                        }
                        None => records.push((line, record)),
                    }
                }
                Some(record) => records.push((line, record)),
                None => self.ignored.push(line.0),
            }
        }
        records
    }

    /// Returns true if recipients may have failed without a `d` line.
    pub(super) fn may_have_unnoted_failures(&self) -> bool {
        let has_failed = |tag| tag == Tag::Failed;
        self.is_large || !unnoted_failures(&self.message, has_failed).is_empty()
    }

    fn add(
        &mut self,
        (offset, is_reported): DueLine,
        record: &DiagnosticRecord<'_>,
        file: &ControlFile,
    ) {
        let Some(recipient) = file.recipient_at(record.recipient) else {
            return self.ignored.push(offset);
        };
        let is_finished = matches!(recipient.tag, Tag::Done | Tag::Failed);
        if is_finished && is_delay(record) && !is_reported {
            // It is not tried again (RFC 3464, 2.3.3).
            return self.ignored.push(offset);
        }
        let sender = error_address(file, recipient);
        let get = |span| file.get(span).to_vec();
        let reported = ReportedRecipient {
            address: get(recipient.quad.user),
            channel: get(recipient.quad.channel),
            host: get(recipient.quad.host),
            notify: recipient.notify.map(|line| get(line.value)).unwrap_or_default(),
            time: record.time,
            notary: match is_expiry_of_original(record) && record.action() == b"delayed" {
                // ZMailer's scheduler calls an expiry a delay.
                true => expiry_notary("expired", record.notary, None),
                false if recipient.tag == Tag::Failed && !has_known_action(record) => {
                    failed_notary(record.notary)
                }
                false => record.notary.to_vec(),
            },
            text: record.message.to_vec(),
        };
        if is_refusal_of_router(file, record, recipient) {
            let sender = sender.flatten().map(Box::from);
            self.refused.push(RefusedRecipient { sender, recipient: reported.clone() });
        }
        let Some(sender) = sender.filter(|_| is_requested(record, events(file, recipient))) else {
            return self.ignored.push(offset);
        };
        let known = self.groups.iter().position(|group| group.sender.as_deref() == sender);
        let place = known.unwrap_or_else(|| {
            let (lines, recipients) = (Vec::new(), Vec::new());
            let sender = sender.map(Box::from);
            let has_original_envelope = file.has_original_envelope(recipient);
            let headers = None;
            self.groups.push(ReportGroup {
                sender,
                lines,
                recipients,
                headers,
                has_original_envelope,
            });
            self.groups.len() - 1
        });
        let group = &mut self.groups[place];
        group.lines.push(offset);
        group.recipients.push(reported);
        let headers = file.headers_of(recipient).map(|block| file.get(block.text));
        if group.headers.is_none() {
            group.headers = headers.map(<[u8]>::to_vec);
        }
    }
}

impl ReportedRecipient {
    /// The action of its notary data, such as `failed`; `failed` if there is none.
    pub fn action(&self) -> &[u8] {
        let mut fields = self.notary.split(|byte| *byte == NOTARY_SEPARATOR);
        fields.nth(1).unwrap_or(b"failed")
    }
}

/// Returns true if a `d` line says that a recipient is tried again.
fn is_delay(record: &DiagnosticRecord<'_>) -> bool {
    record.action().eq_ignore_ascii_case(b"delayed") && !is_expiry_of_original(record)
}

/// Returns true if a report can have the action of a `d` line.
fn has_known_action(record: &DiagnosticRecord<'_>) -> bool {
    let action = record.action().to_ascii_lowercase();
    let words: [&[u8]; 5] = [b"failed", b"delayed", b"relayed", b"delivered", b"expanded"];
    words.iter().any(|word| action.starts_with(word))
}

/// Notary data with the action `failed`, for a recipient that has failed with an unknown action.
fn failed_notary(notary: &[u8]) -> Vec<u8> {
    let mut fields: Vec<&[u8]> = notary.split(|byte| *byte == NOTARY_SEPARATOR).collect();
    fields.resize(fields.len().max(2), b"");
    fields[1] = b"failed";
    fields.join(&NOTARY_SEPARATOR)
}

/// The address that gets reports about a recipient.
///
/// It is that of its sender, or of an `e` line between the two. A later `e` line is about the
/// recipients of another sender, such as a list. `Some(None)` if the message is a report itself;
/// `None` if the file names no address.
fn error_address<'f>(file: &'f ControlFile, recipient: &Recipient) -> Option<Option<&'f [u8]>> {
    let address = file.error_address.map(|address| (address.start, file.get(address)));
    match (file.sender_of(recipient), address) {
        (Some(sender), Some((offset, address)))
            if (sender.offset..recipient.offset).contains(&offset) =>
        {
            Some(Some(address))
        }
        (Some(_), _) => Some(file.sender_address(recipient)),
        (None, address) => address.map(|(_, address)| Some(address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_file::MemoryFile;

    /// Senders and recipients with lines after them. Lists have owners.
    const TEXT: &str = "i 1\nl <id>\ns local - a@x 0\n\
                        r-          c h one 0\nR FULL\nn env\n\
                        r-          c h two 0\nN NOTIFY=FAILURE\nm\ns local - no 0\n\n\
                        s local - owner@x 0\nr-          c h three 0\nr-          c h four 0\n\
                        m\nA: 1\n\n\
                        s error - b@x 0\nr-          c h five 0\nm\nA: 1\n\n\
                        s local - a@x 0\nr-          c h six 0\n\
                        s local - c@x 0\ne errors@x\nr-          c h seven 0\nm\nA: 1\n\n";

    #[test]
    fn delay_is_reported_once_and_only_while_recipient_is_tried() {
        let recipients = "i 1\ns local - a@x 0\nr           c h pending 0\nr+          c h done 0\n\
                          r-          c h failed 0\nm\nA: 1\n\n";
        let at = |name: &str| {
            recipients[..recipients.find(name).expect("there")].rfind("\nr").expect("there") + 1
        };
        let line = |tag: char, name: &str, action: &str, text: &str| {
            format!("d{tag}{}:0:0::1700000000\t\x01{action}\t{text}\n", at(name))
        };
        let lines = [
            line(' ', "pending", "delayed", "first"),
            line(' ', "done", "delayed", "no"),
            line(' ', "failed", "delayed", "no"),
            line(' ', "failed", "failed", "no such user"),
            line(' ', "pending", "delayed", "second"),
            line(' ', "failed", "delayed", "expired after 3 days"),
        ];
        let text = recipients.to_string() + &lines.concat();
        let file = MemoryFile::new(1, text.clone().into_bytes());
        let size = text.len() as u64;
        let is_due = |_, is_reported: bool| !is_reported;
        for due in [
            DueReports::read(&file, size, &is_due).expect("read"),
            DueReports::read_large(&file, size, &is_due).expect("read"),
        ] {
            let said = due.groups[0].recipients.iter();
            let mut said: Vec<_> = said.map(|one| String::from_utf8_lossy(&one.text)).collect();
            said.sort_unstable();
            assert_eq!(said, ["expired after 3 days", "no such user", "second"]);
            assert_eq!(due.ignored.len(), 3);
        }
        // What is in the outbox already is as it was composed.
        let reported = text.replace("\nd ", "\nd+");
        let file = MemoryFile::new(1, reported.into_bytes());
        let due = DueReports::read(&file, size, &|_, _| true).expect("read");
        assert_eq!(due.groups[0].recipients.len(), 5);
    }

    /// Each sender with its recipients and `d` lines.
    fn groups(due: &DueReports) -> Vec<(String, Vec<String>, bool)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let group = |group: &ReportGroup| {
            let sender = text(group.sender.as_deref().unwrap_or(b"(none)"));
            let of = group.recipients.iter().zip(&group.lines);
            let of = of.map(|(one, line)| format!("{line}: {}", text(&one.address))).collect();
            (sender, of, group.has_original_envelope)
        };
        due.groups.iter().map(group).collect()
    }

    #[test]
    fn large_file_is_reported_to_the_same_senders_as_a_small_one() {
        let mut text = TEXT.as_bytes().to_vec();
        let offsets = memchr::memmem::find_iter(TEXT.as_bytes(), "\nr-").map(|at| at + 1);
        for offset in offsets {
            text.extend(format!("d {offset}:0:0::1700000000\t\x01failed\trefused\n").bytes());
        }
        let file = MemoryFile::new(1, text);
        let size = file.text().len() as u64;
        let is_due = |_, is_reported: bool| !is_reported;
        let small = DueReports::read(&file, size, &is_due).expect("read");
        let large = DueReports::read_large(&file, size, &is_due).expect("read");
        assert_eq!(groups(&large), groups(&small));
        let senders: Vec<_> = groups(&large).into_iter().map(|(sender, ..)| sender).collect();
        assert_eq!(senders, ["a@x", "owner@x", "(none)", "errors@x"]);
        assert!(large.ignored.is_empty() && small.ignored.is_empty(), "{large:?}");
    }
}
