//! Decisions about bulk jobs, without files.

use super::*;
use crate::{Event, Order, Settings};
use zsched_bulk::{BulkOrders, BulkParameters};
use zsched_config::Config;

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
        let core = Scheduler::new(Settings::default(), Config::empty());
        let mut bulk = Bulk { core, now: Timestamp::from_seconds(1_000_000) };
        let mut parameters =
            BulkParameters { packet_size: 10, share: MAX_SHARE, ..BulkParameters::default() };
        change(&mut parameters);
        let counts = RecipientCounts { all: 1000, pending: 1000, ..RecipientCounts::default() };
        let (orders, packets) = (BulkOrders::default(), Vec::new());
        let opened = OpenedJob { id: id(), parameters, orders, counts, packets };
        bulk.handle(BulkEvent::Opened(Box::new(opened)));
        bulk
    }

    fn handle(&mut self, event: BulkEvent) {
        self.core.handle(self.now, Event::Bulk(event));
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

    fn made(&mut self, destination: u32, offset: u32, recipients: u32) {
        let outcome = Ok(Some((PacketNumber { job: id(), offset }, recipients)));
        self.handle(BulkEvent::PacketMade { job: id(), destination, outcome });
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

fn make(destination: u32, at_most: u32) -> BulkAction {
    BulkAction::MakePacket { job: id(), destination, at_most }
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
    assert_eq!(bulk.decided(), [make(0, 10), make(5000, 3)]);
    for packet in 0..4 {
        bulk.made(0, packet * 100, 10);
        let expected = if packet < 3 { vec![make(0, 10)] } else { vec![] };
        assert_eq!(bulk.decided(), expected, "one agent needs four packets ahead");
    }
    bulk.made(5000, 5000, 3);
    assert_eq!(bulk.decided(), []);
    bulk.ended(0, 10);
    assert_eq!(bulk.decided(), [make(0, 10)]);
    let job = bulk.core.bulk_job(id()).expect("a job");
    assert_eq!((job.counts().delivered, job.counts().pending), (10, 990));
    assert_eq!(job.packets(), (4, 33));
}

#[test]
fn share_limits_packets_ahead() {
    let mut bulk = Bulk::new(|job| job.share = 50);
    bulk.destinations(&[(0, "x", 1000)], true);
    bulk.decided();
    bulk.made(0, 0, 10);
    assert_eq!(bulk.decided(), [], "half of one agent is one packet at a time");
    bulk.ended(0, 10);
    assert_eq!(bulk.decided(), [make(0, 10)]);
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
    assert_eq!(bulk.decided(), [store(2, BulkOrders::default()), make(0, 10), store(3, resized)]);
    bulk.made(0, 0, 10);
    assert_eq!(bulk.decided(), [make(0, 7)]);
}

#[test]
fn cancelled_job_ends_with_its_packets() {
    let mut bulk = Bulk::new(|_| {});
    bulk.decided();
    bulk.destinations(&[(0, "x", 1000)], true);
    bulk.decided();
    bulk.order(1, BulkOrder::Cancel);
    assert_eq!(bulk.decided().len(), 1, "a packet is being made: only the order is stored");
    bulk.made(0, 0, 10);
    let dropped = BulkAction::DropRest { job: id(), status: Status::Cancelled };
    assert_eq!(bulk.decided(), [dropped]);
    bulk.handle(BulkEvent::RestDropped { job: id(), outcome: Ok(990) });
    assert_eq!(bulk.decided(), []);
    bulk.ended(0, 10);
    assert_eq!(bulk.decided(), [BulkAction::Finish(id())]);
    let counts = RecipientCounts { all: 1000, delivered: 10, dropped: 990, ..Default::default() };
    bulk.handle(BulkEvent::Finished { job: id(), outcome: Ok(counts) });
    assert!(bulk.core.bulk_job(id()).is_none());
}

#[test]
fn recipients_whose_packet_was_lost_are_cut_again() {
    let mut bulk = Bulk::new(|_| {});
    bulk.destinations(&[(0, "x", 10)], true);
    bulk.made(0, 0, 10);
    bulk.decided();
    bulk.handle(BulkEvent::PacketGone(PacketNumber { job: id(), offset: 0 }));
    assert_eq!(bulk.decided(), [BulkAction::Finish(id())]);
    let counts = RecipientCounts { all: 10, pending: 10, ..RecipientCounts::default() };
    bulk.handle(BulkEvent::Finished { job: id(), outcome: Ok(counts) });
    assert_eq!(bulk.decided(), [read()]);
}

#[test]
fn job_waits_for_its_time_and_ends_at_its_deadline() {
    let mut bulk = Bulk::new(|job| {
        (job.not_before, job.deadline) = (Some(1_000_100), Some(1_000_200));
    });
    assert_eq!(bulk.decided(), []);
    assert_eq!(bulk.core.next_wakeup(), Some(Timestamp::from_seconds(1_000_100)));
    bulk.now = Timestamp::from_seconds(1_000_100);
    bulk.core.handle(bulk.now, Event::Tick);
    assert_eq!(bulk.decided(), [read()]);
    bulk.destinations(&[(0, "x", 10)], true);
    bulk.made(0, 0, 5);
    bulk.decided();
    let outcome = Err(ErrorKind::StorageFull);
    bulk.handle(BulkEvent::PacketMade { job: id(), destination: 0, outcome });
    assert_eq!(bulk.decided(), [], "the disk is full");
    bulk.now = Timestamp::from_seconds(1_000_200);
    bulk.core.handle(bulk.now, Event::Tick);
    assert_eq!(bulk.decided(), [BulkAction::DropRest { job: id(), status: Status::TooLate }]);
}

#[test]
fn order_is_answered_when_it_is_stored() {
    let mut bulk = Bulk::new(|_| {});
    bulk.order(1, BulkOrder::Pause);
    assert_eq!(bulk.answer(), None);
    let stored = |ticket, outcome| BulkEvent::OrdersStored { job: id(), ticket, outcome };
    bulk.handle(stored(Some(1), Err(ErrorKind::StorageFull)));
    let unstored = Effect { unstored: Some(ErrorKind::StorageFull), ..Effect::default() };
    assert_eq!(bulk.answer(), Some(unstored));
    bulk.now += Settings::default().failed_write;
    bulk.core.handle(bulk.now, Event::Tick);
    let orders = BulkOrders { is_paused: true, ..BulkOrders::default() };
    let again = BulkAction::StoreOrders { job: id(), ticket: None, orders };
    assert_eq!(bulk.decided(), [again], "it is stored later");
    bulk.handle(stored(None, Ok(())));
    bulk.order(2, BulkOrder::Resume);
    bulk.handle(stored(Some(2), Ok(())));
    assert_eq!(bulk.answer(), Some(Effect::default()));
    let order = Order::Bulk { job: "000002".parse().expect("a job"), order: BulkOrder::Pause };
    bulk.core.handle(bulk.now, Event::Ordered { ticket: 3, by: String::new(), order });
    let unknown = Effect::refused(OrderRefusal::NotFound);
    assert_eq!(bulk.answer(), Some(unknown));
}
