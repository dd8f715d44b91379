//! Removes the scratch file of a message when a signal ends the program.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;
use zsched_sys as sys;

/// The signals that usually end a program, caught from now on.
///
/// Those that are ignored stay so (`nohup`).
pub(crate) fn catch_signals() -> io::Result<Signals> {
    let usual = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter();
    Signals::new(usual.filter(|signal| !sys::is_ignored(*signal)))
}

/// Guard: until it is disarmed, a signal removes the file before it ends the program.
pub(crate) struct ScratchGuard {
    handle: Handle,
    worker: JoinHandle<()>,
}

impl ScratchGuard {
    /// Protects a file. A signal that came since [`catch_signals`] counts, too.
    pub(crate) fn new(mut signals: Signals, path: PathBuf) -> io::Result<ScratchGuard> {
        let handle = signals.handle();
        let work = move || {
            if let Some(signal) = signals.forever().next() {
                // What cannot be removed now, the scheduler removes in a day.
                drop(fs::remove_file(&path));
                drop(emulate_default_handler(signal));
            }
        };
        let worker = std::thread::Builder::new().name("signals".to_string()).spawn(work)?;
        Ok(ScratchGuard { handle, worker })
    }

    /// Leaves the file alone. From now on the program ends by itself, and soon.
    pub(crate) fn disarm(self) {
        self.handle.close();
        // It cannot panic.
        drop(self.worker.join());
    }
}
