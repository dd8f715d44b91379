//! The reason why work on a job ended early.

use crate::Outcome;
use std::fmt;

/// The reason why a job ended before all recipients had outcomes.
///
/// The methods of [`Job`](crate::Job) return it, and agents pass it on with `?`. The library does,
/// or has already done, everything necessary. An agent that cannot go on makes one itself, from an
/// [`Outcome`] or by [`Halt::resync`].
///
/// ```
/// use zsched_agent::{Halt, Job, Outcome, Verdict};
///
/// fn deliver(job: &mut Job<'_>) -> Result<(), Halt> {
///     let lost = || Outcome::new(Verdict::DeferAll, "4.4.2", 421, "connection lost");
///     job.try_deliver_each(|_delivery| Err(lost().into()))
/// }
/// ```
#[derive(Debug)]
pub struct Halt(pub(crate) HaltCause);

#[derive(Debug)]
pub(crate) enum HaltCause {
    /// The scheduler's view of the file is wrong: request that it reads the file again.
    Resync(String),
    /// All recipients that are left have this outcome.
    ReportRest(Box<Outcome>),
    /// All recipients have been reported.
    Reported,
    /// The agent has been stopped. Recipients without a report are left to another agent.
    Stopped,
}

impl Halt {
    /// Ends the job: all recipients without an outcome get this one.
    ///
    /// They are locked first, and those that another agent has taken are left out. A deferral is
    /// not reported if the agent has been stopped, because the cause may be that the signal
    /// interrupted a wait.
    pub fn report_rest(outcome: Outcome) -> Halt {
        Halt(HaltCause::ReportRest(Box::new(outcome)))
    }

    /// Ends the job, and requests a new look at the file.
    ///
    /// This is for a file that is not as the scheduler believes. `why` goes to the scheduler's log.
    /// Locked recipients without an outcome are deferred.
    pub fn resync(why: impl Into<String>) -> Halt {
        Halt(HaltCause::Resync(why.into()))
    }
}

/// As [`Halt::report_rest`].
impl From<Outcome> for Halt {
    fn from(outcome: Outcome) -> Halt {
        Halt::report_rest(outcome)
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HaltCause::Resync(why) => f.write_str(why),
            HaltCause::ReportRest(outcome) => f.write_str(outcome.text()),
            HaltCause::Reported => f.write_str("all recipients have been reported"),
            HaltCause::Stopped => f.write_str("the agent has been stopped"),
        }
    }
}

impl std::error::Error for Halt {}
