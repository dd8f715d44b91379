//! The outbox on disk, with a crash between any two steps.

use super::super::finalize::{OpenControlFile, RecipientLocker, UnfinishedRecipient};
use super::super::report::{ReportGroup, ReportedRecipient, UnreportedRest};
use super::super::resubmit::Submission;
use super::super::{HashFolder, HashLevel, LockOwner, Spool, owner_when_unloaded};
use super::*;
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use zsched_format::control_file::{self, PidField};

const TEXT: &str = "@ 0x00000007\ni 4711\no 7\nl x\ns local - a 0\n\
                    r           c h u1 0\nr           c h u2 0\nm\nA: 1\n\n\
                    s local - b 0\nr           c h u3 0\nm\nA: 2\n\n";

/// Number of steps that still succeed.
struct Steps(Cell<u32>);

impl Steps {
    fn step(&self) -> io::Result<()> {
        let left = self.0.get().checked_sub(1).ok_or(ErrorKind::BrokenPipe)?;
        self.0.set(left);
        Ok(())
    }
}

struct CutFile<'s>(OnDisk, &'s Steps);

impl FileExt for CutFile<'_> {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.1.step()?;
        self.0.write_at(bytes, position)
    }
}

impl OpenControlFile for CutFile<'_> {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn append(&self, lines: &[u8]) -> io::Result<()> {
        self.1.step()?;
        self.0.append(lines)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.step()?;
        self.0.sync()
    }
}

struct CutOutbox<'s>(OutboxFolder<'s>, &'s Steps);

impl<'s> Outbox for CutOutbox<'s> {
    type SubmissionDraft = SubmissionDraft<'s>;

    fn entries(
        &self,
        of: Option<(&MessageIdentity, SubmissionKind)>,
    ) -> io::Result<Vec<OutboxEntry>> {
        self.0.entries(of)
    }

    fn add(
        &self,
        of: (&MessageIdentity, SubmissionKind),
        lines: Vec<u32>,
        draft: &SubmissionDraft<'s>,
    ) -> io::Result<OutboxEntry> {
        self.1.step()?;
        self.0.add(of, lines, draft)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.step()?;
        self.0.sync()
    }

    fn publish(&self, entry: &OutboxEntry) -> io::Result<()> {
        self.1.step()?;
        self.0.publish(entry)
    }

    fn remove_published(&self, entry: &OutboxEntry) {
        if self.1.step().is_ok() {
            self.0.remove_published(entry);
        }
    }

    fn discard(&self, entry: &OutboxEntry) -> io::Result<()> {
        self.1.step()?;
        self.0.discard(entry)
    }

    fn mark_ready(&self, entry: &OutboxEntry) -> io::Result<()> {
        self.1.step()?;
        self.0.mark_ready(entry)
    }

    fn move_to_postman(&self, entry: &OutboxEntry) -> io::Result<()> {
        self.1.step()?;
        self.0.move_to_postman(entry)
    }
}

fn spool() -> (tempfile::TempDir, Spool, SpoolName) {
    let folder = tempfile::tempdir().expect("a folder");
    let spool = Spool::new(folder.path());
    spool.create().expect("a spool");
    let name = SpoolName::new(HashFolder::TOP, b"4711").expect("a name");
    fs::write(spool.control_file(&name), TEXT).expect("a control file");
    fs::write(spool.message_file(&name), "A: 1\n\nbody\n").expect("a message");
    (folder, spool, name)
}

fn on_disk(spool: &Spool, name: &SpoolName) -> OnDisk {
    let path = spool.control_file(name);
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("opened");
    OnDisk { file, path }
}

