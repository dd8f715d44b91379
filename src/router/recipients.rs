//! The recipients of one message, without duplicates.
//!
//! A recipient that is reached in several ways gets one copy. The first of these that applies
//! decides about its sender, whatever the order of the recipients:
//!
//! 1. The envelope names it: the sender of the message asked for its reports.
//! 2. An alias leads to it, for the same sender.
//! 3. A list leads to it, which has an owner as its sender.
//!
//! What one sender asks for on several ways adds up.

use super::dsn;
use super::expand::MAX_RECIPIENTS;
use super::refusal::RecipientRefusal;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use zsched_format::control_file::compose::Address;

/// A recipient of an agent, or one that ends here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedRecipient {
    /// Index of its sender: 0 is that of the message, others are
    /// [`Expansion::owners`](super::Expansion::owners).
    pub sender: usize,
    /// True if the envelope names it, and no alias.
    pub is_in_envelope: bool,
    /// Channel, host, user and privilege.
    pub address: Address,
    /// Value of its `N` line.
    pub notify: Rc<str>,
    /// Why no agent gets it.
    pub end: Option<Box<RoutedEnd>>,
}

/// Why no agent gets a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutedEnd {
    /// It is refused.
    Refused(RecipientRefusal),
    /// It was a list: it is delivered by being expanded (RFC 3461, 5.2.7.3).
    Delivered,
    /// It was an alias of several addresses (RFC 3461, 5.2.7.2).
    Expanded,
}

/// Maximum size of the DSN parameters of all recipients together, in bytes.
///
/// Each member of an alias has those of the alias in the control file.
const MAX_PARAMETERS_SIZE: usize = 128 << 20;

/// More recipients than [`MAX_RECIPIENTS`], or too many bytes of DSN parameters.
#[derive(Debug)]
pub(crate) struct TooManyRecipients;

/// Recipients in the order in which they came up.
#[derive(Debug, Default)]
pub struct RecipientSet {
    recipients: Vec<RoutedRecipient>,
    /// The first recipient with each hash.
    known: HashMap<u64, u32>,
    hasher: RandomState,
    last_sum: Option<SumOfParameters>,
    /// Size of the DSN parameters that were added, in bytes.
    parameters_size: usize,
}

/// DSN parameters, and what they add up to.
///
/// The members of an alias share the text of their parameters. They must share the sum, too: such a
/// text may be long, and a message has up to [`MAX_RECIPIENTS`] recipients.
#[derive(Debug)]
struct SumOfParameters {
    parts: [Rc<str>; 2],
    sum: Rc<str>,
}

impl RoutedRecipient {
    /// The ways to a recipient, the last of which takes precedence.
    fn precedence(&self) -> (bool, bool) {
        (self.is_in_envelope, self.sender == 0)
    }

    fn is_same(&self, other: &RoutedRecipient) -> bool {
        self.address == other.address && self.end.is_some() == other.end.is_some()
    }
}

impl RecipientSet {
    /// The recipients.
    pub fn iter(&self) -> std::slice::Iter<'_, RoutedRecipient> {
        self.recipients.iter()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.recipients.is_empty()
    }

    /// Adds a recipient, or adds to what is known of it.
    pub(crate) fn add(&mut self, new: RoutedRecipient) -> Result<(), TooManyRecipients> {
        let Address { channel, host, user, .. } = &new.address;
        let hash = self.hasher.hash_one((channel, host, user, new.end.is_some()));
        match self.known.get(&hash) {
            Some(index) if self.recipients[*index as usize].is_same(&new) => {
                return self.join(*index as usize, new);
            }
            Some(_) => {}
            None => {
                self.known.insert(hash, self.recipients.len() as u32);
            }
        }
        self.parameters_size += new.notify.len();
        if self.recipients.len() == MAX_RECIPIENTS || self.parameters_size > MAX_PARAMETERS_SIZE {
            return Err(TooManyRecipients);
        }
        self.recipients.push(new);
        Ok(())
    }

    /// Joins two ways to a recipient.
    fn join(&mut self, index: usize, mut other: RoutedRecipient) -> Result<(), TooManyRecipients> {
        let known = &mut self.recipients[index];
        if other.precedence() > known.precedence() {
            std::mem::swap(known, &mut other);
        }
        if other.sender == known.sender {
            let parts = [&known.notify, &other.notify];
            let sum = SumOfParameters::of(&mut self.last_sum, parts);
            if !Rc::ptr_eq(&sum, &known.notify) {
                self.parameters_size += sum.len();
                known.notify = sum;
            }
        }
        match self.parameters_size > MAX_PARAMETERS_SIZE {
            true => Err(TooManyRecipients),
            false => Ok(()),
        }
    }
}

impl SumOfParameters {
    /// Adds up parameters. Repeated questions have the same answer, which is in memory once.
    fn of(last: &mut Option<SumOfParameters>, parts: [&Rc<str>; 2]) -> Rc<str> {
        let is_same = |last: &SumOfParameters| {
            last.parts.iter().zip(parts).all(|(known, part)| Rc::ptr_eq(known, part))
        };
        if let Some(last) = last.as_ref().filter(|last| is_same(last)) {
            return last.sum.clone();
        }
        let sum = dsn::sum(parts[0], parts[1]);
        *last = Some(SumOfParameters { parts: parts.map(Rc::clone), sum: sum.clone() });
        sum
    }
}

impl IntoIterator for RecipientSet {
    type Item = RoutedRecipient;
    type IntoIter = std::vec::IntoIter<RoutedRecipient>;

    fn into_iter(self) -> Self::IntoIter {
        self.recipients.into_iter()
    }
}
