//! Output of message histories, for people and as JSON.

use super::histories::{History, NextStep};
use crate::message::envelope::QueuedRecipient;
use crate::screen::Screen;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::collections::HashMap;
use std::io;
use zsched_format::printable;
use zsched_format::status_log::{
    HoldLine, HoldOrder, ReportLine, SmtpLine, SmtpStatus, StatusLine,
};

/// Prints histories, then mail that the SMTP server has not accepted.
pub(super) fn print(
    screen: &mut Screen<'_>,
    histories: &[History],
    refused: &[SmtpLine<'_>],
    as_json: bool,
    zone: &TimeZone,
) -> io::Result<()> {
    let mut printer = HistoryPrinter { screen, zone };
    if as_json {
        histories.iter().try_for_each(|history| printer.json(history))?;
        return refused.iter().try_for_each(|line| printer.json(line));
    }
    for (index, history) in histories.iter().enumerate() {
        if index > 0 {
            writeln!(printer.screen)?;
        }
        printer.history(history)?;
    }
    refused.iter().try_for_each(|line| printer.refused(line))
}

struct HistoryPrinter<'p, 's> {
    screen: &'p mut Screen<'s>,
    zone: &'p TimeZone,
}

/// A recipient, with its attempts and its state in the spool.
#[derive(Default)]
struct RecipientHistory<'s> {
    address: Option<&'s str>,
    attempts: Vec<&'s StatusLine<'static>>,
    queued: Vec<&'s QueuedRecipient>,
}

impl HistoryPrinter<'_, '_> {
    fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        writeln!(self.screen, "{}", printable::json(&serde_json::to_vec(value)?))
    }

    fn history(&mut self, history: &History) -> io::Result<()> {
        let arrived = history.arrived.and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
        let parts = [
            history.message_id.as_ref().map(|id| format!(" {id}")),
            history.sender.as_ref().map(|sender| format!(" from {sender}")),
            arrived.map(|arrived| format!(", arrived {}", self.clock(arrived))),
        ];
        let head: String = parts.into_iter().flatten().collect();
        self.screen.wrapped(&format!("{}{head}", history.spool_id))?;
        history.smtp.iter().try_for_each(|line| self.arrival(line))?;
        recipients(history).iter().try_for_each(|recipient| self.recipient(recipient))?;
        history.holds.iter().try_for_each(|hold| self.hold(hold))?;
        history.reports.iter().try_for_each(|report| self.report(report, &history.spool_id))?;
        if !history.put_off.is_empty() {
            writeln!(self.screen, "  deferred because of other messages for the same host:")?;
        }
        for entry in &history.put_off {
            let (time, others, answer) = (self.time(&entry.time), others(entry), answer(entry));
            let StatusLine { channel, host, spool_id, .. } = entry;
            self.screen.wrapped(&format!(
                "    {time} {channel}/{host}, {others}, because of {spool_id}{answer}"
            ))?;
        }
        let next = match &history.next {
            NextStep::Unknown => "  next: unknown, the scheduler did not answer",
            NextStep::NotQueued if history.queued.is_empty() => "  not in the queue",
            NextStep::WaitsForRouter => "  next: waits for the router",
            NextStep::NotQueued => "  next: not loaded by the scheduler yet",
            NextStep::Waits(sentences) if sentences.is_empty() => {
                "  next: nothing for these recipients; others are still queued"
            }
            NextStep::Waits(sentences) => {
                let mut lines = sentences.iter().map(|sentence| format!("  next: {sentence}"));
                return lines.try_for_each(|line| self.screen.wrapped(&line));
            }
        };
        writeln!(self.screen, "{next}")
    }

    /// Prints how a message came by SMTP.
    fn arrival(&mut self, line: &SmtpLine<'_>) -> io::Result<()> {
        let (time, client, size) = (self.time(&line.time), client(line), line.size);
        let recipients = printable::count(line.recipients, "recipient");
        self.screen.wrapped(&format!("  {time} came from {client} for {recipients}, {size} bytes"))
    }

    /// Prints mail that the SMTP server has not accepted.
    fn refused(&mut self, line: &SmtpLine<'_>) -> io::Result<()> {
        let (time, client, reply) = (self.time(&line.time), client(line), &line.reply);
        let what = if line.status == SmtpStatus::Deferred { "deferred" } else { "refused" };
        let sender = line.sender.as_deref().unwrap_or("<>");
        let to = line.recipient.as_ref().map_or("a message".into(), |to| format!("mail to {to}"));
        self.screen.wrapped(&format!("{time} {what} {to} from {sender}, client {client}: {reply}"))
    }

    /// Prints a hold or a release of the message or of its destination.
    fn hold(&mut self, hold: &HoldLine<'_>) -> io::Result<()> {
        let time = self.time(&hold.time);
        let done = if hold.order == HoldOrder::Hold { "held" } else { "released" };
        let scope = match &*hold.scope {
            "ALL" => " with all other mail".to_string(),
            scope if scope.starts_with("id=") => String::new(),
            scope => format!(" with {scope}"),
        };
        let by = hold.by.as_ref().map_or(String::new(), |by| format!(" by {by}"));
        let reason = hold.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        self.screen.wrapped(&format!("  {time} {done}{scope}{by}{reason}"))
    }

    /// Prints a report about the message.
    ///
    /// For a report, prints the message that it is about.
    fn report(&mut self, report: &ReportLine<'_>, spool_id: &str) -> io::Result<()> {
        let which = match report.report_id == spool_id {
            true => format!("is the report about {}", report.spool_id),
            false => format!("report {}", report.report_id),
        };
        let counts = report.recipients.all().into_iter().filter(|(_, count)| *count > 0);
        let counts: Vec<String> = counts.map(|(word, count)| format!("{count} {word}")).collect();
        let (to, time, counts) = (&report.to, self.time(&report.time), counts.join(", "));
        self.screen.wrapped(&format!("  {which}, sent to {to} {time}: {counts}"))
    }

    fn recipient(&mut self, recipient: &RecipientHistory<'_>) -> io::Result<()> {
        let address = recipient.address.unwrap_or("an unknown recipient");
        self.screen.wrapped(&format!("  to {address}"))?;
        recipient.attempts.iter().try_for_each(|entry| self.attempt(entry))?;
        let is_ended = recipient.attempts.last().is_some_and(|entry| entry.status.is_final());
        for queued in recipient.queued.iter().filter(|_| !is_ended) {
            let QueuedRecipient { state, channel, host, .. } = queued;
            self.screen.wrapped(&format!("    {state} for {channel}/{host}"))?;
        }
        Ok(())
    }

    fn attempt(&mut self, entry: &StatusLine<'_>) -> io::Result<()> {
        let StatusLine { status, channel, host, delay, delays, .. } = entry;
        let code = entry.code.as_ref().map_or(String::new(), |code| format!(" {code}"));
        let parts = [
            Some(format!(", {channel}/{host}")),
            // The type of the name, `dns;`, is of no use here.
            entry.remote.as_ref().map(|remote| {
                let name = remote.split_once(';').map_or(&**remote, |(_, name)| name.trim());
                format!(" at {name}")
            }),
            Some(entry.agent.map_or(", no agent".into(), |agent| format!(", agent {agent}"))),
            delays.attempt.map(|took| format!(", took {took:.3} s")),
            (entry.others > 0).then(|| format!(", with {}", others(entry))),
        ];
        let (time, word, answer) = (self.time(&entry.time), status.word(), answer(entry));
        let parts: String = parts.into_iter().flatten().collect();
        self.screen.wrapped(&format!("    {time} {word}{code}{parts}{answer}"))?;
        if !status.is_final() {
            return Ok(());
        }
        let (router, queue) = (delays.router, delays.queue);
        let attempt = delays.attempt.map(|took| format!(", {took:.3} s in the attempt"));
        self.screen.wrapped(&format!(
            "      {delay:.3} s after arrival: {router:.3} s in the router, {queue:.3} s in the \
             queue{}",
            attempt.unwrap_or_default()
        ))
    }

    /// A time of the log, for people.
    fn time(&self, time: &str) -> String {
        time.parse().map_or_else(|_| time.to_string(), |time| self.clock(time))
    }

    fn clock(&self, time: jiff::Timestamp) -> String {
        time.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }
}

