//! DSN parameters of recipients that aliases lead to (RFC 3461, 5.2.7).

use super::address::MailAddress;
use std::rc::Rc;

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

/// Adds the address as it arrived (INRCPT), so that a report names the address that people know.
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
