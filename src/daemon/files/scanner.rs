//! Worker that lists folders.

use super::{Done, Results};
use std::sync::mpsc::Receiver;
use zsched_spool::Spool;
use zsched_spool::scan::{ScanLimits, scan};

/// Carries out scan requests. After each portion of names it receives how many were new.
pub fn run(
    spool: &Spool,
    requests: &Receiver<ScanLimits>,
    new_names: &Receiver<usize>,
    put: &Results,
) {
    for limits in requests {
        let end = scan(spool, limits, |names| {
            if put.put(vec![Done::Names(names)]) { new_names.recv().ok() } else { None }
        });
        if !put.put(vec![Done::ScanEnded(end)]) {
            return;
        }
    }
}