/// A client, with what is known about it.
fn client(line: &SmtpLine<'_>) -> String {
    let client = &line.smtp;
    let facts = [("login", &client.login), ("TLS", &client.tls)].into_iter();
    let facts = facts.filter_map(|(name, fact)| Some(format!(", {name} {}", fact.as_ref()?)));
    format!("{} by {}{}", client.client, client.service, facts.collect::<String>())
}

/// Recipients: those with attempts in the order of the first one, then those of the spool.
fn recipients(history: &History) -> Vec<RecipientHistory<'_>> {
    let mut all: Vec<RecipientHistory<'_>> = Vec::new();
    let mut index_of: HashMap<Option<&str>, usize> = HashMap::new();
    let tried =
        history.attempts.iter().map(|entry| (entry.recipient.as_deref(), Some(entry), None));
    let in_spool =
        history.queued.iter().map(|queued| (Some(&*queued.recipient), None, Some(queued)));
    for (address, attempt, queued) in tried.chain(in_spool) {
        let index = *index_of.entry(address).or_insert_with(|| {
            all.push(RecipientHistory { address, ..RecipientHistory::default() });
            all.len() - 1
        });
        all[index].attempts.extend(attempt);
        all[index].queued.extend(queued);
    }
    all
}

/// Number of messages that wait because of an attempt at another one.
fn others(entry: &StatusLine<'_>) -> String {
    format!("{} deferred", printable::count(entry.others.into(), "message"))
}

/// Text of the attempt on one line, after a colon, if any.
fn answer(entry: &StatusLine<'_>) -> String {
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
            lines().into_iter().for_each(|line| histories.take_in_second_pass(line));
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
        print(&mut Screen::new(&mut out), histories, &[], as_json, &TimeZone::UTC)
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
        print(&mut screen, &traced(ID), &[], false, &TimeZone::UTC)
            .expect("a Vec takes everything");
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
