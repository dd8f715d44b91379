//! The line protocol between scheduler and transport agents, for both sides.
//!
//! Source: ZMailer `scheduler(8)`, TRANSPORT AGENT INTERFACE.
//!
//! ```text
//! agent:     #hungry
//! scheduler: Z/F/4711<TAB>mx.example.net
//! agent:     4711/107<TAB><TAB>error2 550 no such user
//! agent:     #hungry
//! scheduler: #idle
//! agent:     #hungry
//! scheduler: <empty line, then end of file>
//! ```

use crate::control_file::Tag;

/// The line that requests work, without its line end.
pub const HUNGRY: &str = "#hungry";
/// The line that announces parking to an agent, without its line end.
pub const IDLE: &str = "#idle";
/// The word before the path of a control file without pending recipients.
pub const RESYNC: &str = "#resync";
/// The word before the result of a TLS session.
///
/// That is a JSON object (RFC 8460, 4.4), for the status log.
pub const TLS_RESULT: &str = "#tls";

/// A line from the scheduler to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentCommand<'a> {
    /// Deliver the recipients of this control file for your channel and, if given, this host.
    Job {
        /// Path of the control file below `transport/`.
        path: &'a [u8],
        /// Next host, in lower case. `None` if the agent was started for one host only.
        host: Option<&'a [u8]>,
        /// Offsets of the recipients to deliver (`packet=`). `None` for all of them.
        only: Option<Offsets<'a>>,
    },
    /// There is no more work for now; answer with `#hungry`.
    Idle,
    /// Exit.
    Exit,
}

impl<'a> AgentCommand<'a> {
    /// Parses a line, given without its line end.
    pub fn parse(line: &'a [u8]) -> AgentCommand<'a> {
        if line.is_empty() {
            return AgentCommand::Exit;
        }
        if line == IDLE.as_bytes() {
            return AgentCommand::Idle;
        }
        let mut fields = line.split(|byte| *byte == b'\t');
        let (path, host) = (fields.next().unwrap_or_default(), fields.next());
        AgentCommand::Job { path, host, only: fields.next().and_then(Offsets::parse) }
    }
}

/// The recipients of a job that is not for all: `107,160`.
///
/// Any other text in this field is reserved, and has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets<'a>(&'a str);

impl<'a> Offsets<'a> {
    fn parse(field: &'a [u8]) -> Option<Offsets<'a>> {
        let text = std::str::from_utf8(field).ok()?;
        let is_offset = |word: &str| word.parse::<u32>().is_ok();
        text.split(',').all(is_offset).then_some(Offsets(text))
    }

    /// Returns true if a recipient is one of them.
    pub fn contains(self, offset: u32) -> bool {
        self.iter().any(|other| other == offset)
    }

    /// All offsets, in the order of the line.
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.0.split(',').filter_map(|word| word.parse().ok())
    }
}

/// A line from an agent to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentLine<'a> {
    /// Ready for the next job. Sent once at the start, after each job, and after `#idle`.
    Hungry,
    /// The control file with this path has nothing left to do for the agent.
    Resync(&'a [u8]),
    /// The outcome of one recipient.
    Report(RecipientReport<'a>),
    /// Any other line that begins with `#`, which is logged.
    Comment(&'a [u8]),
    /// A malformed line, and what it lacks, which is logged.
    Malformed(&'static str, &'a [u8]),
}

/// The outcome of one recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipientReport<'a> {
    /// Number that the name of the control file begins with.
    pub number: u64,
    /// Offset of the recipient's line in the control file.
    pub offset: u32,
    /// Notary data (`control_file::diagnostic`), which may be empty.
    pub notary: &'a [u8],
    /// The status.
    pub status: ReportStatus,
    /// Text after the status word, which may be empty.
    pub message: &'a [u8],
}

/// The status word of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportStatus {
    /// Delivered. The scheduler writes the `d` line if the sender requested a success report.
    Ok,
    /// Delivered. The agent has written the `d` line for the sender.
    Ok2,
    /// Delivered. No report is due.
    Ok3,
    /// Failed. The scheduler writes the `d` line.
    Error,
    /// Failed. The agent has written the `d` line.
    Error2,
    /// Deferred: try this recipient again later.
    Deferred,
    /// The same. The original meant to move the recipient to the tail of its thread.
    DeferBack,
    /// Try the host again at the time that the message text begins with.
    RetryAt,
    /// The host cannot be reached: defer everything for it.
    DeferAll,
    /// An unknown word.
    Unknown,
}

impl ReportStatus {
    const WORDS: [(&'static str, ReportStatus); 9] = [
        ("ok", ReportStatus::Ok),
        ("ok2", ReportStatus::Ok2),
        ("ok3", ReportStatus::Ok3),
        ("error", ReportStatus::Error),
        ("error2", ReportStatus::Error2),
        ("deferred", ReportStatus::Deferred),
        ("deferback", ReportStatus::DeferBack),
        ("retryat", ReportStatus::RetryAt),
        ("deferall", ReportStatus::DeferAll),
    ];

    /// The status for a word.
    pub fn from_word(word: &[u8]) -> ReportStatus {
        let known = ReportStatus::WORDS.iter().find(|(name, _)| name.as_bytes() == word);
        known.map_or(ReportStatus::Unknown, |(_, status)| *status)
    }

    /// The word for this status.
    pub fn word(self) -> &'static str {
        let known = ReportStatus::WORDS.iter().find(|(_, status)| *status == self);
        known.map_or("?", |(word, _)| word)
    }

