//! Bulk jobs: each recipient is in one packet at a time and ends once, packets are made and
//! delivered only while that is allowed, and the result of a job says what has happened.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_bulk::packet;
use zsched_bulk::recipient::Status;
use zsched_bulk::result::Ended;
use zsched_bulk::{JobId, MAX_SHARE, PacketNumber};
use zsched_core::bulk::BulkOrder;
use zsched_core::{Destination, Effect, Order, OrderTicket, Scheduler};
use zsched_format::control_file::ControlFile;
use zsched_format::schedule::DayWindow;
use zsched_format::time::Timestamp;
use zsched_simulation::jobs::JobFiles;
use zsched_simulation::observer::SimTime;

/// Maximum time for which packets may still go to agents after an order: it is applied in steps.
const MAX_ORDER_TIME: Duration = Duration::from_secs(5);

/// All jobs.
#[derive(Default)]
pub struct JobChecks {
    jobs: BTreeMap<JobId, JobBook>,
    /// Orders about jobs without an answer.
    unanswered: BTreeMap<OrderTicket, (JobId, BulkOrder)>,
    /// Agents repeat reports. Those about recipients that are not in memory count each time.
    pub are_reports_repeated: bool,
    pub totals: JobTotals,
}

/// Counts of what happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobTotals {
    pub ended: u64,
    pub removed: u64,
    pub packets: u64,
    pub vanished: u64,
    pub sent_again: u64,
    pub too_late: u64,
    pub cancelled: u64,
    /// Packets that went to an agent while a share limited them.
    pub shared: u64,
}

impl JobTotals {
    pub fn add(&mut self, other: &JobTotals) {
        self.ended += other.ended;
        self.removed += other.removed;
        self.packets += other.packets;
        self.vanished += other.vanished;
        self.sent_again += other.sent_again;
        self.too_late += other.too_late;
        self.cancelled += other.cancelled;
        self.shared += other.shared;
    }
}

struct JobBook {
    recipients: BTreeMap<u32, JobRecipient>,
    not_before: Option<Timestamp>,
    deadline: Option<Timestamp>,
    window: Option<DayWindow>,
    /// The largest share that was ever in force, in percent.
    max_share: u8,
    /// The largest packet size that was ever in force.
    max_packet: u32,
    /// The last order to pause or resume it.
    last_pause: Option<OrderTicket>,
    /// When it was paused, and whether that is stored.
    paused: Option<(Timestamp, bool)>,
    /// When it was cancelled for good.
    cancelled_at: Option<Timestamp>,
    has_ended: bool,
}

struct JobRecipient {
    destination: Destination,
    place: Place,
    /// All packets that it was in: serial number of the control file, and offset there.
    packets: Vec<(u64, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// In no packet yet.
    Waiting,
    Packet(PacketNumber),
    /// Its packet has left the spool.
    Left,
    /// Another program has deleted its packet.
    Vanished,
}

/// What has happened to a recipient in one of its packets.
#[derive(Clone, Copy, Default)]
pub struct Fate {
    pub delivered: bool,
    /// Delivered, and an agent has said or marked that.
    pub surely_delivered: bool,
    pub failed: bool,
    /// An order has deleted or rerouted it.
    pub removed: bool,
}

impl JobBook {
    fn new(files: &JobFiles) -> JobBook {
        let parameters = files.parameters();
        let text = files.recipients();
        let mut recipients = BTreeMap::new();
        for line in files.index().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [offset, count, channel, host] = words[..] else { panic!("{line:?}") };
            let mut at: usize = offset.parse().expect("an offset");
            for _ in 0..count.parse().expect("a count") {
                let destination = Destination::new(channel.as_bytes(), host.as_bytes());
                let recipient =
                    JobRecipient { destination, place: Place::Waiting, packets: Vec::new() };
                recipients.insert(at as u32, recipient);
                let length = text[at..].iter().position(|byte| *byte == b'\n');
                at += length.expect("whole lines") + 1;
            }
        }
        let seconds = |seconds: Option<i64>| seconds.map(Timestamp::from_seconds);
        let submitted = Timestamp::from_seconds(parameters.submitted);
        let window = parameters.window.as_deref();
        JobBook {
            recipients,
            not_before: seconds(parameters.not_before),
            deadline: seconds(parameters.deadline),
            window: window.map(|text| DayWindow::parse(text, submitted).expect("a window")),
            max_share: parameters.share,
            max_packet: parameters.packet_size,
            last_pause: None,
            paused: None,
            cancelled_at: None,
            has_ended: false,
        }
    }

