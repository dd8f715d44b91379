//! Messages to the service manager, systemd for example: sd_notify(3).
//!
//! Without `NOTIFY_SOCKET` in the environment there is no service manager, and nothing is sent.

use zsched_sys::notify_service_manager;

/// Reports that the scheduler serves: at the start, and after each reload.
pub(crate) fn notify_ready() {
    notify("READY=1");
}

/// Reports that the configuration is being read again; [`notify_ready`] reports the end of that.
pub(crate) fn notify_reloading() {
    notify("RELOADING=1");
}

/// Reports the present work of the scheduler, in one line.
pub(crate) fn notify_status(status: &str) {
    notify(&format!("STATUS={status}"));
}

/// Reports that the scheduler ends now. From here on the service manager limits its time.
pub(crate) fn notify_stopping() {
    notify("STOPPING=1");
}

/// A message that cannot be sent is logged: delivery does not depend on it.
fn notify(message: &str) {
    if let Err(error) = notify_service_manager(message) {
        log::warn!("the service manager cannot be notified: {error}");
    }
}
