//! `errormail`: tells senders what the router could not route.
//!
//! The router sends such a recipient to the channel `error`; its host is the name of a form
//! ([`notice`]). The recipients of a job that have the same sender and form are in one report,
//! which goes to the router like a new message. The report of the agent is `ok3` with the spool id
//! of that message: nothing else tells the sender.
//!
//! This crate decides which recipients share a report, and which form a report has. It must not
//! know the queue or the scheduler, nor how a report is composed; that is the crate `report`. Begin
//! with [`main`].

mod installation;
mod notice;

use clap::Parser;
use installation::Installation;
use notice::Notice;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::ExitCode;
use zsched_agent::{Delivery, Halt, Job, Message, Outcome, ScopeOptions, SpoolId, Verdict};
use zsched_command_line::sysexits::EX_CONFIG;
use zsched_format::control_file::diagnostic::NOTARY_SEPARATOR;
use zsched_format::time::Timestamp;
use zsched_report::{MAX_REPORTED_RECIPIENTS, RecipientStatus, Report, ReportKind};

/// Maximum length of the body of a message that goes back whole, in bytes.
const MAX_RETURNED_BODY_LEN: u64 = 1024 * 1024;

/// Transport agent that tells senders what the router could not route
#[derive(Parser)]
#[command(name = "errormail", version, disable_help_flag = true)]
struct ErrormailOptions {
    #[command(flatten)]
    scope: ScopeOptions,
}

fn main() -> ExitCode {
    let options: ErrormailOptions = zsched_command_line::parse();
    let installation = match Installation::find() {
        Ok(installation) => installation,
        Err(error) => {
            eprintln!("errormail: {error}");
            std::process::exit(EX_CONFIG);
        }
    };
    zsched_agent::serve("errormail", &options.scope.scope("error"), |job| {
        tell_senders(job, &installation)
    })
}

fn tell_senders(job: &mut Job<'_>, installation: &Installation) -> Result<(), Halt> {
    let message = job.message()?;
    // One report is about all recipients, so a crash must not leave some for another one.
    job.lock()?;
    if job.is_stopping() {
        return Ok(());
    }
    // In reverse file order, which makes it cheap to report many.
    for (offset, outcome) in outcomes(job, &message, installation) {
        job.report(offset, outcome)?;
    }
    Ok(())
}

/// Reports to the senders, and returns the outcome of each recipient, by offset.
fn outcomes(job: &Job<'_>, message: &Message, at: &Installation) -> Vec<(u32, Outcome)> {
    let mut groups = BTreeMap::new();
    let mut outcomes = Vec::new();
    for delivery in job.deliveries() {
        if delivery.notify().events.failure {
            let key = (delivery.sender(), delivery.host());
            groups.entry(key).or_insert_with(Vec::new).push(delivery);
        } else {
            outcomes.push((delivery.offset(), done("not reported: the sender does not want it")));
        }
    }
    for ((_, form), mut group) in groups {
        group.reverse();
        let languages = zsched_report::languages(group[0].headers());
        let notice = at.notice(form, &languages);
        for part in group.chunks(MAX_REPORTED_RECIPIENTS) {
            // Those of the other reports are left to another agent.
            if job.is_stopping() {
                break;
            }
            let outcome = match tell(job, part, message, at, &notice) {
                Ok(Some(id)) => done(format!("{id}{}", notice.remark())),
                Ok(None) => done("not reported: the message is a report itself"),
                Err(error) => Outcome::system_error("cannot hand the report to the router", &error),
            };
            outcomes.extend(part.iter().map(|delivery| (delivery.offset(), outcome.clone())));
        }
    }
    outcomes.sort_by_key(|(offset, _)| std::cmp::Reverse(*offset));
    outcomes
}

fn done(text: impl Into<String>) -> Outcome {
    Outcome::new(Verdict::PassedOn, "2.0.0", 250, "reported").with_text(text.into())
}

/// Hands a report about recipients of one sender to the router. Returns its spool id, or `None` if
/// the report has no recipient.
fn tell(
    job: &Job<'_>,
    recipients: &[Delivery<'_>],
    message: &Message,
    at: &Installation,
    notice: &Notice,
) -> io::Result<Option<SpoolId>> {
    let Some(first) = recipients.first() else { return Ok(None) };
    let spool_id = message.spool_id().to_string();
    let now = Timestamp::now();
    let notary: Vec<Vec<u8>> =
        recipients.iter().map(|delivery| notary(delivery.user(), notice)).collect();
    let body = match first.return_mode() {
        Some(mode) if mode.trim_ascii().eq_ignore_ascii_case(b"HDRS") => None,
        _ => returned_body(first, message)?,
    };
    let statuses = recipients.iter().zip(&notary);
    let statuses = statuses.map(|(delivery, notary)| status(delivery, notary));
    let report = Report {
        kind: ReportKind::Routing,
        reporting_mta: &at.domain,
        submitter: &format!("errormail@{}", at.host),
        // The same one if a crash makes this agent report again.
        id: &format!("{spool_id}.{}", first.offset()),
        sender: first.sender(),
        spool_id: &spool_id,
        envelope_id: first.envelope_id(),
        arrival: message.spool_id().modified,
        now,
        zone: at.zone.clone(),
        recipients: statuses.collect(),
        headers: first.headers(),
        body: body.as_deref(),
    };
    let report = zsched_report::compose(&report, &notice.form);
    report.map(|report| job.submit(&report)).transpose()
}

/// The body of the message, unless it is too long.
fn returned_body(recipient: &Delivery<'_>, message: &Message) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    let length = recipient.body(message).take(MAX_RETURNED_BODY_LEN + 1).read_to_end(&mut body)?;
    Ok((length as u64 <= MAX_RETURNED_BODY_LEN).then_some(body))
}

fn notary(address: &[u8], notice: &Notice) -> Vec<u8> {
    let (action, name) = (notice.action.word(), &notice.name);
    let status = format!("{} ({name})", notice.status);
    let diagnostic = format!("x-local; 500 ({name})");
    [address, action.as_bytes(), status.as_bytes(), diagnostic.as_bytes(), b""]
        .join(&NOTARY_SEPARATOR)
}

fn status<'a>(delivery: &Delivery<'a>, notary: &'a [u8]) -> RecipientStatus<'a> {
    let notify = delivery.notify();
    RecipientStatus {
        address: delivery.user(),
        channel: b"error",
        host: delivery.host(),
        original_recipient: notify.original_recipient,
        arrived_as: notify.incoming_recipient,
        notary,
        text: b"",
        // The router has refused it: it was not tried.
        time: None,
        retry_until: None,
    }
}
