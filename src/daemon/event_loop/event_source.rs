//! Mapping between sources of readiness and mio tokens.

use mio::Token;
use zsched_core::AgentId;

/// Source of readiness events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    /// Signals.
    Signals,
    /// Results of a worker, which wakes the loop through the waker.
    Workers,
    /// Notices of routers.
    Notify,
    /// Control files that got their names.
    Arrivals,
    /// New connections at the listener of this number.
    Listener(usize),
    /// Socket of an agent.
    Agent(AgentId),
    /// Socket of a client.
    Client(usize),
}

/// Number of kinds a token can distinguish: its low bits are the kind, the others the number.
const SOURCE_KINDS: usize = 8;

impl EventSource {
    /// Token of this source.
    pub(crate) fn token(self) -> Token {
        let (kind, number) = match self {
            EventSource::Signals => (0, 0),
            EventSource::Workers => (1, 0),
            EventSource::Notify => (2, 0),
            EventSource::Listener(number) => (3, number),
            EventSource::Agent(AgentId(number)) => (4, number as usize),
            EventSource::Client(number) => (5, number),
            EventSource::Arrivals => (6, 0),
        };
        Token(number * SOURCE_KINDS + kind)
    }

    /// Source of a token created by [`token`](EventSource::token).
    pub(crate) fn of(token: Token) -> EventSource {
        let number = token.0 / SOURCE_KINDS;
        match token.0 % SOURCE_KINDS {
            0 => EventSource::Signals,
            1 => EventSource::Workers,
            2 => EventSource::Notify,
            3 => EventSource::Listener(number),
            4 => EventSource::Agent(AgentId(number as u64)),
            6 => EventSource::Arrivals,
            _ => EventSource::Client(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_token_converts_back_to_source() {
        for source in [
            EventSource::Signals,
            EventSource::Workers,
            EventSource::Notify,
            EventSource::Arrivals,
            EventSource::Listener(1),
            EventSource::Agent(AgentId(4711)),
            EventSource::Client(17),
        ] {
            assert_eq!(EventSource::of(source.token()), source);
        }
    }
}
