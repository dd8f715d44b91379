//! How agents misbehave. None does by default.

use std::time::Duration;

/// How often agents do what they should not: each a part of all jobs, 0 to 1, if nothing else is said.
#[derive(Clone, Debug, Default)]
pub struct Habits {
    /// Of all starts: the process cannot be started.
    pub start_fails: f64,
    /// Of all starts: the process ends before it asks for work.
    pub stillborn: f64,
    /// The process dies, at any point of the job.
    pub dies: f64,
    /// The process stops with status 0 in the middle of the job, its locks cleared.
    pub stops: f64,
    /// The process does nothing for [`stall`](Habits::stall).
    pub stalls: f64,
    /// How long that takes.
    pub stall: Duration,
    /// It reports about recipients of others, or about none that there is.
    pub lies: f64,
    /// It reports everything twice.
    pub repeats: f64,
    /// It writes bytes that mean nothing.
    pub babbles: f64,
    /// It says `#hungry` once too often.
    pub greedy: f64,
    /// It says `#resync` although there is work.
    pub resyncs: f64,
    /// It ends the job without a word about its recipients.
    pub silent: f64,
    /// Of all deferrals: said as `retryat`.
    pub retry_at: f64,
    /// Of all deferrals because a host is down: said as `deferred`. Then a half of these and of all other
    /// deferrals have a status code.
    pub only_deferred: f64,
    /// It says `deferall` although only one recipient was deferred.
    pub defers_all: f64,
}

/// What goes wrong with one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Nothing.
    None,
    /// The process dies.
    Death(Death),
    /// The process stops in order.
    Stop,
    /// See [`Habits::lies`], and so on.
    Lie,
    /// Everything is reported twice.
    Repetition,
    /// Bytes that mean nothing.
    Babble,
    /// One `#hungry` too many.
    Greed,
    /// A `#resync` without cause.
    Resync,
    /// Not a word.
    Silence,
    /// `deferall` for one deferral.
    DeferAll,
}

/// At which point of a job a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Before it has locked anything.
    Unlocked,
    /// With its recipients locked.
    Locked,
    /// After a delivery, before anybody is told.
    Delivered,
    /// When a recipient is marked but not reported, or the other way round.
    Half,
    /// When everything is said but `#hungry`.
    Reported,
}

impl Habits {
    /// Draws what goes wrong with a job.
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
