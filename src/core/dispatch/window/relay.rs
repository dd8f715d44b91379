//! Relays by destination: they group the destinations of one provider (`window-key=mx`).

use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::queue::{Destination, Queue, ThreadId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use zsched_format::control_file::diagnostic::NOTARY_SEPARATOR;

/// Maximum number of destinations whose relay is stored, with or without queued mail.
const MAX_RELAYS: usize = 100_000;
/// Maximum length of a relay name, in bytes.
///
/// A domain name has at most 255.
const MAX_RELAY_NAME_LEN: usize = 255;

/// Relays by destination; the oldest entries are dropped first.
#[derive(Default, Serialize, Deserialize)]
pub struct Relays {
    by_destination: BTreeMap<Destination, Rc<[u8]>>,
    in_order: VecDeque<Destination>,
}

impl Relays {
    /// The relay that has answered for a destination.
    pub fn of(&self, destination: &Destination) -> Option<&[u8]> {
        self.by_destination.get(destination).map(|relay| &**relay)
    }

    /// Stores the relay of a destination, unless there is one already.
    ///
    /// Returns true if it is new.
    ///
    /// The first one stays, because relays of one provider take turns.
    pub fn learn(&mut self, destination: &Destination, relay: &[u8]) -> bool {
        if relay.is_empty() || relay.len() > MAX_RELAY_NAME_LEN || self.of(destination).is_some() {
            return false;
        }
        if self.in_order.len() >= MAX_RELAYS
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.by_destination.remove(&oldest);
        }
        self.by_destination.insert(destination.clone(), relay.to_ascii_lowercase().into());
        self.in_order.push_back(destination.clone());
        true
    }
}

/// Host that an agent has talked to.
///
/// It is the fifth field of the notary data. An address behind the name is left out.
fn relay_of(notary: &[u8]) -> Option<&[u8]> {
    let name = notary.split(|byte| *byte == NOTARY_SEPARATOR).nth(4)?.trim_ascii();
    // `dns; mx.example.net (192.0.2.1)`, or the bare name.
    let name = name.rsplit(|byte| *byte == b';').next().unwrap_or(name).trim_ascii();
    let name = name.split(|byte| *byte == b' ').next().unwrap_or(name);
    (!name.is_empty()).then_some(name)
}

impl Dispatch {
    /// Learns the relay of a thread from a report.
    pub(crate) fn learn_relay_of_report(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        thread: ThreadId,
        notary: &[u8],
    ) {
        if queue.flow(thread).key.is_some()
            && let Some(relay) = relay_of(notary)
        {
            self.set_relay(queue, cx, thread, relay);
        }
    }

    /// Stores the relay of a thread.
    ///
    /// The thread may move to another window.
    pub(crate) fn set_relay(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        thread: ThreadId,
        relay: &[u8],
    ) {
        let destination = queue.thread(thread).destination.clone();
        if self.windows.relays.learn(&destination, relay) {
            self.unready(queue, thread);
            self.join_window(queue, cx, thread);
        }
    }

    /// Known relay of a thread, if its clause has a `window-key`.
    pub(crate) fn learned_relay(&self, queue: &Queue, thread: ThreadId) -> Option<&[u8]> {
        let relay = self.windows.relays.of(&queue.thread(thread).destination);
        relay.filter(|_| queue.flow(thread).key.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_is_last_notary_field() {
        let relay = |notary: &str| {
            relay_of(notary.as_bytes()).map(|relay| String::from_utf8_lossy(relay).into_owned())
        };
        assert_eq!(
            relay("a\x01ok\x012.0.0\x01smtp; 250\x01dns; mx.test").as_deref(),
            Some("mx.test")
        );
        assert_eq!(relay("a\x01ok\x012.0.0\x01smtp; 250\x01mx.test").as_deref(), Some("mx.test"));
        assert_eq!(relay("a\x01ok\x012.0.0\x01smtp; 250\x01"), None);
        assert_eq!(relay("a"), None);
    }

    #[test]
    fn relays_keep_first_relay_and_drop_oldest_destination() {
        let destination = |number: usize| Destination::new(b"smtp", number.to_string().as_bytes());
        let mut relays = Relays::default();
        assert!(relays.learn(&destination(0), b"MX1"));
        assert!(!relays.learn(&destination(0), b"mx2"));
        assert_eq!(relays.of(&destination(0)), Some(&b"mx1"[..]));
        for number in 1..=MAX_RELAYS {
            assert!(relays.learn(&destination(number), b"mx"));
        }
        assert_eq!(relays.of(&destination(0)), None);
        assert_eq!(relays.by_destination.len(), MAX_RELAYS);
        assert!(!relays.learn(&destination(0), b""));
    }
}
