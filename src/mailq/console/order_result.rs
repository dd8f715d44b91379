//! The result of an order, in sentences.

use super::orders::Verb;
use crate::format::count;
use crate::screen::{Screen, Style};
use std::io;
use zsched_mailq_protocol::schema::{LimitChange, OrderResult};

/// Prints what an order has changed, or would change.
///
/// `is_scope` is true for a hold or release of destinations or a ring: it also applies to mail that
/// arrives later.
pub(super) fn print(
    verb: Verb,
    is_scope: bool,
    result: &OrderResult,
    screen: &mut Screen<'_>,
) -> io::Result<()> {
    let mut sentences = sentences(verb, is_scope, result).into_iter();
    let first = sentences.next().unwrap_or_default();
    match first.split_once(": ") {
        Some((done, rest)) => {
            let (done, rest) = (format!("{done}:"), rest.to_string());
            screen.wrapped_parts(&[(done, Style::Title), (rest, Style::Plain)])?;
        }
        None => screen.wrapped(&first)?,
    }
    sentences.try_for_each(|sentence| screen.wrapped(&sentence))
}

/// Prints how many messages an order that matched nothing has not examined, if there are any.
pub(super) fn print_unseen(result: &OrderResult, screen: &mut Screen<'_>) -> io::Result<()> {
    unseen(result).map_or(Ok(()), |sentence| screen.wrapped(&sentence))
}

fn unseen(result: &OrderResult) -> Option<String> {
    let messages = capitalized(&count(result.unseen, "message"));
    let sentence = format!("{messages} on disk only: not examined (paged out, or not loaded yet)");
    (result.unseen > 0).then_some(sentence)
}

/// The sentences about the result of an order.
pub(super) fn sentences(verb: Verb, is_scope: bool, result: &OrderResult) -> Vec<String> {
    let OrderResult { messages, recipients, threads, busy, held, dry_run, .. } = *result;
    let matched = messages + recipients + threads + busy + held;
    let first = match verb {
        Verb::HOLD if is_scope && matched == 0 => match dry_run {
            true => "Only mail that arrives later would be held.".to_string(),
            false => "The hold is in force. It changes no mail that is queued now.".to_string(),
        },
        Verb::RELEASE if is_scope && matched == 0 => match dry_run {
            true => "No mail would be released.".to_string(),
            false => "The hold is over. No mail is released by that now.".to_string(),
        },
        _ if matched == 0 => "No matching mail now.".to_string(),
        Verb::RETRY if recipients == 0 && held > 0 => "Nothing retried.".to_string(),
        Verb::RETRY if recipients == 0 => {
            "Nothing to retry: all of it is due, or with agents, already.".to_string()
        }
        Verb::EXPIRE | Verb::DELETE | Verb::REROUTE if recipients == 0 && busy > 0 => {
            "Nothing is done yet.".to_string()
        }
        _ => changes(verb, result),
    };
    let mut sentences = vec![first];
    if busy > 0 {
        let are = if busy == 1 { "is" } else { "are" };
        sentences.push(format!(
            "{} {are} with agents now: the order applies to what they leave undelivered",
            count(busy, "recipient")
        ));
    }
    if held > 0 && verb != Verb::HOLD {
        let held = capitalized(&count(held, "recipient"));
        sentences.push(format!("{held} on hold: release them first"));
    }
    sentences.extend(unseen(result));
    sentences
}

fn changes(verb: Verb, result: &OrderResult) -> String {
    let OrderResult { messages, recipients, threads, dry_run, .. } = *result;
    let parts: Vec<String> =
        [(messages, "message"), (recipients, "recipient"), (threads, "destination")]
            .into_iter()
            // A retry also counts messages that it leaves as they are.
            .filter(|(number, thing)| *number > 0 && (verb != Verb::RETRY || *thing != "message"))
            .map(|(number, thing)| count(number, thing))
            .collect();
    let done = match dry_run {
        true => format!("would be {}", verb.done()),
        false => verb.done().to_string(),
    };
    format!("{}: {}", capitalized(&done), parts.join(", "))
}

/// Describes changed limits: `maxthr 5 -> 10, maxring 20 -> none`.
pub(super) fn limit_changes(changes: &[LimitChange]) -> String {
    let shown = |value: Option<u64>| value.map_or("none".to_string(), |value| value.to_string());
    let change = |change: &LimitChange| {
        format!("{} {} -> {}", change.limit, shown(change.old), shown(change.new))
    };
    changes.iter().map(change).collect::<Vec<_>>().join(", ")
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + characters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_say_what_is_true_now() {
        let nothing = OrderResult::default();
        let held = OrderResult { messages: 2, held: 5, unseen: 7, ..OrderResult::default() };
        let due = OrderResult { messages: 2, ..OrderResult::default() };
        let busy = OrderResult { messages: 1, busy: 1, ..OrderResult::default() };
        let dry_run = OrderResult { dry_run: true, ..OrderResult::default() };
        let some = OrderResult { messages: 1, recipients: 2, threads: 1, ..OrderResult::default() };
        let dry_some = OrderResult { dry_run: true, ..some.clone() };
        for (verb, is_scope, result, expected) in [
            (
                Verb::HOLD,
                true,
                &nothing,
                "The hold is in force. It changes no mail that is queued now.",
            ),
            (Verb::HOLD, false, &nothing, "No matching mail now."),
            (Verb::HOLD, true, &dry_run, "Only mail that arrives later would be held."),
            (Verb::RELEASE, true, &nothing, "The hold is over. No mail is released by that now."),
            (Verb::RELEASE, true, &dry_run, "No mail would be released."),
            (Verb::RETRY, false, &nothing, "No matching mail now."),
            (
                Verb::RETRY,
                false,
                &held,
                "Nothing retried.\n5 recipients on hold: release them first\n\
                 7 messages on disk only: not examined (paged out, or not loaded yet)",
            ),
            (
                Verb::RETRY,
                false,
                &due,
                "Nothing to retry: all of it is due, or with agents, already.",
            ),
            (Verb::RETRY, false, &some, "Retried now: 2 recipients, 1 destination"),
            (Verb::HOLD, true, &some, "Put on hold: 1 message, 2 recipients, 1 destination"),
            (
                Verb::DELETE,
                false,
                &busy,
                "Nothing is done yet.\n1 recipient is with agents now: the order applies to what \
                 they leave undelivered",
            ),
            (
                Verb::DELETE,
                false,
                &dry_some,
                "Would be deleted, without a report: 1 message, 2 recipients, 1 destination",
            ),
        ] {
            assert_eq!(sentences(verb, is_scope, result).join("\n"), expected);
        }
    }

    #[test]
    fn limit_changes_show_old_and_new_value() {
        let change = |limit: &str, old, new| LimitChange { limit: limit.to_string(), old, new };
        let changes = [change("maxthr", Some(5), Some(10)), change("maxring", Some(2), None)];
        assert_eq!(limit_changes(&changes), "maxthr 5 -> 10, maxring 2 -> none");
    }
}
