//! Writes the outcome of recipients into a control file.
//!
//! Agents leave that to the scheduler in some cases.

use super::chunk;
use super::finalize::{OpenControlFile, RecipientLocker, UnfinishedRecipient, complete_delivered};
use super::outbox::OnDisk;
use super::reroute::reroute;
use super::{Spool, SpoolName, decisions, owner_when_unloaded};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use zsched_format::control_file::diagnostic::{
    ADDRESS_OF_RECIPIENT, DiagnosticRecord, NOTARY_SEPARATOR, is_about_deadline,
};
use zsched_format::control_file::notify::{Events, Notify};
use zsched_format::control_file::{self, ControlFile, Recipient, Tag};
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// The outcome of some recipients of one message.
#[derive(Clone, Copy, Debug)]
pub struct OutcomeNote<'a> {
    /// Offsets of the recipients' lines.
    pub offsets: &'a [u32],
    /// The kind of outcome, which determines the senders that requested a report.
    pub occasion: OutcomeKind,
    /// Time of the outcome.
    pub time: Timestamp,
    /// Notary data.
    pub notary: &'a [u8],
    /// Text for people.
    pub message: &'a [u8],
}

/// The kind of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum OutcomeKind {
    /// Delivered (`ok`): noted if NOTIFY has SUCCESS.
    Success,
    /// Failed (`error`): noted if NOTIFY has FAILURE.
    Failure,
    /// Expired: noted if NOTIFY has FAILURE.
    ///
    /// The recipient is marked as failed, so that it does not expire again after a restart.
    Expiry,
    /// Failed, and has alternatives: marked as failed, without a note.
    ///
    /// An agent marks a failed recipient itself. But the next alternative is found by this mark.
    FailedAlternative,
    /// Late: noted if NOTIFY has DELAY, or there is no NOTIFY.
    Delay,
    /// Late for the deadline that the sender has set: noted unless NOTIFY is NEVER.
    DeadlinePassed,
    /// Deleted by an operator: marked as done, without a note.
    Deletion,
    /// Given back to the router: marked as done, without a note.
    Reroute,
}

impl OutcomeKind {
    /// Returns true if the scheduler itself finishes the recipients.
    pub fn ends_recipients(self) -> bool {
        matches!(
            self,
            OutcomeKind::Expiry
                | OutcomeKind::FailedAlternative
                | OutcomeKind::Deletion
                | OutcomeKind::Reroute
        )
    }

    fn is_requested_by(self, events: Events) -> bool {
        match self {
            OutcomeKind::Success => events.success,
            OutcomeKind::Failure | OutcomeKind::Expiry => events.failure,
            OutcomeKind::Delay => events.delay,
            OutcomeKind::DeadlinePassed => events != Events::NONE,
            OutcomeKind::FailedAlternative | OutcomeKind::Deletion | OutcomeKind::Reroute => false,
        }
    }
}

/// Writes the outcome of recipients, and returns when it is on disk.
///
/// Recipients that no agent has finished are finished here ([`finalize`](super::finalize)). Returns
/// true if the file has a `d` line for a sender who requested it.
pub fn write(spool: &Spool, name: &SpoolName, outcome: &OutcomeNote<'_>) -> io::Result<bool> {
    let path = spool.control_file(name);
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    write_to(spool, name, OnDisk { file, path }, outcome).map_err(about_other_file)
}

/// An error about another file than the control file, such as a missing `router/`.
///
/// [`ErrorKind::NotFound`] means that the message is gone, so nothing would be tried again.
pub(crate) fn about_other_file(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::NotFound => ErrorKind::NotADirectory.into(),
        _ => error,
    }
}

fn write_to(
    spool: &Spool,
    name: &SpoolName,
    mut on_disk: OnDisk,
    outcome: &OutcomeNote<'_>,
) -> io::Result<bool> {
    let metadata = on_disk.file.metadata()?;
    let (size, modified) = (metadata.len(), Timestamp::modified(&metadata));
    let owner = |field| owner_when_unloaded(field, modified);
    let locker = RecipientLocker { pid: std::process::id(), owner: &owner };
    if outcome.occasion == OutcomeKind::Reroute {
        reroute(spool, name, &mut on_disk, outcome, &locker)?;
        return Ok(false);
    }
    let candidates = candidates_on_disk(&on_disk, size, outcome)?;
    conclude(&on_disk, &candidates, outcome.occasion, &locker)
}

