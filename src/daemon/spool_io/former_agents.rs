//! Worker that follows the agents of an earlier scheduler.
//!
//! Such agents report to no scheduler. Their results show only in control files. The worker sends
//! the names of changed files to the loop, which has them read again. It ends with the last of
//! these agents; usually it is never started.

use super::{Completion, CompletionSender};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};
use zsched_format::time::Timestamp;
use zsched_spool::processes::Process;
use zsched_spool::scan::scan;
use zsched_spool::{Spool, SpoolName};

/// Time between two scans of the spool.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum pause after a scan, in units of the time that the scan took.
const MIN_PAUSE_FACTOR: u32 = 19;
/// Maximum granularity of file times.
const FILE_TIME_GRANULARITY: Duration = Duration::from_secs(1);

/// Follows agents of an earlier scheduler to their end.
pub(super) fn run(spool: &Spool, mut agents: Vec<u32>, completions: &CompletionSender) {
    log::info!("agents of an earlier scheduler are still running: processes {agents:?}");
    let mut since = Timestamp::now();
    while !agents.is_empty() {
        let before = agents.len();
        agents.retain(|pid| Process::alive(*pid).is_some_and(|agent| agent.works_in_our_folder()));
        let (began, started) = (Timestamp::now(), Instant::now());
        let names = changed(spool, since - FILE_TIME_GRANULARITY);
        since = began;
        let an_agent_ended = agents.len() < before;
        if !names.is_empty() || an_agent_ended {
            completions.send(vec![Completion::FormerAgentsChanged { names, an_agent_ended }]);
        }
        if !agents.is_empty() {
            thread::sleep(SCAN_INTERVAL.max(started.elapsed() * MIN_PAUSE_FACTOR));
        }
    }
    log::info!("all agents of an earlier scheduler have ended");
}

/// Messages whose control files have changed since a time.
fn changed(spool: &Spool, since: Timestamp) -> Vec<SpoolName> {
    let mut all = Vec::new();
    let has_changed = |name: &SpoolName| {
        fs::symlink_metadata(spool.control_file(name))
            .is_ok_and(|found| Timestamp::changed(&found) >= since)
    };
    // The scanner reports folders that cannot be listed.
    scan(spool, |names| {
        all.extend(names.into_iter().filter(has_changed));
        true
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_spool::HashFolder;

    #[test]
    fn changed_control_files_are_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let name = |number: &str| SpoolName::new(HashFolder::TOP, number.as_bytes()).expect("name");
        fs::write(spool.control_file(&name("7")), "").expect("written");
        let created = fs::metadata(spool.control_file(&name("7"))).expect("there");
        let created = Timestamp::changed(&created);
        assert_eq!(changed(&spool, created), [name("7")]);
        assert_eq!(changed(&spool, created + Duration::from_nanos(1)), []);
    }
}
