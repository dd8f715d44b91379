//! Writing into a control file what became of recipients, where agents leave that to the scheduler.

use super::ending::{Candidate, Locker, OpenControlFile};
use super::outbox::OnDisk;
use super::part::{self, NoPart};
use super::reroute::reroute;
use super::{Spool, SpoolName, decided, owner_at_load};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use zsched_format::control_file::diagnostic::Diagnostic;
use zsched_format::control_file::notify::{Events, Notify};
use zsched_format::control_file::{self, ControlFile, Recipient, Tag};
use zsched_format::time::Timestamp;

/// What is to be noted, for each of some recipients of one message.
#[derive(Clone, Copy, Debug)]
pub struct Remark<'a> {
    /// Offsets of the recipients' lines.
    pub offsets: &'a [u32],
    /// Why: it decides which of them wanted to hear of it.
    pub occasion: Occasion,
    /// When it happened.
    pub time: Timestamp,
    /// Notary data.
    pub notary: &'a [u8],
    /// Text for people.
    pub message: &'a [u8],
}

/// Why something is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Occasion {
    /// Delivered (`ok`): noted if NOTIFY has SUCCESS.
    Success,
    /// Failed (`error`): noted if NOTIFY has FAILURE.
    Failure,
    /// Too old: noted if NOTIFY has FAILURE, and the recipient is marked as failed, so that a
    /// restart does not let it expire once more.
    Expiry,
    /// An operator wants it forgotten: nothing is noted, and the recipient is marked as done.
    Deletion,
    /// It has gone back to the router: the same.
    Reroute,
}

impl Occasion {
    fn is_wanted(self, events: Events) -> bool {
        match self {
            Occasion::Success => events.success,
            Occasion::Failure | Occasion::Expiry => events.failure,
            Occasion::Deletion | Occasion::Reroute => false,
        }
    }
}

/// Writes what became of recipients. Those that no agent has ended are ended here ([`ending`](super::ending)).
/// Tells whether a `d` line was written for a sender who wants to hear of it. When it returns, that is on disk.
pub fn write(spool: &Spool, name: &SpoolName, remark: &Remark<'_>) -> io::Result<bool> {
    let path = spool.control_file(name);
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    let metadata = file.metadata()?;
    let modified = Timestamp::from_parts(metadata.mtime(), metadata.mtime_nsec());
    let owner = |field| owner_at_load(field, modified);
    let locker = Locker { pid: std::process::id(), owner: &owner };
    let mut on_disk = OnDisk { file, path };
    if remark.occasion == Occasion::Reroute {
        reroute(spool, name, &mut on_disk, remark.offsets, &locker)?;
        return Ok(false);
    }
    let candidates = match metadata.len() {
        size if size > control_file::LARGE => candidates_of_large(&on_disk, size, remark)?,
        size => {
            let file = control_file::parse(control_file::contents(&mut on_disk.file, size)?)
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            candidates(&file, remark)
        }
    };
    conclude(&on_disk, &candidates, remark.occasion, &locker)
}

/// Carries a remark out. Tells whether anything was noted.
pub fn conclude(
    on_disk: &impl OpenControlFile,
    candidates: &[Candidate],
    occasion: Occasion,
    locker: &Locker<'_>,
) -> io::Result<bool> {
    let tag = match occasion {
        Occasion::Success | Occasion::Failure => {
            let lines: Vec<u8> = candidates.iter().flat_map(|one| &one.line).copied().collect();
            if !lines.is_empty() {
                on_disk.append(&lines)?;
            }
            return Ok(!lines.is_empty());
        }
        Occasion::Expiry => Tag::Failed,
        Occasion::Deletion | Occasion::Reroute => Tag::Done,
    };
    locker.end(on_disk, candidates, tag)
}

/// The recipients that a remark is about, and their `d` lines.
pub fn candidates(file: &ControlFile, remark: &Remark<'_>) -> Vec<Candidate> {
    let verdicts = match remark.occasion {
        Occasion::Success | Occasion::Failure => HashMap::new(),
        _ => decided::verdicts(file),
    };
    let recipients = remark.offsets.iter().filter_map(|offset| file.recipient_at(*offset));
    recipients.map(|recipient| candidate(file, recipient, None, (remark, &verdicts))).collect()
}

