//! The rank of a message among the jobs of its ring, as clauses of a sentence.

use zsched_core::rank::{Current, JobRank, MAX_COUNTED_JOBS};
use zsched_format::priority::DEFAULT_PRIORITY;
use zsched_spool::SpoolId;

/// Returns the clauses to append to the sentence about a due vertex.
pub(super) fn clauses(rank: &JobRank) -> String {
    let JobRank { id, keyword, line, job, .. } = rank;
    let mut sentence = match &job.current {
        Some(current) if current.message == *id => {
            format!("; its message is the current one ({keyword}, {line})")
        }
        current => {
            let before = before(job.before);
            let current = current.as_ref().map_or(String::new(), |current| turn(current, *id));
            format!("; {before} ({keyword}, {line}){current}")
        }
    };
    let mut add = |text: String| sentence.push_str(&format!("; {text}"));
    match &job.has_preempted {
        Some(Some(other)) => add(format!("it has preempted {other}")),
        Some(None) => add("it has preempted a message that is finished".to_string()),
        None => {}
    }
    match job.preempted_by {
        0 => {}
        1 => add("it was preempted once".to_string()),
        times => add(format!("it was preempted {times} times")),
    }
    if job.is_blocked {
        add("none of its destinations may get an agent now".to_string());
    }
    if rank.priority != DEFAULT_PRIORITY {
        add(format!("its priority is {}", rank.priority));
    }
    sentence
}

fn before(count: usize) -> String {
    match count {
        0 => "no message is before it".to_string(),
        1 => "1 message is before it".to_string(),
        count if count > MAX_COUNTED_JOBS => {
            format!("more than {MAX_COUNTED_JOBS} messages are before it")
        }
        count => format!("{count} messages are before it"),
    }
}

/// Names the current message, and the slots that `other` needs to preempt it.
fn turn(current: &Current<SpoolId>, other: SpoolId) -> String {
    let Current { message, due, slots, .. } = current;
    let mut sentence = format!("; the current message is {message}, with {due} due");
    if let (Some(slots), Some(needed)) = (slots, current.needed) {
        let (earned, needed) = (shown(*slots), shown(needed));
        sentence.push_str(&format!(
            "; it has earned {earned} slots: with {needed} this one may preempt it"
        ));
    }
    if let Some(candidate) = current.candidate.filter(|candidate| *candidate != other) {
        sentence.push_str(&format!("; {candidate} is to preempt it next"));
    }
    sentence
}

/// Formats a number of slots, with one decimal place if needed.
fn shown(slots: f64) -> String {
    let rounded = (slots * 10.0).round() / 10.0;
    format!("{rounded}")
}
