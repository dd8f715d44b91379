//! The summary: one line for each channel and host.
//!
//! ```text
//! THREAD              MSGS  RCPTS  RUN  RETRY  WAIT  OLDEST  LAST TEXT
//! smtpx/[127.0.0.66]     3      4    0      3     0     14s  smtp; 500 refused
//! hold/a.test            1      1    1      0     0     14s
//! total                  4      5    1      3     0
//! ```

use super::details::ControlFiles;
use super::listing::OutputFilter;
use super::notes::{self, DeliveryState};
use super::queue::{Queue, QueuedThread};
use super::report::Ages;
use crate::failure::Failure;
use crate::screen::{Screen, visible};
use std::io::Write;

/// Maximum length of the last text, in characters.
const MAX_TEXT_LEN: usize = 60;
/// Maximum width of a column, in characters. Longer cells shift their row.
const MAX_COLUMN_WIDTH: usize = 80;
/// Titles of the columns: names first, texts last, numbers between.
const TITLES: [&str; 8] =
    ["DESTINATION", "MSGS", "RCPTS", "RUN", "RETRY", "WAIT", "OLDEST", "LAST TEXT"];

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
pub(super) fn print<W: Write>(
    screen: &mut Screen<W>,
    queue: &Queue,
    ages: &Ages,
    filter: &OutputFilter,
    files: &mut ControlFiles<'_>,
) -> Result<(), Failure> {
    let threads = filter.threads(queue, files);
    if threads.is_empty() {
        writeln!(screen, "{}", filter.empty_text(queue.count() == 0))?;
        return Ok(());
    }
    let mut total = Counts::default();
    let mut rows = vec![TITLES.map(str::to_string)];
    for thread in &threads {
        let counts = Counts::of(thread);
        total.add(&counts);
        let name = visible(&[thread.channel, b"/", thread.host].concat());
        let age = ages.get(&(thread.channel.to_vec(), thread.host.to_vec()));
        let age = age.map_or("-".to_string(), |age| visible(age));
        rows.push(counts.row(name, age, last_text(thread)));
    }
    rows.push(total.row("total".to_string(), String::new(), String::new()));
    for line in aligned(&rows) {
        writeln!(screen, "{line}")?;
    }
    Ok(())
}

impl Counts {
    fn of(thread: &QueuedThread<'_>) -> Counts {
        let mut counts = Counts { messages: thread.vertices.len() as u64, ..Counts::default() };
        for vertex in &thread.vertices {
            counts.recipients = counts.recipients.saturating_add(vertex.recipients);
            match notes::split(vertex.text.as_deref().unwrap_or_default()).1 {
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

    fn row(&self, name: String, age: String, text: String) -> [String; 8] {
        let Counts { messages, recipients, running, retry, waiting } = *self;
        let [messages, recipients, running, retry, waiting] =
            [messages, recipients, running, retry, waiting].map(|count| count.to_string());
        [name, messages, recipients, running, retry, waiting, age, text]
    }
}

/// Last text of an agent, cut to [`MAX_TEXT_LEN`].
///
/// It is that of the message received last, among those that have a text.
fn last_text(thread: &QueuedThread<'_>) -> String {
    let texts = thread.vertices.iter().filter_map(|vertex| vertex.text.as_deref());
    // Agents put CR between the lines of a dialogue. The last one is the answer that counts.
    let lines = texts.map(|text| notes::split(text).0.rsplit(|byte| *byte == b'\r'));
    let line = lines.flatten().map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    let text = visible(line.unwrap_or_default()).replace('\t', " ");
    match text.char_indices().nth(MAX_TEXT_LEN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn aligned(rows: &[[String; 8]]) -> Vec<String> {
    // One very long name must not widen all other rows.
    let cell = |row: &[String; 8], column: usize| row[column].chars().count().min(MAX_COLUMN_WIDTH);
    let width = |column: usize| rows.iter().map(|row| cell(row, column)).max();
    let widths: Vec<usize> = (0..TITLES.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 8]| {
        let (name, numbers, text) = (&row[0], &row[1..7], &row[7]);
        let mut line = format!("{name:<width$}", width = widths[0]);
        for (number, width) in numbers.iter().zip(&widths[1..]) {
            line.push_str(&format!("  {number:>width$}"));
        }
        format!("{line}  {text}").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_with_long_name_stays_narrow() {
        let row = |name: &str| [name, "1", "1", "0", "1", "0", "5s", "text"].map(str::to_string);
        let lines = aligned(&[row("a/b"), row(&"x".repeat(100_000))]);
        assert!(lines[0].len() < 200, "{}", lines[0]);
        assert!(lines[0].starts_with("a/b  ") && lines[0].ends_with("5s  text"));
        assert!(lines[1].ends_with("x  1  1  0  1  0  5s  text"));
    }
}
