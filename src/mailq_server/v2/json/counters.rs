//! `SHOW JSON COUNTERS`: totals since the start, and disk usage.

use super::{line, seconds};
use crate::v2::counters::HostText;
use crate::v2::request_counters::RequestCounters;
use crate::v2::task::{DiskSpace, HostFacts, Reply, ReplyResult, SessionContext};
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
pub(crate) fn answer() -> ReplyResult {
    Ok(Reply::text(HostText::new(write)))
}

fn write(host: &HostFacts, context: &mut SessionContext<'_>, out: &mut Vec<u8>) {
    let [queue, transport, log] =
        host.disks.each_ref().map(|disk| Some(disk).filter(|disk| **disk != DiskSpace::default()));
    let counters = Counters {
        time: seconds(context.now),
        started: seconds(context.process.started),
        pid: context.process.pid,
        totals: &context.scheduler.view().totals().counters,
        mailq: context.request_counters,
        load: host.load,
        disks: Disks { queue, transport, log },
    };
    line(out, &counters);
}
