//! Commands that show something: destinations, messages, rings, agents, overrides.

use super::arguments::{
    OutputOptions, SelectionArgs, Sort, is_bare_word, keyword, quoted, subject,
};
use super::check;
use super::client;
use super::messages;
use super::overview;
use super::smtp_traffic;
use super::summary::{self, MIN_SILENCE, destination_state, print_rings, short, thread_columns};
use super::{ages, bulk};
use crate::connect::dial::Scheduler;
use crate::connect::lines::{LineSource, parse_object};
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::format::{clock, count, grouped, now, one_line, span_or_dash};
use crate::message::files::MessageFiles;
use crate::message::origin::origin_of;
use crate::screen::{Screen, Style, warn};
use crate::table::{Column, ColumnKind, print_table};
use clap::Subcommand;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use zsched_format::printable;
use zsched_mailq_protocol::schema::{
    AgeStatus, AgentStatus, OverrideStatus, QueuedMessage, ThreadStatus,
};
use zsched_spool::{Spool, find_submission};

/// Requests in JSON that are parts of the overview, too.
pub(super) const JSON_SUMMARY: &str = "SHOW JSON SUMMARY";
pub(super) const JSON_RINGS: &str = "SHOW JSON RINGS";
pub(super) const JSON_AGENTS: &str = "SHOW JSON AGENTS";

/// Maximum number of destinations the summary requests per sort order.
const MAX_SUMMARY_DESTINATIONS: usize = 20;
/// Maximum number of destinations that `show --json` prints.
const MAX_JSON_DESTINATIONS: usize = 1000;
/// How to see more rows of a list.
const LIMIT_HINT: &str = "option --limit sets how many are shown";
/// Maximum number of rows that `show` prints for a destination.
const MAX_SHOWN_ROWS: usize = 20;
/// The limit of a list that is shown completely.
const NO_LIMIT: (usize, &str) = (usize::MAX, "");

/// A view of the queue.
#[derive(Subcommand, Clone, Debug)]
pub enum View {
    /// Show the queue and its problems on one screen
    ///
    /// It is the default on a terminal, if no option selects other output. It has the number of
    /// holds in force, also those without mail; orders lists them. "silent 12m" is the state of a
    /// destination whose agent has reported nothing for that time. ZMailer's schedulers are shown,
    /// too, as far as they report. What clients have brought to the SMTP server of this host is
    /// shown with the most frequent replies to what it has not accepted.
    Summary(OutputOptions),
    /// List destinations, or messages
    ///
    /// Without a selection, it lists everything.
    List {
        /// List messages, one line per destination
        ///
        /// An id or an option such as --sender has the same effect.
        /// Sender, recipients, size and subject are read from the spool, of up to 10,000 messages,
        /// with the rights of the caller: the first 100 recipients of a message, and 300 columns of
        /// a text. Terminals of less than 180 columns show them in a second line. In JSON they are
        /// "sender", "to", "size", "subject" and "message_id".
        #[arg(long, short = 'm')]
        messages: bool,
        /// Sort order: destinations by backlog (the default), oldest or undelivered; messages by
        /// oldest or size
        ///
        /// To sort messages, all that match are read, and their sizes from the spool.
        #[arg(long, value_enum)]
        sort: Option<Sort>,
        /// Maximum number of lines
        #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
        limit: usize,
        /// Selected part of the queue.
        #[command(flatten)]
        selection: SelectionArgs,
        /// Output options.
        #[command(flatten)]
        output: OutputOptions,
    },
    /// Show how old the mail is: recipients by age in minutes, for the largest destinations
    ///
    /// As with Postfix's qshape, a column has the recipients that are younger than its title and
    /// not than that of the column before. The first row is the sum of all destinations. Only mail
    /// that is in memory counts. On a terminal of less than 100 columns, each two columns are one.
    Ages {
        /// Destinations, such as smtp/* or smtp/mx.test; or a host alone
        what: Option<String>,
        /// Maximum number of destinations
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        limit: usize,
        /// Output options.
        #[command(flatten)]
        output: OutputOptions,
    },
    /// Show all details of a message, or of a destination and its messages
    Show {
        /// A destination, a host, a message or a recipient, as for list
        what: String,
        /// Output options.
        #[command(flatten)]
        output: OutputOptions,
    },
    /// Explain why something waits
    Why {
        /// A destination, a host, a message or a recipient, as for list
        what: String,
        /// Output options.
        #[command(flatten)]
        output: OutputOptions,
    },
    /// List the clauses of scheduler.cf that have mail or agents, with their limits
    ///
    /// LIMIT is the maximum number of agents (maxring), PER-DEST that of agents for one destination
    /// (maxthr), AHEAD that of jobs an agent gets before it has reported on one (overfeed). Clauses
    /// of the same pattern are combined, and show the lines of all.
    Rings(OutputOptions),
    /// List agents
    ///
    /// HUNGRY, FED and SILENT are the times since an agent asked for work, got work, and reported
    /// anything; SILENT is shown from a minute on.
    Agents(OutputOptions),
    /// List bulk jobs that are not finished
    ///
    /// DELIVERED and FAILED are exact; the recipients of a packet count when it has left the queue.
    /// QUEUED are those in packets in the queue. END is when the job ends at its present rate.
    Jobs(OutputOptions),
    /// List holds, limits that were set, and messages to be removed
    Orders(OutputOptions),
    /// Show the counters that are not zero
    Counters {
        /// Show all counters
        #[arg(long)]
        all: bool,
        /// Output options.
        #[command(flatten)]
        output: OutputOptions,
    },
}

