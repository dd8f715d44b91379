//! Carries out the actions of the core.

use super::Daemon;
use super::files::WriteRequest;
use super::listen::{self, Audience, Listener, MailqPlace, NotifySocket};
use super::tokens::Source;
use std::io;
use std::time::Instant;
use zsched_core::{Action, AgentEnd, AgentId, Event};
use zsched_format::time::Timestamp;
use zsched_mailq_server::v2::{AdminCommand, Demand};

impl Daemon {
    /// Carries out all actions of the core, and those that follow.
    pub(super) fn perform_all(&mut self, now: Timestamp) {
        while let Some(action) = self.core.poll(now) {
            self.perform(now, action);
        }
        self.orders.write_on(&mut self.files);
        self.agents.send_all();
        self.files.send();
        if let Some(statistics) = &mut self.statistics {
            statistics.flush();
        }
    }

    fn perform(&mut self, now: Timestamp, action: Action) {
        match action {
            Action::StartAgent { agent, clause, channel, host } => {
                let (registry, token) = (self.poll.registry(), Source::Agent(agent).token());
                match self.agents.start(agent, &clause, &channel, &host, registry, token) {
                    Ok(pid) => self.core.handle(now, Event::AgentStarted { agent, pid }),
                    Err(reason) => self.not_started(now, agent, reason),
                }
            }
            Action::Feed { agent, job } => self.agents.tell(agent, &job),
            Action::SendIdle(agent) => self.agents.tell_idle(agent),
            Action::StopAgent { agent, manner } => {
                if let Err(error) = self.agents.stop(agent, manner) {
                    log::error!("an agent cannot be stopped: {error}");
                }
            }
            Action::ClearLocks { name, pid } => {
                self.files.write(WriteRequest::ClearLocks(name, pid))
            }
            Action::ReadAgain(name) => self.files.read_again(name),
            Action::Note(note) => self.files.write(WriteRequest::Note(Box::new(note.into()))),
            Action::Remove { name, aside } => self.files.write(WriteRequest::Remove(name, aside)),
            Action::PageOut { name, until, record: rested } => {
                self.intake.rest(name, until, *rested)
            }
            Action::ReadMore { name, portion } => self.files.read_more(name, portion),
            Action::RequestPagedHosts(wanted) => self.intake.awaken(&wanted),
            Action::StoreOverrides { ticket, changes } => self.orders.keep(ticket, changes),
            Action::OrderDone { ticket, effect } => self.clients.order_done(ticket, &effect),
            Action::Statistics(record) => {
                if let Some(statistics) = &mut self.statistics {
                    statistics.add(now, &record);
                }
            }
            Action::Status(record) => self.files.write_status(*record),
            Action::Log(level, text) => log::log!(level, "{text}"),
        }
    }

    /// Passes lookup results to clients, continues answers, and starts requests.
    pub(super) fn serve_clients(&mut self, now: Timestamp) {
        while let Some((client, findings)) = self.inquiries.next_result() {
            match findings {
                Some(findings) => self.clients.lookup_done(client, findings),
                None => self.clients.disconnect(client),
            }
        }
        self.clients.serve(&self.core, &self.intake, now);
        for (client, demand) in self.clients.take_demands() {
            match demand {
                Demand::Lookup(inquiry) => self.inquiries.ask(client, inquiry),
                Demand::Admin(chore) => self.do_chore(client, &chore),
                Demand::Order { by, order } => {
                    let ticket = self.clients.order(client);
                    self.core.handle(now, Event::Ordered { ticket, by, order });
                }
            }
        }
    }

    fn do_chore(&mut self, client: usize, chore: &AdminCommand) {
        match chore {
            AdminCommand::Reload => self.begin_reload(Some(client)),
            AdminCommand::Load(number) => {
                let under_way = self.intake.under_way();
                let capacity = self.core.capacity();
                let batch = capacity.map(|room| room.first_chunk(under_way).max(1));
                if let Some(name) = self.intake.fetch(*number, batch) {
                    self.files.read_soon(name, batch);
                }
                self.clients.await_message(client, *number);
            }
            AdminCommand::Log(level) => {
                self.level_after_load = *level;
                log::set_max_level(*level);
                self.clients.done(client, Ok(()));
            }
        }
    }

    fn not_started(&mut self, now: Timestamp, agent: AgentId, reason: String) {
        let end = AgentEnd::NotStarted(reason);
        self.core.handle(now, Event::AgentEnded { agent, end });
    }

    /// Opens the sockets that are not open yet.
    ///
    /// Failures are retried indefinitely: another program may hold the port, or the folder may not
    /// exist yet.
    pub(super) fn open_missing_sockets(&mut self) {
        if self.open_again.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.open_again = None;
        let opened = self.open_mailq() & self.open_control() & self.open_notify();
        if !opened {
            self.open_again = Some(Instant::now() + self.timeouts.failed_open);
        }
        // Clients may be waiting since a time when no descriptors were free for them.
        let all = 0..self.listeners.len();
        self.again.extend(all.map(Source::Listener));
    }

    fn open_mailq(&mut self) -> bool {
        let is_first_time = self.mailq_missing.is_none();
        let all = || MailqPlace::all(self.config.parameters.mailq_socket.as_ref());
        let mut failed = Vec::new();
        let mut opened: Option<MailqPlace> = None;
        for mut place in self.mailq_missing.take().unwrap_or_else(all) {
            opened.iter().for_each(|opened| place.follow(opened));
            match place.open().and_then(|listener| self.listen_on(Audience::Mailq, listener)) {
                Ok(()) => {
                    log::info!("MAILQ is served on {place}");
                    if place.is_for_others() {
                        log::warn!("{place}: {}", self.clients.warning_to_others());
                    }
                    opened = Some(place);
                }
                Err(error) => failed.push((place, error)),
            }
        }
        let is_served = self.listens_to(Audience::Mailq);
        failed.retain(|(place, error)| !is_served || !place.can_be_missing(error));
        for (place, error) in failed.iter().filter(|_| is_first_time) {
            let again = self.timeouts.failed_open.as_secs_f32();
            log::error!("MAILQ cannot be served on {place}: {error}; tried again every {again} s");
        }
        self.mailq_missing = Some(failed.into_iter().map(|(place, _)| place).collect());
        self.mailq_missing.as_ref().is_some_and(Vec::is_empty)
    }

    fn open_control(&mut self) -> bool {
        if self.listens_to(Audience::Control) {
            return true;
        }
        let opened = listen::open_control(&self.control_path)
            .and_then(|listener| self.listen_on(Audience::Control, listener));
        if let Err(error) = opened {
            let path = self.control_path.display();
            log::error!("{path}: nobody can ask over the control socket: {error}");
        }
        self.listens_to(Audience::Control)
    }

    fn listens_to(&self, audience: Audience) -> bool {
        self.listeners.iter().any(|(other, _)| *other == audience)
    }

    fn listen_on(&mut self, audience: Audience, mut listener: Listener) -> io::Result<()> {
        let token = Source::Listener(self.listeners.len()).token();
        listener.register(self.poll.registry(), token)?;
        self.listeners.push((audience, listener));
        Ok(())
    }

    fn open_notify(&mut self) -> bool {
        if self.notify.is_some() {
            return true;
        }
        let (registry, token) = (self.poll.registry(), Source::Notify.token());
        match NotifySocket::open(&self.notify_path, registry, token) {
            Ok(socket) => self.notify = Some(socket),
            Err(error) => {
                let path = self.notify_path.display();
                log::error!("{path}: notices of routers cannot be received: {error}");
            }
        }
        self.notify.is_some()
    }
}
