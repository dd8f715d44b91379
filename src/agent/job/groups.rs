//! Work on several recipients with one delivery.

use super::Job;
use crate::halt::{Halt, HaltCause};
use crate::{Delivery, Outcome};
use zsched_format::control_file::{Recipient, Tag};

impl Job<'_> {
    /// Delivers to groups of recipients, one group after the other.
    ///
    /// This is for agents that serve several recipients with one copy of the message.
    /// `belongs` returns true if the second argument joins the group before it, which is never
    /// empty. Members of a group are neighbours in the control file, in reverse file order.
    /// `deliver` returns the outcome of all members.
    ///
    /// The members of a group are locked together just before. So after a crash those of one group
    /// may be delivered twice: `belongs` should limit its size. Otherwise as
    /// [`deliver_each`](Job::deliver_each).
    ///
    /// # Errors
    ///
    /// Recipients were skipped, or the agent has been stopped.
    pub fn deliver_groups(
        &mut self,
        belongs: impl Fn(&[Delivery<'_>], &Delivery<'_>) -> bool,
        mut deliver: impl FnMut(&[Delivery<'_>]) -> Outcome,
    ) -> Result<(), Halt> {
        self.try_deliver_groups(belongs, |group| {
            let outcome = deliver(group);
            Ok(vec![outcome; group.len()])
        })
    }

    /// Delivers to groups of recipients, by a function that returns an outcome for each member.
    ///
    /// The outcomes are in the order of the group. A member without one, at the end, is deferred.
    /// If `deliver` returns an error, no member of the group has an outcome:
    /// [`Halt::report_rest`] is about them, too. Otherwise as
    /// [`deliver_groups`](Job::deliver_groups).
    ///
    /// # Errors
    ///
    /// As [`deliver_groups`](Job::deliver_groups), and those of `deliver`.
    pub fn try_deliver_groups(
        &mut self,
        belongs: impl Fn(&[Delivery<'_>], &Delivery<'_>) -> bool,
        mut deliver: impl FnMut(&[Delivery<'_>]) -> Result<Vec<Outcome>, Halt>,
    ) -> Result<(), Halt> {
        let mut is_incomplete = false;
        while !self.pending.is_empty() {
            if self.is_stopping() {
                return Err(Halt(HaltCause::Stopped));
            }
            let group = self.take_group(&belongs);
            let count = group.len();
            let group = self.lock_group(group);
            is_incomplete |= group.len() < count;
            if !group.is_empty() {
                self.deliver_group(group, &mut deliver)?;
            }
        }
        match is_incomplete {
            true => Err(Halt::resync("some recipients could not be locked")),
            false => Ok(()),
        }
    }

    fn deliver_group(
        &mut self,
        group: Vec<Recipient>,
        deliver: &mut impl FnMut(&[Delivery<'_>]) -> Result<Vec<Outcome>, Halt>,
    ) -> Result<(), Halt> {
        let deliveries: Vec<Delivery<'_>> = group.iter().map(|r| self.delivery(*r)).collect();
        let mut outcomes = match deliver(&deliveries) {
            Ok(outcomes) => outcomes.into_iter(),
            Err(halt) => {
                self.give_back(group);
                return Err(halt);
            }
        };
        let mut moot = Vec::new();
        let mut left = self.pending.len() + group.len();
        for recipient in group {
            left -= 1;
            let outcome = outcomes.next().unwrap_or_else(Outcome::forgotten);
            match self.is_moot(&outcome) {
                true => moot.push(recipient),
                false => self.finish_recipient(&recipient, Tag::Locked, outcome, left == 0),
            }
        }
        match moot.is_empty() {
            true => Ok(()),
            false => {
                self.give_back(moot);
                Err(Halt(HaltCause::Stopped))
            }
        }
    }

    /// Makes the members of a group pending again.
    fn give_back(&mut self, group: Vec<Recipient>) {
        for recipient in group.into_iter().rev() {
            if !self.locked {
                self.unlock(&recipient);
            }
            self.pending.push(recipient);
        }
    }

    /// Takes the recipients of the next group out of the pending ones.
    fn take_group(
        &mut self,
        belongs: &impl Fn(&[Delivery<'_>], &Delivery<'_>) -> bool,
    ) -> Vec<Recipient> {
        let mut group: Vec<Delivery<'_>> = Vec::new();
        for delivery in self.deliveries() {
            if !group.is_empty() && !belongs(&group, &delivery) {
                break;
            }
            group.push(delivery);
        }
        let group: Vec<Recipient> = group.iter().map(|delivery| delivery.recipient).collect();
        self.pending.truncate(self.pending.len() - group.len());
        group
    }

    /// Locks the members of a group, and returns those that are locked now.
    ///
    /// A member that cannot be locked because of a system error is deferred.
    fn lock_group(&mut self, group: Vec<Recipient>) -> Vec<Recipient> {
        if self.locked {
            return group;
        }
        let attempts = self.with_file_lock(|job, is_current| {
            let lock = |recipient: Recipient| {
                let attempt = job.lock_recipient(&recipient, is_current);
                (recipient, attempt)
            };
            group.into_iter().map(lock).collect::<Vec<_>>()
        });
        let mut locked = Vec::with_capacity(attempts.len());
        for (recipient, attempt) in attempts {
            match attempt {
                Ok(true) => locked.push(recipient),
                Ok(false) => {}
                Err(error) => {
                    let outcome = Outcome::system_error("cannot lock the recipient", &error);
                    self.finish_recipient(&recipient, Tag::Pending, outcome, false);
                }
            }
        }
        locked
    }
}
