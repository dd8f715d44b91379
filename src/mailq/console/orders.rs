//! Orders to the scheduler, with a dry run before those that are final; and their results.

use super::arguments::{OrderOptions, SelectionArgs, Sort, is_bare_word, quoted};
use super::client;
use super::commands::{MailqCommand, OrderArgs};
use super::views::{JSON_SUMMARY, threads_request};
use crate::classic;
use crate::connect::lines::parse_object;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::format::{count, one_line};
use crate::progress::Progress;
use crate::screen::{Screen, Style};
use memchr::memmem;
use std::io::{self, BufRead, IsTerminal};
use zsched_format::{printable, priority};
use zsched_mailq_protocol::schema::{OrderResult, Summary, ThreadStatus};
use zsched_mailq_protocol::words::MAX_REASON_LEN;

/// Verb of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verb {
    /// Its word in the protocol.
    word: &'static str,
    /// Required permission.
    needs: &'static str,
    /// Describes what was done, for the result line.
    done: &'static str,
    /// True if the order cannot be undone.
    is_irreversible: bool,
}

impl Verb {
    pub(super) const HOLD: Verb = Verb::new("HOLD", "put on hold");
    pub(super) const RELEASE: Verb = Verb { needs: "HOLD", ..Verb::new("RELEASE", "released") };
    pub(super) const PRIORITY: Verb =
        Verb { needs: "HOLD", ..Verb::new("PRIORITY", "given another priority") };
    pub(super) const RETRY: Verb = Verb::new("RETRY", "retried now");
    pub(super) const EXPIRE: Verb =
        Verb::irreversible("EXPIRE", "expired, owing reports to the senders");
    pub(super) const DELETE: Verb = Verb::irreversible("DELETE", "deleted, without a report");
    pub(super) const REROUTE: Verb = Verb::irreversible("REROUTE", "returned to the router");

    /// The request with this selection.
    pub(super) fn request(self, selection: &str) -> Request {
        Request::new(format!("{} {selection}", self.word), self.needs)
    }

    /// Describes what was done, for the result line.
    pub(super) fn done(self) -> &'static str {
        self.done
    }

    const fn new(word: &'static str, done: &'static str) -> Verb {
        Verb { word, needs: word, done, is_irreversible: false }
    }

    const fn irreversible(word: &'static str, done: &'static str) -> Verb {
        Verb { is_irreversible: true, ..Verb::new(word, done) }
    }
}

/// An order about messages or destinations.
#[derive(Clone, Debug)]
pub(super) struct OrderCommand {
    /// What to do.
    pub verb: Verb,
    /// Selected part of the queue, and options.
    pub args: OrderArgs,
    /// True to release everything that is on hold.
    pub all: bool,
    /// Reason, for a hold.
    pub reason: Option<String>,
    /// Priority to be set.
    pub level: Option<u8>,
}

impl OrderCommand {
    /// Returns the order that a command gives, if it does.
    pub(super) fn of(command: &MailqCommand) -> Option<OrderCommand> {
        let order = |verb, args: &OrderArgs| OrderCommand {
            verb,
            args: args.clone(),
            all: false,
            reason: None,
            level: None,
        };
        Some(match command {
            MailqCommand::Hold { args, reason } => {
                OrderCommand { reason: reason.clone(), ..order(Verb::HOLD, args) }
            }
            MailqCommand::Release { args, all } => {
                OrderCommand { all: *all, ..order(Verb::RELEASE, args) }
            }
            MailqCommand::Priority { args, level } => {
                OrderCommand { level: Some(*level), ..order(Verb::PRIORITY, args) }
            }
            MailqCommand::Retry { args, all } => {
                let mut order = order(Verb::RETRY, args);
                if *all {
                    order.args.selection.what = Some("*/*".to_string());
                }
                order
            }
            MailqCommand::Expire(args) => order(Verb::EXPIRE, args),
            MailqCommand::Delete(args) => order(Verb::DELETE, args),
            MailqCommand::Reroute(args) => order(Verb::REROUTE, args),
            _ => return None,
        })
    }

    /// Gives the order and prints its result. Asks the user first, if it cannot be undone.
    pub(super) fn execute(
        &self,
        open: impl Fn() -> Result<Session, Failure>,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        let OrderOptions { dry_run, yes, json } = self.args.options;
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        if self.verb == Verb::HOLD && !dry_run {
            self.refuse_unknown_word(&open)?;
        }
        let may_ask = is_terminal || yes || dry_run;
        if self.verb.is_irreversible && !may_ask && self.args.selection.selects_all() {
            return Failure::usage("this selects all mail: option --yes confirms that");
        }
        if self.verb.is_irreversible && !yes && !dry_run && is_terminal {
            let outcome = outcome_of(&self.give(&mut open()?, true)?)?;
            self.print_result(&outcome, screen)?;
            // No session is open while the user is asked: a scheduler closes idle ones.
            if (outcome.messages == 0 && outcome.busy == 0) || !confirm(screen)? {
                return Ok(());
            }
        }
        let reply = self.give(&mut open()?, dry_run)?;
        match json {
            true => {
                writeln!(screen, "{}", printable::json(without_ok(&reply)))?;
                match self.has_done_nothing(&outcome_of(&reply)?) {
                    true => Err(self.nothing_matches()),
                    false => Ok(()),
                }
            }
            false => self.print_result(&outcome_of(&reply)?, screen),
        }
    }