/// The same of a file that is too large to be read as a whole. Where the headers are the lines do not say.
fn candidates_of_large(
    on_disk: &OnDisk,
    size: u64,
    remark: &Remark<'_>,
) -> io::Result<Vec<Candidate>> {
    let verdicts = match remark.occasion {
        Occasion::Success | Occasion::Failure => HashMap::new(),
        _ => decided::verdicts_of_large(on_disk, size)?,
    };
    let mut candidates = Vec::new();
    for offset in remark.offsets {
        let part = part::read(on_disk, *offset, 1).map_err(|error| match error {
            NoPart::Failed(error) => error,
            NoPart::Malformed(error) => io::Error::new(ErrorKind::InvalidData, error),
        })?;
        let recipient = part.file.recipient_at(*offset);
        let with_line = |r| candidate(&part.file, r, Some(part.shift), (remark, &verdicts));
        candidates.extend(recipient.map(with_line));
    }
    Ok(candidates)
}

/// A recipient, and its `d` line if its sender wants one. One that is decided on has its line. With `shift` it
/// was read from that much further behind in the file.
fn candidate(
    file: &ControlFile,
    recipient: &Recipient,
    shift: Option<u64>,
    (remark, verdicts): (&Remark<'_>, &HashMap<u32, Tag>),
) -> Candidate {
    let Recipient { offset, tag, lock, .. } = *recipient;
    let mut text = Vec::new();
    let events = events(file, recipient);
    let is_wanted = remark.occasion.is_wanted(events);
    let decided = verdicts.get(&offset).copied();
    if is_wanted && decided.is_none() {
        let mut line = line(file, recipient, remark);
        if let Some(shift) = shift {
            line.headers = None;
            line.notify = line.notify.map(|at| (u64::from(at) + shift) as u32);
        }
        line.write_to(&mut text);
    }
    let is_owed = match decided {
        Some(Tag::Failed) => events.failure,
        Some(_) => events.success,
        None => false,
    };
    Candidate { offset, tag, lock, line: text, decided, is_owed }
}

/// The `d` lines that a remark comes to, for those recipients whose senders want to hear of it.
pub fn lines(file: &ControlFile, remark: &Remark<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for recipient in remark.offsets.iter().filter_map(|offset| file.recipient_at(*offset)) {
        if remark.occasion.is_wanted(events(file, recipient)) {
            line(file, recipient, remark).write_to(&mut lines);
        }
    }
    lines
}

fn line<'a>(file: &ControlFile, recipient: &Recipient, remark: &Remark<'a>) -> Diagnostic<'a> {
    Diagnostic {
        recipient: recipient.offset,
        headers: file.headers_of(recipient).map(|headers| headers.text.start),
        // The original's scheduler points behind id and tag here, agents point at the line.
        notify: recipient.notify.map(|notify| notify.value.start),
        time: remark.time.seconds(),
        notary: remark.notary,
        message: remark.message,
    }
}

/// Whether a sender is owed a report: by a `d` line that was not reported, about an event that the
/// recipient's NOTIFY asks for (RFC 3461 4.1). A line that cannot be understood is owed, too.
pub fn owes_report(file: &ControlFile) -> bool {
    file.diagnostics.iter().filter(|diagnostic| !diagnostic.reported).any(|diagnostic| {
        let diagnostic = Diagnostic::parse(file.get(diagnostic.value));
        let recipient = diagnostic.as_ref().and_then(|d| file.recipient_at(d.recipient));
        match (diagnostic, recipient) {
            (Some(diagnostic), Some(recipient)) => {
                is_asked_for(&diagnostic, events(file, recipient))
            }
            _ => true,
        }
    })
}

/// Whether NOTIFY asks for the event of a `d` line. One without an action that we know counts for any.
fn is_asked_for(diagnostic: &Diagnostic<'_>, events: Events) -> bool {
    match diagnostic.action().to_ascii_lowercase().as_slice() {
        b"failed" => events.failure,
        b"delivered" | b"relayed" | b"expanded" => events.success,
        // The original's scheduler notes an expiry with the action of the last deferral.
        b"delayed" => events.delay || events.failure,
        _ => events != Events::NONE,
    }
}

