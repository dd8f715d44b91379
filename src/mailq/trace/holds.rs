//! Holds and releases of the status log, as far as they concern a message.

use super::histories::Limited;
use std::collections::{HashMap, HashSet};
use zsched_config::{Name, Pattern};
use zsched_format::status_log::{HoldLine, HoldOrder};

/// Maximum number of lines that are kept.
const MAX_LINES: usize = 100_000;
/// Scope of a release of everything.
const EVERYTHING: &str = "ALL";

/// The lines about holds and releases, in the order of the log.
pub(super) struct HoldLines {
    /// The lines.
    pub lines: Limited<HoldLine<'static>>,
    /// Indexes of those about a message, by its spool id.
    of_message: HashMap<String, Vec<usize>>,
    /// Indexes of those about destinations, with their pattern; `None` is everything.
    of_destinations: Vec<(usize, Option<Pattern>)>,
}

/// A message in the queue.
pub(super) struct HeldMessage<'m> {
    pub spool_id: &'m str,
    /// Channels and hosts of its recipients.
    pub destinations: &'m HashSet<(String, String)>,
    /// Arrival, in milliseconds since the epoch.
    pub arrived: Option<i64>,
    /// Time of its last line, in the form of the log; `None` if it is still in the queue.
    pub end: Option<&'m str>,
}

impl HoldLines {
    /// Creates an empty list.
    pub(super) fn new() -> HoldLines {
        let (of_message, of_destinations) = (HashMap::new(), Vec::new());
        HoldLines { lines: Limited::new(MAX_LINES), of_message, of_destinations }
    }

    /// Adds a line. The log does not say which destinations a ring had, so its lines are left out.
    pub(super) fn add(&mut self, line: HoldLine<'_>) {
        let id = line.scope.strip_prefix("id=").map(str::to_string);
        let pattern = match &*line.scope {
            scope if scope == EVERYTHING || id.is_some() => None,
            scope if scope.starts_with("ring=") => return,
            scope => match Pattern::parse(scope, &mut Vec::new()) {
                Ok(pattern) => Some(pattern),
                Err(_) => return,
            },
        };
        let Some(index) = self.lines.push(|| line.into_owned()) else { return };
        match id {
            Some(id) => self.of_message.entry(id).or_default().push(index),
            None => self.of_destinations.push((index, pattern)),
        }
    }

    /// The lines about a message or its destinations while it was in the queue.
    ///
    /// A hold from before its arrival counts if it was in force then.
    pub(super) fn of(&self, message: &HeldMessage<'_>) -> Vec<HoldLine<'static>> {
        let own = self.of_message.get(message.spool_id).into_iter().flatten().copied();
        let wide = self.of_destinations.iter().filter(|(_, pattern)| {
            let is_of = |(channel, host): &(String, String)| {
                let (channel, host) = (Name::new(channel.as_bytes()), Name::new(host.as_bytes()));
                pattern.as_ref().is_none_or(|pattern| pattern.matches(&channel, &host))
            };
            pattern.is_none() || message.destinations.iter().any(is_of)
        });
        let mut indexes: Vec<usize> = own.chain(wide.map(|(index, _)| *index)).collect();
        indexes.sort_unstable();
        let lines = indexes.into_iter().map(|index| &self.lines.kept[index]);
        let mut shown: Vec<&HoldLine<'static>> = Vec::new();
        let mut in_force: HashSet<&str> = HashSet::new();
        for line in lines.filter(|line| message.end.is_none_or(|end| *line.time <= *end)) {
            if line.order == HoldOrder::Hold {
                in_force.insert(&line.scope);
                shown.push(line);
                continue;
            }
            let was_held = match &*line.scope {
                EVERYTHING => !std::mem::take(&mut in_force).is_empty(),
                scope => in_force.remove(scope),
            };
            if message.arrived_after(line) {
                shown.retain(|hold| in_force.contains(&*hold.scope));
            } else if was_held {
                shown.push(line);
            }
        }
        shown.into_iter().cloned().collect()
    }
}

impl HeldMessage<'_> {
    fn arrived_after(&self, line: &HoldLine<'_>) -> bool {
        let time: Option<jiff::Timestamp> = line.time.parse().ok();
        time.zip(self.arrived).is_some_and(|(time, arrived)| time.as_millisecond() < arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "S4711AbmKUKEJuuHwA";

    /// The seconds and scopes of what is shown of `lines`: second, order, scope.
    fn shown(lines: &[(u32, HoldOrder, &str)], arrived: i64, end: Option<u32>) -> Vec<String> {
        let time = |second: u32| format!("1970-01-01T00:00:{second:02}.000Z");
        let mut all = HoldLines::new();
        for (second, order, scope) in lines {
            let (time, scope) = (time(*second).into(), (*scope).into());
            all.add(HoldLine { time, order: *order, scope, by: None, reason: None });
        }
        let destinations = HashSet::from([("smtp".to_string(), "mx.test".to_string())]);
        let end = end.map(time);
        let message = HeldMessage {
            spool_id: ID,
            destinations: &destinations,
            arrived: Some(arrived * 1000),
            end: end.as_deref(),
        };
        let found = all.of(&message).into_iter();
        found
            .map(|line| format!("{} {:?} {}", &line.time[17..19], line.order, line.scope))
            .collect()
    }

    #[test]
    fn holds_of_message_and_its_destinations_are_shown() {
        use HoldOrder::{Hold, Release};
        let own = format!("id={ID}");
        let lines = [
            (1, Hold, "smtp/*"),
            (2, Hold, "smtp/mx.test"),
            (3, Release, "smtp/*"),
            (11, Hold, own.as_str()),
            (12, Hold, "id=S4712AbmKUKEJuuHwA"),
            (13, Hold, "smtp/other.test"),
            (14, Hold, "ring=smtp/*"),
            (15, Release, own.as_str()),
            (16, Release, "ALL"),
            (17, Release, "ALL"),
            (18, Hold, "*/*"),
        ];
        let expected = [
            "02 Hold smtp/mx.test".to_string(),
            format!("11 Hold {own}"),
            format!("15 Release {own}"),
            "16 Release ALL".to_string(),
            "18 Hold */*".to_string(),
        ];
        assert_eq!(shown(&lines, 10, None), expected);
        assert_eq!(shown(&lines, 10, Some(15)), expected[..3]);
    }
}
