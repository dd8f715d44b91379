//! Orders to the scheduler, with a dry run before those that are final.

use super::arguments::{OrderOptions, quoted, target};
use super::client::parse_object;
use super::commands::{Command, OrderArgs};
use super::model::OrderResult;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::format::{count, not_a_span, one_line, read_span};
use crate::screen::{Screen, Style};
use std::io::{self, BufRead, IsTerminal};
use zsched_format::printable;

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
    const HOLD: Verb = Verb::new("HOLD", "put on hold");
    const RELEASE: Verb = Verb { needs: "HOLD", ..Verb::new("RELEASE", "released") };
    const RETRY: Verb = Verb::new("RETRY", "retried now");
    const EXPIRE: Verb = Verb::irreversible("EXPIRE", "expired, with reports to the senders");
    const DELETE: Verb = Verb::irreversible("DELETE", "deleted, without a report");
    const REROUTE: Verb = Verb::irreversible("REROUTE", "returned to the router");

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
}

impl OrderCommand {
    /// Returns the order that a command gives, if it does.
    pub(super) fn of(command: &Command) -> Option<OrderCommand> {
        let (verb, args, all, reason) = match command {
            Command::Hold { args, reason } => (Verb::HOLD, args, false, reason.clone()),
            Command::Release { args, all } => (Verb::RELEASE, args, *all, None),
            Command::Retry(args) => (Verb::RETRY, args, false, None),
            Command::Expire(args) => (Verb::EXPIRE, args, false, None),
            Command::Delete(args) => (Verb::DELETE, args, false, None),
            Command::Reroute(args) => (Verb::REROUTE, args, false, None),
            _ => return None,
        };
        Some(OrderCommand { verb, args: args.clone(), all, reason })
    }

    /// Gives the order and prints its result. Asks the user first, if it cannot be undone.
    pub(super) fn execute(
        &self,
        open: impl Fn() -> Result<Session, Failure>,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        let OrderOptions { dry_run, yes, json } = self.args.options;
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        if self.verb.is_irreversible && !yes && !dry_run && is_terminal {
            let outcome = outcome_of(&open()?.ask_for_line(self.request(true)?)?)?;
            self.print_result(&outcome, screen)?;
            // No session is open while the user is asked: a scheduler closes idle ones.
            if (outcome.messages == 0 && outcome.busy == 0) || !confirm(screen)? {
                return Ok(());
            }
        }
        let reply = open()?.ask_for_line(self.request(dry_run)?)?;
        match json {
            true => Ok(writeln!(screen, "{}", printable::json(without_ok(&reply)))?),
            false => self.print_result(&outcome_of(&reply)?, screen),
        }
    }

    /// Builds the request, with `is_dry` for a dry run.
    pub(super) fn request(&self, is_dry: bool) -> Result<Request, Failure> {
        let mut words = self.args.selection.words()?;
        if self.all {
            words.push("ALL".to_string());
        }
        if words.is_empty() {
            return Err(Failure::Usage(
                "nothing is selected: name a channel/host or an id, or use --sender, --recipient, \
                 --older or --larger; '*/*' selects everything"
                    .to_string(),
            ));
        }
        if let Some(reason) = &self.reason {
            words.push(quoted(&format!("reason={reason}")));
        }
        if is_dry {
            words.push("dry-run=yes".to_string());
        }
        let line = format!("{} {}", self.verb.word, words.join(" "));
        Ok(Request::new(line, self.verb.needs))
    }

