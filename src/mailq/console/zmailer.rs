//! Reads the reports of ZMailer's schedulers into an [`Overview`].
//!
//! Both versions of the protocol have the same report on threads, rings and totals:
//!
//! ```text
//! smtp/*/0
//!     smtp/a.test/0   N=2   R=3   A=4  P={812} HA={1}s ... QA=2m
//!     smtp/b.test/0   N=1   R=1   A=2  W=17s QA=1d18h
//! <TAB>Threads:    2 Msgs:     3 Procs:   1 Idle:   0 Plim:  90 Flim: 150 Tlim: 1
//! Kids: 1  Idle:  0  Msgs:   3  Thrds:   2  Rcpnts:    3  Uptime: 1d31m
//! Msgs in 84 out 81 stored 3 Rcpnts in 189 out 185 stored 4
//! ```

use super::overview::Overview;
use crate::classic::queue::{DeliveryState, QueuedThread};
use crate::classic::report_reader::QueueReportLine;
use crate::classic::v1;
use crate::classic::v2::RecipientRecord;
use crate::connect::lines::{LIMITS, LineSource, Lines};
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::format::{count, now, one_line, read_span};
use crate::warnings::Warnings;
use std::collections::HashMap;
use zsched_mailq_protocol::schema::{ActiveAgent, RingStatus, Summary, ThreadStatus, Wait};

/// Maximum number of destinations per sort order whose last text is requested.
///
/// The sort orders are by messages and by deferred recipients.
const MAX_TEXT_REQUESTS: usize = 12;

/// What becomes of mail without agents.
const STAYS: &str = "mail stays queued";

/// Reads a version 1 dump.
pub(super) fn read_dump(lines: &mut Lines) -> Result<Overview, Failure> {
    let mut warnings = Warnings::default();
    let queue = v1::read(lines, &mut warnings)?;
    let mut overview = report(lines)?;
    add_vertices(&mut overview.threads, &queue);
    add_troubles(&mut overview);
    Ok(overview)
}

/// Asks a version 2 scheduler.
pub(super) fn of_session(session: &mut Session) -> Result<Overview, Failure> {
    let mut text = session.ask_for_text(Request::new("SHOW QUEUE THREADS", "TT"))?;
    let mut overview = report(&mut text)?;
    ask_for_texts(session, &mut overview.threads)?;
    add_troubles(&mut overview);
    Ok(overview)
}

/// Reads the report on threads, rings and totals.
fn report(lines: &mut impl LineSource) -> Result<Overview, Failure> {
    let max = LIMITS.entries;
    let mut overview = Overview::default();
    let Overview { summary, threads, rings, .. } = &mut overview;
    summary.time = now();
    let (mut ring, mut is_whole) = (String::new(), false);
    while let Some(line) = lines.next()? {
        let text = String::from_utf8_lossy(line);
        match QueueReportLine::of(line) {
            QueueReportLine::Thread(channel, host, items) if threads.len() < max => {
                threads.push(read_thread([channel, host, items], &ring, summary.time));
            }
            QueueReportLine::Detail if line.starts_with(b"\t") && rings.len() < max => {
                rings.push(read_ring(&ring, &text));
            }
            QueueReportLine::Totals if line.starts_with(b"Kids:") => read_totals(&text, summary),
            QueueReportLine::Totals => {
                read_counts(&text, summary);
                is_whole = true;
            }
            // `smtp/*/0` has the pattern and a flag.
            QueueReportLine::Head => {
                ring = text.rsplit_once('/').map_or(&*text, |(pattern, _)| pattern).to_string();
            }
            QueueReportLine::Thread(..) | QueueReportLine::Detail => {}
        }
    }
    if !is_whole {
        return Failure::protocol("the report is incomplete: it ends before its totals");
    }
    summary.oldest = threads.iter().filter_map(|thread| thread.oldest).max_by(f64::total_cmp);
    Ok(overview)
}

