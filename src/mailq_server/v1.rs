//! MAILQ version 1: a dump of the queue, sent to every client that connects.
//!
//! ```text
//! version zmailer 1.0
//! Vertices:
//! 1:<TAB>A/D/311424-2<TAB>1; 116<TAB>#(running now, pid=20114, expires in 2d23h, tries=0)
//! Channels:
//! smtp:<TAB>>1
//! Hosts:
//! funet.fi:<TAB>>1
//! End:
//! <queue report>
//! ```
//!
//! The dump is written step by step, as fast as the client reads it. A large queue or a slow client
//! therefore neither delays other work nor uses much memory. A cursor passes through the messages
//! in the order of their numbers; it keeps four bytes for each vertex shown and at most 72 for each
//! destination.

use super::queue_report::{QueueReport, ReportForm, push};
use crate::classic::{LimitKind, limit_of, words_of_wait};
use crate::v2::Step;
use std::collections::BTreeMap;
use zsched_core::view::{QueuedVertex, Totals};
use zsched_core::why::Reason;
use zsched_core::{Destination, Scheduler};
use zsched_format::time::{ShortDuration, Timestamp};

/// The first line.
pub const GREETING: &str = "version zmailer 1.0\n";

/// A dump that is being written.
pub struct Dump {
    started: Timestamp,
    stage: Stage,
    /// True if single vertices are shown (server option `-Q`).
    with_vertices: bool,
    next_number: u64,
    shown: ShownKeys,
    report: QueueReport,
}

/// Keys of the vertices shown so far, from 1; 0 is none.
#[derive(Default)]
struct ShownKeys {
    /// For each key, the next key of the same destination.
    following: Vec<u32>,
    destinations: BTreeMap<Destination, Keys>,
}

/// The keys of one destination: a list through [`ShownKeys::following`].
#[derive(Clone, Copy)]
struct Keys {
    first: u32,
    last: u32,
}

impl ShownKeys {
    /// Adds a vertex and returns its key.
    fn add(&mut self, destination: &Destination) -> u32 {
        self.following.push(0);
        let key = self.following.len() as u32;
        match self.destinations.get_mut(destination) {
            Some(keys) => {
                self.following[keys.last as usize - 1] = key;
                keys.last = key;
            }
            None => {
                self.destinations.insert(destination.clone(), Keys { first: key, last: key });
            }
        }
        key
    }
}

/// Memory for each vertex shown, in bytes.
const BYTES_PER_VERTEX: usize = size_of::<u32>();
/// Memory for each destination shown, in bytes.
///
/// The size of an entry in a map that is two thirds full and is moved into a list.
const BYTES_PER_DESTINATION: usize = 72;

enum Stage {
    Greeting,
    Vertices,
    KeyLists(KeyLists),
    Report,
    Over,
}

impl Dump {
    /// Creates a dump for a scheduler started at the given time.
    pub fn new(started: Timestamp, with_vertices: bool) -> Dump {
        Dump {
            started,
            stage: Stage::Greeting,
            with_vertices,
            next_number: 0,
            shown: ShownKeys::default(),
            report: QueueReport::new(ReportForm::Full),
        }
    }

    /// Returns the maximum memory of a dump, in bytes.
    ///
    /// Output that is written and not yet read by the client is not included.
    pub fn memory(totals: &Totals) -> usize {
        BYTES_PER_VERTEX * totals.vertices + BYTES_PER_DESTINATION * totals.threads
    }

    /// Returns true if everything has been written.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Writes until `out` has `enough` bytes, the dump ends or others come first.
    pub fn write(
        &mut self,
        scheduler: &Scheduler,
        now: Timestamp,
        out: &mut Vec<u8>,
        enough: usize,
    ) {
        while out.len() < enough && !self.is_over() {
            if let Step::Pause = self.step(scheduler, now, out) {
                return;
            }
        }
    }

