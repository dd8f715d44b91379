//! Actions for all members of a window ([`crate::dispatch::window`]).

use crate::Scheduler;
use crate::dispatch::window::{MemberAction, WindowId};
use crate::queue::{ThreadId, UnreachableReason};

impl Scheduler {
    /// Processes the first members of windows whose actions have started in this event.
    pub(crate) fn begin_window_rounds(&mut self) {
        while let Some(window) = self.dispatch.next_started_round() {
            self.continue_round(window, self.cx.settings.step());
        }
    }

    /// Continues the action of the first window.
    pub(crate) fn window_round_step(&mut self, budget: usize) -> usize {
        match self.dispatch.first_round() {
            Some(window) => self.continue_round(window, budget),
            None => budget,
        }
    }

    /// Continues the action of a window until `left` is used up.
    ///
    /// Returns the unused part.
    fn continue_round(&mut self, window: WindowId, mut left: usize) -> usize {
        // A member that is woken may come under a new clause, and leave the window as its last one.
        while let Some((member, action)) = self.dispatch.next_of_round(window) {
            if left == 0 {
                return 0;
            }
            left = left.saturating_sub(self.queue.thread(member).step_cost());
            self.dispatch.advance_round(window, member);
            self.apply_to_member(window, member, action);
        }
        left
    }

    fn apply_to_member(&mut self, window: WindowId, member: ThreadId, action: MemberAction) {
        match action {
            MemberAction::Suspend => {
                if let Some(known) = self.dispatch.windows()[window].suspension() {
                    self.queue.defer_thread(&mut self.cx, member, known);
                }
            }
            MemberAction::Wake => {
                let known = self.queue.thread(member).retry.unreachable.as_ref();
                if known.is_some_and(|known| known.reason == UnreachableReason::Dead) {
                    self.wake_thread(member);
                }
            }
        }
    }
}