/// The recipients of an outcome in a control file of `size` bytes, with their `d` lines.
pub(crate) fn candidates_on_disk(
    on_disk: &impl FileExt,
    size: u64,
    outcome: &OutcomeNote<'_>,
) -> io::Result<Vec<UnfinishedRecipient>> {
    if size > control_file::MAX_QUERY_SIZE {
        return candidates_of_large(on_disk, size, outcome);
    }
    Ok(candidates(&control_file::parse(sys::read_part(on_disk, 0, size as usize)?)?, outcome))
}

/// Records an outcome. Returns true if a `d` line was written, or is there already.
pub fn conclude(
    on_disk: &impl OpenControlFile,
    candidates: &[UnfinishedRecipient],
    occasion: OutcomeKind,
    locker: &RecipientLocker<'_>,
) -> io::Result<bool> {
    let tag = match occasion {
        OutcomeKind::Success
        | OutcomeKind::Failure
        | OutcomeKind::Delay
        | OutcomeKind::DeadlinePassed => {
            let lines: Vec<u8> = candidates.iter().flat_map(|one| &one.line).copied().collect();
            if !lines.is_empty() {
                on_disk.append(&lines)?;
            }
            if occasion == OutcomeKind::Success {
                complete_delivered(on_disk, candidates)?;
            }
            return Ok(!lines.is_empty());
        }
        OutcomeKind::Expiry | OutcomeKind::FailedAlternative => Tag::Failed,
        OutcomeKind::Deletion | OutcomeKind::Reroute => Tag::Done,
    };
    locker.finish_recipients(on_disk, candidates, tag)
}

/// The recipients of an outcome, with their `d` lines.
pub fn candidates(file: &ControlFile, outcome: &OutcomeNote<'_>) -> Vec<UnfinishedRecipient> {
    let verdicts = match outcome.occasion.ends_recipients() {
        true => decisions::verdicts(file),
        false => HashMap::new(),
    };
    let recipients = outcome.offsets.iter().filter_map(|offset| file.recipient_at(*offset));
    recipients.map(|recipient| candidate(file, recipient, None, (outcome, &verdicts))).collect()
}

/// The recipients of an outcome in a large file.
///
/// Its lines lack the offset of the headers.
fn candidates_of_large(
    on_disk: &impl FileExt,
    size: u64,
    outcome: &OutcomeNote<'_>,
) -> io::Result<Vec<UnfinishedRecipient>> {
    let verdicts = match outcome.occasion.ends_recipients() {
        true => decisions::verdicts_of_large(on_disk, size)?,
        false => HashMap::new(),
    };
    let mut candidates = Vec::new();
    for offset in outcome.offsets {
        let part = chunk::read(on_disk, *offset, 1)?;
        let recipient = part.file.recipient_at(*offset);
        let with_line = |r| candidate(&part.file, r, Some(part.shift), (outcome, &verdicts));
        candidates.extend(recipient.map(with_line));
    }
    Ok(candidates)
}

/// A recipient, with its `d` line if the sender requested one.
///
/// A recipient that is already decided has its line. `shift` is the difference between offsets in
/// the file and in the text, if only a part was read.
fn candidate(
    file: &ControlFile,
    recipient: &Recipient,
    shift: Option<u64>,
    (outcome, verdicts): (&OutcomeNote<'_>, &HashMap<u32, Tag>),
) -> UnfinishedRecipient {
    let Recipient { offset, tag, lock, .. } = *recipient;
    let mut text = Vec::new();
    let events = events(file, recipient);
    let decided_tag = verdicts.get(&offset).copied();
    if outcome.occasion.is_requested_by(events) && decided_tag.is_none() {
        let mut line = line(file, recipient, outcome);
        if let Some(shift) = shift {
            line.headers = None;
            line.notify = line.notify.map(|at| (u64::from(at) + shift) as u32);
        }
        line.write_to(&mut text);
    }
    let is_requested = match decided_tag {
        Some(Tag::Failed) => events.failure,
        Some(_) => events.success,
        None => false,
    };
    UnfinishedRecipient { offset, tag, lock, line: text, decided_tag, is_requested }
}

/// The `d` lines of an outcome, for recipients whose senders requested them.
pub fn lines(file: &ControlFile, outcome: &OutcomeNote<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for recipient in outcome.offsets.iter().filter_map(|offset| file.recipient_at(*offset)) {
        if outcome.occasion.is_requested_by(events(file, recipient)) {
            line(file, recipient, outcome).write_to(&mut lines);
        }
    }
    lines
}

fn line<'a>(
    file: &ControlFile,
    recipient: &Recipient,
    outcome: &OutcomeNote<'a>,
) -> DiagnosticRecord<'a> {
    DiagnosticRecord {
        recipient: recipient.offset,
        headers: file.headers_of(recipient).map(|headers| headers.text.start),
        // The original's scheduler writes the offset after id and tag here, agents that of the
        // line.
        notify: recipient.notify.map(|notify| notify.value.start),
        time: outcome.time.seconds(),
        notary: outcome.notary,
        message: outcome.message,
    }
}

