//! Packets: control files for some recipients of one destination of a job.

use super::cut::renew_message;
use super::merge::HeaderTemplate;
use super::recipient::{RecipientLine, SENDER_FIELD};
use super::{BulkParameters, JobId, MESSAGE, PacketNumber, job_folder};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use zsched_format::control_file::compose::{Address, ControlFileDraft, Group, Recipient};
use zsched_format::control_file::{self};
use zsched_spool::scan::{ScanLimits, scan};
use zsched_spool::submit::Submitter;
use zsched_spool::{Spool, SpoolName, folder};
use zsched_sys as sys;

/// Maximum age of the message of a new packet, in seconds.
const MAX_MESSAGE_AGE: i64 = 3600;
/// User id of `nobody`. Agents deliver with its rights.
const NOBODY_UID: i64 = 65534;

/// A packet in the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingPacket {
    /// Its number.
    pub number: PacketNumber,
    /// Its channel, in lower case.
    pub channel: Vec<u8>,
    /// Its host, in lower case.
    pub host: Vec<u8>,
    /// Offsets of its recipients in `recipients`.
    pub offsets: Vec<u32>,
}

/// What a packet consists of.
pub(super) struct PacketContents<'a> {
    pub(super) parameters: &'a BulkParameters,
    pub(super) template: &'a HeaderTemplate,
    pub(super) channel: &'a str,
    pub(super) host: &'a str,
    /// Offsets of the recipients in `recipients`.
    pub(super) offsets: &'a [u32],
    pub(super) recipients: &'a [RecipientLine<'a>],
}

/// Makes a packet: an ordinary message, whose message file is a link to that of the job.
///
/// The control file is synced, but its entry is not: a packet that a power failure takes away is
/// made again.
pub(super) fn make(
    submitter: &Submitter,
    number: PacketNumber,
    contents: &PacketContents<'_>,
) -> io::Result<SpoolName> {
    let name = number.name(submitter.level);
    let text = contents.draft(&name, number.job).to_text()?;
    let (_, control_folder) = submitter.folders(&name)?;
    let mut control = submitter.hidden_control_file(&control_folder, &name, &text)?;
    control.file().sync_data()?;
    renew_message(&submitter.spool, number.job, MAX_MESSAGE_AGE)?;
    let message = job_folder(&submitter.spool, number.job).join(MESSAGE);
    let link = submitter.spool.message_file(&name);
    match fs::hard_link(&message, &link) {
        // A kill has left it, before there was a control file.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if folder::exists(&submitter.spool.control_file(&name))? {
                return Err(error);
            }
            fs::remove_file(&link)?;
            fs::hard_link(&message, &link)?;
        }
        other => other?,
    }
    control.rename(submitter.spool.control_file(&name))?;
    control.keep();
    Ok(name)
}

impl PacketContents<'_> {
    fn draft(&self, name: &SpoolName, job: JobId) -> ControlFileDraft {
        let offsets: String = self.offsets.iter().map(|offset| format!(" {offset}")).collect();
        ControlFileDraft {
            name: name.base(),
            body_offset: self.parameters.body_offset,
            log_id: self.parameters.log_id.clone(),
            priority: self.parameters.priority,
            bulk: Some(format!("{job}{offsets}")),
            groups: self.groups(),
            ..ControlFileDraft::default()
        }
    }

    /// One group, or one for each recipient whose sender or headers differ from the last one's.
    fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for line in self.recipients {
            let sender = self.sender(line);
            let recipient = self.recipient(line);
            match groups.last_mut() {
                Some(group) if !self.parameters.merge && group.sender == sender => {
                    group.recipients.push(recipient);
                }
                former => {
                    if let Some(former) = former.filter(|_| !self.parameters.merge) {
                        former.joins_next = true;
                    }
                    let headers = self.template.expand(line);
                    let recipients = vec![recipient];
                    groups.push(Group { sender, recipients, headers, ..Group::default() });
                }
            }
        }
        groups
    }

    fn recipient(&self, line: &RecipientLine<'_>) -> Recipient {
        let host = if self.host == "-" { "" } else { self.host };
        let notify = self.parameters.notify.as_ref().map(|when| format!("NOTIFY={when}"));
        Recipient {
            address: Address::new(self.channel, host, line.address, NOBODY_UID),
            notify: notify.unwrap_or_default(),
            end: None,
        }
    }

    fn sender(&self, line: &RecipientLine<'_>) -> Address {
        let privilege = self.parameters.privilege;
        let own = line.field(SENDER_FIELD).map(str::to_string);
        match (own, &self.parameters.sender) {
            (Some(own), _) => Address::new("local", "", &own, privilege),
            (None, Some(sender)) if self.parameters.verp => {
                Address::new("local", "", &verp_sender(sender, line.address), privilege)
            }
            (None, Some(sender)) => Address::new("local", "", sender, privilege),
            (None, None) => Address::new("error", "<>", "<>", privilege),
        }
    }
}