    fn print_result(&self, outcome: &OrderResult, screen: &mut Screen<'_>) -> Result<(), Failure> {
        let OrderResult { messages, recipients, threads, busy, held, dry_run, .. } = *outcome;
        if messages == 0 && threads == 0 && busy == 0 {
            return Ok(writeln!(screen, "No matching mail.")?);
        }
        let parts: Vec<String> =
            [(messages, "message"), (recipients, "recipient"), (threads, "destination")]
                .into_iter()
                .filter(|(number, _)| *number > 0)
                .map(|(number, thing)| count(number, thing))
                .collect();
        let done = match dry_run {
            true => format!("would be {}", self.verb.done),
            false => self.verb.done.to_string(),
        };
        screen.styled(&capitalized(&done), Style::Title)?;
        writeln!(screen, ": {}", parts.join(", "))?;
        if busy > 0 {
            let are = if busy == 1 { "is" } else { "are" };
            writeln!(
                screen,
                "{} {are} with agents now: the order applies to what they leave undelivered",
                count(busy, "recipient")
            )?;
        }
        if held > 0 && self.verb != Verb::HOLD {
            writeln!(screen, "{} stay on hold", capitalized(&held.to_string()))?;
        }
        Ok(())
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + characters.as_str()
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
fn outcome_of(reply: &[u8]) -> Result<OrderResult, Failure> {
    match without_ok(reply) {
        b"" => Ok(OrderResult::default()),
        text => parse_object(text),
    }
}

/// Builds `SET`: the last word is `limit=value`, another one the scope.
pub(super) fn set(words: &[String], until: Option<&str>) -> Result<Request, Failure> {
    let wrong = || Failure::Usage("usage: set [WHAT] LIMIT=NUMBER, as in maxring=5".to_string());
    let (setting, what) = words.split_last().ok_or_else(wrong)?;
    let (limit, value) = setting.split_once('=').ok_or_else(wrong)?;
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if !SETTABLE_LIMITS.contains(&limit) || !is_number {
        return Err(wrong());
    }
    let mut line = format!("SET {} {setting}", scope(what, limit)?);
    if let Some(span) = until {
        if read_span(span).is_none_or(|span| span <= 0.0) {
            return Err(Failure::Usage(not_a_span(span)));
        }
        line.push_str(&format!(" for={span}"));
    }
    Ok(Request::new(line, "SET"))
}

/// Builds `UNSET`: the last word is the limit, another one the scope.
pub(super) fn unset(words: &[String]) -> Result<Request, Failure> {
    let wrong = || {
        let limits = SETTABLE_LIMITS.join(", ");
        Failure::Usage(format!("usage: unset [WHAT] LIMIT, where LIMIT is one of {limits}"))
    };
    let (limit, what) = words.split_last().ok_or_else(wrong)?;
    if !SETTABLE_LIMITS.contains(&limit.as_str()) {
        return Err(wrong());
    }
    Ok(Request::new(format!("UNSET {} {limit}", scope(what, limit)?), "SET"))
}

/// Limits that can be set.
const SETTABLE_LIMITS: [&str; 5] = ["maxta", "maxchannel", "maxring", "maxthr", "overfeed"];

fn scope(what: &[String], limit: &str) -> Result<String, Failure> {
    match what {
        // The limit is that of all rings, but the request has to name one.
        [] if limit == "maxta" => Ok("ring=*/*".to_string()),
        [] => Err(Failure::Usage(format!(
            "{limit} needs a ring, as in ring=smtp/* (rings lists them), or for maxthr a \
             destination"
        ))),
        [what] => Ok(quoted(&target(what))),
        _ => Err(Failure::Usage("only one ring or destination can be named".to_string())),
    }
}

/// Sends an order that is answered with a line.
///
/// Prints the text after `OK`, or `done` if there is none.
pub(super) fn send(
    session: &mut Session,
    request: Request,
    done: &str,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let reply = session.ask_for_line(request)?;
    let reply = String::from_utf8_lossy(without_ok(&reply)).into_owned();
    // An object is for programs. For people the command line says the same.
    let shown = if reply.is_empty() || reply.starts_with('{') {
        done.to_string()
    } else {
        one_line(&reply)
    };
    Ok(writeln!(screen, "{shown}")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::arguments::SelectionArgs;

    fn order(verb: Verb, what: Option<&str>) -> OrderCommand {
        let selection =
            SelectionArgs { what: what.map(str::to_string), ..SelectionArgs::default() };
        let args = OrderArgs { selection, ..OrderArgs::default() };
        OrderCommand { verb, args, all: false, reason: None }
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
    fn set_and_unset_check_their_words() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        for (text, until, line) in [
            ("maxta=5", None, "SET ring=*/* maxta=5"),
            ("ring=smtp/* maxring=3", Some("2h"), "SET ring=smtp/* maxring=3 for=2h"),
            ("smtp/A maxthr=0", None, "SET smtp/a maxthr=0"),
        ] {
            assert_eq!(set(&words(text), until).expect(text).line, line);
        }
        for (text, until) in [
            ("5", None),
            ("maxta=x", None),
            ("a b maxta=1", None),
            ("min=1", None),
            ("maxta=1", Some("x")),
            ("maxring=1", None),
        ] {
            assert!(set(&words(text), until).is_err(), "{text}");
        }
        assert_eq!(unset(&words("a/b maxthr")).expect("good").line, "UNSET a/b maxthr");
        assert!(unset(&words("a/b")).is_err() && unset(&words("maxthr")).is_err());
    }

    #[test]
    fn tell_prints_result_of_order() {
        for (verb, reply, told) in [
            (
                Verb::HOLD,
                r#"OK {"messages":1,"recipients":2,"threads":1}"#,
                "Put on hold: 1 message, 2 recipients, 1 destination\n",
            ),
            (
                Verb::DELETE,
                r#"OK {"messages":12,"recipients":40,"dry_run":true}"#,
                "Would be deleted, without a report: 12 messages, 40 recipients\n",
            ),
            (Verb::RETRY, "OK {}", "No matching mail.\n"),
        ] {
            let mut out = Vec::new();
            let outcome = outcome_of(reply.as_bytes()).expect(reply);
            order(verb, None).print_result(&outcome, &mut Screen::new(&mut out)).expect("printed");
            assert_eq!(String::from_utf8(out).expect("text"), told);
        }
        assert!(outcome_of(b"OK x").is_err());
    }
}
