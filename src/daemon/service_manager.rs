//! Messages to the service manager, systemd for example: sd_notify(3).
//!
//! Without `NOTIFY_SOCKET` in the environment there is no service manager, and nothing is sent.

use zsched_service::notify_manager;

/// Reports that the scheduler serves: at the start, and after each reload.
pub(crate) fn notify_ready() {
    notify_manager("READY=1");
}

/// Reports that the configuration is being read again; [`notify_ready`] reports the end of that.
pub(crate) fn notify_reloading() {
    notify_manager("RELOADING=1");
}

/// Reports the present work of the scheduler, in one line.
pub(crate) fn notify_status(status: &str) {
    notify_manager(&format!("STATUS={status}"));
}

/// Reports that the scheduler ends now. From here on the service manager limits its time.
pub(crate) fn notify_stopping() {
    notify_manager("STOPPING=1");
}
