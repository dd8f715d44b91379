//! The results as tables.

use super::summary::{Delay, MailResults, Point, RecipientResults, Summary, ThreadResults, Totals};
use zsched_format::printable::grouped;
use zsched_format::time::ShortDuration;

/// Approximate number of rows of a table over time.
const MAX_ROWS: usize = 12;

/// Formats all tables of the results.
///
/// Totals of all configurations side by side, then the busiest threads of each.
pub(super) fn text(summaries: &[Summary]) -> String {
    let mut out = totals(summaries);
    if summaries.iter().any(|summary| summary.mail.len() > 1) {
        out += "\nby kind of mail\n\n";
        out += &kinds(summaries);
    }
    for summary in summaries {
        let name = &summary.configuration;
        out += &format!("\nbusiest destinations under {name}\n\n{}", threads(&summary.threads));
        out += &format!("\nqueue and agents over time under {name}\n\n{}", over_time(summary));
    }
    out
}

fn totals(summaries: &[Summary]) -> String {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(summaries.iter().map(|summary| summary.configuration.clone()));
    let mut row = |name: &str, value: &dyn Fn(&Totals) -> String| {
        let values = summaries.iter().map(|summary| value(&summary.totals));
        rows.push(std::iter::once(name.to_string()).chain(values).collect());
    };
    row("messages", &|t| grouped(t.messages));
    row("recipients", &|t| grouped(t.results.recipients));
    row("delivered", &|t| grouped(t.results.delivered));
    row("failed", &|t| grouped(t.results.failed));
    row("expired", &|t| grouped(t.results.expired));
    row("queued at the end", &|t| grouped(t.queued));
    row("attempts", &|t| grouped(t.attempts));
    row("of these deferred", &|t| grouped(t.deferrals));
    row("agents started", &|t| grouped(t.agents_started));
    row("agents at a time", &|t| grouped(t.max_agents as u64));
    row("longest queue", &|t| grouped(t.max_queued));
    row("delay of 50 %", &|t| time(t.results.delay.p50));
    row("delay of 90 %", &|t| time(t.results.delay.p90));
    row("delay of 99 %", &|t| time(t.results.delay.p99));
    row("longest delay", &|t| time(t.results.delay.longest));
    aligned(&rows)
}

fn kinds(summaries: &[Summary]) -> String {
    let head = "|| recipients | delivered | 50 % | 90 % | 99 % | longest";
    let count = summaries.iter().map(|summary| summary.mail.len()).max().unwrap_or_default();
    let of_all = (0..count).flat_map(|index| {
        summaries.iter().filter_map(move |summary| Some((summary, summary.mail.get(index)?)))
    });
    let row = |(summary, kind): (&Summary, &MailResults)| {
        let RecipientResults { recipients, delivered, delay, .. } = kind.results;
        let Delay { p50, p90, p99, longest } = delay;
        let mut row = vec![kind.destinations.clone(), summary.configuration.clone()];
        row.extend([recipients, delivered].map(grouped));
        row.extend([p50, p90, p99, longest].map(time));
        row
    };
    aligned(&with_head(head, of_all.map(row)))
}

fn threads(threads: &[ThreadResults]) -> String {
    let head = "| recipients | delivered | failed | expired | 50 % | 99 % | longest | jobs \
                | not reached | agents";
    let row = |thread: &ThreadResults| {
        let RecipientResults { recipients, delivered, failed, expired, delay } = thread.results;
        let mut row = vec![thread.destination.clone()];
        row.extend([recipients, delivered, failed, expired].map(grouped));
        row.extend([delay.p50, delay.p99, delay.longest].map(time));
        row.extend([thread.jobs, thread.not_reached].map(grouped));
        row.push(format!("{:.2}", thread.concurrency));
        row
    };
    aligned(&with_head(head, threads.iter().map(row)))
}

/// Puts a row before others, given as text with `|` between its cells.
fn with_head(head: &str, rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let head = head.split('|').map(|cell| cell.trim().to_string()).collect();
    std::iter::once(head).chain(rows).collect()
}

/// Recipients in the queue and agents: one column for all threads, one for each.
fn over_time(summary: &Summary) -> String {
    let mut rows = vec![vec![String::new(), "all".to_string()]];
    rows[0].extend(summary.threads.iter().map(|thread| thread.destination.clone()));
    let step = summary.over_time.len().div_ceil(MAX_ROWS).max(1);
    for index in (0..summary.over_time.len()).step_by(step) {
        let show = |points: &[Point]| {
            let Point { queued, agents, .. } = points[index];
            format!("{} / {agents}", grouped(queued))
        };
        let minutes = (summary.over_time[index].time / 60.0).round() as u64;
        let mut row = vec![format!("{}:{:02}", minutes / 60, minutes % 60)];
        row.push(show(&summary.over_time));
        row.extend(summary.threads.iter().map(|thread| show(&thread.over_time)));
        rows.push(row);
    }
    aligned(&rows)
}

/// Formats rows in columns: the first is left-aligned, the others right-aligned.
fn aligned(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        let longest = widths.iter_mut().zip(row);
        longest.for_each(|(width, cell)| *width = (*width).max(cell.chars().count()));
    }
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("  {cell:<width$}") } else { format!("  {cell:>width$}") }
        });
        out += cells.collect::<String>().trim_end();
        out.push('\n');
    }
    out
}

/// Formats a time.
///
/// Below a minute in tenths of a second, else as MAILQ does.
fn time(seconds: f64) -> String {
    if seconds < 60.0 {
        format!("{seconds:.1}s")
    } else {
        ShortDuration(seconds.round() as i64).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let text = aligned(&[row(["", "a.cf", "b.cf"]), row(["delivered", "1", "12,345"])]);
        assert_eq!(text, "             a.cf    b.cf\n  delivered     1  12,345\n");
    }

    #[test]
    fn times_are_formatted() {
        assert_eq!([0.04, 59.94, 60.0, 3725.0].map(time), ["0.0s", "59.9s", "1m", "1h2m5s"]);
    }
}
