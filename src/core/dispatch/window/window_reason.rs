//! Reasons for which due vertices wait for their window.

use crate::dispatch::window::Window;
use crate::query::view::View;
use crate::query::why::Why;
use crate::queue::Thread;
use zsched_config::Clause;

impl<'s> View<'s> {
    /// The reason for which a thread waits for its window.
    pub(crate) fn why_window(self, thread: &Thread) -> Option<Why> {
        let window = &self.core.dispatch.windows[thread.window?];
        let clause = &self.core.queue.ring(thread.ring).clause;
        if thread.is_ready {
            return None;
        }
        if window.pace.is_paused() {
            let keyword = if clause.flow.delay.is_some() { "delivery-delay" } else { "rate" };
            let line = clause.location_of(keyword);
            return Some(Why::Pace { at: window.pace.timer(), keyword, line });
        }
        let (used, max) = (window.agents as usize, window.size());
        let keyword = keyword_of(window, clause);
        let name = window.name.clone();
        let line = clause.location_of(keyword);
        (window.taken() >= max).then_some(Why::Window { used, max, name, keyword, line })
    }
}

/// The keyword that determined the size of a window.
fn keyword_of(window: &Window, clause: &Clause) -> &'static str {
    let flow = &clause.flow;
    let is_smaller = window.feedback.concurrency < clause.max_thread;
    if window.is_probing {
        "failed-cohort-limit"
    } else if is_smaller && flow.negative.is_some() {
        "negative-feedback"
    } else if is_smaller && flow.initial.is_some() {
        "initial-concurrency"
    } else {
        "maxthr"
    }
}
