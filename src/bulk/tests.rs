//! A job from its submission to its result, on disk.

use super::counts::RecipientCounts;
use super::cut::{MadePacket, OpenJob, PlannedPacket, WantedPackets};
use super::draft::{AddError, JobDraft, MergeScope, SubmittedJob, find};
use super::export::{OfflineError, OfflineSpool};
use super::packet::{OpenedPacket, PacketFolder, existing};
use super::recipient::Status;
use super::result::Ended;
use super::status::{OpenTags, StatusWriter};
use super::stream::{BegunStream, JobStream};
use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::{self, Tag};
use zsched_format::time::Timestamp;
use zsched_spool::load::LoadResult;
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, OpenSpool, PossibleDuplicates, SpoolName, load, remove};

/// The headers of the message.
const HEADERS: &[u8] = b"Subject: news\nTo: {{name}}\n";
const BODY: &[u8] = b"body\n";
/// All of it.
const MESSAGE_TEXT: &[u8] = b"Subject: news\nTo: {{name}}\n\nbody\n";

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

    fn open_spool(&self) -> OpenSpool {
        OpenSpool::new(self.spool().clone()).expect("opened")
    }

    fn spool(&self) -> &Spool {
        &self.submitter.spool
    }

    fn submit(&self, key: &str, recipients: &[&str]) -> SubmittedJob {
        self.submit_with(key, recipients, false, |_| {})
    }

    fn submit_with(
        &self,
        key: &str,
        recipients: &[&str],
        merges: bool,
        change: fn(&mut BulkParameters),
    ) -> SubmittedJob {
        let mut draft = self.draft(merges, BODY);
        for line in recipients {
            draft.add("c", None, line.as_bytes()).expect("added");
        }
        let mut parameters = parameters(key);
        change(&mut parameters);
        draft.commit(parameters).expect("submitted")
    }

    fn draft(&self, merges: bool, mut body: &[u8]) -> JobDraft {
        let mut draft = JobDraft::new(self.spool()).expect("begun");
        let merges = if merges { MergeScope::Message } else { MergeScope::Nothing };
        draft.write_message(HEADERS, &mut body, merges).expect("written");
        draft
    }

    fn open(&self, job: JobId) -> OpenJob {
        let packets = existing(self.spool()).expect("listed");
        let mut open = OpenJob::open(self.spool(), job).expect("opened");
        open.reconcile(&packets).expect("compared");
        open
    }

    /// Makes one packet of a destination, if recipients are left.
    fn make(&self, job: &mut OpenJob, destination: u32, at_most: u32) -> Option<MadePacket> {
        let wanted = WantedPackets { destination, packets: 1, at_most };
        let made = job.make_packets(&self.submitter, &[wanted]).remove(0).expect("made");
        made.into_iter().next()
    }

    /// Cuts everything. Returns the recipients of each packet.
    fn cut_all(&self, job: &mut OpenJob) -> Vec<(SpoolName, Vec<String>)> {
        let (destinations, is_last) = job.next_destinations(1000).expect("read");
        assert!(is_last);
        let wanted = |destination: &cut::BulkDestination| WantedPackets {
            destination: destination.offset,
            packets: u32::MAX,
            at_most: 2,
        };
        let wanted: Vec<WantedPackets> = destinations.iter().map(wanted).collect();
        let mut packets = Vec::new();
        for made in job.make_packets(&self.submitter, &wanted) {
            for made in made.expect("made") {
                let users = self.users(&made.name);
                assert_eq!(users.len(), made.recipients as usize);
                packets.push((made.name, users));
            }
        }
        packets
    }

    /// The status byte of each address.
    fn statuses(&self, job: JobId) -> String {
        let lines =
            fs::read_to_string(job_folder(self.spool(), job).join(RECIPIENTS)).expect("read");
        lines.lines().map(|line| &line[..1]).collect()
    }

    fn result(&self, job: JobId) -> Vec<String> {
        let text = fs::read_to_string(result_file(self.spool(), job)).expect("a result");
        text.lines().map(str::to_string).collect()
    }

    fn finish(&self, job: JobId) -> RecipientCounts {
        match result::write(self.spool(), job, 7).expect("written") {
            Ended::Finished(finished) => {
                assert_eq!(result::summary(self.spool(), job).expect("read"), finished);
                finished.counts
            }
            Ended::NotYet(counts) | Ended::Removed(counts) => counts,
        }
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
        self.mark(name, &vec![tag; file.recipients.len()]);
    }

    /// Changes the tags of a packet.
    fn mark(&self, name: &SpoolName, tags: &[Tag]) {
        let path = self.spool().control_file(name);
        let file = control_file::parse(fs::read(&path).expect("read")).expect("well-formed");
        let on_disk = fs::File::options().write(true).open(&path).expect("opened");
        for (recipient, tag) in file.recipients.iter().zip(tags) {
            on_disk.write_all_at(&[tag.byte()], u64::from(recipient.offset) + 1).expect("marked");
        }
    }

    fn end(&self, name: &SpoolName) {
        let mut writer = StatusWriter::new(self.spool());
        writer.write(name, OpenTags::Queued).expect("written").expect("a packet");
        writer.sync().expect("synced");
        remove::remove(&self.open_spool(), name).expect("removed");
    }
}

