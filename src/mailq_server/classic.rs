//! ZMailer's words for the reasons for which mail waits, and for the states of agents.

use zsched_core::why::Reason;
use zsched_core::{AgentState, Refusal};

/// The reason of mail that an operator holds. ZMailer knows no holds, and shows the word as it is.
pub(crate) const HELD: &str = "held";

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
        Reason::Held | Reason::Kept => return Some("Held"),
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