/// Request for destinations in JSON.
pub(super) fn threads_request(selection: &SelectionArgs, sort: Sort, limit: usize) -> Request {
    let options = format!("limit={limit} sort={}", keyword(sort));
    let words = [selection.words(), vec![options]].concat().join(" ");
    Request::new(format!("SHOW JSON THREADS {words}"), "TT")
}

/// Request for messages in JSON.
pub(super) fn messages_request(selection: &SelectionArgs, limit: usize) -> Request {
    let mut words = selection.words();
    if words.is_empty() {
        words.push("*/*".to_string());
    }
    Request::new(format!("SHOW JSON MESSAGES {} limit={limit}", words.join(" ")), "TT")
}

impl View {
    /// Its output options.
    pub fn output(&self) -> &OutputOptions {
        match self {
            View::Summary(output)
            | View::List { output, .. }
            | View::Ages { output, .. }
            | View::Show { output, .. }
            | View::Why { output, .. }
            | View::Rings(output)
            | View::Agents(output)
            | View::Jobs(output)
            | View::Orders(output)
            | View::Counters { output, .. } => output,
        }
    }

    /// What the view looks up; everything, if it looks nothing up.
    fn selection(&self) -> SelectionArgs {
        match self {
            View::List { selection, .. } => selection.clone(),
            View::Show { what, .. } | View::Why { what, .. } => SelectionArgs::of(what),
            _ => SelectionArgs::default(),
        }
    }

    /// The sort order of a list of messages, if it is one and has an order.
    ///
    /// Fails if the order is not one of what is listed.
    fn message_order(&self) -> Result<Option<Sort>, Failure> {
        let View::List { selection, sort: Some(sort), messages, .. } = self else {
            return Ok(None);
        };
        let of_messages = *messages || selection.selects_messages();
        sort.check(of_messages)?;
        Ok(Some(*sort).filter(|_| of_messages))
    }

