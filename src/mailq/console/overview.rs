//! Data for the summary: totals, destinations, rings, agents.

use super::arguments::{SelectionArgs, Sort};
use super::client;
use super::views::{JSON_AGENTS, JSON_RINGS, JSON_SUMMARY, threads_request};
use super::zmailer;
use crate::connect::dial::Scheduler;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use zsched_mailq_protocol::schema::SmtpTraffic;
use zsched_mailq_protocol::schema::{AgentStatus, RingStatus, Summary, ThreadStatus};

/// Overview of the queue of a scheduler.
#[derive(Clone, Debug, Default)]
pub(super) struct Overview {
    /// The totals.
    pub summary: Summary,
    /// Destinations: all, or those with most messages or most deferred recipients.
    pub threads: Vec<ThreadStatus>,
    /// Rings.
    pub rings: Vec<RingStatus>,
    /// Agents.
    pub agents: Vec<AgentStatus>,
    /// The SMTP server, if it is on this host.
    pub smtp: Option<SmtpTraffic>,
}

/// Asks in JSON, or reads the report of a scheduler that does not know JSON.
pub(super) fn json_or_report<T>(
    scheduler: &mut Scheduler,
    json: impl FnOnce(&mut Session) -> Result<T, Failure>,
    of_report: impl FnOnce(Overview) -> T,
) -> Result<T, Failure> {
    match scheduler {
        Scheduler::Dump(lines) => zmailer::read_dump(lines).map(of_report),
        Scheduler::Session(session) => match json(session) {
            // A scheduler that does not know the request denies it.
            Err(Failure::Denied(_)) => zmailer::of_session(session).map(of_report),
            other => other,
        },
    }
}

/// Asks a scheduler of any kind.
///
/// `limit` is the maximum number of destinations per sort order. ZMailer's schedulers ignore it.
pub(super) fn ask(scheduler: &mut Scheduler, limit: usize) -> Result<Overview, Failure> {
    json_or_report(scheduler, |session| of_session(session, limit), |overview| overview)
}

/// Asks a scheduler that supports the JSON requests.
pub(super) fn of_session(session: &mut Session, limit: usize) -> Result<Overview, Failure> {
    let summary = client::fetch_one(session, Request::new(JSON_SUMMARY, "QQ"))?;
    let mut threads = Vec::new();
    for sort in [Sort::Backlog, Sort::Undelivered] {
        let request = threads_request(&SelectionArgs::default(), sort, limit);
        let found: Vec<ThreadStatus> = client::fetch_all(session, request)?;
        let is_new = |thread: &ThreadStatus| {
            !threads.iter().any(|old: &ThreadStatus| old.name() == thread.name())
        };
        let new: Vec<ThreadStatus> = found.into_iter().filter(is_new).collect();
        threads.extend(new);
    }
    let rings = client::fetch_all(session, Request::new(JSON_RINGS, "TT"))?;
    let agents = client::fetch_all(session, Request::new(JSON_AGENTS, "TT"))?;
    Ok(Overview { summary, threads, rings, agents, smtp: None })
}

impl Overview {
    /// At most `max` destinations, those with most messages first.
    pub(super) fn busiest(&self, max: usize) -> Vec<&ThreadStatus> {
        self.sorted(max, |thread| thread.messages, |thread| thread.messages > 0)
    }

    /// At most `max` destinations with undelivered recipients, those with most of them first.
    pub(super) fn most_undelivered(&self, max: usize) -> Vec<&ThreadStatus> {
        self.sorted(max, |thread| thread.undelivered, |thread| thread.undelivered > 0)
    }

    fn sorted(
        &self,
        max: usize,
        key: impl Fn(&ThreadStatus) -> u64,
        is_wanted: impl Fn(&ThreadStatus) -> bool,
    ) -> Vec<&ThreadStatus> {
        let mut threads: Vec<&ThreadStatus> =
            self.threads.iter().filter(|t| is_wanted(t)).collect();
        // The name breaks ties, so that rows keep their places from one refresh to the next.
        threads.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name().cmp(&b.name())));
        threads.truncate(max);
        threads
    }
}
