//! The summary on one screen.
//!
//! ```text
//! 3 messages for 4 recipients, 2 destinations; the oldest is 1d31m old
//! up 1h1m: 10 messages in, 7 out; 15 recipients in, 11 out (0.2/min)
//! 2 agents, 1 idle
//!
//! BUSIEST        MSGS  RCPTS  OLDEST  AGENTS  STATE
//! smtp/mx.test      3      4      1d       0  retry 14:02:10
//!
//! MOST TRIED  TRIES  LAST TEXT
//! smtp/mx.test       6  451 4.4.1 connection timed out
//! ```

use super::format::{clock, count, cut, grouped, last_line, one_line, rate, span, span_or_dash};
use super::model::{RingStatus, Summary, ThreadStatus};
use super::output::{Style, StyledWriter};
use super::overview::Overview;
use super::table::{Column, Table};
use std::io::{self, Write};

/// Maximum number of rows of a table: the summary fits on one screen.
const MAX_ROWS: usize = 5;

/// Prints the summary.
pub(super) fn print<W: Write>(overview: &Overview, output: &mut StyledWriter<W>) -> io::Result<()> {
    let summary = &overview.summary;
    print_totals(summary, output)?;
    print_counts(summary, output)?;
    print_state(summary, output)?;
    if summary.messages == 0 {
        return Ok(());
    }
    let busiest = overview.busiest(MAX_ROWS);
    if !busiest.is_empty() {
        output.end_line()?;
        busy(&busiest, summary.time).print(output)?;
    }
    let most_tried = overview.most_tried(MAX_ROWS);
    if !most_tried.is_empty() {
        output.end_line()?;
        tried_table(&most_tried).print(output)?;
    }
    let mut rings: Vec<&RingStatus> =
        overview.rings.iter().filter(|ring| ring.messages > 0 || ring.agents > 0).collect();
    rings.sort_by(|a, b| b.messages.cmp(&a.messages).then_with(|| a.pattern.cmp(&b.pattern)));
    if rings.len() > 1 {
        output.end_line()?;
        ring_table(&rings[..rings.len().min(MAX_ROWS)]).print(output)?;
    }
    Ok(())
}

fn print_totals<W: Write>(summary: &Summary, output: &mut StyledWriter<W>) -> io::Result<()> {
    if summary.messages == 0 {
        return output.line("The queue is empty.");
    }
    output.styled(&count(summary.messages, "message"), Style::Title)?;
    let recipients = count(summary.recipients, "recipient");
    let threads = count(summary.threads, "destination");
    output.plain(&format!(" for {recipients}, {threads}"))?;
    match summary.oldest {
        Some(age) => output.line(&format!("; the oldest is {} old", span(age))),
        None => output.end_line(),
    }
}

fn print_counts<W: Write>(summary: &Summary, output: &mut StyledWriter<W>) -> io::Result<()> {
    let uptime = (summary.time - summary.started).max(0.0);
    let rate = match summary.recipients_out {
        0 => String::new(),
        count => format!(" ({})", rate(count as f64 / uptime.max(1.0))),
    };
    let since = match summary.started > 0.0 {
        true => format!("up {}: ", span(uptime)),
        false => String::new(),
    };
    output.line(&format!(
        "{since}{} in, {} out; {} in, {} out{rate}",
        count(summary.messages_in, "message"),
        grouped(summary.messages_out),
        count(summary.recipients_in, "recipient"),
        grouped(summary.recipients_out),
    ))
}

fn print_state<W: Write>(summary: &Summary, output: &mut StyledWriter<W>) -> io::Result<()> {
    output.plain(&format!("{}, {} idle", count(summary.agents, "agent"), grouped(summary.idle)))?;
    let held = [(summary.held_threads, "destination"), (summary.held_messages, "message")];
    for (number, thing) in held.into_iter().filter(|(number, _)| *number > 0) {
        output.plain("; ")?;
        output.styled(&format!("{} on hold", count(number, thing)), Style::Warning)?;
    }
    let on_disk = summary.waiting + summary.resting;
    if on_disk > 0 {
        let (messages, rest) = (count(on_disk, "message"), grouped(summary.resting));
        let recipients = count(summary.resting_recipients, "recipient");
        output.plain("; ")?;
        output.styled(
            &format!("{messages} more on disk, of which {rest} are paged out ({recipients})"),
            Style::Warning,
        )?;
    }
    for (is_so, words) in [
        (summary.loading, "the spool is being loaded"),
        (summary.draining, "shutting down"),
        (summary.frozen, "agent starts are disabled (option -F)"),
    ] {
        if is_so {
            output.plain("; ")?;
            output.styled(words, Style::Error)?;
        }
    }
    output.end_line()
}

