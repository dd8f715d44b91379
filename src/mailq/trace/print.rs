//! Output of message histories, for people and as JSON.

use super::histories::{History, NextStep};
use crate::message::envelope::QueuedRecipient;
use crate::screen::Screen;
use jiff::tz::TimeZone;
use std::collections::HashMap;
use std::io;
use zsched_format::printable;
use zsched_format::status_log::{
    HoldLine, HoldOrder, ReportLine, SmtpLine, SmtpStatus, StatusLine,
};

/// Prints histories.
pub(super) fn print(
    screen: &mut Screen<'_>,
    histories: &[History],
    as_json: bool,
    zone: &TimeZone,
) -> io::Result<()> {
    for (index, history) in histories.iter().enumerate() {
        if as_json {
            writeln!(screen, "{}", printable::json(&serde_json::to_vec(history)?))?;
            continue;
        }
        if index > 0 {
            writeln!(screen)?;
        }
        print_history(screen, history, zone)?;
    }
    Ok(())
}

fn print_history(screen: &mut Screen<'_>, history: &History, zone: &TimeZone) -> io::Result<()> {
    let mut head = history.spool_id.clone();
    if let Some(message_id) = &history.message_id {
        head.push_str(&format!(" {message_id}"));
    }
    if let Some(sender) = &history.sender {
        head.push_str(&format!(" from {sender}"));
    }
    let arrived = history.came.and_then(|came| jiff::Timestamp::from_millisecond(came).ok());
    if let Some(arrived) = arrived {
        head.push_str(&format!(", arrived {}", clock(arrived, zone)));
    }
    screen.wrapped(&head)?;
    if let Some(line) = &history.smtp {
        print_arrival(screen, line, zone)?;
    }
    for recipient in recipients(history) {
        print_recipient(screen, &recipient, zone)?;
    }
    for hold in &history.holds {
        print_hold(screen, hold, zone)?;
    }
    for report in &history.reports {
        print_report(screen, report, &history.spool_id, zone)?;
    }
    if !history.put_off.is_empty() {
        writeln!(screen, "  deferred because of other messages for the same host:")?;
    }
    for entry in &history.put_off {
        let (time, others, agent_answer) = (time(entry, zone), others(entry), agent_answer(entry));
        let StatusLine { channel, host, spool_id, .. } = entry;
        let line =
            format!("    {time} {channel}/{host}, {others}, because of {spool_id}{agent_answer}");
        screen.wrapped(&line)?;
    }
    match &history.next {
        NextStep::Unknown => writeln!(screen, "  next: unknown, the scheduler did not answer"),
        NextStep::NotQueued if history.queued.is_empty() => writeln!(screen, "  not in the queue"),
        NextStep::WaitsForRouter => writeln!(screen, "  next: waits for the router"),
        NextStep::NotQueued => writeln!(screen, "  next: not loaded by the scheduler yet"),
        NextStep::Waits(sentences) if sentences.is_empty() => {
            writeln!(screen, "  next: nothing for these recipients; others are still queued")
        }
        NextStep::Waits(sentences) => {
            sentences.iter().try_for_each(|line| screen.wrapped(&format!("  next: {line}")))
        }
    }
}

/// Prints how a message came by SMTP.
fn print_arrival(screen: &mut Screen<'_>, line: &SmtpLine<'_>, zone: &TimeZone) -> io::Result<()> {
    let (time, client) = (shown_time(&line.time, zone), client(line));
    let recipients = printable::count(line.recipients, "recipient");
    screen.wrapped(&format!("  {time} came from {client} for {recipients}, {} bytes", line.size))
}

