//! `mailq check`: one line and an exit status for monitoring programs.
//!
//! ```text
//! MAILQ WARNING - oldest 2h12m (more than 1h); 312 messages, 401 recipients | messages=312;; ...
//! ```

use super::arguments::Selection;
use super::overview;
use super::source;
use super::views::View;
use super::words::{count, read_span, span};
use crate::console::model::Thread;
use crate::dial::Scheduler;
use crate::failure::Failure;
use clap::Args;
use std::time::Duration;
use zsched_format::time::Timestamp;
use zsched_spool::Spool;
use zsched_spool::orphans::{self, Orphans};

/// Maximum number of destinations that are added up for a selection.
const MOST_THREADS: usize = 1_000_000;

/// Thresholds for warnings.
#[derive(Args, Clone, Debug, Default)]
pub struct Thresholds {
    /// Warn if the oldest message is older than this, such as 1h
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub warn_age: Option<f64>,

    /// It is critical if the oldest message is older than this
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub crit_age: Option<f64>,

    /// Warn if there are more messages than this
    #[arg(long, value_name = "NUMBER")]
    pub warn_count: Option<u64>,

    /// It is critical if there are more messages than this
    #[arg(long, value_name = "NUMBER")]
    pub crit_count: Option<u64>,
}

fn parse_span(text: &str) -> Result<f64, String> {
    read_span(text)
        .filter(|span| *span >= 0.0)
        .ok_or_else(|| "it is no span; 90s, 30m, 2h and 5d are".to_string())
}

/// Result of a check. The numbers are exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No threshold is exceeded.
    Ok = 0,
    /// A warning threshold is exceeded, or there are orphans.
    Warning = 1,
    /// A critical threshold is exceeded, or no scheduler can be reached.
    Critical = 2,
    /// The queue could not be measured.
    Unknown = 3,
}

/// Measured values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measures {
    /// Messages.
    pub messages: u64,
    /// Recipients.
    pub recipients: u64,
    /// Age of the oldest message, in seconds.
    pub oldest: Option<f64>,
    /// Agents; `None` if only part of the queue is measured.
    pub agents: Option<u64>,
    /// Unusual states of the scheduler itself.
    pub remarks: Vec<&'static str>,
    /// Message files without a control file; none if the spool cannot be read.
    pub orphans: Orphans,
}

/// Limits of the search for orphans in `queue/`.
const ORPHAN_LIMITS: orphans::OrphanSearchLimits =
    orphans::OrphanSearchLimits { files: 200_000, time: Duration::from_secs(2) };

/// Finds message files without a control file.
///
/// Returns none if this user may not read the folder.
pub fn find_orphans(spool: &Spool) -> Orphans {
    orphans::find_orphans(spool, ORPHAN_LIMITS, Timestamp::now()).unwrap_or_default()
}

/// Describes orphans, with the names that are known.
fn shown(orphans: &Orphans) -> String {
    let names: Vec<String> = orphans.names.iter().map(ToString::to_string).collect();
    let more = if names.len() < orphans.count { ", ..." } else { "" };
    let at_least = if orphans.is_cut { "at least " } else { "" };
    let files = count(orphans.count as u64, "message file");
    format!("{at_least}{files} without control file in queue/ ({}{more})", names.join(", "))
}

/// Measures the whole queue, or the selected part of it.
pub fn measure(scheduler: &mut Scheduler, selection: &Selection) -> Result<Measures, Failure> {
    if !selection.is_everything() {
        return measure_part(scheduler, selection);
    }
    let summary = match scheduler {
        Scheduler::Session(session) => match source::one(session, View::Summary.request()?) {
            Err(Failure::Denied(_)) => overview::ask(scheduler, 0)?.summary,
            other => other?,
        },
        Scheduler::Dump(_) => overview::ask(scheduler, 0)?.summary,
    };
    let remarks = [
        (summary.loading, "the spool is still being read"),
        (summary.draining, "the scheduler is about to end"),
        (summary.frozen, "no agents are started"),
    ];
    Ok(Measures {
        messages: summary.messages,
        recipients: summary.recipients,
        oldest: summary.oldest,
        agents: Some(summary.agents),
        remarks: remarks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect(),
        orphans: Orphans::default(),
    })
}

fn measure_part(scheduler: &mut Scheduler, selection: &Selection) -> Result<Measures, Failure> {
    let request = View::Threads(selection.clone(), Default::default(), MOST_THREADS).request()?;
    let mut measures = Measures::default();
    source::each(super::views::requests(scheduler)?, request, |thread: Thread| {
        measures.messages += thread.messages;
        measures.recipients += thread.recipients;
        measures.oldest =
            [measures.oldest, thread.oldest].into_iter().flatten().max_by(f64::total_cmp);
        Ok(())
    })?;
    Ok(measures)
}

impl Thresholds {
    /// Compares the measures with the thresholds.
    ///
    /// Returns the state and the output line.
    pub fn judge(&self, measures: &Measures) -> (State, String) {
        let mut state = State::Ok;
        let mut troubles = Vec::new();
        if let Some(age) = measures.oldest {
            let (verdict, most) = exceeded(age, self.warn_age, self.crit_age);
            if let Some(most) = most {
                troubles.push(format!("oldest {} (more than {})", span(age), span(most)));
            }
            state = state.max(verdict);
        }
        let limit = |limit: Option<u64>| limit.map(|limit| limit as f64);
        let messages = measures.messages as f64;
        let (verdict, most) = exceeded(messages, limit(self.warn_count), limit(self.crit_count));
        if let Some(most) = most {
            troubles.push(format!("more than {most} messages"));
        }
        state = state.max(verdict);
        if measures.orphans.count > 0 {
            troubles.push(shown(&measures.orphans));
            state = state.max(State::Warning);
        }
        let mut line = format!("MAILQ {} - ", state.word());
        if !troubles.is_empty() {
            line.push_str(&format!("{}; ", troubles.join(", ")));
        }
        line.push_str(&format!(
            "{}, {}",
            count(measures.messages, "message"),
            count(measures.recipients, "recipient")
        ));
        if let Some(age) = measures.oldest.filter(|_| measures.messages > 0) {
            line.push_str(&format!(", oldest {}", span(age)));
        }
        for remark in &measures.remarks {
            line.push_str(&format!(", {remark}"));
        }
        (state, format!("{line} | {}", self.performance(measures)))
    }

