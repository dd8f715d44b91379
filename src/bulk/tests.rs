//! A job from its submission to its result, on disk.

use super::cut::{MadePacket, OpenJob};
use super::draft::{JobDraft, SubmittedJob, find};
use super::export::{Export, ExportError};
use super::packet::existing;
use super::recipient::Status;
use super::status::StatusWriter;
use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use zsched_format::control_file::{self, Tag};
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, OpenSpool, SpoolName, remove};

const MESSAGE_TEXT: &[u8] = b"Subject: news\nTo: {{name}}\n\nbody\n";
/// The part of it that the headers are.
const HEADERS: &[u8] = b"Subject: news\nTo: {{name}}\n";

struct TestSpool {
    _folder: tempfile::TempDir,
    submitter: Submitter,
}

impl TestSpool {
    fn new() -> TestSpool {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let submitter = Submitter { spool, level: HashLevel::Once, sync: true };
        TestSpool { _folder: folder, submitter }
    }

    fn spool(&self) -> &Spool {
        &self.submitter.spool
    }

    fn submit(&self, key: &str, recipients: &[&str]) -> SubmittedJob {
        self.submit_with(key, recipients, b"", |_| {})
    }

    fn submit_with(
        &self,
        key: &str,
        recipients: &[&str],
        headers: &[u8],
        change: fn(&mut BulkParameters),
    ) -> SubmittedJob {
        let mut draft = JobDraft::new(self.spool(), headers).expect("begun");
        for line in recipients {
            draft.add("c", None, line.as_bytes()).expect("added");
        }
        let mut parameters = BulkParameters {
            key: key.to_string(),
            sender: Some("list@example.org".to_string()),
            log_id: "<1@example.org>".to_string(),
            body_offset: HEADERS.len() as u64 + 1,
            packet_size: 2,
            share: MAX_SHARE,
            ..BulkParameters::default()
        };
        change(&mut parameters);
        draft.commit(MESSAGE_TEXT, parameters).expect("submitted")
    }

    fn open(&self, job: JobId) -> OpenJob {
        let packets = existing(self.spool()).expect("listed");
        OpenJob::open(self.spool(), job, &packets).expect("opened")
    }

    /// Cuts everything. Returns the recipients of each packet.
    fn cut_all(&self, job: &mut OpenJob) -> Vec<(SpoolName, Vec<String>)> {
        let mut packets = Vec::new();
        let (destinations, is_last) = job.next_destinations(1000).expect("read");
        assert!(is_last);
        for destination in destinations {
            while let Some(made) =
                job.make_packet(&self.submitter, destination.offset, 2).expect("made")
            {
                let users = self.users(&made.name);
                assert_eq!(users.len(), made.recipients as usize);
                packets.push((made.name, users));
            }
        }
        packets
    }

    fn users(&self, name: &SpoolName) -> Vec<String> {
        let text = fs::read(self.spool().control_file(name)).expect("a control file");
        let file = control_file::parse(text).expect("well-formed");
        let user = |recipient: &control_file::Recipient| {
            String::from_utf8_lossy(file.get(recipient.quad.user)).into_owned()
        };
        file.recipients.iter().map(user).collect()
    }

    /// Marks the recipients of a packet as an agent does.
    fn deliver(&self, name: &SpoolName, tag: Tag) {
        let path = self.spool().control_file(name);
        let file = control_file::parse(fs::read(&path).expect("read")).expect("well-formed");
        let on_disk = fs::File::options().write(true).open(&path).expect("opened");
        for recipient in &file.recipients {
            on_disk.write_all_at(&[tag.byte()], u64::from(recipient.offset) + 1).expect("marked");
        }
    }

    fn end(&self, name: &SpoolName) {
        let mut writer = StatusWriter::new(self.spool());
        writer.write(name, false).expect("written").expect("a packet");
        writer.sync().expect("synced");
        remove::remove(&OpenSpool::new(self.spool().clone()).expect("opened"), name)
            .expect("removed");
    }
}

