//! `mailq check`: one line and an exit status for monitoring programs.
//!
//! ```text
//! MAILQ WARNING - oldest 2h12m (more than 1h); 312 messages, 401 recipients | messages=312;; ...
//! ```

use super::arguments::{SelectionArgs, Sort};
use super::client;
use super::overview;
use super::views::{JSON_SUMMARY, threads_request};
use crate::connect::dial::Scheduler;
use crate::connect::session::{Request, Session};
use crate::console::model::ThreadStatus;
use crate::failure::Failure;
use crate::format::{count, not_a_span, read_span, span};
use clap::Args;
use std::time::Duration;
use zsched_format::time::Timestamp;
use zsched_spool::Spool;
use zsched_spool::orphans::{self, Orphans};

/// Maximum number of destinations that are added up for a selection.
const MAX_DESTINATIONS: usize = 1_000_000;

/// Thresholds for warnings.
#[derive(Args, Clone, Debug, Default)]
pub struct Thresholds {
    /// Warn if the oldest message is older than this, such as 1h
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub warn_age: Option<f64>,

    /// Report critical if the oldest message is older than this
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub crit_age: Option<f64>,

    /// Warn if there are more messages than this
    #[arg(long, value_name = "NUMBER")]
    pub warn_count: Option<u64>,

    /// Report critical if there are more messages than this
    #[arg(long, value_name = "NUMBER")]
    pub crit_count: Option<u64>,
}

fn parse_span(text: &str) -> Result<f64, String> {
    read_span(text).filter(|span| *span >= 0.0).ok_or_else(|| not_a_span("it"))
}

/// Result of a check. The numbers are exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckState {
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
    pub notices: Vec<&'static str>,
    /// Message files without a control file; none if the spool cannot be read.
    pub orphans: Orphans,
}

/// Limits of the search for orphans in `queue/`.
const ORPHAN_LIMITS: orphans::OrphanSearchLimits =
    orphans::OrphanSearchLimits { files: 200_000, time: Duration::from_secs(2) };

/// Finds message files without a control file.
///
/// Returns none if this user may not read the folder.
pub(super) fn find_orphans(spool: &Spool) -> Orphans {
    orphans::find_orphans(spool, ORPHAN_LIMITS, Timestamp::now()).unwrap_or_default()
}

/// Describes orphans, with the names that are known.
fn shown(orphans: &Orphans) -> String {
    let names: Vec<String> = orphans.names.iter().map(ToString::to_string).collect();
    let more = if names.len() < orphans.count { ", ..." } else { "" };
    let at_least = if orphans.is_cut { "at least " } else { "" };
    let files = count(orphans.count as u64, "message file");
    format!("{at_least}{files} without a control file in queue/ ({}{more})", names.join(", "))
}

/// Measures the whole queue, or the selected part of it.
pub(super) fn measure(
    scheduler: &mut Scheduler,
    selection: &SelectionArgs,
) -> Result<Measures, Failure> {
    if !selection.is_everything() {
        return measure_part(scheduler, selection);
    }
    let json = |session: &mut Session| client::fetch_one(session, Request::new(JSON_SUMMARY, "QQ"));
    let summary = overview::json_or_report(scheduler, json, |overview| overview.summary)?;
    let notices = [
        (summary.loading, "the spool is being loaded"),
        (summary.draining, "the scheduler is shutting down"),
        (summary.frozen, "agent starts are disabled"),
    ];
    Ok(Measures {
        messages: summary.messages,
        recipients: summary.recipients,
        oldest: summary.oldest,
        agents: Some(summary.agents),
        notices: notices.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect(),
        orphans: Orphans::default(),
    })
}

