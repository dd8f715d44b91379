//! Commands that show something: destinations, messages, rings, agents, overrides.

use super::arguments::{SelectionArgs, Sort, subject};
use super::client;
use super::format::{clock, cut, grouped, last_line, now, one_line, span_or_dash};
use super::model::{AgentStatus, OverrideStatus, QueuedMessage, RingStatus, ThreadStatus};
use super::output::{Style, StyledWriter};
use super::overview;
use super::summary::{self, destination_state, ring_table, short};
use super::table::{Column, Table};
use super::zmailer;
use crate::classic;
use crate::connect::dial::Scheduler;
use crate::connect::lines::LineSource;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::screen::{visible, warn};
use std::io::{Read, Write};
use zsched_format::printable;

/// Maximum number of destinations the summary requests per sort order.
const MAX_SUMMARY_DESTINATIONS: usize = 20;
/// Maximum number of destinations that `show --json` prints.
const MAX_JSON_DESTINATIONS: usize = 1000;
/// How to see more rows of a list.
const LIMIT_HINT: &str = "option --limit sets how many are shown";

/// A view of the queue.
#[derive(Clone, Debug)]
pub enum View {
    /// Everything on one screen.
    Summary,
    /// Destinations.
    Threads(SelectionArgs, Sort, usize),
    /// Messages, each with its destinations.
    Messages(SelectionArgs, usize),
    /// All details of a message or a destination.
    Show(String),
    /// Reason why something waits.
    Why(String),
    /// Rings.
    Rings,
    /// Agents.
    Agents,
    /// Holds, limits that were set, and messages to be removed.
    Orders,
    /// Counters.
    Counters,
}

impl View {
    /// The request for JSON.
    pub fn request(&self) -> Result<Request, Failure> {
        let with = |start: &str, words: Vec<String>, end: String| {
            let words = words.iter().map(|word| format!(" {word}")).collect::<String>();
            format!("{start}{words}{end}")
        };
        Ok(match self {
            View::Summary => Request::new("SHOW JSON SUMMARY", "QQ"),
            View::Threads(selection, sort, limit) => {
                let options = format!(" limit={limit} sort={}", sort.word());
                Request::new(with("SHOW JSON THREADS", selection.words()?, options), "TT")
            }
            View::Messages(selection, limit) => {
                let mut words = selection.words()?;
                if selection.is_everything() {
                    words.push("*/*".to_string());
                }
                Request::new(with("SHOW JSON MESSAGES", words, format!(" limit={limit}")), "TT")
            }
            View::Show(what) => match message_id(what) {
                Some(id) => Request::new(format!("SHOW JSON MESSAGE {id}"), "TT"),
                None => {
                    let limit = MAX_JSON_DESTINATIONS + 1;
                    View::Threads(of(what), Sort::default(), limit).request()?
                }
            },
            View::Why(what) => Request::new(format!("SHOW JSON WHY {}", subject(what)), "TT"),
            View::Rings => Request::new("SHOW JSON RINGS", "TT"),
            View::Agents => Request::new("SHOW JSON AGENTS", "TT"),
            View::Orders => Request::new("SHOW JSON ORDERS", "TT"),
            View::Counters => Request::without_permission("SHOW JSON COUNTERS"),
        })
    }

    /// Prints the JSON objects of the scheduler.
    pub fn print_json<W: Write>(
        &self,
        scheduler: &mut Scheduler,
        output: &mut StyledWriter<W>,
    ) -> Result<(), Failure> {
        let session = requests(scheduler)?;
        let mut text = session.ask_for_text(self.request()?)?;
        let is_limited = matches!(self, View::Show(_));
        let mut count = 0;
        while let Some(line) = text.next()? {
            count += 1;
            if is_limited && count > MAX_JSON_DESTINATIONS {
                warn(format_args!(
                    "more than {MAX_JSON_DESTINATIONS} destinations match; list --json shows more"
                ));
                break;
            }
            output.line(&printable::json(line))?;
        }
        Ok(())
    }

