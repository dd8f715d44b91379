//! The summary on one screen.
//!
//! ```text
//! 3 messages for 4 recipients, 2 destinations; the oldest is 1d31m old
//! up 1h1m: 10 messages in, 7 out; 15 recipients in, 11 out (0.2/min)
//! per minute over 1, 5, 15 min: 12, 11, 9.2 recipients in; 12, 10, 8.4 out
//! 2 agents, 1 idle
//!
//! BUSIEST        MSGS  RCPTS  DEFERRED  OLDEST  AGENTS  STATE
//! smtp/mx.test      3      4         4      1d       0  retry 14:02:10
//!
//! MOST TROUBLED  UNDELIVERED  SHARE  OLDEST  LAST TEXT
//! smtp/mx.test             4   100%      1d  451 4.4.1 connection timed out
//! ```

use super::overview::Overview;
use super::smtp_traffic;
use crate::format::{clock, count, cut, grouped, one_line, span};
use crate::screen::{Screen, Style};
use crate::table::{Column, ColumnKind, print_table};
use std::collections::HashMap;
use std::io;
use zsched_mailq_protocol::schema::{RecentCounts, RingStatus, Summary, ThreadStatus};

/// Minimum time without a report of an agent that is shown, in seconds.
pub(super) const MIN_SILENCE: f64 = 60.0;
/// Maximum number of rows of a table: the summary fits on one screen.
const MAX_ROWS: usize = 5;

/// Prints the summary.
pub(super) fn print(overview: &Overview, screen: &mut Screen<'_>) -> io::Result<()> {
    let summary = &overview.summary;
    print_totals(summary, screen)?;
    print_counts(summary, screen)?;
    print_state(summary, screen)?;
    if let Some(traffic) = &overview.smtp {
        smtp_traffic::print(traffic, screen)?;
    }
    if summary.messages == 0 {
        return Ok(());
    }
    let busiest = overview.busiest(MAX_ROWS);
    if !busiest.is_empty() {
        let columns = thread_columns("BUSIEST", summary.time, busiest.iter().copied(), false);
        screen.line(&[])?;
        let others = summary.threads.saturating_sub(busiest.len() as u64);
        print_table(&columns, busiest, screen)?;
        if others > 0 {
            screen.wrapped(&format!("... and {} more; list shows all", grouped(others)))?;
        }
    }
    let most_undelivered = overview.most_undelivered(MAX_ROWS);
    if !most_undelivered.is_empty() {
        let columns = [
            Column::name("MOST TROUBLED", ThreadStatus::name),
            Column::number("UNDELIVERED", |thread: &ThreadStatus| thread.undelivered),
            Column::new("SHARE", ColumnKind::Number, undelivered_share),
            Column::span("OLDEST", |thread: &ThreadStatus| thread.oldest).optional(),
            Column::text("LAST TEXT", Style::Error, |thread: &ThreadStatus| {
                thread.text().filter(|text| !text.is_empty()).or_else(|| reason_of(thread))
            }),
        ];
        screen.line(&[])?;
        let others = summary.undelivered_threads.saturating_sub(most_undelivered.len() as u64);
        print_table(&columns, most_undelivered, screen)?;
        if others > 0 {
            let (others, all) = (grouped(others), count(summary.undelivered, "recipient"));
            screen.wrapped(&format!(
                "... and {others} more, {all} in all; list --sort undelivered shows all"
            ))?;
        }
    }
    let mut rings: Vec<&RingStatus> =
        overview.rings.iter().filter(|ring| ring.messages > 0 || ring.agents > 0).collect();
    rings.sort_by(|a, b| b.messages.cmp(&a.messages).then_with(|| a.pattern.cmp(&b.pattern)));
    if rings.len() > 1 {
        screen.line(&[])?;
        print_rings(&rings[..rings.len().min(MAX_ROWS)], false, screen)?;
    }
    Ok(())
}

fn print_totals(summary: &Summary, screen: &mut Screen<'_>) -> io::Result<()> {
    if summary.messages == 0 {
        return writeln!(screen, "The queue is empty.");
    }
    let recipients = count(summary.recipients, "recipient");
    let threads = count(summary.threads, "destination");
    let oldest = summary.oldest.map(|age| format!("; the oldest is {} old", span(age)));
    let oldest = oldest.unwrap_or_default();
    screen.wrapped_parts(&[
        (count(summary.messages, "message"), Style::Title),
        (format!("for {recipients}, {threads}{oldest}"), Style::Plain),
    ])
}

fn print_counts(summary: &Summary, screen: &mut Screen<'_>) -> io::Result<()> {
    let uptime = (summary.time - summary.started).max(0.0);
    let since = match summary.started > 0.0 {
        true => format!("up {}: ", span(uptime)),
        false => String::new(),
    };
    screen.wrapped(&format!(
        "{since}{} in, {} out; {} in, {} out",
        count(summary.messages_in, "message"),
        grouped(summary.messages_out),
        count(summary.recipients_in, "recipient"),
        grouped(summary.recipients_out)
    ))?;
    print_rates(summary, screen)
}

