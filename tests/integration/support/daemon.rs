//! A running scheduler.

use super::wait::{until, until_some};
use super::{Site, control_file, processes};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};

/// A scheduler in the foreground. It is killed when this is dropped; whatever it has started dies
/// with the site at the latest.
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

    /// Fails if the scheduler has ended.
    #[track_caller]
    pub fn assert_runs(&mut self) {
        let ended = self.child.try_wait().expect("its state can be asked for");
        if let Some(status) = ended {
            panic!("the scheduler ended with {status}: {}", self.site.read("output"));
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(mut self) -> ExitStatus {
        until_some("the scheduler has ended", || self.child.try_wait().expect("it is our child"))
    }

    /// Ends it with a signal, and waits for that.
    #[track_caller]
    pub fn end(self, signal: i32) -> ExitStatus {
        self.signal(signal);
        self.wait()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is our child");
    }

    /// Its agents, as long as they live.
    pub fn agents(&self) -> Vec<u32> {
        processes::children(self.pid())
    }

    /// Has it scan the spool now, and waits until that has happened. The message that proves it stays
    /// in the queue as MAILQ shows it, but not in the spool.
    #[track_caller]
    pub fn scan(&self) {
        // No inode has such a number: no message can come that is held to be this one.
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