/// Returns true if a report to a sender is due, or lines of the log.
///
/// That is so if a `d` line that was not reported is about an event that the recipient's NOTIFY
/// requests (RFC 3461 4.1), is about a recipient that the router has refused, or cannot be parsed.
pub fn has_report_due(file: &ControlFile) -> bool {
    file.diagnostics.iter().filter(|diagnostic| !diagnostic.reported).any(|diagnostic| {
        let diagnostic = DiagnosticRecord::parse(file.get(diagnostic.value));
        let recipient = diagnostic.as_ref().and_then(|d| file.recipient_at(d.recipient));
        match (diagnostic, recipient) {
            (Some(diagnostic), Some(recipient)) => {
                is_requested(&diagnostic, events(file, recipient))
                    || is_refusal_of_router(file, &diagnostic, recipient)
            }
            _ => true,
        }
    })
}

/// Returns true if NOTIFY requests the event of a `d` line.
///
/// A line with an unknown action matches any event.
pub(crate) fn is_requested(diagnostic: &DiagnosticRecord<'_>, events: Events) -> bool {
    match diagnostic.action().to_ascii_lowercase().as_slice() {
        b"failed" => events.failure,
        b"delivered" | b"relayed" | b"expanded" => events.success,
        b"delayed" if is_expiry_of_original(diagnostic) => events.failure,
        b"delayed" if is_about_deadline(diagnostic.notary) => events != Events::NONE,
        b"delayed" => events.delay,
        _ => events != Events::NONE,
    }
}

/// Returns true for the `d` line of a recipient that our router has refused.
///
/// It has such recipients on a channel of their own. Agents name the address.
pub(crate) fn is_refusal_of_router(
    file: &ControlFile,
    diagnostic: &DiagnosticRecord<'_>,
    recipient: &Recipient,
) -> bool {
    let is_without_address =
        diagnostic.notary.starts_with(&[ADDRESS_OF_RECIPIENT, NOTARY_SEPARATOR]);
    let is_of_router = file.get(recipient.quad.channel) == b"error" && is_without_address;
    is_of_router && diagnostic.action() == b"failed"
}

/// Returns true for the `d` line of an expiry by ZMailer's scheduler.
///
/// It has the action of the last deferral, and begins with other words.
pub(crate) fn is_expiry_of_original(diagnostic: &DiagnosticRecord<'_>) -> bool {
    diagnostic.message.trim_ascii_start().starts_with(b"expired after ")
}

/// Returns true for the `d` line of a notice that a recipient is late.
fn is_delay_notice(diagnostic: &DiagnosticRecord<'_>) -> bool {
    diagnostic.action() == b"delayed" && !is_expiry_of_original(diagnostic)
}

/// Time of the last `d` line about a delay, in seconds since the epoch.
pub(crate) fn last_delay(file: &ControlFile) -> Option<u32> {
    let delays = diagnostics(file).filter(is_delay_notice);
    delays.filter_map(|line| u32::try_from(line.time).ok()).max()
}

/// The `d` lines of a control file that are not malformed.
fn diagnostics(file: &ControlFile) -> impl Iterator<Item = DiagnosticRecord<'_>> {
    file.diagnostics.iter().filter_map(|line| DiagnosticRecord::parse(file.get(line.value)))
}

/// Failed recipients that lack a requested `d` line.
///
/// `has_failed` tells by the tag if a recipient has failed. The cause is that the scheduler was
/// killed too early, or that an agent did not do what it reported. A notice that the recipient was
/// late does not count.
pub(crate) fn unnoted_failures(file: &ControlFile, has_failed: impl Fn(Tag) -> bool) -> Vec<u32> {
    let mut failed =
        file.recipients.iter().filter(|recipient| has_failed(recipient.tag)).peekable();
    if failed.peek().is_none() {
        return Vec::new();
    }
    let failures = diagnostics(file).filter(|line| !is_delay_notice(line));
    let noted: HashSet<u32> = failures.map(|line| line.recipient).collect();
    let is_unnoted = |recipient: &&Recipient| {
        !noted.contains(&recipient.offset) && events(file, recipient).failure
    };
    failed.filter(is_unnoted).map(|recipient| recipient.offset).collect()
}