/// Reroutes all recipients, as far as the steps allow.
fn reroute(spool: &Spool, name: &SpoolName, steps: &Steps) -> io::Result<()> {
    let file = CutFile(on_disk(spool, name), steps);
    let outbox = CutOutbox(OutboxFolder::open(spool)?, steps);
    let identity = MessageIdentity::of(spool, name, &file.0.file)?;
    let of = (&identity, SubmissionKind::Reroute);
    resume(&file, &outbox, of)?;
    let parsed = control_file::parse(fs::read(spool.control_file(name))?).expect("a file");
    let candidate = |r: &control_file::Recipient| UnfinishedRecipient {
        offset: r.offset,
        tag: r.tag,
        lock: r.lock,
        line: Vec::new(),
        decided_tag: None,
        is_requested: false,
    };
    let candidates: Vec<UnfinishedRecipient> = parsed.recipients.iter().map(candidate).collect();
    let owner = |field: PidField| owner_when_unloaded(field, Timestamp::now());
    let locker = RecipientLocker { pid: std::process::id(), owner: &owner };
    let (taken, _) = locker.lock_all(&file, candidates.iter())?;
    let message = File::open(spool.message_file(name))?;
    let with = |headers| {
        let lines: Vec<u32> = taken.iter().map(|one| one.candidate.offset).collect();
        let is_of = |line: &u32| parsed.recipient_at(*line).is_some_and(|r| r.headers == headers);
        let lines: Vec<u32> = lines.into_iter().filter(is_of).collect();
        let submission = Submission {
            envelope_id: None,
            return_mode: None,
            sender: None,
            recipients: vec![],
            headers: b"",
        };
        let mail = ReroutedMail { submission, message: &message, body_offset: 6, owner: (0, 0) };
        (!lines.is_empty()).then_some((lines, SubmissionDraft::Reroute(mail)))
    };
    let submissions = [with(Some(0)), with(Some(1))].into_iter().flatten().collect();
    hand_over(&file, &outbox, of, submissions).map(drop)
}

/// The `d` lines of a delivered, two failed and a forgotten recipient, with two senders.
fn reported_text() -> String {
    let text = TEXT.replace("r           c h u1", "r-          c h u1");
    let text = text.replace("r           c h u2", "r-          c h u2");
    let text = text.replace("r           c h u3", "r-          c h u3");
    let line = |of: &str, notary: &str| {
        let offset = text.find(of).expect("a recipient") - "r-          ".len();
        format!("d {offset}:0:-1::5\t{notary}\ttext\n")
    };
    let lines = [
        line("c h u1", "\u{3}\u{1}failed\u{1}5.1.1\u{1}smtp; 550 x\u{1}"),
        line("c h u1", "\u{3}\u{1}delivered\u{1}2.0.0\u{1}smtp; 250 x\u{1}"),
        line("c h u3", "\u{3}\u{1}failed\u{1}5.1.1\u{1}smtp; 550 x\u{1}"),
        "d cut sh".to_string(),
    ];
    text.clone() + &lines.concat()
}

/// Sends the reports, as far as the steps allow. Returns those that the router has now.
fn report(
    spool: &Spool,
    name: &SpoolName,
    steps: &Steps,
) -> io::Result<Vec<(OutboxEntry, ReportGroup)>> {
    let file = CutFile(on_disk(spool, name), steps);
    let outbox = CutOutbox(OutboxFolder::open(spool)?, steps);
    let identity = MessageIdentity::of(spool, name, &file.0.file)?;
    let now = Some(Timestamp::from_seconds(7));
    let settled = crate::report::settle(&file, &outbox, &identity, now, &mut |_, group| {
        let about = |one: &ReportedRecipient| String::from_utf8_lossy(&one.address).into_owned();
        let about: Vec<String> = group.recipients.iter().map(about).collect();
        let sender = String::from_utf8_lossy(group.sender.as_deref().expect("a sender"));
        let text = format!("{sender}: {}\n", about.join(" "));
        Ok(Some(SubmissionDraft::Report(text.into_bytes())))
    });
    let settled = settled?;
    assert_eq!(settled.left, UnreportedRest::default());
    Ok(settled.sent)
}

/// The texts in `router/`, sorted.
fn reports(spool: &Spool) -> Vec<String> {
    let names = fs::read_dir(spool.router()).expect("listed").map(|entry| entry.expect("an entry"));
    let mut texts: Vec<String> =
        names.map(|entry| fs::read_to_string(entry.path()).expect("a report")).collect();
    texts.sort();
    texts
}

