//! What is known of messages that are not in memory, because there is no room for them
//! (`PARAMmessage-active-limit`).

use crate::mailq::why::clock;
use crate::time::Timestamp;

/// Whoever knows of control files that are not in memory.
pub trait Elsewhere {
    /// How many there are.
    fn waiting(&self) -> Waiting;

    /// What is known of the one with a number.
    fn whereabouts(&self, number: u64) -> Option<Whereabouts>;
}

/// How many control files are not in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// To be read as soon as there is room.
    pub to_be_read: usize,
    /// Messages that rest until a certain time.
    pub resting: usize,
}

/// Where a message is that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It is to be read when there is room for it.
    InLine,
    /// It is being read.
    Read,
    /// It rests until this time; `None` is when somebody asks for it.
    Rests(Option<Timestamp>),
}

impl Whereabouts {
    /// The same in words.
    pub fn sentence(self, now: Timestamp) -> String {
        let limit = "PARAMmessage-active-limit";
        match self {
            Whereabouts::InLine => {
                format!("it waits on disk until there is room in memory ({limit})")
            }
            Whereabouts::Read => "it is being read".to_string(),
            Whereabouts::Rests(Some(until)) => {
                format!("it was tried, and rests on disk until {} ({limit})", clock(until, now))
            }
            Whereabouts::Rests(None) => {
                format!("it rests on disk until somebody asks for its host ({limit})")
            }
        }
    }
}

/// Everything is in memory.
impl Elsewhere for () {
    fn waiting(&self) -> Waiting {
        Waiting::default()
    }

    fn whereabouts(&self, _number: u64) -> Option<Whereabouts> {
        None
    }
}