fn parameters(key: &str) -> BulkParameters {
    BulkParameters {
        key: key.to_string(),
        sender: Some("list@example.org".to_string()),
        log_id: "<1@example.org>".to_string(),
        packet_size: 2,
        share: MAX_SHARE,
        ..BulkParameters::default()
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
    let mut draft = place.draft(true, BODY);
    let refused = draft.add("c", None, b"a@x\tother=1").expect_err("a field is missing");
    assert!(matches!(&refused, AddError::MissingField(name) if name == "name"), "{refused}");
    draft.add("c", None, b"").expect_err("no address");
    let refused = draft.commit(parameters("k")).expect_err("empty");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    let abandoned = place.spool().bulk().join(".new-999999999-0");
    fs::create_dir(&abandoned).expect("made");
    drop(JobDraft::new(place.spool()).expect("begun"));
    assert_eq!(fs::read_dir(place.spool().bulk()).expect("listed").count(), 0);
    let mut draft = JobDraft::new(place.spool()).expect("begun");
    let headers = vec![b'x'; MAX_HEADERS + 1];
    let refused =
        draft.write_message(&headers, &mut &b""[..], MergeScope::Nothing).expect_err("too long");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
}

/// A folder that the user may not remove is no reason to refuse a job.
#[test]
fn abandoned_folder_that_cannot_be_removed_blocks_nothing() {
    let place = TestSpool::new();
    place.submit("1", &["a@x"]);
    let file = place.spool().bulk().join(".new-999999999-0");
    fs::write(&file, "not a folder").expect("written");
    assert!(place.submit("2", &["a@x"]).is_new);
    assert!(file.exists());
}

#[test]
fn body_is_copied_with_line_feeds_and_its_fields_are_found() {
    let place = TestSpool::new();
    let long = "x".repeat(100_000);
    let text = format!("Dear {{{{name}}}},\r\n{long}{{{{n}}}}\rb\r\n{{{{name}}}}\r");
    let mut draft = place.draft(true, text.as_bytes());
    assert_eq!(draft.fields(), ["n", "name"]);
    draft.add("c", None, b"a@x\tname=A\tn=1\tz=2").expect("added");
    let id = draft.commit(parameters("k")).expect("submitted").id;
    let message = fs::read(job_folder(place.spool(), id).join(MESSAGE)).expect("read");
    let body = format!("Dear {{{{name}}}},\n{long}{{{{n}}}}\rb\n{{{{name}}}}\r");
    assert_eq!(message, [HEADERS, b"\n", body.as_bytes()].concat());
    let read = BulkParameters::read(place.spool(), id).expect("read");
    assert_eq!((read.merge, read.body_fields.as_deref()), (true, Some("n name")));
    let packets = place.cut_all(&mut place.open(id));
    let text = fs::read_to_string(place.spool().control_file(&packets[0].0)).expect("text");
    assert!(text.contains("\nN MERGE=n+3D1+09name+3DA\n"), "{text}");
    // Without merging, braces are text.
    let literal = place.submit_with("l", &["a@x"], false, |_| {}).id;
    let read = BulkParameters::read(place.spool(), literal).expect("read");
    assert_eq!((read.merge, read.body_fields), (false, None));
}

#[test]
fn stream_resumes_after_its_last_synced_line() {
    let place = TestSpool::new();
    let begin = |key: &str| JobStream::begin(place.draft(false, BODY), parameters(key));
    let Ok(BegunStream::Open(mut stream)) = begin("k") else { panic!("it is new") };
    let id = stream.id();
    assert!(begin("k").is_err(), "another program is at work");
    for line in ["a@x", "b@y", "a@x"] {
        stream.add("c", None, line.as_bytes()).expect("added");
    }
    stream.sync(false).expect("synced");
    let mut open = place.open(id);
    assert_eq!((open.counts.all, open.is_complete()), (2, false));
    let packets = place.cut_all(&mut open);
    assert_eq!(packets.len(), 2);
    // A kill: the segment that was not synced is forgotten.
    stream.add("c", None, b"lost@x").expect("added");
    drop(stream);
    let recipients = job_folder(place.spool(), id).join(RECIPIENTS);
    let torn = [fs::read(&recipients).expect("read"), b" torn@".to_vec()].concat();
    fs::write(&recipients, torn).expect("written");
    let Ok(BegunStream::Open(mut stream)) = begin("k") else { panic!("it goes on") };
    assert_eq!((stream.id(), stream.synced_lines()), (id, 3));
    for line in ["c@x", "b@y"] {
        stream.add("c", None, line.as_bytes()).expect("added");
    }
    stream.add_blank();
    assert!(!open.grow(place.spool()).expect("read"));
    stream.sync(true).expect("synced");
    assert_eq!((stream.synced_lines(), stream.repeated), (6, 1));
    assert!(open.grow(place.spool()).expect("read") && open.is_complete());
    assert_eq!(open.counts.all, 3);
    drop(stream);
    assert!(matches!(begin("k"), Ok(BegunStream::Complete(of)) if of == id));
    let packets = place.cut_all(&mut open);
    assert_eq!(packets.iter().map(|packet| &packet.1).collect::<Vec<_>>(), [&["c@x"]]);
    assert_eq!(place.statuses(id), "===");
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
            let made = place.make(&mut job, destination.offset, 2).expect("some are left");
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
    assert_eq!((job.counts.all, job.counts.lost), (60, 0));
    assert_eq!(place.finish(id).pending, job.counts.pending, "not yet");
    for packet in existing(place.spool()).expect("listed") {
        let name = packet.number.name(HashLevel::Once);
        place.deliver(&name, Tag::Done);
        // A kill after the status bytes are written, and before the packet is removed.
        let mut writer = StatusWriter::new(place.spool());
        writer.write(&name, OpenTags::Queued).expect("written");
        writer.sync().expect("synced");
        place.end(&name);
    }
    let counts = place.finish(id);
    assert_eq!((counts.all, counts.pending, counts.delivered + counts.failed), (60, 0, 60));
    assert_eq!(place.result(id).len(), 60);
    assert!(is_finished(place.spool(), id).expect("read"));
    let left = fs::read_dir(job_folder(place.spool(), id)).expect("listed").count();
    assert_eq!(left, 3, "parameters, summary, result");
    for folder in ["queue/", "transport/"] {
        let files = fs::read_dir(place.spool().postoffice().join(folder)).expect("listed");
        let is_file = |entry: &fs::DirEntry| entry.path().is_file();
        assert_eq!(files.flatten().filter(is_file).count(), 0, "{folder}");
    }
}

/// Another scheduler has finished a packet, or somebody has removed it.
#[test]
fn recipients_of_vanished_packet_wait_for_a_decision() {
    let place = TestSpool::new();
    for is_sent in [true, false] {
        let id = place.submit(&is_sent.to_string(), &["a@x", "b@x", "c@x", "d@y"]).id;
        let mut job = place.open(id);
        job.next_destinations(9).expect("read");
        let made = place.make(&mut job, 0, 2).expect("a packet");
        remove::remove(&place.open_spool(), &made.name).expect("removed");
        let mut job = place.open(id);
        assert_eq!((job.counts.lost, job.counts.pending), (2, 2));
        assert_eq!(place.statuses(id), "??  ");
        assert_eq!(place.cut_all(&mut job).len(), 2, "the others are cut");
        let mut told: Vec<String> = Vec::new();
        let mut tell = |doubt: &PossibleDuplicates| {
            assert_eq!(PacketNumber::of_message(doubt.spool_id.number).map(|it| it.job), Some(id));
            told.extend(doubt.recipients.iter().map(|one| one.address.escape_ascii().to_string()));
        };
        assert_eq!(job.decide_lost(is_sent, &mut tell).expect("decided"), 2);
        let (statuses, listed) = if is_sent { ("  ==", 2) } else { ("uu==", 0) };
        assert_eq!((place.statuses(id).as_str(), told.len()), (statuses, listed));
        for packet in existing(place.spool()).expect("listed") {
            remove::remove(&place.open_spool(), &packet.number.name(HashLevel::Once))
                .expect("removed");
        }
    }
}

/// Its recipients that are final keep their outcome, and no other one is cut again.
#[test]
fn malformed_packet_keeps_outcomes_and_is_never_cut_again() {
    let place = TestSpool::new();
    let id = place.submit("k", &["a@x", "b@x", "c@x", "d@x"]).id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let name = place.make(&mut job, 0, 4).expect("a packet").name;
    let path = place.spool().control_file(&name);
    let text = fs::read_to_string(&path).expect("text");
    let mut tags = ["r+", "r-", "r~", "r "].iter();
    let text: String = text.lines().fold(String::new(), |text, line| {
        let line = match line.strip_prefix("r ") {
            Some(rest) => format!("{}{rest}", tags.next().expect("four recipients")),
            None if line.starts_with("i ") => "i is broken".to_string(),
            None => line.to_string(),
        };
        text + &line + "\n"
    });
    fs::write(&path, text).expect("written");
    let level = HashLevel::Once;
    let found = load::load(
        &place.open_spool(),
        level,
        name,
        None,
        &mut |_| {},
        &mut |_| {},
        status::write_before_move_aside,
    );
    assert!(matches!(found, LoadResult::Malformed { moved: Ok(_), .. }), "{found:?}");
    assert_eq!(place.statuses(id), "+-!!");
    let counts = place.finish(id);
    assert_eq!((counts.delivered, counts.failed, counts.aside), (1, 1, 2));
}

/// A spool in which the first packet cannot be written.
struct FirstFails<'s>(&'s Submitter);

