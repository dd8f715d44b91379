//! ZMailer's words for the reasons for which mail waits, and for the states of agents.

use zsched_core::why::Reason;
use zsched_core::{AgentState, Refusal};
use zsched_format::time::{ShortDuration, Timestamp};

/// The words for mail that has to wait for a time, or for an operator.
///
/// ZMailer knows only retries, and shows the other words as they are.
pub(crate) fn words_of_wait(reason: Reason, now: Timestamp) -> Option<String> {
    let left = |at: Timestamp| ShortDuration(at.seconds_since(now).max(0));
    Some(match reason {
        Reason::Held => "held".to_string(),
        Reason::Retry(at) => format!("retry in {}", left(at)),
        Reason::Scheduled(at) => format!("scheduled, in {}", left(at)),
        Reason::Kept => "kept, priority z".to_string(),
        _ => return None,
    })
}

/// A kind of limit on agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    /// All agents together.
    General,
    /// Agents of the channel.
    Channel,
    /// Agents of the ring.
    Ring,
}

/// The limit that prevents an agent, if that is the reason.
pub(crate) fn limit_of(reason: Reason) -> Option<LimitKind> {
    match reason {
        Reason::Refused(Refusal::MaxAgents) => Some(LimitKind::General),
        Reason::Refused(Refusal::MaxChannel) => Some(LimitKind::Channel),
        Reason::Refused(Refusal::MaxRing) => Some(LimitKind::Ring),
        _ => None,
    }
}

/// The text after `pend=` of a thread without an agent.
///
/// ZMailer has no text for some of the reasons; `None` is printed as nothing.
pub(crate) fn pending(reason: Reason) -> Option<&'static str> {
    let refusal = match reason {
        Reason::Refused(refusal) => refusal,
        Reason::Held | Reason::Kept | Reason::Job => return Some("Held"),
        Reason::Scheduled(_) => return Some("Scheduled"),
        Reason::Window => return Some("Window"),
        Reason::Pace => return Some("Rate"),
        Reason::AtWork | Reason::AgentStarting | Reason::InLine => return None,
        Reason::Retry(_) | Reason::Request | Reason::Turn => return None,
    };
    match refusal {
        // ZMailer has no text for `Claimed`; this is its text for the nearest reason.
        Refusal::MaxAgents | Refusal::Claimed => Some(">MaxTA"),
        Refusal::MaxChannel => Some(">MaxChannel"),
        Refusal::MaxRing => Some(">MaxRing"),
        Refusal::ForkRate => Some("ForkRateLimit"),
        Refusal::Suspended => Some("AgentsCannotStart"),
        Refusal::Unproven => Some("AgentsStarting"),
        Refusal::NotSelected => Some("procsel-mismatch"),
        Refusal::NoCommand => Some("ConfBUG:NoCmdDefined!"),
        // ZMailer has texts for the first three, but an earlier test hides them.
        Refusal::Frozen | Refusal::Loading | Refusal::Ending => None,
        Refusal::Reloading | Refusal::PriorityHeld => None,
    }
}

/// The keyword of an agent's state in reports.
pub(crate) fn state_word(state: AgentState) -> &'static str {
    match state {
        AgentState::Starting => "LARVA",
        AgentState::Working => "STUFF",
        AgentState::Parking | AgentState::Idle(_) => "IDLE",
        AgentState::Stopping(_) => "FINISH",
        AgentState::Killed | AgentState::ExitedMidJob => "ERROR",
    }
}