    /// The tag of the recipient after such a report.
    pub fn tag(self) -> Tag {
        use ReportStatus::{Error, Error2, Ok, Ok2, Ok3};
        match self {
            Ok | Ok2 | Ok3 => Tag::Done,
            Error | Error2 => Tag::Failed,
            _ => Tag::Pending,
        }
    }
}

impl<'a> AgentLine<'a> {
    /// Parses a line, given without its line end. Any line is accepted.
    pub fn parse(line: &'a [u8]) -> AgentLine<'a> {
        if line.starts_with(b"#") || line.is_empty() {
            return parse_comment(line);
        }
        match RecipientReport::parse(line) {
            Ok(report) => AgentLine::Report(report),
            Err(missing) => AgentLine::Malformed(missing, line),
        }
    }
}

fn parse_comment(line: &[u8]) -> AgentLine<'_> {
    if line.starts_with(HUNGRY.as_bytes()) {
        return AgentLine::Hungry;
    }
    match line.strip_prefix(RESYNC.as_bytes()) {
        Some(path) => AgentLine::Resync(path.trim_ascii()),
        None => AgentLine::Comment(line),
    }
}

/// The number that a text begins with, and the text after it.
pub fn leading_number<N: TryFrom<u64>>(text: &[u8]) -> Option<(N, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let append =
        |number: u64, digit: &u8| number.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let number = digits.iter().try_fold(0, append).filter(|_| end > 0)?;
    Some((N::try_from(number).ok()?, rest))
}

/// The texts before and after the first such byte.
fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(at, text)?;
    Some((&text[..end], &text[end + 1..]))
}

/// Number and offset in `<number>[-rest]/<offset>`, given without the slash.
///
/// The name of a file may continue after its number.
fn number_and_offset(name: &[u8], offset: &[u8]) -> Option<(u64, u32)> {
    let (number, rest_of_name) = leading_number(name)?;
    let (offset, rest) = leading_number(offset)?;
    (rest.is_empty() && !rest_of_name.contains(&b'\t')).then_some((number, offset))
}

impl<'a> RecipientReport<'a> {
    /// Parses `<number>[-rest]/<offset>TAB<notary>TAB<status>[blank<message>]`.
    ///
    /// The error names what is missing.
    fn parse(line: &'a [u8]) -> Result<RecipientReport<'a>, &'static str> {
        let (name, line) = split(line, b'/').ok_or("no / after the number")?;
        let (offset, line) = split(line, b'\t').ok_or("no TAB after the offset")?;
        let (notary, status) = split(line, b'\t').ok_or("no TAB after the notary data")?;
        let (number, offset) = number_and_offset(name, offset).ok_or("no number and offset")?;
        let word_end = status.iter().position(u8::is_ascii_whitespace).unwrap_or(status.len());
        let message = status.get(word_end + 1..).unwrap_or_default();
        let status = ReportStatus::from_word(&status[..word_end]);
        Ok(RecipientReport { number, offset, notary, status, message })
    }

    /// The time at the beginning of a `retryat` message, in seconds.
    ///
    /// It is relative to now, or absolute if it is more than 100,000. The sign is ignored, as by
    /// the original.
    pub fn retry_seconds(&self) -> Option<i64> {
        let text = self.message.strip_prefix(b"+").unwrap_or(self.message);
        leading_number(text).map(|(seconds, _)| seconds)
    }

    /// The message without the time at the beginning of a `retryat`.
    pub fn text(&self) -> &[u8] {
        if self.status != ReportStatus::RetryAt || self.retry_seconds().is_none() {
            return self.message;
        }
        let digits = |byte: &u8| byte.is_ascii_digit() || *byte == b'+';
        let end = self.message.iter().position(|byte| !digits(byte)).unwrap_or(self.message.len());
        self.message.get(end + 1..).unwrap_or_default()
    }

