//! Ending on a signal without losing anything.
//!
//! HUP, INT, TERM and QUIT end the agent: at once while it waits for an order, since it holds nothing
//! then, and otherwise when the recipient at hand is done. A signal that was ignored when the agent
//! was started stays ignored.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zsched_sys as sys;

/// Whether a signal has asked the agent to end.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop {
    requested: Arc<AtomicBool>,
    waiting: Arc<AtomicBool>,
}

impl Stop {
    /// Begins to listen to signals. A file that grows beyond the limit (`RLIMIT_FSIZE`) becomes an
    /// error of the write, instead of the end of the agent.
    pub(super) fn on_signals() -> io::Result<Stop> {
        let stop = Stop::default();
        for signal in [SIGHUP, SIGINT, SIGTERM, SIGQUIT] {
            if sys::is_ignored(signal) {
                continue;
            }
            // The order matters: a waiting agent must not get as far as the second one.
            flag::register_conditional_shutdown(signal, 0, Arc::clone(&stop.waiting))?;
            flag::register(signal, Arc::clone(&stop.requested))?;
        }
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(stop)
    }

    /// Whether the agent shall take no further recipient.
    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }

    /// As if a signal had come.
    #[cfg(test)]
    pub(super) fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// Calls `wait`, during which a signal ends the process. `None` if one came in before.
    pub(super) fn while_waiting<T>(&self, wait: impl FnOnce() -> T) -> Option<T> {
        self.waiting.store(true, Ordering::SeqCst);
        let result = if self.is_requested() { None } else { Some(wait()) };
        self.waiting.store(false, Ordering::SeqCst);
        result
    }
}
