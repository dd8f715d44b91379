//! Says in one sentence each what mail waits for.
//!
//! This crate decides the words; the core decides the reason (`zsched_core::why`). A sentence names
//! the limit that applies, and the file and line that set it. It must not know protocols or
//! recordings: MAILQ and `schedsim explain` show the same sentences. Begin with [`sentence`].

#![warn(unreachable_pub)]

use zsched_core::intake::backlog_view::FileLocation;
use zsched_core::overrides::{Author, Hold, Scope};
use zsched_core::why::{Limit, Origin, Wait, Why};
use zsched_core::{Destination, RING_TIME_SHARE, Refusal, Scheduler, StartFailure};
use zsched_format::printable;
use zsched_format::time::{ShortDuration, Timestamp};

mod rank;
mod unreachable;

/// Minimum time without a report of an agent that is worth a word, in seconds.
const MIN_SILENCE: i64 = 60;

/// Describes a wait reason in a sentence.
///
/// It is that of one message, or of all vertices of a thread that share the reason.
pub fn sentence(
    scheduler: &Scheduler,
    now: Timestamp,
    of_message: bool,
    wait: &Wait<'_>,
) -> String {
    let who = match wait.vertices {
        _ if of_message => wait.destination.to_string(),
        1 => format!("{}: 1 message", wait.destination),
        count => format!("{}: {count} messages", wait.destination),
    };
    let is_one = of_message || wait.vertices == 1;
    let tries = match wait.tries {
        0 => "not tried yet".to_string(),
        1 => "tried once".to_string(),
        tries => format!("tried {tries} times"),
    };
    let rank = wait.rank.as_ref().map_or(String::new(), |rank| rank::clauses(rank));
    let why = predicate(scheduler, now, wait.destination, &wait.why, is_one);
    let text = wait.text.map(one_line).filter(|text| !text.is_empty());
    // The report that the destination is unreachable may be the last one.
    let text = text.filter(|text| !why.ends_with(&format!(": {text}")));
    let text = text.map_or(String::new(), |text| format!("; last: {text}"));
    printable::line(&format!("{who} {why}{rank} ({tries}{text})")).into_owned()
}

/// The part of the sentence that states the activity and its reason.
///
/// `is_one` selects the singular.
pub fn predicate(
    scheduler: &Scheduler,
    now: Timestamp,
    to: &Destination,
    why: &Why,
    is_one: bool,
) -> String {
    let waits = if is_one { "waits" } else { "wait" };
    match why {
        Why::AtWork { pid, since, heard, jobs } => {
            let since =
                since.map_or(String::new(), |since| format!(" since {}", clock(since, now)));
            let others = if *jobs > 1 { format!(", with {jobs} jobs") } else { String::new() };
            let are = if is_one { "is" } else { "are" };
            let silence = now.seconds_since(*heard);
            let silence = match silence >= MIN_SILENCE {
                true => format!(", without a report for {}", ShortDuration(silence)),
                false => String::new(),
            };
            format!("{are} with the agent of process {pid}{since}{others}{silence}")
        }
        Why::Job { job, is_paused: true } => {
            format!("{waits} because bulk job {job} is paused (mailq job {job} resume)")
        }
        Why::Job { job, is_paused: false } => {
            format!("{waits} because other packets of bulk job {job} have its share of agents")
        }
        Why::AgentStarting { pid: 0 } => {
            format!("{waits} for an agent that is being started")
        }
        Why::AgentStarting { pid } => {
            format!(
                "{waits} for the agent of process {pid}, which was started and has not asked for work yet"
            )
        }
        Why::InLine { agents, max, origin, before } => {
            let line = set_by(origin, now);
            let before = match before {
                None => String::new(),
                Some(0) => ", next in line".to_string(),
                Some(before) => format!(", behind {before} others"),
            };
            format!(
                "{waits} in line{before}: {agents} of at most {max} agents are working on this destination (maxthr, {line})"
            )
        }
        Why::Retry { at, unreachable, line } => {
            let (left, until) = (ShortDuration(at.seconds_since(now).max(0)), clock(*at, now));
            match unreachable {
                None => {
                    format!("{waits} until {until}, in {left}, to be tried again (retries, {line})")
                }
                Some(known) => format!(
                    "{waits} until {until}, in {left} (retries, {line}), because destination {to} is known to be unreachable: {}",
                    unreachable::clause(known, now)
                ),
            }
        }
        Why::Suspended { failure, line } => {
            let StartFailure { until, count, reason } = &**failure;
            let next = match *until > now {
                true => format!("the next is started at {}", clock(*until, now)),
                false => "one is being started".to_string(),
            };
            let times = if *count == 1 { "once".to_string() } else { format!("{count} times") };
            format!(
                "{waits} for an agent: those of its ring failed {times}, the last {reason} (command, {line}); {next}"
            )
        }
        Why::Request { line } => {
            format!("{waits} for a request for the host's mail, such as ETRN (queueonly, {line})")
        }
        Why::Refused { refusal, limit, origin, before } => {
            let line = set_by(origin, now);
            let reason = refused(scheduler, *refusal, *limit, &line);
            let turn = before.map_or(String::new(), |before| {
                let turn = ShortDuration(RING_TIME_SHARE.as_secs() as i64);
                let others = match before {
                    0 => "its ring comes next".to_string(),
                    1 => "one ring comes first".to_string(),
                    before => format!("{before} rings come first"),
                };
                format!("; an agent that has worked for {turn} gives its place to another ring, and {others}")
            });
            format!("{waits} for an agent: {reason}{turn}")
        }
        Why::Window { used, max, name, keyword, line } => {
            let of = match name {
                Some(name) => format!(" of {}, which it shares", one_line(name)),
                None => String::new(),
            };
            format!(
                "{waits} for its window{of}: {used} of at most {max} agents are at work now ({keyword}, {line})"
            )
        }
        Why::Pace { at: Some(at), keyword, line } => {
            let left = ShortDuration(at.seconds_since(now).max(0));
            format!(
                "{waits} until {}, in {left}: then the next delivery may start ({keyword}, {line})",
                clock(*at, now)
            )
        }
        Why::Pace { at: None, keyword, line } => {
            format!("{waits} for the current delivery and the pause after it ({keyword}, {line})")
        }
        Why::Held { hold } => held(hold, is_one, now),
        Why::Scheduled { at, window } => {
            let are = if is_one { "is" } else { "are" };
            let (left, at) = (ShortDuration(at.seconds_since(now).max(0)), clock(*at, now));
            let window = window.as_ref().map_or(String::new(), |window| {
                format!(", in the window {} of its sender", one_line(window.text().as_bytes()))
            });
            format!("{are} scheduled for {at}, in {left}{window}")
        }
        Why::Kept => {
            let are = if is_one { "is" } else { "are" };
            format!("{are} kept: the priority is z")
        }
        Why::Turn => "is about to be given to an agent".to_string(),
    }
}

