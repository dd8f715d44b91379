//! Records what clients bring: counters for `mailq summary`, lines of the status log.

use crate::records::{Recorder, json_line};
use crate::session::{MailEvent, Reply, Session};
use crate::traffic::Traffic;
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};
use zsched_format::log_limiter::LogLimiter;
use zsched_format::status_log::{SmtpClient, SmtpLine, SmtpStatus};
use zsched_format::time::{Timestamp, format_time};
use zsched_mailq_protocol::schema::SmtpTraffic;

/// Maximum number of refused connections that are logged in a period; all of them are counted.
const MAX_REFUSED_CONNECTIONS_LOGGED: u32 = 30;
/// Length of that period.
const REFUSED_LOG_PERIOD: Duration = Duration::from_secs(60);

/// Counters and records of a running server.
pub(super) struct Monitor {
    traffic: Traffic,
    recorder: Recorder,
    /// What was written last.
    written: SmtpTraffic,
    refused_log: LogLimiter,
}

impl Monitor {
    pub(super) fn new(recorder: Recorder) -> Monitor {
        let traffic = Traffic::new(Instant::now(), SystemTime::now());
        let refused_log = LogLimiter::new(MAX_REFUSED_CONNECTIONS_LOGGED, REFUSED_LOG_PERIOD);
        Monitor { traffic, recorder, written: SmtpTraffic::default(), refused_log }
    }

    /// Takes the log lines and the events of a session.
    pub(super) fn collect(&mut self, session: &mut Session) {
        session.take_log().iter().for_each(|line| log::info!("{line}"));
        for event in session.take_events() {
            match &event.outcome {
                Ok(_) => self.traffic.accept(event.recipients as u64, event.size),
                Err(reply) => self.traffic.refuse(reply.is_permanent(), &reply.to_string()),
            }
            let client = || SmtpClient {
                client: session.client_name().into(),
                service: session.service().name().into(),
                login: session.login().map(Cow::from),
                tls: session.tls().map(|tls| format!("{} {}", tls.version, tls.cipher).into()),
            };
            self.record(client, &event);
        }
    }

    /// Notes a connection that was refused.
    pub(super) fn refuse_connection(&mut self, ip: IpAddr, service: &str, reply: &Reply) {
        if let Some(more) = self.refused_log.permit(Instant::now()) {
            log::info!("unknown[{ip}]: connection refused: {reply}{more}");
        }
        self.traffic.refuse(reply.is_permanent(), &reply.to_string());
        let client = format!("unknown[{ip}]").into();
        let client = || SmtpClient { client, service: service.into(), login: None, tls: None };
        let outcome = Err(reply.clone());
        let event = MailEvent { outcome, sender: None, recipient: None, recipients: 0, size: 0 };
        self.record(client, &event);
    }

    /// Writes an event into the status log, if there is one.
    fn record<'e>(&mut self, client: impl FnOnce() -> SmtpClient<'e>, event: &'e MailEvent) {
        if self.recorder.has_status_log() {
            self.recorder.push_line(json_line(&line(client(), event)));
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

    /// Writes the counters if they have changed.
    pub(super) fn tick(&mut self, connections: usize) {
        let now = Instant::now();
        self.traffic.sample(now);
        let shown = self.traffic.shown(now, SystemTime::now(), connections as u64);
        // The times differ in any case.
        let counts = |shown: &SmtpTraffic| {
            let mut shown = SmtpTraffic { time: 0.0, ..shown.clone() };
            shown.recent.iter_mut().for_each(|one| one.seconds = 0.0);
            shown
        };
        if counts(&shown) != counts(&self.written) {
            self.write(shown);
        }
    }

    /// Writes the counters for the last time.
    pub(super) fn end(&mut self) {
        let shown = self.traffic.shown(Instant::now(), SystemTime::now(), 0);
        self.write(SmtpTraffic { ended: true, ..shown });
    }

    fn write(&mut self, shown: SmtpTraffic) {
        self.recorder.write_traffic(json_line(&shown));
        self.written = shown;
    }
}

fn line<'e>(client: SmtpClient<'e>, event: &'e MailEvent) -> SmtpLine<'e> {
    let (status, spool_id, reply) = match &event.outcome {
        Ok(id) => (SmtpStatus::Accepted, Some(id.to_string().into()), "".into()),
        Err(reply) if reply.is_permanent() => (SmtpStatus::Refused, None, reply.to_string().into()),
        Err(reply) => (SmtpStatus::Deferred, None, reply.to_string().into()),
    };
    SmtpLine {
        time: format_time(Timestamp::now()).into(),
        smtp: client,
        status,
        spool_id,
        sender: event.sender.as_deref().map(Cow::from),
        recipient: event.recipient.as_deref().map(Cow::from),
        recipients: event.recipients as u64,
        size: event.size,
        reply,
    }
}
