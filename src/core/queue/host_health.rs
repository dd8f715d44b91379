//! What reports say about a host: can it be reached?
//!
//! New mail waits while its host is known to be unreachable
//! ([`unreachable`](crate::queue::unreachable)).

use crate::context::Context;
use crate::queue::{Diagnosis, Queue, ThreadId, Unreachable, UnreachableReason, Vertex, VertexId};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use zsched_format::control_file::diagnostic::NOTARY_SEPARATOR;

/// Number of messages deferred in a row that blame the host.
///
/// Only deferrals without a status code count.
const MIN_MESSAGES_TO_BLAME_HOST: u8 = 3;

/// Last jobs of a destination that were deferred without a status code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferralCount {
    /// Lower 32 bits of the numbers of the first messages.
    messages: [u32; MIN_MESSAGES_TO_BLAME_HOST as usize - 1],
    /// Number of messages, at most [`MIN_MESSAGES_TO_BLAME_HOST`].
    count: u8,
}

impl DeferralCount {
    /// Adds a job of a message.
    ///
    /// Returns true if the jobs are those of [`MIN_MESSAGES_TO_BLAME_HOST`] messages.
    fn add(&mut self, number: u64) -> bool {
        let (number, count) = (number as u32, usize::from(self.count));
        let known = &self.messages[..count.min(self.messages.len())];
        if self.count < MIN_MESSAGES_TO_BLAME_HOST && !known.contains(&number) {
            if let Some(free) = self.messages.get_mut(count) {
                *free = number;
            }
            self.count += 1;
        }
        self.count >= MIN_MESSAGES_TO_BLAME_HOST
    }
}

/// What a deferral is attributed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureScope {
    /// The connection, or the host as a whole.
    Host,
    /// This recipient or this message: the host has answered.
    Recipient,
    /// Unknown: the agent does not say.
    Unknown,
}

impl FailureScope {
    /// Derives it from the notary data of a report.
    ///
    /// The source is the status code (RFC 3463), or the reply 421, with which a host closes the
    /// connection (RFC 5321, 3.8).
    pub fn of(notary: &[u8]) -> FailureScope {
        let mut fields = notary.split(|byte| *byte == NOTARY_SEPARATOR).skip(2);
        let (status, reply) = (fields.next(), fields.next());
        if reply.is_some_and(is_goodbye) {
            return FailureScope::Host;
        }
        match status.and_then(parse_status) {
            // Mail system full, or not accepting mail; no answer, bad connection, no route, no name
            // service, congestion.
            Some((3, 1 | 2) | (4, 0..=5)) => FailureScope::Host,
            // Address, mailbox, protocol, content, policy; features, size; a loop, time is up.
            Some((1 | 2 | 5 | 6 | 7, _) | (3, 3 | 4) | (4, 6 | 7)) => FailureScope::Recipient,
            _ => FailureScope::Unknown,
        }
    }
}

impl Vertex {
    /// What its last deferral is attributed to.
    pub fn failure_scope(&self) -> FailureScope {
        let notary = self.diagnosis.as_ref().map(|diagnosis| &diagnosis.notary[..]);
        FailureScope::of(notary.unwrap_or_default())
    }
}

/// Returns true for a reply such as `smtp; 421 closing`.
fn is_goodbye(reply: &[u8]) -> bool {
    let Some(semicolon) = reply.iter().position(|byte| *byte == b';') else {
        return false;
    };
    let (protocol, code) = (&reply[..semicolon], reply[semicolon + 1..].trim_ascii_start());
    let digits = code.iter().take_while(|byte| byte.is_ascii_digit()).count();
    protocol.trim_ascii().eq_ignore_ascii_case(b"smtp") && &code[..digits] == b"421"
}

/// Parses subject and detail of a status such as `4.4.1 (no answer)`.
fn parse_status(status: &[u8]) -> Option<(u16, u16)> {
    let word = status.trim_ascii_start().split(|byte| !byte.is_ascii_digit() && *byte != b'.');
    let mut numbers = std::str::from_utf8(word.into_iter().next()?).ok()?.split('.');
    let _class: u16 = numbers.next()?.parse().ok()?;
    let (subject, detail) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    numbers.next().is_none().then_some((subject, detail))
}

impl Queue {
    /// Records that the host of a thread has answered.
    pub(crate) fn host_answered(&mut self, cx: &mut Context, thread: ThreadId) {
        let retry = &mut self.threads[thread].retry;
        cx.learned_revision += u64::from(retry.steps.index > 0);
        (retry.steps, retry.deferrals) = Default::default();
        self.mark_reachable(cx, thread);
    }

