//! Worker that lists folders.

use super::{Completion, CompletionSender};
use std::sync::mpsc::Receiver;
use zsched_spool::Spool;
use zsched_spool::scan::{ScanLimits, scan};

/// Carries out scan requests. After each portion of names it receives how many were new.
pub(super) fn run(
    spool: &Spool,
    requests: &Receiver<ScanLimits>,
    new_names: &Receiver<usize>,
    completions: &CompletionSender,
) {
    for limits in requests {
        let end = scan(spool, limits, |names| {
            if completions.send(vec![Completion::Names(names)]) {
                new_names.recv().ok()
            } else {
                None
            }
        });
        if !completions.send(vec![Completion::ScanEnded(end)]) {
            return;
        }
    }
}
