//! `mailq check`: one line and an exit status for monitoring programs.
//!
//! ```text
//! MAILQ WARNING - oldest 2h12m (more than 1h); 312 messages, 401 recipients | messages=312;; ...
//! ```

mod spool_state;

pub(crate) use spool_state::{SpoolState, warnings};

use super::arguments::{SelectionArgs, Sort};
use super::client;
use super::overview;
use super::summary::{hold_words, process_words};
use super::views::{JSON_SUMMARY, threads_request};
use crate::connect::dial::Scheduler;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::format::{count, one_line, span, span_argument};
use clap::Args;
use zsched_mailq_protocol::schema::{ConfigStatus, ThreadStatus};

/// Maximum number of warnings about selected destinations.
const MAX_WARNINGS: usize = 3;
/// Maximum number of destinations that are added up for a selection.
const MAX_DESTINATIONS: usize = 1_000_000;

/// Thresholds for warnings.
#[derive(Args, Clone, Debug, Default)]
pub struct Thresholds {
    /// Warn if the oldest message is older than this, such as 1h
    #[arg(long, value_name = "SPAN", value_parser = span_argument)]
    pub warn_age: Option<f64>,

    /// Report critical if the oldest message is older than this
    #[arg(long, value_name = "SPAN", value_parser = span_argument)]
    pub crit_age: Option<f64>,

    /// Warn if there are more messages than this
    #[arg(long, value_name = "NUMBER")]
    pub warn_count: Option<u64>,

    /// Report critical if there are more messages than this
    #[arg(long, value_name = "NUMBER")]
    pub crit_count: Option<u64>,

    /// Warn if there are more files than this in postman/
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pub warn_postman: u64,

    /// Warn if less than this is free on the file system of the spool, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    pub warn_free: u8,

    /// Report critical if less than this is free there, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1)]
    pub crit_free: u8,
}

/// Result of a check. The numbers are exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckState {
    /// No threshold is exceeded.
    Ok = 0,
    /// A warning threshold is exceeded, or something is wrong that has no threshold.
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
    pub notices: Vec<String>,
    /// What the scheduler itself finds wrong.
    pub warnings: Vec<String>,
    /// Its spool; `None` if it is on another host, or only part of the queue is measured.
    pub spool: Option<SpoolState>,
}

/// Measures the whole queue, or the selected part of it.
pub(super) fn measure(scheduler: &mut Scheduler, what: Option<&str>) -> Result<Measures, Failure> {
    if let Some(what) = what {
        return measure_part(scheduler, what);
    }
    let is_limited = matches!(scheduler, Scheduler::Dump(_));
    let json = |session: &mut Session| client::fetch_one(session, Request::new(JSON_SUMMARY, "QQ"));
    let summary = overview::json_or_report(scheduler, json, |overview| overview.summary)?;
    let limited = is_limited.then_some("only counts are known without a login");
    let of_process = limited.into_iter().chain(process_words(&summary)).map(str::to_string);
    Ok(Measures {
        messages: summary.messages,
        recipients: summary.recipients,
        oldest: summary.oldest,
        agents: Some(summary.agents),
        notices: of_process.chain(hold_words(&summary)).collect(),
        warnings: summary.warnings.into_iter().chain(problem_of_config(scheduler)).collect(),
        spool: None,
    })
}

/// What is wrong with the configuration on disk; `None` also if the scheduler does not say it.
fn problem_of_config(scheduler: &mut Scheduler) -> Option<String> {
    let request = Request::new("SHOW JSON CONFIG", "TT");
    let found: ConfigStatus = client::fetch_one(scheduler.session().ok()?, request).ok()?;
    match found {
        ConfigStatus { usable: false, errors, .. } => {
            let first = errors.first().map(|error| one_line(error)).unwrap_or_default();
            Some(format!("the configuration on disk cannot be used: {first}"))
        }
        ConfigStatus { in_force: false, .. } => {
            Some("the configuration on disk is not in force: mailq reload loads it".to_string())
        }
        _ => None,
    }
}

