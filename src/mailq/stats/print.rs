//! Output of `mailq stats`.

use super::tally::{ByName, Outcomes, SmtpCounts, SmtpTally, Tally, Traffic};
use crate::format::{count, span};
use crate::screen::Screen;
use crate::table::{Column, print_table};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io;

/// Maximum number of hours that are shown one by one; beyond that, days are.
const MAX_HOURS: usize = 48;

/// A row of a table.
type Row<'t, V> = (&'t str, &'t V);

/// Prints the tally for people.
pub(super) fn print_text(tally: &Tally, limit: usize, screen: &mut Screen<'_>) -> io::Result<()> {
    let Some((first, last)) = tally.times else {
        if tally.smtp.all.total() == 0 {
            return writeln!(screen, "No lines in this time.");
        }
        return print_smtp(&tally.smtp, limit, screen);
    };
    writeln!(screen, "From {} to {}\n", minute(first), minute(last))?;
    print_totals(tally, screen)?;
    print_times(tally, screen)?;
    print_traffic("DESTINATION", tally, &tally.destinations, limit, screen)?;
    print_traffic("SENDER", tally, &tally.senders, limit, screen)?;
    print_traffic("RECIPIENT", tally, &tally.recipients, limit, screen)?;
    print_reasons("DEFERRED BECAUSE", &tally.deferral_reasons, limit, screen)?;
    print_reasons("GIVEN UP BECAUSE", &tally.failure_reasons, limit, screen)?;
    if tally.smtp.all.total() > 0 {
        writeln!(screen)?;
        print_smtp(&tally.smtp, limit, screen)?;
    }
    Ok(())
}