    /// Prints the view for people.
    pub fn print<W: Write>(
        &self,
        scheduler: &mut Scheduler,
        output: &mut StyledWriter<W>,
    ) -> Result<(), Failure> {
        match self {
            View::Summary => {
                let overview = overview::ask(scheduler, MAX_SUMMARY_DESTINATIONS)?;
                Ok(summary::print(&overview, output)?)
            }
            View::Threads(selection, sort, limit) => {
                let threads = threads(scheduler, selection, *sort, *limit)?;
                print_threads(&threads, *limit, LIMIT_HINT, output)
            }
            View::Messages(selection, limit) => {
                let messages = messages(requests(scheduler)?, selection, *limit)?;
                print_messages(&messages, *limit, LIMIT_HINT, output)
            }
            View::Show(what) => {
                let session = requests(scheduler)?;
                match message_id(what) {
                    Some(id) => copy(session, format!("SHOW MESSAGE {id}"), output),
                    None => print_thread(session, what, output),
                }
            }
            View::Why(what) => {
                copy(requests(scheduler)?, format!("SHOW WHY {}", subject(what)), output)
            }
            View::Rings => match overview_of_rings(scheduler)? {
                rings if rings.is_empty() => Ok(output.line("There are no rings.")?),
                rings => Ok(ring_table(&rings.iter().collect::<Vec<_>>()).print(output)?),
            },
            View::Agents => {
                let agents: Vec<AgentStatus> =
                    client::fetch_all(requests(scheduler)?, self.request()?)?;
                print_agents(&agents, output)
            }
            View::Orders => {
                let orders: Vec<OverrideStatus> =
                    client::fetch_all(requests(scheduler)?, self.request()?)?;
                print_orders(&orders, output)
            }
            View::Counters => copy(requests(scheduler)?, "SHOW COUNTERS".to_string(), output),
        }
    }
}

/// The session with a scheduler that takes requests.
pub(super) fn requests(
    scheduler: &mut Scheduler,
) -> Result<&mut Session<crate::connect::connection::Connection>, Failure> {
    match scheduler {
        Scheduler::Session(session) => Ok(session),
        Scheduler::Dump(_) => Err(classic::no_requests()),
    }
}

fn of(what: &str) -> SelectionArgs {
    SelectionArgs { what: Some(what.to_string()), ..SelectionArgs::default() }
}

/// The id of a message as requests have it; `None` for a destination.
fn message_id(what: &str) -> Option<String> {
    super::arguments::target(what).strip_prefix("id=").map(super::arguments::quoted)
}

fn threads(
    scheduler: &mut Scheduler,
    selection: &SelectionArgs,
    sort: Sort,
    limit: usize,
) -> Result<Vec<ThreadStatus>, Failure> {
    // One more than the limit, to find out if there are more.
    let request = View::Threads(selection.clone(), sort, limit.saturating_add(1)).request()?;
    let classic = match scheduler {
        Scheduler::Dump(lines) => zmailer::read_dump(lines)?,
        Scheduler::Session(session) => match client::fetch_all(session, request) {
            Err(Failure::Denied(_)) if selection.is_everything() => zmailer::of_session(session)?,
            other => return other,
        },
    };
    if !selection.is_everything() {
        return Err(classic::no_requests());
    }
    let mut threads = classic.threads;
    threads.sort_by(|a, b| match sort {
        Sort::Backlog => b.messages.cmp(&a.messages),
        Sort::Attempts => b.attempts.cmp(&a.attempts),
        Sort::Oldest => b.oldest.unwrap_or(0.0).total_cmp(&a.oldest.unwrap_or(0.0)),
    });
    Ok(threads)
}

/// Up to one more message than the limit, to find out if there are more.
fn messages<S: Read + Write>(
    session: &mut Session<S>,
    selection: &SelectionArgs,
    limit: usize,
) -> Result<Vec<QueuedMessage>, Failure> {
    let request = View::Messages(selection.clone(), limit.saturating_add(1)).request()?;
    client::fetch_all(session, request)
}

fn overview_of_rings(scheduler: &mut Scheduler) -> Result<Vec<RingStatus>, Failure> {
    match scheduler {
        Scheduler::Dump(lines) => Ok(zmailer::read_dump(lines)?.rings),
        Scheduler::Session(session) => match client::fetch_all(session, View::Rings.request()?) {
            Err(Failure::Denied(_)) => Ok(zmailer::of_session(session)?.rings),
            other => other,
        },
    }
}

