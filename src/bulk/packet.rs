//! Packets: control files for some recipients of one destination of a job.
//!
//! | step | after a kill |
//! |---|---|
//! | the control file is written under a hidden name, and the message file linked | a hidden file |
//! | files and folders are synced | the same |
//! | the recipients are marked as cut, and that is synced | the start gives the hidden file its name |
//! | the control file gets its name | the packet is there |
//!
//! So a recipient that is marked is in a packet, until its outcome is written or somebody else
//! takes the packet away. A power failure loses no more than a kill does.

use super::cut::PlannedPacket;
use super::job_folder;
use super::merge::{HeaderTemplate, value};
use super::recipient::{RecipientLine, SENDER_FIELD};
use super::{BulkParameters, JobId, MESSAGE, PacketNumber};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use zsched_format::control_file::compose::{Address, ControlFileDraft, Group, Recipient};
use zsched_format::control_file::{self, Tag};
use zsched_format::merge::{MergeFields, MergeReader};
use zsched_format::time::Timestamp;
use zsched_spool::scan::scan;
use zsched_spool::submit::Submitter;
use zsched_spool::sync::{sync_together, write_out_together};
use zsched_spool::temp_file::TempFile;
use zsched_spool::{Spool, SpoolName, folder};
use zsched_sys as sys;

/// Maximum age of the message of a new packet, in seconds.
pub const MAX_MESSAGE_AGE: i64 = 3600;
/// User id of `nobody`. Agents deliver with its rights.
const NOBODY_UID: i64 = 65534;

/// A packet in the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingPacket {
    /// Its number.
    pub number: PacketNumber,
    /// Offsets of its recipients in `recipients`, and their tags in its control file.
    pub recipients: Vec<(u32, Tag)>,
}

impl ExistingPacket {
    /// Offsets of its recipients in `recipients`.
    pub fn offsets(&self) -> impl Iterator<Item = u32> {
        self.recipients.iter().map(|(offset, _)| *offset)
    }
}

/// A packet that was found in the spool, and numbers of its recipients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct OpenedPacket {
    /// Offset of its first recipient.
    pub offset: u32,
    /// All its recipients.
    pub recipients: u32,
    /// Those that are delivered.
    pub delivered: u32,
    /// Those that have failed.
    pub failed: u32,
    /// Those that an operator has deleted or rerouted.
    pub removed: u32,
}

/// What a packet consists of.
pub(super) struct PacketContents<'a> {
    pub(super) parameters: &'a BulkParameters,
    pub(super) priority: Option<u8>,
    pub(super) template: &'a HeaderTemplate,
    pub(super) channel: &'a str,
    pub(super) host: &'a str,
    /// Offsets of the recipients in `recipients`.
    pub(super) offsets: Vec<u32>,
    pub(super) recipients: &'a [RecipientLine<'a>],
    /// Time of the message, from which its deadline counts, in seconds since the epoch.
    pub(super) received: i64,
    /// Agents merge fields into the body.
    pub(super) merges_by_agent: bool,
}

/// The fields of a recipient that the body names.
pub(super) fn body_fields(parameters: &BulkParameters, line: &RecipientLine<'_>) -> MergeFields {
    let field = |name| (name, value(line, name).unwrap_or_default());
    MergeFields::new(parameters.fields_of_body().map(field))
}

/// Where packets become messages: a spool, or the simulated world.
pub trait PacketFolder {
    /// A packet that is complete but for its name. It is removed if it is dropped.
    type Staged;

    /// Writes packets under hidden names, and returns when they are on disk.
    fn stage(&self, job: JobId, packets: &[PlannedPacket]) -> Vec<io::Result<Self::Staged>>;

    /// Gives a packet its name.
    fn publish(&self, packet: Self::Staged) -> io::Result<()>;
}

/// A packet in a spool that is complete but for its name.
pub struct StagedPacket {
    control: TempFile,
    name: SpoolName,
    /// The message file, which is removed if the packet is not published.
    message: Option<PathBuf>,
}

