//! The session with a server: kept for the next job, checked, and ended.

use crate::configuration::Configuration;
use crate::connection::Lost;
use crate::diagnosis;
use crate::dialer::{ClientOptions, Dialer, Session};
use crate::dialogue_log::DialogueLog;
use crate::servers::Servers;
use std::rc::Rc;
use std::time::{Duration, Instant};
use zsched_agent::{Outcome, StopFlag};
use zsched_mail_exchanger::Endpoint;

/// Longest sleep between two looks at the stop flag.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// Makes sessions, and keeps the last one.
pub struct Client {
    dialer: Dialer,
    configuration: Rc<Configuration>,
    log: DialogueLog,
    session: Option<Session>,
    /// When the next message to a host may begin, after a reply that asks for less.
    pause: Option<(String, Instant)>,
}

impl Client {
    /// Creates a client without a session.
    pub fn new(options: ClientOptions, configuration: Configuration, log: DialogueLog) -> Client {
        let configuration = Rc::new(configuration);
        let dialer = Dialer::new(options, Rc::clone(&configuration), log.clone());
        Client { dialer, configuration, log, session: None, pause: None }
    }

    /// The configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The log of dialogues.
    pub fn log(&self) -> &DialogueLog {
        &self.log
    }

    /// The maker of sessions.
    pub fn dialer(&mut self) -> &mut Dialer {
        &mut self.dialer
    }

    /// The host that mail for a destination goes to.
    pub fn next_host(&self, host: &[u8]) -> String {
        self.dialer.next_host(host)
    }

    /// The session for a host: the present one, or a new one.
    ///
    /// `servers` has what the job may still try; `None` is all servers of the host. Only then a
    /// pause is waited for: the next server of the same message is tried at once. With
    /// `requires_tls`, the session does for messages with REQUIRETLS.
    ///
    /// # Errors
    ///
    /// No server of the host takes mail; the outcome says why.
    pub fn session(
        &mut self,
        host: &str,
        servers: &mut Option<Servers>,
        requires_tls: bool,
        end: Instant,
        stop: &StopFlag,
    ) -> Result<&mut Session, Box<Outcome>> {
        if servers.is_none() {
            self.wait_for_pause(host, end, stop)?;
        }
        if !self.can_reuse(host, requires_tls) {
            self.quit();
            let known = servers.take().filter(|servers| servers.host() == host);
            let servers = servers.insert(known.map_or_else(|| self.dialer.servers(host), Ok)?);
            let opened = self.dialer.open(servers, requires_tls, end, stop);
            if let Some(time) = self.dialer.take_pause() {
                self.pause(host, time);
            }
            self.session = Some(opened?);
        }
        let session = self.session.as_mut().ok_or_else(|| Box::new(diagnosis::of_long_job()))?;
        session.connection.set_end(end);
        Ok(session)
    }

    /// The session of the last transaction, if there is one.
    pub fn current(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    fn can_reuse(&mut self, host: &str, requires_tls: bool) -> bool {
        self.session.as_mut().is_some_and(|session| {
            session.is_for(host)
                && (session.is_for_required_tls || !requires_tls)
                && session.has_room()
                && session.connection.check_quiet().is_ok()
        })
    }

    /// Ends the session politely.
    pub fn quit(&mut self) {
        if let Some(session) = self.session.take() {
            session.connection.quit();
        }
    }

    /// Returns true if a job may try another server.
    ///
    /// One of the host takes no mail.
    pub fn has_other_server(
        &mut self,
        host: &str,
        refusing: Endpoint,
        servers: &mut Option<Servers>,
        end: Instant,
    ) -> bool {
        if servers.is_none() {
            *servers = self.dialer.servers(host).ok();
            if let Some(servers) = servers {
                servers.leave_out(refusing);
            }
        }
        servers.as_mut().is_some_and(|servers| self.dialer.has_more(servers, end))
    }

    /// Closes the connection, which is of no use any more.
    pub fn close(&mut self) {
        self.session = None;
    }

    /// Puts off the next message to a host.
    pub fn pause(&mut self, host: &str, time: Duration) {
        self.pause = Some((host.to_string(), Instant::now() + time));
    }

    fn wait_for_pause(
        &mut self,
        host: &str,
        end: Instant,
        stop: &StopFlag,
    ) -> Result<(), Box<Outcome>> {
        let Some((_, until)) = self.pause.take_if(|(paused, _)| paused == host) else {
            return Ok(());
        };
        if Instant::now() < until {
            self.quit();
        }
        while Instant::now() < until {
            if stop.is_requested() {
                return Err(Box::new(diagnosis::of_lost(&Lost::Stopped)));
            }
            if Instant::now() >= end {
                return Err(Box::new(diagnosis::of_long_job()));
            }
            let left = until.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(MAX_SLEEP));
        }
        Ok(())
    }
}
