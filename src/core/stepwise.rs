//! Work on very many values, a part of it in each turn.
//!
//! A thread may have a million vertices, and there may be a million threads. Delivery must not stop
//! while all of them are changed. So each kind of such work has a queue of what is left to do, and
//! each [`Event::Tick`](crate::Event::Tick) does as much of it as one turn allows
//! ([`Settings::step`](crate::Settings::step)). The next tick comes when any of it is to go on.

use crate::Scheduler;
use zsched_format::time::Timestamp;

/// One kind of stepwise work.
struct Work {
    /// Returns when it goes on, at once or later; `None` if nothing is left.
    next: fn(&Scheduler) -> Option<Timestamp>,
    /// Does some of it, at a cost of up to the given budget.
    ///
    /// Returns the part of the budget that is left.
    step: fn(&mut Scheduler, usize) -> usize,
}

/// All kinds of stepwise work.
const ALL: [Work; 8] = [
    // The vertices of threads that the sweep has moved come before it moves more.
    Work {
        next: |core| core.at_once(core.queue.has_backfill()),
        step: |core, budget| core.queue.backfill_step(core.cx.now, budget),
    },
    Work { next: |core| core.at_once(core.may_sweep()), step: Scheduler::sweep_step },
    Work {
        next: |core| core.at_once(core.dispatch.first_round().is_some()),
        step: Scheduler::window_round_step,
    },
    Work {
        next: |core| core.at_once(core.queue.has_expiry_checks()),
        step: Scheduler::expiry_step,
    },
    Work {
        next: |core| core.at_once(core.queue.has_deferrals()),
        step: |core, budget| core.queue.deferral_step(&mut core.cx, budget),
    },
    Work {
        next: |core| core.queue.messages().schedules.next_check(core.cx.now),
        step: Scheduler::schedule_step,
    },
    // These two have a limit of their own for a turn.
    Work {
        next: |core| core.admission.next_eviction(),
        step: |core, _| {
            core.admission.evict_some(&mut core.queue, &mut core.dispatch, &mut core.cx);
            0
        },
    },
    Work {
        next: |core| core.admission.next_partial_check(),
        step: |core, _| {
            core.check_partials();
            0
        },
    },
];

impl Scheduler {
    fn at_once(&self, is_left: bool) -> Option<Timestamp> {
        is_left.then_some(self.cx.now)
    }

    /// Returns when stepwise work goes on; `None` if nothing is left.
    pub(crate) fn next_stepwise_work(&self) -> Option<Timestamp> {
        ALL.iter().filter_map(|work| (work.next)(self)).min()
    }

    /// Continues all stepwise work, each kind as far as one turn allows.
    pub(crate) fn continue_stepwise_work(&mut self) {
        for work in ALL {
            let mut budget = self.cx.settings.step();
            while budget > 0 && (work.next)(self).is_some_and(|next| next <= self.cx.now) {
                budget = (work.step)(self, budget);
            }
        }
    }
}