#[test]
fn crash_between_any_two_steps_of_a_report_neither_loses_nor_repeats_it() {
    for count in 0.. {
        let (_folder, spool, name) = spool();
        fs::write(spool.control_file(&name), reported_text()).expect("a control file");
        let is_over = report(&spool, &name, &Steps(Cell::new(count))).is_ok();
        let recovered = recover_folder(&spool, HashLevel::Flat).expect("recovered");
        assert_eq!((recovered.aside, recovered.ready), (0, 0), "step {count}");
        report(&spool, &name, &Steps(Cell::new(1000))).expect("the next attempt");
        report(&spool, &name, &Steps(Cell::new(1000))).expect("one without work");
        // The crash may come between the reports of the two senders, or before the line about the
        // second recipient, which has none.
        assert_eq!(reports(&spool), ["a: u1 u2\n", "b: u3\n"], "step {count}");
        let text = fs::read(spool.control_file(&name)).expect("a control file");
        let parsed = control_file::parse(text).expect("a control file");
        assert!(parsed.diagnostics.iter().all(|line| line.reported), "step {count}");
        assert_eq!(pending_submissions(&spool).expect("counted"), 0);
        if is_over {
            assert!(count > 10, "only {count} steps");
            break;
        }
    }
}

#[test]
fn error_at_any_step_of_a_report_is_resolved_by_next_attempt() {
    for count in 0.. {
        let (_folder, spool, name) = spool();
        fs::write(spool.control_file(&name), reported_text()).expect("a control file");
        let is_over = report(&spool, &name, &Steps(Cell::new(count))).is_ok();
        let earlier = reports(&spool).len();
        let sent = report(&spool, &name, &Steps(Cell::new(1000))).expect("the second attempt");
        assert_eq!(earlier + sent.len(), 2, "step {count}");
        for (entry, group) in sent {
            let path = spool.router().join(entry.id.to_string());
            let modified = Timestamp::modified(&fs::metadata(&path).expect("a report"));
            assert_eq!(modified, entry.modified);
            let text = fs::read(path).expect("a report");
            assert!(text.starts_with(group.sender.as_deref().expect("a sender")), "step {count}");
        }
        assert_eq!(reports(&spool), ["a: u1 u2\n", "b: u3\n"], "step {count}");
        if is_over {
            break;
        }
    }
}

#[test]
fn report_and_reroute_of_one_message_leave_each_other_alone() {
    let (_folder, spool, name) = spool();
    fs::write(spool.control_file(&name), reported_text()).expect("a control file");
    // Two lines in the outbox, no tag.
    report(&spool, &name, &Steps(Cell::new(4))).expect_err("cut short");
    assert_eq!(pending_submissions(&spool).expect("counted"), 2);
    reroute(&spool, &name, &Steps(Cell::new(1000))).expect("nothing to reroute");
    assert_eq!(pending_submissions(&spool).expect("counted"), 2);
    recover_folder(&spool, HashLevel::Flat).expect("recovered");
    assert_eq!(pending_submissions(&spool).expect("counted"), 0);
}

/// Number of submissions in `router/`, tags of recipients, size of the outbox.
fn state(spool: &Spool, name: &SpoolName) -> (usize, String, usize) {
    let count = |path| fs::read_dir(path).map_or(0, Iterator::count);
    let text = fs::read(spool.control_file(name)).expect("a control file");
    let parsed = control_file::parse(text).expect("a control file");
    let tags = parsed.recipients.iter().map(|r| char::from(r.tag.byte())).collect();
    (count(spool.router()), tags, count(spool.outbox()))
}

