//! The state of `mailq top`, and its changes by keys. Does no input or output.

use super::worker::{WorkerCommand, WorkerReport};
use crate::console::arguments::Sort;
use crate::console::orders::Verb;
use crate::console::overview::Overview;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;
use zsched_mailq_protocol::schema::{Summary, ThreadStatus};

/// Maximum number of rates that are kept for the curve.
const MAX_RATES: usize = 200;

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct TopState {
    /// Last snapshot.
    pub overview: Overview,
    /// True after the first snapshot.
    pub has_snapshot: bool,
    /// Recipients that became final per second, oldest rate first.
    pub rates_out: VecDeque<f64>,
    /// Recipients that arrived per second, oldest rate first.
    pub rates_in: VecDeque<f64>,
    /// Sort order of destinations.
    pub sort: Sort,
    /// Name of the selected destination, which keys act on.
    pub selected: Option<String>,
    /// Result or error of the last action.
    pub message: Option<StatusMessage>,
    /// Reason why something waits, while it is shown.
    pub reason: Option<Vec<String>>,
    /// True while the keys are explained.
    pub has_help: bool,
    /// True while new snapshots are not shown.
    pub is_paused: bool,
    /// True if the user leaves the program.
    pub has_left: bool,
}

/// A message at the bottom of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatusMessage {
    /// Text.
    pub text: String,
    /// True for an error.
    pub is_bad: bool,
    /// True if it ends the session, so that a snapshot proves that it is over.
    pub ends_session: bool,
}

impl TopState {
    /// Applies a report of the worker.
    pub(super) fn apply(&mut self, report: WorkerReport) {
        match report {
            WorkerReport::Snapshot(overview) => {
                self.message.take_if(|message| message.ends_session);
                if !self.is_paused {
                    self.show(*overview);
                }
            }
            WorkerReport::Status(message) => self.message = Some(message),
            WorkerReport::Reason(sentences) => self.reason = Some(sentences),
        }
    }

    fn show(&mut self, overview: Overview) {
        let (old, new) = (&self.overview.summary, &overview.summary);
        // The counters of another scheduler begin at 0.
        if self.has_snapshot && is_same_process(old, new) && new.time > old.time {
            let rate = |old: u64, new: u64, seconds: f64| new.saturating_sub(old) as f64 / seconds;
            let seconds = new.time - old.time;
            let rates = [
                (&mut self.rates_out, rate(old.recipients_out, new.recipients_out, seconds)),
                (&mut self.rates_in, rate(old.recipients_in, new.recipients_in, seconds)),
            ];
            for (rates, rate) in rates {
                rates.push_back(rate);
                if rates.len() > MAX_RATES {
                    rates.pop_front();
                }
            }
        }
        self.overview = overview;
        self.has_snapshot = true;
    }

    /// Destinations in their sort order.
    pub(super) fn threads(&self) -> Vec<&ThreadStatus> {
        let mut threads: Vec<&ThreadStatus> = self.overview.threads.iter().collect();
        threads.sort_by(|a, b| self.sort.compare(a, b).then_with(|| a.name().cmp(&b.name())));
        threads
    }

    /// Index of the selected destination, or 0 if it is gone.
    pub(super) fn selected_index(&self, threads: &[&ThreadStatus]) -> usize {
        let is_selected = |thread: &&ThreadStatus| Some(thread.name()) == self.selected;
        threads.iter().position(is_selected).unwrap_or(0)
    }

    /// Handles a key. Returns what the worker has to do.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<WorkerCommand> {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if with_control && key.code == KeyCode::Char('c') {
            self.has_left = true;
            return None;
        }
        // Any key closes a box that covers the screen.
        if self.reason.take().is_some() || std::mem::take(&mut self.has_help) {
            return None;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => self.has_left = true,
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.go(10),
            KeyCode::PageUp => self.go(-10),
            KeyCode::Home => self.go(isize::MIN),
            KeyCode::End => self.go(isize::MAX),
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Backlog => Sort::Oldest,
                    Sort::Oldest => Sort::Undelivered,
                    Sort::Undelivered | Sort::Size => Sort::Backlog,
                };
            }
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('?') => self.has_help = true,
            KeyCode::Char(' ') => return Some(WorkerCommand::Refresh),
            KeyCode::Char('h') => return self.order(Verb::HOLD),
            KeyCode::Char('u') => return self.order(Verb::RELEASE),
            KeyCode::Char('r') => return self.order(Verb::RETRY),
            KeyCode::Char('e') | KeyCode::Enter => return self.chosen().map(WorkerCommand::Why),
            _ => {}
        }
        None
    }

    fn order(&self, verb: Verb) -> Option<WorkerCommand> {
        self.chosen().map(|name| WorkerCommand::Order(verb, name))
    }

    /// Name of the destination that keys act on.
    fn chosen(&self) -> Option<String> {
        let threads = self.threads();
        threads.get(self.selected_index(&threads)).map(|thread| thread.name())
    }

    fn go(&mut self, by: isize) {
        let threads = self.threads();
        let last = threads.len().saturating_sub(1);
        let place = self.selected_index(&threads).saturating_add_signed(by).min(last);
        self.selected = threads.get(place).map(|thread| thread.name());
    }
}