    /// Records that a recipient of a thread was deferred.
    pub(crate) fn recipient_deferred(
        &mut self,
        cx: &mut Context,
        pid: Option<u32>,
        vertex: VertexId,
        diagnosis: &Rc<Diagnosis>,
    ) {
        let thread = self.vertices[vertex].thread;
        if !self.deferrals_may_block(thread) {
            return;
        }
        let known = self.threads[thread].retry.unreachable.as_ref().map(|known| known.reason);
        match FailureScope::of(&diagnosis.notary) {
            FailureScope::Host => {
                let cause = self.cause(cx.now, pid, vertex, Some(diagnosis.clone()));
                let reason = UnreachableReason::HostBlamed;
                self.mark_unreachable(cx, thread, Unreachable { until: cx.now, reason, cause });
            }
            FailureScope::Recipient => self.host_answered(cx, thread),
            FailureScope::Unknown if known == Some(UnreachableReason::HostBlamed) => {
                self.mark_reachable(cx, thread)
            }
            FailureScope::Unknown => {}
        }
    }

    /// Records that an agent has ended a job with recipients left.
    pub(crate) fn record_failed_job(
        &mut self,
        cx: &mut Context,
        pid: Option<u32>,
        vertex: VertexId,
    ) {
        let vertex_ref = &self.vertices[vertex];
        let (thread, diagnosis) = (vertex_ref.thread, vertex_ref.diagnosis.clone());
        let known = self.threads[thread].retry.unreachable.as_ref();
        if vertex_ref.failure_scope() != FailureScope::Unknown
            || known.is_some_and(|known| known.reason.is_firm())
            || !self.deferrals_may_block(thread)
        {
            return;
        }
        let number = self.messages[vertex_ref.message].number();
        if self.threads[thread].retry.deferrals.add(number) {
            let cause = self.cause(cx.now, pid, vertex, diagnosis);
            let reason = UnreachableReason::AllDeferred;
            self.mark_unreachable(cx, thread, Unreachable { until: cx.now, reason, cause });
        }
    }

    /// Returns true if deferred recipients may make a destination unreachable.
    ///
    /// A window with feedback detects that by itself, and a `queueonly` destination is not tried
    /// anyway.
    fn deferrals_may_block(&self, thread: ThreadId) -> bool {
        let clause = self.clause(thread);
        !clause.flow.tolerates_deferall() && !clause.queue_only
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferrals_count_messages_not_jobs() {
        let mut deferrals = DeferralCount::default();
        for (number, several) in
            [(1, false), (1, false), (2, false), (1, false), (3, true), (1, true)]
        {
            assert_eq!(deferrals.add(number), several, "{number}");
        }
    }

    #[test]
    fn fault_follows_status_code_and_reply() {
        for (status, reply, expected) in [
            ("4.4.1 (no answer)", "smtp; 466 (timed out)", FailureScope::Host),
            ("4.4.2", "", FailureScope::Host),
            ("4.3.2 (system not accepting mail)", "smtp; 450", FailureScope::Host),
            ("5.4.4", "", FailureScope::Host),
            ("4.7.0", "smtp; 421 too many errors", FailureScope::Host),
            ("", "SMTP;421-bye", FailureScope::Host),
            ("4.2.2 (mailbox full)", "smtp; 452 (mailbox full)", FailureScope::Recipient),
            ("4.7.1", "smtp; 450 greylisted", FailureScope::Recipient),
            ("4.4.7", "", FailureScope::Recipient),
            ("4.3.0", "smtp; 451 local error", FailureScope::Unknown),
            ("4.4", "", FailureScope::Unknown),
            ("4.4.1.2", "", FailureScope::Unknown),
            ("4.99999999.1", "x-local; 421", FailureScope::Unknown),
            ("", "smtp; 4210", FailureScope::Unknown),
            ("no status", "421", FailureScope::Unknown),
        ] {
            let notary = format!("a@b\x01delayed\x01{status}\x01{reply}\x01host");
            assert_eq!(FailureScope::of(notary.as_bytes()), expected, "{status:?} {reply:?}");
        }
        for notary in ["", "n", "a\x01delayed", "\x01\x01\x01"] {
            assert_eq!(FailureScope::of(notary.as_bytes()), FailureScope::Unknown, "{notary:?}");
        }
    }
}
