//! `SHOW JSON RINGS`: one object per ring.

use super::{MAX_THREADS_PER_TURN, line, pair, text};
use crate::v2::answer::{LookupResult, Reply, SessionContext, Step, Text};
use serde::Serialize;
use std::vec;
use zsched_core::survey::RingRow;
use zsched_core::view::RingId;

/// Maximum number of threads counted per step.
const MAX_THREADS_PER_STEP: usize = 1000;

/// A ring: the threads of one channel that one clause serves.
#[derive(Serialize)]
pub struct RingJson {
    /// The pattern of the clause, `channel/host`.
    pattern: String,
    channel: String,
    /// The host, if the clause's command names it.
    host: Option<String>,
    /// File and line of the clause.
    line: String,
    threads: usize,
    messages: usize,
    /// All agents, including idle ones.
    agents: usize,
    idle: usize,
    maxring: usize,
    maxthr: u32,
    overfeed: u32,
    command: Option<String>,
}

impl RingJson {
    fn new(row: &RingRow<'_>, messages: usize) -> RingJson {
        let clause = row.clause;
        RingJson {
            pattern: pair(&clause.channel_pattern, &clause.host_pattern),
            channel: text(row.channel),
            host: row.host.map(text),
            line: clause.place.to_string(),
            threads: row.threads,
            messages,
            agents: row.agents,
            idle: row.idle,
            maxring: row.max_ring,
            maxthr: clause.max_thread,
            overfeed: clause.overfeed,
            command: clause.command.as_ref().map(ToString::to_string),
        }
    }
}

/// Answers the request.
pub fn answer(_rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    let rings = context.scheduler.ring_ids().into_iter();
    Reply::Text(Box::new(RingsText { rings, current: None, counted: 0 }))
}

struct RingsText {
    rings: vec::IntoIter<RingId>,
    current: Option<Current>,
    /// Threads counted in this turn.
    counted: usize,
}

/// A ring whose messages are being counted.
struct Current {
    ring: RingId,
    threads: usize,
    messages: usize,
}

impl Text for RingsText {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let Some(current) = &mut self.current else {
            let next = self.rings.next();
            self.current = next.map(|ring| Current { ring, threads: 0, messages: 0 });
            return if self.current.is_none() { Step::Over } else { Step::More };
        };
        let (scheduler, ring) = (context.scheduler, current.ring);
        match scheduler.vertices_in_ring(ring, current.threads, MAX_THREADS_PER_STEP) {
            Some((threads, messages)) => {
                current.threads += threads;
                current.messages += messages;
                self.counted += threads;
            }
            None => {
                if let Some(row) = scheduler.ring_row(ring) {
                    line(out, &RingJson::new(&row, current.messages));
                }
                self.current = None;
            }
        }
        match self.counted < MAX_THREADS_PER_TURN {
            true => Step::More,
            false => {
                self.counted = 0;
                Step::Pause
            }
        }
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}
}