#[test]
fn recipients_are_grouped_and_repeated_ones_dropped() {
    let place = TestSpool::new();
    let lines = ["b@y", "a@x\tn=1", "c@X", "a@x", "d@x", "a@x\tn=2", "A@x"];
    let job = place.submit("k", &lines);
    assert_eq!((job.recipients, job.repeated, job.is_new), (5, 2, true));
    let folder = job_folder(place.spool(), job.id);
    let text = |name: &str| fs::read_to_string(folder.join(name)).expect("a file");
    assert_eq!(text(RECIPIENTS), " A@x\n a@x\n c@x\n d@x\n b@y\n");
    assert_eq!(text(INDEX), "0 4 c x\n20 1 c y\n");
    assert_eq!(text(MESSAGE).as_bytes(), MESSAGE_TEXT);
    assert_eq!(list(place.spool()).expect("listed"), [job.id]);
    let read = BulkParameters::read(place.spool(), job.id).expect("read");
    assert_eq!((read.key.as_str(), read.recipients, read.list), ("k", 5, None));
}

#[test]
fn same_key_is_one_job_also_in_a_race() {
    let place = TestSpool::new();
    let jobs: Vec<SubmittedJob> = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..8).map(|_| scope.spawn(|| place.submit("news-17", &["a@x", "b@y"]))).collect();
        all.into_iter().map(|one| one.join().expect("submitted")).collect()
    });
    assert_eq!(jobs.iter().filter(|job| job.is_new).count(), 1);
    assert!(jobs.iter().all(|job| job.id == jobs[0].id));
    assert_eq!(find(place.spool(), "news-17").expect("read"), Some(jobs[0].id));
    assert_eq!(find(place.spool(), "news-18").expect("read"), None);
    assert_eq!(fs::read_dir(place.spool().bulk()).expect("listed").count(), 1);
}

#[test]
fn failed_submission_leaves_nothing() {
    let place = TestSpool::new();
    let mut draft = JobDraft::new(place.spool(), HEADERS).expect("begun");
    let refused = draft.add("c", None, b"a@x\tother=1").expect_err("a field is missing");
    assert!(refused.to_string().contains("no field name"), "{refused}");
    draft.add("c", None, b"").expect_err("no address");
    let refused = draft.commit(MESSAGE_TEXT, BulkParameters::default()).expect_err("empty");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    let abandoned = place.spool().bulk().join(".new-999999999-0");
    fs::create_dir(&abandoned).expect("made");
    drop(JobDraft::new(place.spool(), b"").expect("begun"));
    assert_eq!(fs::read_dir(place.spool().bulk()).expect("listed").count(), 0);
}

/// A kill at any time: after it, what is in a packet is not cut again, and what is not, is.
#[test]
fn each_recipient_is_cut_once_despite_restarts() {
    let place = TestSpool::new();
    let all: Vec<String> = (0..60).map(|n| format!("u{n}@h{}", n % 7)).collect();
    let lines: Vec<&str> = all.iter().map(String::as_str).collect();
    let id = place.submit("k", &lines).id;
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for round in 0..100 {
        let mut job = place.open(id);
        let (destinations, _) = job.next_destinations(2).expect("read");
        if destinations.is_empty() {
            break;
        }
        for destination in destinations {
            let made = job.make_packet(&place.submitter, destination.offset, 2).expect("made");
            let made = made.expect("some are left");
            place
                .users(&made.name)
                .into_iter()
                .for_each(|user| *seen.entry(user).or_default() += 1);
            // Some packets end at once, others stay.
            if round % 2 == 0 {
                place.deliver(&made.name, if round % 4 == 0 { Tag::Done } else { Tag::Failed });
                place.end(&made.name);
            }
        }
    }
    assert_eq!((seen.len(), seen.values().sum::<u32>()), (60, 60), "{seen:?}");
    let job = place.open(id);
    assert_eq!(job.counts.all, 60);
    assert_eq!(result::write(place.spool(), id).expect("not yet").pending, job.counts.pending);
    for packet in existing(place.spool()).expect("listed") {
        let name = packet.number.name(HashLevel::Once);
        place.deliver(&name, Tag::Done);
        // A kill after the status bytes are written, and before the packet is removed.
        let mut writer = StatusWriter::new(place.spool());
        writer.write(&name, false).expect("written");
        writer.sync().expect("synced");
        place.end(&name);
    }
    let counts = result::write(place.spool(), id).expect("finished");
    assert_eq!((counts.all, counts.pending, counts.delivered + counts.failed), (60, 0, 60));
    assert_eq!(result::counts(place.spool(), id).expect("read"), counts);
    let text = fs::read_to_string(result_file(place.spool(), id)).expect("a result");
    assert_eq!(text.lines().count(), 60);
    assert!(is_finished(place.spool(), id).expect("read"));
    assert_eq!(fs::read_dir(job_folder(place.spool(), id)).expect("listed").count(), 2);
    for folder in ["queue/", "transport/"] {
        let files = fs::read_dir(place.spool().postoffice().join(folder)).expect("listed");
        let is_file = |entry: &fs::DirEntry| entry.path().is_file();
        assert_eq!(files.flatten().filter(is_file).count(), 0, "{folder}");
    }
}

