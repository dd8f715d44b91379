//! Faults of agents. By default there are none.

use std::time::Duration;

/// Rates of faults: the affected share of all jobs, 0 to 1, unless stated otherwise.
#[derive(Clone, Debug, Default)]
pub struct AgentFaults {
    /// Share of starts: the process cannot be started.
    pub start_fails: f64,
    /// Share of starts: the process ends before it asks for work.
    pub dies_at_start: f64,
    /// The process dies at any point of the job.
    pub dies: f64,
    /// The process ends with status 0 in the middle of a job.
    ///
    /// It clears its locks before.
    pub stops: f64,
    /// The process does nothing for [`stall`](AgentFaults::stall).
    pub stalls: f64,
    /// Duration of a stall.
    pub stall: Duration,
    /// It reports recipients of other jobs, or recipients that do not exist.
    pub reports_others: f64,
    /// It reports everything twice.
    pub repeats: f64,
    /// It writes meaningless bytes.
    pub writes_garbage: f64,
    /// It sends one `#hungry` too many.
    pub extra_hungry: f64,
    /// It sends `#resync` although there is work.
    pub resyncs: f64,
    /// It ends the job without reporting its recipients.
    pub silent: f64,
    /// Share of deferrals: reported as `retryat`.
    pub retry_at: f64,
    /// Share of deferrals because of a host that is down: reported as `deferred`.
    ///
    /// If it is not 0, half of these and of all other deferrals have a status code.
    pub only_deferred: f64,
    /// It reports `deferall` although only one recipient was deferred.
    pub defers_all: f64,
}

/// The fault in one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The process dies.
    Death(Death),
    /// The process ends in an orderly way.
    Stop,
    /// See [`AgentFaults::reports_others`] and the following.
    Lie,
    /// Everything is reported twice.
    Repetition,
    /// Meaningless bytes.
    Babble,
    /// One `#hungry` too many.
    Greed,
    /// A `#resync` without reason.
    Resync,
    /// No reports.
    Silence,
    /// `deferall` for one deferral.
    DeferAll,
}

/// The point of a job at which a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Before anything is locked.
    Unlocked,
    /// With recipients locked.
    Locked,
    /// After a delivery, before it is reported or marked.
    Delivered,
    /// When a recipient is marked but not reported, or the other way round.
    Half,
    /// When everything is reported, before `#hungry`.
    Reported,
}

impl AgentFaults {
    /// Draws the fault in a job.
    pub(super) fn draw_fault(&self, random: &mut fastrand::Rng) -> Fault {
        let kinds = [
            (self.dies, Fault::Death(Death::Locked)),
            (self.stops, Fault::Stop),
            (self.reports_others, Fault::Lie),
            (self.repeats, Fault::Repetition),
            (self.writes_garbage, Fault::Babble),
            (self.extra_hungry, Fault::Greed),
            (self.resyncs, Fault::Resync),
            (self.silent, Fault::Silence),
            (self.defers_all, Fault::DeferAll),
        ];
        let total: f64 = kinds.iter().map(|(part, _)| part).sum();
        if total <= 0.0 {
            return Fault::None;
        }
        let mut drawn = random.f64();
        for (part, fault) in kinds {
            if drawn < part {
                return match fault {
                    Fault::Death(_) => Fault::Death(Death::draw(random)),
                    other => other,
                };
            }
            drawn -= part;
        }
        Fault::None
    }
}

impl Death {
    fn draw(random: &mut fastrand::Rng) -> Death {
        let all = [Death::Unlocked, Death::Locked, Death::Delivered, Death::Half, Death::Reported];
        all[random.usize(0..all.len())]
    }
}
