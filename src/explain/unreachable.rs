//! Why a destination is known to be unreachable, and which report says so.

use super::{clock, one_line};
use zsched_core::unreachable::{Unreachable, UnreachableReason, UnreachableReport};
use zsched_format::time::Timestamp;

/// Returns the text that follows "is known to be unreachable: ".
pub(super) fn clause(known: &Unreachable, now: Timestamp) -> String {
    let cause = known.cause.as_deref();
    let agent = cause.map_or(String::new(), agent);
    let how = match known.reason {
        UnreachableReason::HostDown => {
            format!("all of its mail was deferred at once (deferall){agent}")
        }
        UnreachableReason::RetryAt => {
            format!("the time of its next try was named (retryat){agent}")
        }
        UnreachableReason::AgentsDie => match cause.and_then(|cause| cause.pid) {
            Some(pid) => format!("its agents die, the last one, process {pid},"),
            None => "its agents die, the last one".to_string(),
        },
        UnreachableReason::Dead => {
            format!("too many deliveries failed (failed-cohort-limit), the last one{agent}")
        }
        UnreachableReason::HostBlamed => {
            format!("a status code that blames the host, reported{agent}")
        }
        UnreachableReason::AllDeferred => {
            format!(
                "its last jobs, of three messages or more, were all deferred without a status code that says whose fault it is, the last one{agent}"
            )
        }
    };
    let Some(cause) = cause else {
        return how;
    };
    let text = cause.diagnosis.as_ref().map_or(String::new(), |said| one_line(&said.message));
    let text = if text.is_empty() { text } else { format!(": {text}") };
    format!("{how} at {}{text}", clock(cause.at, now))
}

fn agent(cause: &UnreachableReport) -> String {
    let by = cause.pid.map_or(String::new(), |pid| format!(" by agent {pid}"));
    let about = cause.id.map_or(String::new(), |id| format!(" for {id}"));
    format!("{by}{about}")
}
