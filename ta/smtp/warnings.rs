//! Warnings of libraries, which become lines of the scheduler's log.

use log::{LevelFilter, Log, Metadata, Record};
use std::sync::Mutex;

/// Maximum number of warnings that are kept; later ones are lost.
const MAX_KEPT: usize = 100;

static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Keeper;

/// Begins to keep warnings.
pub fn keep() {
    // It fails if there is a logger already, which then has the warnings.
    if log::set_logger(&Keeper).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

/// The warnings since the last call.
pub fn take() -> Vec<String> {
    KEPT.lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default()
}

impl Log for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("zsched")
    }

    fn log(&self, record: &Record<'_>) {
        if let Ok(mut kept) = KEPT.lock()
            && self.enabled(record.metadata())
            && kept.len() < MAX_KEPT
        {
            kept.push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}