impl PacketFolder for FirstFails<'_> {
    type Staged = <Submitter as PacketFolder>::Staged;

    fn stage(&self, job: JobId, packets: &[PlannedPacket]) -> Vec<io::Result<Self::Staged>> {
        let mut staged = self.0.stage(job, packets);
        staged[0] = Err(io::ErrorKind::StorageFull.into());
        staged
    }

    fn publish(&self, packet: Self::Staged) -> io::Result<()> {
        self.0.publish(packet)
    }
}

#[test]
fn packets_after_a_failed_one_are_reported() {
    let place = TestSpool::new();
    let id = place.submit("k", &["a@x", "b@x", "c@x", "d@x"]).id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let wanted = WantedPackets { destination: 0, packets: 2, at_most: 2 };
    let folder = FirstFails(&place.submitter);
    let made = job.make_packets_in(&folder, HashLevel::Once, 0, &[wanted]).remove(0);
    let made = made.expect("one is made");
    assert_eq!(made.len(), 1);
    assert_eq!(place.users(&made[0].name), ["c@x", "d@x"]);
    assert_eq!(place.statuses(id), "  ==");
    let again = place.make(&mut job, 0, 2).expect("the others are cut later");
    assert_eq!(place.users(&again.name), ["a@x", "b@x"]);
}