/// Reads the line of a thread: channel, host and items.
///
/// Older schedulers have no `N=`; their `R=` counts messages.
fn read_thread(line: [&[u8]; 3], ring: &str, now: f64) -> ThreadStatus {
    let [channel, host, items] = line.map(|part| String::from_utf8_lossy(part).into_owned());
    let items: HashMap<&str, &str> =
        items.split_ascii_whitespace().filter_map(|item| item.split_once('=')).collect();
    let number = |label: &str| items.get(label).and_then(|value| value.parse().ok());
    let list = |label: &str| {
        let value = items.get(label).map_or("", |value| value.trim_end_matches('s'));
        value.trim_matches(['{', '}']).split(',').map(str::to_string).collect::<Vec<_>>()
    };
    let (states, jobs) = (list("S"), list("OF"));
    let agent = |(place, pid): (usize, &String)| {
        Some(ActiveAgent {
            pid: pid.trim_start_matches('-').parse().ok()?,
            state: states.get(place).cloned().unwrap_or_default(),
            jobs: jobs.get(place).and_then(|jobs| jobs.parse().ok()).unwrap_or_default(),
        })
    };
    let agents: Vec<ActiveAgent> = list("P").iter().enumerate().filter_map(agent).collect();
    let left = items.get("W").and_then(|left| read_span(left));
    let refusal = items.get("pend").map(|pending| keyword_of(pending));
    let messages = number("N").or(number("R")).unwrap_or_default();
    let recipients = if items.contains_key("N") { number("R").unwrap_or_default() } else { 0 };
    let attempts = number("A").unwrap_or_default();
    let all = recipients.max(messages);
    let (is_idle, held) = (agents.is_empty(), refusal == Some(HELD));
    // What was tried and waits was deferred; the report has no number.
    let is_deferred = attempts > 0 && is_idle && (left.is_some() || held);
    // Without a report on it, what waits for a retry had agents that died.
    let has_no_agents = matches!(refusal, Some(NO_COMMAND | CANNOT_START));
    let is_undelivered = is_deferred || is_idle && (left.is_some() || has_no_agents);
    let sentence = match refusal {
        Some(NO_COMMAND) => Some("no command: scheduler.cf does not say how to serve it"),
        Some(CANNOT_START) => Some("its agents cannot be started"),
        Some(HELD) => Some("on hold"),
        _ if left.is_some() && is_idle && attempts == 0 => {
            Some("no agent has reported on it, and it is tried again")
        }
        _ => None,
    };
    let why = match (is_idle, left, refusal) {
        (false, ..) => "at-work",
        (_, _, Some(HELD)) => HELD,
        (_, Some(_), _) => "retry",
        (_, None, Some(_)) => "refused",
        _ => "turn",
    };
    ThreadStatus {
        channel,
        host,
        ring: Some(ring.to_string()),
        messages,
        recipients,
        deferred: if is_deferred { all } else { 0 },
        undelivered: if is_undelivered { all } else { 0 },
        attempts,
        agents,
        wakeup: left.map(|left| now + left),
        oldest: items.get("QA").and_then(|age| read_span(age)).filter(|age| *age >= 0.0),
        held,
        wait: Some(Wait {
            why: why.to_string(),
            refusal: refusal.map(str::to_string),
            sentence: sentence.map(str::to_string),
            ..Wait::default()
        }),
        ..ThreadStatus::default()
    }
}

/// Keywords of reasons in our reports.
const NO_COMMAND: &str = "no-command";
const CANNOT_START: &str = "suspended";
const HELD: &str = "held";

/// Our keyword for the reason why a thread has no agent: the text after `pend=`.
fn keyword_of(pending: &str) -> &'static str {
    match pending {
        "ConfBUG:NoCmdDefined!" => NO_COMMAND,
        "System:ForkFailure!" | "AgentsCannotStart" => CANNOT_START,
        // Only our schedulers report it.
        "Held" => HELD,
        ">MaxTA" => "maxta",
        ">MaxChannel" => "maxchannel",
        ">MaxRing" => "maxring",
        ">MaxThr" => "maxthr",
        "ForkRateLimit" => "fork-rate",
        "Frozen" => "frozen",
        "NoNextFeed" => "turn",
        "procsel-mismatch" => "not-selected",
        "AgentsStarting" => "unproven",
        "Window" => "window",
        "Rate" => "pace",
        _ => "waiting",
    }
}

