//! Faults of agents. By default there are none.

use std::time::Duration;

/// Rates of faults: the affected share of all jobs, 0 to 1, unless stated otherwise.
#[derive(Clone, Debug, Default)]
pub struct Habits {
    /// Share of starts: the process cannot be started.
    pub start_fails: f64,
    /// Share of starts: the process ends before it asks for work.
    pub stillborn: f64,
    /// The process dies at any point of the job.
    pub dies: f64,
    /// The process ends with status 0 in the middle of a job.
    ///
    /// It clears its locks before.
    pub stops: f64,
    /// The process does nothing for [`stall`](Habits::stall).
    pub stalls: f64,
    /// Duration of a stall.
    pub stall: Duration,
    /// It reports recipients of other jobs, or recipients that do not exist.
    pub lies: f64,
    /// It reports everything twice.
    pub repeats: f64,
    /// It writes meaningless bytes.
    pub babbles: f64,
    /// It sends one `#hungry` too many.
    pub greedy: f64,
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
pub enum Mishap {
    /// Nothing.
    None,
    /// The process dies.
    Death(Death),
    /// The process ends in an orderly way.
    Stop,
    /// See [`Habits::lies`] and the following.
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

impl Habits {
    /// Draws the fault in a job.
    pub(super) fn mishap(&self, random: &mut fastrand::Rng) -> Mishap {
        let kinds = [
            (self.dies, Mishap::Death(Death::Locked)),
            (self.stops, Mishap::Stop),
            (self.lies, Mishap::Lie),
            (self.repeats, Mishap::Repetition),
            (self.babbles, Mishap::Babble),
            (self.greedy, Mishap::Greed),
            (self.resyncs, Mishap::Resync),
            (self.silent, Mishap::Silence),
            (self.defers_all, Mishap::DeferAll),
        ];
        let total: f64 = kinds.iter().map(|(part, _)| part).sum();
        if total <= 0.0 {
            return Mishap::None;
        }
        let mut drawn = random.f64();
        for (part, mishap) in kinds {
            if drawn < part {
                return match mishap {
                    Mishap::Death(_) => Mishap::Death(Death::draw(random)),
                    other => other,
                };
            }
            drawn -= part;
        }
        Mishap::None
    }
}

impl Death {
    fn draw(random: &mut fastrand::Rng) -> Death {
        let all = [Death::Unlocked, Death::Locked, Death::Delivered, Death::Half, Death::Reported];
        all[random.usize(0..all.len())]
    }
}
