//! Decisions about bulk jobs, without files.

use super::ahead::DESTINATIONS_PER_READ;
use super::*;
use crate::Scheduler;
use crate::{Event, Order, Settings};
use std::time::Duration;
use zsched_bulk::{BulkOrders, BulkParameters};
use zsched_config::Config;
use zsched_format::schedule::parse_instant;

const JOB: &str = "000001";

fn id() -> JobId {
    JOB.parse().expect("a job")
}

struct Bulk {
    core: Scheduler,
    now: Timestamp,
}

impl Bulk {
    /// A core with one job.
    fn new(change: impl FnOnce(&mut BulkParameters)) -> Bulk {
        Bulk::at(Timestamp::from_seconds(1_000_000), change)
    }

    fn at(now: Timestamp, change: impl FnOnce(&mut BulkParameters)) -> Bulk {
        let core = Scheduler::new(Settings::default(), Config::empty());
        let mut bulk = Bulk { core, now };
        let mut parameters =
            BulkParameters { packet_size: 10, share: MAX_SHARE, ..BulkParameters::default() };
        change(&mut parameters);
        let counts = RecipientCounts { all: 1000, pending: 1000, ..RecipientCounts::default() };
        let (orders, packets) = (BulkOrders::default(), Vec::new());
        let is_complete = true;
        let opened = OpenedJob { id: id(), parameters, orders, counts, is_complete, packets };
        bulk.handle(BulkEvent::Opened(Box::new(opened)));
        bulk
    }

    fn handle(&mut self, event: BulkEvent) {
        self.core.handle(self.now, Event::Bulk(event));
        self.core.check_invariants();
    }

    /// Lets the time come.
    fn tick(&mut self, now: Timestamp) {
        self.now = now;
        self.core.handle(now, Event::Tick);
        self.core.check_invariants();
    }

    fn order(&mut self, ticket: OrderTicket, order: BulkOrder) {
        let (by, order) = ("test".to_string(), Order::Bulk { job: id(), order });
        self.core.handle(self.now, Event::Ordered { ticket, by, order });
        self.core.check_invariants();
    }

    /// The answer to an order, if there is one.
    fn answer(&mut self) -> Option<Effect> {
        let answer = |action| match action {
            Action::OrderDone { effect, .. } => Some(effect),
            _ => None,
        };
        std::iter::from_fn(|| self.core.poll()).find_map(answer)
    }

    /// Decisions about jobs since the last call.
    fn decided(&mut self) -> Vec<BulkAction> {
        let mut decided = Vec::new();
        while let Some(action) = self.core.poll() {
            if let Action::Bulk(action) = action {
                decided.push(action);
            }
        }
        decided
    }

    fn destinations(&mut self, left: &[(u32, &str, u32)], is_last: bool) {
        let found = left.iter().map(|(offset, host, left)| BulkDestination {
            offset: *offset,
            channel: "c".to_string(),
            host: host.to_string(),
            left: *left,
        });
        let outcome = Ok((found.collect(), is_last));
        self.handle(BulkEvent::Destinations { job: id(), outcome });
    }

    /// Packets of these offsets and numbers of recipients are made.
    fn made(&mut self, destination: u32, made: &[(u32, u32)]) {
        let packet = |(offset, recipients): &(u32, u32)| {
            (PacketNumber { job: id(), offset: *offset }, *recipients)
        };
        let outcome = Ok(made.iter().map(packet).collect());
        self.handle(BulkEvent::PacketsMade { job: id(), destination, outcome });
    }

    fn ended(&mut self, offset: u32, recipients: u32) {
        let packet = PacketNumber { job: id(), offset };
        let counts = RecipientCounts {
            all: recipients,
            delivered: recipients,
            ..RecipientCounts::default()
        };
        self.handle(BulkEvent::PacketEnded { packet, counts });
        self.handle(BulkEvent::PacketGone(packet));
    }
}

fn make(destination: u32, packets: u32, at_most: u32) -> BulkAction {
    BulkAction::MakePackets { job: id(), destination, packets, at_most }
}

