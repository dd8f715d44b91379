//! ETRN: requests for a host's mail.
//!
//! They come from clients and from `T` lines of control files.

use crate::Scheduler;
use crate::queue::ThreadId;
use std::collections::BTreeSet;

impl Scheduler {
    /// Makes everything due that is queued for some hosts, on any channel.
    ///
    /// This includes `queueonly`. The cost is that of the threads of these hosts. Returns those
    /// threads that had no agent at work.
    pub(crate) fn etrn(&mut self, hosts: &[impl AsRef<[u8]>]) -> Vec<ThreadId> {
        let hosts: BTreeSet<&[u8]> = hosts.iter().map(AsRef::as_ref).collect();
        let of_hosts = hosts.iter().flat_map(|host| self.queue.threads().of_host(host));
        let mut of_hosts: Vec<ThreadId> = of_hosts.collect();
        of_hosts.sort_unstable();
        let first = hosts.first().copied().unwrap_or_default();
        let shown = match hosts.len() {
            1 => String::from_utf8_lossy(first).into_owned(),
            count => format!("{count} hosts"),
        };
        let found = match of_hosts.len() {
            1 => "1 destination".to_string(),
            count => format!("{count} destinations"),
        };
        self.cx.log(log::Level::Info, format!("ETRN {shown}: {found}"));
        for thread in &of_hosts {
            self.wake_on_request(*thread);
        }
        self.admission.request_paged_hosts(&mut self.cx, hosts.iter().copied());
        let has_no_agent = |thread: &ThreadId| self.queue.thread(*thread).agents.is_empty();
        of_hosts.into_iter().filter(has_no_agent).collect()
    }
}
