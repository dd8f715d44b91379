//! Commands that show something: destinations, messages, rings, agents, overrides.

use super::arguments::{
    OutputOptions, SelectionArgs, Sort, is_bare_word, keyword, quoted, subject,
};
use super::check;
use super::client;
use super::messages;
use super::model::{AgeStatus, AgentStatus, OverrideStatus, QueuedMessage, ThreadStatus};
use super::overview;
use super::smtp_traffic;
use super::sorted_messages::sorted_messages;
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
use std::collections::HashMap;
use zsched_format::printable;
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
pub(super) fn threads_request(
    selection: &SelectionArgs,
    sort: Sort,
    limit: usize,
) -> Result<Request, Failure> {
    let options = format!("limit={limit} sort={}", keyword(sort));
    let words = [selection.words()?, vec![options]].concat().join(" ");
    Ok(Request::new(format!("SHOW JSON THREADS {words}"), "TT"))
}

/// Request for messages in JSON.
pub(super) fn messages_request(
    selection: &SelectionArgs,
    limit: usize,
) -> Result<Request, Failure> {
    let mut words = selection.words()?;
    if words.is_empty() {
        words.push("*/*".to_string());
    }
    Ok(Request::new(format!("SHOW JSON MESSAGES {} limit={limit}", words.join(" ")), "TT"))
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

    /// The requests for JSON: those after the first are made while nothing is found.
    fn requests(&self) -> Result<Vec<Request>, Failure> {
        let one = match self {
            View::Summary(_) => Request::new(JSON_SUMMARY, "QQ"),
            View::List { selection, sort, limit, messages, .. } => {
                let sort = sort.unwrap_or_default();
                let request =
                    |selection: SelectionArgs| match *messages || selection.selects_messages() {
                        true => messages_request(&selection, *limit),
                        false => threads_request(&selection, sort, *limit),
                    };
                return selection.readings().into_iter().map(request).collect();
            }
            View::Ages { what, limit, .. } => {
                let what = what.as_deref().map_or("*/*".to_string(), subject);
                Request::new(format!("SHOW JSON AGES {what} limit={limit}"), "TT")
            }
            View::Show { what, .. } => {
                let request = |selection: SelectionArgs| match selection.message_id() {
                    Some(id) => Ok(Request::new(format!("SHOW JSON MESSAGE {id}"), "TT")),
                    None if selection.selects_messages() => {
                        messages_request(&selection, MAX_JSON_DESTINATIONS + 1)
                    }
                    None => threads_request(&selection, Sort::default(), MAX_JSON_DESTINATIONS + 1),
                };
                return of(what).readings().into_iter().map(request).collect();
            }
            View::Why { what, .. } => return Ok(why_requests("SHOW JSON WHY", what)),
            View::Rings(_) => Request::new(JSON_RINGS, "TT"),
            View::Agents(_) => Request::new(JSON_AGENTS, "TT"),
            View::Jobs(_) => Request::new("SHOW JSON JOBS", "TT"),
            View::Orders(_) => Request::new("SHOW JSON ORDERS", "TT"),
            View::Counters { .. } => Request::without_permission("SHOW JSON COUNTERS"),
        };
        Ok(vec![one])
    }

    /// The only request for JSON of a view that looks nothing up.
    fn request(&self) -> Result<Request, Failure> {
        Ok(self.requests()?.remove(0))
    }

    /// Prints the JSON objects of the scheduler.
    pub(super) fn print_json(
        &self,
        scheduler: &mut Scheduler,
        spool: Option<&Spool>,
        files: &mut MessageFiles<'_>,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        self.check_sort()?;
        let traffic =
            spool.filter(|_| matches!(self, View::Summary(_))).and_then(smtp_traffic::read);
        let session = scheduler.session()?;
        if let View::List { selection, sort: Some(sort), limit, messages, .. } = self
            && (*messages || selection.selects_messages())
        {
            let is_found = look_up(selection.readings(), |selection| {
                let found = sorted_messages(session, &selection, *limit, *sort, files)?;
                for line in &found {
                    let line = messages::with_envelope(line, files);
                    writeln!(screen, "{}", printable::json(&line))?;
                }
                Ok(!found.is_empty())
            })?;
            return if is_found { Ok(()) } else { Err(nothing(selection)) };
        }
        let is_limited = matches!(self, View::Show { .. });
        let is_found = look_up(self.requests()?, |request| {
            let is_of_messages = request.line.starts_with("SHOW JSON MESSAGE");
            let mut text = session.ask_for_text(request)?;
            let mut count = 0;
            while let Some(line) = text.next()? {
                count += 1;
                if is_limited && count > MAX_JSON_DESTINATIONS {
                    warn(format_args!(
                        "more than {MAX_JSON_DESTINATIONS} rows match; list --json shows more"
                    ));
                    break;
                }
                let completed = match &traffic {
                    Some(traffic) => smtp_traffic::added_to(line, traffic),
                    None => is_of_messages.then(|| messages::with_envelope(line, files)),
                };
                let line = completed.as_deref().unwrap_or(line);
                writeln!(screen, "{}", printable::json(line))?;
            }
            Ok(count > 0)
        })?;
        self.selection().filter(|_| !is_found).map_or(Ok(()), |selection| Err(nothing(&selection)))
    }

    /// Fails if the sort order of a list is not one of what it lists.
    fn check_sort(&self) -> Result<(), Failure> {
        match self {
            View::List { selection, sort: Some(sort), messages, .. } => {
                sort.check(*messages || selection.selects_messages())
            }
            _ => Ok(()),
        }
    }

    /// What the view looks up; `None` if it shows everything.
    fn selection(&self) -> Option<SelectionArgs> {
        match self {
            View::List { selection, .. } if !selection.is_everything() => Some(selection.clone()),
            View::Show { what, .. } | View::Why { what, .. } => Some(of(what)),
            _ => None,
        }
    }

    /// Prints the view for people.
    ///
    /// `spool` is that of the scheduler, if it is on this host.
    pub(super) fn print(
        &self,
        scheduler: &mut Scheduler,
        spool: Option<&Spool>,
        files: &mut MessageFiles<'_>,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        self.check_sort()?;
        match self {
            View::Summary(_) => {
                let mut overview = overview::ask(scheduler, MAX_SUMMARY_DESTINATIONS)?;
                overview.summary.warnings.extend(spool.into_iter().flat_map(check::warnings));
                overview.smtp = spool.and_then(smtp_traffic::read);
                let of_smtp = overview.smtp.iter().flat_map(smtp_traffic::warnings);
                overview.summary.warnings.extend(of_smtp);
                Ok(summary::print(&overview, screen)?)
            }
            View::List { selection, limit, messages, sort, .. } => {
                let is_found = look_up(selection.readings(), |selection| {
                    if *messages || selection.selects_messages() {
                        let session = scheduler.session()?;
                        let found = match sort {
                            None => ask_for_messages(session, &selection, *limit)?,
                            Some(sort) => {
                                let most = limit.saturating_add(1);
                                let found =
                                    sorted_messages(session, &selection, most, *sort, files)?;
                                let found = found.iter().map(|line| parse_object(line));
                                found.collect::<Result<_, Failure>>()?
                            }
                        };
                        messages::print(&found, (*limit, LIMIT_HINT), files, screen)?;
                        return Ok(!found.is_empty());
                    }
                    let found = threads(scheduler, &selection, sort.unwrap_or_default(), *limit)?;
                    print_threads(&found, (*limit, LIMIT_HINT), screen)?;
                    Ok(!found.is_empty())
                })?;
                match is_found {
                    true => Ok(()),
                    false if selection.is_everything() => {
                        Ok(writeln!(screen, "The queue is empty.")?)
                    }
                    false => Err(nothing(selection)),
                }
            }
            View::Ages { what, .. } => {
                let rows: Vec<AgeStatus> =
                    client::fetch_all(scheduler.session()?, self.request()?)?;
                match what {
                    Some(what) if rows.iter().all(|row| row.recipients == 0) => {
                        Err(Failure::no_mail(one_line(what)))
                    }
                    _ => Ok(ages::print(&rows, screen)?),
                }
            }
            View::Show { what, .. } => {
                let selection = of(what);
                let is_found = look_up(selection.readings(), |selection| {
                    show(scheduler, &selection, files, screen)
                })?;
                let is_found = is_found || show_submission(&selection, spool, screen)?;
                if is_found { Ok(()) } else { Err(nothing(&selection)) }
            }
            View::Why { what, .. } => {
                let session = scheduler.session()?;
                let is_found = look_up(why_requests("SHOW WHY", what), |request| {
                    let lines = session.ask_for_text(request)?.print_wrapped(screen)?;
                    Ok(lines > 0)
                })?;
                if is_found { Ok(()) } else { Err(nothing(&of(what))) }
            }
            View::Rings(_) => {
                let json = |session: &mut Session| client::fetch_all(session, self.request()?);
                let rings = overview::json_or_report(scheduler, json, |overview| overview.rings)?;
                match rings.is_empty() {
                    true => Ok(writeln!(screen, "No clause has mail or agents.")?),
                    false => Ok(print_rings(&rings.iter().collect::<Vec<_>>(), true, screen)?),
                }
            }
            View::Agents(_) => {
                let agents: Vec<AgentStatus> =
                    client::fetch_all(scheduler.session()?, self.request()?)?;
                print_agents(&agents, screen)
            }
            View::Jobs(_) => {
                let jobs = client::fetch_all(scheduler.session()?, self.request()?)?;
                bulk::print(&jobs, screen)
            }
            View::Orders(_) => {
                let orders: Vec<OverrideStatus> =
                    client::fetch_all(scheduler.session()?, self.request()?)?;
                print_orders(&orders, screen)
            }
            View::Counters { all, .. } => print_counters(scheduler.session()?, *all, screen),
        }
    }
}

