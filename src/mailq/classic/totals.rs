//! The summary: one line for each channel and host.
//!
//! ```text
//! DESTINATION         MSGS  RCPTS  RUN  RETRY  WAIT  OLDEST  LAST TEXT
//! smtpx/[127.0.0.66]     3      4    0      3     0     14s  smtp; 500 refused
//! hold/a.test            1      1    1      0     0     14s
//! total                  4      5    1      3     0
//! ```

use super::queue::{DeliveryState, QueuedThread};
use crate::failure::Failure;
use crate::screen::{Screen, Style, visible};
use crate::table::{Column, ColumnKind, print_table};

/// Maximum length of the last text, in characters.
const MAX_TEXT_LEN: usize = 60;

/// A thread, or the sum of all.
#[derive(Debug, Default)]
struct Totals {
    name: String,
    messages: u64,
    recipients: u64,
    running: u64,
    retry: u64,
    waiting: u64,
    /// Age of the oldest message.
    age: String,
    /// Last text of an agent.
    text: String,
}

/// Prints the summary.
pub(super) fn print(screen: &mut Screen<'_>, threads: &[QueuedThread]) -> Result<(), Failure> {
    let mut rows: Vec<Totals> = threads.iter().map(Totals::new).collect();
    let mut total = Totals { name: "total".to_string(), ..Totals::default() };
    rows.iter().for_each(|row| total.add(row));
    rows.push(total);
    Ok(print_table(&columns(), &rows, screen)?)
}

fn columns<'c>() -> [Column<'c, Totals>; 8] {
    // Programs may read it, so numbers have no separators.
    let number = |title, number: fn(&Totals) -> String| {
        Column::new(title, ColumnKind::Number, move |row| (number(row), Style::Plain))
    };
    [
        Column::name("DESTINATION", |row: &Totals| row.name.clone()),
        number("MSGS", |row| row.messages.to_string()),
        number("RCPTS", |row| row.recipients.to_string()),
        number("RUN", |row| row.running.to_string()),
        number("RETRY", |row| row.retry.to_string()),
        number("WAIT", |row| row.waiting.to_string()),
        number("OLDEST", |row| row.age.clone()),
        Column::new("LAST TEXT", ColumnKind::Text, |row: &Totals| (row.text.clone(), Style::Plain)),
    ]
}

impl Totals {
    fn new(thread: &QueuedThread) -> Totals {
        let mut row = Totals {
            name: visible(&[thread.channel.as_slice(), b"/", &thread.host].concat()),
            messages: thread.vertices.len() as u64,
            age: visible(thread.age.as_deref().unwrap_or(b"-")),
            text: last_text(thread),
            ..Totals::default()
        };
        for vertex in &thread.vertices {
            row.recipients = row.recipients.saturating_add(vertex.recipients);
            match vertex.text_and_state().1 {
                DeliveryState::Running => row.running += 1,
                DeliveryState::Retry => row.retry += 1,
                DeliveryState::Waiting => row.waiting += 1,
            }
        }
        row
    }

    fn add(&mut self, other: &Totals) {
        self.messages += other.messages;
        self.recipients = self.recipients.saturating_add(other.recipients);
        self.running += other.running;
        self.retry += other.retry;
        self.waiting += other.waiting;
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
        let row = |name: &str| Totals {
            name: name.to_string(),
            messages: 1,
            recipients: 1,
            retry: 1,
            age: "5s".to_string(),
            text: "text".to_string(),
            ..Totals::default()
        };
        let mut out = Vec::new();
        let rows = [row("a/b"), row(&"x".repeat(100_000))];
        print_table(&columns(), &rows, &mut Screen::new(&mut out)).expect("a Vec takes everything");
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert!(lines[0].len() < 400, "{}", lines[0]);
        assert!(lines[0].starts_with("a/b  ") && lines[0].ends_with("5s  text"));
        assert!(lines[1].ends_with("x     1      1    0      1     0      5s  text"));
    }
}