fn measure_part(scheduler: &mut Scheduler, selection: &SelectionArgs) -> Result<Measures, Failure> {
    let request = threads_request(selection, Sort::default(), MAX_DESTINATIONS)?;
    let mut measures = Measures::default();
    client::for_each_object(scheduler.session()?, request, |thread: ThreadStatus| {
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
    pub fn evaluate(&self, measures: &Measures) -> (CheckState, String) {
        let too_many = exceeded(measures.messages, self.warn_count, self.crit_count);
        let age = measures.oldest.unwrap_or_default();
        let too_old = measures.oldest.and_then(|age| exceeded(age, self.warn_age, self.crit_age));
        let old = |(state, max)| (state, format!("oldest {} (more than {})", span(age), span(max)));
        let many = |(state, max)| (state, format!("more than {max} messages"));
        let has_orphans = measures.orphans.count > 0;
        let orphans = has_orphans.then(|| (CheckState::Warning, shown(&measures.orphans)));
        let problems = [too_old.map(old), too_many.map(many), orphans];
        let (states, problems): (Vec<CheckState>, Vec<String>) =
            problems.into_iter().flatten().unzip();
        let state = states.into_iter().max().unwrap_or(CheckState::Ok);
        let mut line = format!("MAILQ {} - ", state.word());
        if !problems.is_empty() {
            line.push_str(&format!("{}; ", problems.join(", ")));
        }
        line.push_str(&format!(
            "{}, {}",
            count(measures.messages, "message"),
            count(measures.recipients, "recipient")
        ));
        if let Some(age) = measures.oldest.filter(|_| measures.messages > 0) {
            line.push_str(&format!(", oldest {}", span(age)));
        }
        for remark in &measures.notices {
            line.push_str(&format!(", {remark}"));
        }
        (state, format!("{line} | {}", self.performance(measures)))
    }

    /// Performance data: `label=value;warn;crit;min`.
    fn performance(&self, measures: &Measures) -> String {
        let Measures { messages, recipients, oldest, agents, .. } = measures;
        let (counts, ages) =
            (limits(self.warn_count, self.crit_count), limits(self.warn_age, self.crit_age));
        let oldest = oldest.unwrap_or(0.0).round();
        let data = format!(
            "messages={messages};{counts};0 recipients={recipients};;;0 oldest={oldest}s;{ages};0"
        );
        let agents = agents.map_or(String::new(), |agents| format!(" agents={agents};;;0"));
        data + &agents
    }
}

/// Returns the more severe of two limits that a value exceeds, and its state.
fn exceeded<N: PartialOrd>(
    value: N,
    warning: Option<N>,
    critical: Option<N>,
) -> Option<(CheckState, N)> {
    let limits = [(CheckState::Critical, critical), (CheckState::Warning, warning)];
    let mut limits = limits.into_iter().filter_map(|(state, max)| Some((state, max?)));
    limits.find(|(_, max)| value > *max)
}

/// Two limits, as performance data has them.
fn limits<N: ToString>(warning: Option<N>, critical: Option<N>) -> String {
    let show = |limit: Option<N>| limit.map_or(String::new(), |limit| limit.to_string());
    format!("{};{}", show(warning), show(critical))
}

impl CheckState {
    fn word(self) -> &'static str {
        ["OK", "WARNING", "CRITICAL", "UNKNOWN"][self as usize]
    }
}

/// Result and output line for a failure.
///
/// Without a scheduler no mail moves, which is critical. Any other failure leaves the state of the
/// queue unknown.
pub(super) fn of_failure(failure: &Failure) -> (CheckState, String) {
    let state = match failure {
        Failure::Unavailable(_) | Failure::Refused(_) => CheckState::Critical,
        _ => CheckState::Unknown,
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
            notices: Vec::new(),
            orphans: Orphans::default(),
        };
        for (measures, state, line) in [
            (
                measures(0, None),
                CheckState::Ok,
                "MAILQ OK - 0 messages, 1 recipient | messages=0;10;100;0 recipients=1;;;0 \
                 oldest=0s;3600;;0 agents=2;;;0",
            ),
            (
                measures(10, Some(3_600.0)),
                CheckState::Ok,
                "MAILQ OK - 10 messages, 11 recipients, oldest 1h | messages=10;10;100;0 \
                 recipients=11;;;0 oldest=3600s;3600;;0 agents=2;;;0",
            ),
            (
                measures(11, Some(7_925.0)),
                CheckState::Warning,
                "MAILQ WARNING - oldest 2h12m (more than 1h), more than 10 messages; 11 messages, \
                 12 recipients, oldest 2h12m | messages=11;10;100;0 recipients=12;;;0 \
                 oldest=7925s;3600;;0 agents=2;;;0",
            ),
            (
                measures(101, Some(1.0)),
                CheckState::Critical,
                "MAILQ CRITICAL - more than 100 messages; 101 messages, 102 recipients, oldest 1s | \
                 messages=101;10;100;0 recipients=102;;;0 oldest=1s;3600;;0 agents=2;;;0",
            ),
        ] {
            assert_eq!(thresholds.evaluate(&measures), (state, line.to_string()));
        }
    }

    #[test]
    fn judge_with_orphans_warns_and_names_them() {
        let name = |base: &[u8]| SpoolName::new(HashFolder::TOP, base).expect("a name");
        let orphans = Orphans { count: 3, names: vec![name(b"1"), name(b"4711")], is_cut: false };
        let measures = Measures { orphans, ..Measures::default() };
        let (state, line) = Thresholds::default().evaluate(&measures);
        assert_eq!(state, CheckState::Warning);
        let start =
            "MAILQ WARNING - 3 message files without a control file in queue/ (1, 4711, ...); 0 ";
        assert!(line.starts_with(start), "{line}");
    }

    #[test]
    fn failure_without_scheduler_is_critical_else_unknown() {
        let gone = Failure::Unavailable("cannot connect | x\nmailq: start it".to_string());
        assert_eq!(
            of_failure(&gone),
            (CheckState::Critical, "MAILQ CRITICAL - cannot connect / x".into())
        );
        let failure = Failure::Protocol("no MAILQ".to_string());
        assert_eq!(of_failure(&failure).0, CheckState::Unknown);
    }
}
