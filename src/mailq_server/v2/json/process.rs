//! `SHOW JSON CONFIG`: the configuration on disk, as a reload would find it.
//!
//! `SHOW JSON COUNTERS`: totals since the start, and disk usage.

use super::{duration_seconds, line, seconds};
use crate::v2::counters::{HostText, RequestCounters};
use crate::v2::task::{
    AdminCommand, Answer, DiskSpace, HostFacts, Reply, ReplyResult, SessionContext, Step, Task,
};
use serde::Serialize;
use zsched_core::Counters as Totals;
use zsched_mailq_protocol::schema::ConfigStatus;

/// Answers `SHOW JSON CONFIG`.
pub(crate) fn config() -> ReplyResult {
    Ok(Reply::text(ConfigTask { status: None }))
}

/// Has the file read, and writes what was found.
struct ConfigTask {
    status: Option<ConfigStatus>,
}

impl Task for ConfigTask {
    fn step(&mut self, _context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let Some(status) = &self.status else {
            return Step::Admin(AdminCommand::CheckConfig);
        };
        line(out, status);
        Step::Done
    }

    fn take_answer(&mut self, answer: Answer) {
        let Answer::Admin(found) = answer else { return };
        self.status = Some(match found {
            Ok(change) => {
                ConfigStatus { usable: true, in_force: change.is_empty(), errors: Vec::new() }
            }
            Err(errors) => ConfigStatus {
                usable: false,
                in_force: false,
                errors: errors.split('\t').map(str::to_string).collect(),
            },
        });
    }
}

/// Totals since the start, except those called levels.
#[derive(Serialize)]
struct CountersJson<'t> {
    time: f64,
    started: f64,
    pid: u32,
    /// The longest turn of the event loop so far, in seconds.
    longest_turn: f64,
    #[serde(flatten)]
    totals: &'t Totals,
    /// MAILQ requests and their results.
    mailq: &'t RequestCounters,
    /// Levels: load averages over one and over five minutes.
    load: Option<(f64, f64)>,
    disks: DisksJson<'t>,
}

/// Usage of file systems; `null` if the folder or file does not exist.
#[derive(Serialize)]
struct DisksJson<'t> {
    /// The file system of message files.
    queue: Option<&'t DiskSpace>,
    /// The file system of control files.
    transport: Option<&'t DiskSpace>,
    log: Option<&'t DiskSpace>,
}

/// Answers `SHOW JSON COUNTERS`.
pub(crate) fn counters() -> ReplyResult {
    Ok(Reply::text(HostText::new(write_counters)))
}

fn write_counters(host: &HostFacts, context: &mut SessionContext<'_>, out: &mut Vec<u8>) {
    let [queue, transport, log] =
        host.disks.each_ref().map(|disk| Some(disk).filter(|disk| **disk != DiskSpace::default()));
    let counters = CountersJson {
        time: seconds(context.now),
        started: seconds(context.process.started),
        pid: context.process.pid,
        longest_turn: duration_seconds(context.process.longest_loop_turn),
        totals: &context.scheduler.view().totals().counters,
        mailq: context.request_counters,
        load: host.load,
        disks: DisksJson { queue, transport, log },
    };
    line(out, &counters);
}
