//! The core as the loop uses it: recorded, and published to subscribers.
//!
//! Events and actions pass through here, for `--record` and for MAILQ. That costs one comparison
//! each while there are neither a recorder nor subscribers. Questions go to the core itself
//! ([`ObservedCore::query`]).

use crate::logging::mail_log::{self, delivery_status};
use std::borrow::Cow;
use std::rc::Rc;
use zsched_core::{
    Action, AgentEnd, AgentId, Destination, Event, RereadResult, Scheduler, StatusRecord,
};
use zsched_format::status_log::DeliveryStatus;
use zsched_format::time::Timestamp;
use zsched_mailq_server::v2::events::{EventSubject, QueueEvent, Subscribers};
use zsched_mailq_server::v2::json::seconds;
use zsched_recorder::RecordedCore;
use zsched_spool::{Arrival, SpoolId};

/// The core with an optional recorder, and the feed of its subscribers.
pub(crate) struct ObservedCore {
    /// The core with an optional recorder.
    pub(crate) recorded: RecordedCore,
    feed: Rc<Subscribers>,
    /// Value of the last `Event::Subscribed` passed to the core.
    has_subscribers: bool,
}

impl ObservedCore {
    /// Wraps a core. There are no subscribers yet.
    pub(crate) fn new(recorded: RecordedCore, feed: Rc<Subscribers>) -> ObservedCore {
        ObservedCore { recorded, feed, has_subscribers: false }
    }

    /// Notifies the core of the first subscriber and of the last one leaving.
    pub(crate) fn update_subscribers(&mut self, now: Timestamp) {
        self.feed.remove_closed();
        let has_subscribers = self.feed.has_subscribers();
        if has_subscribers != self.has_subscribers {
            self.has_subscribers = has_subscribers;
            self.recorded.handle(now, Event::Subscribed(has_subscribers));
        }
    }

    /// Publishes an event and passes it to the core.
    pub(crate) fn handle(&mut self, now: Timestamp, event: Event<'_>) {
        if let Some(feed) = self.feed(now) {
            feed.publish_event(&event);
        }
        self.recorded.handle(now, event);
    }

    /// Removes, publishes and returns the next action of the core.
    pub(crate) fn poll(&mut self, now: Timestamp) -> Option<Action> {
        let action = self.recorded.poll()?;
        if let (Some(feed), Action::Status(record)) = (self.feed(now), &action) {
            feed.status(record);
        }
        Some(action)
    }

    /// The feed, if there are subscribers.
    fn feed(&self, now: Timestamp) -> Option<FeedWriter<'_>> {
        let feed = FeedWriter { core: self.recorded.query(), feed: &self.feed, time: seconds(now) };
        self.feed.has_subscribers().then_some(feed)
    }

    /// The core, to be asked about its state.
    pub(crate) fn query(&self) -> &Scheduler {
        self.recorded.query()
    }
}

/// Publishes events and actions. An event is published before the core handles it.
struct FeedWriter<'a> {
    core: &'a Scheduler,
    feed: &'a Subscribers,
    time: f64,
}

impl FeedWriter<'_> {
    fn publish_event(&self, event: &Event<'_>) {
        let time = self.time;
        match event {
            Event::Arrived(arrival) => self.arrived(arrival),
            Event::Removed { number, outcome: Ok(()) }
            | Event::ReadAgain { number, outcome: RereadResult::Gone } => self.left(*number),
            Event::AgentStarted { agent, pid } => self.agent(*agent, Ok(*pid)),
            Event::AgentEnded { agent, end } => self.agent(*agent, Err(end)),
            Event::Configured(_) => {
                self.feed.publish(EventSubject::default(), &QueueEvent::Reloaded { time });
            }
            _ => {}
        }
    }

    fn arrived(&self, arrival: &Arrival) {
        let (number, modified) = (arrival.name.number(), arrival.modified);
        if !self.core.view().is_new(number) {
            return;
        }
        let id = SpoolId { number, modified };
        let to = |group: &zsched_spool::Group| Destination::new(&group.channel, &group.host);
        let destinations: Vec<Destination> = arrival.groups.iter().map(to).collect();
        let recipients = arrival.groups.iter().map(|group| group.offsets.len() as u64).sum();
        let about =
            EventSubject { message: Some((id, &arrival.name)), destinations: &destinations };
        let id = id.to_string();
        self.feed.publish(about, &QueueEvent::Arrived { time: self.time, id, recipients });
    }

    fn left(&self, number: u64) {
        if let Some(message) = self.core.view().message(number) {
            let id = message.spool_id();
            let about = EventSubject { message: Some((id, &message.name())), destinations: &[] };
            self.feed.publish(about, &QueueEvent::Left { time: self.time, id: id.to_string() });
        }
    }

    fn status(&self, record: &StatusRecord) {
        let id = SpoolId { number: record.name.number(), modified: record.modified };
        let about = EventSubject {
            message: Some((id, &record.name)),
            destinations: std::slice::from_ref(&record.destination),
        };
        let (channel, host) = parts(&record.destination);
        let status = delivery_status(record.verdict);
        let state = status.map_or("found", DeliveryStatus::word);
        let offset = record.offsets.first().copied().unwrap_or_default();
        let time = self.time;
        let recipients = Some(record.offsets.len() as u64).filter(|count| *count > 1);
        if let Some(attempt) = &record.attempt {
            let event = QueueEvent::Attempt {
                time,
                id: id.to_string(),
                channel: channel.clone(),
                host: host.clone(),
                pid: attempt.pid,
                offset,
                recipients,
                status: state.into(),
                report: mail_log::word(record.verdict).map(Cow::from),
                text: String::from_utf8_lossy(&record.text),
            };
            self.feed.publish(about, &event);
        }
        if status.is_none_or(DeliveryStatus::is_final) {
            let (id, state) = (id.to_string(), state.into());
            let event = QueueEvent::Finished { time, id, channel, host, offset, recipients, state };
            self.feed.publish(about, &event);
        }
    }

    /// Publishes that an agent has started, as this process, or has ended.
    fn agent(&self, agent: AgentId, state: Result<u32, &AgentEnd>) {
        let Some(row) = self.core.view().agent(agent) else { return };
        let time = self.time;
        let channel = String::from_utf8_lossy(&row.ring.channel);
        let host = row.destination.map(|to| String::from_utf8_lossy(to.host()));
        let ring = row.ring.pattern();
        let event = match state {
            Ok(pid) => QueueEvent::AgentStarted { time, pid, channel, host, ring },
            Err(end) => {
                let (pid, how) = (row.agent.pid, end.to_string());
                QueueEvent::AgentEnded { time, pid, channel, host, ring, how }
            }
        };
        let destinations = row.destination.map(std::slice::from_ref).unwrap_or_default();
        self.feed.publish(EventSubject { message: None, destinations }, &event);
    }
}

/// Channel and host as text.
fn parts(destination: &Destination) -> (Cow<'_, str>, Cow<'_, str>) {
    let text = |bytes| String::from_utf8_lossy(bytes);
    (text(destination.channel()), text(destination.host()))
}
