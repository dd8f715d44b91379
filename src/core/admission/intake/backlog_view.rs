//! Messages that are not in memory because of `PARAMmessage-active-limit`.

use zsched_format::time::Timestamp;

/// A view of the control files that are not in memory.
pub trait BacklogView {
    /// Returns how many there are.
    fn waiting(&self) -> BacklogCounts;

    /// Returns the state of the one with this number.
    fn location(&self, number: u64) -> Option<FileLocation>;
}

/// Numbers of control files that are not in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacklogCounts {
    /// Files to be read as soon as there is room.
    pub waiting_files: usize,
    /// Messages paged out until a certain time.
    pub paged_out: usize,
    /// Files that could not be read, or are malformed and could not be moved aside.
    pub unreadable: usize,
}

/// State of a message that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLocation {
    /// It waits to be read, until there is room.
    Queued,
    /// It is being read.
    Loading,
    /// Paged out until this time; `None` means until its host's mail is requested.
    PagedOut(Option<Timestamp>),
}

/// All messages are in memory.
impl BacklogView for () {
    fn waiting(&self) -> BacklogCounts {
        BacklogCounts::default()
    }

    fn location(&self, _number: u64) -> Option<FileLocation> {
        None
    }
}
