//! The answer of an operator's order.

use serde::Serialize;
use zsched_core::overrides::{MAX_HELD_MESSAGES, MAX_OVERRIDES};
use zsched_core::{Effect, OrderRefusal};
use zsched_format::printable;

/// The kind of an order: it determines the words of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// HOLD of destinations or a ring.
    Hold,
    /// HOLD of messages.
    HoldMessages,
    /// RELEASE.
    Release,
    /// SET.
    Set,
    /// UNSET.
    Unset,
    /// RETIRE.
    Retire,
    /// All others; the core never refuses these.
    Other,
}

/// What an order has changed, or would change.
#[derive(Serialize)]
struct Counts {
    messages: u32,
    recipients: u32,
    threads: u32,
    busy: u32,
    held: u32,
    agents: u32,
    started: bool,
    dry_run: bool,
    /// Messages that are not in memory and were not examined.
    #[serde(skip_serializing_if = "is_zero")]
    unseen: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Formats the answer to an order with this effect, with its line end.
pub fn tell(kind: Kind, effect: &Effect, dry_run: bool) -> String {
    tell_of_many(kind, effect, dry_run, 0)
}

/// The same, with the number of messages that could not be examined.
pub fn tell_of_many(kind: Kind, effect: &Effect, dry_run: bool, unseen: usize) -> String {
    if let Some(refusal) = effect.refusal {
        return format!("-{}\n", refused(kind, refusal, effect));
    }
    if let Some(error) = effect.unstored {
        let far = counted(effect);
        return format!("-in force, but could not be stored: {error}; tried again ({far})\n");
    }
    let Effect { messages, recipients, threads, busy, held, agents, started, .. } = *effect;
    let counts =
        Counts { messages, recipients, threads, busy, held, agents, started, dry_run, unseen };
    let counts = serde_json::to_string(&counts).unwrap_or_default();
    format!("+OK {counts}\n")
}

fn refused(kind: Kind, refusal: OrderRefusal, effect: &Effect) -> String {
    match (refusal, kind) {
        (OrderRefusal::NotFound, Kind::Release) => "it is not held".to_string(),
        (OrderRefusal::NotFound, Kind::Unset) => "this limit is not set".to_string(),
        (OrderRefusal::NotFound, Kind::Retire) => "there is no agent of this process".to_string(),
        (OrderRefusal::NotFound, _) => "there is no such message".to_string(),
        (OrderRefusal::Already, _) => "it is held already".to_string(),
        (OrderRefusal::TooMany, Kind::HoldMessages) => {
            let far = counted(effect);
            format!("no more than {MAX_HELD_MESSAGES} messages can be held one by one ({far})")
        }
        (OrderRefusal::TooMany, Kind::Set) => {
            format!("no more than {MAX_OVERRIDES} limits can be set")
        }
        (OrderRefusal::TooMany, _) => format!("there can be no more than {MAX_OVERRIDES} holds"),
        (OrderRefusal::OfRings, _) => {
            "this is a limit of rings: ring=channel/host; only maxthr is one of destinations, too"
                .to_string()
        }
        (OrderRefusal::BadValue, _) => "the value is out of range".to_string(),
    }
}

/// Describes the progress of an order.
pub fn counted(effect: &Effect) -> String {
    let Effect { messages, recipients, busy, .. } = effect;
    format!("{messages} messages, {recipients} recipients, and {busy} that agents have")
}

/// Formats a refusal as one line, with its line end, whatever it contains.
///
/// Several reasons are separated by TABs.
pub fn refuse(text: &str) -> String {
    format!("-{}\n", printable::line(text))
}