#[test]
fn verp_gives_each_recipient_a_sender_and_shares_headers() {
    let place = TestSpool::new();
    let lines = ["a@x\tsender=own@example.org", "b@x"];
    let id = place.submit_with("k", &lines, b"", |job| job.verp = true).id;
    let packets = place.cut_all(&mut place.open(id));
    let text = fs::read_to_string(place.spool().control_file(&packets[0].0)).expect("text");
    let from_sender = text.split_once("\ns ").expect("a sender").1;
    let expected = "local - own@example.org 0\nr           c x a@x 65534\n\
        s local - list+b=x@example.org 0\nr           c x b@x 65534\n\
        m\nSubject: news\nTo: {{name}}\n\n";
    assert_eq!(from_sender, expected);
    let file = control_file::parse(text.into_bytes()).expect("well-formed");
    let headers: Vec<_> = file.recipients.iter().map(|recipient| recipient.headers).collect();
    assert_eq!(headers, [Some(0), Some(0)]);
}

#[test]
fn merged_headers_differ_by_recipient() {
    let place = TestSpool::new();
    let id = place.submit_with("k", &["a@x\tname=Ann", "b@x\tname=Bob"], HEADERS, |_| {}).id;
    let packets = place.cut_all(&mut place.open(id));
    let text = fs::read_to_string(place.spool().control_file(&packets[0].0)).expect("text");
    assert!(text.contains("\nTo: Ann\n\ns local") && text.contains("\nTo: Bob\n\n"), "{text}");
    let message = fs::read(place.spool().message_file(&packets[0].0)).expect("a message");
    assert_eq!(message, MESSAGE_TEXT, "the body is there once");
}

#[test]
fn rest_is_dropped_but_not_what_is_in_packets() {
    let place = TestSpool::new();
    let id = place.submit("k", &["a@x", "b@x", "c@x", "d@y"]).id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let made = job.make_packet(&place.submitter, 0, 2).expect("made").expect("a packet");
    let packets = existing(place.spool()).expect("listed");
    assert_eq!(job.drop_rest(place.spool(), &packets, Status::Cancelled).expect("dropped"), 2);
    assert_eq!((job.counts.pending, job.counts.dropped), (2, 2));
    assert!(job.next_destinations(9).expect("read").0.is_empty());
    place.deliver(&made.name, Tag::Done);
    place.end(&made.name);
    let counts = result::write(place.spool(), id).expect("finished");
    assert_eq!((counts.delivered, counts.dropped, counts.pending), (2, 2, 0));
}

#[test]
fn message_that_was_linked_before_a_kill_is_linked_again() {
    let place = TestSpool::new();
    let id = place.submit("k", &["a@x"]).id;
    let mut job = place.open(id);
    job.next_destinations(1).expect("read");
    let name = PacketNumber { job: id, offset: 0 }.name(HashLevel::Once);
    place.submitter.folders(&name).expect("made");
    fs::write(place.spool().message_file(&name), "left by a kill").expect("written");
    job.make_packet(&place.submitter, 0, 2).expect("made").expect("a packet");
    assert_eq!(fs::read(place.spool().message_file(&name)).expect("read"), MESSAGE_TEXT);
}

