//! Commands that show something: destinations, messages, rings, agents, overrides.

use super::ages;
use super::arguments::{OutputOptions, SelectionArgs, Sort, keyword, subject};
use super::client;
use super::messages;
use super::model::{AgeStatus, AgentStatus, OverrideStatus, QueuedMessage, ThreadStatus};
use super::overview;
use super::summary::{self, destination_state, print_rings, short, thread_columns};
use crate::connect::dial::Scheduler;
use crate::connect::lines::LineSource;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::format::{clock, grouped, now, one_line, span_or_dash};
use crate::message::files::MessageFiles;
use crate::screen::{Screen, Style, warn};
use crate::table::{Column, ColumnKind, print_table};
use clap::Subcommand;
use zsched_format::printable;

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
/// Text for an empty list of mail.
const NO_MAIL: &str = "No matching mail.";

/// A view of the queue.
#[derive(Subcommand, Clone, Debug)]
pub enum View {
    /// Show the queue and its problems on one screen
    ///
    /// It is the default on a terminal, if no option selects other output. ZMailer's schedulers are
    /// understood, too, as far as they report.
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
        /// Sort order of destinations
        #[arg(long, value_enum, default_value_t)]
        sort: Sort,
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
        /// A destination, such as smtp/mx.test; a host alone; or the id of a message
        what: String,
        /// Output options.
        #[command(flatten)]
        output: OutputOptions,
    },
    /// Explain why something waits
    Why {
        /// A destination, such as smtp/mx.test, or the id of a message
        what: String,
        /// Output options.
        #[command(flatten)]
        output: OutputOptions,
    },
    /// List rings with their agents and limits
    Rings(OutputOptions),
    /// List agents
    Agents(OutputOptions),
    /// List holds, limits that were set, and messages to be removed
    Orders(OutputOptions),
    /// Show counters
    Counters(OutputOptions),
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
            | View::Orders(output)
            | View::Counters(output) => output,
        }
    }

    /// Returns true if it shows messages, and not destinations or anything else.
    fn is_about_messages(&self) -> bool {
        let is_id = |what: &String| message_id(what).is_some();
        match self {
            View::List { messages, selection, .. } => {
                let is_chosen = selection.chooses_messages();
                *messages || is_chosen || selection.what.as_ref().is_some_and(is_id)
            }
            View::Show { what, .. } => is_id(what),
            _ => false,
        }
    }

    /// The request for JSON.
    fn request(&self) -> Result<Request, Failure> {
        Ok(match self {
            View::Summary(_) => Request::new(JSON_SUMMARY, "QQ"),
            View::List { selection, limit, .. } if self.is_about_messages() => {
                messages_request(selection, *limit)?
            }
            View::List { selection, sort, limit, .. } => threads_request(selection, *sort, *limit)?,
            View::Ages { what, limit, .. } => {
                let what = what.as_deref().map_or("*/*".to_string(), subject);
                Request::new(format!("SHOW JSON AGES {what} limit={limit}"), "TT")
            }
            View::Show { what, .. } => match message_id(what) {
                Some(id) => Request::new(format!("SHOW JSON MESSAGE {id}"), "TT"),
                None => threads_request(&of(what), Sort::default(), MAX_JSON_DESTINATIONS + 1)?,
            },
            View::Why { what, .. } => {
                Request::new(format!("SHOW JSON WHY {}", subject(what)), "TT")
            }
            View::Rings(_) => Request::new(JSON_RINGS, "TT"),
            View::Agents(_) => Request::new(JSON_AGENTS, "TT"),
            View::Orders(_) => Request::new("SHOW JSON ORDERS", "TT"),
            View::Counters(_) => Request::without_permission("SHOW JSON COUNTERS"),
        })
    }

    /// Prints the JSON objects of the scheduler.
    pub(super) fn print_json(
        &self,
        scheduler: &mut Scheduler,
        files: &mut MessageFiles<'_>,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        let session = scheduler.session()?;
        let mut text = session.ask_for_text(self.request()?)?;
        let is_limited = matches!(self, View::Show { .. });
        let mut count = 0;
        while let Some(line) = text.next()? {
            count += 1;
            if is_limited && count > MAX_JSON_DESTINATIONS {
                warn(format_args!(
                    "more than {MAX_JSON_DESTINATIONS} destinations match; list --json shows more"
                ));
                break;
            }
            match self.is_about_messages() {
                true => {
                    writeln!(screen, "{}", printable::json(&messages::with_envelope(line, files)))?
                }
                false => writeln!(screen, "{}", printable::json(line))?,
            }
        }
        Ok(())
    }

    /// Prints the view for people.
    pub(super) fn print(
        &self,
        scheduler: &mut Scheduler,
        files: &mut MessageFiles<'_>,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        match self {
            View::Summary(_) => {
                let overview = overview::ask(scheduler, MAX_SUMMARY_DESTINATIONS)?;
                Ok(summary::print(&overview, screen)?)
            }
            View::List { selection, limit, .. } if self.is_about_messages() => {
                let found = ask_for_messages(scheduler.session()?, selection, *limit)?;
                messages::print(&found, (*limit, LIMIT_HINT), NO_MAIL, files, screen)
            }
            View::List { selection, sort, limit, .. } => {
                let threads = threads(scheduler, selection, *sort, *limit)?;
                print_threads(&threads, (*limit, LIMIT_HINT), screen)
            }
            View::Ages { .. } => {
                let rows: Vec<AgeStatus> =
                    client::fetch_all(scheduler.session()?, self.request()?)?;
                Ok(ages::print(&rows, screen)?)
            }
            View::Show { what, .. } => {
                let session = scheduler.session()?;
                match message_id(what) {
                    Some(id) => {
                        copy(session, format!("SHOW MESSAGE {id}"), screen)?;
                        messages::print_envelope(session, what, files, screen)
                    }
                    None => print_thread(session, what, files, screen),
                }
            }
            View::Why { what, .. } => {
                copy(scheduler.session()?, format!("SHOW WHY {}", subject(what)), screen)
            }
            View::Rings(_) => {
                let json = |session: &mut Session| client::fetch_all(session, self.request()?);
                let rings = overview::json_or_report(scheduler, json, |overview| overview.rings)?;
                match rings.is_empty() {
                    true => Ok(writeln!(screen, "There are no rings.")?),
                    false => Ok(print_rings(&rings.iter().collect::<Vec<_>>(), screen)?),
                }
            }
            View::Agents(_) => {
                let agents: Vec<AgentStatus> =
                    client::fetch_all(scheduler.session()?, self.request()?)?;
                print_agents(&agents, screen)
            }
            View::Orders(_) => {
                let orders: Vec<OverrideStatus> =
                    client::fetch_all(scheduler.session()?, self.request()?)?;
                print_orders(&orders, screen)
            }
            View::Counters(_) => copy(scheduler.session()?, "SHOW COUNTERS".to_string(), screen),
        }
    }
}