    /// Performance data: `label=value;warn;crit;min`.
    fn performance(&self, measures: &Measures) -> String {
        let show = |limit: Option<f64>| limit.map_or(String::new(), |limit| limit.to_string());
        let counts = (self.warn_count.map(|n| n as f64), self.crit_count.map(|n| n as f64));
        let mut data = vec![
            format!("messages={};{};{};0", measures.messages, show(counts.0), show(counts.1)),
            format!("recipients={};;;0", measures.recipients),
            format!(
                "oldest={}s;{};{};0",
                measures.oldest.unwrap_or(0.0).round(),
                show(self.warn_age),
                show(self.crit_age)
            ),
        ];
        data.extend(measures.agents.map(|agents| format!("agents={agents};;;0")));
        data.join(" ")
    }
}

/// Compares a value with two limits.
///
/// Returns the state and the limit that is exceeded.
fn exceeded(value: f64, warning: Option<f64>, critical: Option<f64>) -> (State, Option<f64>) {
    match (critical.filter(|most| value > *most), warning.filter(|most| value > *most)) {
        (Some(most), _) => (State::Critical, Some(most)),
        (None, Some(most)) => (State::Warning, Some(most)),
        (None, None) => (State::Ok, None),
    }
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "OK",
            State::Warning => "WARNING",
            State::Critical => "CRITICAL",
            State::Unknown => "UNKNOWN",
        }
    }
}

/// Result and output line for a failure.
///
/// Without a scheduler no mail moves, which is critical. Any other failure leaves the state of the
/// queue unknown.
pub fn of_failure(failure: &Failure) -> (State, String) {
    let state = match failure {
        Failure::Unavailable(_) => State::Critical,
        _ => State::Unknown,
    };
    let words = failure.to_string();
    // The lines after the first are advice.
    let what = words.lines().next().unwrap_or_default();
    // The character `|` begins the performance data.
    (state, format!("MAILQ {} - {}", state.word(), what.replace('|', "/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_spool::{HashFolder, SpoolName};

    #[test]
    fn judge_compares_measures_with_thresholds() {
        let thresholds = Thresholds {
            warn_age: Some(3_600.0),
            crit_age: None,
            warn_count: Some(10),
            crit_count: Some(100),
        };
        let measures = |messages, oldest| Measures {
            messages,
            recipients: messages + 1,
            oldest,
            agents: Some(2),
            remarks: Vec::new(),
            orphans: Orphans::default(),
        };
        for (measures, state, line) in [
            (
                measures(0, None),
                State::Ok,
                "MAILQ OK - 0 messages, 1 recipient | messages=0;10;100;0 recipients=1;;;0 \
                 oldest=0s;3600;;0 agents=2;;;0",
            ),
            (
                measures(10, Some(3_600.0)),
                State::Ok,
                "MAILQ OK - 10 messages, 11 recipients, oldest 1h | messages=10;10;100;0 \
                 recipients=11;;;0 oldest=3600s;3600;;0 agents=2;;;0",
            ),
            (
                measures(11, Some(7_925.0)),
                State::Warning,
                "MAILQ WARNING - oldest 2h12m (more than 1h), more than 10 messages; 11 messages, \
                 12 recipients, oldest 2h12m | messages=11;10;100;0 recipients=12;;;0 \
                 oldest=7925s;3600;;0 agents=2;;;0",
            ),
            (
                measures(101, Some(1.0)),
                State::Critical,
                "MAILQ CRITICAL - more than 100 messages; 101 messages, 102 recipients, oldest 1s | \
                 messages=101;10;100;0 recipients=102;;;0 oldest=1s;3600;;0 agents=2;;;0",
            ),
        ] {
            assert_eq!(thresholds.judge(&measures), (state, line.to_string()));
        }
    }

    #[test]
    fn judge_with_orphans_warns_and_names_them() {
        let name = |base: &[u8]| SpoolName::new(HashFolder::TOP, base).expect("a name");
        let orphans = Orphans { count: 3, names: vec![name(b"1"), name(b"4711")], is_cut: false };
        let measures = Measures { orphans, ..Measures::default() };
        let (state, line) = Thresholds::default().judge(&measures);
        assert_eq!(state, State::Warning);
        let start =
            "MAILQ WARNING - 3 message files without control file in queue/ (1, 4711, ...); 0 ";
        assert!(line.starts_with(start), "{line}");
    }

    #[test]
    fn failure_without_scheduler_is_critical_else_unknown() {
        let gone = Failure::Unavailable("cannot connect | x\nmailq: start it".to_string());
        assert_eq!(
            of_failure(&gone),
            (State::Critical, "MAILQ CRITICAL - cannot connect / x".into())
        );
        let odd = Failure::Protocol("no MAILQ".to_string());
        assert_eq!(of_failure(&odd).0, State::Unknown);
    }
}
