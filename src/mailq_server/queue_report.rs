//! Writes the queue report: rings, their threads, and totals (ZMailer `thread_report()`).
//!
//! Clients parse it by column and label, so every blank counts:
//!
//! ```text
//! smtp/*/0
//!     smtp/funet.fi/0<TAB><TAB>N=2   R=3   A=1  P={20114} HA={3}s FA={3}s OF={2} S={STUFF} UF=0 QA=1d18h
//! <TAB>Threads:    1 Msgs:     2 Procs:   1 Idle:   0 Plim:  90 Flim: 150 Tlim: 1
//! Kids: 1  Idle:  0  Msgs:   2  Thrds:   1  Rcpnts:    2  Uptime: 1d31m22s
//! Msgs in 5 out 3 stored 2 Rcpnts in 8 out 5 stored 3
//! ```

use crate::classic::{self, LimitKind};
use crate::v2::Step;
use std::collections::VecDeque;
use zsched_core::Scheduler;
use zsched_core::view::{Agent, Ring, RingId, Thread, ThreadId, Totals};
use zsched_core::why::Reason;
use zsched_format::time::{ShortDuration, Timestamp};

/// Column at which the details of a thread begin.
const DETAIL_COLUMN: usize = 32;
/// Approximate maximum number of messages examined per turn, for the age of threads.
const MAX_MESSAGES_PER_TURN: usize = 10_000;
/// Distance of tab stops.
const TAB_STOP: usize = 8;

/// Which parts of the report are written, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportForm {
    /// Everything: `SHOW QUEUE THREADS`, and the end of a dump of version 1.
    Full,
    /// Without single threads: `SHOW QUEUE SHORT`.
    Short,
    /// Only totals: `SHOW SNMP`.
    Totals,
    /// Only threads, with TABs between fields: `SHOW QUEUE THREADS2`.
    Threads,
}

/// A queue report that is written step by step.
pub struct QueueReport {
    form: ReportForm,
    /// Messages examined since the last pause.
    looked_at: usize,
    /// The next parts; `None` before the first step.
    parts: Option<VecDeque<ReportPart>>,
}

/// A part of the report.
enum ReportPart {
    /// The head of a ring. Its threads and its sums follow.
    Ring(RingId),
    Thread(ThreadId),
    Sums(Vec<u8>),
    Totals,
}

impl QueueReport {
    /// Creates a report that starts at the beginning.
    pub fn new(form: ReportForm) -> QueueReport {
        QueueReport { form, looked_at: 0, parts: None }
    }

    /// Returns true if the report has a part for each thread.
    pub fn is_long(&self) -> bool {
        matches!(self.form, ReportForm::Full | ReportForm::Threads)
    }

    /// Writes the next part of the report.
    ///
    /// The list of rings is made at the start, the list of threads when a ring begins. Each thread
    /// is shown as it is when it is written.
    pub fn write(
        &mut self,
        scheduler: &Scheduler,
        now: Timestamp,
        started: Timestamp,
        out: &mut Vec<u8>,
    ) -> Step {
        let (form, view) = (self.form, scheduler.view());
        let parts = self.parts.get_or_insert_with(|| {
            let rings = if form == ReportForm::Totals { Vec::new() } else { view.ring_ids() };
            rings.into_iter().map(ReportPart::Ring).chain([ReportPart::Totals]).collect()
        });
        match parts.pop_front() {
            Some(ReportPart::Ring(id)) => {
                let Some(ring) = view.ring(id) else { return Step::More };
                if form != ReportForm::Threads {
                    push(out, format_args!("{}/{}\n", ring.pattern(), with_host(ring)));
                    let mut sums = Vec::new();
                    write_sums(scheduler, id, ring, &mut sums);
                    parts.push_front(ReportPart::Sums(sums));
                }
                let threads = if form == ReportForm::Short { &[] } else { &ring.threads[..] };
                threads.iter().rev().for_each(|it| parts.push_front(ReportPart::Thread(*it)));
            }
            Some(ReportPart::Thread(thread)) => {
                let Some(thread) = view.thread(thread) else { return Step::More };
                let shown = ShownThread::new(scheduler, now, thread);
                match form {
                    ReportForm::Threads => shown.write_fields(out),
                    _ => shown.write_indented(out),
                }
                self.looked_at += shown.looked_at;
                if self.looked_at >= MAX_MESSAGES_PER_TURN {
                    self.looked_at = 0;
                    return Step::Pause;
                }
            }
            Some(ReportPart::Sums(sums)) => out.extend_from_slice(&sums),
            Some(ReportPart::Totals) => {
                let uptime = now.seconds_since(started);
                match form {
                    ReportForm::Full | ReportForm::Short => {
                        write_totals(&view.totals(), ShortDuration(uptime), out);
                    }
                    ReportForm::Totals => {
                        write_totals(&view.totals(), format_args!("{uptime} sec"), out);
                    }
                    ReportForm::Threads => {}
                }
                return Step::Done;
            }
            None => return Step::Done,
        }
        Step::More
    }
}

