//! The table of requests.
//!
//! A row has the words that a request begins with, the required attribute, and the function that
//! answers it, which receives the rest of the line. If several rows match, the one with the most
//! words is used.

use super::arguments::SyntaxError;
use super::counters::RequestCounters;
use super::operator_order::{self, Verb};
use super::show_why::{self, OutputFormat};
use super::task::{Reply, ReplyResult, SessionContext};
use super::{admin, counters, events, holds, json, limits, orders, show_queue};
use crate::attributes::Attributes;
use crate::queue_report::ReportForm;

/// Answers a request, given the text after its words.
pub(super) type Handler = fn(&[u8], &mut SessionContext<'_>) -> ReplyResult;

/// A kind of request.
pub struct Request {
    /// The words it begins with, in capitals.
    pub words: &'static [&'static str],
    /// The user needs one of these attributes; an empty set permits every logged-in user.
    pub needs: Attributes,
    /// The refusal if it differs from the answer to an unknown request.
    pub refusal: Option<&'static str>,
    /// The request counter to increment.
    pub(super) counter: Option<Counter>,
    /// Answers the request.
    pub(super) answer: Handler,
}

/// The counter of a kind of request.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    pub field: fn(&mut RequestCounters) -> &mut u64,
    /// True if refused requests count, too.
    pub with_refused: bool,
}

/// The row of a request that is refused like an unknown one and has no counter.
const fn row(words: &'static [&'static str], needs: Attributes, answer: Handler) -> Request {
    Request { words, needs, refusal: None, counter: None, answer }
}

impl Request {
    /// The row with a counter of requests that are permitted.
    const fn counted(mut self, field: fn(&mut RequestCounters) -> &mut u64) -> Request {
        self.counter = Some(Counter { field, with_refused: false });
        self
    }

    /// The row with a refusal of its own.
    const fn refused_with(mut self, refusal: &'static str) -> Request {
        self.refusal = Some(refusal);
        self
    }
}

const NO_ETRN: &str = "-No ETRN allowed for you.\n";
const NO_KILL: &str = "-No KILL allowed for you.\n";

/// All kinds of requests, except QUIT, EXIT, AUTH and AUTH2.
///
/// Those control the session itself.
pub fn requests() -> &'static [Request] {
    REQUESTS
}