/// The number after a label. A second number after a slash is ignored.
fn number_after(line: &str, label: &str) -> Option<u64> {
    let rest = line.split_once(label)?.1.trim_start();
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn read_ring(head: &str, sums: &str) -> RingStatus {
    let number = |label| number_after(sums, label);
    RingStatus {
        pattern: head.to_string(),
        threads: number("Threads:").unwrap_or_default(),
        messages: number("Msgs:").unwrap_or_default(),
        agents: number("Procs:").unwrap_or_default(),
        idle: number("Idle:").unwrap_or_default(),
        maxring: number("Plim:"),
        overfeed: number("Flim:"),
        maxthr: number("Tlim:"),
        ..RingStatus::default()
    }
}

fn read_totals(line: &str, summary: &mut Summary) {
    let number = |label| number_after(line, label).unwrap_or_default();
    summary.agents = number("Kids:");
    summary.idle = number("Idle:");
    summary.messages = number("Msgs:");
    summary.threads = number("Thrds:");
    let uptime = line.split_once("Uptime:").map_or("", |(_, uptime)| uptime.trim());
    let uptime = uptime.strip_suffix(" sec").unwrap_or(uptime);
    summary.started = read_span(uptime).map_or(0.0, |uptime| summary.time - uptime);
}

fn read_counts(line: &str, summary: &mut Summary) {
    let Some((messages, recipients)) = line.split_once("Rcpnts") else {
        return;
    };
    let number = |part, label| number_after(part, label).unwrap_or_default();
    summary.messages_in = number(messages, "in ");
    summary.messages_out = number(messages, "out ");
    summary.recipients_in = number(recipients, "in ");
    summary.recipients_out = number(recipients, "out ");
    summary.recipients = number(recipients, "stored ");
}

/// Adds what version 1 sends with the messages: texts of agents, and what waits for a retry.
fn add_vertices(threads: &mut [ThreadStatus], queue: &[QueuedThread]) {
    let by_name: HashMap<_, _> = queue
        .iter()
        .map(|thread| ((thread.channel.as_slice(), thread.host.as_slice()), thread))
        .collect();
    for thread in threads {
        let Some(queued) = by_name.get(&(thread.channel.as_bytes(), thread.host.as_bytes())) else {
            continue;
        };
        let (mut text, mut retrying) = (None, 0);
        for vertex in &queued.vertices {
            let (spoken, state) = vertex.text_and_state();
            text = text.or(Some(spoken).filter(|spoken| !spoken.is_empty()));
            retrying += if state == DeliveryState::Retry { vertex.recipients } else { 0 };
        }
        let text = text.map(|text| String::from_utf8_lossy(text).into_owned());
        thread.wait.get_or_insert_default().text = text;
        thread.undelivered = thread.undelivered.max(retrying.min(thread.recipients));
    }
}

/// Adds the sums of undelivered recipients, and warnings of destinations without agents.
fn add_troubles(overview: &mut Overview) {
    let Overview { summary, threads, .. } = overview;
    summary.undelivered = threads.iter().map(|thread| thread.undelivered).sum();
    let undelivered = threads.iter().filter(|thread| thread.undelivered > 0);
    summary.undelivered_threads = undelivered.count() as u64;
    summary.held_threads = threads.iter().filter(|thread| thread.held).count() as u64;
    let is_failing = |thread: &&ThreadStatus| {
        let is_retried = thread.reason() == "retry" && thread.attempts == 0;
        is_retried && thread.text().is_some_and(|text| !text.is_empty())
    };
    let of_reason = |reason| threads.iter().filter(move |thread| thread.reason() == reason);
    // The scheduler itself has written the text of the last ones.
    let failing: Vec<&ThreadStatus> = threads.iter().filter(is_failing).collect();
    let text = failing.first().and_then(|thread| thread.text()).map(one_line).unwrap_or_default();
    for (what, found, detail) in [
        ("no command for", of_reason(NO_COMMAND).collect(), STAYS),
        ("agents cannot be started for", of_reason(CANNOT_START).collect(), STAYS),
        ("agents fail for", failing, &text),
    ] {
        let Some((first, others)) = found.split_first() else { continue };
        let others = match others.len() as u64 {
            0 => String::new(),
            number => format!(" and {}", count(number, "other destination")),
        };
        summary.warnings.push(format!("{what} {}{others}: {detail}", first.name()));
    }
}

/// Adds the texts of agents, which version 2 sends thread by thread.
fn ask_for_texts(session: &mut Session, threads: &mut [ThreadStatus]) -> Result<(), Failure> {
    let mut places: Vec<usize> = (0..threads.len()).collect();
    let mut asked = Vec::new();
    for key in [|thread: &ThreadStatus| thread.messages, |thread: &ThreadStatus| thread.undelivered]
    {
        places.sort_by_key(|place| std::cmp::Reverse(key(&threads[*place])));
        let was_tried = |place: &usize| threads[*place].attempts > 0;
        asked.extend(places.iter().copied().filter(was_tried).take(MAX_TEXT_REQUESTS));
    }
    asked.sort();
    asked.dedup();
    for place in asked {
        let thread = &mut threads[place];
        let line = format!("SHOW THREAD {} {}", thread.channel, thread.host);
        let mut text = session.ask_for_text(Request::new(line, "TT"))?;
        while let Some(line) = text.next()? {
            if thread.text().is_none()
                && let Ok(record) = RecipientRecord::parse(line)
                && !record.text.is_empty()
            {
                let text = String::from_utf8_lossy(&record.text).into_owned();
                thread.wait.get_or_insert_default().text = Some(text);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::summary::destination_state;

    fn read(text: &str) -> Result<Overview, Failure> {
        report(&mut Lines::recorded(text.as_bytes(), LIMITS))
    }

    const TOTALS: &str = "Kids: 9  Idle:  8  Msgs:  11  Thrds:  14  Rcpnts:   17  Uptime: 1m2s\n\
        Msgs in 52 out 15 stored 11 (12) Rcpnts in 272 out 232 stored 19 (20)\n";

    #[test]
    fn report_yields_threads_rings_and_totals() {
        let text = format!(
            "smtp/*/0\n    smtp/[10.0.0.1]/0\tN=2   R=3   A=1  P={{20114,-7}} HA={{3,1}}s FA={{3,never}}s \
             OF={{2,0}} S={{STUFF,LARVA}} UF=0 QA=1d18h\n    smtp/a/b/0 N=1   R=1   A=58 W=1860s \
             QA=11h11m28s\n    smtp/c/0\t\tR=4   A=0  pend=>MaxRing QA=-1s threadwait\n\tThreads:    3/4 \
             Msgs:     4 Procs:  12 Idle:  11 Plim:  90 Flim: 150 Tlim: 1\n{TOTALS}"
        );
        let Overview { summary, threads, rings, .. } = read(&text).expect("a report");
        assert_eq!((summary.agents, summary.idle, summary.messages), (9, 8, 11));
        assert_eq!(
            (summary.messages_in, summary.recipients_out, summary.recipients),
            (52, 232, 19)
        );
        assert_eq!((summary.time - summary.started).round(), 62.0);
        assert_eq!(summary.oldest, Some(151_200.0));
        let [first, second, third] = &threads[..] else { panic!("{threads:?}") };
        assert_eq!(
            (first.name().as_str(), first.messages, first.recipients),
            ("smtp/[10.0.0.1]", 2, 3)
        );
        let agent = ActiveAgent { pid: 20_114, state: "STUFF".to_string(), jobs: 2 };
        assert_eq!((&first.agents[0], first.agents[1].pid), (&agent, 7));
        assert_eq!(first.reason(), "at-work");
        assert_eq!(
            (second.name().as_str(), second.reason(), second.attempts),
            ("smtp/a/b", "retry", 58)
        );
        assert_eq!((third.messages, third.reason(), third.oldest), (4, "maxring", None));
        assert_eq!(
            (rings[0].pattern.as_str(), rings[0].threads, rings[0].maxring),
            ("smtp/*", 3, Some(90))
        );
    }

    #[test]
    fn destinations_without_agents_are_undelivered() {
        let text = format!(
            "x/*/0\n    x/gone/0 N=1   R=3   A=0  pend=ConfBUG:NoCmdDefined! QA=5s\n    \
             x/gone2/0 N=1   R=1   A=0  pend=ConfBUG:NoCmdDefined! QA=5s\n    \
             x/broken/0 N=2   R=2   A=0  pend=AgentsCannotStart QA=5s\n    \
             x/fork/0 N=1   R=1   A=0  pend=System:ForkFailure! QA=5s\n    \
             x/dies/0 N=1   R=2   A=0  W=13s QA=14s\n    \
             x/held/0 N=1   R=4   A=2  pend=Held QA=14s\n    \
             x/new/0 N=1   R=5   A=0  pend=>MaxThr QA=14s\n    \
             x/odd/0 N=1   R=5   A=0  pend=SomethingElse QA=14s\n{TOTALS}"
        );
        let mut overview = read(&text).expect("a report");
        let dying = overview.threads.iter_mut().find(|thread| thread.host == "dies");
        let wait = dying.and_then(|thread| thread.wait.as_mut()).expect("it waits");
        wait.text = Some("the transport agent ended with status 3".to_string());
        add_troubles(&mut overview);
        let found = overview.threads.iter().map(|thread| {
            let (state, _) = destination_state(thread, overview.summary.time);
            format!("{} {} {}", thread.host, thread.undelivered, state)
        });
        let found: Vec<String> =
            found.map(|line| line.split(" retry ").collect::<Vec<_>>()[0].to_string()).collect();
        assert_eq!(
            found,
            [
                "gone 3 no command",
                "gone2 1 no command",
                "broken 2 cannot start",
                "fork 1 cannot start",
                "dies 2",
                "held 4 on hold",
                "new 0 maxthr",
                "odd 0 waiting",
            ]
        );
        let Summary { undelivered, undelivered_threads, held_threads, warnings, .. } =
            overview.summary;
        assert_eq!((undelivered, undelivered_threads, held_threads), (13, 6, 1));
        assert_eq!(
            warnings,
            [
                "no command for x/gone and 1 other destination: mail stays queued",
                "agents cannot be started for x/broken and 1 other destination: mail stays queued",
                "agents fail for x/dies: the transport agent ended with status 3",
            ]
        );
    }

    #[test]
    fn report_without_totals_fails() {
        assert!(read(TOTALS).is_ok());
        assert!(read("").is_err());
        assert!(read("smtp/*/0\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_report_does_not_panic(text in "([ \t]{0,4}[a-z/ =NRAWPQ{},0-9:é]{0,30}\n){0,8}") {
            drop(read(&format!("{text}{TOTALS}")));
        }
    }
}
