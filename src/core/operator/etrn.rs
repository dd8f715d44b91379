//! ETRN: requests for a host's mail.
//!
//! They come from clients and from `T` lines of control files.

use crate::Scheduler;
use crate::queue::ThreadId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of hosts requested before the initial scan has ended that we remember.
const MAX_EARLY_HOSTS: usize = 10_000;

/// Hosts requested before the initial scan has ended, which may find more of their mail.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct EarlyHosts {
    hosts: BTreeSet<Box<[u8]>>,
    is_scan_over: bool,
}

impl EarlyHosts {
    fn add(&mut self, hosts: &BTreeSet<&[u8]>) {
        if !self.is_scan_over && self.hosts.len() < MAX_EARLY_HOSTS {
            self.hosts.extend(hosts.iter().map(|host| Box::from(*host)));
        }
    }
}

impl Scheduler {
    /// Requests the mail of hosts again that were requested during the initial scan.
    pub(crate) fn repeat_early_etrn(&mut self) {
        self.early_hosts.is_scan_over = true;
        let hosts: Vec<_> = std::mem::take(&mut self.early_hosts.hosts).into_iter().collect();
        if !hosts.is_empty() {
            self.etrn(&hosts);
        }
    }

    /// Makes everything due that is queued for some hosts, on any channel.
    ///
    /// This includes `queueonly`. The cost is that of the threads of these hosts. Returns those
    /// threads that had no agent at work.
    pub(crate) fn etrn(&mut self, hosts: &[impl AsRef<[u8]>]) -> Vec<ThreadId> {
        let hosts: BTreeSet<&[u8]> = hosts.iter().map(AsRef::as_ref).collect();
        self.early_hosts.add(&hosts);
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