/// Prints the lines of a text that is meant for people.
fn copy<S: Read + Write, W: Write>(
    session: &mut Session<S>,
    line: String,
    output: &mut StyledWriter<W>,
) -> Result<(), Failure> {
    let needs = if line.ends_with("COUNTERS") { None } else { Some("TT") };
    let mut text = session.ask_for_text(Request { line, needs })?;
    while let Some(line) = text.next()? {
        output.line(&visible(line))?;
    }
    Ok(())
}

fn print_threads<W: Write>(
    threads: &[ThreadStatus],
    limit: usize,
    hint: &str,
    output: &mut StyledWriter<W>,
) -> Result<(), Failure> {
    if threads.is_empty() {
        return Ok(output.line("No matching mail.")?);
    }
    let now = now();
    let mut table = Table::new(&[
        ("DESTINATION", Column::Name),
        ("MSGS", Column::Number),
        ("RCPTS", Column::Number),
        ("TRIES", Column::Number),
        ("OLDEST", Column::Number),
        ("AGENTS", Column::Number),
        ("STATE", Column::Word),
        ("LAST TEXT", Column::Text),
    ]);
    for thread in &threads[..threads.len().min(limit)] {
        let (state, style) = destination_state(thread, now);
        table.row(vec![
            (one_line(&thread.name()), Style::Plain),
            (grouped(thread.messages), Style::Plain),
            (grouped(thread.recipients), Style::Plain),
            (grouped(thread.attempts), Style::Plain),
            (span_or_dash(thread.oldest), Style::Plain),
            (grouped(thread.agents.len() as u64), Style::Plain),
            (state, style),
            (last_line(thread.text().unwrap_or_default()), Style::Dim),
        ]);
    }
    table.print(output)?;
    print_rest(threads.len(), limit, hint, output)
}

/// Says that there are more rows, and how to see them.
fn print_rest<W: Write>(
    found: usize,
    limit: usize,
    hint: &str,
    output: &mut StyledWriter<W>,
) -> Result<(), Failure> {
    match found > limit {
        true => Ok(output.line(&format!("... and more; {hint}"))?),
        false => Ok(()),
    }
}

fn print_messages<W: Write>(
    messages: &[QueuedMessage],
    limit: usize,
    hint: &str,
    output: &mut StyledWriter<W>,
) -> Result<(), Failure> {
    if messages.is_empty() {
        return Ok(output.line("No matching mail.")?);
    }
    message_table(&messages[..messages.len().min(limit)]).print(output)?;
    print_rest(messages.len(), limit, hint, output)
}

fn message_table(messages: &[QueuedMessage]) -> Table {
    let now = now();
    let mut table = Table::new(&[
        ("ID", Column::Word),
        ("DESTINATION", Column::Name),
        ("RCPTS", Column::Number),
        ("AGE", Column::Number),
        ("TRIES", Column::Number),
        ("STATE", Column::Word),
        ("EXPIRES", Column::Number),
        ("LAST TEXT", Column::Text),
    ]);
    for message in messages {
        let place = short(message.place.as_deref().unwrap_or_default());
        let style = match place.as_str() {
            "held" => Style::Warning,
            "with-agent" => Style::Good,
            _ => Style::Plain,
        };
        let expires = message.expires.filter(|at| *at > 0.0).map(|at| at - now);
        table.row(vec![
            (cut(&one_line(&message.id), 40), Style::Plain),
            (one_line(&format!("{}/{}", message.channel, message.host)), Style::Plain),
            (grouped(message.recipients), Style::Plain),
            (span_or_dash(message.age), Style::Plain),
            (grouped(message.attempts), Style::Plain),
            (place, style),
            (span_or_dash(expires), Style::Plain),
            (last_line(message.text.as_deref().unwrap_or_default()), Style::Dim),
        ]);
    }
    table
}

/// Maximum number of rows that `show` prints for a destination.
const MAX_SHOWN_ROWS: usize = 20;

