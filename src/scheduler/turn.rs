//! Somebody asks for a host's mail now: ETRN, and the `T` lines of control files.

use super::Scheduler;
use super::thread::ThreadId;

impl Scheduler {
    /// Makes everything due that is queued for a host, on any channel, `queueonly` included.
    pub(super) fn turn(&mut self, host: &[u8]) {
        let of_host: Vec<ThreadId> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.destination.host() == host)
            .map(|(id, _)| id)
            .collect();
        let shown = String::from_utf8_lossy(host).into_owned();
        self.log(log::Level::Info, format!("ETRN {shown}: {} threads", of_host.len()));
        of_host.into_iter().for_each(|thread| self.wake_thread(thread));
    }
}