/// A selection of what a command names.
pub(super) fn of(what: &str) -> SelectionArgs {
    SelectionArgs { what: Some(what.to_string()), ..SelectionArgs::default() }
}

fn why_requests(verb: &str, what: &str) -> Vec<Request> {
    let request = |selection: SelectionArgs| {
        let subject = subject(selection.what.as_deref().unwrap_or_default());
        Request::new(format!("{verb} {subject}"), "TT")
    };
    of(what).readings().into_iter().map(request).collect()
}

/// Tries readings of a subject until one of them is found. Returns false if none is.
fn look_up<T>(
    readings: Vec<T>,
    mut is_found: impl FnMut(T) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    for reading in readings {
        match is_found(reading) {
            Ok(false) | Err(Failure::NotFound(_)) => {}
            Ok(true) => return Ok(true),
            Err(failure) => return Err(failure),
        }
    }
    Ok(false)
}

/// The failure of a look-up that found nothing in any reading.
fn nothing(selection: &SelectionArgs) -> Failure {
    let is_word = selection.what.as_deref().is_some_and(is_bare_word);
    let readings =
        if is_word { " (as a host, a channel and a recipient)" } else { selection.hint(false) };
    Failure::no_mail(format_args!("{selection}{readings}"))
}

fn threads(
    scheduler: &mut Scheduler,
    selection: &SelectionArgs,
    sort: Sort,
    limit: usize,
) -> Result<Vec<ThreadStatus>, Failure> {
    // One more than the limit, to find out if there are more.
    let request = threads_request(selection, sort, limit.saturating_add(1))?;
    if !selection.is_everything() {
        return client::fetch_all(scheduler.session()?, request);
    }
    let json = |session: &mut Session| client::fetch_all(session, request);
    overview::json_or_report(scheduler, json, |mut overview| {
        overview.threads.sort_by(|a, b| sort.compare(a, b));
        overview.threads
    })
}

