//! Messages that are not in memory because of `PARAMmessage-active-limit`.

use zsched_format::time::Timestamp;

/// A view of the control files that are not in memory.
pub trait Elsewhere {
    /// Returns how many there are.
    fn waiting(&self) -> Waiting;

    /// Returns the state of the one with this number.
    fn whereabouts(&self, number: u64) -> Option<Whereabouts>;
}

/// Numbers of control files that are not in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Files to be read as soon as there is room.
    pub to_be_read: usize,
    /// Messages paged out until a certain time.
    pub resting: usize,
}

/// State of a message that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It waits to be read, until there is room.
    InLine,
    /// It is being read.
    Read,
    /// Paged out until this time; `None` means until its host's mail is requested.
    PagedOut(Option<Timestamp>),
}

/// All messages are in memory.
impl Elsewhere for () {
    fn waiting(&self) -> Waiting {
        Waiting::default()
    }

    fn whereabouts(&self, _number: u64) -> Option<Whereabouts> {
        None
    }
}