/// Agents of others may report an outcome before they change the tag, or never change it.
#[test]
fn reported_outcome_counts_without_tag() {
    let place = TestSpool::new();
    let id = place.submit("k", &["a@x", "b@x", "c@x", "d@x"]).id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let name = place.make(&mut job, 0, 4).expect("a packet").name;
    let path = place.spool().control_file(&name);
    let text = fs::read_to_string(&path).expect("text");
    let file = control_file::parse(text.clone().into_bytes()).expect("well-formed");
    let mut lines = Vec::new();
    for (recipient, action) in file.recipients.iter().zip(["failed", "delayed"]) {
        let notary = format!("\u{1}{action}\u{1}5.1.1\u{1}");
        let record = DiagnosticRecord {
            recipient: recipient.offset,
            headers: None,
            notify: None,
            time: 1,
            notary: notary.as_bytes(),
            message: b"some text",
        };
        record.write_to(&mut lines);
    }
    fs::write(&path, [text.as_bytes(), &lines].concat()).expect("written");
    let end = |rest| {
        let mut writer = StatusWriter::new(place.spool());
        let end = writer.write(&name, rest).expect("written").expect("a packet");
        writer.sync().expect("synced");
        end.counts
    };
    assert_eq!(end(OpenTags::Queued).pending, 4);
    assert_eq!(place.statuses(id), "====");
    let counts = end(OpenTags::Reported);
    assert_eq!((counts.failed, counts.delivered), (1, 3));
    assert_eq!(place.statuses(id), "-+++");
}

