//! Invariants of the queue between any two events.

use crate::queue::{Message, MessageFlag, Queue, VertexState};
use std::collections::BTreeMap;

impl Queue {
    /// Panics if a count or a list is wrong.
    ///
    /// A count is the length of its list, and each vertex is in the list of its state.
    pub fn check(&self) {
        assert!(self.changed_vertices.is_empty(), "vertices that are not settled");
        self.check_messages();
        self.check_threads();
    }

    fn check_messages(&self) {
        for (id, message) in self.messages.iter() {
            let mut pending = 0;
            for vertex in message.vertices.iter(&self.vertices) {
                let vertex = &self.vertices[vertex];
                assert_eq!(vertex.message, id, "a vertex is in the list of another message");
                assert_ne!(vertex.state, VertexState::Finished, "a spent vertex is in a message");
                assert_eq!(vertex.pending() as usize, vertex.pending_offsets().len());
                assert!(
                    vertex.pending() > 0,
                    "a vertex has no recipient left, but is not finished"
                );
                pending += vertex.pending();
            }
            assert_eq!(message.pending, pending, "{}: pending recipients", message.name());
            check_alternatives(message);
            let is_over = message.is_complete();
            assert!(
                message.is(MessageFlag::Removing) || !is_over,
                "{} is complete, but stays",
                message.name()
            );
        }
        let mut seconds = BTreeMap::new();
        for (id, message) in self.messages.iter() {
            if self.messages.find(message.number()) == Some(id) {
                *seconds.entry(message.modified.seconds()).or_insert(0) += 1;
            }
        }
        assert_eq!(*self.messages.by_second(), seconds, "messages by their age");
        self.messages.schedules.check();
    }

    fn check_threads(&self) {
        let held = self.threads.iter().filter(|(_, thread)| thread.held).count();
        assert_eq!(self.threads.held(), held, "held threads");
        for thread in self.deferrals.keys() {
            let is_ready = self.threads[*thread].is_ready;
            assert!(!is_ready, "{}: put off, but ready", self.threads[*thread].destination);
        }
        for (id, thread) in self.threads.iter() {
            for (place, list) in [
                (VertexState::Due, thread.due.to_vec(&self.vertices)),
                (VertexState::Fed, thread.fed.to_vec(&self.vertices)),
                (VertexState::Waiting, thread.waiting.iter(&self.vertices).collect()),
                (VertexState::Held, thread.held_back.to_vec(&self.vertices)),
            ] {
                for vertex in list {
                    assert_eq!(self.vertices[vertex].thread, id);
                    assert_eq!(self.vertices[vertex].state, place);
                    let kept = self.messages[self.vertices[vertex].message].is_kept();
                    assert!(kept || place != VertexState::Held, "held back without a reason");
                    assert!(
                        !kept || matches!(place, VertexState::Held | VertexState::Fed),
                        "kept, but free"
                    );
                }
            }
            assert_eq!(thread.vertices(&self.vertices).count(), thread.len());
            let recipients: u32 =
                thread.vertices(&self.vertices).map(|vertex| self.vertices[vertex].pending()).sum();
            assert_eq!(thread.recipients, recipients, "{}: recipients", thread.destination);
            let vertices = thread.vertices(&self.vertices);
            let deferred: u32 = vertices.map(|vertex| self.vertices[vertex].deferred()).sum();
            assert_eq!(thread.deferred, deferred, "{}: deferred recipients", thread.destination);
            assert!(!thread.is_unused(), "{} is unused, but stays", thread.destination);
            let mut of_host = self.threads.of_host(thread.destination.host());
            assert!(of_host.any(|other| other == id), "{}: not found by host", thread.destination);
        }
    }
}

/// Checks that a failed recipient with alternatives waits for something.
fn check_alternatives(message: &Message) {
    let is_at_work = message.notes > 0 || message.jobs > 0 || message.is(MessageFlag::Rereading);
    let is_leaving = message.is(MessageFlag::Removing) || message.is(MessageFlag::Forgotten);
    let waits = is_at_work || is_leaving || !message.is(MessageFlag::WantsAlternative);
    assert!(waits, "{}: its alternatives wait for nothing", message.name());
}
