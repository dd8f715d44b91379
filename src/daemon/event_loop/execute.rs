//! Carries out the actions of the core.

use super::Daemon;
use crate::event_loop::event_source::EventSource;
use crate::logging::syslog;
use crate::net::listen::{self, Listener, ListenerKind, MailqAddress};
use crate::reports::ReportPolicy;
use crate::spool_io::{BulkRequest, ReportRequest, WriteRequest};
use log::LevelFilter;
use mio::Interest;
use std::fs;
use std::io;
use std::time::Instant;
use zsched_core::{Action, AgentId, Event, StopMode};
use zsched_format::agent_protocol;
use zsched_format::time::Timestamp;
use zsched_mailq_server::v2::{AdminCommand, Answer, Demand};

impl Daemon {
    /// Carries out all actions of the core, and those that follow.
    pub(super) fn execute_all(&mut self, now: Timestamp) {
        while let Some(action) = self.core.poll(now) {
            self.execute(now, action);
        }
        self.overrides.store_pending(&mut self.spool_io);
        self.agents.send_all();
        self.spool_io.send();
        if let Some(statistics) = &mut self.statistics {
            statistics.flush();
        }
    }

    fn execute(&mut self, now: Timestamp, action: Action) {
        match action {
            Action::StartAgent { agent, clause, channel, host } => {
                self.start_agent(now, agent, &clause, &channel, &host);
            }
            Action::Feed { agent, job } => {
                self.agents.queue(agent, &job);
                self.explain_feed(agent, &job);
            }
            Action::SendIdle(agent) => {
                self.agents.queue(agent, format!("{}\n", agent_protocol::IDLE).as_bytes());
            }
            Action::StopAgent { agent, manner } => {
                if manner == StopMode::Kill {
                    self.syslog_kill(now, agent);
                }
                self.stop_agent(agent, manner);
            }
            Action::ClearLocks { name, pid } => {
                self.spool_io.write(WriteRequest::ClearLocks(name, pid))
            }
            Action::ReadAgain(name) => self.spool_io.read_again(name),
            Action::Note(note) => self.spool_io.write(WriteRequest::Note(Box::new(note))),
            Action::Remove { name, modified, aside } => {
                self.spool_io.write(WriteRequest::Remove { name, modified, aside })
            }
            Action::Report { ticket, name, is_finished } => {
                let parameters = &self.config.parameters;
                let policy = ReportPolicy {
                    is_async: parameters.write_async,
                    stores_unaddressed: parameters.store_error_on_error,
                };
                self.spool_io.report(ReportRequest { ticket, name, is_finished, policy });
            }
            Action::PageOut { name, until, record } => {
                let text = "dropped from memory, and read again when it is due";
                self.spool_io.explain(name.number(), text);
                self.intake.backlog.page_out(name, until, *record)
            }
            Action::ReadMore { name, portion } => self.spool_io.read_more(name, portion),
            Action::Bulk(action) => self.spool_io.bulk(BulkRequest::Act(action)),
            Action::RequestPagedHosts(wanted) => self.intake.backlog.request(&wanted),
            Action::RequestPagedMessages(numbers) => {
                self.intake.backlog.request_messages(&numbers);
            }
            Action::StoreOverrides { ticket, changes } => {
                self.spool_io.log_holds(now, &changes);
                self.overrides.add_changes(ticket, changes)
            }
            Action::OrderDone { ticket, effect } => self.clients.order_done(ticket, effect),
            Action::Statistics(record) => {
                if let Some(statistics) = &mut self.statistics {
                    statistics.add(now, &record);
                }
            }
            Action::Status(record) => self.spool_io.write_status(*record),
            Action::Log(level, text) => log::log!(level, "{text}"),
        }
    }

    /// Writes a job into the verbose file of its message, if that has one.
    fn explain_feed(&mut self, agent: AgentId, job: &[u8]) {
        let core = self.core.query();
        self.spool_io.explain_job(job, || {
            let name = core.view().agent_name(agent);
            let row = core.view().agent(agent);
            let command = row.and_then(|row| row.ring.clause.command.as_ref());
            let command = command.map(ToString::to_string).unwrap_or_default();
            let job = String::from_utf8_lossy(job.trim_ascii_end()).replace('\t', " ");
            format!("given to {name}, command {command}: {job}")
        });
    }

    /// Sends the line of the system log about a stuck agent.
    ///
    /// It makes no progress, and is killed.
    fn syslog_kill(&self, now: Timestamp, agent: AgentId) {
        let Some(row) = self.core.query().view().agent(agent) else { return };
        let name = self.core.query().view().agent_name(agent);
        let hungry = now.seconds_since(row.agent.hungry_at);
        let ring = row.ring.pattern();
        let with = row.destination.map(|to| String::from_utf8_lossy(to.host())).unwrap_or_default();
        syslog::error(&format!("{name} is silent, and is killed; {ring}/{with} HA={hungry}s"));
    }

    /// Passes lookup results to clients, continues answers, and starts requests.
    pub(super) fn serve_clients(&mut self, now: Timestamp) {
        while let Some((client, found)) = self.lookups.next_result() {
            match found {
                Some(found) => self.clients.take_answer(client, Answer::Lookup(found)),
                None => self.clients.remove(client),
            }
        }
        self.clients.serve(self.core.query(), &self.intake, now);
        for (client, demand) in self.clients.take_demands() {
            match demand {
                Demand::Lookup(lookup) => self.lookups.ask(client, lookup),
                Demand::Admin { by, command } => self.run_admin_command(client, &by, &command),
                Demand::Order { by, order } => {
                    let ticket = self.clients.add_order(client);
                    self.core.handle(now, Event::Ordered { ticket, by, order });
                }
            }
        }
    }

