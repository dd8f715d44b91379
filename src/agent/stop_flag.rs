//! Stops the agent on a signal without losing anything.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flag that requests the end of an agent. Clones share it.
///
/// An agent ends after the current recipient. It reports nothing about the others, which another
/// agent gets at once.
///
/// ```
/// use zsched_agent::StopFlag;
///
/// let stop = StopFlag::default();
/// let of_agent = stop.clone();
/// stop.request();
/// assert!(of_agent.is_requested());
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    requested: Arc<AtomicBool>,
    waiting: Arc<AtomicBool>,
}

impl StopFlag {
    /// Creates the flag that SIGHUP, SIGINT, SIGTERM and SIGQUIT set.
    ///
    /// While the agent waits for a job it holds nothing, and such a signal ends the process at
    /// once, with status 0. A signal that was ignored when the agent was started stays ignored.
    ///
    /// SIGXFSZ is caught as well. A file that grows beyond the limit (`RLIMIT_FSIZE`) then causes a
    /// write error instead of ending the agent.
    ///
    /// # Errors
    ///
    /// Those of `sigaction(2)`.
    pub fn on_signals() -> io::Result<StopFlag> {
        let stop = StopFlag::default();
        for signal in [SIGHUP, SIGINT, SIGTERM, SIGQUIT] {
            if zsched_sys::is_ignored(signal) {
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
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }

    /// Requests the end of the agent, as a signal does.
    ///
    /// An agent that waits for a job notices it after the next line.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// Calls `wait`, during which a signal ends the process. Returns `None` if one came before.
    pub(crate) fn interruptible<T>(&self, wait: impl FnOnce() -> T) -> Option<T> {
        self.waiting.store(true, Ordering::SeqCst);
        let result = if self.is_requested() { None } else { Some(wait()) };
        self.waiting.store(false, Ordering::SeqCst);
        result
    }
}
