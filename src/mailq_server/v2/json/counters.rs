//! `SHOW JSON COUNTERS`: totals since the start, and disk usage.

use super::{line, seconds};
use crate::v2::answer::{
    DiskSpace, HostFacts, Lookup, LookupResult, Reply, SessionContext, Step, Text,
};
use crate::v2::request_counters::RequestCounters;
use serde::Serialize;
use zsched_core::Counters as Totals;

/// Totals since the start, except those called levels.
#[derive(Serialize)]
struct Counters<'t> {
    time: f64,
    started: f64,
    pid: u32,
    #[serde(flatten)]
    totals: &'t Totals,
    /// MAILQ requests and their results.
    mailq: &'t RequestCounters,
    /// Levels: load averages over one and over five minutes.
    load: Option<(f64, f64)>,
    disks: Disks<'t>,
}

/// Usage of file systems; `null` if the folder or file does not exist.
#[derive(Serialize)]
struct Disks<'t> {
    /// The file system of message files.
    queue: Option<&'t DiskSpace>,
    /// The file system of control files.
    transport: Option<&'t DiskSpace>,
    log: Option<&'t DiskSpace>,
}

/// Answers the request.
pub fn answer(_rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    Reply::Text(Box::new(CountersText { host: None }))
}

struct CountersText {
    host: Option<HostFacts>,
}

impl Text for CountersText {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let Some(host) = &self.host else {
            return Step::Needs(Lookup::Host);
        };
        let [queue, transport, log] = host.disks.each_ref();
        let known = |space: &'_ DiskSpace| *space != DiskSpace::default();
        let counters = Counters {
            time: seconds(context.now),
            started: seconds(context.process.started),
            pid: context.process.pid,
            totals: &context.scheduler.totals().counters,
            mailq: context.request_counters,
            load: host.load,
            disks: Disks {
                queue: Some(queue).filter(|space| known(space)),
                transport: Some(transport).filter(|space| known(space)),
                log: Some(log).filter(|space| known(space)),
            },
        };
        line(out, &counters);
        Step::Over
    }

    fn lookup_done(&mut self, result: LookupResult) {
        self.host = match result {
            LookupResult::Host(host) => Some(host),
            LookupResult::ErrorAddresses(_) | LookupResult::MatchAddresses(_) => {
                Some(HostFacts::default())
            }
        };
    }
}
