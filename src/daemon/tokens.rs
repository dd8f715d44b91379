//! Which source a readiness event belongs to.

use mio::Token;
use zsched_core::AgentId;

/// A source of readiness events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A signal has come.
    Signals,
    /// A helper thread has done something, or the one that writes the rendezvous file.
    Files,
    /// A router has sent a notice.
    Notify,
    /// A MAILQ client wants to connect to the listener of this number.
    Listener(usize),
    /// An agent.
    Agent(AgentId),
    /// A MAILQ client.
    Client(usize),
}

/// The low bits of a token tell the kind of the source, the others its number.
const KINDS: usize = 8;

impl Source {
    /// The token of this source.
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

    /// The source of a token that [`token`](Source::token) has made.
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
    fn sources_come_back_from_their_tokens() {
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