static REQUESTS: &[Request] = &[
    row(&["SHOW", "SNMP"], Attributes::SNMP, |_, _| show_queue::report(ReportForm::Totals))
        .counted(|counters| &mut counters.show_snmp),
    row(&["SHOW", "QUEUE", "SHORT"], Attributes::QQ, |_, _| show_queue::report(ReportForm::Short))
        .counted(|counters| &mut counters.show_short),
    row(&["SHOW", "QUEUE", "THREADS"], Attributes::TT, |_, _| show_queue::report(ReportForm::Full))
        .counted(|counters| &mut counters.show_threads),
    row(&["SHOW", "QUEUE", "THREADS2"], Attributes::TT, |_, _| {
        show_queue::report(ReportForm::Threads)
    })
    .counted(|counters| &mut counters.show_threads2),
    row(&["SHOW", "THREAD"], Attributes::TT, show_queue::thread)
        .counted(|counters| &mut counters.show_thread),
    row(&["SHOW", "COUNTERS"], Attributes::NONE, |_, _| counters::answer())
        .counted(|counters| &mut counters.show_counters),
    row(&["SHOW", "WHY"], Attributes::TT.or(Attributes::WHY), |rest, context| {
        show_why::answer(rest, OutputFormat::Text, context)
    }),
    row(&["SHOW", "MESSAGE"], Attributes::TT, |rest, context| {
        json::messages::message(rest, OutputFormat::Text, context)
    }),
    row(&["SHOW", "JSON", "SUMMARY"], Attributes::QQ, |_, context| json::summary::summary(context)),
    row(&["SHOW", "JSON", "THREADS"], Attributes::TT, |rest, _| json::threads::threads(rest)),
    row(&["SHOW", "JSON", "AGES"], Attributes::TT, json::threads::ages),
    row(&["SHOW", "JSON", "RINGS"], Attributes::TT, |_, context| json::rings::rings(context)),
    row(&["SHOW", "JSON", "AGENTS"], Attributes::TT, |_, context| json::rings::agents(context)),
    row(&["SHOW", "JSON", "MESSAGES"], Attributes::TT, json::messages::messages),
    row(&["SHOW", "JSON", "MESSAGE"], Attributes::TT, |rest, context| {
        json::messages::message(rest, OutputFormat::Json, context)
    }),
    row(&["SHOW", "JSON", "WHY"], Attributes::TT, |rest, context| {
        show_why::answer(rest, OutputFormat::Json, context)
    }),
    row(&["SHOW", "JSON", "ORDERS"], Attributes::TT, |_, context| json::orders::answer(context)),
    row(&["SHOW", "JSON", "JOBS"], Attributes::TT, json::jobs::answer),
    row(&["SHOW", "JSON", "CONFIG"], Attributes::TT, |_, _| json::process::config()),
    row(&["SHOW", "JSON", "COUNTERS"], Attributes::NONE, |_, _| json::process::counters()),
    row(&["SUBSCRIBE"], Attributes::EVENTS, events::subscribe),
    Request {
        counter: Some(Counter { field: |counters| &mut counters.etrn, with_refused: true }),
        ..row(&["ETRN"], Attributes::ETRN, |rest, _| orders::etrn(rest)).refused_with(NO_ETRN)
    },
    row(&["KILL", "MSG"], Attributes::KILL, |rest, _| orders::kill_message(rest))
        .refused_with(NO_KILL)
        .counted(|counters| &mut counters.kill_message),
    row(&["KILL", "THREAD"], Attributes::KILL, |r, c| orders::kill_thread(r, c))
        .refused_with(NO_KILL)
        .counted(|counters| &mut counters.kill_thread),
    row(&["KILL"], Attributes::KILL, |_, _| orders::kill_unknown()).refused_with(NO_KILL),
    row(&["HOLD"], Attributes::HOLD, holds::hold),
    row(&["RELEASE"], Attributes::HOLD, holds::release),
    row(&["PRIORITY"], Attributes::HOLD, |r, c| operator_order::priority(r, c)),
    row(&["RETRY"], Attributes::RETRY, |r, c| {
        operator_order::order_for_selection(r, Verb::Retry, c)
    }),
    row(&["EXPIRE"], Attributes::EXPIRE, |r, c| {
        operator_order::order_for_selection(r, Verb::Expire, c)
    }),
    row(&["DELETE"], Attributes::DELETE, |r, c| {
        operator_order::order_for_selection(r, Verb::Delete, c)
    }),
    row(&["REROUTE"], Attributes::REROUTE, operator_order::reroute),
    row(&["SET"], Attributes::SET, limits::set),
    row(&["UNSET"], Attributes::SET, limits::unset),
    row(&["JOB"], Attributes::SET, |rest, _| admin::job(rest)),
    row(&["RETIRE"], Attributes::AGENTS, |rest, _| admin::retire(rest)),
    row(&["RELOAD"], Attributes::RELOAD, |rest, _| admin::reload(rest)),
    row(&["LOG"], Attributes::LOG, |rest, _| admin::log(rest)),
];

/// The words of a line, as far as they are needed to find its row.
pub(super) struct RequestLine<'l> {
    /// The first word.
    pub verb: &'l [u8],
    /// The text after it.
    pub rest: &'l [u8],
    /// Length of the whole line, in bytes.
    length: usize,
}

impl<'l> RequestLine<'l> {
    /// Splits a line. A blank at its beginning leaves the verb empty.
    pub(super) fn of(line: &'l [u8]) -> RequestLine<'l> {
        let (verb, rest) = next_word(line);
        RequestLine { verb, rest, length: line.len() }
    }

    /// Returns the matching row and the text after its words.
    pub(super) fn find(&self, table: &'static [Request]) -> Option<(&'static Request, &'l [u8])> {
        let matching = table.iter().filter_map(|request| Some((request, self.behind(request)?)));
        matching.max_by_key(|(request, _)| request.words.len())
    }

    /// Returns the text after the words of a row if the line begins with them.
    fn behind(&self, request: &Request) -> Option<&'l [u8]> {
        let (first, others) = request.words.split_first()?;
        let mut rest = (first.as_bytes() == self.verb).then_some(self.rest)?;
        for wanted in others {
            let (word, behind) = next_word(rest);
            rest = (word == wanted.as_bytes()).then_some(behind)?;
        }
        Some(rest)
    }