/// Prints rates of the last minutes, as a load average has them.
fn print_rates(summary: &Summary, screen: &mut Screen<'_>) -> io::Result<()> {
    let rates = |count: fn(&RecentCounts) -> u64| {
        a_minute(summary.recent.iter().map(|recent| (count(recent), recent.seconds)))
    };
    if summary.recent.is_empty() {
        return Ok(());
    }
    let minutes: Vec<String> =
        summary.recent.iter().map(|recent| recent.minutes.to_string()).collect();
    let (arrived, left) =
        (rates(|recent| recent.recipients_in), rates(|recent| recent.recipients_out));
    let minutes = minutes.join(", ");
    screen.wrapped(&format!("per minute over {minutes} min: {arrived} recipients in; {left} out"))
}

/// Formats rates a minute, from counts and the seconds in which they were counted.
pub(super) fn a_minute(counts: impl Iterator<Item = (u64, f64)>) -> String {
    let rates = counts.map(|(count, seconds)| count as f64 * 60.0 / seconds.max(1.0));
    rates.map(short_number).collect::<Vec<_>>().join(", ")
}

/// Formats a rate: with a decimal below 10.
fn short_number(number: f64) -> String {
    match number {
        small if small > 0.0 && small < 9.95 => format!("{small:.1}"),
        other => grouped(other.round() as u64),
    }
}

/// The reason for which a destination was never tried: its sentence without the name.
fn reason_of(thread: &ThreadStatus) -> Option<&str> {
    let sentence = thread.sentence()?;
    let without_name = sentence.strip_prefix(thread.name().as_str()).unwrap_or(sentence);
    Some(without_name.trim_start_matches([':', ' ']))
}

/// Share of the recipients of a destination that cannot be delivered.
fn undelivered_share(thread: &ThreadStatus) -> (String, Style) {
    let percent = thread.undelivered as f64 * 100.0 / thread.recipients.max(1) as f64;
    // Only all of them are 100 %.
    let percent = if thread.undelivered < thread.recipients { percent.min(99.0) } else { 100.0 };
    (format!("{percent:.0}%"), Style::Plain)
}

/// What is on hold, and the number of holds: one may wait for mail that is still to come.
pub(super) fn hold_words(summary: &Summary) -> impl Iterator<Item = String> {
    let held = [(summary.held_threads, "destination"), (summary.held_messages, "message")];
    let held = held.into_iter().filter(|(number, _)| *number > 0);
    let held = held.map(|(number, thing)| format!("{} on hold", count(number, thing)));
    let holds = (summary.holds > 0).then(|| format!("{} in force", count(summary.holds, "hold")));
    held.chain(holds)
}

/// What keeps the scheduler from its usual work.
pub(super) fn process_words(summary: &Summary) -> impl Iterator<Item = &'static str> {
    let states = [
        (summary.loading, "the spool is being loaded"),
        (summary.draining, "shutting down"),
        (summary.frozen, "agent starts are disabled (option -F)"),
    ];
    states.into_iter().filter_map(|(is_so, words)| is_so.then_some(words))
}

fn print_state(summary: &Summary, screen: &mut Screen<'_>) -> io::Result<()> {
    let agents = format!("{}, {} idle", count(summary.agents, "agent"), grouped(summary.idle));
    let mut parts = vec![(agents, Style::Plain)];
    parts.extend(hold_words(summary).map(|words| (words, Style::Warning)));
    let on_disk = summary.waiting + summary.resting;
    if on_disk > 0 {
        let (messages, rest) = (count(on_disk, "message"), grouped(summary.resting));
        let recipients = count(summary.resting_recipients, "recipient");
        let words =
            format!("{messages} more on disk, of which {rest} are paged out ({recipients})");
        parts.push((words, Style::Warning));
    }
    if summary.reports > 0 {
        let words = format!("{} to be sent", count(summary.reports, "report"));
        parts.push((words, Style::Plain));
    }
    parts.extend(process_words(summary).map(|words| (words.to_string(), Style::Error)));
    let level = summary.log_level.as_ref().map(|level| format!("log level {}", short(level)));
    parts.extend(level.map(|words| (words, Style::Warning)));
    let last = parts.len() - 1;
    parts[..last].iter_mut().for_each(|(words, _)| words.push(';'));
    screen.wrapped_parts(&parts)?;
    for warning in &summary.warnings {
        screen.wrapped(&format!("warning: {}", one_line(warning)))?;
    }
    Ok(())
}

/// The columns of a list of destinations, `with_text` of the last attempts.
///
/// The number of messages that are held one by one is a column only if there are any.
pub(super) fn thread_columns<'c, 't>(
    title: &'static str,
    now: f64,
    threads: impl IntoIterator<Item = &'t ThreadStatus>,
    with_text: bool,
) -> [Column<'c, ThreadStatus>; 9] {
    let has_held = threads.into_iter().any(|thread| thread.held_back > 0);
    [
        Column::name(title, ThreadStatus::name),
        Column::number("MSGS", |thread: &ThreadStatus| thread.messages),
        Column::number("RCPTS", |thread: &ThreadStatus| thread.recipients).optional(),
        Column::number("DEFERRED", |thread: &ThreadStatus| thread.deferred),
        Column::number("HELD", |thread: &ThreadStatus| thread.held_back)
            .optional()
            .only_if(has_held),
        Column::span("OLDEST", |thread: &ThreadStatus| thread.oldest),
        Column::number("AGENTS", |thread: &ThreadStatus| thread.agents.len() as u64).optional(),
        Column::new("STATE", ColumnKind::Word, move |thread| destination_state(thread, now)),
        Column::text("LAST TEXT", Style::Dim, ThreadStatus::text).only_if(with_text),
    ]
}