fn measure_part(scheduler: &mut Scheduler, what: &str) -> Result<Measures, Failure> {
    let request = threads_request(&SelectionArgs::of(what), Sort::default(), MAX_DESTINATIONS);
    let mut measures = Measures::default();
    let mut has_mail = false;
    client::for_each_object(scheduler.session()?, request, |thread: ThreadStatus| {
        measures.messages += thread.messages;
        measures.recipients += thread.recipients;
        has_mail = true;
        let is_unserved = ["no-command", "suspended"].contains(&thread.reason())
            || thread.wait.as_ref().and_then(|wait| wait.block.as_deref()) == Some("agents-die");
        if is_unserved && measures.warnings.len() < MAX_WARNINGS {
            measures.warnings.push(one_line(thread.sentence().unwrap_or_default()));
        }
        measures.oldest =
            [measures.oldest, thread.oldest].into_iter().flatten().max_by(f64::total_cmp);
        Ok(())
    })?;
    if !has_mail {
        measures.notices.push(Failure::no_mail(what).to_string());
    }
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
        let of_queue = [too_old.map(old), too_many.map(many)].into_iter().flatten();
        let of_spool = measures.spool.iter().flat_map(|spool| self.problems_of_spool(spool));
        let warning = |text: &String| (CheckState::Warning, text.clone());
        let of_scheduler = measures.warnings.iter().map(warning);
        let (states, problems): (Vec<CheckState>, Vec<String>) =
            of_queue.chain(of_scheduler).chain(of_spool).unzip();
        let state = states.into_iter().max().unwrap_or(CheckState::Ok);
        let mut line = format!("MAILQ {} - ", state.word());
        if !problems.is_empty() {
            line.push_str(&format!("{}; ", problems.join("; ")));
        }
        line.push_str(&format!(
            "{}, {}",
            count(measures.messages, "message"),
            count(measures.recipients, "recipient")
        ));
        if let Some(age) = measures.oldest.filter(|_| measures.messages > 0) {
            line.push_str(&format!(", oldest {}", span(age)));
        }
        let unreadable = measures.spool.as_ref().is_some_and(|spool| spool.is_unreadable);
        let unreadable = unreadable.then(|| "this user may not look into postman/".to_string());
        for notice in measures.notices.iter().chain(&unreadable) {
            line.push_str(&format!(", {notice}"));
        }
        // The character `|` begins the performance data.
        (state, format!("{} | {}", line.replace('|', "/"), self.performance(measures)))
    }

    fn problems_of_spool(&self, spool: &SpoolState) -> Vec<(CheckState, String)> {
        let is_less = |free: &f64, limit: u8| *free < f64::from(limit);
        let space = spool.free.filter(|free| is_less(free, self.warn_free.max(self.crit_free)));
        let space = space.map(|free| {
            let text = format!("{free:.1} % free on the file system of the spool");
            match is_less(&free, self.crit_free) {
                true => (CheckState::Critical, text),
                false => (CheckState::Warning, text),
            }
        });
        let is_filling = spool.postman > self.warn_postman;
        let postman = is_filling.then(|| format!("{} in postman/", count(spool.postman, "file")));
        let of_files = spool.problems().chain(postman).map(|text| (CheckState::Warning, text));
        space.into_iter().chain(of_files).collect()
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
        let spool = measures.spool.as_ref().map_or(String::new(), |spool| {
            // A range with a colon has a lower limit.
            let free = spool.free.map_or(String::new(), |free| {
                format!(" free={free:.1}%;{}:;{}:;0;100", self.warn_free, self.crit_free)
            });
            format!(" postman={};{};;0{free}", spool.postman, self.warn_postman)
        });
        data + &agents + &spool
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
    use zsched_spool::orphans::Orphans;
    use zsched_spool::{HashFolder, SpoolName};

    #[test]
    fn judge_compares_measures_with_thresholds() {
        let thresholds = Thresholds {
            warn_age: Some(3_600.0),
            crit_age: None,
            warn_count: Some(10),
            crit_count: Some(100),
            ..Thresholds::default()
        };
        let measures = |messages, oldest| Measures {
            messages,
            recipients: messages + 1,
            oldest,
            agents: Some(2),
            ..Measures::default()
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
                "MAILQ WARNING - oldest 2h12m (more than 1h); more than 10 messages; 11 messages, \
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
        let spool = SpoolState { orphans, ..SpoolState::default() };
        let measures = Measures { spool: Some(spool), ..Measures::default() };
        let (state, line) = Thresholds::default().evaluate(&measures);
        assert_eq!(state, CheckState::Warning);
        let start =
            "MAILQ WARNING - 3 message files without a control file in queue/ (1, 4711, ...); 0 ";
        assert!(line.starts_with(start), "{line}");
    }

    #[test]
    fn check_names_troubles_of_scheduler_and_spool() {
        let thresholds =
            Thresholds { warn_postman: 5, warn_free: 5, crit_free: 1, ..Thresholds::default() };
        let judge = |spool: SpoolState, warnings: &[&str]| {
            let warnings = warnings.iter().map(ToString::to_string).collect();
            let measures = Measures { warnings, spool: Some(spool), ..Measures::default() };
            let (state, line) = thresholds.evaluate(&measures);
            (state, line.split("; 0 messages").next().unwrap_or_default().to_string())
        };
        let ok = SpoolState { postman: 5, free: Some(5.0), ..SpoolState::default() };
        assert_eq!(judge(ok.clone(), &[]).0, CheckState::Ok);
        for (spool, warnings, expected) in [
            (ok.clone(), &["no command"][..], (CheckState::Warning, "MAILQ WARNING - no command")),
            (
                SpoolState { postman: 6, malformed: 2, ..ok.clone() },
                &[],
                (
                    CheckState::Warning,
                    "MAILQ WARNING - 2 malformed messages in postman/; 6 files in postman/",
                ),
            ),
            (
                SpoolState { free: Some(0.44), ..ok },
                &[],
                (
                    CheckState::Critical,
                    "MAILQ CRITICAL - 0.4 % free on the file system of the spool",
                ),
            ),
        ] {
            assert_eq!(judge(spool, warnings), (expected.0, expected.1.to_string()));
        }
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