    /// Checks that its packets may go to agents now.
    fn check_orders(&self, now: Timestamp, what: &str, patience: Duration) {
        let is_over = |since: Timestamp| now.since(since) > patience;
        let is_paused = self.paused.is_some_and(|(since, _)| is_over(since));
        assert!(!is_paused, "{what}, but the job is paused");
        assert!(!self.cancelled_at.is_some_and(is_over), "{what}, but the job is cancelled");
    }
}

impl JobChecks {
    pub fn submitted(&mut self, id: JobId, files: &JobFiles) {
        let former = self.jobs.insert(id, JobBook::new(files));
        assert!(former.is_none(), "the world gives a job twice");
    }

    /// Returns the jobs that have not ended.
    pub fn unfinished(&self) -> Vec<JobId> {
        self.jobs.iter().filter(|(_, job)| !job.has_ended).map(|(id, _)| *id).collect()
    }

    /// Records a packet, if the new message is one.
    pub fn packet_made(&mut self, number: u64, serial: u64, file: &ControlFile) {
        let Some(number) = PacketNumber::of_message(number) else { return };
        let Some(packet) = packet::of_text(number, &file.text) else {
            panic!("{number:?} names no recipients of its job");
        };
        let offsets: Vec<u32> = packet.offsets().collect();
        self.totals.packets += 1;
        let job = self.jobs.get_mut(&number.job).expect("packets belong to jobs");
        assert!(!job.has_ended, "{number:?} is made for a job that has ended");
        assert_eq!(offsets.first(), Some(&number.offset), "{number:?}");
        assert_eq!(offsets.len(), file.recipients.len(), "{number:?}: recipients");
        assert!(offsets.len() as u32 <= job.max_packet, "{number:?} is too large");
        for (line, offset) in file.recipients.iter().zip(&offsets) {
            let recipient = job.recipients.get_mut(offset).expect("a recipient of the job");
            let to = Destination::new(file.get(line.quad.channel), file.get(line.quad.host));
            assert_eq!(to, recipient.destination, "{number:?}/{offset}");
            let place = recipient.place;
            assert_eq!(place, Place::Waiting, "{number:?}: recipient {offset} is cut twice");
            recipient.place = Place::Packet(number);
            recipient.packets.push((serial, line.offset));
        }
    }

    /// Records the end of a packet, if the message was one.
    pub fn packet_left(&mut self, number: u64) {
        self.move_recipients(number, Place::Left);
    }

    /// Records that another program has deleted a packet, if the message was one.
    pub fn packet_vanished(&mut self, number: u64) {
        let moved = self.move_recipients(number, Place::Vanished);
        self.totals.vanished += u64::from(moved > 0);
    }

    fn move_recipients(&mut self, number: u64, to: Place) -> usize {
        let Some(number) = PacketNumber::of_message(number) else { return 0 };
        let job = self.jobs.get_mut(&number.job).expect("packets belong to jobs");
        let recipients = job.recipients.values_mut();
        let own = recipients.filter(|recipient| recipient.place == Place::Packet(number));
        own.map(|recipient| recipient.place = to).count()
    }

