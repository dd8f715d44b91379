//! What is done to all members of a window: they are suspended together when their destination is dead, and
//! woken together when it answers again.
//!
//! A window may have a hundred thousand members, and delivery must not stop for as long as that takes. So some
//! of them are dealt with in each turn. Meanwhile a window whose members are being suspended lets nobody in,
//! and one whose members are being woken takes those that are awake.

use super::super::Scheduler;
use super::super::thread::ThreadId;
use super::super::timers::Timer;
use super::super::unreachable::Block;
use super::WindowId;
use serde::{Deserialize, Serialize};
use std::ops::Bound;
use zsched_format::time::Timestamp;

/// What is to be done to each member.
#[derive(Clone, Serialize, Deserialize)]
pub enum Deed {
    /// It waits until the window is to be tried again, as if it had been tried with this result.
    Suspend,
    /// If it was suspended, it is due.
    Wake,
}

/// A deed, and how far it is.
#[derive(Serialize, Deserialize)]
pub struct Round {
    pub(super) deed: Deed,
    /// The member that it was done to last.
    last: Option<ThreadId>,
}

impl Scheduler {
    /// Does something to all members of a window: to the first of them at once. What was under way before is
    /// over.
    pub(super) fn go_round(&mut self, now: Timestamp, window: WindowId, deed: Deed) {
        self.windows[window].round = Some(Box::new(Round { deed, last: None }));
        self.windows.rounds.insert(window);
        let left = self.settings.step();
        self.go_on_round(now, window, left);
        self.plan_rounds(now);
    }

    /// Goes on with all rounds that are under way, as far as one turn allows.
    pub(in super::super) fn go_on_rounds(&mut self, now: Timestamp) {
        let mut left = self.settings.step();
        while left > 0
            && let Some(window) = self.windows.rounds.first().copied()
        {
            left = self.go_on_round(now, window, left);
        }
        self.plan_rounds(now);
    }

    fn plan_rounds(&mut self, now: Timestamp) {
        if !self.windows.rounds.is_empty() {
            self.timers.add(now, Timer::Members);
        }
    }

    /// Goes on with the round of a window until nothing is left of what a turn may cost. Returns what is.
    fn go_on_round(&mut self, now: Timestamp, window: WindowId, mut left: usize) -> usize {
        // A member that is woken may come under a new clause, and leave the window as its last one.
        while self.windows.rounds.contains(&window)
            && let Some(Round { deed, last }) = self.windows[window].round.as_deref()
        {
            let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
            let mut members = self.windows[window].members.range((behind, Bound::Unbounded));
            let Some(member) = members.next().map(|(member, _)| *member) else {
                self.end_round(window);
                break;
            };
            if left == 0 {
                return 0;
            }
            left = left.saturating_sub(self.threads[member].step_cost());
            let deed = deed.clone();
            if let Some(round) = &mut self.windows[window].round {
                round.last = Some(member);
            }
            self.do_to_member(now, window, member, &deed);
        }
        left
    }

    fn do_to_member(&mut self, now: Timestamp, window: WindowId, member: ThreadId, deed: &Deed) {
        match deed {
            Deed::Suspend => {
                if let Some(until) = self.windows[window].resume {
                    let cause = self.windows[window].cause.clone();
                    self.put_off(now, member, (until, Block::Dead), cause);
                }
            }
            Deed::Wake => {
                let known = self.threads[member].retry.unreachable.as_ref();
                if known.is_some_and(|known| known.block == Block::Dead) {
                    self.wake_thread(now, member);
                }
            }
        }
    }

    /// The round of a window is over, done or not.
    pub(super) fn end_round(&mut self, window: WindowId) {
        self.windows[window].round = None;
        self.windows.rounds.remove(&window);
        self.admit(window);
    }
}