#[test]
fn crash_between_any_two_steps_leaves_each_recipient_in_one_place() {
    let mut seen = std::collections::BTreeSet::new();
    for count in 0.. {
        let (_folder, spool, name) = spool();
        let steps = Steps(Cell::new(count));
        let result = reroute(&spool, &name, &steps);
        let recovered = recover_folder(&spool, HashLevel::Flat).expect("recovered");
        assert_eq!((recovered.aside, recovered.ready), (0, 0));
        let (router, tags, left) = state(&spool, &name);
        assert_eq!(left, 0, "step {count}: nothing stays in the outbox");
        let of_first = tags.starts_with("++");
        let submissions = usize::from(of_first) + usize::from(tags.ends_with('+'));
        assert_eq!(router, submissions, "step {count}: {tags:?}");
        assert!(of_first || !tags[..2].contains('+'), "step {count}: {tags:?}");
        seen.insert(tags);
        if result.is_ok() {
            assert_eq!(router, 2);
            assert!(count > 10, "only {count} steps");
            break;
        }
    }
    assert!(seen.len() > 2, "{seen:?}");
}

#[test]
fn error_at_any_step_is_resolved_by_next_attempt() {
    for count in 0.. {
        let (_folder, spool, name) = spool();
        let is_over = reroute(&spool, &name, &Steps(Cell::new(count))).is_ok();
        reroute(&spool, &name, &Steps(Cell::new(1000))).expect("the second attempt");
        let (router, tags, _) = state(&spool, &name);
        assert_eq!((router, tags.as_str()), (2, "+++"), "step {count}");
        if is_over {
            break;
        }
    }
}

#[test]
fn entry_of_missing_message_is_moved_to_postman() {
    let (_folder, spool, name) = spool();
    // Locks, submissions, the folder: then all is ready, and no tag is written.
    reroute(&spool, &name, &Steps(Cell::new(6))).expect_err("cut short");
    fs::remove_file(spool.control_file(&name)).expect("removed");
    fs::write(spool.control_file(&name), TEXT).expect("another one of this number");
    let keep = OpenOptions::new().read(true).open(spool.control_file(&name)).expect("opened");
    let recovered = recover_folder(&spool, HashLevel::Flat).expect("recovered");
    let is_same_inode = recovered.aside == 0;
    drop(keep);
    // The file system may have reused the inode. Then the message cannot be told from the original
    // one.
    let in_postman = fs::read_dir(spool.postman()).expect("listed").count();
    assert_eq!((recovered.aside, in_postman), if is_same_inode { (0, 0) } else { (2, 2) });
    assert_eq!(state(&spool, &name).0, 0, "the router gets nothing");
}

#[test]
fn submission_that_cannot_be_published_waits_without_message() {
    let (_folder, spool, name) = spool();
    fs::remove_dir(spool.router()).expect("removed");
    fs::write(spool.router(), "in the way").expect("written");
    reroute(&spool, &name, &Steps(Cell::new(1000))).expect_err("not published");
    let recovered = recover_folder(&spool, HashLevel::Flat).expect("recovered");
    assert_eq!(recovered.ready, 2, "{recovered:?}");
    assert_eq!(state(&spool, &name).1, "+++");
    fs::remove_file(spool.control_file(&name)).expect("removed");
    assert_eq!(pending_submissions(&spool).expect("counted"), 2);
    assert_eq!(publish_ready(&spool).expect("tried").len(), 2);
    fs::remove_file(spool.router()).expect("removed");
    fs::create_dir(spool.router()).expect("made");
    assert_eq!(publish_ready(&spool).expect("published").len(), 0);
    let names = fs::read_dir(spool.router()).expect("listed").map(|entry| entry.expect("an entry"));
    for entry in names {
        use std::os::unix::fs::MetadataExt;
        let number = entry.metadata().expect("a file").ino().to_string();
        assert_eq!(entry.file_name().to_string_lossy(), number, "its own inode");
    }
    assert_eq!(pending_submissions(&spool).expect("counted"), 0);
}

#[test]
fn own_lock_is_free_to_next_attempt_only() {
    let field = PidField::from_pid(std::process::id());
    let now = Timestamp::now();
    assert_eq!(owner_when_unloaded(field, now), LockOwner::FormerScheduler);
    assert_eq!(crate::owner_of(field, now), LockOwner::Alive(std::process::id()));
}
