//! The results as tables.

use super::summary::{Delay, Point, RecipientResults, Summary, ThreadResults, Totals};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use zsched_command_line::table::{Cell, ColumnKind, Style, Table, TableColumn};
use zsched_format::printable::{cut, grouped};
use zsched_format::time::ShortDuration;

/// Approximate number of rows of a table over time.
const MAX_ROWS: usize = 13;

/// Blanks before the lines of a table.
const INDENT: &str = "  ";

/// Formats all tables of the results. `columns` is the maximum line width, if any.
///
/// Totals of all configurations side by side, then the busiest threads of each.
pub(super) fn text(summaries: &[Summary], columns: Option<usize>) -> String {
    let labels = labels(summaries);
    let mut out = text_of_table(totals(summaries, &labels), columns);
    if summaries.iter().any(|summary| summary.mail.len() > 1) {
        out += "\nby channel and host of the mail\n\n";
        out += &text_of_table(kinds(summaries, &labels), columns);
    }
    for (summary, label) in summaries.iter().zip(&labels) {
        for (title, table) in [
            ("busiest destinations", threads(&summary.threads)),
            ("recipients queued / agents over time", over_time(summary)),
        ] {
            let title = format!("{title} under {label}");
            let title = cut(&title, columns.unwrap_or(usize::MAX));
            out += &format!("\n{title}\n\n{}", text_of_table(table, columns));
        }
    }
    out
}

/// The names of the configurations: without folders, if that is enough to distinguish them.
fn labels(summaries: &[Summary]) -> Vec<&str> {
    let names = summaries.iter().map(|summary| &*summary.configuration);
    let base = |name| Path::new(name).file_name().and_then(OsStr::to_str).unwrap_or(name);
    let distinct: BTreeSet<&str> = names.clone().map(base).collect();
    if distinct.len() == summaries.len() { names.map(base).collect() } else { names.collect() }
}

fn totals(summaries: &[Summary], labels: &[&str]) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(labels.iter().map(ToString::to_string));
    let mut row = |name: &str, value: &dyn Fn(&Totals) -> String| {
        let values = summaries.iter().map(|summary| value(&summary.totals));
        rows.push(std::iter::once(name.to_string()).chain(values).collect());
    };
    row("messages", &|t| grouped(t.messages));
    row("recipients", &|t| grouped(t.results.recipients));
    row("delivered", &|t| grouped(t.results.delivered));
    row("failed", &|t| grouped(t.results.failed));
    row("expired", &|t| grouped(t.results.expired));
    row("finished unreported", &|t| grouped(t.unreported));
    row("attempts", &|t| grouped(t.attempts));
    row("of these deferred", &|t| grouped(t.deferrals));
    row("agents started", &|t| grouped(t.agents_started));
    row("most agents at a time", &|t| grouped(t.max_agents as u64));
    row("longest queue", &|t| grouped(t.max_queued));
    row("queued at the end", &|t| grouped(t.results.queued));
    row("oldest of these", &|t| time(t.oldest_queued));
    row("50 % of delivered in", &|t| time(t.results.delay.map(|delay| delay.p50)));
    row("90 % of delivered in", &|t| time(t.results.delay.map(|delay| delay.p90)));
    row("99 % of delivered in", &|t| time(t.results.delay.map(|delay| delay.p99)));
    row("longest delay", &|t| time(t.results.delay.map(|delay| delay.longest)));
    rows
}

fn kinds(summaries: &[Summary], labels: &[&str]) -> Vec<Vec<String>> {
    let mut rows = vec![titles(&["recipients"])];
    for (index, first) in summaries[0].mail.iter().enumerate() {
        let name = &first.destinations;
        if summaries.len() > 1 {
            let mut row = vec![String::new(); rows[0].len()];
            row[0].clone_from(name);
            rows.push(row);
        }
        for (summary, label) in summaries.iter().zip(labels) {
            let results = &summary.mail[index].results;
            let name = if summaries.len() > 1 { format!("  {label}") } else { name.clone() };
            let mut row = vec![name];
            row.extend(delays(results));
            row.push(grouped(results.recipients));
            rows.push(row);
        }
    }
    rows
}