fn print_thread<S: Read + Write, W: Write>(
    session: &mut Session<S>,
    what: &str,
    output: &mut StyledWriter<W>,
) -> Result<(), Failure> {
    let request = View::Threads(of(what), Sort::default(), MAX_SHOWN_ROWS + 1).request()?;
    let found: Vec<ThreadStatus> = client::fetch_all(session, request)?;
    let [thread] = found.as_slice() else {
        return print_threads(&found, MAX_SHOWN_ROWS, "list shows all", output);
    };
    let mut lines = vec![
        ("destination", one_line(&thread.name())),
        (
            "messages",
            format!("{}, oldest {}", grouped(thread.messages), span_or_dash(thread.oldest)),
        ),
        ("recipients", grouped(thread.recipients)),
        ("tries", grouped(thread.attempts)),
        ("state", destination_state(thread, now()).0),
    ];
    if let Some(sentence) = thread.sentence() {
        lines.push(("why", one_line(sentence)));
    }
    if let Some(ring) = &thread.ring {
        lines.push(("ring", one_line(ring)));
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
        output.styled(&format!("{title:<13}"), Style::Title)?;
        output.line(&value)?;
    }
    let messages = messages(session, &of(&thread.name()), MAX_SHOWN_ROWS)?;
    if messages.is_empty() {
        return Ok(());
    }
    output.end_line()?;
    print_messages(&messages, MAX_SHOWN_ROWS, "list -m shows all", output)
}

fn print_agents<W: Write>(
    agents: &[AgentStatus],
    output: &mut StyledWriter<W>,
) -> Result<(), Failure> {
    if agents.is_empty() {
        return Ok(output.line("No agents running.")?);
    }
    let mut table = Table::new(&[
        ("PID", Column::Number),
        ("STATE", Column::Word),
        ("RING", Column::Name),
        ("DESTINATION", Column::Name),
        ("JOBS", Column::Number),
        ("AGE", Column::Number),
        ("HUNGRY", Column::Number),
        ("FED", Column::Number),
    ]);
    let now = now();
    for agent in agents {
        let state = short(&agent.state);
        let style = match state.as_str() {
            "ERROR" => Style::Error,
            "IDLE" => Style::Dim,
            _ => Style::Good,
        };
        let ring = agent.ring.as_ref().or(agent.channel.as_ref());
        table.row(vec![
            (agent.pid.to_string(), Style::Plain),
            (state, style),
            (one_line(ring.map_or("-", String::as_str)), Style::Plain),
            (one_line(agent.thread.as_deref().unwrap_or("-")), Style::Plain),
            (grouped(agent.jobs), Style::Plain),
            (span_or_dash(agent.age(now)), Style::Plain),
            (span_or_dash(agent.hungry), Style::Plain),
            (span_or_dash(agent.fed), Style::Plain),
        ]);
    }
    Ok(table.print(output)?)
}

fn print_orders<W: Write>(
    orders: &[OverrideStatus],
    output: &mut StyledWriter<W>,
) -> Result<(), Failure> {
    if orders.is_empty() {
        return Ok(output.line("No holds, limits or removals in force.")?);
    }
    let now = now();
    let mut table = Table::new(&[
        ("ORDER", Column::Word),
        ("SCOPE", Column::Name),
        ("BY", Column::Word),
        ("SINCE", Column::Word),
        ("UNTIL", Column::Word),
        ("REASON", Column::Text),
    ]);
    for order in orders {
        let what = match (&order.limit, order.value) {
            (Some(limit), Some(value)) => format!("{limit}={value}"),
            _ => order.kind.clone(),
        };
        let time = |time: Option<f64>| time.map_or("-".to_string(), |time| clock(time, now));
        table.row(vec![
            (short(&what), Style::Warning),
            (one_line(&order.scope), Style::Plain),
            (short(order.by.as_deref().unwrap_or("-")), Style::Plain),
            (time(order.since), Style::Plain),
            (time(order.until), Style::Plain),
            (one_line(order.reason.as_deref().unwrap_or_default()), Style::Plain),
        ]);
    }
    Ok(table.print(output)?)
}
