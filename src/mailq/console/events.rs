//! `mailq events`: prints events as they happen.
//!
//! ```text
//! 14:02:09  arrived   S4711AbmKUKEJuveqC  from ann@x.test to bob@mx.test, size 3.4k: Minutes
//! 14:02:10  attempt   S4711AbmKUKEJuveqC  smtp/mx.test  deferred: 451 4.4.1 ...
//! ```

use super::arguments::SelectionArgs;
use super::messages::{self, add_fields};
use crate::connect::lines::{LineSource, parse_object};
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::format::{clock, count, cut, last_line, one_line};
use crate::message::envelope::Envelope;
use crate::message::files::MessageFiles;
use crate::screen::{Screen, Style};
use serde_json::Value;
use std::rc::Rc;
use zsched_format::printable;

/// The request for all events, or for those of a destination, a host or a message.
pub(super) fn request(what: Option<&str>) -> Result<Request, Failure> {
    let selection = what.map(SelectionArgs::of).unwrap_or_default();
    if selection.selects_messages() && selection.message_id().is_none() {
        return Failure::usage("events are those of a destination, a host, or a message by its id");
    }
    let words = [vec!["SUBSCRIBE".to_string()], selection.words()].concat();
    Ok(Request::new(words.join(" "), "EVENTS"))
}

/// Prints events until the scheduler ends the text or the connection.
pub(super) fn follow(
    session: &mut Session,
    request: Request,
    is_json: bool,
    files: &mut MessageFiles<'_>,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    session.disable_timeouts();
    let mut text = session.ask_for_text(request)?;
    let mut has_note = false;
    while let Some(line) = text.next()? {
        let event = parse_object(line).map(QueueEvent);
        let about = event.as_ref().map(|event| MailOfEvent::read(event, files)).unwrap_or_default();
        match is_json {
            true => writeln!(screen, "{}", printable::json(&about.add_to(line)))?,
            false => print(&event?, &about, screen)?,
        }
        // The output is read live.
        screen.flush()?;
        if !has_note {
            has_note = files.print_note();
        }
    }
    Ok(())
}

/// What is in the spool about the subject of an event.
#[derive(Default)]
struct MailOfEvent {
    envelope: Option<Rc<Envelope>>,
    /// The recipient that it is about.
    recipient: Option<String>,
}

impl MailOfEvent {
    fn read(event: &QueueEvent, files: &mut MessageFiles<'_>) -> MailOfEvent {
        let offset = event.number("offset").and_then(|offset| offset.try_into().ok());
        let is_shown = offset.is_some() || event.name() == "arrived";
        let id = event.0["id"].as_str().filter(|_| is_shown);
        let envelope = id.and_then(|id| files.envelope(id, None));
        let recipient =
            envelope.as_ref().and_then(|envelope| envelope.recipient_at(offset?)).map(String::from);
        MailOfEvent { envelope, recipient }
    }

    /// Describes it: the recipient, or of an arrived message all.
    fn words(&self, event: &QueueEvent) -> Option<String> {
        let envelope = self.envelope.as_ref()?;
        Some(match &self.recipient {
            Some(recipient) => format!("to {recipient}"),
            None => {
                let known = envelope.recipients.len() as u64;
                messages::in_words(envelope, event.number("recipients").unwrap_or(known))
            }
        })
    }

    fn add_to(&self, line: &[u8]) -> Vec<u8> {
        let added = self.envelope.as_ref().and_then(|envelope| {
            let all = || envelope.recipients.iter().map(|to| to.recipient.as_str()).collect();
            let to = self.recipient.as_deref().map_or_else(all, |one| vec![one]);
            add_fields(line, envelope, to)
        });
        added.unwrap_or_else(|| line.to_vec())
    }
}

/// An event: the object of a line. Events of later schedulers may have other fields.
struct QueueEvent(Value);

impl QueueEvent {
    fn name(&self) -> &str {
        self.0["event"].as_str().unwrap_or_default()
    }

    fn text(&self, field: &str) -> Option<String> {
        self.0[field].as_str().map(one_line)
    }

