//! `SHOW COUNTERS`: counters and gauges, one per line.
//!
//! All counters of ZMailer are there, in its order, as monitoring programs find them by their
//! labels. Most count other programs, which use a shared memory segment: smtpserver, router and
//! agents of ZMailer. These are 0. Values are right-justified in a column that monitoring programs
//! cut out.
//!
//! ```text
//! ZMailer SHM segment dump; Magic=0x00000000
//! Time_now                        1795255954
//! SYS.Load-Avg-1-min-G                  0.44
//! ```

use super::task::{
    Answer, HostFacts, Lookup, LookupResult, Reply, ReplyResult, SessionContext, Step, Task,
};
use crate::queue_report::push;
use serde::Serialize;
use zsched_core::view::Totals;
use zsched_format::time::Timestamp;

/// The first line.
///
/// ZMailer prints the same numbers if there is no shared memory.
const TITLE: &str = "ZMailer SHM segment dump; Magic=0x00000000\n";

/// The labels of ZMailer's counters, and the empty lines between them.
const LABELS: &str = include_str!("counters.txt");

/// The present value of a counter.
type Value = fn(&Facts<'_>) -> u64;

/// The counters that this scheduler has, except the load averages.
const VALUES: &[(&str, Value)] = &[
    ("Time_now", |f| f.now),
    ("SYS.SchedulerMasterPID", |f| u64::from(f.host.pid)),
    ("SYS.SchedulerMasterStartTime", |f| f.started),
    ("SYS.SchedulerMasterStarts", |_| 1),
    ("SYS.SpoolFreeSpace-kB-G", |f| f.host.disks[0].free_kb),
    ("SYS.SpoolUsedSpace-kB-G", |f| f.host.disks[0].used_kb),
    ("SYS.SpoolFreeFiles-G", |f| f.host.disks[0].free_files),
    ("SYS.SpoolUsedFiles-G", |f| f.host.disks[0].used_files),
    ("SYS.TportSpoolFreeSpace-kB-G", |f| f.host.disks[1].free_kb),
    ("SYS.TportSpoolUsedSpace-kB-G", |f| f.host.disks[1].used_kb),
    ("SYS.TportSpoolFreeFiles-G", |f| f.host.disks[1].free_files),
    ("SYS.TportSpoolUsedFiles-G", |f| f.host.disks[1].used_files),
    ("SYS.LogFreeSpace-kB-G", |f| f.host.disks[2].free_kb),
    ("SYS.LogUsedSpace-kB-G", |f| f.host.disks[2].used_kb),
    ("SYS.LogFreeFiles-G", |f| f.host.disks[2].free_files),
    ("SYS.LogUsedFiles-G", |f| f.host.disks[2].used_files),
    ("SC.ReceivedMessages", |f| f.totals.counters.messages_in),
    ("SC.ReceivedRecipients", |f| f.totals.counters.recipients_in),
    ("SC.TransmittedMessages", |f| f.totals.counters.messages_out),
    ("SC.TransmittedRecipients", |f| f.totals.counters.recipients_out),
    ("SC.StoredMessages-G", |f| f.totals.messages as u64),
    ("SC.StoredThreads-G", |f| f.totals.threads as u64),
    ("SC.StoredVertices-G", |f| f.totals.vertices as u64),
    ("SC.StoredRecipients-G", |f| f.totals.recipients),
    ("SC.TransportAgentForks", |f| f.totals.counters.agents_started),
    ("SC.TransportAgentProcesses-G", |f| f.totals.agents as u64),
    ("SC.TransportAgentsActive-G", |f| (f.totals.agents - f.totals.idle) as u64),
    ("SC.TransportAgentsIdle-G", |f| f.totals.idle as u64),
    ("SC.MQ2Parallel-G", |f| f.requests.parallel),
    ("SC.MQ2Connects", |f| f.requests.connects),
    ("SC.MQ2AuthRej", |f| f.requests.refused_logins),
    ("SC.MQ2TimedOut", |f| f.requests.timed_out),
    ("SC.MQ2ReadEOF", |f| f.requests.ended),
    ("SC.MQ2ReadFails", |f| f.requests.read_errors),
    ("SC.MQ2WriteFails", |f| f.requests.write_errors),
    ("SC.MQ2Commands", |f| f.requests.requests),
    ("SC.MQ2CommandsRej", |f| f.requests.refused),
    ("SC.MQ2CommandAUTH", |f| f.requests.auth),
    ("SC.MQ2CommandQUIT", |f| f.requests.quit),
    ("SC.MQ2CommandETRN", |f| f.requests.etrn),
    ("SC.MQ2CommandKillThr", |f| f.requests.kill_thread),
    ("SC.MQ2CommandKillMsg", |f| f.requests.kill_message),
    ("SC.MQ2CommandShowQueueThreads", |f| f.requests.show_threads),
    ("SC.MQ2CommandShowQueueThreads2", |f| f.requests.show_threads2),
    ("SC.MQ2CommandShowQueueShort", |f| f.requests.show_short),
    ("SC.MQ2CommandShowQueueVeryShort", |f| f.requests.show_snmp),
    ("SC.MQ2CommandShowThread", |f| f.requests.show_thread),
    ("SC.MQ2CommandShowCounters", |f| f.requests.show_counters),
];

/// The values that rows are computed from.
struct Facts<'f> {
    /// Seconds since the epoch.
    now: u64,
    /// When the scheduler was started, in seconds since the epoch.
    started: u64,
    totals: Totals,
    requests: &'f RequestCounters,
    host: &'f HostFacts,
}

