//! Actions for all members of a window.
//!
//! The members are suspended together when their destination is dead, and woken together when it
//! answers again. A window may have a hundred thousand members, and delivery must not stop
//! meanwhile. So some of them are processed in each turn. Until the end, a window whose members are
//! being suspended makes none ready, and one whose members are being woken makes those ready that
//! are awake.

use crate::dispatch::Dispatch;
use crate::dispatch::window::WindowId;
use crate::queue::ThreadId;
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

impl Dispatch {
    /// The next window whose action has started in this event.
    pub(crate) fn next_started_round(&mut self) -> Option<WindowId> {
        self.windows.started.pop_front()
    }

    /// The first window with an action that is not complete.
    pub(crate) fn first_round(&self) -> Option<WindowId> {
        self.windows.rounds.first().copied()
    }

    /// The next member for the action of a window. Ends the action if there is none.
    pub(crate) fn next_of_round(&mut self, window: WindowId) -> Option<(ThreadId, MemberAction)> {
        if !self.windows.rounds.contains(&window) {
            return None;
        }
        let MemberRound { action, last } = self.windows[window].round?;
        let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut members = self.windows[window].members.range((behind, Bound::Unbounded));
        let next = members.next().map(|(member, _)| (*member, action));
        if next.is_none() {
            self.end_round(window);
        }
        next
    }

    /// Records that the action of a window comes to a member.
    pub(crate) fn advance_round(&mut self, window: WindowId, member: ThreadId) {
        if let Some(round) = &mut self.windows[window].round {
            round.last = Some(member);
        }
    }

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
