//! The table of requests.
//!
//! A row has the words that a request begins with, the required attribute, and the function that
//! answers it, which receives the rest of the line. If several rows match, the one with the most
//! words is used.

use super::answer::{Reply, SessionContext};
use super::arguments::SyntaxError;
use super::request_counters::RequestCounters;
use super::{admin, bulk_order, counters, holds, json, limits, orders, show, show_thread};
use crate::attributes::Attributes;

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
    /// Answers the request, given the text after the words.
    pub(super) answer: fn(&[u8], &mut SessionContext<'_>) -> Reply,
}

/// The counter of a kind of request.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    pub field: fn(&mut RequestCounters) -> &mut u64,
    /// True if refused requests count, too.
    pub with_refused: bool,
}

const fn counted(field: fn(&mut RequestCounters) -> &mut u64) -> Option<Counter> {
    Some(Counter { field, with_refused: false })
}

/// A request that ZMailer does not have.
const fn order(
    words: &'static [&'static str],
    needs: Attributes,
    answer: fn(&[u8], &mut SessionContext<'_>) -> Reply,
) -> Request {
    Request { words, needs, refusal: None, counter: None, answer }
}

const NO_ETRN: Option<&str> = Some("-No ETRN allowed for you.\n");
const NO_KILL: Option<&str> = Some("-No KILL allowed for you.\n");

/// A request that ZMailer does not have and that changes nothing.
const fn view(
    words: &'static [&'static str],
    needs: Attributes,
    answer: fn(&[u8], &mut SessionContext<'_>) -> Reply,
) -> Request {
    Request { words, needs, refusal: None, counter: None, answer }
}

/// All kinds of requests, except QUIT, EXIT, AUTH and AUTH2.
///
/// Those control the session itself.
pub fn requests() -> &'static [Request] {
    REQUESTS
}

static REQUESTS: &[Request] = &[
    Request {
        words: &["SHOW", "SNMP"],
        needs: Attributes::SNMP,
        refusal: None,
        counter: counted(|request_counters| &mut request_counters.show_snmp),
        answer: show::totals,
    },
    Request {
        words: &["SHOW", "QUEUE", "SHORT"],
        needs: Attributes::QQ,
        refusal: None,
        counter: counted(|request_counters| &mut request_counters.show_short),
        answer: show::short,
    },
    Request {
        words: &["SHOW", "QUEUE", "THREADS"],
        needs: Attributes::TT,
        refusal: None,
        counter: counted(|request_counters| &mut request_counters.show_threads),
        answer: show::full,
    },
    Request {
        words: &["SHOW", "QUEUE", "THREADS2"],
        needs: Attributes::TT,
        refusal: None,
        counter: counted(|request_counters| &mut request_counters.show_threads2),
        answer: show::threads,
    },
    Request {
        words: &["SHOW", "THREAD"],
        needs: Attributes::TT,
        refusal: None,
        counter: counted(|request_counters| &mut request_counters.show_thread),
        answer: show_thread::answer,
    },
    Request {
        words: &["SHOW", "COUNTERS"],
        needs: Attributes::NONE,
        refusal: None,
        counter: counted(|request_counters| &mut request_counters.show_counters),
        answer: counters::answer,
    },
    Request {
        words: &["SHOW", "WHY"],
        needs: Attributes::TT.or(Attributes::WHY),
        refusal: None,
        counter: None,
        answer: show::why,
    },
    view(&["SHOW", "JSON", "SUMMARY"], Attributes::QQ, json::summary::answer),
    view(&["SHOW", "JSON", "THREADS"], Attributes::TT, json::threads::answer),
    view(&["SHOW", "JSON", "RINGS"], Attributes::TT, json::rings::answer),
    view(&["SHOW", "JSON", "AGENTS"], Attributes::TT, json::agents::answer),
    view(&["SHOW", "JSON", "MESSAGES"], Attributes::TT, json::messages::answer),
    view(&["SHOW", "JSON", "MESSAGE"], Attributes::TT, json::message::answer),
    view(&["SHOW", "JSON", "WHY"], Attributes::TT, json::why::answer),
    view(&["SHOW", "JSON", "ORDERS"], Attributes::TT, json::orders::answer),
    view(&["SHOW", "JSON", "COUNTERS"], Attributes::NONE, json::counters::answer),
    view(&["SHOW", "MESSAGE"], Attributes::TT, json::message::answer_text),
    view(&["SUBSCRIBE"], Attributes::EVENTS, json::events::subscribe),
    Request {
        words: &["ETRN"],
        needs: Attributes::ETRN,
        refusal: NO_ETRN,
        counter: Some(Counter {
            field: |request_counters| &mut request_counters.etrn,
            with_refused: true,
        }),
        answer: orders::etrn,
    },
    Request {
        words: &["KILL", "MSG"],
        needs: Attributes::KILL,
        refusal: NO_KILL,
        counter: counted(|request_counters| &mut request_counters.kill_message),
        answer: orders::kill_message,
    },
    Request {
        words: &["KILL", "THREAD"],
        needs: Attributes::KILL,
        refusal: NO_KILL,
        counter: counted(|request_counters| &mut request_counters.kill_thread),
        answer: orders::kill_thread,
    },
    Request {
        words: &["KILL"],
        needs: Attributes::KILL,
        refusal: NO_KILL,
        counter: None,
        answer: orders::kill_nothing,
    },
    order(&["HOLD"], Attributes::HOLD, holds::hold),
    order(&["RELEASE"], Attributes::HOLD, holds::release),
    order(&["RETRY"], Attributes::RETRY, bulk_order::retry),
    order(&["EXPIRE"], Attributes::EXPIRE, bulk_order::expire),
    order(&["DELETE"], Attributes::DELETE, bulk_order::delete),
    order(&["REROUTE"], Attributes::REROUTE, bulk_order::reroute),
    order(&["SET"], Attributes::SET, limits::set),
    order(&["UNSET"], Attributes::SET, limits::unset),
    order(&["RETIRE"], Attributes::AGENTS, admin::retire),
    order(&["RELOAD"], Attributes::RELOAD, admin::reload),
    order(&["LOG"], Attributes::LOG, admin::log),
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
        _ if is_permitted => match (request.answer)(rest, context) {
            Reply::SyntaxError(error) => words.refuse(rest, &error),
            other => other,
        },
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