    /// Records that a recipient of a vanished packet is to be sent to again.
    pub fn sent_again(&mut self, id: JobId, offset: u32) {
        let job = self.jobs.get_mut(&id).expect("a job");
        let recipient = job.recipients.get_mut(&offset).expect("a recipient of the job");
        let place = recipient.place;
        let is_lost = matches!(place, Place::Vanished | Place::Waiting);
        assert!(is_lost, "{id}/{offset} is sent again, but is {place:?}");
        recipient.place = Place::Waiting;
        self.totals.sent_again += 1;
    }

    /// Records an order before the scheduler gets it.
    pub fn record_order(&mut self, ticket: OrderTicket, order: &Order) {
        let Order::Bulk { job, order } = order else { return };
        self.unanswered.insert(ticket, (*job, *order));
        let Some(book) = self.jobs.get_mut(job) else { return };
        match order {
            BulkOrder::Pause => book.last_pause = Some(ticket),
            BulkOrder::Resume => (book.last_pause, book.paused) = (Some(ticket), None),
            BulkOrder::Share(share) => book.max_share = book.max_share.max(*share),
            BulkOrder::PacketSize(size) => book.max_packet = book.max_packet.max(*size),
            BulkOrder::Cancel | BulkOrder::Priority(_) | BulkOrder::Lost { .. } => {}
        }
    }

    pub fn order_answered(&mut self, at: SimTime, ticket: OrderTicket, effect: &Effect) {
        let Some((id, order)) = self.unanswered.remove(&ticket) else { return };
        let Some(job) = self.jobs.get_mut(&id).filter(|_| effect.refusal.is_none()) else {
            return;
        };
        let is_stored = effect.unstored.is_none();
        match order {
            BulkOrder::Pause if job.last_pause == Some(ticket) => {
                job.paused = Some((at.now, is_stored));
            }
            BulkOrder::Cancel if is_stored => {
                job.cancelled_at.get_or_insert(at.now);
            }
            _ => {}
        }
    }

    /// Forgets what the scheduler had not stored.
    pub fn scheduler_ended(&mut self) {
        self.unanswered.clear();
        for job in self.jobs.values_mut() {
            job.paused = job.paused.filter(|(_, is_stored)| *is_stored);
            // An unanswered order to pause or resume may be stored or not.
            job.last_pause = None;
        }
    }

    /// Checks the decision to make packets. `wall` is the time that the scheduler knows.
    pub fn check_making(&self, at: SimTime, wall: Timestamp, id: JobId) {
        let job = &self.jobs[&id];
        let what = format!("packets of {id} are made");
        job.check_orders(at.now, &what, Duration::ZERO);
        assert!(job.not_before.is_none_or(|time| time <= wall), "{what} before their time");
        assert!(job.deadline.is_none_or(|time| time > wall), "{what} after the deadline");
        let is_open = job.window.as_ref().is_none_or(|window| window.is_open(wall));
        assert!(is_open, "{what} outside the window of the day");
    }

    /// Checks that a packet may go to an agent.
    ///
    /// `others` are the messages that agents have for its destination, and `most` the number of
    /// agents that may have some, if that is certain.
    pub fn check_feed(
        &mut self,
        at: SimTime,
        number: u64,
        others: impl Iterator<Item = u64>,
        most: Option<u32>,
    ) {
        let Some(number) = PacketNumber::of_message(number) else { return };
        let job = &self.jobs[&number.job];
        job.check_orders(at.now, &format!("{number:?} is given to an agent"), MAX_ORDER_TIME);
        if let Some(most) = most
            && job.max_share < MAX_SHARE
        {
            let packets = others.filter_map(PacketNumber::of_message);
            let packets = packets.filter(|other| other.job == number.job).chain([number]);
            let packets: BTreeSet<PacketNumber> = packets.collect();
            let count = packets.len() as u32;
            let most = (most * u32::from(job.max_share) / u32::from(MAX_SHARE)).max(1);
            assert!(count <= most, "{number:?}: {packets:?} with agents, share {most}");
            self.totals.shared += 1;
        }
    }

