//! Actions for all members of a window.
//!
//! The members are suspended together when their destination is dead, and woken together when it
//! answers again. A window may have a hundred thousand members, and delivery must not stop
//! meanwhile. So some of them are processed in each turn. Until the end, a window whose members are
//! being suspended makes none ready, and one whose members are being woken makes those ready that
//! are awake.

use crate::Scheduler;
use crate::dispatch::Dispatch;
use crate::dispatch::window::WindowId;
use crate::queue::{ThreadId, UnreachableReason};
use serde::{Deserialize, Serialize};
use std::ops::Bound;

/// Action for each member.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberAction {
    /// Wait until the window is tried again.
    ///
    /// It counts as tried, with the result of the window's cause.
    Suspend,
    /// Become due, if it was suspended.
    Wake,
}

/// An action, with its progress.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct MemberRound {
    pub(super) action: MemberAction,
    /// The last member that was processed.
    last: Option<ThreadId>,
}

impl Scheduler {
    /// Processes the first members of windows whose actions have started in this event.
    pub(crate) fn begin_window_rounds(&mut self) {
        while let Some(window) = self.dispatch.windows.started.pop_front() {
            self.continue_round(window, self.cx.settings.step());
        }
    }

    /// Continues the action of the first window.
    pub(crate) fn window_round_step(&mut self, budget: usize) -> usize {
        match self.dispatch.windows.rounds.first() {
            Some(window) => self.continue_round(*window, budget),
            None => budget,
        }
    }

    /// Continues the action of a window until `left` is used up.
    ///
    /// Returns the unused part.
    fn continue_round(&mut self, window: WindowId, mut left: usize) -> usize {
        // A member that is woken may come under a new clause, and leave the window as its last one.
        while self.dispatch.windows.rounds.contains(&window)
            && let Some(MemberRound { action, last }) = self.dispatch.windows[window].round
        {
            let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
            let mut members =
                self.dispatch.windows[window].members.range((behind, Bound::Unbounded));
            let Some(member) = members.next().map(|(member, _)| *member) else {
                self.dispatch.end_round(window);
                break;
            };
            if left == 0 {
                return 0;
            }
            left = left.saturating_sub(self.queue.thread(member).step_cost());
            self.dispatch.windows[window].round = Some(MemberRound { action, last: Some(member) });
            self.apply_to_member(window, member, action);
        }
        left
    }

    fn apply_to_member(&mut self, window: WindowId, member: ThreadId, action: MemberAction) {
        match action {
            MemberAction::Suspend => {
                if let Some(known) = self.dispatch.windows[window].suspension() {
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

impl Dispatch {
    /// Starts an action for all members of a window.
    ///
    /// An action that was under way is dropped.
    pub(super) fn start_round(&mut self, window: WindowId, action: MemberAction) {
        self.windows[window].round = Some(MemberRound { action, last: None });
        self.windows.rounds.insert(window);
        self.windows.started.push_back(window);
    }

    /// Ends the action of a window, complete or not.
    pub(crate) fn end_round(&mut self, window: WindowId) {
        self.windows[window].round = None;
        self.windows.rounds.remove(&window);
    }
}
