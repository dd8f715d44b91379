//! Times of delivery that senders set: not before an instant, and in a window of the day.
//!
//! While the times do not allow delivery, the vertices of a message are held back as if an operator
//! held it: a request for the host does not wake them, and they do not expire. When the time has
//! come, they are due. When its window closes, what no agent has is held back again. Many messages
//! with the same time are released in steps. The limits of rings and windows then apply as usual.
//!
//! The times are of the clock. A step of the clock changes none of them, so all are checked again.
//!
//! A deadline of the sender (DELIVERBY) counts meanwhile, too.

use crate::queue::retry::seconds_of;
use crate::queue::{MessageFlag, MessageId, Queue};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zsched_format::schedule::DayWindow;
use zsched_format::time::Timestamp;
use zsched_spool::{Arrival, Schedule};

/// Maximum number of windows that messages share.
///
/// A message with another window has a copy of its own.
const MAX_SHARED_WINDOWS: usize = 64;

/// The times of messages whose senders have set any.
#[derive(Default, Serialize, Deserialize)]
pub struct Schedules {
    of: BTreeMap<MessageId, MessageSchedule>,
    /// When each is checked next.
    checks: BTreeSet<(Timestamp, MessageId)>,
    /// The next message to be checked after a step of the clock.
    recheck: Option<MessageId>,
    #[serde(skip)]
    windows: Vec<Rc<DayWindow>>,
}

/// The times of a message.
#[derive(Serialize, Deserialize)]
struct MessageSchedule {
    /// The first second of delivery, since the epoch.
    not_before: u32,
    window: Option<Rc<DayWindow>>,
    /// The first time at or after the arrival that both allow, in seconds since the epoch.
    first: u32,
    /// When it is checked next.
    check: Option<Timestamp>,
}

impl MessageSchedule {
    fn not_before(&self) -> Timestamp {
        Timestamp::from_seconds(self.not_before.into())
    }

    /// The first instant at or after another one at which delivery is allowed.
    fn next_open(&self, at: Timestamp) -> Timestamp {
        let at = at.max(self.not_before());
        self.window.as_ref().map_or(at, |window| window.next_open(at))
    }

    /// When delivery is no longer allowed, if it is now.
    fn next_close(&self, now: Timestamp) -> Option<Timestamp> {
        self.window.as_ref()?.next_change(now)
    }
}

impl Schedules {
    fn insert(&mut self, message: MessageId, schedule: &Schedule, arrived: Timestamp) {
        let Schedule { not_before, window } = schedule.clone();
        let window = window.map(|window| self.share(window));
        let mut schedule = MessageSchedule { not_before, window, first: 0, check: None };
        schedule.first = seconds_of(schedule.next_open(arrived));
        self.of.insert(message, schedule);
    }

    /// The first time that the sender of a message allows.
    pub fn first_opening(&self, message: MessageId) -> Option<Timestamp> {
        Some(Timestamp::from_seconds(self.of.get(&message)?.first.into()))
    }

    /// The same window as other messages have, to save memory.
    fn share(&mut self, window: DayWindow) -> Rc<DayWindow> {
        if let Some(known) = self.windows.iter().find(|known| ***known == window) {
            return known.clone();
        }
        let window = Rc::new(window);
        if self.windows.len() >= MAX_SHARED_WINDOWS {
            self.windows.retain(|window| Rc::strong_count(window) > 1);
        }
        if self.windows.len() < MAX_SHARED_WINDOWS {
            self.windows.push(window.clone());
        }
        window
    }

    /// Forgets a message that leaves memory.
    pub fn forget(&mut self, message: MessageId) {
        if let Some(MessageSchedule { check: Some(check), .. }) = self.of.remove(&message) {
            self.checks.remove(&(check, message));
        }
    }

    /// Sets when a message is checked next.
    fn check_at(&mut self, message: MessageId, time: Option<Timestamp>) {
        let Some(schedule) = self.of.get_mut(&message) else { return };
        if let Some(former) = std::mem::replace(&mut schedule.check, time) {
            self.checks.remove(&(former, message));
        }
        self.checks.extend(time.map(|time| (time, message)));
    }