    /// Appends the line, with its line end, to `out`.
    ///
    /// Line ends and TABs inside fields, which would break the line, are replaced by CR and blank.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let one_line = |byte: u8| if byte == b'\n' { b'\r' } else { byte };
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(digits.format(self.number).as_bytes());
        out.push(b'/');
        out.extend_from_slice(digits.format(self.offset).as_bytes());
        out.push(b'\t');
        let notary = self.notary.iter().map(|&byte| if byte == b'\t' { b' ' } else { byte });
        out.extend(notary.map(one_line));
        out.push(b'\t');
        out.extend_from_slice(self.status.word().as_bytes());
        out.push(b' ');
        out.extend(self.message.iter().copied().map(one_line));
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(line: &str) -> AgentLine<'_> {
        AgentLine::parse(line.as_bytes())
    }

    #[test]
    fn recorded_reports_are_parsed() {
        let line =
            "10101234/215\tdefer1@x\x01delayed\x014.4.1\x01smtp; 466\x01sim\tdeferred host busy";
        let AgentLine::Report(report) = parsed(line) else { panic!("not a report: {line}") };
        assert_eq!((report.number, report.offset), (10_101_234, 215));
        assert_eq!(report.notary, b"defer1@x\x01delayed\x014.4.1\x01smtp; 466\x01sim");
        assert_eq!((report.status, report.message), (ReportStatus::Deferred, &b"host busy"[..]));
    }

    #[test]
    fn control_file_names_beginning_with_number_are_parsed() {
        let AgentLine::Report(report) = parsed("701-abc/79\t\tok3") else { panic!("not a report") };
        assert_eq!((report.number, report.offset, report.status), (701, 79, ReportStatus::Ok3));
        assert_eq!(report.message, b"");
    }

    #[test]
    fn lines_beginning_with_hash_are_distinguished() {
        assert_eq!(parsed("#hungry"), AgentLine::Hungry);
        assert_eq!(parsed("#resync  Z/H/4713-2343"), AgentLine::Resync(b"Z/H/4713-2343"));
        assert_eq!(parsed("# prog:1: text"), AgentLine::Comment(b"# prog:1: text"));
        assert_eq!(parsed(""), AgentLine::Comment(b""));
    }

    #[test]
    fn malformed_lines_report_missing_part() {
        for (line, missing) in [
            ("this is some noise", "no / after the number"),
            ("  File \"/opt/vta.py\", line 53", "no TAB after the offset"),
            ("1/67\tdeferred later", "no TAB after the notary data"),
            ("a/67\t\tok", "no number and offset"),
            ("1/x\t\tok", "no number and offset"),
            ("99999999999999999999/1\t\tok", "no number and offset"),
            ("1/-1\t\tok", "no number and offset"),
        ] {
            assert_eq!(parsed(line), AgentLine::Malformed(missing, line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn retry_times_are_parsed_as_by_original() {
        for (message, seconds, text) in [
            ("+30 come back", Some(30), "come back"),
            ("30 come back", Some(30), "come back"),
            ("1795259645 later", Some(1_795_259_645), "later"),
            ("+20", Some(20), ""),
            ("soon", None, "soon"),
            ("", None, ""),
        ] {
            let report = RecipientReport {
                number: 1,
                offset: 2,
                notary: b"",
                status: ReportStatus::RetryAt,
                message: message.as_bytes(),
            };
            assert_eq!(report.retry_seconds(), seconds, "{message}");
            assert_eq!(report.text(), text.as_bytes(), "{message}");
        }
    }

    #[test]
    fn orders_are_parsed() {
        let job = |path, host| AgentCommand::Job { path, host, only: None };
        assert_eq!(AgentCommand::parse(b"Z/F/4711\tmx"), job(b"Z/F/4711", Some(b"mx")));
        assert_eq!(AgentCommand::parse(b"4711"), job(b"4711", None));
        assert_eq!(AgentCommand::parse(b"4711\tmx\tmore"), job(b"4711", Some(b"mx")));
        let AgentCommand::Job { only: Some(only), .. } =
            AgentCommand::parse(b"4711\tmx\t107,4294967295\tmore")
        else {
            panic!("a job with offsets");
        };
        assert_eq!(only.iter().collect::<Vec<_>>(), [107, u32::MAX]);
        assert!(only.contains(107) && !only.contains(10));
        for reserved in ["107,", "107,x", "", "-1", "4294967296"] {
            let line = format!("4711\tmx\t{reserved}");
            assert_eq!(
                AgentCommand::parse(line.as_bytes()),
                job(b"4711", Some(b"mx")),
                "{reserved}"
            );
        }
        assert_eq!(AgentCommand::parse(b"#idle"), AgentCommand::Idle);
        assert_eq!(AgentCommand::parse(b""), AgentCommand::Exit);
    }

    proptest! {
        #[test]
        fn written_report_parses_back(number: u64, offset: u32, notary: Vec<u8>, message: Vec<u8>) {
            let report = RecipientReport {
                number, offset, notary: &notary, status: ReportStatus::Error2, message: &message,
            };
            let mut line = Vec::new();
            report.write_to(&mut line);
            prop_assert_eq!(line.pop(), Some(b'\n'));
            prop_assert!(!line.contains(&b'\n'));
            let AgentLine::Report(read) = AgentLine::parse(&line) else {
                return Err(TestCaseError::fail("not a report"));
            };
            prop_assert_eq!((read.number, read.offset), (number, offset));
            prop_assert_eq!(read.status, ReportStatus::Error2);
            prop_assert_eq!(read.message.len(), message.len());
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(line: Vec<u8>) {
            AgentLine::parse(&line);
            AgentCommand::parse(&line);
        }
    }
}
