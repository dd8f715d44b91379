//! `SHOW COUNTERS`: counters and gauges, one per line.
//!
//! Values are right-justified in a column that monitoring programs cut out.
//!
//! ```text
//! ZMailer SHM segment dump; Magic=0x00000000
//! Time_now                        1795255954
//! SYS.Load-Avg-1-min-G                  0.44
//! ```

mod rows;

use super::answer::{HostFacts, Lookup, LookupResult, Reply, SessionContext, Step, Text};
use super::request_counters::RequestCounters;
use crate::report::push;
use rows::{ROWS, Row};
use zsched_core::view::Totals;

/// The first line.
///
/// ZMailer prints the same numbers if there is no shared memory.
const TITLE: &str = "ZMailer SHM segment dump; Magic=0x00000000\n";

/// The values that rows are computed from.
pub struct Facts<'f> {
    /// Seconds since the epoch.
    now: u64,
    /// When the scheduler was started, in seconds since the epoch.
    started: u64,
    totals: Totals,
    request_counters: &'f RequestCounters,
    host: &'f HostFacts,
}

/// Answers the request.
pub fn answer(_rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    Reply::Text(Box::new(Counters { host: None }))
}

struct Counters {
    host: Option<HostFacts>,
}

impl Text for Counters {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let Some(host) = &self.host else {
            return Step::Needs(Lookup::Host);
        };
        let seconds = |time: zsched_format::time::Timestamp| time.seconds().max(0).unsigned_abs();
        let facts = Facts {
            now: seconds(context.now),
            started: seconds(context.process.started),
            totals: context.scheduler.totals(),
            request_counters: context.request_counters,
            host,
        };
        out.extend_from_slice(TITLE.as_bytes());
        ROWS.iter().for_each(|row| write_row(row, &facts, out));
        Step::Over
    }

    fn lookup_done(&mut self, result: LookupResult) {
        self.host = match result {
            LookupResult::Host(host) => Some(host),
            _ => Some(HostFacts::default()),
        };
    }
}

fn write_row(row: &Row, facts: &Facts<'_>, out: &mut Vec<u8>) {
    match row {
        Row::Gap => out.push(b'\n'),
        Row::Zero(label) => write_number(label, 0, out),
        Row::Number(label, value) => write_number(label, value(facts), out),
        Row::Load(label, value) => {
            if let Some(load) = facts.host.load {
                push(out, format_args!("{label:<36}{:>6.2}\n", value(load)));
            }
        }
    }
}

/// Writes a row.
///
/// The value ends in column 42; a longer one extends beyond it.
fn write_number(label: &str, value: u64, out: &mut Vec<u8>) {
    match label.ends_with("-G") {
        true => push(out, format_args!("{label:<33}{value:>9}\n")),
        false => push(out, format_args!("{label:<32}{value:>10}\n")),
    }
}