    /// Checks all messages again, because the clock was set.
    pub fn check_all(&mut self) {
        self.recheck = self.of.keys().next().copied();
    }

    /// When a message is to be checked next.
    pub fn next_check(&self, now: Timestamp) -> Option<Timestamp> {
        let again = self.recheck.map(|_| now);
        again.or_else(|| self.checks.first().map(|(time, _)| *time))
    }

    /// Takes the next message that is to be checked now.
    pub(crate) fn take_check(&mut self, now: Timestamp) -> Option<MessageId> {
        if let Some(from) = self.recheck {
            let mut left = self.of.range(from..).map(|(message, _)| *message);
            let next = left.next();
            self.recheck = left.next();
            return next.or_else(|| self.take_check(now));
        }
        self.checks.first().filter(|(time, _)| *time <= now).map(|(_, message)| *message)
    }

    /// When a message is released, closed or checked for its deadline next.
    pub fn next_change_of(&self, message: MessageId) -> Option<Timestamp> {
        self.of.get(&message)?.check
    }

    /// The first instant from now on at which the times of a message allow delivery.
    pub fn next_opening(&self, message: MessageId, now: Timestamp) -> Option<Timestamp> {
        Some(self.of.get(&message)?.next_open(now))
    }

    /// The window of the day of a message.
    pub fn window(&self, message: MessageId) -> Option<Rc<DayWindow>> {
        self.of.get(&message)?.window.clone()
    }

    /// The times of a message as they arrived.
    pub fn arrival_schedule(&self, message: MessageId) -> Option<Box<Schedule>> {
        let MessageSchedule { not_before, window, .. } = self.of.get(&message)?;
        let window = window.as_deref().cloned();
        Some(Box::new(Schedule { not_before: *not_before, window }))
    }

    /// Panics if a check is missing.
    pub fn check(&self) {
        let checks = self.of.values().filter(|schedule| schedule.check.is_some()).count();
        assert_eq!(checks, self.checks.len(), "checks of scheduled messages");
        for (time, message) in &self.checks {
            assert_eq!(self.next_change_of(*message), Some(*time), "check of a message");
        }
    }
}

impl Queue {
    /// The next message whose times are to be compared with the present time.
    pub(crate) fn next_schedule_check(&mut self, now: Timestamp) -> Option<MessageId> {
        self.messages.schedules.take_check(now)
    }

    /// Sets the times of a message that arrives, before its recipients are queued.
    pub(crate) fn schedule_arrival(
        &mut self,
        now: Timestamp,
        message: MessageId,
        arrival: &Arrival,
    ) {
        let Some(schedule) = &arrival.schedule else { return };
        let messages = &mut self.messages;
        messages.schedules.insert(message, schedule, arrival.modified);
        self.update_schedule(now, message);
        if self.messages[message].is(MessageFlag::Scheduled)
            && self.has_passed_deadline(now, message)
        {
            self.messages.schedules.check_at(message, Some(now));
        }
    }

    /// Sets whether a message is scheduled, and when it is checked next.
    pub(crate) fn update_schedule(&mut self, now: Timestamp, message: MessageId) {
        let Some(schedule) = self.messages.schedules.of.get(&message) else { return };
        let open = schedule.next_open(now);
        let is_scheduled = open > now;
        let next = if is_scheduled { Some(open) } else { schedule.next_close(now) };
        let message_ref = &mut self.messages[message];
        message_ref.set(MessageFlag::Scheduled, is_scheduled);
        let deadlines = message_ref.fails_at().into_iter().chain(message_ref.notice_at());
        let deadline = deadlines.filter(|deadline| is_scheduled && *deadline > now);
        let next = next.into_iter().chain(deadline).min();
        self.messages.schedules.check_at(message, next);
    }

    pub(crate) fn has_passed_deadline(&self, now: Timestamp, message: MessageId) -> bool {
        let message = &self.messages[message];
        let mut deadlines = message.fails_at().into_iter().chain(message.notice_at());
        deadlines.any(|deadline| deadline <= now)
    }
}
