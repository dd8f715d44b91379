//! Log lines that may come as often as somebody outside likes.

use std::time::{Duration, Instant};

/// The time between two lines of a kind.
const BETWEEN: Duration = Duration::from_secs(10);

/// Lines of a kind that are written now and then, with the number of those that were not.
#[derive(Default)]
pub struct Seldom {
    last: Option<Instant>,
    left_out: usize,
}

impl Seldom {
    /// There is a line to be written. Returns what is to be put at its end, if it is time for one.
    pub fn occasion(&mut self, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < BETWEEN) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        match std::mem::take(&mut self.left_out) {
            0 => Some(String::new()),
            count => Some(format!("; and {count} times since this was last said")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_now_and_then_and_none_is_forgotten() {
        let start = Instant::now();
        let mut lines = Seldom::default();
        let mut said = Vec::new();
        for second in 0..25 {
            said.extend(lines.occasion(start + Duration::from_secs(second)));
        }
        assert_eq!(
            said,
            [
                "",
                "; and 9 times since this was last said",
                "; and 9 times since this was last said"
            ]
        );
    }
}
