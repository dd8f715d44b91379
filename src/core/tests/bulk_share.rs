//! The share of a bulk job: how many of its packets agents have.

use super::*;
use crate::bulk::{BulkEvent, BulkOrder, OpenedJob};
use zsched_bulk::counts::RecipientCounts;
use zsched_bulk::packet::OpenedPacket;
use zsched_bulk::{BulkOrders, BulkParameters, JobId, PacketNumber};

const CF: &str = "PARAMmessage-active-limit=9\nPARAMmessage-recipient-limit=9\n\
                  PARAMmessage-recipient-minimum=1\n\
                  c/*\n\tmaxthr=2 interval=60s retries=1 skew=1\n\tcommand=x\n";

fn job() -> JobId {
    "000001".parse().expect("a job")
}

/// Number of the message with the packet that begins at an offset.
fn packet(offset: u32) -> u64 {
    PacketNumber { job: job(), offset }.message()
}

/// A world with a job of this share, and packets of two recipients.
fn world(share: u8, packets: &[u32]) -> World {
    let mut world = World::new(CF);
    world.has_disk = true;
    let parameters = BulkParameters { packet_size: 2, share, ..BulkParameters::default() };
    let recipients = 2 * packets.len() as u32;
    let counts =
        RecipientCounts { all: recipients, pending: recipients, ..RecipientCounts::default() };
    let packets = packets.iter().map(|offset| OpenedPacket {
        offset: *offset,
        recipients: 2,
        delivered: 0,
        failed: 0,
        removed: 0,
    });
    let (orders, packets) = (BulkOrders::default(), packets.collect());
    let opened = OpenedJob { id: job(), parameters, orders, counts, is_complete: true, packets };
    world.handle(Event::Bulk(BulkEvent::Opened(Box::new(opened))));
    world
}

impl World {
    fn give(&mut self, order: Order) {
        self.handle(Event::Ordered { ticket: 1, by: "root".into(), order });
    }
}

#[test]
fn packet_with_agent_counts_when_share_is_changed() {
    for former in [50, 100] {
        let mut world = world(former, &[0, 10, 20]);
        world.message(packet(0), &["c/a.test"]);
        let (_, jobs) = world.hungry_new_agent();
        assert_eq!(jobs, [format!("{}\ta.test", packet(0))]);
        world.give(Order::Bulk { job: job(), order: BulkOrder::Share(60) });
        world.message(packet(10), &["c/a.test"]);
        world.pass_seconds(5);
        let shown = world.shows(packet(10));
        assert_eq!(shown.len(), 1);
        assert!(shown[0].contains(" Job "), "share {former} before: {shown:?}");
    }
}

#[test]
fn rest_of_packet_is_read_after_its_loaded_recipients_are_rerouted() {
    let mut world = world(50, &[0, 10]);
    world.message(packet(0), &["c/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    // Half of the second packet is in memory, and kept back.
    let group = Group::new(b"c", b"a.test", &[100]);
    let arrival = arrival(packet(10), vec![group], START, world.now);
    let arrival = Arrival { next_offset: Some(200), max_unread: 1, recipients: 2, ..arrival };
    world.handle(Event::Arrived(Box::new(arrival)));
    let target = Target {
        number: packet(10),
        destination: Some(Destination::new(b"c", b"a.test")),
        is_whole: false,
    };
    world.give(Order::Reroute(vec![target]));
    assert_eq!(world.shows(packet(10)), [""; 0]);
    world.pass_seconds(1);
    world.agent_line(agent, &format!("{}/100\t\tok3", packet(0)));
    world.hungry(agent);
    world.pass_seconds(5);
    assert!(world.done.iter().any(|action| matches!(action, Action::ReadMore { .. })));
}

#[test]
fn packet_that_was_paged_out_counts_again() {
    let mut world = world(50, &[0, 10]);
    world.message(packet(0), &["c/a.test"]);
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred busy");
    world.handle(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    world.handle(Event::Tick);
    let record = world.done.iter().find_map(|action| match action {
        Action::PageOut { record, .. } => Some(PagedMessage::clone(record)),
        _ => None,
    });
    world.handle(Event::BacklogChanged { waiting: Backlog::None, reading: 0 });
    world.pass_seconds(61);
    // The thread of another destination takes the place of the former one.
    world.message(1, &["c/b.test"]);
    let (number, record) = (packet(0), record.expect("it is paged out"));
    let age = world.now.since(record.modified);
    world.handle(Event::Restored { number, record, wanted: Vec::new() });
    world.message_of_age(number, &["c/a.test"], age);
    world.message(packet(10), &["c/a.test"]);
    let (first, second) = (world.shows(packet(0)), world.shows(packet(10)));
    assert!(!first[0].contains(" Job ") && second[0].contains(" Job "), "{first:?}, {second:?}");
}