fn store(ticket: OrderTicket, orders: BulkOrders) -> BulkAction {
    BulkAction::StoreOrders { job: id(), ticket: Some(ticket), orders }
}

fn read() -> BulkAction {
    BulkAction::ReadDestinations { job: id(), at_most: DESTINATIONS_PER_READ }
}

#[test]
fn packets_are_cut_as_far_as_agents_need_them() {
    let mut bulk = Bulk::new(|_| {});
    assert_eq!(bulk.decided(), [read()]);
    bulk.destinations(&[(0, "x", 1000), (5000, "y", 3)], true);
    // One agent, half of one more, and two.
    assert_eq!(bulk.decided(), [make(0, 3, 10), make(5000, 1, 3)]);
    bulk.made(0, &[(0, 10), (100, 10), (200, 10)]);
    bulk.made(5000, &[(5000, 3)]);
    assert_eq!(bulk.decided(), [], "as many are ahead as are allowed");
    bulk.ended(0, 10);
    assert_eq!(bulk.decided(), [make(0, 1, 10)]);
    let totals = bulk.core.view().bulk_job(id()).expect("a job").totals();
    assert_eq!((totals.counts.delivered, totals.counts.pending), (10, 990));
    assert_eq!((totals.packets, totals.queued), (3, 23));
}

#[test]
fn share_limits_packets_ahead() {
    let mut bulk = Bulk::new(|job| job.share = 50);
    bulk.destinations(&[(0, "x", 1000)], true);
    // Half of one agent is one packet at a time, and the next one.
    assert_eq!(bulk.decided(), [read(), make(0, 2, 10)]);
    bulk.made(0, &[(0, 10), (100, 10)]);
    assert_eq!(bulk.decided(), []);
    bulk.ended(0, 10);
    assert_eq!(bulk.decided(), [make(0, 1, 10)]);
}

#[test]
fn paused_job_cuts_nothing_until_it_is_resumed() {
    let mut bulk = Bulk::new(|_| {});
    bulk.decided();
    bulk.order(1, BulkOrder::Pause);
    bulk.destinations(&[(0, "x", 1000)], true);
    let paused = BulkOrders { is_paused: true, ..BulkOrders::default() };
    assert_eq!(bulk.decided(), [store(1, paused)]);
    bulk.order(2, BulkOrder::Resume);
    bulk.order(3, BulkOrder::PacketSize(7));
    let resized = BulkOrders { packet_size: Some(7), ..BulkOrders::default() };
    assert_eq!(
        bulk.decided(),
        [store(2, BulkOrders::default()), make(0, 3, 10), store(3, resized)]
    );
    bulk.made(0, &[(0, 10), (100, 10), (200, 10)]);
    bulk.ended(0, 10);
    assert_eq!(bulk.decided(), [make(0, 1, 7)]);
}

#[test]
fn cancelled_job_ends_with_its_packets() {
    let mut bulk = Bulk::new(|_| {});
    bulk.decided();
    bulk.destinations(&[(0, "x", 1000)], true);
    bulk.decided();
    bulk.order(1, BulkOrder::Cancel);
    let orders = BulkOrders { is_cancelled: true, ..BulkOrders::default() };
    assert_eq!(bulk.decided(), [store(1, orders)]);
    bulk.made(0, &[(0, 10), (100, 10), (200, 10)]);
    assert_eq!(bulk.decided(), [], "nothing is dropped before the cancellation is on disk");
    bulk.handle(BulkEvent::OrdersStored { job: id(), ticket: Some(1), outcome: Ok(()) });
    let status = Status::Cancelled;
    assert_eq!(bulk.decided(), [BulkAction::DropRest { job: id(), status }]);
    bulk.handle(BulkEvent::RestDropped { job: id(), status, outcome: Ok(970) });
    assert_eq!(bulk.decided(), []);
    bulk.order(2, BulkOrder::Resume);
    assert_eq!(bulk.answer(), Some(Effect::refused(OrderRefusal::JobCancelled)));
    [0, 100, 200].into_iter().for_each(|offset| bulk.ended(offset, 10));
    assert_eq!(bulk.decided(), [BulkAction::Finish(id())]);
    let counts = RecipientCounts { all: 1000, delivered: 30, cancelled: 970, ..Default::default() };
    let finished = FinishedJob { id: id(), list: None, counts, submitted: 0, finished: 7 };
    let outcome = Ok(Ended::Finished(finished.clone()));
    bulk.handle(BulkEvent::Finished { job: id(), outcome });
    assert!(bulk.core.view().bulk_job(id()).is_none());
    assert_eq!(bulk.core.view().finished_bulk_job(id()), Some(&finished));
}