    /// The request for JSON, with one reading of what is looked up.
    fn request(&self, reading: &SelectionArgs) -> Request {
        let max = MAX_JSON_DESTINATIONS + 1;
        match self {
            View::Summary(_) => Request::new(JSON_SUMMARY, "QQ"),
            View::List { sort, limit, messages, .. } => {
                match *messages || reading.selects_messages() {
                    true => messages_request(reading, *limit),
                    false => threads_request(reading, sort.unwrap_or_default(), *limit),
                }
            }
            View::Ages { what, limit, .. } => {
                let what = what.as_deref().map_or("*/*".to_string(), subject);
                Request::new(format!("SHOW JSON AGES {what} limit={limit}"), "TT")
            }
            View::Show { .. } => match reading.message_id() {
                Some(id) => Request::new(format!("SHOW JSON MESSAGE {id}"), "TT"),
                None if reading.selects_messages() => messages_request(reading, max),
                None => threads_request(reading, Sort::default(), max),
            },
            View::Why { .. } => why_request("SHOW JSON WHY", reading),
            View::Rings(_) => Request::new(JSON_RINGS, "TT"),
            View::Agents(_) => Request::new(JSON_AGENTS, "TT"),
            View::Jobs(_) => Request::new("SHOW JSON JOBS", "TT"),
            View::Orders(_) => Request::new("SHOW JSON ORDERS", "TT"),
            View::Counters { .. } => Request::without_permission("SHOW JSON COUNTERS"),
        }
    }

    /// Shows the view, for people or as the JSON of the scheduler.
    pub(super) fn show(&self, viewer: &mut Viewer<'_, '_, '_>) -> Result<(), Failure> {
        let order = self.message_order()?;
        let (selection, is_json) = (self.selection(), self.output().json);
        for reading in selection.readings() {
            let is_found = match is_json {
                true => viewer.print_json(self, order, &reading),
                false => viewer.print(self, order, &reading),
            };
            match is_found {
                Ok(false) => {}
                Err(Failure::NotFound(_)) if !selection.is_everything() => {}
                other => return other.map(drop),
            }
        }
        match selection.is_everything() {
            false => Err(nothing_found(&selection)),
            true if is_json => Ok(()),
            true => Ok(writeln!(viewer.screen, "The queue is empty.")?),
        }
    }
}

fn why_request(verb: &str, reading: &SelectionArgs) -> Request {
    let subject = subject(reading.what.as_deref().unwrap_or_default());
    Request::new(format!("{verb} {subject}"), "TT")
}

/// The failure of a look-up that found nothing in any reading.
fn nothing_found(selection: &SelectionArgs) -> Failure {
    let is_word = selection.what.as_deref().is_some_and(is_bare_word);
    let readings =
        if is_word { " (as a host, a channel and a recipient)" } else { selection.hint(false) };
    Failure::no_mail(format_args!("{selection}{readings}"))
}

/// What a view is made from, and where it is shown.
pub(super) struct Viewer<'a, 'f, 's> {
    /// The scheduler.
    pub scheduler: &'a mut Scheduler,
    /// The spool of the scheduler, if it is on this host.
    pub spool: Option<&'a Spool>,
    /// The files of messages.
    pub files: &'a mut MessageFiles<'f>,
    /// The output.
    pub screen: &'a mut Screen<'s>,
}

