//! Commands that show something: destinations, messages, rings, agents, overrides.

use super::arguments::{Selection, Sort, subject};
use super::classic;
use super::model::{Agent, Message, Order, Ring, Thread};
use super::overview;
use super::paper::{Paper, Style};
use super::source;
use super::summary::{self, ring_table, short, standing};
use super::table::{Column, Table};
use super::words::{clock, cut, grouped, last_line, now, one_line, span_or_dash};
use crate::dial::Scheduler;
use crate::failure::Failure;
use crate::lines::LineSource;
use crate::screen::visible;
use crate::session::{Request, Session};
use crate::show;
use std::io::{Read, Write};
use zsched_format::printable;

/// Maximum number of destinations the summary requests per sort order.
const SUMMARY_LIMIT: usize = 20;

/// A view of the queue.
#[derive(Clone, Debug)]
pub enum View {
    /// Everything on one screen.
    Summary,
    /// Destinations.
    Threads(Selection, Sort, usize),
    /// Messages, each with its destinations.
    Messages(Selection, usize),
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
                None => View::Threads(of(what), Sort::default(), 1).request()?,
            },
            View::Why(what) => Request::new(format!("SHOW JSON WHY {}", subject(what)), "TT"),
            View::Rings => Request::new("SHOW JSON RINGS", "TT"),
            View::Agents => Request::new("SHOW JSON AGENTS", "TT"),
            View::Orders => Request::new("SHOW JSON ORDERS", "TT"),
            View::Counters => Request::free("SHOW JSON COUNTERS"),
        })
    }

    /// Prints the JSON objects of the scheduler.
    pub fn print_json<W: Write>(
        &self,
        scheduler: &mut Scheduler,
        paper: &mut Paper<W>,
    ) -> Result<(), Failure> {
        let session = requests(scheduler)?;
        let mut text = session.ask_for_text(self.request()?)?;
        while let Some(line) = text.next()? {
            paper.line(&printable::json(line))?;
        }
        Ok(())
    }

    /// Prints the view for people.
    pub fn print<W: Write>(
        &self,
        scheduler: &mut Scheduler,
        paper: &mut Paper<W>,
    ) -> Result<(), Failure> {
        match self {
            View::Summary => {
                let overview = overview::ask(scheduler, SUMMARY_LIMIT)?;
                Ok(summary::print(&overview, paper)?)
            }
            View::Threads(selection, sort, limit) => {
                let threads = threads(scheduler, selection, *sort, *limit)?;
                print_threads(&threads, *limit, paper)
            }
            View::Messages(_, limit) => {
                let messages = source::all(requests(scheduler)?, self.request()?)?;
                print_messages(&messages, *limit, paper)
            }
            View::Show(what) => {
                let session = requests(scheduler)?;
                match message_id(what) {
                    Some(id) => copy(session, format!("SHOW MESSAGE {id}"), paper),
                    None => print_thread(session, what, paper),
                }
            }
            View::Why(what) => {
                copy(requests(scheduler)?, format!("SHOW WHY {}", subject(what)), paper)
            }
            View::Rings => match overview_of_rings(scheduler)? {
                rings if rings.is_empty() => Ok(paper.line("There are no rings.")?),
                rings => Ok(ring_table(&rings.iter().collect::<Vec<_>>()).print(paper)?),
            },
            View::Agents => {
                let agents: Vec<Agent> = source::all(requests(scheduler)?, self.request()?)?;
                print_agents(&agents, paper)
            }
            View::Orders => {
                let orders: Vec<Order> = source::all(requests(scheduler)?, self.request()?)?;
                print_orders(&orders, paper)
            }
            View::Counters => copy(requests(scheduler)?, "SHOW COUNTERS".to_string(), paper),
        }
    }
}

/// The session with a scheduler that takes requests.
pub fn requests(
    scheduler: &mut Scheduler,
) -> Result<&mut Session<crate::connection::Connection>, Failure> {
    match scheduler {
        Scheduler::Session(session) => Ok(session),
        Scheduler::Dump(_) => Err(show::no_requests()),
    }
}

fn of(what: &str) -> Selection {
    Selection { what: Some(what.to_string()), ..Selection::default() }
}

/// The id of a message as requests have it; `None` for a destination.
fn message_id(what: &str) -> Option<String> {
    super::arguments::target(what).strip_prefix("id=").map(super::arguments::quoted)
}

fn threads(
    scheduler: &mut Scheduler,
    selection: &Selection,
    sort: Sort,
    limit: usize,
) -> Result<Vec<Thread>, Failure> {
    // One more than the limit, to find out if there are more.
    let request = View::Threads(selection.clone(), sort, limit.saturating_add(1)).request()?;
    let classic = match scheduler {
        Scheduler::Dump(lines) => classic::of_dump(lines)?,
        Scheduler::Session(session) => match source::all(session, request) {
            Err(Failure::Denied(_)) if selection.is_everything() => classic::of_session(session)?,
            other => return other,
        },
    };
    if !selection.is_everything() {
        return Err(show::no_requests());
    }
    let mut threads = classic.threads;
    threads.sort_by(|a, b| match sort {
        Sort::Backlog => b.messages.cmp(&a.messages),
        Sort::Attempts => b.attempts.cmp(&a.attempts),
        Sort::Oldest => b.oldest.unwrap_or(0.0).total_cmp(&a.oldest.unwrap_or(0.0)),
    });
    Ok(threads)
}

