//! MAILQ version 1: a dump of the queue to whoever connects.
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
//! <thread report>
//! ```
//!
//! It is written some at a time, as the client takes it, so that neither a large queue nor a slow
//! client holds anything up or costs much memory: a cursor goes through the messages in the order of
//! their numbers, and remembers four bytes for each vertex it has shown.

use super::report::{ThreadReport, push};
use crate::scheduler::view::{Slot, Standing, VertexView};
use crate::scheduler::{Destination, Scheduler};
use crate::time::{ShortDuration, Timestamp};
use std::collections::BTreeMap;

/// The first line.
pub const GREETING: &str = "version zmailer 1.0\n";

/// A dump that is being written.
pub struct Dump {
    started: Timestamp,
    stage: Stage,
    /// Whether single vertices are shown (server option `-Q`).
    with_vertices: bool,
    next_number: u64,
    next_key: u32,
    /// The keys of the vertices that were shown, by destination.
    shown: BTreeMap<Destination, Vec<u32>>,
    report: ThreadReport,
}

enum Stage {
    Greeting,
    Vertices,
    Webs,
    Report,
    Over,
}

/// Which part of a destination a web line is about.
type Part = fn(&Destination) -> &[u8];

impl Dump {
    /// A dump from the beginning, by a scheduler that was `started` at the given time.
    pub fn new(started: Timestamp, with_vertices: bool) -> Dump {
        Dump {
            started,
            stage: Stage::Greeting,
            with_vertices,
            next_number: 0,
            next_key: 1,
            shown: BTreeMap::new(),
            report: ThreadReport::new(),
        }
    }

    /// Whether everything has been written.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Writes on until `out` has `enough` bytes, or everything is written.
    pub fn write(
        &mut self,
        scheduler: &Scheduler,
        now: Timestamp,
        out: &mut Vec<u8>,
        enough: usize,
    ) {
        while out.len() < enough && !self.is_over() {
            self.step(scheduler, now, out);
        }
    }

    fn step(&mut self, scheduler: &Scheduler, now: Timestamp, out: &mut Vec<u8>) {
        match self.stage {
            Stage::Greeting => {
                out.extend_from_slice(GREETING.as_bytes());
                out.extend_from_slice(b"Vertices:\n");
                self.stage = if self.with_vertices { Stage::Vertices } else { Stage::Webs };
            }
            Stage::Vertices => match scheduler.message_at_or_after(now, self.next_number) {
                Some((number, vertices)) => {
                    vertices.iter().for_each(|vertex| self.write_vertex(vertex, out));
                    match number.checked_add(1) {
                        Some(next) => self.next_number = next,
                        None => self.stage = Stage::Webs,
                    }
                }
                None => self.stage = Stage::Webs,
            },
            Stage::Webs => {
                if !self.shown.is_empty() {
                    self.write_webs("Channels:\n", Destination::channel, out);
                    self.write_webs("Hosts:\n", Destination::host, out);
                }
                out.extend_from_slice(b"End:\n");
                self.stage = Stage::Report;
            }
            Stage::Report => {
                if self.report.write(scheduler, now, self.started, out) {
                    self.stage = Stage::Over;
                }
            }
            Stage::Over => {}
        }
    }

    fn write_vertex(&mut self, vertex: &VertexView<'_>, out: &mut Vec<u8>) {
        let key = self.next_key;
        self.next_key += 1;
        self.shown.entry(vertex.destination.clone()).or_default().push(key);
        push(out, format_args!("{key}:\t{}\t{}; ", vertex.name, vertex.offsets.len()));
        let offsets: Vec<String> = vertex.offsets.iter().map(u32::to_string).collect();
        out.extend_from_slice(offsets.join(",").as_bytes());
        out.extend_from_slice(b"\t#");
        if let Some(text) = vertex.text.filter(|text| !text.is_empty()) {
            out.extend_from_slice(text);
            out.push(b' ');
        }
        write_notes(vertex, out);
        out.push(b'\n');
    }

    /// One line for each channel, or each host: the keys of its vertices.
    fn write_webs(&self, title: &str, part: Part, out: &mut Vec<u8>) {
        let mut webs: BTreeMap<&[u8], Vec<u32>> = BTreeMap::new();
        for (destination, keys) in &self.shown {
            webs.entry(part(destination)).or_default().extend_from_slice(keys);
        }
        out.extend_from_slice(title.as_bytes());
        for (name, mut keys) in webs {
            keys.sort_unstable();
            out.extend_from_slice(name);
            out.extend_from_slice(b":\t");
            keys.iter().for_each(|key| push(out, format_args!(">{key}")));
            out.push(b'\n');
        }
    }
}

fn write_notes(vertex: &VertexView<'_>, out: &mut Vec<u8>) {
    out.push(b'(');
    match vertex.standing {
        Standing::Retry(seconds) => {
            push(out, format_args!("retry in {}", ShortDuration(seconds)));
        }
        Standing::Slot(Slot::General) => out.extend_from_slice(b"waiting for slot"),
        Standing::Slot(Slot::Channel) => out.extend_from_slice(b"waiting for channel slot"),
        Standing::Slot(Slot::Ring) => out.extend_from_slice(b"waiting for thread slot"),
        Standing::Running { pid, next } => {
            let next = if next { " NextFeed" } else { "" };
            push(out, format_args!("running now, pid={pid}{next}"));
        }
        Standing::Inactive => out.extend_from_slice(b"activation pending, thread inactive"),
    }
    if let Some(seconds) = vertex.expires_in {
        let (left, tries) = (ShortDuration(seconds), vertex.tries);
        push(out, format_args!(", expires in {left}, tries={tries}"));
    }
    out.push(b')');
}