/// A kill has come after the status bytes were written, and before the packet was removed.
#[test]
fn recipients_of_packet_are_counted_by_the_packet_only() {
    let place = TestSpool::new();
    let id = place.submit("k", &["a@x", "b@x", "c@x", "d@x"]).id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let name = place.make(&mut job, 0, 3).expect("a packet").name;
    let packet = existing(place.spool()).expect("listed").remove(0);
    // The first one is delivered, the second one deleted, the deletion of the third one cut off.
    place.mark(&name, &[Tag::Done, Tag::Done, Tag::Pending]);
    let folder = job_folder(place.spool(), id);
    let recipients = fs::File::options().write(true).open(folder.join(RECIPIENTS)).expect("opened");
    for ((offset, _), status) in packet.recipients.iter().zip(["+", "d", "d"]) {
        recipients.write_all_at(status.as_bytes(), u64::from(*offset)).expect("marked");
    }
    let mut job = OpenJob::open(place.spool(), id).expect("opened");
    let packets = job.take_up(&existing(place.spool()).expect("listed")).expect("taken up");
    assert_eq!((job.counts.all, job.counts.pending), (4, 4));
    let [OpenedPacket { recipients: 3, delivered: 1, failed: 0, removed: 1, .. }] = packets[..]
    else {
        panic!("{packets:?}");
    };
    assert_eq!(place.statuses(id), "+d= ");
    let (found, is_last) = job.next_destinations(9).expect("read");
    assert_eq!((found[0].left, is_last), (1, true));
}

