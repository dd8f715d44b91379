//! `N` lines: the notifications (RFC 3461) that a sender requests.
//!
//! ```text
//! N NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob@example.net BY=120;RT
//! ```
//!
//! Words are separated by blanks and may be in any order. Keywords may be in any case. Unknown
//! words are skipped.

/// The parameters of an `N` line. Values are slices of the line, still encoded (xtext).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notify<'a> {
    /// The events to report to the sender.
    pub events: Events,
    /// `ORCPT`: the recipient's address as the sender wrote it, `type;xtext`.
    pub original_recipient: Option<&'a [u8]>,
    /// `INRCPT`: the recipient's address on arrival at this system, `type;xtext`.
    pub incoming_recipient: Option<&'a [u8]>,
    /// `INFROM`: the sender's address on arrival at this system, `type;xtext`.
    pub incoming_sender: Option<&'a [u8]>,
    /// `EZMLM`: text for the local part of the envelope sender of this recipient.
    pub sender_suffix: Option<&'a [u8]>,
    /// `BY`: the deadline of delivery (RFC 2852).
    pub deliver_by: Option<DeliverBy>,
    /// `NOTBEFORE`: the first second of delivery, since the epoch. Only this scheduler obeys it.
    pub not_before: Option<u32>,
    /// `HOLDFOR`: the same, in seconds from the arrival of the message (RFC 4865).
    pub hold_for: Option<u32>,
    /// `WINDOW`: the window of the day ([`crate::schedule`]). Only this scheduler obeys it.
    pub window: Option<&'a [u8]>,
    /// `MERGE`: the fields that agents merge into the body ([`crate::merge`]).
    pub merge: Option<&'a [u8]>,
    /// `MT-PRIORITY`: -9 to 9, the highest is the most urgent (RFC 6710).
    pub transfer_priority: Option<i8>,
    /// `ALTERNATIVE`: the `X` line that the recipient was.
    ///
    /// Only this scheduler writes the word.
    pub alternative_of: Option<AlternativeOf>,
    /// `REQUIRETLS`: each hop must use verified TLS, and know this word (RFC 8689).
    pub require_tls: bool,
}

/// The `X` line that a recipient was: `ALTERNATIVE=offset,left`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlternativeOf {
    /// Offset of the `X` line.
    pub offset: u32,
    /// Number of `X` lines after it in its class.
    pub left: u32,
}

/// The events to report to the sender. An empty set means never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// The message was delivered, or passed to a system that sends no reports.
    pub success: bool,
    /// The message could not be delivered.
    pub failure: bool,
    /// The message is late.
    pub delay: bool,
    /// Every hop (RFC 3885).
    pub trace: bool,
}

/// A `BY` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverBy {
    /// Seconds from the arrival of the message to its deadline; negative once that has passed.
    pub seconds: i64,
    /// `R`: return the message after the deadline. Otherwise (`N`) only notify the sender.
    pub return_after: bool,
    /// `T`: report each relay.
    pub trace: bool,
}

impl Default for Events {
    /// The events of a recipient without NOTIFY.
    ///
    /// Delays are reported if the operator has set a time for it (RFC 3461, 4.1).
    fn default() -> Events {
        Events { failure: true, delay: true, ..Events::NONE }
    }
}

impl<'a> Notify<'a> {
    /// Parses the text after id and tag of an `N` line.
    ///
    /// Any text is accepted.
    pub fn parse(value: &'a [u8]) -> Notify<'a> {
        let mut notify = Notify::default();
        for word in value.split(|byte| matches!(byte, b' ' | b'\t')) {
            notify.require_tls |= word.eq_ignore_ascii_case(b"REQUIRETLS");
            let Some(equals) = memchr::memchr(b'=', word) else { continue };
            let (keyword, value) = (&word[..equals], &word[equals + 1..]);
            match keyword.to_ascii_uppercase().as_slice() {
                b"NOTIFY" => notify.events = Events::parse(value).unwrap_or(notify.events),
                b"ORCPT" => notify.original_recipient = Some(value),
                b"INRCPT" => notify.incoming_recipient = Some(value),
                b"INFROM" => notify.incoming_sender = Some(value),
                b"EZMLM" => notify.sender_suffix = Some(value),
                b"ALTERNATIVE" => notify.alternative_of = AlternativeOf::parse(value),
                b"NOTBEFORE" => notify.not_before = number(value),
                b"HOLDFOR" => notify.hold_for = number(value),
                b"WINDOW" => notify.window = Some(value),
                b"MERGE" => notify.merge = Some(value),
                b"MT-PRIORITY" => {
                    notify.transfer_priority = number(value).filter(|it| (-9..=9).contains(it));
                }
                b"BY" => notify.deliver_by = DeliverBy::parse(value),
                _ => {}
            }
        }
        notify
    }
}

impl Events {
    /// No event: NOTIFY=NEVER.
    pub const NONE: Events = Events { success: false, failure: false, delay: false, trace: false };

    /// The events of both.
    pub fn union(self, other: Events) -> Events {
        Events {
            success: self.success || other.success,
            failure: self.failure || other.failure,
            delay: self.delay || other.delay,
            trace: self.trace || other.trace,
        }
    }