/// A text about the host, written at once when the state of the host is known.
pub(super) struct HostText {
    host: Option<HostFacts>,
    write: fn(&HostFacts, &mut SessionContext<'_>, &mut Vec<u8>),
}

impl HostText {
    /// Creates a text that this function writes.
    pub(super) fn new(write: fn(&HostFacts, &mut SessionContext<'_>, &mut Vec<u8>)) -> HostText {
        HostText { host: None, write }
    }
}

impl Task for HostText {
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let Some(host) = &self.host else {
            return Step::Lookup(Lookup::Host);
        };
        (self.write)(host, context, out);
        Step::Done
    }

    fn take_answer(&mut self, answer: Answer) {
        self.host = match answer {
            Answer::Lookup(LookupResult::Host(host)) => Some(host),
            _ => Some(HostFacts::default()),
        };
    }
}

/// Answers the request.
pub(super) fn answer() -> ReplyResult {
    Ok(Reply::text(HostText::new(write)))
}

fn write(host: &HostFacts, context: &mut SessionContext<'_>, out: &mut Vec<u8>) {
    let seconds = |time: Timestamp| time.seconds().max(0).unsigned_abs();
    let facts = Facts {
        now: seconds(context.now),
        started: seconds(context.process.started),
        totals: context.scheduler.view().totals(),
        requests: context.request_counters,
        host,
    };
    out.extend_from_slice(TITLE.as_bytes());
    LABELS.lines().for_each(|label| write_row(label, &facts, out));
}

/// Writes the row of a label; an empty label is an empty line.
///
/// Load averages are omitted if they are unknown.
fn write_row(label: &str, facts: &Facts<'_>, out: &mut Vec<u8>) {
    let load = match label {
        "" => return out.push(b'\n'),
        "SYS.Load-Avg-1-min-G" => Some(facts.host.load.map(|load| load.0)),
        "SYS.Load-Avg-5-min-G" => Some(facts.host.load.map(|load| load.1)),
        _ => None,
    };
    match load {
        Some(Some(load)) => push(out, format_args!("{label:<36}{load:>6.2}\n")),
        Some(None) => {}
        None => {
            let value = VALUES.iter().find(|(name, _)| *name == label);
            write_number(label, value.map_or(0, |(_, value)| value(facts)), out);
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

/// Counts since the start, except `parallel`, which is a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounters {
    /// Sessions open now.
    pub parallel: u64,
    /// Accepted connections, including those that were then refused.
    pub connects: u64,
    /// Clients that may not log in from their address, and failed logins.
    pub refused_logins: u64,
    /// Sessions that timed out.
    pub timed_out: u64,
    /// Sessions that the client closed without QUIT.
    pub ended: u64,
    /// Read errors.
    pub read_errors: u64,
    /// Write errors.
    pub write_errors: u64,
    /// Request lines.
    pub requests: u64,
    /// Requests that were unknown or not permitted.
    pub refused: u64,
    /// Login attempts: AUTH and AUTH2.
    pub auth: u64,
    /// QUIT and EXIT.
    pub quit: u64,
    /// ETRN, permitted or not.
    pub etrn: u64,
    /// KILL THREAD.
    pub kill_thread: u64,
    /// KILL MSG.
    pub kill_message: u64,
    /// SHOW QUEUE THREADS.
    pub show_threads: u64,
    /// SHOW QUEUE THREADS2.
    pub show_threads2: u64,
    /// SHOW QUEUE SHORT.
    pub show_short: u64,
    /// SHOW SNMP.
    pub show_snmp: u64,
    /// SHOW THREAD.
    pub show_thread: u64,
    /// SHOW COUNTERS.
    pub show_counters: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_one_label() {
        for (label, _) in VALUES {
            assert_eq!(LABELS.lines().filter(|line| line == label).count(), 1, "{label}");
        }
    }
}