impl Viewer<'_, '_, '_> {
    /// Prints the JSON objects of the scheduler. Returns false if there are none.
    fn print_json(
        &mut self,
        view: &View,
        order: Option<Sort>,
        reading: &SelectionArgs,
    ) -> Result<bool, Failure> {
        let session = self.scheduler.session()?;
        if let (View::List { limit, .. }, Some(order)) = (view, order) {
            let found = messages::sorted(session, reading, *limit, order, self.files)?;
            for line in &found {
                let line = messages::with_envelope(line, self.files);
                writeln!(self.screen, "{}", printable::json(&line))?;
            }
            return Ok(!found.is_empty());
        }
        let is_summary = matches!(view, View::Summary(_));
        let traffic = self.spool.filter(|_| is_summary).and_then(smtp_traffic::read);
        let request = view.request(reading);
        let is_of_messages = request.line.starts_with("SHOW JSON MESSAGE");
        let mut text = session.ask_for_text(request)?;
        let mut count = 0;
        while let Some(line) = text.next()? {
            count += 1;
            if matches!(view, View::Show { .. }) && count > MAX_JSON_DESTINATIONS {
                warn(format_args!(
                    "more than {MAX_JSON_DESTINATIONS} rows match; list --json shows more"
                ));
                break;
            }
            let completed = match &traffic {
                Some(traffic) => smtp_traffic::added_to(line, traffic),
                None => is_of_messages.then(|| messages::with_envelope(line, self.files)),
            };
            let line = completed.as_deref().unwrap_or(line);
            writeln!(self.screen, "{}", printable::json(line))?;
        }
        Ok(count > 0)
    }

    /// Prints the view for people. Returns false if nothing is found.
    fn print(
        &mut self,
        view: &View,
        order: Option<Sort>,
        reading: &SelectionArgs,
    ) -> Result<bool, Failure> {
        match view {
            View::Summary(_) => {
                let mut overview = overview::ask(self.scheduler, MAX_SUMMARY_DESTINATIONS)?;
                overview.smtp = self.spool.and_then(smtp_traffic::read);
                let of_spool = self.spool.into_iter().flat_map(check::warnings);
                let of_smtp = overview.smtp.iter().flat_map(smtp_traffic::warnings);
                overview.summary.warnings.extend(of_spool.chain(of_smtp));
                summary::print(&overview, self.screen)?;
            }
            View::List { limit, messages, sort, .. } => {
                let limited = (*limit, LIMIT_HINT);
                if *messages || reading.selects_messages() {
                    let found = match order {
                        None => self.messages(reading, *limit)?,
                        Some(order) => {
                            let (session, max) =
                                (self.scheduler.session()?, limit.saturating_add(1));
                            let found = messages::sorted(session, reading, max, order, self.files)?;
                            let found = found.iter().map(|line| parse_object(line));
                            found.collect::<Result<_, Failure>>()?
                        }
                    };
                    messages::print(&found, limited, self.files, self.screen)?;
                    return Ok(!found.is_empty());
                }
                let found = threads(self.scheduler, reading, sort.unwrap_or_default(), *limit)?;
                print_threads(&found, limited, self.screen)?;
                return Ok(!found.is_empty());
            }
            View::Ages { what, .. } => {
                let rows: Vec<AgeStatus> = self.fetch(view)?;
                match what {
                    Some(what) if rows.iter().all(|row| row.recipients == 0) => {
                        return Err(Failure::no_mail(one_line(what)));
                    }
                    _ => ages::print(&rows, self.screen)?,
                }
            }
            View::Show { .. } => return self.show(reading),
            View::Why { .. } => {
                let text = self.scheduler.session()?.ask_for_text(why_request("SHOW WHY", reading));
                return Ok(text?.print_wrapped(self.screen)? > 0);
            }
            View::Rings(_) => {
                let request = view.request(reading);
                let json = |session: &mut Session| client::fetch_all(session, request);
                let rings = overview::json_or_report(self.scheduler, json, |found| found.rings)?;
                match rings.is_empty() {
                    true => writeln!(self.screen, "No clause has mail or agents.")?,
                    false => print_rings(&Vec::from_iter(&rings), true, self.screen)?,
                }
            }
            View::Agents(_) => print_agents(&self.fetch::<AgentStatus>(view)?, self.screen)?,
            View::Jobs(_) => bulk::print(&self.fetch(view)?, self.screen)?,
            View::Orders(_) => print_orders(&self.fetch::<OverrideStatus>(view)?, self.screen)?,
            View::Counters { all, .. } => {
                print_counters(self.scheduler.session()?, *all, self.screen)?;
            }
        }
        Ok(true)
    }

    /// The objects of a view that looks nothing up.
    fn fetch<T: DeserializeOwned>(&mut self, view: &View) -> Result<Vec<T>, Failure> {
        let request = view.request(&SelectionArgs::default());
        client::fetch_all(self.scheduler.session()?, request)
    }

    /// Up to one more message than the limit, to find out if there are more.
    fn messages(
        &mut self,
        reading: &SelectionArgs,
        limit: usize,
    ) -> Result<Vec<QueuedMessage>, Failure> {
        let request = messages_request(reading, limit.saturating_add(1));
        client::fetch_all(self.scheduler.session()?, request)
    }

    /// Shows all about a message or a destination, or a list if there are several.
    fn show(&mut self, reading: &SelectionArgs) -> Result<bool, Failure> {
        if let Some(id) = reading.message_id() {
            return match self.show_message(&id) {
                Err(Failure::NotFound(_)) if self.show_submission(&id)? => Ok(true),
                other => other.map(|()| true),
            };
        }
        let limited = (MAX_SHOWN_ROWS, "list shows all");
        if reading.selects_messages() {
            let found = self.messages(reading, MAX_SHOWN_ROWS)?;
            match found.as_slice() {
                [first, rest @ ..] if rest.iter().all(|other| other.id == first.id) => {
                    self.show_message(&first.id)?;
                }
                _ => messages::print(&found, limited, self.files, self.screen)?,
            }
            return Ok(!found.is_empty());
        }
        let request = threads_request(reading, Sort::default(), MAX_SHOWN_ROWS + 1);
        let found: Vec<ThreadStatus> = client::fetch_all(self.scheduler.session()?, request)?;
        match found.as_slice() {
            [thread] => self.show_thread(thread)?,
            _ => print_threads(&found, limited, self.screen)?,
        }
        Ok(!found.is_empty())
    }

    fn show_message(&mut self, id: &str) -> Result<(), Failure> {
        let session = self.scheduler.session()?;
        let request = Request::new(format!("SHOW MESSAGE {id}"), "TT");
        session.ask_for_text(request)?.print_wrapped(self.screen)?;
        messages::print_envelope(session, id, self.files, self.screen)
    }

    /// Shows a message that waits for the router. Returns false if there is none.
    fn show_submission(&mut self, id: &str) -> Result<bool, Failure> {
        let Some(spool) = self.spool else { return Ok(false) };
        let Ok(Some(name)) = find_submission(spool, id) else { return Ok(false) };
        let origin = origin_of(&spool.router().join(name.path())).map(|text| ("came from", text));
        let message = ("message", id.to_string());
        let state = ("state", format!("waits for the router, in router/{name}"));
        for (title, value) in [message, state].into_iter().chain(origin) {
            self.screen.styled(&format!("{title:<13}"), Style::Title)?;
            writeln!(self.screen, "{}", one_line(&value))?;
        }
        Ok(true)
    }

    fn show_thread(&mut self, thread: &ThreadStatus) -> Result<(), Failure> {
        let age = span_or_dash(thread.oldest);
        let mut lines = vec![
            ("destination", one_line(&thread.name())),
            ("messages", format!("{}, oldest {age}", grouped(thread.messages))),
            ("recipients", grouped(thread.recipients)),
            ("deferred", grouped(thread.deferred)),
            ("held", grouped(thread.held_back)),
            ("state", destination_state(thread, now()).0),
        ];
        // An older scheduler sends only the first reason.
        let request = Request::new(format!("SHOW WHY {}", quoted(&thread.name())), "TT");
        let reasons = self.scheduler.session()?.ask_for_text(request);
        let reasons = reasons.and_then(|text| text.collect());
        let reasons =
            reasons.unwrap_or_else(|_| thread.sentence().map(String::from).into_iter().collect());
        lines.extend(reasons.iter().map(|sentence| ("why", one_line(sentence))));
        lines.extend(thread.ring.iter().map(|ring| ("clause", one_line(ring))));
        lines.extend(thread.agents.iter().map(|agent| {
            let state = one_line(&agent.state);
            ("agent", format!("process {}, {state}, {} jobs", agent.pid, agent.jobs))
        }));
        let texts = thread.text().into_iter().flat_map(|text| text.split('\r')).map(one_line);
        lines.extend(texts.filter(|text| !text.is_empty()).map(|text| ("last text", text)));
        for (title, value) in lines {
            self.screen.wrapped(&format!("{title:<13}{value}"))?;
        }
        let found = self.messages(&SelectionArgs::of(&thread.name()), MAX_SHOWN_ROWS)?;
        if found.is_empty() {
            return Ok(());
        }
        self.screen.line(&[])?;
        messages::print(&found, (MAX_SHOWN_ROWS, "list -m shows all"), self.files, self.screen)
    }
}