fn threads(threads: &[ThreadResults]) -> Vec<Vec<String>> {
    let others = ["recipients", "failed", "expired", "mean agents", "jobs", "not reached"];
    let row = |thread: &ThreadResults| {
        let RecipientResults { recipients, failed, expired, .. } = thread.results;
        let mut row = vec![thread.destination.clone()];
        row.extend(delays(&thread.results));
        row.extend([recipients, failed, expired].map(grouped));
        row.push(format!("{:.2}", thread.concurrency));
        row.extend([thread.jobs, thread.not_reached].map(grouped));
        row
    };
    let head = titles(&others);
    std::iter::once(head).chain(threads.iter().map(row)).collect()
}

/// Titles of a table with names, [`delays`] and these columns.
fn titles(others: &[&str]) -> Vec<String> {
    [""].iter().chain(&DELAYS).chain(others).map(ToString::to_string).collect()
}

/// Titles of the cells of [`delays`].
const DELAYS: [&str; 6] = ["delivered", "queued", "50 %", "90 %", "99 %", "longest"];

/// What was delivered and its delays, and beside them what is still queued.
///
/// The delays do not include that.
fn delays(results: &RecipientResults) -> [String; 6] {
    let part = |part: fn(Delay) -> f64| time(results.delay.map(part));
    [
        grouped(results.delivered),
        grouped(results.queued),
        part(|delay| delay.p50),
        part(|delay| delay.p90),
        part(|delay| delay.p99),
        part(|delay| delay.longest),
    ]
}

/// Recipients in the queue and agents: one column for all threads, one for each.
fn over_time(summary: &Summary) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new(), "all".to_string()]];
    rows[0].extend(summary.threads.iter().map(|thread| thread.destination.clone()));
    let step = summary.over_time.len().div_ceil(MAX_ROWS).max(1);
    for index in (0..summary.over_time.len()).step_by(step) {
        let show = |points: &[Point]| {
            let Point { queued, agents, .. } = points[index];
            format!("{} / {agents}", grouped(queued))
        };
        let seconds = summary.over_time[index].time.round() as u64;
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let mut row = vec![format!("{hours}:{minutes:02}:{seconds:02}")];
        row.push(show(&summary.over_time));
        row.extend(summary.threads.iter().map(|thread| show(&thread.over_time)));
        rows.push(row);
    }
    rows
}

/// A table of names and numbers: rows of cells, the titles first.
///
/// Lines begin with two blanks, and are cut to `columns`.
fn text_of_table(rows: Vec<Vec<String>>, columns: Option<usize>) -> String {
    let mut rows = rows.into_iter();
    let column = |(place, title): (usize, String)| {
        let kind = if place == 0 { ColumnKind::Name } else { ColumnKind::Number };
        TableColumn { title: title.into(), kind, is_optional: place > 0 }
    };
    let titles = rows.next().unwrap_or_default().into_iter().enumerate();
    let plain = |row: Vec<String>| row.into_iter().map(|text| (text, Style::Plain)).collect();
    let table = Table { columns: titles.map(column).collect(), rows: rows.map(plain).collect() };
    let line = |parts: Vec<Cell>| parts.into_iter().map(|(text, _)| text).collect::<String>();
    let lines = table.lines(columns.map(|columns| columns.saturating_sub(INDENT.len())));
    lines.map(|parts| format!("{INDENT}{}\n", line(parts))).collect()
}

/// Formats a time; a dash if there is none.
///
/// Below a minute in tenths of a second, else as MAILQ does.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_string(),
        Some(seconds) if seconds > 0.0 && seconds < 0.1 => "<0.1s".to_string(),
        Some(seconds) if seconds < 59.95 => format!("{seconds:.1}s"),
        Some(seconds) => ShortDuration(seconds.round() as i64).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["", "a.cf", "b.cf", "c.cf"], ["delivered", "1", "12,345", "-"]];
        let rows = rows.map(|row| row.map(String::from).to_vec()).to_vec();
        let text = "             a.cf    b.cf  c.cf\n  delivered     1  12,345     -\n";
        assert_eq!(text_of_table(rows, None), text);
    }

    #[test]
    fn times_are_formatted() {
        let times = [0.0, 0.04, 59.94, 59.96, 3725.0].map(|seconds| time(Some(seconds)));
        assert_eq!(times, ["0.0s", "<0.1s", "59.9s", "1m", "1h2m5s"]);
        assert_eq!(time(None), "-");
    }
}
