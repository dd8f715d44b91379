//! The event feed: subscribers, and the lines that wait for each of them.
//!
//! A publisher first asks [`Subscribers::has_subscribers`], so that an event without subscribers
//! costs nothing. Events that a subscriber does not read in time are dropped and counted; nothing
//! waits for a subscriber.

use super::arguments::{Arguments, SyntaxError};
use super::json;
use super::selection::{MessageName, Selection};
use super::task::{Reply, ReplyResult, SessionContext};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use zsched_core::Destination;
use zsched_core::overrides::DestinationPattern;
use zsched_spool::{SpoolId, SpoolName};

pub use zsched_mailq_protocol::schema::QueueEvent;

/// Maximum number of bytes that wait for one subscriber.
const MAX_QUEUED_BYTES: usize = 256 * 1024;

/// All subscribers.
#[derive(Default)]
pub struct Subscribers {
    subscribers: RefCell<Vec<(SubscriptionFilter, Weak<SubscriberQueue>)>>,
}

/// The criteria of a subscriber. An event must match all of them.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionFilter {
    destinations: Option<DestinationPattern>,
    message: Option<MessageName>,
}

/// The lines that wait for one subscriber.
#[derive(Default)]
pub struct SubscriberQueue(RefCell<QueuedLines>);

#[derive(Default)]
struct QueuedLines {
    lines: Vec<u8>,
    /// Number of events dropped after these lines.
    dropped: u64,
}

/// The subject of an event, as far as subscribers can select by it.
#[derive(Clone, Copy, Default)]
pub struct EventSubject<'a> {
    /// The message.
    pub message: Option<(SpoolId, &'a SpoolName)>,
    /// Its destinations.
    pub destinations: &'a [Destination],
}

impl Subscribers {
    /// Returns true if there is a subscriber.
    pub fn has_subscribers(&self) -> bool {
        !self.subscribers.borrow().is_empty()
    }

    /// Removes subscribers whose feed was dropped.
    pub fn remove_closed(&self) {
        let mut subscribers = self.subscribers.borrow_mut();
        if !subscribers.is_empty() {
            subscribers.retain(|(_, queue)| queue.strong_count() > 0);
        }
    }

    /// Adds a subscriber, which stays until the returned feed is dropped.
    pub fn subscribe(&self, filter: SubscriptionFilter) -> Rc<SubscriberQueue> {
        let queue = Rc::new(SubscriberQueue::default());
        self.subscribers.borrow_mut().push((filter, Rc::downgrade(&queue)));
        queue
    }

    /// Publishes an event to the subscribers that it matches.
    pub fn publish(&self, about: EventSubject<'_>, event: &QueueEvent<'_>) {
        let mut line = Vec::new();
        self.subscribers.borrow_mut().retain(|(filter, queue)| {
            let Some(queue) = queue.upgrade() else {
                return false;
            };
            if filter.matches(&about) {
                if line.is_empty() {
                    json::line(&mut line, event);
                }
                queue.0.borrow_mut().add(&line);
            }
            true
        });
    }
}

impl SubscriptionFilter {
    /// Parses the words of a request.
    pub fn parse(rest: &[u8]) -> Result<SubscriptionFilter, SyntaxError> {
        let mut words = Arguments::parse(rest)?;
        let Selection { destinations, message, older, held, files } = Selection::take(&mut words)?;
        words.end()?;
        if older.is_some() || held || files.is_given() {
            return Err(SyntaxError::new(0, "events are selected by channel/host and id= alone"));
        }
        let destinations = destinations.filter(|wanted| wanted.text() != "*/*");
        Ok(SubscriptionFilter { destinations, message })
    }

    fn matches(&self, about: &EventSubject<'_>) -> bool {
        let goes_there =
            |wanted: &DestinationPattern| about.destinations.iter().any(|d| wanted.matches(d));
        let is_about =
            |wanted: &MessageName| about.message.is_some_and(|(id, name)| wanted.matches(id, name));
        self.destinations.as_ref().is_none_or(goes_there)
            && self.message.as_ref().is_none_or(is_about)
    }
}

impl SubscriberQueue {
    /// Returns true if lines or a count of dropped events wait.
    pub fn has_output(&self) -> bool {
        let waiting = self.0.borrow();
        !waiting.lines.is_empty() || waiting.dropped > 0
    }