fn threads(
    scheduler: &mut Scheduler,
    selection: &SelectionArgs,
    sort: Sort,
    limit: usize,
) -> Result<Vec<ThreadStatus>, Failure> {
    // One more than the limit, to find out if there are more.
    let request = threads_request(selection, sort, limit.saturating_add(1));
    if !selection.is_everything() {
        return client::fetch_all(scheduler.session()?, request);
    }
    let json = |session: &mut Session| client::fetch_all(session, request);
    overview::json_or_report(scheduler, json, |mut overview| {
        overview.threads.sort_by(|a, b| sort.compare(a, b));
        overview.threads
    })
}

/// Prints a table of the first rows.
///
/// `empty` is the line that is printed if there are no rows, unless it is empty. `hint` says how
/// to see more of them.
pub(super) fn print_list<T>(
    columns: &[Column<'_, T>],
    things: &[T],
    (limit, hint): (usize, &str),
    empty: &str,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    if things.is_empty() {
        return if empty.is_empty() { Ok(()) } else { Ok(writeln!(screen, "{empty}")?) };
    }
    print_table(columns, things.iter().take(limit), screen)?;
    match things.len() > limit {
        true => Ok(screen.wrapped(&format!("... and more; {hint}"))?),
        false => Ok(()),
    }
}

fn print_threads(
    threads: &[ThreadStatus],
    limit: (usize, &str),
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    print_list(&thread_columns("DESTINATION", now(), threads, true), threads, limit, "", screen)
}

/// Prints counters, those that are not zero or all.
fn print_counters(
    session: &mut Session,
    all: bool,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let mut text = session.ask_for_text(Request::without_permission("SHOW COUNTERS"))?;
    while let Some(line) = text.next()? {
        // The heading is that of ZMailer's program for its shared memory.
        if line.starts_with(b"ZMailer SHM segment dump") {
            continue;
        }
        let value = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
        let is_zero = value.iter().all(|byte| matches!(byte, b'0' | b'.'));
        if all || !is_zero {
            screen.line(&[line])?;
        }
    }
    Ok(())
}

fn print_agents(agents: &[AgentStatus], screen: &mut Screen<'_>) -> Result<(), Failure> {
    let now = now();
    let state = |agent: &AgentStatus| {
        let state = short(&agent.state);
        let style = match state.as_str() {
            "ERROR" => Style::Error,
            "IDLE" => Style::Dim,
            _ => Style::Good,
        };
        (state, style)
    };
    let or_dash = |name: Option<&String>| name.map_or("-", String::as_str).to_string();
    let is_silent = |agent: &AgentStatus| agent.silent.is_some_and(|time| time >= MIN_SILENCE);
    let columns = [
        Column::new("PID", ColumnKind::Number, |agent: &AgentStatus| {
            (agent.pid.to_string(), Style::Plain)
        }),
        Column::new("STATE", ColumnKind::Word, state),
        Column::name("CLAUSE", |agent: &AgentStatus| {
            or_dash(agent.ring.as_ref().or(agent.channel.as_ref()))
        }),
        Column::name("DESTINATION", |agent: &AgentStatus| or_dash(agent.thread.as_ref())),
        Column::number("JOBS", |agent: &AgentStatus| agent.jobs),
        Column::span("AGE", |agent: &AgentStatus| agent.age(now)),
        Column::span("HUNGRY", |agent: &AgentStatus| agent.hungry),
        Column::span("FED", |agent: &AgentStatus| agent.fed),
        Column::span("SILENT", |agent: &AgentStatus| agent.silent)
            .only_if(agents.iter().any(is_silent)),
    ];
    print_list(&columns, agents, NO_LIMIT, "No agents running.", screen)
}

/// Maximum time between two orders about single messages that are one row, in seconds.
const MAX_ORDER_GAP: f64 = 10.0;

/// Orders that are one row: one about destinations or a ring, or several about single messages.
struct OrderRow<'o> {
    first: &'o OverrideStatus,
    /// Time of the last one.
    last: f64,
    messages: usize,
}