#[test]
fn no_packet_is_cut_while_cancellation_cannot_be_stored() {
    let mut bulk = Bulk::new(|job| job.deadline = Some(1_000_100));
    bulk.destinations(&[(0, "x", 1000)], true);
    bulk.order(1, BulkOrder::Cancel);
    bulk.decided();
    let outcome = Err(ErrorKind::StorageFull);
    bulk.handle(BulkEvent::OrdersStored { job: id(), ticket: Some(1), outcome });
    bulk.made(0, &[(0, 10), (100, 10), (200, 10)]);
    [0, 100, 200].into_iter().for_each(|offset| bulk.ended(offset, 10));
    assert_eq!(bulk.decided(), []);
    bulk.tick(bulk.now + Duration::from_secs(60));
    let orders = BulkOrders { is_cancelled: true, ..BulkOrders::default() };
    let again = BulkAction::StoreOrders { job: id(), ticket: None, orders };
    assert_eq!(bulk.decided(), [again]);
    bulk.tick(bulk.now + Duration::from_secs(60));
    let status = Status::TooLate;
    assert_eq!(bulk.decided(), [BulkAction::DropRest { job: id(), status }], "the deadline");
}

#[test]
fn recipients_of_vanished_packet_wait_for_a_decision() {
    let mut bulk = Bulk::new(|_| {});
    bulk.destinations(&[(0, "x", 10)], true);
    bulk.made(0, &[(0, 10)]);
    bulk.decided();
    bulk.handle(BulkEvent::PacketGone(PacketNumber { job: id(), offset: 0 }));
    assert_eq!(bulk.decided(), [BulkAction::MarkLost(id())]);
    bulk.handle(BulkEvent::LostMarked { job: id(), outcome: Ok(10) });
    assert_eq!(bulk.decided(), [], "nothing is sent again by itself");
    bulk.order(1, BulkOrder::Lost { are_sent: true });
    let decide = BulkAction::DecideLost { job: id(), ticket: Some(1), are_sent: true };
    assert_eq!(bulk.decided(), [decide]);
    let (ticket, are_sent) = (Some(1), true);
    bulk.handle(BulkEvent::LostDecided { job: id(), ticket, are_sent, outcome: Ok(10) });
    assert_eq!(bulk.decided(), [read()]);
}

/// The marks are written, but not synced: the next attempt finds nothing to change.
#[test]
fn lost_recipients_of_cancelled_job_are_decided_once() {
    let mut bulk = Bulk::new(|_| {});
    bulk.destinations(&[(0, "x", 10)], true);
    bulk.made(0, &[(0, 10)]);
    bulk.handle(BulkEvent::PacketGone(PacketNumber { job: id(), offset: 0 }));
    bulk.handle(BulkEvent::LostMarked { job: id(), outcome: Ok(10) });
    bulk.order(1, BulkOrder::Cancel);
    bulk.decided();
    bulk.handle(BulkEvent::OrdersStored { job: id(), ticket: Some(1), outcome: Ok(()) });
    let (ticket, are_sent) = (None, false);
    let decide = BulkAction::DecideLost { job: id(), ticket, are_sent };
    assert!(bulk.decided().contains(&decide));
    let outcome = Err(ErrorKind::StorageFull);
    bulk.handle(BulkEvent::LostDecided { job: id(), ticket, are_sent, outcome });
    assert!(!bulk.decided().contains(&decide), "the disk is full");
    bulk.tick(bulk.now + Settings::default().failed_write);
    assert!(bulk.decided().contains(&decide));
    bulk.handle(BulkEvent::LostDecided { job: id(), ticket, are_sent, outcome: Ok(0) });
    assert!(!bulk.decided().contains(&decide));
}

