//! Work on very many values, a part of it in each turn.
//!
//! A thread may have a million vertices, and there may be a million threads. Delivery must not stop
//! while all of them are changed. So each kind of such work has a queue of what is left to do, and
//! each [`Event::Tick`](crate::Event::Tick) does as much of it as one turn allows
//! ([`Settings::step`](crate::Settings::step)). While anything is left, the next tick is due at
//! once.

use crate::Scheduler;

/// One kind of stepwise work.
struct Work {
    /// Returns true if something is left to do now.
    is_left: fn(&Scheduler) -> bool,
    /// Does some of it, at a cost of up to the given budget.
    ///
    /// Returns the part of the budget that is left.
    step: fn(&mut Scheduler, usize) -> usize,
}

/// All kinds of stepwise work.
///
/// Paging is none of them, because it must also wait for a while: it has a timer.
const ALL: [Work; 5] = [
    // The vertices of threads that the sweep has moved come before it moves more.
    Work {
        is_left: |core| core.queue.has_backfill(),
        step: |core, budget| core.queue.backfill_step(core.cx.now, budget),
    },
    Work { is_left: Scheduler::may_sweep, step: Scheduler::sweep_step },
    Work {
        is_left: |core| core.dispatch.first_round().is_some(),
        step: Scheduler::window_round_step,
    },
    Work { is_left: |core| core.queue.has_expiry_checks(), step: Scheduler::expiry_step },
    Work {
        is_left: |core| core.queue.has_deferrals(),
        step: |core, budget| core.queue.deferral_step(&mut core.cx, budget),
    },
];

impl Scheduler {
    /// Returns true if stepwise work is left.
    pub(crate) fn has_stepwise_work(&self) -> bool {
        ALL.iter().any(|work| (work.is_left)(self))
    }

    /// Continues all stepwise work, each kind as far as one turn allows.
    pub(crate) fn continue_stepwise_work(&mut self) {
        for work in ALL {
            let mut budget = self.cx.settings.step();
            while budget > 0 && (work.is_left)(self) {
                budget = (work.step)(self, budget);
            }
        }
    }
}
