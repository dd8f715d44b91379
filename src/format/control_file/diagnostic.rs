//! `d` lines: diagnostics for the report to the sender.
//!
//! ```text
//! d 107:247:160::1767323065<TAB>notary<TAB>message
//!   |   |   |    |
//!   |   |   |    seconds since 1970
//!   |   |   offset of the N line, -1 if there is none
//!   |   offset of the first header byte, -1 if unknown
//!   offset of the r line
//! ```
//!
//! Whole lines are appended after everything that the router wrote, so that no offset ever moves.

use crate::time::Timestamp;

/// Separates the fields of notary data.
pub const NOTARY_SEPARATOR: u8 = 0x01;
/// Stands for the address of the recipient line, in the address field of notary data.
pub const ADDRESS_OF_RECIPIENT: u8 = 0x03;

/// Maximum number of recipients in a report to a sender. What is left goes into the next report.
pub const MAX_REPORTED_RECIPIENTS: usize = 10_000;

/// Maximum number of fields after the time.
const MAX_ADDED_FIELDS: usize = 16;

/// A `d` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagnosticRecord<'a> {
    /// Offset of the recipient's `r` line.
    pub recipient: u32,
    /// Offset of the first byte of the recipient's headers.
    pub headers: Option<u32>,
    /// Offset of the recipient's `N` line.
    pub notify: Option<u32>,
    /// Time of the event, in seconds since the epoch.
    pub time: i64,
    /// Notary data; empty if nothing is reported.
    ///
    /// The fields are final recipient, action, status, diagnostic code, remote host and agent,
    /// separated by [`NOTARY_SEPARATOR`].
    pub notary: &'a [u8],
    /// Text for people, in which a CR stands for a line break.
    pub message: &'a [u8],
}

impl<'a> DiagnosticRecord<'a> {
    /// Appends the line to `out`, in the form of the control file.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let or_minus_one = |offset: Option<u32>| offset.map_or(-1, i64::from);
        let (headers, notify) = (or_minus_one(self.headers), or_minus_one(self.notify));
        let place = format!("d {}:{headers}:{notify}::{}\t", self.recipient, self.time);
        out.extend_from_slice(place.as_bytes());
        out.extend(
            self.notary.iter().map(|&byte| if byte == b'\t' { b' ' } else { one_line(byte) }),
        );
        out.push(b'\t');
        out.extend(self.message.iter().copied().map(one_line));
        out.push(b'\n');
    }

    /// The action of its notary data (RFC 3464 2.3.3), such as `failed`.
    ///
    /// Empty if there is none.
    pub fn action(&self) -> &'a [u8] {
        self.notary.split(|byte| *byte == NOTARY_SEPARATOR).nth(1).unwrap_or_default()
    }

    /// Parses the text after id and tag of a `d` line.
    ///
    /// Returns `None` for a malformed line, such as one that a crash has cut short.
    pub fn parse(value: &'a [u8]) -> Option<DiagnosticRecord<'a>> {
        let mut fields = value.splitn(3, |byte| *byte == b'\t');
        let (place, notary, message) = (fields.next()?, fields.next()?, fields.next()?);
        let place: Vec<&str> = std::str::from_utf8(place).ok()?.split(':').collect();
        // The fourth field is obsolete. By convention, fields may be added in later versions.
        let [recipient, headers, notify, obsolete, time, added @ ..] = &place[..] else {
            return None;
        };
        let is_number_or_empty = |text: &&str| text.is_empty() || number(text).is_some();
        let are_usable = [obsolete].into_iter().chain(added).all(is_number_or_empty);
        if !are_usable || added.len() > MAX_ADDED_FIELDS {
            return None;
        }
        let offset = |number: i64| u32::try_from(number).ok();
        Some(DiagnosticRecord {
            recipient: offset(number(recipient)?)?,
            headers: offset(number(headers)?),
            notify: offset(number(notify)?),
            time: number(time)?,
            notary,
            message,
        })
    }
}

/// Notary data of the scheduler about the address of a recipient's line, without a remote host.
///
/// `action` is one of RFC 3464 2.3.3, `status` one of RFC 3463.
pub fn scheduler_notary(action: &str, status: &str, diagnostic: &str) -> Vec<u8> {
    let fields =
        [&[ADDRESS_OF_RECIPIENT], action.as_bytes(), status.as_bytes(), diagnostic.as_bytes(), b""];
    fields.join(&NOTARY_SEPARATOR)
}