    /// Returns true if an order has no effect at all.
    ///
    /// No mail matches, and mail that comes later is not concerned.
    fn has_done_nothing(&self, outcome: &OrderResult) -> bool {
        let OrderResult { messages, recipients, threads, busy, held, .. } = *outcome;
        let stays = [Verb::HOLD, Verb::RELEASE].contains(&self.verb) && self.is_scope();
        messages + recipients + threads + busy + held == 0 && !stays
    }

    /// Returns true if it is about destinations, a ring, or everything.
    fn is_scope(&self) -> bool {
        self.all || self.args.selection.is_scope()
    }

    /// The failure of an order that no mail matches.
    fn nothing_matches(&self) -> Failure {
        let selection = &self.args.selection;
        let how = match selection.what.as_deref().filter(|what| is_bare_word(what)) {
            Some(word) => {
                format!(" (as a host; a channel is named {word}/*, a recipient by --recipient)")
            }
            None => selection.hint(true).to_string(),
        };
        Failure::no_mail(format_args!("{selection}{how}"))
    }

    /// Fails if a word is the name of no host with mail: it may be mistyped, or a channel.
    ///
    /// A hold of it would stay in force.
    fn refuse_unknown_word(
        &self,
        open: impl Fn() -> Result<Session, Failure>,
    ) -> Result<(), Failure> {
        let Some(word) = self.args.selection.what.as_deref().filter(|what| is_bare_word(what))
        else {
            return Ok(());
        };
        let OrderResult { messages, threads, busy, .. } =
            outcome_of(&self.give(&mut open()?, true)?)?;
        match messages + threads + busy {
            0 => Err(Failure::no_mail(format_args!(
                "{word} (as a host), so nothing is held; to hold mail that arrives later, name the \
                 host */{word}, or the channel {word}/*"
            ))),
            _ => Ok(()),
        }
    }

    /// The reason of a hold: that of the user, and for messages how they were selected.
    fn reason_for_hold(&self, selection: &str) -> Option<String> {
        let is_of_messages = self.verb == Verb::HOLD && self.args.selection.chooses_messages();
        let with_selection = match &self.reason {
            Some(reason) => format!("{reason} ({selection})"),
            None => selection.to_string(),
        };
        match is_of_messages && with_selection.len() <= MAX_REASON_LEN {
            true => Some(with_selection),
            false => self.reason.clone(),
        }
    }

    /// Sends the order, and shows its progress.
    fn give(&self, session: &mut Session, is_dry: bool) -> Result<Vec<u8>, Failure> {
        let progress = Progress::start("searching the queue");
        let mut request = self.request(is_dry)?;
        if progress.is_shown() {
            request.line.push_str(" progress=yes");
        }
        let answer = session.ask_with_progress(request, |done| {
            progress.set(String::from_utf8_lossy(done).into_owned());
        });
        match answer {
            // The scheduler does not repeat what was named.
            Err(Failure::NotFound(_)) if self.verb != Verb::RELEASE => Err(self.nothing_matches()),
            other => other,
        }
    }

    /// Builds the request, with `is_dry` for a dry run.
    pub(super) fn request(&self, is_dry: bool) -> Result<Request, Failure> {
        let mut words = self.args.selection.words();
        if self.all {
            words.push("ALL".to_string());
        }
        if words.is_empty() {
            return Err(Failure::Usage(
                "nothing is selected: name a channel/host or an id, or use --sender, --recipient, \
                 --older, --larger or --held; '*/*' selects everything"
                    .to_string(),
            ));
        }
        if let Some(level) = self.level {
            words.insert(0, priority::letter(level).to_string());
        }
        if let Some(reason) = self.reason_for_hold(&words.join(" ")) {
            words.push(quoted(&format!("reason={reason}")));
        }
        if is_dry {
            words.push("dry-run=yes".to_string());
        }
        Ok(self.verb.request(&words.join(" ")))
    }

    fn print_result(&self, outcome: &OrderResult, screen: &mut Screen<'_>) -> Result<(), Failure> {
        if self.has_done_nothing(outcome) {
            not_examined(outcome).map_or(Ok(()), |sentence| screen.wrapped(&sentence))?;
            return Err(self.nothing_matches());
        }
        print_sentences(self.verb, self.is_scope(), outcome, screen)?;
        if self.verb == Verb::HOLD && self.args.selection.chooses_messages() {
            screen.wrapped("Only messages that are queued now are held, not those that come.")?;
        }
        Ok(())
    }
}

/// Asks the user to confirm, without a timeout.
fn confirm(screen: &mut Screen<'_>) -> Result<bool, Failure> {
    write!(screen, "Continue? [y/N] ")?;
    screen.flush()?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    let is_meant = read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes");
    if !is_meant {
        writeln!(screen, "No changes made.")?;
    }
    Ok(is_meant)
}

