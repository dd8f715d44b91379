//! A client that asks for the queue (MAILQ version 1) and reads the answer slowly, while the world
//! goes on. The answer must be true of everything that was there all the time.

use crate::expected_queue::{DumpChanges, ExpectedQueue, Recipient};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use zsched_core::view::{RingId, Totals};
use zsched_core::{Destination, Scheduler};
use zsched_mailq::read_answer;
use zsched_mailq_server::v1::{Dump, GREETING};
use zsched_simulation::observer::SimTime;

/// A client that reads a dump.
pub struct DumpClient {
    dump: Dump,
    /// The answer so far.
    answer: Vec<u8>,
    /// The client asks for single messages, too, not only for the report.
    with_vertices: bool,
    /// Probability that the client reads in a step.
    pace: f64,
    /// Approximate maximum number of bytes of a read; `usize::MAX` for a client that reads all at
    /// once.
    piece: usize,
    /// Recipients that were unfinished when the client connected.
    before: BTreeMap<Recipient, Destination>,
    unsure: BTreeSet<Recipient>,
    destinations: BTreeSet<Destination>,
    rings: BTreeMap<Destination, RingId>,
}

/// A line of the queue report.
struct ThreadLine {
    vertices: usize,
    recipients: usize,
}

impl DumpClient {
    /// Connects a client.
    pub fn new(
        at: SimTime,
        core: &Scheduler,
        expected: &mut ExpectedQueue,
        random: &mut Rng,
    ) -> DumpClient {
        expected.journal = DumpChanges::default();
        let with_vertices = random.u8(0..5) > 0;
        let is_fast = random.u8(0..4) == 0;
        DumpClient {
            dump: Dump::new(at.wall, with_vertices),
            answer: Vec::new(),
            with_vertices,
            pace: if is_fast { 1.0 } else { random.f64() },
            piece: if is_fast { usize::MAX } else { random.usize(1..1000) },
            before: expected.to_do(),
            unsure: expected.unsure(),
            destinations: expected.destinations(),
            rings: rings(core),
        }
    }

    /// Lets the client read after a step of the world. Returns true if the answer is complete.
    pub fn step(
        &mut self,
        at: SimTime,
        core: &Scheduler,
        expected: &ExpectedQueue,
        random: &mut Rng,
    ) -> bool {
        if random.f64() >= self.pace {
            return false;
        }
        let mut piece = Vec::new();
        self.dump.write(core, at.wall, &mut piece, self.piece);
        self.answer.append(&mut piece);
        if self.dump.is_over() {
            self.check(core, expected);
        }
        self.dump.is_over()
    }

    fn check(&self, core: &Scheduler, expected: &ExpectedQueue) {
        let answer = self.answer.strip_prefix(GREETING.as_bytes()).expect("it begins with that");
        let (queue, report) = read_answer(answer).unwrap_or_else(|failure| {
            panic!("{failure}: {}", String::from_utf8_lossy(&self.answer))
        });
        let mut shown: BTreeMap<Recipient, Destination> = BTreeMap::new();
        let mut vertices: BTreeMap<Destination, usize> = BTreeMap::new();
        for thread in queue {
            let destination = Destination::new(&thread.channel, &thread.host);
            for vertex in &thread.vertices {
                let path = String::from_utf8_lossy(&vertex.file).into_owned();
                let number = path.rsplit('/').next().and_then(|base| base.parse().ok());
                let number = number.unwrap_or_else(|| panic!("{path} is no message"));
                let stayed = |offset: &u32| self.stayed(&(number, *offset), &expected.journal);
                let is_path = expected.path(number) == Some(&path);
                let may_differ = !vertex.offsets.iter().any(stayed);
                assert!(is_path || may_differ, "{path} is {:?}", expected.path(number));
                *vertices.entry(destination.clone()).or_default() += 1;
                for offset in &vertex.offsets {
                    let former = shown.insert((number, *offset), destination.clone());
                    assert_eq!(former, None, "{number}/{offset} is shown twice");
                }
            }
        }
        if self.with_vertices {
            self.check_recipients(&shown, &expected.journal);
        }
        self.check_report(core, expected, &report, &vertices);
    }

    /// Returns true if a recipient was unfinished during the whole dump.
    fn stayed(&self, who: &Recipient, journal: &DumpChanges) -> bool {
        self.before.contains_key(who) && !journal.ended.contains(who)
    }