/// A selection of what a command names.
pub(super) fn of(what: &str) -> SelectionArgs {
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
    let needs = if line.ends_with("COUNTERS") { None } else { Some("TT") };
    session.ask_for_text(Request { line, needs })?.print(screen)
}

/// Prints a table of the first rows.
///
/// `empty` is the text if there are no rows, `hint` says how to see more of them.
pub(super) fn print_list<T>(
    columns: &[Column<'_, T>],
    things: &[T],
    (limit, hint): (usize, &str),
    empty: &str,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    if things.is_empty() {
        return Ok(writeln!(screen, "{empty}")?);
    }
    print_table(columns, things.iter().take(limit), screen)?;
    match things.len() > limit {
        true => Ok(writeln!(screen, "... and more; {hint}")?),
        false => Ok(()),
    }
}

fn print_threads(
    threads: &[ThreadStatus],
    limit: (usize, &str),
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    print_list(&thread_columns("DESTINATION", now()), threads, limit, NO_MAIL, screen)
}

/// Maximum number of rows that `show` prints for a destination.
const MAX_SHOWN_ROWS: usize = 20;

fn print_thread(
    session: &mut Session,
    what: &str,
    files: &mut MessageFiles<'_>,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let request = threads_request(&of(what), Sort::default(), MAX_SHOWN_ROWS + 1)?;
    let found: Vec<ThreadStatus> = client::fetch_all(session, request)?;
    let [thread] = found.as_slice() else {
        return print_threads(&found, (MAX_SHOWN_ROWS, "list shows all"), screen);
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
        screen.styled(&format!("{title:<13}"), Style::Title)?;
        writeln!(screen, "{value}")?;
    }
    let found = ask_for_messages(session, &of(&thread.name()), MAX_SHOWN_ROWS)?;
    if found.is_empty() {
        return Ok(());
    }
    screen.line(&[])?;
    messages::print(&found, (MAX_SHOWN_ROWS, "list -m shows all"), NO_MAIL, files, screen)
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
    let columns = [
        Column::new("PID", ColumnKind::Number, |agent: &AgentStatus| {
            (agent.pid.to_string(), Style::Plain)
        }),
        Column::new("STATE", ColumnKind::Word, state),
        Column::name("RING", |agent: &AgentStatus| {
            or_dash(agent.ring.as_ref().or(agent.channel.as_ref()))
        }),
        Column::name("DESTINATION", |agent: &AgentStatus| or_dash(agent.thread.as_ref())),
        Column::number("JOBS", |agent: &AgentStatus| agent.jobs),
        Column::span("AGE", |agent: &AgentStatus| agent.age(now)),
        Column::span("HUNGRY", |agent: &AgentStatus| agent.hungry),
        Column::span("FED", |agent: &AgentStatus| agent.fed),
    ];
    print_list(&columns, agents, NO_LIMIT, "No agents running.", screen)
}

fn print_orders(orders: &[OverrideStatus], screen: &mut Screen<'_>) -> Result<(), Failure> {
    let now = now();
    let what = |order: &OverrideStatus| {
        let what = match (&order.limit, order.value) {
            (Some(limit), Some(value)) => format!("{limit}={value}"),
            _ => order.kind.clone(),
        };
        (short(&what), Style::Warning)
    };
    let reason = |order: &OverrideStatus| {
        (one_line(order.reason.as_deref().unwrap_or_default()), Style::Plain)
    };
    let time = |time: Option<f64>| time.map_or("-".to_string(), |time| clock(time, now));
    let columns = [
        Column::new("ORDER", ColumnKind::Word, what),
        Column::name("SCOPE", |order: &OverrideStatus| order.scope.clone()),
        Column::word("BY", |order: &OverrideStatus| short(order.by.as_deref().unwrap_or("-"))),
        Column::word("SINCE", |order: &OverrideStatus| time(order.since)),
        Column::word("UNTIL", |order: &OverrideStatus| time(order.until)),
        Column::new("REASON", ColumnKind::Text, reason),
    ];
    print_list(&columns, orders, NO_LIMIT, "No holds, limits or removals in force.", screen)
}
