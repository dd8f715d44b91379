//! Composes a control file as a router does.

use super::diagnostic::DiagnosticRecord;
use super::{Span, Tag, find_empty_line};
use crate::priority::letter;
use std::io::{self, ErrorKind};

/// Usual sizes of a recipient's lines, and of all other lines, in bytes.
const USUAL_RECIPIENT_SIZE: usize = 80;
const USUAL_HEAD_SIZE: usize = 256;

/// The contents of a new message's control file.
#[derive(Clone, Debug, Default)]
pub struct ControlFileDraft {
    /// Name of both files: by custom the inode number of the message file.
    pub name: String,
    /// Offset of the body in the message file, in bytes.
    pub body_offset: u64,
    /// Text that names the message in logs.
    pub log_id: String,
    /// Priority from 0 (first) to 9, or [`crate::priority::KEPT_PRIORITY`]; `None` is the default.
    pub priority: Option<u8>,
    /// The bulk job and the offsets of its recipients (`J`).
    pub bulk: Option<String>,
    /// Path of the verbose file (`v`), relative to `transport/`.
    pub verbose: Option<String>,
    /// The sender as it was submitted (`e`). No program uses it, since a group's sender follows.
    pub error_address: Option<String>,
    /// Message-IDs of older messages that it takes the place of (`x`).
    pub obsoletes: Vec<String>,
    /// What a report returns (`R`): `FULL` or `HDRS` (RFC 3461, 4.3).
    pub return_mode: Option<String>,
    /// The envelope id (`n`), xtext (RFC 3461, 4.4).
    pub envelope_id: Option<String>,
    /// The groups of recipients.
    pub groups: Vec<Group>,
}

/// A sender, its recipients, and their headers.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The address for reports (`e`), by custom that of the sender.
    pub error_address: Option<String>,
    /// The sender.
    pub sender: Address,
    /// The recipients.
    pub recipients: Vec<Recipient>,
    /// The message headers. Each line ends with LF, and none is empty.
    pub headers: Vec<u8>,
    /// It has the headers of the next group instead, which follows at once.
    pub joins_next: bool,
}

/// A recipient and its DSN parameters.
#[derive(Clone, Debug, Default)]
pub struct Recipient {
    /// The address.
    pub address: Address,
    /// Value of the `N` line (`NOTIFY=... ORCPT=...`), empty for none.
    pub notify: String,
    /// The end of the recipient, if the router has decided it.
    pub end: Option<RecipientEnd>,
}

/// The end of a recipient that no agent gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipientEnd {
    /// [`Tag::Done`] or [`Tag::Failed`].
    pub tag: Tag,
    /// The line `d` about it, which the scheduler reports if that was requested.
    pub report: OwedReport,
}

/// The contents of a `d` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwedReport {
    /// Time of the event, in seconds since the epoch.
    pub time: i64,
    /// Notary data, see [`DiagnosticRecord::notary`].
    pub notary: Vec<u8>,
    /// Text for people.
    pub text: String,
}

/// The four words of an address, unquoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The delivery channel.
    pub channel: String,
    /// The next host; an empty one is written as `-`.
    pub host: String,
    /// The address at that host; an empty one is written as `-`.
    pub user: String,
    /// The numeric id of the user whose rights the delivery has.
    pub privilege: i64,
}

impl Address {
    /// Creates an address.
    pub fn new(channel: &str, host: &str, user: &str, privilege: i64) -> Address {
        Address { channel: channel.into(), host: host.into(), user: user.into(), privilege }
    }

    fn write_to(&self, out: &mut Vec<u8>) -> io::Result<()> {
        for (what, word) in
            [("channel", &self.channel), ("host", &self.host), ("address", &self.user)]
        {
            push_word(out, what, word)?;
            out.push(b' ');
        }
        out.extend_from_slice(itoa::Buffer::new().format(self.privilege).as_bytes());
        Ok(())
    }
}