    fn run_admin_command(&mut self, client: usize, by: &str, command: &AdminCommand) {
        match command {
            AdminCommand::Reload => self.begin_reload(Some(client)),
            AdminCommand::CheckConfig => self.begin_config_check(client),
            AdminCommand::Load(number) => {
                self.fetch(*number);
                self.clients.wait_for_message(client, *number);
            }
            AdminCommand::Log(level) => {
                self.set_log_level(by, *level);
                self.clients.take_answer(client, Answer::Admin(Ok(String::new())));
            }
        }
    }

    /// Reads a message that is not in memory, regardless of memory limits.
    pub(super) fn fetch(&mut self, number: u64) {
        let under_way = self.intake.recipients_being_read();
        let room = self.core.query().view().recipient_room();
        let batch = room.map(|room| room.first_chunk(under_way).max(1));
        if let Some(name) = self.intake.fetch(number, batch) {
            self.spool_io.read_soon(name, batch);
        }
    }

    /// Sets the log level. The line about that is in the log whatever the level is.
    fn set_log_level(&mut self, by: &str, level: LevelFilter) {
        let former = std::mem::replace(&mut self.level_after_load, level);
        let is_other = level != self.started_level;
        self.clients.process.set_log_level = is_other.then_some(level);
        log::set_max_level(LevelFilter::Info);
        let [level_name, former] = [level, former].map(|of| of.as_str().to_ascii_lowercase());
        log::info!("log level: {level_name}, set by {by}; it was {former}");
        log::set_max_level(level);
    }

    /// Opens the sockets that are not open yet.
    ///
    /// Failures are retried indefinitely: another program may hold the port, or the folder may not
    /// exist yet.
    pub(crate) fn open_sockets(&mut self) {
        if self.next_open_attempt.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.next_open_attempt = None;
        let opened = self.open_mailq() & self.open_control() & self.open_notify();
        if !opened {
            self.next_open_attempt = Some(Instant::now() + self.timeouts.failed_open);
        }
        // Clients may be waiting since a time when no descriptors were free for them.
        let all = 0..self.listeners.len();
        self.unread_sources.extend(all.map(EventSource::Listener));
    }

    fn open_mailq(&mut self) -> bool {
        let is_first_time = self.unbound_mailq.is_none();
        let all = || MailqAddress::all(self.config.parameters.mailq_socket.as_ref());
        let mut failed = Vec::new();
        let mut opened: Option<MailqAddress> = None;
        for mut place in self.unbound_mailq.take().unwrap_or_else(all) {
            opened.iter().for_each(|opened| place.copy_port(opened));
            match place.open().and_then(|listener| self.add_listener(ListenerKind::Mailq, listener))
            {
                Ok(()) => {
                    log::info!("MAILQ is served on {place}");
                    if place.is_remote() {
                        log::warn!("{place}: {}", self.clients.open_address_warning());
                    }
                    opened = Some(place);
                }
                Err(error) => failed.push((place, error)),
            }
        }
        if is_first_time || opened.is_some() {
            self.publish_mailq(opened.as_ref());
        }
        let is_served = self.has_listener(ListenerKind::Mailq);
        failed.retain(|(place, error)| !is_served || !place.is_expected_failure(error));
        for (place, error) in failed.iter().filter(|_| is_first_time) {
            let again = self.timeouts.failed_open.as_secs_f32();
            log::error!("MAILQ cannot be served on {place}: {error}; tried again every {again} s");
        }
        self.unbound_mailq = Some(failed.into_iter().map(|(place, _)| place).collect());
        self.unbound_mailq.as_ref().is_some_and(Vec::is_empty)
    }

    /// Tells clients of this host where MAILQ is served, if it is.
    fn publish_mailq(&self, place: Option<&MailqAddress>) {
        let written = match place {
            Some(place) => place.publish(&self.mailq_file),
            // A former scheduler may have served it.
            None => zsched_sys::if_exists(fs::remove_file(&self.mailq_file)).map(drop),
        };
        if let Err(error) = written {
            let path = self.mailq_file.display();
            log::warn!("{path}: {error}; mailq asks the default port");
        }
    }

    fn open_control(&mut self) -> bool {
        if self.has_listener(ListenerKind::Control) {
            return true;
        }
        let opened = listen::open_control(&self.control_path)
            .and_then(|listener| self.add_listener(ListenerKind::Control, listener));
        if let Err(error) = opened {
            let path = self.control_path.display();
            log::error!("{path}: the control socket cannot be opened: {error}");
        }
        self.has_listener(ListenerKind::Control)
    }

    fn has_listener(&self, kind: ListenerKind) -> bool {
        self.listeners.iter().any(|(other, _)| *other == kind)
    }

    fn add_listener(
        &mut self,
        kind: ListenerKind,
        mut listener: Box<dyn Listener>,
    ) -> io::Result<()> {
        let token = EventSource::Listener(self.listeners.len()).token();
        self.poll.registry().register(&mut listener, token, Interest::READABLE)?;
        self.listeners.push((kind, listener));
        Ok(())
    }

    fn open_notify(&mut self) -> bool {
        if self.notify.is_some() {
            return true;
        }
        let (registry, token) = (self.poll.registry(), EventSource::Notify.token());
        let opened = listen::open_notify(&self.notify_path).and_then(|mut socket| {
            registry.register(&mut socket, token, Interest::READABLE)?;
            self.notify = Some(socket);
            Ok(())
        });
        if let Err(error) = opened {
            let path = self.notify_path.display();
            log::error!("{path}: the notify socket cannot be opened: {error}");
        }
        self.notify.is_some()
    }
}
