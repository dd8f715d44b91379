//! The results as tables.

use super::summary::{Delay, Point, RecipientResults, Summary, ThreadResults, Totals};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use zsched_format::printable::{cut, grouped, width};
use zsched_format::time::ShortDuration;

/// Approximate number of rows of a table over time.
const MAX_ROWS: usize = 13;

/// Number of columns between the columns of a table.
const GAP: usize = 2;
/// Minimum width to which names are cut.
const MIN_NAME_WIDTH: usize = 20;
/// Minimum width to which titles are cut.
const MIN_TITLE_WIDTH: usize = 16;

/// Formats all tables of the results. `columns` is the maximum line width, if any.
///
/// Totals of all configurations side by side, then the busiest threads of each.
pub(super) fn text(summaries: &[Summary], columns: Option<usize>) -> String {
    let labels = labels(summaries);
    let mut out = totals(summaries, &labels).text(columns);
    if summaries.iter().any(|summary| summary.mail.len() > 1) {
        out += "\nby channel and host of the mail\n\n";
        out += &kinds(summaries, &labels).text(columns);
    }
    for (summary, label) in summaries.iter().zip(&labels) {
        for (title, table) in [
            ("busiest destinations", threads(&summary.threads)),
            ("recipients queued / agents over time", over_time(summary)),
        ] {
            let title = format!("{title} under {label}");
            let title = cut(&title, columns.unwrap_or(usize::MAX));
            out += &format!("\n{title}\n\n{}", table.text(columns));
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

fn totals(summaries: &[Summary], labels: &[&str]) -> Table {
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
    Table(rows)
}

fn kinds(summaries: &[Summary], labels: &[&str]) -> Table {
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
    Table(rows)
}

fn threads(threads: &[ThreadResults]) -> Table {
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
    Table(std::iter::once(head).chain(threads.iter().map(row)).collect())
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
fn over_time(summary: &Summary) -> Table {
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
    Table(rows)
}

/// A table: rows of cells, the titles first.
///
/// The first column has names and is aligned left, the others are aligned right.
struct Table(Vec<Vec<String>>);

impl Table {
    /// Formats the rows in lines of at most this number of columns, if any.
    ///
    /// In lines that are too long, names and titles are cut. If that is not enough, the last
    /// columns are left out. "…" is in the place of what is missing.
    fn text(&self, columns: Option<usize>) -> String {
        let mut widths: Vec<usize> = (0..self.0[0].len()).map(|at| self.width(at, 0)).collect();
        if let Some(columns) = columns {
            self.narrow(&mut widths, columns);
        }
        let mut out = String::new();
        for row in &self.0 {
            for (at, (cell, room)) in row.iter().zip(&widths).enumerate() {
                let cell = cut(cell, *room);
                let blanks = " ".repeat(room.saturating_sub(width(&cell)));
                out += &" ".repeat(GAP);
                out += &if at == 0 { cell + &blanks } else { blanks + &cell };
            }
            if widths.len() < row.len() {
                out += &format!("{:>1$}", '…', GAP + 1);
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out
    }

    /// Width of the widest cell of a column, from a row on.
    fn width(&self, at: usize, from: usize) -> usize {
        let cells = self.0[from..].iter().map(|row| width(&row[at]));
        cells.max().unwrap_or_default()
    }

    /// Cuts the widths, so that lines have at most this number of columns.
    fn narrow(&self, widths: &mut Vec<usize>, columns: usize) {
        let natural = widths.iter().enumerate();
        let least: Vec<usize> = natural
            .map(|(at, natural)| match at == 0 {
                true => MIN_NAME_WIDTH.min(*natural),
                false => self.width(at, 1).max(MIN_TITLE_WIDTH).min(*natural),
            })
            .collect();
        let of_line = |widths: &[usize]| widths.iter().map(|width| GAP + width).sum::<usize>();
        let mut left = widths.len();
        while left > 1 && of_line(&least[..left]) + self.mark(left) > columns {
            left -= 1;
        }
        let columns = columns.saturating_sub(self.mark(left));
        widths.truncate(left);
        while of_line(widths) > columns {
            let places = (0..left).filter(|at| widths[*at] > least[*at]);
            let Some(widest) = places.max_by_key(|at| widths[*at] - least[*at]) else { break };
            widths[widest] -= 1;
        }
    }

    /// Width of the mark in a line that has this number of columns.
    fn mark(&self, columns: usize) -> usize {
        if columns < self.0[0].len() { GAP + 1 } else { 0 }
    }
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
    use proptest::prelude::*;

    fn table(rows: &[[&str; 4]]) -> Table {
        let rows = rows.iter().map(|row| row.map(String::from).to_vec());
        Table(rows.collect())
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["", "a.cf", "b.cf", "c.cf"], ["delivered", "1", "12,345", "-"]];
        let text = "             a.cf    b.cf  c.cf\n  delivered     1  12,345     -\n";
        assert_eq!(table(&rows).text(None), text);
    }

    #[test]
    fn table_too_wide_is_cut_and_marked() {
        let rows = [
            ["", "recipients", "queued", "a-title-of-thirty-characters-"],
            ["smtp/a-long-name-of-a-host.example", "12", "1,234,567", "3"],
        ];
        let lines = |columns| table(&rows).text(Some(columns));
        let cut = "                          recipients     queued  a-title-of-thirt…\n  \
                   smtp/a-long-name-of-a…          12  1,234,567                  3\n";
        assert_eq!(lines(66), cut);
        let left_out = "                                      recipients     queued  …\n  \
                        smtp/a-long-name-of-a-host.example          12  1,234,567  …\n";
        assert_eq!(lines(62), left_out);
    }

    #[test]
    fn times_are_formatted() {
        let times = [0.0, 0.04, 59.94, 59.96, 3725.0].map(|seconds| time(Some(seconds)));
        assert_eq!(times, ["0.0s", "<0.1s", "59.9s", "1m", "1h2m5s"]);
        assert_eq!(time(None), "-");
    }

    proptest! {
        #[test]
        fn lines_fit(name in "[a-zé日]{0,60}", title in "[a-z ]{0,90}", columns in 40usize..200) {
            let table = table(&[["", "jobs", "agents", &title], [&name, "12", "1,234,567", "3"]]);
            for line in table.text(Some(columns)).lines() {
                prop_assert!(width(line) <= columns, "{}", line);
            }
        }
    }
}