/// Returns the flag for a command that names the host, with ZMailer's values.
fn with_host(ring: &Ring) -> u8 {
    if ring.host.is_some() { 2 } else { 0 }
}

/// A thread that is being shown.
pub(super) struct ShownThread<'s> {
    scheduler: &'s Scheduler,
    now: Timestamp,
    thread: &'s Thread,
    with_host: u8,
    /// Age of its oldest examined message in seconds; -1 if it has none.
    oldest: i64,
    /// Number of messages examined for that.
    looked_at: usize,
}

impl<'s> ShownThread<'s> {
    pub(super) fn new(
        scheduler: &'s Scheduler,
        now: Timestamp,
        thread: &'s Thread,
    ) -> ShownThread<'s> {
        let (oldest, looked_at) = scheduler.view().oldest_of(thread);
        let oldest = oldest.map_or(-1, |oldest| now.seconds_since(oldest));
        let with_host = with_host(scheduler.view().ring_of(thread));
        ShownThread { scheduler, now, thread, with_host, oldest, looked_at }
    }

    fn write_indented(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.write_name("    ", '/', out);
        push(out, format_args!("/{}", self.with_host));
        let width = out.len() - start;
        match width {
            0..DETAIL_COLUMN => {
                let tabs = DETAIL_COLUMN / TAB_STOP - width / TAB_STOP;
                out.extend(std::iter::repeat_n(b'\t', tabs));
            }
            _ => out.push(b' '),
        }
        self.write_detail(out);
    }

    /// Writes the first line of `SHOW THREAD`.
    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        self.write_name("#", '/', out);
        push(out, format_args!("/{}  ", self.with_host));
        self.write_detail(out);
    }

    /// Writes the thread as fields separated by TABs.
    fn write_fields(&self, out: &mut Vec<u8>) {
        self.write_name("", '\t', out);
        let Thread { recipients, attempts, .. } = self.thread;
        push(out, format_args!("\tN={}\tR={recipients}\tA={attempts}", self.thread.len()));
        self.write_state('\t', out);
        push(out, format_args!("\tQA={}\n", ShortDuration(self.oldest)));
    }

    fn write_name(&self, before: &str, sep: char, out: &mut Vec<u8>) {
        out.extend_from_slice(before.as_bytes());
        out.extend_from_slice(self.thread.destination.channel());
        out.push(sep as u8);
        out.extend_from_slice(self.thread.destination.host());
    }

    fn write_detail(&self, out: &mut Vec<u8>) {
        let Thread { recipients, attempts, .. } = self.thread;
        push(out, format_args!("N={:<3} R={recipients:<3} A={attempts:<2}", self.thread.len()));
        self.write_state(' ', out);
        // A thread without vertices has age -1s.
        push(out, format_args!(" QA={}", ShortDuration(self.oldest)));
        match self.scheduler.view().pending_reason(self.thread).and_then(classic::limit_of) {
            Some(LimitKind::Channel) => out.extend_from_slice(b" channelwait"),
            Some(LimitKind::Ring) => out.extend_from_slice(b" threadwait"),
            Some(LimitKind::General) | None => {}
        }
        out.push(b'\n');
    }

    /// Writes the agents, the time to the wake-up or the refusal.
    ///
    /// Each item is preceded by the separator. What is held has no wake-up.
    fn write_state(&self, sep: char, out: &mut Vec<u8>) {
        let thread = self.thread;
        if !thread.agents.is_empty() {
            return self.write_agents(sep, out);
        }
        let are_all_held = !thread.is_empty() && thread.held_back.len() == thread.len();
        if (thread.held || are_all_held)
            && let Some(reason) = classic::pending(Reason::Held)
        {
            return push(out, format_args!("{sep}pend={reason}"));
        }
        let wakeup =
            self.scheduler.view().wakeup_of(self.thread).map(|at| at.seconds_since(self.now));
        if let Some(seconds) = wakeup.filter(|left| *left > 0) {
            push(out, format_args!("{sep}W={seconds}s"));
        } else if let Some(reason) =
            self.scheduler.view().pending_reason(self.thread).and_then(classic::pending)
        {
            push(out, format_args!("{sep}pend={reason}"));
        }
    }

    fn write_agents(&self, sep: char, out: &mut Vec<u8>) {
        let list = |show: &dyn Fn(&Agent) -> String| {
            self.scheduler
                .view()
                .agents_of(self.thread)
                .map(show)
                .collect::<Vec<String>>()
                .join(",")
        };
        let since = |time: Timestamp| self.now.seconds_since(time).to_string();
        let pids = list(&|agent| agent.pid.unwrap_or_default().to_string());
        let hungry = list(&|agent| since(agent.hungry_at));
        let fed = list(&|agent| agent.fed_at.map_or("never".to_string(), since));
        let owed = list(&|agent| agent.owed.len().to_string());
        let states = list(&|agent| classic::state_word(agent.state()).to_string());
        let unfed = self.thread.due.len();
        push(out, format_args!("{sep}P={{{pids}}}{sep}HA={{{hungry}}}s{sep}FA={{{fed}}}s"));
        push(out, format_args!("{sep}OF={{{owed}}}{sep}S={{{states}}}{sep}UF={unfed}"));
    }
}