    fn number(&self, field: &str) -> Option<u64> {
        self.0[field].as_u64()
    }

    /// Status of an attempt, or final state of a recipient.
    fn status(&self) -> Option<String> {
        self.text("status").or_else(|| self.text("state"))
    }
}

fn print(event: &QueueEvent, about: &MailOfEvent, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let time = event.0["time"].as_f64().map_or(" ".repeat(8), |time| clock(time, time));
    screen.styled(&time, Style::Dim)?;
    let name = one_line(event.name());
    let line = format!("  {name:<13}  {}", words(event, about));
    let is_good = |status: &str| status.starts_with("ok") || status == "delivered";
    let is_bad =
        |status: &str| ["error", "failed", "expired"].iter().any(|bad| status.starts_with(bad));
    let style = match (name.as_str(), event.status().as_deref()) {
        ("dropped", _) => Style::Warning,
        (_, Some(status)) if is_good(status) => Style::Good,
        (_, Some(status)) if is_bad(status) => Style::Error,
        _ => Style::Plain,
    };
    let shown = match screen.columns() {
        Some(columns) => cut(&line, columns.saturating_sub(time.len())),
        None => line,
    };
    screen.styled(shown.trim_end(), style)?;
    Ok(screen.line(&[])?)
}

/// Describes an event in one line.
fn words(event: &QueueEvent, about: &MailOfEvent) -> String {
    let mut parts: Vec<String> = event.text("id").into_iter().collect();
    let destination = event.text("channel").zip(event.text("host"));
    parts.extend(destination.map(|(channel, host)| format!("{channel}/{host}")));
    match about.words(event) {
        Some(words) => parts.push(one_line(&words)),
        None => parts.extend(event.number("recipients").map(|number| count(number, "recipient"))),
    }
    parts.extend(event.number("pid").map(|pid| format!("process {pid}")));
    parts.extend(event.number("count").map(|number| count(number, "event")));
    parts.extend(event.text("order"));
    parts.extend(event.text("by").map(|by| format!("by {by}")));
    let text = event.0["text"].as_str().map(last_line).filter(|text| !text.is_empty());
    parts.extend(match (event.status(), text) {
        (Some(status), Some(text)) => Some(format!("{status}: {text}")),
        (status, text) => status.or(text),
    });
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_names_destination_host_or_message() {
        for (what, line) in [
            (None, "SUBSCRIBE"),
            (Some("smtp/MX.test"), "SUBSCRIBE smtp/mx.test"),
            (Some("mx.test"), "SUBSCRIBE */mx.test"),
            (Some("4711"), "SUBSCRIBE id=4711"),
        ] {
            assert_eq!(request(what).expect("a request").line, line);
        }
        for what in ["bob@mx.test", "<1@mx.test>"] {
            assert_eq!(request(Some(what)).expect_err(what).status(), 64, "{what}");
        }
    }

    #[test]
    fn print_writes_one_line_per_event() {
        for (event, expected) in [
            (
                r#"{"time":1.0,"event":"attempt","id":"S1","channel":"smtp","host":"a\u001b","pid":7,"status":"deferred","text":"x\r451 b"}"#,
                "attempt        S1  smtp/a^[  process 7  deferred: 451 b",
            ),
            (r#"{"event":"dropped","count":17}"#, "dropped        17 events"),
            (r#"{"event":"arrived","id":"S2","recipients":1}"#, "arrived        S2  1 recipient"),
            (r#"{"event":"reloaded","new":{}}"#, "reloaded"),
            (r#"{"event":"order","by":"root","order":"RELOAD"}"#, "order          RELOAD  by root"),
        ] {
            let mut out = Vec::new();
            let event = QueueEvent(parse_object(event.as_bytes()).expect(event));
            let about = MailOfEvent::default();
            print(&event, &about, &mut Screen::new(&mut out)).expect("printed");
            let out = String::from_utf8(out).expect("text");
            assert_eq!(out[10..].trim_end(), expected);
        }
    }
}