/// Up to one more message than the limit, to find out if there are more.
fn ask_for_messages(
    session: &mut Session,
    selection: &SelectionArgs,
    limit: usize,
) -> Result<Vec<QueuedMessage>, Failure> {
    let request = messages_request(selection, limit.saturating_add(1))?;
    client::fetch_all(session, request)
}

/// Prints the lines of a text that is meant for people.
fn copy(session: &mut Session, line: String, screen: &mut Screen<'_>) -> Result<(), Failure> {
    session.ask_for_text(Request::new(line, "TT"))?.print_wrapped(screen).map(drop)
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
    print_list(&thread_columns("DESTINATION", now(), threads), threads, limit, "", screen)
}

/// Maximum number of rows that `show` prints for a destination.
const MAX_SHOWN_ROWS: usize = 20;

/// Shows what one reading of a subject finds. Returns false if that is nothing.
fn show(
    scheduler: &mut Scheduler,
    selection: &SelectionArgs,
    files: &mut MessageFiles<'_>,
    screen: &mut Screen<'_>,
) -> Result<bool, Failure> {
    let session = scheduler.session()?;
    if let Some(id) = selection.message_id() {
        show_message(session, &id, files, screen)?;
        return Ok(true);
    }
    if selection.selects_messages() {
        let found = ask_for_messages(session, selection, MAX_SHOWN_ROWS)?;
        match found.as_slice() {
            [first, rest @ ..] if rest.iter().all(|other| other.id == first.id) => {
                show_message(session, &first.id, files, screen)?;
            }
            _ => messages::print(&found, (MAX_SHOWN_ROWS, "list shows all"), files, screen)?,
        }
        return Ok(!found.is_empty());
    }
    let request = threads_request(selection, Sort::default(), MAX_SHOWN_ROWS + 1)?;
    let found: Vec<ThreadStatus> = client::fetch_all(session, request)?;
    match found.as_slice() {
        [thread] => print_thread(session, thread, files, screen)?,
        _ => print_threads(&found, (MAX_SHOWN_ROWS, "list shows all"), screen)?,
    }
    Ok(!found.is_empty())
}