#[test]
fn job_waits_for_its_time_and_ends_at_its_deadline() {
    let mut bulk = Bulk::new(|job| {
        (job.not_before, job.deadline) = (Some(1_000_100), Some(1_000_200));
    });
    assert_eq!(bulk.decided(), []);
    assert_eq!(bulk.core.next_wakeup(), Some(Timestamp::from_seconds(1_000_100)));
    bulk.tick(Timestamp::from_seconds(1_000_100));
    assert_eq!(bulk.decided(), [read()]);
    bulk.destinations(&[(0, "x", 10)], true);
    assert_eq!(bulk.decided(), [make(0, 1, 10)]);
    let outcome = Err(ErrorKind::StorageFull);
    bulk.handle(BulkEvent::PacketsMade { job: id(), destination: 0, outcome });
    assert_eq!(bulk.decided(), [], "the disk is full");
    bulk.tick(Timestamp::from_seconds(1_000_200));
    assert_eq!(bulk.decided(), [BulkAction::DropRest { job: id(), status: Status::TooLate }]);
}

/// Sets the clock, without an event in between.
fn set_clock(bulk: &mut Bulk, step: ClockStep) {
    bulk.now = match step {
        ClockStep::Forward(by) => bulk.now + by,
        ClockStep::Back(by) => bulk.now - by,
    };
    bulk.core.handle(bulk.now, Event::ClockSet(step));
    bulk.core.check_invariants();
}

#[test]
fn window_of_job_follows_changes_of_daylight_saving_time() {
    let utc = |text: &str| parse_instant(text, Timestamp::EPOCH).expect("a time");
    for (noon, opens, closes, opens_again) in [
        // The night to winter time, when it is 02:30 twice: nine hours.
        ("2026-10-24T12:00Z", "2026-10-24T20:00Z", "2026-10-25T05:00Z", "2026-10-25T21:00Z"),
        // The night to summer time: seven hours.
        ("2027-03-27T12:00Z", "2027-03-27T21:00Z", "2027-03-28T04:00Z", "2027-03-28T20:00Z"),
    ] {
        let mut bulk = Bulk::at(utc(noon), |job| {
            job.window = Some("22:00-06:00;Europe/Berlin".to_string());
        });
        assert_eq!(bulk.decided(), [], "{noon}");
        assert_eq!(bulk.core.next_wakeup(), Some(utc(opens)));
        bulk.tick(utc(opens));
        assert_eq!(bulk.decided(), [read()], "{opens}");
        bulk.destinations(&[(0, "x", 1000)], true);
        assert_eq!(bulk.decided(), [make(0, 3, 10)]);
        bulk.made(0, &[(0, 10), (100, 10), (200, 10)]);
        bulk.tick(utc(closes) - Duration::from_secs(1));
        bulk.ended(0, 10);
        assert_eq!(bulk.decided(), [make(0, 1, 10)], "one second before {closes}");
        bulk.made(0, &[(300, 10)]);
        bulk.tick(utc(closes));
        bulk.ended(100, 10);
        assert_eq!(bulk.decided(), [], "{closes}");
        let state = bulk.core.view().bulk_job(id()).expect("a job").state(bulk.now);
        assert_eq!(state, view::JobState::Scheduled(utc(opens_again)));
        bulk.tick(utc(opens_again));
        assert_eq!(bulk.decided(), [make(0, 1, 10)], "{opens_again}");
    }
}

