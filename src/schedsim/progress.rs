//! Progress bars on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use std::fs;
use std::path::Path;
use std::time::Duration;
use zsched_core::{Event, Scheduler};
use zsched_format::printable;
use zsched_recorder::{ReplayObserver, ReplayedEvent};

/// Number of events between two positions of a bar.
const EVENTS_PER_STEP: u64 = 1024;

/// The bar of a simulation or a replay. It disappears when it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    fn new(name: &str, length: u64) -> Progress {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}% after {elapsed}");
        let bar = ProgressBar::new(length)
            .with_style(style.expect("the template can be parsed"))
            .with_message(printable::line(name).into_owned())
            .with_finish(ProgressFinish::AndClear);
        Progress(bar)
    }

    /// Shows the part of the virtual time that has passed.
    pub(crate) fn of_simulation(name: &str, length: Duration) -> Progress {
        Progress::new(name, length.as_secs())
    }

    /// Shows the part of a recording that has been read.
    pub(crate) fn of_recording(path: &Path) -> Progress {
        let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
        Progress::new(&path.display().to_string(), length)
    }

    /// Sets the virtual time that has passed.
    pub(crate) fn set_time(&self, passed: Duration) {
        self.0.set_position(passed.as_secs());
    }
}

impl ReplayObserver for Progress {
    fn before(&mut self, replayed: &ReplayedEvent, _: &Event<'_>, _: &Scheduler) {
        if replayed.number.is_multiple_of(EVENTS_PER_STEP) {
            self.0.set_position(replayed.offset);
        }
    }
}