/// Prints mail that the SMTP server has not accepted.
pub(super) fn print_refused(
    screen: &mut Screen<'_>,
    lines: &[SmtpLine<'_>],
    as_json: bool,
    zone: &TimeZone,
) -> io::Result<()> {
    for line in lines {
        if as_json {
            writeln!(screen, "{}", printable::json(&serde_json::to_vec(line)?))?;
            continue;
        }
        let (time, client, reply) = (shown_time(&line.time, zone), client(line), &line.reply);
        let what = match line.status {
            SmtpStatus::Deferred => "deferred",
            _ => "refused",
        };
        let sender = line.sender.as_deref().unwrap_or("<>");
        let to = line.recipient.as_ref().map_or("a message".into(), |to| format!("mail to {to}"));
        screen.wrapped(&format!("{time} {what} {to} from {sender}, client {client}: {reply}"))?;
    }
    Ok(())
}

/// A client, with what is known about it.
fn client(line: &SmtpLine<'_>) -> String {
    let client = &line.smtp;
    let mut text = format!("{} by {}", client.client, client.service);
    let facts = [("login", &client.login), ("TLS", &client.tls)];
    for (name, fact) in facts {
        text.extend(fact.iter().map(|fact| format!(", {name} {fact}")));
    }
    text
}

/// Prints a hold or a release of the message or of its destination.
fn print_hold(screen: &mut Screen<'_>, hold: &HoldLine<'_>, zone: &TimeZone) -> io::Result<()> {
    let mut line = format!("  {} ", shown_time(&hold.time, zone));
    line.push_str(match hold.order {
        HoldOrder::Hold => "held",
        HoldOrder::Release => "released",
    });
    match &*hold.scope {
        "ALL" => line.push_str(" with all other mail"),
        scope if scope.starts_with("id=") => {}
        scope => line.push_str(&format!(" with {scope}")),
    }
    if let Some(by) = &hold.by {
        line.push_str(&format!(" by {by}"));
    }
    if let Some(reason) = &hold.reason {
        line.push_str(&format!(": {reason}"));
    }
    screen.wrapped(&line)
}

/// Prints a report about the message.
///
/// For a report, prints the message that it is about.
fn print_report(
    screen: &mut Screen<'_>,
    report: &ReportLine<'_>,
    spool_id: &str,
    zone: &TimeZone,
) -> io::Result<()> {
    let time = shown_time(&report.time, zone);
    let which = match report.report_id == spool_id {
        true => format!("is the report about {}", report.spool_id),
        false => format!("report {}", report.report_id),
    };
    let counts = report.recipients.all().into_iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(word, count)| format!("{count} {word}")).collect();
    let (to, counts) = (&report.to, counts.join(", "));
    screen.wrapped(&format!("  {which}, sent to {to} {time}: {counts}"))
}

/// A recipient, with its attempts and its state in the spool.
struct RecipientHistory<'s> {
    address: Option<&'s str>,
    attempts: Vec<&'s StatusLine<'static>>,
    queued: Vec<&'s QueuedRecipient>,
}

/// Recipients: those with attempts in the order of the first one, then those of the spool.
fn recipients(history: &History) -> Vec<RecipientHistory<'_>> {
    let tried = history.attempts.iter().map(|entry| entry.recipient.as_deref());
    let in_spool = history.queued.iter().map(|queued| Some(&*queued.recipient));
    let mut all: Vec<RecipientHistory<'_>> = Vec::new();
    let mut index_of: HashMap<Option<&str>, usize> = HashMap::new();
    for address in tried.chain(in_spool) {
        index_of.entry(address).or_insert_with(|| {
            all.push(RecipientHistory { address, attempts: Vec::new(), queued: Vec::new() });
            all.len() - 1
        });
    }
    for entry in &history.attempts {
        all[index_of[&entry.recipient.as_deref()]].attempts.push(entry);
    }
    for queued in &history.queued {
        all[index_of[&Some(&*queued.recipient)]].queued.push(queued);
    }
    all
}

fn print_recipient(
    screen: &mut Screen<'_>,
    recipient: &RecipientHistory<'_>,
    zone: &TimeZone,
) -> io::Result<()> {
    let address = recipient.address.unwrap_or("an unknown recipient");
    screen.wrapped(&format!("  to {address}"))?;
    for entry in &recipient.attempts {
        print_attempt(screen, entry, zone)?;
    }
    let is_ended = recipient.attempts.last().is_some_and(|entry| entry.status.is_final());
    for queued in recipient.queued.iter().filter(|_| !is_ended) {
        let line = format!("    {} for {}/{}", queued.state, queued.channel, queued.host);
        screen.wrapped(&line)?;
    }
    Ok(())
}

