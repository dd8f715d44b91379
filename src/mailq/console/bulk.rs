//! `mailq jobs` and `mailq job`: bulk jobs.

use super::arguments::quoted;
use super::client;
use super::commands::{JobOrder, LostDecision};
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::format::{clock, count, now, one_line};
use crate::installation::Installation;
use crate::screen::Screen;
use crate::table::{Column, print_table};
use std::fs::File;
use std::io::{BufRead, BufReader};
use zsched_bulk::counts::RecipientCounts;
use zsched_bulk::export::{OfflineError, OfflineSpool};
use zsched_bulk::{JobId, PacketNumber, result};
use zsched_format::priority::KEPT_PRIORITY;
use zsched_mailq_protocol::schema::BulkJobStatus;
use zsched_spool::Spool;
use zsched_sys as sys;

/// Maximum number of destinations that are shown.
const MAX_FULL_SHOWN: usize = 10;

/// The words of a request for an order, and the line printed after it.
pub(super) fn order(order: &JobOrder) -> (String, String) {
    let (words, done) = match order {
        JobOrder::Pause => ("pause", "The job is paused; agents end what they have of it."),
        JobOrder::Resume => ("resume", "The job goes on."),
        JobOrder::Cancel => ("cancel", "The job is cancelled; agents end what they have of it."),
        JobOrder::PacketSize { recipients } => {
            let done = format!("Packets have at most {recipients} recipients from now on.");
            return (format!("packet-size {recipients}"), done);
        }
        JobOrder::Share { percent } => {
            let done = format!("The job uses at most {percent} % of a destination's agents.");
            return (format!("share {percent}"), done);
        }
        JobOrder::Priority { level } => {
            let level = priority_word((*level).into());
            let done = format!("All packets of the job have priority {level}.");
            return (format!("priority {level}"), done);
        }
        JobOrder::Lost { decision: LostDecision::Send } => {
            ("lost send", "The recipients get the message again.")
        }
        JobOrder::Lost { decision: LostDecision::Drop } => {
            ("lost drop", "The recipients are given up; the result says unknown.")
        }
    };
    (words.to_string(), done.to_string())
}

/// A priority as in arguments.
fn priority_word(priority: u64) -> String {
    let is_kept = priority >= u64::from(KEPT_PRIORITY);
    if is_kept { "z".to_string() } else { priority.to_string() }
}

/// The argument that stands for all jobs.
const ALL_JOBS: &str = "all";

fn job_id(text: &str) -> Result<JobId, Failure> {
    text.parse().map_err(|error| Failure::Usage(format!("{}: {error}", one_line(text))))
}

/// Turns what is left of a job into ordinary messages, for another scheduler.
pub(super) fn export(
    installation: &Installation,
    id: &str,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let spool = installation.spool();
    let jobs = match id {
        ALL_JOBS => zsched_bulk::list(spool)?,
        _ => vec![job_id(id)?],
    };
    let failed = |error: OfflineError| match error {
        OfflineError::Spool(error) => Failure::from(error),
        OfflineError::NoJob(_) => Failure::NotFound(error.to_string()),
        refused => Failure::Refused(refused.to_string()),
    };
    let offline = OfflineSpool::lock(spool, installation.level()).map_err(failed)?;
    for job in jobs {
        offline.export(job).map_err(failed)?;
        writeln!(
            screen,
            "Job {job} is exported. Its result is {}",
            zsched_bulk::result_file(spool, job).display()
        )?;
    }
    Ok(())
}

/// Prints a table of jobs.
pub(super) fn print(jobs: &[BulkJobStatus], screen: &mut Screen<'_>) -> Result<(), Failure> {
    if jobs.is_empty() {
        return Ok(writeln!(screen, "There are no bulk jobs.")?);
    }
    let present = now();
    let columns = [
        Column::word("JOB", |job: &BulkJobStatus| one_line(&job.id)),
        Column::word("STATE", |job: &BulkJobStatus| one_line(&job.state)),
        Column::number("RCPTS", |job: &BulkJobStatus| job.recipients),
        Column::number("DELIVERED", |job: &BulkJobStatus| job.delivered),
        Column::number("FAILED", |job: &BulkJobStatus| job.failed),
        Column::number("PENDING", |job: &BulkJobStatus| job.pending),
        Column::number("DEFERRED", |job: &BulkJobStatus| job.deferred),
        Column::number("QUEUED", |job: &BulkJobStatus| job.queued),
        Column::optional_number("PER-MIN", |job: &BulkJobStatus| {
            job.per_minute.map(|rate| rate as u64)
        }),
        Column::word("END", move |job: &BulkJobStatus| {
            job.expected_end.map_or("-".to_string(), |end| clock(end, present))
        }),
        Column::name("LIST", |job: &BulkJobStatus| job.list.clone().unwrap_or_default()),
    ];
    Ok(print_table(&columns, jobs, screen)?)
}