fn print_smtp(tally: &SmtpTally, limit: usize, screen: &mut Screen<'_>) -> io::Result<()> {
    let SmtpCounts { messages, recipients, refused, deferred } = tally.all;
    writeln!(
        screen,
        "By SMTP: {} accepted for {}, {refused} refused, {deferred} deferred\n",
        count(messages, "message"),
        count(recipients, "recipient"),
    )?;
    let columns = [
        Column::name("SMTP CLIENT", |row: &Row<'_, SmtpCounts>| row.0.to_string()),
        Column::number("ACCEPTED", |row: &Row<'_, SmtpCounts>| row.1.messages),
        Column::number("RCPTS", |row: &Row<'_, SmtpCounts>| row.1.recipients),
        Column::number("REFUSED", |row: &Row<'_, SmtpCounts>| row.1.refused),
        Column::number("DEFERRED", |row: &Row<'_, SmtpCounts>| row.1.deferred),
    ];
    print_table(&columns, &tally.clients.top(limit, SmtpCounts::total), screen)?;
    print_reasons("SMTP REPLY", &tally.reasons, limit, screen)
}

fn print_totals(tally: &Tally, screen: &mut Screen<'_>) -> io::Result<()> {
    let Outcomes { delivered, deferred, failed, expired, deleted, rerouted } = tally.all;
    writeln!(screen, "{} delivered", count(delivered, "recipient"))?;
    for (number, thing, what) in [
        (deferred, "attempt", "deferred"),
        (failed, "recipient", "failed"),
        (expired, "recipient", "expired"),
        (deleted, "recipient", "deleted by an operator"),
        (rerouted, "recipient", "returned to the router"),
    ] {
        if number > 0 {
            writeln!(screen, "{} {what}", count(number, thing))?;
        }
    }
    if let [Some(half), Some(p90), Some(p99)] =
        [0.5, 0.9, 0.99].map(|share| tally.delays.within(share))
    {
        writeln!(
            screen,
            "Delay of what was delivered: half within {}, 90 % within {}, 99 % within {}, longest {}",
            span(half),
            span(p90),
            span(p99),
            span(tally.delays.longest())
        )?;
    }
    Ok(())
}

/// Prints a row for each hour, or for each day of a long time.
fn print_times(tally: &Tally, screen: &mut Screen<'_>) -> io::Result<()> {
    let hours = &tally.hours;
    let format = if hours.len() > MAX_HOURS { "%Y-%m-%d" } else { "%Y-%m-%d %H:00" };
    let mut rows: Vec<(String, Outcomes)> = Vec::new();
    for (hour, outcomes) in hours {
        let time = Timestamp::from_second(hour * 3600).unwrap_or_default();
        let name = local(time, format);
        match rows.last_mut() {
            Some((last, sum)) if *last == name => sum.merge(outcomes),
            _ => rows.push((name, *outcomes)),
        }
    }
    writeln!(screen)?;
    let columns = [
        vec![Column::word("TIME", |row: &(String, Outcomes)| row.0.clone())],
        outcome_columns(tally, |row: &(String, Outcomes)| row.1),
    ];
    print_table(&columns.into_iter().flatten().collect::<Vec<_>>(), &rows, screen)
}

fn print_traffic(
    title: &'static str,
    tally: &Tally,
    traffic: &ByName<Traffic>,
    limit: usize,
    screen: &mut Screen<'_>,
) -> io::Result<()> {
    let rows = traffic.top(limit, |traffic| traffic.outcomes.total());
    let mut columns = vec![Column::name(title, |row: &Row<'_, Traffic>| row.0.to_string())];
    columns.extend(outcome_columns(tally, |row: &Row<'_, Traffic>| row.1.outcomes));
    columns.push(Column::span("AVERAGE", |row: &Row<'_, Traffic>| row.1.average_delay()));
    columns.push(Column::span("LONGEST", |row: &Row<'_, Traffic>| {
        (row.1.outcomes.delivered > 0).then_some(row.1.longest_delay)
    }));
    writeln!(screen)?;
    print_table(&columns, &rows, screen)
}

fn print_reasons(
    title: &'static str,
    reasons: &ByName<u64>,
    limit: usize,
    screen: &mut Screen<'_>,
) -> io::Result<()> {
    let rows = reasons.top(limit, |count| *count);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(screen)?;
    let columns = [
        Column::number("TIMES", |row: &Row<'_, u64>| *row.1),
        Column::name(title, |row: &Row<'_, u64>| row.0.to_string()),
    ];
    print_table(&columns, &rows, screen)
}

/// The columns of outcomes; what operators did has columns only if there is any.
fn outcome_columns<'c, T: 'c>(
    tally: &Tally,
    of: impl Fn(&T) -> Outcomes + Copy + 'c,
) -> Vec<Column<'c, T>> {
    let mut columns = vec![
        Column::number("DELIVERED", move |row| of(row).delivered),
        Column::number("DEFERRED", move |row| of(row).deferred),
        Column::number("GIVEN UP", move |row| of(row).given_up()),
    ];
    if tally.all.deleted > 0 {
        columns.push(Column::number("DELETED", move |row| of(row).deleted));
    }
    if tally.all.rerouted > 0 {
        columns.push(Column::number("REROUTED", move |row| of(row).rerouted));
    }
    columns
}

/// Prints the tally as one JSON object.
pub(super) fn print_json(tally: &Tally, limit: usize, screen: &mut Screen<'_>) -> io::Result<()> {
    fn rows<V: Default + Serialize>(
        values: &ByName<V>,
        limit: usize,
        rank: fn(&V) -> u64,
    ) -> Vec<serde_json::Value> {
        let row = |(name, value)| json!({"name": name, "counts": value});
        values.top(limit, rank).into_iter().map(row).collect()
    }
    let traffic = |values| rows(values, limit, |traffic: &Traffic| traffic.outcomes.total());
    let reasons = |values| rows(values, limit, |count: &u64| *count);
    let hours: BTreeMap<String, &Outcomes> = tally
        .hours
        .iter()
        .map(|(hour, row)| (Timestamp::from_second(hour * 3600).unwrap_or_default(), row))
        .map(|(time, row)| (time.to_string(), row))
        .collect();
    let object = json!({
        "from": tally.times.map(|(first, _)| first.to_string()),
        "to": tally.times.map(|(_, last)| last.to_string()),
        "outcomes": tally.all,
        "delay": {
            "p50": tally.delays.within(0.5),
            "p90": tally.delays.within(0.9),
            "p99": tally.delays.within(0.99),
            "longest": tally.delays.longest(),
        },
        "hours": hours,
        "destinations": traffic(&tally.destinations),
        "senders": traffic(&tally.senders),
        "recipients": traffic(&tally.recipients),
        "deferral_reasons": reasons(&tally.deferral_reasons),
        "failure_reasons": reasons(&tally.failure_reasons),
        "smtp": {
            "counts": tally.smtp.all,
            "clients": rows(&tally.smtp.clients, limit, SmtpCounts::total),
            "reasons": reasons(&tally.smtp.reasons),
        },
    });
    writeln!(screen, "{object}")
}

fn minute(time: Timestamp) -> String {
    local(time, "%Y-%m-%d %H:%M")
}

/// A time in the local time zone.
fn local(time: Timestamp, format: &str) -> String {
    time.to_zoned(TimeZone::system()).strftime(format).to_string()
}