fn print_attempt(
    screen: &mut Screen<'_>,
    entry: &StatusLine<'_>,
    zone: &TimeZone,
) -> io::Result<()> {
    let mut line = format!("    {} {}", time(entry, zone), entry.status.word());
    if let Some(code) = &entry.code {
        line.push_str(&format!(" {code}"));
    }
    line.push_str(&format!(", {}/{}", entry.channel, entry.host));
    if let Some(remote) = &entry.remote {
        // The type of the name, `dns;`, is of no use here.
        let name = remote.split_once(';').map_or(&**remote, |(_, name)| name.trim());
        line.push_str(&format!(" at {name}"));
    }
    match entry.agent {
        Some(agent) => line.push_str(&format!(", agent {agent}")),
        None => line.push_str(", no agent"),
    }
    if let Some(took) = entry.delays.attempt {
        line.push_str(&format!(", took {took:.3} s"));
    }
    if entry.others > 0 {
        line.push_str(&format!(", with {}", others(entry)));
    }
    line.push_str(&agent_answer(entry));
    screen.wrapped(&line)?;
    if !entry.status.is_final() {
        return Ok(());
    }
    let (delay, delays) = (entry.delay, entry.delays);
    let (router, queue) = (delays.router, delays.queue);
    let attempt =
        delays.attempt.map_or(String::new(), |took| format!(", {took:.3} s in the attempt"));
    screen.wrapped(&format!(
        "      {delay:.3} s after arrival: {router:.3} s in the router, {queue:.3} s in the \
         queue{attempt}"
    ))
}

/// Number of messages that wait because of an attempt at another one.
fn others(entry: &StatusLine<'_>) -> String {
    format!("{} deferred", printable::count(entry.others.into(), "message"))
}

