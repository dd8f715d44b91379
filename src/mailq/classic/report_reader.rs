//! Reads the queue report that follows the queue, and prints what is wanted of it.
//!
//! Its form is described where it is written, in `queue_report` of the crate `mailq_server`.

use super::queue::QueuedThread;
use crate::connect::lines::{LineSource, Lines};
use crate::failure::Failure;
use crate::screen::Screen;
use memchr::memmem;
use std::collections::HashMap;
use zsched_format::selection::Selection;

/// Kind of a line of the report.
pub(crate) enum QueueReportLine<'a> {
    /// Head of a ring. The lines after it belong to the ring.
    Head,
    /// A thread: channel, host, and the rest of the line.
    Thread(&'a [u8], &'a [u8], &'a [u8]),
    /// Belongs to the ring or the thread before it.
    Detail,
    /// Totals of the scheduler.
    Totals,
}

/// Copies the report, and returns the number of lines read.
///
/// From `level` 2 on, the lines of single threads are left out. With a selection, rings without a
/// thread that matches are left out.
pub(super) fn print<L: LineSource>(
    screen: &mut Screen<'_>,
    lines: &mut L,
    selection: &Selection,
    level: u8,
) -> Result<u64, Failure> {
    let wants_all = selection.channel.is_none() && selection.host.is_none();
    let mut head: Option<Vec<u8>> = None;
    let mut is_wanted = wants_all;
    let mut count: u64 = 0;
    while let Some(line) = lines.next()? {
        count += 1;
        let is_shown = match QueueReportLine::of(line) {
            QueueReportLine::Head if !wants_all => {
                head = Some(line.to_vec());
                is_wanted = false;
                false
            }
            QueueReportLine::Thread(channel, host, _)
                if wants_all || selection.matches(channel, host) =>
            {
                if let Some(head) = head.take() {
                    screen.line(&[&head])?;
                }
                is_wanted = true;
                level < 2
            }
            QueueReportLine::Thread(..) => false,
            QueueReportLine::Detail => is_wanted && !(level >= 2 && line.starts_with(b" ")),
            QueueReportLine::Head | QueueReportLine::Totals => true,
        };
        if is_shown {
            screen.line(&[line])?;
        }
    }
    Ok(count)
}

/// Reads the ages of these threads in the report.
pub(super) fn read_ages(lines: &mut Lines, threads: &mut [QueuedThread]) -> Result<(), Failure> {
    let name = |channel: &[u8], host: &[u8]| [channel, b"/", host].concat();
    let mut ages = HashMap::new();
    for QueuedThread { channel, host, age, .. } in threads {
        ages.insert(name(channel, host), age);
    }
    while let Some(line) = lines.next()? {
        if let QueueReportLine::Thread(channel, host, about) = QueueReportLine::of(line)
            && let Some(age) = age(about)
            && let Some(known) = ages.get_mut(&name(channel, host))
        {
            **known = Some(age.to_vec());
        }
    }
    Ok(())
}

/// Age of the oldest message, from the line of a thread.
pub(super) fn age(about: &[u8]) -> Option<&[u8]> {
    let at = memmem::find(about, b"QA=")?;
    about[at + 3..].split(u8::is_ascii_whitespace).next()
}

impl QueueReportLine<'_> {
    /// Finds the kind of a line.
    pub(crate) fn of(line: &[u8]) -> QueueReportLine<'_> {
        if let Some(thread) = line.strip_prefix(b"    ") {
            return parse_thread(thread).unwrap_or(QueueReportLine::Detail);
        }
        match line.first() {
            Some(b' ' | b'\t') => QueueReportLine::Detail,
            _ if line.starts_with(b"Kids: ") || line.starts_with(b"Msgs in ") => {
                QueueReportLine::Totals
            }
            _ => QueueReportLine::Head,
        }
    }
}

/// Parses the line of a thread: channel, host, and the rest of the line.
///
/// It is `channel/host/withhost`, TAB or blank, and items, of which `N=` is the first, or `R=` in
/// older schedulers. The host may contain blanks.
fn parse_thread(line: &[u8]) -> Option<QueueReportLine<'_>> {
    let is_label = |at: &usize| matches!(line.get(at + 1..at + 3), Some(b"N=" | b"R="));
    let end = memchr::memchr2_iter(b'\t', b' ', line).find(is_label)?;
    let name = line[..end].trim_ascii_end();
    let (place, _) = split_at(name, name.iter().rposition(|byte| *byte == b'/')?);
    let (channel, host) = split_at(place, place.iter().position(|byte| *byte == b'/')?);
    Some(QueueReportLine::Thread(channel, host, &line[end + 1..]))
}