impl ControlFileDraft {
    /// The text of the control file: the lines of the message, the groups, then the reports owed.
    ///
    /// Fails with [`ErrorKind::InvalidInput`] if a value would add lines to the file.
    pub fn to_text(&self) -> io::Result<Vec<u8>> {
        let recipients: usize = self.groups.iter().map(|group| group.recipients.len()).sum();
        let mut out = Vec::with_capacity(USUAL_HEAD_SIZE + recipients * USUAL_RECIPIENT_SIZE);
        out.extend_from_slice(b"@ 0x00000007\n");
        push_optional(&mut out, "v ", "verbose file", &self.verbose)?;
        push_line(&mut out, "i ", check_one_line("name", &self.name)?);
        push_line(&mut out, "o ", itoa::Buffer::new().format(self.body_offset));
        push_line(&mut out, "l ", check_one_line("log id", &self.log_id)?);
        if let Some(priority) = self.priority {
            push_line(&mut out, "p ", &letter(priority).to_string());
        }
        push_optional(&mut out, "J ", "bulk job", &self.bulk)?;
        push_optional(&mut out, "e ", "error address", &self.error_address)?;
        for id in &self.obsoletes {
            push_line(&mut out, "x ", check_one_line("obsolete Message-ID", id)?);
        }
        let mut reports = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            self.write_group(group, index == 0, &mut out, &mut reports)?;
        }
        out.append(&mut reports);
        Ok(out)
    }

    /// Writes a group to `out`, and the `d` lines of its recipients to `reports`.
    fn write_group(
        &self,
        group: &Group,
        is_first: bool,
        out: &mut Vec<u8>,
        reports: &mut Vec<u8>,
    ) -> io::Result<()> {
        push_optional(out, "e ", "error address", &group.error_address)?;
        out.extend_from_slice(b"s ");
        group.sender.write_to(out)?;
        out.push(b'\n');
        let mut owed = Vec::new();
        for (index, recipient) in group.recipients.iter().enumerate() {
            let (line, notify) = recipient.write_to(out)?;
            // They concern the message, but ZMailer writes them for each recipient with an N line.
            if notify.is_some() || (is_first && index == 0) {
                push_optional(out, "R ", "return mode", &self.return_mode)?;
                push_optional(out, "n ", "envelope id", &self.envelope_id)?;
            }
            if let Some(report) = recipient.end.as_ref().map(|end| &end.report) {
                owed.push((line, notify, report));
            }
        }
        if group.joins_next && owed.is_empty() {
            return Ok(());
        }
        push_line(out, "m", "");
        let headers = offset(out)?;
        out.extend_from_slice(check_headers(&group.headers)?);
        out.push(b'\n');
        for (recipient, notify, OwedReport { time, notary, text }) in owed {
            let (notary, message) = (notary, text.as_bytes());
            DiagnosticRecord {
                recipient,
                headers: Some(headers),
                notify,
                time: *time,
                notary,
                message,
            }
            .write_to(reports);
        }
        Ok(())
    }
}

impl Recipient {
    /// Writes the `r` and `N` lines. Returns their offsets.
    fn write_to(&self, out: &mut Vec<u8>) -> io::Result<(u32, Option<u32>)> {
        let line = offset(out)?;
        out.extend_from_slice(b"r           ");
        out[line as usize + 1] = self.end.as_ref().map_or(Tag::Pending, |end| end.tag).byte();
        self.address.write_to(out)?;
        out.push(b'\n');
        if self.notify.is_empty() {
            return Ok((line, None));
        }
        let notify = offset(out)?;
        push_line(out, "N ", check_one_line("notification wish", &self.notify)?);
        Ok((line, Some(notify)))
    }
}

/// The offset of what is written next.
fn offset(out: &[u8]) -> io::Result<u32> {
    u32::try_from(out.len()).map_err(|_| invalid("the control file is larger than 4 GiB"))
}

/// Writes a line if there is a value for it.
fn push_optional(
    out: &mut Vec<u8>,
    start: &str,
    what: &str,
    value: &Option<String>,
) -> io::Result<()> {
    if let Some(value) = value {
        push_line(out, start, check_one_line(what, value)?);
    }
    Ok(())
}