/// The answer without `OK`.
fn without_ok(reply: &[u8]) -> &[u8] {
    reply.strip_prefix(b"OK").unwrap_or(reply).trim_ascii()
}

/// The object after `OK`, or the default if there is none.
pub(super) fn outcome_of(reply: &[u8]) -> Result<OrderResult, Failure> {
    match without_ok(reply) {
        b"" => Ok(OrderResult::default()),
        text => parse_object(text),
    }
}

/// Sends ETRN, and prints the answer of the scheduler.
///
/// Fails if the scheduler says that it has no mail for the host.
pub(super) fn etrn(
    session: &mut Session,
    host: &str,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    // The scheduler has hosts in lower case.
    let host = host.to_ascii_lowercase();
    let reply = session.ask_for_line(Request::new(format!("ETRN {host}"), "ETRN"))?;
    let has_started = memmem::find(&reply, b"didn't").is_none();
    if !has_started && has_no_mail(session, &host)? {
        return Err(Failure::no_mail(format_args!("{} (as a host)", one_line(&host))));
    }
    Ok(writeln!(screen, "{}", classic::answer_text(&reply))?)
}

/// Returns true if the scheduler has no mail for a host.
///
/// It has none in memory, and none on disk.
fn has_no_mail(session: &mut Session, host: &str) -> Result<bool, Failure> {
    let request = threads_request(&SelectionArgs::of(&format!("*/{host}")), Sort::default(), 1);
    // ZMailer's schedulers do not know these requests, and not every user may look.
    let found = client::fetch_all::<ThreadStatus>(session, request);
    if found.is_ok_and(|found| found.is_empty()) {
        let summary = client::fetch_one::<Summary>(session, Request::new(JSON_SUMMARY, "QQ"));
        return Ok(summary.is_ok_and(|summary| summary.waiting + summary.resting == 0));
    }
    Ok(false)
}

/// Sends an order that is answered with a line.
///
/// Prints `done`, and the remark after `OK`, if there is one.
pub(super) fn send(
    session: &mut Session,
    request: Request,
    done: &str,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let reply = session.ask_for_line(request)?;
    let reply = String::from_utf8_lossy(without_ok(&reply)).into_owned();
    let reply = reply.trim_start_matches([';', ' ']);
    // An object is for programs. For people the command line says the same.
    let remark = match reply.is_empty() || reply.starts_with('{') {
        true => String::new(),
        false => format!("; {}", one_line(reply)),
    };
    Ok(screen.wrapped(&format!("{done}{remark}."))?)
}

/// Prints what an order has changed, or would change.
///
/// `is_scope` is true for a hold or release of destinations or a ring: it also applies to mail that
/// arrives later.
fn print_sentences(
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

/// How many messages were not examined, if there are any.
fn not_examined(result: &OrderResult) -> Option<String> {
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
            false => "Hold removed. It held no queued mail.".to_string(),
        },
        _ if matched == 0 => "No matching mail now.".to_string(),
        Verb::RETRY if recipients == 0 && held > 0 => "Nothing retried.".to_string(),
        Verb::RETRY if recipients == 0 => {
            "Nothing to retry: all of it is due, or with agents, already.".to_string()
        }
        Verb::EXPIRE | Verb::DELETE | Verb::REROUTE if recipients == 0 && busy > 0 => {
            "No recipient has changed yet.".to_string()
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
    sentences.extend(not_examined(result));
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

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + characters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::arguments::SelectionArgs;

    fn order(verb: Verb, what: Option<&str>) -> OrderCommand {
        let selection =
            SelectionArgs { what: what.map(str::to_string), ..SelectionArgs::default() };
        let args = OrderArgs { selection, ..OrderArgs::default() };
        OrderCommand { verb, args, all: false, reason: None, level: None }
    }

    #[test]
    fn order_becomes_request_line() {
        let hold = OrderCommand {
            reason: Some("too slow".to_string()),
            ..order(Verb::HOLD, Some("SMTP/A"))
        };
        let release = OrderCommand { all: true, ..order(Verb::RELEASE, None) };
        for (order, is_dry, line, needs) in [
            (hold, false, "HOLD smtp/a reason=\"too slow\"", "HOLD"),
            (release, false, "RELEASE ALL", "HOLD"),
            (order(Verb::DELETE, Some("4711")), true, "DELETE id=4711 dry-run=yes", "DELETE"),
        ] {
            let request = order.request(is_dry).expect(line);
            assert_eq!((request.line.as_str(), request.needs), (line, Some(needs)));
        }
        assert!(order(Verb::RETRY, None).request(false).is_err());
    }

    #[test]
    fn outcome_must_be_json() {
        assert!(outcome_of(b"OK x").is_err());
        assert_eq!(outcome_of(b"OK").expect("nothing"), OrderResult::default());
    }

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
            (Verb::RELEASE, true, &nothing, "Hold removed. It held no queued mail."),
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
                "No recipient has changed yet.\n1 recipient is with agents now: the order applies to what \
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
}