#[test]
fn finished_job_is_removed_when_its_time_is_over() {
    let place = TestSpool::new();
    let id = place.submit_with("k", &["a@x"], b"", |job| job.keep = 100).id;
    let now = zsched_format::time::Timestamp::now().seconds();
    assert_eq!(draft::remove_old(place.spool(), now + 1000).expect("looked"), 0, "not finished");
    let mut job = place.open(id);
    job.drop_rest(place.spool(), &[], Status::TooLate).expect("dropped");
    result::write(place.spool(), id).expect("finished");
    assert_eq!(draft::remove_old(place.spool(), now + 50).expect("looked"), 0);
    assert_eq!(draft::remove_old(place.spool(), now + 1000).expect("looked"), 1);
    assert_eq!(fs::read_dir(place.spool().bulk()).expect("listed").count(), 0);
}

/// The export of a job whose packets are in part cut, tried, and final.
#[test]
fn exported_job_leaves_ordinary_messages_for_all_without_outcome() {
    let place = TestSpool::new();
    let all: Vec<String> = (0..20).map(|n| format!("u{n:02}@h{}", n % 3)).collect();
    let lines: Vec<&str> = all.iter().map(String::as_str).collect();
    let id = place.submit("k", &lines).id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let made: Vec<MadePacket> = (0..3)
        .map(|_| job.make_packet(&place.submitter, 0, 2).expect("made").expect("a packet"))
        .collect();
    place.deliver(&made[0].name, Tag::Done);
    place.end(&made[0].name);
    place.deliver(&made[1].name, Tag::Failed);
    let export = Export::begin(place.spool(), HashLevel::Once).expect("no scheduler");
    assert!(matches!(
        Export::begin(place.spool(), HashLevel::Once),
        Err(ExportError::SchedulerRuns(_))
    ));
    let counts = export.export(id).expect("exported");
    assert_eq!((counts.all, counts.pending, counts.delivered), (20, 0, 2));
    assert_eq!((counts.failed, counts.dropped), (2, 16));
    assert_eq!(export.export(id).expect("again"), counts);
    assert!(!is_open(place.spool(), id).expect("read"));
    let mut users = Vec::new();
    for packet in existing(place.spool()).expect("listed") {
        let name = packet.number.name(HashLevel::Once);
        assert_eq!(fs::read(place.spool().message_file(&name)).expect("a message"), MESSAGE_TEXT);
        if name != made[1].name {
            users.extend(place.users(&name));
        }
    }
    users.sort();
    let text = fs::read_to_string(result_file(place.spool(), id)).expect("a result");
    let exported = text.lines().filter_map(|line| line.strip_prefix("exported\t"));
    let mut exported: Vec<String> = exported.map(|line| line.trim().to_string()).collect();
    exported.sort();
    assert_eq!((users.len(), &users), (16, &exported));
    assert!(matches!(export.export(JobId::of_key("other", 0)), Err(ExportError::NoJob(_))));
}

#[test]
fn export_respects_time_deadline_and_cancellation() {
    let place = TestSpool::new();
    let export = Export::begin(place.spool(), HashLevel::Once).expect("no scheduler");
    let later = place.submit_with("1", &["a@x"], b"", |job| job.not_before = Some(1 << 32)).id;
    assert!(matches!(export.export(later), Err(ExportError::TooEarly(..))));
    let order = BulkOrders { is_cancelled: true, ..BulkOrders::default() };
    order.write(place.spool(), later).expect("written");
    let over = place.submit_with("2", &["a@x"], b"", |job| job.deadline = Some(1)).id;
    for (job, word) in [(later, "cancelled"), (over, "too-late")] {
        assert_eq!(export.export(job).expect("exported").dropped, 1);
        let text = fs::read_to_string(result_file(place.spool(), job)).expect("a result");
        assert_eq!(text, format!("{word}\ta@x\t\n"));
    }
    assert_eq!(existing(place.spool()).expect("listed"), []);
}