    fn step(&mut self, scheduler: &Scheduler, now: Timestamp, out: &mut Vec<u8>) -> Step {
        match &mut self.stage {
            Stage::Greeting => {
                out.extend_from_slice(GREETING.as_bytes());
                out.extend_from_slice(b"Vertices:\n");
                self.stage = if self.with_vertices {
                    Stage::Vertices
                } else {
                    Stage::KeyLists(KeyLists::new(ShownKeys::default()))
                };
            }
            Stage::Vertices => match scheduler.view().message_at_or_after(self.next_number) {
                Some(message) => {
                    for vertex in scheduler.view().vertices_of(message) {
                        self.write_vertex(scheduler, now, &vertex, out);
                    }
                    match message.number().checked_add(1) {
                        Some(next) => self.next_number = next,
                        None => self.end_vertices(),
                    }
                }
                None => self.end_vertices(),
            },
            Stage::KeyLists(lists) => {
                if !lists.write(out) {
                    out.extend_from_slice(b"End:\n");
                    self.stage = Stage::Report;
                }
            }
            Stage::Report => {
                let progress = self.report.write(scheduler, now, self.started, out);
                if let Step::Done = progress {
                    self.stage = Stage::Over;
                }
                return progress;
            }
            Stage::Over => {}
        }
        Step::More
    }

    fn write_vertex(
        &mut self,
        scheduler: &Scheduler,
        now: Timestamp,
        queued: &QueuedVertex<'_>,
        out: &mut Vec<u8>,
    ) {
        let key = self.shown.add(&queued.thread.destination);
        let offsets = queued.vertex.pending_offsets();
        push(out, format_args!("{key}:\t{}\t{}; ", queued.message.name(), offsets.len()));
        let offsets: Vec<String> = offsets.iter().map(u32::to_string).collect();
        out.extend_from_slice(offsets.join(",").as_bytes());
        out.extend_from_slice(b"\t#");
        if let Some(text) = queued.text().filter(|text| !text.is_empty()) {
            out.extend_from_slice(text);
            out.push(b' ');
        }
        write_notes(scheduler, now, queued, out);
        out.push(b'\n');
    }

    fn end_vertices(&mut self) {
        self.stage = Stage::KeyLists(KeyLists::new(std::mem::take(&mut self.shown)));
    }
}

/// The lines that list the vertices of each channel, then of each host.
struct KeyLists {
    following: Vec<u32>,
    destinations: Vec<(Destination, Keys)>,
    /// The lists still to come, the present one first; it has begun if `next` is set.
    sections: &'static [Section],
    /// Index of the next destination, and the key to continue from; 0 is its first key.
    next: Option<(usize, u32)>,
}

struct Section {
    title: &'static str,
    name: fn(&Destination) -> &[u8],
}

static SECTIONS: [Section; 2] = [
    Section { title: "Channels:\n", name: Destination::channel },
    Section { title: "Hosts:\n", name: Destination::host },
];

/// Maximum number of keys written per step.
const MAX_KEYS_PER_STEP: usize = 1000;

impl KeyLists {
    fn new(shown: ShownKeys) -> KeyLists {
        let ShownKeys { following, destinations } = shown;
        let sections = if destinations.is_empty() { &[] } else { &SECTIONS[..] };
        let destinations = destinations.into_iter().collect();
        KeyLists { following, destinations, sections, next: None }
    }

