//! What the services of zsched share: the scheduler, the router and the SMTP server.
//!
//! This crate decides where the files of an installation are, how a service keeps a second one of
//! its kind off a spool, and how its logs are written. It must not know what a service does, and it
//! has no event loop.
//!
//! Begin with [`InstallationOptions`], which lead to the ZENV file and the spool. A service then
//! takes its [`ProgramLock`], starts its log ([`log_file`]), and opens its sockets
//! ([`bind_socket`]).
#![warn(unreachable_pub)]

// Where its files are, and that it runs once.
mod installation;
mod lock;
mod socket;

// What it does in the background.
pub mod worker;

// Its logs, which a worker writes.
mod appended_file;
mod background_log;
pub mod log_file;
mod rotation;

pub use appended_file::AppendedFile;
pub use background_log::{BackgroundLog, GapLine, LogOutput};
pub use installation::{InstallationOptions, default_log, shared_config};
pub use lock::{HeldLock, PidFile, ProgramLock, open_lock_file};
pub use socket::{bind_socket, is_single_connection_error};

use std::io;
use std::path::Path;
use zsched_format::printable;

/// Resets signals and masks inherited from the caller. Exits with status 1 on failure.
pub fn reset_inherited_state_or_exit(program: &str) {
    if let Err(error) = zsched_sys::reset_inherited_state() {
        printable::print_error(program, format_args!("inherited signals: {error}"));
        std::process::exit(1);
    }
}

/// Sends a message such as `READY=1` to the service manager, such as systemd (`sd_notify(3)`).
///
/// An error is logged: mail does not depend on it.
pub fn notify_manager(message: &str) {
    if let Err(error) = zsched_sys::notify_service_manager(message) {
        log::warn!("the service manager cannot be notified: {error}");
    }
}

/// Adds a path to errors.
pub fn with_path(path: &Path) -> impl Fn(io::Error) -> io::Error {
    |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
