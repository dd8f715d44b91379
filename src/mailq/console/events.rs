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
use serde::Deserialize;
use serde_json::Value;
use std::rc::Rc;
use zsched_format::printable;
use zsched_mailq_protocol::schema::QueueEvent;

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
        let event = EventLine::parse(line);
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
    fn read(line: &EventLine, files: &mut MessageFiles<'_>) -> MailOfEvent {
        let (id, offset) = match &line.event {
            QueueEvent::Arrived { id, .. } => (id, None),
            QueueEvent::Attempt { id, offset, .. } | QueueEvent::Finished { id, offset, .. } => {
                (id, Some(*offset))
            }
            _ => return MailOfEvent::default(),
        };
        let envelope = files.envelope(id, None);
        let recipient =
            envelope.as_ref().and_then(|envelope| envelope.recipient_at(offset?)).map(String::from);
        MailOfEvent { envelope, recipient }
    }

    /// Describes it: the recipient, or of an arrived message all.
    fn words(&self, recipients: Option<u64>) -> Option<String> {
        match (&self.recipient, &self.envelope) {
            (Some(recipient), _) => Some(format!("to {recipient}")),
            (None, Some(envelope)) => {
                let known = envelope.recipients.len() as u64;
                Some(messages::in_words(envelope, recipients.unwrap_or(known)))
            }
            (None, None) => recipients.map(|number| count(number, "recipient")),
        }
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

/// A line of the feed.
struct EventLine {
    name: String,
    time: Option<f64>,
    /// `Unknown` if a later scheduler sends it. Only its name is shown.
    event: QueueEvent<'static>,
}

impl EventLine {
    fn parse(line: &[u8]) -> Result<EventLine, Failure> {
        let value: Value = parse_object(line)?;
        Ok(EventLine {
            name: value["event"].as_str().map(one_line).unwrap_or_default(),
            time: value["time"].as_f64(),
            event: QueueEvent::deserialize(value).unwrap_or(QueueEvent::Unknown),
        })
    }

    fn style(&self) -> Style {
        let status = match &self.event {
            QueueEvent::Dropped { .. } => return Style::Warning,
            QueueEvent::Attempt { status, .. } => status,
            QueueEvent::Finished { state, .. } => state,
            _ => return Style::Plain,
        };
        match &**status {
            "delivered" => Style::Good,
            "failed" | "expired" => Style::Error,
            _ => Style::Plain,
        }
    }
}

fn print(line: &EventLine, about: &MailOfEvent, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let time = line.time.map_or(" ".repeat(8), |time| clock(time, time));
    screen.styled(&time, Style::Dim)?;
    let words = words(&line.event, about).into_iter().flatten();
    let words: Vec<String> = words.map(|part| one_line(&part)).collect();
    let shown = format!("  {:<13}  {}", line.name, words.join("  "));
    let shown = match screen.columns() {
        Some(columns) => cut(&shown, columns.saturating_sub(time.len())),
        None => shown,
    };
    screen.styled(shown.trim_end(), line.style())?;
    Ok(screen.line(&[])?)
}

/// The parts of the line about an event, after its name.
fn words(event: &QueueEvent<'_>, about: &MailOfEvent) -> Vec<Option<String>> {
    let to = |channel: &str, host: &str| Some(format!("{channel}/{host}"));
    let process = |pid: &u32| format!("process {pid}");
    match event {
        QueueEvent::Arrived { id, recipients, .. } => {
            vec![Some(id.clone()), about.words(Some(*recipients))]
        }
        QueueEvent::Attempt { id, channel, host, pid, recipients, status, text, .. } => {
            let text = Some(last_line(text)).filter(|text| !text.is_empty());
            let result = text.map_or(status.to_string(), |text| format!("{status}: {text}"));
            let about = about.words(*recipients);
            vec![
                Some(id.clone()),
                to(channel, host),
                about,
                pid.as_ref().map(process),
                Some(result),
            ]
        }
        QueueEvent::Finished { id, channel, host, recipients, state, .. } => {
            let about = about.words(*recipients);
            vec![Some(id.clone()), to(channel, host), about, Some(state.to_string())]
        }
        QueueEvent::Left { id, .. } => vec![Some(id.clone())],
        QueueEvent::AgentStarted { pid, channel, host, ring, .. } => {
            let of = host.as_ref().map_or(Some(ring.clone()), |host| to(channel, host));
            vec![of, Some(process(pid))]
        }
        QueueEvent::AgentEnded { pid, channel, host, ring, how, .. } => {
            let of = host.as_ref().map_or(Some(ring.clone()), |host| to(channel, host));
            vec![of, pid.as_ref().map(process), Some(how.clone())]
        }
        QueueEvent::Order { by, order, .. } => {
            vec![Some(order.to_string()), Some(format!("by {by}"))]
        }
        QueueEvent::Dropped { count: number } => vec![Some(count(*number, "event"))],
        QueueEvent::Reloaded { .. } | QueueEvent::Unknown => Vec::new(),
    }
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
                r#"{"time":1.0,"event":"attempt","id":"S1","channel":"smtp","host":"a\u001b","pid":7,"offset":9,"status":"deferred","report":null,"text":"x\r451 b"}"#,
                "attempt        S1  smtp/a^[  process 7  deferred: 451 b",
            ),
            (r#"{"event":"dropped","count":17}"#, "dropped        17 events"),
            (
                r#"{"event":"arrived","time":1.0,"id":"S2","recipients":1}"#,
                "arrived        S2  1 recipient",
            ),
            (
                r#"{"event":"agent-ended","time":1.0,"pid":null,"channel":"smtp","host":null,"ring":"smtp/*","how":"could not be started"}"#,
                "agent-ended    smtp/*  could not be started",
            ),
            (r#"{"event":"reloaded","time":1.0,"new":{}}"#, "reloaded"),
            (r#"{"event":"of-later","time":1.0,"id":7}"#, "of-later"),
            (
                r#"{"event":"order","time":1.0,"by":"root","order":"RELOAD"}"#,
                "order          RELOAD  by root",
            ),
        ] {
            let mut out = Vec::new();
            let event = EventLine::parse(event.as_bytes()).expect(event);
            let about = MailOfEvent::default();
            print(&event, &about, &mut Screen::new(&mut out)).expect("printed");
            let out = String::from_utf8(out).expect("text");
            assert_eq!(out[10..].trim_end(), expected);
        }
    }
}
