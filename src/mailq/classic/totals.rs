//! The summary: one line for each channel and host.
//!
//! ```text
//! THREAD              MSGS  RCPTS  RUN  RETRY  WAIT  OLDEST  LAST TEXT
//! smtpx/[127.0.0.66]     3      4    0      3     0     14s  smtp; 500 refused
//! hold/a.test            1      1    1      0     0     14s
//! total                  4      5    1      3     0
//! ```

use super::queue::{DeliveryState, QueuedThread};
use crate::failure::Failure;
use crate::screen::{Screen, Style, visible};
use crate::table::{self, Cell, ColumnKind, Table, TableColumn};
use std::iter;

/// Maximum length of the last text, in characters.
const MAX_TEXT_LEN: usize = 60;
/// Counts of a thread, or of all.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    messages: u64,
    recipients: u64,
    running: u64,
    retry: u64,
    waiting: u64,
}

/// Prints the summary.
pub(super) fn print(screen: &mut Screen<'_>, threads: &[QueuedThread]) -> Result<(), Failure> {
    let mut total = Counts::default();
    let mut rows = Vec::new();
    for thread in threads {
        let counts = Counts::of(thread);
        total.add(&counts);
        let name = visible(&[thread.channel.as_slice(), b"/", &thread.host].concat());
        let age = visible(thread.age.as_deref().unwrap_or(b"-"));
        rows.push(counts.row(name, age, last_text(thread)));
    }
    rows.push(total.row("total".to_string(), String::new(), String::new()));
    Ok(table::print(&table(rows), screen)?)
}

fn table(rows: Vec<Vec<Cell>>) -> Table {
    let numbers = ["MSGS", "RCPTS", "RUN", "RETRY", "WAIT", "OLDEST"];
    let mut columns = vec![("DESTINATION", ColumnKind::Name)];
    columns.extend(numbers.map(|title| (title, ColumnKind::Number)));
    columns.push(("LAST TEXT", ColumnKind::Text));
    let column = |(title, kind): (&'static str, _)| TableColumn {
        title: title.into(),
        kind,
        is_optional: false,
    };
    Table { columns: columns.into_iter().map(column).collect(), rows }
}

impl Counts {
    fn of(thread: &QueuedThread) -> Counts {
        let mut counts = Counts { messages: thread.vertices.len() as u64, ..Counts::default() };
        for vertex in &thread.vertices {
            counts.recipients = counts.recipients.saturating_add(vertex.recipients);
            match vertex.text_and_state().1 {
                DeliveryState::Running => counts.running += 1,
                DeliveryState::Retry => counts.retry += 1,
                DeliveryState::Waiting => counts.waiting += 1,
            }
        }
        counts
    }

    fn add(&mut self, other: &Counts) {
        self.messages += other.messages;
        self.recipients = self.recipients.saturating_add(other.recipients);
        self.running += other.running;
        self.retry += other.retry;
        self.waiting += other.waiting;
    }

    fn row(&self, name: String, age: String, text: String) -> Vec<Cell> {
        let counts = [self.messages, self.recipients, self.running, self.retry, self.waiting];
        let counts = counts.map(|count| count.to_string());
        let cells = iter::once(name).chain(counts).chain([age, text]);
        cells.map(|cell| (cell, Style::Plain)).collect()
    }
}

/// Last text of an agent, cut to [`MAX_TEXT_LEN`].
///
/// It is that of the message received last, among those that have a text.
fn last_text(thread: &QueuedThread) -> String {
    let texts = thread.vertices.iter().map(|vertex| vertex.text_and_state().0);
    // Agents put CR between the lines of a dialogue. The last one is the answer that counts.
    let lines = texts.flat_map(|text| text.rsplit(|byte| *byte == b'\r'));
    let line = lines.map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    let text = visible(line.unwrap_or_default()).replace('\t', " ");
    match text.char_indices().nth(MAX_TEXT_LEN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_with_long_name_stays_narrow() {
        let counts = Counts { messages: 1, recipients: 1, retry: 1, ..Counts::default() };
        let row = |name: &str| counts.row(name.to_string(), "5s".to_string(), "text".to_string());
        let mut out = Vec::new();
        let table = table(vec![row("a/b"), row(&"x".repeat(100_000))]);
        table::print(&table, &mut Screen::new(&mut out)).expect("a Vec takes everything");
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert!(lines[0].len() < 400, "{}", lines[0]);
        assert!(lines[0].starts_with("a/b  ") && lines[0].ends_with("5s  text"));
        assert!(lines[1].ends_with("x     1      1    0      1     0      5s  text"));
    }
}
