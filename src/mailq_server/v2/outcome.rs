//! The answer of an operator's order.

use zsched_core::overrides::{MAX_HELD_MESSAGES, MAX_OVERRIDES};
use zsched_core::{Effect, OrderRefusal};
use zsched_format::printable;
use zsched_mailq_protocol::schema::{LimitChange, OrderResult};

/// The refusal of a request about a bulk job that is not known.
pub(super) const NO_JOB: &str = "there is no such bulk job, or it is finished";

/// The kind of an order: it determines the words of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderKind {
    /// HOLD of destinations or a ring.
    Hold,
    /// HOLD of messages.
    HoldMessages,
    /// PRIORITY.
    Priority,
    /// RELEASE.
    Release,
    /// SET.
    Set,
    /// UNSET.
    Unset,
    /// RETIRE.
    Retire,
    /// JOB.
    Job,
    /// All others; the core never refuses these.
    Other,
}

/// Formats the answer to an order with this effect, with its line end.
///
/// `unseen` is the number of messages that could not be examined.
pub(super) fn answer(
    kind: OrderKind,
    effect: &Effect,
    dry_run: bool,
    unseen: usize,
    limits: Vec<LimitChange>,
) -> String {
    if let Some(refusal) = effect.refusal {
        return format!("-{}\n", refused(kind, refusal, effect));
    }
    if let Some(error) = effect.unstored {
        let done = effect_counts(effect);
        return format!(
            "-in force, but could not be stored: {error}; storing is retried ({done})\n"
        );
    }
    let Effect { messages, recipients, threads, busy, held, agents, started, .. } = *effect;
    let counts = OrderResult {
        messages: u64::from(messages),
        recipients: u64::from(recipients),
        threads: u64::from(threads),
        busy: u64::from(busy),
        held: u64::from(held),
        agents: u64::from(agents),
        started,
        dry_run,
        unseen: unseen as u64,
        limits,
    };
    let counts = serde_json::to_string(&counts).unwrap_or_default();
    format!("+OK {counts}\n")
}

fn refused(kind: OrderKind, refusal: OrderRefusal, effect: &Effect) -> String {
    match (refusal, kind) {
        (OrderRefusal::NotFound, OrderKind::Release) => {
            "no matching hold now; mailq orders lists the holds".to_string()
        }
        (OrderRefusal::NotFound, OrderKind::Unset) => {
            "no matching limit now; mailq orders lists the limits that were set".to_string()
        }
        (OrderRefusal::NotFound, OrderKind::Retire) => "no matching agent now".to_string(),
        (OrderRefusal::NotFound, OrderKind::Job) => NO_JOB.to_string(),
        (OrderRefusal::NotFound, _) => "no matching mail now".to_string(),
        (OrderRefusal::Already, _) => "already held".to_string(),
        (OrderRefusal::TooMany, OrderKind::HoldMessages) => {
            let done = effect_counts(effect);
            format!("at most {MAX_HELD_MESSAGES} messages can be held one by one ({done})")
        }
        (OrderRefusal::TooMany, OrderKind::Priority) => {
            let done = effect_counts(effect);
            format!("at most {MAX_HELD_MESSAGES} messages can have a priority set ({done})")
        }
        (OrderRefusal::TooMany, OrderKind::Set) => {
            format!("at most {MAX_OVERRIDES} limits can be set")
        }
        (OrderRefusal::TooMany, _) => format!("at most {MAX_OVERRIDES} holds are possible"),
        (OrderRefusal::OfRings, _) => {
            "this limit is one of clauses (ring=channel/host); only maxthr can also be that of a \
             destination"
                .to_string()
        }
        (OrderRefusal::JobCancelled, _) => "the job is cancelled".to_string(),
        (OrderRefusal::NothingLost, _) => "no packets of the job have vanished".to_string(),
        (OrderRefusal::BadValue, _) => {
            "the value is out of range (1 to 1000000; overfeed 0 to 10000)".to_string()
        }
    }
}

/// Describes the progress of an order.
pub(super) fn effect_counts(effect: &Effect) -> String {
    let Effect { messages, recipients, busy, .. } = effect;
    let [messages, recipients] = [(messages, "message"), (recipients, "recipient")]
        .map(|(number, thing)| printable::count(u64::from(*number), thing));
    format!("{messages}, {recipients}, and {busy} in agents")
}

/// Formats a refusal as one line, with its line end, whatever it contains.
///
/// Several reasons are separated by TABs.
pub(super) fn refusal_line(why: impl AsRef<[u8]>) -> String {
    format!("-{}\n", printable::line(&why))
}
