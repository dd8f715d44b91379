//! DSN parameters of recipients that aliases lead to (RFC 3461, 5.2.7).

use super::address::MailAddress;
use std::rc::Rc;
use zsched_format::control_file::notify::{Events, Notify};

/// What parameters ask for, as far as those of several ways to a recipient add up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wishes {
    events: Events,
    has_original_recipient: bool,
    require_tls: bool,
}

impl Wishes {
    pub(crate) fn of(notify: &str) -> Wishes {
        let notify = Notify::parse(notify.as_bytes());
        Wishes {
            events: notify.events,
            has_original_recipient: notify.original_recipient.is_some(),
            require_tls: notify.require_tls,
        }
    }

    /// What both ask for.
    pub(crate) fn and(self, other: Wishes) -> Wishes {
        Wishes {
            events: self.events.union(other.events),
            has_original_recipient: self.has_original_recipient || other.has_original_recipient,
            require_tls: self.require_tls || other.require_tls,
        }
    }
}

/// Adds the DSN parameters of `second` to those of `first`.
///
/// These are its events, and the ORCPT and REQUIRETLS that `first` lacks.
pub(crate) fn sum(first: &Rc<str>, second: &str) -> Rc<str> {
    let (known, all) = (Wishes::of(first), Wishes::of(first).and(Wishes::of(second)));
    if all == known {
        return first.clone();
    }
    let keyword = |word: &str| word.split('=').next().unwrap_or_default().to_ascii_uppercase();
    let mut words: Vec<&str> = first.split_ascii_whitespace().collect();
    let events = format!("NOTIFY={}", all.events);
    if all.events != known.events {
        words.retain(|word| keyword(word) != "NOTIFY");
        // No word stands for the default.
        if all.events != Events::default() {
            words.insert(0, &events);
        }
    }
    words.extend(second.split_ascii_whitespace().filter(|word| match &*keyword(word) {
        "ORCPT" => !known.has_original_recipient,
        "REQUIRETLS" => !known.require_tls,
        _ => false,
    }));
    words.join(" ").into()
}

/// The parameters after an alias of one address: all of them, and the address before it.
pub(crate) fn forwarded(notify: &str, address: &MailAddress) -> Rc<str> {
    with_arrival(notify.trim().to_string(), address)
}

/// The parameters after an alias of several addresses: all but NOTIFY=SUCCESS.
///
/// The sender gets a report about the expansion instead.
pub(crate) fn expanded(notify: &str, address: &MailAddress) -> Rc<str> {
    let words = notify.split_ascii_whitespace().map(|word| match word.split_once('=') {
        Some((keyword, events)) if keyword.eq_ignore_ascii_case("NOTIFY") => {
            let is_kept = |event: &&str| !event.eq_ignore_ascii_case("SUCCESS");
            let kept: Vec<&str> = events.split(',').filter(is_kept).collect();
            format!("NOTIFY={}", if kept.is_empty() { "NEVER".into() } else { kept.join(",") })
        }
        _ => word.to_string(),
    });
    with_arrival(words.collect::<Vec<String>>().join(" "), address)
}

/// Adds the address as it arrived (INRCPT).
///
/// A report names the address that people know.
fn with_arrival(mut notify: String, address: &MailAddress) -> Rc<str> {
    let has_arrival = notify
        .split_ascii_whitespace()
        .any(|word| word.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("INRCPT=")));
    let address = address.to_string();
    if !has_arrival && address.is_ascii() {
        if !notify.is_empty() {
            notify.push(' ');
        }
        notify.push_str("INRCPT=rfc822;");
        notify.push_str(&xtext(&address));
    }
    notify.into()
}

/// Encodes a text for a parameter (RFC 3461, 4).
pub(crate) fn xtext(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'+' && byte != b'=' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("+{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_after_aliases() {
        let address = MailAddress::parse("a+b@x").expect("an address");
        for (notify, one, several) in [
            ("", "INRCPT=rfc822;a+2Bb@x", "INRCPT=rfc822;a+2Bb@x"),
            (
                "ORCPT=rfc822;q@z NOTIFY=SUCCESS,FAILURE",
                "ORCPT=rfc822;q@z NOTIFY=SUCCESS,FAILURE INRCPT=rfc822;a+2Bb@x",
                "ORCPT=rfc822;q@z NOTIFY=FAILURE INRCPT=rfc822;a+2Bb@x",
            ),
            (
                "notify=success inrcpt=rfc822;o@p",
                "notify=success inrcpt=rfc822;o@p",
                "NOTIFY=NEVER inrcpt=rfc822;o@p",
            ),
        ] {
            assert_eq!(&*forwarded(notify, &address), one);
            assert_eq!(&*expanded(notify, &address), several);
        }
    }
}
