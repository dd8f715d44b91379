//! Records what clients bring: counters for `mailq summary`, lines of the status log.

use super::traffic_file::TrafficFile;
use crate::session::{LogLine, MailEvent, Reply, Session};
use crate::status_line::{client_of, json_line, status_line};
use crate::traffic::Traffic;
use std::fmt::Arguments;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};
use zsched_format::log_limiter::LogLimiters;
use zsched_format::status_log::SmtpClient;
use zsched_mailq_protocol::schema::SmtpTraffic;
use zsched_service::BackgroundLog;

/// Maximum number of lines of one kind about connections in a period.
///
/// Any client can cause such lines. The next one says how many were left out.
const MAX_LINES_PER_PERIOD: u32 = 30;
/// Length of that period.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum time to wait at the end for the disk of the status log.
const MAX_FLUSH_TIME: Duration = Duration::from_secs(10);

/// Counters and records of a running server.
pub(super) struct Monitor {
    traffic: Traffic,
    status_log: Option<BackgroundLog>,
    /// What was written last.
    written: SmtpTraffic,
    /// By what has happened, and what the client was doing.
    limiters: LogLimiters<(&'static str, &'static str)>,
}

impl Monitor {
    pub(super) fn new(status_log: Option<BackgroundLog>) -> Monitor {
        Monitor {
            traffic: Traffic::new(Instant::now(), SystemTime::now()),
            status_log,
            written: SmtpTraffic::default(),
            limiters: LogLimiters::new(MAX_LINES_PER_PERIOD, PERIOD),
        }
    }

    /// Takes the log lines and the events of a session.
    pub(super) fn collect(&mut self, session: &mut Session) {
        for line in session.take_log() {
            match line {
                LogLine::OfMail(text) => log::info!("{text}"),
                LogLine::OfSession(text) => self.log_session(session, text, format_args!("")),
            }
        }
        for event in session.take_events() {
            match &event.outcome {
                Ok(_) => self.traffic.accept(event.recipients as u64, event.size),
                Err(reply) => self.traffic.refuse(reply.is_permanent(), &reply.to_string()),
            }
            self.record(|| client_of(session), &event);
        }
    }

    /// Notes a connection that was refused.
    pub(super) fn refuse_connection(&mut self, ip: IpAddr, service: &str, reply: &Reply) {
        if let Some(more) = self.limiters.permit(("connection refused", "")) {
            log::info!("unknown[{ip}]: connection refused: {reply}{more}");
        }
        self.traffic.refuse(reply.is_permanent(), &reply.to_string());
        let client = format!("unknown[{ip}]").into();
        let client = || SmtpClient { client, service: service.into(), login: None, tls: None };
        let outcome = Err(reply.clone());
        let event = MailEvent { outcome, sender: None, recipient: None, recipients: 0, size: 0 };
        self.record(client, &event);
    }

    /// Logs what has happened to a session, and what its client was doing.
    pub(super) fn log_session(
        &mut self,
        session: &Session,
        what: &'static str,
        why: Arguments<'_>,
    ) {
        let activity = session.activity();
        if let Some(more) = self.limiters.permit((what, activity)) {
            log::info!("{}: {what} {activity}{why}{more}", session.client_name());
        }
    }

    /// Opens the status log again, if it was renamed.
    pub(super) fn check_status_log(&self) {
        self.status_log.iter().for_each(|log| log.reopen(true));
    }

    /// Writes an event into the status log, if there is one.
    fn record<'e>(&mut self, client: impl FnOnce() -> SmtpClient<'e>, event: &'e MailEvent) {
        if let Some(log) = &self.status_log {
            log.push(&status_line(client(), event));
        }
    }

    /// Counts a failed login.
    pub(super) fn fail_login(&mut self) {
        self.traffic.fail_login();
    }

    /// Keeps an alarm for `mailq summary`.
    pub(super) fn add_alarm(&mut self, text: String) {
        self.traffic.add_alarm(SystemTime::now(), text);
    }

    /// The text of the counters if they have changed.
    pub(super) fn tick(&mut self, connections: usize) -> Option<Vec<u8>> {
        let now = Instant::now();
        self.traffic.sample(now);
        let shown = self.traffic.shown(now, SystemTime::now(), connections as u64);
        // The times differ in any case.
        let counts = |shown: &SmtpTraffic| {
            let mut shown = SmtpTraffic { time: 0.0, ..shown.clone() };
            shown.recent.iter_mut().for_each(|one| one.seconds = 0.0);
            shown
        };
        if counts(&shown) == counts(&self.written) {
            return None;
        }
        self.written = shown;
        Some(json_line(&self.written))
    }

    /// Writes the counters for the last time, and the rest of the status log.
    pub(super) fn end(&self, traffic: &TrafficFile) {
        let shown = self.traffic.shown(Instant::now(), SystemTime::now(), 0);
        traffic.write(&json_line(&SmtpTraffic { ended: true, ..shown }), true);
        if self.status_log.as_ref().is_some_and(|log| !log.flush(MAX_FLUSH_TIME)) {
            log::error!("the last lines of the status log are lost: its disk does not answer");
        }
    }
}
