//! What is known of messages that are not in memory, because there is no room for them
//! (`PARAMmessage-active-limit`).

use zsched_format::time::Timestamp;

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

/// Everything is in memory.
impl Elsewhere for () {
    fn waiting(&self) -> Waiting {
        Waiting::default()
    }

    fn whereabouts(&self, _number: u64) -> Option<Whereabouts> {
        None
    }
}
