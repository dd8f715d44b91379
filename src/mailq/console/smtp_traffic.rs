//! What clients bring to the SMTP server of this host, for the summary.
//!
//! ```text
//! SMTP: 1,204 messages accepted for 1,530 recipients, 312 refused, 14 deferred; 3 connections
//! per minute over 1, 5, 15 min: 12, 11, 9.2 messages accepted; 0, 2.0, 1.1 refused or deferred
//!
//! REPLY                                TIMES
//! 550 5.1.1 no such user here            250
//! ```

use super::check;
use super::summary::a_minute;
use crate::format::{clock, count, grouped, now};
use crate::screen::{Screen, Style};
use crate::table::{Column, print_table};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read};
use zsched_mailq_protocol::schema::{RecentSmtpCounts, SmtpReason, SmtpTraffic};
use zsched_spool::Spool;
use zsched_sys as sys;

/// Maximum size of the file with the counters, in bytes.
const MAX_FILE_SIZE: u64 = 256 << 10;
/// Maximum number of attempts to read the file between two writes of the server.
const MAX_ATTEMPTS: u32 = 20;
/// Maximum number of replies that are shown.
const MAX_REASONS: usize = 5;
/// Maximum age of an alarm that is shown, in seconds.
const MAX_ALARM_AGE: f64 = 3600.0;

/// Reads the counters; `None` if there is no SMTP server, or this user may not read them.
pub(super) fn read(spool: &Spool) -> Option<SmtpTraffic> {
    let read = || {
        let path = spool.smtpserver_traffic_file();
        let file = sys::open_regular(File::options().read(true), &path).ok()?;
        let mut text = Vec::new();
        file.take(MAX_FILE_SIZE).read_to_end(&mut text).ok()?;
        Some(text)
    };
    // The server may be writing it.
    (0..MAX_ATTEMPTS).find_map(|_| serde_json::from_slice(&read()?).ok())
}

/// Sentences about what a person must look at.
pub(super) fn warnings(traffic: &SmtpTraffic) -> Vec<String> {
    let now = now();
    let alarms = traffic.alarms.iter().filter(|alarm| now - alarm.time < MAX_ALARM_AGE);
    let alarms = alarms.map(|alarm| format!("SMTP, {}: {}", clock(alarm.time, now), alarm.text));
    let is_dead = !traffic.ended && !sys::process_exists(traffic.pid);
    let dead = is_dead.then(|| "the SMTP server has ended without a stop".to_string());
    alarms.chain(dead).collect()
}

/// Prints the counters.
pub(super) fn print(traffic: &SmtpTraffic, screen: &mut Screen<'_>) -> io::Result<()> {
    let mut words = format!(
        "SMTP: {} accepted for {}, {} refused, {} deferred",
        count(traffic.messages, "message"),
        count(traffic.recipients, "recipient"),
        grouped(traffic.refused),
        grouped(traffic.deferred),
    );
    if traffic.failed_logins > 0 {
        words.push_str(&format!("; {}", count(traffic.failed_logins, "failed login")));
    }
    match traffic.ended || !sys::process_exists(traffic.pid) {
        true => words.push_str("; the server does not run"),
        false => words.push_str(&format!("; {}", count(traffic.connections, "connection"))),
    }
    screen.wrapped(&words)?;
    let rates = |count: fn(&RecentSmtpCounts) -> u64| {
        a_minute(traffic.recent.iter().map(|one| (count(one), one.seconds)))
    };
    let minutes: Vec<String> = traffic.recent.iter().map(|one| one.minutes.to_string()).collect();
    if !minutes.is_empty() {
        screen.wrapped(&format!(
            "per minute over {} min: {} messages accepted; {} refused or deferred",
            minutes.join(", "),
            rates(|one| one.messages),
            rates(|one| one.refused + one.deferred),
        ))?;
    }
    if traffic.reasons.is_empty() {
        return Ok(());
    }
    let columns = [
        Column::number("TIMES", |reason: &SmtpReason| reason.count),
        Column::text("SMTP REPLY", Style::Plain, |reason: &SmtpReason| Some(&*reason.reply)),
    ];
    writeln!(screen)?;
    print_table(&columns, traffic.reasons.iter().take(MAX_REASONS), screen)
}

/// Prints the counters, and what is wrong with the spool, where no scheduler answers.
pub(super) fn print_alone(spool: &Spool, screen: &mut Screen<'_>) -> io::Result<()> {
    let traffic = read(spool);
    if let Some(traffic) = &traffic {
        print(traffic, screen)?;
    }
    let of_smtp = traffic.iter().flat_map(warnings);
    check::warnings(spool)
        .into_iter()
        .chain(of_smtp)
        .try_for_each(|warning| screen.wrapped(&format!("warning: {warning}")))
}

/// Adds the counters to a JSON object of the summary, as `smtp`.
pub(super) fn added_to(line: &[u8], traffic: &SmtpTraffic) -> Option<Vec<u8>> {
    let mut object: Value = serde_json::from_slice(line).ok()?;
    object.as_object_mut()?.insert("smtp".into(), serde_json::to_value(traffic).ok()?);
    serde_json::to_vec(&object).ok()
}