/// Comment in the status of a delay beyond the sender's deadline.
///
/// The deadline is that of DELIVERBY (RFC 2852).
pub const DEADLINE_PASSED: &str = "deliver-by time passed";

/// Returns true if notary data are about the deadline that the sender has set.
pub fn is_about_deadline(notary: &[u8]) -> bool {
    memchr::memmem::find(notary, DEADLINE_PASSED.as_bytes()).is_some()
}

/// Notary data of the scheduler about a recipient that is late.
///
/// Status, diagnostic, remote host and agent are those of the last attempt, if that has them.
/// `expires` is the time until which the recipient is tried, `tried` that of the last attempt, both
/// in seconds since the epoch.
pub fn delay_notary(
    last: &[u8],
    has_passed_deadline: bool,
    expires: Option<i64>,
    tried: Option<i64>,
) -> Vec<u8> {
    let mut fields = last.split(|byte| *byte == NOTARY_SEPARATOR).skip(2);
    let [status, diagnostic, remote, agent] =
        [(); 4].map(|()| fields.next().unwrap_or_default().trim_ascii());
    let deadline = format!("4.4.7 ({DEADLINE_PASSED})");
    let status = match (has_passed_deadline, status) {
        (true, _) => deadline.as_bytes(),
        (false, [b'4', ..]) => status,
        (false, _) => b"4.4.7 (delivery delayed)",
    };
    let mut notary = [&[ADDRESS_OF_RECIPIENT], &b"delayed"[..], status, diagnostic, remote, agent]
        .join(&NOTARY_SEPARATOR);
    add_time(&mut notary, RETRY_UNTIL, expires);
    add_time(&mut notary, LAST_ATTEMPT, tried);
    notary
}

/// Notary data of the scheduler about a recipient that has expired.
///
/// Diagnostic, remote host and agent are those of the last attempt, if that has them. `what` is the
/// reason, `tried` the time of that attempt in seconds since the epoch.
pub fn expiry_notary(what: &str, last: &[u8], tried: Option<i64>) -> Vec<u8> {
    let mut fields = last.split(|byte| *byte == NOTARY_SEPARATOR).skip(3);
    let [diagnostic, remote, agent] =
        [(); 3].map(|()| fields.next().unwrap_or_default().trim_ascii());
    let expired = format!("smtp; 500 ({what})");
    let diagnostic = if diagnostic.is_empty() { expired.as_bytes() } else { diagnostic };
    let status = &b"5.4.7 (delivery time expired)"[..];
    let all = [&[ADDRESS_OF_RECIPIENT], &b"failed"[..], status, diagnostic, remote, agent];
    let given = if agent.is_empty() { &all[..5] } else { &all[..] };
    let mut notary = given.join(&NOTARY_SEPARATOR);
    add_time(&mut notary, LAST_ATTEMPT, tried);
    notary
}

/// Number of fields that ZMailer's programs know. Only this scheduler writes more.
const KNOWN_FIELDS: usize = 6;
/// Begins the field with the time until which a late recipient is tried.
const RETRY_UNTIL: &str = "until=";
/// Begins the field with the time of the last attempt, in data of the scheduler.
const LAST_ATTEMPT: &str = "tried=";

/// Adds a field with a time, in seconds since the epoch.
fn add_time(notary: &mut Vec<u8>, name: &str, time: Option<i64>) {
    let Some(time) = time else { return };
    let fields = 1 + notary.iter().filter(|byte| **byte == NOTARY_SEPARATOR).count();
    let missing = KNOWN_FIELDS.saturating_sub(fields);
    notary.extend(std::iter::repeat_n(NOTARY_SEPARATOR, missing + 1));
    notary.extend_from_slice(format!("{name}{time}").as_bytes());
}

fn added_time(notary: &[u8], name: &str) -> Option<Timestamp> {
    let mut fields = notary.split(|byte| *byte == NOTARY_SEPARATOR).skip(KNOWN_FIELDS);
    let seconds = fields.find_map(|field| str::from_utf8(field).ok()?.strip_prefix(name))?;
    seconds.parse().ok().map(Timestamp::from_seconds)
}

/// The time until which a late recipient is tried, if the notary data has it.
pub fn retry_until(notary: &[u8]) -> Option<Timestamp> {
    added_time(notary, RETRY_UNTIL)
}