fn push_line(out: &mut Vec<u8>, start: &str, value: &str) {
    for part in [start, value, "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Checks that the text is one line. CR is not a line end here, but is one for agents and reports.
fn check_one_line<'a>(what: &str, text: &'a str) -> io::Result<&'a str> {
    match text.bytes().any(|byte| matches!(byte, b'\n' | b'\r' | b'\0')) {
        true => Err(invalid(&format!("the {what} has a line end or NUL in it"))),
        false => Ok(text),
    }
}

/// Checks that the headers end where the block ends.
fn check_headers(headers: &[u8]) -> io::Result<&[u8]> {
    let is_whole = headers.is_empty() || headers.ends_with(b"\n");
    let goes_on = !headers.starts_with(b"\n") && find_empty_line(headers).is_none();
    match is_whole && goes_on {
        true => Ok(headers),
        false => Err(invalid("the headers have an empty line, or do not end with a line end")),
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, reason)
}

/// Writes a word, in quotes if it would not be parsed as one word.
fn push_word(out: &mut Vec<u8>, what: &str, word: &str) -> io::Result<()> {
    let is_plain = |byte: u8| byte > b' ' && !matches!(byte, b'"' | b'\\');
    if word.is_empty() {
        out.push(b'-');
    } else if word.bytes().all(is_plain) || reads_back_as_one(check_one_line(what, word)?) {
        out.extend_from_slice(word.as_bytes());
    } else {
        out.push(b'"');
        for byte in word.bytes() {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
    Ok(())
}

fn reads_back_as_one(word: &str) -> bool {
    // The word must end at its end even if more text follows.
    let line = format!("{word} h u 0");
    super::Quad::parse(line.as_bytes(), 0, line.len())
        .is_ok_and(|quad| quad.channel == Span::new(0, word.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_file::parse;
    use proptest::prelude::*;

    fn draft(users: &[String]) -> ControlFileDraft {
        let recipient = |user: &String| Recipient {
            address: Address::new("smtp", "mx.example", user, 65534),
            notify: String::from("NOTIFY=NEVER"),
            end: None,
        };
        ControlFileDraft {
            name: "4711".into(),
            body_offset: 212,
            log_id: "<1@x>".into(),
            groups: vec![Group {
                sender: Address::new("local", "", "alice@x", 0),
                recipients: users.iter().map(recipient).collect(),
                headers: "From: alice@x\n".into(),
                ..Group::default()
            }],
            ..ControlFileDraft::default()
        }
    }

    #[test]
    fn draft_is_written_as_by_router() {
        expect_test::expect![[r#"
            @ 0x00000007
            i 4711
            o 212
            l <1@x>
            s local - alice@x 0
            r           smtp mx.example bob@y 65534
            N NOTIFY=NEVER
            m
            From: alice@x

        "#]]
        .assert_eq(&text(&draft(&["bob@y".into()])));
    }

    #[test]
    fn router_decisions_are_written_with_offsets() {
        let mut draft = draft(&["bob@y".into(), "nobody@y".into()]);
        draft.verbose = Some("../public/v_1".into());
        draft.error_address = Some("<alice@x>".into());
        draft.return_mode = Some("HDRS".into());
        draft.envelope_id = Some("QQ".into());
        let group = &mut draft.groups[0];
        group.error_address = Some("alice@x".into());
        group.recipients[0].notify = String::new();
        group.recipients[1].notify = "NOTIFY=FAILURE".into();
        group.recipients[1].end = Some(RecipientEnd {
            tag: Tag::Failed,
            report: OwedReport {
                time: 1_795_259_643,
                notary: b"\x03\x01failed\x015.1.1\x01smtp; 550 5.1.1 no\x01\x01".to_vec(),
                text: "no such user".into(),
            },
        });
        let text = text(&draft);
        expect_test::expect![[r#"
            @ 0x00000007
            v ../public/v_1
            i 4711
            o 212
            l <1@x>
            e <alice@x>
            e alice@x
            s local - alice@x 0
            r           smtp mx.example bob@y 65534
            R HDRS
            n QQ
            r-          smtp mx.example nobody@y 65534
            N NOTIFY=FAILURE
            R HDRS
            n QQ
            m
            From: alice@x

            d 144:218:187::1795259643	^C^Afailed^A5.1.1^Asmtp; 550 5.1.1 no^A^A	no such user
        "#]]
        .assert_eq(&text.replace('\u{1}', "^A").replace('\u{3}', "^C"));
        let file = parse(text.into_bytes()).expect("a control file");
        let diagnostic = DiagnosticRecord::parse(file.get(file.diagnostics[0].value));
        let diagnostic = diagnostic.expect("a d line");
        let refused = file.recipient_at(diagnostic.recipient).expect("a recipient");
        assert_eq!(refused.tag, Tag::Failed);
        assert_eq!(refused.notify.map(|line| line.offset), diagnostic.notify);
        let headers = file.headers_of(refused).map(|block| block.text.start);
        assert_eq!(headers, diagnostic.headers);
    }

    fn text(draft: &ControlFileDraft) -> String {
        String::from_utf8(draft.to_text().expect("written")).expect("text")
    }

    type Change = fn(&mut Recipient, String);

    #[test]
    fn values_with_line_ends_are_refused() {
        const LINES: &str = "a@b\n\nr           prog - \"|touch /tmp/x\" 0\nm";
        let good = draft(&["bob@y".into()]);
        let refused = |change: fn(&mut ControlFileDraft, String)| {
            [LINES, "a\nb", "a\n", "a\rb", "a\0b"].map(|evil| {
                let mut draft = good.clone();
                change(&mut draft, evil.to_string());
                draft.to_text().expect_err(evil).to_string()
            })
        };
        let error = |what| format!("the {what} has a line end or NUL in it");
        let all = |what| [0; 5].map(|_| error(what));
        assert_eq!(refused(|draft, evil| draft.name = evil), all("name"));
        assert_eq!(refused(|draft, evil| draft.log_id = evil), all("log id"));
        let obsoletes = refused(|draft, evil| draft.obsoletes = vec![evil]);
        assert_eq!(obsoletes, all("obsolete Message-ID"));
        assert_eq!(refused(|draft, evil| draft.groups[0].sender.user = evil), all("address"));
        let of_recipient: [(&str, Change); 4] = [
            ("channel", |recipient, evil| recipient.address.channel = evil),
            ("host", |recipient, evil| recipient.address.host = evil),
            ("address", |recipient, evil| recipient.address.user = evil),
            ("notification wish", |recipient, evil| recipient.notify = evil),
        ];
        for (what, change) in of_recipient {
            let mut draft = good.clone();
            change(&mut draft.groups[0].recipients[0], LINES.to_string());
            assert_eq!(draft.to_text().expect_err(what).to_string(), error(what));
        }
    }

    #[test]
    fn headers_ending_elsewhere_are_refused() {
        for (headers, is_good) in [
            ("", true),
            ("A: 1\n", true),
            ("A: 1\n \n\tb\n", true),
            ("A: 1", false),
            ("\n", false),
            ("\nA: 1\n", false),
            ("A: 1\n\n", false),
            ("From: a@b\n\nr           prog - x 0\nm\n", false),
        ] {
            let mut draft = draft(&["bob@y".into()]);
            draft.groups[0].headers = headers.into();
            assert_eq!(draft.to_text().is_ok(), is_good, "{headers:?}");
        }
    }

    proptest! {
        #[test]
        fn each_user_parses_as_one_word(users in prop::collection::vec("[^\r\n\0]*", 1..4)) {
            let text = text(&draft(&users));
            let file = parse(text.clone().into_bytes()).expect(&text);
            prop_assert_eq!(file.recipients.len(), users.len());
            for recipient in &file.recipients {
                prop_assert_eq!(file.get(recipient.quad.privilege), b"65534");
            }
        }
    }
}
