//! A running scheduler.

use super::wait::{until, until_some};
use super::{Site, control_file, processes};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};

/// A scheduler in the foreground, which is killed when this is dropped.
///
/// The processes that it has started are killed with the site at the latest.
pub struct Daemon<'s> {
    site: &'s Site,
    child: Child,
}

impl<'s> Daemon<'s> {
    pub fn new(site: &'s Site, child: Child) -> Daemon<'s> {
        Daemon { site, child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: i32) {
        processes::signal(self.pid(), signal);
    }

    /// Fails if the scheduler has exited.
    #[track_caller]
    pub fn assert_runs(&mut self) {
        let ended = self.child.try_wait().expect("its state can be asked for");
        if let Some(status) = ended {
            panic!("the scheduler ended with {status}: {}", self.site.read("output"));
        }
    }

    /// Waits until the scheduler exits.
    #[track_caller]
    pub fn wait(mut self) -> ExitStatus {
        until_some("the scheduler has ended", || self.child.try_wait().expect("it is our child"))
    }

    /// Sends a signal and waits until the scheduler exits.
    #[track_caller]
    pub fn end(self, signal: i32) -> ExitStatus {
        self.signal(signal);
        self.wait()
    }

    /// Sends SIGKILL and waits until the scheduler exits.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is our child");
    }

    /// Returns the scheduler's living agents.
    pub fn agents(&self) -> Vec<u32> {
        processes::children(self.pid())
    }

    /// Waits until the log has all lines about what has happened so far.
    ///
    /// It causes one more line, which comes last.
    #[track_caller]
    pub fn until_log_is_complete(&self) {
        const LAST_LINE: &str = "logs reopened";
        let before = self.site.logged(LAST_LINE);
        self.signal(libc::SIGHUP);
        until("the log has a further line", || self.site.logged(LAST_LINE) > before);
    }

    /// Triggers a scan of the spool and waits until it is over.
    ///
    /// It puts a message into the spool as a proof of the scan. That message stays in the queue
    /// that MAILQ shows, but not in the spool.
    #[track_caller]
    pub fn scan(&self) {
        // No inode has such a number, so no other message can get it.
        static MARKS: AtomicU64 = AtomicU64::new(1_000_000_000_000);
        let mark = MARKS.fetch_add(1, Ordering::Relaxed).to_string();
        self.site.put_file(&mark, control_file(&mark, &["scanned - x"]).as_bytes());
        self.signal(libc::SIGALRM);
        until("a scan has found the mark", || {
            self.site.mailq().vertices.iter().any(|vertex| vertex.file.ends_with(&mark))
        });
        for file in [format!("transport/{mark}"), format!("queue/{mark}")] {
            let path = self.site.path("postoffice").join(file);
            std::fs::remove_file(path).expect("the mark is removed");
        }
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