impl StagedPacket {
    /// Writes a packet under a hidden name.
    fn write(
        submitter: &Submitter,
        job: JobId,
        packet: &PlannedPacket,
    ) -> io::Result<StagedPacket> {
        let name = packet.name.clone();
        let (_, folder) = submitter.folders(&name)?;
        let control = submitter.hidden_control_file(&folder, &name, &packet.text)?;
        let original = job_folder(&submitter.spool, job).join(MESSAGE);
        let message = submitter.spool.message_file(&name);
        let make = || match &packet.merged_body {
            Some(fields) => copy_merged(&original, packet.body_offset, fields, &message),
            None => fs::hard_link(&original, &message),
        };
        match make() {
            // A kill has left it, before there was a control file.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if folder::exists(&submitter.spool.control_file(&name))? {
                    return Err(error);
                }
                fs::remove_file(&message)?;
                make()?;
            }
            other => other?,
        }
        Ok(StagedPacket { control, name, message: Some(message) })
    }
}

impl Drop for StagedPacket {
    fn drop(&mut self) {
        if let Some(message) = &self.message {
            // The caller already has an error to report. A later packet replaces the file.
            drop(fs::remove_file(message));
        }
    }
}

/// Copies a message for one recipient, with the recipient's fields in the body.
fn copy_merged(from: &Path, body_offset: u64, fields: &MergeFields, to: &Path) -> io::Result<()> {
    let mut original = File::open(from)?;
    let mut copy = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut (&mut original).take(body_offset), &mut copy)?;
    io::copy(&mut MergeReader::new(&mut original, fields.clone()), &mut copy)?;
    let owner = fs::metadata(from)?;
    if sys::users::is_root() {
        fchown(&copy, Some(owner.uid()), Some(owner.gid()))?;
    }
    copy.sync_all()
}

impl PacketFolder for Submitter {
    type Staged = StagedPacket;

    fn stage(&self, job: JobId, packets: &[PlannedPacket]) -> Vec<io::Result<StagedPacket>> {
        let write = |packet| StagedPacket::write(self, job, packet);
        let mut staged: Vec<io::Result<StagedPacket>> = packets.iter().map(write).collect();
        let files: Vec<&File> =
            staged.iter().flatten().map(|packet| packet.control.file()).collect();
        let written = write_out_together(&files);
        fail_unwritten(&mut staged, written);
        // Both folders: that of the control file, and that of the message file.
        for folder_of in [
            |packet: &StagedPacket| packet.control.path().parent().map(Path::to_path_buf),
            |packet: &StagedPacket| Some(packet.message.as_ref()?.parent()?.to_path_buf()),
        ] {
            let folders =
                staged.iter().flatten().map(|packet| (None, folder_of(packet).unwrap_or_default()));
            let synced = sync_together(folders.collect());
            fail_unwritten(&mut staged, synced.into_iter().map(|synced| synced.folder).collect());
        }
        staged
    }

    fn publish(&self, mut packet: StagedPacket) -> io::Result<()> {
        packet.control.rename(self.spool.control_file(&packet.name))?;
        packet.control.stay();
        packet.message = None;
        Ok(())
    }
}

/// Replaces packets that could not be written by the errors. `written` is about the others.
fn fail_unwritten(staged: &mut [io::Result<StagedPacket>], written: Vec<io::Result<()>>) {
    let packets = staged.iter_mut().filter(|packet| packet.is_ok());
    for (packet, written) in packets.zip(written) {
        if let Err(error) = written {
            *packet = Err(error);
        }
    }
}

/// Replaces the message of a job by a copy if it is old. Returns its time.
///
/// That is the arrival of the packets made from it, in seconds since the epoch, and they expire by
/// it.
pub(super) fn renew_message(submitter: &Submitter, job: JobId) -> io::Result<i64> {
    let path = job_folder(&submitter.spool, job).join(MESSAGE);
    let metadata = fs::metadata(&path)?;
    if Timestamp::now().seconds() - metadata.mtime() <= MAX_MESSAGE_AGE {
        return Ok(metadata.mtime());
    }
    let new = sys::with_suffix(&path, ".new");
    sys::if_exists(fs::remove_file(&new))?;
    fs::copy(&path, &new)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, &path)?;
    Ok(fs::metadata(&path)?.mtime())
}

