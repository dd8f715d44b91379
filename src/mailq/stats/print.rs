//! Output of `mailq stats`.

use super::tally::{ByName, Outcomes, SmtpCounts, Tally, Traffic};
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
type NamedValue<'t, V> = (&'t str, &'t V);

/// Prints the tally for people.
pub(super) fn print_text(tally: &Tally, limit: usize, screen: &mut Screen<'_>) -> io::Result<()> {
    let has_smtp = tally.smtp.all.total() > 0;
    let mut printer = StatsPrinter { tally, limit, screen };
    if let Some((first, last)) = tally.times {
        let format = "%Y-%m-%d %H:%M";
        let (first, last) = (local(first, format), local(last, format));
        writeln!(printer.screen, "From {first} to {last}\n")?;
        printer.totals()?;
        printer.times()?;
        printer.traffic("DESTINATION", &tally.destinations)?;
        printer.traffic("SENDER", &tally.senders)?;
        printer.traffic("RECIPIENT", &tally.recipients)?;
        printer.reasons("DEFERRED BECAUSE", &tally.deferral_reasons)?;
        printer.reasons("GIVEN UP BECAUSE", &tally.failure_reasons)?;
        if has_smtp {
            writeln!(printer.screen)?;
        }
    } else if !has_smtp {
        writeln!(printer.screen, "No lines in this time.")?;
    }
    if has_smtp { printer.smtp() } else { Ok(()) }
}

struct StatsPrinter<'t, 's> {
    tally: &'t Tally,
    /// Maximum number of rows of a table.
    limit: usize,
    screen: &'t mut Screen<'s>,
}

impl StatsPrinter<'_, '_> {
    fn smtp(&mut self) -> io::Result<()> {
        let tally = &self.tally.smtp;
        let SmtpCounts { messages, recipients, refused, deferred } = tally.all;
        let (messages, recipients) = (count(messages, "message"), count(recipients, "recipient"));
        writeln!(
            self.screen,
            "By SMTP: {messages} accepted for {recipients}, {refused} refused, {deferred} deferred\n"
        )?;
        let columns = [
            Column::name("SMTP CLIENT", |row: &NamedValue<'_, SmtpCounts>| row.0.to_string()),
            Column::number("ACCEPTED", |row: &NamedValue<'_, SmtpCounts>| row.1.messages),
            Column::number("RCPTS", |row: &NamedValue<'_, SmtpCounts>| row.1.recipients),
            Column::number("REFUSED", |row: &NamedValue<'_, SmtpCounts>| row.1.refused),
            Column::number("DEFERRED", |row: &NamedValue<'_, SmtpCounts>| row.1.deferred),
        ];
        print_table(&columns, &tally.clients.top(self.limit, SmtpCounts::total), self.screen)?;
        self.reasons("SMTP REPLY", &tally.reasons)
    }

    fn totals(&mut self) -> io::Result<()> {
        let Outcomes { delivered, deferred, failed, expired, deleted, rerouted } = self.tally.all;
        writeln!(self.screen, "{} delivered", count(delivered, "recipient"))?;
        for (number, thing, what) in [
            (deferred, "attempt", "deferred"),
            (failed, "recipient", "failed"),
            (expired, "recipient", "expired"),
            (deleted, "recipient", "deleted by an operator"),
            (rerouted, "recipient", "returned to the router"),
        ] {
            if number > 0 {
                writeln!(self.screen, "{} {what}", count(number, thing))?;
            }
        }
        let delays = &self.tally.delays;
        let within = [0.5, 0.9, 0.99].map(|share| delays.within(share).map(span));
        if let [Some(half), Some(p90), Some(p99)] = within {
            let longest = span(delays.longest());
            writeln!(
                self.screen,
                "Delay of what was delivered: half within {half}, 90 % within {p90}, 99 % within \
                 {p99}, longest {longest}"
            )?;
        }
        Ok(())
    }

    /// Prints a row for each hour, or for each day of a long time.
    fn times(&mut self) -> io::Result<()> {
        let hours = &self.tally.hours;
        let format = if hours.len() > MAX_HOURS { "%Y-%m-%d" } else { "%Y-%m-%d %H:00" };
        let mut rows: Vec<(String, Outcomes)> = Vec::new();
        for (hour, outcomes) in hours {
            let name = local(Timestamp::from_second(hour * 3600).unwrap_or_default(), format);
            match rows.last_mut() {
                Some((last, sum)) if *last == name => sum.merge(outcomes),
                _ => rows.push((name, *outcomes)),
            }
        }
        writeln!(self.screen)?;
        let mut columns = vec![Column::word("TIME", |row: &(String, Outcomes)| row.0.clone())];
        columns.extend(outcome_columns(self.tally, |row: &(String, Outcomes)| row.1));
        print_table(&columns, &rows, self.screen)
    }

    fn traffic(&mut self, title: &'static str, traffic: &ByName<Traffic>) -> io::Result<()> {
        let rows = traffic.top(self.limit, |traffic| traffic.outcomes.total());
        let mut columns =
            vec![Column::name(title, |row: &NamedValue<'_, Traffic>| row.0.to_string())];
        columns.extend(outcome_columns(self.tally, |row: &NamedValue<'_, Traffic>| row.1.outcomes));
        columns
            .push(Column::span("AVERAGE", |row: &NamedValue<'_, Traffic>| row.1.average_delay()));
        columns.push(Column::span("LONGEST", |row: &NamedValue<'_, Traffic>| {
            (row.1.outcomes.delivered > 0).then_some(row.1.longest_delay)
        }));
        writeln!(self.screen)?;
        print_table(&columns, &rows, self.screen)
    }

    fn reasons(&mut self, title: &'static str, reasons: &ByName<u64>) -> io::Result<()> {
        let rows = reasons.top(self.limit, |count| *count);
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(self.screen)?;
        let columns = [
            Column::number("TIMES", |row: &NamedValue<'_, u64>| *row.1),
            Column::name(title, |row: &NamedValue<'_, u64>| row.0.to_string()),
        ];
        print_table(&columns, &rows, self.screen)
    }
}

/// The columns of outcomes; what operators did has columns only if there is any.
fn outcome_columns<'c, T: 'c>(
    tally: &Tally,
    of: impl Fn(&T) -> Outcomes + Copy + 'c,
) -> Vec<Column<'c, T>> {
    vec![
        Column::number("DELIVERED", move |row| of(row).delivered),
        Column::number("DEFERRED", move |row| of(row).deferred),
        Column::number("GIVEN UP", move |row| of(row).given_up()),
        Column::number("DELETED", move |row| of(row).deleted).only_if(tally.all.deleted > 0),
        Column::number("REROUTED", move |row| of(row).rerouted).only_if(tally.all.rerouted > 0),
    ]
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

/// A time in the local time zone.
fn local(time: Timestamp, format: &str) -> String {
    time.to_zoned(TimeZone::system()).strftime(format).to_string()
}