    /// Parses a list such as `SUCCESS,DELAY`, up to the first unknown word.
    ///
    /// Returns `None` if the first word is unknown. The default applies then, so that a failure is
    /// reported.
    fn parse(list: &[u8]) -> Option<Events> {
        let mut events = Events::NONE;
        let mut known = 0;
        for word in list.split(|byte| *byte == b',') {
            match word.to_ascii_uppercase().as_slice() {
                b"NEVER" => {}
                b"SUCCESS" => events.success = true,
                b"FAILURE" => events.failure = true,
                b"DELAY" => events.delay = true,
                b"TRACE" => events.trace = true,
                _ => break,
            }
            known += 1;
        }
        (known > 0).then_some(events)
    }
}

/// The value of NOTIFY.
impl std::fmt::Display for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = [
            (self.success, "SUCCESS"),
            (self.failure, "FAILURE"),
            (self.delay, "DELAY"),
            (self.trace, "TRACE"),
        ];
        let words = named.iter().filter(|(is_on, _)| *is_on).map(|(_, word)| *word);
        let words: Vec<&str> = words.collect();
        f.write_str(&if words.is_empty() { "NEVER".to_string() } else { words.join(",") })
    }
}

impl AlternativeOf {
    fn parse(value: &[u8]) -> Option<AlternativeOf> {
        let (offset, left) = std::str::from_utf8(value).ok()?.split_once(',')?;
        Some(AlternativeOf { offset: offset.parse().ok()?, left: left.parse().ok()? })
    }
}

impl std::fmt::Display for AlternativeOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ALTERNATIVE={},{}", self.offset, self.left)
    }
}

fn number<N: std::str::FromStr>(value: &[u8]) -> Option<N> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl DeliverBy {
    /// Parses `[-]seconds[;flags]`.
    fn parse(value: &[u8]) -> Option<DeliverBy> {
        let mut parts = value.splitn(2, |byte| *byte == b';');
        let seconds = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        let flags = parts.next().unwrap_or_default();
        let has = |flag: u8| flags.iter().any(|byte| byte.eq_ignore_ascii_case(&flag));
        Some(DeliverBy { seconds, return_after: has(b'R'), trace: has(b'T') })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(value: &str) -> String {
        Notify::parse(value.as_bytes()).events.to_string()
    }

    #[test]
    fn notify_events_replace_default() {
        for (value, expected) in [
            ("", "FAILURE,DELAY"),
            ("ORCPT=rfc822;x@y", "FAILURE,DELAY"),
            ("NOTIFY=NEVER", "NEVER"),
            ("NOTIFY=SUCCESS", "SUCCESS"),
            ("ORCPT=rfc822;okdsn+2Borig@h NOTIFY=SUCCESS,FAILURE,DELAY", "SUCCESS,FAILURE,DELAY"),
            ("notify=delay,Failure\torcpt=a;b", "FAILURE,DELAY"),
            ("NOTIFY=TRACE,junk,SUCCESS", "TRACE"),
            ("NOTIFY=junk", "FAILURE,DELAY"),
            ("NOTIFY=", "FAILURE,DELAY"),
            ("XNOTIFY=NEVER NOTIFY", "FAILURE,DELAY"),
        ] {
            assert_eq!(events(value), expected, "{value}");
        }
    }

    #[test]
    fn addresses_and_deadline_are_parsed() {
        let notify = Notify::parse(b"ORCPT=rfc822;by@h INRCPT=a;b INFROM=c;d EZMLM=-7 BY=120;RT");
        assert_eq!(notify.original_recipient, Some(&b"rfc822;by@h"[..]));
        assert_eq!(notify.incoming_recipient, Some(&b"a;b"[..]));
        assert_eq!(notify.incoming_sender, Some(&b"c;d"[..]));
        assert_eq!(notify.sender_suffix, Some(&b"-7"[..]));
        assert!(!notify.require_tls && Notify::parse(b"ORCPT=a;b requiretls").require_tls);
        let by = DeliverBy { seconds: 120, return_after: true, trace: true };
        assert_eq!(notify.deliver_by, Some(by));
        let late = DeliverBy { seconds: -5, return_after: false, trace: false };
        assert_eq!(Notify::parse(b"BY=-5;n").deliver_by, Some(late));
        assert_eq!(Notify::parse(b"BY=soon").deliver_by, None);
        let notify = Notify::parse(b"NOTBEFORE=1795453200 window=22:00-06:00 MT-PRIORITY=-4");
        assert_eq!((notify.not_before, notify.transfer_priority), (Some(1_795_453_200), Some(-4)));
        assert_eq!(notify.window, Some(&b"22:00-06:00"[..]));
        let wrong = Notify::parse(b"NOTBEFORE=soon MT-PRIORITY=10");
        assert_eq!((wrong.not_before, wrong.transfer_priority), (None, None));
        let of = AlternativeOf { offset: 107, left: 2 };
        assert_eq!(Notify::parse(b"ALTERNATIVE=107,2 NOTIFY=DELAY").alternative_of, Some(of));
        assert_eq!(Notify::parse(b"ALTERNATIVE=107").alternative_of, None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(value: Vec<u8>) {
            Notify::parse(&value);
        }
    }
}