/// Shows a message that waits for the router. Returns false if there is none.
fn show_submission(
    selection: &SelectionArgs,
    spool: Option<&Spool>,
    screen: &mut Screen<'_>,
) -> Result<bool, Failure> {
    let (Some(id), Some(spool)) = (selection.message_id(), spool) else { return Ok(false) };
    let Ok(Some(name)) = find_submission(spool, &id) else { return Ok(false) };
    let origin = origin_of(&spool.router().join(name.path())).map(|text| ("came from", text));
    let state = ("state", format!("waits for the router, in router/{name}"));
    for (title, value) in [("message", id), state].into_iter().chain(origin) {
        screen.styled(&format!("{title:<13}"), Style::Title)?;
        writeln!(screen, "{}", one_line(&value))?;
    }
    Ok(true)
}

fn show_message(
    session: &mut Session,
    id: &str,
    files: &mut MessageFiles<'_>,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    copy(session, format!("SHOW MESSAGE {id}"), screen)?;
    messages::print_envelope(session, id, files, screen)
}

/// All reasons for which mail of a destination waits; the first one from an older scheduler.
fn reasons(session: &mut Session, thread: &ThreadStatus) -> Vec<String> {
    let request = Request::new(format!("SHOW WHY {}", quoted(&thread.name())), "TT");
    let reasons = session.ask_for_text(request).and_then(|text| text.collect());
    reasons.unwrap_or_else(|_| thread.sentence().map(str::to_string).into_iter().collect())
}

fn print_thread(
    session: &mut Session,
    thread: &ThreadStatus,
    files: &mut MessageFiles<'_>,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let mut lines = vec![
        ("destination", one_line(&thread.name())),
        (
            "messages",
            format!("{}, oldest {}", grouped(thread.messages), span_or_dash(thread.oldest)),
        ),
        ("recipients", grouped(thread.recipients)),
        ("deferred", grouped(thread.deferred)),
        ("held", grouped(thread.held_back)),
        ("state", destination_state(thread, now()).0),
    ];
    lines.extend(reasons(session, thread).into_iter().map(|sentence| ("why", one_line(&sentence))));
    if let Some(ring) = &thread.ring {
        lines.push(("clause", one_line(ring)));
    }
    for agent in &thread.agents {
        let state = one_line(&agent.state);
        lines.push(("agent", format!("process {}, {state}, {} jobs", agent.pid, agent.jobs)));
    }
    for text in thread.text().into_iter().flat_map(|text| text.split('\r')).map(one_line) {
        if !text.is_empty() {
            lines.push(("last text", text));
        }
    }
    for (title, value) in lines {
        screen.wrapped(&format!("{title:<13}{value}"))?;
    }
    let found = ask_for_messages(session, &of(&thread.name()), MAX_SHOWN_ROWS)?;
    if found.is_empty() {
        return Ok(());
    }
    screen.line(&[])?;
    messages::print(&found, (MAX_SHOWN_ROWS, "list -m shows all"), files, screen)
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
    let has_silent = agents.iter().any(is_silent);
    let mut columns = vec![
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
        Column::span("SILENT", |agent: &AgentStatus| agent.silent),
    ];
    columns.retain(|column| has_silent || column.title != "SILENT");
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
    let mut columns = vec![
        Column::new("ORDER", ColumnKind::Word, what),
        Column::name("SCOPE", OrderRow::scope),
        Column::word("BY", |row: &OrderRow<'_>| short(row.first.by.as_deref().unwrap_or("-"))),
        Column::word("SINCE", |row: &OrderRow<'_>| time(row.first.since)),
        Column::word("UNTIL", |row: &OrderRow<'_>| time(row.first.until)),
        Column::new("REASON", ColumnKind::Text, reason),
    ];
    let have_ends = orders.iter().any(|order| order.until.is_some());
    columns.retain(|column| have_ends || column.title != "UNTIL");
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
