//! Helper workers, and the consequences of a panic in one.
//!
//! A service without one of its workers would look healthy, and yet read no mail or write nothing.
//! So a panic ends the process at once, as a kill does: nothing is lost, and a supervisor can
//! restart it. Work for one client concerns only that client: a panic ends only this work.

use crate::log_file;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::thread::{self, JoinHandle};
use zsched_command_line::sysexits::EX_SOFTWARE;

/// Starts a worker. A panic in it ends the process.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let own_name = name.to_string();
    thread::Builder::new().name(name.to_string()).spawn(move || {
        if catch_panic(work).is_none() {
            log::error!("worker \"{own_name}\" has panicked: the program exits");
            log_file::flush();
            process::exit(EX_SOFTWARE);
        }
    })
}

/// Starts a worker for a stream of small tasks, such as the lines of a log.
///
/// A new task does not interrupt the thread that hands it over: tasks gather, and are done
/// together.
pub fn start_in_background(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    start(name, || {
        // Only speed depends on it.
        zsched_sys::use_batch_policy().ok();
        work();
    })
}

/// Runs work that concerns one client only. A panic is logged and gives `None`.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    // Callers must not use what `work` has left half done.
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Makes panics log an error of one line.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed").to_string();
        let text = info.to_string().replace('\n', " ");
        log::error!("worker \"{name}\": {text}");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn attempt_with_panic_returns_none() {
        assert_eq!(catch_panic(|| 7), Some(7));
        let panics: Option<u32> = catch_panic(|| panic!("as planned"));
        assert_eq!(panics, None);
    }

    /// Variable with the name of the worker that panics.
    ///
    /// The test below sets it for the process that it starts.
    const HELPER: &str = "ZSCHED_TEST_PANICKING_HELPER";

    /// Does nothing unless started by the test below.
    #[test]
    fn helper_that_panics() {
        if let Some(name) = std::env::var_os(HELPER) {
            let name = name.into_string().expect("UTF-8");
            let started = start(&name, || panic!("as planned"));
            drop(started.expect("a thread"));
            // Stands for the loop, which goes on meanwhile.
            thread::sleep(Duration::from_secs(60));
        }
    }

    #[test]
    fn panic_in_worker_ends_process_with_status() {
        let own = std::env::current_exe().expect("this program");
        let mut child = Command::new(own);
        child.args(["--exact", "worker::tests::helper_that_panics", "--nocapture"]);
        child.env(HELPER, "reader").stdin(Stdio::null()).stdout(Stdio::null());
        let ended = child.stderr(Stdio::piped()).output().expect("it runs");
        assert_eq!(ended.status.code(), Some(EX_SOFTWARE));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("as planned") && said.contains("reader"), "{said}");
    }
}