#[test]
fn job_waits_no_longer_after_an_error_when_the_clock_is_set_back() {
    let mut bulk = Bulk::new(|_| {});
    bulk.decided();
    bulk.destinations(&[(0, "x", 1000)], true);
    bulk.decided();
    let outcome = Err(ErrorKind::StorageFull);
    bulk.handle(BulkEvent::PacketsMade { job: id(), destination: 0, outcome });
    assert_eq!(bulk.decided(), [], "the disk is full");
    set_clock(&mut bulk, ClockStep::Back(Duration::from_secs(7200)));
    assert_eq!(bulk.decided(), []);
    bulk.tick(bulk.now + Settings::default().failed_write);
    assert_eq!(bulk.decided(), [make(0, 3, 10)]);
}

#[test]
fn release_of_job_follows_the_clock_when_it_is_set() {
    let hour = Duration::from_secs(3600);
    let mut bulk = Bulk::new(|job| job.not_before = Some(1_000_000 + 1800));
    assert_eq!(bulk.decided(), []);
    set_clock(&mut bulk, ClockStep::Forward(hour));
    assert_eq!(bulk.decided(), [read()], "it is later than the release");
    set_clock(&mut bulk, ClockStep::Back(hour));
    bulk.destinations(&[(0, "x", 1000)], true);
    assert_eq!(bulk.decided(), [], "it is earlier again");
    bulk.tick(bulk.now);
    assert_eq!(bulk.core.next_wakeup(), Some(Timestamp::from_seconds(1_000_000 + 1800)));
    bulk.tick(Timestamp::from_seconds(1_000_000 + 1800));
    assert_eq!(bulk.decided(), [make(0, 3, 10)]);
}

#[test]
fn order_is_answered_when_it_is_stored() {
    let mut bulk = Bulk::new(|_| {});
    bulk.order(1, BulkOrder::Pause);
    assert_eq!(bulk.answer(), None);
    let stored = |ticket, outcome| BulkEvent::OrdersStored { job: id(), ticket, outcome };
    bulk.handle(stored(Some(1), Err(ErrorKind::StorageFull)));
    let unstored = Effect { jobs: 1, unstored: Some(ErrorKind::StorageFull), ..Effect::default() };
    assert_eq!(bulk.answer(), Some(unstored));
    bulk.tick(bulk.now + Settings::default().failed_write);
    let orders = BulkOrders { is_paused: true, ..BulkOrders::default() };
    let again = BulkAction::StoreOrders { job: id(), ticket: None, orders };
    assert_eq!(bulk.decided(), [again], "it is stored later");
    bulk.handle(stored(None, Ok(())));
    bulk.order(2, BulkOrder::Resume);
    bulk.handle(stored(Some(2), Ok(())));
    assert_eq!(bulk.answer(), Some(Effect { jobs: 1, ..Effect::default() }));
    let order = Order::Bulk { job: "000002".parse().expect("a job"), order: BulkOrder::Pause };
    bulk.core.handle(bulk.now, Event::Ordered { ticket: 3, by: String::new(), order });
    let unknown = Effect::refused(OrderRefusal::NotFound);
    assert_eq!(bulk.answer(), Some(unknown));
}

#[test]
fn cancelled_job_requests_packets_that_are_not_in_memory() {
    let mut bulk = Bulk::new(|_| {});
    bulk.destinations(&[(0, "x", 1000)], true);
    bulk.made(0, &[(0, 10), (100, 10)]);
    let requested = |bulk: &mut Bulk| {
        let numbers = |action| match action {
            Action::RequestPagedMessages(numbers) => Some(numbers),
            _ => None,
        };
        std::iter::from_fn(|| bulk.core.poll()).find_map(numbers)
    };
    bulk.order(1, BulkOrder::Cancel);
    assert_eq!(requested(&mut bulk), None, "the order is not stored yet");
    bulk.handle(BulkEvent::OrdersStored { job: id(), ticket: Some(1), outcome: Ok(()) });
    let packet = |offset| PacketNumber { job: id(), offset }.message();
    assert_eq!(requested(&mut bulk), Some(vec![packet(0), packet(100)]));
}