    /// Checks what the scheduler shows of its jobs.
    ///
    /// `fate` says what has happened to a recipient of a packet.
    pub fn check_shown(&self, core: &Scheduler, fate: impl Fn(u64, u32) -> Fate) {
        for shown in core.view().bulk_jobs() {
            let (id, totals) = (shown.id, shown.totals());
            let job = &self.jobs[&id];
            assert_eq!(totals.counts.all as usize, job.recipients.len(), "recipients of {id}");
            let count = |is_meant: &dyn Fn(Fate) -> bool| {
                let has = |one: &&JobRecipient| {
                    let mut fates =
                        one.packets.iter().map(|(serial, offset)| fate(*serial, *offset));
                    // Nothing is certain about a packet that another program has deleted.
                    one.place == Place::Vanished || fates.any(is_meant)
                };
                job.recipients.values().filter(has).count() as u32
            };
            let (delivered, failed) = (count(&|fate| fate.delivered), count(&|fate| fate.failed));
            // Only limited memory has recipients that are not in it, and agents report on.
            if self.are_reports_repeated && core.view().max_recipients().is_some() {
                continue;
            }
            assert!(
                totals.counts.delivered <= delivered,
                "{id}: {totals:?}, but {delivered} delivered"
            );
            assert!(totals.counts.failed <= failed, "{id}: {totals:?}, but {failed} failed");
        }
    }

    /// Checks the result of a job.
    pub fn check_end(
        &mut self,
        id: JobId,
        ended: &Ended,
        files: &JobFiles,
        fate: impl Fn(u64, u32) -> Fate,
    ) {
        let job = self.jobs.get_mut(&id).expect("a job");
        assert!(!std::mem::replace(&mut job.has_ended, true), "{id} ends twice");
        let text = files.recipients();
        let mut found = zsched_bulk::counts::RecipientCounts::default();
        for (offset, recipient) in &job.recipients {
            let status = Status::of_byte(text[*offset as usize]).expect("a status");
            found.add(status);
            let fates = || recipient.packets.iter().map(|(serial, at)| fate(*serial, *at));
            let was = |is: &dyn Fn(Fate) -> bool| fates().any(is);
            let place = recipient.place;
            let is_true = match status {
                Status::Pending | Status::Cut | Status::Lost => false,
                Status::Delivered => was(&|fate| fate.delivered),
                Status::Failed => was(&|fate| fate.failed),
                Status::Deleted | Status::Rerouted => was(&|fate| fate.removed),
                Status::Cancelled => place == Place::Waiting || was(&|fate| fate.removed),
                Status::TooLate => place == Place::Waiting,
                Status::Unknown => matches!(place, Place::Vanished | Place::Waiting),
                // The world damages no packet, and exports no job.
                Status::Aside | Status::Exported => false,
            };
            assert!(is_true, "{id}/{offset} ends as {status}, which is not true ({place:?})");
            let is_in_packet = matches!(place, Place::Packet(_));
            assert!(!is_in_packet, "{id}/{offset} is in a packet, and its job ends");
            let must_show = place == Place::Left && was(&|fate| fate.surely_delivered);
            let shows = status == Status::Delivered;
            assert!(shows || !must_show, "{id}/{offset} is delivered, and ends as {status}");
        }
        let counts = match ended {
            Ended::Finished(finished) => &finished.counts,
            Ended::Removed(counts) => {
                assert_eq!(counts.cancelled, counts.all, "{id} is removed");
                counts
            }
            Ended::NotYet(_) => panic!("{id} has not ended"),
        };
        assert_eq!(*counts, found, "{id}: the counts of the result");
        self.totals.ended += 1;
        self.totals.removed += u64::from(matches!(ended, Ended::Removed(_)));
        self.totals.cancelled += u64::from(found.cancelled);
        self.totals.too_late += u64::from(found.too_late);
    }
}