/// Whether there is a recipient that `has_failed` by its tag, whose sender wants to know of failures, and
/// about whom nothing was noted: the scheduler was killed before it came to that, or an agent did not
/// do what it said.
pub fn hides_failure(file: &ControlFile, has_failed: impl Fn(Tag) -> bool) -> bool {
    let mut failed =
        file.recipients.iter().filter(|recipient| has_failed(recipient.tag)).peekable();
    if failed.peek().is_none() {
        return false;
    }
    let noted: HashSet<u32> = file
        .diagnostics
        .iter()
        .filter_map(|diagnostic| Some(Diagnostic::parse(file.get(diagnostic.value))?.recipient))
        .collect();
    failed.any(|recipient| !noted.contains(&recipient.offset) && events(file, recipient).failure)
}

/// What the sender wants to hear about a recipient.
pub fn events(file: &ControlFile, recipient: &Recipient) -> Events {
    recipient
        .notify
        .map_or(Notify::default().events, |notify| Notify::parse(file.get(notify.value)).events)
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

    fn after(occasion: Occasion) -> (bool, String) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let name = SpoolName::new(HashFolder::TOP, b"1").expect("a name");
        fs::write(spool.control_file(&name), TEXT).expect("a control file");
        let remark = Remark {
            offsets: &[31, 52, 88],
            occasion,
            time: Timestamp::from_seconds(1_795_259_643),
            notary: b"n",
            message: b"text",
        };
        let wrote = write(&spool, &name, &remark).expect("noted");
        (wrote, fs::read_to_string(spool.control_file(&name)).expect("read"))
    }

    #[test]
    fn only_those_who_want_it_get_a_line() {
        let line = |offset, notify| format!("d {offset}:136:{notify}::1795259643\tn\ttext\n");
        let (wrote, text) = after(Occasion::Success);
        assert!(wrote);
        assert_eq!(text, format!("{TEXT}{}", line(88, "111")));
        let (wrote, text) = after(Occasion::Failure);
        assert!(wrote);
        assert_eq!(text, format!("{TEXT}{}{}", line(31, "-1"), line(88, "111")));
    }

    #[test]
    fn expired_recipients_are_marked_all_of_them() {
        let (_, text) = after(Occasion::Expiry);
        assert_eq!(text.matches("\nr-          c").count(), 3, "{text}");
    }

    #[test]
    fn a_failure_without_a_line_is_noticed() {
        let hides = |lines: &str, tag: &str| {
            let text = TEXT.replace("r           c h u1", &format!("r{tag}          c h u1"));
            let text = text.replace("r           c h u3", "r+          c h u3");
            let text = format!("{text}{lines}");
            let file = control_file::parse(text.into_bytes()).expect("a file");
            hides_failure(&file, |tag| tag == Tag::Failed)
        };
        assert!(hides("", "-"));
        assert!(!hides("", "+"));
        assert!(!hides("d+31:0:-1::1\tn\tm\n", "-"));
    }

    #[test]
    fn a_report_is_owed_unless_never_was_wanted() {
        let owes = |lines: &str| {
            let file = control_file::parse(format!("{TEXT}{lines}").into_bytes()).expect("a file");
            owes_report(&file)
        };
        assert!(!owes(""));
        assert!(owes("d 31:0:-1::1\tn\tm\n"));
        assert!(!owes("d+31:0:-1::1\tn\tm\n"));
        assert!(!owes("d 52:0:-1::1\tn\tm\n"));
        assert!(owes("d broken\n"));
    }

    #[test]
    fn report_is_owed_only_of_events_that_notify_names() {
        for (notify, owed) in [
            ("SUCCESS", "delivered,relayed,expanded,?"),
            ("FAILURE", "failed,delayed,?"),
            ("DELAY", "delayed,?"),
            ("FAILURE,DELAY", "failed,delayed,?"),
            ("NEVER", ""),
        ] {
            let all = ["failed", "delivered", "relayed", "expanded", "delayed", "?"];
            let owes = |action: &&str| {
                let line = format!("d 88:0:109::1\tu\x01{action}\x015.0.0\x01\x01\tm\n");
                let text = TEXT.replace("SUCCESS,FAILURE", notify) + &line;
                owes_report(&control_file::parse(text.into_bytes()).expect("a file"))
            };
            let found: Vec<&str> = all.into_iter().filter(owes).collect();
            let expected: Vec<&str> =
                all.into_iter().filter(|action| owed.split(',').any(|o| o == *action)).collect();
            assert_eq!(found, expected, "{notify}");
        }
    }
}
