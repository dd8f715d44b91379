//! The dialogue with the scheduler: a snapshot every now and then, orders in between.

use crate::connection::Connection;
use crate::console::arguments::subject;
use crate::console::classic;
use crate::console::overview::{self, Overview};
use crate::console::source;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::lines::LineSource;
use crate::options::Reach;
use crate::session::{Request, Session};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How many destinations are asked for in each order.
const LIMIT: usize = 200;

/// What is to be done for a destination, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Put it on hold.
    Hold(String),
    /// Release it.
    Release(String),
    /// Try it now.
    Retry(String),
    /// Say why it waits.
    Why(String),
    /// Look at once.
    Look,
}

/// What the worker has to tell.
#[derive(Clone, Debug)]
pub enum Report {
    /// What there is now.
    Snapshot(Box<Overview>),
    /// What became of an order.
    Done(String),
    /// Why something waits.
    Reason(Vec<String>),
    /// What went wrong.
    Trouble(String),
}

/// Works until nobody listens any more.
pub fn run(
    session: Session<Connection>,
    reach: &Reach,
    installation: &Installation,
    interval: Duration,
    orders: &Receiver<Order>,
    reports: &Sender<Report>,
) {
    let mut session = Some(session);
    let mut next = Instant::now();
    loop {
        let order = match orders.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(order) => order,
            Err(RecvTimeoutError::Timeout) => Order::Look,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let result = connected(&mut session, reach, installation)
            .and_then(|session| carry_out(session, &order));
        let report = match result {
            Ok(report) => report,
            Err(failure) => {
                // What is refused leaves the dialogue as it was.
                if !matches!(failure, Failure::Denied(_) | Failure::Usage(_)) {
                    session = None;
                }
                Report::Trouble(failure.to_string())
            }
        };
        let is_look = order == Order::Look;
        if reports.send(report).is_err() {
            return;
        }
        // What has been done should be seen.
        next = if is_look { Instant::now() + interval } else { Instant::now() };
    }
}

/// The dialogue; a new one, if the last has ended.
fn connected<'s>(
    session: &'s mut Option<Session<Connection>>,
    reach: &Reach,
    installation: &Installation,
) -> Result<&'s mut Session<Connection>, Failure> {
    Ok(match session {
        Some(session) => session,
        None => session.insert(source::session(reach, installation)?),
    })
}

fn carry_out(session: &mut Session<Connection>, order: &Order) -> Result<Report, Failure> {
    let (request, needs, done, name) = match order {
        Order::Look => {
            return Ok(Report::Snapshot(Box::new(match overview::of_session(session, LIMIT) {
                Err(Failure::Denied(_)) => classic::of_session(session)?,
                other => other?,
            })));
        }
        Order::Why(name) => {
            let request = Request::new(format!("SHOW WHY {}", subject(name)), "TT");
            let mut text = session.ask_for_text(request)?;
            let mut sentences = Vec::new();
            while let Some(line) = text.next()? {
                sentences.push(String::from_utf8_lossy(line).into_owned());
            }
            return Ok(Report::Reason(sentences));
        }
        Order::Hold(name) => ("HOLD", "HOLD", "is on hold", name),
        Order::Release(name) => ("RELEASE", "HOLD", "is released", name),
        Order::Retry(name) => ("RETRY", "RETRY", "is tried now", name),
    };
    session.ask_for_line(Request::new(format!("{request} {}", subject(name)), needs))?;
    Ok(Report::Done(format!("{name} {done}")))
}