/// The time of the last attempt of a `d` line from time `event`; `None` if there was none, or if
/// it is unknown.
///
/// An agent writes its line after the attempt. Scheduler and router write lines about failures and
/// delays without an attempt; these have no address of their own.
pub fn last_attempt(notary: &[u8], event: i64) -> Option<Timestamp> {
    let mut fields = notary.split(|byte| *byte == NOTARY_SEPARATOR);
    let is_of_agent = fields.next() != Some(&[ADDRESS_OF_RECIPIENT][..]);
    let is_success = !matches!(fields.next(), Some(b"failed" | b"delayed"));
    match is_of_agent || is_success {
        true => Some(Timestamp::from_seconds(event)).filter(|time| *time > Timestamp::EPOCH),
        false => added_time(notary, LAST_ATTEMPT),
    }
}

/// Parses a number, which has no plus sign.
fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Replaces a line end by CR; it would end the `d` line.
fn one_line(byte: u8) -> u8 {
    if byte == b'\n' { b'\r' } else { byte }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recorded_line_is_parsed_and_written_unchanged() {
        let line =
            b"131:165:-1::1795259643\t\x03\x01failed\x015.4.7 (x)\x01smtp; 500 (y)\x01\t\rexpired";
        let diagnostic = DiagnosticRecord::parse(line).expect("a recorded line");
        assert_eq!((diagnostic.recipient, diagnostic.headers), (131, Some(165)));
        assert_eq!((diagnostic.notify, diagnostic.time), (None, 1_795_259_643));
        assert_eq!(diagnostic.notary, b"\x03\x01failed\x015.4.7 (x)\x01smtp; 500 (y)\x01");
        assert_eq!(diagnostic.message, b"\rexpired");
        let mut written = Vec::new();
        diagnostic.write_to(&mut written);
        assert_eq!(written, [b"d ".as_slice(), line, b"\n"].concat());
    }

    #[test]
    fn empty_notary_and_extra_fields_are_accepted() {
        assert_eq!(DiagnosticRecord::parse(b"1:2:3::4\t\t").map(|d| d.notary.len()), Some(0));
        assert_eq!(
            DiagnosticRecord::parse(b"1:2:3:9:4:5:6\ta\tb").map(|d| d.message),
            Some(&b"b"[..])
        );
    }

    #[test]
    fn cut_lines_are_refused() {
        for line in
            ["", "1", "1:2:3", "1:2:3::4", "1:2:3::4\tnotary", "-1:2:3::4\t\t", "x:1:2::3\t\t"]
        {
            assert_eq!(DiagnosticRecord::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn times_are_added_behind_known_fields() {
        let late = delay_notary(b"u@x\x01delayed\x014.2.2 (full)", false, Some(20), Some(10));
        assert_eq!(late, b"\x03\x01delayed\x014.2.2 (full)\x01\x01\x01\x01until=20\x01tried=10");
        let times = |notary: &[u8]| (retry_until(notary), last_attempt(notary, 30));
        let at = |seconds| Some(Timestamp::from_seconds(seconds));
        assert_eq!(times(&late), (at(20), at(10)));
        assert_eq!(times(&delay_notary(b"", false, Some(20), None)), (at(20), None));
        assert_eq!(times(&delay_notary(b"", true, None, Some(10))), (None, at(10)));
        assert_eq!(times(&expiry_notary("expired", b"", Some(10))), (None, at(10)));
        assert_eq!(times(&expiry_notary("expired", b"", None)), (None, None));
        assert_eq!(times(b"u@x\x01failed\x015.1.1"), (None, at(30)));
        assert_eq!(times(b"\x03\x01delivered\x012.1.5"), (None, at(30)));
        assert_eq!(times(b""), (None, at(30)));
    }

    proptest! {
        #[test]
        fn line_of_any_bytes_is_parsed_and_written_unchanged(
            recipient: u32, headers: Option<u32>, time: i64,
            notary: Vec<u8>, message: Vec<u8>,
        ) {
            let diagnostic = DiagnosticRecord {
                recipient, headers, notify: None, time, notary: &notary, message: &message,
            };
            let mut line = Vec::new();
            diagnostic.write_to(&mut line);
            prop_assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
            let read = DiagnosticRecord::parse(&line[2..line.len() - 1]).expect("our own line");
            prop_assert_eq!((read.recipient, read.headers, read.time), (recipient, headers, time));
            prop_assert_eq!(read.message.len(), message.len());
        }
    }
}