/// Prints the table of rings, which people know as clauses of scheduler.cf.
///
/// `all_limits` adds those of one destination and one agent.
pub(super) fn print_rings(
    rings: &[&RingStatus],
    all_limits: bool,
    screen: &mut Screen<'_>,
) -> io::Result<()> {
    let agents = |ring: &RingStatus| {
        let is_full = ring.maxring.is_some_and(|max| ring.agents >= max);
        (grouped(ring.agents), if is_full { Style::Warning } else { Style::Plain })
    };
    let mut of_pattern: HashMap<&str, usize> = HashMap::new();
    rings.iter().for_each(|ring| *of_pattern.entry(&ring.pattern).or_default() += 1);
    let has_others = |ring: &RingStatus| of_pattern.get(&*ring.pattern).is_some_and(|n| *n > 1);
    let columns = [
        Column::name("CLAUSE", |ring: &RingStatus| ring.name(has_others(ring))),
        Column::number("MSGS", |ring: &RingStatus| ring.messages),
        Column::number("DESTS", |ring: &RingStatus| ring.threads),
        Column::new("AGENTS", ColumnKind::Number, agents),
        Column::number("IDLE", |ring: &RingStatus| ring.idle).optional(),
        Column::optional_number("LIMIT", |ring: &RingStatus| ring.maxring),
        Column::optional_number("PER-DEST", |ring: &RingStatus| ring.maxthr)
            .optional()
            .only_if(all_limits),
        Column::optional_number("AHEAD", |ring: &RingStatus| ring.overfeed)
            .optional()
            .only_if(all_limits),
    ];
    print_table(&columns, rings.iter().copied(), screen)
}

/// Shortens a keyword of a scheduler to 20 columns.
pub(super) fn short(word: &str) -> String {
    cut(&one_line(word), 20)
}

/// State of a destination in a word or two, with its style.
pub(super) fn destination_state(thread: &ThreadStatus, now: f64) -> (String, Style) {
    let reason = short(thread.reason());
    let (words, style) = match reason.as_str() {
        "at-work" => {
            let heard = thread.wait.as_ref().and_then(|wait| wait.heard);
            return match heard.map(|heard| now - heard).filter(|time| *time >= MIN_SILENCE) {
                Some(time) => (format!("silent {}", span(time)), Style::Warning),
                None => ("at work".to_string(), Style::Good),
            };
        }
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
    use proptest::prelude::*;
    use zsched_format::printable::width;
    use zsched_mailq_protocol::schema::Wait;

    #[test]
    fn agent_without_report_shows_for_how_long() {
        for (silent, state) in [(59.0, "at work"), (754.0, "silent 12m34s")] {
            let heard = Some(10_000.0 - silent);
            let wait = Wait { why: "at-work".to_string(), heard, ..Wait::default() };
            let thread = ThreadStatus { wait: Some(wait), ..ThreadStatus::default() };
            assert_eq!(destination_state(&thread, 10_000.0).0, state);
        }
    }

    proptest! {
        #[test]
        fn print_with_any_text_stays_printable_and_narrow(
            host in any::<String>(),
            why in proptest::option::of(any::<String>()),
            text in proptest::option::of(any::<String>()),
            count in 0u64..1_000_000,
            time in prop_oneof![-1e8..1e8, any::<f64>()],
            columns in 60usize..200,
        ) {
            let thread = ThreadStatus {
                channel: "smtp".to_string(),
                host: host.clone(),
                messages: count,
                undelivered: count,
                wakeup: Some(time),
                oldest: Some(time),
                wait: Some(Wait { why: why.unwrap_or_default(), text, ..Wait::default() }),
                ..ThreadStatus::default()
            };
            let summary = Summary {
                messages: 1,
                time,
                oldest: Some(time),
                messages_in: count * 1_000_000,
                holds: count,
                waiting: count,
                undelivered_threads: count,
                ..Summary::default()
            };
            let ring = RingStatus { pattern: host, messages: count, ..RingStatus::default() };
            let overview =
                Overview { summary, threads: vec![thread], rings: vec![ring.clone(), ring], ..Overview::default() };
            let mut out = Vec::new();
            print(&overview, &mut Screen::styled_on(&mut out, Some(columns), false)).expect("printed");
            let out = String::from_utf8(out).expect("text");
            prop_assert!(out.chars().all(|c| c == '\n' || zsched_format::printable::is_printable(c)), "{:?}", out);
            for line in out.lines() {
                // A column of a hundred thousand days takes its room.
                prop_assert!(width(line) <= columns || time.abs() > 1e8, "{}", line);
            }
        }
    }
}