    /// Checks that the dump shows all recipients that stayed, and none that never existed.
    fn check_recipients(&self, shown: &BTreeMap<Recipient, Destination>, journal: &DumpChanges) {
        for (who, to) in &self.before {
            let stayed = self.stayed(who, journal);
            assert!(!stayed || shown.get(who) == Some(to), "{who:?} for {to} is not shown");
        }
        for (who, to) in shown {
            let was_there = self.before.contains_key(who) || self.unsure.contains(who);
            let known = was_there || journal.arrived.contains(who);
            assert!(known, "{who:?} for {to} is shown, and was not there");
        }
    }

    fn check_report(
        &self,
        core: &Scheduler,
        expected: &ExpectedQueue,
        report: &[Vec<u8>],
        shown: &BTreeMap<Destination, usize>,
    ) {
        let rings = rings(core);
        // The thread was in one ring all the time, so that ring's list must have it.
        let stayed = |destination: &Destination| {
            self.destinations.contains(destination)
                && !expected.journal.emptied.contains(destination)
                && !expected.journal.reloaded
                && self.rings.get(destination) == rings.get(destination)
        };
        let mut listed: BTreeMap<Destination, ThreadLine> = BTreeMap::new();
        for line in report {
            let line = String::from_utf8_lossy(line);
            if let Some((destination, thread)) = parse_thread(&line) {
                let is_first = !listed.contains_key(&destination);
                assert!(is_first || !stayed(&destination), "{destination} is listed twice");
                listed.insert(destination, thread);
            }
        }
        for destination in self.destinations.iter().filter(|destination| stayed(destination)) {
            assert!(listed.contains_key(destination), "{destination} is not listed");
        }
        let totals = core.view().totals();
        check_totals(report, &totals);
        // A dump that is read at once shows one moment.
        if self.piece == usize::MAX {
            let sum = |of: fn(&ThreadLine) -> usize| listed.values().map(of).sum::<usize>();
            assert_eq!(sum(|line| line.vertices), totals.vertices, "vertices of all threads");
            let recipients = sum(|line| line.recipients) as u64;
            assert_eq!(recipients, totals.recipients, "recipients of all threads");
            for (destination, count) in shown {
                let line = &listed[destination];
                assert_eq!(line.vertices, *count, "{destination}: vertices");
            }
        }
    }
}

/// Checks the last two lines, which show the moment at which they are written.
fn check_totals(report: &[Vec<u8>], totals: &Totals) {
    let line = |name: &str| {
        let is_named = |line: &&Vec<u8>| line.starts_with(name.as_bytes());
        let line = report.iter().rev().find(is_named);
        String::from_utf8_lossy(line.unwrap_or_else(|| panic!("no line {name}"))).into_owned()
    };
    let kids = line("Kids:");
    let numbers = |line: &str| -> Vec<u64> {
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    let counts = [totals.agents, totals.idle, totals.messages, totals.threads, totals.vertices];
    let counts: Vec<u64> = counts.iter().map(|count| *count as u64).collect();
    assert_eq!(numbers(&kids)[..5], counts, "{kids}");
    let msgs = line("Msgs in ");
    let of = &totals.counters;
    let counts = [of.messages_in, of.messages_out, totals.messages as u64];
    let more = [of.recipients_in, of.recipients_out, totals.recipients];
    assert_eq!(numbers(&msgs), [counts, more].concat(), "{msgs}");
}

/// Returns the ring of each thread.
fn rings(core: &Scheduler) -> BTreeMap<Destination, RingId> {
    let mut rings = BTreeMap::new();
    for id in core.view().ring_ids() {
        let ring = core.view().ring(id).expect("a ring that is listed is there");
        for thread in &ring.threads {
            let thread = core.view().thread(*thread).expect("its threads, too");
            rings.insert(thread.destination.clone(), id);
        }
    }
    rings
}

/// Parses `    channel/host/0<TAB>N=2   R=3 ...`.
fn parse_thread(line: &str) -> Option<(Destination, ThreadLine)> {
    let line = line.strip_prefix("    ")?;
    let (name, about) = line.split_once(|c: char| c.is_ascii_whitespace())?;
    let (name, _with_host) = name.rsplit_once('/')?;
    let (channel, host) = name.split_once('/')?;
    let number =
        |label: &str| about.split(label).nth(1)?.split_ascii_whitespace().next()?.parse().ok();
    let thread = ThreadLine { vertices: number("N=")?, recipients: number("R=")? };
    Some((Destination::new(channel.as_bytes(), host.as_bytes()), thread))
}
