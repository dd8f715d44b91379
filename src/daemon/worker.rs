//! Helper OS threads, and what a panic in one of them means.
//!
//! A scheduler that has lost a helper would look healthy, and yet read no mail, or write nothing. So it ends at
//! once, as after a kill: nothing is lost, and who watches the process starts it again. What is only looked up for
//! a client concerns nobody else: that is given up alone.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::thread::{self, JoinHandle};

/// The exit status after a panic in a helper thread (`EX_SOFTWARE`).
const PANICKED: i32 = 70;

/// Starts a helper thread. A panic in it ends the process.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let own_name = name.to_string();
    thread::Builder::new().name(name.to_string()).spawn(move || {
        if attempt(work).is_none() {
            log::error!("the helper thread \"{own_name}\" has panicked: the scheduler ends");
            process::exit(PANICKED);
        }
    })
}

/// Does something that concerns one client only. A panic in it is logged, and there is no result.
pub fn attempt<T>(work: impl FnOnce() -> T) -> Option<T> {
    // What `work` has left half done must be of no further use; the callers see to that.
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Has panics logged like all else: as an error, in one line.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed").to_string();
        let text = info.to_string().replace('\n', " ");
        log::error!("OS thread \"{name}\": {text}");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn an_attempt_that_panics_has_no_result_and_ends_nothing() {
        assert_eq!(attempt(|| 7), Some(7));
        let panics: Option<u32> = attempt(|| panic!("as planned"));
        assert_eq!(panics, None);
    }

    /// Which helper is to panic in the process that the test below starts.
    const HELPER: &str = "ZSCHED_TEST_PANICKING_HELPER";

    /// Does nothing unless the test below has started it.
    #[test]
    fn helper_that_panics() {
        if let Some(name) = std::env::var_os(HELPER) {
            let name = name.into_string().expect("UTF-8");
            let started = start(&name, || panic!("as planned"));
            drop(started.expect("a thread"));
            // The loop goes on meanwhile.
            thread::sleep(Duration::from_secs(60));
        }
    }

    #[test]
    fn a_panic_in_a_helper_ends_the_process_with_a_status() {
        let own = std::env::current_exe().expect("this program");
        let mut child = Command::new(own);
        child.args(["--exact", "worker::tests::helper_that_panics", "--nocapture"]);
        child.env(HELPER, "reader").stdin(Stdio::null()).stdout(Stdio::null());
        let ended = child.stderr(Stdio::piped()).output().expect("it runs");
        assert_eq!(ended.status.code(), Some(PANICKED));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("as planned") && said.contains("reader"), "{said}");
    }
}