/// The sender with a recipient's address in it, as Postfix's `default_verp_delimiters` has it.
///
/// `list@example.org` becomes `list+bob=example.net@example.org`.
fn verp_sender(sender: &str, recipient: &str) -> String {
    let (local, domain) = sender.rsplit_once('@').unwrap_or((sender, ""));
    let recipient = match recipient.rsplit_once('@') {
        Some((user, host)) => format!("{user}={host}"),
        None => recipient.to_string(),
    };
    let at = if domain.is_empty() { "" } else { "@" };
    format!("{local}+{recipient}{at}{domain}")
}

/// The job of a control file, and the offsets of its recipients.
///
/// The offsets are in the order of the lines.
pub(super) fn job_of(text: &[u8]) -> Option<(JobId, Vec<u32>)> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let line = lines
        .by_ref()
        .take_while(|line| !line.starts_with(b"s"))
        .find(|line| line.starts_with(b"J "))?;
    let mut words = std::str::from_utf8(&line[2..]).ok()?.split(' ');
    let job = words.next()?.parse().ok()?;
    let offsets = words.map(str::parse).collect::<Result<Vec<u32>, _>>().ok()?;
    Some((job, offsets))
}

/// Reads a packet. `None` if it is gone, or is none.
pub fn read(spool: &Spool, name: &SpoolName) -> io::Result<Option<ExistingPacket>> {
    let Some(number) = PacketNumber::of_message(name.number()) else {
        return Ok(None);
    };
    let path = spool.control_file(name);
    let Some(file) = sys::if_exists(sys::open_nofollow(File::options().read(true), &path))? else {
        return Ok(None);
    };
    let text = control_file::read_all(&file, file.metadata()?.size())?;
    let Some((_, offsets)) = job_of(&text).filter(|(job, _)| *job == number.job) else {
        return Ok(None);
    };
    // The reader moves a malformed one aside; its recipients stay with it.
    let control = control_file::parse(text).ok();
    let quad = control.as_ref().and_then(|control| Some((control, control.recipients.first()?)));
    let word = |span| quad.map(|(control, _)| control.get(span).to_ascii_lowercase());
    let [channel, host] = match quad {
        Some((_, first)) => [word(first.quad.channel), word(first.quad.host)],
        None => [None, None],
    }
    .map(Option::unwrap_or_default);
    Ok(Some(ExistingPacket { number, channel, host, offsets }))
}

/// Lists the packets of all jobs in the spool.
///
/// Those that cannot be read are an error: without them recipients would be cut twice.
pub fn existing(spool: &Spool) -> io::Result<Vec<ExistingPacket>> {
    let (mut packets, mut failure) = (Vec::new(), None);
    let end = scan(spool, ScanLimits::NONE, |names| {
        for name in names {
            match read(spool, &name) {
                Ok(packet) => packets.extend(packet),
                Err(error) => failure = Some(error),
            }
        }
        Some(0)
    });
    match failure.or(end.errors.into_iter().next()) {
        Some(error) => Err(error),
        None => Ok(packets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verp_sender_contains_recipient() {
        for (sender, recipient, expected) in [
            ("list@example.org", "bob@example.net", "list+bob=example.net@example.org"),
            ("list", "bob@example.net", "list+bob=example.net"),
            ("list@example.org", "dave", "list+dave@example.org"),
        ] {
            assert_eq!(verp_sender(sender, recipient), expected);
        }
    }

    #[test]
    fn job_line_after_first_sender_is_ignored() {
        let text = b"@ 7\ni 1\nJ 000001 0 17 4\ns local - a 0\nr           c h u 0\n";
        assert_eq!(job_of(text), Some(("000001".parse().expect("a job"), vec![0, 17, 4])));
        assert_eq!(job_of(b"i 1\ns local - a 0\nJ 000001 0\n"), None);
        assert_eq!(job_of(b"J 000001 x\n"), None);
    }
}