fn split_at(text: &[u8], slash: usize) -> (&[u8], &[u8]) {
    (&text[..slash], &text[slash + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::lines::LIMITS;
    use proptest::prelude::*;

    const REPORT: &str = "smtp/*/0\n    smtp/a.test/0\t\tN=1   R=1   A=1  W=3s QA=14s\n    \
        smtp/a-very-long-host-name.example.org/0 N=1   R=1   A=0  pend=>MaxRing QA=12s threadwait\n\
        \tThreads:    2 Msgs:     2 Procs:   0 Idle:   0 Plim:   3 Flim: 150 Tlim: 1\n\
        hold/*/2\n    hold/\"a b\"/2\t\tN=2   R=2   A=0  QA=1d2h\n\
        \tThreads:    1 Msgs:     2 Procs:   0 Idle:   0 Plim:  20 Flim: 150 Tlim: 1\n\
        Kids: 0  Idle:  0  Msgs:   2  Thrds:   3  Rcpnts:    4  Uptime: 14s\n\
        Msgs in 2 out 0 stored 2 Rcpnts in 4 out 0 stored 4\n";

    fn shown(report: &str, selection: &str, level: u8) -> (String, u64) {
        let selection = Selection::parse(selection).expect("channel/host");
        let mut out = Vec::new();
        let mut lines = Lines::recorded(report.as_bytes(), LIMITS);
        let mut screen = Screen::new(&mut out);
        let count = print(&mut screen, &mut lines, &selection, level).expect("short lines");
        drop(screen);
        (String::from_utf8(out).expect("text"), count)
    }

    /// The lines of [`REPORT`] with these numbers, from 0.
    fn excerpt(numbers: &[usize]) -> String {
        let lines: Vec<&str> = REPORT.split_inclusive('\n').collect();
        numbers.iter().map(|number| lines[*number]).collect()
    }

    #[test]
    fn print_with_selection_leaves_out_other_threads() {
        for (selection, level, numbers) in [
            ("*/*", 1, &[0, 1, 2, 3, 4, 5, 6, 7, 8][..]),
            ("*/*", 2, &[0, 3, 4, 6, 7, 8]),
            ("*/*", 4, &[0, 3, 4, 6, 7, 8]),
            ("smtp/*", 1, &[0, 1, 2, 3, 7, 8]),
            ("smtp/a.test", 1, &[0, 1, 3, 7, 8]),
            ("*/\"a b\"", 1, &[4, 5, 6, 7, 8]),
            ("hold/*", 2, &[4, 6, 7, 8]),
            ("x/*", 1, &[7, 8]),
        ] {
            let expected = (excerpt(numbers), 9);
            assert_eq!(shown(REPORT, selection, level), expected, "{selection} {level}");
        }
    }

    #[test]
    fn read_ages_fills_threads() {
        let cases = [
            ("smtp", "a.test", Some("14s")),
            ("smtp", "a-very-long-host-name.example.org", Some("12s")),
            ("hold", "\"a b\"", Some("1d2h")),
            ("hold", "a.test", None),
        ];
        let thread = |(channel, host, _): (&str, &str, _)| QueuedThread {
            channel: channel.as_bytes().to_vec(),
            host: host.as_bytes().to_vec(),
            vertices: Vec::new(),
            age: None,
        };
        let mut threads = cases.map(thread);
        let mut lines = Lines::recorded(REPORT.as_bytes(), LIMITS);
        read_ages(&mut lines, &mut threads).expect("a good report");
        for (thread, (_, host, age)) in threads.iter().zip(cases) {
            assert_eq!(thread.age.as_deref(), age.map(str::as_bytes), "{host}");
        }
    }

    proptest! {
        #[test]
        fn report_with_any_lines_does_not_panic(report in "([ \t]{0,4}[a-c/ =NRQA]{0,12}\n){0,8}") {
            for selection in ["*/*", "a/b"] {
                shown(&report, selection, 1);
            }
            let mut lines = Lines::recorded(report.as_bytes(), LIMITS);
            prop_assert!(read_ages(&mut lines, &mut []).is_ok());
        }
    }
}
