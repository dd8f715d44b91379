//! Why vertices that are held back wait: holds, times that senders have set, the priority `z`.

use crate::query::view::View;
use crate::query::why::{MAX_COUNTED, Reason, Wait, Why};
use crate::queue::{MessageFlag, MessageId, Thread};
use zsched_bulk::PacketNumber;

impl<'s> View<'s> {
    /// The reason for a vertex of a message that is held back.
    pub(super) fn reason_of_held_back(self, id: MessageId) -> Reason {
        let messages = self.core.queue.messages();
        let message = &messages[id];
        match messages.schedules.next_opening(id, self.core.cx.now) {
            _ if message.is(MessageFlag::Held) => Reason::Held,
            Some(at) if message.is(MessageFlag::Scheduled) => Reason::Scheduled(at),
            _ if message.is(MessageFlag::KeptByJob) => Reason::Job,
            _ if message.is_kept() => Reason::Kept,
            _ => Reason::Turn,
        }
    }

    /// What a packet's job keeps it back for.
    pub(super) fn why_kept_by_job(self, message: MessageId) -> Why {
        let number = self.core.queue.message(message).number();
        let job = PacketNumber::of_message(number).map(|packet| packet.job);
        let job = job.and_then(|job| self.bulk_job(job));
        job.map_or(Why::Turn, |job| Why::Job { job: job.id, is_paused: job.is_paused() })
    }

    /// Reasons for the vertices of a thread that are held back, one of each kind.
    ///
    /// Each has the details of the vertex that is first, or scheduled for the soonest time, among
    /// the first [`MAX_COUNTED`]. Others count as the first of these.
    pub(super) fn waits_of_held_back(self, thread: &'s Thread) -> Vec<Wait<'s>> {
        let mut waits: Vec<Wait<'s>> = Vec::new();
        let mut counted = 0;
        for vertex in thread.held_back.iter(self.core.queue.vertices()).take(MAX_COUNTED) {
            counted += 1;
            let first = self.core.queue.vertex(vertex);
            let why = self.why_of(vertex, false);
            match waits.iter_mut().find(|wait| wait.why.word() == why.word()) {
                Some(wait) => {
                    wait.vertices += 1;
                    if let (Why::Scheduled { at: known, .. }, Why::Scheduled { at, .. }) =
                        (&wait.why, &why)
                        && at < known
                    {
                        wait.why = why;
                    }
                }
                None => waits.push(self.wait(thread, 1, first, why)),
            }
        }
        if let Some(wait) = waits.first_mut() {
            wait.vertices += thread.held_back.len() - counted;
        }
        waits
    }
}
