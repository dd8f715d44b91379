//! Orders to the scheduler, with a dry run before those that are final.

use super::arguments::{OrderOptions, Sort, is_bare_word, quoted, target};
use super::client;
use super::commands::{MailqCommand, OrderArgs};
use super::order_result;
use super::views::{JSON_SUMMARY, of, threads_request};
use crate::classic;
use crate::connect::lines::parse_object;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::format::{not_a_span, one_line, read_span};
use crate::options::similar_word;
use crate::progress::Progress;
use crate::screen::Screen;
use memchr::memmem;
use std::io::{self, BufRead, IsTerminal};
use zsched_format::{printable, priority};
use zsched_mailq_protocol::schema::{OrderResult, OverrideStatus, Summary, ThreadStatus};
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
        let (verb, args, all, reason) = match command {
            MailqCommand::Hold { args, reason } => (Verb::HOLD, args, false, reason.clone()),
            MailqCommand::Release { args, all } => (Verb::RELEASE, args, *all, None),
            MailqCommand::Priority { args, level } => {
                let level = Some(*level);
                let (verb, args) = (Verb::PRIORITY, args.clone());
                return Some(OrderCommand { verb, args, all: false, reason: None, level });
            }
            MailqCommand::Retry { args, all: false } => (Verb::RETRY, args, false, None),
            MailqCommand::Retry { args, all: true } => return Some(OrderCommand::retry_all(args)),
            MailqCommand::Expire(args) => (Verb::EXPIRE, args, false, None),
            MailqCommand::Delete(args) => (Verb::DELETE, args, false, None),
            MailqCommand::Reroute(args) => (Verb::REROUTE, args, false, None),
            _ => return None,
        };
        Some(OrderCommand { verb, args: args.clone(), all, reason, level: None })
    }

    /// The order to retry everything.
    fn retry_all(args: &OrderArgs) -> OrderCommand {
        let mut args = args.clone();
        args.selection.what = Some("*/*".to_string());
        OrderCommand { verb: Verb::RETRY, args, all: false, reason: None, level: None }
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
                    true => Err(self.nothing()),
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
    fn nothing(&self) -> Failure {
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

    /// Sends the order, and shows how far it is.
    fn give(&self, session: &mut Session, is_dry: bool) -> Result<Vec<u8>, Failure> {
        let progress = Progress::start("searching the queue");
        let mut request = self.request(is_dry)?;
        if progress.is_shown() {
            request.line.push_str(" progress=yes");
        }
        let answer = session.ask_with_progress(request, |far| {
            progress.set(String::from_utf8_lossy(far).into_owned());
        });
        match answer {
            // The scheduler does not repeat what was named.
            Err(Failure::NotFound(_)) if self.verb != Verb::RELEASE => Err(self.nothing()),
            other => other,
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
            order_result::print_unseen(outcome, screen)?;
            return Err(self.nothing());
        }
        order_result::print(self.verb, self.is_scope(), outcome, screen)?;
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

/// An order about limits.
#[derive(Debug)]
pub(super) struct LimitOrder {
    /// The request line.
    line: String,
    /// The ring or the destinations, as in the request.
    scope: String,
    /// How long the limits stay.
    duration: String,
}

/// Builds `SET` of `[WHAT] LIMIT=NUMBER ...`.
pub(super) fn set(words: &[String], until: Option<&str>) -> Result<LimitOrder, Failure> {
    let wrong = || misuse("set [WHAT] LIMIT=NUMBER ...", words);
    let limit_of = |word: &str| {
        let (limit, value) = word.split_once('=')?;
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(limit.to_string())
    };
    let mut order = limit_order("SET", words, limit_of).ok_or_else(wrong)??;
    order.duration = ", until it is reset (unset)".to_string();
    if let Some(span) = until {
        if read_span(span).is_none_or(|span| span <= 0.0) {
            return Err(Failure::Usage(not_a_span(span)));
        }
        order.line.push_str(&format!(" for={span}"));
        order.duration = format!(", for {span}");
    }
    Ok(order)
}

/// Builds `UNSET` of `[WHAT] LIMIT ...`.
pub(super) fn unset(words: &[String]) -> Result<LimitOrder, Failure> {
    let wrong = || misuse("unset [WHAT] LIMIT ...", words);
    limit_order("UNSET", words, |word| Some(word.to_string())).ok_or_else(wrong)?
}

/// The failure of an order about limits that cannot be used.
fn misuse(form: &str, words: &[String]) -> Failure {
    let limits = SETTABLE_LIMITS.join(", ");
    let names = words.iter().map(|word| word.split('=').next().unwrap_or_default());
    let similar = names.filter(|name| !name.contains('/')).find_map(|name| {
        let near = similar_word(name, &SETTABLE_LIMITS)?;
        Some(format!("{name} is no limit; did you mean \"{near}\"?\nmailq: "))
    });
    let similar = similar.unwrap_or_default();
    Failure::Usage(format!("{similar}usage: {form}, where LIMIT is one of {limits}"))
}

/// Resets each limit that was set.
pub(super) fn unset_all(session: &mut Session, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let orders: Vec<OverrideStatus> =
        client::fetch_all(session, Request::new("SHOW JSON ORDERS", "TT"))?;
    let limits = orders.into_iter().filter_map(|order| Some((order.limit?, quoted(&order.scope))));
    let mut count = 0;
    for (limit, scope) in limits {
        let line = format!("UNSET {scope} {limit}");
        send_limits(session, LimitOrder { line, scope, duration: String::new() }, screen)?;
        count += 1;
    }
    match count {
        0 => Err(Failure::NotFound("no matching limit now: none was set".to_string())),
        _ => Ok(()),
    }
}

/// Limits that can be set.
const SETTABLE_LIMITS: [&str; 5] = ["maxta", "maxchannel", "maxring", "maxthr", "overfeed"];

/// Builds an order about limits; `None` if the words are none.
///
/// `limit_of` returns the name of the limit in a word. The first word that has none is the scope.
fn limit_order(
    verb: &str,
    words: &[String],
    limit_of: impl Fn(&str) -> Option<String>,
) -> Option<Result<LimitOrder, Failure>> {
    let limit_of =
        |word: &String| limit_of(word).filter(|limit| SETTABLE_LIMITS.contains(&limit.as_str()));
    let (what, settings) = match words {
        [first, ..] if limit_of(first).is_some() => (None, words),
        [first, rest @ ..] => (Some(first), rest),
        [] => return None,
    };
    let limits: Vec<String> = settings.iter().map(limit_of).collect::<Option<_>>()?;
    let scope = scope(what.map(String::as_str), &limits);
    let order = |scope: String| {
        let line = format!("{verb} {scope} {}", settings.join(" "));
        LimitOrder { line, scope, duration: String::new() }
    };
    (!limits.is_empty()).then(|| scope.map(order))
}

/// The scope of limits: only `maxthr` can be that of destinations, the others are of rings.
fn scope(what: Option<&str>, limits: &[String]) -> Result<String, Failure> {
    let is_all = |limit: &str| limits.iter().all(|of| of == limit);
    match what {
        // The limit is that of all rings, but the request has to name one.
        None if is_all("maxta") => Ok("ring=*/*".to_string()),
        None => Failure::usage(format!(
            "name what {} is for: a clause, as in ring=smtp/* (mailq rings lists them){}",
            limits.join(", "),
            if is_all("maxthr") { ", or a destination, as in smtp/mx.example.org" } else { "" }
        )),
        Some(what) if what.starts_with("ring=") || is_all("maxthr") => Ok(quoted(&target(what))),
        Some(what) => Ok(quoted(&format!("ring={what}"))),
    }
}

/// Sends an order about limits, and prints their old and new values.
pub(super) fn send_limits(
    session: &mut Session,
    LimitOrder { line, scope, duration }: LimitOrder,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let reply = session.ask_for_line(Request::new(line, "SET"))?;
    let result = outcome_of(&reply)?;
    // An older scheduler does not send them.
    let shown = match result.limits.is_empty() {
        true => "Limits changed.".to_string(),
        false => format!("{scope}: {}{duration}", order_result::limit_changes(&result.limits)),
    };
    screen.wrapped(&shown)?;
    // Only limits of destinations are counted in this way.
    match result.threads {
        0 if !scope.starts_with("ring=") && !result.limits.is_empty() => {
            Ok(writeln!(screen, "No destination with mail is affected now.")?)
        }
        _ => Ok(()),
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
    let request = threads_request(&of(&format!("*/{host}")), Sort::default(), 1)?;
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
    fn set_and_unset_check_their_words() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        for (text, until, line) in [
            ("maxta=5", None, "SET ring=*/* maxta=5"),
            ("ring=smtp/* maxring=3", Some("2h"), "SET ring=smtp/* maxring=3 for=2h"),
            ("smtp/A maxthr=0", None, "SET smtp/a maxthr=0"),
            ("smtp/* maxthr=5 maxring=9", None, "SET ring=smtp/* maxthr=5 maxring=9"),
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
        let line = unset(&words("a/* maxthr overfeed")).expect("good").line;
        assert_eq!(line, "UNSET ring=a/* maxthr overfeed");
        assert!(unset(&words("a/b")).is_err() && unset(&words("maxthr")).is_err());
    }

    #[test]
    fn outcome_must_be_json() {
        assert!(outcome_of(b"OK x").is_err());
        assert_eq!(outcome_of(b"OK").expect("nothing"), OrderResult::default());
    }
}