fn busy(threads: &[&ThreadStatus], now: f64) -> Table {
    let mut table = Table::new(&[
        ("BUSIEST", Column::Name),
        ("MSGS", Column::Number),
        ("RCPTS", Column::Number),
        ("OLDEST", Column::Number),
        ("AGENTS", Column::Number),
        ("STATE", Column::Word),
    ]);
    for thread in threads {
        let (state, style) = destination_state(thread, now);
        table.row(vec![
            (one_line(&thread.name()), Style::Plain),
            (grouped(thread.messages), Style::Plain),
            (grouped(thread.recipients), Style::Plain),
            (span_or_dash(thread.oldest), Style::Plain),
            (grouped(thread.agents.len() as u64), Style::Plain),
            (state, style),
        ]);
    }
    table
}

fn tried_table(threads: &[&ThreadStatus]) -> Table {
    let mut table = Table::new(&[
        ("MOST TRIED", Column::Name),
        ("TRIES", Column::Number),
        ("LAST TEXT", Column::Text),
    ]);
    for thread in threads {
        table.row(vec![
            (one_line(&thread.name()), Style::Plain),
            (grouped(thread.attempts), Style::Plain),
            (last_line(thread.text().unwrap_or_default()), Style::Error),
        ]);
    }
    table
}

/// The table of rings.
pub(super) fn ring_table(rings: &[&RingStatus]) -> Table {
    let mut table = Table::new(&[
        ("RING", Column::Name),
        ("MSGS", Column::Number),
        ("DESTS", Column::Number),
        ("AGENTS", Column::Number),
        ("IDLE", Column::Number),
        ("MAXRING", Column::Number),
        ("MAXTHR", Column::Number),
        ("OVERFEED", Column::Number),
    ]);
    let number = |number: Option<u64>| number.map_or("-".to_string(), grouped);
    for ring in rings {
        let is_full = ring.maxring.is_some_and(|max| ring.agents >= max);
        let style = if is_full { Style::Warning } else { Style::Plain };
        table.row(vec![
            (one_line(&ring.pattern), Style::Plain),
            (grouped(ring.messages), Style::Plain),
            (grouped(ring.threads), Style::Plain),
            (grouped(ring.agents), style),
            (grouped(ring.idle), Style::Plain),
            (number(ring.maxring), Style::Plain),
            (number(ring.maxthr), Style::Plain),
            (number(ring.overfeed), Style::Plain),
        ]);
    }
    table
}

/// Shortens a keyword of a scheduler to 20 columns.
pub(super) fn short(word: &str) -> String {
    cut(&one_line(word), 20)
}

/// State of a destination in a word or two, with its style.
pub(super) fn destination_state(thread: &ThreadStatus, now: f64) -> (String, Style) {
    let reason = short(thread.reason());
    let (words, style) = match reason.as_str() {
        "at-work" => ("at work", Style::Good),
        "agent-starting" => ("agent starting", Style::Good),
        "retry" => {
            let time = thread.wakeup.map_or(String::new(), |at| format!(" {}", clock(at, now)));
            return (format!("retry{time}"), Style::Warning);
        }
        "held" => ("on hold", Style::Warning),
        "request" => ("queueonly", Style::Plain),
        "turn" => ("its turn", Style::Plain),
        "in-line" => ("in line", Style::Plain),
        "window" => ("window full", Style::Plain),
        "pace" => ("rate limited", Style::Plain),
        "suspended" => ("cannot start", Style::Error),
        "no-command" => ("no command", Style::Error),
        "kept" => ("kept back", Style::Warning),
        // The name of a limit.
        other => (other, Style::Warning),
    };
    (words.to_string(), style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::format::width;
    use crate::console::model::Wait;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn print_with_any_text_stays_printable_and_narrow(
            host in any::<String>(),
            why in proptest::option::of(any::<String>()),
            text in proptest::option::of(any::<String>()),
            count in 0u64..1_000_000,
            time in any::<f64>(),
            columns in 70usize..200,
        ) {
            let thread = ThreadStatus {
                channel: "smtp".to_string(),
                host: host.clone(),
                messages: count,
                attempts: count,
                wakeup: Some(time),
                oldest: Some(time),
                wait: Some(Wait { why: why.unwrap_or_default(), text, ..Wait::default() }),
                ..ThreadStatus::default()
            };
            let summary = Summary { messages: 1, time, oldest: Some(time), ..Summary::default() };
            let ring = RingStatus { pattern: host, messages: count, ..RingStatus::default() };
            let overview =
                Overview { summary, threads: vec![thread], rings: vec![ring.clone(), ring], agents: vec![] };
            let mut out = Vec::new();
            print(&overview, &mut StyledWriter::new(&mut out, Some(columns), false)).expect("printed");
            let out = String::from_utf8(out).expect("text");
            prop_assert!(out.chars().all(|c| c == '\n' || zsched_format::printable::is_printable(c)), "{:?}", out);
            for line in out.lines().skip(3) {
                prop_assert!(width(line) <= columns, "{}", line);
            }
        }
    }
}
