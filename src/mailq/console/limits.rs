//! `mailq set` and `mailq unset`: limits at run time.

use super::arguments::{quoted, target};
use super::client;
use super::orders::outcome_of;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::options::similar_word;
use crate::screen::Screen;
use zsched_mailq_protocol::schema::{LimitChange, OverrideStatus};

/// Limits that can be set.
const SETTABLE_LIMITS: [&str; 5] = ["maxta", "maxchannel", "maxring", "maxthr", "overfeed"];

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
    let limit_of = |word: &'_ str| {
        let (limit, value) = word.split_once('=')?;
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| limit.to_string())
    };
    let mut order = LimitOrder::new("SET", "set [WHAT] LIMIT=NUMBER ...", words, limit_of)?;
    order.duration = ", until it is reset (unset)".to_string();
    if let Some(span) = until {
        order.line.push_str(&format!(" for={span}"));
        order.duration = format!(", for {span}");
    }
    Ok(order)
}

/// Builds `UNSET` of `[WHAT] LIMIT ...`.
pub(super) fn unset(words: &[String]) -> Result<LimitOrder, Failure> {
    LimitOrder::new("UNSET", "unset [WHAT] LIMIT ...", words, |word| Some(word.to_string()))
}

/// Resets each limit that was set.
pub(super) fn unset_all(session: &mut Session, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let orders: Vec<OverrideStatus> =
        client::fetch_all(session, Request::new("SHOW JSON ORDERS", "TT"))?;
    if orders.iter().all(|order| order.limit.is_none()) {
        return Err(Failure::NotFound("no matching limit now: none was set".to_string()));
    }
    orders.into_iter().try_for_each(|order| {
        let Some(limit) = order.limit else { return Ok(()) };
        let scope = quoted(&order.scope);
        let line = format!("UNSET {scope} {limit}");
        LimitOrder { line, scope, duration: String::new() }.send(session, screen)
    })
}

impl LimitOrder {
    /// Builds an order. `form` is what the words should be.
    ///
    /// `limit_of` returns the name of the limit in a word. A first word that has none is the scope.
    fn new(
        verb: &str,
        form: &str,
        words: &[String],
        limit_of: impl Fn(&str) -> Option<String>,
    ) -> Result<LimitOrder, Failure> {
        let limit_of = |word: &String| {
            limit_of(word).filter(|limit| SETTABLE_LIMITS.contains(&limit.as_str()))
        };
        let (what, settings) = match words {
            [first, settings @ ..] if limit_of(first).is_none() => (Some(first), settings),
            settings => (None, settings),
        };
        let limits: Option<Vec<String>> = settings.iter().map(limit_of).collect();
        let Some(limits) = limits.filter(|limits| !limits.is_empty()) else {
            return Err(misuse(form, words));
        };
        let scope = scope(what.map(String::as_str), &limits)?;
        let line = format!("{verb} {scope} {}", settings.join(" "));
        Ok(LimitOrder { line, scope, duration: String::new() })
    }

    /// Sends the order, and prints the old and the new values of the limits.
    pub(super) fn send(
        self,
        session: &mut Session,
        screen: &mut Screen<'_>,
    ) -> Result<(), Failure> {
        let LimitOrder { line, scope, duration } = self;
        let result = outcome_of(&session.ask_for_line(Request::new(line, "SET"))?)?;
        // An older scheduler does not send them.
        if result.limits.is_empty() {
            return Ok(writeln!(screen, "Limits changed.")?);
        }
        screen.wrapped(&format!("{scope}: {}{duration}", limit_changes(&result.limits)))?;
        // Only limits of destinations are counted in this way.
        match result.threads == 0 && !scope.starts_with("ring=") {
            true => Ok(writeln!(screen, "No destination with mail is affected now.")?),
            false => Ok(()),
        }
    }
}

/// The failure of an order that cannot be used.
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

/// Describes changed limits: `maxthr 5 -> 10, maxring 20 -> none`.
fn limit_changes(changes: &[LimitChange]) -> String {
    let shown = |value: Option<u64>| value.map_or("none".to_string(), |value| value.to_string());
    let change = |change: &LimitChange| {
        format!("{} {} -> {}", change.limit, shown(change.old), shown(change.new))
    };
    changes.iter().map(change).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn limit_changes_show_old_and_new_value() {
        let change = |limit: &str, old, new| LimitChange { limit: limit.to_string(), old, new };
        let changes = [change("maxthr", Some(5), Some(10)), change("maxring", Some(2), None)];
        assert_eq!(limit_changes(&changes), "maxthr 5 -> 10, maxring 2 -> none");
    }
}
