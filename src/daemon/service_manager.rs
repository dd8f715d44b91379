//! Messages to the service manager, systemd for example: sd_notify(3).
//!
//! Without `NOTIFY_SOCKET` in the environment there is no service manager, and nothing is sent.

use sd_notify::NotifyState;

/// Says that the scheduler serves: at the start, and after each reload.
pub(crate) fn notify_ready() {
    notify(&[NotifyState::Ready]);
}

/// Says that the configuration is being read again; [`notify_ready`] says when that is done.
pub(crate) fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => log::warn!("the monotonic clock: {error}"),
    }
}

/// Says that the scheduler is ending, and why.
pub(crate) fn notify_stopping(reason: &str) {
    notify(&[NotifyState::Stopping, NotifyState::Status(reason)]);
}

/// A message that cannot be sent is logged: delivery does not depend on it.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::warn!("the service manager cannot be notified: {error}");
    }
}
