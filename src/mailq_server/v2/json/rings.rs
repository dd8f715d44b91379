//! `SHOW JSON RINGS`: one object per ring.

use super::{MAX_THREADS_PER_TURN, line, pair, text};
use crate::v2::answer::{LookupResult, Reply, SessionContext, Step, Text};
use std::vec;
use zsched_core::thread_survey::RingRow;
use zsched_core::view::RingId;
use zsched_mailq_protocol::schema::RingStatus;

/// Maximum number of threads counted per step.
const MAX_THREADS_PER_STEP: usize = 1000;

fn status(row: &RingRow<'_>, messages: usize) -> RingStatus {
    let clause = row.clause;
    RingStatus {
        pattern: pair(&clause.channel_pattern, &clause.host_pattern),
        channel: Some(text(row.channel)),
        host: row.host.map(text),
        line: Some(clause.location.to_string()),
        threads: row.threads as u64,
        messages: messages as u64,
        agents: row.agents as u64,
        idle: row.idle as u64,
        maxring: Some(row.max_ring as u64),
        maxthr: Some(u64::from(clause.max_thread)),
        overfeed: Some(u64::from(clause.overfeed)),
        command: clause.command.as_ref().map(ToString::to_string),
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
                    line(out, &status(&row, current.messages));
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
