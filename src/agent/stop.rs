//! Stops the agent on a signal without losing anything.
//!
//! HUP, INT, TERM and QUIT stop the agent. While it waits for an order it holds nothing, and ends
//! at once. Otherwise it ends after the current recipient. A signal that was ignored when the agent
//! was started stays ignored.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zsched_sys as sys;

/// The flag that a signal has requested the end of the agent.
#[derive(Clone, Debug, Default)]
pub(super) struct StopFlag {
    requested: Arc<AtomicBool>,
    waiting: Arc<AtomicBool>,
}

impl StopFlag {
    /// Installs the signal handlers.
    ///
    /// A file that grows beyond the limit (`RLIMIT_FSIZE`) then causes a write error instead of
    /// ending the agent.
    pub(super) fn install() -> io::Result<StopFlag> {
        let stop = StopFlag::default();
        for signal in [SIGHUP, SIGINT, SIGTERM, SIGQUIT] {
            if sys::is_ignored(signal) {
                continue;
            }
            // The order matters: a waiting agent must end at the first handler.
            flag::register_conditional_shutdown(signal, 0, Arc::clone(&stop.waiting))?;
            flag::register(signal, Arc::clone(&stop.requested))?;
        }
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(stop)
    }

    /// Returns true if the agent must not begin another recipient.
    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }

    /// Simulates a signal.
    #[cfg(test)]
    pub(super) fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// Calls `wait`, during which a signal ends the process. Returns `None` if one came before.
    pub(super) fn interruptible<T>(&self, wait: impl FnOnce() -> T) -> Option<T> {
        self.waiting.store(true, Ordering::SeqCst);
        let result = if self.is_requested() { None } else { Some(wait()) };
        self.waiting.store(false, Ordering::SeqCst);
        result
    }
}