fn is_same_process(old: &Summary, new: &Summary) -> bool {
    old.pid == new.pid && new.recipients_out >= old.recipients_out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(time: f64, out: u64, threads: &[(&str, u64, u64)]) -> WorkerReport {
        let thread = |(host, messages, attempts): &(&str, u64, u64)| ThreadStatus {
            channel: "smtp".to_string(),
            host: host.to_string(),
            messages: *messages,
            attempts: *attempts,
            ..ThreadStatus::default()
        };
        let summary = Summary { time, recipients_out: out, ..Summary::default() };
        let threads = threads.iter().map(thread).collect();
        WorkerReport::Snapshot(Box::new(Overview { summary, threads, ..Overview::default() }))
    }

    fn press(state: &mut TopState, keys: &str) -> Option<WorkerCommand> {
        let mut command = None;
        for key in keys.chars() {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            command = state.key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        command
    }

    #[test]
    fn rates_are_differences_between_snapshots() {
        let mut state = TopState::default();
        state.apply(overview(10.0, 100, &[]));
        assert!(state.rates_out.is_empty());
        state.apply(overview(12.0, 110, &[]));
        // A restarted scheduler counts from 0.
        state.apply(overview(14.0, 5, &[]));
        state.apply(overview(15.0, 6, &[]));
        assert_eq!(state.rates_out, [5.0, 1.0]);
    }

    #[test]
    fn keys_act_on_selected_destination() {
        let mut state = TopState::default();
        assert_eq!(press(&mut state, "h"), None);
        state.apply(overview(1.0, 0, &[("a", 1, 9), ("b", 3, 1), ("c", 2, 1)]));
        assert_eq!(
            press(&mut state, "h"),
            Some(WorkerCommand::Order(Verb::HOLD, "smtp/b".to_string()))
        );
        assert_eq!(
            press(&mut state, "jr"),
            Some(WorkerCommand::Order(Verb::RETRY, "smtp/c".to_string()))
        );
        // The selection follows the destination.
        state.apply(overview(2.0, 0, &[("a", 1, 9), ("b", 3, 1), ("c", 7, 1)]));
        assert_eq!(press(&mut state, "e"), Some(WorkerCommand::Why("smtp/c".to_string())));
        assert_eq!(
            press(&mut state, "kkkssu"),
            Some(WorkerCommand::Order(Verb::RELEASE, "smtp/c".to_string()))
        );
        assert_eq!(press(&mut state, "kkkk\n"), Some(WorkerCommand::Why("smtp/a".to_string())));
        // Once it is gone, the first one is selected.
        state.apply(overview(3.0, 0, &[("b", 3, 1)]));
        assert_eq!(
            press(&mut state, "h"),
            Some(WorkerCommand::Order(Verb::HOLD, "smtp/b".to_string()))
        );
        assert!(press(&mut state, "q").is_none() && state.has_left);
    }

    #[test]
    fn box_is_closed_by_any_key() {
        let mut state = TopState::default();
        state.apply(WorkerReport::Reason(vec!["it waits".to_string()]));
        assert_eq!((press(&mut state, "q"), state.reason.clone()), (None, None));
        assert_eq!(press(&mut state, "?q"), None);
        assert!(!state.has_left);
        assert!(press(&mut state, "q").is_none() && state.has_left);
    }

    #[test]
    fn connection_error_is_cleared_by_snapshot() {
        let mut state = TopState::default();
        let error = |ends_session| {
            WorkerReport::Status(StatusMessage {
                text: "x".to_string(),
                is_bad: true,
                ends_session,
            })
        };
        state.apply(error(true));
        assert!(state.message.as_ref().is_some_and(|message| message.is_bad));
        state.apply(overview(1.0, 0, &[]));
        assert_eq!(state.message, None);
        state.apply(error(false));
        state.apply(overview(2.0, 0, &[]));
        assert!(state.message.is_some());
        press(&mut state, "p");
        state.apply(overview(3.0, 9, &[]));
        assert_eq!(state.overview.summary.recipients_out, 0);
    }
}