#[test]
fn packet_of_long_lines_is_small() {
    let place = TestSpool::new();
    let value = "v".repeat(8000);
    let lines: Vec<String> = (0..2000).map(|n| format!("u{n}@x\tname={value}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let id = place.submit_with("k", &lines, true, |_| {}).id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let made = place.make(&mut job, 0, 100_000).expect("a packet");
    let size = fs::metadata(place.spool().control_file(&made.name)).expect("a file").size();
    assert!((1 << 20..=4 << 20).contains(&size), "{size}");
    assert!((100..1000).contains(&made.recipients), "{}", made.recipients);
}

#[test]
fn verp_gives_each_recipient_a_sender_and_shares_headers() {
    let place = TestSpool::new();
    let lines = ["a@x\tsender=own@example.org", "b@x"];
    let id = place.submit_with("k", &lines, false, |job| job.verp = true).id;
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
    let id = place.submit_with("k", &["a@x\tname=Ann", "b@x\tname=Bob"], true, |_| {}).id;
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
    let made = place.make(&mut job, 0, 2).expect("a packet");
    assert_eq!(job.drop_rest(Status::TooLate).expect("dropped"), 2);
    assert_eq!((job.counts.pending, job.counts.too_late), (2, 2));
    job.rewind().expect("read");
    assert!(job.next_destinations(9).expect("read").0.is_empty());
    place.deliver(&made.name, Tag::Done);
    place.end(&made.name);
    let counts = place.finish(id);
    assert_eq!((counts.delivered, counts.too_late, counts.pending), (2, 2, 0));
}

#[test]
fn job_cancelled_before_anything_was_sent_has_never_been() {
    let place = TestSpool::new();
    let id = place.submit("k", &["a@x"]).id;
    let orders = BulkOrders { is_cancelled: true, ..BulkOrders::default() };
    orders.write(place.spool(), id).expect("written");
    place.open(id).drop_rest(Status::Cancelled).expect("dropped");
    let ended = result::write(place.spool(), id, 7).expect("written");
    assert!(matches!(ended, Ended::Removed(counts) if counts.cancelled == 1), "{ended:?}");
    assert_eq!(fs::read_dir(place.spool().bulk()).expect("listed").count(), 0);
    assert!(place.submit("k", &["a@x"]).is_new, "the key is free");
}

#[test]
fn last_text_about_a_failure_is_in_the_result() {
    let place = TestSpool::new();
    let id = place.submit("k", &["a@x", "b@x", "c@x"]).id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let name = place.make(&mut job, 0, 9).expect("a packet").name;
    place.deliver(&name, Tag::Failed);
    let failures = job_folder(place.spool(), id).join(FAILURES);
    // The last one was cut short by a kill.
    fs::write(&failures, "5 old\n0 first\ttry\n5 new\n10 half of").expect("written");
    place.end(&name);
    let written = fs::read_to_string(&failures).expect("read");
    let text = written.replace("0 \n", "").replace("5 \n", "").replace("10 \n", "");
    assert_eq!(text, "5 old\n0 first\ttry\n5 new\n10 half of\n1");
    fs::write(&failures, "5 old\n0 first\ttry\n5 new\n10 half").expect("written");
    place.finish(id);
    let expected = ["failed\ta@x\tfirst try", "failed\tb@x\tnew", "failed\tc@x\t"];
    assert_eq!(place.result(id), expected);
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
    place.make(&mut job, 0, 2).expect("a packet");
    assert_eq!(fs::read(place.spool().message_file(&name)).expect("read"), MESSAGE_TEXT);
}

#[test]
fn finished_job_is_removed_when_its_time_is_over_and_its_packets_are_gone() {
    let place = TestSpool::new();
    let id = place.submit_with("k", &["a@x", "b@x"], false, |job| job.keep = 100).id;
    let now = Timestamp::now().seconds();
    let none: [JobId; 0] = [];
    assert_eq!(draft::remove_old(place.spool(), now + 1000).expect("looked"), none, "not finished");
    let export = OfflineSpool::lock(place.spool(), HashLevel::Once).expect("no scheduler");
    export.export(id).expect("exported");
    assert_eq!(draft::remove_old(place.spool(), now + 50).expect("looked"), none);
    assert_eq!(draft::remove_old(place.spool(), now + 1000).expect("looked"), none, "packets");
    for packet in existing(place.spool()).expect("listed") {
        remove::remove(&place.open_spool(), &packet.number.name(HashLevel::Once)).expect("removed");
    }
    assert_eq!(draft::remove_old(place.spool(), now + 1000).expect("looked"), [id]);
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
    let made: Vec<MadePacket> =
        (0..3).map(|_| place.make(&mut job, 0, 2).expect("a packet")).collect();
    place.deliver(&made[0].name, Tag::Done);
    place.end(&made[0].name);
    place.deliver(&made[1].name, Tag::Failed);
    let export = OfflineSpool::lock(place.spool(), HashLevel::Once).expect("no scheduler");
    assert!(matches!(
        OfflineSpool::lock(place.spool(), HashLevel::Once),
        Err(OfflineError::SchedulerRuns(_))
    ));
    let counts = export.export(id).expect("exported").expect("a job").counts;
    assert_eq!((counts.all, counts.pending, counts.delivered), (20, 0, 2));
    assert_eq!((counts.failed, counts.exported), (2, 16));
    assert_eq!(export.export(id).expect("again"), None);
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
    let result = place.result(id);
    let exported = result.iter().filter_map(|line| line.strip_prefix("exported\t"));
    let mut exported: Vec<String> = exported.map(|line| line.trim().to_string()).collect();
    exported.sort();
    assert_eq!((users.len(), &users), (16, &exported));
    assert!(matches!(export.export(JobId::of_key("other", 0)), Err(OfflineError::NoJob(_))));
}

/// Other agents merge no fields, so each recipient gets a message of its own.
#[test]
fn export_merges_fields_into_copies_of_the_body() {
    let place = TestSpool::new();
    let mut draft = place.draft(true, b"Dear {{name}}!\n");
    for line in ["a@x\tname=Ann", "b@x\tname=Bob", "c@x\tname=Eve"] {
        draft.add("c", None, line.as_bytes()).expect("added");
    }
    let id = draft.commit(parameters("k")).expect("submitted").id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let made = place.make(&mut job, 0, 2).expect("a packet");
    let path = place.spool().control_file(&made.name);
    let text = fs::read_to_string(&path).expect("text").replacen("\nr ", "\nr+", 1);
    fs::write(&path, text).expect("written");
    let export = OfflineSpool::lock(place.spool(), HashLevel::Once).expect("no scheduler");
    let counts = export.export(id).expect("exported").expect("a job").counts;
    assert_eq!((counts.delivered, counts.exported), (1, 2));
    let mut messages = Vec::new();
    for packet in existing(place.spool()).expect("listed") {
        let name = packet.number.name(HashLevel::Once);
        let text = fs::read_to_string(place.spool().control_file(&name)).expect("text");
        assert!(!text.contains("MERGE="), "{text}");
        let message = fs::read_to_string(place.spool().message_file(&name)).expect("a message");
        messages.push((place.users(&name).join(" "), message));
    }
    messages.sort();
    let message = |name: &str| format!("Subject: news\nTo: {{{{name}}}}\n\nDear {name}!\n");
    let expected = [("b@x", message("Bob")), ("c@x", message("Eve"))];
    assert_eq!(messages, expected.map(|(user, text)| (user.to_string(), text)));
}

#[test]
fn export_respects_time_deadline_cancellation_and_lost_packets() {
    let place = TestSpool::new();
    let export = OfflineSpool::lock(place.spool(), HashLevel::Once).expect("no scheduler");
    let later = place.submit_with("1", &["a@x"], false, |job| job.not_before = Some(1 << 32)).id;
    assert!(matches!(export.export(later), Err(OfflineError::TooEarly(..))));
    let over = place.submit_with("2", &["a@x"], false, |job| job.deadline = Some(1)).id;
    assert_eq!(export.export(over).expect("exported").expect("a job").counts.too_late, 1);
    assert_eq!(place.result(over), ["too-late\ta@x\t"]);
    assert_eq!(export.cancel(later).expect("cancelled").expect("a job").counts.cancelled, 1);
    assert_eq!(find(place.spool(), "1").expect("read"), None, "as if it had never been");
    assert_eq!(existing(place.spool()).expect("listed"), []);

    let id = place.submit("3", &["a@x", "b@x", "c@x", "d@y"]).id;
    let mut job = place.open(id);
    job.next_destinations(9).expect("read");
    let [gone, done] = [(); 2].map(|()| place.make(&mut job, 0, 2).expect("a packet"));
    remove::remove(&place.open_spool(), &gone.name).expect("removed");
    assert!(matches!(export.export(id), Err(OfflineError::Lost(_, 2))));
    place.deliver(&done.name, Tag::Done);
    let counts = export.cancel(id).expect("cancelled").expect("a job").counts;
    assert_eq!((counts.unknown, counts.delivered, counts.cancelled), (2, 1, 1));
    assert_eq!(existing(place.spool()).expect("listed"), []);
    let counts = export.cancel(id).expect("again");
    assert_eq!(counts, None);
}