impl<'o> OrderRow<'o> {
    /// Combines orders about messages that an operator has given at once.
    fn all_of(orders: &'o [OverrideStatus]) -> Vec<OrderRow<'o>> {
        let mut orders: Vec<&OverrideStatus> = orders.iter().collect();
        orders.sort_by(|a, b| a.since.unwrap_or(0.0).total_cmp(&b.since.unwrap_or(0.0)));
        let mut rows: Vec<OrderRow<'_>> = Vec::new();
        // The newest row of each kind, author and reason.
        let mut newest: HashMap<_, usize> = HashMap::new();
        for first in orders {
            let last = first.since.unwrap_or(0.0);
            let is_of_message = first.scope.starts_with("id=");
            let row = OrderRow { first, last, messages: usize::from(is_of_message) };
            let key = (&first.kind, &first.by, &first.reason, is_of_message);
            let former = newest.get(&key).map(|place| &mut rows[*place]);
            match former.filter(|row| is_of_message && last - row.last <= MAX_ORDER_GAP) {
                Some(row) => (row.last, row.messages) = (last, row.messages + 1),
                None => {
                    newest.insert(key, rows.len());
                    rows.push(row);
                }
            }
        }
        rows
    }

    fn scope(&self) -> String {
        match self.messages {
            0 | 1 => self.first.scope.clone(),
            number => count(number as u64, "message"),
        }
    }
}

fn print_orders(orders: &[OverrideStatus], screen: &mut Screen<'_>) -> Result<(), Failure> {
    let now = now();
    let what = |row: &OrderRow<'_>| {
        let what = match (&row.first.limit, row.first.value) {
            (Some(limit), Some(value)) => format!("{limit}={value}"),
            _ => row.first.kind.clone(),
        };
        (short(&what), Style::Warning)
    };
    let reason = |row: &OrderRow<'_>| {
        (one_line(row.first.reason.as_deref().unwrap_or_default()), Style::Plain)
    };
    let time = |time: Option<f64>| time.map_or("-".to_string(), |time| clock(time, now));
    let columns = [
        Column::new("ORDER", ColumnKind::Word, what),
        Column::name("SCOPE", OrderRow::scope),
        Column::word("BY", |row: &OrderRow<'_>| short(row.first.by.as_deref().unwrap_or("-"))),
        Column::word("SINCE", |row: &OrderRow<'_>| time(row.first.since)),
        Column::word("UNTIL", |row: &OrderRow<'_>| time(row.first.until))
            .only_if(orders.iter().any(|order| order.until.is_some())),
        Column::new("REASON", ColumnKind::Text, reason),
    ];
    let rows = OrderRow::all_of(orders);
    print_list(&columns, &rows, NO_LIMIT, "No holds, limits or removals in force.", screen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_about_messages_given_at_once_are_one_row() {
        let order = |scope: &str, since, by: &str| OverrideStatus {
            kind: "hold".to_string(),
            scope: scope.to_string(),
            since: Some(since),
            by: Some(by.to_string()),
            ..OverrideStatus::default()
        };
        let mut orders: Vec<OverrideStatus> =
            (0..28).map(|second| order("id=1", f64::from(second) * 5.0, "ann")).collect();
        orders.push(order("id=2", 3.0, "bob"));
        orders.push(order("smtp/*", 4.0, "ann"));
        orders.push(order("smtp/a", 4.0, "ann"));
        orders.push(order("id=3", 1_000.0, "ann"));
        let rows = OrderRow::all_of(&orders);
        let scopes: Vec<String> = rows.iter().map(OrderRow::scope).collect();
        assert_eq!(scopes, ["28 messages", "id=2", "smtp/*", "smtp/a", "id=3"]);
    }
}
