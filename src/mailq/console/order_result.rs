//! The result of an order, in sentences.

use super::model::{LimitChange, OrderResult};
use super::orders::Verb;
use crate::format::count;
use crate::screen::{Screen, Style};
use std::io;
use zsched_format::printable::grouped;

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
            screen.styled(done, Style::Title)?;
            writeln!(screen, ": {rest}")?;
        }
        None => writeln!(screen, "{first}")?,
    }
    sentences.try_for_each(|sentence| writeln!(screen, "{sentence}"))
}

/// The sentences about the result of an order.
pub(super) fn sentences(verb: Verb, is_scope: bool, result: &OrderResult) -> Vec<String> {
    let OrderResult { messages, recipients, threads, busy, held, dry_run, unseen, .. } = *result;
    let mut sentences = vec![match (messages + recipients + threads + busy + held, verb) {
        (0, Verb::HOLD) if is_scope && dry_run => {
            "Only mail that arrives later would be held: none is queued now.".to_string()
        }
        (0, Verb::HOLD) if is_scope => {
            "The hold is in force. No matching mail is queued now.".to_string()
        }
        (0, Verb::RELEASE) if is_scope => "The hold is over. It held no mail.".to_string(),
        (0, _) => "No matching mail now.".to_string(),
        _ if verb == Verb::RETRY && recipients == 0 && held > 0 => {
            let held = capitalized(&count(held, "recipient"));
            return vec![format!("Nothing retried. {held} on hold: release them first.")];
        }
        _ if verb == Verb::RETRY && recipients == 0 => {
            "Nothing to retry: all of it is due, or with agents, already.".to_string()
        }
        _ => changes(verb, result),
    }];
    if busy > 0 {
        let are = if busy == 1 { "is" } else { "are" };
        sentences.push(format!(
            "{} {are} with agents now: the order applies to what they leave undelivered",
            count(busy, "recipient")
        ));
    }
    if held > 0 && verb != Verb::HOLD {
        sentences.push(format!("{} stay on hold", grouped(held)));
    }
    if unseen > 0 {
        let unseen = capitalized(&count(unseen, "message"));
        sentences
            .push(format!("{unseen} on disk only: not examined (paged out, or not loaded yet)"));
    }
    sentences
}

fn changes(verb: Verb, result: &OrderResult) -> String {
    let OrderResult { messages, recipients, threads, dry_run, .. } = *result;
    let parts: Vec<String> =
        [(messages, "message"), (recipients, "recipient"), (threads, "destination")]
            .into_iter()
            .filter(|(number, _)| *number > 0)
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
        let held = OrderResult { messages: 2, held: 5, ..OrderResult::default() };
        let due = OrderResult { messages: 2, ..OrderResult::default() };
        let dry_run = OrderResult { dry_run: true, ..OrderResult::default() };
        let held_one =
            OrderResult { messages: 1, recipients: 2, threads: 1, ..OrderResult::default() };
        let deleted =
            OrderResult { messages: 12, recipients: 40, dry_run: true, ..OrderResult::default() };
        for (verb, is_scope, result, expected) in [
            (Verb::HOLD, true, &nothing, "The hold is in force. No matching mail is queued now."),
            (Verb::HOLD, false, &nothing, "No matching mail now."),
            (
                Verb::HOLD,
                true,
                &dry_run,
                "Only mail that arrives later would be held: none is queued now.",
            ),
            (Verb::RELEASE, true, &nothing, "The hold is over. It held no mail."),
            (Verb::RETRY, false, &nothing, "No matching mail now."),
            (
                Verb::RETRY,
                false,
                &held,
                "Nothing retried. 5 recipients on hold: release them first.",
            ),
            (
                Verb::RETRY,
                false,
                &due,
                "Nothing to retry: all of it is due, or with agents, already.",
            ),
            (Verb::HOLD, true, &held_one, "Put on hold: 1 message, 2 recipients, 1 destination"),
            (
                Verb::DELETE,
                false,
                &deleted,
                "Would be deleted, without a report: 12 messages, 40 recipients",
            ),
        ] {
            assert_eq!(sentences(verb, is_scope, result), [expected]);
        }
    }

    #[test]
    fn limit_changes_show_old_and_new_value() {
        let change = |limit: &str, old, new| LimitChange { limit: limit.to_string(), old, new };
        let changes = [change("maxthr", Some(5), Some(10)), change("maxring", Some(2), None)];
        assert_eq!(limit_changes(&changes), "maxthr 5 -> 10, maxring 2 -> none");
    }
}