fn write_sums(scheduler: &Scheduler, id: RingId, ring: &Ring, out: &mut Vec<u8>) {
    let (threads, vertices) = (ring.threads.len(), scheduler.view().count_vertices(&ring.threads));
    let (of_ring, max_ring) =
        (scheduler.view().ring_agents(id), scheduler.view().max_ring_of(ring));
    let (agents, idle) = (of_ring.count, of_ring.idle.len());
    let (overfeed, max_thread) = (ring.clause.overfeed, ring.clause.max_thread);
    push(out, format_args!("\tThreads: {threads:4} Msgs: {vertices:5} Procs: {agents:3}"));
    push(out, format_args!(" Idle: {idle:3} Plim: {max_ring:3} Flim: {overfeed:3}"));
    push(out, format_args!(" Tlim: {max_thread}\n"));
}

fn write_totals(totals: &Totals, uptime: impl std::fmt::Display, out: &mut Vec<u8>) {
    let Totals { agents, idle, messages, threads, vertices, recipients, counters, .. } = totals;
    push(out, format_args!("Kids: {agents}  Idle: {idle:2}  Msgs: {messages:3}  "));
    push(out, format_args!("Thrds: {threads:3}  Rcpnts: {vertices:4}  "));
    push(out, format_args!("Uptime: {uptime}\n"));
    push(out, format_args!("Msgs in {} out {} ", counters.messages_in, counters.messages_out));
    let (came, went) = (counters.recipients_in, counters.recipients_out);
    push(out, format_args!("stored {messages} Rcpnts in {came} out {went} stored {recipients}\n"));
}

pub(super) fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    // Writing to a Vec cannot fail.
    out.write_fmt(text).expect("a Vec takes everything");
}