    /// Writes the next part. Returns true if there is more to write.
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let Some((Section { title, name }, later)) = self.sections.split_first() else {
            return false;
        };
        match self.next {
            None => {
                out.extend_from_slice(title.as_bytes());
                self.destinations.sort_by(|(a, _), (b, _)| name(a).cmp(name(b)));
                self.next = Some((0, 0));
            }
            Some((index, from)) => {
                self.next = self.write_keys(index, from, *name, out);
                if self.next.is_none() {
                    self.sections = later;
                }
            }
        }
        true
    }

    /// Writes keys of one destination. Returns where to continue, or `None` after the last one.
    ///
    /// Destinations with the same name share a line. They are adjacent, because the list is sorted
    /// by that name.
    fn write_keys(
        &self,
        index: usize,
        from: u32,
        name: fn(&Destination) -> &[u8],
        out: &mut Vec<u8>,
    ) -> Option<(usize, u32)> {
        let (destination, keys) = self.destinations.get(index)?;
        let is_same = |neighbour: Option<usize>| {
            let neighbour = neighbour.and_then(|index| self.destinations.get(index));
            neighbour.is_some_and(|(neighbour, _)| name(neighbour) == name(destination))
        };
        if from == 0 && !is_same(index.checked_sub(1)) {
            out.extend_from_slice(name(destination));
            out.extend_from_slice(b":\t");
        }
        let mut key = if from == 0 { keys.first } else { from };
        for _ in 0..MAX_KEYS_PER_STEP {
            push(out, format_args!(">{key}"));
            key = self.following[key as usize - 1];
            if key == 0 {
                break;
            }
        }
        if key > 0 {
            return Some((index, key));
        }
        if !is_same(index.checked_add(1)) {
            out.push(b'\n');
        }
        Some((index + 1, 0))
    }
}

/// Text for a vertex that waits for no time.
///
/// It waits for a request, or for the next turn of the scheduler.
const INACTIVE: &[u8] = b"activation pending, thread inactive";

fn write_notes(
    scheduler: &Scheduler,
    now: Timestamp,
    queued: &QueuedVertex<'_>,
    out: &mut Vec<u8>,
) {
    out.push(b'(');
    let reason = scheduler.view().reason_of(queued.id);
    let newest = scheduler.view().agents_of(queued.thread).next();
    match (words_of_wait(reason, now), newest, limit_of(reason)) {
        (Some(words), ..) => out.extend_from_slice(words.as_bytes()),
        _ if reason == Reason::Request => out.extend_from_slice(INACTIVE),
        (_, Some(agent), _) => {
            let pid = agent.pid.unwrap_or_default();
            let is_next = queued.thread.due.first() == Some(queued.id);
            let next = if is_next { " NextFeed" } else { "" };
            push(out, format_args!("running now, pid={pid}{next}"));
        }
        (.., Some(LimitKind::General)) => out.extend_from_slice(b"waiting for slot"),
        (.., Some(LimitKind::Channel)) => out.extend_from_slice(b"waiting for channel slot"),
        (.., Some(LimitKind::Ring)) => out.extend_from_slice(b"waiting for thread slot"),
        (None, None, None) => out.extend_from_slice(INACTIVE),
    }
    if let Some(expiry) = queued.expiry() {
        let (left, tries) = (ShortDuration(expiry.seconds_since(now)), queued.vertex.reports);
        push(out, format_args!(", expires in {left}, tries={tries}"));
    }
    out.push(b')');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_grouped_by_channel_and_host_in_order() {
        let mut shown = ShownKeys::default();
        let destinations = [(b"smtp", b"b"), (b"hold", b"a"), (b"smtp", b"a")];
        let all = destinations.map(|(channel, host)| Destination::new(channel, host));
        let count = MAX_KEYS_PER_STEP as u32 * 7;
        for key in 1..=count {
            assert_eq!(shown.add(&all[key as usize % 3]), key);
        }
        let mut lists = KeyLists::new(shown);
        let mut out = Vec::new();
        while lists.write(&mut out) {}
        let keys = |wanted: &dyn Fn(u32) -> bool| {
            (1..=count).filter(|key| wanted(*key)).map(|key| format!(">{key}")).collect::<String>()
        };
        let of = |index: u32| keys(&|key| key % 3 == index);
        // Keys of one destination follow those of another.
        let expected = format!(
            "Channels:\nhold:\t{}\nsmtp:\t{}{}\nHosts:\na:\t{}{}\nb:\t{}\n",
            of(1),
            of(2),
            of(0),
            of(1),
            of(2),
            of(0)
        );
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