/// Names the origin of a limit: the line of the configuration, or the operator.
fn set_by(origin: &Origin, now: Timestamp) -> String {
    match origin {
        Origin::Line(line) => line.to_string(),
        Origin::Order(set) => {
            let by = one_line(set.author.name.as_bytes());
            let until =
                set.until.map_or(String::new(), |until| format!(" until {}", clock(until, now)));
            format!("set by {by}{until}")
        }
    }
}

fn held(hold: &Hold, is_one: bool, now: Timestamp) -> String {
    let are = if is_one { "is" } else { "are" };
    let what = match &hold.scope {
        Scope::Message(_) => String::new(),
        scope => format!(" with {scope}"),
    };
    let reason = match &hold.reason[..] {
        "" => String::new(),
        reason => format!(": {}", one_line(reason.as_bytes())),
    };
    let Author { name, since } = &hold.author;
    let since = clock(*since, now);
    format!("{are} held{what}, by {} since {since}{reason}", one_line(name.as_bytes()))
}

fn refused(scheduler: &Scheduler, refusal: Refusal, limit: Option<Limit>, line: &str) -> String {
    let Limit { max, used, is_of_process } = limit.unwrap_or_default();
    let of_limit = |name: &str, whose: &str| match is_of_process {
        true => format!("the process has descriptors for {max} agents, and {used} run"),
        false => format!("{used} of at most {max} agents {whose} run ({name}, {line})"),
    };
    match refusal {
        Refusal::MaxAgents => of_limit("maxta", "in all"),
        Refusal::MaxChannel => of_limit("maxchannel", "of the channel"),
        Refusal::MaxRing => of_limit("maxring", "of the ring"),
        Refusal::Claimed => {
            "another ring has no agent yet, and may start one only when fewer of them run"
                .to_string()
        }
        Refusal::ForkRate => format!("at most {max} are started per second (option -R)"),
        Refusal::Frozen => "the scheduler starts no agents (option -F)".to_string(),
        Refusal::Loading => "the spool is still being loaded (option -S)".to_string(),
        Refusal::Ending => "the scheduler is ending".to_string(),
        Refusal::NotSelected => {
            let selected = scheduler.view().settings().selection.as_ref();
            let shown = selected.map_or(String::new(), ToString::to_string);
            format!("only {shown} is served (option -p)")
        }
        Refusal::PriorityHeld => format!("its mail is not delivered (mail-priority=z, {line})"),
        Refusal::Reloading => "a new configuration is still being applied".to_string(),
        Refusal::Suspended => format!("its agents cannot be started (command, {line})"),
        Refusal::Unproven => {
            format!("{used} of its ring were started, and none has asked for work yet")
        }
        Refusal::NoCommand => format!("no clause says how to start one (command, {line})"),
    }
}

/// Describes in a sentence where a message is that is not in memory.
pub fn location(place: FileLocation, now: Timestamp) -> String {
    let limit = "PARAMmessage-active-limit";
    match place {
        FileLocation::Queued => {
            format!("waits on disk for room in memory ({limit})")
        }
        FileLocation::Loading => "is being read".to_string(),
        FileLocation::PagedOut(Some(until)) => {
            format!("paged out until its next try at {} ({limit})", clock(until, now))
        }
        FileLocation::PagedOut(None) => {
            format!("paged out until its host's mail is requested ({limit})")
        }
    }
}

/// Formats a time in local time: without the date if it is today.
pub fn clock(time: Timestamp, now: Timestamp) -> String {
    let local = |time: Timestamp| {
        let time = jiff::Timestamp::from_second(time.seconds()).unwrap_or_default();
        time.to_zoned(jiff::tz::TimeZone::system())
    };
    let (time, now) = (local(time), local(now));
    let format = if time.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    time.strftime(format).to_string()
}

/// Returns an agent's text as one printable line.
pub fn one_line(text: &[u8]) -> String {
    printable::line(text).trim().to_string()
}