/// Text of the attempt on one line, after a colon, if any.
fn agent_answer(entry: &StatusLine<'_>) -> String {
    let text = match entry.text.trim() {
        "" => entry.reply.as_deref().unwrap_or_default(),
        text => text,
    };
    // The output has one line per attempt.
    match text.replace('\r', " ").trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

fn time(entry: &StatusLine<'_>, zone: &TimeZone) -> String {
    shown_time(&entry.time, zone)
}

fn shown_time(time: &str, zone: &TimeZone) -> String {
    time.parse().map_or_else(|_| time.to_string(), |time| clock(time, zone))
}

fn clock(time: jiff::Timestamp, zone: &TimeZone) -> String {
    time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::super::histories::HistorySearch;
    use super::super::log_files::LogLine;
    use super::super::subject::TraceSubject;
    use super::*;
    use expect_test::{Expect, expect};
    use zsched_format::action_counts::ActionCounts;
    use zsched_format::status_log::{DeliveryStatus, StatusDelays};

    fn entry(
        second: u32,
        id: &str,
        recipient: &str,
        status: DeliveryStatus,
    ) -> StatusLine<'static> {
        let delay = f64::from(second) + 0.5;
        StatusLine {
            time: format!("2026-11-21T10:00:{second:02}.500Z").into(),
            spool_id: id.to_string().into(),
            message_id: Some("<1@x>".into()),
            sender: Some("alice@x".into()),
            recipient: Some(recipient.to_string().into()),
            channel: "smtp".into(),
            host: "mx.test".into(),
            agent: Some(812),
            status,
            report: Some("deferred".into()),
            code: Some("4.4.1".into()),
            reply: None,
            remote: Some("dns; mx.test (192.0.2.1)".into()),
            text: "\rcannot connect:\rtimed out\x1b[2J".into(),
            others: 0,
            delay,
            delays: StatusDelays { router: 0.148, queue: delay - 1.648, attempt: Some(1.5) },
        }
    }

    const ID: &str = "S4711AbmKUKEJuuHwA";
    const OTHER: &str = "S4712AbmKUKEJuuHwA";

    fn log() -> Vec<StatusLine<'static>> {
        let delivered = StatusLine {
            code: Some("2.0.0".into()),
            text: "".into(),
            reply: Some("smtp; 250 2.0.0 queued".into()),
            ..entry(59, ID, "Bob@mx.test", DeliveryStatus::Delivered)
        };
        let down = StatusLine {
            others: 7,
            message_id: None,
            ..entry(3, OTHER, "x@y", DeliveryStatus::Deferred)
        };
        let expired = StatusLine {
            agent: None,
            remote: None,
            delays: StatusDelays { router: 0.0, queue: 30.0, attempt: None },
            ..entry(30, ID, "carol@mx.test", DeliveryStatus::Expired)
        };
        vec![
            entry(2, ID, "Bob@mx.test", DeliveryStatus::Deferred),
            down.clone(),
            expired,
            delivered,
            // After the message has left.
            StatusLine { time: "2026-11-21T11:00:00.000Z".into(), ..down },
        ]
    }

    const REPORT: &str = "S4713AbmKUKEJuuHwA";

    fn report() -> ReportLine<'static> {
        ReportLine {
            time: "2026-11-21T10:01:00.000Z".into(),
            spool_id: ID.into(),
            message_id: Some("<1@x>".into()),
            report_id: REPORT.into(),
            to: "alice@x".into(),
            recipients: ActionCounts { failed: 2, delivered: 1, ..ActionCounts::default() },
        }
    }

    fn search(what: &str, lines: impl Fn() -> Vec<LogLine<'static>>) -> Vec<History> {
        let mut histories = HistorySearch::about(TraceSubject::parse(what));
        lines().into_iter().for_each(|line| histories.take(line));
        if histories.needs_second_pass() {
            lines().into_iter().for_each(|line| histories.take_again(line));
        }
        histories.finish()
    }

    fn traced(what: &str) -> Vec<History> {
        search(what, || log().into_iter().map(LogLine::Status).collect())
    }

    #[test]
    fn report_is_in_histories_of_both_messages() {
        let of_report = || entry(59, REPORT, "alice@x", DeliveryStatus::Delivered);
        let lines = || {
            let failed = LogLine::Status(entry(2, ID, "bob@mx.test", DeliveryStatus::Failed));
            vec![failed, LogLine::Report(report()), LogLine::Status(of_report())]
        };
        let reports = |what: &str| -> Vec<(String, usize)> {
            let found = search(what, lines).into_iter();
            found.map(|history| (history.spool_id, history.reports.len())).collect()
        };
        let (message, report) = ((ID.to_string(), 1), (REPORT.to_string(), 1));
        for what in [ID, "<1@x>", "4711", "bob@mx.test"] {
            assert!(reports(what).contains(&message), "{what}");
        }
        for what in [REPORT, "4713", "alice@x"] {
            assert_eq!(reports(what), std::slice::from_ref(&report), "{what}");
        }
        assert_eq!(reports("carol@mx.test"), []);
    }

    #[test]
    fn report_without_other_lines_is_shown_from_both_sides() {
        let lines = || vec![LogLine::Report(report())];
        let mut histories = search(ID, lines);
        histories.extend(search(REPORT, lines));
        histories.iter_mut().for_each(|history| history.next = NextStep::NotQueued);
        check(
            &histories,
            false,
            expect![[r#"
                S4711AbmKUKEJuuHwA <1@x>
                  report S4713AbmKUKEJuuHwA, sent to alice@x 2026-11-21 10:01:00: 2 failed, 1 delivered
                  not in the queue

                S4713AbmKUKEJuuHwA
                  is the report about S4711AbmKUKEJuuHwA, sent to alice@x 2026-11-21 10:01:00: 2 failed, 1 delivered
                  not in the queue
            "#]],
        );
    }

    fn check(histories: &[History], as_json: bool, expected: Expect) {
        let mut out = Vec::new();
        print(&mut Screen::new(&mut out), histories, as_json, &TimeZone::UTC)
            .expect("a Vec takes everything");
        expected.assert_eq(&String::from_utf8(out).expect("text"));
    }

    #[test]
    fn print_groups_attempts_by_recipient() {
        let mut histories = traced(ID);
        histories[0].next = NextStep::NotQueued;
        check(
            &histories,
            false,
            expect![[r#"
                S4711AbmKUKEJuuHwA <1@x> from alice@x, arrived 2026-11-21 10:00:00
                  to Bob@mx.test
                    2026-11-21 10:00:02 deferred 4.4.1, smtp/mx.test at mx.test (192.0.2.1), agent 812, took 1.500 s: cannot connect: timed out^[[2J
                    2026-11-21 10:00:59 delivered 2.0.0, smtp/mx.test at mx.test (192.0.2.1), agent 812, took 1.500 s: smtp; 250 2.0.0 queued
                      59.500 s after arrival: 0.148 s in the router, 57.852 s in the queue, 1.500 s in the attempt
                  to carol@mx.test
                    2026-11-21 10:00:30 expired 4.4.1, smtp/mx.test, no agent: cannot connect: timed out^[[2J
                      30.500 s after arrival: 0.000 s in the router, 30.000 s in the queue
                  deferred because of other messages for the same host:
                    2026-11-21 10:00:03 smtp/mx.test, 7 messages deferred, because of S4712AbmKUKEJuuHwA: cannot connect: timed out^[[2J
                  not in the queue
            "#]],
        );
        assert_eq!(traced("<1@x>"), traced(ID));
    }

    #[test]
    fn print_of_one_recipient_leaves_out_others() {
        let mut histories = traced("bob@MX.test");
        let queued = |recipient: &str, state: &str| QueuedRecipient {
            offset: 0,
            recipient: recipient.to_string(),
            channel: "smtp".to_string(),
            host: "mx.test".to_string(),
            state: state.to_string(),
        };
        histories[0].attempts.pop();
        histories[0].put_off.clear();
        histories[0].queued = vec![queued("Bob@mx.test", "queued")];
        histories[0].next = NextStep::Waits(vec!["smtp/mx.test waits until 10:35:00".to_string()]);
        let mut untried = History { spool_id: OTHER.to_string(), ..History::default() };
        untried.queued = vec![queued("bob@mx.test", "with agent 7")];
        histories.push(untried);
        check(
            &histories,
            false,
            expect![[r#"
                S4711AbmKUKEJuuHwA <1@x> from alice@x, arrived 2026-11-21 10:00:00
                  to Bob@mx.test
                    2026-11-21 10:00:02 deferred 4.4.1, smtp/mx.test at mx.test (192.0.2.1), agent 812, took 1.500 s: cannot connect: timed out^[[2J
                    queued for smtp/mx.test
                  next: smtp/mx.test waits until 10:35:00

                S4712AbmKUKEJuuHwA
                  to bob@mx.test
                    with agent 7 for smtp/mx.test
                  next: unknown, the scheduler did not answer
            "#]],
        );
        check(
            &histories,
            true,
            expect![[r#"
                {"spool_id":"S4711AbmKUKEJuuHwA","message_id":"<1@x>","sender":"alice@x","queued":[{"recipient":"Bob@mx.test","channel":"smtp","host":"mx.test","state":"queued"}],"attempts":[{"time":"2026-11-21T10:00:02.500Z","spool_id":"S4711AbmKUKEJuuHwA","message_id":"<1@x>","sender":"alice@x","recipient":"Bob@mx.test","channel":"smtp","host":"mx.test","agent":812,"status":"deferred","report":"deferred","code":"4.4.1","reply":null,"remote":"dns; mx.test (192.0.2.1)","text":"\rcannot connect:\rtimed out\u001b[2J","others":0,"delay":2.5,"delays":{"router":0.148,"queue":0.8520000000000001,"attempt":1.5}}],"put_off":[],"holds":[],"reports":[],"smtp":null,"next":{"waits":["smtp/mx.test waits until 10:35:00"]}}
                {"spool_id":"S4712AbmKUKEJuuHwA","message_id":null,"sender":null,"queued":[{"recipient":"bob@mx.test","channel":"smtp","host":"mx.test","state":"with agent 7"}],"attempts":[],"put_off":[],"holds":[],"reports":[],"smtp":null,"next":"unknown"}
            "#]],
        );
    }

    #[test]
    fn mail_on_hold_is_not_put_off_by_others() {
        let hold = |second| {
            let line = format!(
                r#"{{"channel":"smtp","host":"mx.test","sentence":"smtp/mx.test is held",
                "held_by":{{"by":"ann","since":{second}}}}}"#
            );
            serde_json::from_str(&line).expect("a wait")
        };
        let since: jiff::Timestamp = "2026-11-21T10:00:00Z".parse().expect("a time");
        // The other message defers it three seconds later.
        for (seconds, put_off) in [(3, 0), (4, 1)] {
            let mut history = traced(ID).remove(0);
            assert_eq!(history.put_off.len(), 1);
            history.add_waits(vec![hold(since.as_second() + seconds)]);
            assert_eq!(history.put_off.len(), put_off, "{seconds}");
            assert_eq!(history.next, NextStep::Waits(vec!["smtp/mx.test is held".to_string()]));
        }
    }

    #[test]
    fn print_wraps_lines_at_words() {
        let mut out = Vec::new();
        let mut screen = Screen::styled_on(&mut out, Some(60), false);
        print(&mut screen, &traced(ID), false, &TimeZone::UTC).expect("a Vec takes everything");
        drop(screen);
        let out = String::from_utf8(out).expect("text");
        assert!(out.lines().all(|line| line.len() <= 60), "{out}");
        assert!(out.contains("\n        mx.test (192.0.2.1), agent 812"), "{out}");
    }

    #[test]
    fn tell_of_unknown_subject_is_empty() {
        assert_eq!(traced("dave@mx.test"), []);
        assert_eq!(traced("S4713AbmKUKEJuuHwA"), []);
    }
}
