//! Mapping between sources of readiness and mio tokens.

use mio::Token;
use zsched_core::AgentId;

/// Source of readiness events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Signals.
    Signals,
    /// Results of a worker, which wakes the loop through the waker.
    Files,
    /// Notices of routers.
    Notify,
    /// New connections at the listener of this number.
    Listener(usize),
    /// Socket of an agent.
    Agent(AgentId),
    /// Socket of a client.
    Client(usize),
}

/// Number of kinds a token can distinguish: its low bits are the kind, the others the number.
const KINDS: usize = 8;

impl Source {
    /// Token of this source.
    pub fn token(self) -> Token {
        let (kind, number) = match self {
            Source::Signals => (0, 0),
            Source::Files => (1, 0),
            Source::Notify => (2, 0),
            Source::Listener(number) => (3, number),
            Source::Agent(AgentId(number)) => (4, number as usize),
            Source::Client(number) => (5, number),
        };
        Token(number * KINDS + kind)
    }

    /// Source of a token created by [`token`](Source::token).
    pub fn of(token: Token) -> Source {
        let number = token.0 / KINDS;
        match token.0 % KINDS {
            0 => Source::Signals,
            1 => Source::Files,
            2 => Source::Notify,
            3 => Source::Listener(number),
            4 => Source::Agent(AgentId(number as u64)),
            _ => Source::Client(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_token_converts_back_to_source() {
        for source in [
            Source::Signals,
            Source::Files,
            Source::Notify,
            Source::Listener(1),
            Source::Agent(AgentId(4711)),
            Source::Client(17),
        ] {
            assert_eq!(Source::of(source.token()), source);
        }
    }
}