fn overview_of_rings(scheduler: &mut Scheduler) -> Result<Vec<Ring>, Failure> {
    match scheduler {
        Scheduler::Dump(lines) => Ok(classic::of_dump(lines)?.rings),
        Scheduler::Session(session) => match source::all(session, View::Rings.request()?) {
            Err(Failure::Denied(_)) => Ok(classic::of_session(session)?.rings),
            other => other,
        },
    }
}

/// Prints the lines of a text that is meant for people.
fn copy<S: Read + Write, W: Write>(
    session: &mut Session<S>,
    line: String,
    paper: &mut Paper<W>,
) -> Result<(), Failure> {
    let needs = if line.ends_with("COUNTERS") { None } else { Some("TT") };
    let mut text = session.ask_for_text(Request { line, needs })?;
    while let Some(line) = text.next()? {
        paper.line(&visible(line))?;
    }
    Ok(())
}

fn print_threads<W: Write>(
    threads: &[Thread],
    limit: usize,
    paper: &mut Paper<W>,
) -> Result<(), Failure> {
    if threads.is_empty() {
        return Ok(paper.line("Nothing is queued.")?);
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
        let (state, style) = standing(thread, now);
        table.row(vec![
            (one_line(&thread.name()), Style::Plain),
            (grouped(thread.messages), Style::Plain),
            (grouped(thread.recipients), Style::Plain),
            (grouped(thread.attempts), Style::Plain),
            (span_or_dash(thread.oldest), Style::Plain),
            (grouped(thread.agents.len() as u64), Style::Plain),
            (state, style),
            (last_line(thread.text().unwrap_or_default()), Style::Faint),
        ]);
    }
    table.print(paper)?;
    print_rest(threads.len(), limit, paper)
}

fn print_rest<W: Write>(found: usize, limit: usize, paper: &mut Paper<W>) -> Result<(), Failure> {
    match found > limit {
        true => Ok(paper.line("... and more: option --limit says how many are shown")?),
        false => Ok(()),
    }
}

fn print_messages<W: Write>(
    messages: &[Message],
    limit: usize,
    paper: &mut Paper<W>,
) -> Result<(), Failure> {
    if messages.is_empty() {
        return Ok(paper.line("Nothing is queued.")?);
    }
    message_table(messages).print(paper)?;
    // With as many as the limit, there may be more.
    print_rest(messages.len() + usize::from(messages.len() == limit), limit, paper)
}

fn message_table(messages: &[Message]) -> Table {
    let now = now();
    let mut table = Table::new(&[
        ("ID", Column::Word),
        ("DESTINATION", Column::Name),
        ("RCPTS", Column::Number),
        ("AGE", Column::Number),
        ("TRIES", Column::Number),
        ("PLACE", Column::Word),
        ("EXPIRES", Column::Number),
        ("LAST TEXT", Column::Text),
    ]);
    for message in messages {
        let place = short(message.place.as_deref().unwrap_or_default());
        let style = match place.as_str() {
            "held" => Style::Odd,
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
            (last_line(message.text.as_deref().unwrap_or_default()), Style::Faint),
        ]);
    }
    table
}

/// Maximum number of rows that `show` prints for a destination.
const SHOWN_MESSAGES: usize = 20;

fn print_thread<S: Read + Write, W: Write>(
    session: &mut Session<S>,
    what: &str,
    paper: &mut Paper<W>,
) -> Result<(), Failure> {
    let request = View::Threads(of(what), Sort::default(), SHOWN_MESSAGES).request()?;
    let found: Vec<Thread> = source::all(session, request)?;
    let [thread] = found.as_slice() else {
        return print_threads(&found, SHOWN_MESSAGES, paper);
    };
    let mut lines = vec![
        ("destination", one_line(&thread.name())),
        (
            "messages",
            format!("{}, oldest {}", grouped(thread.messages), span_or_dash(thread.oldest)),
        ),
        ("recipients", grouped(thread.recipients)),
        ("tries", grouped(thread.attempts)),
        ("state", standing(thread, now()).0),
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
        paper.styled(&format!("{title:<13}"), Style::Title)?;
        paper.line(&value)?;
    }
    let request = View::Messages(of(&thread.name()), SHOWN_MESSAGES).request()?;
    let messages: Vec<Message> = source::all(session, request)?;
    if !messages.is_empty() {
        paper.end_line()?;
        message_table(&messages).print(paper)?;
    }
    Ok(())
}

fn print_agents<W: Write>(agents: &[Agent], paper: &mut Paper<W>) -> Result<(), Failure> {
    if agents.is_empty() {
        return Ok(paper.line("No agent runs.")?);
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
            "ERROR" => Style::Bad,
            "IDLE" => Style::Faint,
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
    Ok(table.print(paper)?)
}

fn print_orders<W: Write>(orders: &[Order], paper: &mut Paper<W>) -> Result<(), Failure> {
    if orders.is_empty() {
        return Ok(paper.line("Nothing is on hold, no limit was set, and no message is to end.")?);
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
            (short(&what), Style::Odd),
            (one_line(&order.scope), Style::Plain),
            (short(order.by.as_deref().unwrap_or("-")), Style::Plain),
            (time(order.since), Style::Plain),
            (time(order.until), Style::Plain),
            (one_line(order.reason.as_deref().unwrap_or_default()), Style::Plain),
        ]);
    }
    Ok(table.print(paper)?)
}