impl PacketContents<'_> {
    /// The text of the control file.
    pub(super) fn text(&self, name: &SpoolName, job: JobId) -> io::Result<Vec<u8>> {
        let offsets: String = self.offsets.iter().map(|offset| format!(" {offset}")).collect();
        let draft = ControlFileDraft {
            name: name.base(),
            body_offset: self.parameters.body_offset,
            log_id: self.parameters.log_id.clone(),
            priority: self.priority,
            bulk: Some(format!("{job}{offsets}")),
            groups: self.groups(),
            ..ControlFileDraft::default()
        };
        draft.to_text()
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
        let address = Address::new(self.channel, host, line.address, NOBODY_UID);
        Recipient { address, notify: self.words(line).join(" "), end: None }
    }

    /// The words of the `N` line of a recipient.
    fn words(&self, line: &RecipientLine<'_>) -> Vec<String> {
        let BulkParameters { notify, window, deadline, .. } = self.parameters;
        let mut words = Vec::new();
        words.extend(notify.as_ref().map(|when| format!("NOTIFY={when}")));
        words.extend(window.as_ref().map(|window| format!("WINDOW={window}")));
        words.extend(deadline.map(|at| format!("BY={};R", (at - self.received).max(1))));
        if self.merges_by_agent && self.parameters.body_fields.is_some() {
            words.push(body_fields(self.parameters, line).to_word());
        }
        words
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

/// The tags of the recipients of a control file, in the order of the lines.
///
/// The file may be malformed.
pub(super) fn tags(text: &[u8]) -> impl Iterator<Item = Tag> {
    // Headers begin after a line `m`, and end with an empty one.
    let mut is_header = false;
    text.split(|byte| *byte == b'\n').filter_map(move |line| {
        is_header = if is_header { !line.is_empty() } else { line == b"m" };
        let tag = line.strip_prefix(b"r").filter(|_| !is_header)?.first()?;
        Some(Tag::from_byte(*tag))
    })
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
    Ok(of_text(number, &text))
}

/// The packet of a control file. `None` if it belongs to no job, or another one.
pub fn of_text(number: PacketNumber, text: &[u8]) -> Option<ExistingPacket> {
    // The reader moves a malformed one aside; its recipients stay with it.
    let (_, offsets) = job_of(text).filter(|(job, _)| *job == number.job)?;
    // A recipient without a line is in the packet all the same.
    let tags = tags(text).chain(std::iter::repeat(Tag::Pending));
    Some(ExistingPacket { number, recipients: offsets.into_iter().zip(tags).collect() })
}

/// Lists the packets of all jobs in the spool.
///
/// Those that cannot be read are an error: without them recipients would be cut twice.
pub fn existing(spool: &Spool) -> io::Result<Vec<ExistingPacket>> {
    let mut packets = Vec::new();
    for_each_name(spool, |name| {
        packets.extend(read(spool, name)?);
        Ok(())
    })?;
    Ok(packets)
}

/// The jobs that have packets in the spool.
pub fn jobs_with_packets(spool: &Spool) -> io::Result<BTreeSet<JobId>> {
    let mut jobs = BTreeSet::new();
    for_each_name(spool, |name| {
        jobs.extend(PacketNumber::of_message(name.number()).map(|packet| packet.job));
        Ok(())
    })?;
    Ok(jobs)
}

fn for_each_name(
    spool: &Spool,
    mut each: impl FnMut(&SpoolName) -> io::Result<()>,
) -> io::Result<()> {
    let mut outcome = Ok(());
    let end = scan(spool, |names| {
        outcome = names.iter().try_for_each(&mut each);
        outcome.is_ok()
    });
    outcome.and(end.errors.into_iter().next().map_or(Ok(()), Err))
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

    #[test]
    fn tags_of_malformed_file_are_read() {
        let text = b"i \nJ 000001 0 17 4\ns x\nr+\nr-          c h u 0\nm\nr+: a header\n\nr~ x\nr";
        let expected = [Tag::Done, Tag::Failed, Tag::Locked];
        assert_eq!(tags(text).collect::<Vec<_>>(), expected);
    }
}
