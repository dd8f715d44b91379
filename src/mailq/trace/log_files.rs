//! Reads a status log: the file, and its renamed older parts.
//!
//! Those are `FILE.1`, `FILE.2.gz` and so on.

use crate::failure::{self, Failure};
use crate::screen::warn;
use flate2::read::MultiGzDecoder;
use serde::de::IgnoredAny;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use zsched_format::status_log::{
    HoldLine, LostLines, MAX_LINE_LEN, ReportLine, SmtpLine, StatusLine, TlsLine,
};

/// Maximum number of older parts.
const MAX_OLDER_PARTS: usize = 1000;

/// Problems of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogDamage {
    /// Lines that the scheduler could not write.
    lost: u64,
    /// Lines that cannot be parsed.
    unreadable: u64,
}

impl LogDamage {
    /// Counts further lines that cannot be parsed.
    pub(crate) fn with_unreadable(self, lines: u64) -> LogDamage {
        LogDamage { unreadable: self.unreadable + lines, ..self }
    }

    /// Prints warnings about missing lines.
    pub(crate) fn warn(self, path: &Path) {
        let path = path.display();
        if self.lost > 0 {
            warn(format_args!("{path}: {} lines could not be written", self.lost));
        }
        if self.unreadable > 0 {
            warn(format_args!("{path}: {} lines cannot be read", self.unreadable));
        }
    }
}

/// Line of a status log.
pub(crate) enum LogLine<'a> {
    /// About a recipient.
    Status(StatusLine<'a>),
    /// About a report to a sender.
    Report(ReportLine<'a>),
    /// About a hold or a release.
    Hold(HoldLine<'a>),
    /// About mail that came by SMTP.
    Smtp(SmtpLine<'a>),
}

/// Reads a log and its older parts, oldest first.
pub(crate) fn read(path: &Path, mut take: impl FnMut(LogLine<'_>)) -> Result<LogDamage, Failure> {
    let mut damage = LogDamage::default();
    for part in older_parts(path).iter().rev().map(PathBuf::as_path).chain([path]) {
        let file = File::open(part).map_err(|error| failure::unreadable(part, &error))?;
        let is_packed = part.extension().is_some_and(|name| name == "gz");
        let read = match is_packed {
            true => read_lines(MultiGzDecoder::new(file), &mut damage, &mut take),
            false => read_lines(file, &mut damage, &mut take),
        };
        // A part that breaks off is used up to the error.
        if let Err(error) = read {
            warn(format_args!("{}: {error}", part.display()));
        }
    }
    Ok(damage)
}

/// `FILE.1` and so on, newest first.
fn older_parts(path: &Path) -> Vec<PathBuf> {
    let part = |number: usize| {
        let named = |ending: &str| {
            let mut name = path.as_os_str().to_os_string();
            name.push(format!(".{number}{ending}"));
            PathBuf::from(name)
        };
        ["", ".gz"].into_iter().map(named).find(|path| path.is_file())
    };
    (1..=MAX_OLDER_PARTS).map_while(part).collect()
}

fn read_lines(
    input: impl Read,
    damage: &mut LogDamage,
    take: &mut impl FnMut(LogLine<'_>),
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(MAX_LINE_LEN, input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = (&mut input).take(MAX_LINE_LEN as u64).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok(());
        }
        if line.last() == Some(&b'\n') {
            take_line(&line, damage, take);
        } else if count == MAX_LINE_LEN {
            damage.unreadable += 1;
            input.skip_until(b'\n')?;
        }
        // A last line without LF may be in the middle of being written.
    }
}

fn take_line(line: &[u8], damage: &mut LogDamage, take: &mut impl FnMut(LogLine<'_>)) {
    if let Ok(entry) = serde_json::from_slice::<StatusLine<'_>>(line) {
        take(LogLine::Status(entry));
    } else if let Ok(report) = serde_json::from_slice::<ReportLine<'_>>(line) {
        take(LogLine::Report(report));
    } else if let Ok(hold) = serde_json::from_slice::<HoldLine<'_>>(line) {
        take(LogLine::Hold(hold));
    } else if let Ok(smtp) = serde_json::from_slice::<SmtpLine<'_>>(line) {
        take(LogLine::Smtp(smtp));
    } else if serde_json::from_slice::<TlsLine<'_, IgnoredAny>>(line).is_ok() {
        // It is about no message.
    } else if let Ok(gap) = serde_json::from_slice::<LostLines<'_>>(line) {
        damage.lost = damage.lost.saturating_add(gap.lost);
    } else if !line.trim_ascii().is_empty() {
        damage.unreadable += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::fs;
    use std::io::Write;

    fn line(text: &str) -> String {
        format!(
            r#"{{"time":"2026-11-21T10:00:00.000Z","spool_id":"S1","message_id":null,"sender":null,"recipient":null,"channel":"c","host":"h","agent":null,"status":"deferred","report":null,"code":null,"reply":null,"remote":null,"text":"{text}","others":0,"delay":1.0,"delays":{{"router":0,"queue":1.0,"attempt":null}},"of a later version":1}}
"#
        )
    }

    fn texts(path: &Path) -> (Vec<String>, LogDamage) {
        let mut texts = Vec::new();
        let damage = read(path, |line| match line {
            LogLine::Status(entry) => texts.push(entry.text.into_owned()),
            LogLine::Report(report) => texts.push(report.report_id.into_owned()),
            LogLine::Hold(hold) => texts.push(hold.scope.into_owned()),
            LogLine::Smtp(smtp) => texts.push(smtp.reply.into_owned()),
        })
        .expect("read");
        (texts, damage)
    }

    #[test]
    fn read_takes_parts_oldest_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        assert!(read(&path, |_| {}).is_err_and(|failure| failure.status() == 72));
        let part = |ending: &str| folder.path().join(format!("log.{ending}"));
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(line("oldest").as_bytes()).expect("packed");
        fs::write(part("2.gz"), packed.finish().expect("packed")).expect("written");
        fs::write(part("1"), line("older")).expect("written");
        fs::write(part("4"), line("of something else")).expect("written");
        fs::write(&path, line("new")).expect("written");
        assert_eq!(texts(&path).0, ["oldest", "older", "new"]);
        // A part that breaks off does not keep the others from being read.
        fs::write(part("2.gz"), b"\x1f\x8b\x08\0").expect("written");
        assert_eq!(texts(&path).0, ["older", "new"]);
    }

    #[test]
    fn read_counts_and_skips_damaged_lines() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        let long = line(&"x".repeat(MAX_LINE_LEN));
        let gap = r#"{"time":"2026-11-21T10:00:00.000Z","lost":3}"#;
        let one = line("one");
        let text = format!("{long}{one}\n{gap}\nnonsense\n\u{e9}\n{gap}\n{one}{}", &one[..40]);
        fs::write(&path, text).expect("written");
        let expected = LogDamage { lost: 6, unreadable: 3 };
        assert_eq!(texts(&path), (vec!["one".to_string(); 2], expected));
    }
}
