//! `SHOW JSON COUNTERS`: totals since the start, and disk usage.

use super::{line, seconds};
use crate::v2::answer::{DiskSpace, Findings, HostFacts, Inquiry, Reply, Step, Surroundings, Text};
use crate::v2::tally::Tally;
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
    mailq: &'t Tally,
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
pub fn answer(_rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    Reply::Text(Box::new(CountersText { host: None }))
}

struct CountersText {
    host: Option<HostFacts>,
}

impl Text for CountersText {
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        let Some(host) = &self.host else {
            return Step::Needs(Inquiry::Host);
        };
        let [queue, transport, log] = host.disks.each_ref();
        let known = |space: &'_ DiskSpace| *space != DiskSpace::default();
        let counters = Counters {
            time: seconds(around.now),
            started: seconds(around.process.started),
            pid: around.process.pid,
            totals: &around.scheduler.totals().counters,
            mailq: around.tally,
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

    fn learn(&mut self, findings: Findings) {
        self.host = match findings {
            Findings::Host(host) => Some(host),
            Findings::ErrorAddresses(_) | Findings::Fitting(_) => Some(HostFacts::default()),
        };
    }
}