    /// Takes whole lines, at least `enough` bytes if there are as many.
    pub fn take(&self, out: &mut Vec<u8>, enough: usize) {
        let mut waiting = self.0.borrow_mut();
        let enough = enough.min(waiting.lines.len());
        let end = memchr::memchr(b'\n', &waiting.lines[enough.saturating_sub(1)..]);
        let end = end.map_or(waiting.lines.len(), |end| enough.saturating_sub(1) + end + 1);
        out.extend(waiting.lines.drain(..end));
        if waiting.lines.is_empty() {
            waiting.write_dropped();
            out.append(&mut waiting.lines);
        }
    }
}

impl QueuedLines {
    fn add(&mut self, line: &[u8]) {
        if self.lines.len() + line.len() > MAX_QUEUED_BYTES {
            self.dropped += 1;
            return;
        }
        self.write_dropped();
        self.lines.extend_from_slice(line);
    }

    fn write_dropped(&mut self) {
        if self.dropped > 0 {
            let count = std::mem::take(&mut self.dropped);
            json::line(&mut self.lines, &QueueEvent::Dropped { count });
        }
    }
}

/// Answers `SUBSCRIBE`.
pub(crate) fn subscribe(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    Ok(Reply::Stream(context.subscribers.subscribe(SubscriptionFilter::parse(rest)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_format::time::Timestamp;

    fn left(watch: &Subscribers, number: u64) {
        let id = SpoolId { number, modified: Timestamp::EPOCH };
        let name = SpoolName::new(zsched_spool::HashFolder::TOP, number.to_string().as_bytes());
        let name = name.expect("a name");
        let about = EventSubject { message: Some((id, &name)), destinations: &[] };
        watch.publish(about, &QueueEvent::Left { time: 1.5, id: id.to_string() });
    }

    fn taken(queue: &SubscriberQueue, enough: usize) -> String {
        let mut out = Vec::new();
        queue.take(&mut out, enough);
        String::from_utf8(out).expect("JSON")
    }

    #[test]
    fn subscriber_receives_matching_events_until_dropped() {
        let watch = Subscribers::default();
        assert!(!watch.has_subscribers());
        left(&watch, 1);
        let all = watch.subscribe(SubscriptionFilter::parse(b"*/*").expect("everything"));
        let one = watch.subscribe(SubscriptionFilter::parse(b"id=7").expect("a message"));
        let there = watch.subscribe(SubscriptionFilter::parse(b"smtp/*").expect("a pattern"));
        assert!(watch.has_subscribers() && !all.has_output());
        left(&watch, 7);
        left(&watch, 8);
        assert_eq!(taken(&all, 1 << 20).lines().count(), 2);
        let line = taken(&one, 1 << 20);
        assert!(line.starts_with("{\"event\":\"left\",\"time\":1.5,\"id\":\"S7A"), "{line}");
        assert!(!there.has_output() && !one.has_output());
        drop((all, one, there));
        left(&watch, 7);
        assert!(!watch.has_subscribers());
    }

    #[test]
    fn events_beyond_limit_are_dropped_and_counted() {
        let watch = Subscribers::default();
        let queue = watch.subscribe(SubscriptionFilter::default());
        (0..10_000).for_each(|number| left(&watch, number));
        assert!(queue.0.borrow().lines.len() <= MAX_QUEUED_BYTES);
        // At least one whole line is taken, and never a part of a line.
        assert_eq!(taken(&queue, 1).lines().count(), 1);
        left(&watch, 1);
        let mut all = String::new();
        while queue.has_output() {
            let some = taken(&queue, 1000);
            assert!(some.ends_with('\n') && some.len() < 1200);
            all += &some;
        }
        let dropped = all.lines().find(|line| line.contains("dropped")).expect("some were dropped");
        let count: usize = dropped["{\"event\":\"dropped\",\"count\":".len()..dropped.len() - 1]
            .parse()
            .expect("a number");
        let told = all.lines().filter(|line| line.contains("left")).count();
        assert_eq!(told + count, 10_000, "{dropped}");
    }

    #[test]
    fn subscription_by_age_or_address_is_refused() {
        for text in ["older=1h", "larger=1k", "sender=a", "recipient=a", "a/b c/d", "foo=1"] {
            assert!(SubscriptionFilter::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