/// The events that the sender of a recipient requested reports of.
///
/// The failure of a recipient is not reported if it has alternatives.
pub fn events(file: &ControlFile, recipient: &Recipient) -> Events {
    let Some(line) = recipient.notify else {
        return Events::default();
    };
    let notify = Notify::parse(file.get(line.value));
    let has_alternatives = notify.alternative_of.is_some_and(|of| of.left > 0);
    Events { failure: notify.events.failure && !has_alternatives, ..notify.events }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFolder;
    use std::fs;

    const TEXT: &str = "@ 0x00000007\ni 1\nl x\ns l - a 0\n\
                        r           c h u1 0\n\
                        r           c h u2 0\nN NOTIFY=NEVER\n\
                        r           c h u3 0\nN NOTIFY=SUCCESS,FAILURE\nm\nA: 1\n\n";

    fn after(occasion: OutcomeKind) -> (bool, String) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let name = SpoolName::new(HashFolder::TOP, b"1").expect("a name");
        fs::write(spool.control_file(&name), TEXT).expect("a control file");
        let outcome = OutcomeNote {
            offsets: &[31, 52, 88],
            occasion,
            time: Timestamp::from_seconds(1_795_259_643),
            notary: b"n",
            message: b"text",
        };
        let wrote = write(&spool, &name, &outcome).expect("noted");
        (wrote, fs::read_to_string(spool.control_file(&name)).expect("read"))
    }

    #[test]
    fn write_adds_line_only_if_sender_requests_it() {
        let line = |offset, notify| format!("d {offset}:136:{notify}::1795259643\tn\ttext\n");
        let (wrote, text) = after(OutcomeKind::Success);
        assert!(wrote);
        // The agent has not marked them.
        let marked = TEXT.replace("r           c", "r+          c");
        assert_eq!(text, format!("{marked}{}", line(88, "111")));
        let (wrote, text) = after(OutcomeKind::Failure);
        assert!(wrote);
        assert_eq!(text, format!("{TEXT}{}{}", line(31, "-1"), line(88, "111")));
    }

    #[test]
    fn expiry_marks_all_recipients_as_failed() {
        let (_, text) = after(OutcomeKind::Expiry);
        assert_eq!(text.matches("\nr-          c").count(), 3, "{text}");
    }

    #[test]
    fn hides_failure_detects_failure_without_line() {
        let hides = |lines: &str, tag: &str| {
            let text = TEXT.replace("r           c h u1", &format!("r{tag}          c h u1"));
            let text = text.replace("r           c h u3", "r+          c h u3");
            let text = format!("{text}{lines}");
            let file = control_file::parse(text.into_bytes()).expect("a file");
            !unnoted_failures(&file, |tag| tag == Tag::Failed).is_empty()
        };
        assert!(hides("", "-"));
        assert!(!hides("", "+"));
        assert!(!hides("d+31:0:-1::1\tn\tm\n", "-"));
        assert!(hides("d+31:0:-1::1\ta\x01delayed\x014.0.0\tm\n", "-"), "it was only late");
        assert!(!hides("d+31:0:-1::1\ta\x01delayed\x014.0.0\texpired after 3 days\n", "-"));
    }

    #[test]
    fn owes_report_unless_notify_is_never() {
        let owes = |lines: &str| {
            let file = control_file::parse(format!("{TEXT}{lines}").into_bytes()).expect("a file");
            has_report_due(&file)
        };
        assert!(!owes(""));
        assert!(owes("d 31:0:-1::1\tn\tm\n"));
        assert!(!owes("d+31:0:-1::1\tn\tm\n"));
        assert!(!owes("d 52:0:-1::1\tn\tm\n"));
        assert!(owes("d broken\n"));
    }

    #[test]
    fn owes_report_only_of_events_in_notify() {
        for (notify, owed) in [
            ("SUCCESS", "delivered,relayed,expanded,?"),
            ("FAILURE", "failed,expired,?"),
            ("DELAY", "delayed,?"),
            ("FAILURE,DELAY", "failed,expired,delayed,?"),
            ("NEVER", ""),
        ] {
            let all = ["failed", "expired", "delivered", "relayed", "expanded", "delayed", "?"];
            let owes = |action: &&str| {
                // What ZMailer's scheduler writes about an expiry.
                let (action, message) = match *action {
                    "expired" => ("delayed", "\rexpired after 3 days, problem was:\r"),
                    action => (action, "m"),
                };
                let line = format!("d 88:0:109::1\tu\x01{action}\x015.0.0\x01\x01\t{message}\n");
                let text = TEXT.replace("SUCCESS,FAILURE", notify) + &line;
                has_report_due(&control_file::parse(text.into_bytes()).expect("a file"))
            };
            let found: Vec<&str> = all.into_iter().filter(owes).collect();
            let expected: Vec<&str> =
                all.into_iter().filter(|action| owed.split(',').any(|o| o == *action)).collect();
            assert_eq!(found, expected, "{notify}");
        }
    }
}
