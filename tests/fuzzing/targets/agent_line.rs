//! Lines between scheduler and agent: a parsed report is written as it was read.

use zsched_format::agent_protocol::{AgentCommand, AgentLine, RecipientReport, ReportStatus};

/// Any number of lines.
pub fn run(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        check_order(line);
        match AgentLine::parse(line) {
            AgentLine::Report(report) => check_report(line, &report),
            AgentLine::Hungry => assert!(line.starts_with(b"#hungry")),
            AgentLine::Resync(path) => assert!(line.starts_with(b"#resync") && is_part(line, path)),
            AgentLine::Comment(text) => assert_eq!(text, line),
            AgentLine::Malformed(missing, text) => {
                assert_eq!(text, line);
                assert!(!missing.is_empty());
            }
        }
    }
}

fn check_report(line: &[u8], report: &RecipientReport<'_>) {
    assert!(is_part(line, report.notary) && is_part(line, report.message));
    assert!(report.message.ends_with(report.text()));
    if report.status == ReportStatus::RetryAt {
        assert!(report.retry_seconds().is_none_or(|seconds| seconds >= 0));
    }
    let mut written = Vec::new();
    report.write_to(&mut written);
    assert_eq!(written.pop(), Some(b'\n'));
    assert_eq!(AgentLine::parse(&written), AgentLine::Report(*report));
}

fn check_order(line: &[u8]) {
    match AgentCommand::parse(line) {
        AgentCommand::Exit => assert!(line.is_empty()),
        AgentCommand::Idle => assert_eq!(line, b"#idle"),
        AgentCommand::Job { path, host, only } => {
            assert!(only.is_none_or(|only| only.iter().all(|offset| only.contains(offset))));
            assert!(is_part(line, path) && host.is_none_or(|host| is_part(line, host)));
            assert!(!path.contains(&b'\t'));
        }
    }
}

/// Returns true if a text is a part of the line that it was parsed from.
fn is_part(line: &[u8], text: &[u8]) -> bool {
    let (line, text) = (line.as_ptr_range(), text.as_ptr_range());
    text.is_empty() || (line.start <= text.start && text.end <= line.end)
}