/// Prints all about a job. Finished ones are read from the spool.
pub(super) fn show(
    session: &mut Session,
    spool: &Spool,
    id: &str,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let job = job_id(id)?;
    let request = Request::new(format!("SHOW JSON JOBS {}", quoted(id)), "TT");
    let found = client::fetch_all::<BulkJobStatus>(session, request);
    match found.as_deref() {
        Ok([status, ..]) => {
            print(std::slice::from_ref(status), screen)?;
            print_details(status, possible_duplicates(spool, job), screen)
        }
        _ if zsched_bulk::result_file(spool, job).exists() => {
            let RecipientCounts { all, delivered, failed, aside, .. } =
                result::summary(spool, job)?.counts;
            let others = all - delivered - failed - aside;
            let all = count(all.into(), "recipient");
            writeln!(
                screen,
                "Job {job} is finished: {all}, {delivered} delivered, {failed} failed, {aside} \
                 aside, {others} others."
            )?;
            Ok(writeln!(
                screen,
                "Its result is {}",
                zsched_bulk::result_file(spool, job).display()
            )?)
        }
        _ => found.map(drop),
    }
}

fn print_details(
    job: &BulkJobStatus,
    duplicates: Option<u64>,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let BulkJobStatus { packets, packet_size, share, aside, dropped, .. } = job;
    let BulkJobStatus { deferred, at_work, lost, priority, .. } = job;
    let priority = priority_word(*priority);
    writeln!(
        screen,
        "{at_work} recipients are with agents, {deferred} are deferred; priority {priority}."
    )?;
    if *lost > 0 {
        writeln!(
            screen,
            "{lost} recipients may be delivered or not, since their packets have vanished: \
             mailq job {} lost send|drop",
            one_line(&job.id)
        )?;
    }
    let packets = count(*packets, "packet");
    writeln!(
        screen,
        "{packets} in the queue; at most {packet_size} recipients in a packet, {share} % of a \
         destination's agents."
    )?;
    if aside + dropped > 0 {
        writeln!(screen, "{aside} recipients are in postman/, {dropped} were dropped.")?;
    }
    if let Some(count) = duplicates.filter(|count| *count > 0) {
        writeln!(screen, "{count} recipients may have got it twice: .scheduler.duplicates")?;
    }
    if let Some(until) = job.until {
        writeln!(screen, "It goes on at {}.", clock(until, now()))?;
    }
    for full in job.full.iter().take(MAX_FULL_SHOWN) {
        let (channel, host) = (one_line(&full.channel), one_line(&full.host));
        let left = count(full.recipients, "recipient");
        writeln!(screen, "{channel}/{host} has {left} in no packet yet.")?;
    }
    if job.full.len() > MAX_FULL_SHOWN {
        writeln!(screen, "Other destinations have recipients in no packet, too.")?;
    }
    Ok(())
}

/// Number of recipients of a job that may have got the message twice.
///
/// `None` if the list cannot be read, as for users without the right to.
fn possible_duplicates(spool: &Spool, job: JobId) -> Option<u64> {
    let file = sys::if_exists(File::open(spool.duplicates_file())).ok()?;
    let Some(file) = file else { return Some(0) };
    let mut found = 0;
    for line in BufReader::new(file).lines() {
        let line: serde_json::Value = serde_json::from_str(&line.ok()?).unwrap_or_default();
        let id = line["spool_id"].as_str().unwrap_or_default();
        let id = id.strip_prefix('S').unwrap_or(id);
        let digits: String = id.chars().take_while(char::is_ascii_digit).collect();
        let packet = digits.parse().ok().and_then(PacketNumber::of_message);
        found += u64::from(packet.is_some_and(|packet| packet.job == job));
    }
    Some(found)
}
