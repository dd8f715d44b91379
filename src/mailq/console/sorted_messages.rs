//! Lists of messages in an order that the scheduler does not have: all that match are read, and the
//! first ones kept.

use super::arguments::{SelectionArgs, Sort};
use super::views::messages_request;
use crate::connect::lines::{LineSource, parse_object};
use crate::connect::session::Session;
use crate::failure::Failure;
use crate::message::files::MessageFiles;
use crate::progress::Progress;
use zsched_mailq_protocol::schema::QueuedMessage;

/// Minimum number of rows that are sorted at once.
const MIN_SORTED_ROWS: usize = 1000;

/// The first `most` messages in this order, as JSON.
pub(super) fn sorted_messages(
    session: &mut Session,
    selection: &SelectionArgs,
    most: usize,
    sort: Sort,
    files: &MessageFiles<'_>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let _progress = Progress::start("sorting all messages that match");
    let request = messages_request(selection, session.entries());
    let mut text = session.ask_for_text(request)?;
    let mut first = FirstRows::new(most);
    while let Some(line) = text.next()? {
        let message: QueuedMessage = parse_object(line)?;
        let key = match sort {
            Sort::Size => files.size(message.name.as_deref()).unwrap_or(0) as f64,
            _ => message.age.unwrap_or(0.0),
        };
        first.add(key, line);
    }
    Ok(first.finish())
}

/// The rows with the largest keys.
struct FirstRows {
    most: usize,
    rows: Vec<(f64, Vec<u8>)>,
}

impl FirstRows {
    fn new(most: usize) -> FirstRows {
        FirstRows { most, rows: Vec::new() }
    }

    fn add(&mut self, key: f64, row: &[u8]) {
        self.rows.push((key, row.to_vec()));
        // Each sort drops at least half of the rows, so that their number is bounded.
        if self.rows.len() > self.most.saturating_mul(2).max(MIN_SORTED_ROWS) {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        self.rows.truncate(self.most);
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        self.sort();
        self.rows.into_iter().map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_rows_are_those_with_largest_keys() {
        let mut rows = FirstRows::new(2);
        for number in (0..3000).chain([5000, 4000]) {
            rows.add(f64::from(number), number.to_string().as_bytes());
        }
        assert!(rows.rows.len() <= MIN_SORTED_ROWS + 1);
        assert_eq!(rows.finish(), [b"5000".to_vec(), b"4000".to_vec()]);
    }
}