    /// Answers a syntax error with its offset in the whole line.
    fn refuse(&self, behind: &[u8], error: &SyntaxError) -> Reply {
        let at = self.length - behind.len() + error.at;
        Reply::Line(format!("-at byte {at}: {}\n", error.what))
    }

    /// Returns the part after the verb that the answer to an unknown request repeats.
    ///
    /// For some verbs ZMailer has lost all but its first word.
    pub(super) fn repeated(&self) -> &'l [u8] {
        match self.verb {
            b"SHOW" | b"REROUTE" => next_word(self.rest).0,
            _ => self.rest,
        }
    }
}

/// Answers the request of a user with these attributes.
pub(super) fn reply(
    attributes: Attributes,
    words: &RequestLine<'_>,
    context: &mut SessionContext<'_>,
) -> Reply {
    let Some((request, rest)) = words.find(requests()) else {
        return Reply::Unknown;
    };
    let is_permitted = request.needs.is_empty() || attributes.intersects(request.needs);
    count(request, is_permitted, context);
    match request.refusal {
        _ if is_permitted => {
            (request.answer)(rest, context).unwrap_or_else(|error| words.refuse(rest, &error))
        }
        None => Reply::Unknown,
        Some(refusal) => {
            context.request_counters.refused += 1;
            Reply::Line(refusal.to_string())
        }
    }
}

fn count(request: &Request, is_permitted: bool, context: &mut SessionContext<'_>) {
    if let Some(counter) = request.counter
        && (is_permitted || counter.with_refused)
    {
        *(counter.field)(context.request_counters) += 1;
    }
}

/// Answers an unknown or forbidden request; both look the same.
///
/// The answer repeats the request, without characters that could disturb a terminal.
pub(super) fn write_unknown(words: &RequestLine<'_>, out: &mut Vec<u8>) {
    let visible = |text: &[u8]| -> Vec<u8> {
        text.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }).collect()
    };
    out.extend_from_slice(b"-MAILQ2 Unknown command, or refused by access control; VERB='");
    out.extend_from_slice(&visible(words.verb));
    out.extend_from_slice(b"' REST='");
    out.extend_from_slice(&visible(words.repeated()));
    out.extend_from_slice(b"'\n");
}

/// Splits off a word and the blanks after it.
pub(super) fn next_word(text: &[u8]) -> (&[u8], &[u8]) {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let end = text.iter().position(is_blank).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let start = rest.iter().position(|byte| !is_blank(byte)).unwrap_or(rest.len());
    (word, &rest[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_row_with_most_words_is_used() {
        for (line, words, rest) in [
            ("SHOW QUEUE SHORT", "SHOW QUEUE SHORT", ""),
            ("SHOW \tQUEUE  SHORT x", "SHOW QUEUE SHORT", "x"),
            ("SHOW THREAD smtp  a b ", "SHOW THREAD", "smtp  a b "),
            ("KILL MSG a b ", "KILL MSG", "a b "),
            ("KILL THREAD", "KILL THREAD", ""),
            ("KILL MSGS", "KILL", "MSGS"),
            ("KILL", "KILL", ""),
        ] {
            let (request, behind) = RequestLine::of(line.as_bytes()).find(requests()).expect(line);
            assert_eq!((request.words.join(" ").as_str(), behind), (words, rest.as_bytes()));
        }
        for line in ["", " SHOW SNMP", "show SNMP", "SHOW", "SHOW QUEUE", "SHOW snmp", "SHOWSNMP"] {
            assert!(RequestLine::of(line.as_bytes()).find(requests()).is_none(), "{line}");
        }
    }
}
